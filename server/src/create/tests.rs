#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::config::{self, Env};

const CONFIG: &str = r#"
[server]
api_key = "k"
max_sandbox_timeout_seconds = 86400
[runtime]
type = "kubernetes"
execd_image = "registry.example.org/execd:v1"
[storage]
allowed_host_paths = ["/data"]
[egress]
image = "registry.example.org/egress:v1"
mode = "dns+nft"
[kubernetes]
namespace = "opensandbox"
"#;

fn read_config(text: &str) -> Config {
    config::parse(text, &Env::default()).unwrap().config
}

fn given() -> Given {
    Given {
        id: "11111111-2222-4333-8444-555555555555".to_owned(),
        namespace: "opensandbox".to_owned(),
        now: "2026-11-30T18:46:27.578058Z".parse().unwrap(),
        secure_token: "secure-token".to_owned(),
        egress_token: "egress-token".to_owned(),
    }
}

fn ordered(text: &str, template: Option<&Value>, body: Value) -> Result<Order, ApiError> {
    let request = CreateRequest::read(&body)?;
    plan(&read_config(text), template, &request, &given())
}

fn order(body: Value) -> Order {
    ordered(CONFIG, None, body).unwrap()
}

fn refused(text: &str, body: Value) -> (u16, &'static str, String) {
    let error = ordered(text, None, body).unwrap_err();
    (error.status.as_u16(), error.code.as_str(), error.message)
}

