//! etcd, API server, controller manager and scheduler: their files and how each is called.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::binaries::Binary;
use crate::kubeconfig::{self, Credentials};
use crate::pki::{Authority, TokenKey, write_private};
use crate::process::{Launch, Lifetime};

/// Addresses of Pods, of nodes and of what they reach: the ranges that RFC 2544 keeps for tests, so
/// that nothing here meets a real network.
pub const POD_RANGE: &str = "198.18.0.0/16";
/// Addresses of Services.
pub const SERVICE_RANGE: &str = "198.19.0.0/16";
/// The node's address on the whole node; what a plane advertises.
pub const NODE_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// The group that may do everything.
const MASTERS: &str = "system:masters";

/// One control plane's places.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Certificates, kubeconfigs and logs.
    pub dir: PathBuf,
    /// Where the API server listens.
    pub address: Ipv4Addr,
    /// Its port.
    pub api_port: u16,
    /// etcd's client port, on loopback.
    pub etcd_port: u16,
    /// etcd's peer port, on loopback.
    pub peer_port: u16,
    /// What the processes outlive.
    pub lifetime: Lifetime,
}

/// Which controllers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controllers {
    /// All that Kubernetes runs by default.
    All,
    /// Those whose work a controller under test leans on; the rest would only cost processor time.
    OfPlane,
}

impl Layout {
    /// Where clients find the API server.
    pub fn server(&self) -> String {
        format!("https://{}:{}", self.address, self.api_port)
    }

