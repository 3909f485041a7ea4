//! The real operator as a child process.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sandbox_cluster::ports::Port;

use crate::program::{Program, find};

/// How an operator is started.
#[derive(Clone, Debug)]
pub struct OperatorOptions {
    /// What its log file is called.
    pub name: String,
    /// Who it is to the API server.
    pub kubeconfig: PathBuf,
    /// The directory of its log.
    pub logs: PathBuf,
    /// Flags behind ours; they win.
    pub args: Vec<String>,
}

impl OperatorOptions {
    /// The options of a Deployment: leader election on.
    #[must_use]
    pub fn new(kubeconfig: &Path, logs: &Path) -> Self {
        Self { name: "operator".into(), kubeconfig: kubeconfig.into(), logs: logs.into(), args: Vec::new() }
    }
}

/// A running operator.
pub struct Operator {
    program: Program,
    metrics: Port,
    _health: Port,
}

impl Operator {
    /// Starts an operator and waits until it says that it is ready.
    ///
    /// # Errors
    /// When it is not built, ends or does not get ready; the message ends with the end of its log.
    pub async fn start(options: &OperatorOptions) -> Result<Self> {
        let (health, metrics) = (Port::take()?, Port::take()?);
        let mut args = vec![
            "--leader-elect".to_owned(),
            format!("--kubeconfig={}", options.kubeconfig.display()),
            format!("--health-probe-bind-address=127.0.0.1:{}", health.number()),
            format!("--metrics-bind-address=127.0.0.1:{}", metrics.number()),
            "--metrics-secure=false".to_owned(),
            "--zap-encoder=console".to_owned(),
        ];
        args.extend_from_slice(&options.args);
        let binary = find("opensandbox-controller", "sandbox-controller")?;
        let launch = Program::launch(&options.name, binary, args, Vec::new(), options.logs.clone());
        let ready = format!("http://127.0.0.1:{}/readyz", health.number());
        Ok(Self { program: Program::start(launch, ready).await?, metrics, _health: health })
    }

    /// The process: to kill it, to start it again, to look at its log.
    pub fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    /// Its process: to look at its memory and its processor time.
    ///
    /// # Errors
    /// When it does not run.
    pub fn pid(&self) -> Result<i32> {
        self.program.pid()
    }

    /// Its `/metrics`, in Prometheus' text format.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn metrics(&self) -> Result<String> {
        let url = format!("http://127.0.0.1:{}/metrics", self.metrics.number());
        let answer = reqwest::get(&url).await.with_context(|| format!("GET {url}"))?;
        Ok(answer.error_for_status()?.text().await?)
    }
}