fn image(more: Value) -> Value {
    let mut body = json!({
        "image": {"uri": "python:3.12"},
        "entrypoint": ["tail", "-f", "/dev/null"],
        "timeout": 600,
        "resourceLimits": {"cpu": "500m", "memory": "256Mi"},
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn the_object_of_an_image_create_is_the_contract_s() {
    let body = image(json!({"metadata": {"team": "a"}, "env": {"A": "x y", "B": null}, "timeout": 600,
        "extensions": {"opensandbox.extensions.foo": "bar", "access.renew.extend.seconds": "600"}}));
    insta::assert_yaml_snapshot!("image", order(body).manifest);
}

#[test]
fn the_object_of_an_image_create_with_everything_is_the_contract_s() {
    let text = format!(
        "{CONFIG}execd_init_resources = {{ limits = {{ cpu = \"100m\" }} }}\n\
         [secure_runtime]\ntype = \"kata\"\nk8s_runtime_class = \"kata-clh-runtime-rs\"\n"
    );
    let body = image(json!({
        "image": {"uri": "registry.example.org/a:1", "auth": {"username": "u", "password": "p"}},
        "timeout": null,
        "platform": {"os": "Linux", "arch": "amd64"},
        "resourceLimits": {"cpu": "1", "gpu": "2"}, "resourceRequests": {"cpu": "100m"},
        "networkPolicy": {"defaultAction": "deny", "egress": [{"action": "allow", "target": "pypi.org"}]},
        "credentialProxy": {"enabled": true},
        "env": {"A": "1", "OPENSANDBOX_EGRESS_LOG_LEVEL": "debug"},
        "lifecycle": {"preStart": {"command": ["sh", "-c", "true"], "timeoutSeconds": 5}},
        "extensions": {"bootstrap.execd.isolation": "enable"},
        "volumes": [
            {"name": "host", "mountPath": "/h", "host": {"path": "/data/a"}, "readOnly": true},
            {"name": "one", "mountPath": "/1", "pvc": {"claimName": "c"}, "subPath": "a"},
            {"name": "two", "mountPath": "/2", "pvc": {"claimName": "c"}},
        ],
    }));
    let template = json!({"spec": {"template": {"spec": {"restartPolicy": "Never", "nodeSelector": {"zone": "z"}}}}});
    let order = ordered(&text, Some(&template), body).unwrap();
    insta::assert_yaml_snapshot!("image_with_everything", order.manifest);
    assert_eq!(order.claims.len(), 1);
    let owner = json!({"kind": "BatchSandbox", "uid": "u"});
    insta::assert_yaml_snapshot!("pull_secret", order.pull.unwrap().secret(&given(), &owner));
}

#[test]
fn the_object_of_a_pool_create_is_the_contract_s() {
    let body = json!({"image": {"uri": "ignored"}, "resourceLimits": {"cpu": "banana"}, "env": {"A": "x y", "N": null},
        "timeout": 60, "entrypoint": ["sh", "-c", "echo \"hi $X\""], "extensions": {"poolRef": " ci-pod "}});
    let order = order(body);
    assert_eq!(order.pool.as_deref(), Some("ci-pod"));
    insta::assert_yaml_snapshot!("pool", order.manifest);
}

#[test]
fn a_sandbox_says_the_same_as_a_batch_sandbox() {
    let text = format!("{CONFIG}workload_provider = \"sandbox\"\n");
    let pool = ordered(&text, None, json!({"extensions": {"poolRef": "ci-pod"}})).unwrap();
    assert_eq!(pool.kind, Kind::Sandbox);
    insta::assert_yaml_snapshot!("sandbox_of_a_pool", pool.manifest);
    let made = ordered(&text, None, image(json!({}))).unwrap();
    let keys: Vec<&String> = made.manifest["spec"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["expireTime", "template"]);
}

#[test]
fn any_pool_is_the_operator_s_to_choose() {
    let order = order(json!({"extensions": {"poolRef": "*"}}));
    assert_eq!((order.pool, &order.manifest["spec"]["poolRef"]), (None, &json!("*")));
}

#[test]
fn what_a_pool_s_pod_cannot_be_given_any_more_is_refused() {
    let pool = |more: Value| {
        let mut body = json!({"extensions": {"poolRef": "ci-pod"}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        refused(CONFIG, body)
    };
    for (more, named) in [
        (json!({"networkPolicy": {}}), "networkPolicy"),
        (json!({"volumes": [{"name": "a", "mountPath": "/a", "host": {"path": "/data"}}]}), "volumes"),
        (json!({"platform": {"os": "linux", "arch": "amd64"}}), "platform"),
    ] {
        let (status, code, message) = pool(more);
        assert_eq!((status, code), (400, "SANDBOX::INVALID_PARAMETER"));
        assert!(message.starts_with(named), "{message}");
    }
    assert_eq!(pool(json!({"lifecycle": {}})).0, 422);
    assert_eq!(pool(json!({"snapshotId": "s"})).0, 422);
}

#[test]
fn what_is_not_served_is_refused_and_never_dropped() {
    let snapshot = json!({"snapshotId": "s", "resourceLimits": {}});
    assert_eq!(refused(CONFIG, snapshot).1, "SNAPSHOT::NOT_IMPLEMENTED");
    assert_eq!(refused(CONFIG, json!({"templateId": "t", "timeout": 60})).1, "FSB::TEMPLATE_NOT_FOUND");
    let windows = image(json!({"platform": {"os": "windows", "arch": "amd64"}}));
    assert_eq!(refused(CONFIG, windows).0, 400);
    let fresh = image(json!({"extensions": {"poolRef": "p", "pool.override": "apply"}}));
    assert_eq!(refused(CONFIG, fresh).0, 400);
}

#[test]
fn every_rule_of_a_create_has_its_code() {
    let host = |path: &str| json!({"volumes": [{"name": "a", "mountPath": "/a", "host": {"path": path}}]});
    let twice = json!({"name": "a", "mountPath": "/a", "host": {"path": "/data"}});
    for (more, code) in [
        (json!({"timeout": 86_401}), "SANDBOX::INVALID_PARAMETER"),
        (json!({"secureAccess": true}), "SANDBOX::INVALID_PARAMETER"),
        (json!({"resourceLimits": {"cpu": "banana"}}), "SANDBOX::INVALID_PARAMETER"),
        (json!({"resourceLimits": {"gpu": "all"}}), "SANDBOX::INVALID_PARAMETER"),
        (json!({"metadata": {"opensandbox.io/id": "x"}}), "SANDBOX::INVALID_METADATA_LABEL"),
        (json!({"metadata": {"sandbox.opensandbox.io/warm": "true"}}), "SANDBOX::INVALID_METADATA_LABEL"),
        (json!({"metadata": {"a": "b\n"}}), "SANDBOX::INVALID_METADATA_LABEL"),
        (json!({"extensions": {"access.renew.extend.seconds": "5"}}), "SANDBOX::INVALID_PARAMETER"),
        (json!({"env": {"OPENSANDBOX_EGRESS_SECRET": "x"}}), "SANDBOX::INVALID_PARAMETER"),
        (host("/etc"), "VOLUME::HOST_PATH_NOT_ALLOWED"),
        (host("/database"), "VOLUME::HOST_PATH_NOT_ALLOWED"),
        (host("/data/../etc"), "VOLUME::INVALID_HOST_PATH"),
        (json!({"volumes": [twice, twice]}), "VOLUME::DUPLICATE_NAME"),
        (
            json!({"volumes": [{"name": "a", "mountPath": "/a", "subPath": "../x", "host": {"path": "/data"}}]}),
            "VOLUME::INVALID_SUB_PATH",
        ),
    ] {
        assert_eq!(refused(CONFIG, image(more.clone())).1, code, "{more}");
    }
    let no_egress = CONFIG.replace("image = \"registry.example.org/egress:v1\"", "");
    assert_eq!(refused(&no_egress, image(json!({"networkPolicy": {}}))).0, 400);
}

#[test]
fn a_template_can_neither_give_nor_keep_a_deadline() {
    let template = json!({"spec": {"expireTime": "2020-01-01T00:00:00Z"}});
    let forever = ordered(CONFIG, Some(&template), image(json!({"timeout": null}))).unwrap();
    assert!(forever.manifest["spec"].get("expireTime").is_none());
    let finite = ordered(CONFIG, Some(&template), image(json!({}))).unwrap();
    assert_eq!(finite.manifest["spec"]["expireTime"], "2026-11-30T18:56:27.578058+00:00");
}
