//! What a process would do now. Everything about holding Pods is decided by the production code; here it is only spelled as
//! requests. What the claims' own plan adds (steps 10, 11 and 16) and when a Pod is made is written down here again, as
//! little of it as the protocol needs.

use sandbox_core::grant::{self, Commit, EndStep, Holder, PodLife, PoolLife, Recycle, Step};

use crate::bits::{CLAIMS, Claim, INDEXES, Life, Named, PODS, Pod, Pool, seat};
use crate::breach::Breach;
use crate::mutation::Mutation;
use crate::state::{Flight, Leader, Stage};
use crate::view::{Seen, is_busy, is_missed, wants, world};
use crate::worlds::Cx;
use crate::write::{Kind, Object};

/// Something that a process may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Move {
    /// A request. Its `current` and `before` are filled in when it is sent.
    Send(Flight),
    /// A commit that also retires an idle Pod.
    Retire(Flight),
    /// Live GET of a Pod.
    ProvePod(u8),
    /// Live GET of a Pod that left the watch.
    AskAfter(u8),
    /// Live GET of a claim.
    ProveClaim(u8),
    /// Live GET of the Pool.
    ProvePool,
    /// Live LIST of the claims, after the Pool's end.
    ListClaims,
    /// Write our token into the Pool.
    TakeOver,
    /// The plan itself breaks an invariant.
    Wrong(Breach),
}

fn write(kind: Kind, target: u8, value: u32) -> Flight {
    Flight { kind, target, stage: Stage::Sent, value, ..Flight::default() }
}

/// All that the process may do, each by itself and in any order.
#[must_use]
pub fn moves(leader: &Leader, cx: &Cx) -> Vec<Move> {
    let mut out = Vec::new();
    if !leader.up || leader.starting {
        return out;
    }
    for id in 0..CLAIMS {
        claim_moves(leader, cx, id, &mut out);
    }
    out.extend((0..PODS).filter(|id| is_missed(leader.pods[usize::from(*id)])).map(Move::AskAfter));
    if leader.flight.object() == Some(Object::Pool) && leader.flight.kind == Kind::TakeOver {
        return out;
    }
    let seen = world(leader, cx);
    match (leader.pool.life(), seen.holder) {
        (Life::None, _) => out.push(Move::ProvePool),
        (Life::Gone, _) => end(leader, cx, &seen, &mut out),
        (_, Holder::Foreign) if !seen.committing => out.push(Move::TakeOver),
        (_, Holder::Foreign) => {}
        (_, Holder::Mine | Holder::Unset) => {
            commits(cx, &seen, &mut out);
            let steps = if cx.is(Mutation::ProveWhileCommitting) {
                grant::steps(&Seen { committing: false, ..seen.clone() })
            } else {
                grant::steps(&seen)
            };
            for step in steps {
                out.extend(step_move(leader, cx, &seen, &step));
            }
            create(leader, cx, &seen, &mut out);
        }
    }
    out
}

/// Steps 10, 11 and 16, which a claim's own plan takes.
fn claim_moves(leader: &Leader, cx: &Cx, id: u8, out: &mut Vec<Move>) {
    let claim = leader.claims[usize::from(id)];
    if claim.life() != Life::Alive || is_busy(leader, cx, Object::Claim(id)) {
        return;
    }
    if claim.due() == 1 {
        out.push(Move::Send(write(Kind::Expire, id, 0)));
        return;
    }
    let (mut next, mut kind) = (claim, Kind::Follow);
    for index in 0..INDEXES {
        let slot = claim.slot(index);
        if index >= claim.replicas() {
            if slot != Named::Open {
                next = next.with_slot(index, Named::Open);
                kind = Kind::Release;
            }
        } else if let Named::Pod(pod) = slot {
            match fate(leader, cx, pod) {
                Some(true) => next = next.with_slot(index, Named::Lost(pod)),
                Some(false) => {}
                None => out.push(Move::ProvePod(pod)),
            }
        }
    }
    if cx.is(Mutation::TellEarly)
        && leader.pool.life() == Life::Ending
        && claim.told() == 0
        && (0..INDEXES).any(|index| wants(claim, cx, index))
    {
        next = next.with_told(1);
        if next.with_told(0) == claim {
            kind = Kind::Tell;
        }
    }
    if next != claim {
        out.push(Move::Send(write(kind, id, next.0)));
    }
}

/// Whether a named Pod is dead; none if the store does not tell.
fn fate(leader: &Leader, cx: &Cx, pod: u8) -> Option<bool> {
    let seen = leader.pods[usize::from(pod)];
    match seen.life() {
        Life::None if cx.is(Mutation::H5) || (cx.is(Mutation::H13) && is_missed(seen)) => Some(true),
        Life::None => None,
        Life::Alive => Some(false),
        Life::Ending | Life::Terminating | Life::Gone => Some(true),
    }
}

