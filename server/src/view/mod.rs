//! What the API knows of one sandbox, taken from its custom resource once, when it changes.
//!
//! Both kinds read the same here; nothing after this room asks which one it is, but for writing.

mod read;
mod state;

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use sandbox_api::Reason;

use crate::store::Key;

pub use state::{Standing, State, StateReason};

/// Kind of a sandbox's custom resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A BatchSandbox of one replica.
    BatchSandbox,
    /// A Sandbox.
    Sandbox,
}

impl Kind {
    /// The kind's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BatchSandbox => "BatchSandbox",
            Self::Sandbox => "Sandbox",
        }
    }
}

/// Where a sandbox may run, when its object says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// `linux` or `windows`.
    pub os: String,
    /// `amd64` or `arm64`.
    pub arch: String,
}

/// A sandbox as the API sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Kind of its object.
    pub kind: Kind,
    /// Namespace of its object.
    pub namespace: String,
    /// Name of its object.
    pub name: String,
    /// Uid of its object.
    pub uid: String,
    /// resourceVersion of its object as text, for preconditions.
    pub resource_version: String,
    /// The same as a number, for comparing.
    pub version: u64,
    /// The id; empty when the API did not make the object.
    pub id: String,
    /// When the object was made.
    pub created: Timestamp,
    /// Where it stands.
    pub standing: Standing,
    /// When it came to stand there.
    pub since: Timestamp,
    /// When it ends; nothing = never (or nobody can read it).
    pub expires: Option<Timestamp>,
    /// User metadata: labels outside of the API's own prefix.
    pub metadata: BTreeMap<String, String>,
    /// Extensions to echo.
    pub extensions: BTreeMap<String, String>,
    /// Image of the main container; nothing for a sandbox of a Pool.
    pub image: Option<String>,
    /// Snapshot it was restored from.
    pub snapshot_id: Option<String>,
    /// Where it may run.
    pub platform: Option<Platform>,
    /// Command of the main container; empty for a sandbox of a Pool.
    pub entrypoint: Vec<String>,
    /// The Pool that a Pod came from, once one did.
    pub allocated_from: Option<String>,
    /// Address of the Pod that serves it now.
    pub ip: Option<String>,
    /// Why it is not running, in the operator's words.
    pub trouble: Option<Trouble>,
    /// Token of the egress sidecar.
    pub egress_token: Option<String>,
    /// Token that its endpoints need.
    pub secure_token: Option<String>,
}

/// A typed reason and the words behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The closed reason.
    pub reason: Reason,
    /// The operator's or the cluster's words.
    pub message: String,
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.reason.as_str(), self.message.as_str()) {
            ("", message) => f.write_str(message),
            (reason, "") => f.write_str(reason),
            (reason, message) => write!(f, "{reason}: {message}"),
        }
    }
}

impl View {
    /// Where its object is.
    #[must_use]
    pub fn key(&self) -> Key {
        Key { kind: self.kind, namespace: self.namespace.clone(), name: self.name.clone() }
    }

    /// Objects that a sandbox of this id may be: its name is the id, or, from older servers,
    /// `sandbox-` and the id.
    #[must_use]
    pub fn names(id: &str) -> [(Kind, String); 3] {
        [
            (Kind::BatchSandbox, id.to_owned()),
            (Kind::Sandbox, id.to_owned()),
            (Kind::BatchSandbox, format!("sandbox-{id}")),
        ]
    }

    /// Whether it is being deleted.
    #[must_use]
    pub fn ending(&self) -> bool {
        self.standing.reason == StateReason::Deleting
    }
}

/// A resourceVersion as a number. They are numbers on every API server; an odd one sorts last, so
/// that a later arrival wins.
#[must_use]
pub fn version(text: &str) -> u64 {
    text.parse().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
