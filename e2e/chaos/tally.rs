//! How often what was done.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts by name. Clones share them.
#[derive(Clone, Default)]
pub struct Tally(Arc<Mutex<BTreeMap<String, u64>>>);

impl Tally {
    /// Once more.
    pub fn add(&self, what: impl Into<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(what.into()).or_default() += 1;
    }

    /// All of them.
    pub fn all(&self) -> BTreeMap<String, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
