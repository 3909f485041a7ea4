//! The order in which facts reached this process.

use std::sync::atomic::{AtomicU64, Ordering};

/// A point in the order of arrivals. Larger is later; 0 is before everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

/// Counts arrivals over all stores of the process.
#[derive(Debug, Default)]
pub struct Arrivals(AtomicU64);

impl Arrivals {
    /// The last number given out: everything stored so far is at or before it.
    pub fn now(&self) -> Seq {
        Seq(self.0.load(Ordering::SeqCst))
    }

    /// The number of an arrival.
    pub fn next(&self) -> Seq {
        Seq(self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }
}
