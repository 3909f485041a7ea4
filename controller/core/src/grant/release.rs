//! Steps 11 to 15: Pods that the ledger does not mention.

use super::{ClaimLife, Id, PodLife, PodView, Recycle, Step, Steps, World};

/// Ends, hands back or re-adopts every Pod outside the ledger that is not where it should be.
pub(super) fn release<P: Id, C: Id>(world: &World<P, C>, out: &mut Steps<P, C>) {
    let in_ledger = world.in_ledger();
    let named = world.names();
    for (id, pod) in &world.pods {
        if pod.busy || in_ledger.contains(id) {
            continue;
        }
        match (pod.life, named.get(id)) {
            (PodLife::Gone | PodLife::Terminating, _) | (PodLife::Terminal, Some(_)) => {}
            (PodLife::Terminal, None) => out.push(Step::EndTerminal(id.clone())),
            (PodLife::Alive, Some((claim, index))) => readopt(world, id, claim, *index, out),
            (PodLife::Alive, None) if !pod.warm => unnamed(world, id, pod, out),
            (PodLife::Alive, None) => {}
        }
    }
}

/// Marks a Pod as the claim's that names it, unless it is marked so already.
pub(super) fn readopt<P: Id, C: Id>(world: &World<P, C>, id: &P, claim: &C, index: u32, out: &mut Steps<P, C>) {
    if world.pods.get(id).is_some_and(|pod| !world.is_marked(pod, claim, index)) {
        out.push(Step::Readopt { pod: id.clone(), claim: claim.clone(), index });
    }
}

/// A used Pod that no claim names.
fn unnamed<P: Id, C: Id>(world: &World<P, C>, id: &P, pod: &PodView<C>, out: &mut Steps<P, C>) {
    let Some((claim, _)) = &pod.held_by else {
        out.still_mine(pod.confirmed, Step::EndUnclaimed(id.clone()));
        return;
    };
    match world.claims.get(claim).map(|claim| claim.life) {
        // Its owner's end is its own; until the collector has come round it is only used.
        _ if pod.owned && !is_live(world, claim) => {}
        None => out.prove(Step::ProveClaim(claim.clone())),
        Some(ClaimLife::Live | ClaimLife::Ending) => {
            out.still_mine(pod.confirmed, Step::EndReleased { pod: id.clone(), claim: claim.clone() });
        }
        Some(ClaimLife::Gone) => match world.recycle {
            Recycle::Delete => out.still_mine(pod.confirmed, Step::EndUnclaimed(id.clone())),
            Recycle::Restart | Recycle::Noop => out.still_mine(pod.confirmed, Step::HandBack(id.clone())),
        },
    }
}

fn is_live<P: Id, C: Id>(world: &World<P, C>, claim: &C) -> bool {
    world.claims.get(claim).is_some_and(|claim| claim.life != ClaimLife::Gone)
}