/// The commit, and for each idle Pod the commit that also retires it.
fn commits(cx: &Cx, seen: &Seen, out: &mut Vec<Move>) {
    if seen.committing {
        return;
    }
    let next = grant::commit(seen, &[]);
    out.extend(misordered(seen, &next).map(Move::Wrong));
    if !next.is_empty() || seen.holder == Holder::Unset {
        out.push(commit_move(cx, seen, &next, None));
    }
    for (pod, view) in grant::idle(seen).filter(|(_, view)| !view.busy) {
        debug_assert_eq!(view.life, PodLife::Alive);
        let next = grant::commit(seen, &[*pod]);
        if next.retired > 0 {
            let retiring = commit_move(cx, seen, &next, Some(*pod));
            out.push(if let Move::Send(flight) = retiring { Move::Retire(flight) } else { retiring });
        }
    }
}

/// An older claim that waits while a younger one is newly served.
fn misordered(seen: &Seen, next: &Commit<u8, u8>) -> Option<Breach> {
    let new = next.ledger.grants.iter().filter(|grant| !seen.ledger.grants.contains(grant));
    let youngest = new.map(|grant| grant.claim).max()?;
    let passed_over = seen.claims.range(..youngest).any(|(id, claim)| {
        let served = |index| next.ledger.grants.iter().any(|grant| grant.claim == *id && grant.index == index);
        claim.can_be_met && (0..claim.replicas).any(|index| claim.wants(index) && !served(index))
    });
    passed_over.then_some(Breach::I5NotOldestFirst)
}

fn commit_move(cx: &Cx, seen: &Seen, next: &Commit<u8, u8>, retired: Option<u8>) -> Move {
    let mut pool = Pool(0);
    for grant in &next.ledger.grants {
        if pool.entry(grant.pod) != 0 {
            return Move::Wrong(Breach::I1PromisedTwice);
        }
        let index = u8::try_from(grant.index).unwrap_or(0);
        pool = pool.with_entry(grant.pod, seat(grant.claim, index));
    }
    for pod in &next.ledger.retiring {
        if pool.entry(*pod) != 0 {
            return Move::Wrong(Breach::I1PromisedTwice);
        }
        pool = pool.with_entry(*pod, Pool::RETIRING);
    }
    if let Some(pod) = retired.filter(|_| cx.is(Mutation::H2)) {
        return Move::Send(write(Kind::EndRetired, pod, 0));
    }
    if cx.is(Mutation::H9)
        && let Some(grant) =
            seen.ledger.grants.iter().find(|grant| next.withdrawn > 0 && pool.entry(grant.pod) == Pool::RETIRING)
    {
        // Looks at the claim once more, and deletes.
        let end = write(Kind::EndReleased, grant.pod, 0);
        return Move::Send(Flight { claim: grant.claim, stage: Stage::Unchecked, ..end });
    }
    if cx.is(Mutation::SettleAtDelivery) {
        for grant in &seen.ledger.grants {
            if seen.claims.get(&grant.claim).is_some_and(|claim| claim.names(&grant.pod)) {
                pool = pool.with_entry(grant.pod, 0);
            }
        }
    }
    if cx.is(Mutation::PutBack) {
        for grant in &seen.ledger.grants {
            if seen.claims.get(&grant.claim).is_some_and(|claim| claim.life == grant::ClaimLife::Gone) {
                pool = pool.with_entry(grant.pod, 0);
            }
        }
    }
    Move::Send(write(Kind::Commit, 0, pool.0))
}

