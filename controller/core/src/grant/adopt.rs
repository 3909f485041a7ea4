//! Steps 3, 5 and 8 (its delete): what a ledger entry turns into on the Pod.

use super::{ClaimLife, Grant, Id, PodView, Step, Steps, World};

/// Adopts delivered Pods, ends those promised to claims that are gone, deletes retired ones.
pub(super) fn adopt<P: Id, C: Id>(world: &World<P, C>, out: &mut Steps<P, C>) {
    for grant in &world.ledger.grants {
        let Some(claim) = world.claims.get(&grant.claim) else { continue };
        let Some(pod) = world.pods.get(&grant.pod) else {
            out.prove(Step::ProvePod(grant.pod.clone()));
            continue;
        };
        if pod.busy || pod.life.is_dead() || is_adopted(pod, grant) {
            continue;
        }
        if claim.life == ClaimLife::Gone {
            out.still_mine(pod.confirmed, Step::EndCommitted(grant.pod.clone()));
        } else if claim.names(&grant.pod) {
            let step = Step::Adopt { pod: grant.pod.clone(), claim: grant.claim.clone(), index: grant.index };
            out.still_mine(pod.confirmed, step);
        }
    }
    for retired in &world.ledger.retiring {
        match world.pods.get(retired) {
            None => out.prove(Step::ProvePod(retired.clone())),
            // A terminal Pod still stands in its slot, so its retirement is carried out like any other.
            Some(pod) if !pod.busy && !is_leaving(pod) => out.push(Step::EndRetired(retired.clone())),
            Some(_) => {}
        }
    }
}

/// Whether the Pod's marks already say what the grant says.
pub(super) fn is_adopted<P, C: Id>(pod: &PodView<C>, grant: &Grant<P, C>) -> bool {
    !pod.warm && pod.held_by.as_ref().is_some_and(|(claim, _)| *claim == grant.claim)
}

fn is_leaving<C>(pod: &PodView<C>) -> bool {
    use super::PodLife::{Alive, Gone, Terminal, Terminating};
    match pod.life {
        Alive | Terminal => false,
        Terminating | Gone => true,
    }
}
