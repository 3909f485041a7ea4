//! Label keys and values.

use std::borrow::Cow;

/// Marks every object of ours; the one label that Pods are watched by.
pub const MANAGED_BY: &str = "sandbox.opensandbox.io/managed-by";
/// The value of [`MANAGED_BY`].
pub const MANAGED_BY_CONTROLLER: &str = "opensandbox-controller";

/// Pod of a Pool: the Pool's uid.
pub const POOL_UID: &str = "sandbox.opensandbox.io/pool-uid";
/// Pod of a Pool: the Pool's name (contract).
pub const POOL_NAME: &str = "sandbox.opensandbox.io/pool-name";
/// Pod of a Pool: the template's revision, 16 hex digits (contract).
pub const POOL_REVISION: &str = "sandbox.opensandbox.io/pool-revision";
/// The positive mark of a Pod that nobody has used; set at creation, off with adoption.
pub const WARM: &str = "sandbox.opensandbox.io/warm";
/// The value of [`WARM`].
pub const WARM_TRUE: &str = "true";

/// Pod of a claim: the claim's uid.
pub const CLAIM_UID: &str = "sandbox.opensandbox.io/claim-uid";
/// Pod of a claim: the index within the claim, decimal.
pub const CLAIM_INDEX: &str = "sandbox.opensandbox.io/claim-index";
/// Pod of a BatchSandbox: its name (contract).
pub const BATCH_SANDBOX_NAME: &str = "batch-sandbox.sandbox.opensandbox.io/name";
/// Pod of a BatchSandbox: the index, decimal (contract).
pub const BATCH_SANDBOX_POD_INDEX: &str = "batch-sandbox.sandbox.opensandbox.io/pod-index";
/// Pod of a Sandbox: its name.
pub const SANDBOX_NAME: &str = "sandbox.opensandbox.io/sandbox-name";

/// Set by people and tools on a Pod of a Pool that must go: presence counts (contract).
pub const EVICT: &str = "pool.opensandbox.io/evict";
/// On a Pool: which eviction handler (contract; only the default exists).
pub const EVICTION_HANDLER: &str = "pool.opensandbox.io/eviction-handler";

/// On a commit or unpause Job: the SandboxSnapshot's name (contract).
pub const SANDBOX_SNAPSHOT_NAME: &str = "sandbox.opensandbox.io/sandbox-snapshot-name";
/// On a commit or unpause Job, for admission policies (contract).
pub const PRIVILEGED_NODE_ACCESS: &str = "sandbox.opensandbox.io/privileged-node-access";

/// The longest value a label may have.
pub const VALUE_MAX: usize = 63;

/// A name as a label value: itself when it fits, else its start and a hash of the whole.
///
/// Object names may be 253 characters long, label values 63.
pub fn value(name: &str) -> Cow<'_, str> {
    crate::child_names::fit(name, VALUE_MAX)
}
