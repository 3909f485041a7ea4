//! The lifecycle API on a real API server. The operator's part is played by [`play_operator`]: it answers each new
//! BatchSandbox as the sandbox's own metadata asks it to.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::StreamExt as _;
use futures::future::join_all;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, ResourceExt as _};
use reqwest::{Method, StatusCode};
use sandbox_api::{
    BatchSandbox, BatchSandboxPhase, BatchSandboxStatus, Condition, ConditionType, Reason, Sandbox, SandboxPhase,
    SandboxSlot, SandboxStatus,
};
use sandbox_cluster::{PlaneOptions, Stop, home};
use sandbox_e2e::server::{Server, ServerOptions};
use sandbox_e2e::stage::{Stage, StageOptions};
use sandbox_e2e::{accounts, objects, until, until_gone};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;

const NAMESPACE: &str = "opensandbox";
const KEY: &str = "test-key";
const LIMIT: Duration = Duration::from_secs(20);
/// Metadata key by which a sandbox says what shall become of it.
const FATE: &str = "fate";

struct World {
    stage: Stage,
    server: Server,
    kubeconfig: PathBuf,
}

impl World {
    /// With an operator that the test plays.
    async fn start(name: &str, config: &str) -> Result<Self> {
        let plane = PlaneOptions { stand_in: None, ..PlaneOptions::default() };
        let world = Self::on(StageOptions { plane, operator: false, ..StageOptions::named(name) }, config).await?;
        tokio::spawn(play_operator(world.stage.admin()));
        Ok(world)
    }

    async fn on(options: StageOptions, config: &str) -> Result<Self> {
        let stage = Stage::start(options).await?;
        let kubeconfig = stage.plane().dir().join("server.kubeconfig");
        accounts::kubeconfig(&stage.admin(), &stage.plane().kubeconfig(), accounts::SERVER, &kubeconfig).await?;
        let server = start_server(&stage, &kubeconfig, "first", config).await?;
        Ok(Self { stage, server, kubeconfig })
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.stage.admin(), NAMESPACE)
    }

    fn http(&self) -> Http {
        Http::to(&self.server)
    }
}

async fn start_server(stage: &Stage, kubeconfig: &Path, name: &str, config: &str) -> Result<Server> {
    start_server_in(stage, kubeconfig, name, config, None).await
}

async fn start_server_in(
    stage: &Stage,
    kubeconfig: &Path,
    name: &str,
    config: &str,
    root: Option<PathBuf>,
) -> Result<Server> {
    let file = stage.logs().join(format!("{name}.toml"));
    std::fs::write(&file, config)?;
    let logs = stage.logs().join(name);
    std::fs::create_dir_all(&logs)?;
    Server::start(&ServerOptions {
        config: file,
        kubeconfig: kubeconfig.to_owned(),
        logs,
        file_root: root.or_else(|| Some(home::checkout().join("server"))),
        api_key: Some(KEY.to_owned()),
    })
    .await
}

fn config(more: &str) -> String {
    format!(
        r#"
[server]
port = 80
api_key = ""
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
namespace = "{NAMESPACE}"
sandbox_create_timeout_seconds = 4
pool_acquisition_timeout_seconds = 1
batchsandbox_template_file = "/etc/opensandbox/example.batchsandbox-template.yaml"
{more}
"#
    )
}

fn runtime() -> &'static Runtime {
    static RUNTIME: std::sync::OnceLock<Runtime> = std::sync::OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().unwrap())
}

/// Runs a test on the server that all tests here share.
fn on_server(test: impl AsyncFnOnce(&'static World) -> Result<()>) -> Result<()> {
    static WORLD: OnceCell<World> = OnceCell::const_new();
    runtime().block_on(async {
        test(WORLD.get_or_try_init(async || World::start("server", &config("")).await).await?).await
    })
}

fn on_own(name: &str, more: &str, test: impl AsyncFnOnce(World) -> Result<()>) -> Result<()> {
    runtime().block_on(async { test(World::start(name, &config(more)).await?).await })
}

struct Http {
    base: String,
    client: reqwest::Client,
}

#[derive(Debug)]
struct Answer {
    status: StatusCode,
    headers: reqwest::header::HeaderMap,
    body: Value,
}

impl Http {
    fn to(server: &Server) -> Self {
        Self { base: format!("http://{}", server.address()), client: reqwest::Client::new() }
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base)).header("OPEN-SANDBOX-API-KEY", KEY)
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let answer = request.send().await.unwrap();
        let (status, headers) = (answer.status(), answer.headers().clone());
        let text = answer.text().await.unwrap();
        let body = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() };
        Answer { status, headers, body }
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(self.request(Method::POST, path).json(&body)).await
    }

    async fn delete(&self, path: &str) -> Answer {
        self.send(self.request(Method::DELETE, path)).await
    }
}

