//! I1 to I4, I6 and the order of I5, event by event in the order of the store.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::fact::{Change, ClaimState, Fact, PodState, PoolState, Slot, State};
use super::order::Order;
use super::record::{Acts, Log};
use super::world::World;
use super::{Invariant, Violation};

/// A `poolMax` that was lowered binds whoever read it after that. As long as this a request may have been on its way that
/// was planned before: faults hold requests and watches for less.
const KNOWN_BY: Duration = Duration::from_secs(60);

pub(super) struct Audit<'a> {
    acts: &'a Acts,
    world: World,
    /// Pod uid to the claim that it was first delivered to.
    delivered: BTreeMap<String, String>,
    /// Pod uid to the claim that a ledger first promised it to.
    promised: BTreeMap<String, String>,
    /// Pod uid to its Pool, by the label that it was created with: labels can be stripped later.
    pool_of: BTreeMap<String, String>,
    /// Pool uid to every `poolMax` it had, each with the time of its end.
    sizes: BTreeMap<String, Vec<(i64, Option<Timestamp>)>>,
    recycles: BTreeMap<String, bool>,
    order: Order,
    at: usize,
    found: Vec<Violation>,
}

impl<'a> Audit<'a> {
    pub fn of(log: &'a Log) -> Vec<Violation> {
        let mut audit = Self {
            acts: &log.acts,
            world: World::default(),
            delivered: BTreeMap::new(),
            promised: BTreeMap::new(),
            pool_of: BTreeMap::new(),
            sizes: BTreeMap::new(),
            recycles: BTreeMap::new(),
            order: Order::default(),
            at: 0,
            found: Vec::new(),
        };
        for (at, fact) in log.facts.iter().enumerate() {
            audit.at = at;
            audit.judge(fact);
            audit.world.take(fact);
        }
        audit.found
    }

    fn judge(&mut self, fact: &Fact) {
        match &fact.state {
            State::Pod(pod) => self.judge_pod(fact, pod),
            State::Pool(pool) => self.judge_pool(fact, pool),
            State::Claim(claim) => self.judge_claim(fact, claim),
            State::Anchor(_) | State::Lease(_) => {}
        }
    }

    fn breaks(&mut self, invariant: Invariant, says: String, about: &[&str]) {
        let about = about.iter().map(|uid| (*uid).to_owned()).collect();
        self.found.push(Violation { invariant, says, about, at: Some(self.at) });
    }

    fn judge_pod(&mut self, fact: &Fact, pod: &PodState) {
        let before = self.world.pods.get(&fact.uid).cloned();
        if before.is_none() && fact.change != Change::Deleted {
            self.created(fact, pod);
        }
        if let Some(before) = &before {
            let back = !before.state.warm && pod.warm && fact.change != Change::Deleted;
            if back && self.may_come_back(&fact.uid) {
                self.delivered.remove(&fact.uid);
                self.promised.remove(&fact.uid);
            } else if back {
                let says = format!("Pod {} is marked clean again; its Pool does not recycle", fact.name);
                self.breaks(Invariant::I2, says, &[&fact.uid]);
            }
            let ends = fact.ending || fact.change == Change::Deleted;
            if ends && !before.ending && !before.state.terminal {
                self.ended(fact);
            }
        }
    }

    fn may_come_back(&self, pod: &str) -> bool {
        self.pool_of.get(pod).and_then(|pool| self.recycles.get(pool)).copied().unwrap_or_default()
    }

    /// I3: whoever creates a Pod may not exceed a `poolMax` that could be known.
    fn created(&mut self, fact: &Fact, pod: &PodState) {
        let Some(pool) = &pod.pool else { return };
        self.pool_of.insert(fact.uid.clone(), pool.clone());
        if fact.change == Change::Listed {
            return;
        }
        let of_pool = |uid: &&String| self.pool_of.get(*uid) == Some(pool);
        let there = 1 + self.world.pods.keys().filter(of_pool).count();
        let Some(sizes) = self.sizes.get(pool) else { return };
        let known = |until: &Option<Timestamp>| until.is_none_or(|until| within(until, fact.at, KNOWN_BY));
        let most = sizes.iter().filter(|(_, until)| known(until)).map(|(max, _)| *max).max().unwrap_or_default();
        if i64::try_from(there).unwrap_or(i64::MAX) > most {
            let says = format!("Pod {} is number {there} of its Pool, whose poolMax is {most}", fact.name);
            let pool = pool.clone();
            self.breaks(Invariant::I3, says, &[&fact.uid, &pool]);
        }
    }

    /// I6: a Pod in use is not deleted but for its claim's end.
    fn ended(&mut self, fact: &Fact) {
        if self.acts.ended.contains(&fact.uid) {
            return;
        }
        let users: Vec<(String, String)> = self
            .world
            .named_by(&fact.uid)
            .filter(|(_, claim)| !is_beyond(&claim.state, &fact.uid))
            .map(|(uid, claim)| (uid.clone(), claim.name.clone()))
            .collect();
        for (uid, name) in users {
            let says = format!("Pod {} is deleted while {name} lives and names it", fact.name);
            self.breaks(Invariant::I6, says, &[&fact.uid, &uid]);
        }
        let grants = self.world.pools.values().flat_map(|pool| &pool.state.grants);
        let promised: Vec<String> =
            grants.filter(|grant| grant.pod == fact.uid).map(|grant| grant.claim.clone()).collect();
        for claim in promised {
            if let Some(alive) = self.world.claims.get(&claim).filter(|claim| !claim.ending) {
                let says = format!("Pod {} is deleted while the ledger promises it to {}", fact.name, alive.name);
                self.breaks(Invariant::I6, says, &[&fact.uid, &claim]);
            }
        }
    }

