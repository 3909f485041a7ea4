//! What the tests on a real API server share: a stage with our definitions and rights, the real programs as
//! processes on it, waiting by watches, and independent records of what happened.

pub mod accounts;
pub mod audit;
pub mod deliveries;
pub mod faults;
pub mod manifests;
pub mod objects;
pub mod operator;
pub mod program;
pub mod requests;
pub mod scene;
pub mod sdk;
pub mod server;
pub mod site;
pub mod stage;
pub mod until;

pub use deliveries::Deliveries;
pub use operator::Operator;
pub use stage::{Outcome, Stage, StageOptions, alone_on_stage, on_own_stage, on_stage};
pub use until::{until, until_all, until_gone};

/// Prints a line that is a result: a count, a time. It is shown even when the test passes.
#[macro_export]
macro_rules! figure {
    ($($part:tt)*) => { $crate::print_figure(&format!($($part)*)) };
}

/// The test harness captures what the print macros write, and shows it on failure only.
#[doc(hidden)]
pub fn print_figure(line: &str) {
    use std::io::Write;
    // A closed stderr leaves nobody to tell.
    let _ = writeln!(std::io::stderr(), "{line}");
}
