//! Annotation keys and the JSON in them.

use serde::{Deserialize, Serialize};

/// On a BatchSandbox: the Pods given to it, [`AllocStatus`] (contract; ours writes it as a report only).
pub const ALLOC_STATUS: &str = "sandbox.opensandbox.io/alloc-status";
/// On a BatchSandbox: Pods to be recycled, [`PodNames`] (contract).
pub const ALLOC_RELEASE: &str = "sandbox.opensandbox.io/alloc-release";
/// On a BatchSandbox: Pods recycled, [`PodNames`] (contract).
pub const ALLOC_RELEASED: &str = "sandbox.opensandbox.io/alloc-released";
/// On a BatchSandbox: JSON array of Pod IPs in index order, `""` for a Pod without one (contract; a report).
pub const ENDPOINTS: &str = "sandbox.opensandbox.io/endpoints";
/// On a Pod: whose it is, as [`crate::ledger::ClaimRef`] writes it, so that the claim can be read live.
pub const CLAIM: &str = "sandbox.opensandbox.io/claim";
/// On a Pod of a claim's own template: the resourceVersion of the claim when the Pod was made, or last wanted again. Who has
/// seen no such version of the claim may not end the Pod.
pub const WANTED_AT: &str = "sandbox.opensandbox.io/wanted-at";
/// On a Pod: the record of a restart under way (contract).
pub const RESTART_RECORD: &str = "sandbox.opensandbox.io/restart-record";
/// On a Pool: how to restart, JSON (contract).
pub const RESTART_CONFIG: &str = "sandbox.opensandbox.io/restart-config";
/// On a Pod: container ids when it was handed out (contract).
pub const RESTART_BASELINE: &str = "sandbox.opensandbox.io/restart-baseline";

/// The JSON of [`ALLOC_STATUS`]: the index in `pods` is the sandbox index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocStatus {
    /// Pod names in index order.
    pub pods: Vec<String>,
    /// The Pool they came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool_ref: Option<String>,
    /// The generation it was written for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
}

/// The JSON of [`ALLOC_RELEASE`] and [`ALLOC_RELEASED`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodNames {
    /// Pod names.
    pub pods: Vec<String>,
}
