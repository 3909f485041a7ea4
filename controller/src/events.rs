//! Kubernetes Events: what a person who asks `kubectl describe` is told beside
//! the conditions.
//!
//! They are told, never waited for: a note goes into a short queue and is
//! dropped, and counted, when that is full. What happens again and again is one
//! Event: a warning's count is brought up to date once a minute, anything else
//! is not written again within ten. So a claim's normal life writes none, and
//! a template that fails costs one write a minute, not one for each Pod.

use std::collections::HashMap;
use std::time::Duration;

use prometheus::IntCounterVec;
use sandbox_api::ledger::ClaimKind;
use sandbox_api::{Condition, ConditionStatus, ConditionType, GROUP, Reason};
use sandbox_core::claim::Claim;
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;

use crate::context::PoolAt;
use crate::store::Key;

/// Notes that wait.
const QUEUE: usize = 256;
/// After this long without a word the next one is a new Event.
const QUIET: Duration = Duration::from_secs(600);
/// A warning's count is written this often.
const RECOUNT: Duration = Duration::from_secs(60);
/// Events written a second, over all objects.
const RATE: f64 = 5.0;
/// Events written at once after a quiet time.
const BURST: f64 = 25.0;
/// Rows kept.
const KEPT: usize = 4096;

/// The kind of object that an Event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A Pool.
    Pool,
    /// A claim.
    Claim(ClaimKind),
}

impl Kind {
    /// As in its manifest.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pool => "Pool",
            Self::Claim(kind) => kind.as_str(),
        }
    }

    /// Who reports, as the older operator names itself.
    #[must_use]
    pub fn controller(self) -> &'static str {
        match self {
            Self::Pool => "pool-controller",
            Self::Claim(ClaimKind::BatchSandbox) => "batchsandbox-controller",
            Self::Claim(ClaimKind::Sandbox) => "sandbox-controller",
        }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A Pod was made.
    SuccessfulCreate,
    /// A Pod was refused.
    FailedCreate,
    /// A Pod that was marked for eviction was removed.
    PodEvicted,
    /// It became not ready, for this reason.
    Trouble(Reason),
}

impl What {
    /// The Event's reason.
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Self::SuccessfulCreate => "SuccessfulCreate",
            Self::FailedCreate => "FailedCreate",
            Self::PodEvicted => "PodEvicted",
            Self::Trouble(reason) => reason.as_str(),
        }
    }

    /// What was being done.
    #[must_use]
    pub fn action(&self) -> &'static str {
        match self {
            Self::SuccessfulCreate | Self::FailedCreate => "CreatePod",
            Self::PodEvicted => "DeletePod",
            Self::Trouble(_) => "Serve",
        }
    }

    /// Whether somebody has to do something.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        match self {
            Self::SuccessfulCreate | Self::PodEvicted => false,
            Self::FailedCreate | Self::Trouble(_) => true,
        }
    }
}

/// One happening.
#[derive(Clone, Debug)]
pub struct Note {
    /// The kind of the object.
    pub kind: Kind,
    /// Its name.
    pub key: Key,
    /// Its uid.
    pub uid: String,
    /// What happened.
    pub what: What,
    /// In words.
    pub text: String,
}

impl Note {
    /// About a Pool.
    pub fn pool(at: &PoolAt, what: What, text: impl Into<String>) -> Self {
        Self { kind: Kind::Pool, key: at.key.clone(), uid: at.uid.clone(), what, text: text.into() }
    }

    /// About a claim.
    pub fn claim(claim: &Claim, what: What, text: impl Into<String>) -> Self {
        let key = Key::new(claim.namespace.clone(), &*claim.key.name);
        Self { kind: Kind::Claim(claim.key.kind), key, uid: claim.key.uid.to_string(), what, text: text.into() }
    }

    /// `apiVersion` of the object.
    #[must_use]
    pub fn api_version(&self) -> String {
        format!("{GROUP}/v1alpha1")
    }
}

/// Why an object became not ready, if its conditions say so and did not before.
#[must_use]
pub fn trouble(before: &[Condition], now: &[Condition]) -> Option<(What, String)> {
    let ready = |conditions: &[Condition]| {
        let found = conditions.iter().find(|condition| condition.type_ == ConditionType::Ready);
        found.filter(|condition| condition.status == ConditionStatus::False).cloned()
    };
    let found = ready(now)?;
    let reason = found.reason.filter(is_trouble)?;
    let known = ready(before).is_some_and(|before| before.reason.as_ref() == Some(&reason));
    (!known).then(|| (What::Trouble(reason), found.message.unwrap_or_default()))
}

