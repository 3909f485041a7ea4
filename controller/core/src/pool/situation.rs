//! How a Pool stands, for one claim that waits for it.

use super::Observed;
use crate::claim::{Claim, PoolSituation};
use crate::grant::{Counts, PoolLife};

/// What the claim's condition will say. `counts` are the Pool's, of the same observation.
#[must_use]
pub fn situation(seen: &Observed, counts: &Counts, claim: &Claim) -> PoolSituation {
    let max = u32::try_from(seen.pool.spec.capacity_spec.pool_max).unwrap_or(0);
    match seen.life {
        PoolLife::Gone | PoolLife::Ending => {
            PoolSituation::Ending(seen.pool.metadata.uid.clone().unwrap_or_default())
        }
        PoolLife::Live if claim.replicas > max => PoolSituation::TooSmall(max),
        PoolLife::Live if counts.waiting > counts.idle && counts.present >= max => PoolSituation::Full(max),
        PoolLife::Live => match &seen.create_failure {
            Some(failure) if counts.idle == 0 => PoolSituation::Failing(failure.clone()),
            Some(_) | None => PoolSituation::Serving,
        },
    }
}
