//! A Pod, cut down to what plans read. Everything else is dropped when it is decoded: thousands of them are kept.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use sandbox_api::{annotations, labels};
use serde::{Deserialize, Serialize};

use crate::ids::{ClaimKey, PodKey};

/// The index of a Pod whose labels tell none: no claim has it, so such a Pod is never marked as it should be.
pub const UNLABELLED: u32 = u32::MAX;

/// A trimmed Pod. Decodes from any Pod JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pod {
    /// Name, uid, labels, owners, deletion timestamp.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Where it runs.
    #[serde(default)]
    pub spec: PodSpec,
    /// How it fares.
    #[serde(default)]
    pub status: PodStatus,
}

/// The part of `spec` that plans read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    /// The node that it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
}

/// The part of `status` that plans read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed`, `Unknown`.
    pub phase: Option<String>,
    /// Why it is in that phase, e.g. `Evicted`.
    pub reason: Option<String>,
    /// The same in words.
    pub message: Option<String>,
    /// Its address.
    #[serde(rename = "podIP")]
    pub pod_ip: Option<String>,
    /// `Ready`, `PodScheduled`, `DisruptionTarget`, ...
    pub conditions: Vec<PodCondition>,
    /// State of its containers.
    pub container_statuses: Vec<ContainerStatus>,
    /// State of its init containers.
    pub init_container_statuses: Vec<ContainerStatus>,
}

/// One condition of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// Which.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False`, `Unknown`.
    pub status: String,
    /// Cause.
    pub reason: Option<String>,
    /// In words.
    pub message: Option<String>,
    /// Since when.
    pub last_transition_time: Option<Time>,
}

/// State of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Its name.
    pub name: String,
    /// Changes with every restart.
    #[serde(rename = "containerID")]
    pub container_id: Option<String>,
    /// How often it was restarted.
    pub restart_count: i32,
    /// Passes its readiness probe.
    pub ready: bool,
    /// Now.
    pub state: ContainerState,
    /// Before its last restart.
    pub last_state: ContainerState,
}

/// What a container does; at most one field is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    /// Not started yet, or between restarts.
    pub waiting: Option<Waiting>,
    /// Ended.
    pub terminated: Option<Terminated>,
}

/// Why a container waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Waiting {
    /// `ImagePullBackOff`, `CrashLoopBackOff`, ...
    pub reason: Option<String>,
    /// In words.
    pub message: Option<String>,
}

/// How a container ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Terminated {
    /// Its exit code.
    pub exit_code: i32,
    /// `OOMKilled`, `Error`, `Completed`, ...
    pub reason: Option<String>,
    /// In words.
    pub message: Option<String>,
}

impl Pod {
    /// Name and uid. Empty where the API server would never leave them so.
    #[must_use]
    pub fn key(&self) -> PodKey {
        PodKey::new(self.metadata.uid.as_deref().unwrap_or_default(), self.metadata.name.as_deref().unwrap_or_default())
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels()?.get(key).map(String::as_str)
    }

    fn labels(&self) -> Option<&BTreeMap<String, String>> {
        self.metadata.labels.as_ref()
    }

    /// Whether it carries the positive clean mark.
    #[must_use]
    pub fn is_warm(&self) -> bool {
        self.label(labels::WARM) == Some("true")
    }

    /// Has a deletion timestamp.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Phase `Succeeded` or `Failed`.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed"))
    }

    /// A condition by type.
    #[must_use]
    pub fn condition(&self, type_: &str) -> Option<&PodCondition> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Running, Ready, not terminating.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.status.phase.as_deref() == Some("Running")
            && !self.is_terminating()
            && self.condition("Ready").is_some_and(|condition| condition.status == "True")
    }

    /// Its address, once it has one.
    #[must_use]
    pub fn ip(&self) -> Option<&str> {
        self.status.pod_ip.as_deref().filter(|ip| !ip.is_empty())
    }

    /// The claim and index that its labels name, or else its controller owner with [`UNLABELLED`].
    #[must_use]
    pub fn held_by(&self) -> Option<(ClaimKey, u32)> {
        let label = self.label(labels::CLAIM_UID);
        let index = self.label(labels::CLAIM_INDEX).filter(|_| label.is_some()).and_then(|index| index.parse().ok());
        let index = index.unwrap_or(UNLABELLED);
        let uid = label.or_else(|| self.claim_owner())?;
        Some((self.claim_address(uid).unwrap_or_else(|| ClaimKey::by_uid(uid)), index))
    }

    /// The annotation that adoption leaves beside the label, so that the claim can be read live: `Kind/name/uid`.
    fn claim_address(&self, uid: &str) -> Option<ClaimKey> {
        let address = self.metadata.annotations.as_ref()?.get(annotations::CLAIM)?;
        ClaimKey::parse(address).filter(|key| &*key.uid == uid)
    }

    /// The uid of the owner that is a claim (a BatchSandbox or Sandbox of this API group).
    #[must_use]
    pub fn claim_owner(&self) -> Option<&str> {
        self.metadata.owner_references.iter().flatten().find_map(|owner| {
            let ours = owner.api_version.starts_with(sandbox_api::GROUP) && owner.controller == Some(true);
            (ours && matches!(owner.kind.as_str(), "BatchSandbox" | "Sandbox")).then_some(owner.uid.as_str())
        })
    }

    /// When it was created, in seconds of the epoch.
    #[must_use]
    pub fn created_s(&self) -> i64 {
        self.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second())
    }
}