/// Progress and waiting for one's turn are none.
fn is_trouble(reason: &Reason) -> bool {
    !matches!(
        reason,
        Reason::Creating
            | Reason::PauseInProgress
            | Reason::Paused
            | Reason::ResumeInProgress
            | Reason::Stopping
            | Reason::PodsNotReady
            | Reason::Recovering
            | Reason::NoReplicas
            | Reason::PoolCapacityExhausted
    )
}

/// Notes on their way.
pub struct Events {
    sender: mpsc::Sender<Note>,
    receiver: Mutex<mpsc::Receiver<Note>>,
    counts: IntCounterVec,
}

impl Events {
    /// An empty queue; `counts` by result.
    #[must_use]
    pub fn new(counts: IntCounterVec) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        Self { sender, receiver: Mutex::new(receiver), counts }
    }

    /// Tells, without waiting.
    pub fn tell(&self, note: Note) {
        if self.sender.try_send(note).is_err() {
            self.count("dropped");
        }
    }

    /// The next note.
    pub async fn next(&self) -> Note {
        match self.receiver.lock().await.recv().await {
            Some(note) => note,
            // The sender lives as long as the receiver.
            None => std::future::pending().await,
        }
    }

    /// Counts what became of a note: `written`, `merged`, `dropped`, `failed`.
    pub fn count(&self, result: &'static str) {
        self.counts.with_label_values(&[result]).inc();
    }
}

/// What to write about a note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A new Event.
    Create,
    /// The Event of this name happened so often by now.
    Recount(String, u32),
    /// Nothing: it is counted.
    Merge,
    /// Nothing: too many Events are being written.
    Drop,
}

#[derive(Debug)]
struct Row {
    /// The Event's name, once it was written.
    event: Option<String>,
    count: u32,
    last: Instant,
    written: Instant,
}

/// What was written lately.
#[derive(Debug)]
pub struct Book {
    rows: HashMap<(String, String), Row>,
    left: f64,
    filled: Instant,
}

impl Book {
    /// Nothing was written.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self { rows: HashMap::new(), left: BURST, filled: now }
    }

    /// What to write about this note.
    pub fn step(&mut self, note: &Note, now: Instant) -> Step {
        let key = (note.uid.clone(), note.what.reason().to_owned());
        let Some(row) = self.rows.get_mut(&key).filter(|row| now.duration_since(row.last) < QUIET) else {
            if !self.may_write(now) {
                return Step::Drop;
            }
            self.make_room(now);
            self.rows.insert(key, Row { event: None, count: 1, last: now, written: now });
            return Step::Create;
        };
        row.count = row.count.saturating_add(1);
        row.last = now;
        let due = note.what.is_warning() && now.duration_since(row.written) >= RECOUNT;
        let Some(event) = row.event.clone().filter(|_| due) else { return Step::Merge };
        let count = row.count;
        row.written = now;
        if self.may_write(now) { Step::Recount(event, count) } else { Step::Merge }
    }

    /// The Event about this note has this name; none if it is not there.
    pub fn written(&mut self, note: &Note, event: Option<String>) {
        let key = (note.uid.clone(), note.what.reason().to_owned());
        match event {
            Some(event) => {
                if let Some(row) = self.rows.get_mut(&key) {
                    row.event = Some(event);
                }
            }
            None => drop(self.rows.remove(&key)),
        }
    }

    fn may_write(&mut self, now: Instant) -> bool {
        let since = now.duration_since(self.filled).as_secs_f64();
        self.filled = now;
        self.left = (self.left + since * RATE).min(BURST);
        let may = self.left >= 1.0;
        if may {
            self.left -= 1.0;
        }
        may
    }

    fn make_room(&mut self, now: Instant) {
        if self.rows.len() < KEPT {
            return;
        }
        self.rows.retain(|_, row| now.duration_since(row.last) < QUIET);
        if self.rows.len() >= KEPT {
            // A new Event says what an old one said: better than no bound.
            self.rows.clear();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
