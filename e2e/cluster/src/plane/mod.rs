//! A control plane of one's own: etcd, API server, controllers, and a stand-in for the kubelet.

mod access;
mod dir;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use http::Request;
use kube::Client;
use rustix::process::Signal;

use crate::apply::apply_definitions;
use crate::binaries::{self, Binary};
use crate::control_plane::{Controllers, Layout};
use crate::kubeconfig;
use crate::pki::{Authority, write_private};
use crate::ports::Port;
use crate::process::{Launch, Lifetime, Running};
use crate::stand_in::{StandInKubelet, StandInOptions};
use crate::wait::{Probe, until};
use dir::PlaneDir;

const START_LIMIT: Duration = Duration::from_secs(120);
const AUDIT_POLICY: &str =
    "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n";

/// Where etcd keeps its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// On disk with fsync on, as in production: for everything that measures.
    Disk,
    /// In `/dev/shm`: fsync costs nothing there.
    #[default]
    Memory,
}

/// How a stop of the API server goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It ends its work: running requests are answered.
    Graceful,
    /// It is killed: requests are cut off, answers are lost.
    Hard,
}

/// What a plane is made of.
#[derive(Clone, Debug)]
pub struct PlaneOptions {
    /// Where etcd keeps its data.
    pub storage: Storage,
    /// The stand-in for kubelets; none when the test plays that part itself.
    pub stand_in: Option<StandInOptions>,
    /// Whether the real scheduler binds Pods. If not, the stand-in does.
    pub scheduler: bool,
    /// Whether each request is written to [`Plane::audit_log`], with its user, verb and object.
    pub audit: bool,
    /// CustomResourceDefinitions, as YAML files or directories of such, that are served before the
    /// controllers start. The garbage collector learns of later ones only at its next look, up to
    /// 30 s on: until then nothing owned by such kinds is collected.
    pub definitions: Vec<PathBuf>,
    /// Arguments for the API server behind ours; they win.
    pub api_server_args: Vec<String>,
}

impl Default for PlaneOptions {
    fn default() -> Self {
        Self {
            storage: Storage::default(),
            stand_in: Some(StandInOptions::default()),
            scheduler: false,
            audit: false,
            definitions: Vec::new(),
            api_server_args: Vec::new(),
        }
    }
}

/// A running control plane. Several live side by side. It ends when this is dropped, and also when
/// this process is killed.
///
/// The stand-in runs on the tokio runtime that [`Plane::start`] was called on: a plane shared by
/// several `#[tokio::test]`s must be started on a runtime that outlives them.
pub struct Plane {
    // Declared before `dir`, so dropped before it: processes end before their files go.
    stand_in: Option<StandInKubelet>,
    processes: Processes,
    layout: Layout,
    options: PlaneOptions,
    authority: Authority,
    admin: Client,
    _ports: [Port; 3],
    dir: PlaneDir,
}

#[derive(Default)]
struct Processes {
    api_server: Mutex<Option<Running>>,
    controllers: Mutex<Option<Running>>,
    others: Mutex<Vec<Running>>,
}

impl Plane {
    /// Starts a control plane and waits until Pods can be created in it (about 4 s). Builds the
    /// binaries first if the cache has none (minutes, with progress on stderr).
    ///
    /// # Errors
    /// When a binary cannot be built or started, or does not become ready; the message ends with
    /// the end of its log.
    pub async fn start(options: PlaneOptions) -> Result<Self> {
        ensure_built(options.scheduler).await?;
        let dir = PlaneDir::create(options.storage)?;
        let ports = [Port::take()?, Port::take()?, Port::take()?];
        let layout = Layout {
            dir: dir.path().to_owned(),
            address: Ipv4Addr::LOCALHOST,
            api_port: ports[0].number(),
            etcd_port: ports[1].number(),
            peer_port: ports[2].number(),
            lifetime: Lifetime::WithThisProcess,
        };
        let authority = Authority::create()?;
        layout.prepare(&authority)?;
        write_private(&dir.path().join("audit-policy.yaml"), AUDIT_POLICY)?;
        let admin = kubeconfig::client(&read(&layout.kubeconfig("admin"))?).await?;
        let mut plane = Self {
            stand_in: None,
            processes: Processes::default(),
            layout,
            options,
            authority,
            admin,
            _ports: ports,
            dir,
        };
        plane.start_processes().await?;
        Ok(plane)
    }

    async fn start_processes(&mut self) -> Result<()> {
        self.keep(self.layout.etcd(&self.dir.path().join("etcd")))?;
        self.start_api_server().await?;
        apply_definitions(&self.admin, &self.options.definitions).await?;
        self.restart_controllers().await?;
        if self.options.scheduler {
            self.keep(self.layout.scheduler())?;
        }
        if let Some(stand_in) = &self.options.stand_in {
            let binds = !self.options.scheduler;
            self.stand_in = Some(StandInKubelet::start(self.admin.clone(), stand_in.clone(), binds).await?);
        }
        self.await_service_account("default").await
    }

