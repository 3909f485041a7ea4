//! Command line of the operator.
//!
//! The names, defaults and meanings are those of the operator that this one
//! takes the place of (contract §5.1), so that its Deployment starts ours
//! unchanged. Arguments are read as Go's `flag` package reads them: one dash
//! or two, `--x=value` or `--x value`, booleans as `--x`, `--x=false`, `--x=0`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::log::file::Limits;
use crate::serve::tls::Files;

const COMMITTER: &str = "image-committer:dev";
const CONTAINERD: &str = "/var/run/containerd/containerd.sock";
/// The default of `--commit-job-timeout`, 10m.
const COMMIT_TIME: Duration = Duration::from_secs(600);

/// When the annotations of the older operator (`endpoints`, `alloc-status`)
/// are written. They cost one more write a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompatAnnotations {
    /// Never.
    Off,
    /// After the status, off the delivery path.
    After,
    /// Before the status, for an API server that answers from annotations.
    Before,
}

/// Shape of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One human-readable line an event.
    #[value(alias = "console")]
    Text,
    /// One JSON object an event.
    Json,
}

/// Address to listen on, written as Go writes it: `:8080`, `host:port`, or
/// `0` and the empty string for "do not listen".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen(pub Option<SocketAddr>);

/// Everything the command line says.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "opensandbox-controller",
    version,
    about = "Keeps Pools of warm Pods and gives them to Sandboxes and BatchSandboxes.",
    disable_help_flag = false,
    args_override_self = true
)]
pub struct Flags {
    /// Address of /metrics: host:port, :port, or 0 for off.
    #[arg(long, default_value = "0", value_parser = parse_listen)]
    pub metrics_bind_address: Listen,
    /// Serve /metrics over TLS, to bearer tokens that may get /metrics.
    #[arg(long, value_parser = parse_bool, default_value = "true", default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    pub metrics_secure: bool,
    /// Directory of the metrics certificate. Empty: one of our own, in memory.
    #[arg(long, default_value = "")]
    pub metrics_cert_path: String,
    /// File name of the metrics certificate.
    #[arg(long, default_value = "tls.crt")]
    pub metrics_cert_name: String,
    /// File name of the metrics key.
    #[arg(long, default_value = "tls.key")]
    pub metrics_cert_key: String,
    /// Accepted for compatibility; no webhook is served.
    #[arg(long, default_value = "")]
    pub webhook_cert_path: String,
    /// Accepted for compatibility; no webhook is served.
    #[arg(long, default_value = "tls.crt")]
    pub webhook_cert_name: String,
    /// Accepted for compatibility; no webhook is served.
    #[arg(long, default_value = "tls.key")]
    pub webhook_cert_key: String,
    /// Accepted for compatibility.
    #[arg(long, value_parser = parse_bool, default_value = "false", default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    pub allow_weak_tls_keylengths: bool,
    /// Accepted for compatibility; HTTP/1.1 is served.
    #[arg(long, value_parser = parse_bool, default_value = "false", default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    pub enable_http2: bool,
    /// Address of /livez, /healthz and /readyz.
    #[arg(long, default_value = ":8081", value_parser = parse_listen)]
    pub health_probe_bind_address: Listen,
    /// Work only while holding the Lease 2fa1c467.opensandbox.io.
    #[arg(long, value_parser = parse_bool, default_value = "false", default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    pub leader_elect: bool,
    /// Workers a kind: batchsandbox=32;pool=16. Unknown names are ignored.
    #[arg(long, default_value = "batchsandbox=32;pool=16", value_parser = parse_concurrency)]
    pub concurrency: Concurrency,
    /// Requests a second to the API server; 0 is unlimited.
    #[arg(long, default_value_t = 0.0)]
    pub kube_client_qps: f64,
    /// Burst of requests to the API server, with --kube-client-qps.
    #[arg(long, default_value_t = 200)]
    pub kube_client_burst: u32,
    /// Accepted for compatibility: own writes are read back, nothing expires.
    #[arg(long, default_value = "5m", value_parser = parse_duration)]
    pub expectation_timeout: Duration,
    /// Registry that snapshots are pushed to.
    #[arg(long, default_value = "")]
    pub snapshot_registry: String,
    /// Push snapshots over plain HTTP.
    #[arg(long, value_parser = parse_bool, default_value = "false", default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    pub snapshot_registry_insecure: bool,
    /// Secret used to push snapshots.
    #[arg(long, default_value = "")]
    pub snapshot_push_secret: String,
    /// Image pull Secret of resumed Pods.
    #[arg(long, default_value = "")]
    pub resume_pull_secret: String,
    /// Image of the commit Job.
    #[arg(long, default_value = COMMITTER)]
    pub image_committer_image: String,
    /// Socket of containerd on every node.
    #[arg(long, default_value = CONTAINERD)]
    pub containerd_socket_path: String,
    /// How long a commit Job may take.
    #[arg(long, default_value = "10m", value_parser = parse_duration)]
    pub commit_job_timeout: Duration,
    /// Write the log to a file as well as to standard error.
    #[arg(long, value_parser = parse_bool, default_value = "false", default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    pub enable_file_log: bool,
    /// The log file; full ones are put aside next to it.
    #[arg(long, default_value = "/var/log/sandbox-controller/controller.log")]
    pub log_file_path: String,
    /// Megabytes after which the log file is put aside.
    #[arg(long, default_value_t = 100)]
    pub log_max_size: u32,
    /// Log files put aside that are kept; 0 is all.
    #[arg(long, default_value_t = 10)]
    pub log_max_backups: u32,
    /// Days that log files put aside are kept; 0 is for ever.
    #[arg(long, default_value_t = 30)]
    pub log_max_age: u32,
    /// Pack log files put aside with gzip.
    #[arg(long, value_parser = parse_bool, default_value = "true", default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    pub log_compress: bool,
    /// Text logs at debug level.
    #[arg(long, value_parser = parse_bool, default_value = "false", default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    pub zap_devel: bool,
    /// json or console. Empty follows --zap-devel.
    #[arg(long)]
    pub zap_encoder: Option<LogFormat>,
    /// debug, info, warn, error, or a verbosity number.
    #[arg(long, default_value = "")]
    pub zap_log_level: String,
    /// Accepted for compatibility; no stack traces are logged.
    #[arg(long, default_value = "")]
    pub zap_stacktrace_level: String,
    /// Accepted for compatibility; times are RFC 3339.
    #[arg(long, default_value = "")]
    pub zap_time_encoding: String,
    /// Kubeconfig file. Without it: $KUBECONFIG, then the Pod's own account.
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,

