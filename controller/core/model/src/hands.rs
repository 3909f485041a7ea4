//! The transitions of a process: its requests, its reads, its taking over, its start and its end.

use crate::bits::{CLAIMS, Life, PODS, Pod, Pool};
use crate::breach::Breach;
use crate::label::{Label, Verb, Who};
use crate::mutation::Mutation;
use crate::plan::Move;
use crate::state::{Flight, Leader, Stage, State};
use crate::worlds::Cx;
use crate::write::{Answer, Kind, Object, land};

/// Takes the transitions that a state has.
pub trait Sink {
    /// One of them, and the state after it.
    fn next(&mut self, label: Label, after: Result<State, Breach>);
}

/// Every transition of one process. `moves` is its plan.
pub fn process(state: &State, cx: &Cx, at: u8, moves: &[Move], out: &mut impl Sink) {
    let leader = state.leaders[usize::from(at)];
    if !leader.up {
        if leader.flight.stage == Stage::Idle && state.budget.takeovers > 0 && at < cx.world.leaders {
            emit(out, at, Verb::Started, 0, Ok(start(state, cx, at)));
        }
    } else if state.budget.crashes > 0 {
        let mut after = *state;
        after.budget.crashes -= 1;
        after.crash(at);
        emit(out, at, Verb::Crashed, 0, Ok(after));
    }
    under_way(state, cx, at, out);
    for planned in moves {
        carry_out(state, cx, at, planned, out);
    }
}

fn emit(out: &mut impl Sink, at: u8, verb: Verb, target: u8, after: Result<State, Breach>) {
    out.next(Label { who: Who::Leader(at), verb, target }, after);
}

/// A move, at once; and, if it is a request, as one that takes its time.
fn carry_out(state: &State, cx: &Cx, at: u8, planned: &Move, out: &mut impl Sink) {
    let mut state = *state;
    match *planned {
        Move::Wrong(breach) => emit(out, at, Verb::Done(Kind::Commit), 0, Err(breach)),
        Move::Retire(_) if state.budget.retire == 0 => {}
        Move::TakeOver if state.budget.takeovers == 0 => {}
        Move::Send(flight) | Move::Retire(flight) => {
            if matches!(planned, Move::Retire(_)) {
                state.budget.retire -= 1;
            }
            let (verb, after) = at_once(&state, cx, at, flight);
            emit(out, at, verb, flight.target, after);
            if state.budget.late > 0 && state.leaders[usize::from(at)].flight.stage == Stage::Idle {
                let mut after = state;
                after.budget.late -= 1;
                after.leaders[usize::from(at)].flight = filled(&state, at, flight);
                emit(out, at, Verb::Sent(flight.kind), flight.target, Ok(after));
            }
        }
        Move::ProvePod(_)
        | Move::AskAfter(_)
        | Move::ProveClaim(_)
        | Move::ProvePool
        | Move::ListClaims
        | Move::TakeOver => {
            let (verb, target, after) = read(&state, cx, at, planned);
            emit(out, at, verb, target, Ok(after));
        }
    }
}

/// A move that is no request but a read, or the start of taking over.
fn read(state: &State, cx: &Cx, at: u8, planned: &Move) -> (Verb, u8, State) {
    let mut after = *state;
    match *planned {
        Move::ProvePod(pod) => {
            prove_pod(&mut after, cx, at, pod);
            (Verb::ProvePod, pod, after)
        }
        Move::AskAfter(pod) => {
            prove_pod(&mut after, cx, at, pod);
            (Verb::AskAfter, pod, after)
        }
        Move::ProveClaim(claim) => {
            after.take_claim(at, claim);
            (Verb::ProveClaim, claim, after)
        }
        Move::ProvePool => {
            after.take_pool(at);
            if after.pool.life().exists() && (after.pool.holder() == at + 1 || after.one_token) {
                let present = after.present(at);
                after.proved(at, present);
            }
            (Verb::ProvePool, 0, after)
        }
        Move::ListClaims => {
            list_claims(&mut after, at);
            let there = (0..CLAIMS).filter(|claim| after.claim(*claim).life().exists()).map(|claim| 1 << claim).sum();
            let leader = &mut after.leaders[usize::from(at)];
            leader.listed = true;
            leader.listed_claims = there;
            (Verb::ListClaims, 0, after)
        }
        Move::TakeOver => {
            after.budget.takeovers = after.budget.takeovers.saturating_sub(1);
            take_over(&mut after, cx, at);
            (Verb::Swapped, 0, after)
        }
        Move::Send(_) | Move::Retire(_) | Move::Wrong(_) => (Verb::ProvePool, 0, after),
    }
}

