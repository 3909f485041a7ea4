//! Rolling update: idle Pods of an old revision make room for the current one. Held Pods are never touched.

use sandbox_api::labels;

use super::{Observed, scale};
use crate::grant::World;
use crate::ids::{ClaimKey, PodKey};

/// Idle Pods of an old revision to retire now: those not ready at once, ready ones within `updateStrategy.maxUnavailable`
/// less what is not ready anyway. While the current revision does not start, ready ones stay: they still serve.
pub(super) fn roll(seen: &Observed, world: &World<PodKey, ClaimKey>, revision: &str) -> Vec<PodKey> {
    let idle: Vec<_> = scale::idle(world).collect();
    let is_old = |key: &PodKey| {
        seen.pods.get(key).is_some_and(|seen| seen.pod.label(labels::POOL_REVISION).is_some_and(|of| of != revision))
    };
    let (old, current): (Vec<_>, Vec<_>) = idle.iter().partition(|(key, _)| is_old(key));
    if old.is_empty() {
        return Vec::new();
    }
    let (ready, starting): (Vec<_>, Vec<_>) = old.iter().partition(|(_, view)| view.grantable);
    let strategy = seen.pool.spec.update_strategy.as_ref().and_then(|strategy| strategy.max_unavailable.as_ref());
    let limit = scale::resolve(strategy, u32::try_from(idle.len()).unwrap_or(u32::MAX)) as usize;
    let coming = current.iter().filter(|(_, view)| !view.grantable).count() + seen.creating.len();
    let leaving = world.ledger.retiring.len();
    let budget = if seen.start_failures.count > 0 { 0 } else { limit.saturating_sub(coming + leaving) };
    let going = starting.into_iter().chain(ready.into_iter().take(budget));
    going.map(|(key, _)| (*key).clone()).collect()
}
