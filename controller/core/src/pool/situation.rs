//! How a Pool stands, for the claims that wait for it.

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
    /// Why it cannot make Pods.
    pub failure: Option<Failure>,
}

impl Standing {
    pub(super) fn new(seen: &Observed, counts: Counts) -> Self {
        Self {
            uid: seen.pool.metadata.uid.clone().unwrap_or_default(),
            life: seen.life,
            max: u32::try_from(seen.pool.spec.capacity_spec.pool_max).unwrap_or(0),
            failure: super::status::obstacle(seen, &counts).filter(|_| seen.life == PoolLife::Live),
            counts,
        }
    }

    /// What the claim's condition says. Full is only a Pool at `poolMax` that has neither a free Pod nor one that starts: a
    /// cold start from zero is not.
    #[must_use]
    pub fn situation(&self, claim: &Claim) -> PoolSituation {
        let Counts { waiting, idle, present, .. } = self.counts;
        match self.life {
            PoolLife::Gone | PoolLife::Ending => PoolSituation::Ending(self.uid.clone()),
            PoolLife::Live if claim.replicas > self.max => PoolSituation::TooSmall(self.max),
            PoolLife::Live if waiting > idle && present >= self.max => PoolSituation::Full(self.max),
            PoolLife::Live => match &self.failure {
                Some(failure) => PoolSituation::Failing(failure.clone()),
                None => PoolSituation::Serving,
            },
        }
    }
}
