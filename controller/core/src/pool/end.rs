//! The end of a Pool that is proven gone: claims that waited for it are told, its warm Pods end, those in use live on.

use super::plan::{action, drop_anchors};
use super::{Action, Observed, Plan, SeenClaim, Standing};
use crate::claim::PoolSituation;
use crate::grant::{EndStep, World, count, end};
use crate::ids::{ClaimKey, PodKey};

pub(super) fn plan(seen: &Observed, world: &World<PodKey, ClaimKey>) -> Plan {
    let uid = seen.pool.metadata.uid.as_deref().unwrap_or_default();
    let told =
        |key: &ClaimKey| seen.claims.get(key).is_some_and(|seen| seen.claim.status.pool_gone.as_deref() == Some(uid));
    // A claim made after the list was never promised a Pod of this Pool: no late delivery is to be fenced off.
    let came_later = |key: &ClaimKey| seen.listed_claims.as_ref().is_some_and(|listed| !listed.contains(&key.uid));
    let steps = end(world, seen.listed_claims.is_some(), |key| came_later(key) || told(key));
    let mut plan = Plan { standing: Some(Standing::new(seen, count(world))), ..Plan::default() };
    for step in steps {
        match step {
            EndStep::ListClaims => plan.actions.push(Action::ListClaims),
            EndStep::Fence(claim) => plan.actions.extend(tell(seen, &claim, uid)),
            EndStep::Pod(step) => plan.actions.extend(action(seen, world, step)),
        }
    }
    if plan.actions.is_empty() && seen.listed_claims.is_some() {
        drop_anchors(seen, "", &mut plan);
        plan.finished =
            plan.actions.is_empty() && !world.pods.values().any(|pod| pod.life != crate::grant::PodLife::Gone);
    }
    plan
}

fn tell(seen: &Observed, claim: &ClaimKey, uid: &str) -> Option<Action> {
    let SeenClaim { claim, .. } = seen.claims.get(claim)?;
    let slots = claim.status.slots.clone();
    // The uid alone fences; what the claim waits for now (no Pool, or a new one of that name) its own plan says.
    let mut report = super::plan::claims::report(seen, claim, slots, PoolSituation::Serving);
    report.pool_gone = Some(uid.to_owned());
    Some(Action::WriteClaim { claim: claim.clone(), report: Box::new(report) })
}
