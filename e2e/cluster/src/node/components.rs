//! The node's processes: what each is called with, started when it does not run.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::holder;
use super::places::{NODE, Places, containerd_socket};
use crate::binaries::Binary;
use crate::control_plane::{Controllers, Layout, NODE_ADDRESS, file_arg};
use crate::process::{Launch, ProcessId};

/// A process of the node, in the order in which they are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// The store.
    Etcd,
    /// Images.
    Registry,
    /// The registry's port on the node's address, for Pods.
    RegistryDoor,
    /// Runs containers.
    Containerd,
    /// The API.
    ApiServer,
    /// Controllers.
    ControllerManager,
    /// Scheduler.
    Scheduler,
    /// Names.
    Dns,
    /// Services.
    KubeProxy,
    /// Pods.
    Kubelet,
}

impl Component {
    /// All, in starting order.
    pub const ALL: [Self; 10] = [
        Self::Etcd,
        Self::Registry,
        Self::RegistryDoor,
        Self::Containerd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Dns,
        Self::KubeProxy,
        Self::Kubelet,
    ];

    /// The name of its log and pid files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => Binary::Etcd.name(),
            Self::Registry => "registry",
            Self::RegistryDoor => "registry-door",
            Self::Containerd => "containerd",
            Self::ApiServer => Binary::ApiServer.name(),
            Self::ControllerManager => Binary::ControllerManager.name(),
            Self::Scheduler => Binary::Scheduler.name(),
            Self::Dns => Binary::CoreDns.name(),
            Self::KubeProxy => Binary::KubeProxy.name(),
            Self::Kubelet => Binary::Kubelet.name(),
        }
    }

    /// How it is called.
    pub fn launch(self, places: &Places, layout: &Layout) -> Launch {
        match self {
            Self::Etcd => layout.etcd(&places.dir.join("etcd")),
            Self::ApiServer => layout.api_server(&[]),
            Self::ControllerManager => layout.controller_manager(Controllers::All),
            Self::Scheduler => layout.scheduler(),
            Self::Registry => self.tool(
                layout,
                "docker-registry",
                vec!["serve".into(), places.config("registry.yml").display().to_string()],
            ),
            Self::RegistryDoor => {
                let port = places.registry_port;
                let listen = format!("TCP-LISTEN:{port},bind={NODE_ADDRESS},fork,reuseaddr");
                self.tool(layout, "socat", vec![listen, format!("TCP:127.0.0.1:{port}")])
            }
            Self::Containerd => {
                self.tool(layout, "containerd", vec![file_arg("config", &places.config("containerd.toml"))])
            }
            Self::Dns => {
                layout.launch(Binary::CoreDns, vec!["-conf".into(), places.config("Corefile").display().to_string()])
            }
            Self::KubeProxy => {
                layout.launch(Binary::KubeProxy, vec![file_arg("config", &places.config("kube-proxy.yaml"))])
            }
            Self::Kubelet => layout.launch(
                Binary::Kubelet,
                vec![
                    file_arg("config", &places.config("kubelet.yaml")),
                    file_arg("kubeconfig", &layout.kubeconfig("kubelet")),
                    file_arg("root-dir", &places.kubelet()),
                    file_arg("cert-dir", &layout.dir.join("pki")),
                    format!("--hostname-override={NODE}"),
                    format!("--node-ip={NODE_ADDRESS}"),
                ],
            ),
        }
    }

    fn tool(self, layout: &Layout, program: &str, args: Vec<String>) -> Launch {
        Launch {
            name: self.name().to_owned(),
            program: PathBuf::from(program),
            args,
            env: Vec::new(),
            logs: layout.logs(),
            lifetime: layout.lifetime,
        }
    }

    /// Its recorded process, if that runs.
    pub fn running(self, places: &Places) -> Option<ProcessId> {
        let found = holder::pids(&places.pids()).into_iter().find(|(name, _)| name == self.name());
        found.map(|(_, id)| id).filter(|id| id.alive())
    }

    /// Starts it unless it runs, and records its id.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn ensure(self, places: &Places, layout: &Layout) -> Result<()> {
        if self.running(places).is_some() {
            return Ok(());
        }
        let running = self.launch(places, layout).start()?;
        let path = places.pids().join(self.name());
        fs::create_dir_all(places.pids())
            .and_then(|()| fs::write(&path, serde_json::to_vec(&running.id)?))
            .with_context(|| format!("write {}", path.display()))
    }

    /// Fails when it has ended, with the end of its log.
    ///
    /// # Errors
    /// As said.
    pub fn check(self, places: &Places) -> Result<()> {
        if self.running(places).is_some() {
            return Ok(());
        }
        let log = places.dir.join("logs").join(format!("{}.log", self.name()));
        anyhow::bail!("{} ended; the end of {}:\n{}", self.name(), log.display(), crate::process::tail(&log))
    }
}

/// The socket's presence and an accepted connection mean that containerd serves.
pub async fn containerd_answers() -> bool {
    tokio::net::UnixStream::connect(containerd_socket()).await.is_ok()
}
