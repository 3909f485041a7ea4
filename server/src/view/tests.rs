#![allow(clippy::unwrap_used)]

use sandbox_api::{BatchSandbox, Sandbox};
use serde_json::{Value, json};

use super::*;
use crate::store::Watched as _;

fn batch(status: Value) -> View {
    let object = json!({
        "apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "BatchSandbox",
        "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7",
            "creationTimestamp": "2026-11-30T10:00:00Z", "labels": {"opensandbox.io/id": "a"}},
        "spec": {}, "status": status,
    });
    serde_json::from_value::<BatchSandbox>(object).unwrap().view()
}

fn told(view: &View) -> (&str, &str) {
    (view.standing.state.as_str(), view.standing.reason.as_str())
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": "words"})
}

#[test]
fn every_row_of_the_contract_s_table_is_told_as_it_says() {
    let named = json!(["p/u/10.0.0.1/ready"]);
    let full = json!([condition("PoolAllocationPending", "True", "PoolCapacityExhausted")]);
    for (status, state, reason) in [
        (json!({"phase": "Succeed", "taskFailed": 1}), "Failed", "TASK_FAILED"),
        (json!({"phase": "Paused", "taskFailed": 1}), "Paused", "PAUSED"),
        (json!({"phase": "Succeed"}), "Running", "RUNNING"),
        (json!({"phase": "Running"}), "Running", "RUNNING"),
        (json!({"phase": "Pausing"}), "Pausing", "PAUSING"),
        (json!({"phase": "Paused"}), "Paused", "PAUSED"),
        (json!({"phase": "Resuming"}), "Resuming", "RESUMING"),
        (json!({"phase": "Failed"}), "Failed", "FAILED"),
        (json!({"phase": "Pending", "conditions": full}), "Pending", "POOL_CAPACITY_EXHAUSTED"),
        (json!({"phase": "Pending"}), "Pending", "CREATING"),
        (json!({"ready": 1, "pods": named}), "Running", "POD_READY_WITH_IP"),
        (json!({"pods": named}), "Allocated", "IP_ASSIGNED"),
        (json!({"allocated": 1}), "Pending", "POD_SCHEDULED"),
        (json!({}), "Pending", "BATCHSANDBOX_PENDING"),
        (Value::Null, "Pending", "BATCHSANDBOX_PENDING"),
        (json!({"phase": "Somewhere", "ready": 1, "pods": named}), "Running", "POD_READY_WITH_IP"),
    ] {
        assert_eq!(told(&batch(status.clone())), (state, reason), "{status}");
    }
}

#[test]
fn a_failure_says_its_typed_reason_and_the_cluster_s_words() {
    let view = batch(json!({"phase": "Failed", "conditions": [condition("PodFailed", "True", "OOMKilled")]}));
    assert_eq!(view.standing.message, "OOMKilled: words");
    let view = batch(json!({"phase": "Pending", "conditions": [condition("Ready", "False", "Unschedulable")]}));
    assert_eq!((view.standing.message.as_str(), told(&view).1), ("Unschedulable: words", "CREATING"));
}

#[test]
fn an_address_comes_from_the_slots_and_only_without_them_from_the_annotation() {
    let mut object: BatchSandbox = serde_json::from_value(json!({
        "apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "BatchSandbox",
        "metadata": {"name": "a", "annotations": {"sandbox.opensandbox.io/endpoints": "[\"10.9.9.9\"]"}}, "spec": {},
    }))
    .unwrap();
    assert_eq!(object.view().ip.as_deref(), Some("10.9.9.9"));
    for (slot, ip) in [("p/u/10.0.0.1", Some("10.0.0.1")), ("p/u/", None), ("", None), ("lost:u", None)] {
        object.status = Some(serde_json::from_value(json!({"pods": [slot]})).unwrap());
        assert_eq!(object.view().ip.as_deref(), ip, "{slot}");
    }
}

#[test]
fn an_object_being_deleted_is_stopping_whatever_its_phase() {
    let object = json!({
        "apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "Sandbox",
        "metadata": {"name": "a", "deletionTimestamp": "2026-11-30T10:00:00Z"},
        "spec": {"poolRef": "p"}, "status": {"phase": "Running", "podUID": "u", "podIP": "10.0.0.1"},
    });
    let view = serde_json::from_value::<Sandbox>(object).unwrap().view();
    assert_eq!(told(&view), ("Stopping", "DELETING"));
    assert_eq!(view.allocated_from, None);
}

#[test]
fn a_sandbox_stands_where_its_phase_says() {
    for (status, state, reason) in [
        (json!({"phase": "Running"}), "Running", "RUNNING"),
        (json!({"phase": "Running", "task": {"state": "Failed", "message": "exit 1"}}), "Failed", "TASK_FAILED"),
        (json!({"phase": "Pending"}), "Pending", "CREATING"),
        (json!({"phase": "Stopping"}), "Stopping", "DELETING"),
        (json!({}), "Pending", "CREATING"),
    ] {
        let object = json!({
            "apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "Sandbox",
            "metadata": {"name": "a"}, "spec": {"poolRef": "p"}, "status": status,
        });
        assert_eq!(told(&serde_json::from_value::<Sandbox>(object).unwrap().view()), (state, reason), "{status}");
    }
}

#[test]
fn metadata_is_every_label_outside_of_the_api_s_own_prefix() {
    let object = json!({
        "apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "BatchSandbox",
        "metadata": {"name": "a",
            "labels": {"opensandbox.io/id": "a", "team": "t", "example.org/class": "c"},
            "annotations": {"opensandbox.io/extensions.foo": "bar", "other": "x"}},
        "spec": {},
    });
    let view = serde_json::from_value::<BatchSandbox>(object).unwrap().view();
    assert_eq!(view.metadata.keys().collect::<Vec<_>>(), ["example.org/class", "team"]);
    assert_eq!(view.extensions["opensandbox.extensions.foo"], "bar");
}
