//! The kinds on a real API server: what it refuses and in which words, and what it keeps.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind, Status};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, ResourceExt};
use sandbox_api::{BatchSandbox, Pool, PoolGrant, PoolStatus, Sandbox, SandboxSlot, SandboxSnapshot};
use sandbox_cluster::{Plane, PlaneOptions};
use serde_json::{Value, json};

const GROUP: &str = "sandbox.opensandbox.io";
const LIMIT: Duration = Duration::from_secs(30);

/// One control plane for all tests here, on a runtime that outlives each of them.
struct World {
    runtime: tokio::runtime::Runtime,
    plane: Plane,
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let plane = runtime.block_on(async {
            let plane = Plane::start(PlaneOptions { stand_in: None, ..PlaneOptions::default() }).await.unwrap();
            for document in documents("config/crd") {
                define(&plane.admin(), &document).await;
            }
            for file in ["config/namespaces", "config/rbac"] {
                for document in documents(file) {
                    apply(&plane.admin(), &document).await.unwrap();
                }
            }
            plane
        });
        World { runtime, plane }
    })
}

/// Runs `test` in a namespace of its own.
fn in_a_namespace<F: Future<Output = ()>>(test: impl FnOnce(Client, String) -> F) {
    let world = world();
    world.runtime.block_on(async {
        let namespace = world.plane.namespace("kinds").await.unwrap();
        test(world.plane.admin(), namespace).await;
    });
}

fn checkout(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(path)
}

/// Every object in the YAML files of a folder, or in one file; kustomizations left out.
fn documents(path: &str) -> Vec<Value> {
    let path = checkout(path);
    let files: Vec<PathBuf> = if path.is_dir() {
        let mut files: Vec<PathBuf> = path.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    } else {
        vec![path]
    };
    files
        .into_iter()
        .filter(|file| file.extension().is_some_and(|ending| ending == "yaml") && !file.ends_with("kustomization.yaml"))
        .flat_map(|file| serde_saphyr::from_multiple::<Value>(&std::fs::read_to_string(file).unwrap()).unwrap())
        .collect()
}

async fn define(client: &Client, document: &Value) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = document["metadata"]["name"].as_str().unwrap();
    if let Err(error) = api.patch(name, &PatchParams::apply("kinds").force(), &Patch::Apply(document)).await {
        panic!("{error}");
    }
    let established = await_condition(api, name, conditions::is_crd_established());
    tokio::time::timeout(LIMIT, established).await.unwrap().unwrap();
}

fn resource(document: &Value) -> ApiResource {
    let version = document["apiVersion"].as_str().unwrap();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let gvk = GroupVersionKind::gvk(group, version, document["kind"].as_str().unwrap());
    let mut resource = ApiResource::from_gvk(&gvk);
    if gvk.kind.ends_with("Sandbox") {
        resource.plural = format!("{}es", gvk.kind.to_lowercase());
    }
    resource
}

fn api(client: &Client, document: &Value) -> Api<DynamicObject> {
    match document["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource(document)),
        None => Api::all_with(client.clone(), &resource(document)),
    }
}

/// Server-side apply, as `kubectl apply --server-side` and Flux do.
async fn apply(client: &Client, document: &Value) -> kube::Result<DynamicObject> {
    let name = document["metadata"]["name"].as_str().unwrap();
    api(client, document).patch(name, &PatchParams::apply("kinds").force(), &Patch::Apply(document)).await
}

async fn create(client: &Client, document: &Value) -> kube::Result<Value> {
    let object: DynamicObject = serde_json::from_value(document.clone()).unwrap();
    let made = api(client, document).create(&PostParams::default(), &object).await?;
    Ok(serde_json::to_value(made).unwrap())
}

async fn merge(client: &Client, object: &Value, patch: Value) -> kube::Result<Value> {
    let name = object["metadata"]["name"].as_str().unwrap();
    let patched = api(client, object).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(serde_json::to_value(patched).unwrap())
}

fn object(kind: &str, namespace: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": kind,
        "metadata": {"name": name, "namespace": namespace}, "spec": spec})
}

