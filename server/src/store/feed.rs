//! Whether the cache of a kind can be believed.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a watch may be down before answers count as stale.
const STALE_AFTER: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, Default)]
enum Standing {
    /// The first list has not come yet.
    #[default]
    Unsynced,
    /// The watch is up.
    Watching,
    /// The watch is down since then.
    Down(Instant),
    /// The cluster does not have the kind.
    Absent,
}

/// What may be said on the strength of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Answers are current.
    Fresh,
    /// The first list has not come yet.
    Unsynced,
    /// The watch has been down for too long.
    Stale,
}

/// The state of the watch of one kind.
#[derive(Debug, Default)]
pub struct Feed {
    standing: Mutex<Standing>,
}

impl Feed {
    fn set(&self, change: impl FnOnce(Standing) -> Standing) {
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        *standing = change(*standing);
    }

    /// A complete list is in and the watch is up.
    pub fn up(&self) {
        self.set(|_| Standing::Watching);
    }

    /// The watch ended; what is known stays believable for a while.
    pub fn down(&self) {
        self.set(|standing| match standing {
            Standing::Watching => Standing::Down(Instant::now()),
            Standing::Unsynced | Standing::Down(_) | Standing::Absent => standing,
        });
    }

    /// The cluster does not have the kind, so there is nothing to know.
    pub fn absent(&self) {
        self.set(|_| Standing::Absent);
    }

    /// What may be said now.
    #[must_use]
    pub fn freshness(&self) -> Freshness {
        let standing = *self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        match standing {
            Standing::Unsynced => Freshness::Unsynced,
            Standing::Watching | Standing::Absent => Freshness::Fresh,
            Standing::Down(since) if since.elapsed() < STALE_AFTER => Freshness::Fresh,
            Standing::Down(_) => Freshness::Stale,
        }
    }
}
