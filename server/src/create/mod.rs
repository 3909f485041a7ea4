//! From a well-formed create to the objects it asks for. Pure: no client, no clock.
//!
//! The order of the checks is the reference's: it decides which error a caller sees first.

mod checks;
mod egress;
mod merge;
mod pod;
mod quantity;
mod task;
mod volumes;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::config::{Config, WorkloadProvider};
use crate::error::{ApiError, Code};
use crate::view::Kind;
use crate::wire::create::{CreateRequest, ImageAuth, Source};
use crate::wire::time;
use crate::wire::volume::Pvc;
use crate::words;

pub use volumes::claim_manifest;

pub use checks::metadata as check_metadata;
use pod::pull_secret_name;

/// What runs when nothing else is asked for.
pub const KEEP_ALIVE: [&str; 3] = ["tail", "-f", "/dev/null"];

/// Facts that a plan takes from outside: they make it repeatable.
#[derive(Clone, Debug)]
pub struct Given {
    /// Id of the new sandbox.
    pub id: String,
    /// Namespace of the new sandbox.
    pub namespace: String,
    /// The time of the request.
    pub now: Timestamp,
    /// Token for endpoints, should one be needed.
    pub secure_token: String,
    /// Token for the egress sidecar, should one be needed.
    pub egress_token: String,
}

/// Everything that one create writes.
#[derive(Clone, Debug)]
pub struct Order {
    /// Kind of the custom resource.
    pub kind: Kind,
    /// The custom resource.
    pub manifest: Value,
    /// The Pool that must exist, if it is a certain one.
    pub pool: Option<String>,
    /// Claims that must exist.
    pub claims: Vec<Pvc>,
    /// Registry credentials, to be put into a Secret that the custom resource owns.
    pub pull: Option<Pull>,
    /// Entrypoint, as create answers it.
    pub entrypoint: Vec<String>,
}

/// Registry credentials for one image.
#[derive(Clone)]
pub struct Pull {
    /// Image that they are for.
    pub image: String,
    /// The credentials.
    pub auth: ImageAuth,
}

impl std::fmt::Debug for Pull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pull").field("image", &self.image).finish_non_exhaustive()
    }
}

impl Pull {
    /// The Secret, owned by the sandbox's object, so that it goes with it.
    #[must_use]
    pub fn secret(&self, given: &Given, owner: &Value) -> Value {
        let host = registry(&self.image);
        let ImageAuth { username, password } = &self.auth;
        let token = STANDARD.encode(format!("{username}:{password}"));
        let config = json!({"auths": {host: {"username": username, "password": password, "auth": token}}});
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": pull_secret_name(&given.id),
                "namespace": given.namespace,
                "labels": {words::ID: given.id},
                "ownerReferences": [owner],
            },
            "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": STANDARD.encode(config.to_string())},
        })
    }
}

/// Registry of an image: its first part if that looks like a host, else Docker Hub.
fn registry(image: &str) -> String {
    match image.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) => host.to_owned(),
        Some(_) | None => "https://index.docker.io/v1/".to_owned(),
    }
}

/// Plans a create.
///
/// # Errors
/// 400, 404 or 501 with the reference's code when it cannot be done.
pub fn plan(
    config: &Config,
    template: Option<&Value>,
    request: &CreateRequest,
    given: &Given,
) -> Result<Order, ApiError> {
    let renew = checks::extensions(&request.extensions)?;
    if let Source::Template(_) = &request.source {
        let message = "there are no fast-sandbox templates on this server; create from an image or a pool";
        return Err(ApiError::new(http::StatusCode::NOT_FOUND, Code::TemplateNotFound, message));
    }
    if let Source::Snapshot(_) = &request.source {
        let message = "creating from a snapshot is not served by this build";
        return Err(ApiError::new(http::StatusCode::NOT_IMPLEMENTED, Code::SnapshotNotImplemented, message));
    }
    if let Source::Pool(_) = &request.source {
        checks::pool_conflicts(request)?;
    }
    let entrypoint = checks::entrypoint(request)?;
    checks::metadata(request.metadata.as_ref())?;
    let platform = checks::platform(request.platform.as_ref())?;
    checks::timeout(config, request.timeout)?;
    checks::secure_access(config, request.secure_access)?;
    egress::check(config, request)?;
    let expires = request.timeout.map(|seconds| deadline(given.now, seconds)).transpose()?;

    let labels = labels(request, given);
    let annotations = annotations(request, given, renew);
    let order = |manifest, pool, claims, pull| Order {
        kind: Kind::BatchSandbox,
        manifest,
        pool,
        claims,
        pull,
        entrypoint: entrypoint.clone(),
    };
    let order = match &request.source {
        Source::Image(image) => {
            let parts = pod::Parts { config, request, given, entrypoint: &entrypoint, platform };
            let (spec, claims) = pod::spec(&parts, image)?;
            let generated = skeleton(
                given,
                &labels,
                &annotations,
                json!({
                    "replicas": 1,
                    "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec},
                }),
            );
            if let (Some(template), Some(platform)) = (template, platform)
                && let Some(key) = pod::template_contradicts(template, platform)
            {
                let message = format!("platform contradicts the nodeSelector {key} of this server's template");
                return Err(ApiError::bad(Code::InvalidParameter, message));
            }
            let manifest = match template {
                Some(template) => merge::over(template, &generated),
                None => generated,
            };
            pod::check_merged(&manifest, platform, request.network_policy.is_some())?;
            let pull = image.auth.clone().map(|auth| Pull { image: image.uri.clone(), auth });
            order(manifest, None, claims, pull)
        }
        Source::Pool(pool) => {
            let task = task::template(config, request, given, &entrypoint);
            let spec = json!({"replicas": 1, "poolRef": pool, "taskTemplate": task});
            let certain = (pool != "*").then(|| pool.clone());
            order(skeleton(given, &labels, &annotations, spec), certain, Vec::new(), None)
        }
        // Both were refused above.
        Source::Snapshot(_) | Source::Template(_) => {
            return Err(ApiError::bad(Code::InvalidParameter, "this source is not served"));
        }
    };
    Ok(finish(order, config.kubernetes.workload_provider, expires))
}

