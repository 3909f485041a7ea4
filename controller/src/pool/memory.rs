//! What this process remembers of each Pool, beside what the stores have.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::jiff::Timestamp;
use sandbox_api::Pool;
use sandbox_api::ledger::PodRef;
use sandbox_core::failure::Failure;
use sandbox_core::ids::PodKey;
use sandbox_core::pool::roster::Roster;
use sandbox_core::pool::{Anchor, Standing, StartFailures};
use tokio::time::Instant;

use crate::store::{Key, Seq};

/// Failures this close together are of one round of creations.
const ROUND_MS: i128 = 500;

/// Of one Pool.
#[derive(Debug)]
pub struct Memory {
    /// The token under which this process holds the Pool. A new one for each
    /// taking.
    pub token: String,
    /// The newest version seen, kept past its end.
    pub last: Arc<Pool>,
    /// When the request was sent that last proved the Pool to be ours: facts
    /// that arrived up to then may be acted on.
    pub proof: Seq,
    /// What had arrived when the write of its status that is under way was
    /// decided.
    pub decided: Seq,
    /// When its status was last written by us.
    pub last_commit: Option<Timestamp>,
    /// After its end: the claims (uids) that the live list of its namespace
    /// showed.
    pub listed_claims: Option<Arc<BTreeSet<Arc<str>>>>,
    /// It is being taken over: nothing may be planned on what is known.
    pub taking_over: bool,
    /// Its anchors.
    pub anchors: Vec<Anchor>,
    /// Writes of anchors that run.
    pub anchoring: usize,
    /// Slots whose Pod is being created.
    pub creating: BTreeSet<u32>,
    /// Slots whose name somebody else's Pod has, until when to leave them.
    pub blocked: HashMap<u32, Instant>,
    /// Pods that failed to start of late.
    pub start_failures: StartFailures,
    /// Why the last creation was refused.
    pub create_failure: Option<Failure>,
    /// Which of its Pods a plan has to look at.
    pub roster: Roster,
    /// All Pods that were there when it was first looked at are in the roster.
    pub enrolled: bool,
    /// What the last plan told about the Pool.
    pub standing: Option<Standing>,
}

impl Memory {
    fn new(pool: Arc<Pool>, token: String, anchors: Vec<Anchor>) -> Self {
        Self {
            token,
            last: pool,
            proof: Seq::default(),
            decided: Seq::default(),
            last_commit: None,
            listed_claims: None,
            taking_over: false,
            anchors,
            anchoring: 0,
            creating: BTreeSet::new(),
            blocked: HashMap::new(),
            start_failures: StartFailures::default(),
            create_failure: None,
            roster: Roster::default(),
            enrolled: false,
            standing: None,
        }
    }

    /// A request sent at this point proved the Pool to be ours.
    pub fn proved(&mut self, sent: Seq) {
        self.proof = self.proof.max(sent);
    }

    /// Up to where facts may be acted on, for a look that begins now. While a
    /// write of the status is under way, those that it was decided on: a claim
    /// that changed since may want what that write takes back, and a live read
    /// of the Pool meanwhile does not show it.
    pub fn good(&mut self, committing: bool, now: Seq) -> Seq {
        if committing {
            return self.proof.min(self.decided);
        }
        self.decided = now;
        self.proof
    }

    /// A Pod did not start, or could not be made. Those of one round are one
    /// failure.
    pub fn start_failed(&mut self) {
        let now = Timestamp::now();
        let same_round = |last: Timestamp| now.duration_since(last).as_millis() <= ROUND_MS;
        if self.start_failures.last.is_none_or(|last| !same_round(last)) {
            self.start_failures = StartFailures { count: self.start_failures.count.saturating_add(1), last: Some(now) };
        }
    }
}

/// Of all Pools, by uid.
#[derive(Debug, Default)]
pub struct Memories {
    pools: Mutex<HashMap<String, Arc<Mutex<Memory>>>>,
    found: Mutex<HashMap<String, Vec<Anchor>>>,
    gone: Mutex<HashMap<Key, BTreeSet<String>>>,
}