/// A move, at once: what the run to rest does.
///
/// # Errors
/// With the invariant that it breaks.
pub fn simply(state: &State, cx: &Cx, at: u8, planned: &Move) -> Result<State, Breach> {
    match *planned {
        Move::Wrong(breach) => Err(breach),
        Move::Send(flight) | Move::Retire(flight) => at_once(state, cx, at, flight).1,
        Move::ProvePod(_)
        | Move::AskAfter(_)
        | Move::ProveClaim(_)
        | Move::ProvePool
        | Move::ListClaims
        | Move::TakeOver => Ok(read(state, cx, at, planned).2),
    }
}

/// With what the sender's store says.
fn filled(state: &State, at: u8, flight: Flight) -> Flight {
    let leader = &state.leaders[usize::from(at)];
    let current = match flight.kind.object(flight.target) {
        Object::Pool => leader.pool.current() == 1,
        Object::Pod(pod) => leader.pods[usize::from(pod)].current() == 1,
        Object::Claim(claim) => leader.claims[usize::from(claim)].current() == 1,
        Object::Slot(_) => true,
    };
    let before = if flight.kind == Kind::Commit { state.present(at) } else { 0 };
    Flight { current, before, ..flight }
}

fn at_once(state: &State, cx: &Cx, at: u8, flight: Flight) -> (Verb, Result<State, Breach>) {
    let mut after = *state;
    let flight = filled(state, at, flight);
    if flight.stage == Stage::Unchecked && !check(&mut after, at, &flight) {
        return (Verb::Forbidden(flight.kind), Ok(after));
    }
    match land(&mut after, cx, at, &flight) {
        Err(breach) => (Verb::Done(flight.kind), Err(breach)),
        Ok(Answer::Done) => {
            answered(&mut after, cx, at, &flight);
            (Verb::Done(flight.kind), Ok(after))
        }
        Ok(Answer::Refused) => {
            reread(&mut after, cx, at, &flight);
            (Verb::Refused(flight.kind), Ok(after))
        }
    }
}

/// The live read that a re-adoption, a release or the end of an anchor waits for. True if it allows it.
fn check(state: &mut State, at: u8, flight: &Flight) -> bool {
    if flight.kind == Kind::DropAnchor {
        return owns_nothing(state, at);
    }
    state.take_claim(at, flight.claim);
    let claim = state.claim(flight.claim);
    let names = claim.life().exists() && claim.names(flight.target).is_some();
    names == (flight.kind == Kind::Readopt)
}

/// Live LIST of the Pool's Pods; true if the anchor owns none.
fn owns_nothing(state: &mut State, at: u8) -> bool {
    for pod in (0..PODS).filter(|pod| state.pods[usize::from(*pod)].life().exists()).collect::<Vec<_>>() {
        state.take_pod(at, pod);
    }
    !state.pods.iter().any(|pod| pod.life().exists() && pod.owner() == Pod::ANCHOR)
}

/// The answer of a request that was carried out.
fn answered(state: &mut State, cx: &Cx, at: u8, flight: &Flight) {
    match flight.kind.object(flight.target) {
        Object::Pool if flight.kind == Kind::DropAnchor => {
            let leader = &mut state.leaders[usize::from(at)];
            leader.pool = leader.pool.with_anchor(0);
        }
        Object::Pool => {
            state.take_pool(at);
            state.proved(at, flight.before);
        }
        Object::Pod(pod) => {
            let confirmed = state.leaders[usize::from(at)].pods[usize::from(pod)].confirmed() == 1;
            state.take_pod(at, pod);
            if cx.is(Mutation::H14) && confirmed {
                state.proved(at, 1 << pod);
            }
        }
        Object::Claim(claim) => {
            let confirmed = state.leaders[usize::from(at)].claims[usize::from(claim)].confirmed() == 1;
            state.take_claim(at, claim);
            if cx.is(Mutation::H14) && confirmed {
                state.proved(at, 1 << (PODS + claim));
            }
        }
        Object::Slot(slot) => take_slot(state, cx, at, slot),
    }
}

