//! What a claim promises, whichever kind it is.

#![allow(clippy::unwrap_used, clippy::panic, clippy::wildcard_enum_match_arm, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use sandbox_api::{BatchSandbox, Pool, Reason, Sandbox, SandboxSlot};
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
        pools: Vec::new(),
        profile: Arc::default(),
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
fn a_claim_that_waits_for_a_full_pool_is_not_told_of_every_pod_that_ends() {
    let mut claim = batch_sandbox::read(&batch(json!({"poolRef": "p"})));
    let observed = |claim: &Claim, situation| Observed { pool: Some(situation), ..observe(claim.clone(), vec![]) };
    let fresh = plan(&observed(&claim, PoolSituation::JustFull(4)));
    let told = |plan: &sandbox_core::claim::Plan| format!("{:?}", plan.actions).contains("PoolCapacityExhausted");
    assert!(!told(&fresh), "one that comes when there is room is not told that there is none");
    claim.status = written(&observed(&claim, PoolSituation::Full(4)));
    claim.unwritten = false;
    assert_eq!(plan(&observed(&claim, PoolSituation::JustFull(4))).actions, [], "its status stays as it is");
    let served = written(&observed(&claim, PoolSituation::Serving));
    assert!(!served.conditions.iter().any(|condition| condition.reason == Some(Reason::PoolCapacityExhausted)));
}

#[test]
fn the_end_of_a_pool_is_written_by_none_but_that_end() {
    let claim = batch_sandbox::read(&batch(json!({"poolRef": "p"})));
    let ending = Observed { pool: Some(PoolSituation::Ending("uid-p".into())), ..observe(claim, vec![]) };
    let report = written(&ending);
    assert_eq!(report.conditions[0].reason, Some(Reason::PoolGone), "it is told what it waits for");
    assert_eq!(
        report.pool_gone, None,
        "written while the Pool may still promise Pods it would fence off no late delivery"
    );
}

fn pool(name: &str, of: Value) -> Arc<Pool> {
    let mut object = json!({"apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "Pool",
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "labels": {"team": "a"}},
        "spec": {"capacitySpec": {"bufferMin": 0, "bufferMax": 0, "poolMin": 0, "poolMax": 5},
            "template": {"spec": {"containers": [{"name": "c", "image": "py:3", "resources": {"requests": {"cpu": "500m"}}}]}}}});
    merge(&mut object, of);
    Arc::new(serde_json::from_value(object).unwrap())
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            from.into_iter().for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value));
        }
        (into, from) => *into = from,
    }
}

fn in_use(total: i32, allocated: i32) -> Value {
    json!({"status": {"total": total, "allocated": allocated}})
}

fn assigned(spec: Value, pools: Vec<Arc<Pool>>) -> Result<String, String> {
    let mut observed = observe(batch_sandbox::read(&batch(spec)), vec![]);
    observed.pools = pools;
    observed.pool = None;
    match &plan(&observed).actions[..] {
        [Action::Assign { pool }] => Ok(pool.clone()),
        [Action::WriteStatus { report }] => Err(report.conditions[0].message.clone().unwrap()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn any_pool_is_the_emptiest_that_fits() {
    let pools = || vec![pool("b", in_use(4, 2)), pool("a", in_use(4, 3)), pool("cold", json!({}))];
    assert_eq!(assigned(json!({"poolRef": "*"}), pools()), Ok("b".to_owned()));
    let even = vec![pool("b", in_use(4, 2)), pool("a", in_use(4, 2))];
    assert_eq!(assigned(json!({"poolRef": "*"}), even), Ok("a".to_owned()), "the first by name of equals");
    assert_eq!(assigned(json!({"poolRef": "*"}), vec![pool("cold", json!({}))]), Ok("cold".to_owned()));
}

#[test]
fn any_pool_is_like_the_template_that_asks_for_it() {
    let like = |container: Value, spec: Value| {
        let mut template = json!({"spec": {"containers": [container]}});
        merge(&mut template, json!({ "spec": spec }));
        let other = pool(
            "other",
            json!({"metadata": {"labels": {"team": "b"}}, "spec": {"template": {"spec": {
            "containers": [{"name": "c", "image": "go:1", "resources": {"requests": {"cpu": "2"}}}],
            "nodeSelector": {"disk": "ssd"}}}}}),
        );
        assigned(json!({"poolRef": "*", "template": template}), vec![pool("plain", json!({})), other])
    };
    let cpu = |cpu: &str| json!({"name": "x", "resources": {"requests": {"cpu": cpu}}});
    let required = |operator: &str| {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {}, {"matchExpressions": [{"key": "disk", "operator": operator, "values": ["ssd"]}]}]}}}})
    };
    assert_eq!(like(json!({"name": "x", "image": "go:1"}), json!({})), Ok("other".to_owned()));
    assert_eq!(like(cpu("0.5"), json!({})), Ok("other".to_owned()), "both fit: the first by name");
    assert_eq!(like(cpu("1500m"), json!({})), Ok("other".to_owned()));
    assert_eq!(like(json!({"name": "x"}), json!({"nodeSelector": {"team": "a"}})), Ok("plain".to_owned()));
    assert_eq!(like(json!({"name": "x"}), required("In")), Ok("other".to_owned()), "an empty term matches nothing");
    assert_eq!(like(json!({"name": "x"}), required("NotIn")), Ok("plain".to_owned()));
    let none = like(cpu("3"), json!({})).unwrap_err();
    assert!(none.contains("pool plain: its containers request less cpu"), "{none}");
}

