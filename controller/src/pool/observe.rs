//! Everything that decides about one Pool, out of the stores.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use k8s_openapi::jiff::Timestamp;
use sandbox_api::ledger::{ClaimRef, GrantedPod, PodRef};
use sandbox_api::{Pool, labels};
use sandbox_core::claim::{Claim, SeenPod};
use sandbox_core::grant::PoolLife;
use sandbox_core::ids::{ClaimKey, PodKey};
use sandbox_core::pod::Pod;
use sandbox_core::pool::roster::{Roster, Stamp, open_indexes};
use sandbox_core::pool::{Observed, SeenClaim, pod};
use tokio::time::Instant;

use crate::context::{Context, HeldClaim, PoolAt};
use crate::in_flight::Target;
use crate::pool::memory::Memory;
use crate::store::kinds::{ClaimIndex, NodeIndex, PodIndex, PodRecord};
use crate::store::{Held, Seq};

/// What is known of a Pool; none while it is being taken over, or if nothing
/// is.
pub(super) fn observe(context: &Context, at: &PoolAt) -> Option<(Observed, Stamp)> {
    // Asked before the Pool is read: what a write that ends in between wrote is
    // then read, or waited for.
    let committing = context.in_flight.contains(&Target::Ledger(at.uid.clone()));
    let (pool, life) = newest(context, at)?;
    let memory = context.memories.open(&pool, || context.token());
    let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
    memory.last = Arc::clone(&pool);
    if life == PoolLife::Gone {
        context.memories.is_gone(&at.key, &at.uid);
    }
    if memory.taking_over {
        return None;
    }
    memory.blocked.retain(|_, until| *until > Instant::now());
    enrol(context, at, &mut memory, life);
    let good = memory.good(committing, context.calls.now());
    let mut view = View::new(context, good);
    view.pool(at, &pool, &mut memory.roster);
    let observed = Observed {
        now: Timestamp::now(),
        me: memory.token.clone(),
        life,
        listed_claims: memory.listed_claims.clone(),
        committing,
        last_commit: memory.last_commit,
        gone_pods: view.gone_pods,
        pods: view.pods,
        rest: memory.roster.rest(),
        gone_claims: view.gone_claims,
        claims: view.claims,
        sick_nodes: context.sick_nodes(),
        creating: memory.creating.clone(),
        blocked: memory.blocked.keys().copied().collect(),
        anchors: memory.anchors.clone(),
        anchoring: memory.anchoring > 0,
        start_failures: memory.start_failures,
        last_full: memory.standing.as_ref().and_then(|standing| standing.full),
        create_failure: memory.create_failure.clone(),
        pool,
    };
    Some((observed, memory.roster.stamp()))
}

/// Brings the roster up to what no change of a Pod or claim tells it.
fn enrol(context: &Context, at: &PoolAt, memory: &mut Memory, life: PoolLife) {
    let roster = &mut memory.roster;
    if !memory.enrolled {
        memory.enrolled = true;
        for held in context.pods.indexed(&PodIndex::Pool(at.uid.clone())) {
            roster.touch(held.object.0.key());
        }
        let index = ClaimIndex::Pool(at.key.namespace.clone(), at.key.name.clone());
        for held in context.claims_indexed(&index) {
            strays(context, &memory.last, &held.claim).for_each(|pod| roster.touch(pod));
        }
    }
    roster.pool(&memory.last);
    if life == PoolLife::Gone {
        roster.touch_all();
    }
}

/// Pods that a claim names and that are this Pool's by name only: their labels
/// were stripped.
fn strays<'a>(context: &'a Context, pool: &'a Pool, claim: &'a Claim) -> impl Iterator<Item = PodKey> + 'a {
    let uids = claim.status.slots.iter().filter_map(|slot| slot.named_uid());
    let held = uids.filter_map(|uid| context.pods.by_uid(uid)).map(|held| Arc::clone(&held.object.0));
    held.filter(|seen| is_of(pool, seen)).filter(|seen| seen.label(labels::POOL_UID).is_none()).map(|seen| seen.key())
}

/// Whether a Pod is this Pool's, by label or, where that was stripped, by name.
fn is_of(pool: &Pool, seen: &Pod) -> bool {
    match seen.label(labels::POOL_UID) {
        Some(of) => Some(of) == pool.metadata.uid.as_deref(),
        None => seen.metadata.name.as_deref().is_some_and(|name| pod::slot(pool, name).is_some()),
    }
}

/// The Pool as last seen, and whether it exists. One that only its Pods tell
/// of is made up from their labels: its name and uid are all that its end
/// needs.
fn newest(context: &Context, at: &PoolAt) -> Option<(Arc<Pool>, PoolLife)> {
    if let Some(held) = context.pools.by_uid(&at.uid) {
        let ending = held.object.metadata.deletion_timestamp.is_some();
        return Some((held.object, if ending { PoolLife::Ending } else { PoolLife::Live }));
    }
    if !context.proofs.is_gone(&at.uid) {
        return None;
    }
    let remembered = context.memories.with(&at.uid, |memory| Arc::clone(&memory.last));
    let nothing_left =
        || context.pods.count(&PodIndex::Pool(at.uid.clone())) == 0 && !context.memories.has_found(&at.uid);
    if remembered.is_none() && nothing_left() {
        return None;
    }
    Some((remembered.unwrap_or_else(|| Arc::new(made_up(at))), PoolLife::Gone))
}

