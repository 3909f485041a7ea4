//! What one process knows, in the words of the protocol: the input of the production code.

use sandbox_core::grant::{ClaimLife, ClaimView, Grant, Holder, Ledger, PodView, PoolLife, Slot, World};

use crate::bits::{CLAIMS, Claim, INDEXES, Life, Named, PODS, Pod, Pool};
use crate::mutation::Mutation;
use crate::state::{Leader, Stage};
use crate::worlds::Cx;
use crate::write::Object;

/// The world of the production code, over small numbers.
pub type Seen = World<u8, u8>;

/// What a process sees of the Pool.
#[must_use]
pub fn world(leader: &Leader, cx: &Cx) -> Seen {
    let mut seen = World {
        holder: match leader.pool.holder() {
            0 => Holder::Unset,
            Pool::MINE => Holder::Mine,
            _ => Holder::Foreign,
        },
        pool: match leader.pool.life() {
            Life::None | Life::Alive => PoolLife::Live,
            Life::Ending | Life::Terminating => PoolLife::Ending,
            Life::Gone => PoolLife::Gone,
        },
        ledger: ledger(leader.pool),
        committing: leader.flight.object() == Some(Object::Pool) && !leader.flight.orphan,
        recycle: cx.world.recycle,
        pods: (0..PODS).filter_map(|id| Some((id, pod(leader, cx, id)?))).collect(),
        claims: (0..CLAIMS).filter_map(|id| Some((id, claim(leader, cx, id)?))).collect(),
    };
    if cx.is(Mutation::AbsentClaimIsGone) {
        let marked = seen.pods.values().filter_map(|pod| pod.held_by.map(|(claim, _)| claim));
        let promised = seen.ledger.grants.iter().map(|grant| grant.claim);
        for claim in marked.chain(promised).collect::<Vec<_>>() {
            seen.claims.entry(claim).or_insert_with(ClaimView::gone);
        }
    }
    seen
}

/// The ledger of a Pool.
#[must_use]
pub fn ledger(pool: Pool) -> Ledger<u8, u8> {
    let granted = |pod| pool.granted(pod).map(|(claim, index)| Grant { claim, index: u32::from(index), pod });
    Ledger {
        grants: (0..PODS).filter_map(granted).collect(),
        retiring: (0..PODS).filter(|pod| pool.entry(*pod) == Pool::RETIRING).collect(),
    }
}

/// Whether the Pod left the watch without a proof of its end.
#[must_use]
pub fn is_missed(pod: Pod) -> bool {
    pod.life() == Life::None && pod.warm() == 1
}

/// The Pod of a store; none if it is not there.
fn pod(leader: &Leader, cx: &Cx, id: u8) -> Option<PodView<u8>> {
    let mut pod = leader.pods[usize::from(id)];
    if pod.life() == Life::None {
        let named = leader.claims.iter().any(|claim| claim.names(id).is_some());
        let known = named || leader.pool.entry(id) != 0;
        if !(cx.is(Mutation::H5) && known || cx.is(Mutation::H13) && is_missed(pod)) {
            return None;
        }
        pod = Pod(0).with_life(Life::Gone);
    }
    let marked = pod.label() != 0 || pod.claim_owner().is_some();
    let gone = pod.life() == Life::Gone;
    Some(PodView {
        life: pod.as_protocol(),
        warm: if cx.is(Mutation::H6) { !gone && !marked } else { pod.warm() == 1 },
        held_by: pod.held_by().map(|(claim, index)| (claim, u32::from(index))),
        owned: pod.claim_owner().is_some(),
        grantable: pod.life() == Life::Alive,
        rank: u64::from(id),
        confirmed: gone || pod.confirmed() == 1 || cx.is(Mutation::H8),
        busy: is_busy(leader, cx, Object::Pod(id)),
    })
}

/// Whether a write of this process to the object has no answer yet.
#[must_use]
pub fn is_busy(leader: &Leader, cx: &Cx, object: Object) -> bool {
    let flight = &leader.flight;
    flight.object() == Some(object) && !flight.orphan && !(cx.is(Mutation::NotBusy) && flight.stage == Stage::Sent)
}

/// The claim of a store; none if it is not there.
fn claim(leader: &Leader, cx: &Cx, id: u8) -> Option<ClaimView<u8>> {
    let claim = leader.claims[usize::from(id)];
    let life = match claim.life() {
        Life::None => return None,
        Life::Gone => return Some(ClaimView::gone()),
        Life::Alive => ClaimLife::Live,
        Life::Ending | Life::Terminating => ClaimLife::Ending,
    };
    Some(ClaimView {
        life,
        asks: asks(claim, cx),
        can_be_met: claim.replicas() <= cx.world.slots,
        replaces_lost: cx.world.replaces,
        replicas: u32::from(claim.replicas()),
        slots: (0..INDEXES).map(|index| slot(claim.slot(index))).collect(),
        rank: if cx.is(Mutation::YoungestFirst) { u64::from(CLAIMS - id) } else { u64::from(id) },
        confirmed: claim.confirmed() == 1 || cx.is(Mutation::H7),
        busy: is_busy(leader, cx, Object::Claim(id)),
    })
}

/// Whether a claim wants Pods at all: as production's `Claim::asks`.
#[must_use]
pub fn asks(claim: Claim, cx: &Cx) -> bool {
    let lost = (0..INDEXES).any(|index| matches!(claim.slot(index), Named::Lost(_)));
    claim.life() == Life::Alive && (cx.world.replaces || !lost)
}

/// Whether a claim wants a Pod for this index.
#[must_use]
pub fn wants(claim: Claim, cx: &Cx, index: u8) -> bool {
    asks(claim, cx) && index < claim.replicas() && !matches!(claim.slot(index), Named::Pod(_))
}

fn slot(slot: Named) -> Slot<u8> {
    match slot {
        Named::Open => Slot::Open,
        Named::Pod(pod) => Slot::Named(pod),
        Named::Lost(pod) => Slot::Lost(pod),
        Named::Undelivered(pod) => Slot::Undelivered(pod),
    }
}
