//! The API server's side of each write: what it needs, what it changes, and which invariants it would break.

use crate::bits::{Claim, INDEXES, Life, Named, PODS, Pod, Pool};
use crate::breach::Breach;
use crate::mutation::Mutation;
use crate::state::{Flight, State};
use crate::worlds::Cx;

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// The Pool.
    Pool,
    /// A Pod.
    Pod(u8),
    /// A claim.
    Claim(u8),
    /// The name of a slot.
    Slot(u8),
}

/// The writes of the protocol; in brackets the steps of its page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The ledger. (1, 4, 7, 8)
    #[default]
    Commit,
    /// Taking the Pool over.
    TakeOver,
    /// Naming Pods in a claim. (2)
    Deliver,
    /// A promised Pod died. (6)
    RecordUndelivered,
    /// A named Pod died. (10)
    Follow,
    /// Un-naming what is wanted no more. (11)
    Release,
    /// The claim's own report that its Pool is being deleted.
    Tell,
    /// The Pool's end, in a claim.
    Fence,
    /// The claim's deadline. (16)
    Expire,
    /// A delivered Pod gets its claim's marks. (3)
    Adopt,
    /// A stripped Pod gets them again. (12)
    Readopt,
    /// A retired Pod ends. (8)
    EndRetired,
    /// A Pod promised to a gone claim ends. (5)
    EndCommitted,
    /// A released Pod ends. (11)
    EndReleased,
    /// A used Pod that is nobody's ends. (13)
    EndUnclaimed,
    /// A Pod that ended by itself is removed. (15)
    EndTerminal,
    /// A used Pod is clean again. (14)
    HandBack,
    /// A new Pod. (9)
    Create,
    /// The Pool's anchor goes, after its end.
    DropAnchor,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::Commit,
        Self::TakeOver,
        Self::Deliver,
        Self::RecordUndelivered,
        Self::Follow,
        Self::Release,
        Self::Tell,
        Self::Fence,
        Self::Expire,
        Self::Adopt,
        Self::Readopt,
        Self::EndRetired,
        Self::EndCommitted,
        Self::EndReleased,
        Self::EndUnclaimed,
        Self::EndTerminal,
        Self::HandBack,
        Self::Create,
        Self::DropAnchor,
    ];

    /// The object that it writes.
    #[must_use]
    pub const fn object(self, target: u8) -> Object {
        match self {
            Self::Commit | Self::TakeOver | Self::DropAnchor => Object::Pool,
            Self::Deliver
            | Self::RecordUndelivered
            | Self::Follow
            | Self::Release
            | Self::Tell
            | Self::Fence
            | Self::Expire => Object::Claim(target),
            Self::Adopt
            | Self::Readopt
            | Self::EndRetired
            | Self::EndCommitted
            | Self::EndReleased
            | Self::EndUnclaimed
            | Self::EndTerminal
            | Self::HandBack => Object::Pod(target),
            Self::Create => Object::Slot(target),
        }
    }

    /// Whether it deletes a Pod.
    #[must_use]
    pub fn is_end(self) -> bool {
        matches!(
            self,
            Self::EndRetired | Self::EndCommitted | Self::EndReleased | Self::EndUnclaimed | Self::EndTerminal
        )
    }

    /// Whether its precondition is the resourceVersion, beside the uid.
    fn is_versioned(self, cx: &Cx) -> bool {
        if cx.broken.is_some_and(|mutation| mutation.unversions(self)) {
            return false;
        }
        match self {
            Self::EndRetired | Self::EndTerminal | Self::Create | Self::DropAnchor => false,
            Self::Commit
            | Self::TakeOver
            | Self::Deliver
            | Self::RecordUndelivered
            | Self::Follow
            | Self::Release
            | Self::Tell
            | Self::Fence
            | Self::Expire
            | Self::Adopt
            | Self::Readopt
            | Self::EndCommitted
            | Self::EndReleased
            | Self::EndUnclaimed
            | Self::HandBack => true,
        }
    }
}