fn image(fate: &str) -> Value {
    json!({
        "image": {"uri": "python:3.12"}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 600,
        "resourceLimits": {"cpu": "500m", "memory": "256Mi"}, "metadata": {FATE: fate},
    })
}

/// Gives every new sandbox the status that its metadata asks for.
async fn play_operator(client: Client) {
    let batches: Api<BatchSandbox> = Api::namespaced(client.clone(), NAMESPACE);
    let singles: Api<Sandbox> = Api::namespaced(client, NAMESPACE);
    let mut of_batches = Box::pin(watcher(batches.clone(), watcher::Config::default()));
    let mut of_singles = Box::pin(watcher(singles.clone(), watcher::Config::default()));
    loop {
        tokio::select! {
            Some(event) = of_batches.next() => match event {
                Ok(Event::Apply(object) | Event::InitApply(object)) if object.status.is_none() => {
                    if let Some(status) = fate(object.labels()) {
                        report(&batches, &object.name_any(), &status).await;
                    }
                }
                _ => {}
            },
            Some(event) = of_singles.next() => match event {
                Ok(Event::Apply(object) | Event::InitApply(object)) if object.status.is_none() => {
                    let status = SandboxStatus {
                        phase: Some(SandboxPhase::Running), pod_name: Some("p".into()), pod_uid: Some("u".into()),
                        pod_ip: Some("198.18.0.8".into()), ..SandboxStatus::default()
                    };
                    report(&singles, &object.name_any(), &status).await;
                }
                _ => {}
            },
        }
    }
}

async fn report<K, S>(api: &Api<K>, name: &str, status: &S)
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    S: serde::Serialize,
{
    let patch = json!({"status": status});
    // Gone already: whoever deleted it knows.
    let _ = api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
}

fn running() -> BatchSandboxStatus {
    let slot = SandboxSlot::Named { name: "p-0".into(), uid: "u-0".into(), ip: Some("198.18.0.7".into()), ready: true };
    BatchSandboxStatus {
        phase: Some(BatchSandboxPhase::Succeed),
        replicas: 1,
        allocated: 1,
        ready: 1,
        pods: vec![slot],
        ..BatchSandboxStatus::default()
    }
}

fn fate(labels: &BTreeMap<String, String>) -> Option<BatchSandboxStatus> {
    let now = Timestamp::now();
    let with = |phase, type_, holds: bool, reason, message: &str| BatchSandboxStatus {
        phase: Some(phase),
        conditions: vec![Condition::new(type_, holds, reason, message, now)],
        ..BatchSandboxStatus::default()
    };
    match labels.get(FATE).map(String::as_str) {
        Some("never") => None,
        Some("fail") => {
            let words = "main: back-off pulling image";
            Some(with(BatchSandboxPhase::Failed, ConditionType::PodFailed, true, Reason::ImagePullFailed, words))
        }
        Some("full") => {
            let (kind, reason) = (ConditionType::PoolAllocationPending, Reason::PoolCapacityExhausted);
            Some(with(BatchSandboxPhase::Pending, kind, true, reason, "poolMax 4 is reached"))
        }
        Some("stuck") => {
            let words = "0/1 nodes are available: 1 Insufficient cpu";
            Some(with(BatchSandboxPhase::Pending, ConditionType::Ready, false, Reason::Unschedulable, words))
        }
        Some(_) | None => Some(running()),
    }
}

fn code(answer: &Answer) -> &str {
    assert!(answer.body["message"].is_string(), "no message: {answer:?}");
    answer.body["code"].as_str().unwrap()
}

/// Names of the BatchSandboxes with this metadata.
async fn left(world: &World, label: &str) -> Vec<String> {
    let list = world.api::<BatchSandbox>().list(&kube::api::ListParams::default().labels(label)).await.unwrap();
    list.items.iter().map(kube::ResourceExt::name_any).collect()
}

