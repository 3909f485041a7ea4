//! Sandbox: one sandbox.
//!
//! Every field of the status is written always (null, `[]`), so that a merge patch also empties; but for enums,
//! which the API server does not take as null.

use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::condition::{Condition, ConditionType};
use crate::moment::Moment;
use crate::policy::{ExpirePolicy, PoolRef, Recovery};
use crate::schema;
use crate::word::words;

/// What sandbox is wanted: exactly one of poolRef, template and snapshotName says where it comes from.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "sandbox.opensandbox.io",
    version = "v1alpha1",
    kind = "Sandbox",
    plural = "sandboxes",
    shortname = "sbx",
    namespaced,
    status = "SandboxStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Sandbox is one sandbox, from a Pool, a template or a snapshot.",
    printcolumn(
        name = "PHASE",
        type_ = "string",
        json_path = ".status.phase",
        description = "Where it is in its life"
    ),
    printcolumn(name = "SOURCE", type_ = "string", json_path = ".status.source", description = "Where it comes from"),
    printcolumn(name = "POD", type_ = "string", json_path = ".status.podName", description = "Its Pod"),
    printcolumn(
        name = "READY",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether it can be used"
    ),
    printcolumn(
        name = "IP",
        type_ = "string",
        priority = 1,
        json_path = ".status.podIP",
        description = "Its Pod's IP"
    ),
    printcolumn(
        name = "NODE",
        type_ = "string",
        priority = 1,
        json_path = ".status.nodeName",
        description = "Its Pod's node"
    ),
    printcolumn(
        name = "REASON",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        description = "Why it is ready or not"
    ),
    printcolumn(name = "EXPIRES", type_ = "string", json_path = ".spec.expireTime", description = "When it ends"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "[has(self.poolRef) && self.poolRef != '', has(self.template) && self.template != null, has(self.snapshotName) && self.snapshotName != ''].filter(given, given).size() == 1"
    ).message("exactly one of poolRef, template and snapshotName must be given: it says where the sandbox comes from"),
    validation = Rule::new(
        "(has(self.poolRef) && self.poolRef != '') == (has(oldSelf.poolRef) && oldSelf.poolRef != '') && (has(self.template) && self.template != null) == (has(oldSelf.template) && oldSelf.template != null)"
    ).message("a sandbox keeps the kind of source it was made from: delete it and create a new one from the other source"),
    validation = Rule::new(
        "!has(oldSelf.poolRef) || oldSelf.poolRef == '' || oldSelf.poolRef == '*' || !has(self.poolRef) || self.poolRef == '' || self.poolRef == '*' || self.poolRef == oldSelf.poolRef"
    ).message("poolRef cannot be changed to another Pool: the sandbox lives in the first one; delete it and create a new one on the other Pool"),
    validation = Rule::new(
        "!has(oldSelf.snapshotName) || oldSelf.snapshotName == '' || !has(self.snapshotName) || self.snapshotName == '' || self.snapshotName == oldSelf.snapshotName"
    ).message("snapshotName cannot be changed: the sandbox was made from that snapshot; delete it and create a new one from the other snapshot"),
)]
pub struct SandboxSpec {
    /// Pool in the same namespace that the Pod comes from; "*" is any Pool of the namespace. Cannot be changed to
    /// another Pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain_string")]
    pub pool_ref: Option<String>,
    /// Pod template: metadata and spec, every Pod field allowed and kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub template: Option<Value>,
    /// SandboxSnapshot in the same namespace that the sandbox starts from. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain_string")]
    pub snapshot_name: Option<String>,
    /// Intent: true pauses, false resumes.
    #[serde(default)]
    pub paused: bool,
    /// When the sandbox ends (RFC 3339, any offset). Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_time: Option<Moment>,
    /// What happens at expireTime: Delete (the default) or Pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_policy: Option<ExpirePolicy>,
    /// Task to run in the sandbox: spec.process with command, args, env and workingDir, and spec.timeoutSeconds (the
    /// shape of a BatchSandbox's taskTemplate).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub task: Option<Value>,
    /// What happens when the Pod is lost. Fail (the default): the sandbox fails and says why. Replace: it gets a new
    /// Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
}

