//! What a create that came to nothing leaves behind, and its end.
//!
//! A create holds a [`Guard`]. However the create ends but well (an error, a timeout, a caller that
//! hung up and whose request was dropped mid-way), the guard hands what was written to one task that
//! outlives the request and deletes it.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use crate::cluster::{Cluster, Deleted};
use crate::store::Key;

/// How long cleaning up is tried before it is given up and logged.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long an object whose create was not answered may still turn up.
const LATE: Duration = Duration::from_secs(15);
/// How long a failing create waits for its own end before it answers.
const BEFORE_ANSWER: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct Leftover {
    /// The object, unless it is certain that none was written.
    object: Option<Key>,
    /// Its uid, once it is known.
    uid: Option<String>,
    namespace: String,
    /// Claims that were made for it.
    claims: Vec<String>,
    done: Option<oneshot::Sender<()>>,
}

/// Takes leftovers from guards.
#[derive(Clone)]
pub struct Janitor {
    sender: mpsc::UnboundedSender<Leftover>,
}

impl Janitor {
    /// Starts the task that cleans up; it ends when every janitor and guard is gone and all is clean.
    #[must_use]
    pub fn start(cluster: Cluster) -> (Self, JoinHandle<()>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self { sender }, tokio::spawn(run(cluster, receiver)))
    }

    /// Guards an object that is about to be written.
    #[must_use]
    pub fn guard(&self, object: Key) -> Guard {
        let namespace = object.namespace.clone();
        let leftover = Leftover { object: Some(object), uid: None, namespace, claims: Vec::new(), done: None };
        Guard { leftover: Some(leftover), sent: false, sender: self.sender.clone() }
    }
}

/// Holds what a create has written so far.
pub struct Guard {
    leftover: Option<Leftover>,
    /// Whether the object may have been written.
    sent: bool,
    sender: mpsc::UnboundedSender<Leftover>,
}

impl Guard {
    /// A claim was made.
    pub fn made_claim(&mut self, name: &str) {
        if let Some(leftover) = &mut self.leftover {
            leftover.claims.push(name.to_owned());
        }
    }

    /// The object is about to be sent; from now on it may exist.
    pub fn sending(&mut self) {
        self.sent = true;
    }

    /// It is certain that the object was not written.
    pub fn refused(&mut self) {
        self.sent = false;
    }

    /// The object was written.
    pub fn made(&mut self, uid: &str) {
        if let Some(leftover) = &mut self.leftover {
            leftover.uid = Some(uid.to_owned());
        }
    }

    /// The create went well: everything stays.
    pub fn keep(mut self) {
        self.leftover = None;
    }

    /// The create failed: waits until everything is gone, but not for long.
    pub async fn discard(mut self) {
        let (done, gone) = oneshot::channel();
        if let Some(leftover) = &mut self.leftover {
            leftover.done = Some(done);
        }
        drop(self);
        // Whatever takes longer goes on without us.
        let _ = timeout(BEFORE_ANSWER, gone).await;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(mut leftover) = self.leftover.take() else { return };
        if !self.sent {
            leftover.object = None;
        }
        if leftover.object.is_none() && leftover.claims.is_empty() {
            return;
        }
        // The task ends only after the last guard, so this cannot fail while it matters.
        let _ = self.sender.send(leftover);
    }
}

async fn run(cluster: Cluster, mut receiver: mpsc::UnboundedReceiver<Leftover>) {
    let mut cleaning = JoinSet::new();
    loop {
        tokio::select! {
            next = receiver.recv() => match next {
                Some(leftover) => {
                    cleaning.spawn(clean(cluster.clone(), leftover));
                }
                None => break,
            },
            Some(_) = cleaning.join_next() => {}
        }
    }
    while cleaning.join_next().await.is_some() {}
}

async fn clean(cluster: Cluster, leftover: Leftover) {
    if let Some(key) = &leftover.object {
        match &leftover.uid {
            Some(uid) => remove(&cluster, key, Some(uid)).await,
            None => remove_unanswered(&cluster, key).await,
        }
    }
    for claim in &leftover.claims {
        if let Err(failure) = cluster.delete_claim(&leftover.namespace, claim).await {
            tracing::error!(claim, error = %failure, "a claim of a failed create is left behind");
        }
    }
    if let Some(done) = leftover.done {
        // Nobody waits any more: fine.
        let _ = done.send(());
    }
}

async fn remove(cluster: &Cluster, key: &Key, uid: Option<&str>) {
    let started = Instant::now();
    let mut pause = Duration::from_millis(100);
    loop {
        match cluster.delete(key, uid).await {
            Ok(Deleted::Done | Deleted::Missing) => return,
            Err(failure) if started.elapsed() > PATIENCE => {
                tracing::error!(name = key.name, error = %failure, "a failed create is left behind: delete it by hand");
                return;
            }
            Err(failure) => {
                tracing::warn!(name = key.name, error = %failure, "delete of a failed create; trying again")
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(5));
    }
}

/// The create was not answered: it may still land. Its name is ours alone, so any object of that
/// name is it.
async fn remove_unanswered(cluster: &Cluster, key: &Key) {
    let started = Instant::now();
    let mut pause = Duration::from_millis(50);
    while started.elapsed() < LATE {
        match cluster.delete(key, None).await {
            Ok(Deleted::Done) => return,
            Ok(Deleted::Missing) | Err(_) => {}
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(2));
    }
    remove(cluster, key, None).await;
}
