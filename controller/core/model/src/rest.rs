//! I5: from any state, with no further faults, everything comes to rest, and the rest is right.

use sandbox_core::grant::Recycle;

use crate::bits::{CLAIMS, INDEXES, LEADERS, Life, Named, PODS, Pool};
use crate::breach::Breach;
use crate::hands::{Sink, process, simply, start};
use crate::label::{Label, Verb};
use crate::plan::Move;
use crate::plans::Plans;
use crate::prints::{Prints, fingerprint};
use crate::state::{Budget, Leader, Stage, State};
use crate::users::{cluster, watch};
use crate::view::wants;
use crate::worlds::Cx;
use crate::write::check;

/// Longest way to rest: a circle is found out by its length.
const LONGEST: usize = 400;

/// Runs a state to rest with one process alive: the one that is, or that is started. `known` are states from which the rest
/// is right.
///
/// # Errors
/// With the invariant that the way or the rest breaks.
pub fn to_rest(state: &State, cx: &Cx, survivor: u8, plans: &mut Plans, known: &Prints) -> Result<(), Breach> {
    let mut state = calm(state, cx, survivor);
    let mut way = Vec::new();
    loop {
        let seen = fingerprint(&state) ^ u64::from(survivor);
        if known.contains(seen) {
            break;
        }
        way.push(seen);
        if way.len() > LONGEST {
            return Err(Breach::I5NoRest);
        }
        match next(&state, cx, survivor, plans)? {
            Some(after) => state = after,
            None => {
                judge(&state, cx, survivor)?;
                break;
            }
        }
        check(&state)?;
    }
    for seen in way {
        known.insert(seen);
    }
    Ok(())
}

/// No faults left, and one process.
fn calm(state: &State, cx: &Cx, survivor: u8) -> State {
    let mut state = *state;
    state.budget = Budget::default();
    for at in (0..LEADERS).filter(|at| *at != survivor) {
        state.crash(at);
        state.leaders[usize::from(at)] = Leader::default();
    }
    if !state.leaders[usize::from(survivor)].up {
        state.leaders[usize::from(survivor)] = Leader::default();
        state = start(&state, cx, survivor);
    }
    state
}

/// Takes the last transition that is offered.
#[derive(Default)]
struct Last(Option<(Label, Result<State, Breach>)>);

impl Sink for Last {
    fn next(&mut self, label: Label, after: Result<State, Breach>) {
        if label.verb != Verb::Crashed {
            self.0 = Some((label, after));
        }
    }
}

/// One step towards rest; none at rest.
fn next(state: &State, cx: &Cx, at: u8, plans: &mut Plans) -> Result<Option<State>, Breach> {
    let mut found = None;
    cluster(state, &mut |_, _, after| found = Some(after));
    if let Some(after) = found.take() {
        return after.map(Some);
    }
    watch(state, at, &mut |_, _, after| found = Some(Ok(after)));
    if let Some(after) = found {
        return after.map(Some);
    }
    if state.leaders[usize::from(at)].flight.stage != Stage::Idle {
        let mut last = Last::default();
        process(state, cx, at, &[], &mut last);
        if let Some((_, after)) = last.0 {
            return after.map(Some);
        }
    }
    let mut asked_in_vain = false;
    for planned in plans.of(&state.leaders[usize::from(at)], cx).iter() {
        if matches!(planned, Move::Retire(_)) {
            continue;
        }
        let after = simply(state, cx, at, planned)?;
        if after != *state {
            return Ok(Some(after));
        }
        // A creation without a uid left is the model's own limit.
        asked_in_vain |= !matches!(planned, Move::Send(flight) if flight.kind == crate::write::Kind::Create);
    }
    if asked_in_vain { Err(Breach::I5NoRest) } else { Ok(None) }
}

/// Whether a rest is as it should be.
fn judge(state: &State, cx: &Cx, survivor: u8) -> Result<(), Breach> {
    let leader = &state.leaders[usize::from(survivor)];
    let pool_lives = state.pool.life().exists();
    if pool_lives && state.pool.0 & Pool::LEDGER != 0 {
        return Err(Breach::I5LedgerNotDrained);
    }
    for id in 0..PODS {
        owned(state, cx, id)?;
    }
    let waits = |id: u8| (0..INDEXES).any(|index| wants(state.claim(id), cx, index));
    for id in (0..CLAIMS).filter(|id| waits(*id)) {
        // A claim that came after the Pool's end waits for the next Pool of that name.
        if leader.listed && leader.listed_claims & (1 << id) != 0 && state.claim(id).told() == 0 {
            return Err(Breach::I5NotTold);
        }
        if pool_lives && state.claim(id).replicas() <= cx.world.slots && can_be_met(state, cx) {
            return Err(Breach::I5Unmet);
        }
    }
    Ok(())
}

/// Whether there is a clean Pod, or room for one.
fn can_be_met(state: &State, cx: &Cx) -> bool {
    let standing = (0..PODS).filter(|id| state.pod(*id).life().exists());
    let clean =
        |id: u8| state.pod(id).life() == Life::Alive && state.pod(id).warm() == 1 && state.pod(id).watched() == 1;
    let uids_left = (0..cx.world.pods).any(|id| state.pod(id).life() == Life::None);
    standing.clone().any(clean) || (uids_left && standing.count() < usize::from(cx.world.slots))
}

/// Whether somebody owns a Pod.
fn owned(state: &State, cx: &Cx, id: u8) -> Result<(), Breach> {
    let pod = state.pod(id);
    let named = (0..CLAIMS).find(|claim| {
        let claim = state.claim(*claim);
        claim.life().exists() && (0..INDEXES).any(|index| claim.slot(index) == Named::Pod(id))
    });
    match (pod.life(), named) {
        (Life::None | Life::Gone, _) => Ok(()),
        (Life::Alive, Some(claim)) => {
            // Without an owner (stripped by hand) its label leads to its end.
            let marked = pod.held_by().is_some_and(|(by, _)| by == claim);
            let owned = pod.claim_owner().is_none_or(|owner| owner == claim && cx.world.recycle == Recycle::Delete);
            if marked && owned && pod.warm() == 0 { Ok(()) } else { Err(Breach::I5NobodysPod) }
        }
        // Taken away by hand: it is looked after once its slot is needed, or its anchor goes.
        (Life::Alive, None) if pod.watched() == 0 && (pod.owner() == 0 || state.pool.life().exists()) => Ok(()),
        // Clean and the Pool's.
        (Life::Alive, None) if pod.warm() == 1 && pod.held_by().is_none() && state.pool.life().exists() => Ok(()),
        (Life::Alive | Life::Ending | Life::Terminating, _) => Err(Breach::I5NobodysPod),
    }
}
