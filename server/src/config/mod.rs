//! The configuration file: the reference's `config.toml`, key by key, typed.
//!
//! A wrong type or value is a start-up error that names the key; an unknown key is a warning that
//! names it (the reference drops it silently); a key that asks for what this server does not do is a
//! warning, too, so that nobody relies on it by mistake; one that tunes what it does not have is a note.

mod cluster;
mod network;
mod process;
mod remarks;

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::fields::{Fields, Problem, Problems};

pub use cluster::{Kubernetes, Runtime, SecureRuntime, SecureRuntimeKind, Storage, WorkloadProvider};
pub use network::{Egress, EgressMode, Gateway, Ingress, Route, SecureAccess, SigningKey, UpstreamProxy};
pub use process::{Log, LogLevel, Server};
pub use remarks::Remarks;

/// Environment variables that the server reads, apart from the file; see [`Env::from_process`].
#[derive(Clone, Default)]
pub struct Env {
    /// `OPENSANDBOX_SERVER_API_KEY`: wins over the file whenever it exists, even empty.
    pub api_key: Option<String>,
    /// `OPENSANDBOX_INSECURE_SERVER`: exactly `YES` allows an empty key.
    pub insecure: Option<String>,
    /// `OPENSANDBOX_SECURE_ACCESS_KEYS`: `id=base64,id=base64`.
    pub secure_access_keys: Option<String>,
    /// `OPENSANDBOX_SECURE_ACCESS_ACTIVE_KEY`: the id of one of them.
    pub secure_access_active: Option<String>,
}

impl Env {
    /// Reads the process environment.
    #[must_use]
    pub fn from_process() -> Self {
        let var = |name: &str| std::env::var(name).ok();
        Self {
            api_key: var("OPENSANDBOX_SERVER_API_KEY"),
            insecure: var("OPENSANDBOX_INSECURE_SERVER"),
            secure_access_keys: var("OPENSANDBOX_SECURE_ACCESS_KEYS"),
            secure_access_active: var("OPENSANDBOX_SECURE_ACCESS_ACTIVE_KEY"),
        }
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Env")
    }
}

/// Everything the file says, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// `[server]`.
    pub server: Server,
    /// `[log]`.
    pub log: Log,
    /// `[runtime]`.
    pub runtime: Runtime,
    /// `[kubernetes]`.
    pub kubernetes: Kubernetes,
    /// `[ingress]`.
    pub ingress: Ingress,
    /// `[storage]`.
    pub storage: Storage,
    /// `[egress]`.
    pub egress: Egress,
    /// `[secure_runtime]`, absent when no type is named.
    pub secure_runtime: Option<SecureRuntime>,
}

/// A configuration that can be used, and what its writer should know about it.
#[derive(Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// What is said about its keys.
    pub remarks: Remarks,
}

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("configuration file {path}: {source}; name another with --config or SANDBOX_CONFIG_PATH")]
    Unreadable {
        /// The file asked for.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("configuration is not valid TOML: {0}")]
    NotToml(String),
    /// Keys have wrong types or values.
    #[error("configuration cannot be used:{}", list(.0))]
    Wrong(Vec<Problem>),
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(|p| format!("\n  - {p}")).collect()
}

/// Where the file is: `--config`, else `SANDBOX_CONFIG_PATH`, else `~/.sandbox.toml`.
#[must_use]
pub fn find(flag: Option<&Path>) -> PathBuf {
    if let Some(path) = flag {
        return path.to_owned();
    }
    if let Ok(path) = std::env::var("SANDBOX_CONFIG_PATH")
        && !path.is_empty()
    {
        return path.into();
    }
    std::env::home_dir().unwrap_or_default().join(".sandbox.toml")
}

/// Reads and checks a file.
///
/// # Errors
/// When the file cannot be read or used; the message names file or keys.
pub fn load(path: &Path, env: &Env) -> Result<Loaded, ConfigError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    parse(&text, env)
}

/// Checks the text of a file.
///
/// # Errors
/// [`ConfigError::NotToml`] or [`ConfigError::Wrong`].
pub fn parse(text: &str, env: &Env) -> Result<Loaded, ConfigError> {
    let table: Map<String, Value> = toml::from_str(text).map_err(|e| ConfigError::NotToml(e.to_string()))?;
    let problems = Problems::default();
    let mut remarks = Remarks::default();
    let config = read(&Fields::root(&table, &problems), env, &mut remarks);
    let problems = problems.into_vec();
    match config {
        Some(config) if problems.is_empty() => Ok(Loaded { config, remarks }),
        Some(_) | None => Err(ConfigError::Wrong(problems)),
    }
}

fn read(root: &Fields<'_>, env: &Env, remarks: &mut Remarks) -> Option<Config> {
    // An absent section reads like an empty one: every default applies.
    macro_rules! section {
        ($name:literal, $read:expr) => {{
            let fields = root.section($name);
            let out = $read(&fields, remarks);
            remarks.unknown(&fields);
            out
        }};
    }

    let server = section!("server", |f: &Fields<'_>, r: &mut Remarks| Server::read(f, env, r));
    let log = section!("log", Log::read);
    section!("proxy", process::proxy);
    section!("renew_intent", process::renew_intent);
    section!("otel", process::otel);
    section!("store", process::store);
    let kubernetes = section!("kubernetes", Kubernetes::read);
    let ingress = section!("ingress", |f: &Fields<'_>, r: &mut Remarks| Ingress::read(f, env, r));
    let storage = section!("storage", Storage::read);
    let egress = section!("egress", Egress::read);
    let secure_runtime = section!("secure_runtime", SecureRuntime::read);

    let runtime = section!("runtime", |f: &Fields<'_>, _: &mut Remarks| Runtime::read(f));

    if root.has("tenants") {
        root.refuse("tenants", "several tenants are not served by this build; remove the section");
    }
    // Whole sections of other runtimes are harmless here, whatever they hold.
    remarks.nothing_to_tune(root, &["docker", "agent_sandbox"], "sandboxes are BatchSandboxes or Sandboxes here");
    remarks.unknown(root);
    Some(Config { server, log, runtime: runtime?, kubernetes, ingress, storage, egress, secure_runtime })
}

#[cfg(test)]
mod tests;
