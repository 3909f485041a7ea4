//! Finalizers of the Go operator. Ours sets none on the way of a grant, and takes these off when it meets them.

/// On a BatchSandbox with a task.
pub const TASK_CLEANUP: &str = "batch-sandbox.sandbox.opensandbox.io/task-cleanup";
/// On a BatchSandbox with Pods of a Pool.
pub const POOL_ALLOCATION: &str = "pool.sandbox.opensandbox.io/pool-allocation";
/// On a SandboxSnapshot.
pub const SNAPSHOT_CLEANUP: &str = "sandboxsnapshot.sandbox.opensandbox.io/cleanup";
