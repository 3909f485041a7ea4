//! Volumes of a create: checks, Pod volumes, mounts, claims.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::Given;
use crate::config::Storage;
use crate::error::{ApiError, Code};
use crate::wire::volume::{Backend, Pvc, Volume};
use crate::words;

/// Names that the server gives to volumes of its own.
pub(super) const OWN: [&str; 3] = ["opensandbox-bin", "isolation-upper", "egress-upstream-ca"];

/// What the volumes of a create come to.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    /// Entries of the Pod's `volumes`.
    pub volumes: Vec<Value>,
    /// Entries of the main container's `volumeMounts`.
    pub mounts: Vec<Value>,
    /// Claims, each once.
    pub claims: Vec<Pvc>,
}

/// Checks and lays out the volumes.
pub(super) fn plan(storage: &Storage, volumes: &[Volume]) -> Result<Volumes, ApiError> {
    let mut names = BTreeSet::new();
    for volume in volumes {
        if !names.insert(volume.name.as_str()) {
            return Err(ApiError::bad(Code::VolumeDuplicateName, format!("two volumes are named \"{}\"", volume.name)));
        }
        if OWN.contains(&volume.name.as_str()) {
            return Err(ApiError::bad(
                Code::InvalidParameter,
                format!("the volume name \"{}\" is used by the server; choose another", volume.name),
            ));
        }
        check_sub_path(volume)?;
    }
    let mut out = Volumes::default();
    for volume in volumes {
        match &volume.backend {
            Backend::Host { path } => {
                check_host_path(storage, &volume.name, path)?;
                out.volumes.push(json!({"name": volume.name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}}));
                out.mounts.push(mount(volume, &volume.name));
            }
            Backend::Pvc(pvc) => add_claim(&mut out, volumes, volume, pvc)?,
            Backend::Ossfs => {
                let message = format!("volume \"{}\": ossfs is not supported on Kubernetes; use pvc", volume.name);
                return Err(ApiError::bad(Code::InvalidParameter, message));
            }
        }
    }
    Ok(out)
}

fn mount(volume: &Volume, name: &str) -> Value {
    let mut out = Map::new();
    out.insert("name".to_owned(), json!(name));
    out.insert("mountPath".to_owned(), json!(volume.mount_path));
    out.insert("readOnly".to_owned(), json!(volume.read_only));
    if let Some(path) = volume.sub_path.as_ref().filter(|p| !p.is_empty()) {
        out.insert("subPath".to_owned(), json!(path));
    }
    Value::Object(out)
}

/// One Pod volume for each claim, however many mounts it has.
fn add_claim(out: &mut Volumes, all: &[Volume], volume: &Volume, pvc: &Pvc) -> Result<(), ApiError> {
    let same: Vec<&Volume> = all
        .iter()
        .filter(|v| matches!(&v.backend, Backend::Pvc(other) if other.claim_name == pvc.claim_name))
        .collect();
    let first = same.first().copied().unwrap_or(volume);
    if first.backend != volume.backend {
        let message = format!(
            "volumes \"{}\" and \"{}\" use the claim \"{}\" and disagree about it",
            first.name, volume.name, pvc.claim_name
        );
        return Err(ApiError::bad(Code::InvalidParameter, message));
    }
    if first.name == volume.name {
        let read_only = same.iter().all(|v| v.read_only);
        out.volumes.push(
            json!({"name": volume.name, "persistentVolumeClaim": {"claimName": pvc.claim_name, "readOnly": read_only}}),
        );
        out.claims.push(pvc.clone());
    }
    out.mounts.push(mount(volume, &first.name));
    Ok(())
}

fn check_sub_path(volume: &Volume) -> Result<(), ApiError> {
    let Some(path) = volume.sub_path.as_deref() else { return Ok(()) };
    if path.starts_with('/') || path.split('/').any(|part| part == "..") {
        let message = format!("volume \"{}\": subPath must be relative and must not contain \"..\"", volume.name);
        return Err(ApiError::bad(Code::VolumeInvalidSubPath, message));
    }
    Ok(())
}

fn check_host_path(storage: &Storage, name: &str, path: &str) -> Result<(), ApiError> {
    let odd = path.split('/').any(|part| part == ".." || part == ".")
        || path.contains("//")
        || (path.len() > 1 && path.ends_with('/'));
    if odd {
        let message =
            format!("volume \"{name}\": the host path must not contain \"..\", \".\" or \"//\", nor end with \"/\"");
        return Err(ApiError::bad(Code::VolumeInvalidHostPath, message));
    }
    let under = |allowed: &String| {
        let allowed = allowed.trim_end_matches('/');
        path.strip_prefix(allowed).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if storage.allowed_host_paths.iter().any(under) {
        return Ok(());
    }
    let message = format!("volume \"{name}\": the host path is not under storage.allowed_host_paths of this server");
    Err(ApiError::bad(Code::VolumeHostPathNotAllowed, message))
}

/// A PersistentVolumeClaim that is to be made for a sandbox.
#[must_use]
pub fn claim_manifest(storage: &Storage, given: &Given, pvc: &Pvc) -> Value {
    let mut metadata = json!({"name": pvc.claim_name, "namespace": given.namespace});
    if pvc.delete_on_termination {
        metadata["labels"] = json!({words::VOLUME_MANAGED_BY: "server", words::ID: given.id});
    }
    let modes = pvc.access_modes.clone().unwrap_or_else(|| vec!["ReadWriteOnce".to_owned()]);
    let size = pvc.storage.as_ref().unwrap_or(&storage.volume_default_size);
    let mut spec = json!({"accessModes": modes, "resources": {"requests": {"storage": size}}});
    if let Some(class) = &pvc.storage_class {
        spec["storageClassName"] = json!(class);
    }
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})
}
