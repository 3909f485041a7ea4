//! The watch log: raw lines of the API server, over a connection of its own.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::{AsyncBufReadExt, TryStreamExt};
use http::Request;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::fact::{Change, Fact, Kind};
use super::world::World;
use crate::accounts::SYSTEM;

/// What whoever makes the load does by itself: no fault of the operator.
#[derive(Clone, Debug, Default)]
pub struct Acts {
    /// The uids of objects that it deletes, entered before the request is sent.
    pub ended: BTreeSet<String>,
    /// In words, for the report.
    pub told: Vec<(Timestamp, String)>,
}

/// Everything that the log holds.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// All events, by revision.
    pub facts: Vec<Fact>,
    /// What was done on purpose.
    pub acts: Acts,
    /// Where the log has holes: then nothing is proven.
    pub gaps: Vec<String>,
}

/// A running log. It ends when dropped.
pub struct Record {
    shared: Arc<Shared>,
    changed: watch::Receiver<u64>,
    tasks: Vec<JoinHandle<()>>,
    file: PathBuf,
}

struct Shared {
    inner: Mutex<Inner>,
    tell: watch::Sender<u64>,
}

struct Inner {
    log: Log,
    world: World,
    lines: u64,
    file: BufWriter<File>,
}

impl Record {
    /// Lists all kinds of a namespace and begins to follow them. The raw lines go into `file` as they come.
    ///
    /// # Errors
    /// When a list fails or the file cannot be written.
    pub async fn start(client: &Client, namespace: &str, file: &Path) -> Result<Self> {
        let out = File::create(file).with_context(|| format!("create {}", file.display()))?;
        let (tell, changed) = watch::channel(0);
        let inner = Inner { log: Log::default(), world: World::default(), lines: 0, file: BufWriter::new(out) };
        let shared = Arc::new(Shared { inner: Mutex::new(inner), tell });
        let mut tasks = Vec::new();
        for kind in Kind::ALL {
            let path = path(kind, namespace);
            let from = shared.list(client, kind, &path).await?;
            tasks.push(tokio::spawn(follow(Arc::clone(&shared), client.clone(), kind, path, from)));
        }
        Ok(Self { shared, changed, tasks, file: file.to_owned() })
    }

    /// Notes that an object is about to be deleted on purpose.
    pub fn ends(&self, uid: &str, what: String) {
        let mut inner = self.shared.lock();
        inner.log.acts.ended.insert(uid.to_owned());
        inner.log.acts.told.push((Timestamp::now(), what));
    }

    /// Notes something else that is done on purpose.
    pub fn tells(&self, what: String) {
        self.shared.lock().log.acts.told.push((Timestamp::now(), what));
    }

    /// The log so far, in the order of the API server's store.
    ///
    /// # Errors
    /// When the raw lines cannot be written.
    pub fn log(&self) -> Result<Log> {
        let mut inner = self.shared.lock();
        inner.file.flush().with_context(|| format!("write {}", self.file.display()))?;
        let mut log = inner.log.clone();
        log.facts.sort_by_key(|fact| fact.revision);
        Ok(log)
    }

    /// Looks at the newest state that is known.
    pub fn look<T>(&self, at: impl FnOnce(&World) -> T) -> T {
        at(&self.shared.lock().world)
    }

    /// Waits until the newest state is as wanted, asked again at least every second: some of it is about time.
    /// False if `limit` passed first.
    pub async fn until(&self, limit: Duration, mut wanted: impl FnMut(&World) -> bool) -> bool {
        let mut changed = self.changed.clone();
        let reached = async {
            loop {
                changed.borrow_and_update();
                if self.look(&mut wanted) {
                    return;
                }
                let _ = tokio::time::timeout(Duration::from_secs(1), changed.changed()).await;
            }
        };
        tokio::time::timeout(limit, reached).await.is_ok()
    }

    /// The raw lines.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A record stays a record whatever a panicking thread did next.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn list(&self, client: &Client, kind: Kind, path: &str) -> Result<String> {
        let text = client.request_text(Request::get(path).body(Vec::new())?).await.context(path.to_owned())?;
        let list: Value = serde_json::from_str(&text).with_context(|| format!("read {path}"))?;
        for object in list["items"].as_array().into_iter().flatten() {
            self.take(kind, Change::Listed, object, &object.to_string());
        }
        Ok(list["metadata"]["resourceVersion"].as_str().context("a list without a version")?.to_owned())
    }

    fn take(&self, kind: Kind, change: Change, object: &Value, raw: &str) {
        let mut inner = self.lock();
        inner.lines += 1;
        // A full disk shows in the flush that ends the log.
        let _ = writeln!(inner.file, "{raw}");
        match Fact::read(kind, change, object, Timestamp::now(), inner.lines) {
            Some(fact) => {
                inner.world.take(&fact);
                inner.log.facts.push(fact);
            }
            None => {
                let line = inner.lines;
                inner.log.gaps.push(format!("line {line} of {} cannot be read: {raw}", kind.as_str()));
            }
        }
        drop(inner);
        self.tell.send_modify(|version| *version += 1);
    }

    fn gap(&self, what: String) {
        self.lock().log.gaps.push(what);
    }
}

fn path(kind: Kind, namespace: &str) -> String {
    let ours = "/apis/sandbox.opensandbox.io/v1alpha1/namespaces";
    match kind {
        Kind::Pod => format!("/api/v1/namespaces/{namespace}/pods"),
        Kind::Pool => format!("{ours}/{namespace}/pools"),
        Kind::BatchSandbox => format!("{ours}/{namespace}/batchsandboxes"),
        Kind::Sandbox => format!("{ours}/{namespace}/sandboxes"),
        Kind::Anchor => format!("/apis/apps/v1/namespaces/{namespace}/controllerrevisions"),
        Kind::Lease => format!("/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases"),
    }
}

/// Follows one kind for ever, without a gap or with a word about it.
async fn follow(shared: Arc<Shared>, client: Client, kind: Kind, path: String, mut from: String) {
    loop {
        if let Err(error) = watch_once(&shared, &client, kind, &path, &mut from).await {
            shared.gap(format!("the watch of {} broke at revision {from}: {error:#}", kind.as_str()));
            return;
        }
    }
}

/// One watch up to its end, which an API server may set at any time. What comes next begins where it ended.
async fn watch_once(shared: &Shared, client: &Client, kind: Kind, path: &str, from: &mut String) -> Result<()> {
    let uri = format!("{path}?watch=true&allowWatchBookmarks=true&timeoutSeconds=3600&resourceVersion={from}");
    let mut lines = client.request_stream(Request::get(uri).body(Vec::new())?).await?.lines();
    while let Some(line) = lines.try_next().await? {
        let event: Value = serde_json::from_str(&line)?;
        let object = &event["object"];
        let change = match event["type"].as_str() {
            Some("ADDED") => Change::Added,
            Some("MODIFIED") => Change::Modified,
            Some("DELETED") => Change::Deleted,
            Some("BOOKMARK") => {
                *from = version(object)?;
                continue;
            }
            Some(_) | None => anyhow::bail!("{line}"),
        };
        *from = version(object)?;
        shared.take(kind, change, object, &line);
    }
    Ok(())
}

fn version(object: &Value) -> Result<String> {
    Ok(object["metadata"]["resourceVersion"].as_str().context("an event without a version")?.to_owned())
}
