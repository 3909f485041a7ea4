//! The hands of the operator: watches, stores, queues, the Lease, and the
//! carrying out of what `sandbox-core` decides.

pub mod apply;
pub mod claim;
pub mod client;
pub mod context;
pub mod events;
pub mod executor;
pub mod flags;
pub mod in_flight;
pub mod lanes;
pub mod lease;
pub mod live;
pub mod log;
pub mod metrics;
pub mod pool;
pub mod proofs;
pub mod queue;
pub mod route;
pub mod run;
pub mod serve;
pub mod store;
pub mod watch;
