//! How many Pods a Pool should have.
//!
//! `floor = max(held + waiting + bufferMin, poolMin)` and `ceil = max(held + waiting + bufferMax, poolMin)`: below the floor
//! Pods are created, above the ceiling idle ones are retired, in between nothing happens, so a Pool never oscillates.
//! A grant moves a Pod from idle to held and an index from waiting to held: it changes neither sum.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use sandbox_api::{MaxUnavailable, labels};

use super::start::Starts;
use super::{Observed, pod};
use crate::grant::{self, Counts, PodView, World};
use crate::ids::{ClaimKey, PodKey};
use crate::pod::Pod;

/// What brings a Pool to its size.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scale {
    /// Slots to create a Pod in.
    pub create: Vec<u32>,
    /// Idle Pods to retire.
    pub retire: Vec<PodKey>,
}

/// Decides the size of a Pool.
pub(super) fn scale(seen: &Observed, world: &World<PodKey, ClaimKey>, counts: &Counts, starts: &Starts) -> Scale {
    let size = &seen.pool.spec.capacity_spec;
    let (buffer_min, buffer_max, pool_min) =
        (positive(size.buffer_min), positive(size.buffer_max), positive(size.pool_min));
    let wanted = counts.held + counts.waiting;
    let floor = (wanted + buffer_min).max(pool_min);
    let ceil = (wanted + buffer_max.max(buffer_min)).max(pool_min);
    let used = used_slots(seen);
    let is_used = |slot: &u32| used.contains(slot) || seen.rest.slots.contains(slot);
    // The watch may show a Pod before its creation is answered: it is then both, and must count once.
    let creating = u32::try_from(seen.creating.iter().filter(|slot| !is_used(slot)).count()).unwrap_or(u32::MAX);
    let total = counts.held + counts.idle + creating;
    let not_waited_for = if starts.doubted { starts.late } else { 0 };
    let trusted = total - not_waited_for;
    if trusted < floor {
        let coming = counts.idle + creating - not_waited_for;
        let number = pace(seen, counts, coming, floor, floor - trusted);
        Scale { create: free_slots(seen, used, positive(size.pool_max), number as usize), retire: Vec::new() }
    } else {
        // Late ones may come yet: until enough are ready they go on beside those that were tried in their stead.
        let kept = if counts.held + counts.grantable < floor { ceil + starts.late } else { ceil };
        Scale { create: Vec::new(), retire: surplus(world, total.saturating_sub(kept) as usize) }
    }
}

fn positive(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

/// Pods that claims wait for are created at once; the buffer is refilled within `scaleStrategy.maxUnavailable`.
fn pace(seen: &Observed, counts: &Counts, coming: u32, floor: u32, missing: u32) -> u32 {
    let demand = counts.waiting.saturating_sub(coming).min(missing);
    let strategy = seen.pool.spec.scale_strategy.as_ref().and_then(|strategy| strategy.max_unavailable.as_ref());
    let not_ready = coming.saturating_sub(counts.grantable);
    let budget = resolve(strategy, floor).saturating_sub(not_ready);
    demand + (missing - demand).min(budget)
}

/// `maxUnavailable` of so many Pods: 25 % by default, rounded up, at least 1 (contract).
pub(super) fn resolve(limit: Option<&MaxUnavailable>, of: u32) -> u32 {
    let share = |percent: u64| u32::try_from((u64::from(of) * percent).div_ceil(100)).unwrap_or(u32::MAX);
    let number = match limit {
        None => share(25),
        Some(MaxUnavailable::Count(count)) => u32::try_from(*count).unwrap_or(0),
        // A text that is neither a percentage nor a number is the default: the schema lets any string in.
        Some(MaxUnavailable::Text(text)) => match text.strip_suffix('%') {
            Some(percent) => percent.trim().parse().map_or_else(|_| share(25), share),
            None => text.trim().parse().unwrap_or_else(|_| share(25)),
        },
    };
    number.max(1)
}

/// Slots that a Pod which is looked at stands in.
fn used_slots(seen: &Observed) -> BTreeSet<u32> {
    let standing = seen.pods.keys().filter(|key| !seen.gone_pods.contains(&key.uid));
    standing.filter_map(|key| pod::slot(&seen.pool, &key.name)).collect()
}

/// Slots that no Pod stands in and none is being created in, the lowest first.
fn free_slots(seen: &Observed, mut used: BTreeSet<u32>, pool_max: u32, number: usize) -> Vec<u32> {
    used.extend(seen.creating.iter().chain(&seen.blocked));
    let mut resting = seen.rest.slots.iter().peekable();
    // Both ascend: a large Pool is walked once.
    let mut rests = |slot: u32| {
        while resting.next_if(|taken| **taken < slot).is_some() {}
        resting.next_if(|taken| **taken == slot).is_some()
    };
    (0..pool_max).filter(|slot| !rests(*slot) && !used.contains(slot)).take(number).collect()
}

/// Idle Pods above the ceiling: not ready ones first, then old revisions, then the newest.
fn surplus(world: &World<PodKey, ClaimKey>, number: usize) -> Vec<PodKey> {
    if number == 0 {
        return Vec::new();
    }
    let mut idle: Vec<_> = idle(world).collect();
    idle.sort_by_key(|(key, view)| (view.grantable, Reverse(view.rank), Reverse(*key)));
    idle.into_iter().take(number).map(|(key, _)| key.clone()).collect()
}

/// Idle Pods that nothing is being done to.
pub(super) fn idle(world: &World<PodKey, ClaimKey>) -> impl Iterator<Item = (&PodKey, &PodView<ClaimKey>)> {
    grant::idle(world).filter(|(_, view)| !view.busy)
}

/// Idle Pods that nobody will be given: marked to go, or on a node that takes no sandboxes. Left alone, one of them would
/// count as the buffer that a Pool without more of it needs to serve a claim.
pub(super) fn never_granted(seen: &Observed, world: &World<PodKey, ClaimKey>) -> Vec<PodKey> {
    let on_sick_node = |pod: &Pod| pod.spec.node_name.as_ref().is_some_and(|node| seen.sick_nodes.contains(node));
    let goes = |pod: &Pod| pod.label(labels::EVICT).is_some() || on_sick_node(pod);
    let goes = |key: &PodKey| seen.pods.get(key).is_some_and(|seen| goes(&seen.pod));
    idle(world).filter(|(key, _)| goes(key)).map(|(key, _)| key.clone()).collect()
}
