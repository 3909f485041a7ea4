//! What BatchSandbox and Sandbox have in common: both claim Pods, from a Pool or from a template of their own. Expiry, lost
//! Pods, status, tasks are decided once, here; each kind only reads itself into a [`Claim`] and renders a [`Report`].

pub mod assign;
mod compat;
mod expiry;
mod lost;
mod plan;
mod report;
mod task;
mod template;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use sandbox_api::ledger::ClaimKind;
use sandbox_api::{Condition, Pool, Recovery, SandboxSlot};
use serde_json::Value;

use crate::failure::Failure;
use crate::ids::{ClaimKey, PodKey};
use crate::pod::Pod;

pub use compat::compat;
pub use expiry::is_due;
pub use lost::{with_named, with_undelivered};
pub use plan::plan;
pub use report::{Counts, Phase, Report, report};
pub use task::{TaskCounts, TaskReport, TaskState};
pub(crate) use template::marks;
pub use template::{is_ours, owner, unowned};

/// A BatchSandbox or a Sandbox, as its newest version in the store has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Uid, kind, name.
    pub key: ClaimKey,
    /// Its namespace; its Pods are there, too.
    pub namespace: String,
    /// Of this version; the precondition of every write.
    pub resource_version: String,
    /// `metadata.generation`, only to be reported back.
    pub generation: i64,
    /// Creation; claims are served in this order.
    pub created: Timestamp,
    /// Has a deletion timestamp.
    pub ending: bool,
    /// Where its Pods come from.
    pub source: Source,
    /// How many.
    pub replicas: u32,
    /// When it ends.
    pub expires: Option<Timestamp>,
    /// Ends it by deleting it; otherwise its deadline is not this module's business.
    pub deletes_on_expiry: bool,
    /// What a lost Pod means.
    pub recovery: Recovery,
    /// The task of each Pod; [`Claim::task_patches`] makes it one index's own.
    pub task: Option<Value>,
    /// Element `i` patches the task of index `i`.
    pub task_patches: Vec<Value>,
    /// Element `i` patches the template of index `i`.
    pub pod_patches: Vec<Value>,
    /// Its status, or what a claim without one has.
    pub status: Report,
    /// Never wrote a status.
    pub unwritten: bool,
}

/// What both kinds read alike: a claim of nothing, with its metadata.
pub(crate) fn head(kind: ClaimKind, metadata: &ObjectMeta) -> Claim {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    Claim {
        key: ClaimKey { uid: text(&metadata.uid).into(), kind, name: text(&metadata.name).into() },
        namespace: text(&metadata.namespace),
        resource_version: text(&metadata.resource_version),
        generation: metadata.generation.unwrap_or(0),
        created: metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        ending: metadata.deletion_timestamp.is_some(),
        source: Source::Nothing,
        replicas: 0,
        expires: None,
        deletes_on_expiry: true,
        recovery: Recovery::Fail,
        task: None,
        task_patches: Vec::new(),
        pod_patches: Vec::new(),
        status: Report::default(),
        unwritten: true,
    }
}

/// Where a claim's Pods come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// This Pool of its namespace.
    Pool(String),
    /// Whatever Pool fits (`poolRef: "*"`).
    AnyPool(assign::Wish),
    /// Pods of its own.
    Template(Arc<Value>),
    /// The images of a snapshot.
    Snapshot(String),
    /// Nothing: no Pod can ever come of it.
    Nothing,
}

impl Claim {
    /// The name of the Pool it asks.
    #[must_use]
    pub fn pool(&self) -> Option<&str> {
        match &self.source {
            Source::Pool(name) => Some(name),
            Source::AnyPool(_) | Source::Template(_) | Source::Snapshot(_) | Source::Nothing => None,
        }
    }

    /// Whether it lost a Pod that it will not replace.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.recovery != Recovery::Replace
            && self.status.slots.iter().any(|slot| matches!(slot, SandboxSlot::Lost { .. }))
    }

    /// Whether it wants Pods for its open indexes.
    #[must_use]
    pub fn asks(&self) -> bool {
        !self.ending && !self.has_failed() && !self.status.phase.is_paused()
    }
}

