//! BatchSandbox: one or many equal sandboxes.
//!
//! Every field of the status is written always (null, `[]`), so that a merge patch also empties; but for enums,
//! which the API server does not take as null.

use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::condition::{Condition, ConditionType};
use crate::moment::Moment;
use crate::number;
use crate::policy::{ExpirePolicy, PoolRef, Recovery, TaskResourcePolicy};
use crate::schema;
use crate::slot::SandboxSlot;
use crate::word::words;

/// What sandboxes are wanted.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "sandbox.opensandbox.io",
    version = "v1alpha1",
    kind = "BatchSandbox",
    plural = "batchsandboxes",
    shortname = "bsbx",
    namespaced,
    status = "BatchSandboxStatus",
    derive = "PartialEq",
    derive = "Default",
    attr = "cfg_attr(true, serde(default))",
    doc = "BatchSandbox is one or many equal sandboxes, from a Pool or from a template.",
    printcolumn(name = "DESIRED", type_ = "integer", json_path = ".spec.replicas", description = "Sandboxes wanted"),
    printcolumn(
        name = "TOTAL",
        type_ = "integer",
        json_path = ".status.replicas",
        description = "Sandboxes that have a Pod"
    ),
    printcolumn(
        name = "ALLOCATED",
        type_ = "integer",
        json_path = ".status.allocated",
        description = "Pods with a node or an IP"
    ),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.ready", description = "Pods that are ready"),
    printcolumn(
        name = "STATUS",
        type_ = "string",
        json_path = ".status.phase",
        description = "Phase; Succeed means running"
    ),
    printcolumn(
        name = "TASK_RUNNING",
        type_ = "integer",
        priority = 1,
        json_path = ".status.taskRunning",
        description = "Tasks that run"
    ),
    printcolumn(
        name = "TASK_SUCCEED",
        type_ = "integer",
        priority = 1,
        json_path = ".status.taskSucceed",
        description = "Tasks that succeeded"
    ),
    printcolumn(
        name = "TASK_FAILED",
        type_ = "integer",
        priority = 1,
        json_path = ".status.taskFailed",
        description = "Tasks that failed"
    ),
    printcolumn(
        name = "TASK_UNKNOWN",
        type_ = "integer",
        priority = 1,
        json_path = ".status.taskUnknown",
        description = "Tasks whose state is not known"
    ),
    printcolumn(
        name = "POOL",
        type_ = "string",
        priority = 1,
        json_path = ".spec.poolRef",
        description = "Pool that the Pods come from"
    ),
    printcolumn(
        name = "REASON",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        description = "Why it is ready or not"
    ),
    printcolumn(name = "EXPIRE", type_ = "string", json_path = ".spec.expireTime", description = "When it ends"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "!(has(self.template) && self.template != null && has(self.poolRef) && self.poolRef != '' && self.poolRef != '*')"
    ).message("both template and a poolRef are given: remove template to take Pods from the Pool, or remove poolRef to make Pods from the template (poolRef \"*\" may have a template: it then chooses the Pool)"),
    validation = Rule::new(
        "!has(oldSelf.poolRef) || oldSelf.poolRef == '' || oldSelf.poolRef == '*' || !has(self.poolRef) || self.poolRef == '' || self.poolRef == '*' || self.poolRef == oldSelf.poolRef"
    ).message("poolRef cannot be changed to another Pool: the sandboxes live in the first one; delete this BatchSandbox and create a new one on the other Pool"),
)]
pub struct BatchSandboxSpec {
    /// Sandboxes wanted. Each has an index, from 0.
    #[serde(default = "one", deserialize_with = "number::clamped")]
    #[schemars(range(min = 0, max = number::COUNT_MAX))]
    pub replicas: i32,
    /// Pool in the same namespace that the Pods come from. "" or absent: Pods are made from the template. "*": any
    /// Pool that fits, with the template as the criterion. Cannot be changed to another Pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain_string")]
    pub pool_ref: Option<String>,
    /// Pod template: metadata and spec, every Pod field allowed and kept. Not together with a poolRef.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub template: Option<Value>,
    /// Element i is a strategic-merge patch on the whole Pod of index i; a missing element patches nothing. Ignored
    /// for Pods of a Pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_objects")]
    pub shard_patches: Option<Vec<Value>>,
    /// When the sandboxes end (RFC 3339, any offset). Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_time: Option<Moment>,
    /// Task to run in each sandbox: spec.process with command, args, env and workingDir, and spec.timeoutSeconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub task_template: Option<Value>,
    /// Element i is a strategic-merge patch on the task of index i; a missing element patches nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_objects")]
    pub shard_task_patches: Option<Vec<Value>>,
    /// Retain keeps the Pod of a task that is done, Release hands it back. Any other word means Retain.
    #[serde(default = "retain")]
    pub task_resource_policy_when_completed: TaskResourcePolicy,
    /// Intent: true pauses, false resumes, absent leaves as it is. To repeat a failed pause or resume, remove the
    /// field and set it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<bool>,
    /// What happens when a Pod is lost. Fail: the sandbox fails and says why. Replace: it gets a new Pod. Absent: Replace
    /// for Pods made from the template, Fail for Pods of a Pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// What happens at expireTime: Delete (the default) or Pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_policy: Option<ExpirePolicy>,
}

