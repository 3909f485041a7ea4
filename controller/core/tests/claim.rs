//! What a claim promises, whichever kind it is.

#![allow(clippy::unwrap_used, clippy::panic, clippy::wildcard_enum_match_arm, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use sandbox_api::{BatchSandbox, Reason, Sandbox, SandboxSlot};
use sandbox_core::claim::{Action, Claim, Observed, Phase, PoolSituation, SeenPod, plan, report};
use sandbox_core::ids::PodKey;
use sandbox_core::pod::Pod;
use sandbox_core::{batch_sandbox, sandbox};
use serde_json::{Value, json};

const NOW: &str = "2026-01-01T00:00:10Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn metadata() -> Value {
    json!({"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z"})
}

fn batch(spec: Value) -> BatchSandbox {
    serde_json::from_value(json!({"apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "BatchSandbox", "metadata": metadata(), "spec": spec})).unwrap()
}

fn single(spec: Value) -> Sandbox {
    serde_json::from_value(json!({"apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "Sandbox", "metadata": metadata(), "spec": spec})).unwrap()
}

fn pod(name: &str, status: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "ownerReferences": [{
            "apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "BatchSandbox", "name": "a", "uid": "u", "controller": true}]},
        "spec": {"nodeName": "node"},
        "status": status,
    }))
    .unwrap()
}

fn ready() -> Value {
    json!({"phase": "Running", "podIP": "10.0.0.9", "conditions": [{"type": "Ready", "status": "True"}]})
}

fn observe(claim: Claim, pods: Vec<Pod>) -> Observed {
    Observed {
        now: now(),
        claim: Arc::new(claim),
        busy: false,
        pods: pods
            .into_iter()
            .map(|pod| (pod.key(), SeenPod { pod: Arc::new(pod), confirmed: true, busy: false }))
            .collect(),
        gone: BTreeSet::new(),
        pool: Some(PoolSituation::Serving),
        creating: BTreeSet::new(),
        create_failure: None,
        tasks: BTreeMap::new(),
    }
}

fn written(observed: &Observed) -> sandbox_core::claim::Report {
    let found = plan(observed).actions.into_iter().find_map(|action| match action {
        Action::WriteStatus { report } => Some(*report),
        _ => None,
    });
    found.expect("a status is written")
}

fn named(name: &str) -> SandboxSlot {
    SandboxSlot::Named { name: name.into(), uid: format!("uid-{name}"), ip: Some("10.0.0.9".into()), ready: true }
}

#[test]
fn a_status_is_read_as_it_was_written_so_nothing_is_written_twice() {
    let pooled = batch_sandbox::read(&batch(json!({"poolRef": "p", "replicas": 2, "taskTemplate": {"spec": {}}})));
    let observed = observe(pooled, vec![pod("x", ready())]);
    let report = report(&observed, vec![named("x"), SandboxSlot::Open], None);
    let mut object = batch(json!({"poolRef": "p", "replicas": 2, "taskTemplate": {"spec": {}}}));
    object.status = Some(batch_sandbox::status(None, &report));
    assert_eq!(batch_sandbox::read(&object).status, report);

    let claim = sandbox::read(&single(json!({"poolRef": "p", "task": {"spec": {}}})));
    let observed = observe(claim.clone(), vec![pod("x", ready())]);
    let report = sandbox_core::claim::report(&observed, vec![named("x")], None);
    let mut object = single(json!({"poolRef": "p", "task": {"spec": {}}}));
    object.status = Some(sandbox::status(None, &claim, &report));
    let again = sandbox::read(&object);
    assert_eq!(again.status, report);
    let quiet = plan(&observe(again, vec![pod("x", ready())]));
    assert!(!quiet.actions.iter().any(|action| matches!(action, Action::WriteStatus { .. })), "{quiet:?}");
}

#[test]
fn a_deadline_is_due_at_its_very_moment_and_not_before() {
    let at = |expire: &str| {
        plan(&observe(batch_sandbox::read(&batch(json!({"poolRef": "p", "expireTime": expire}))), vec![]))
    };
    assert!(matches!(at(NOW).actions[..], [Action::Expire { .. }]));
    assert!(matches!(at("2026-01-01T08:00:10.000000+08:00").actions[..], [Action::Expire { .. }]));
    let later = at("2026-01-01T00:00:10.000001Z");
    assert_eq!(later.again, Some("2026-01-01T00:00:10.000001Z".parse().unwrap()));
    assert!(!later.actions.iter().any(|action| matches!(action, Action::Expire { .. })));
}

#[test]
fn a_pod_that_is_merely_not_seen_stays_named() {
    let mut claim = batch_sandbox::read(&batch(json!({"poolRef": "p"})));
    claim.status.slots = vec![named("x")];
    let observed = observe(claim, vec![]);
    let Observed { claim, .. } = &observed;
    let actions = plan(&observed).actions;
    assert!(actions.contains(&Action::ProvePod(PodKey::new("uid-x", "x"))));
    assert!(
        !actions
            .iter()
            .any(|action| matches!(action, Action::WriteStatus { report } if report.slots != claim.status.slots))
    );
}

#[test]
fn a_pod_that_is_not_seen_leaves_its_claim_running() {
    let mut claim = batch_sandbox::read(&batch(json!({"poolRef": "p"})));
    claim.status.slots = vec![named("x")];
    let report = report(&observe(claim.clone(), vec![]), claim.status.slots, None);
    assert_eq!((report.phase, report.counts.ready), (Phase::Running, 1));
}

#[test]
fn a_deadline_waits_for_no_status_write() {
    let claim = batch_sandbox::read(&batch(json!({"poolRef": "p", "expireTime": NOW})));
    let observed = Observed { busy: true, ..observe(claim, vec![]) };
    assert!(
        matches!(plan(&observed).actions[..], [Action::Expire { .. }]),
        "the write may hang, or be refused for ever"
    );
}

#[test]
fn a_lost_pod_is_the_claims_failure_with_its_true_reason_and_keeps_it() {
    let mut claim = batch_sandbox::read(&batch(json!({"poolRef": "p"})));
    claim.status.slots = vec![named("x")];
    let evicted =
        pod("x", json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}));
    let report = written(&observe(claim.clone(), vec![evicted]));
    assert_eq!(report.phase, Phase::Failed);
    let failed = report.conditions.iter().find(|condition| condition.type_.as_str() == "PodFailed").unwrap();
    assert_eq!(failed.reason, Some(Reason::Evicted));
    assert!(failed.message.as_ref().unwrap().contains("low on resource"));
    claim.status = report.clone();
    claim.unwritten = false;
    let later = plan(&observe(claim, vec![]));
    assert!(later.actions.is_empty(), "the loss and its reason stay: {later:?}");
}

#[test]
fn an_unknown_pool_is_said_at_once_and_a_cold_start_is_not_a_failure() {
    let claim = batch_sandbox::read(&batch(json!({"poolRef": "nope"})));
    let reason = |situation| {
        let mut observed = observe(claim.clone(), vec![]);
        observed.now = claim.created;
        observed.pool = Some(situation);
        plan(&observed).actions.into_iter().find_map(|action| match action {
            Action::WriteStatus { report } => report.conditions.first().and_then(|condition| condition.reason.clone()),
            _ => None,
        })
    };
    assert_eq!(reason(PoolSituation::Missing), Some(Reason::PoolNotFound));
    assert_eq!(reason(PoolSituation::Full(4)), Some(Reason::PoolCapacityExhausted));
    assert_eq!(reason(PoolSituation::Serving), None, "a claim that waits for a pod to start says nothing yet");
}

#[test]
fn unknown_pod_fields_reach_the_created_pod() {
    let template = json!({"metadata": {"labels": {"x": "y"}}, "spec": {"containers": [{"name": "c"}], "fieldOfTomorrow": {"a": [1]}}});
    let claim =
        batch_sandbox::read(&batch(json!({"template": template, "shardPatches": [{"spec": {"hostname": "zero"}}]})));
    let bodies: Vec<_> = plan(&observe(claim, vec![]))
        .actions
        .into_iter()
        .filter_map(|action| match action {
            Action::CreatePod { name, body, .. } => Some((name, body)),
            _ => None,
        })
        .collect();
    let [(name, body)] = &bodies[..] else { panic!("{bodies:?}") };
    assert_eq!(name, "a-0");
    assert_eq!(body["spec"]["fieldOfTomorrow"], json!({"a": [1]}));
    assert_eq!(body["spec"]["hostname"], "zero");
    assert_eq!(body["metadata"]["labels"]["x"], "y");
    assert_eq!(body["metadata"]["ownerReferences"][0]["uid"], "u");
}

#[test]
fn a_task_starts_once_its_pod_is_delivered_and_is_asked_after_until_it_is_over() {
    let object = batch(
        json!({"poolRef": "p", "taskTemplate": {"spec": {"process": {"command": ["sh"], "env": [{"name": "A", "value": "1"}]}, "timeoutSeconds": 9}},
        "shardTaskPatches": [{"spec": {"process": {"env": [{"name": "A", "value": "2"}]}}}]}),
    );
    let mut claim = batch_sandbox::read(&object);
    let pods = || vec![pod("x", ready())];
    let before = plan(&observe(claim.clone(), pods()));
    assert!(!before.actions.iter().any(|action| matches!(action, Action::StartTask { .. })), "not before it is named");
    claim.status.slots = vec![named("x")];
    let started = plan(&observe(claim, pods())).actions.into_iter().find_map(|action| match action {
        Action::StartTask { address, body, .. } => Some((address, body)),
        _ => None,
    });
    let (address, body) = started.unwrap();
    assert_eq!(address, "10.0.0.9:5758");
    assert_eq!(
        body,
        json!({"name": "a-0", "process": {"command": ["sh"], "env": [{"name": "A", "value": "2"}], "timeoutSeconds": 9}})
    );
}