#[test]
fn a_sandbox_is_created_found_listed_renewed_and_deleted() -> Result<()> {
    on_server(async |world| {
        let http = world.http();
        let created = http.post("/v1/sandboxes", image("run-life")).await;
        assert_eq!(created.status, 202, "{created:?}");
        let id = created.body["id"].as_str().unwrap().to_owned();
        assert_eq!(created.body["status"]["state"], "Running");
        assert_eq!(created.body["entrypoint"], json!(["tail", "-f", "/dev/null"]));

        // Right after the answer every read knows it, under both mounts.
        let found = http.get(&format!("/sandboxes/{id}")).await;
        assert_eq!(found.status, 200, "{found:?}");
        assert_eq!(found.body["image"]["uri"], "python:3.12");
        assert_eq!(found.body["metadata"], json!({FATE: "run-life"}));
        let listed = http.get("/v1/sandboxes?metadata=fate%3Drun-life&state=running").await;
        assert_eq!(listed.body["pagination"]["totalItems"], 1, "{listed:?}");
        assert_eq!(listed.body["items"][0]["id"], id.as_str());
        let endpoint = http.get(&format!("/v1/sandboxes/{id}/endpoints/44772?use_server_proxy=false")).await;
        assert_eq!(endpoint.body, json!({"endpoint": "198.18.0.7:44772"}));

        let at = Timestamp::now() + SignedDuration::from_hours(1);
        let at = Timestamp::from_second(at.as_second())?;
        let renew = format!("/v1/sandboxes/{id}/renew-expiration");
        let renewed = http.post(&renew, json!({"expiresAt": at.to_string()})).await;
        assert_eq!((renewed.status, renewed.body["expiresAt"].clone()), (StatusCode::OK, json!(at.to_string())));
        let object = world.api::<BatchSandbox>().get(&id).await?;
        assert_eq!(object.spec.expire_time.map(|t| t.at()), Some(at));
        assert_eq!(http.get(&format!("/sandboxes/{id}")).await.body["expiresAt"], json!(at.to_string()));

        assert_eq!(http.delete(&format!("/v1/sandboxes/{id}")).await.status, 204);
        let gone = http.get(&format!("/v1/sandboxes/{id}")).await;
        assert_eq!((gone.status, code(&gone)), (StatusCode::NOT_FOUND, "KUBERNETES::SANDBOX_NOT_FOUND"));
        assert_eq!(http.delete(&format!("/v1/sandboxes/{id}")).await.status, 404);
        assert!(world.api::<BatchSandbox>().get_opt(&id).await?.is_none());
        Ok(())
    })
}

#[test]
fn what_is_written_for_an_image_is_the_contract_s() -> Result<()> {
    on_server(async |world| {
        let created = world.http().post("/v1/sandboxes", image("run-written")).await;
        let object = world.api::<BatchSandbox>().get(created.body["id"].as_str().unwrap()).await?;
        let pod = object.spec.template.clone().unwrap()["spec"].clone();
        assert_eq!(pod["restartPolicy"], "Never", "the template file is merged in");
        assert_eq!(pod["automountServiceAccountToken"], false);
        let command = &pod["containers"][0]["command"];
        assert_eq!(command, &json!(["/opt/opensandbox/bootstrap.sh", "tail", "-f", "/dev/null"]));
        assert_eq!(object.labels()["opensandbox.io/id"], object.name_any());
        assert!(object.finalizers().is_empty() && object.owner_references().is_empty());
        Ok(())
    })
}

#[test]
fn a_pool_create_takes_image_and_resources_and_ignores_them() -> Result<()> {
    on_server(async |world| {
        world.api().create(&PostParams::default(), &objects::pool("warm", objects::capacity(0, 1, 4))).await?;
        let mut body = image("run-pool");
        body["extensions"] = json!({"poolRef": "warm"});
        body["env"] = json!({"GREETING": "hello world"});
        let created = world.http().post("/v1/sandboxes", body).await;
        assert_eq!(created.status, 202, "{created:?}");
        let id = created.body["id"].as_str().unwrap();
        let object = world.api::<BatchSandbox>().get(id).await?;
        assert_eq!((object.spec.pool_ref.as_deref(), &object.spec.template), (Some("warm"), &None));
        let process = &object.spec.task_template.unwrap()["spec"]["process"];
        assert_eq!(process["command"][2], "exec /opt/opensandbox/bootstrap.sh tail -f /dev/null");
        assert_eq!(process["env"][0], json!({"name": "GREETING", "value": "hello world"}));
        let found = world.http().get(&format!("/v1/sandboxes/{id}")).await.body;
        assert_eq!(found["allocation"], json!({"mode": "pool", "poolRef": "warm", "state": "allocated"}));
        Ok(())
    })
}

#[test]
fn an_unknown_pool_is_told_at_once_and_nothing_is_left_behind_e074() -> Result<()> {
    on_server(async |world| {
        let mut body = image("run-nowhere");
        body["extensions"] = json!({"poolRef": "nope"});
        let started = Instant::now();
        let answer = world.http().post("/v1/sandboxes", body.clone()).await;
        assert!(started.elapsed() < Duration::from_secs(1));
        assert_eq!((answer.status, code(&answer)), (StatusCode::NOT_FOUND, "KUBERNETES::POOL_NOT_FOUND"));
        assert_eq!(left(world, "fate=run-nowhere").await, Vec::<String>::new());
        // "*" is the operator's to choose.
        body["extensions"] = json!({"poolRef": "*"});
        assert_eq!(world.http().post("/v1/sandboxes", body).await.status, 202);
        Ok(())
    })
}

