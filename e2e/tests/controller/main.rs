//! What the operator promises, on a real API server with a stand-in for the kubelet.
#![allow(missing_docs)]

mod budget;
mod claims;
mod pools;
mod restart;
mod time;
mod writes;