#[test]
fn a_claim_that_no_pool_fits_says_why_for_each() {
    let small = pool("small", json!({"spec": {"capacitySpec": {"poolMax": 1}}}));
    let why = assigned(json!({"poolRef": "*", "replicas": 2}), vec![small]).unwrap_err();
    assert_eq!(why, "no pool of namespace ns fits: pool small: it never has more than 1 pods");
    let why = assigned(json!({"poolRef": "*"}), vec![]).unwrap_err();
    assert_eq!(why, "namespace ns has no pool: create one, and this claim is served");
}

#[test]
fn a_claim_keeps_the_pool_that_its_pods_are_of() {
    let mut claim = batch_sandbox::read(&batch(json!({"poolRef": "*"})));
    claim.status.slots = vec![named("x")];
    let mut mine = pod("x", ready());
    mine.metadata.labels = Some([(sandbox_api::labels::POOL_UID.to_owned(), "uid-b".to_owned())].into());
    let mut observed = observe(claim, vec![mine]);
    observed.pools = vec![pool("a", in_use(4, 0)), pool("b", in_use(4, 4))];
    assert_eq!(
        plan(&observed).actions,
        [Action::Assign { pool: "b".to_owned() }],
        "`*` was written back over its name"
    );
}

#[test]
fn a_profile_is_read_as_the_reference_reads_it() {
    use sandbox_core::claim::assign::{Predicate, Profile, Score, Strategy};
    let text = r#"[{"name": "other"}, {"name": "default",
        "plugins": {"predicate": ["image", "labelselector"], "score": [{"name": "resbalance", "weight": 10}]},
        "pluginConf": [{"name": "labelselector", "args": {"keys": ["team"]}}, {"name": "resbalance", "args": {"strategy": "MostAllocated"}}]}]"#;
    let profile = Profile::read(text).unwrap();
    assert_eq!(profile.predicates, [Predicate::Image, Predicate::LabelSelector(vec!["team".to_owned()])]);
    assert_eq!(profile.scores, [(Score::ResourceBalance(Strategy::MostAllocated), 10.0)]);
    for (wrong, says) in [
        ("{", "no list"),
        ("[]", "default"),
        (r#"[{"name": "default", "plugins": {"predicate": ["x"]}}]"#, "no predicate x"),
    ] {
        assert!(Profile::read(wrong).unwrap_err().to_string().contains(says), "{wrong}");
    }
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
fn a_pod_of_a_template_whose_owner_was_stripped_is_owned_again() {
    let mut claim = batch_sandbox::read(&batch(json!({"template": {"spec": {"containers": [{"name": "c"}]}}})));
    claim.status.slots = vec![named("a-0")];
    let mut stripped = pod("a-0", ready());
    stripped.metadata.owner_references = None;
    stripped.metadata.labels = Some([(sandbox_api::labels::CLAIM_UID.to_owned(), "u".to_owned())].into());
    assert_eq!(sandbox_core::claim::unowned(&stripped).unwrap().uid, claim.key.uid);
    let actions = plan(&observe(claim, vec![stripped])).actions;
    let owned = actions.iter().find_map(|action| match action {
        Action::PatchPod { patch, .. } => Some(patch["metadata"]["ownerReferences"][0]["uid"].clone()),
        _ => None,
    });
    assert_eq!(owned, Some(json!("u")));
}

/// A claim of its own template with these replicas and slots, at version 7, and the Pod of its index 0.
fn scaled(replicas: i32, slots: Vec<SandboxSlot>, wanted_at: Option<&str>) -> Observed {
    let template = json!({"spec": {"containers": [{"name": "c"}]}});
    let mut claim = batch_sandbox::read(&batch(json!({"template": template, "replicas": replicas})));
    claim.status.slots = slots;
    let mut pod = pod("a-0", ready());
    pod.metadata.resource_version = Some("5".to_owned());
    pod.metadata.annotations =
        wanted_at.map(|version| [(sandbox_api::annotations::WANTED_AT.to_owned(), version.to_owned())].into());
    observe(claim, vec![pod])
}

fn ends(observed: &Observed) -> Option<String> {
    plan(observed).actions.into_iter().find_map(|action| match action {
        Action::DeletePod { resource_version, .. } => Some(resource_version),
        _ => None,
    })
}

#[test]
fn a_pod_that_may_be_wanted_again_is_not_ended() {
    let named_still = scaled(0, vec![named("a-0")], Some("3"));
    assert_eq!(ends(&named_still), None, "its un-naming fails if it is wanted again meanwhile");
    assert!(written(&named_still).slots.is_empty());
    assert_eq!(ends(&scaled(0, vec![], Some("7"))), Some("5".to_owned()), "and then only this version of it");
    assert_eq!(ends(&scaled(0, vec![], Some("8"))), None, "a later version of the claim wants it");
    assert_eq!(ends(&scaled(0, vec![], Some("10"))), None, "versions are numbers");
}

#[test]
fn a_pod_is_named_only_if_its_end_cannot_be_under_way() {
    let names = |observed: &Observed| {
        let plan = plan(observed);
        let patches = plan.actions.iter().filter(|action| matches!(action, Action::PatchPod { .. })).count();
        let names = plan.actions.iter().any(|action| {
            matches!(action, Action::WriteStatus { report } if report.slots.iter().any(|slot| slot.named_uid().is_some()))
        });
        (names, patches)
    };
    assert_eq!(names(&scaled(1, vec![], Some("7"))), (true, 0), "made for this version of the claim");
    assert_eq!(names(&scaled(1, vec![], Some("3"))), (false, 1), "it may have been given up since: changed first");
    assert_eq!(names(&scaled(1, vec![], None)), (false, 1));
    let mut busy = scaled(1, vec![], Some("7"));
    busy.pods.values_mut().for_each(|seen| seen.busy = true);
    assert_eq!(names(&busy), (false, 0));
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