impl Memories {
    /// Anchors that were found at start, by Pool uid.
    pub fn anchors_found(&self, anchors: HashMap<String, Vec<Anchor>>) {
        for (uid, anchors) in anchors {
            // A Pool that was just taken over has its memory already.
            if self.with(&uid, |memory| memory.anchors.clone_from(&anchors)).is_none() {
                self.found.lock().unwrap_or_else(PoisonError::into_inner).insert(uid, anchors);
            }
        }
    }

    /// Whether anchors of this Pool were found at start that nobody has taken up since.
    #[must_use]
    pub fn has_found(&self, uid: &str) -> bool {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).contains_key(uid)
    }

    /// The memory of a Pool, made if there is none.
    pub fn open(&self, pool: &Arc<Pool>, token: impl FnOnce() -> String) -> Arc<Mutex<Memory>> {
        let uid = pool.metadata.uid.clone().unwrap_or_default();
        let mut pools = self.lock();
        let memory = pools.entry(uid.clone()).or_insert_with(|| {
            let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            let anchors = found.remove(&uid).unwrap_or_default();
            Arc::new(Mutex::new(Memory::new(Arc::clone(pool), token(), anchors)))
        });
        Arc::clone(memory)
    }

    /// The memory of a Pool, if it has one.
    #[must_use]
    pub fn get(&self, uid: &str) -> Option<Arc<Mutex<Memory>>> {
        self.lock().get(uid).map(Arc::clone)
    }

    /// Changes the memory of a Pool, if it has one.
    pub fn with<T>(&self, uid: &str, change: impl FnOnce(&mut Memory) -> T) -> Option<T> {
        let memory = self.get(uid)?;
        let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
        Some(change(&mut memory))
    }

    /// Namespace and name of a Pool that is remembered.
    #[must_use]
    pub fn key(&self, uid: &str) -> Option<Key> {
        self.with(uid, |memory| Key::of(&*memory.last))
    }

    /// A Pod of this Pool became ready.
    pub fn started(&self, uid: &str) {
        self.with(uid, |memory| memory.start_failures = StartFailures::default());
    }

    /// A Pod of this Pool ended before it was ever ready.
    pub fn failed_to_start(&self, uid: &str) {
        self.with(uid, Memory::start_failed);
    }

    /// The next plan of this Pool has to look at this Pod.
    pub fn touch(&self, uid: &str, pod: PodKey) {
        self.with(uid, |memory| memory.roster.touch(pod));
    }

    /// The next plans of all Pools have to look at all their Pods.
    pub fn touch_all(&self) {
        let all: Vec<_> = self.lock().values().map(Arc::clone).collect();
        for memory in all {
            memory.lock().unwrap_or_else(PoisonError::into_inner).roster.touch_all();
        }
    }

    /// The Pool is gone, but not all of it: its claims still concern it.
    pub fn is_gone(&self, key: &Key, uid: &str) {
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        gone.entry(key.clone()).or_default().insert(uid.to_owned());
    }

    /// Gone Pools of this name of which something is left, by uid.
    #[must_use]
    pub fn gone(&self, key: &Key) -> Vec<String> {
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        gone.get(key).into_iter().flatten().cloned().collect()
    }

    /// A warm Pod of this Pool ended. Unless the ledger retired it, its anchor
    /// (one of `owners`) is no longer taken for granted.
    pub fn doubt_anchor(&self, uid: &str, pod: &str, owners: &[&str]) {
        self.with(uid, |memory| {
            let retiring = memory.last.status.iter().flat_map(|status| &status.retiring);
            let retired = retiring.filter_map(|entry| entry.parse::<PodRef>().ok()).any(|retired| retired.uid == pod);
            if !retired {
                memory.anchors.retain(|anchor| !owners.contains(&&*anchor.uid));
            }
        });
    }

    /// The Pool is gone and nothing of it is left.
    pub fn forget(&self, key: &Key, uid: &str) {
        self.lock().remove(uid);
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(uids) = gone.get_mut(key) {
            uids.remove(uid);
            if uids.is_empty() {
                gone.remove(key);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Mutex<Memory>>>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