    fn keep(&self, launch: Launch) -> Result<()> {
        let running = launch.start()?;
        lock(&self.processes.others).push(running);
        Ok(())
    }

    /// Starts the API server and waits until it is ready. Does nothing when it runs.
    ///
    /// # Errors
    /// When it, or etcd, ends before.
    pub async fn start_api_server(&self) -> Result<()> {
        if lock(&self.processes.api_server).is_none() {
            let running = self.layout.api_server(&self.api_server_args()).start()?;
            *lock(&self.processes.api_server) = Some(running);
        }
        until("the API server", START_LIMIT, || async {
            self.check()?;
            let request = Request::get("/readyz").body(Vec::new())?;
            Ok(match self.admin.request_text(request).await {
                Ok(_) => Probe::Done(()),
                Err(error) => Probe::NotYet(unready(&error)),
            })
        })
        .await
    }

    /// Starts the controller manager anew. Its garbage collector then knows every kind that is
    /// served now.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn restart_controllers(&self) -> Result<()> {
        let earlier = lock(&self.processes.controllers).take();
        if let Some(running) = earlier {
            running.id.signal(Signal::KILL);
            tokio::task::spawn_blocking(move || running.stop(Duration::ZERO)).await?;
        }
        let running = self.layout.controller_manager(Controllers::OfPlane).start()?;
        *lock(&self.processes.controllers) = Some(running);
        Ok(())
    }

    /// Ends the API server; etcd, controllers and the stand-in go on and find it again later.
    pub async fn stop_api_server(&self, how: Stop) {
        let Some(running) = lock(&self.processes.api_server).take() else { return };
        let grace = match how {
            Stop::Graceful => Duration::from_secs(20),
            Stop::Hard => Duration::ZERO,
        };
        if how == Stop::Hard {
            running.id.signal(Signal::KILL);
        }
        // Waiting blocks a thread; the test's own must go on serving its tasks.
        let _ = tokio::task::spawn_blocking(move || running.stop(grace)).await;
    }

    fn api_server_args(&self) -> Vec<String> {
        let mut args = vec!["--endpoint-reconciler-type=none".to_owned()];
        if self.options.audit {
            args.push(format!("--audit-policy-file={}", self.dir.path().join("audit-policy.yaml").display()));
            args.push(format!("--audit-log-path={}", self.audit_log().display()));
        }
        args.extend_from_slice(&self.options.api_server_args);
        args
    }

    /// Fails when one of the plane's processes has ended by itself, with the end of its log.
    ///
    /// # Errors
    /// As said.
    pub fn check(&self) -> Result<()> {
        for named in [&self.processes.api_server, &self.processes.controllers] {
            if let Some(running) = lock(named).as_mut() {
                running.check()?;
            }
        }
        lock(&self.processes.others).iter_mut().try_for_each(Running::check)
    }

    /// The stand-in for kubelets.
    ///
    /// # Errors
    /// When the plane was started without.
    pub fn stand_in(&self) -> Result<&StandInKubelet> {
        self.stand_in.as_ref().context("this plane has no stand-in kubelet: set PlaneOptions::stand_in")
    }

    /// The directory of its files; logs are in `logs/`.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The pids of its processes.
    pub fn pids(&self) -> Vec<i32> {
        let mut pids: Vec<i32> = lock(&self.processes.others).iter().map(|running| running.id.pid).collect();
        for named in [&self.processes.api_server, &self.processes.controllers] {
            pids.extend(lock(named).iter().map(|running| running.id.pid));
        }
        pids
    }

    /// The file that requests are written to, one JSON object a line (`audit.k8s.io/v1` Event), when
    /// [`PlaneOptions::audit`] is set.
    pub fn audit_log(&self) -> PathBuf {
        self.layout.logs().join("audit.jsonl")
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        let mut all: Vec<Running> = lock(&self.others).drain(..).collect();
        all.extend(lock(&self.api_server).take());
        all.extend(lock(&self.controllers).take());
        // Nothing of it is wanted any more, so none gets time to tidy up; all at once, then reaped.
        for running in &all {
            running.id.signal(Signal::KILL);
        }
        for running in all {
            running.stop(Duration::ZERO);
        }
    }
}

async fn ensure_built(scheduler: bool) -> Result<()> {
    let mut wanted = Binary::PLANE.to_vec();
    if scheduler {
        wanted.push(Binary::Scheduler);
    }
    tokio::task::spawn_blocking(move || binaries::ensure(&wanted)).await?
}

/// `/readyz` answers with a line for each check; those that failed begin with `[-]`.
pub(crate) fn unready(error: &kube::Error) -> String {
    let text = error.to_string();
    let failed: Vec<&str> = text.lines().filter(|line| line.starts_with("[-]")).collect();
    if failed.is_empty() { text } else { failed.join(", ") }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A list of processes stays right whatever a panicking thread did next.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
