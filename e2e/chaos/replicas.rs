//! The operators: two processes of the real program, each behind a fault proxy of its own, started again like a
//! Deployment's Pods.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;
use sandbox_cluster::ports::Port;
use sandbox_cluster::process::{Launch, Running};
use sandbox_e2e::faults::FaultProxy;
use sandbox_e2e::program::{Program, find};
use tokio::time::sleep;

use crate::tally::Tally;

/// Time from an end that nobody ordered to the next start.
const RESTART: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(100);

/// One operator.
pub struct Replica {
    /// What its log and its proxy are called.
    pub name: String,
    /// Between it and the API server.
    pub proxy: FaultProxy,
    launch: Launch,
    running: Mutex<Option<Running>>,
    tally: Tally,
    _ports: [Port; 2],
}

impl Replica {
    /// Starts one.
    pub async fn start(name: &str, upstream: &Path, logs: &Path, seed: u64, tally: Tally) -> Result<Arc<Self>> {
        let proxy = FaultProxy::start(name, upstream, seed).await?;
        let ports = [Port::take()?, Port::take()?];
        let args = vec![
            "--leader-elect".to_owned(),
            format!("--kubeconfig={}", proxy.kubeconfig().display()),
            format!("--health-probe-bind-address=127.0.0.1:{}", ports[0].number()),
            format!("--metrics-bind-address=127.0.0.1:{}", ports[1].number()),
            "--metrics-secure=false".to_owned(),
            "--zap-encoder=console".to_owned(),
        ];
        let binary = find("opensandbox-controller", "sandbox-controller")?;
        let launch = Program::launch(name, binary, args, Vec::new(), logs.to_owned());
        let replica =
            Arc::new(Self { name: name.to_owned(), proxy, launch, running: Mutex::new(None), tally, _ports: ports });
        replica.run()?;
        Ok(replica)
    }

    /// Starts the process, unless it runs.
    pub fn run(&self) -> Result<()> {
        let mut running = self.lock();
        if running.is_none() {
            *running = Some(self.launch.start()?);
        }
        Ok(())
    }

    /// Kills it, as `kill -9` does. False if it did not run.
    pub fn kill(&self) -> bool {
        let running = self.lock().take();
        running.map(|running| running.stop(Duration::ZERO)).is_some()
    }

    /// Stops the process where it stands, or lets it go on: a machine that hangs.
    pub fn hang(&self, hangs: bool) {
        if let Some(running) = self.lock().as_ref() {
            running.id.signal(if hangs { Signal::STOP } else { Signal::CONT });
        }
    }

    /// Whether a process of it said that it leads as `holder`.
    pub fn was(&self, holder: &str) -> bool {
        fs::read_to_string(self.launch.log()).is_ok_and(|log| log.contains(&format!("process=\"{holder}\"")))
    }

    /// Starts it again whenever it has ended by itself.
    pub async fn supervise(self: Arc<Self>) {
        loop {
            sleep(LOOK).await;
            let ended = {
                let mut running = self.lock();
                let ended = running.as_mut().is_some_and(|running| running.check().is_err());
                if ended && let Some(running) = running.take() {
                    running.stop(Duration::ZERO);
                }
                ended
            };
            if ended {
                self.tally.add(format!("operator ended by itself: {}", why(&self.launch.log())));
                sleep(RESTART).await;
                // What cannot be started is noticed by the audit: nothing settles.
                let _ = self.run();
            }
        }
    }

    /// The file that it logs to.
    pub fn log(&self) -> PathBuf {
        self.launch.log()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last line of a log, without its time and without names that would make each one another.
fn why(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let words = last.split_whitespace().filter(|word| !word.contains("2026-") && !word.contains('/'));
    words.take(14).collect::<Vec<_>>().join(" ")
}
