//! What is being written right now.
//!
//! A plan must not ask for a write that is on its way already. Whoever starts
//! a write enters its target here; the entry leaves with the guard, however
//! the write ends.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A target of writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The ledger of the Pool with this uid.
    Ledger(String),
    /// The claim with this uid.
    Claim(String),
    /// The Pod with this uid.
    Pod(String),
    /// A live read about this uid. Not a write, but not to be asked twice.
    Proof(String),
}

/// All targets being written. Clones are the same registry.
#[derive(Clone, Debug, Default)]
pub struct InFlight {
    targets: Arc<Mutex<HashSet<Target>>>,
}

/// Keeps a target entered until dropped.
#[derive(Debug)]
pub struct Writing {
    registry: InFlight,
    target: Target,
}

impl InFlight {
    /// Enters a target, or none if it is being written already.
    #[must_use]
    pub fn begin(&self, target: Target) -> Option<Writing> {
        let entered = self.lock().insert(target.clone());
        entered.then(|| Writing { registry: self.clone(), target })
    }

    /// Whether a target is being written.
    #[must_use]
    pub fn contains(&self, target: &Target) -> bool {
        self.lock().contains(target)
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Target>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.registry.lock().remove(&self.target);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_written_once_at_a_time() {
        let registry = InFlight::default();
        let target = Target::Claim("u".to_owned());
        let writing = registry.begin(target.clone()).unwrap();
        assert!(registry.begin(target.clone()).is_none());
        assert!(registry.contains(&target));
        drop(writing);
        assert!(!registry.contains(&target));
        assert!(registry.begin(target).is_some());
    }
}