/// Where a Sandbox comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SandboxSource<'a> {
    /// Any Pool of the namespace that fits.
    AnyPool,
    /// This Pool.
    Pool(&'a str),
    /// This Pod template.
    Template(&'a Value),
    /// This SandboxSnapshot.
    Snapshot(&'a str),
}

impl SandboxSpec {
    /// The source, `None` when the spec names none (the API server refuses that).
    pub fn source(&self) -> Option<SandboxSource<'_>> {
        match PoolRef::read(self.pool_ref.as_deref()) {
            PoolRef::Any => Some(SandboxSource::AnyPool),
            PoolRef::Named(pool) => Some(SandboxSource::Pool(pool)),
            PoolRef::Unset => {
                self.template.as_ref().map(SandboxSource::Template).or_else(|| {
                    self.snapshot_name.as_deref().filter(|name| !name.is_empty()).map(SandboxSource::Snapshot)
                })
            }
        }
    }
}

words! {
    /// Where a Sandbox is in its life.
    listed SandboxPhase {
        /// Waits for its Pod.
        Pending = "Pending",
        /// Its Pod is ready.
        Running = "Running",
        /// Being paused.
        Pausing = "Pausing",
        /// Paused: no Pod, a snapshot.
        Paused = "Paused",
        /// Being resumed.
        Resuming = "Resuming",
        /// Being ended.
        Stopping = "Stopping",
        /// Failed; the conditions say why.
        Failed = "Failed",
    }
}

words! {
    /// Where a task is.
    listed TaskState {
        /// Not accepted by the executor yet.
        Pending = "Pending",
        /// Runs.
        Running = "Running",
        /// Ended with exit code 0.
        Succeeded = "Succeeded",
        /// Ended otherwise, or could not be started.
        Failed = "Failed",
        /// The executor does not answer.
        Unknown = "Unknown",
    }
}

/// The task of a Sandbox as the executor in its Pod reports it.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SandboxTask {
    /// Where the task is.
    pub state: TaskState,
    /// Exit code, once it ended.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// What the executor says about it.
    #[serde(default)]
    pub message: Option<String>,
}

/// What the operator sees.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxStatus {
    /// Generation of the spec that this status is about.
    pub observed_generation: i64,
    /// Where it is in its life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<SandboxPhase>,
    /// Where it comes from, for people: "pool/NAME", "template" or "snapshot/NAME".
    pub source: Option<String>,
    /// Name of its Pod.
    pub pod_name: Option<String>,
    /// Uid of its Pod.
    #[serde(rename = "podUID")]
    pub pod_uid: Option<String>,
    /// IP of its Pod.
    #[serde(rename = "podIP")]
    pub pod_ip: Option<String>,
    /// Node of its Pod.
    pub node_name: Option<String>,
    /// Uid of the Pod that was lost, while no other has taken its place.
    #[serde(rename = "lostPodUID")]
    pub lost_pod_uid: Option<String>,
    /// Uid of a Pod that was promised and died before it was given, while no other has taken its place.
    #[serde(rename = "undeliveredPodUID")]
    pub undelivered_pod_uid: Option<String>,
    /// Uid of a Pool that was deleted while this claim still waited for it; writing it fences a delivery that comes late.
    #[serde(rename = "poolGoneUID")]
    pub pool_gone_uid: Option<String>,
    /// Pods already counted as lost.
    #[serde(rename = "failedPodUIDs")]
    pub failed_pod_uids: Vec<String>,
    /// SandboxSnapshot that holds its state while it is paused.
    pub snapshot: Option<String>,
    /// Generation whose pause or resume was last attempted.
    pub pause_observed_generation: i64,
    /// Its task, as reported by the executor in the Pod.
    pub task: Option<SandboxTask>,
    /// What holds and what does not, each with a reason.
    #[schemars(
        transform = sandbox_condition_types,
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,
}

fn sandbox_condition_types(schema: &mut Schema) {
    schema::condition_types(
        schema,
        &[
            ConditionType::Ready,
            ConditionType::Progressing,
            ConditionType::Paused,
            ConditionType::PauseFailed,
            ConditionType::ResumeFailed,
            ConditionType::PodFailed,
            ConditionType::PoolAllocationPending,
        ],
    );
}