/// After a request that was refused, or of which nobody knows what came.
fn reread(state: &mut State, cx: &Cx, at: u8, flight: &Flight) {
    match flight.kind.object(flight.target) {
        Object::Pool if cx.is(Mutation::CommitUnread) => {}
        Object::Pool => state.take_pool(at),
        Object::Pod(pod) => state.take_pod(at, pod),
        Object::Claim(claim) => state.take_claim(at, claim),
        Object::Slot(slot) => take_slot(state, cx, at, slot),
    }
}

/// The Pod that stands in a slot, into the store.
fn take_slot(state: &mut State, cx: &Cx, at: u8, slot: u8) {
    let standing = (0..PODS).find(|id| state.pod(*id).life().exists() && state.pod(*id).slot() == slot);
    if let Some(pod) = standing {
        prove_pod(state, cx, at, pod);
    }
}

/// Live GET of a Pod; one that lost its watch label gets it back, and loses the clean mark.
fn prove_pod(state: &mut State, cx: &Cx, at: u8, id: u8) {
    state.take_pod(at, id);
    let pod = state.pod(id);
    if pod.life().exists() && pod.watched() == 0 {
        let warm = if cx.is(Mutation::RelabelKeepsWarm) { pod.warm() } else { 0 };
        state.set_pod(id, pod.with_watched(1).with_warm(warm));
        state.take_pod(at, id);
    }
}

fn list_claims(state: &mut State, at: u8) {
    for claim in 0..CLAIMS {
        if state.claim(claim).life().exists() {
            state.take_claim(at, claim);
        }
    }
}

/// The request under way goes on.
fn under_way(state: &State, cx: &Cx, at: u8, out: &mut impl Sink) {
    let flight = state.leaders[usize::from(at)].flight;
    let (kind, target) = (flight.kind, flight.target);
    match flight.stage {
        Stage::Idle => {}
        Stage::Unchecked => {
            let mut after = *state;
            let allowed = check(&mut after, at, &flight);
            let slot = &mut after.leaders[usize::from(at)].flight;
            *slot = if allowed { Flight { stage: Stage::Sent, ..*slot } } else { Flight::default() };
            let verb = if allowed { Verb::Checked(kind) } else { Verb::Forbidden(kind) };
            emit(out, at, verb, target, Ok(after));
        }
        Stage::Sent if flight.orphan => orphan(state, cx, at, &flight, out),
        Stage::Sent => sent(state, cx, at, &flight, out),
        Stage::Unsure => {
            let mut after = *state;
            after.leaders[usize::from(at)].flight = Flight::default();
            reread(&mut after, cx, at, &flight);
            emit(out, at, Verb::Reread(kind), target, Ok(after));
        }
        Stage::Swapped | Stage::Listed => {
            let (verb, after) = take_over_goes_on(state, cx, at);
            emit(out, at, verb, 0, Ok(after));
        }
    }
}

fn sent(state: &State, cx: &Cx, at: u8, flight: &Flight, out: &mut impl Sink) {
    let (kind, target) = (flight.kind, flight.target);
    let mut after = *state;
    match land(&mut after, cx, at, flight) {
        Err(breach) => emit(out, at, Verb::Landed(kind), target, Err(breach)),
        Ok(Answer::Done) => {
            if state.budget.lost > 0 {
                let mut unsure = after;
                unsure.budget.lost -= 1;
                unsure.leaders[usize::from(at)].flight.stage = Stage::Unsure;
                emit(out, at, Verb::AnswerLost(kind), target, Ok(unsure));
            }
            // Carrying it out made its own version the newest; what was in the store before it may have changed since it was sent.
            let flight = after.leaders[usize::from(at)].flight;
            after.leaders[usize::from(at)].flight = Flight::default();
            answered(&mut after, cx, at, &flight);
            emit(out, at, Verb::Landed(kind), target, Ok(after));
        }
        Ok(Answer::Refused) => {
            after.leaders[usize::from(at)].flight.stage = Stage::Unsure;
            emit(out, at, Verb::Bounced(kind), target, Ok(after));
        }
    }
    if state.budget.lost > 0 {
        let mut unsure = *state;
        unsure.budget.lost -= 1;
        unsure.leaders[usize::from(at)].flight.stage = Stage::Unsure;
        emit(out, at, Verb::RequestLost(kind), target, Ok(unsure));
    }
}

