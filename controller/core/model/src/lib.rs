//! The grant protocol, explored: the production code of `sandbox_core::grant` decides, over small numbers for identifiers, in a
//! small cluster where everything that may go wrong does, at every point.
//!
//! What is real: every rule about holding Pods ([`sandbox_core::grant`]). What is modelled: the API server, the stores, the
//! requests and their answers (what `controller/src` does), the claims' own plan, users.

pub mod bits;
pub mod breach;
pub mod explore;
pub mod hands;
pub mod label;
pub mod mutation;
pub mod plan;
pub mod plans;
pub mod prints;
pub mod report;
pub mod rest;
pub mod show;
pub mod state;
pub mod users;
pub mod view;
pub mod worlds;
pub mod write;
