//! Pods of a claim's own template.

use std::collections::BTreeMap;

use sandbox_api::ledger::ClaimKind;
use sandbox_api::{SandboxSlot, child_names, labels};
use serde_json::{Value, json};

use super::{Action, Claim, Observed, Plan, SeenPod, Source};
use crate::ids::ClaimKey;
use crate::merge::merge;
use crate::pod::Pod;

/// Puts every Pod of the claim's own into its slot, creates those that are missing, deletes those beyond `replicas`.
pub(super) fn own_pods(seen: &Observed, slots: Vec<SandboxSlot>, plan: &mut Plan) -> Vec<SandboxSlot> {
    let claim = &*seen.claim;
    let Source::Template(template) = &claim.source else { return slots };
    let by_index = by_index(seen);
    let mut slots = slots;
    slots.resize(claim.replicas as usize, SandboxSlot::Open);
    for (index, slot) in (0_u32..).zip(&mut slots) {
        let there = by_index.get(&index);
        match slot {
            SandboxSlot::Named { .. } | SandboxSlot::Lost { .. } => {}
            // A terminating Pod still stands in its name; so does one whose creation has no answer yet.
            SandboxSlot::Open | SandboxSlot::Undelivered { .. } => match there {
                // Neither may it be named while a write to it is under way: that may be its end.
                Some(SeenPod { pod, busy, .. }) if pod.is_terminating() || *busy => {}
                Some(SeenPod { pod, .. }) if wanted_at(pod) == Some(&claim.resource_version) => {
                    *slot = super::lost::named(pod);
                }
                Some(SeenPod { pod, .. }) => plan.actions.push(keep(claim, pod)),
                None if claim.asks() && !seen.creating.contains(&index) => {
                    let name = pod_name(claim, index);
                    plan.actions.push(Action::CreatePod { index, body: body(claim, index, &name, template), name });
                }
                None => {}
            },
        }
    }
    let there = by_index.iter().map(|(index, seen)| (*index, &*seen.pod)).filter(|(_, pod)| !pod.is_terminating());
    let (wanted, beyond): (Vec<_>, Vec<_>) = there.partition(|(index, _)| *index < claim.replicas);
    let unowned = wanted.into_iter().filter(|(_, pod)| pod.claim_owner().is_none());
    plan.actions.extend(unowned.map(|(_, pod)| own(claim, pod)));
    plan.actions.extend(beyond.into_iter().filter(|(_, pod)| may_end(claim, pod)).map(|(_, pod)| end(pod)));
    slots
}

/// A Pod beyond `replicas` may end once the written status does not name it: that write fails if `replicas` was raised again.
/// And never by somebody who has not seen the version of the claim that last wanted it.
fn may_end(claim: &Claim, pod: &Pod) -> bool {
    let uid = pod.key().uid;
    let named = claim.status.slots.iter().any(|slot| slot.named_uid() == Some(&*uid));
    let number = |version: &str| version.parse::<u64>().ok();
    let seen = wanted_at(pod).is_none_or(|wanted| number(wanted) <= number(&claim.resource_version));
    !named && seen
}

fn end(pod: &Pod) -> Action {
    let resource_version = pod.metadata.resource_version.clone().unwrap_or_default();
    Action::DeletePod { pod: pod.key(), resource_version }
}

fn wanted_at(pod: &Pod) -> Option<&String> {
    pod.metadata.annotations.as_ref()?.get(sandbox_api::annotations::WANTED_AT)
}

/// Changes a Pod that was there before this version of the claim, and may have been given up since, before it is named: a
/// deletion still on its way then fails.
fn keep(claim: &Claim, pod: &Pod) -> Action {
    let version = pod.metadata.resource_version.as_deref().unwrap_or_default();
    let wanted = json!({ sandbox_api::annotations::WANTED_AT: claim.resource_version });
    let metadata = json!({ "uid": &*pod.key().uid, "resourceVersion": version, "annotations": wanted });
    Action::PatchPod { pod: pod.key(), patch: json!({ "metadata": metadata }) }
}

fn by_index(seen: &Observed) -> BTreeMap<u32, &SeenPod> {
    let own = seen.pods.values().filter(|seen_pod| is_ours(&seen.claim, &seen_pod.pod));
    own.filter(|seen_pod| !seen.gone.contains(&seen_pod.pod.key().uid))
        .filter_map(|seen_pod| Some((index(&seen_pod.pod)?, seen_pod)))
        .collect()
}