    /// Log lines as text or json; wins over --zap-encoder.
    #[arg(long)]
    pub log_format: Option<LogFormat>,
    /// Write the older operator's annotations: off, after or before the status.
    #[arg(long, value_enum, default_value_t = CompatAnnotations::Off)]
    pub compat_annotations: CompatAnnotations,
    /// Watch this namespace only (needs no cluster role). Empty: all.
    #[arg(long, env = "WATCH_NAMESPACE", default_value = "")]
    pub watch_namespace: String,
    /// Namespace of this process and of its Lease.
    #[arg(long, env = "POD_NAMESPACE", default_value = "")]
    pub namespace: String,
    /// Requests to the API server in flight at once.
    #[arg(long, default_value_t = 64)]
    pub kube_client_concurrency: usize,
}

/// Number of workers by kind, each at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concurrency(BTreeMap<String, usize>);

impl Concurrency {
    /// Workers for `kind` (lower case), or `default` where the flag is silent.
    #[must_use]
    pub fn of(&self, kind: &str, default: usize) -> usize {
        self.0.get(kind).copied().unwrap_or(default)
    }
}

impl Flags {
    /// Reads a command line, program name first.
    ///
    /// # Errors
    /// A [`clap::Error`] that prints what is wrong with which flag.
    pub fn from_args<I, T>(args: I) -> Result<Self, clap::Error>
    where
        I: IntoIterator<Item = T>,
        T: Into<OsString>,
    {
        Self::try_parse_from(args.into_iter().map(Into::into).map(two_dashes))
    }

    /// Format of log lines after all flags had their say.
    #[must_use]
    pub fn log_format(&self) -> LogFormat {
        let by_devel = if self.zap_devel { LogFormat::Text } else { LogFormat::Json };
        self.log_format.or(self.zap_encoder).unwrap_or(by_devel)
    }

    /// Namespace of the Lease: flag or `POD_NAMESPACE`, then the namespace the
    /// Pod runs in, then `opensandbox-system`.
    #[must_use]
    pub fn own_namespace(&self) -> String {
        if !self.namespace.is_empty() {
            return self.namespace.clone();
        }
        std::fs::read_to_string("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
            .map(|text| text.trim().to_owned())
            .ok()
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| "opensandbox-system".to_owned())
    }

    /// The one namespace to watch, or none for all of them.
    #[must_use]
    pub fn watched_namespace(&self) -> Option<&str> {
        Some(self.watch_namespace.as_str()).filter(|name| !name.is_empty())
    }

