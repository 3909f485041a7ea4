//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Serves the OpenSandbox lifecycle API on Kubernetes.
///
/// Reads a config.toml, writes custom resources, answers from a watch cache. Needs the OpenSandbox
/// CRDs on the cluster, and an operator that acts on them.
#[derive(Debug, Parser)]
#[command(
    name = "opensandbox-server",
    version,
    after_help = "ENVIRONMENT:
  SANDBOX_CONFIG_PATH          the configuration file, when --config is not given (else ~/.sandbox.toml)
  OPENSANDBOX_SERVER_API_KEY   the API key; wins over server.api_key whenever it is set, even empty
  OPENSANDBOX_INSECURE_SERVER  YES runs the server without a key: anybody may use it
  OPENSANDBOX_SECURE_ACCESS_KEYS, OPENSANDBOX_SECURE_ACCESS_ACTIVE_KEY
                               keys that sign endpoints (id=base64,id=base64) and the one in use
  KUBECONFIG                   as for kubectl, when neither --kubeconfig nor kubernetes.kubeconfig_path is given

EXAMPLE:
  OPENSANDBOX_SERVER_API_KEY=secret opensandbox-server --config config.toml --listen 127.0.0.1:8080
  curl -H 'OPEN-SANDBOX-API-KEY: secret' http://127.0.0.1:8080/v1/sandboxes"
)]
pub struct Args {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Address to listen on, instead of server.host and server.port; port 0 picks a free one
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<SocketAddr>,

    /// Kubeconfig file, instead of kubernetes.kubeconfig_path
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Directory in which files that the configuration names are looked for, as if it were /
    ///
    /// A configuration written for the server's image names /etc/opensandbox/...; outside of the
    /// image, `--file-root server` finds what the image would have.
    #[arg(long, value_name = "DIR")]
    pub file_root: Option<PathBuf>,

    /// How log lines look
    #[arg(long, value_enum, default_value_t = LogFormat::Text, env = "OPENSANDBOX_LOG_FORMAT")]
    pub log_format: LogFormat,
}