fn orphan(state: &State, cx: &Cx, at: u8, flight: &Flight, out: &mut impl Sink) {
    let mut after = *state;
    let landed = land(&mut after, cx, at, flight);
    after.leaders[usize::from(at)].flight = Flight::default();
    match landed {
        Err(breach) => emit(out, at, Verb::OrphanLanded(flight.kind), flight.target, Err(breach)),
        Ok(Answer::Done) => emit(out, at, Verb::OrphanLanded(flight.kind), flight.target, Ok(after)),
        Ok(Answer::Refused) => {}
    }
    let mut after = *state;
    after.leaders[usize::from(at)].flight = Flight::default();
    emit(out, at, Verb::OrphanGone(flight.kind), flight.target, Ok(after));
}

/// A process starts: every Pool whose status was ever written gets its token, then it lists.
#[must_use]
pub fn start(state: &State, cx: &Cx, at: u8) -> State {
    let mut after = *state;
    after.budget.takeovers = after.budget.takeovers.saturating_sub(1);
    after.leaders[usize::from(at)] = Leader { up: true, starting: true, ..Leader::default() };
    take_over(&mut after, cx, at);
    after
}

/// Our token; the proofs of an older one are void.
fn take_over(state: &mut State, cx: &Cx, at: u8) {
    let written = state.pool.life().exists() && state.pool.holder() != 0;
    let before = state.present(at);
    let leader = &mut state.leaders[usize::from(at)];
    if written && !cx.is(Mutation::TakeOverKeepsProof) {
        leader.pods = leader.pods.map(|pod| pod.with_confirmed(0));
        leader.claims = leader.claims.map(|claim| claim.with_confirmed(0));
    }
    // The same token as ever would be a write that changes nothing, so no version would, either.
    if written && !cx.is(Mutation::H10) {
        state.set_pool(state.pool.with_holder(at + 1));
    }
    if written || state.leaders[usize::from(at)].starting {
        state.leaders[usize::from(at)].flight =
            Flight { kind: Kind::TakeOver, stage: Stage::Swapped, before, ..Flight::default() };
    }
    if state.pool.life().exists() || !state.leaders[usize::from(at)].starting {
        state.take_pool(at);
    }
}

fn take_over_goes_on(state: &State, cx: &Cx, at: u8) -> (Verb, State) {
    let mut after = *state;
    let leader = state.leaders[usize::from(at)];
    let lists = leader.starting || !cx.is(Mutation::H1);
    if lists && leader.flight.stage == Stage::Swapped {
        for pod in 0..PODS {
            let (there, seen) = (state.pod(pod), leader.pods[usize::from(pod)]);
            // A start lists by the watch's own label, a taking over by the Pool's.
            let listed = there.life().exists() && (there.watched() == 1 || !leader.starting);
            if listed || (!there.life().exists() && seen.life().exists()) {
                after.take_pod(at, pod);
            }
        }
        after.leaders[usize::from(at)].flight.stage = Stage::Listed;
        return (Verb::PodsListed, after);
    }
    if lists {
        list_claims(&mut after, at);
    }
    let flight = after.leaders[usize::from(at)].flight;
    after.leaders[usize::from(at)].flight = Flight::default();
    after.leaders[usize::from(at)].starting = false;
    if state.pool.life() != Life::None && leader.pool.holder() == Pool::MINE {
        after.proved(at, flight.before);
    }
    (Verb::ClaimsListed, after)
}
