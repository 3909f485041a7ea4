//! A toy cluster with one operator: objects with resourceVersions and preconditions, a store that sees them, and an `apply`
//! that does what an action says and nothing else.

#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use sandbox_api::{BatchSandbox, CapacitySpec, Pool};
use sandbox_core::batch_sandbox;
use sandbox_core::claim::{self, Claim, SeenPod};
use sandbox_core::grant::PoolLife;
use sandbox_core::ids::{ClaimKey, PodKey};
use sandbox_core::pod::Pod;
use sandbox_core::pool::roster::{Rest, Roster, Stamp, is_open, open_indexes, touched_by};
use sandbox_core::pool::{Action, Anchor, Observed, Plan, SeenClaim, StartFailures, plan};
use serde_json::{Value, json};

pub const POOL: &str = "ci";
const POOL_UID: &str = "11111111-aaaa";

/// The cluster, seen by one operator that misses nothing.
pub struct Toy {
    pub now: Timestamp,
    pub pool: Arc<Pool>,
    pub pods: BTreeMap<PodKey, (Pod, u64)>,
    pub claims: BTreeMap<ClaimKey, (BatchSandbox, u64)>,
    pub gone_pods: BTreeSet<Arc<str>>,
    pub gone_claims: BTreeSet<Arc<str>>,
    pub anchors: Vec<Anchor>,
    pub last_commit: Option<Timestamp>,
    pub sick_nodes: BTreeSet<String>,
    pub life: PoolLife,
    /// Pods that the kubelet never makes ready.
    pub hung: BTreeSet<PodKey>,
    pub start_failures: StartFailures,
    last_full: Option<Timestamp>,
    pub listed_claims: Option<Arc<BTreeSet<Arc<str>>>>,
    /// Every Pod that any claim was ever given, and whose it was.
    pub delivered: BTreeMap<String, String>,
    pub most_pods: usize,
    roster: Roster,
    sick_before: BTreeSet<String>,
    clock: u64,
    proof: u64,
    uids: u64,
}

