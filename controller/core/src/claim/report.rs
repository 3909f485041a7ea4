//! The status of a claim, before either kind spells it.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use sandbox_api::ledger::ClaimKind;
use sandbox_api::{Condition, ConditionStatus, ConditionType, Reason, SandboxSlot};

use super::{Claim, Observed, PoolSituation, SeenPod, Source, TaskCounts, conditions};
use crate::failure::{Failure, delay, failure};
use crate::ids::PodKey;

/// Where a claim stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// No Pod is ready yet.
    #[default]
    Pending,
    /// At least one Pod is ready. BatchSandbox spells it `Succeed`.
    Running,
    /// Its files are being saved.
    Pausing,
    /// It has no Pod, its files are saved.
    Paused,
    /// Its Pod is being started from what was saved.
    Resuming,
    /// A Pod fails or was lost.
    Failed,
}

impl Phase {
    /// In or on the way into a pause: it asks for no Pods.
    #[must_use]
    pub fn is_paused(self) -> bool {
        match self {
            Self::Pausing | Self::Paused => true,
            Self::Pending | Self::Running | Self::Resuming | Self::Failed => false,
        }
    }
}

/// Pods of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// There.
    pub total: u32,
    /// With a node or an address.
    pub allocated: u32,
    /// Ready.
    pub ready: u32,
}

/// A claim's status.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Where it stands.
    pub phase: Phase,
    /// By index, the Pod of each sandbox.
    pub slots: Vec<SandboxSlot>,
    /// The node of the first one.
    pub node: Option<String>,
    /// Its Pods.
    pub counts: Counts,
    /// Their tasks.
    pub tasks: TaskCounts,
    /// Why the last task that failed did.
    pub task_error: Option<String>,
    /// Typed conditions.
    pub conditions: Vec<Condition>,
    /// The uid of the Pool whose end left open indexes behind.
    pub pool_gone: Option<String>,
    /// The generation that this status is about.
    pub observed_generation: i64,
}

/// The status of a claim whose slots are `slots`. Pure: the same Pods give the same status, whoever asks, so the write that
/// delivers a Pod is also the last one.
#[must_use]
pub fn report(seen: &Observed, slots: Vec<SandboxSlot>, loss: Option<Failure>) -> Report {
    let claim = &*seen.claim;
    let pods = named_pods(seen, &slots);
    let counts = count(&slots, &pods);
    let failing = failure_of(claim, &slots, &pods, loss);
    let phase = match (claim.status.phase, &failing, counts.ready) {
        (kept @ (Phase::Pausing | Phase::Paused), _, _) => kept,
        (_, Some(_), _) => Phase::Failed,
        (_, None, 1..) => Phase::Running,
        (Phase::Resuming, None, 0) => Phase::Resuming,
        (_, None, 0) => Phase::Pending,
    };
    let waits = waiting_for(seen, &pods, &slots);
    let shown = shown_conditions(claim, phase, failing.as_ref(), waits.as_ref());
    Report {
        phase,
        node: node(claim, &slots, &pods),
        counts,
        tasks: super::task::count(seen, &slots),
        task_error: super::task::error(seen, &slots),
        conditions: conditions(&claim.status.conditions, &shown, seen.now),
        // The Pool's end writes it, and by that fences off deliveries that are late: what was written while the Pool could still
        // promise Pods would fence off nothing.
        pool_gone: claim.status.pool_gone.clone(),
        observed_generation: claim.generation,
        slots,
    }
}

fn named_pods<'a>(seen: &'a Observed, slots: &[SandboxSlot]) -> BTreeMap<usize, &'a SeenPod> {
    let pod_at = |(index, slot): (usize, &SandboxSlot)| match slot {
        SandboxSlot::Named { name, uid, .. } => Some((index, seen.pods.get(&PodKey::new(uid, name))?)),
        SandboxSlot::Open | SandboxSlot::Lost { .. } | SandboxSlot::Undelivered { .. } => None,
    };
    slots.iter().enumerate().filter_map(pod_at).collect()
}

/// Only a Sandbox has room for it in its status.
fn node(claim: &Claim, slots: &[SandboxSlot], pods: &BTreeMap<usize, &SeenPod>) -> Option<String> {
    match claim.key.kind {
        ClaimKind::BatchSandbox => None,
        ClaimKind::Sandbox => match pods.values().next() {
            Some(seen) => seen.pod.spec.node_name.clone(),
            None => claim.status.node.clone().filter(|_| slots.iter().any(|slot| slot.named_uid().is_some())),
        },
    }
}

