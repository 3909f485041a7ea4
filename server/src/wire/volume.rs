//! Volumes of a create.

use crate::fields::Fields;

/// Where the data of a volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A directory of the node.
    Host {
        /// Absolute path on the node.
        path: String,
    },
    /// A PersistentVolumeClaim.
    Pvc(Pvc),
    /// An OSS bucket; well-formed and not served on Kubernetes.
    Ossfs,
}

/// A PersistentVolumeClaim to mount, and how to make it when it is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pvc {
    /// Name of the claim.
    pub claim_name: String,
    /// Make it when it is missing.
    pub create_if_not_exists: bool,
    /// Its life ends with the sandbox (only if it is made here).
    pub delete_on_termination: bool,
    /// Storage class of a new claim.
    pub storage_class: Option<String>,
    /// Size of a new claim.
    pub storage: Option<String>,
    /// Access modes of a new claim.
    pub access_modes: Option<Vec<String>>,
}

/// One entry of `volumes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Name inside of the sandbox's Pod.
    pub name: String,
    /// Where it is mounted.
    pub mount_path: String,
    /// Mounted read-only.
    pub read_only: bool,
    /// Directory of the volume that is mounted.
    pub sub_path: Option<String>,
    /// Where the data is.
    pub backend: Backend,
}

impl Volume {
    pub(super) fn read(f: &Fields<'_>) -> Option<Self> {
        let name = f.required("name", f.string("name"));
        if name.as_deref().is_some_and(|n| !is_dns_label(n)) {
            f.refuse("name", "must be lower-case letters, digits and '-', at most 63");
        }
        let mount_path = f.required("mountPath", f.string("mountPath"));
        if mount_path.as_deref().is_some_and(|p| !p.starts_with('/')) {
            f.refuse("mountPath", "must be an absolute path");
        }
        let given: Vec<&str> = ["host", "pvc", "ossfs"].into_iter().filter(|b| f.has(b)).collect();
        let backend = match given.as_slice() {
            ["host"] => f.object("host").and_then(|h| read_host(&h)),
            ["pvc"] => f.object("pvc").and_then(|p| read_pvc(&p)),
            ["ossfs"] => f.object("ossfs").and_then(|o| read_ossfs(&o)),
            _ => {
                f.refuse_whole("exactly one of host, pvc, ossfs must be given");
                None
            }
        };
        let read_only = f.bool("readOnly").unwrap_or(false);
        let sub_path = f.string("subPath");
        Some(Self { name: name?, mount_path: mount_path?, read_only, sub_path, backend: backend? })
    }
}

fn read_host(f: &Fields<'_>) -> Option<Backend> {
    let path = f.required("path", f.string("path"))?;
    let windows = path.as_bytes().get(1..3) == Some(b":\\");
    if !path.starts_with('/') && !windows {
        f.refuse("path", "must be an absolute path");
    }
    Some(Backend::Host { path })
}

fn read_pvc(f: &Fields<'_>) -> Option<Backend> {
    let claim_name = f.required("claimName", f.string("claimName"))?;
    if claim_name.len() > 253 || !is_dns_label_of_any_length(&claim_name) {
        f.refuse("claimName", "must be lower-case letters, digits and '-', at most 253");
    }
    let storage = f.string("storage");
    if storage.as_deref().is_some_and(|s| !is_size(s)) {
        f.refuse("storage", "must be a size like 10Gi");
    }
    Some(Backend::Pvc(Pvc {
        claim_name,
        create_if_not_exists: f.bool("createIfNotExists").unwrap_or(true),
        delete_on_termination: f.bool("deleteOnSandboxTermination").unwrap_or(false),
        storage_class: f.words("storageClass"),
        storage,
        access_modes: f.strings("accessModes").filter(|modes| !modes.is_empty()),
    }))
}

fn read_ossfs(f: &Fields<'_>) -> Option<Backend> {
    for name in ["bucket", "endpoint", "accessKeyId", "accessKeySecret"] {
        f.required(name, f.filled(name));
    }
    f.one_of("version", &[("1.0", ()), ("2.0", ())]);
    Some(Backend::Ossfs)
}

/// Whether a text can name a label, a container or a volume of Kubernetes.
#[must_use]
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_dns_label_of_any_length(text)
}

fn is_dns_label_of_any_length(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_size(text: &str) -> bool {
    let units = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let number = units.iter().find_map(|unit| text.strip_suffix(unit)).unwrap_or(text);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    digits(whole) && digits(fraction)
}
