//! A real Kubernetes for tests, built from Go modules: a control plane alone with a stand-in for the
//! kubelet ([`Plane`], seconds, several side by side), and the whole node.

pub mod apply;
pub mod binaries;
pub mod control_plane;
pub mod home;
pub mod kubeconfig;
pub mod node;
pub mod pki;
pub mod plane;
pub mod ports;
pub mod process;
pub mod requirements;
pub mod stand_in;
pub mod wait;

pub use plane::{Plane, PlaneOptions, Stop, Storage};
pub use stand_in::{StandInKubelet, StandInOptions};
