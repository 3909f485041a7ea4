//! What every worker shares.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use sandbox_api::ledger::ClaimKind;
use sandbox_api::{BatchSandbox, Pool, Sandbox};
use sandbox_core::claim::Claim;
use tokio::sync::{Notify, mpsc};

use crate::apply::calls::Calls;
use crate::apply::ending::Ending;
use crate::claim::own_pods::OwnPods;
use crate::claim::tasks::TaskBook;
use crate::claim::waits::Waits;
use crate::events::Events;
use crate::executor::Executor;
use crate::flags::CompatAnnotations;
use crate::in_flight::{InFlight, Writing};
use crate::lease::Term;
use crate::metrics::Metrics;
use crate::pool::memory::Memories;
use crate::proofs::Proofs;
use crate::queue::Queue;
use crate::route;
use crate::store::kinds::{ClaimIndex, ClaimRecord, NodeRecord, PodRecord};
use crate::store::{Arrivals, Key, Seq, Store};

/// A Pool to work on. By uid: a deleted Pool and a new one of its name are
/// worked on apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolAt {
    /// Namespace and name.
    pub key: Key,
    /// Uid.
    pub uid: String,
}

/// A claim to work on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClaimAt {
    /// Which of the two kinds.
    pub kind: ClaimKind,
    /// Namespace and name.
    pub key: Key,
}

impl ClaimAt {
    /// Where a claim is.
    #[must_use]
    pub fn of(claim: &Claim) -> Self {
        Self { kind: claim.key.kind, key: Key::new(claim.namespace.clone(), &*claim.key.name) }
    }
}

/// A claim as stored: as plans read it, and when it arrived.
#[derive(Clone, Debug)]
pub struct HeldClaim {
    /// As plans read it.
    pub claim: Arc<Claim>,
    /// When this version arrived.
    pub seq: Seq,
}

/// How this process is set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// This time in office.
    pub term: Term,
    /// When the older operator's annotations are written.
    pub compat: CompatAnnotations,
    /// The one namespace to watch, or all.
    pub namespace: Option<String>,
}

/// Everything shared.
pub struct Context {
    /// How this process is set up.
    pub setup: Setup,
    /// The way to the API server.
    pub calls: Calls,
    /// The way to task executors in Pods.
    pub executor: Executor,
    /// What is counted.
    pub metrics: Metrics,
    /// Pools.
    pub pools: Store<Pool>,
    /// BatchSandboxes.
    pub batches: Store<ClaimRecord<BatchSandbox>>,
    /// Sandboxes.
    pub singles: Store<ClaimRecord<Sandbox>>,
    /// Pods with our label.
    pub pods: Store<PodRecord>,
    /// Nodes; empty in namespaced mode, where none may be read.
    pub nodes: Store<NodeRecord>,
    /// What live reads proved.
    pub proofs: Proofs,
    /// What is being written.
    pub in_flight: InFlight,
    /// Pools to work on.
    pub pool_queue: Queue<PoolAt>,
    /// Claims to work on.
    pub claim_queue: Queue<ClaimAt>,
    /// What is remembered of each Pool.
    pub memories: Memories,
    /// What is known of tasks.
    pub tasks: TaskBook,
    /// What is remembered of Pods that claims make by themselves.
    pub own_pods: OwnPods,
    /// Claims that wait for Pods of a Pool.
    pub waits: Waits,
    /// What people are told of.
    pub events: Events,
    /// Told whenever a store has become complete.
    pub synced: Notify,
    /// Writes that run.
    pub work: Work,
    fatal: mpsc::UnboundedSender<String>,
}

