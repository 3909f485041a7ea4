//! The hands of the operator: watches, stores, queues, the Lease, and the
//! carrying out of what `sandbox-core` decides.

pub mod calls;
pub mod client;
pub mod flags;
pub mod in_flight;
pub mod lanes;
pub mod lease;
pub mod log;
pub mod metrics;
pub mod proofs;
pub mod queue;
pub mod store;