#[test]
fn a_wrong_body_names_the_field() -> Result<()> {
    on_server(async |world| {
        let http = world.http();
        let mut body = image("run-wrong");
        body["timeout"] = json!("soon");
        body["image"] = json!({"uri": 7, "auth": {"username": "u", "password": "hunter2"}});
        let answer = http.post("/v1/sandboxes", body).await;
        assert_eq!(answer.status, 422);
        assert_eq!(code(&answer), "SANDBOX::INVALID_PARAMETER");
        let message = answer.body["message"].as_str().unwrap();
        assert!(message.contains("timeout: must be an integer") && message.contains("image.uri:"), "{message}");
        assert!(!answer.body.to_string().contains("hunter2"), "secrets are not repeated");

        let mut body = image("run-wrong");
        body["resourceLimits"] = json!({"cpu": "banana"});
        let answer = http.post("/v1/sandboxes", body).await;
        assert_eq!(answer.status, 400);
        assert!(answer.body["message"].as_str().unwrap().contains("resourceLimits.cpu"));

        let mut body = image("run-wrong");
        body["metadata"]["opensandbox.io/id"] = json!("x");
        let answer = http.post("/v1/sandboxes", body).await;
        assert_eq!((answer.status, code(&answer)), (StatusCode::BAD_REQUEST, "SANDBOX::INVALID_METADATA_LABEL"));
        assert_eq!(left(world, "fate=run-wrong").await, Vec::<String>::new());
        Ok(())
    })
}

#[test]
fn every_error_has_the_envelope_and_every_answer_its_request_id() -> Result<()> {
    on_server(async |world| {
        let http = world.http();
        let nowhere = http.request(Method::GET, "/v1/nowhere").header("X-Request-ID", " abc ");
        let post = |body: &str, kind: &str| {
            http.request(Method::POST, "/v1/sandboxes").header("content-type", kind.to_owned()).body(body.to_owned())
        };
        let json = "application/json";
        let anonymous = http.client.get(format!("{}/v1/sandboxes", http.base));
        let wrong_key = http.client.get(format!("{}/nowhere", http.base)).header("OPEN-SANDBOX-API-KEY", "x");
        let large = "x".repeat(2 << 20);
        for (request, status, expected) in [
            (nowhere, 404, "GENERAL::NOT_FOUND"),
            (http.request(Method::PUT, "/v1/sandboxes"), 405, "GENERAL::METHOD_NOT_ALLOWED"),
            (http.request(Method::POST, "/v1/sandboxes/x/pause"), 501, "GENERAL::NOT_IMPLEMENTED"),
            (post("{", json), 422, "SANDBOX::INVALID_PARAMETER"),
            (post("[]", json), 422, "SANDBOX::INVALID_PARAMETER"),
            (post("a=b", "application/x-www-form-urlencoded"), 422, "SANDBOX::INVALID_PARAMETER"),
            (post(&large, json), 413, "GENERAL::PAYLOAD_TOO_LARGE"),
            (anonymous, 401, "MISSING_API_KEY"),
            (wrong_key, 401, "INVALID_API_KEY"),
            (http.request(Method::GET, "/v1/sandboxes?pageSize=201"), 422, "SANDBOX::INVALID_PARAMETER"),
            (http.request(Method::GET, "/v1/sandboxes?metadata=x"), 400, "INVALID_METADATA_FORMAT"),
            (http.request(Method::GET, "/v1/sandboxes/Not_An_Id"), 404, "KUBERNETES::SANDBOX_NOT_FOUND"),
            (http.request(Method::GET, "/v1/sandboxes/x/endpoints/99999"), 400, "DOCKER::INVALID_PORT"),
        ] {
            let answer = http.send(request).await;
            assert_eq!((answer.status.as_u16(), code(&answer)), (status, expected), "{answer:?}");
            let id = answer.headers["x-request-id"].to_str()?;
            assert!(id == "abc" || id.len() == 32, "{id}");
        }
        let health = http.client.get(format!("{}/health", http.base));
        assert_eq!(http.send(health).await.body, json!({"status": "healthy"}));
        Ok(())
    })
}