impl Context {
    /// Wires stores to queues. `fatal` receives what must end the process.
    #[must_use]
    pub fn new(
        setup: Setup,
        calls: Calls,
        arrivals: &Arc<Arrivals>,
        metrics: Metrics,
        fatal: mpsc::UnboundedSender<String>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|context: &Weak<Self>| Self {
            pools: Store::new(Arc::clone(arrivals), route::to(context, route::pool)),
            batches: Store::new(Arc::clone(arrivals), route::to(context, route::claim)),
            singles: Store::new(Arc::clone(arrivals), route::to(context, route::claim)),
            pods: Store::new(Arc::clone(arrivals), route::to(context, route::pod)),
            nodes: Store::new(Arc::clone(arrivals), route::to(context, route::node)),
            proofs: Proofs::default(),
            in_flight: InFlight::default(),
            pool_queue: Queue::new(metrics.queue("pool")),
            claim_queue: Queue::new(metrics.queue("claim")),
            memories: Memories::default(),
            tasks: TaskBook::default(),
            own_pods: OwnPods::default(),
            waits: Waits::new(&metrics),
            events: Events::new(metrics.events.clone()),
            synced: Notify::new(),
            work: Work::default(),
            executor: Executor::default(),
            setup,
            calls,
            metrics,
            fatal,
        })
    }

    /// Ends the process with this reason.
    pub fn fatal(&self, reason: String) {
        // The receiver lives as long as the process.
        let _ = self.fatal.send(reason);
    }

    /// A claim of either kind by uid.
    #[must_use]
    pub fn claim_by_uid(&self, uid: &str) -> Option<HeldClaim> {
        let batch = self.batches.by_uid(uid).map(|held| (Arc::clone(&held.object.claim), held.seq));
        let found = batch.or_else(|| self.singles.by_uid(uid).map(|held| (Arc::clone(&held.object.claim), held.seq)));
        found.map(|(claim, seq)| HeldClaim { claim, seq })
    }

    /// A claim by kind and name.
    #[must_use]
    pub fn claim_at(&self, at: &ClaimAt) -> Option<HeldClaim> {
        let found = match at.kind {
            ClaimKind::BatchSandbox => self.batches.get(&at.key).map(|held| (Arc::clone(&held.object.claim), held.seq)),
            ClaimKind::Sandbox => self.singles.get(&at.key).map(|held| (Arc::clone(&held.object.claim), held.seq)),
        };
        found.map(|(claim, seq)| HeldClaim { claim, seq })
    }

    /// Claims of both kinds under an index entry.
    #[must_use]
    pub fn claims_indexed(&self, index: &ClaimIndex) -> Vec<HeldClaim> {
        let batches = self.batches.indexed(index).into_iter().map(|h| (Arc::clone(&h.object.claim), h.seq));
        let singles = self.singles.indexed(index).into_iter().map(|h| (Arc::clone(&h.object.claim), h.seq));
        batches.chain(singles).map(|(claim, seq)| HeldClaim { claim, seq }).collect()
    }

    /// Work on a target has ended: `wake` looks again, after a pause if it
    /// failed. The pause is no work that the process waits for at its end.
    pub fn over(self: &Arc<Self>, writing: Writing, ending: Ending, wake: impl FnOnce(&Self) + Send + 'static) {
        self.metrics.work.with_label_values(&[writing.target().word(), ending.word()]).inc();
        let Some((pause, resting)) = writing.end(ending) else { return wake(self) };
        let context = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            drop(resting);
            wake(&context);
        });
    }

    /// Look at this Pool again. False if it is not known.
    pub fn wake_pool(&self, uid: &str) -> bool {
        let seen = self.pools.by_uid(uid).map(|held| Key::of(&*held.object));
        let known = seen.or_else(|| self.memories.key(uid));
        if let Some(key) = known.clone() {
            self.pool_queue.add(PoolAt { key, uid: uid.to_owned() });
        }
        known.is_some()
    }

    /// Look at the Pool of this name again, and at those of its name before
    /// it that have not quite ended.
    pub fn wake_pool_named(&self, key: &Key) {
        for uid in self.memories.gone(key) {
            self.pool_queue.add(PoolAt { key: key.clone(), uid });
        }
        if let Some(uid) = self.pools.get(key).and_then(|held| held.object.metadata.uid.clone()) {
            self.pool_queue.add(PoolAt { key: key.clone(), uid });
        }
    }

    /// Look at this claim again.
    pub fn wake_claim(&self, uid: &str) {
        if let Some(held) = self.claim_by_uid(uid) {
            self.claim_queue.add(ClaimAt::of(&held.claim));
        }
    }
}

/// Writes that run. The process ends only after them, within a bound.
#[derive(Clone, Default)]
pub struct Work {
    running: Arc<AtomicUsize>,
    changed: Arc<Notify>,
}

struct Running(Work);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }
}

impl Work {
    /// Runs `work` on its own.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.running.fetch_add(1, Ordering::SeqCst);
        let running = Running(self.clone());
        tokio::spawn(async move {
            work.await;
            drop(running);
        });
    }

    /// Waits until nothing runs, at most `bound`. True if nothing does.
    pub async fn finished(&self, bound: Duration) -> bool {
        let quiet = async {
            loop {
                let changed = self.changed.notified();
                if self.running.load(Ordering::SeqCst) == 0 {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(bound, quiet).await.is_ok()
    }
}
