//! How work on an object ended, and how long the object is then left alone.

use std::time::Duration;

use super::calls::Failure;
use crate::live::Read;

/// First pause after a lost race that was not the first; doubled up to
/// [`LAST_RACE`].
const FIRST_RACE: Duration = Duration::from_millis(5);
const LAST_RACE: Duration = Duration::from_secs(1);
/// First pause where nobody knows what became of a request. The longest is
/// short: once an API server is well again, nothing waits for long.
const FIRST_UNSURE: Duration = Duration::from_millis(200);
const LAST_UNSURE: Duration = Duration::from_secs(5);
/// First pause after a refusal, which nothing but a person or an update ends.
const FIRST_REFUSED: Duration = Duration::from_millis(500);
const LAST_REFUSED: Duration = Duration::from_secs(30);
/// Longest pause that an API server may ask for.
const LONGEST_ASKED: Duration = Duration::from_secs(30);

/// How work on an object ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As wanted, or there is nothing left to want.
    Done,
    /// Somebody else was faster; the newest version is known.
    Moved,
    /// It may have happened or not, or was not sent.
    Unsure {
        /// How long the API server asked to be left alone (`Retry-After`).
        after: Option<Duration>,
    },
    /// The API server says no, and would again.
    Refused,
}

impl Ending {
    /// After this failure, and the live read that followed it.
    #[must_use]
    pub fn of(failure: &Failure, read: Read) -> Self {
        match failure {
            Failure::Conflict | Failure::NotFound | Failure::AlreadyExists => Self::read(read, Self::Moved),
            Failure::Unknown { after, .. } => Self::Unsure { after: *after },
            Failure::Refused { .. } => Self::Refused,
            Failure::NotLeading => Self::Unsure { after: None },
        }
    }

    /// `known` if that read was answered.
    #[must_use]
    pub fn read(read: Read, known: Self) -> Self {
        match read {
            Read::Alive { .. } | Read::Gone => known,
            Read::Unknown => Self::Unsure { after: None },
        }
    }

    /// Its word in metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Moved => "moved",
            Self::Unsure { .. } => "unsure",
            Self::Refused => "refused",
        }
    }

    /// How long to leave the object alone after `failures` endings in a row
    /// that were not [`Ending::Done`], this one included.
    #[must_use]
    pub fn pause(self, failures: u32) -> Duration {
        match self {
            Self::Done => Duration::ZERO,
            Self::Moved if failures <= 1 => Duration::ZERO,
            Self::Moved => doubled(FIRST_RACE, failures - 1, LAST_RACE),
            Self::Unsure { after } => {
                let asked = after.unwrap_or_default().min(LONGEST_ASKED);
                doubled(FIRST_UNSURE, failures, LAST_UNSURE).max(asked)
            }
            Self::Refused => doubled(FIRST_REFUSED, failures, LAST_REFUSED),
        }
    }
}

fn doubled(first: Duration, times: u32, last: Duration) -> Duration {
    first.saturating_mul(1 << times.saturating_sub(1).min(16)).min(last)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    fn pauses(ending: Ending) -> Vec<u64> {
        (1..=9).map(|failures| u64::try_from(ending.pause(failures).as_millis()).unwrap()).collect()
    }

    #[test]
    fn pauses_grow_to_a_bound_and_the_first_lost_race_costs_none() {
        assert_eq!(pauses(Ending::Moved), [0, 5, 10, 20, 40, 80, 160, 320, 640]);
        assert_eq!(pauses(Ending::Unsure { after: None }), [200, 400, 800, 1600, 3200, 5000, 5000, 5000, 5000]);
        assert_eq!(pauses(Ending::Refused), [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
        assert_eq!(Ending::Moved.pause(u32::MAX), LAST_RACE);
    }

    #[test]
    fn an_api_server_that_asks_for_time_gets_it_within_reason() {
        let after = |seconds| Ending::Unsure { after: Some(Duration::from_secs(seconds)) };
        assert_eq!(after(7).pause(1), Duration::from_secs(7));
        assert_eq!(after(1).pause(5), Duration::from_millis(3200));
        assert_eq!(after(86_400).pause(1), LONGEST_ASKED);
    }
}