#[test]
fn a_create_that_fails_says_why_and_leaves_nothing_behind() -> Result<()> {
    on_server(async |world| {
        let http = world.http();
        let failed = http.post("/v1/sandboxes", image("fail")).await;
        assert_eq!((failed.status.as_u16(), code(&failed)), (500, "KUBERNETES::POD_FAILED"));
        assert!(failed.body["message"].as_str().unwrap().contains("ImagePullFailed"), "{failed:?}");

        let (full, stuck) =
            tokio::join!(http.post("/v1/sandboxes", image("full")), http.post("/v1/sandboxes", image("stuck")));
        assert_eq!((full.status.as_u16(), code(&full)), (429, "KUBERNETES::POOL_CAPACITY_EXHAUSTED"));
        assert_eq!(full.headers["retry-after"], "1");
        assert_eq!((stuck.status.as_u16(), code(&stuck)), (504, "KUBERNETES::POD_READY_TIMEOUT"));
        assert!(stuck.body["message"].as_str().unwrap().contains("Insufficient cpu"), "{stuck:?}");
        // Not "soon": before the answer.
        assert_eq!(left(world, "fate in (fail,full,stuck)").await, Vec::<String>::new());
        Ok(())
    })
}

#[test]
fn a_client_that_disconnects_leaves_nothing_behind() -> Result<()> {
    on_server(async |world| {
        let http = world.http();
        let mut body = image("never");
        body["metadata"]["caller"] = json!("impatient");
        let request = http.request(Method::POST, "/v1/sandboxes").json(&body);
        let call = tokio::spawn(request.send());
        let api = world.api::<BatchSandbox>();
        let made =
            sandbox_e2e::until_all(&api, "caller=impatient", "the sandbox is written", LIMIT, |all| all.len() == 1)
                .await?;
        let (name, object) = made.into_iter().next().unwrap();
        call.abort();
        until_gone(&api, &name, &object.uid().unwrap(), LIMIT).await
    })
}

#[test]
fn a_server_that_stops_cleans_up_after_the_creates_it_cuts_off() -> Result<()> {
    on_server(async |world| {
        let text = config("").replace("port = 80", "port = 80\ntimeout_graceful_shutdown = 1");
        let text = text.replace("sandbox_create_timeout_seconds = 4", "sandbox_create_timeout_seconds = 60");
        let mut server = start_server(&world.stage, &world.kubeconfig, "stopped", &text).await?;
        let http = Http::to(&server);
        let mut body = image("never");
        body["metadata"]["caller"] = json!("unlucky");
        let call = tokio::spawn(http.request(Method::POST, "/v1/sandboxes").json(&body).send());
        let api = world.api::<BatchSandbox>();
        let written =
            sandbox_e2e::until_all(&api, "caller=unlucky", "the sandbox is written", LIMIT, |all| all.len() == 1);
        written.await?;
        tokio::task::spawn_blocking(move || server.program().stop()).await?;
        assert_eq!(left(world, "caller=unlucky").await, Vec::<String>::new());
        assert_eq!(call.await??.status(), 503);
        Ok(())
    })
}

#[test]
fn renewal_is_a_versioned_patch() -> Result<()> {
    on_server(async |world| {
        let http = world.http();
        let created = http.post("/v1/sandboxes", image("run-renewed")).await;
        let id = created.body["id"].as_str().unwrap().to_owned();
        let path = format!("/v1/sandboxes/{id}/renew-expiration");
        // Others change the object all the while: no change of theirs and none of ours may be lost.
        let api = world.api::<BatchSandbox>();
        let others = async {
            for round in 0..40 {
                let status = BatchSandboxStatus { observed_generation: round, ..running() };
                report(&api, &id, &status).await;
            }
        };
        let base = Timestamp::from_second(Timestamp::now().as_second())? + SignedDuration::from_hours(1);
        let renewals = (0..20).map(|i| {
            let at = base + SignedDuration::from_secs(i);
            http.post(&path, json!({"expiresAt": at.to_string()}))
        });
        let labels = (0..20).map(|i| {
            let request = http.request(Method::PATCH, &format!("/v1/sandboxes/{id}/metadata"));
            http.send(request.json(&json!({format!("key-{i}"): "v"})))
        });
        let (answers, changed, ()) = tokio::join!(join_all(renewals), join_all(labels), others);
        let lost = answers.iter().chain(&changed).find(|a| a.status != 200 && code(a) != "KUBERNETES::INVALID_STATE");
        assert!(lost.is_none(), "{lost:?}");
        let object = api.get(&id).await?;
        let at = object.spec.expire_time.as_ref().unwrap().at();
        assert!(answers.iter().any(|a| a.status == 200 && a.body["expiresAt"] == at.to_string()), "{at}");
        for (i, answer) in changed.iter().enumerate().filter(|(_, a)| a.status == 200) {
            assert!(object.labels().contains_key(&format!("key-{i}")), "{answer:?}");
        }

        let past = http.post(&path, json!({"expiresAt": "2020-01-01T00:00:00Z"})).await;
        assert_eq!((past.status.as_u16(), code(&past)), (400, "DOCKER::INVALID_EXPIRATION"));
        let mut forever = image("run-forever");
        forever["timeout"] = Value::Null;
        let forever = http.post("/v1/sandboxes", forever).await;
        assert!(forever.body.get("expiresAt").is_none());
        let path = format!("/v1/sandboxes/{}/renew-expiration", forever.body["id"].as_str().unwrap());
        let refused = http.post(&path, json!({"expiresAt": base.to_string()})).await;
        assert_eq!((refused.status.as_u16(), code(&refused)), (409, "DOCKER::INVALID_EXPIRATION"));
        Ok(())
    })
}

