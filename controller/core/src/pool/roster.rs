//! Which Pods of a Pool a plan has to look at.
//!
//! Most Pods of a large Pool are at rest: in use and marked as what they are, or idle and ready. Nothing is to be done about
//! them until something changes, so a plan only counts them. The roster keeps the two apart: whatever changes is *touched*
//! and looked at; what a plan then finds at rest is counted until it is touched again. A plan therefore costs what changed,
//! not what there is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sandbox_api::{Pool, RecycleType, labels};
use serde_json::Value;

use super::{Observed, pod};
use crate::claim::{Claim, SeenPod};
use crate::grant::{ClaimLife, PodLife, PodView, World};
use crate::ids::{ClaimKey, PodKey};

/// Pods that a plan counts and does not look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// In use.
    pub held: u32,
    /// Idle, ready, of the current revision.
    pub idle: u32,
    /// Of these two: of the current revision.
    pub updated: u32,
    /// The slots that they stand in.
    pub slots: Arc<BTreeSet<u32>>,
    /// When the youngest Pod of the current revision was made that was ever found ready, in seconds of the epoch.
    pub youngest_ready: Option<i64>,
}

/// A Pod that a plan found at rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtRest {
    /// Which.
    pub pod: PodKey,
    /// In use, or idle with this preference.
    pub use_: Use,
    /// Of the current revision.
    pub current: bool,
    /// Where it stands.
    pub slot: Option<u32>,
    /// When it was made, in seconds of the epoch.
    pub created_s: i64,
}

/// Whether a Pod at rest is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A live claim names it, and it carries that claim's marks.
    Held,
    /// It is free; the smallest rank is given out first.
    Idle {
        /// As in [`PodView::rank`].
        rank: u64,
    },
}

/// When something was last touched; grows with every touch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(u64);

/// The Pods of one Pool, by whether a plan has to look at them.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    restless: BTreeMap<PodKey, Stamp>,
    resting: BTreeMap<PodKey, AtRest>,
    idle: BTreeSet<(u64, PodKey)>,
    rest: Rest,
    /// Of the Pool when the Pods at rest were found so.
    template: Option<Value>,
    recycles: Option<RecycleType>,
    last: Stamp,
}

impl Roster {
    /// Has to be looked at: it is new, it changed, a claim that names it or that it is marked for changed, its node did.
    pub fn touch(&mut self, pod: PodKey) {
        self.last = Stamp(self.last.0 + 1);
        self.rouse(&pod);
        self.restless.insert(pod, self.last);
    }

    /// All have to be looked at.
    pub fn touch_all(&mut self) {
        let all: Vec<PodKey> = self.resting.keys().cloned().collect();
        all.into_iter().for_each(|pod| self.touch(pod));
    }

    /// The Pool as it is now: with another template, what was of the current revision no longer is; with another recycling,
    /// Pods in use may need an owner.
    pub fn pool(&mut self, pool: &Pool) {
        let recycles = pool.spec.recycle_strategy.as_ref().and_then(|strategy| strategy.type_.clone());
        if self.template != pool.spec.template || self.recycles != recycles {
            self.template.clone_from(&pool.spec.template);
            self.recycles = recycles;
            self.rest.youngest_ready = None;
            self.touch_all();
        }
    }

    /// Makes enough idle Pods restless that a plan may promise `open` of them and retire all but `keep`.
    pub fn offer(&mut self, open: usize, keep: usize) {
        let surplus = self.idle.len().saturating_sub(keep);
        let first = self.idle.iter().take(open);
        let last = self.idle.iter().rev().take(surplus);
        let offered: Vec<PodKey> = first.chain(last).map(|(_, pod)| pod.clone()).collect();
        offered.into_iter().for_each(|pod| self.touch(pod));
    }

    /// What has to be looked at, with the stamp of each.
    #[must_use]
    pub fn restless(&self) -> Vec<PodKey> {
        self.restless.keys().cloned().collect()
    }

    /// Up to which touch an observation that begins now knows of.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        self.last
    }

    /// What need not be looked at.
    #[must_use]
    pub fn rest(&self) -> Rest {
        self.rest.clone()
    }

    /// Takes what a plan found at rest, unless it was touched after the observation that was made at `seen`.
    pub fn settle(&mut self, at_rest: Vec<AtRest>, seen: Stamp) {
        for found in at_rest {
            if self.restless.get(&found.pod).is_some_and(|touched| *touched <= seen) {
                self.restless.remove(&found.pod);
                self.lie_down(found);
            }
        }
    }

    /// It is gone.
    pub fn forget(&mut self, pod: &PodKey) {
        self.rouse(pod);
        self.restless.remove(pod);
    }

    fn lie_down(&mut self, found: AtRest) {
        match found.use_ {
            Use::Held => self.rest.held += 1,
            Use::Idle { rank } => {
                self.rest.idle += 1;
                self.idle.insert((rank, found.pod.clone()));
            }
        }
        self.rest.updated += u32::from(found.current);
        if let Some(slot) = found.slot {
            Arc::make_mut(&mut self.rest.slots).insert(slot);
        }
        if found.current {
            self.rest.youngest_ready = self.rest.youngest_ready.max(Some(found.created_s));
        }
        self.resting.insert(found.pod.clone(), found);
    }

    fn rouse(&mut self, pod: &PodKey) {
        let Some(found) = self.resting.remove(pod) else { return };
        match found.use_ {
            Use::Held => self.rest.held -= 1,
            Use::Idle { rank } => {
                self.rest.idle -= 1;
                self.idle.remove(&(rank, found.pod));
            }
        }
        self.rest.updated -= u32::from(found.current);
        if let Some(slot) = found.slot {
            Arc::make_mut(&mut self.rest.slots).remove(&slot);
        }
    }
}