/// What the API server answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done.
    Done,
    /// Conflict, not found or already there.
    Refused,
}

/// Carries a request out.
///
/// # Errors
/// With the invariant that it breaks.
pub fn land(state: &mut State, cx: &Cx, at: u8, flight: &Flight) -> Result<Answer, Breach> {
    let stale = flight.kind.is_versioned(cx) && !flight.current;
    match flight.kind.object(flight.target) {
        Object::Pool if flight.kind == Kind::DropAnchor => {
            state.pool = state.pool.with_anchor(0);
            Ok(Answer::Done)
        }
        Object::Pool => {
            if stale || !state.pool.life().exists() {
                return Ok(Answer::Refused);
            }
            let holder = if flight.orphan { Pool::DEAD } else { at + 1 };
            let ledger = (state.pool.0 & !Pool::LEDGER) | (flight.value & Pool::LEDGER);
            state.set_pool(Pool(ledger).with_holder(holder));
            if cx.is(Mutation::H11) {
                answer_from_ledger(state)?;
            }
            Ok(Answer::Done)
        }
        Object::Claim(claim) => {
            if stale || !state.claim(claim).life().exists() {
                return Ok(Answer::Refused);
            }
            on_claim(state, flight, claim)?;
            Ok(Answer::Done)
        }
        Object::Pod(pod) => {
            let pod = if cx.is(Mutation::DeleteByName) && flight.kind.is_end() { same_name(state, pod) } else { pod };
            if stale || !state.pod(pod).life().exists() {
                return Ok(Answer::Refused);
            }
            let promised = state.delivered[usize::from(pod)];
            on_pod(state, flight, pod)?;
            let ended = state.pod(pod).life() == Life::Terminating && flight.kind == Kind::EndUnclaimed;
            if cx.is(Mutation::H11) && ended && promised != 0 && state.claim(promised - 1).life() == Life::Alive {
                return Err(Breach::I6EndedInUse);
            }
            Ok(Answer::Done)
        }
        Object::Slot(slot) => create(state, cx, slot),
    }
}

/// What callers were told if a create is answered once its promise is written.
fn answer_from_ledger(state: &mut State) -> Result<(), Breach> {
    for pod in 0..PODS {
        if let Some((claim, _)) = state.pool.granted(pod) {
            delivered(state, claim, pod)?;
        }
    }
    Ok(())
}

/// The Pod that now has the name that this one had.
fn same_name(state: &State, pod: u8) -> u8 {
    let slot = state.pod(pod).slot();
    (0..PODS).find(|id| state.pod(*id).life().exists() && state.pod(*id).slot() == slot).unwrap_or(pod)
}

fn on_claim(state: &mut State, flight: &Flight, id: u8) -> Result<(), Breach> {
    let before = state.claim(id);
    if flight.kind == Kind::Expire {
        if before.due() == 0 {
            return Err(Breach::I4EndedAtAnOldDeadline);
        }
        state.set_claim(id, Claim(0).with_life(Life::Gone));
        return Ok(());
    }
    let after = Claim((before.0 & !Claim::STATUS) | (flight.value & Claim::STATUS));
    for index in 0..INDEXES {
        if let Named::Pod(pod) = before.slot(index)
            && after.slot(index) != Named::Pod(pod)
            && index < before.replicas()
            && state.pod(pod).life() == Life::Alive
        {
            return Err(Breach::I6TakenFromItsClaim);
        }
        match after.slot(index) {
            slot if slot == before.slot(index) => {}
            Named::Open => {}
            Named::Pod(pod) => delivered(state, id, pod)?,
            Named::Lost(pod) | Named::Undelivered(pod) => {
                if state.pod(pod).life() == Life::Alive {
                    return Err(Breach::I6HealthyDeclaredLost);
                }
            }
        }
    }
    state.set_claim(id, after);
    Ok(())
}

