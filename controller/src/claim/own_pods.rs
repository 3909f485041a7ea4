//! What is remembered of the Pods that claims make from their own templates.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandbox_core::failure::Failure;
use tokio::time::Instant;

use crate::apply::ending::Ending;

/// Why a Pod was not made.
#[derive(Debug)]
pub struct Refusal {
    /// For the claim's condition.
    pub why: Failure,
    /// How the attempt ended.
    pub ending: Ending,
}

/// By claim uid.
#[derive(Debug, Default)]
pub struct OwnPods {
    claims: Mutex<HashMap<Arc<str>, Entry>>,
}

#[derive(Debug, Default)]
struct Entry {
    creating: BTreeSet<u32>,
    refused: Option<(Failure, u32, Instant)>,
}

impl OwnPods {
    /// Indexes whose Pod is being created, and why the last one was refused.
    #[must_use]
    pub fn of(&self, claim: &str) -> (BTreeSet<u32>, Option<Failure>) {
        let claims = self.lock();
        let Some(entry) = claims.get(claim) else { return (BTreeSet::new(), None) };
        (entry.creating.clone(), entry.refused.as_ref().map(|(why, _, _)| why.clone()))
    }

    /// Enters a creation. False while one runs, or after a refusal until it
    /// is time to try again.
    pub fn begin(&self, claim: &Arc<str>, index: u32) -> Result<(), Instant> {
        let mut claims = self.lock();
        let entry = claims.entry(Arc::clone(claim)).or_default();
        if let Some((_, _, until)) = &entry.refused
            && *until > Instant::now()
        {
            return Err(*until);
        }
        entry.creating.insert(index);
        Ok(())
    }

    /// A creation ended: refused, with why, or done. How long to wait before
    /// the next try.
    pub fn end(&self, claim: &str, index: u32, refused: Option<Refusal>) {
        let mut claims = self.lock();
        let Some(entry) = claims.get_mut(claim) else { return };
        entry.creating.remove(&index);
        let times = entry.refused.as_ref().map_or(0, |(_, times, _)| *times);
        entry.refused = refused.map(|Refusal { why, ending }| {
            let wait = match ending {
                Ending::Unsure { .. } => ending.pause(times + 1),
                Ending::Done | Ending::Moved | Ending::Refused => sandbox_core::pool::backoff(times + 1).unsigned_abs(),
            };
            (why, times + 1, Instant::now() + wait)
        });
        if entry.creating.is_empty() && entry.refused.is_none() {
            claims.remove(claim);
        }
    }

    /// The claim is gone.
    pub fn forget(&self, claim: &str) {
        self.lock().remove(claim);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Entry>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
