//! The words of OpenSandbox on Kubernetes: kinds, labels, annotations, conditions and names of children.
//!
//! No I/O and no behaviour beyond reading and writing text. Group `sandbox.opensandbox.io/v1alpha1`; fields,
//! defaults and enums are those of the OpenSandbox contract, additions are optional fields.
//!
//! Reading is total: a value that another writer put into a status, a word of a later version, or a time that
//! nobody can read never fails the decoding of an object, since one undecodable object would blind a whole watch.
//!
//! The schemas that the derives give are raw: `crd-gen` tidies them, and `config/crd` holds what is installed.
// One `printcolumn` attribute per column repeats its keys; the lint takes them for duplicates.
#![allow(clippy::duplicated_attributes)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod annotations;
pub mod batch_sandbox;
pub mod child_names;
pub mod condition;
pub mod finalizers;
pub mod labels;
pub mod ledger;
pub mod moment;
mod number;
pub mod policy;
pub mod pool;
pub mod reason;
pub mod sandbox;
pub mod sandbox_snapshot;
mod schema;
pub mod shallow;
pub mod slot;
mod word;

pub use batch_sandbox::{BatchSandbox, BatchSandboxPhase, BatchSandboxSpec, BatchSandboxStatus};
pub use condition::{Condition, ConditionStatus, ConditionType};
pub use moment::Moment;
pub use policy::{ExpirePolicy, PoolRef, Recovery, RecycleType, TaskResourcePolicy};
pub use pool::{CapacitySpec, MaxUnavailable, Pool, PoolGrant, PoolSpec, PoolStatus};
pub use reason::Reason;
pub use sandbox::{Sandbox, SandboxPhase, SandboxSpec, SandboxStatus};
pub use sandbox_snapshot::{
    SandboxSnapshot, SandboxSnapshotSpec, SandboxSnapshotStatus, SnapshotContainer, SnapshotPhase,
};
pub use shallow::Shallow;
pub use slot::SandboxSlot;

/// API group of all kinds.
pub const GROUP: &str = "sandbox.opensandbox.io";
/// The one version, served and stored.
pub const VERSION: &str = "v1alpha1";
