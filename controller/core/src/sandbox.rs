//! Sandbox as a [`Claim`], and a [`Report`] as its status.

use std::sync::Arc;

use sandbox_api::ledger::ClaimKind;
use sandbox_api::sandbox::{SandboxSource, SandboxTask, TaskState};
use sandbox_api::{
    ConditionStatus, ConditionType, ExpirePolicy, Recovery, Sandbox, SandboxPhase, SandboxSlot, SandboxStatus,
};

use crate::claim::assign::Wish;
use crate::claim::{Claim, Counts, Phase, Report, Source, TaskCounts, head};

/// Reads a Sandbox.
#[must_use]
pub fn read(object: &Sandbox) -> Claim {
    let spec = &object.spec;
    let source = match spec.source() {
        Some(SandboxSource::Pool(pool)) => Source::Pool(pool.to_owned()),
        Some(SandboxSource::AnyPool) => {
            Source::AnyPool(Wish { template: None, labels: object.metadata.labels.clone().unwrap_or_default() })
        }
        Some(SandboxSource::Template(template)) => Source::Template(Arc::new(template.clone())),
        Some(SandboxSource::Snapshot(name)) => Source::Snapshot(name.to_owned()),
        None => Source::Nothing,
    };
    Claim {
        source,
        replicas: 1,
        expires: spec.expire_time.as_ref().map(sandbox_api::Moment::at),
        deletes_on_expiry: spec.expire_policy != Some(ExpirePolicy::Pause),
        recovery: spec.recovery.clone().unwrap_or(Recovery::Fail),
        task: spec.task.clone(),
        status: object.status.as_ref().map(|status| read_status(status, spec.task.is_some())).unwrap_or_default(),
        unwritten: object.status.as_ref().is_none_or(|status| status.phase.is_none()),
        ..head(ClaimKind::Sandbox, &object.metadata)
    }
}

fn read_status(status: &SandboxStatus, has_task: bool) -> Report {
    let ready = status
        .conditions
        .iter()
        .any(|condition| condition.type_ == ConditionType::Ready && condition.status == ConditionStatus::True);
    let slots = read_slots(status, ready);
    let placed = slots.iter().any(|slot| !slot.is_open());
    Report {
        phase: match &status.phase {
            None | Some(SandboxPhase::Pending | SandboxPhase::Stopping | SandboxPhase::Other(_)) => Phase::Pending,
            Some(SandboxPhase::Running) => Phase::Running,
            Some(SandboxPhase::Pausing) => Phase::Pausing,
            Some(SandboxPhase::Paused) => Phase::Paused,
            Some(SandboxPhase::Resuming) => Phase::Resuming,
            Some(SandboxPhase::Failed) => Phase::Failed,
        },
        node: status.node_name.clone(),
        counts: Counts {
            total: u32::from(placed),
            allocated: u32::from(placed && (status.node_name.is_some() || status.pod_ip.is_some())),
            ready: u32::from(placed && ready),
        },
        tasks: if has_task { read_task(status.task.as_ref()) } else { TaskCounts::default() },
        task_error: status.task.as_ref().and_then(|task| task.message.clone()),
        conditions: status.conditions.clone(),
        pool_gone: status.pool_gone_uid.clone(),
        observed_generation: status.observed_generation,
        slots,
    }
}

fn read_slots(status: &SandboxStatus, ready: bool) -> Vec<SandboxSlot> {
    if let (Some(name), Some(uid)) = (&status.pod_name, &status.pod_uid) {
        return vec![SandboxSlot::Named { name: name.clone(), uid: uid.clone(), ip: status.pod_ip.clone(), ready }];
    }
    let lost = status.lost_pod_uid.clone().map(|uid| SandboxSlot::Lost { uid });
    let undelivered = || status.undelivered_pod_uid.clone().map(|uid| SandboxSlot::Undelivered { uid });
    lost.or_else(undelivered).into_iter().collect()
}

fn read_task(task: Option<&SandboxTask>) -> TaskCounts {
    let mut counts = TaskCounts::default();
    match task.map(|task| &task.state) {
        None | Some(TaskState::Pending) => counts.pending = 1,
        Some(TaskState::Unknown | TaskState::Other(_)) => counts.unknown = 1,
        Some(TaskState::Running) => counts.running = 1,
        Some(TaskState::Succeeded) => counts.succeeded = 1,
        Some(TaskState::Failed) => counts.failed = 1,
    }
    counts
}

fn task(report: &Report) -> Option<SandboxTask> {
    let TaskCounts { pending, unknown, running, succeeded, failed } = report.tasks;
    let states = [
        (pending, TaskState::Pending),
        (unknown, TaskState::Unknown),
        (running, TaskState::Running),
        (succeeded, TaskState::Succeeded),
        (failed, TaskState::Failed),
    ];
    let (_, state) = states.into_iter().find(|(count, _)| *count > 0)?;
    Some(SandboxTask { state, exit_code: None, message: report.task_error.clone() })
}

/// The status to write. What this operator does not decide is kept as it was.
#[must_use]
pub fn status(before: Option<&SandboxStatus>, claim: &Claim, report: &Report) -> SandboxStatus {
    let slot = report.slots.first().unwrap_or(&SandboxSlot::Open);
    let (pod_name, pod_uid, pod_ip) = match slot {
        SandboxSlot::Named { name, uid, ip, .. } => (Some(name.clone()), Some(uid.clone()), ip.clone()),
        SandboxSlot::Open | SandboxSlot::Lost { .. } | SandboxSlot::Undelivered { .. } => (None, None, None),
    };
    let (lost_pod_uid, undelivered_pod_uid) = match slot {
        SandboxSlot::Lost { uid } => (Some(uid.clone()), None),
        SandboxSlot::Undelivered { uid } => (None, Some(uid.clone())),
        SandboxSlot::Open | SandboxSlot::Named { .. } => (None, None),
    };
    SandboxStatus {
        observed_generation: report.observed_generation,
        phase: Some(match report.phase {
            Phase::Pending => SandboxPhase::Pending,
            Phase::Running => SandboxPhase::Running,
            Phase::Pausing => SandboxPhase::Pausing,
            Phase::Paused => SandboxPhase::Paused,
            Phase::Resuming => SandboxPhase::Resuming,
            Phase::Failed => SandboxPhase::Failed,
        }),
        source: Some(source(claim)),
        pod_name,
        pod_uid,
        pod_ip,
        lost_pod_uid,
        undelivered_pod_uid,
        node_name: report.node.clone(),
        task: task(report),
        conditions: report.conditions.clone(),
        pool_gone_uid: report.pool_gone.clone(),
        ..before.cloned().unwrap_or_default()
    }
}

/// Where it comes from, for `kubectl get`.
fn source(claim: &Claim) -> String {
    match &claim.source {
        Source::Pool(pool) => format!("pool/{pool}"),
        Source::AnyPool(_) => "pool/*".to_owned(),
        Source::Template(_) => "template".to_owned(),
        Source::Snapshot(name) => format!("snapshot/{name}"),
        Source::Nothing => String::new(),
    }
}
