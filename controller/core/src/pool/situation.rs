//! How a Pool stands, for the claims that wait for it.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::Observed;
use crate::claim::{Claim, PoolSituation};
use crate::failure::Failure;
use crate::grant::{Counts, PoolLife};

/// What one plan of a Pool found: enough to tell each of its claims why it waits. Kept until the next plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The Pool's uid.
    pub uid: String,
    /// Whether it exists.
    pub life: PoolLife,
    /// The most Pods that it may have.
    pub max: u32,
    /// Its Pods.
    pub counts: Counts,
    /// When it was last full.
    pub full: Option<Timestamp>,
    /// As of when.
    pub at: Timestamp,
    /// Why it cannot make Pods.
    pub failure: Option<Failure>,
}

/// So long after a Pool was full those that were told so are told nothing else.
const JUST: SignedDuration = SignedDuration::from_secs(10);

impl Standing {
    pub(super) fn new(seen: &Observed, counts: Counts) -> Self {
        let max = u32::try_from(seen.pool.spec.capacity_spec.pool_max).unwrap_or(0);
        let is_full = counts.waiting > counts.idle && counts.present >= max;
        Self {
            full: if is_full { Some(seen.now) } else { seen.last_full },
            at: seen.now,
            uid: seen.pool.metadata.uid.clone().unwrap_or_default(),
            life: seen.life,
            max,
            failure: super::status::obstacle(seen, &counts).filter(|_| seen.life == PoolLife::Live),
            counts,
        }
    }

    /// Until when those that were told that it is full are told nothing else, if claims wait.
    fn full_until(&self) -> Option<Timestamp> {
        let until = self.full?.saturating_add(JUST).ok()?;
        (until > self.at && self.counts.waiting > self.counts.idle).then_some(until)
    }

    /// When to look again, for a Pool that was full a moment ago and is not.
    pub(super) fn just_full_until(&self) -> Option<Timestamp> {
        self.full_until().filter(|_| self.full != Some(self.at))
    }

    /// Whether some claim would be told otherwise than by an earlier standing.
    #[must_use]
    pub fn is_news(&self, before: &Self) -> bool {
        let told = |standing: &Self| (standing.life, standing.max, standing.full_until().is_some());
        told(self) != told(before) || self.failure != before.failure
    }

    /// What the claim's condition says. Full is only a Pool at `poolMax` that has neither a free Pod nor one that starts: a
    /// cold start from zero is not.
    #[must_use]
    pub fn situation(&self, claim: &Claim) -> PoolSituation {
        match self.life {
            PoolLife::Gone | PoolLife::Ending => PoolSituation::Ending(self.uid.clone()),
            PoolLife::Live if claim.replicas > self.max => PoolSituation::TooSmall(self.max),
            PoolLife::Live if self.full == Some(self.at) => PoolSituation::Full(self.max),
            PoolLife::Live if self.full_until().is_some() => PoolSituation::JustFull(self.max),
            PoolLife::Live => match &self.failure {
                Some(failure) => PoolSituation::Failing(failure.clone()),
                None => PoolSituation::Serving,
            },
        }
    }
}