/// How the Pool that a claim asks stands, as far as the claim is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolSituation {
    /// No such Pool.
    Missing,
    /// It is being deleted, or was: with its uid.
    Ending(String),
    /// It can never serve this claim: more Pods than `poolMax`, which is given.
    TooSmall(u32),
    /// `poolMax` (given) is reached and nothing is free or starting.
    Full(u32),
    /// It was so a moment ago. A claim that was told so is not told otherwise yet: at its limit a Pool is full and not full
    /// with every sandbox that ends, and all that wait would be written each time.
    JustFull(u32),
    /// It cannot make Pods.
    Failing(Failure),
    /// It serves, or is about to.
    Serving,
}

/// A Pod in the store.
#[derive(Clone, Debug)]
pub struct SeenPod {
    /// Its newest version.
    pub pod: Arc<Pod>,
    /// The still-mine rule: in the store before the request of the last proof that the Pool is ours.
    pub confirmed: bool,
    /// A write of ours to it has no answer yet.
    pub busy: bool,
}

/// Everything that decides about one claim.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Now.
    pub now: Timestamp,
    /// The claim.
    pub claim: Arc<Claim>,
    /// A write of ours to it has no answer yet.
    pub busy: bool,
    /// The Pods that it names, and those that its labels or owner references mark, by uid.
    pub pods: BTreeMap<PodKey, SeenPod>,
    /// Uids of Pods proven gone by a live read.
    pub gone: BTreeSet<Arc<str>>,
    /// Its Pool, if it asks one by name.
    pub pool: Option<PoolSituation>,
    /// The Pools of its namespace, if it asks for any.
    pub pools: Vec<Arc<Pool>>,
    /// How one of them is chosen.
    pub profile: Arc<assign::Profile>,
    /// Indexes for which a Pod is being created.
    pub creating: BTreeSet<u32>,
    /// Why the last Pod could not be created.
    pub create_failure: Option<Failure>,
    /// What is known of the task of each index.
    pub tasks: BTreeMap<u32, TaskReport>,
}

/// One thing to do about a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Write the status. Versioned by the claim that was observed.
    WriteStatus {
        /// The whole of it.
        report: Box<Report>,
    },
    /// Delete the claim: its deadline is due. By uid and resourceVersion, so a renewal in between wins.
    Expire {
        /// The deadline, for the log and the event.
        deadline: Timestamp,
    },
    /// Write the chosen Pool into `spec.poolRef`, and take the template out that has chosen it. By uid and resourceVersion.
    Assign {
        /// The Pool's name.
        pool: String,
    },
    /// Create a Pod from the claim's own template.
    CreatePod {
        /// Of which index.
        index: u32,
        /// Its name.
        name: String,
        /// The whole Pod.
        body: Value,
    },
    /// Merge patch of a Pod of the claim's own: its owner again, or that it is wanted again. By uid and resourceVersion, both in
    /// the patch.
    PatchPod {
        /// Which.
        pod: PodKey,
        /// The whole patch.
        patch: Value,
    },
    /// Delete a Pod of the claim's own that it wants no more. By uid and resourceVersion.
    DeletePod {
        /// Which.
        pod: PodKey,
        /// Of the version observed.
        resource_version: String,
    },
    /// Live GET of a Pod that the claim names and the store does not show.
    ProvePod(PodKey),
    /// Start the task on the Pod's executor; the answer goes into `tasks`.
    StartTask {
        /// Of which index.
        index: u32,
        /// On which Pod.
        pod: PodKey,
        /// Of the executor.
        address: String,
        /// The task as the executor's protocol has it.
        body: Value,
    },
    /// Ask the executor how the task fares.
    ReadTask {
        /// Of which index.
        index: u32,
        /// On which Pod.
        pod: PodKey,
        /// Of the executor.
        address: String,
    },
}

/// What to do about a claim, and when to look again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// To be done now, in any order.
    pub actions: Vec<Action>,
    /// When to look again though nothing changed.
    pub again: Option<Timestamp>,
}

impl Plan {
    fn look_again(&mut self, at: Timestamp) {
        self.again = Some(self.again.map_or(at, |earlier| earlier.min(at)));
    }
}

/// Carries over what did not change: a condition's transition time moves with its status or reason.
#[must_use]
pub fn conditions(before: &[Condition], now: &[Condition], at: Timestamp) -> Vec<Condition> {
    now.iter()
        .map(|condition| {
            let same = before.iter().find(|old| {
                old.type_ == condition.type_ && old.status == condition.status && old.reason == condition.reason
            });
            let mut kept = condition.clone();
            kept.last_transition_time = same.and_then(|old| old.last_transition_time.clone()).or(Some(at.into()));
            kept
        })
        .collect()
}
