//! Objects as users write them are read, and written back with nothing lost.
#![allow(clippy::unwrap_used, clippy::panic)]

use sandbox_api::{
    BatchSandbox, BatchSandboxPhase, MaxUnavailable, Pool, PoolRef, RecycleType, Sandbox, SandboxSlot, SandboxSnapshot,
    TaskResourcePolicy,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const POOLS: &str = include_str!("../../e2e/seeds/pools.yaml");
const GROUP: &str = "sandbox.opensandbox.io/v1alpha1";

fn read<K: DeserializeOwned>(wire: &Value) -> K {
    serde_json::from_value(wire.clone()).unwrap()
}

/// Reads and writes; every field of `wire` must be there with the same value.
fn survives<K: DeserializeOwned + Serialize>(wire: &Value) -> K {
    let object: K = read(wire);
    within("", wire, &serde_json::to_value(&object).unwrap());
    object
}

fn within(path: &str, wire: &Value, back: &Value) {
    match (wire, back) {
        (Value::Object(wire), Value::Object(back)) => {
            for (key, value) in wire {
                within(&format!("{path}.{key}"), value, back.get(key).unwrap_or(&Value::Null));
            }
        }
        _ => assert_eq!(wire, back, "{path}"),
    }
}

#[test]
fn the_pools_of_a_real_deployment_round_trip_with_no_field_lost() {
    let documents: Vec<Value> = serde_saphyr::from_multiple(POOLS).unwrap();
    assert_eq!(documents.len(), 2);
    for wire in &documents {
        let pool: Pool = survives(wire);
        assert_eq!(pool.spec.capacity_spec.buffer_max, 1);
        assert_eq!(&serde_json::to_value(&pool).unwrap(), wire, "and nothing is added");
    }
}

#[test]
fn fields_of_a_pod_that_nobody_has_a_word_for_survive() {
    let template = json!({
        "metadata": {"labels": {"a": "b"}, "fieldOfTomorrow": {"deep": [1, 2.5, null]}},
        "spec": {
            "containers": [{"name": "c", "image": "i", "resizePolicyOfTomorrow": [{"x": "y"}]}],
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}, "supplementalGroupsPolicy": "Strict"},
            "hostUsers": false,
        },
    });
    let capacity = json!({"bufferMin": 0, "bufferMax": 0, "poolMin": 0, "poolMax": 0});
    survives::<Pool>(&json!({"apiVersion": GROUP, "kind": "Pool", "metadata": {"name": "p"},
        "spec": {"template": template, "capacitySpec": capacity}}));
    survives::<BatchSandbox>(&json!({"apiVersion": GROUP, "kind": "BatchSandbox", "metadata": {"name": "b"},
        "spec": {"template": template, "replicas": 3,
            "shardPatches": [{"spec": {"x": 1}}, null, {}],
            "taskTemplate": {"spec": {"process": {"command": ["a"], "later": true}, "timeoutSeconds": 5}},
            "shardTaskPatches": [null, {"spec": {"process": {"args": ["b"]}}}]}}));
    survives::<Sandbox>(&json!({"apiVersion": GROUP, "kind": "Sandbox", "metadata": {"name": "s"},
        "spec": {"template": template, "task": {"spec": {"process": {"command": ["a"]}}}, "paused": true}}));
}

#[test]
fn what_go_clients_write_is_read() {
    let wire = json!({"apiVersion": GROUP, "kind": "BatchSandbox",
        "metadata": {"name": "b", "creationTimestamp": null},
        "spec": {"replicas": 0, "poolRef": "", "template": null, "taskTemplate": null, "shardPatches": null,
            "expireTime": "2026-11-30T10:00:00.123456+08:00", "taskResourcePolicyWhenCompleted": "Sometimes",
            "pause": null},
        "status": {"replicas": 1, "allocated": 1, "ready": 1, "taskRunning": 0, "taskSucceed": 0, "taskFailed": 0,
            "taskUnknown": 0, "taskPending": 0}});
    let object: BatchSandbox = survives(&wire);
    assert_eq!(object.spec.replicas, 0);
    assert_eq!(object.spec.pool(), PoolRef::Unset);
    assert_eq!(object.spec.template, None);
    assert_eq!(object.spec.task_resource_policy_when_completed, TaskResourcePolicy::Other("Sometimes".into()));
    assert_eq!(object.status.unwrap().pods, Vec::<SandboxSlot>::new());
}

