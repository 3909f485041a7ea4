//! What is being written right now, and what is left alone for a while
//! because writing it failed.
//!
//! A plan must not ask for a write that is on its way already. Whoever starts
//! a write enters its target here; the entry leaves with the guard, however
//! the write ends. A target whose writes fail is closed for a pause that grows
//! with each failure in a row; no task runs meanwhile and no other target
//! waits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::apply::ending::Ending;

/// A failure so long ago is no part of a row.
const FORGOTTEN: Duration = Duration::from_secs(120);
/// Rows of failures that are kept before old ones are looked for.
const KEPT: usize = 1024;

/// A target of writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The ledger of the Pool with this uid.
    Ledger(String),
    /// The anchor of this name of the Pool with this uid.
    Anchor(String, String),
    /// The slot of this number of the Pool with this uid, while its Pod is
    /// made.
    Slot(String, u32),
    /// The claim with this uid.
    Claim(String),
    /// The end of the claim with this uid. Apart from its other writes: a
    /// deadline waits for none of them.
    End(String),
    /// The Pod with this uid.
    Pod(String),
    /// A live read about this uid. Not a write, but not to be asked twice.
    Proof(String),
}

impl Target {
    /// Its word in metrics.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Ledger(_) => "ledger",
            Self::Anchor(..) => "anchor",
            Self::Slot(..) => "slot",
            Self::Claim(_) => "claim",
            Self::End(_) => "end",
            Self::Pod(_) => "pod",
            Self::Proof(_) => "proof",
        }
    }
}

/// All targets being written. Clones are the same registry.
#[derive(Clone, Debug, Default)]
pub struct InFlight {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    held: HashMap<Target, Hold>,
    rows: HashMap<Target, Row>,
    rows_kept: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    Written,
    Rests,
}

/// Failures in a row.
#[derive(Clone, Copy, Debug)]
struct Row {
    failures: u32,
    last: Instant,
}

/// Keeps a target entered until dropped.
#[derive(Debug)]
pub struct Writing {
    registry: InFlight,
    target: Target,
}

impl InFlight {
    /// Enters a target, or none if it is being written already or rests.
    #[must_use]
    pub fn begin(&self, target: Target) -> Option<Writing> {
        let mut inner = self.lock();
        if inner.held.contains_key(&target) {
            return None;
        }
        inner.held.insert(target.clone(), Hold::Written);
        drop(inner);
        Some(Writing { registry: self.clone(), target })
    }

    /// Whether a target is being written, or rests after a failure.
    #[must_use]
    pub fn contains(&self, target: &Target) -> bool {
        self.lock().held.contains_key(target)
    }

    /// Whether a target is being written at this moment.
    #[must_use]
    pub fn is_written(&self, target: &Target) -> bool {
        self.lock().held.get(target) == Some(&Hold::Written)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// How long the target is left alone after this.
    fn ended(&mut self, target: &Target, ending: Ending) -> Duration {
        if ending == Ending::Done {
            self.rows.remove(target);
            return Duration::ZERO;
        }
        let now = Instant::now();
        let row = self.rows.entry(target.clone()).or_insert(Row { failures: 0, last: now });
        if now.duration_since(row.last) > FORGOTTEN {
            row.failures = 0;
        }
        *row = Row { failures: row.failures.saturating_add(1), last: now };
        let pause = ending.pause(row.failures);
        self.forget_old(now);
        pause
    }

    /// Objects that end while their writes fail never succeed.
    fn forget_old(&mut self, now: Instant) {
        if self.rows.len() > self.rows_kept.max(KEPT) {
            self.rows.retain(|_, row| now.duration_since(row.last) <= FORGOTTEN);
            self.rows_kept = 2 * self.rows.len();
        }
    }
}

impl Writing {
    /// What is written.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The write has ended. After a failure: the pause, and the guard that
    /// keeps the target closed as long as it lives.
    #[must_use]
    pub fn end(self, ending: Ending) -> Option<(Duration, Self)> {
        let mut inner = self.registry.lock();
        let pause = inner.ended(&self.target, ending);
        if pause.is_zero() {
            drop(inner);
            return None;
        }
        inner.held.insert(self.target.clone(), Hold::Rests);
        drop(inner);
        Some((pause, self))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.registry.lock().held.remove(&self.target);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    fn claim(uid: &str) -> Target {
        Target::Claim(uid.to_owned())
    }

    fn fail(registry: &InFlight, target: &Target) -> Duration {
        registry.begin(target.clone()).unwrap().end(Ending::Refused).unwrap().0
    }

    #[test]
    fn a_target_is_written_once_at_a_time() {
        let registry = InFlight::default();
        let writing = registry.begin(claim("u")).unwrap();
        assert!(registry.begin(claim("u")).is_none());
        assert!(registry.contains(&claim("u")) && registry.is_written(&claim("u")));
        assert!(writing.end(Ending::Done).is_none());
        assert!(!registry.contains(&claim("u")));
        assert!(registry.begin(claim("u")).is_some());
    }

    #[test]
    fn a_target_that_fails_rests_and_its_end_does_not_wait() {
        let registry = InFlight::default();
        let (_, resting) = registry.begin(claim("u")).unwrap().end(Ending::Refused).unwrap();
        assert!(registry.begin(claim("u")).is_none());
        assert!(registry.contains(&claim("u")) && !registry.is_written(&claim("u")));
        assert!(registry.begin(Target::End("u".to_owned())).is_some());
        assert!(registry.begin(claim("v")).is_some());
        drop(resting);
        assert!(registry.begin(claim("u")).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_success_or_time_ends_a_row_of_failures() {
        let registry = InFlight::default();
        let first = fail(&registry, &claim("u"));
        assert_eq!(fail(&registry, &claim("u")), 2 * first);
        assert_eq!(fail(&registry, &claim("v")), first);
        assert!(registry.begin(claim("u")).unwrap().end(Ending::Done).is_none());
        assert_eq!(fail(&registry, &claim("u")), first);
        fail(&registry, &claim("u"));
        tokio::time::advance(FORGOTTEN + Duration::from_secs(1)).await;
        assert_eq!(fail(&registry, &claim("u")), first);
    }

    #[tokio::test(start_paused = true)]
    async fn rows_of_objects_that_are_gone_are_forgotten() {
        let registry = InFlight::default();
        for number in 0..KEPT {
            fail(&registry, &claim(&number.to_string()));
        }
        tokio::time::advance(FORGOTTEN + Duration::from_secs(1)).await;
        fail(&registry, &claim("last"));
        assert_eq!(registry.lock().rows.len(), 1);
    }
}