#[test]
fn a_sandbox_that_is_going_cannot_be_renewed() -> Result<()> {
    on_server(async |world| {
        let created = world.http().post("/v1/sandboxes", image("run-going")).await;
        let id = created.body["id"].as_str().unwrap();
        let api = world.api::<BatchSandbox>();
        let hold = json!({"metadata": {"finalizers": ["example.org/hold"]}});
        api.patch(id, &PatchParams::default(), &Patch::Merge(&hold)).await?;
        assert_eq!(world.http().delete(&format!("/v1/sandboxes/{id}")).await.status, 204);
        let found = world.http().get(&format!("/v1/sandboxes/{id}")).await.body;
        assert_eq!((&found["status"]["state"], &found["status"]["reason"]), (&json!("Stopping"), &json!("DELETING")));
        let at = (Timestamp::now() + SignedDuration::from_hours(1)).to_string();
        let renewed =
            world.http().post(&format!("/v1/sandboxes/{id}/renew-expiration"), json!({"expiresAt": at})).await;
        assert_eq!(renewed.status, 409, "{renewed:?}");
        let free = json!({"metadata": {"finalizers": null}});
        api.patch(id, &PatchParams::default(), &Patch::Merge(&free)).await?;
        Ok(())
    })
}

#[test]
fn pages_neither_repeat_nor_skip_and_filters_count_what_they_match() -> Result<()> {
    on_server(async |world| {
        let http = world.http();
        let created = join_all((0..7).map(|i| {
            let mut body = image("run-paged");
            body["metadata"]["parity"] = json!(if i % 2 == 0 { "even" } else { "odd" });
            http.post("/v1/sandboxes", body)
        }))
        .await;
        let mut wanted: Vec<_> = created.iter().map(|c| c.body["id"].as_str().unwrap().to_owned()).collect();
        let mut seen = Vec::new();
        for page in 1..=4 {
            let listed =
                http.get(&format!("/v1/sandboxes?metadata=fate%3Drun-paged&page={page}&pageSize=2")).await.body;
            assert_eq!(listed["pagination"]["totalItems"], 7);
            assert_eq!(listed["pagination"]["totalPages"], 4);
            assert_eq!(listed["pagination"]["hasNextPage"], page < 4);
            seen.extend(listed["items"].as_array().unwrap().iter().map(|i| i["id"].as_str().unwrap().to_owned()));
        }
        wanted.sort();
        seen.sort();
        assert_eq!(seen, wanted);
        let odd =
            http.get("/v1/sandboxes?metadata=fate%3Drun-paged%26parity%3Dodd&state=Running&state=Paused").await.body;
        assert_eq!(odd["pagination"]["totalItems"], 3, "{odd}");
        let none = http.get("/v1/sandboxes?metadata=fate%3Drun-paged&state=Paused&page=9").await.body;
        assert_eq!((&none["items"], &none["pagination"]["totalPages"]), (&json!([]), &json!(0)));
        Ok(())
    })
}

#[test]
fn an_object_that_the_api_did_not_make_is_nobody_s_sandbox() -> Result<()> {
    on_server(async |world| {
        let api = world.api::<BatchSandbox>();
        let object = api.create(&PostParams::default(), &objects::own("by-kubectl", 1)).await?;
        until(&api, "by-kubectl", "the stand-in saw it", LIMIT, |o: &BatchSandbox| o.status.is_some()).await?;
        assert_eq!(world.http().get("/v1/sandboxes/by-kubectl").await.status, 404);
        assert_eq!(world.http().delete("/v1/sandboxes/by-kubectl").await.status, 404);
        assert_eq!(api.get("by-kubectl").await?.uid(), object.uid());
        Ok(())
    })
}

