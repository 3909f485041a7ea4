//! A queue of keys to reconcile.
//!
//! A key waits in it once, is worked on by one worker at a time, and returns
//! by itself after a delay where its plan asks for one. Work that fails comes
//! back after 5 ms, doubling to 30 s, each key by its own count.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus::{Histogram, IntGauge};
use tokio::sync::Notify;
use tokio::time::Instant;

const FIRST_BACK_OFF: Duration = Duration::from_millis(5);
const LAST_BACK_OFF: Duration = Duration::from_secs(30);

/// How work on a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done until something changes.
    Done,
    /// Done, and to be looked at again after this time at the latest.
    Again(Duration),
    /// Failed: again after this key's back-off.
    Failed,
}

/// What a queue reports about itself.
#[derive(Clone)]
pub struct QueueMetrics {
    /// Keys that wait for a worker.
    pub depth: IntGauge,
    /// Seconds between a key becoming due and a worker taking it.
    pub lag: Histogram,
}

/// The queue. Clones are the same queue.
pub struct Queue<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

struct Shared<K> {
    inner: Mutex<Inner<K>>,
    wake: Notify,
    metrics: QueueMetrics,
}

struct Inner<K> {
    ready: VecDeque<(K, Instant)>,
    keys: HashMap<K, State>,
    due: BTreeMap<(Instant, u64), K>,
    ticket: u64,
    closed: bool,
}

/// Everything about one key; a key with nothing to remember has no entry.
#[derive(Default)]
struct State {
    queued: bool,
    running: bool,
    dirty: bool,
    due: Option<(Instant, u64)>,
    failures: u32,
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// An empty queue.
    #[must_use]
    pub fn new(metrics: QueueMetrics) -> Self {
        let inner =
            Inner { ready: VecDeque::new(), keys: HashMap::new(), due: BTreeMap::new(), ticket: 0, closed: false };
        Self { shared: Arc::new(Shared { inner: Mutex::new(inner), wake: Notify::new(), metrics }) }
    }

    /// Work on this key as soon as a worker is free.
    pub fn add(&self, key: K) {
        let mut inner = self.lock();
        inner.add(key, Instant::now());
        self.announce(&inner);
    }

    /// Work on this key after `delay` unless that happens earlier anyway. Of
    /// two delays the nearer one counts.
    pub fn add_after(&self, key: K, delay: Duration) {
        let mut inner = self.lock();
        inner.schedule(key, Instant::now() + delay);
        self.announce(&inner);
    }

    /// The next key to work on, or none once the queue is closed.
    pub async fn next(&self) -> Option<K> {
        loop {
            // Registered before looking, so that no wake-up between is lost.
            let woken = self.shared.wake.notified();
            let (taken, due) = {
                let mut inner = self.lock();
                if inner.closed {
                    self.shared.wake.notify_waiters();
                    return None;
                }
                inner.promote(Instant::now());
                let taken = inner.take();
                self.report(&inner);
                if taken.is_some() {
                    // Others may wait for what is left, or for its time.
                    self.shared.wake.notify_one();
                }
                (taken, inner.next_due())
            };
            if let Some((key, since)) = taken {
                self.shared.metrics.lag.observe(since.elapsed().as_secs_f64());
                return Some(key);
            }
            match due {
                Some(at) => tokio::select! { () = woken => {}, () = tokio::time::sleep_until(at) => {} },
                None => woken.await,
            }
        }
    }

    /// Work on a key that [`Queue::next`] returned has ended.
    pub fn finish(&self, key: K, outcome: Outcome) {
        let mut inner = self.lock();
        inner.finish(key, outcome);
        self.announce(&inner);
    }

    /// Hand out no more keys.
    pub fn close(&self) {
        self.lock().closed = true;
        self.shared.wake.notify_waiters();
        self.shared.wake.notify_one();
    }

    fn announce(&self, inner: &Inner<K>) {
        self.report(inner);
        self.shared.wake.notify_one();
    }