fn made_up(at: &PoolAt) -> Pool {
    let mut pool = Pool::new(&at.key.name, sandbox_api::PoolSpec::default());
    pool.metadata.namespace = Some(at.key.namespace.clone());
    pool.metadata.uid = Some(at.uid.clone());
    pool
}

struct View<'a> {
    context: &'a Context,
    proof: Seq,
    pods: BTreeMap<PodKey, SeenPod>,
    claims: BTreeMap<ClaimKey, SeenClaim>,
    gone_pods: BTreeSet<Arc<str>>,
    gone_claims: BTreeSet<Arc<str>>,
}

impl<'a> View<'a> {
    fn new(context: &'a Context, proof: Seq) -> Self {
        Self {
            context,
            proof,
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            gone_pods: BTreeSet::new(),
            gone_claims: BTreeSet::new(),
        }
    }

    fn pool(&mut self, at: &PoolAt, pool: &Pool, roster: &mut Roster) {
        let waiting = self.context.claims_indexed(&ClaimIndex::Open(at.key.namespace.clone(), at.key.name.clone()));
        let open = waiting.iter().map(|held| open_indexes(&held.claim)).sum();
        roster.offer(open, usize::try_from(pool.spec.capacity_spec.buffer_max).unwrap_or(0));
        for held in waiting {
            strays(self.context, pool, &held.claim).for_each(|pod| roster.touch(pod));
            self.claim(held);
        }
        self.ledger(pool);
        self.pods.keys().for_each(|pod| roster.touch(pod.clone()));
        for pod in roster.restless() {
            match self.context.pods.by_uid(&pod.uid).filter(|held| is_of(pool, &held.object.0)) {
                Some(held) => self.pod(&held),
                None if self.pods.contains_key(&pod) => {}
                None => roster.forget(&pod),
            }
        }
        self.holders();
    }

    fn pod(&mut self, held: &Held<PodRecord>) {
        let pod = Arc::clone(&held.object.0);
        let key = pod.key();
        let busy = self.context.in_flight.contains(&Target::Pod(key.uid.to_string()));
        self.pods.insert(key, SeenPod { pod, confirmed: held.seq <= self.proof, busy });
    }

    fn claim(&mut self, held: HeldClaim) {
        let HeldClaim { claim, seq } = held;
        let busy = self.context.in_flight.contains(&Target::Claim(claim.key.uid.to_string()));
        let seen = SeenClaim { confirmed: seq <= self.proof, busy, claim: Arc::clone(&claim) };
        self.claims.insert(claim.key.clone(), seen);
    }

    fn pod_by_uid(&mut self, uid: &str) {
        if let Some(held) = self.context.pods.by_uid(uid) {
            self.pod(&held);
        } else if self.context.proofs.is_gone(uid) {
            self.gone_pods.insert(uid.into());
        }
    }

    fn claim_by_uid(&mut self, uid: &str) {
        if let Some(held) = self.context.claim_by_uid(uid) {
            self.claim(held);
        } else if self.context.proofs.is_gone(uid) {
            self.gone_claims.insert(uid.into());
        }
    }

    /// Pods and claims that the ledger names, wherever they are.
    fn ledger(&mut self, pool: &Pool) {
        let Some(status) = &pool.status else { return };
        for grant in &status.grants {
            if let Ok(ClaimRef { uid, .. }) = grant.claim.parse() {
                self.claim_by_uid(&uid);
            }
            for pod in grant.pods.iter().filter_map(|pod| pod.parse::<GrantedPod>().ok()) {
                self.pod_by_uid(&pod.pod.uid);
            }
        }
        for pod in status.retiring.iter().filter_map(|pod| pod.parse::<PodRef>().ok()) {
            self.pod_by_uid(&pod.uid);
        }
    }

    /// Claims that Pods' marks name, and claims that name Pods.
    fn holders(&mut self) {
        let pods: Vec<Arc<_>> = self.pods.values().map(|seen| Arc::clone(&seen.pod)).collect();
        for pod in pods {
            if let Some((claim, _)) = pod.held_by() {
                self.claim_by_uid(&claim.uid);
            }
            let uid = pod.metadata.uid.clone().unwrap_or_default();
            for held in self.context.claims_indexed(&ClaimIndex::Names(uid)) {
                self.claim(held);
            }
        }
    }
}

impl Context {
    /// A token to hold Pools under.
    #[must_use]
    pub fn token(&self) -> String {
        format!("{}/{}", self.setup.term.number, self.setup.term.process)
    }

    fn sick_nodes(&self) -> BTreeSet<String> {
        let sick = self.nodes.indexed(&NodeIndex::Sick).into_iter();
        sick.filter_map(|held| kube::Resource::meta(&*held.object).name.clone()).collect()
    }
}