/// Makes the claim the owner again of a Pod whose owner was stripped: it would outlive the claim.
fn own(claim: &Claim, pod: &Pod) -> Action {
    let version = pod.metadata.resource_version.as_deref().unwrap_or_default();
    let metadata = json!({ "uid": &*pod.key().uid, "resourceVersion": version, "ownerReferences": [owner(claim)] });
    Action::PatchPod { pod: pod.key(), patch: json!({ "metadata": metadata }) }
}

/// The index label, or the number that the name ends in.
fn index(pod: &Pod) -> Option<u32> {
    let label = pod.label(labels::BATCH_SANDBOX_POD_INDEX).or_else(|| pod.label(labels::CLAIM_INDEX));
    let number = label.or_else(|| pod.metadata.name.as_deref()?.rsplit_once('-').map(|(_, number)| number));
    number?.parse().ok()
}

fn pod_name(claim: &Claim, index: u32) -> String {
    match claim.key.kind {
        ClaimKind::BatchSandbox => child_names::batch_sandbox_pod(&claim.key.name, index),
        ClaimKind::Sandbox => child_names::sandbox_pod(&claim.key.name),
    }
}

/// The labels that say whose a Pod is; no template may change them.
pub(crate) fn marks(claim: &Claim, index: u32) -> Value {
    let index = index.to_string();
    let name = labels::value(&claim.key.name);
    let mut marks = json!({
        labels::MANAGED_BY: labels::MANAGED_BY_CONTROLLER,
        labels::CLAIM_UID: &*claim.key.uid,
        labels::CLAIM_INDEX: index,
    });
    match claim.key.kind {
        ClaimKind::BatchSandbox => {
            marks[labels::BATCH_SANDBOX_NAME] = json!(name);
            marks[labels::BATCH_SANDBOX_POD_INDEX] = json!(index);
        }
        ClaimKind::Sandbox => marks[labels::SANDBOX_NAME] = json!(name),
    }
    marks
}

/// The whole Pod: the template with the index's patch, then the names, labels and owner that no patch may change. Members
/// that no version of the API knows are kept.
fn body(claim: &Claim, index: u32, name: &str, template: &Value) -> Value {
    let mut pod = json!({
        "metadata": template.get("metadata").cloned().unwrap_or_default(),
        "spec": template.get("spec").cloned().unwrap_or_default(),
    });
    if let Some(patch) = claim.pod_patches.get(index as usize) {
        merge(&mut pod, patch);
    }
    let fixed = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": claim.namespace,
            "labels": marks(claim, index),
            "annotations": {
                sandbox_api::annotations::CLAIM: claim.key.address(),
                sandbox_api::annotations::WANTED_AT: claim.resource_version,
            },
        },
    });
    merge(&mut pod, &fixed);
    pod["metadata"]["ownerReferences"] = json!([owner(claim)]);
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        metadata.remove("generateName");
    }
    pod
}

/// The owner reference that makes the garbage collector end a Pod with its claim.
#[must_use]
pub fn owner(claim: &Claim) -> Value {
    json!({
        "apiVersion": format!("{}/v1alpha1", sandbox_api::GROUP),
        "kind": claim.key.kind.as_str(),
        "name": &*claim.key.name,
        "uid": &*claim.key.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Whether a Pod was made from the claim's template: owned by it or, where the owner was stripped, labelled as its own.
#[must_use]
pub fn is_ours(claim: &Claim, pod: &Pod) -> bool {
    let of_a_pool = pod.label(labels::POOL_UID).is_some();
    !of_a_pool && pod.claim_owner().or_else(|| pod.label(labels::CLAIM_UID)) == Some(&*claim.key.uid)
}

/// Whether a Pod that a claim made would outlive it: nothing but its labels says whose it was. The claim, with its uid.
#[must_use]
pub fn unowned(pod: &Pod) -> Option<ClaimKey> {
    let alone = pod.claim_owner().is_none() && pod.label(labels::POOL_UID).is_none() && !pod.is_terminating();
    pod.held_by().map(|(claim, _)| claim).filter(|_| alone)
}
