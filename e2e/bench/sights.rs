//! When objects were first seen as wanted, on a watch of the bench's own.

use std::collections::HashMap;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long the first list may take.
const FIRST_LIST: Duration = Duration::from_secs(60);

/// What can be watched.
pub trait Watched: Resource + Clone + DeserializeOwned + Debug + Send + 'static {}

impl<K: Resource + Clone + DeserializeOwned + Debug + Send + 'static> Watched for K {}

/// Follows all objects of one kind and reports each once: its name, and when the event came that showed it as wanted.
pub struct Sights {
    seen: HashMap<String, Instant>,
    news: UnboundedReceiver<(String, Instant)>,
    lists: Arc<AtomicU32>,
    task: JoinHandle<()>,
}

/// What is told of every event, in order.
pub enum Seen<'a, K> {
    /// It is there, as it is now.
    There(&'a K),
    /// It is gone.
    Gone(&'a K),
}

impl Sights {
    /// Begins to watch, and returns once the list that precedes the watch is read.
    ///
    /// # Errors
    /// When that takes a minute.
    pub async fn of<K: Watched>(api: Api<K>, wanted: impl FnMut(Seen<'_, K>) -> bool + Send + 'static) -> Result<Self> {
        let (tell, news) = unbounded_channel();
        let (listed, first) = oneshot::channel();
        let lists = Arc::new(AtomicU32::new(0));
        let task = tokio::spawn(follow(api, wanted, tell, listed, lists.clone()));
        tokio::time::timeout(FIRST_LIST, first).await.context("the first list of a watch took a minute")??;
        Ok(Self { seen: HashMap::new(), news, lists, task })
    }

    /// The next object that is as wanted, whichever it is.
    ///
    /// # Errors
    /// When there is none within `limit`, or the watch was interrupted.
    pub async fn next(&mut self, limit: Duration) -> Result<(String, Instant)> {
        let news = tokio::time::timeout(limit, self.news.recv()).await;
        let interruptions = self.lists.load(Ordering::Relaxed).saturating_sub(1);
        if interruptions > 0 {
            bail!("the bench's own watch was interrupted {interruptions} times: its times are worth nothing");
        }
        match news {
            Ok(Some((name, when))) => {
                self.seen.insert(name.clone(), when);
                Ok((name, when))
            }
            Ok(None) => bail!("the bench's own watch has ended"),
            Err(_) => bail!("after {} objects none more within {:.0} s", self.seen.len(), limit.as_secs_f64()),
        }
    }

    /// When the object was seen as wanted; waits for it.
    ///
    /// # Errors
    /// As [`Sights::next`].
    pub async fn of_name(&mut self, name: &str, limit: Duration) -> Result<Instant> {
        loop {
            if let Some(when) = self.seen.get(name) {
                return Ok(*when);
            }
            self.next(limit).await.with_context(|| format!("waiting for {name}"))?;
        }
    }
}

impl Drop for Sights {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow<K: Watched>(
    api: Api<K>,
    mut wanted: impl FnMut(Seen<'_, K>) -> bool,
    tell: UnboundedSender<(String, Instant)>,
    listed: oneshot::Sender<()>,
    lists: Arc<AtomicU32>,
) {
    let mut listed = Some(listed);
    let mut told: HashMap<String, Option<String>> = HashMap::new();
    let mut events = pin!(watcher(api, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        let now = Instant::now();
        match event {
            Ok(Event::Init) => {
                lists.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Event::Apply(object) | Event::InitApply(object)) => {
                let (name, uid) = (object.name_any(), object.uid());
                if wanted(Seen::There(&object)) && told.get(&name) != Some(&uid) {
                    told.insert(name.clone(), uid);
                    // Nobody listens any more once the case is done.
                    let _ = tell.send((name, now));
                }
            }
            Ok(Event::Delete(object)) => {
                wanted(Seen::Gone(&object));
            }
            Ok(Event::InitDone) => {
                if let Some(listed) = listed.take() {
                    let _ = listed.send(());
                }
            }
            // The watcher lists anew, which the count then says.
            Err(_) => {}
        }
    }
}
