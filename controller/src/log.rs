//! Log lines: text or JSON on standard error and, if asked for, in a file too;
//! one line for each failure at the edge. Nothing here or elsewhere logs a
//! secret or a task's environment.

pub mod file;

use std::path::Path;
use std::sync::Mutex;

use file::RotatingFile;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::{BoxMakeWriter, MakeWriterExt};

use crate::flags::{Flags, LogFormat};

/// Starts logging as the flags say. `RUST_LOG` wins over `--zap-log-level`.
///
/// # Errors
/// When the log file cannot be written, or logging was started before in this
/// process.
pub fn init(flags: &Flags) -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(directives(flags)));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer(flags)?);
    let started = match flags.log_format() {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("logging was already started: {error}"))
}

fn writer(flags: &Flags) -> anyhow::Result<BoxMakeWriter> {
    let Some(limits) = flags.log_limits() else { return Ok(BoxMakeWriter::new(std::io::stderr)) };
    let file = RotatingFile::open(Path::new(&flags.log_file_path), limits)?;
    Ok(BoxMakeWriter::new(std::io::stderr.and(Mutex::new(file))))
}

/// Own lines at the level asked for; the client library logs every 5xx by
/// itself, which we report at the edge, so it is kept to errors of its own.
fn directives(flags: &Flags) -> String {
    let level = match flags.zap_log_level.as_str() {
        "" if flags.zap_devel => "debug",
        "" | "info" | "0" => "info",
        "warn" => "warn",
        "error" | "panic" | "fatal" => "error",
        "debug" | "1" => "debug",
        _ => "trace",
    };
    format!("{level},kube_client=off,kube_runtime=warn,hyper=warn,hyper_util=warn,tower=warn,rustls=warn")
}