#[test]
fn registry_credentials_and_claims_belong_to_the_sandbox() -> Result<()> {
    on_server(async |world| {
        let mut body = image("run-owner");
        body["image"] = json!({"uri": "registry.example.org/a:1", "auth": {"username": "u", "password": "hunter2"}});
        body["volumes"] = json!([
            {"name": "data", "mountPath": "/data", "pvc": {"claimName": "kept", "storage": "1Gi"}},
            {"name": "tmp", "mountPath": "/tmp2", "pvc": {"claimName": "goes", "deleteOnSandboxTermination": true}},
        ]);
        let created = world.http().post("/v1/sandboxes", body.clone()).await;
        assert_eq!(created.status, 202, "{created:?}");
        let id = created.body["id"].as_str().unwrap();
        let owner = world.api::<BatchSandbox>().get(id).await?.uid().unwrap();
        let secret = world.api::<Secret>().get(&format!("opensandbox-image-auth-{id}")).await?;
        assert_eq!(secret.owner_references()[0].uid, owner);
        assert_eq!(secret.type_.as_deref(), Some("kubernetes.io/dockerconfigjson"));
        let claims = world.api::<PersistentVolumeClaim>();
        assert!(claims.get("kept").await?.owner_references().is_empty());
        assert_eq!(claims.get("goes").await?.owner_references()[0].uid, owner);
        assert_eq!(world.http().delete(&format!("/v1/sandboxes/{id}")).await.status, 204);

        // A create that fails takes the claims that it made with it, and no others.
        body["volumes"][1]["pvc"]["claimName"] = json!("briefly");
        body["metadata"][FATE] = json!("fail");
        assert_eq!(world.http().post("/v1/sandboxes", body).await.status, 500);
        let briefly = claims.get_opt("briefly").await?;
        assert!(briefly.is_none_or(|claim| claim.metadata.deletion_timestamp.is_some()));
        assert!(claims.get("kept").await?.metadata.deletion_timestamp.is_none());
        Ok(())
    })
}

#[test]
fn a_server_that_writes_sandboxes_answers_the_same() -> Result<()> {
    on_own("sandboxes", "workload_provider = \"sandbox\"", async |world| {
        let created = world.http().post("/v1/sandboxes", image("run-single")).await;
        assert_eq!(created.status, 202, "{created:?}");
        let id = created.body["id"].as_str().unwrap();
        let object = world.api::<Sandbox>().get(id).await?;
        assert!(object.spec.template.is_some() && object.spec.expire_time.is_some());
        let endpoint = world.http().get(&format!("/v1/sandboxes/{id}/endpoints/80")).await;
        assert_eq!(endpoint.body["endpoint"], "198.18.0.8:80");
        assert_eq!(world.http().get("/v1/sandboxes").await.body["items"][0]["id"], id);
        assert_eq!(world.http().delete(&format!("/v1/sandboxes/{id}")).await.status, 204);
        Ok(())
    })
}

#[test]
fn a_cache_that_cannot_be_believed_says_so_and_comes_back() -> Result<()> {
    on_own("stale", "", async |world| {
        let http = world.http();
        let id = http.post("/v1/sandboxes", image("run-stale")).await.body["id"].as_str().unwrap().to_owned();
        world.stage.plane().stop_api_server(Stop::Hard).await;
        let ready = format!("http://{}/ready", world.server.address());
        let unready = answers(&http, &ready, 503).await;
        assert!(unready.body["message"].as_str().unwrap().contains("stale"), "{unready:?}");
        for path in ["/v1/sandboxes".to_owned(), format!("/v1/sandboxes/{id}")] {
            let answer = http.get(&path).await;
            assert_eq!(answer.status, 503, "{answer:?}");
            assert_eq!(answer.headers["retry-after"], "1");
        }
        assert_eq!(http.get("/health").await.status, 200);
        world.stage.plane().start_api_server().await?;
        answers(&http, &ready, 200).await;
        assert_eq!(http.get(&format!("/v1/sandboxes/{id}")).await.status, 200);
        Ok(())
    })
}