    fn report(&self, inner: &Inner<K>) {
        self.shared.metrics.depth.set(i64::try_from(inner.ready.len()).unwrap_or(i64::MAX));
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        self.shared.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> Inner<K> {
    fn add(&mut self, key: K, now: Instant) {
        let state = self.keys.entry(key.clone()).or_default();
        if let Some(due) = state.due.take() {
            self.due.remove(&due);
        }
        if state.running {
            state.dirty = true;
        } else if !state.queued {
            state.queued = true;
            self.ready.push_back((key, now));
        }
    }

    fn schedule(&mut self, key: K, at: Instant) {
        self.ticket += 1;
        let due = (at, self.ticket);
        let state = self.keys.entry(key.clone()).or_default();
        if state.queued || state.dirty || state.due.is_some_and(|(earlier, _)| earlier <= at) {
            return;
        }
        if let Some(later) = state.due.replace(due) {
            self.due.remove(&later);
        }
        self.due.insert(due, key);
    }

    fn promote(&mut self, now: Instant) {
        while let Some((&(at, ticket), _)) = self.due.first_key_value()
            && at <= now
        {
            if let Some(key) = self.due.remove(&(at, ticket)) {
                self.add(key, at);
            }
        }
    }

    fn take(&mut self) -> Option<(K, Instant)> {
        let (key, since) = self.ready.pop_front()?;
        let state = self.keys.entry(key.clone()).or_default();
        state.queued = false;
        state.running = true;
        Some((key, since))
    }

    fn next_due(&self) -> Option<Instant> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    fn finish(&mut self, key: K, outcome: Outcome) {
        let now = Instant::now();
        let state = self.keys.entry(key.clone()).or_default();
        state.running = false;
        let dirty = std::mem::take(&mut state.dirty);
        let again = match outcome {
            Outcome::Done => None,
            Outcome::Again(delay) => Some(now + delay),
            Outcome::Failed => Some(now + back_off(state.failures)),
        };
        state.failures = if outcome == Outcome::Failed { state.failures.saturating_add(1) } else { 0 };
        match (outcome, dirty, again) {
            // A key that fails waits out its back-off, whatever else happens,
            // or a hot watch would turn it into a spin.
            (Outcome::Failed, _, Some(at)) | (_, false, Some(at)) => self.schedule(key.clone(), at),
            (_, true, _) => self.add(key.clone(), now),
            (_, false, None) => {}
        }
        self.forget_if_idle(&key);
    }

    fn forget_if_idle(&mut self, key: &K) {
        let idle = |s: &State| !s.queued && !s.running && !s.dirty && s.due.is_none() && s.failures == 0;
        if self.keys.get(key).is_some_and(idle) {
            self.keys.remove(key);
        }
    }
}

fn back_off(failures: u32) -> Duration {
    FIRST_BACK_OFF.saturating_mul(2_u32.saturating_pow(failures.min(20))).min(LAST_BACK_OFF)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use prometheus::HistogramOpts;

    use super::*;

    fn queue() -> Queue<&'static str> {
        Queue::new(QueueMetrics {
            depth: IntGauge::new("depth", "d").unwrap(),
            lag: Histogram::with_opts(HistogramOpts::new("lag", "l")).unwrap(),
        })
    }

    async fn is_quiet(queue: &Queue<&'static str>, time: Duration) -> bool {
        tokio::time::timeout(time, queue.next()).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_once_however_often_it_is_added() {
        let queue = queue();
        queue.add("a");
        queue.add("a");
        queue.add("b");
        assert_eq!(queue.next().await, Some("a"));
        assert_eq!(queue.next().await, Some("b"));
        assert!(is_quiet(&queue, Duration::from_secs(9)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_never_worked_on_twice_at_once() {
        let queue = queue();
        queue.add("a");
        assert_eq!(queue.next().await, Some("a"));
        queue.add("a");
        assert!(is_quiet(&queue, Duration::from_secs(9)).await);
        queue.finish("a", Outcome::Done);
        assert_eq!(queue.next().await, Some("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_delays_the_nearer_counts() {
        let queue = queue();
        queue.add_after("a", Duration::from_secs(60));
        queue.add_after("a", Duration::from_secs(1));
        queue.add_after("a", Duration::from_secs(30));
        let start = Instant::now();
        assert_eq!(queue.next().await, Some("a"));
        assert_eq!(start.elapsed().as_secs(), 1);
        queue.finish("a", Outcome::Done);
        assert!(is_quiet(&queue, Duration::from_secs(99)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_back_off_by_key_from_5_ms_to_30_s() {
        let queue = queue();
        queue.add("a");
        let mut waits = Vec::new();
        for _ in 0..16 {
            let start = Instant::now();
            assert_eq!(queue.next().await, Some("a"));
            waits.push(start.elapsed());
            queue.add("a");
            queue.finish("a", Outcome::Failed);
        }
        assert!(waits[1] >= Duration::from_millis(5) && waits[1] < Duration::from_millis(8), "{waits:?}");
        assert!(waits[15] >= Duration::from_secs(30) && waits[15] < Duration::from_secs(31), "{waits:?}");
        queue.add("b");
        assert_eq!(queue.next().await, Some("b"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_success_forgets_the_failures() {
        let queue = queue();
        for outcome in [Outcome::Failed, Outcome::Failed, Outcome::Done, Outcome::Failed] {
            queue.add("a");
            assert_eq!(queue.next().await, Some("a"));
            queue.finish("a", outcome);
        }
        let start = Instant::now();
        assert_eq!(queue.next().await, Some("a"));
        assert!(start.elapsed() < Duration::from_millis(10));
    }

    #[tokio::test(start_paused = true)]
    async fn many_workers_share_one_queue_and_end_when_it_closes() {
        let queue = queue();
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move {
                    let mut done = 0;
                    while let Some(key) = queue.next().await {
                        done += 1;
                        queue.finish(key, Outcome::Done);
                    }
                    done
                })
            })
            .collect();
        for key in ["a", "b", "c", "d", "e"] {
            queue.add_after(key, Duration::from_secs(1));
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        queue.close();
        let mut total = 0;
        for worker in workers {
            total += worker.await.unwrap();
        }
        assert_eq!(total, 5);
    }
}