/// A named Pod that is not seen counts as it was written: not seeing it says nothing about it.
fn count(slots: &[SandboxSlot], pods: &BTreeMap<usize, &SeenPod>) -> Counts {
    slots.iter().enumerate().fold(Counts::default(), |counts, (index, slot)| {
        let (placed, ready) = match (slot, pods.get(&index)) {
            (SandboxSlot::Open | SandboxSlot::Lost { .. } | SandboxSlot::Undelivered { .. }, _) => return counts,
            (SandboxSlot::Named { .. }, Some(SeenPod { pod, .. })) => {
                (pod.spec.node_name.is_some() || pod.ip().is_some(), pod.is_ready())
            }
            (SandboxSlot::Named { ip, ready, .. }, None) => (ip.is_some(), *ready),
        };
        Counts {
            total: counts.total + 1,
            allocated: counts.allocated + u32::from(placed),
            ready: counts.ready + u32::from(ready),
        }
    })
}

fn failure_of(
    claim: &Claim,
    slots: &[SandboxSlot],
    pods: &BTreeMap<usize, &SeenPod>,
    loss: Option<Failure>,
) -> Option<Failure> {
    let lost = claim.recovery != sandbox_api::Recovery::Replace
        && slots.iter().any(|slot| matches!(slot, SandboxSlot::Lost { .. }));
    if lost {
        return loss
            .or_else(|| earlier_loss(claim))
            .or_else(|| Some(Failure::new(Reason::PodDeleted, "a pod of this sandbox was lost; its state is gone")));
    }
    pods.values().find_map(|seen| failure(&seen.pod))
}

/// A loss is recorded by uid; its reason lives on in the condition that was written with it.
fn earlier_loss(claim: &Claim) -> Option<Failure> {
    let condition = claim.status.conditions.iter().find(|condition| condition.type_ == ConditionType::PodFailed)?;
    Some(Failure::new(condition.reason.clone()?, condition.message.clone().unwrap_or_default()))
}

fn has_open(claim: &Claim, slots: &[SandboxSlot]) -> bool {
    let named = slots.iter().filter(|slot| matches!(slot, SandboxSlot::Named { .. })).count();
    claim.asks() && named < claim.replicas as usize
}

/// What a claim without a ready Pod waits for.
fn waiting_for(seen: &Observed, pods: &BTreeMap<usize, &SeenPod>, slots: &[SandboxSlot]) -> Option<Failure> {
    let claim = &*seen.claim;
    if !has_open(claim, slots) {
        return pods.values().find_map(|seen| delay(&seen.pod));
    }
    match (&claim.source, &seen.pool) {
        (Source::Pool(pool), Some(situation)) => pool_wait(claim, pool, situation),
        (Source::AnyPool(wish), _) => super::assign::obstacle(seen, wish),
        (Source::Snapshot(name), _) => Some(Failure::new(
            Reason::SnapshotMissing,
            format!("snapshot {name} cannot be restored by this version of the operator"),
        )),
        (Source::Nothing, _) => Some(Failure::new(
            Reason::InvalidTemplate,
            "neither spec.poolRef nor spec.template is set: set one of them",
        )),
        (Source::Template(_) | Source::Pool(_), _) => seen.create_failure.clone(),
    }
}

fn pool_wait(claim: &Claim, pool: &str, situation: &PoolSituation) -> Option<Failure> {
    let namespace = &claim.namespace;
    match situation {
        PoolSituation::Missing => Some(Failure::new(
            Reason::PoolNotFound,
            format!("pool {pool} does not exist in namespace {namespace}: create it, and this claim is served"),
        )),
        PoolSituation::Ending(uid) => Some(Failure::new(
            Reason::PoolGone,
            format!("pool {pool} (uid {uid}) was deleted: create it again, and this claim is served"),
        )),
        PoolSituation::TooSmall(max) => Some(Failure::new(
            Reason::PoolCapacityExhausted,
            format!(
                "spec.replicas is {} but pool {pool} never has more than poolMax {max} pods: raise poolMax or lower replicas",
                claim.replicas
            ),
        )),
        PoolSituation::JustFull(_) if !was_told_full(claim) => None,
        PoolSituation::Full(max) | PoolSituation::JustFull(max) => Some(Failure::new(
            Reason::PoolCapacityExhausted,
            format!("pool {pool} has reached poolMax {max} and no pod is free: waiting for one to be given back"),
        )),
        PoolSituation::Failing(failure) => Some(failure.clone()),
        PoolSituation::Serving => None,
    }
}

