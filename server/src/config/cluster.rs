//! `[runtime]`, `[kubernetes]`, `[storage]`, `[secure_runtime]`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::Remarks;
use super::process::seconds;
use crate::fields::Fields;

/// `[runtime]`.
#[derive(Clone, Debug)]
pub struct Runtime {
    /// Image that the execd installer init container runs.
    pub execd_image: String,
    /// Whether execd is PID 1 of the sandbox container.
    pub execd_run_as_init: bool,
}

impl Runtime {
    pub(super) fn read(f: &Fields<'_>) -> Option<Self> {
        let kind = f.required("type", f.string("type"));
        match kind.as_deref() {
            None | Some("kubernetes") => {}
            Some("docker") => f.refuse("type", "\"docker\" is not served by this server; use \"kubernetes\""),
            Some(_) => f.refuse("type", "must be \"kubernetes\""),
        }
        let execd_run_as_init = f.bool("execd_run_as_init").unwrap_or(false);
        let execd_image = f.required("execd_image", f.filled("execd_image"))?;
        Some(Self { execd_image, execd_run_as_init })
    }
}

/// Which custom resource a create writes. Both are always read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadProvider {
    /// `batchsandbox`, the default: one BatchSandbox of one replica.
    BatchSandbox,
    /// `sandbox`: one Sandbox.
    Sandbox,
}

/// CPU, memory and the like of a container: name to quantity.
pub type Quantities = BTreeMap<String, String>;

/// `[kubernetes]`.
#[derive(Clone, Debug)]
pub struct Kubernetes {
    /// Kubeconfig file; nothing = found as kubectl finds it, or in-cluster.
    pub kubeconfig_path: Option<PathBuf>,
    /// Do not check the API server's certificate.
    pub insecure_skip_tls_verify: bool,
    /// Namespace of everything; nothing = that of the kubeconfig or of the server's own Pod.
    pub namespace: Option<String>,
    /// What a create writes.
    pub workload_provider: WorkloadProvider,
    /// Template that generated objects are merged over, as named in the file.
    pub batchsandbox_template_file: Option<PathBuf>,
    /// How long a create may wait for a running sandbox.
    pub create_timeout: Duration,
    /// How long a create may wait while its Pool has no room.
    pub pool_acquisition_timeout: Duration,
    /// Requests and limits of the execd installer.
    pub execd_init_limits: Option<Quantities>,
    /// Requests of the execd installer.
    pub execd_init_requests: Option<Quantities>,
    /// imagePullPolicy of the sandbox container.
    pub image_pull_policy: String,
}

impl Kubernetes {
    pub(super) fn read(f: &Fields<'_>, remarks: &mut Remarks) -> Self {
        read_without_effect(f, remarks);
        let init = f.object("execd_init_resources");
        let execd_init_limits = init.as_ref().and_then(|i| i.string_map("limits"));
        let execd_init_requests = init.as_ref().and_then(|i| i.string_map("requests"));
        init.iter().for_each(|init| remarks.unknown(init));
        let provider = f.one_of(
            "workload_provider",
            &[("batchsandbox", WorkloadProvider::BatchSandbox), ("sandbox", WorkloadProvider::Sandbox)],
        );
        Self {
            kubeconfig_path: f.words("kubeconfig_path").map(PathBuf::from),
            insecure_skip_tls_verify: f.bool("insecure_skip_tls_verify").unwrap_or(false),
            namespace: f.words("namespace"),
            workload_provider: provider.unwrap_or(WorkloadProvider::BatchSandbox),
            batchsandbox_template_file: f.words("batchsandbox_template_file").map(PathBuf::from),
            create_timeout: seconds(f.int("sandbox_create_timeout_seconds", 1, 86_400), 60),
            pool_acquisition_timeout: seconds(f.int("pool_acquisition_timeout_seconds", 1, 86_400), 30),
            execd_init_limits,
            execd_init_requests,
            image_pull_policy: f.filled("image_pull_policy").unwrap_or_else(|| "IfNotPresent".to_owned()),
        }
    }
}