fn delivered(state: &mut State, claim: u8, pod: u8) -> Result<(), Breach> {
    let to = &mut state.delivered[usize::from(pod)];
    if *to != 0 && *to != claim + 1 {
        return Err(Breach::I1DeliveredTwice);
    }
    *to = claim + 1;
    if state.ended & (1 << pod) != 0 {
        return Err(Breach::I6DeliveredAfterWeEndedIt);
    }
    Ok(())
}

fn on_pod(state: &mut State, flight: &Flight, id: u8) -> Result<(), Breach> {
    let before = state.pod(id);
    match flight.kind {
        Kind::Adopt | Kind::Readopt => {
            let mask = Pod(0).with_warm(1).with_watched(1).with_label(7).with_owner(7).0;
            patch(state, flight, id, mask);
        }
        Kind::HandBack => {
            let owner = state.delivered[usize::from(id)];
            if state.named_by(id).is_some() || (owner != 0 && state.claim(owner - 1).life() == Life::Alive) {
                return Err(Breach::I2CleanWhileInUse);
            }
            state.delivered[usize::from(id)] = 0;
            patch(state, flight, id, Pod(0).with_warm(1).with_label(7).0);
        }
        Kind::EndRetired | Kind::EndCommitted | Kind::EndReleased | Kind::EndUnclaimed | Kind::EndTerminal => {
            if before.life() == Life::Terminating {
                return Ok(());
            }
            if before.life() == Life::Alive {
                may_end(state, id)?;
                state.ended |= 1 << id;
            }
            state.set_pod(id, before.with_life(Life::Terminating));
        }
        Kind::Commit
        | Kind::TakeOver
        | Kind::Deliver
        | Kind::RecordUndelivered
        | Kind::Follow
        | Kind::Release
        | Kind::Tell
        | Kind::Fence
        | Kind::Expire
        | Kind::Create
        | Kind::DropAnchor => {}
    }
    Ok(())
}

fn patch(state: &mut State, flight: &Flight, id: u8, mask: u16) {
    let value = u16::try_from(flight.value & 0xffff).unwrap_or(0);
    let after = Pod((state.pod(id).0 & !mask) | (value & mask));
    state.set_pod(id, after);
}

/// Whether we may end this Pod, which is alive.
fn may_end(state: &State, pod: u8) -> Result<(), Breach> {
    if state.named_by(pod).is_some() {
        return Err(Breach::I6EndedInUse);
    }
    let promised = state.pool.life().exists().then(|| state.pool.granted(pod)).flatten();
    match promised {
        Some((claim, _)) if state.claim(claim).life() == Life::Alive => Err(Breach::I6EndedWhilePromised),
        Some(_) | None => Ok(()),
    }
}

fn create(state: &mut State, cx: &Cx, slot: u8) -> Result<Answer, Breach> {
    let standing = |state: &State| (0..PODS).filter(|id| state.pod(*id).life().exists()).count();
    let used = (0..PODS).any(|id| state.pod(id).life().exists() && state.pod(id).slot() == slot);
    if used && !cx.is(Mutation::H3) {
        return Ok(Answer::Refused);
    }
    let Some(id) = (0..cx.world.pods).find(|id| state.pod(*id).life() == Life::None) else {
        return Ok(Answer::Refused);
    };
    let owner = if cx.is(Mutation::H4Owner) { Pod::POOL } else { Pod::ANCHOR };
    state.set_pod(id, Pod::new(slot, owner));
    if standing(state) > usize::from(cx.world.slots) {
        return Err(Breach::I3TooManyPods);
    }
    Ok(Answer::Done)
}

/// Invariants of a state as such.
///
/// # Errors
/// With the one that is broken.
pub fn check(state: &State) -> Result<(), Breach> {
    for id in 0..PODS {
        let pod = state.pod(id);
        let used = state.delivered[usize::from(id)] != 0;
        let clean = pod.life() == Life::Alive && pod.warm() == 1;
        if used && clean && state.pool.life().exists() && state.pool.entry(id) == 0 && state.named_by(id).is_none() {
            return Err(Breach::I2CountsAsClean);
        }
    }
    Ok(())
}