fn pool(namespace: &str, name: &str, capacity: [i64; 4]) -> Value {
    let [buffer_min, buffer_max, pool_min, pool_max] = capacity;
    object(
        "Pool",
        namespace,
        name,
        json!({"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
            "capacitySpec": {"bufferMin": buffer_min, "bufferMax": buffer_max, "poolMin": pool_min, "poolMax": pool_max}}),
    )
}

fn batch(namespace: &str, name: &str, spec: Value) -> Value {
    object("BatchSandbox", namespace, name, spec)
}

fn sandbox(namespace: &str, name: &str, spec: Value) -> Value {
    object("Sandbox", namespace, name, spec)
}

fn template() -> Value {
    json!({"spec": {"containers": [{"name": "c", "image": "i"}]}})
}

/// The API server's refusal; the test fails if there is none.
fn refusal<T: std::fmt::Debug>(result: kube::Result<T>) -> Status {
    match result {
        Err(kube::Error::Api(status)) => {
            assert_eq!(status.code, 422, "{}", status.message);
            *status
        }
        other => panic!("not refused: {other:?}"),
    }
}

fn says<T: std::fmt::Debug>(result: kube::Result<T>, parts: &[&str]) {
    let message = refusal(result).message;
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

/// Every field of `sent` is in `kept` with the same value.
fn kept_all(path: &str, sent: &Value, kept: &Value) {
    match (sent, kept) {
        (Value::Object(sent), Value::Object(kept)) => {
            for (key, value) in sent {
                kept_all(&format!("{path}.{key}"), value, kept.get(key).unwrap_or(&Value::Null));
            }
        }
        _ => assert_eq!(sent, kept, "{path}"),
    }
}

// Refusals: design "Kinds".

#[test]
fn a_pool_whose_buffer_min_is_above_buffer_max_is_refused_with_what_to_change() {
    in_a_namespace(async |client, namespace| {
        says(
            apply(&client, &pool(&namespace, "p", [5, 1, 0, 9])).await,
            &["spec.capacitySpec", "bufferMin is above bufferMax: lower bufferMin or raise bufferMax"],
        );
    });
}

#[test]
fn a_pool_whose_pool_min_is_above_pool_max_is_refused_with_what_to_change() {
    in_a_namespace(async |client, namespace| {
        says(
            apply(&client, &pool(&namespace, "p", [0, 1, 7, 4])).await,
            &["spec.capacitySpec", "poolMin is above poolMax: lower poolMin or raise poolMax"],
        );
        let made = create(&client, &pool(&namespace, "p", [0, 1, 0, 4])).await.unwrap();
        says(
            merge(&client, &made, json!({"spec": {"capacitySpec": {"poolMin": 5}}})).await,
            &["poolMin is above poolMax"],
        );
    });
}

#[test]
fn a_negative_number_is_refused_with_its_field() {
    in_a_namespace(async |client, namespace| {
        for (index, field) in ["bufferMin", "bufferMax", "poolMin", "poolMax"].into_iter().enumerate() {
            let mut capacity = [0; 4];
            capacity[index] = -1;
            says(
                apply(&client, &pool(&namespace, "p", capacity)).await,
                &[&format!("spec.capacitySpec.{field}"), "greater than or equal to 0"],
            );
        }
        let spec = json!({"replicas": -1, "template": template()});
        says(apply(&client, &batch(&namespace, "b", spec)).await, &["spec.replicas", "greater than or equal to 0"]);
    });
}

#[test]
fn a_number_that_no_operator_can_read_is_refused() {
    in_a_namespace(async |client, namespace| {
        let words = ["spec.capacitySpec.poolMax", "less than or equal to 2147483647"];
        says(apply(&client, &pool(&namespace, "p", [0, 0, 0, 5_000_000_000])).await, &words);
        let spec = json!({"replicas": 1e15, "template": template()});
        says(apply(&client, &batch(&namespace, "b", spec)).await, &["spec.replicas"]);
    });
}

#[test]
fn a_template_together_with_a_concrete_pool_is_refused_with_what_to_change() {
    in_a_namespace(async |client, namespace| {
        let both = json!({"poolRef": "ci-pod", "template": template()});
        says(
            apply(&client, &batch(&namespace, "b", both)).await,
            &["spec", "both template and a poolRef are given", "remove template", "remove poolRef"],
        );
        for (name, pool_ref) in [("any", "*"), ("none", "")] {
            create(&client, &batch(&namespace, name, json!({"poolRef": pool_ref, "template": template()})))
                .await
                .unwrap();
        }
        create(&client, &batch(&namespace, "null", json!({"poolRef": "ci-pod", "template": null}))).await.unwrap();
    });
}

#[test]
fn a_bound_pool_cannot_be_changed_to_another() {
    in_a_namespace(async |client, namespace| {
        let bound = create(&client, &batch(&namespace, "b", json!({"poolRef": "ci-pod"}))).await.unwrap();
        let to = |pool: Value| json!({"spec": {"poolRef": pool}});
        says(
            merge(&client, &bound, to(json!("ci-vm"))).await,
            &["poolRef cannot be changed to another Pool", "delete this BatchSandbox and create a new one"],
        );
        // The manifest that said "*" is applied again and again by Flux; the Go operator clears it on pause.
        for pool in [json!("ci-pod"), json!("*"), json!("ci-pod"), json!(""), json!("ci-pod"), Value::Null] {
            merge(&client, &bound, to(pool)).await.unwrap();
        }
        merge(&client, &bound, json!({"spec": {"replicas": 3, "template": template()}})).await.unwrap();
    });
}

#[test]
fn a_sandbox_has_exactly_one_source() {
    in_a_namespace(async |client, namespace| {
        let one = "exactly one of poolRef, template and snapshotName must be given";
        for spec in [
            json!({}),
            json!({"poolRef": ""}),
            json!({"template": null}),
            json!({"poolRef": "p", "template": template()}),
            json!({"poolRef": "*", "template": template()}),
            json!({"poolRef": "p", "snapshotName": "s"}),
            json!({"poolRef": "p", "template": template(), "snapshotName": "s"}),
        ] {
            says(apply(&client, &sandbox(&namespace, "s", spec)).await, &[one]);
        }
        for (name, spec) in [
            ("pool", json!({"poolRef": "p", "template": null, "snapshotName": ""})),
            ("any", json!({"poolRef": "*"})),
            ("template", json!({"template": template()})),
            ("snapshot", json!({"snapshotName": "s", "paused": true, "expirePolicy": "Pause", "recovery": "Replace"})),
        ] {
            create(&client, &sandbox(&namespace, name, spec)).await.unwrap();
        }
        let mut bare = sandbox(&namespace, "bare", Value::Null);
        bare.as_object_mut().unwrap().remove("spec");
        says(apply(&client, &bare).await, &["spec"]);
    });
}

#[test]
fn a_sandbox_keeps_its_source() {
    in_a_namespace(async |client, namespace| {
        let pooled = create(&client, &sandbox(&namespace, "pool", json!({"poolRef": "a"}))).await.unwrap();
        says(
            merge(&client, &pooled, json!({"spec": {"poolRef": "b"}})).await,
            &["poolRef cannot be changed to another Pool"],
        );
        says(
            merge(&client, &pooled, json!({"spec": {"poolRef": null, "template": template()}})).await,
            &["keeps the kind of source"],
        );
        let restored = create(&client, &sandbox(&namespace, "snap", json!({"snapshotName": "a"}))).await.unwrap();
        says(
            merge(&client, &restored, json!({"spec": {"snapshotName": "b"}})).await,
            &["snapshotName cannot be changed"],
        );
        merge(&client, &restored, json!({"spec": {"paused": true, "expireTime": "2026-11-30T10:00:00Z"}}))
            .await
            .unwrap();
    });
}

#[test]
fn an_object_that_broke_a_rule_before_the_rule_existed_still_takes_status_labels_and_finalizers() {
    in_a_namespace(async |client, namespace| {
        let with_rules = serde_json::to_string(&documents("config/crd/pools.yaml")[0]).unwrap();
        let with_rules: Value = serde_json::from_str(&with_rules.replace(GROUP, "before.example.org")).unwrap();
        let mut without = with_rules.clone();
        let capacity = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/capacitySpec";
        without.pointer_mut(capacity).unwrap().as_object_mut().unwrap().remove("x-kubernetes-validations").unwrap();
        define(&client, &without).await;
        let mut old = pool(&namespace, "old", [5, 1, 0, 9]);
        old["apiVersion"] = "before.example.org/v1alpha1".into();
        old["metadata"]["finalizers"] = json!(["example.org/held"]);
        let old = create(&client, &old).await.unwrap();
        define(&client, &with_rules).await;
        let mut fresh = old.clone();
        fresh["metadata"] = json!({"name": "fresh", "namespace": namespace});
        tokio::time::timeout(LIMIT, async {
            // A changed definition takes effect a moment after it is written.
            while create(&client, &fresh).await.is_ok() {
                api(&client, &fresh).delete("fresh", &Default::default()).await.unwrap();
            }
        })
        .await
        .unwrap();
        let status = json!({"status": {"revision": "r", "total": 1, "allocated": 0, "available": 1}});
        api(&client, &old).patch_status("old", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        merge(&client, &old, json!({"metadata": {"labels": {"a": "b"}}})).await.unwrap();
        api(&client, &old).delete("old", &Default::default()).await.unwrap();
        merge(&client, &old, json!({"metadata": {"finalizers": null}})).await.unwrap();
        assert!(api(&client, &old).get_opt("old").await.unwrap().is_none());
    });
}

// What is kept.

#[test]
fn the_pools_of_a_real_deployment_are_accepted_unchanged_and_lose_nothing() {
    in_a_namespace(async |client, namespace| {
        for mut document in documents("e2e/seeds/pools.yaml") {
            document["metadata"]["namespace"] = namespace.clone().into();
            let name = document["metadata"]["name"].as_str().unwrap().to_owned();
            apply(&client, &document).await.unwrap();
            let kept = api(&client, &document).get(&name).await.unwrap();
            assert_eq!(kept.data["spec"], document["spec"], "nothing lost, nothing added");
            let typed: Pool = Api::namespaced(client.clone(), &namespace).get(&name).await.unwrap();
            assert_eq!(serde_json::to_value(typed).unwrap()["spec"], document["spec"]);
        }
        let spec = &documents("e2e/seeds/batchsandbox-template.yaml")[0]["spec"];
        let made = create(&client, &batch(&namespace, "b", spec.clone())).await.unwrap();
        kept_all("spec", spec, &made["spec"]);
    });
}

#[test]
fn e120_no_field_of_a_spec_is_lost_neither_ours_nor_a_pods_of_tomorrow() {
    in_a_namespace(async |client, namespace| {
        let template = json!({"metadata": {"labels": {"a": "b"}, "later": {"x": [1, null, {"y": 2.5}]}}, "spec": {
            "containers": [{"name": "c", "image": "i", "securityContext": {"later": true}, "laterStill": "z"}],
            "securityContext": {"fsGroup": 1, "supplementalGroupsPolicy": "Strict"}, "later": {}}});
        let everything = [
            object(
                "Pool",
                &namespace,
                "p",
                json!({"template": template,
                "capacitySpec": {"bufferMin": 1, "bufferMax": 2, "poolMin": 0, "poolMax": 3},
                "scaleStrategy": {"maxUnavailable": "25%"}, "updateStrategy": {"maxUnavailable": 7},
                "recycleStrategy": {"type": "Restart"}}),
            ),
            batch(
                &namespace,
                "b",
                json!({"replicas": 0, "poolRef": "*", "template": template,
                "shardPatches": [{"spec": {"later": 1}}, null, {}], "expireTime": "2026-11-30T10:00:00.123456+08:00",
                "taskTemplate": {"spec": {"process": {"command": ["a"], "args": ["b"], "later": {"k": []},
                    "env": [{"name": "N", "value": "V"}], "workingDir": "/"}, "timeoutSeconds": 9}},
                "shardTaskPatches": [null, {"spec": {"process": {"args": []}}}],
                "taskResourcePolicyWhenCompleted": "Sometimes", "pause": false, "recovery": "Replace",
                "expirePolicy": "Pause"}),
            ),
            sandbox(
                &namespace,
                "s",
                json!({"template": template, "paused": true, "expirePolicy": "Delete",
                "expireTime": "2026-11-30T10:00:00-11:30", "recovery": "Fail",
                "task": {"spec": {"process": {"command": ["a"], "later": 1}}}}),
            ),
            object("SandboxSnapshot", &namespace, "n", json!({"sandboxName": "s"})),
        ];
        for document in &everything {
            kept_all("", document, &create(&client, document).await.unwrap());
        }
        // And through our own types.
        let typed = [
            serde_json::to_value(Api::<Pool>::namespaced(client.clone(), &namespace).get("p").await.unwrap()),
            serde_json::to_value(Api::<BatchSandbox>::namespaced(client.clone(), &namespace).get("b").await.unwrap()),
            serde_json::to_value(Api::<Sandbox>::namespaced(client.clone(), &namespace).get("s").await.unwrap()),
            serde_json::to_value(
                Api::<SandboxSnapshot>::namespaced(client.clone(), &namespace).get("n").await.unwrap(),
            ),
        ];
        for (document, typed) in everything.iter().zip(typed) {
            kept_all("", document, &typed.unwrap());
        }
    });
}

#[test]
fn what_the_references_clients_write_is_accepted() {
    in_a_namespace(async |client, namespace| {
        for (name, spec) in [
            ("go", json!({"replicas": 1, "template": null, "poolRef": "ci-pod"})),
            (
                "nulls",
                json!({"template": null, "taskTemplate": null, "shardPatches": null, "shardTaskPatches": null,
                "pause": null, "expireTime": null}),
            ),
            ("empty", json!({})),
        ] {
            let made = create(&client, &batch(&namespace, name, spec)).await.unwrap();
            assert_eq!(made["spec"]["replicas"], 1, "the contract's default");
            assert_eq!(made["spec"]["taskResourcePolicyWhenCompleted"], "Retain");
        }
        let mut bare = batch(&namespace, "bare", Value::Null);
        bare.as_object_mut().unwrap().remove("spec");
        create(&client, &bare).await.unwrap();
        let listed = Api::<BatchSandbox>::namespaced(client, &namespace).list(&ListParams::default()).await.unwrap();
        assert_eq!(listed.items.len(), 4);
    });
}

#[test]
fn a_deadline_keeps_its_text_and_none_that_is_accepted_blinds_a_list() {
    in_a_namespace(async |client, namespace| {
        let texts = [
            "2026-11-30T10:00:00Z",
            "2026-11-30T10:00:00.123456Z",
            "2026-11-30T10:00:00.123456+00:00",
            "2026-11-30T18:00:00.123456789+08:00",
            "2026-11-30T10:00:00+99:99",
            "2026-11-30t10:00:00z",
            "9999-12-31T23:59:59-23:00",
            "0000-01-01T00:00:00Z",
        ];
        let mut accepted = Vec::new();
        for (index, text) in texts.into_iter().enumerate() {
            let document = batch(&namespace, &format!("b{index}"), json!({"template": template(), "expireTime": text}));
            match create(&client, &document).await {
                Ok(made) => accepted.push(made["spec"]["expireTime"].as_str().unwrap().to_owned()),
                Err(error) => says(Err::<(), _>(error), &["spec.expireTime"]),
            }
        }
        assert_eq!(accepted[..4], texts[..4]);
        let listed =
            Api::<BatchSandbox>::namespaced(client.clone(), &namespace).list(&ListParams::default()).await.unwrap();
        let read: Vec<String> =
            listed.items.iter().map(|item| item.spec.expire_time.clone().unwrap().to_string()).collect();
        assert_eq!(read, accepted);
        for text in ["tomorrow", "2026-11-30", "2026-02-31T00:00:00Z", ""] {
            let document = batch(&namespace, "bad", json!({"template": template(), "expireTime": text}));
            says(create(&client, &document).await, &["spec.expireTime", "date-time"]);
        }
    });
}

#[test]
fn a_template_nested_a_thousand_deep_does_not_blind_those_who_list() {
    in_a_namespace(async |client, namespace| {
        let path = format!("/apis/{GROUP}/v1alpha1/namespaces/{namespace}/batchsandboxes");
        let deep = format!("{}1{}", r#"{"a":"#.repeat(1000), "}".repeat(1000));
        let body = format!(
            r#"{{"apiVersion":"{GROUP}/v1alpha1","kind":"BatchSandbox","metadata":{{"name":"deep"}},"spec":{{"template":{deep}}}}}"#
        );
        let post = http::Request::post(format!("{path}?fieldManager=kinds")).header("content-type", "application/json");
        client.request_text(post.body(body.into_bytes()).unwrap()).await.unwrap();
        create(&client, &batch(&namespace, "other", json!({"poolRef": "p"}))).await.unwrap();
        let answer = client.request_text(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
        assert!(serde_json::from_str::<Value>(&answer).is_err(), "if this can be read as it is, Shallow may go");
        let read = sandbox_api::Shallow::default().pass(answer.as_bytes()).unwrap();
        let list: kube::core::ObjectList<BatchSandbox> = serde_json::from_slice(&read).unwrap();
        let names: Vec<String> = list.items.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["deep", "other"]);
        assert_eq!(list.items[1].spec.pool_ref.as_deref(), Some("p"));
    });
}

// Status.

#[test]
fn a_ledger_of_a_thousand_grants_is_one_patch_and_a_stale_one_is_refused() {
    in_a_namespace(async |client, namespace| {
        let made = create(&client, &pool(&namespace, "p", [0, 0, 0, 2000])).await.unwrap();
        let pools: Api<Pool> = Api::namespaced(client, &namespace);
        let grants: Vec<PoolGrant> = (0..1000)
            .map(|index| PoolGrant {
                claim: format!("BatchSandbox/c{index}/uid-{index}"),
                pods: vec![format!("0:p-{index}/u-{index}")],
            })
            .collect();
        let status = PoolStatus {
            holder: Some("7/process".into()),
            grants,
            retiring: vec!["p-1/u-1".into()],
            ..PoolStatus::default()
        };
        let patch = |status: &PoolStatus, version: &Value| json!({"metadata": {"uid": made["metadata"]["uid"], "resourceVersion": version}, "status": status});
        let stale = made["metadata"]["resourceVersion"].clone();
        let params = PatchParams::default();
        let written = pools.patch_status("p", &params, &Patch::Merge(patch(&status, &stale))).await.unwrap();
        assert_eq!(written.status.as_ref(), Some(&status));
        match pools.patch_status("p", &params, &Patch::Merge(patch(&status, &stale))).await {
            Err(kube::Error::Api(refused)) => assert_eq!(refused.code, 409, "{}", refused.message),
            other => panic!("a stale write went through: {other:?}"),
        }
        let emptied = PoolStatus { holder: Some("8/process".into()), ..PoolStatus::default() };
        let version = json!(written.resource_version());
        let written = pools.patch_status("p", &params, &Patch::Merge(patch(&emptied, &version))).await.unwrap();
        assert_eq!(written.status, Some(emptied), "a merge patch of a whole status also empties");
    });
}

#[test]
fn slots_of_a_claim_are_kept_and_a_condition_is_true_false_or_unknown() {
    in_a_namespace(async |client, namespace| {
        let made = create(&client, &batch(&namespace, "b", json!({"replicas": 4, "poolRef": "p"}))).await.unwrap();
        let claims: Api<BatchSandbox> = Api::namespaced(client.clone(), &namespace);
        let named = |ip: Option<&str>, ready| SandboxSlot::Named {
            name: "p-0".into(),
            uid: "u-0".into(),
            ip: ip.map(str::to_owned),
            ready,
        };
        let pods = vec![
            SandboxSlot::Open,
            named(None, false),
            named(Some("fd00::1"), true),
            SandboxSlot::Lost { uid: "u".into() },
        ];
        let status = sandbox_api::BatchSandboxStatus { pods, ..Default::default() };
        let patch = Patch::Merge(json!({"status": status}));
        let written = claims.patch_status("b", &PatchParams::default(), &patch).await.unwrap();
        assert_eq!(written.status.as_ref(), Some(&status));
        let patch = Patch::Merge(json!({"status": {"conditions": [{"type": "Ready", "status": "Perhaps"}]}}));
        says(
            api(&client, &made).patch_status("b", &PatchParams::default(), &patch).await,
            &["True", "False", "Unknown"],
        );
    });
}

#[test]
fn a_first_status_without_the_contracts_counters_is_refused() {
    in_a_namespace(async |client, namespace| {
        let made = create(&client, &pool(&namespace, "p", [0, 0, 0, 1])).await.unwrap();
        let patch = Patch::Merge(json!({"status": {"holder": "1/x"}}));
        says(
            api(&client, &made).patch_status("p", &PatchParams::default(), &patch).await,
            &["status.total", "status.allocated", "status.available", "status.revision"],
        );
    });
}

// What people see.

#[test]
fn explain_describes_every_field() {
    in_a_namespace(async |client, _| {
        let request = http::Request::get(format!("/openapi/v3/apis/{GROUP}/v1alpha1")).body(Vec::new()).unwrap();
        let served: Value = client.request(request).await.unwrap();
        for kind in ["Pool", "BatchSandbox", "Sandbox", "SandboxSnapshot"] {
            let schema = &served["components"]["schemas"][format!("io.opensandbox.sandbox.v1alpha1.{kind}")];
            assert!(schema["description"].is_string(), "{kind}: {schema}");
            described(kind, schema);
        }
    });
}

fn described(path: &str, schema: &Value) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        assert!(property["description"].is_string() || name == "metadata", "{path}.{name}");
        described(&format!("{path}.{name}"), property);
        described(&format!("{path}.{name}[]"), &property["items"]);
    }
}

#[test]
fn get_tells_a_person_phase_source_pod_readiness_and_end() {
    in_a_namespace(async |client, namespace| {
        let made =
            create(&client, &sandbox(&namespace, "s", json!({"poolRef": "p", "expireTime": "2026-11-30T10:00:00Z"})))
                .await
                .unwrap();
        let status = json!({"status": {"phase": "Running", "source": "pool/p", "podName": "p-0",
            "conditions": [{"type": "Ready", "status": "True", "reason": "PodsReady"}]}});
        api(&client, &made).patch_status("s", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        let request = http::Request::get(format!("/apis/{GROUP}/v1alpha1/namespaces/{namespace}/sandboxes"))
            .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
            .body(Vec::new())
            .unwrap();
        let table: Value = client.request(request).await.unwrap();
        let shown: Vec<(&str, &Value)> = table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .zip(table["rows"][0]["cells"].as_array().unwrap())
            .filter(|(column, _)| column["priority"] == 0)
            .map(|(column, cell)| (column["name"].as_str().unwrap(), cell))
            .filter(|(column, _)| *column != "AGE")
            .collect();
        let expected = [
            ("Name", "s"),
            ("PHASE", "Running"),
            ("SOURCE", "pool/p"),
            ("POD", "p-0"),
            ("READY", "True"),
            ("EXPIRES", "2026-11-30T10:00:00Z"),
        ];
        let expected = expected.map(|(column, cell)| (column, json!(cell)));
        assert_eq!(shown, expected.iter().map(|(column, cell)| (*column, cell)).collect::<Vec<_>>());
    });
}

// What is shipped in config/.

#[test]
fn one_sample_of_each_kind_is_accepted() {
    in_a_namespace(async |client, namespace| {
        let mut kinds = Vec::new();
        for mut document in documents("config/samples") {
            document["metadata"]["namespace"] = namespace.clone().into();
            kinds.push(document["kind"].as_str().unwrap().to_owned());
            kept_all("", &document, &serde_json::to_value(apply(&client, &document).await.unwrap()).unwrap());
        }
        kinds.sort();
        assert_eq!(kinds, ["BatchSandbox", "Pool", "Sandbox", "SandboxSnapshot"]);
    });
}

#[test]
fn operator_and_server_run_under_pod_security_restricted() {
    in_a_namespace(async |client, _| {
        for folder in ["config/operator", "config/server"] {
            let deployment = documents(folder).into_iter().find(|document| document["kind"] == "Deployment").unwrap();
            // A dry run: the API server asks Pod Security and creates nothing.
            let mut pod = deployment["spec"]["template"].clone();
            pod["apiVersion"] = "v1".into();
            pod["kind"] = "Pod".into();
            pod["metadata"]["name"] = deployment["metadata"]["name"].clone();
            pod["metadata"]["namespace"] = deployment["metadata"]["namespace"].clone();
            let namespace = pod["metadata"]["namespace"].as_str().unwrap();
            let object: DynamicObject = serde_json::from_value(pod.clone()).unwrap();
            let pods: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource(&pod));
            pods.create(&PostParams { dry_run: true, ..PostParams::default() }, &object).await.unwrap();
        }
    });
}

#[test]
fn operator_and_server_may_do_what_they_need_and_nothing_else() {
    const OPERATOR: &str = "opensandbox-controller-manager";
    const SERVER: &str = "opensandbox-server";
    const SYSTEM: &str = "opensandbox-system";
    let rows = [
        (OPERATOR, "opensandbox", "", "pods", "create delete get list patch watch", true),
        (OPERATOR, "other", "", "pods", "create delete get list patch watch", true),
        (OPERATOR, "opensandbox", "", "pods/status", "patch update", false),
        (OPERATOR, "opensandbox", "", "pods/exec", "create", false),
        (OPERATOR, SYSTEM, "", "secrets", "get list watch create", false),
        (OPERATOR, "opensandbox", "", "configmaps", "get list", false),
        (OPERATOR, "", "", "nodes", "get list watch", true),
        (OPERATOR, "", "", "nodes", "patch update delete", false),
        (OPERATOR, "opensandbox", "apps", "controllerrevisions", "create delete get list", true),
        (OPERATOR, "opensandbox", GROUP, "pools", "get list watch", true),
        (OPERATOR, "opensandbox", GROUP, "pools", "create delete patch update", false),
        (OPERATOR, "opensandbox", GROUP, "pools/status", "patch", true),
        (OPERATOR, "opensandbox", GROUP, "batchsandboxes", "get list watch patch delete", true),
        (OPERATOR, "opensandbox", GROUP, "batchsandboxes", "create", false),
        (OPERATOR, "opensandbox", GROUP, "sandboxes/status", "patch", true),
        (OPERATOR, "opensandbox", "events.k8s.io", "events", "create patch", true),
        (OPERATOR, SYSTEM, "coordination.k8s.io", "leases", "create", true),
        (OPERATOR, "kube-system", "coordination.k8s.io", "leases", "create get update", false),
        (SERVER, "opensandbox", GROUP, "batchsandboxes", "get list watch create patch delete", true),
        (SERVER, "opensandbox", GROUP, "sandboxes", "get list watch create patch delete", true),
        (SERVER, "opensandbox", GROUP, "batchsandboxes/status", "patch update", false),
        (SERVER, "opensandbox", "", "pods", "create patch update delete get list", false),
        (SERVER, "opensandbox", "", "secrets", "create patch delete", true),
        (SERVER, "opensandbox", "", "secrets", "get list watch", false),
        (SERVER, SYSTEM, "", "secrets", "create get list", false),
        (SERVER, "opensandbox", "", "persistentvolumeclaims", "get create patch delete", true),
        (SERVER, "other", GROUP, "batchsandboxes", "get create", false),
        (SERVER, "", "node.k8s.io", "runtimeclasses", "get", true),
        (SERVER, "", "node.k8s.io", "runtimeclasses", "list create", false),
    ];
    in_a_namespace(async |client, _| {
        for (who, namespace, group, resource, verbs, may) in rows {
            for verb in verbs.split(' ') {
                let what = format!("{who} {verb} {group}/{resource} in {namespace:?}");
                assert_eq!(allowed(&client, who, [namespace, group, resource, verb]).await, may, "{what}");
            }
        }
    });
}

async fn allowed(client: &Client, who: &str, [namespace, group, resource, verb]: [&str; 4]) -> bool {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let review: SubjectAccessReview = serde_json::from_value(json!({"spec": {
        "user": format!("system:serviceaccount:opensandbox-system:{who}"),
        "groups": ["system:serviceaccounts", "system:serviceaccounts:opensandbox-system", "system:authenticated"],
        "resourceAttributes": {"namespace": namespace, "group": group, "resource": resource,
            "subresource": subresource, "verb": verb}}}))
    .unwrap();
    let answer = Api::all(client.clone()).create(&PostParams::default(), &review).await.unwrap();
    answer.status.unwrap().allowed
}
