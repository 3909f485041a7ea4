//! What all connections of one proxy share.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};

use super::ambush::{Ambush, Caught, Moment};
use super::asked::{Asked, Verb};
use super::weather::{Struck, Weather};

/// One request in the journal.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Since the proxy started.
    pub at: Duration,
    /// How long until its end.
    pub took: Duration,
    /// What was asked.
    pub asked: String,
    /// The fault that struck it, if any.
    pub fault: Option<&'static str>,
    /// The API server's own answer; none if the request was not passed on, or got none.
    pub code: Option<u16>,
    /// Whether its sender was gone before it was answered.
    pub given_up: bool,
}

/// How often what struck which requests.
pub type Counts = BTreeMap<(String, &'static str), u64>;

pub(super) struct State {
    pub seed: u64,
    begun: Instant,
    inner: Mutex<Inner>,
    /// Changes with every change of the weather; what waits on the weather waits on this.
    turn: watch::Sender<u64>,
}

#[derive(Default)]
struct Inner {
    weather: Weather,
    /// Closed by an ambush until the proxy is healed: nothing passes, whatever the weather.
    ambushed: bool,
    cuts: u64,
    numbers: BTreeMap<(Verb, String), u64>,
    counts: Counts,
    passed: u64,
    ambushes: Vec<Ambush>,
    journal: Vec<Entry>,
}

/// Entries kept; a longer run forgets its beginning.
const JOURNAL: usize = 200_000;

impl State {
    pub fn new(seed: u64) -> Self {
        Self { seed, begun: Instant::now(), inner: Mutex::default(), turn: watch::channel(0).0 }
    }

    pub fn set(&self, weather: Weather) {
        self.lock().weather = weather;
        self.turn.send_modify(|turn| *turn += 1);
    }

    pub fn heal(&self) {
        let mut inner = self.lock();
        inner.weather = Weather { without_versions: inner.weather.without_versions, ..Weather::default() };
        inner.ambushed = false;
        inner.ambushes.clear();
        drop(inner);
        self.turn.send_modify(|turn| *turn += 1);
    }

    pub fn cut_watches(&self) {
        self.lock().cuts += 1;
        self.turn.send_modify(|turn| *turn += 1);
    }

    /// A number that grows with each cut.
    pub fn cuts(&self) -> u64 {
        self.lock().cuts
    }

    pub fn turns(&self) -> watch::Receiver<u64> {
        self.turn.subscribe()
    }

    /// Waits until requests and answers pass.
    pub async fn open(&self) {
        self.until(|inner| !inner.weather.partitioned && !inner.ambushed).await;
    }

    /// Waits until watches of this resource show something.
    pub async fn thawed(&self, resource: &str) {
        self.until(|inner| !inner.weather.partitioned && !inner.ambushed && !inner.weather.freezes(resource)).await;
    }

    /// Whether watches of this resource show nothing now.
    pub fn freezes(&self, resource: &str) -> bool {
        self.lock().weather.freezes(resource)
    }

    /// Counts a watch that is held back.
    pub fn count_watch(&self, resource: &str, what: &'static str) {
        *self.lock().counts.entry((format!("watch {resource}"), what)).or_default() += 1;
    }

    /// Waits until no fault is asked for.
    pub async fn calm(&self) {
        self.until(|inner| inner.weather.rules.is_empty() && !inner.weather.partitioned && !inner.ambushed).await;
    }

    async fn until(&self, wanted: impl Fn(&Inner) -> bool) {
        let mut turns = self.turns();
        loop {
            turns.borrow_and_update();
            if wanted(&self.lock()) {
                return;
            }
            // The sender is ours.
            let _ = turns.changed().await;
        }
    }

    /// What happens to this request, which is counted.
    pub fn strike(&self, asked: &Asked) -> Option<Struck> {
        let mut inner = self.lock();
        let number = inner.numbers.entry((asked.verb, asked.resource.clone())).or_default();
        let this = *number;
        *number += 1;
        let struck = inner.weather.strike(self.seed, asked, this);
        match struck {
            Some(struck) => {
                let what = (format!("{} {}", asked.verb.as_str(), asked.resource), struck.fault.word());
                *inner.counts.entry(what).or_default() += 1;
            }
            None => inner.passed += 1,
        }
        struck
    }

    /// Counts a request that waited for the end of a partition.
    pub fn count(&self, asked: &Asked, what: &'static str) {
        let key = (format!("{} {}", asked.verb.as_str(), asked.resource), what);
        *self.lock().counts.entry(key).or_default() += 1;
    }

    pub fn is_open(&self) -> bool {
        let inner = self.lock();
        !inner.weather.partitioned && !inner.ambushed
    }

    pub fn strips_versions(&self) -> bool {
        self.lock().weather.without_versions
    }

    pub fn add_ambush(&self, ambush: Ambush) {
        self.lock().ambushes.push(ambush);
    }

    /// Whether somebody lies in wait for this request at this moment. From then on nothing passes.
    pub fn caught(&self, asked: &Asked, moment: Moment) -> Option<oneshot::Sender<Caught>> {
        let mut inner = self.lock();
        let place = inner.ambushes.iter_mut().position(|ambush| ambush.counts(asked, moment))?;
        let ambush = inner.ambushes.remove(place);
        inner.ambushed = true;
        Some(ambush.tell)
    }

    pub fn note(&self, begun: Instant, entry: Entry) {
        let mut inner = self.lock();
        if inner.journal.len() == JOURNAL {
            inner.journal.drain(..JOURNAL / 2);
        }
        inner.journal.push(Entry { at: begun - self.begun, took: begun.elapsed(), ..entry });
    }

    pub fn journal(&self) -> Vec<Entry> {
        self.lock().journal.clone()
    }

    pub fn counts(&self) -> (u64, Counts) {
        let inner = self.lock();
        (inner.passed, inner.counts.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Counts and switches stay right whatever a panicking thread did next.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
