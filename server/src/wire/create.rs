//! The body of `POST /sandboxes`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::volume::Volume;
use super::{Answer, read_body};
use crate::error::ApiError;
use crate::fields::Fields;

/// What a sandbox is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An image, started in a new Pod.
    Image(Image),
    /// A warm Pod of a Pool; `*` lets the operator choose one.
    Pool(String),
    /// A snapshot.
    Snapshot(String),
    /// A fast-sandbox template.
    Template(String),
}

/// An image and how to pull it.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    /// Reference of the image.
    pub uri: String,
    /// Credentials of its registry.
    pub auth: Option<ImageAuth>,
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Image").field("uri", &self.uri).finish_non_exhaustive()
    }
}

/// Credentials of a registry.
#[derive(Clone, PartialEq, Eq)]
pub struct ImageAuth {
    /// User.
    pub username: String,
    /// Password or token.
    pub password: String,
}

/// Where a sandbox may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// `linux` or `windows`, as sent.
    pub os: String,
    /// `amd64` or `arm64`, as sent.
    pub arch: String,
}

/// Where a sandbox may connect to: the sidecar's policy, as sent.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkPolicy(
    /// `{defaultAction?, egress?: [{action, target}]}` in camel case, without nulls.
    pub Value,
);

/// A create, well-formed.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateRequest {
    /// What it is made from.
    pub source: Source,
    /// Seconds until it ends; nothing = never.
    pub timeout: Option<i64>,
    /// Limits of its main container.
    pub limits: BTreeMap<String, String>,
    /// Requests of its main container; nothing = the limits.
    pub requests: Option<BTreeMap<String, String>>,
    /// Environment of its main process.
    pub env: Vec<(String, Option<String>)>,
    /// User metadata, echoed and filterable.
    pub metadata: Option<BTreeMap<String, String>>,
    /// What runs in it.
    pub entrypoint: Option<Vec<String>>,
    /// Where it may run.
    pub platform: Option<Platform>,
    /// Where it may connect to.
    pub network_policy: Option<NetworkPolicy>,
    /// Whether the sidecar keeps credentials for it.
    pub credential_proxy: bool,
    /// Whether its endpoints need a token.
    pub secure_access: bool,
    /// What is mounted in it.
    pub volumes: Vec<Volume>,
    /// Extensions, as sent.
    pub extensions: BTreeMap<String, String>,
    /// Hooks around its life, in camel case, without nulls.
    pub lifecycle: Option<Value>,
}

impl CreateRequest {
    /// Reads a body.
    ///
    /// # Errors
    /// 422 that names every wrong field.
    pub fn read(body: &Value) -> Result<Self, ApiError> {
        read_body(body, Self::from_fields)
    }

    fn from_fields(f: &Fields<'_>) -> Option<Self> {
        let image = f.object("image").and_then(|i| read_image(&i));
        let extensions = f.string_map("extensions").unwrap_or_default();
        let entrypoint = f.strings("entrypoint");
        if entrypoint.as_ref().is_some_and(Vec::is_empty) {
            f.refuse("entrypoint", "must name at least one word");
        }
        let limits = f.string_map("resourceLimits");
        let source = read_source(f, image, &extensions);
        check_source(f, source.as_ref(), entrypoint.as_ref(), limits.as_ref());
        let network_policy = f.object("networkPolicy").map(|p| read_policy(&p));
        let credential_proxy = f.object("credentialProxy").and_then(|p| p.bool("enabled")).unwrap_or(false);
        if credential_proxy && network_policy.is_none() {
            f.refuse("credentialProxy", "needs networkPolicy");
        }
        let env = f.nullable_map("env").unwrap_or_default();
        if env.iter().any(|(key, _)| key == "OPENSANDBOX_LIFECYCLE") {
            f.refuse("env", "must not set OPENSANDBOX_LIFECYCLE; use the field lifecycle");
        }
        let volumes = f.objects("volumes").unwrap_or_default();
        let volumes = volumes.iter().filter_map(Volume::read).collect();
        Some(Self {
            timeout: f.int("timeout", 60, i64::MAX),
            limits: limits.unwrap_or_default(),
            requests: f.string_map("resourceRequests").filter(|r| !r.is_empty()),
            env,
            metadata: f.string_map("metadata"),
            entrypoint,
            platform: f.object("platform").and_then(|p| read_platform(&p)),
            network_policy,
            credential_proxy,
            secure_access: f.bool("secureAccess").unwrap_or(false),
            volumes,
            extensions,
            lifecycle: f.object("lifecycle").map(|l| read_lifecycle(&l)),
            source: source?,
        })
    }
}

