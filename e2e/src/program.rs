//! A program of this repository as a child process: found, started, killed, started again.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sandbox_cluster::home;
use sandbox_cluster::process::{Launch, Lifetime, Running, tail};
use sandbox_cluster::wait::{Probe, until};

/// How long a program may take from its start to answering `200` on its readiness path.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long a program may take from SIGTERM to its end.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// The path of a program that cargo built: in `OPENSANDBOX_BIN_DIR`, else beside the running test or program.
///
/// # Errors
/// When it is not there; the message says how to build it.
pub fn find(name: &str, package: &str) -> Result<PathBuf> {
    let beside = || -> Option<Vec<PathBuf>> {
        let this = env::current_exe().ok()?;
        // A test lies in `deps/`, one level below the programs.
        Some(this.ancestors().skip(1).take(2).map(Path::to_owned).collect())
    };
    let dirs = match env::var_os("OPENSANDBOX_BIN_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => vec![PathBuf::from(dir)],
        None => beside().unwrap_or_default(),
    };
    let found = dirs.iter().map(|dir| dir.join(name)).find(|path| path.is_file());
    found.with_context(|| {
        let places: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
        format!("{name} is not built (looked in {}): cargo build -p {package}", places.join(", "))
    })
}

/// Where programs of this test binary log; emptied of earlier runs when first asked for.
///
/// # Errors
/// When it cannot be made.
pub fn logs(of: &str) -> Result<PathBuf> {
    let place = home::cluster_name(&home::checkout());
    let dir = env::temp_dir().join(format!("opensandbox-e2e-{place}")).join(of);
    if dir.exists() {
        fs::remove_dir_all(&dir).with_context(|| format!("empty {}", dir.display()))?;
    }
    fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    Ok(dir)
}

/// A started program. It ends with this process, however this process ends.
pub struct Program {
    launch: Launch,
    ready: String,
    running: Option<Running>,
}

impl Program {
    /// Starts a program and waits until `ready`, an URL, answers `200`.
    ///
    /// # Errors
    /// When it cannot be started, ends, or does not get ready; the message ends with the end of its log.
    pub async fn start(launch: Launch, ready: String) -> Result<Self> {
        let mut program = Self { launch, ready, running: None };
        program.again().await?;
        Ok(program)
    }

    /// A program's launch as the tests want it: it logs to `logs/<name>.log` and ends with this process.
    #[must_use]
    pub fn launch(
        name: &str,
        program: PathBuf,
        args: Vec<String>,
        env: Vec<(String, String)>,
        logs: PathBuf,
    ) -> Launch {
        Launch { name: name.to_owned(), program, args, env, logs, lifetime: Lifetime::WithThisProcess }
    }

    /// Starts it again after [`Program::kill`] or [`Program::stop`], and waits until it is ready.
    ///
    /// # Errors
    /// As [`Program::start`].
    pub async fn again(&mut self) -> Result<()> {
        if self.running.is_some() {
            bail!("{} runs already", self.launch.name);
        }
        self.running = Some(self.launch.start()?);
        let Self { launch, ready, running } = self;
        let client = reqwest::Client::builder().timeout(Duration::from_secs(2)).build()?;
        let client = &client;
        let waited = until(&launch.name, START_LIMIT, || {
            let ended = running.as_mut().map_or(Ok(()), Running::check);
            let ready = &*ready;
            async move {
                ended?;
                Ok(match client.get(ready).send().await {
                    Ok(answer) if answer.status().is_success() => Probe::Done(()),
                    Ok(answer) => {
                        Probe::NotYet(format!("{ready} answers {}: {}", answer.status(), answer.text().await?))
                    }
                    Err(error) => Probe::NotYet(error.to_string()),
                })
            }
        });
        waited.await.with_context(|| format!("log {}, its end:\n{}", launch.log().display(), tail(&launch.log())))
    }

    /// Kills it, as `kill -9` does.
    pub fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop(Duration::ZERO);
        }
    }

    /// Ends it, as a Deployment does: SIGTERM, and SIGKILL when it takes too long.
    pub fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop(STOP_LIMIT);
        }
    }

    /// Fails when it has ended by itself.
    ///
    /// # Errors
    /// As said, with the end of its log.
    pub fn check(&mut self) -> Result<()> {
        self.running.as_mut().map_or(Ok(()), Running::check)
    }

    /// Its process.
    ///
    /// # Errors
    /// When it does not run.
    pub fn pid(&self) -> Result<i32> {
        Ok(self.running.as_ref().with_context(|| format!("{} does not run", self.launch.name))?.id.pid)
    }

    /// The file that it logs to.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.launch.log()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}