#[test]
fn words_of_later_versions_and_broken_times_do_not_blind_a_watch() {
    let object: BatchSandbox =
        survives(&json!({"apiVersion": GROUP, "kind": "BatchSandbox", "metadata": {"name": "b"},
        "spec": {"replicas": 1, "recovery": "Migrate", "expirePolicy": "Ask", "expireTime": "tomorrow"},
        "status": {"phase": "Hibernating", "pods": ["", "b-0/u/10.0.0.1/ready", "lost:u"],
            "conditions": [{"type": "Dreaming", "status": "Maybe", "reason": "Because"}]}}));
    let status = object.status.unwrap();
    assert_eq!(status.phase, Some(BatchSandboxPhase::Other("Hibernating".into())));
    assert!(status.pods[1].named_uid() == Some("u") && status.pods[0].is_open() && status.pods[2].is_open());
}

#[test]
fn an_object_without_spec_or_status_is_read() {
    let bare = |kind: &str| json!({"apiVersion": GROUP, "kind": kind, "metadata": {"name": "x"}});
    assert_eq!(read::<BatchSandbox>(&bare("BatchSandbox")).spec.replicas, 1);
    assert_eq!(read::<Pool>(&bare("Pool")).spec.capacity_spec.pool_max, 0);
    assert_eq!(read::<SandboxSnapshot>(&bare("SandboxSnapshot")).spec.sandbox_name, "");
}

#[test]
fn strategies_take_a_number_or_a_percentage() {
    let pool = |unavailable: Value| {
        survives::<Pool>(&json!({"apiVersion": GROUP, "kind": "Pool", "metadata": {"name": "p"}, "spec": {
            "capacitySpec": {"bufferMin": 1, "bufferMax": 2, "poolMin": 0, "poolMax": 3},
            "scaleStrategy": {"maxUnavailable": unavailable}, "updateStrategy": {"maxUnavailable": unavailable},
            "recycleStrategy": {"type": "Restart"}}}))
    };
    let huge = pool(json!(5_000_000_000_i64));
    assert_eq!(huge.spec.scale_strategy.unwrap().max_unavailable, Some(MaxUnavailable::Count(5_000_000_000)));
    let percent = pool(json!("25%"));
    assert_eq!(percent.spec.update_strategy.unwrap().max_unavailable, Some(MaxUnavailable::Text("25%".into())));
    assert_eq!(percent.spec.recycle_strategy.unwrap().type_, Some(RecycleType::Restart));
}

#[test]
fn a_status_writes_every_field_so_that_a_merge_patch_also_empties() {
    let wire = serde_json::to_value(sandbox_api::PoolStatus::default()).unwrap();
    for field in ["holder", "grants", "retiring", "conditions", "total", "revision"] {
        assert!(wire.get(field).is_some(), "{field}");
    }
    let wire = serde_json::to_value(sandbox_api::SandboxStatus::default()).unwrap();
    for field in ["podName", "podUID", "podIP", "lostPodUID", "failedPodUIDs", "snapshot", "task", "conditions"] {
        assert!(wire.get(field).is_some(), "{field}");
    }
}

#[test]
fn a_snapshot_of_a_newer_writer_survives() {
    survives::<SandboxSnapshot>(&json!({"apiVersion": GROUP, "kind": "SandboxSnapshot", "metadata": {"name": "s"},
        "spec": {"sandboxName": "b"},
        "status": {"phase": "Succeed", "format": "qemu-v1", "sourcePodName": "b-0", "sourceNodeName": "n",
            "containers": [{"containerName": "c", "imageUri": "r/b-c:snap-gen1", "imageDigest": "sha256:0"}],
            "virtualMachine": {"imageUri": "r/vm", "sizeBytes": 5_000_000_000_i64, "compatibility": {"vcpus": 2}},
            "conditions": [{"type": "Ready", "status": "True", "reason": "SnapshotReady"}], "observedGeneration": 1}}));
}