    fn judge_pool(&mut self, fact: &Fact, pool: &PoolState) {
        self.recycles.insert(fact.uid.clone(), pool.recycles);
        let sizes = self.sizes.entry(fact.uid.clone()).or_default();
        if sizes.last().is_none_or(|(max, _)| *max != pool.max) {
            if let Some((_, until)) = sizes.last_mut() {
                *until = Some(fact.at);
            }
            sizes.push((pool.max, None));
        }
        if let Some((older, younger)) = self.order.passed_over(&self.world, &fact.name, pool, fact.at) {
            let says = format!("Pool {} serves {younger} before {older}, which is older and waits", fact.name);
            self.breaks(Invariant::I5, says, &[&older, &younger]);
        }
        for (number, grant) in pool.grants.iter().enumerate() {
            if pool.grants[..number].iter().any(|earlier| earlier.pod == grant.pod) {
                let says = format!("Pool {} promises Pod {} twice at once", fact.name, grant.pod);
                self.breaks(Invariant::I2, says, &[&grant.pod, &grant.claim, &fact.uid]);
            }
            let owner = [&self.promised, &self.delivered].into_iter().find_map(|to| to.get(&grant.pod)).cloned();
            match owner {
                Some(owner) if owner != grant.claim => {
                    let says = format!("Pool {} promises Pod {} to a second claim", fact.name, grant.pod);
                    self.breaks(Invariant::I2, says, &[&grant.pod, &grant.claim, &owner]);
                }
                Some(_) => {}
                None => {
                    self.promised.insert(grant.pod.clone(), grant.claim.clone());
                }
            }
        }
    }

    fn judge_claim(&mut self, fact: &Fact, claim: &ClaimState) {
        let before = self.world.claims.get(&fact.uid).cloned();
        let ends = fact.ending || fact.change == Change::Deleted;
        if ends && before.as_ref().is_none_or(|before| !before.ending) {
            self.claim_ended(fact, claim);
        }
        if fact.change == Change::Deleted {
            return;
        }
        self.order.note(&fact.uid, before.as_ref().map(|before| &before.state), claim, fact.at);
        for uid in claim.slots.iter().filter_map(Slot::named) {
            match self.delivered.get(uid).cloned() {
                Some(first) if first != fact.uid => {
                    let says = format!("Pod {uid} is delivered to {} and was delivered to another", fact.name);
                    self.breaks(Invariant::I1, says, &[uid, &fact.uid, &first]);
                }
                Some(_) => {}
                None => {
                    self.delivered.insert(uid.to_owned(), fact.uid.clone());
                }
            }
        }
        let empty = Vec::new();
        let earlier = before.as_ref().map_or(&empty, |before| &before.state.slots);
        self.unnamed(fact, claim, earlier);
    }

    /// I4: a claim that nobody deletes ends at its deadline and not before.
    fn claim_ended(&mut self, fact: &Fact, claim: &ClaimState) {
        if self.acts.ended.contains(&fact.uid) {
            return;
        }
        match claim.expires {
            None => {
                let says = format!("{} is ended, has no deadline, and nobody deleted it", fact.name);
                self.breaks(Invariant::I4, says, &[&fact.uid]);
            }
            // The line came after the deletion: what is early here was early.
            Some(deadline) if deadline > fact.at => {
                let early = deadline.duration_since(fact.at);
                let says = format!("{} is ended {early:?} before its deadline {deadline}", fact.name);
                self.breaks(Invariant::I4, says, &[&fact.uid]);
            }
            Some(_) => {}
        }
    }

    /// I6: a claim gives a Pod up when it is dead, or not wanted any more; it loses none that is healthy.
    fn unnamed(&mut self, fact: &Fact, claim: &ClaimState, earlier: &[Slot]) {
        for (index, slot) in claim.slots.iter().enumerate() {
            if let Slot::Lost(uid) = slot
                && earlier.get(index) != Some(slot)
                && !self.world.is_dead(uid)
            {
                let says = format!("{} declares Pod {uid} lost, which lives", fact.name);
                self.breaks(Invariant::I6, says, &[uid, &fact.uid]);
            }
        }
        for (index, uid) in earlier.iter().enumerate().filter_map(|(index, slot)| Some((index, slot.named()?))) {
            let now = claim.slots.get(index);
            let kept = now.and_then(Slot::named) == Some(uid) || now == Some(&Slot::Lost(uid.to_owned()));
            if !kept && index < claim.replicas && !self.world.is_dead(uid) {
                let says = format!("{} gives up Pod {uid}, which it wants and which lives", fact.name);
                self.breaks(Invariant::I6, says, &[uid, &fact.uid]);
            }
        }
    }
}

/// Pods from a claim's own template that lie beyond its replicas are deleted first and then un-named; no ledger is
/// involved.
fn is_beyond(claim: &ClaimState, pod: &str) -> bool {
    let index = claim.slots.iter().position(|slot| slot.named() == Some(pod));
    claim.pool.is_none() && index.is_some_and(|index| index >= claim.replicas)
}

fn within(earlier: Timestamp, later: Timestamp, limit: Duration) -> bool {
    Duration::try_from(later.duration_since(earlier)).is_ok_and(|passed| passed <= limit)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
