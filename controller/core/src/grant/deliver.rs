//! Steps 2 and 6: what a promise turns into in the claim's status.

use std::collections::BTreeMap;

use super::{ClaimLife, Grant, Id, Slot, Step, Steps, World};

/// Delivers every promise that its claim still wants, and records those whose Pod died first.
pub(super) fn deliver<P: Id, C: Id>(world: &World<P, C>, out: &mut Steps<P, C>) {
    let mut deliveries: BTreeMap<&C, Vec<(u32, P)>> = BTreeMap::new();
    for grant in &world.ledger.grants {
        match undelivered(world, grant) {
            Undelivered::Wanted => deliveries.entry(&grant.claim).or_default().push((grant.index, grant.pod.clone())),
            Undelivered::Died => record_lost(world, grant, out),
            Undelivered::ClaimUnseen => out.prove(Step::ProveClaim(grant.claim.clone())),
            Undelivered::No => {}
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
enum Undelivered {
    /// To be named there.
    Wanted,
    /// To be recorded lost there.
    Died,
    /// The claim is in no store.
    ClaimUnseen,
    /// Nothing: delivered, recorded, withdrawn, or the claim is gone.
    No,
}

fn undelivered<P: Id, C: Id>(world: &World<P, C>, grant: &Grant<P, C>) -> Undelivered {
    let Some(claim) = world.claims.get(&grant.claim) else { return Undelivered::ClaimUnseen };
    let recorded = matches!(claim.slot(grant.index), Slot::Lost(lost) if *lost == grant.pod);
    if claim.life == ClaimLife::Gone || recorded || claim.names(&grant.pod) {
        return Undelivered::No;
    }
    let dead = world.pods.get(&grant.pod).is_some_and(|pod| pod.life.is_dead());
    match (dead, claim.wants(grant.index)) {
        (true, true) => Undelivered::Died,
        (false, true) => Undelivered::Wanted,
        (_, false) => Undelivered::No,
    }
}

fn record_lost<P: Id, C: Id>(world: &World<P, C>, grant: &Grant<P, C>, out: &mut Steps<P, C>) {
    let Some(claim) = world.claims.get(&grant.claim) else { return };
    if claim.busy {
        return;
    }
    let step = Step::RecordLost { claim: grant.claim.clone(), index: grant.index, pod: grant.pod.clone() };
    out.still_mine(claim.confirmed, step);
}