fn read_image(f: &Fields<'_>) -> Option<Image> {
    let auth = f.object("auth").and_then(|a| {
        let username = a.required("username", a.string("username"));
        let password = a.required("password", a.string("password"));
        Some(ImageAuth { username: username?, password: password? })
    });
    let uri = f.required("uri", f.string("uri"))?;
    let uri = uri.trim();
    (!uri.is_empty()).then(|| Image { uri: uri.to_owned(), auth })
}

fn read_source(f: &Fields<'_>, image: Option<Image>, extensions: &BTreeMap<String, String>) -> Option<Source> {
    if let Some(template) = f.words("templateId") {
        return Some(Source::Template(template));
    }
    let snapshot = f.words("snapshotId");
    let pool = extensions.get("poolRef").map(|p| p.trim()).filter(|p| !p.is_empty());
    match (pool, image, snapshot) {
        (Some(_), _, Some(_)) => {
            f.refuse("snapshotId", "cannot be combined with extensions.poolRef");
            None
        }
        (Some(pool), _, None) => Some(Source::Pool(pool.to_owned())),
        (None, Some(_), Some(_)) => {
            f.refuse_whole("image and snapshotId exclude each other; send one of them");
            None
        }
        (None, Some(image), None) => Some(Source::Image(image)),
        (None, None, Some(snapshot)) => Some(Source::Snapshot(snapshot)),
        (None, None, None) => {
            f.refuse_whole("one of image, snapshotId or extensions.poolRef must say what the sandbox is made from");
            None
        }
    }
}

fn check_source(
    f: &Fields<'_>,
    source: Option<&Source>,
    entrypoint: Option<&Vec<String>>,
    limits: Option<&BTreeMap<String, String>>,
) {
    match source {
        Some(Source::Template(_)) => {
            let own = [
                "image",
                "snapshotId",
                "entrypoint",
                "env",
                "resourceLimits",
                "resourceRequests",
                "volumes",
                "platform",
                "credentialProxy",
                "lifecycle",
            ];
            for name in own.into_iter().filter(|name| f.has(name)) {
                f.refuse(name, "cannot be combined with templateId");
            }
            f.required("timeout", f.value("timeout"));
        }
        Some(Source::Pool(_)) if f.has("lifecycle") => {
            f.refuse("lifecycle", "cannot be combined with extensions.poolRef");
        }
        Some(Source::Image(_)) => {
            f.required("entrypoint", entrypoint);
            f.required("resourceLimits", limits);
        }
        Some(Source::Snapshot(_)) => {
            f.required("resourceLimits", limits);
        }
        Some(Source::Pool(_)) | None => {}
    }
}

fn read_platform(f: &Fields<'_>) -> Option<Platform> {
    let os = f.required("os", f.string("os"));
    let arch = f.required("arch", f.string("arch"));
    Some(Platform { os: os?.trim().to_lowercase(), arch: arch?.trim().to_lowercase() })
}

fn read_policy(f: &Fields<'_>) -> NetworkPolicy {
    let rules = f.objects("egress").map(|rules| {
        let rule = |r: &Fields<'_>| {
            let action = r.required("action", r.string("action")).unwrap_or_default();
            let target = r.required("target", r.filled("target")).unwrap_or_default();
            json!({"action": action, "target": target})
        };
        rules.iter().map(rule).collect::<Vec<_>>()
    });
    NetworkPolicy(Answer::new().maybe("defaultAction", f.string("defaultAction")).maybe("egress", rules).done())
}

