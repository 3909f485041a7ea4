//! Steps 1, 4, 7 and 8 (its entry): the next ledger.

use std::collections::{BTreeMap, BTreeSet};

use super::adopt::is_adopted;
use super::{ClaimLife, Grant, Id, Ledger, PodLife, PodView, PoolLife, World};

/// At most so many Pods are promised in one write: 1,000 entries are 44 KiB and 13 ms of the API server's time.
pub const GRANTS_PER_ROUND: usize = 1_000;

/// The ledger that one compare-and-swap of the Pool's status would write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit<P, C> {
    /// The whole new ledger.
    pub ledger: Ledger<P, C>,
    /// How many Pods it newly promises.
    pub granted: usize,
    /// How many promises it takes back (they become retirements) because their claims want them no more.
    pub withdrawn: usize,
    /// How many idle Pods it newly retires.
    pub retired: usize,
    /// How many entries it drops because nothing is left to do for them.
    pub settled: usize,
}

impl<P, C> Commit<P, C> {
    /// Whether somebody waits for this write. Settling alone can wait for the next one, or for a quiet moment.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        self.granted + self.withdrawn + self.retired > 0
    }

    /// Whether it would change the ledger at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.is_urgent() && self.settled == 0
    }
}

/// Clean, alive Pods in no ledger entry that no claim names: the only ones that may be promised or retired.
pub fn idle<P: Id, C: Id>(world: &World<P, C>) -> impl Iterator<Item = (&P, &PodView<C>)> {
    let taken = taken(world);
    world.pods.iter().filter(move |(id, pod)| is_idle(&taken, id, pod))
}

/// `taken` is [`taken`] of the same world.
pub(super) fn is_idle<P: Id, C: Id>(taken: &BTreeSet<&P>, id: &P, pod: &PodView<C>) -> bool {
    pod.life == PodLife::Alive && pod.warm && !taken.contains(id)
}

/// Every Pod that the ledger or a claim's status mentions.
pub(super) fn taken<P: Id, C: Id>(world: &World<P, C>) -> BTreeSet<&P> {
    let mut taken = world.in_ledger();
    taken.extend(world.names().into_keys());
    taken
}

/// The next ledger: settled entries dropped, unwanted promises turned into retirements, `retire` added (those of it that are
/// idle), and Pods promised to waiting claims, oldest claim first and lowest index first. Never called for a Pool that is
/// neither ours nor new: the caller checks [`World::holder`].
#[must_use]
pub fn commit<P: Id, C: Id>(world: &World<P, C>, retire: &[P]) -> Commit<P, C> {
    let mut next = Commit { ledger: Ledger::default(), granted: 0, withdrawn: 0, retired: 0, settled: 0 };
    for grant in &world.ledger.grants {
        match fate(world, grant) {
            Fate::Keep => next.ledger.grants.push(grant.clone()),
            Fate::Settle => next.settled += 1,
            Fate::Withdraw => {
                next.withdrawn += 1;
                next.ledger.retiring.push(grant.pod.clone());
            }
        }
    }
    for pod in &world.ledger.retiring {
        if world.pods.get(pod).is_some_and(|seen| is_out(seen.life)) {
            next.settled += 1;
        } else {
            next.ledger.retiring.push(pod.clone());
        }
    }
    let taken = taken(world);
    for pod in retire {
        if world.pods.get(pod).is_some_and(|seen| is_idle(&taken, pod, seen)) {
            next.retired += 1;
            next.ledger.retiring.push(pod.clone());
        }
    }
    if world.pool == PoolLife::Live {
        let grants = choose(world, &next.ledger, &taken, retire);
        next.granted = grants.len();
        next.ledger.grants.extend(grants);
    }
    next
}

/// A retirement is settled when its Pod is proven terminating or gone; a terminal one has yet to be deleted.
fn is_out(life: PodLife) -> bool {
    match life {
        PodLife::Alive | PodLife::Terminal => false,
        PodLife::Terminating | PodLife::Gone => true,
    }
}

enum Fate {
    Keep,
    Settle,
    Withdraw,
}

fn fate<P: Id, C: Id>(world: &World<P, C>, grant: &Grant<P, C>) -> Fate {
    let Some(claim) = world.claims.get(&grant.claim) else { return Fate::Keep };
    let pod = world.pods.get(&grant.pod);
    let adopted = pod.is_some_and(|pod| is_adopted(pod, grant));
    let dead = pod.is_some_and(|pod| pod.life.is_dead());
    let gone = claim.life == ClaimLife::Gone;
    let named = !gone && claim.names(&grant.pod);
    let recorded = claim.has_recorded(grant.index, &grant.pod);
    // A Pod recorded dead is never delivered there: one that turns out alive (the record was made by hand) is taken back.
    let unwanted = !named && (recorded || !claim.wants(grant.index));
    if adopted && (named || gone || unwanted) || dead && (named || recorded || gone) {
        Fate::Settle
    } else if !gone && unwanted && !adopted && !claim.busy && (pod.is_some() || !recorded) {
        // A busy claim may be about to name it: the answer decides.
        Fate::Withdraw
    } else {
        Fate::Keep
    }
}

/// Idle Pods for waiting claims. `kept` is what stays of the ledger: an index whose promise is settled in this very write, since
/// its Pod died, has its turn in it and not behind younger claims.
fn choose<P: Id, C: Id>(
    world: &World<P, C>,
    kept: &Ledger<P, C>,
    taken: &BTreeSet<&P>,
    retire: &[P],
) -> Vec<Grant<P, C>> {
    let mut open = open_indexes(world, kept).into_iter().peekable();
    if open.peek().is_none() {
        return Vec::new();
    }
    let mut idle: Vec<(u64, &P)> = world
        .pods
        .iter()
        .filter(|(id, pod)| pod.grantable && !pod.busy && is_idle(taken, id, pod) && !retire.contains(id))
        .map(|(id, pod)| (pod.rank, id))
        .collect();
    idle.sort_unstable();
    idle.into_iter()
        .zip(open)
        .take(GRANTS_PER_ROUND)
        .map(|((_, pod), (claim, index))| Grant { claim: claim.clone(), index, pod: pod.clone() })
        .collect()
}

/// Indexes that a claim wants a Pod for and that no entry of this ledger serves, in the order in which they are served.
pub(super) fn open_indexes<'a, P: Id, C: Id>(world: &'a World<P, C>, ledger: &Ledger<P, C>) -> Vec<(&'a C, u32)> {
    let mut promised: BTreeMap<&C, BTreeSet<u32>> = BTreeMap::new();
    for grant in &ledger.grants {
        promised.entry(&grant.claim).or_default().insert(grant.index);
    }
    let mut claims: Vec<_> = world
        .claims
        .iter()
        .filter(|(_, claim)| claim.life == ClaimLife::Live && claim.asks && claim.can_be_met)
        .collect();
    claims.sort_unstable_by_key(|(id, claim)| (claim.rank, *id));
    claims
        .into_iter()
        .flat_map(|(id, claim)| (0..claim.replicas).filter(|index| claim.wants(*index)).map(move |index| (id, index)))
        .filter(|(id, index)| !promised.get(id).is_some_and(|indexes| indexes.contains(index)))
        .collect()
}
