//! The egress sidecar and what its presence asks of the rest of the Pod.

use serde_json::{Value, json};

use super::{Given, env_list, resources};
use crate::config::{Config, Egress, EgressMode, SecureRuntimeKind};
use crate::error::{ApiError, Code};
use crate::wire::create::{CreateRequest, NetworkPolicy};

const PREFIX: &str = "OPENSANDBOX_EGRESS_";
const TRANSPARENT: &str = "OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT";
const SSL_INSECURE: &str = "OPENSANDBOX_EGRESS_MITMPROXY_SSL_INSECURE";
/// What callers may tell the sidecar (without the prefix).
const ALLOWED: [&str; 11] = [
    "LOG_LEVEL",
    "DNS_UPSTREAM_TIMEOUT",
    "MITMPROXY_SSL_INSECURE",
    "MITMPROXY_TRANSPARENT",
    "MITMPROXY_EXTRA_PORTS",
    "DENY_WEBHOOK",
    "METRICS_EXTRA_ATTRS",
    "CREDENTIAL_VAULT_REQUIRE_TLS",
    "CREDENTIAL_VAULT_REQUIRE_SCOPED_MATCH",
    "CREDENTIAL_VAULT_TRUSTED_PROXY_CIDRS",
    "POLICY_FILE",
];

fn is_for_sidecar(name: &str) -> bool {
    name.starts_with(PREFIX)
}

fn set(request: &CreateRequest, name: &str) -> bool {
    let value = request.env.iter().find(|(key, _)| key == name).and_then(|(_, value)| value.as_deref());
    value.and_then(crate::fields::read_bool) == Some(true)
}

fn transparent(request: &CreateRequest) -> bool {
    request.credential_proxy || set(request, TRANSPARENT)
}

/// Checks a policy and the environment meant for the sidecar.
pub(super) fn check(config: &Config, request: &CreateRequest) -> Result<(), ApiError> {
    let bad = |message: String| Err(ApiError::bad(Code::InvalidParameter, message));
    if request.network_policy.is_some() {
        if config.egress.image.is_none() {
            return bad("networkPolicy needs egress.image in this server's configuration".to_owned());
        }
        if config.secure_runtime.as_ref().is_some_and(|r| r.kind == SecureRuntimeKind::Gvisor) {
            return bad("networkPolicy cannot be enforced under gVisor".to_owned());
        }
        if config.egress.upstream_proxy.is_some() && !transparent(request) {
            return bad(format!(
                "this server sends egress through a proxy: networkPolicy needs env {TRANSPARENT}=true"
            ));
        }
    }
    if request.credential_proxy {
        if config.egress.mode != EgressMode::DnsNft {
            return bad("credentialProxy needs egress.mode = \"dns+nft\" in this server's configuration".to_owned());
        }
        if set(request, SSL_INSECURE) {
            return bad(format!("credentialProxy and env {SSL_INSECURE} exclude each other"));
        }
    }
    let unknown = request
        .env
        .iter()
        .map(|(name, _)| name)
        .find(|name| name.strip_prefix(PREFIX).is_some_and(|rest| !ALLOWED.contains(&rest)));
    match unknown {
        Some(name) => bad(format!("env.{name} may not be set; allowed after {PREFIX} are {}", ALLOWED.join(", "))),
        None => Ok(()),
    }
}

/// Environment of the main container: what is meant for the sidecar goes there, or nowhere.
pub(super) fn env_of_main(request: &CreateRequest) -> Vec<(&str, Option<&str>)> {
    let policy = request.network_policy.is_some();
    let mine = |name: &str| !is_for_sidecar(name) || (policy && name == TRANSPARENT && !request.credential_proxy);
    let env = request.env.iter().map(|(k, v)| (k.as_str(), v.as_deref()));
    let dropped = env.clone().filter(|(name, _)| is_for_sidecar(name) && !policy).count();
    if dropped > 0 {
        tracing::info!(count = dropped, "environment for the egress sidecar has no effect without networkPolicy");
    }
    env.filter(|(name, _)| mine(name)).collect()
}

/// The sidecar container.
pub(super) fn sidecar(
    egress: &Egress,
    image: &str,
    policy: &NetworkPolicy,
    request: &CreateRequest,
    given: &Given,
) -> Value {
    let rules = policy.0.to_string();
    let mut env: Vec<(&str, Option<&str>)> =
        vec![("OPENSANDBOX_EGRESS_RULES", Some(&rules)), ("OPENSANDBOX_EGRESS_MODE", Some(egress.mode.as_str()))];
    if let Some(endpoint) = &egress.otlp_endpoint {
        env.push(("OTEL_EXPORTER_OTLP_ENDPOINT", Some(endpoint)));
    }
    if let Some(proxy) = &egress.upstream_proxy {
        env.push(("OPENSANDBOX_EGRESS_UPSTREAM_PROXY", Some(&proxy.url)));
        if let Some(authorization) = &proxy.authorization {
            env.push(("OPENSANDBOX_EGRESS_UPSTREAM_PROXY_AUTH", Some(authorization)));
        }
        if proxy.ca_secret_name.is_some() {
            env.push(("OPENSANDBOX_EGRESS_MITMPROXY_UPSTREAM_EXTRA_CA", Some(CA_FILE)));
        }
    }
    env.push(("OPENSANDBOX_EGRESS_SANDBOX_ID", Some(&given.id)));
    if request.credential_proxy {
        env.push((TRANSPARENT, Some("true")));
    }
    env.push(("OPENSANDBOX_EGRESS_TOKEN", Some(&given.egress_token)));
    let allowed = request.env.iter().filter(|(name, _)| is_for_sidecar(name));
    let allowed = allowed.filter(|(name, _)| !(request.credential_proxy && name == TRANSPARENT));
    env.extend(allowed.map(|(k, v)| (k.as_str(), v.as_deref())));

    let mut mounts = vec![json!({"name": "opensandbox-bin", "mountPath": "/opt/opensandbox"})];
    if ca_secret(egress).is_some() {
        mounts.push(json!({"name": CA_VOLUME, "mountPath": CA_DIRECTORY, "readOnly": true}));
    }
    let mut container = json!({
        "name": "egress",
        "image": image,
        "env": env_list(env),
        "securityContext": {"capabilities": {"add": ["NET_ADMIN"]}},
        "ports": [{"name": "egress-api", "containerPort": 18080}],
        "readinessProbe": {
            "httpGet": {
                "path": "/healthz",
                "port": 18080,
                "httpHeaders": [{"name": "OPENSANDBOX-EGRESS-AUTH", "value": given.egress_token}],
            },
            "periodSeconds": 1,
            "failureThreshold": 30,
        },
        "volumeMounts": mounts,
    });
    if let Some(resources) = resources(egress.limits.as_ref(), egress.requests.as_ref()) {
        container["resources"] = resources;
    }
    container
}

const CA_VOLUME: &str = "egress-upstream-ca";
const CA_DIRECTORY: &str = "/etc/opensandbox/egress-upstream-ca";
const CA_FILE: &str = "/etc/opensandbox/egress-upstream-ca/ca.crt";

fn ca_secret(egress: &Egress) -> Option<&str> {
    egress.upstream_proxy.as_ref().and_then(|proxy| proxy.ca_secret_name.as_deref())
}

/// The volume that holds the upstream proxy's CA, if there is one.
pub(super) fn ca_volume(egress: &Egress) -> Option<Value> {
    ca_secret(egress).map(|name| json!({"name": CA_VOLUME, "secret": {"secretName": name}}))
}
