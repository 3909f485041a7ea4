//! The decisions of the operator: `plan(observed) -> actions + status`, pure and total.
//!
//! Nothing here talks to a cluster, reads a clock or draws a random number: time, answers and randomness are fields of what
//! was observed. A user's mistake becomes a condition, never an error.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing))]

pub mod batch_sandbox;
pub mod claim;
pub mod failure;
pub mod grant;
pub mod ids;
mod merge;
pub mod pod;
pub mod pool;
pub mod revision;
pub mod sandbox;
