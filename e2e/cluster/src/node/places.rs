//! Where the whole node keeps its things, and under which addresses it answers.

use std::env;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::control_plane::{Layout, NODE_ADDRESS};
use crate::home;
use crate::process::Lifetime;

/// The node's name.
pub const NODE: &str = "node-1";
/// The link that carries the node's address.
pub const LINK: &str = "osb0";
/// The nft table that lets Pods out.
pub const NFT_TABLE: &str = "opensandbox_cluster";
/// The name of the Pods' network in CNI's files.
pub const NETWORK: &str = "opensandbox";
/// The API server's port on [`NODE_ADDRESS`].
const API_PORT: u16 = 6443;

/// The whole node's places.
#[derive(Clone, Debug)]
pub struct Places {
    /// All that is removed with the node.
    pub dir: PathBuf,
    /// What outlives it: the registry's images.
    pub registry_data: PathBuf,
    /// The registry's port on loopback and on the node's address.
    pub registry_port: u16,
}

impl Places {
    /// Those of this checkout. `SANDBOX_REGISTRY_PORT` moves the registry from 5000.
    ///
    /// # Errors
    /// When the variable is no port.
    pub fn of_checkout() -> Result<Self> {
        let registry_port = match env::var("SANDBOX_REGISTRY_PORT") {
            Ok(text) => text.parse().with_context(|| format!("SANDBOX_REGISTRY_PORT={text} is not a port"))?,
            Err(_) => 5000,
        };
        let state = home::state();
        Ok(Self { dir: state.join("node"), registry_data: state.join("registry"), registry_port })
    }

    /// The registry as clients on this machine name it.
    pub fn registry(&self) -> String {
        format!("127.0.0.1:{}", self.registry_port)
    }

    /// The control plane's layout.
    pub fn layout(&self, etcd_port: u16, peer_port: u16) -> Layout {
        Layout {
            dir: self.dir.clone(),
            address: NODE_ADDRESS,
            api_port: API_PORT,
            etcd_port,
            peer_port,
            lifetime: Lifetime::OnItsOwn,
        }
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.join("admin.kubeconfig")
    }

    /// A rendered configuration file.
    pub fn config(&self, name: &str) -> PathBuf {
        self.dir.join("config").join(name)
    }

    /// Where the ids of the running processes are.
    pub fn pids(&self) -> PathBuf {
        self.dir.join("pids")
    }

    /// What the kubelet writes.
    pub fn kubelet(&self) -> PathBuf {
        self.dir.join("kubelet")
    }

    /// The Pods' logs.
    pub fn pod_logs(&self) -> PathBuf {
        self.dir.join("pod-logs")
    }
}

/// containerd's run directory; short, since socket paths are bounded to 107 bytes.
pub fn containerd_run() -> PathBuf {
    home::run().join("containerd")
}

/// containerd's socket.
pub fn containerd_socket() -> PathBuf {
    containerd_run().join("containerd.sock")
}

/// Where Pods and tools expect containerd's socket; ours is linked there unless another is.
pub const CONTAINERD_USUAL: &str = "/run/containerd/containerd.sock";

/// The CNI plugins' directory: Debian's, or the upstream one.
pub fn cni_plugins() -> Option<PathBuf> {
    ["/usr/lib/cni", "/opt/cni/bin"].iter().map(Path::new).find(|dir| dir.join("ptp").is_file()).map(Path::to_owned)
}

/// The API server's address for messages.
pub fn api_address() -> (Ipv4Addr, u16) {
    (NODE_ADDRESS, API_PORT)
}
