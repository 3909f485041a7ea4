//! What the operator keeps while network and API server fail, and where it is killed in the middle of a step.
#![allow(missing_docs)]

mod fail_points;
mod proxy;
mod scaling;