fn read_lifecycle(f: &Fields<'_>) -> Value {
    let pre_start = f.object("preStart").map(|p| {
        let command = read_command(&p);
        let timeout = p.int("timeoutSeconds", 1, 10_800);
        p.nothing_else();
        Answer::new().with("command", command).maybe("timeoutSeconds", timeout).done()
    });
    let mut names = BTreeSet::new();
    let periodic = f.objects("periodic").map(|jobs| {
        jobs.iter()
            .map(|p| {
                let name = p.required("name", p.words("name")).unwrap_or_default();
                if !names.insert(name.clone()) {
                    p.refuse("name", "is used twice");
                }
                let schedule = p.required("schedule", p.words("schedule")).unwrap_or_default();
                let command = read_command(p);
                let timeout = p.int("timeoutSeconds", 1, 300);
                p.nothing_else();
                let job = Answer::new().with("name", name).with("schedule", schedule);
                job.with("command", command).maybe("timeoutSeconds", timeout).done()
            })
            .collect::<Vec<_>>()
    });
    f.nothing_else();
    Answer::new().maybe("preStart", pre_start).maybe("periodic", periodic).done()
}

fn read_command(f: &Fields<'_>) -> Vec<String> {
    let command = f.required("command", f.strings("command")).unwrap_or_default();
    if f.has("command") && command.first().is_none_or(|word| word.trim().is_empty()) {
        f.refuse("command", "must begin with the program to run");
    }
    command
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn refused(body: Value) -> String {
        let error = CreateRequest::read(&body).unwrap_err();
        assert_eq!(error.status, 422);
        error.message
    }

    #[test]
    fn a_wrong_body_names_every_wrong_field() {
        let message = refused(json!({
            "image": "python:3.12", "entrypoint": ["sh"], "timeout": 5,
            "resourceLimits": {"cpu": 1}, "metadata": {"a": null},
            "volumes": [{"name": "Data", "mountPath": "data", "host": {"path": "x"}, "pvc": {}}],
        }));
        for named in [
            "image: must be an object",
            "timeout: must be at least 60",
            "resourceLimits.cpu: must be a string",
            "metadata.a: must be a string",
            "volumes[0].name:",
            "volumes[0].mountPath:",
            "volumes[0]: exactly one of",
        ] {
            assert!(message.contains(named), "{named} is not in: {message}");
        }
    }

    #[test]
    fn a_pool_create_with_image_and_resources_is_read_as_a_pool_create() {
        let body = json!({"image": {"uri": "python:3.12"}, "resourceLimits": {"cpu": "1"}, "timeout": null, "secureAccess": false, "extensions": {"poolRef": " ci "}});
        let read = CreateRequest::read(&body).unwrap();
        assert_eq!(read.source, Source::Pool("ci".to_owned()));
        assert_eq!(read.timeout, None);
    }

    #[test]
    fn an_image_needs_an_entrypoint_and_limits() {
        let message = refused(json!({"image": {"uri": "a"}}));
        assert_eq!(message, "entrypoint: is required; resourceLimits: is required");
    }

    #[test]
    fn a_blank_source_counts_as_absent() {
        let message = refused(json!({"image": {"uri": " "}, "snapshotId": " ", "extensions": {"poolRef": ""}}));
        assert!(message.contains("one of image, snapshotId or extensions.poolRef"), "{message}");
    }

    #[test]
    fn lifecycle_is_strict() {
        let message = refused(json!({"image": {"uri": "a"}, "entrypoint": ["a"], "resourceLimits": {},
            "lifecycle": {"preStart": {"command": ["a"], "shell": true}, "postStop": {}}}));
        assert_eq!(message, "lifecycle.preStart.shell: is not known here; lifecycle.postStop: is not known here");
    }

    #[test]
    fn snake_case_names_are_read_too() {
        let body =
            json!({"image": {"uri": "a"}, "entrypoint": ["a"], "resource_limits": {"cpu": "1"}, "timeout": "60"});
        assert_eq!(CreateRequest::read(&body).unwrap().timeout, Some(60));
    }
}
