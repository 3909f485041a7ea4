//! The programs of a Kubernetes, built from Go modules into the cache and found there again.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::home;

/// The Kubernetes version of the module `kubernetes`; the binaries call themselves so.
pub const KUBERNETES: &str = "v1.34.4";

const SPEAK_EVERY: Duration = Duration::from_secs(15);

/// A program that a cluster or its user needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// The store behind the API server.
    Etcd,
    /// The API server.
    ApiServer,
    /// Garbage collection, namespaces, Jobs and the other controllers.
    ControllerManager,
    /// Binds Pods to nodes.
    Scheduler,
    /// Runs Pods on the whole node.
    Kubelet,
    /// Makes Services reachable on the whole node.
    KubeProxy,
    /// The command line client.
    Kubectl,
    /// Pushes, copies and lists images.
    Crane,
    /// Cluster DNS.
    CoreDns,
    /// The chart installer.
    Helm,
    /// Process 1 of every Pod, put into the sandbox image.
    Pause,
}

/// The Go module that a binary is built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Module {
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
}

macro_rules! module {
    ($name:literal: $($file:literal),+) => {
        Module {
            name: $name,
            files: &[$(($file, include_str!(concat!("../modules/", $name, "/", $file)))),+],
        }
    };
}

const MODULE_KUBERNETES: Module = module!("kubernetes": "go.mod", "go.sum");
const MODULE_CRANE: Module = module!("crane": "go.mod", "go.sum");
const MODULE_COREDNS: Module = module!("coredns": "go.mod", "go.sum");
const MODULE_HELM: Module = module!("helm": "go.mod", "go.sum");
const MODULE_PAUSE: Module = module!("pause": "go.mod", "main.go");

impl Binary {
    /// All of them, in the order in which building shares most: a control plane's, then the rest of the whole node's.
    pub const ALL: &[Self] = &[
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Kubelet,
        Self::KubeProxy,
        Self::Kubectl,
        Self::Pause,
        Self::Crane,
        Self::CoreDns,
        Self::Helm,
    ];

    /// What a control plane needs.
    pub const PLANE: &[Self] = Self::ALL.split_at(3).0;

    /// What the whole node needs, and what its users do.
    pub const NODE: &[Self] = Self::ALL.split_at(10).0;

    /// The file's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube-proxy",
            Self::Kubectl => "kubectl",
            Self::Crane => "crane",
            Self::CoreDns => "coredns",
            Self::Helm => "helm",
            Self::Pause => "pause",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::ApiServer => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::ControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
            Self::Scheduler => "k8s.io/kubernetes/cmd/kube-scheduler",
            Self::Kubelet => "k8s.io/kubernetes/cmd/kubelet",
            Self::KubeProxy => "k8s.io/kubernetes/cmd/kube-proxy",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
            Self::Crane => "github.com/google/go-containerregistry/cmd/crane",
            Self::CoreDns => "github.com/coredns/coredns",
            Self::Helm => "helm.sh/helm/v3/cmd/helm",
            Self::Pause => ".",
        }
    }

    fn module(self) -> Module {
        match self {
            Self::Etcd
            | Self::ApiServer
            | Self::ControllerManager
            | Self::Scheduler
            | Self::Kubelet
            | Self::KubeProxy
            | Self::Kubectl => MODULE_KUBERNETES,
            Self::Crane => MODULE_CRANE,
            Self::CoreDns => MODULE_COREDNS,
            Self::Helm => MODULE_HELM,
            Self::Pause => MODULE_PAUSE,
        }
    }

    fn linker_flags(self) -> String {
        if self.module() != MODULE_KUBERNETES {
            return "-s -w".into();
        }
        // Without these the server calls itself v0.0.0 and clients refuse it.
        let version = "k8s.io/component-base/version";
        let mut numbers = KUBERNETES.trim_start_matches('v').split('.');
        let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        format!(
            "-s -w -X {version}.gitVersion={KUBERNETES} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
        )
    }

    /// The directory that holds this binary: a new one for each change of what it is built from.
    fn dir(self) -> PathBuf {
        home::cache().join("bin").join(format!("{}-{}", self.module().name, self.key()))
    }

    fn key(self) -> String {
        let flags = self.linker_flags();
        let mut parts: Vec<&[u8]> = vec![flags.as_bytes()];
        for (name, text) in self.module().files {
            parts.extend([name.as_bytes(), text.as_bytes()]);
        }
        home::digest(&parts)[..16].to_owned()
    }

    /// Where it is once built.
    pub fn path(self) -> PathBuf {
        self.dir().join(self.name())
    }

    /// Whether it is built.
    pub fn is_built(self) -> bool {
        self.path().is_file()
    }
}

