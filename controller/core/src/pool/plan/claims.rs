//! Steps that end in a claim's status: one write per claim and plan, by the same pure report as always, so that no second
//! write follows a delivery.

use std::collections::{BTreeMap, BTreeSet};

use sandbox_api::SandboxSlot;

use crate::claim::{self, Claim, PoolSituation, Report};
use crate::grant::Step;
use crate::ids::{ClaimKey, PodKey};
use crate::pool::{Action, Observed, Plan, SeenClaim};

/// What one claim's status gets.
#[derive(Default)]
struct Change {
    deliver: Vec<(u32, PodKey)>,
    dead: Vec<(u32, PodKey)>,
}

/// Deliveries and deaths before delivery, a write per claim.
pub(super) fn write(seen: &Observed, steps: &[Step<PodKey, ClaimKey>], plan: &mut Plan) {
    let mut changes: BTreeMap<&ClaimKey, Change> = BTreeMap::new();
    for step in steps {
        match step {
            Step::Deliver { claim, pods } => changes.entry(claim).or_default().deliver.extend(pods.iter().cloned()),
            Step::RecordUndelivered { claim, index, pod } => {
                changes.entry(claim).or_default().dead.push((*index, pod.clone()))
            }
            Step::Adopt { .. }
            | Step::Readopt { .. }
            | Step::EndRetired(_)
            | Step::EndCommitted(_)
            | Step::EndReleased { .. }
            | Step::EndUnclaimed(_)
            | Step::EndTerminal(_)
            | Step::HandBack(_)
            | Step::ProvePod(_)
            | Step::ProveClaim(_)
            | Step::ProvePool => {}
        }
    }
    for (key, change) in changes {
        let Some(SeenClaim { claim, .. }) = seen.claims.get(key) else { continue };
        let slots = apply(seen, claim, &change);
        let report = report(seen, claim, slots, PoolSituation::Serving);
        plan.actions.push(Action::WriteClaim { claim: claim.clone(), report: Box::new(report) });
    }
}

fn apply(seen: &Observed, claim: &Claim, change: &Change) -> Vec<SandboxSlot> {
    let mut slots = claim.status.slots.clone();
    for (index, pod) in &change.dead {
        slots = claim::with_undelivered(slots, *index, pod);
    }
    for (index, pod) in &change.deliver {
        slots = claim::with_named(slots, *index, pod, seen.pods.get(pod).map(|seen| &*seen.pod));
    }
    slots
}

/// The claim's own report, seen from its Pool.
pub(in crate::pool) fn report(
    seen: &Observed,
    claim: &std::sync::Arc<Claim>,
    slots: Vec<SandboxSlot>,
    pool: PoolSituation,
) -> Report {
    let observed = claim::Observed {
        now: seen.now,
        claim: claim.clone(),
        busy: false,
        pods: slots.iter().filter_map(|slot| pod_of(seen, slot)).collect(),
        gone: BTreeSet::new(),
        pool: Some(pool),
        pools: Vec::new(),
        profile: std::sync::Arc::default(),
        creating: BTreeSet::new(),
        create_failure: None,
        tasks: BTreeMap::new(),
    };
    claim::report(&observed, slots, None)
}

fn pod_of(seen: &Observed, slot: &SandboxSlot) -> Option<(PodKey, claim::SeenPod)> {
    let key = PodKey::new(slot.named_uid()?, "");
    seen.pods.get_key_value(&key).map(|(key, pod)| (key.clone(), pod.clone()))
}
