//! Everything that decides about one claim, out of the stores.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use sandbox_api::Pool;
use sandbox_core::claim::{Claim, Observed, PoolSituation, SeenPod, Source};
use sandbox_core::ids::PodKey;

use crate::context::{ClaimAt, Context};
use crate::in_flight::Target;
use crate::store::kinds::{PodIndex, PodRecord};
use crate::store::{Held, Key};

/// What is known of a claim; none if it is not there.
pub(super) fn observe(context: &Context, at: &ClaimAt) -> Option<Observed> {
    let claim = context.claim_at(at)?.claim;
    let uid = claim.key.uid.to_string();
    let (creating, create_failure) = context.own_pods.of(&uid);
    let mut pods = BTreeMap::new();
    let mut gone = BTreeSet::new();
    for held in context.pods.indexed(&PodIndex::Claim(uid.clone())) {
        insert(context, &mut pods, &held);
    }
    for named in claim.status.slots.iter().filter_map(|slot| slot.named_uid()) {
        match context.pods.by_uid(named) {
            Some(held) => insert(context, &mut pods, &held),
            None if context.proofs.is_gone(named) => drop(gone.insert(Arc::from(named))),
            None => {}
        }
    }
    Some(Observed {
        now: Timestamp::now(),
        // While its writes rest, whatever else it needs goes on.
        busy: context.in_flight.is_written(&Target::Claim(uid.clone())),
        pods,
        gone,
        pool: situation(context, &claim),
        pools: any_pool(context, &claim),
        profile: Arc::default(),
        creating,
        create_failure,
        tasks: context.tasks.of(&uid),
        claim,
    })
}

fn insert(context: &Context, pods: &mut BTreeMap<PodKey, SeenPod>, held: &Held<PodRecord>) {
    let pod = Arc::clone(&held.object.0);
    let busy = context.in_flight.contains(&Target::Pod(pod.key().uid.to_string()));
    // Whether a Pool is ours plays no part in what a claim does by itself.
    pods.insert(pod.key(), SeenPod { pod, confirmed: true, busy });
}

/// The Pools that a claim on any may be assigned to.
fn any_pool(context: &Context, claim: &Claim) -> Vec<Arc<Pool>> {
    match &claim.source {
        Source::AnyPool(_) => {
            let pools = context.pools.all().into_iter().map(|held| held.object);
            pools.filter(|pool| pool.metadata.namespace.as_deref() == Some(&claim.namespace)).collect()
        }
        Source::Pool(_) | Source::Template(_) | Source::Snapshot(_) | Source::Nothing => Vec::new(),
    }
}

/// How the Pool stands that the claim asks by name. One that was not planned
/// yet serves until it says otherwise.
fn situation(context: &Context, claim: &Claim) -> Option<PoolSituation> {
    let key = Key::new(claim.namespace.clone(), claim.pool()?);
    let Some(pool) = context.pools.get(&key) else { return Some(PoolSituation::Missing) };
    let uid = pool.object.metadata.uid.clone().unwrap_or_default();
    let standing = context.memories.with(&uid, |memory| memory.standing.clone()).flatten();
    Some(standing.map_or(PoolSituation::Serving, |standing| standing.situation(claim)))
}