impl Toy {
    pub fn new(size: CapacitySpec) -> Self {
        let pool = json!({
            "apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "Pool",
            "metadata": {"name": POOL, "namespace": "ns", "uid": POOL_UID, "resourceVersion": "1", "generation": 1},
            "spec": {
                "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
                "capacitySpec": size,
            },
        });
        Self {
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            pool: Arc::new(serde_json::from_value(pool).unwrap()),
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            gone_pods: BTreeSet::new(),
            gone_claims: BTreeSet::new(),
            anchors: Vec::new(),
            last_commit: None,
            sick_nodes: BTreeSet::new(),
            life: PoolLife::Live,
            hung: BTreeSet::new(),
            start_failures: StartFailures::default(),
            last_full: None,
            listed_claims: None,
            delivered: BTreeMap::new(),
            most_pods: 0,
            roster: Roster::default(),
            sick_before: BTreeSet::new(),
            clock: 1,
            proof: 0,
            uids: 0,
        }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn uid(&mut self) -> String {
        self.uids += 1;
        format!("u{}", self.uids)
    }

    pub fn claim(&mut self, name: &str, replicas: i32) -> ClaimKey {
        let uid = self.uid();
        let seq = self.tick();
        let object: BatchSandbox = serde_json::from_value(json!({
            "apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "BatchSandbox",
            "metadata": {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": seq.to_string(), "generation": 1,
                "creationTimestamp": self.now.to_string()},
            "spec": {"replicas": replicas, "poolRef": POOL},
        }))
        .unwrap();
        let key = batch_sandbox::read(&object).key;
        self.claims.insert(key.clone(), (object, seq));
        key
    }

    /// Deletes a claim, and its Pods with it, as the garbage collector does.
    pub fn end_claim(&mut self, key: &ClaimKey) {
        let before = self.claims.remove(key).map(|(object, _)| batch_sandbox::read(&object));
        self.claim_changed(before.as_ref(), None);
        self.gone_claims.insert(key.uid.clone());
        let owned: Vec<_> = self
            .pods
            .iter()
            .filter(|(_, (pod, _))| pod.claim_owner() == Some(&*key.uid))
            .map(|(key, _)| key.clone())
            .collect();
        owned.iter().for_each(|pod| self.end_pod(pod));
    }

    pub fn end_pod(&mut self, key: &PodKey) {
        self.pods.remove(key);
        self.roster.forget(key);
        self.gone_pods.insert(key.uid.clone());
    }

    /// The kubelet makes every Pod ready.
    pub fn start_pods(&mut self) {
        let keys: Vec<_> = self.pods.keys().cloned().collect();
        for key in keys {
            let seq = self.tick();
            let (pod, at) = self.pods.get_mut(&key).unwrap();
            if pod.is_ready() || pod.is_terminal() || self.hung.contains(&key) {
                continue;
            }
            pod.spec.node_name = Some("node".to_owned());
            pod.status = serde_json::from_value(json!({
                "phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}],
            }))
            .unwrap();
            pod.metadata.resource_version = Some(seq.to_string());
            *at = seq;
            self.roster.touch(key);
        }
    }

    /// What a claim's change makes a plan of its Pool look at.
    fn claim_changed(&mut self, before: Option<&Claim>, after: Option<&Claim>) {
        touched_by(before, after).into_iter().for_each(|pod| self.roster.touch(pod));
        if let (Some(ended), None) = (before, after) {
            let marked = |(pod, _): &(Pod, u64)| pod.held_by().is_some_and(|(claim, _)| claim == ended.key);
            let marked: Vec<_> = self.pods.iter().filter(|(_, pod)| marked(pod)).map(|(key, _)| key.clone()).collect();
            marked.into_iter().for_each(|pod| self.roster.touch(pod));
        }
    }

    /// Somebody edits a Pod by hand.
    pub fn edit_pod(&mut self, key: &PodKey, edit: impl FnOnce(&mut Pod)) {
        let seq = self.tick();
        let (pod, at) = self.pods.get_mut(key).unwrap();
        edit(pod);
        pod.metadata.resource_version = Some(seq.to_string());
        *at = seq;
        self.roster.touch(key.clone());
    }

    /// A Pod that never gets ready, with this status.
    pub fn hang(&mut self, key: &PodKey, status: Value) {
        self.hung.insert(key.clone());
        self.edit_pod(key, |pod| pod.status = serde_json::from_value(status).unwrap());
    }

    pub fn read(&self, key: &ClaimKey) -> Claim {
        batch_sandbox::read(&self.claims[key].0)
    }

    pub fn observe(&self) -> Observed {
        let seen = |seq: u64| seq <= self.proof;
        Observed {
            now: self.now,
            me: "1/me".to_owned(),
            pool: self.pool.clone(),
            life: self.life,
            listed_claims: self.listed_claims.clone(),
            committing: false,
            last_commit: self.last_commit,
            pods: self
                .pods
                .iter()
                .map(|(key, (pod, seq))| {
                    (key.clone(), SeenPod { pod: Arc::new(pod.clone()), confirmed: seen(*seq), busy: false })
                })
                .collect(),
            rest: Rest::default(),
            gone_pods: self.gone_pods.clone(),
            claims: self
                .claims
                .iter()
                .map(|(key, (claim, seq))| {
                    let claim = Arc::new(batch_sandbox::read(claim));
                    (key.clone(), SeenClaim { claim, confirmed: seen(*seq), busy: false })
                })
                .collect(),
            gone_claims: self.gone_claims.clone(),
            sick_nodes: self.sick_nodes.clone(),
            creating: BTreeSet::new(),
            blocked: BTreeSet::new(),
            anchors: self.anchors.clone(),
            anchoring: false,
            start_failures: self.start_failures,
            last_full: self.last_full,
            create_failure: None,
        }
    }

    /// Without the Pods at rest, as the operator observes.
    fn observe_what_changed(&mut self) -> (Observed, Stamp) {
        let mut seen = self.observe();
        self.roster.pool(&self.pool);
        if self.sick_before != self.sick_nodes || self.life == PoolLife::Gone {
            self.sick_before.clone_from(&self.sick_nodes);
            self.roster.touch_all();
        }
        let open = seen.claims.values().filter(|seen| is_open(&seen.claim)).map(|seen| open_indexes(&seen.claim)).sum();
        self.roster.offer(open, self.pool.spec.capacity_spec.buffer_max.max(0) as usize);
        let ledger = self.pool.status.clone().unwrap_or_default();
        let granted = ledger.grants.iter().flat_map(|grant| &grant.pods).map(|pod| pod.rsplit('/').next().unwrap());
        let retiring = ledger.retiring.iter().map(|pod| pod.rsplit('/').next().unwrap());
        for uid in granted.chain(retiring) {
            if let Some(key) = self.pods.keys().find(|key| &*key.uid == uid) {
                self.roster.touch(key.clone());
            }
        }
        let restless: BTreeSet<PodKey> = self.roster.restless().into_iter().collect();
        seen.pods.retain(|key, _| restless.contains(key));
        let marked: BTreeSet<ClaimKey> =
            seen.pods.values().filter_map(|seen| seen.pod.held_by().map(|(claim, _)| claim)).collect();
        let granted = |key: &ClaimKey| ledger.grants.iter().any(|grant| grant.claim.ends_with(&*key.uid));
        seen.claims.retain(|key, seen| {
            let names = seen.claim.status.slots.iter().filter_map(|slot| slot.named_uid());
            let names = names.map(|uid| PodKey::new(uid, "")).any(|pod| restless.contains(&pod));
            is_open(&seen.claim) || names || marked.contains(key) || granted(key)
        });
        seen.rest = self.roster.rest();
        (seen, self.roster.stamp())
    }

    /// How many Pods the next plan looks at.
    pub fn looked_at(&mut self) -> usize {
        self.observe_what_changed().0.pods.len()
    }

    /// Plans, and applies of it what `choose` lets through; the rest is lost, as after a crash. True if anything was done.
    pub fn step(&mut self, mut choose: impl FnMut(&Action) -> bool) -> bool {
        let (observed, stamp) = self.observe_what_changed();
        let whole = plan(&self.observe());
        let Plan { actions, again, at_rest, standing, finished } = plan(&observed);
        assert_eq!((&actions, again, &standing), (&whole.actions, whole.again, &whole.standing), "as if all were seen");
        assert_eq!(finished, whole.finished);
        self.roster.settle(at_rest, stamp);
        self.last_full = standing.and_then(|standing| standing.full);
        let mut acted = false;
        for action in actions {
            if choose(&action) {
                acted |= self.apply(action);
            }
        }
        self.most_pods = self.most_pods.max(self.pods.len());
        if !acted && let Some(again) = again.filter(|again| *again > self.now) {
            self.now = again;
            return true;
        }
        acted
    }

    /// Every claim's own plan, but for its deadline.
    pub fn step_claims(&mut self) -> bool {
        let keys: Vec<_> = self.claims.keys().cloned().collect();
        let mut acted = false;
        for key in keys {
            let observed = self.observe_claim(&key);
            for action in claim::plan(&observed).actions {
                acted |= match action {
                    claim::Action::WriteStatus { report } => {
                        self.apply(Action::WriteClaim { claim: observed.claim.clone(), report })
                    }
                    claim::Action::ProvePod(pod) => self.apply(Action::ProvePod(pod)),
                    other => panic!("not for a claim on a pool: {other:?}"),
                };
            }
        }
        acted
    }

    fn observe_claim(&self, key: &ClaimKey) -> claim::Observed {
        let observed = self.observe();
        let claim = observed.claims[key].claim.clone();
        claim::Observed {
            now: self.now,
            busy: false,
            pods: observed.pods,
            gone: self.gone_pods.clone(),
            pool: match self.life {
                PoolLife::Gone => Some(claim::PoolSituation::Missing),
                PoolLife::Live | PoolLife::Ending => {
                    plan(&self.observe()).standing.map(|standing| standing.situation(&claim))
                }
            },
            pools: Vec::new(),
            profile: Arc::default(),
            creating: BTreeSet::new(),
            create_failure: None,
            tasks: BTreeMap::new(),
            claim,
        }
    }

    /// Runs without faults until nothing is left to do; the kubelet keeps up.
    pub fn rest(&mut self) {
        for _ in 0..400 {
            let acted = self.step(|_| true) | self.step_claims();
            let before = self.clock;
            let starting = self.pods.values().any(|(pod, _)| !pod.is_ready());
            self.start_pods();
            if !acted && !starting {
                return;
            }
            assert!(before < self.clock || acted);
        }
        panic!("does not come to rest: {:#?}", plan(&self.observe()).actions);
    }

    fn apply(&mut self, action: Action) -> bool {
        match action {
            Action::TakeOver => panic!("a lone operator takes nothing over"),
            Action::ProvePool => {
                self.proof = self.clock;
                self.tick();
                true
            }
            Action::Commit { resource_version, status } => self.commit(&resource_version, *status),
            Action::WriteClaim { claim, report } => {
                let seq = self.tick();
                let Some((object, at)) = self.claims.get_mut(&claim.key) else { return false };
                if object.metadata.resource_version.as_deref() != Some(&claim.resource_version) {
                    return false;
                }
                let before = batch_sandbox::read(object);
                object.status = Some(batch_sandbox::status(object.status.as_ref(), &report));
                object.metadata.resource_version = Some(seq.to_string());
                *at = seq;
                let after = batch_sandbox::read(object);
                self.claim_changed(Some(&before), Some(&after));
                for slot in &report.slots {
                    if let Some(pod) = slot.named_uid() {
                        let before = self.delivered.insert(pod.to_owned(), claim.key.uid.to_string());
                        assert!(before.is_none_or(|before| *before == *claim.key.uid), "pod {pod} was delivered twice");
                    }
                }
                true
            }
            Action::PatchPod { pod, patch, .. } | Action::Readopt { pod, patch, .. } => self.patch_pod(&pod, &patch),
            Action::DeletePod { pod, resource_version, unless_named_by, .. } => {
                let named = unless_named_by.is_some_and(|claim| {
                    self.claims.get(&claim).is_some_and(|(object, _)| {
                        sandbox_core::pool::pod::is_named_by(&batch_sandbox::read(object), &pod)
                    })
                });
                let current = self.pods.get(&pod).and_then(|(pod, _)| pod.metadata.resource_version.clone());
                if named || current.is_none() || resource_version.is_some_and(|version| Some(version) != current) {
                    return false;
                }
                let holder = self.delivered.get(&*pod.uid);
                let live = holder.is_some_and(|uid| self.claims.keys().any(|claim| &*claim.uid == uid.as_str()));
                assert!(!live, "pod {pod:?} of a live claim was deleted");
                self.end_pod(&pod);
                true
            }
            Action::ProvePod(pod) => !self.pods.contains_key(&pod) && self.gone_pods.insert(pod.uid),
            Action::ProveClaim(claim) => !self.claims.contains_key(&claim) && self.gone_claims.insert(claim.uid),
            Action::CreateAnchor { name, revision, .. } => {
                let uid = self.uid();
                self.anchors.push(Anchor { name, uid, revision });
                true
            }
            Action::DeleteAnchor(anchor) => {
                let owns =
                    |pod: &Pod| pod.metadata.owner_references.iter().flatten().any(|owner| owner.uid == anchor.uid);
                assert!(!self.pods.values().any(|(pod, _)| owns(pod)), "an anchor that owns a pod was deleted");
                self.anchors.retain(|known| *known != anchor);
                true
            }
            Action::CreatePod { name, body, .. } => self.create_pod(&name, body),
            Action::ListClaims => {
                self.listed_claims = Some(Arc::new(self.claims.keys().map(|key| key.uid.clone()).collect()));
                true
            }
        }
    }

    fn commit(&mut self, resource_version: &str, status: sandbox_api::PoolStatus) -> bool {
        if self.pool.metadata.resource_version.as_deref() != Some(resource_version) {
            return false;
        }
        self.proof = self.clock;
        let seq = self.tick();
        let mut pool = (*self.pool).clone();
        pool.status = Some(status);
        pool.metadata.resource_version = Some(seq.to_string());
        self.pool = Arc::new(pool);
        self.last_commit = Some(self.now);
        true
    }

    pub fn edit_pool(&mut self, edit: impl FnOnce(&mut Pool)) {
        let seq = self.tick();
        let mut pool = (*self.pool).clone();
        edit(&mut pool);
        pool.metadata.resource_version = Some(seq.to_string());
        self.pool = Arc::new(pool);
    }

    pub fn edit_claim(&mut self, key: &ClaimKey, edit: impl FnOnce(&mut BatchSandbox)) {
        let seq = self.tick();
        let (object, at) = self.claims.get_mut(key).unwrap();
        let before = batch_sandbox::read(object);
        edit(object);
        object.metadata.resource_version = Some(seq.to_string());
        *at = seq;
        let after = batch_sandbox::read(object);
        self.claim_changed(Some(&before), Some(&after));
    }

    fn patch_pod(&mut self, key: &PodKey, patch: &Value) -> bool {
        let seq = self.tick();
        let Some((pod, at)) = self.pods.get_mut(key) else { return false };
        let version = patch["metadata"]["resourceVersion"].as_str();
        if pod.metadata.resource_version.as_deref() != version {
            return false;
        }
        let mut object = serde_json::to_value(&*pod).unwrap();
        rfc7386(&mut object, patch);
        *pod = serde_json::from_value(object).unwrap();
        pod.metadata.resource_version = Some(seq.to_string());
        *at = seq;
        self.roster.touch(key.clone());
        true
    }

    fn create_pod(&mut self, name: &str, body: Value) -> bool {
        if self.pods.keys().any(|key| &*key.name == name) {
            return false;
        }
        let seq = self.tick();
        let mut pod: Pod = serde_json::from_value(body).unwrap();
        pod.metadata.uid = Some(self.uid());
        pod.metadata.resource_version = Some(seq.to_string());
        pod.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(self.now));
        self.roster.touch(pod.key());
        self.pods.insert(pod.key(), (pod, seq));
        true
    }

    pub fn wait(&mut self, seconds: i64) {
        self.now = self.now.saturating_add(SignedDuration::from_secs(seconds)).unwrap();
    }
}

fn rfc7386(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            rfc7386(target.as_object_mut().unwrap().entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}
