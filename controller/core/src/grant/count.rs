//! How many Pods a Pool has, by who holds them.

use super::commit::{is_idle, open_indexes, taken};
use super::{ClaimLife, Id, PodLife, World};

/// The Pods of a Pool, each counted once. From one process's store after its fence; `poolMax` does not rest on these
/// numbers but on slot names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Labelled for a live claim, promised, or named; not dead.
    pub held: u32,
    /// Clean and free, ready or starting.
    pub idle: u32,
    /// Of `idle`: may be granted now.
    pub grantable: u32,
    /// Indexes that wait for a Pod and were promised none.
    pub waiting: u32,
    /// Everything that is still there: the above, retiring, terminating, terminal, and used but not yet ended.
    pub present: u32,
}

/// Counts a world.
#[must_use]
pub fn count<P: Id, C: Id>(world: &World<P, C>) -> Counts {
    let taken = taken(world);
    let mut counts = Counts {
        waiting: u32::try_from(open_indexes(world, &world.ledger).len()).unwrap_or(u32::MAX),
        ..Counts::default()
    };
    for (id, pod) in &world.pods {
        counts.present += u32::from(pod.life != PodLife::Gone);
        if is_idle(&taken, id, pod) {
            counts.idle += 1;
            counts.grantable += u32::from(pod.grantable);
        } else if pod.life == PodLife::Alive && !world.ledger.retiring.contains(id) {
            let labelled = pod
                .held_by
                .as_ref()
                .is_some_and(|(claim, _)| world.claims.get(claim).is_some_and(|claim| claim.life != ClaimLife::Gone));
            counts.held += u32::from(labelled || taken.contains(id));
        }
    }
    counts
}
