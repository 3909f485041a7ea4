//! What to do about one Pool.

use super::roster::{Rest, at_rest};
use super::{Action, Observed, Plan, Standing, end, pod, roll, scale, start, status, world};
use crate::claim::SeenPod;
use crate::grant::{self, Commit, Counts, Holder, PoolLife, Recycle, Step, World};
use crate::ids::{ClaimKey, PodKey};
use crate::pool::{EndReason, PatchReason};
use crate::revision::revision;

pub(super) mod claims;

/// Serves claims, keeps the Pool's size and revision, ends what has to end. Nothing while the ledger is another's, except
/// taking it over.
#[must_use]
pub fn plan(seen: &Observed) -> Plan {
    let revision = revision(seen.pool.spec.template.as_ref().unwrap_or(&serde_json::Value::Null));
    let world = world::world(seen, &revision);
    if seen.life == PoolLife::Gone {
        return end::plan(seen, &world);
    }
    let mut plan = Plan::default();
    if world.holder == Holder::Foreign {
        if !seen.committing {
            plan.actions.push(Action::TakeOver);
        }
        return plan;
    }
    let counts = with_rest(grant::count(&world), &seen.rest);
    let standing = Standing::new(seen, counts);
    if let Some(until) = standing.just_full_until() {
        plan.look_again(until);
    }
    plan.standing = Some(standing);
    let wanted = size(seen, &world, &counts, &revision, &mut plan);
    let committed = commit(seen, &world, &counts, &revision, &wanted.retire, &mut plan);
    steps(seen, &world, committed, &mut plan);
    plan.at_rest = at_rest(seen, &world, &revision);
    if world.holder == Holder::Mine && seen.life == PoolLife::Live {
        create(seen, &wanted.create, &revision, &mut plan);
        drop_anchors(seen, &revision, &mut plan);
    }
    plan
}

/// Those that are not looked at are in use, or idle and ready.
fn with_rest(counts: Counts, rest: &Rest) -> Counts {
    Counts {
        held: counts.held + rest.held,
        idle: counts.idle + rest.idle,
        grantable: counts.grantable + rest.idle,
        waiting: counts.waiting,
        present: counts.present + rest.held + rest.idle,
    }
}

/// How many Pods, of which revision.
fn size(
    seen: &Observed,
    world: &World<PodKey, ClaimKey>,
    counts: &Counts,
    revision: &str,
    plan: &mut Plan,
) -> scale::Scale {
    if seen.life != PoolLife::Live || status::template(seen).is_err() {
        return scale::Scale::default();
    }
    let starts = start::starts(seen, world);
    let mut wanted = scale::scale(seen, world, counts, &starts);
    wanted.retire.extend(roll::roll(seen, world, revision));
    wanted.retire.extend(scale::never_granted(seen, world));
    if let Some(at) = starts.again {
        plan.look_again(at);
    }
    match start::held_back_until(seen) {
        // Giving Pods up makes room for new ones, so it keeps their pace.
        None => wanted.retire.extend(starts.hopeless),
        Some(_) if wanted.create.is_empty() && starts.hopeless.is_empty() => {}
        Some(until) => {
            wanted.create.clear();
            plan.look_again(until);
        }
    }
    wanted.retire.sort();
    wanted.retire.dedup();
    wanted
}

/// Writes the ledger and the status in one, if somebody waits for it or enough time has passed. True if it does.
fn commit(
    seen: &Observed,
    world: &World<PodKey, ClaimKey>,
    counts: &Counts,
    revision: &str,
    retire: &[PodKey],
    plan: &mut Plan,
) -> bool {
    if seen.committing {
        return false;
    }
    let next: Commit<PodKey, ClaimKey> = grant::commit(world, retire);
    let status = status::status(seen, &after(counts, &next), revision, &next.ledger);
    if seen.pool.status.as_ref() == Some(&status) {
        return false;
    }
    let urgent = next.is_urgent() || world.holder == Holder::Unset;
    if let Some(at) = status::settle_at(seen).filter(|at| !urgent && *at > seen.now) {
        plan.look_again(at);
        return false;
    }
    let resource_version = seen.pool.metadata.resource_version.clone().unwrap_or_default();
    plan.actions.push(Action::Commit { resource_version, status: Box::new(status) });
    true
}

/// The counts once the ledger is written.
fn after(counts: &Counts, next: &Commit<PodKey, ClaimKey>) -> Counts {
    let [granted, retired] = [next.granted, next.retired].map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    Counts {
        held: counts.held + granted,
        idle: counts.idle.saturating_sub(granted + retired),
        grantable: counts.grantable.saturating_sub(granted + retired),
        waiting: counts.waiting.saturating_sub(granted),
        present: counts.present,
    }
}

fn steps(seen: &Observed, world: &World<PodKey, ClaimKey>, committed: bool, plan: &mut Plan) {
    let steps = grant::steps(world);
    claims::write(seen, &steps, plan);
    plan.actions.extend(
        steps
            .into_iter()
            .filter(|step| !(committed && *step == Step::ProvePool))
            .filter_map(|step| action(seen, world, step)),
    );
}