fn step_move(leader: &Leader, cx: &Cx, seen: &Seen, step: &Step<u8, u8>) -> Option<Move> {
    let status = |claim: u8| leader.claims[usize::from(claim)];
    Some(match step {
        Step::Deliver { claim, pods } => {
            let named = pods.iter().fold(status(*claim), |status, (index, pod)| {
                status.with_slot(u8::try_from(*index).unwrap_or(0), Named::Pod(*pod))
            });
            Move::Send(write(Kind::Deliver, *claim, named.0))
        }
        Step::RecordUndelivered { claim, index, pod } => {
            let dead = status(*claim).with_slot(u8::try_from(*index).unwrap_or(0), Named::Undelivered(*pod));
            Move::Send(write(Kind::RecordUndelivered, *claim, dead.0))
        }
        Step::Adopt { pod, claim, index } => Move::Send(adoption(cx, Kind::Adopt, *pod, *claim, *index)),
        Step::Readopt { pod, claim, index } => {
            let stage = if cx.is(Mutation::ReadoptUnread) { Stage::Sent } else { Stage::Unchecked };
            Move::Send(Flight { stage, ..adoption(cx, Kind::Readopt, *pod, *claim, *index) })
        }
        Step::EndRetired(pod) => Move::Send(write(Kind::EndRetired, *pod, 0)),
        Step::EndTerminal(_) if cx.is(Mutation::H12) => return None,
        Step::EndTerminal(pod) => Move::Send(write(Kind::EndTerminal, *pod, 0)),
        Step::EndCommitted(_) if cx.is(Mutation::PutBack) => return None,
        Step::EndCommitted(pod) => Move::Send(write(Kind::EndCommitted, *pod, 0)),
        Step::EndUnclaimed(pod) => Move::Send(write(Kind::EndUnclaimed, *pod, 0)),
        Step::EndReleased { .. } if seen.pool == PoolLife::Gone && cx.is(Mutation::H15) => return None,
        Step::EndReleased { pod, claim } => {
            let stage = if cx.is(Mutation::ReleaseUnread) { Stage::Sent } else { Stage::Unchecked };
            Move::Send(Flight { claim: *claim, stage, ..write(Kind::EndReleased, *pod, 0) })
        }
        Step::HandBack(pod) => match seen.recycle {
            Recycle::Noop => Move::Send(write(Kind::HandBack, *pod, u32::from(Pod(0).with_warm(1).0))),
            Recycle::Restart | Recycle::Delete => Move::Send(write(Kind::EndUnclaimed, *pod, 0)),
        },
        Step::ProvePod(pod) => Move::ProvePod(*pod),
        Step::ProveClaim(claim) => Move::ProveClaim(*claim),
        Step::ProvePool => Move::ProvePool,
    })
}

fn adoption(cx: &Cx, kind: Kind, pod: u8, claim: u8, index: u32) -> Flight {
    let owner = match cx.world.recycle {
        Recycle::Delete => claim + 1,
        Recycle::Restart | Recycle::Noop => 0,
    };
    let marks = Pod(0).with_watched(1).with_label(seat(claim, u8::try_from(index).unwrap_or(0))).with_owner(owner);
    let marks = marks.with_warm(u8::from(cx.is(Mutation::AdoptKeepsWarm)));
    Flight { claim, ..write(kind, pod, u32::from(marks.0)) }
}

/// A Pod for claims that wait, in a free slot.
fn create(leader: &Leader, cx: &Cx, seen: &Seen, out: &mut Vec<Move>) {
    let counts = grant::count(seen);
    let creating = leader.flight.object().is_some_and(|object| matches!(object, Object::Slot(_)));
    if seen.holder != Holder::Mine || seen.pool != PoolLife::Live || creating || counts.waiting <= counts.idle {
        return;
    }
    let used = |slot: u8| leader.pods.iter().any(|pod| pod.life().exists() && pod.slot() == slot);
    if let Some(slot) = (0..cx.world.slots).find(|slot| !used(*slot)) {
        out.push(Move::Send(write(Kind::Create, slot, 0)));
    }
}

/// The end of a Pool that is proven gone.
fn end(leader: &Leader, cx: &Cx, seen: &Seen, out: &mut Vec<Move>) {
    let told = |claim: &u8| {
        let came_later = leader.listed && leader.listed_claims & (1 << claim) == 0;
        (cx.is(Mutation::H4Fence) && leader.pods.iter().any(|pod| pod.life().exists()))
            || came_later
            || leader.claims[usize::from(*claim)].told() == 1
    };
    let steps = grant::end(seen, leader.listed || cx.is(Mutation::EndUnlisted), told);
    let at_rest = steps.is_empty();
    for step in steps {
        match step {
            EndStep::ListClaims => out.push(Move::ListClaims),
            EndStep::Fence(claim) => {
                let told: Claim = leader.claims[usize::from(claim)].with_told(1);
                out.push(Move::Send(write(Kind::Fence, claim, told.0)));
            }
            EndStep::Pod(step) => out.extend(step_move(leader, cx, seen, &step)),
        }
    }
    let anchored = leader.pods.iter().any(|pod| pod.life().exists() && pod.owner() == Pod::ANCHOR);
    if at_rest && !anchored && leader.pool.anchor() == 1 {
        let stage = if cx.is(Mutation::AnchorUnlisted) { Stage::Sent } else { Stage::Unchecked };
        out.push(Move::Send(Flight { stage, ..write(Kind::DropAnchor, 0, 0) }));
    }
}