/// Builds what of `wanted` is not in the cache yet, one after the other, with a line of progress each.
/// Two processes that build at once wait for one another; an interrupted build leaves no half file.
///
/// # Errors
/// When Go is missing or a build fails; the message holds Go's own.
pub fn ensure(wanted: &[Binary]) -> Result<()> {
    let missing: Vec<Binary> = wanted.iter().copied().filter(|binary| !binary.is_built()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let _lock = lock(&home::cache())?;
    let missing: Vec<Binary> = missing.into_iter().filter(|binary| !binary.is_built()).collect();
    let count = missing.len();
    for (place, binary) in missing.into_iter().enumerate() {
        build(binary, &format!("[{}/{count}] {}", place + 1, binary.name()))?;
    }
    Ok(())
}

fn lock(cache: &Path) -> Result<File> {
    fs::create_dir_all(cache).with_context(|| format!("create the cache {}", cache.display()))?;
    let path = cache.join("build.lock");
    let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {
            eprintln!("- another process builds into {}; waiting for it", cache.display());
        }
        Err(TryLockError::Error(error)) => return Err(error).with_context(|| format!("lock {}", path.display())),
    }
    let begun = Instant::now();
    let taken = speak_while("waiting for the other build", begun, move || file.lock().map(|()| file))?;
    taken.with_context(|| format!("lock {}", path.display()))
}

fn build(binary: Binary, label: &str) -> Result<()> {
    let sources = unpack(binary)?;
    fs::create_dir_all(binary.dir()).with_context(|| format!("create {}", binary.dir().display()))?;
    let half = binary.dir().join(format!("{}.half", binary.name()));
    // Of a build that was killed; we hold the lock, so nobody is writing it.
    let _ = fs::remove_file(&half);
    let mut go = Command::new("go");
    go.current_dir(&sources)
        .env("CGO_ENABLED", "0")
        .args(["build", "-trimpath", "-buildvcs=false", "-ldflags", &binary.linker_flags(), "-o"])
        .arg(&half)
        .arg(binary.package());
    let begun = Instant::now();
    eprintln!("- build {label} (minutes when cold, kept in {})", home::cache().display());
    let output = speak_while(&format!("building {label}"), begun, move || go.stdin(Stdio::null()).output())?
        .context("run go: it is missing; install Go 1.26 or newer (https://go.dev/dl), or run: make setup")?;
    if !output.status.success() {
        // Best effort: what remains is a hidden file that nobody looks at.
        let _ = fs::remove_file(&half);
        bail!("build {} ({}): {}", binary.name(), output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    fs::rename(&half, binary.path()).with_context(|| format!("put {} in place", binary.path().display()))?;
    eprintln!("  built {label} in {} s", begun.elapsed().as_secs());
    Ok(())
}

/// The module's files as a directory in the cache, so that the checkout is not written to.
fn unpack(binary: Binary) -> Result<PathBuf> {
    let dir = home::cache().join("src").join(format!("{}-{}", binary.module().name, binary.key()));
    fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    for (name, text) in binary.module().files {
        fs::write(dir.join(name), text).with_context(|| format!("write {name} into {}", dir.display()))?;
    }
    Ok(dir)
}

/// Does the work in a thread of its own and says every 15 s what it is and how long it has taken.
fn speak_while<T: Send + 'static>(what: &str, begun: Instant, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let (done, result) = channel();
    thread::spawn(move || done.send(work()));
    loop {
        match result.recv_timeout(SPEAK_EVERY) {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) => eprintln!("  {what}, {} s", begun.elapsed().as_secs()),
            Err(RecvTimeoutError::Disconnected) => bail!("{what}: the thread that did it panicked"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binaries_of_one_module_share_a_directory_and_others_do_not() {
        assert_eq!(Binary::Etcd.dir(), Binary::Kubelet.dir());
        assert_ne!(Binary::Etcd.dir(), Binary::Crane.dir());
    }

    #[test]
    fn a_plane_has_no_part_of_a_node_and_a_node_has_all_but_the_chart_installer() {
        assert_eq!(Binary::PLANE, [Binary::Etcd, Binary::ApiServer, Binary::ControllerManager]);
        let left_out: Vec<_> = Binary::ALL.iter().filter(|binary| !Binary::NODE.contains(binary)).collect();
        assert_eq!(left_out, [&Binary::Helm]);
    }

    #[test]
    fn kubernetes_is_told_its_own_version() {
        assert!(Binary::ApiServer.linker_flags().contains("gitVersion=v1.34.4"));
        assert!(Binary::ApiServer.linker_flags().contains("gitMinor=34"));
        assert!(MODULE_KUBERNETES.files[0].1.contains(&format!("k8s.io/kubernetes {KUBERNETES}")));
    }

    #[test]
    fn every_binary_is_a_tool_of_its_module() {
        for binary in Binary::ALL {
            let go_mod = binary.module().files[0].1;
            assert!(*binary == Binary::Pause || go_mod.contains(binary.package()), "{}", binary.name());
        }
    }
}
