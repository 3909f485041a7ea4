//! A control plane with our definitions and rights on it, and the operator at work.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use anyhow::{Context, Result};
use kube::Client;
use sandbox_cluster::{Plane, PlaneOptions, home};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Mutex, OnceCell, RwLock};

use crate::accounts;
use crate::manifests;
use crate::operator::{Operator, OperatorOptions};
use crate::program::logs;

/// What a stage is made of.
#[derive(Clone, Debug)]
pub struct StageOptions {
    /// Tells its logs apart from those of other stages of the same test binary.
    pub name: String,
    /// The control plane.
    pub plane: PlaneOptions,
    /// Whether the operator runs on it from the start.
    pub operator: bool,
    /// The operator's flags behind ours.
    pub operator_args: Vec<String>,
}

impl StageOptions {
    /// A stage with the operator.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { name: name.into(), plane: PlaneOptions::default(), operator: true, operator_args: Vec::new() }
    }
}

/// A control plane, our definitions and rights, and the operator.
pub struct Stage {
    // Before the plane, so that it ends first.
    operator: Mutex<Option<Operator>>,
    plane: Plane,
    logs: PathBuf,
    options: OperatorOptions,
}

impl Stage {
    /// Starts one.
    ///
    /// # Errors
    /// When a part does not start; the message says which, why, and where its log is.
    pub async fn start(options: StageOptions) -> Result<Self> {
        let logs = logs(&format!("{}-{}", binary(), options.name))?;
        let mut plane = options.plane;
        // Before the garbage collector starts, which learns of later kinds only after half a minute.
        plane.definitions.push(home::checkout().join("config/crd"));
        let plane = Plane::start(plane).await.context("start a control plane")?;
        manifests::install(&plane.admin()).await?;
        let kubeconfig = plane.dir().join("operator.kubeconfig");
        accounts::kubeconfig(&plane.admin(), &plane.kubeconfig(), accounts::OPERATOR, &kubeconfig).await?;
        let mut flags = OperatorOptions::new(&kubeconfig, &logs);
        flags.args = options.operator_args;
        let stage = Self { operator: Mutex::new(None), plane, logs, options: flags };
        if options.operator {
            *stage.operator.lock().await = Some(Operator::start(&stage.options).await?);
        }
        Ok(stage)
    }

    /// The control plane.
    #[must_use]
    pub fn plane(&self) -> &Plane {
        &self.plane
    }

    /// A client that may do everything.
    #[must_use]
    pub fn admin(&self) -> Client {
        self.plane.admin()
    }

    /// The operator, to kill it, to start it again, to read its metrics.
    pub fn operator(&self) -> &Mutex<Option<Operator>> {
        &self.operator
    }

    /// Kills the operator, as `kill -9` does.
    pub async fn kill_operator(&self) {
        if let Some(operator) = self.operator.lock().await.as_mut() {
            operator.program().kill();
        }
    }

    /// Starts the operator again, or for the first time, and waits until it is ready.
    ///
    /// # Errors
    /// When it does not get ready.
    pub async fn start_operator(&self) -> Result<()> {
        let mut operator = self.operator.lock().await;
        match operator.as_mut() {
            Some(operator) => operator.program().again().await,
            None => {
                *operator = Some(Operator::start(&self.options).await?);
                Ok(())
            }
        }
    }

    /// The directory of the logs of our programs.
    #[must_use]
    pub fn logs(&self) -> &PathBuf {
        &self.logs
    }

    /// A namespace of the test's own.
    ///
    /// # Errors
    /// When it cannot be created.
    pub async fn namespace(&self, prefix: &str) -> Result<String> {
        self.plane.namespace(prefix).await
    }

    async fn perform(&self, test: impl AsyncFnOnce(&Self) -> Result<()>) -> Result<()> {
        let outcome = test(self).await;
        // What broke the operator matters more than what then did not happen.
        self.check().await?;
        outcome.with_context(|| format!("the logs of our programs are in {}", self.logs.display()))
    }

    /// Fails when a process of it ended by itself.
    ///
    /// # Errors
    /// As said, with the end of its log.
    pub async fn check(&self) -> Result<()> {
        self.plane.check()?;
        match self.operator.lock().await.as_mut() {
            Some(operator) => operator.program().check(),
            None => Ok(()),
        }
    }
}

fn binary() -> String {
    let name = env::current_exe().ok().and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned()));
    // Cargo puts a hash behind a test's name.
    name.and_then(|name| Some(name.rsplit_once('-')?.0.to_owned())).unwrap_or_else(|| "unknown".into())
}

/// How a test ends.
pub type Outcome = Result<(), Failure>;

/// Why a test failed, with all causes. The harness prints it by `Debug`: as it is, over several lines.
pub struct Failure(String);

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Connections of a client live on the runtime that opened them, and the stand-in kubelet on the one that started
/// it: all tests of a binary share this one, which outlives them.
static RUNTIME: LazyLock<std::io::Result<Runtime>> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(4).enable_all().build());
static SHARED: OnceCell<Stage> = OnceCell::const_new();
/// Taken whole by tests that measure time, shared by the others.
static MACHINE: RwLock<()> = RwLock::const_new(());

/// Runs a test on the stage that all tests of this binary share. Its namespaces are its own, the operator is not.
///
/// # Errors
/// Those of the test, with the place of the logs.
pub fn on_stage(test: impl AsyncFnOnce(&Stage) -> Result<()>) -> Outcome {
    block_on(async {
        let _machine = MACHINE.read().await;
        shared().await?.perform(test).await
    })
}

/// Like [`on_stage`], while no other test of this binary runs: for promises about time.
///
/// # Errors
/// Those of the test, with the place of the logs.
pub fn alone_on_stage(test: impl AsyncFnOnce(&Stage) -> Result<()>) -> Outcome {
    block_on(async {
        let _machine = MACHINE.write().await;
        shared().await?.perform(test).await
    })
}

async fn shared() -> Result<&'static Stage> {
    let start = async || {
        let stage = Stage::start(StageOptions::named("shared")).await?;
        sweep_after_us(stage.plane.dir())?;
        Ok(stage)
    };
    SHARED.get_or_try_init(start).await
}

/// Has a directory removed when this process has ended, however it ends: what is in a static is never dropped.
fn sweep_after_us(dir: &Path) -> Result<()> {
    // The pipe's other end closes with us; the plane's processes end in the same moment, hence the second try.
    let script = "trap '' INT TERM; cat; rm -rf \"$0\" || { sleep 1; rm -rf \"$0\"; }";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(dir).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().context("start the shell that sweeps up after the tests")?;
    // Open as long as this process lives.
    std::mem::forget(child);
    Ok(())
}

/// Runs a test on a stage of its own.
///
/// # Errors
/// Those of the test, with the place of the logs.
pub fn on_own_stage(options: StageOptions, test: impl AsyncFnOnce(&Stage) -> Result<()>) -> Outcome {
    block_on(async {
        let _machine = MACHINE.read().await;
        let stage = Stage::start(options).await?;
        stage.perform(test).await
    })
}

fn block_on<F: Future<Output = Result<()>>>(test: F) -> Outcome {
    match &*RUNTIME {
        Ok(runtime) => runtime.block_on(test).map_err(|error| Failure(format!("{error:#}"))),
        Err(error) => Err(Failure(format!("start a runtime: {error}"))),
    }
}
