//! What a Pool's Pod and its anchor look like, and what adoption changes.

use sandbox_api::{Pool, annotations, child_names, labels};
use serde_json::{Value, json};

use super::Anchor;
use crate::claim::Claim;
use crate::ids::PodKey;
use crate::merge::merge;

fn name_and_uid(pool: &Pool) -> (&str, &str) {
    (pool.metadata.name.as_deref().unwrap_or_default(), pool.metadata.uid.as_deref().unwrap_or_default())
}

/// The name of the Pod of a slot.
#[must_use]
pub fn pod_name(pool: &Pool, slot: u32) -> String {
    let (name, uid) = name_and_uid(pool);
    child_names::pool_pod(name, uid, slot)
}

/// The slot that a Pod's name stands for, if it is one of this Pool's.
#[must_use]
pub fn slot(pool: &Pool, pod: &str) -> Option<u32> {
    let (name, uid) = name_and_uid(pool);
    child_names::pool_pod_slot(pod, name, uid)
}

/// The name of the anchor of a revision.
#[must_use]
pub fn anchor_name(pool: &Pool, revision: &str) -> String {
    let (name, uid) = name_and_uid(pool);
    child_names::pool_anchor(name, uid, revision)
}

fn marks(pool: &Pool, revision: &str) -> Value {
    let (name, uid) = name_and_uid(pool);
    json!({
        labels::MANAGED_BY: labels::MANAGED_BY_CONTROLLER,
        labels::POOL_UID: uid,
        labels::POOL_NAME: labels::value(name),
        labels::POOL_REVISION: revision,
    })
}

/// The whole Pod of a slot: the template, then the names, labels and owner that no template may change. Members that no
/// version of the API knows are kept.
pub(super) fn body(pool: &Pool, template: &Value, slot: u32, anchor: &Anchor) -> Value {
    let mut pod = json!({
        "metadata": template.get("metadata").cloned().unwrap_or_default(),
        "spec": template.get("spec").cloned().unwrap_or_default(),
    });
    let mut marks = marks(pool, &anchor.revision);
    marks[labels::WARM] = json!(labels::WARM_TRUE);
    let fixed = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": pod_name(pool, slot), "namespace": pool.metadata.namespace, "labels": marks },
    });
    merge(&mut pod, &fixed);
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "name": anchor.name,
        "uid": anchor.uid,
        "controller": true,
        "blockOwnerDeletion": false,
    }]);
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        metadata.remove("generateName");
    }
    pod
}

/// The anchor of a revision: what `kubectl drain` and autoscalers take for the controller of the warm Pods. It holds the
/// template, and has no owner itself, so that deleting the Pool deletes no Pod.
pub(super) fn anchor(pool: &Pool, template: &Value, revision: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": anchor_name(pool, revision),
            "namespace": pool.metadata.namespace,
            "labels": marks(pool, revision),
        },
        "data": template,
        "revision": 1,
    })
}

fn versioned(pod: &PodKey, resource_version: &str) -> Value {
    json!({ "uid": &*pod.uid, "resourceVersion": resource_version })
}

/// The patch that makes a Pod its claim's: owner, labels, the clean mark off. Where used Pods come back it gets no owner: the
/// labels mark the holder.
pub(super) fn adoption(pod: &PodKey, resource_version: &str, claim: &Claim, index: u32, owned: bool) -> Value {
    let mut metadata = versioned(pod, resource_version);
    let mut marks = crate::claim::marks(claim, index);
    marks[labels::WARM] = Value::Null;
    metadata["labels"] = marks;
    metadata["annotations"] = json!({ annotations::CLAIM: claim.key.address() });
    metadata["ownerReferences"] = if owned { json!([crate::claim::owner(claim)]) } else { json!([]) };
    json!({ "metadata": metadata })
}

/// The patch that makes a used Pod clean again.
pub(super) fn hand_back(pod: &PodKey, resource_version: &str) -> Value {
    let mut metadata = versioned(pod, resource_version);
    metadata["labels"] = json!({
        labels::WARM: labels::WARM_TRUE,
        labels::CLAIM_UID: null,
        labels::CLAIM_INDEX: null,
        labels::BATCH_SANDBOX_NAME: null,
        labels::BATCH_SANDBOX_POD_INDEX: null,
        labels::SANDBOX_NAME: null,
    });
    metadata["annotations"] = json!({ annotations::CLAIM: null });
    json!({ "metadata": metadata })
}

/// The patch for a Pod of ours that lost its watch label: the label back, and the clean mark off, since nobody knows what
/// happened to it meanwhile.
#[must_use]
pub fn relabel(pod: &PodKey, resource_version: &str) -> Value {
    let mut metadata = versioned(pod, resource_version);
    metadata["labels"] = json!({ labels::MANAGED_BY: labels::MANAGED_BY_CONTROLLER, labels::WARM: null });
    json!({ "metadata": metadata })
}

/// Whether a claim's status names a Pod; what a live read of the claim is asked.
#[must_use]
pub fn is_named_by(claim: &Claim, pod: &PodKey) -> bool {
    claim
        .status
        .slots
        .iter()
        .any(|slot| matches!(slot, sandbox_api::SandboxSlot::Named { uid, .. } if **uid == *pod.uid))
}
