//! Taking a node away: its processes, its Pods, and all that it left in the kernel.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::Signal;

use super::components::Component;
use super::holder::{Holder, pids};
use super::network;
use super::places::{CONTAINERD_USUAL, NETWORK, containerd_run, containerd_socket};
use crate::process::ProcessId;
use crate::wait::Step;

const GRACE: Duration = Duration::from_secs(3);

/// Takes a node away, running or long dead.
///
/// # Errors
/// When something is left, with its name.
pub fn sweep(holder: &Holder) -> Result<()> {
    let step = Step::begin(format!("take the node of {} away", holder.checkout.display()));
    // The kubelet first, or it would start again what is ended below; containerd before the Pods'
    // processes for the same reason.
    stop(holder, &[Component::Kubelet, Component::Containerd]);
    end_pods();
    // It would drain for as long as anybody watches; what it holds is removed with it.
    kill(holder, Component::ApiServer);
    let mut rest = Component::ALL;
    rest.reverse();
    stop(holder, &rest);
    let dirs = [holder.dir.clone(), containerd_run()];
    unmount_below(&dirs);
    remove_cgroups();
    network::tear_down(&holder.before);
    remove_traces(&holder.dir);
    for dir in &dirs {
        if let Err(error) = fs::remove_dir_all(dir)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            bail!("{} is left of the node: {error}; mounts in it: {:?}", dir.display(), mounts_below(&dirs));
        }
    }
    Holder::remove();
    step.done();
    Ok(())
}

fn stop(holder: &Holder, components: &[Component]) {
    let known = pids(&holder.dir.join("pids"));
    let ids: Vec<ProcessId> = components
        .iter()
        .flat_map(|component| known.iter().filter(|(name, _)| name == component.name()).map(|(_, id)| *id))
        .collect();
    ids.iter().for_each(|id| id.signal(Signal::TERM));
    // One grace for all of them together.
    let end = Instant::now() + GRACE;
    for id in &ids {
        id.wait(end.saturating_duration_since(Instant::now()));
    }
    ids.iter().for_each(|id| id.stop(Duration::ZERO));
}

fn kill(holder: &Holder, component: Component) {
    for (_, id) in pids(&holder.dir.join("pids")).iter().filter(|(name, _)| name == component.name()) {
        id.signal(Signal::KILL);
        id.wait(GRACE);
    }
}

/// Ends shims and everything in the kubelet's cgroups.
fn end_pods() {
    for id in shims() {
        id.stop(Duration::ZERO);
    }
    let trees = cgroup_trees();
    for tree in &trees {
        // What a pause has frozen dies only when thawed (cgroup v1).
        for file in files_named(tree, "freezer.state") {
            let _ = fs::write(file, "THAWED");
        }
    }
    let mut ended = Vec::new();
    for tree in &trees {
        for file in files_named(tree, "cgroup.procs") {
            let text = fs::read_to_string(file).unwrap_or_default();
            let members = text.lines().filter_map(|line| line.parse().ok()).filter_map(ProcessId::of);
            members.for_each(|id| {
                id.signal(Signal::KILL);
                ended.push(id);
            });
        }
    }
    for id in ended {
        id.wait(GRACE);
    }
}

/// The shims of our containerd, told by the socket in their arguments.
fn shims() -> Vec<ProcessId> {
    let socket = containerd_socket();
    let socket = socket.as_os_str().as_encoded_bytes();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        let is_shim = words.first().is_some_and(|word| word.ends_with(b"containerd-shim-runc-v2"));
        if is_shim && words.contains(&socket) {
            found.extend(ProcessId::of(pid));
        }
    }
    found
}

/// The kubelet's cgroup in each hierarchy (v1), or in the one (v2).
fn cgroup_trees() -> Vec<PathBuf> {
    let base = Path::new("/sys/fs/cgroup");
    let hierarchies = fs::read_dir(base).into_iter().flatten().flatten().map(|entry| entry.path());
    let all = hierarchies.chain([base.to_path_buf()]).map(|path| path.join("kubepods"));
    // Symbolic links (cpuacct -> cpu,cpuacct) would name one tree twice.
    let mut trees: Vec<PathBuf> = all.filter_map(|path| path.canonicalize().ok()).collect();
    trees.sort();
    trees.dedup();
    trees
}

fn files_named(dir: &Path, name: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = subdirs(dir).iter().flat_map(|sub| files_named(sub, name)).collect();
    let here = dir.join(name);
    if here.exists() {
        found.push(here);
    }
    found
}

fn subdirs(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

fn remove_cgroups() {
    for tree in cgroup_trees() {
        remove_cgroup(&tree);
    }
}

fn remove_cgroup(dir: &Path) {
    for sub in subdirs(dir) {
        remove_cgroup(&sub);
    }
    // A cgroup directory goes by rmdir once it is empty of processes and of children.
    let _ = fs::remove_dir(dir);
}

/// Mount points below the directories, deepest first.
fn mounts_below(dirs: &[PathBuf]) -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut found: Vec<PathBuf> = text
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|field| PathBuf::from(field.replace("\\040", " ")))
        .filter(|point| dirs.iter().any(|dir| point.starts_with(dir)))
        .collect();
    found.reverse();
    found
}

fn unmount_below(dirs: &[PathBuf]) {
    for point in mounts_below(dirs) {
        // Detached: a mount that is still in use must not keep the node from ending.
        let _ = unmount(&point, UnmountFlags::DETACH);
    }
}

/// Files that kubelet, containerd and the CNI library put at fixed places.
fn remove_traces(dir: &Path) {
    remove_where("/var/log/containers", |path| fs::read_link(path).is_ok_and(|target| target.starts_with(dir)));
    remove_where("/var/lib/cni/results", |path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&format!("{NETWORK}-")))
    });
    let usual = Path::new(CONTAINERD_USUAL);
    if fs::read_link(usual).is_ok_and(|target| target == containerd_socket()) {
        // No other containerd is on this machine, so what lies beside its usual socket is ours:
        // runc's records and the shims' sockets have no place that can be chosen.
        let _ = fs::remove_file(usual);
        remove_where("/var/lib/cni/results", |path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("cni-loopback-"))
        });
        let _ = fs::remove_dir_all("/run/containerd/runc/k8s.io");
        let _ = fs::remove_dir_all("/run/containerd/s");
        let _ = fs::remove_dir("/run/containerd/runc");
    }
    let plugins = Path::new("/var/lib/kubelet/device-plugins");
    let _ = fs::remove_file(plugins.join("kubelet.sock"));
    let _ = fs::remove_file(plugins.join("kubelet_internal_checkpoint"));
    let emptied = [
        "/var/log/containers",
        "/var/lib/cni/results",
        "/var/lib/cni/cache",
        "/var/lib/cni",
        "/var/lib/kubelet/device-plugins",
        "/var/lib/kubelet",
        "/run/containerd",
    ];
    for directory in emptied {
        // Only an empty one goes; another's things stay.
        let _ = fs::remove_dir(directory);
    }
}

fn remove_where(dir: &str, ours: impl Fn(&Path) -> bool) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if ours(&entry.path()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether Pods of an earlier node still run.
pub fn leftovers() -> bool {
    !shims().is_empty()
}
