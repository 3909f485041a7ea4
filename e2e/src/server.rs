//! The real API server of the lifecycle API as a child process.

use std::path::PathBuf;

use anyhow::Result;
use sandbox_cluster::ports::Port;

use crate::program::{Program, find};

/// How a server is started.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The config file.
    pub config: PathBuf,
    /// Who it is to the Kubernetes API server.
    pub kubeconfig: PathBuf,
    /// The directory of its log.
    pub logs: PathBuf,
    /// Before each file that the config names.
    pub file_root: Option<PathBuf>,
    /// The one API key; none is the insecure mode that has to be asked for.
    pub api_key: Option<String>,
}

/// A running server.
pub struct Server {
    program: Program,
    port: Port,
}

impl Server {
    /// Starts a server and waits until it is ready.
    ///
    /// # Errors
    /// When it is not built, ends or does not get ready; the message ends with the end of its log.
    pub async fn start(options: &ServerOptions) -> Result<Self> {
        let port = Port::take()?;
        let address = format!("127.0.0.1:{}", port.number());
        let mut args = vec![
            format!("--config={}", options.config.display()),
            format!("--listen={address}"),
            format!("--kubeconfig={}", options.kubeconfig.display()),
        ];
        args.extend(options.file_root.iter().map(|root| format!("--file-root={}", root.display())));
        let key = match &options.api_key {
            Some(key) => ("OPENSANDBOX_SERVER_API_KEY".to_owned(), key.clone()),
            None => ("OPENSANDBOX_INSECURE_SERVER".to_owned(), "YES".to_owned()),
        };
        let binary = find("opensandbox-server", "sandbox-server")?;
        let launch = Program::launch("server", binary, args, vec![key], options.logs.clone());
        Ok(Self { program: Program::start(launch, format!("http://{address}/ready")).await?, port })
    }

    /// The process.
    pub fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    /// `host:port` that it listens on.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port.number())
    }
}
