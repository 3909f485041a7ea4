//! `[server]`, `[log]` and the sections that this server understands without acting on them.

use std::fmt;
use std::time::Duration;

use super::{Env, Remarks};
use crate::fields::Fields;

/// `[server]`.
#[derive(Clone)]
pub struct Server {
    /// Address to listen on.
    pub host: String,
    /// Port to listen on.
    pub port: u16,
    /// How long a connection may stay without a request.
    pub keep_alive: Duration,
    /// Requests served at once; more are answered 503. Nothing = no limit.
    pub limit_concurrency: Option<usize>,
    /// How long requests in flight may go on after SIGTERM.
    pub graceful_shutdown: Duration,
    /// Connections that may wait to be accepted.
    pub backlog: u32,
    /// The API key. Nothing = every request is allowed (only with `OPENSANDBOX_INSECURE_SERVER=YES`).
    pub api_key: Option<String>,
    /// Longest timeout a create may ask for.
    pub max_sandbox_timeout_seconds: Option<i64>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key stays out of every log.
        f.debug_struct("Server")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("keep_alive", &self.keep_alive)
            .field("limit_concurrency", &self.limit_concurrency)
            .field("graceful_shutdown", &self.graceful_shutdown)
            .field("backlog", &self.backlog)
            .field("api_key", &self.api_key.as_ref().map(|_| "set"))
            .field("max_sandbox_timeout_seconds", &self.max_sandbox_timeout_seconds)
            .finish()
    }
}

/// Seconds. More than the reference's 30, which is also when both SDKs give up an idle connection: a POST on one that is
/// being closed fails, and is not sent again.
const KEEP_ALIVE: u64 = 75;

impl Server {
    pub(super) fn read(f: &Fields<'_>, env: &Env, remarks: &mut Remarks) -> Self {
        f.int("thread_pool_size", 1, i64::MAX);
        f.string("loop");
        f.string("http");
        remarks.nothing_to_tune(f, &["thread_pool_size", "loop", "http"], "they are Python's");
        let eip = f.words("eip").is_some();
        remarks.no_effect(f, "eip", eip, "the proxy, whose address it gives, is not served yet");
        let limit = f.int("limit_concurrency", 0, 1_000_000).unwrap_or(1024);
        Self {
            host: f.filled("host").unwrap_or_else(|| "0.0.0.0".to_owned()),
            port: narrow(f.int("port", 1, 65535), 8080),
            keep_alive: seconds(f.int("timeout_keep_alive", 1, 86_400), KEEP_ALIVE),
            limit_concurrency: usize::try_from(limit).ok().filter(|n| *n > 0),
            graceful_shutdown: seconds(f.int("timeout_graceful_shutdown", 1, 86_400), 5),
            backlog: narrow(f.int("backlog", 1, i64::from(u16::MAX)), 2048),
            api_key: key(f, env),
            max_sandbox_timeout_seconds: f.int("max_sandbox_timeout_seconds", 60, i64::MAX),
        }
    }
}

fn key(f: &Fields<'_>, env: &Env) -> Option<String> {
    let from_file = f.string("api_key");
    let (key, source) = match &env.api_key {
        Some(key) => (Some(key.clone()), "OPENSANDBOX_SERVER_API_KEY"),
        None => (from_file, "server.api_key"),
    };
    let key = key.filter(|k| !k.trim().is_empty());
    match &key {
        None if env.insecure.as_deref() != Some("YES") => f.refuse(
            "api_key",
            format!(
                "{source} is empty, so anybody could use this server; set a key (in the file or in \
                 OPENSANDBOX_SERVER_API_KEY), or set OPENSANDBOX_INSECURE_SERVER=YES to run without one"
            ),
        ),
        Some(key) if key.trim() != key => f.refuse(
            "api_key",
            format!("{source} begins or ends with a blank; HTTP strips those from headers, so no request could match"),
        ),
        Some(_) | None => {}
    }
    key
}

pub(super) fn narrow<T: TryFrom<i64>>(value: Option<i64>, default: T) -> T {
    value.and_then(|v| T::try_from(v).ok()).unwrap_or(default)
}

pub(super) fn seconds(value: Option<i64>, default: u64) -> Duration {
    Duration::from_secs(value.and_then(|v| u64::try_from(v).ok()).unwrap_or(default))
}

/// Least severe line that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// `DEBUG`.
    Debug,
    /// `INFO`.
    Info,
    /// `WARNING` or `WARN`.
    Warn,
    /// `ERROR` or `CRITICAL`.
    Error,
}

impl LogLevel {
    /// The word that a tracing filter uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// `[log]`.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    /// Least severe line that is logged.
    pub level: LogLevel,
}

impl Log {
    pub(super) fn read(f: &Fields<'_>, remarks: &mut Remarks) -> Self {
        let to_file = f.bool("file_enabled") == Some(true);
        remarks.no_effect(f, "file_enabled", to_file, "this server logs to standard error only");
        f.string("file_path");
        f.string("access_file_path");
        f.int("file_max_bytes", 1, i64::MAX);
        f.int("file_backup_count", 0, i64::MAX);
        let level = match f.string("level").map(|l| l.to_ascii_uppercase()).as_deref() {
            None | Some("INFO") => LogLevel::Info,
            Some("TRACE" | "DEBUG") => LogLevel::Debug,
            Some("WARNING" | "WARN") => LogLevel::Warn,
            Some("ERROR" | "CRITICAL" | "FATAL") => LogLevel::Error,
            Some(_) => {
                f.refuse("level", "must be one of DEBUG, INFO, WARNING, ERROR, CRITICAL");
                LogLevel::Info
            }
        };
        Self { level }
    }
}

pub(super) fn proxy(f: &Fields<'_>, remarks: &mut Remarks) {
    let asked = f.bool("resolve_internal").is_some();
    remarks.no_effect(f, "resolve_internal", asked, "the proxy is not served yet");
}

pub(super) fn renew_intent(f: &Fields<'_>, remarks: &mut Remarks) {
    let asked = f.bool("enabled") == Some(true);
    remarks.no_effect(f, "enabled", asked, "access does not renew a sandbox yet");
    f.int("min_interval_seconds", 1, i64::MAX);
    let Some(redis) = f.object("redis") else { return };
    let enabled = redis.bool("enabled") == Some(true);
    if enabled && redis.words("dsn").is_none() {
        redis.refuse("dsn", "is required when renew_intent.redis.enabled is true");
    }
    remarks.no_effect(&redis, "enabled", enabled, "access does not renew a sandbox yet");
    redis.string("dsn");
    redis.string("queue_key");
    redis.int("consumer_concurrency", 1, i64::MAX);
    remarks.unknown(&redis);
}

pub(super) fn otel(f: &Fields<'_>, remarks: &mut Remarks) {
    let asked = f.bool("enabled") == Some(true);
    remarks.no_effect(f, "enabled", asked, "nothing is exported yet; scrape /metrics instead");
    f.string("endpoint");
    f.string("service_name");
    f.int("export_interval_millis", 1000, i64::MAX);
}

pub(super) fn store(f: &Fields<'_>, remarks: &mut Remarks) {
    f.one_of("type", &[("sqlite", "sqlite"), ("postgresql", "postgresql")]);
    f.string("path");
    for name in ["type", "path", "postgresql"] {
        remarks.no_effect(f, name, f.has(name), "this server keeps no data outside of Kubernetes");
    }
}