    /// The kubeconfig file of one of its users.
    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        self.dir.join(format!("{user}.kubeconfig"))
    }

    /// A file of the authority or of an identity.
    pub fn pki(&self, file: &str) -> PathBuf {
        self.dir.join("pki").join(file)
    }

    /// Where the logs are.
    pub fn logs(&self) -> PathBuf {
        self.dir.join("logs")
    }

    /// Writes the certificates and kubeconfigs that the control plane's own processes read.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn prepare(&self, authority: &Authority) -> Result<()> {
        let pki = self.dir.join("pki");
        std::fs::create_dir_all(&pki)?;
        write_private(&self.pki("ca.crt"), authority.certificate())?;
        let names = [
            "localhost".into(),
            "127.0.0.1".into(),
            self.address.to_string(),
            NODE_ADDRESS.to_string(),
            first_service_address().to_string(),
            "kubernetes".into(),
            "kubernetes.default".into(),
            "kubernetes.default.svc".into(),
            "kubernetes.default.svc.cluster.local".into(),
        ];
        authority.server("kube-apiserver", &names)?.write(&pki, "apiserver")?;
        authority.client("kube-apiserver-kubelet-client", Some(MASTERS))?.write(&pki, "kubelet-client")?;
        let token_key = TokenKey::create()?;
        write_private(&self.pki("tokens.key"), &token_key.private)?;
        write_private(&self.pki("tokens.pub"), &token_key.public)?;
        self.write_kubeconfig(authority, "admin", "kubernetes-admin", Some(MASTERS))?;
        self.write_kubeconfig(authority, "controller-manager", "system:kube-controller-manager", None)?;
        self.write_kubeconfig(authority, "scheduler", "system:kube-scheduler", None)
    }

    /// Issues a client certificate and writes `<file>.kubeconfig` with it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_kubeconfig(&self, authority: &Authority, file: &str, user: &str, group: Option<&str>) -> Result<()> {
        let identity = authority.client(user, group)?;
        let text = kubeconfig::render(&self.server(), authority.certificate(), &Credentials::Certificate(&identity))?;
        write_private(&self.kubeconfig(file), &text)
    }

    /// etcd, keeping its data in `data`.
    pub fn etcd(&self, data: &Path) -> Launch {
        let client = format!("http://127.0.0.1:{}", self.etcd_port);
        let peer = format!("http://127.0.0.1:{}", self.peer_port);
        self.launch(
            Binary::Etcd,
            vec![
                format!("--data-dir={}", data.display()),
                format!("--listen-client-urls={client}"),
                format!("--advertise-client-urls={client}"),
                format!("--listen-peer-urls={peer}"),
                format!("--initial-advertise-peer-urls={peer}"),
                format!("--initial-cluster=default={peer}"),
                "--quota-backend-bytes=8589934592".into(),
                "--auto-compaction-retention=1h".into(),
                "--log-level=warn".into(),
            ],
        )
    }

    /// The API server; `more` arguments are put behind ours and win over them.
    pub fn api_server(&self, more: &[String]) -> Launch {
        let mut args = vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_port),
            format!("--bind-address={}", self.address),
            format!("--secure-port={}", self.api_port),
            // Loopback is refused here, and nobody goes by it unless there are Pods.
            format!("--advertise-address={NODE_ADDRESS}"),
            format!("--cert-dir={}", self.dir.join("pki").display()),
            file_arg("tls-cert-file", &self.pki("apiserver.crt")),
            file_arg("tls-private-key-file", &self.pki("apiserver.key")),
            file_arg("client-ca-file", &self.pki("ca.crt")),
            file_arg("kubelet-client-certificate", &self.pki("kubelet-client.crt")),
            file_arg("kubelet-client-key", &self.pki("kubelet-client.key")),
            "--kubelet-preferred-address-types=InternalIP".into(),
            "--authorization-mode=Node,RBAC".into(),
            "--enable-admission-plugins=NodeRestriction".into(),
            "--allow-privileged=true".into(),
            format!("--service-cluster-ip-range={SERVICE_RANGE}"),
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local".into(),
            file_arg("service-account-key-file", &self.pki("tokens.pub")),
            file_arg("service-account-signing-key-file", &self.pki("tokens.key")),
            // A test that stops the server wants it gone, not politely draining for a minute.
            "--shutdown-watch-termination-grace-period=0s".into(),
        ];
        args.extend_from_slice(more);
        self.launch(Binary::ApiServer, args)
    }

    /// The controller manager.
    pub fn controller_manager(&self, controllers: Controllers) -> Launch {
        let kubeconfig = self.kubeconfig("controller-manager");
        let mut args = vec![
            file_arg("kubeconfig", &kubeconfig),
            file_arg("authentication-kubeconfig", &kubeconfig),
            file_arg("authorization-kubeconfig", &kubeconfig),
            file_arg("root-ca-file", &self.pki("ca.crt")),
            // Its default is a fixed place outside our directory, which it creates.
            file_arg("flex-volume-plugin-dir", &self.dir.join("volume-plugins")),
            file_arg("service-account-private-key-file", &self.pki("tokens.key")),
            "--use-service-account-credentials=true".into(),
            "--leader-elect=false".into(),
            "--secure-port=0".into(),
        ];
        match controllers {
            Controllers::All => {}
            Controllers::OfPlane => args.push(format!("--controllers={}", PLANE_CONTROLLERS.join(","))),
        }
        self.launch(Binary::ControllerManager, args)
    }

    /// The scheduler.
    pub fn scheduler(&self) -> Launch {
        let kubeconfig = self.kubeconfig("scheduler");
        self.launch(
            Binary::Scheduler,
            vec![
                file_arg("kubeconfig", &kubeconfig),
                file_arg("authentication-kubeconfig", &kubeconfig),
                file_arg("authorization-kubeconfig", &kubeconfig),
                "--leader-elect=false".into(),
                "--secure-port=0".into(),
            ],
        )
    }

    /// A launch of one of our binaries with this layout's logs and lifetime.
    pub fn launch(&self, binary: Binary, args: Vec<String>) -> Launch {
        Launch {
            name: binary.name().to_owned(),
            program: binary.path(),
            args,
            env: Vec::new(),
            logs: self.logs(),
            lifetime: self.lifetime,
        }
    }
}

const PLANE_CONTROLLERS: &[&str] = &[
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
    "resourcequota-controller",
    "job-controller",
    "ttl-after-finished-controller",
    "pod-garbage-collector-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "disruption-controller",
];

/// The address of the Service `kubernetes`.
pub fn first_service_address() -> Ipv4Addr {
    Ipv4Addr::new(198, 19, 0, 1)
}

/// `--name=path`.
pub fn file_arg(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout {
            dir: "/state".into(),
            address: Ipv4Addr::LOCALHOST,
            api_port: 6443,
            etcd_port: 1,
            peer_port: 2,
            lifetime: Lifetime::WithThisProcess,
        }
    }

    #[test]
    fn a_user_s_argument_comes_behind_ours() {
        let args = layout().api_server(&["--v=4".into()]).args;
        assert_eq!(args.last().map(String::as_str), Some("--v=4"));
    }

    #[test]
    fn authorization_is_never_switched_off() {
        assert!(layout().api_server(&[]).args.contains(&"--authorization-mode=Node,RBAC".to_owned()));
    }

    #[test]
    fn a_plane_collects_garbage_and_loses_nodes() {
        let args = layout().controller_manager(Controllers::OfPlane).args.join(" ");
        assert!(args.contains("garbage-collector-controller") && args.contains("node-lifecycle-controller"));
    }
}
