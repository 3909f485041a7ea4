//! The transitions of everybody else: watches, kubelet, collector, users.

use crate::bits::{CLAIMS, Claim, INDEXES, LEADERS, Life, Named, PODS, Pod, Pool};
use crate::breach::Breach;
use crate::hands::Sink;
use crate::label::{Label, Verb, Who};
use crate::state::State;
use crate::worlds::{Act, Cx};

/// Every transition of the cluster and its users.
pub fn others(state: &State, cx: &Cx, out: &mut impl Sink) {
    for at in 0..LEADERS {
        watch(state, at, &mut |verb, target, after| out.next(Label { who: Who::Leader(at), verb, target }, Ok(after)));
    }
    cluster(state, &mut |verb, target, after| out.next(Label { who: Who::Cluster, verb, target }, after));
    for id in 0..CLAIMS {
        if cx.world.claims[usize::from(id)].comes_later(state, id) {
            let mut after = *state;
            after.set_claim(id, cx.world.claims[usize::from(id)].claim());
            out.next(Label { who: Who::User, verb: Verb::NewClaim, target: id }, Ok(after));
        }
    }
    if state.budget.acts > 0 {
        let mut spent = *state;
        spent.budget.acts -= 1;
        acts(&spent, cx, &mut |verb, target, after| {
            out.next(Label { who: Who::User, verb, target }, Ok(after));
        });
    }
}

/// What the watches of a process may show next.
pub fn watch(state: &State, at: u8, out: &mut impl FnMut(Verb, u8, State)) {
    let leader = &state.leaders[usize::from(at)];
    if !leader.up {
        return;
    }
    if sees(state.pool.life(), leader.pool.life(), leader.pool.current()) {
        let mut after = *state;
        after.take_pool(at);
        out(Verb::SeesPool, 0, after);
    }
    if leader.starting {
        return;
    }
    for id in 0..PODS {
        let (there, seen) = (state.pod(id), leader.pods[usize::from(id)]);
        let shown = there.life().exists() && there.watched() == 1;
        let mut after = *state;
        if shown && (!seen.life().exists() || seen.current() == 0) {
            after.take_pod(at, id);
            out(Verb::SeesPod, id, after);
        } else if !shown && seen.life().exists() {
            let proven = seen.life() == Life::Terminating;
            after.leaders[usize::from(at)].pods[usize::from(id)] =
                if proven { Pod(0).with_life(Life::Gone) } else { Pod(0).with_warm(1) };
            after.leaders[usize::from(at)].flight.before &= !(1 << id);
            out(Verb::MissesPod, id, after);
        }
    }
    for id in 0..CLAIMS {
        let (there, seen) = (state.claim(id), leader.claims[usize::from(id)]);
        if sees(there.life(), seen.life(), seen.current()) {
            let mut after = *state;
            after.take_claim(at, id);
            out(Verb::SeesClaim, id, after);
        }
    }
}

/// Whether a watch that selects nothing by label has something new to show.
fn sees(there: Life, seen: Life, current: u8) -> bool {
    if there.exists() { !seen.exists() || current == 0 } else { there == Life::Gone && seen.exists() }
}

/// What kubelet and collector may do next.
pub fn cluster(state: &State, out: &mut impl FnMut(Verb, u8, Result<State, Breach>)) {
    for id in 0..PODS {
        let pod = state.pod(id);
        if pod.life() == Life::Terminating {
            let mut after = *state;
            after.set_pod(id, Pod(0).with_life(Life::Gone));
            out(Verb::PodEnds, id, Ok(after));
        } else if pod.life().exists() && is_orphan(state, pod) {
            let mut after = *state;
            after.set_pod(id, pod.with_life(Life::Terminating));
            let in_use = pod.life() == Life::Alive && state.named_by(id).is_some_and(|(claim, _)| lives(state, claim));
            out(Verb::Collected, id, if in_use { Err(Breach::I6CollectedInUse) } else { Ok(after) });
        }
    }
    for id in 0..CLAIMS {
        let held = |pod: &Pod| pod.life().exists() && pod.claim_owner() == Some(id);
        if state.claim(id).life() == Life::Ending && !state.pods.iter().any(held) {
            let mut after = *state;
            after.set_claim(id, Claim(0).with_life(Life::Gone));
            out(Verb::ClaimEnds, id, Ok(after));
        }
    }
    if state.pool.life() == Life::Ending {
        let mut after = *state;
        after.set_pool(gone(state.pool));
        out(Verb::PoolEnds, 0, Ok(after));
    }
}