fn deadline(now: Timestamp, seconds: i64) -> Result<Timestamp, ApiError> {
    let latest: Timestamp = Timestamp::MAX - SignedDuration::from_hours(24);
    let at = now.checked_add(SignedDuration::from_secs(seconds)).ok().filter(|at| *at < latest);
    at.ok_or_else(|| {
        ApiError::bad(Code::InvalidParameter, "timeout is too large: the end would lie beyond the year 9999")
    })
}

fn skeleton(given: &Given, labels: &Map<String, Value>, annotations: &Map<String, Value>, spec: Value) -> Value {
    let mut metadata = json!({"name": given.id, "namespace": given.namespace, "labels": labels});
    if !annotations.is_empty() {
        metadata["annotations"] = json!(annotations);
    }
    json!({
        "apiVersion": format!("{}/{}", sandbox_api::GROUP, sandbox_api::VERSION),
        "kind": "BatchSandbox",
        "metadata": metadata,
        "spec": spec,
    })
}

/// The deadline is set after the merge, so that a template can neither give nor keep one.
fn finish(mut order: Order, provider: WorkloadProvider, expires: Option<Timestamp>) -> Order {
    if let Some(spec) = order.manifest.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("expireTime");
        if let Some(at) = expires {
            spec.insert("expireTime".to_owned(), json!(time::resource(at)));
        }
    }
    match provider {
        WorkloadProvider::BatchSandbox => order,
        WorkloadProvider::Sandbox => as_sandbox(order),
    }
}

/// The same wish as a Sandbox: what a Sandbox has no field for says something about several.
fn as_sandbox(mut order: Order) -> Order {
    order.kind = Kind::Sandbox;
    order.manifest["kind"] = json!("Sandbox");
    if let Some(spec) = order.manifest.get_mut("spec").and_then(Value::as_object_mut) {
        if let Some(task) = spec.remove("taskTemplate") {
            spec.insert("task".to_owned(), task);
        }
        spec.retain(|key, _| {
            ["poolRef", "template", "task", "expireTime", "expirePolicy", "recovery"].contains(&key.as_str())
        });
    }
    order
}

fn labels(request: &CreateRequest, given: &Given) -> Map<String, Value> {
    let mut labels = Map::new();
    for (key, value) in request.metadata.iter().flatten() {
        labels.insert(key.clone(), json!(value));
    }
    labels.insert(words::ID.to_owned(), json!(given.id));
    if request.timeout.is_none() {
        labels.insert(words::MANUAL_CLEANUP.to_owned(), json!("true"));
    }
    labels
}

fn annotations(request: &CreateRequest, given: &Given, renew: Option<String>) -> Map<String, Value> {
    let mut annotations = Map::new();
    if request.secure_access {
        annotations.insert(words::SECURE_ACCESS_TOKEN.to_owned(), json!(given.secure_token));
    }
    if request.network_policy.is_some() {
        annotations.insert(words::EGRESS_AUTH_TOKEN.to_owned(), json!(given.egress_token));
    }
    if let Some(seconds) = renew {
        annotations.insert(words::ACCESS_RENEW.to_owned(), json!(seconds));
    }
    for (key, value) in &request.extensions {
        if let Some(suffix) = key.strip_prefix(words::EXTENSION_KEY) {
            annotations.insert(format!("{}{suffix}", words::EXTENSION_ANNOTATION), json!(value));
        }
    }
    annotations
}

/// Environment as Kubernetes lists it; a variable without a value is listed without one.
fn env_list<'a>(env: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> Vec<Value> {
    let entry = |(name, value): (&str, Option<&str>)| match value {
        Some(value) => json!({"name": name, "value": value}),
        None => json!({"name": name}),
    };
    env.into_iter().map(entry).collect()
}

/// Requests and limits of a container, nothing when there are none.
fn resources(limits: Option<&BTreeMap<String, String>>, requests: Option<&BTreeMap<String, String>>) -> Option<Value> {
    let mut out = Map::new();
    if let Some(limits) = limits.filter(|l| !l.is_empty()) {
        out.insert("limits".to_owned(), json!(limits));
    }
    if let Some(requests) = requests.filter(|r| !r.is_empty()) {
        out.insert("requests".to_owned(), json!(requests));
    }
    (!out.is_empty()).then_some(Value::Object(out))
}

#[cfg(test)]
mod tests;
