//! The Pool as the grant protocol sees it.

use sandbox_api::{Recovery, RecycleType, SandboxSlot, labels};

use super::{Observed, SeenClaim, ledger};
use crate::claim::{Claim, SeenPod};
use crate::grant::{ClaimLife, ClaimView, Holder, PodLife, PodView, Recycle, Slot, World};
use crate::ids::{ClaimKey, PodKey};
use crate::pod::Pod;

/// Reads what was observed into a world.
pub(super) fn world(seen: &Observed, revision: &str) -> World<PodKey, ClaimKey> {
    let status = seen.pool.status.as_ref();
    let mut world = World {
        holder: holder(seen),
        pool: seen.life,
        ledger: status.map(|status| ledger::read(&status.grants, &status.retiring)).unwrap_or_default(),
        committing: seen.committing,
        recycle: recycle(seen),
        pods: seen.pods.iter().map(|(key, pod)| (key.clone(), pod_view(seen, key, pod, revision))).collect(),
        claims: seen.claims.iter().map(|(key, claim)| (key.clone(), claim_view(seen, key, claim))).collect(),
    };
    for uid in &seen.gone_pods {
        world.pods.entry(PodKey::new(uid, "")).or_insert_with(PodView::gone);
    }
    for uid in &seen.gone_claims {
        world.claims.entry(ClaimKey::by_uid(uid)).or_insert_with(ClaimView::gone);
    }
    world
}

fn holder(seen: &Observed) -> Holder {
    match &seen.pool.status {
        None => Holder::Unset,
        Some(status) if status.holder.as_deref() == Some(&seen.me) => Holder::Mine,
        // A status without a holder is another operator's, or was edited by hand: what it promised counts.
        Some(_) => Holder::Foreign,
    }
}

fn recycle(seen: &Observed) -> Recycle {
    match seen.pool.spec.recycle_strategy.as_ref().and_then(|strategy| strategy.type_.as_ref()) {
        None | Some(RecycleType::Delete | RecycleType::Other(_)) => Recycle::Delete,
        Some(RecycleType::Restart) => Recycle::Restart,
        Some(RecycleType::Noop) => Recycle::Noop,
    }
}

fn pod_view(
    seen: &Observed,
    key: &PodKey,
    SeenPod { pod, confirmed, busy }: &SeenPod,
    revision: &str,
) -> PodView<ClaimKey> {
    PodView {
        life: if seen.gone_pods.contains(&key.uid) { PodLife::Gone } else { life(pod) },
        warm: pod.is_warm(),
        held_by: pod.held_by(),
        owned: pod.claim_owner().is_some(),
        grantable: is_grantable(seen, pod),
        rank: rank(pod, revision),
        confirmed: *confirmed,
        busy: *busy,
    }
}

fn life(pod: &Pod) -> PodLife {
    if pod.is_terminating() {
        PodLife::Terminating
    } else if pod.is_terminal() {
        PodLife::Terminal
    } else {
        PodLife::Alive
    }
}

fn is_grantable(seen: &Observed, pod: &Pod) -> bool {
    let node = pod.spec.node_name.as_deref();
    let healthy = node.is_some_and(|node| !seen.sick_nodes.contains(node));
    pod.is_ready() && pod.ip().is_some() && healthy && pod.label(labels::EVICT).is_none()
}

/// The current revision first, then the oldest.
fn rank(pod: &Pod, revision: &str) -> u64 {
    let old = u64::from(pod.label(labels::POOL_REVISION) != Some(revision));
    (old << 40) | u64::try_from(pod.created_s()).unwrap_or(0)
}

fn claim_view(seen: &Observed, key: &ClaimKey, SeenClaim { claim, confirmed, busy }: &SeenClaim) -> ClaimView<PodKey> {
    let ours = claim.pool() == seen.pool.metadata.name.as_deref();
    ClaimView {
        life: match (seen.gone_claims.contains(&key.uid), claim.ending) {
            (true, _) => ClaimLife::Gone,
            (false, true) => ClaimLife::Ending,
            (false, false) => ClaimLife::Live,
        },
        asks: ours && claim.asks(),
        can_be_met: can_ever_be_met(seen, claim),
        replaces_lost: claim.recovery == Recovery::Replace,
        replicas: claim.replicas,
        slots: claim.status.slots.iter().map(slot).collect(),
        rank: u64::try_from(claim.created.as_millisecond()).unwrap_or(0),
        confirmed: *confirmed,
        busy: *busy,
    }
}

/// A claim that asks for more than the Pool may ever have must not hold up the others.
fn can_ever_be_met(seen: &Observed, claim: &Claim) -> bool {
    i64::from(claim.replicas) <= i64::from(seen.pool.spec.capacity_spec.pool_max)
}

fn slot(slot: &SandboxSlot) -> Slot<PodKey> {
    match slot {
        SandboxSlot::Open => Slot::Open,
        SandboxSlot::Named { name, uid, .. } => Slot::Named(PodKey::new(uid, name)),
        SandboxSlot::Lost { uid } => Slot::Lost(PodKey::new(uid, "")),
        SandboxSlot::Undelivered { uid } => Slot::Undelivered(PodKey::new(uid, "")),
    }
}
