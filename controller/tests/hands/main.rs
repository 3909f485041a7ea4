//! What the operator's hands promise, on a real API server.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

mod compat;
mod events;
mod metrics;
mod pods;
mod pools;
mod refusals;
mod tasks;
mod trouble;