/// E038 through the whole of it: the real operator ends, the real server renews, both at the same moment.
#[test]
fn a_renewal_that_was_answered_well_holds_and_any_other_sandbox_ends_e038() -> Result<()> {
    runtime().block_on(async {
        let world = World::on(StageOptions::named("races"), &config("")).await?;
        let (http, api) = (world.http(), world.api::<BatchSandbox>());
        let pool = objects::pool("warm", objects::capacity(10, 20, 100));
        world.api().create(&PostParams::default(), &pool).await?;
        let created = join_all(
            (0..60).map(|_| http.post("/v1/sandboxes", json!({"timeout": 600, "extensions": {"poolRef": "warm"}}))),
        )
        .await;
        let ids: Vec<&str> = created.iter().map(|c| c.body["id"].as_str().unwrap()).collect();

        let deadline = Timestamp::now() + SignedDuration::from_secs(3);
        let later = Timestamp::from_second(Timestamp::now().as_second())? + SignedDuration::from_hours(1);
        let renew = |id: &str, at: Timestamp| {
            let path = format!("/v1/sandboxes/{id}/renew-expiration");
            let http = world.http();
            async move { http.post(&path, json!({"expiresAt": at.to_string()})).await }
        };
        for answer in join_all(ids.iter().map(|id| renew(id, deadline))).await {
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        // From a little before the deadline to a little after it.
        let outcomes = join_all(ids.iter().zip(-30_i64..).map(async |(id, step)| {
            let at = deadline + SignedDuration::from_millis(step * 4);
            let wait = at.duration_since(Timestamp::now());
            tokio::time::sleep(Duration::try_from(wait).unwrap_or_default()).await;
            renew(id, later).await
        }))
        .await;
        let (kept, ended): (Vec<_>, Vec<_>) = ids.iter().zip(&outcomes).partition(|(_, answer)| answer.status == 200);
        sandbox_e2e::figure!("renewed {}, ended {}", kept.len(), ended.len());
        assert!(!kept.is_empty());
        for (_, answer) in &ended {
            assert!(matches!(answer.status.as_u16(), 404 | 409), "{answer:?}");
        }
        let names: Vec<&str> = ended.iter().map(|(id, _)| **id).collect();
        sandbox_e2e::until_all(&api, "", "those that were not renewed are gone", LIMIT, |all| {
            names.iter().all(|name| !all.contains_key(*name))
        })
        .await?;
        for (id, _) in &kept {
            let object = api.get(id).await?;
            assert_eq!(object.spec.expire_time.as_ref().map(sandbox_api::Moment::at), Some(later));
            assert!(object.metadata.deletion_timestamp.is_none() && objects::runs(&object), "{object:?}");
        }
        Ok(())
    })
}

/// The `configToml` of a Helm values file of the seeds, byte for byte.
fn real_config(values: &str) -> String {
    let text = std::fs::read_to_string(home::checkout().join("e2e/seeds").join(values)).unwrap();
    let values: Value = serde_saphyr::from_str(&text).unwrap();
    values["opensandbox-server"]["configToml"].as_str().unwrap().to_owned()
}

#[test]
fn the_configurations_of_a_real_deployment_start_unchanged() -> Result<()> {
    on_server(async |world| {
        // Where a ConfigMap would put it.
        let root = world.stage.logs().join("root");
        std::fs::create_dir_all(root.join("etc/opensandbox"))?;
        let seed = home::checkout().join("e2e/seeds/batchsandbox-template.yaml");
        std::fs::copy(seed, root.join("etc/opensandbox/batchsandbox-template.yaml"))?;
        // A runtime that the cluster lacks is told at the start, not by every create.
        let full = real_config("values-full.yaml");
        let refused = start_server_in(&world.stage, &world.kubeconfig, "refused", &full, Some(root.clone())).await;
        let told = format!("{:#}", refused.err().unwrap());
        assert!(told.contains("the cluster has no RuntimeClass \"kata-clh-runtime-rs\""), "{told}");
        let class = json!({"metadata": {"name": "kata-clh-runtime-rs"}, "handler": "kata-clh-runtime-rs"});
        let classes: Api<RuntimeClass> = Api::all(world.stage.admin());
        classes.create(&PostParams::default(), &serde_json::from_value(class)?).await?;
        for (values, root) in [("values-minimal.yaml", None), ("values-full.yaml", Some(root))] {
            let text = real_config(values);
            let server = start_server_in(&world.stage, &world.kubeconfig, values, &text, root).await?;
            let created = Http::to(&server).post("/v1/sandboxes", image("run-real")).await;
            assert_eq!(created.status, 202, "{values}: {created:?}");
            let object = world.api::<BatchSandbox>().get(created.body["id"].as_str().unwrap()).await?;
            let pod = &object.spec.template.as_ref().unwrap()["spec"];
            assert_eq!(pod["restartPolicy"], "Never", "{values}: its template is merged in");
            if values == "values-full.yaml" {
                assert_eq!(pod["runtimeClassName"], "kata-clh-runtime-rs");
                assert_eq!(object.labels()["example.org/workload-class"], "sandbox");
            }
        }
        Ok(())
    })
}

/// Asks until the answer has this status: `/ready` is a state to be polled, as probes do.
async fn answers(http: &Http, url: &str, status: u16) -> Answer {
    let asked = async {
        loop {
            let answer = http.send(http.client.get(url)).await;
            if answer.status == status {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(40), asked).await.unwrap()
}