/// Pods that have to be looked at since a claim changed: those that only one of its versions names, all if it began to end.
#[must_use]
pub fn touched_by(old: Option<&Claim>, new: Option<&Claim>) -> BTreeSet<PodKey> {
    let named = |claim: Option<&Claim>| -> BTreeSet<PodKey> {
        let slots = claim.into_iter().flat_map(|claim| &claim.status.slots);
        slots.filter_map(|slot| Some(PodKey::new(slot.named_uid()?, slot.named()?))).collect()
    };
    let ends = |claim: Option<&Claim>| claim.is_none_or(|claim| claim.ending);
    let (before, after) = (named(old), named(new));
    if ends(old) == ends(new) {
        before.symmetric_difference(&after).cloned().collect()
    } else {
        before.union(&after).cloned().collect()
    }
}

/// Whether a claim waits for a Pod: a plan of its Pool has to look at it.
#[must_use]
pub fn is_open(claim: &Claim) -> bool {
    claim.asks() && open_indexes(claim) > 0
}

/// How many indexes of a claim have no Pod.
#[must_use]
pub fn open_indexes(claim: &Claim) -> usize {
    let wanted = claim.replicas as usize;
    let named = claim.status.slots.iter().take(wanted).filter(|slot| !slot.is_open()).count();
    wanted - named
}

/// Pods of a world about which nothing is to be done until they, their claims, their nodes or the Pool's template change.
pub(super) fn at_rest(seen: &Observed, world: &World<PodKey, ClaimKey>, revision: &str) -> Vec<AtRest> {
    let names = world.names();
    let in_ledger = world.in_ledger();
    let judge = |(key, SeenPod { pod, .. }): (&PodKey, &SeenPod)| {
        let view = world.pods.get(key).filter(|view| view.life == PodLife::Alive && !view.busy)?;
        if in_ledger.contains(key) || !pod.is_ready() {
            return None;
        }
        let use_ = match names.get(key) {
            Some((claim, index)) => held(world, view, claim, *index)?,
            None => idle(view)?,
        };
        let current = pod.label(labels::POOL_REVISION) == Some(revision);
        // One of an old revision is to make room.
        let stays = current || use_ == Use::Held;
        let slot = pod::slot(&seen.pool, &key.name);
        stays.then(|| AtRest { pod: key.clone(), use_, current, slot, created_s: pod.created_s() })
    };
    seen.pods.iter().filter_map(judge).collect()
}

fn held(world: &World<PodKey, ClaimKey>, view: &PodView<ClaimKey>, claim: &ClaimKey, index: u32) -> Option<Use> {
    let lives = world.claims.get(claim).is_some_and(|claim| claim.life == ClaimLife::Live);
    (lives && world.is_marked(view, claim, index)).then_some(Use::Held)
}

fn idle(view: &PodView<ClaimKey>) -> Option<Use> {
    (view.warm && view.grantable).then_some(Use::Idle { rank: view.rank })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle_at(uid: &str, rank: u64, slot: u32) -> AtRest {
        let pod = PodKey::new(uid, uid);
        AtRest { pod, use_: Use::Idle { rank }, current: true, slot: Some(slot), created_s: 7 }
    }

    fn with(pods: &[(&str, u64)]) -> Roster {
        let mut roster = Roster::default();
        pods.iter().for_each(|(uid, _)| roster.touch(PodKey::new(uid, uid)));
        let found = pods.iter().zip(0..).map(|((uid, rank), slot)| idle_at(uid, *rank, slot)).collect();
        roster.settle(found, roster.stamp());
        roster
    }

    #[test]
    fn what_changes_while_a_plan_is_made_is_looked_at_again() {
        let mut roster = Roster::default();
        roster.touch(PodKey::new("a", "a"));
        let seen = roster.stamp();
        roster.touch(PodKey::new("a", "a"));
        roster.settle(vec![idle_at("a", 1, 0)], seen);
        assert_eq!((roster.restless().len(), roster.rest().idle), (1, 0));
    }

    #[test]
    fn a_plan_is_offered_the_pods_that_it_may_promise_or_retire() {
        let mut roster = with(&[("a", 3), ("b", 1), ("c", 2), ("d", 4)]);
        assert_eq!((roster.restless().len(), roster.rest().idle), (0, 4));
        roster.offer(1, 3);
        let offered: Vec<_> = roster.restless().into_iter().map(|key| key.uid.to_string()).collect();
        assert_eq!(offered, ["b", "d"], "the first to be given out and the last");
        assert_eq!((roster.rest().idle, roster.rest().slots.len(), roster.rest().updated), (2, 2, 2));
    }

    #[test]
    fn a_pod_that_is_gone_is_not_counted() {
        let mut roster = with(&[("a", 1)]);
        roster.forget(&PodKey::new("a", ""));
        assert_eq!(roster.rest(), Rest { youngest_ready: Some(7), ..Rest::default() });
    }
}