    /// How much of the log file is kept; none without one.
    #[must_use]
    pub fn log_limits(&self) -> Option<Limits> {
        let limits = || Limits::new(self.log_max_size, self.log_max_backups, self.log_max_age, self.log_compress);
        self.enable_file_log.then(limits)
    }

    /// The files of the metrics' certificate; none for one of our own making.
    #[must_use]
    pub fn metrics_files(&self) -> Option<Files> {
        let directory = Some(Path::new(&self.metrics_cert_path)).filter(|path| !path.as_os_str().is_empty())?;
        let [certificate, key] = [&self.metrics_cert_name, &self.metrics_cert_key].map(|name| directory.join(name));
        Some(Files { certificate, key })
    }

    /// Flags that were given but do nothing here, with the reason, for one
    /// warning each at start.
    #[must_use]
    pub fn without_effect(&self) -> Vec<&'static str> {
        let mut found = Vec::new();
        if !self.webhook_cert_path.is_empty() {
            found.push("--webhook-cert-path: no webhook is served");
        }
        if self.enable_http2 {
            found.push("--enable-http2: HTTP/1.1 is served");
        }
        if self.allow_weak_tls_keylengths {
            found.push("--allow-weak-tls-keylengths: RSA keys below 2048 bits cannot be used");
        }
        found.extend(self.snapshots_asked_for());
        found
    }

    /// Flags of snapshots, which are not taken yet.
    fn snapshots_asked_for(&self) -> impl Iterator<Item = &'static str> {
        let is_default = |value: &str, default: &str| value == default;
        [
            (self.snapshot_registry.is_empty(), "--snapshot-registry: no snapshots are taken by this version"),
            (!self.snapshot_registry_insecure, "--snapshot-registry-insecure: no snapshots are taken by this version"),
            (self.snapshot_push_secret.is_empty(), "--snapshot-push-secret: no snapshots are taken by this version"),
            (
                self.resume_pull_secret.is_empty(),
                "--resume-pull-secret: no sandbox is paused or resumed by this version",
            ),
            (
                is_default(&self.image_committer_image, COMMITTER),
                "--image-committer-image: no snapshots are taken by this version",
            ),
            (
                is_default(&self.containerd_socket_path, CONTAINERD),
                "--containerd-socket-path: no snapshots are taken by this version",
            ),
            (self.commit_job_timeout == COMMIT_TIME, "--commit-job-timeout: no snapshots are taken by this version"),
        ]
        .into_iter()
        .filter(|(default, _)| !default)
        .map(|(_, warning)| warning)
    }
}

/// `-name` as `--name`; `-h`, `-V`, `-` and negative numbers stay.
fn two_dashes(arg: OsString) -> OsString {
    let Some(text) = arg.to_str() else { return arg };
    let Some(rest) = text.strip_prefix('-') else { return arg };
    let single_letter = rest.len() < 2;
    let number = rest.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if rest.starts_with('-') || single_letter || number {
        return arg;
    }
    OsString::from(format!("--{rest}"))
}

/// The words Go's `strconv.ParseBool` takes.
fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        other => Err(format!("{other:?} is not a boolean: use true or false")),
    }
}

fn parse_listen(text: &str) -> Result<Listen, String> {
    if text.is_empty() || text == "0" {
        return Ok(Listen(None));
    }
    let full = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.replace("localhost:", "127.0.0.1:") };
    full.parse()
        .map(|address| Listen(Some(address)))
        .map_err(|_| format!("{text:?} is not an address: use host:port, :port, or 0 for off"))
}

fn parse_concurrency(text: &str) -> Result<Concurrency, String> {
    let mut workers = BTreeMap::new();
    for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, number) = part
            .split_once('=')
            .ok_or_else(|| format!("{part:?} is not name=number, as in batchsandbox=32;pool=16"))?;
        let number: usize = number
            .trim()
            .parse()
            .ok()
            .filter(|n| *n > 0)
            .ok_or_else(|| format!("{part:?}: the number of workers must be a positive number"))?;
        workers.insert(name.trim().to_lowercase(), number);
    }
    Ok(Concurrency(workers))
}

/// Durations as Go writes them: `1h2m3.5s`, `300ms`, `0`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration: use a form like 10m, 90s or 1h30m");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut seconds = 0.0_f64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let scale = match &rest[..unit] {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        seconds += number * scale;
        rest = &rest[unit..];
    }
    if text.is_empty() {
        return Err(wrong());
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
