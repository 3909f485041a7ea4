//! What the events add up to.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;

use super::fact::{Change, ClaimState, Fact, Kind, PodState, PoolState, Slot, State};

/// An object that exists.
#[derive(Clone, Debug)]
pub struct Thing<T> {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// The revision of its state.
    pub revision: u64,
    /// Whether it is marked for deletion.
    pub ending: bool,
    /// Its state.
    pub state: T,
}

/// All objects that exist, by uid.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// Pods.
    pub pods: BTreeMap<String, Thing<PodState>>,
    /// Pools.
    pub pools: BTreeMap<String, Thing<PoolState>>,
    /// Claims of both kinds.
    pub claims: BTreeMap<String, Thing<ClaimState>>,
    /// Anchors, with the uid of their Pool.
    pub anchors: BTreeMap<String, Thing<Option<String>>>,
    /// Who leads, since when.
    pub leader: Option<(String, Timestamp)>,
    gone: BTreeSet<String>,
}

impl World {
    /// Takes an event; of each object the newest state counts, and what is gone stays gone.
    pub fn take(&mut self, fact: &Fact) {
        if self.gone.contains(&fact.uid) {
            return;
        }
        if fact.change == Change::Deleted {
            self.gone.insert(fact.uid.clone());
            self.pods.remove(&fact.uid);
            self.pools.remove(&fact.uid);
            self.claims.remove(&fact.uid);
            self.anchors.remove(&fact.uid);
            return;
        }
        match &fact.state {
            State::Pod(pod) => put(&mut self.pods, fact, pod),
            State::Pool(pool) => put(&mut self.pools, fact, pool),
            State::Claim(claim) => put(&mut self.claims, fact, claim),
            State::Anchor(pool) => put(&mut self.anchors, fact, pool),
            State::Lease(holder) => {
                if self.leader.as_ref().is_none_or(|(before, _)| before != holder) {
                    self.leader = Some((holder.clone(), fact.at));
                }
            }
        }
    }

    /// Whether a Pod is gone, ending or ended: nobody can use it any more.
    #[must_use]
    pub fn is_dead(&self, pod: &str) -> bool {
        self.pods.get(pod).is_none_or(|pod| pod.ending || pod.state.terminal)
    }

    /// The living claims that name a Pod.
    pub fn named_by<'a>(&'a self, pod: &'a str) -> impl Iterator<Item = (&'a String, &'a Thing<ClaimState>)> {
        self.claims
            .iter()
            .filter(move |(_, claim)| !claim.ending && claim.state.slots.iter().any(|slot| slot.named() == Some(pod)))
    }

    /// The Pool of a name.
    #[must_use]
    pub fn pool_named(&self, name: &str) -> Option<(&String, &Thing<PoolState>)> {
        self.pools.iter().find(|(_, pool)| pool.name == name)
    }

    /// Uids of all Pods that some claim names.
    #[must_use]
    pub fn named(&self) -> BTreeSet<&str> {
        let slots = self.claims.values().flat_map(|claim| &claim.state.slots);
        slots.filter_map(Slot::named).collect()
    }
}

fn put<T: Clone>(all: &mut BTreeMap<String, Thing<T>>, fact: &Fact, state: &T) {
    if all.get(&fact.uid).is_some_and(|known| known.revision >= fact.revision) {
        return;
    }
    let thing = Thing {
        name: fact.name.clone(),
        kind: fact.kind,
        revision: fact.revision,
        ending: fact.ending,
        state: state.clone(),
    };
    all.insert(fact.uid.clone(), thing);
}