impl BatchSandboxSpec {
    /// Where the Pods come from.
    pub fn pool(&self) -> PoolRef<'_> {
        PoolRef::read(self.pool_ref.as_deref())
    }
}

/// As the API server would default an empty spec.
impl Default for BatchSandboxSpec {
    fn default() -> Self {
        Self {
            replicas: one(),
            pool_ref: None,
            template: None,
            shard_patches: None,
            expire_time: None,
            task_template: None,
            shard_task_patches: None,
            task_resource_policy_when_completed: retain(),
            pause: None,
            recovery: None,
            expire_policy: None,
        }
    }
}

fn one() -> i32 {
    1
}

fn retain() -> TaskResourcePolicy {
    TaskResourcePolicy::Retain
}

words! {
    /// Where a BatchSandbox is in its life.
    listed BatchSandboxPhase {
        /// Waits for its first ready Pod.
        Pending = "Pending",
        /// Running: at least one Pod is ready (the contract's spelling).
        Succeed = "Succeed",
        /// Being paused.
        Pausing = "Pausing",
        /// Paused: no Pod, a snapshot.
        Paused = "Paused",
        /// Being resumed.
        Resuming = "Resuming",
        /// Failed; the conditions say why.
        Failed = "Failed",
    }
}

/// What the operator sees.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = [
    "replicas", "allocated", "ready", "taskRunning", "taskSucceed", "taskFailed", "taskUnknown", "taskPending"
]))]
pub struct BatchSandboxStatus {
    /// Generation of the spec that this status is about.
    pub observed_generation: i64,
    /// Sandboxes that have a Pod.
    pub replicas: i32,
    /// Pods with a node or an IP.
    pub allocated: i32,
    /// Pods that are running, ready and not ending.
    pub ready: i32,
    /// Tasks that run.
    pub task_running: i32,
    /// Tasks that ended with exit code 0.
    pub task_succeed: i32,
    /// Tasks that failed.
    pub task_failed: i32,
    /// Tasks whose state is not known.
    pub task_unknown: i32,
    /// Tasks that have no Pod yet.
    pub task_pending: i32,
    /// Text of the last failure of a task.
    pub task_last_error_message: Option<String>,
    /// Where it is in its life; Succeed means running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<BatchSandboxPhase>,
    /// Generation whose pause or resume was last attempted.
    pub pause_observed_generation: i64,
    /// Uid of a Pool that was deleted while this claim still waited for it; writing it fences a delivery that comes late.
    #[serde(rename = "poolGoneUID")]
    pub pool_gone_uid: Option<String>,
    /// Pods already counted as lost.
    #[serde(rename = "failedPodUIDs")]
    pub failed_pod_uids: Vec<String>,
    /// The sandboxes by index: element i is the Pod of index i.
    pub pods: Vec<SandboxSlot>,
    /// What holds and what does not, each with a reason.
    #[schemars(
        transform = batch_sandbox_condition_types,
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,
}

fn batch_sandbox_condition_types(schema: &mut Schema) {
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
            ConditionType::PoolRefUpdateRejected,
            ConditionType::InvalidShardPatch,
        ],
    );
}
