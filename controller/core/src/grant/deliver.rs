//! Steps 2 and 6: what a promise turns into in the claim's status.

use std::collections::BTreeMap;

use super::{ClaimLife, Grant, Id, Step, Steps, World};

/// Delivers every promise that its claim still wants, and records those whose Pod died first.
pub(super) fn deliver<P: Id, C: Id>(world: &World<P, C>, out: &mut Steps<P, C>) {
    let mut deliveries: BTreeMap<&C, Vec<(u32, P)>> = BTreeMap::new();
    for grant in &world.ledger.grants {
        match promise(world, grant) {
            Promise::Wanted => deliveries.entry(&grant.claim).or_default().push((grant.index, grant.pod.clone())),
            Promise::Died => record_undelivered(world, grant, out),
            Promise::ClaimUnseen => out.prove(Step::ProveClaim(grant.claim.clone())),
            Promise::No => {}
        }
    }
    for (claim, mut pods) in deliveries {
        let Some(view) = world.claims.get(claim) else { continue };
        if view.busy {
            continue;
        }
        pods.sort();
        out.still_mine(view.confirmed, Step::Deliver { claim: claim.clone(), pods });
    }
}

/// What a promise needs from its claim's status.
enum Promise {
    /// To be named there.
    Wanted,
    /// To be recorded there.
    Died,
    /// The claim is in no store.
    ClaimUnseen,
    /// Nothing: delivered, recorded, withdrawn, or the claim is gone.
    No,
}

fn promise<P: Id, C: Id>(world: &World<P, C>, grant: &Grant<P, C>) -> Promise {
    let Some(claim) = world.claims.get(&grant.claim) else { return Promise::ClaimUnseen };
    let recorded = claim.has_recorded(grant.index, &grant.pod);
    if claim.life == ClaimLife::Gone || recorded || claim.names(&grant.pod) {
        return Promise::No;
    }
    let dead = world.pods.get(&grant.pod).is_some_and(|pod| pod.life.is_dead());
    match (dead, claim.wants(grant.index)) {
        (true, true) => Promise::Died,
        (false, true) => Promise::Wanted,
        (_, false) => Promise::No,
    }
}

fn record_undelivered<P: Id, C: Id>(world: &World<P, C>, grant: &Grant<P, C>, out: &mut Steps<P, C>) {
    let Some(claim) = world.claims.get(&grant.claim) else { return };
    if claim.busy {
        return;
    }
    let step = Step::RecordUndelivered { claim: grant.claim.clone(), index: grant.index, pod: grant.pod.clone() };
    out.still_mine(claim.confirmed, step);
}
