//! The way to the API server, and what is written before any plan.

pub mod calls;
pub mod ending;
pub mod events;
pub mod review;
pub mod takeover;