fn gone(pool: Pool) -> Pool {
    Pool(0).with_life(Life::Gone).with_anchor(pool.anchor())
}

fn lives(state: &State, claim: u8) -> bool {
    state.claim(claim).life() == Life::Alive
}

/// Whether its owner is gone, or waits for it to go.
fn is_orphan(state: &State, pod: Pod) -> bool {
    match pod.owner() {
        Pod::ANCHOR => state.pool.anchor() == 0,
        Pod::POOL => !state.pool.life().exists() || state.pool.life() == Life::Ending,
        _ => pod.claim_owner().is_some_and(|claim| !lives(state, claim)),
    }
}

fn acts(state: &State, cx: &Cx, out: &mut impl FnMut(Verb, u8, State)) {
    for id in 0..PODS {
        on_pod(state, cx, id, out);
    }
    for id in 0..CLAIMS {
        if lives(state, id) {
            on_claim(state, cx, id, out);
        }
    }
    if state.pool.life() == Life::Alive {
        let mut after = *state;
        if cx.world.allows(Act::DeletePool) {
            after.set_pool(gone(state.pool));
            out(Verb::DeletesPool, 0, after);
        }
        if cx.world.allows(Act::DeletePoolForeground) {
            after.set_pool(state.pool.with_life(Life::Ending));
            out(Verb::DeletesPoolForeground, 0, after);
        }
    }
}

fn on_pod(state: &State, cx: &Cx, id: u8, out: &mut impl FnMut(Verb, u8, State)) {
    let pod = state.pod(id);
    if pod.life() != Life::Alive {
        return;
    }
    let mut offer = |act: Act, verb: Verb, after: Pod| {
        if cx.world.allows(act) && after != pod {
            let mut next = *state;
            next.set_pod(id, after);
            out(verb, id, next);
        }
    };
    offer(Act::KillPod, Verb::PodDies, pod.with_life(Life::Ending));
    offer(Act::DeletePod, Verb::DeletesPod, pod.with_life(Life::Terminating));
    offer(Act::StripWatch, Verb::StripsWatch, pod.with_watched(0));
    offer(Act::StripLabel, Verb::StripsLabel, pod.with_label(0));
    offer(Act::StripOwner, Verb::StripsOwner, pod.with_owner(0));
    offer(Act::StripWarm, Verb::StripsWarm, pod.with_warm(0));
    offer(Act::StripAll, Verb::StripsAll, pod.with_watched(0).with_label(0).with_warm(0).with_owner(0));
}

fn on_claim(state: &State, cx: &Cx, id: u8, out: &mut impl FnMut(Verb, u8, State)) {
    let claim = state.claim(id);
    let mut offer = |act: Act, verb: Verb, after: Claim| {
        if cx.world.allows(act) && after != claim {
            let mut next = *state;
            next.set_claim(id, after);
            out(verb, id, next);
        }
    };
    offer(Act::DeleteClaim, Verb::DeletesClaim, Claim(0).with_life(Life::Gone));
    offer(Act::DeleteClaimForeground, Verb::DeletesClaimForeground, claim.with_life(Life::Ending));
    offer(Act::Renew, Verb::Renews, claim.with_due(0));
    offer(Act::Lower, Verb::Lowers, claim.with_replicas(claim.replicas().saturating_sub(1)));
    offer(Act::Raise, Verb::Raises, claim.with_replicas((claim.replicas() + 1).min(cx.world.indexes)));
    let emptied = claim.with_slot(0, Named::Open).with_slot(1, Named::Open);
    offer(Act::ClearStatus, Verb::ClearsStatus, emptied);
    for pod in 0..PODS {
        let promised = state.pool.granted(pod).filter(|(to, index)| *to == id && *index < INDEXES);
        if let Some((_, index)) = promised.filter(|(_, index)| claim.slot(*index) == Named::Open) {
            offer(Act::WriteLost, Verb::WritesLost, claim.with_slot(index, Named::Undelivered(pod)));
        }
    }
}
