//! Rules on a create that the shape of its body cannot say.

use std::collections::BTreeMap;

use crate::config::{Config, Ingress};
use crate::error::{ApiError, Code};
use crate::wire::create::{CreateRequest, Platform, Source};
use crate::words;

use super::KEEP_ALIVE;

/// Extension: how far access renews a sandbox.
const RENEW: &str = "access.renew.extend.seconds";
/// Extension: let execd isolate commands.
const ISOLATION: &str = "bootstrap.execd.isolation";
/// Extension: what image and resources of a pool create mean.
const POOL_OVERRIDE: &str = "pool.override";

/// Whether the isolation extension is on.
pub(super) fn isolated(request: &CreateRequest) -> bool {
    request.extensions.get(ISOLATION).is_some_and(|value| value == "enable")
}

/// Checks the extensions; gives the renewal seconds, if asked for.
pub(super) fn extensions(extensions: &BTreeMap<String, String>) -> Result<Option<String>, ApiError> {
    let bad = |message: String| Err(ApiError::bad(Code::InvalidParameter, message));
    for key in extensions.keys() {
        if let Some(suffix) = key.strip_prefix(words::EXTENSION_KEY) {
            if !is_name(suffix) {
                return bad(format!(
                    "extensions.{key}: what follows \"{}\" must be letters, digits, '-', '_' or '.', at most 63",
                    words::EXTENSION_KEY
                ));
            }
        } else if ![RENEW, ISOLATION, POOL_OVERRIDE, "poolRef"].contains(&key.as_str()) {
            tracing::info!(key, "extension is not known and has no effect");
        }
    }
    if extensions.get(POOL_OVERRIDE).is_some_and(|value| value == "apply") {
        return bad("extensions[\"pool.override\"]: \"apply\" is not served by this build; leave it out to use the pool's own image and resources".to_owned());
    }
    let Some(text) = extensions.get(RENEW) else { return Ok(None) };
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse::<u32>() {
        Ok(300..=86_400) if digits => Ok(Some(text.clone())),
        Ok(_) | Err(_) => bad(format!("extensions[\"{RENEW}\"] must be a number of seconds from 300 to 86400")),
    }
}

/// What a Pool's Pod cannot be given any more.
pub(super) fn pool_conflicts(request: &CreateRequest) -> Result<(), ApiError> {
    let given = [
        ("networkPolicy", request.network_policy.is_some()),
        ("credentialProxy", request.credential_proxy),
        ("volumes", !request.volumes.is_empty()),
        ("platform", request.platform.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(ApiError::bad(
            Code::InvalidParameter,
            format!(
                "{name} cannot be combined with extensions.poolRef: the pool's pods are made already; put it into the pool's template"
            ),
        )),
        None => Ok(()),
    }
}

/// What runs in the sandbox.
pub(super) fn entrypoint(request: &CreateRequest) -> Result<Vec<String>, ApiError> {
    match (&request.entrypoint, &request.source) {
        (Some(words), _) if words.iter().any(|w| w.contains('\0')) => {
            Err(ApiError::bad(Code::InvalidEntrypoint, "entrypoint must not contain NUL characters"))
        }
        (Some(words), _) => Ok(words.clone()),
        (None, Source::Image(_)) => Err(ApiError::bad(Code::InvalidEntrypoint, "entrypoint is required with image")),
        (None, Source::Pool(_) | Source::Snapshot(_) | Source::Template(_)) => {
            Ok(KEEP_ALIVE.iter().map(|word| (*word).to_owned()).collect())
        }
    }
}

/// User metadata becomes labels, so it must be able to.
///
/// # Errors
/// 400 that names the key.
pub fn metadata(metadata: Option<&BTreeMap<String, String>>) -> Result<(), ApiError> {
    let bad = |message: String| Err(ApiError::bad(Code::InvalidMetadataLabel, message));
    for (key, value) in metadata.into_iter().flatten() {
        let (prefix, name) = key.split_once('/').map_or((None, key.as_str()), |(p, n)| (Some(p), n));
        if prefix.is_some_and(|p| p == words::RESERVED || p.ends_with(".opensandbox.io")) || key == words::RESERVED {
            return bad(format!("metadata key \"{key}\" is reserved: use a prefix of your own"));
        }
        if !is_name(name) || prefix.is_some_and(|p| !is_domain(p)) {
            return bad(format!(
                "metadata key \"{key}\" cannot be a label: it must be a name of letters, digits, '-', '_' or '.', at most 63, after an optional domain and '/'"
            ));
        }
        if !value.is_empty() && !is_name(value) {
            return bad(format!(
                "the value of metadata key \"{key}\" cannot be a label value: it must be empty or letters, digits, '-', '_' or '.', at most 63, beginning and ending with a letter or digit"
            ));
        }
    }
    Ok(())
}

/// A qualified name's last part, or a label value that is not empty.
fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let inner = |b: &u8| b.is_ascii_alphanumeric() || [b'-', b'_', b'.'].contains(b);
    bytes.len() <= 63 && ends(bytes.first()) && ends(bytes.last()) && bytes.iter().all(inner)
}

fn is_domain(text: &str) -> bool {
    let part = |p: &str| {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !p.is_empty() && p.bytes().all(inner) && !p.starts_with('-') && !p.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(part)
}

/// Where it may run; this server makes Linux Pods only.
pub(super) fn platform(platform: Option<&Platform>) -> Result<Option<&Platform>, ApiError> {
    let Some(platform) = platform else { return Ok(None) };
    let bad = |message: &str| Err(ApiError::bad(Code::InvalidParameter, message));
    match (platform.os.as_str(), platform.arch.as_str()) {
        ("linux", "amd64" | "arm64") => Ok(Some(platform)),
        ("windows", "amd64" | "arm64") => bad("platform.os \"windows\" is not served by this build; use \"linux\""),
        ("linux" | "windows", _) => bad("platform.arch must be \"amd64\" or \"arm64\""),
        _ => bad("platform.os must be \"linux\" or \"windows\""),
    }
}

/// The longest life a caller may ask for.
pub(super) fn timeout(config: &Config, timeout: Option<i64>) -> Result<(), ApiError> {
    match (timeout, config.server.max_sandbox_timeout_seconds) {
        (Some(asked), Some(most)) if asked > most => {
            Err(ApiError::bad(Code::InvalidParameter, format!("timeout must be at most {most} seconds on this server")))
        }
        (Some(_) | None, Some(_) | None) => Ok(()),
    }
}

/// Tokens are checked by the gateway, so without one they would protect nothing.
pub(super) fn secure_access(config: &Config, wanted: bool) -> Result<(), ApiError> {
    match &config.ingress {
        Ingress::Direct if wanted => Err(ApiError::bad(
            Code::InvalidParameter,
            "secureAccess needs an ingress gateway, and this server has ingress.mode = \"direct\"",
        )),
        Ingress::Direct | Ingress::Gateway(_) => Ok(()),
    }
}
