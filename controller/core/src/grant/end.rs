//! A Pool that is proven gone: what becomes of its Pods and of the claims that waited for it.

use std::collections::BTreeMap;

use super::release::readopt;
use super::{ClaimLife, Id, PodLife, Step, Steps, World};

/// A step of a Pool's end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndStep<P, C> {
    /// Live LIST of the claims of the Pool's namespace, begun after the Pool was proven gone. (a)
    ListClaims,
    /// Write into this claim's status that the Pool is gone, with the Pool's uid. Versioned: it fences a late delivery. (b)
    Fence(C),
    /// As in the Pool's life: [`Step::Readopt`], [`Step::EndReleased`], [`Step::EndUnclaimed`]. (c)
    Pod(Step<P, C>),
}

/// The steps of a Pool's end. `listed` says that the claims were listed live after the proof; `fenced` tells for a claim
/// whether its status already carries this Pool's end.
#[must_use]
pub fn end<P: Id, C: Id>(world: &World<P, C>, listed: bool, fenced: impl Fn(&C) -> bool) -> Vec<EndStep<P, C>> {
    if !listed {
        return vec![EndStep::ListClaims];
    }
    let open: Vec<&C> = world
        .claims
        .iter()
        .filter(|(id, claim)| claim.life == ClaimLife::Live && is_open(claim) && !fenced(id))
        .map(|(id, _)| id)
        .collect();
    if !open.is_empty() {
        return open
            .into_iter()
            .filter(|id| world.claims.get(id).is_some_and(|claim| !claim.busy))
            .map(|id| EndStep::Fence(id.clone()))
            .collect();
    }
    let names = world.names();
    let mut out = Steps::default();
    for (id, pod) in &world.pods {
        if pod.busy || matches!(pod.life, PodLife::Gone | PodLife::Terminating) {
            continue;
        }
        pod_step(world, &names, id, pod, &mut out);
    }
    out.list.into_iter().map(EndStep::Pod).collect()
}

fn is_open<P: Id>(claim: &super::ClaimView<P>) -> bool {
    claim.asks && (0..claim.replicas).any(|index| claim.wants(index))
}

fn pod_step<P: Id, C: Id>(
    world: &World<P, C>,
    names: &BTreeMap<&P, (&C, u32)>,
    id: &P,
    pod: &super::PodView<C>,
    out: &mut Steps<P, C>,
) {
    if let Some((claim, index)) = names.get(id) {
        readopt(world, id, claim, *index, out);
        return;
    }
    let Some((claim, _)) = &pod.held_by else {
        out.push(Step::EndUnclaimed(id.clone()));
        return;
    };
    match world.claims.get(claim).map(|claim| claim.life) {
        Some(ClaimLife::Live | ClaimLife::Ending) => {
            out.push(Step::EndReleased { pod: id.clone(), claim: claim.clone() });
        }
        Some(ClaimLife::Gone) | None if pod.owned => {}
        None => out.prove(Step::ProveClaim(claim.clone())),
        Some(ClaimLife::Gone) => out.push(Step::EndUnclaimed(id.clone())),
    }
}