fn read_without_effect(f: &Fields<'_>, remarks: &mut Remarks) {
    let off = f.bool("informer_enabled") == Some(false);
    remarks.no_effect(f, "informer_enabled", off, "reads always come from the watch cache");
    // The reference's cache and polling knobs: ours is always on and event-driven.
    let of_the_cache = ["informer_resync_seconds", "informer_watch_timeout_seconds"];
    for name in of_the_cache {
        f.int(name, 1, i64::MAX);
    }
    f.positive("sandbox_create_poll_interval_seconds");
    let polled = [of_the_cache[0], of_the_cache[1], "sandbox_create_poll_interval_seconds"];
    remarks.nothing_to_tune(f, &polled, "the watch cache follows every change, nothing is polled");
    f.int("snapshot_create_timeout_seconds", 1, i64::MAX);
    remarks.nothing_to_tune(f, &["snapshot_create_timeout_seconds"], "snapshots are not served yet");
    for name in ["read_qps", "read_burst", "write_qps", "write_burst"] {
        let off = f.value(name).is_none_or(|value| value.as_f64() == Some(0.0));
        let limit = if off { None } else { f.positive(name) };
        remarks.no_effect(f, name, limit.is_some(), "the API server's priority and fairness paces requests");
    }
    for name in ["fastpath_endpoint", "fastpath_resource_pool", "template_s3_publish_secret"] {
        let asked = f.words(name).is_some();
        remarks.no_effect(f, name, asked, "fast-sandbox is not served");
    }
    let waits = [
        "fastpath_timeout_seconds",
        "fastpath_timeout",
        "fastpath_wait_ready_seconds",
        "fastpath_wait_ready_timeout_seconds",
        "fastpath_wait_ready",
    ];
    for name in waits {
        f.positive(name);
    }
    remarks.nothing_to_tune(f, &waits, "fast-sandbox is not served");
}

/// `[storage]`.
#[derive(Clone, Debug)]
pub struct Storage {
    /// Host paths that volumes may lie under; empty = none.
    pub allowed_host_paths: Vec<String>,
    /// Size of a PVC that is created and names none.
    pub volume_default_size: String,
}

impl Storage {
    pub(super) fn read(f: &Fields<'_>, remarks: &mut Remarks) -> Self {
        f.string("ossfs_mount_root");
        remarks.nothing_to_tune(f, &["ossfs_mount_root"], "it is Docker's; volumes are Kubernetes' here");
        Self {
            allowed_host_paths: f.strings("allowed_host_paths").unwrap_or_default(),
            volume_default_size: f.filled("volume_default_size").unwrap_or_else(|| "1Gi".to_owned()),
        }
    }
}

/// Which runtime isolates sandboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecureRuntimeKind {
    /// gVisor.
    Gvisor,
    /// Kata Containers.
    Kata,
    /// Firecracker.
    Firecracker,
}

/// `[secure_runtime]`.
#[derive(Clone, Debug)]
pub struct SecureRuntime {
    /// Which runtime.
    pub kind: SecureRuntimeKind,
    /// Name of the RuntimeClass that sandbox Pods get.
    pub runtime_class: String,
}

impl SecureRuntime {
    pub(super) fn read(f: &Fields<'_>, remarks: &mut Remarks) -> Option<Self> {
        f.string("docker_runtime");
        remarks.nothing_to_tune(f, &["docker_runtime"], "sandboxes run under k8s_runtime_class here");
        let class = f.words("k8s_runtime_class");
        let kind = f.one_of(
            "type",
            &[
                ("", None),
                ("gvisor", Some(SecureRuntimeKind::Gvisor)),
                ("kata", Some(SecureRuntimeKind::Kata)),
                ("firecracker", Some(SecureRuntimeKind::Firecracker)),
            ],
        )??;
        let default = match kind {
            SecureRuntimeKind::Gvisor => Some("gvisor"),
            SecureRuntimeKind::Kata => Some("kata-qemu"),
            SecureRuntimeKind::Firecracker => None,
        };
        let Some(runtime_class) = class.or_else(|| default.map(str::to_owned)) else {
            f.refuse("k8s_runtime_class", "is required when type is \"firecracker\"");
            return None;
        };
        Some(Self { kind, runtime_class })
    }
}