/// The action of a step that is not about a claim's status.
pub(super) fn action(seen: &Observed, world: &World<PodKey, ClaimKey>, step: Step<PodKey, ClaimKey>) -> Option<Action> {
    match step {
        Step::Deliver { .. } | Step::RecordUndelivered { .. } => None,
        Step::Adopt { pod, claim, index } => {
            let patch = adoption(seen, world, &pod, &claim, index)?;
            Some(Action::PatchPod { pod, reason: PatchReason::Adopt, patch })
        }
        Step::Readopt { pod, claim, index } => {
            let patch = adoption(seen, world, &pod, &claim, index)?;
            Some(Action::Readopt { pod, claim: full_key(seen, &claim), patch })
        }
        Step::EndRetired(pod) => Some(delete(pod, None, EndReason::Retired)),
        Step::EndTerminal(pod) => Some(delete(pod, None, EndReason::Terminal)),
        Step::EndCommitted(pod) => versioned_delete(seen, pod, EndReason::Committed),
        Step::EndUnclaimed(pod) => versioned_delete(seen, pod, EndReason::Unclaimed),
        Step::EndReleased { pod, claim } => {
            let resource_version = Some(version(seen, &pod)?);
            let unless_named_by = Some(full_key(seen, &claim));
            Some(Action::DeletePod { pod, resource_version, unless_named_by, reason: EndReason::Released })
        }
        Step::HandBack(pod) => match world.recycle {
            Recycle::Noop => {
                let patch = pod::hand_back(&pod, &version(seen, &pod)?);
                Some(Action::PatchPod { pod, reason: PatchReason::HandBack, patch })
            }
            // A Pod whose containers are not proven new does not come back.
            Recycle::Restart | Recycle::Delete => versioned_delete(seen, pod, EndReason::Unclaimed),
        },
        Step::ProvePod(pod) => Some(Action::ProvePod(pod)),
        Step::ProveClaim(claim) => Some(Action::ProveClaim(full_key(seen, &claim))),
        Step::ProvePool => Some(Action::ProvePool),
    }
}

fn version(seen: &Observed, pod: &PodKey) -> Option<String> {
    seen.pods.get(pod)?.pod.metadata.resource_version.clone()
}

fn adoption(
    seen: &Observed,
    world: &World<PodKey, ClaimKey>,
    pod: &PodKey,
    claim: &ClaimKey,
    index: u32,
) -> Option<serde_json::Value> {
    let claim = &seen.claims.get(claim)?.claim;
    let owned = world.recycle == Recycle::Delete;
    Some(pod::adoption(pod, &version(seen, pod)?, claim, index, owned))
}

/// A claim in the store is addressed by what the store has; marks may know only its uid.
fn full_key(seen: &Observed, claim: &ClaimKey) -> ClaimKey {
    seen.claims.get(claim).map_or_else(|| claim.clone(), |seen| seen.claim.key.clone())
}

fn delete(pod: PodKey, resource_version: Option<String>, reason: EndReason) -> Action {
    Action::DeletePod { pod, resource_version, unless_named_by: None, reason }
}

fn versioned_delete(seen: &Observed, pod: PodKey, reason: EndReason) -> Option<Action> {
    let version = version(seen, &pod)?;
    Some(delete(pod, Some(version), reason))
}

/// Creates Pods in free slots; first the anchor that owns them.
fn create(seen: &Observed, slots: &[u32], revision: &str, plan: &mut Plan) {
    let Ok(template) = status::template(seen) else { return };
    if slots.is_empty() {
        return;
    }
    match seen.anchors.iter().find(|anchor| anchor.revision == revision) {
        Some(anchor) => plan.actions.extend(slots.iter().map(|slot| Action::CreatePod {
            slot: *slot,
            name: pod::pod_name(&seen.pool, *slot),
            body: pod::body(&seen.pool, template, *slot, anchor),
        })),
        None if seen.anchoring => {}
        None => plan.actions.push(Action::CreateAnchor {
            name: pod::anchor_name(&seen.pool, revision),
            revision: revision.to_owned(),
            body: pod::anchor(&seen.pool, template, revision),
        }),
    }
}

/// Anchors of old revisions that no Pod names.
pub(super) fn drop_anchors(seen: &Observed, keep: &str, plan: &mut Plan) {
    // A Pod that is being created may name one of them.
    if seen.anchoring || !seen.creating.is_empty() {
        return;
    }
    let unused = seen.anchors.iter().filter(|anchor| anchor.revision != keep && !is_named(seen, &anchor.uid));
    plan.actions.extend(unused.map(|anchor| Action::DeleteAnchor(anchor.clone())));
}

fn is_named(seen: &Observed, anchor: &str) -> bool {
    let owned =
        |SeenPod { pod, .. }: &SeenPod| pod.metadata.owner_references.iter().flatten().any(|owner| owner.uid == anchor);
    seen.pods.iter().any(|(key, pod)| !seen.gone_pods.contains(&key.uid) && owned(pod))
}
