//! I5, its order: whoever waits longest is served first.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::fact::{ClaimState, PoolState, Slot};
use super::world::World;

/// As long as this a leader may not know of a claim: faults freeze watches and hold writes for less.
const KNOWN_AFTER: Duration = Duration::from_secs(30);

/// Since when each claim asks for what it asks for now.
#[derive(Default)]
pub(super) struct Order {
    since: BTreeMap<String, Timestamp>,
}

impl Order {
    /// Notes a claim's new state.
    pub fn note(&mut self, uid: &str, before: Option<&ClaimState>, now: &ClaimState, at: Timestamp) {
        if before != Some(now) {
            self.since.insert(uid.to_owned(), at);
        }
    }

    /// A claim that was passed over by a Pool's new ledger, and the younger one that was served instead.
    pub fn passed_over(&self, world: &World, name: &str, pool: &PoolState, at: Timestamp) -> Option<(String, String)> {
        let before = world.pool_named(name).map(|(_, before)| before.state.grants.clone()).unwrap_or_default();
        let new = pool.grants.iter().filter(|grant| !before.contains(grant));
        let youngest = new.filter_map(|grant| Some((world.claims.get(&grant.claim)?.state.created?, &grant.claim)));
        let (created, served) = youngest.max()?;
        let waits = |uid: &String, claim: &ClaimState| {
            claim.pool.as_deref() == Some(name)
                && claim.created.is_some_and(|mine| mine < created)
                && i64::try_from(claim.replicas).is_ok_and(|wanted| wanted <= pool.max)
                && has_open(uid, claim, pool)
                && self.since.get(uid).is_some_and(|since| known(*since, at))
        };
        let older = world.claims.iter().find(|(uid, claim)| !claim.ending && waits(uid, &claim.state));
        older.map(|(uid, _)| (uid.clone(), served.clone()))
    }
}

/// Whether it asks for a Pod that the ledger does not promise it.
fn has_open(uid: &str, claim: &ClaimState, pool: &PoolState) -> bool {
    if claim.failed && !claim.replaces {
        return false;
    }
    let promised = |index: usize| pool.grants.iter().any(|grant| grant.claim == uid && grant.index == index);
    (0..claim.replicas).any(|index| match claim.slots.get(index).unwrap_or(&Slot::Open) {
        Slot::Open => !promised(index),
        Slot::Lost(_) => claim.replaces && !promised(index),
        Slot::Named { .. } => false,
    })
}

fn known(since: Timestamp, at: Timestamp) -> bool {
    Duration::try_from(at.duration_since(since)).is_ok_and(|waited| waited > KNOWN_AFTER)
}
