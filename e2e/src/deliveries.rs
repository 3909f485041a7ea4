//! An independent record of which Pod was delivered to which claim, from the statuses that everybody can read.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use futures::StreamExt;
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, ResourceExt};
use sandbox_api::BatchSandbox;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::objects::{pods_of, runs};

/// Watches the BatchSandboxes of a namespace and remembers every delivery ever shown.
pub struct Deliveries {
    seen: Arc<Mutex<Seen>>,
    changed: watch::Receiver<u64>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    /// Pod uid to the uids of all claims that ever named it.
    holders: BTreeMap<String, BTreeSet<String>>,
    /// Name of each claim that was ever seen running, and when first.
    running: BTreeMap<String, Instant>,
    lists: u32,
}

impl Deliveries {
    /// Begins to watch. What happened before is known only as far as a list shows it.
    #[must_use]
    pub fn watch(client: &Client, namespace: &str) -> Self {
        let api: Api<BatchSandbox> = Api::namespaced(client.clone(), namespace);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (tell, changed) = watch::channel(0);
        let task = tokio::spawn(record(api, seen.clone(), tell));
        Self { seen, changed, task }
    }

    /// Waits until so many claims have been seen running.
    ///
    /// # Errors
    /// When `limit` passes first, or a Pod was delivered twice.
    pub async fn until_running(&mut self, count: usize, limit: Duration) -> Result<()> {
        let reached = async {
            loop {
                self.changed.borrow_and_update();
                let running = lock(&self.seen).running.len();
                if running >= count || self.changed.changed().await.is_err() {
                    return;
                }
            }
        };
        let in_time = tokio::time::timeout(limit, reached).await.is_ok();
        self.check()?;
        let running = lock(&self.seen).running.len();
        if !in_time || running < count {
            bail!("only {running} of {count} claims ran within {:.1} s", limit.as_secs_f64());
        }
        Ok(())
    }

    /// Fails when a Pod was delivered to more than one claim, or when the record has a gap.
    ///
    /// # Errors
    /// As said; the message names the Pods.
    pub fn check(&self) -> Result<()> {
        let seen = lock(&self.seen);
        let shared: Vec<_> = seen.holders.iter().filter(|(_, claims)| claims.len() > 1).collect();
        if !shared.is_empty() {
            bail!("Pods delivered to more than one claim (Pod uid, claim uids): {shared:?}");
        }
        if seen.lists > 1 {
            bail!("the watch of this record was interrupted {} times: what it missed is not known", seen.lists - 1);
        }
        Ok(())
    }

    /// When each claim was first seen running, by name.
    #[must_use]
    pub fn running(&self) -> BTreeMap<String, Instant> {
        lock(&self.seen).running.clone()
    }

    /// How many Pods were ever delivered.
    #[must_use]
    pub fn pods(&self) -> usize {
        lock(&self.seen).holders.len()
    }
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn record(api: Api<BatchSandbox>, seen: Arc<Mutex<Seen>>, tell: watch::Sender<u64>) {
    let mut events = pin!(watcher(api, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => lock(&seen).lists += 1,
            Ok(Event::Apply(claim) | Event::InitApply(claim)) => note(&seen, &claim),
            Ok(Event::Delete(_) | Event::InitDone) => {}
            // The watcher lists anew, which the record then says.
            Err(_) => {}
        }
        tell.send_modify(|version| *version += 1);
    }
}

fn note(seen: &Mutex<Seen>, claim: &BatchSandbox) {
    let mut seen = lock(seen);
    let holder = claim.uid().unwrap_or_default();
    for (_, pod) in pods_of(claim) {
        seen.holders.entry(pod).or_default().insert(holder.clone());
    }
    if runs(claim) {
        seen.running.entry(claim.name_any()).or_insert_with(Instant::now);
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    // A record stays a record whatever a panicking thread did next.
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