fn was_told_full(claim: &Claim) -> bool {
    claim.status.conditions.iter().any(|condition| condition.type_ == ConditionType::PoolAllocationPending)
}

fn shown_conditions(claim: &Claim, phase: Phase, failing: Option<&Failure>, waits: Option<&Failure>) -> Vec<Condition> {
    let mut shown = Vec::with_capacity(3);
    let ready = match (phase, failing, waits) {
        (Phase::Running, _, _) => {
            condition(ConditionType::Ready, ConditionStatus::True, Reason::PodsReady, "Sandbox is running")
        }
        (Phase::Pausing, _, _) => {
            condition(ConditionType::Ready, ConditionStatus::False, Reason::PauseInProgress, "Pausing sandbox")
        }
        (Phase::Paused, _, _) => {
            condition(ConditionType::Ready, ConditionStatus::False, Reason::Paused, "Sandbox is paused")
        }
        (Phase::Resuming, _, _) => {
            condition(ConditionType::Ready, ConditionStatus::False, Reason::ResumeInProgress, "Resuming sandbox")
        }
        (Phase::Failed | Phase::Pending, Some(why), _) | (Phase::Pending | Phase::Failed, None, Some(why)) => {
            condition(ConditionType::Ready, ConditionStatus::False, why.reason.clone(), &why.message)
        }
        (Phase::Pending | Phase::Failed, None, None) => {
            condition(ConditionType::Ready, ConditionStatus::False, Reason::Creating, "Sandbox is being created")
        }
    };
    shown.push(ready);
    if phase == Phase::Pending {
        shown.push(condition(
            ConditionType::Progressing,
            ConditionStatus::True,
            Reason::Creating,
            "Sandbox is being created",
        ));
    }
    if let Some(why) = failing {
        shown.push(condition(ConditionType::PodFailed, ConditionStatus::True, why.word(), &why.message));
    }
    if let Some(why) = waits.filter(|why| claim.pool().is_some() && why.reason == Reason::PoolCapacityExhausted) {
        shown.push(condition(
            ConditionType::PoolAllocationPending,
            ConditionStatus::True,
            why.reason.clone(),
            &why.message,
        ));
    }
    shown.extend(claim.status.conditions.iter().filter(|old| !is_ours(&old.type_)).cloned());
    shown
}

/// Condition types that this module decides; others (pause, resume) are kept as they are.
fn is_ours(type_: &ConditionType) -> bool {
    use ConditionType::{PodFailed, PoolAllocationPending, Progressing, Ready};
    matches!(type_, Ready | Progressing | PodFailed | PoolAllocationPending)
}

fn condition(type_: ConditionType, status: ConditionStatus, reason: Reason, message: &str) -> Condition {
    Condition { type_, status, reason: Some(reason), message: Some(message.to_owned()), last_transition_time: None }
}

impl Report {
    /// Whether somebody may be waiting for this to be written, against what was written before: a claim that merely comes up
    /// is not written at every step.
    #[must_use]
    pub fn is_news(&self, before: &Report) -> bool {
        let shown = |report: &Report| -> Vec<_> {
            report
                .conditions
                .iter()
                .map(|condition| (condition.type_.clone(), condition.status.clone(), condition.reason.clone()))
                .collect()
        };
        let comes_up = self.phase == Phase::Pending
            && self.conditions.iter().all(|condition| condition.reason == Some(Reason::Creating));
        !comes_up
            && (self.phase != before.phase
                || shown(self) != shown(before)
                || self.pool_gone != before.pool_gone
                || self.tasks != before.tasks)
            || addresses(&self.slots) != addresses(&before.slots) && self.phase == Phase::Running
    }
}

fn addresses(slots: &[SandboxSlot]) -> Vec<(&str, Option<&str>)> {
    slots
        .iter()
        .filter_map(|slot| match slot {
            SandboxSlot::Named { uid, ip, .. } => Some((uid.as_str(), ip.as_deref())),
            SandboxSlot::Open | SandboxSlot::Lost { .. } | SandboxSlot::Undelivered { .. } => None,
        })
        .collect()
}

/// How long a claim may come up before its steps are written: it is Running by then, or a person looks.
pub(super) const QUIET_START_S: i64 = 2;

/// When a claim's uneventful start is first written.
pub(super) fn quiet_until(claim: &Claim) -> Timestamp {
    claim.created.saturating_add(k8s_openapi::jiff::SignedDuration::from_secs(QUIET_START_S)).unwrap_or(claim.created)
}
