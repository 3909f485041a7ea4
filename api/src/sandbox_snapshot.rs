//! SandboxSnapshot: the root filesystems of a sandbox, as images in a registry.
//!
//! Every field of the status is written always (null, `[]`), so that a merge patch also empties; but for enums,
//! which the API server does not take as null.

use kube::CustomResource;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::condition::{Condition, ConditionType};
use crate::schema;
use crate::word::words;

/// What to take a snapshot of.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[kube(
    group = "sandbox.opensandbox.io",
    version = "v1alpha1",
    kind = "SandboxSnapshot",
    plural = "sandboxsnapshots",
    shortname = "sbxsnap",
    namespaced,
    status = "SandboxSnapshotStatus",
    derive = "PartialEq",
    derive = "Default",
    attr = "cfg_attr(true, serde(default))",
    doc = "SandboxSnapshot holds the root filesystems of a sandbox as images in a registry.",
    printcolumn(
        name = "PHASE",
        type_ = "string",
        json_path = ".status.phase",
        description = "Where it is in its life"
    ),
    printcolumn(
        name = "SANDBOX",
        type_ = "string",
        json_path = ".spec.sandboxName",
        description = "Sandbox it was taken of"
    ),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct SandboxSnapshotSpec {
    /// Sandbox in the same namespace that the snapshot is taken of.
    pub sandbox_name: String,
}

words! {
    /// Where a snapshot is in its life.
    listed SnapshotPhase {
        /// Not started.
        Pending = "Pending",
        /// Being committed and pushed.
        Committing = "Committing",
        /// Complete (the contract's spelling).
        Succeed = "Succeed",
        /// Failed; the condition Failed says why.
        Failed = "Failed",
    }
}

words! {
    /// What a snapshot consists of; absent means `rootfs-v1`.
    listed SnapshotFormat {
        /// Root filesystems of containers.
        RootfsV1 = "rootfs-v1",
        /// State of a virtual machine.
        QemuV1 = "qemu-v1",
    }
}

/// What the operator sees.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxSnapshotStatus {
    /// Generation of the spec that this status is about.
    pub observed_generation: i64,
    /// Where it is in its life; Succeed means complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<SnapshotPhase>,
    /// The images, one for each container.
    pub containers: Vec<SnapshotContainer>,
    /// Pod that the snapshot was taken of.
    pub source_pod_name: Option<String>,
    /// Node of that Pod.
    pub source_node_name: Option<String>,
    /// What the snapshot consists of; absent means rootfs-v1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<SnapshotFormat>,
    /// State of a virtual machine, for the format qemu-v1; kept as its writer wrote it.
    #[schemars(schema_with = "schema::open_object")]
    pub virtual_machine: Option<Value>,
    /// What holds and what does not, each with a reason.
    #[schemars(
        transform = snapshot_condition_types,
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,
}

/// The image of one container.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["containerName", "imageUri"]))]
pub struct SnapshotContainer {
    /// The container's name in the Pod.
    pub container_name: String,
    /// The image, by tag.
    pub image_uri: String,
    /// Digest of the image's manifest, once it is pushed.
    pub image_digest: Option<String>,
}

fn snapshot_condition_types(schema: &mut Schema) {
    schema::condition_types(schema, &[ConditionType::Ready, ConditionType::Failed]);
}
