//! Labels and annotations that the lifecycle API writes on its objects (contract, `opensandbox.io/`).

/// Prefix part that belongs to the API; user metadata may not use it and never shows it.
pub const RESERVED: &str = "opensandbox.io";
/// Label: the sandbox's id. An object without it is not the API's.
pub const ID: &str = "opensandbox.io/id";
/// Label: `true` when the sandbox has no timeout.
pub const MANUAL_CLEANUP: &str = "opensandbox.io/manual-cleanup";
/// Label: the snapshot a sandbox was restored from.
pub const SNAPSHOT_ID: &str = "opensandbox.io/snapshot-id";
/// Label of a PVC that this server made.
pub const VOLUME_MANAGED_BY: &str = "opensandbox.io/volume-managed-by";
/// Annotation: token that endpoints of the sandbox need.
pub const SECURE_ACCESS_TOKEN: &str = "opensandbox.io/secure-access-token";
/// Annotation: token of the egress sidecar.
pub const EGRESS_AUTH_TOKEN: &str = "opensandbox.io/egress-auth-token";
/// Annotation: by how much access renews the sandbox.
pub const ACCESS_RENEW: &str = "opensandbox.io/access-renew-extend-seconds";
/// Annotation prefix: extensions of the caller, to be echoed.
pub const EXTENSION_ANNOTATION: &str = "opensandbox.io/extensions.";
/// Request key prefix of the same.
pub const EXTENSION_KEY: &str = "opensandbox.extensions.";
/// Node label and selector: operating system.
pub const NODE_OS: &str = "kubernetes.io/os";
/// Node label and selector: architecture.
pub const NODE_ARCH: &str = "kubernetes.io/arch";
