//! Pods that do not start: how often to try anew, which to give up.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use sandbox_api::labels;

use super::{Observed, scale};
use crate::failure::{delay, failure};
use crate::grant::{PodView, World};
use crate::ids::{ClaimKey, PodKey};
use crate::pod::Pod;

/// Pods of the current revision that ended before they were ever ready, in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartFailures {
    /// How many since the last one that became ready.
    pub count: u32,
    /// When the last one was noticed.
    pub last: Option<Timestamp>,
}

/// How long a Pod may take to become ready before it is looked at with suspicion.
const GRACE: SignedDuration = SignedDuration::from_secs(60);

/// How long no Pod is created after so many failed starts in a row: 1 s, doubled up to 64 s. So a template that cannot start
/// costs at most 6 rounds in its first minute and one a minute after that.
#[must_use]
pub fn backoff(failures: u32) -> SignedDuration {
    match failures {
        0 => SignedDuration::ZERO,
        some => SignedDuration::from_secs(1 << (some - 1).min(6)),
    }
}

/// When Pods may be created again after failed starts; none if now.
pub(super) fn held_back_until(seen: &Observed) -> Option<Timestamp> {
    let last = seen.start_failures.last?;
    let until = last.saturating_add(backoff(seen.start_failures.count)).ok()?;
    (until > seen.now).then_some(until)
}

/// Idle Pods that are not ready, by what is to be thought of them.
#[derive(Debug, Default)]
pub(super) struct Starts {
    /// To be retired: their containers fail, or a Pod of their revision that was made later is ready already. Left alone they
    /// would count as the Pod that a claim waits for.
    pub hopeless: Vec<PodKey>,
    /// How many are late, though nothing says why.
    pub late: u32,
    /// All that come are late: others are to be tried beside them.
    pub doubted: bool,
    /// When the next of them is late.
    pub again: Option<Timestamp>,
}

/// Looks at every idle Pod that is not ready.
pub(super) fn starts(seen: &Observed, world: &World<PodKey, ClaimKey>) -> Starts {
    let mut found = Starts::default();
    let mut late = Vec::new();
    let mut on_time = !seen.creating.is_empty();
    for (key, pod) in unready(seen, world) {
        let due = since(pod).saturating_add(GRACE).unwrap_or(seen.now);
        let failing = failure(pod).is_some();
        // Another Pod of the template could be scheduled no better.
        if !failing && delay(pod).is_some() {
            on_time = true;
        } else if due > seen.now {
            on_time = true;
            found.again = Some(found.again.map_or(due, |earlier| earlier.min(due)));
        } else if failing || is_overtaken(seen, pod) {
            found.hopeless.push(key.clone());
        } else {
            late.push(since(pod));
        }
    }
    if let Some(youngest) = late.iter().max().filter(|_| !on_time) {
        // Each that is late already makes the next ones come later: a slow image is not to fill the Pool.
        let patience = GRACE.saturating_mul(i32::try_from(late.len()).unwrap_or(i32::MAX));
        let due = youngest.saturating_add(patience).unwrap_or(seen.now);
        if due <= seen.now {
            found.doubted = true;
        } else {
            found.again = Some(due);
        }
    }
    found.late = u32::try_from(late.len()).unwrap_or(u32::MAX);
    found
}

fn unready<'a>(seen: &'a Observed, world: &'a World<PodKey, ClaimKey>) -> impl Iterator<Item = (&'a PodKey, &'a Pod)> {
    let waits = |(key, view): (&'a PodKey, &'a PodView<ClaimKey>)| {
        let pod = &*seen.pods.get(key)?.pod;
        (!view.grantable && !pod.is_ready()).then_some((key, pod))
    };
    scale::idle(world).filter_map(waits)
}

/// Since when it is not ready.
fn since(pod: &Pod) -> Timestamp {
    let created = Timestamp::from_second(pod.created_s()).unwrap_or_default();
    let turned = pod.condition("Ready").and_then(|condition| condition.last_transition_time.as_ref());
    turned.map_or(created, |time| time.0.max(created))
}

fn is_overtaken(seen: &Observed, pod: &Pod) -> bool {
    let since = since(pod).as_second();
    let of = pod.label(labels::POOL_REVISION);
    let younger =
        |other: &Pod| other.is_ready() && other.created_s() > since && other.label(labels::POOL_REVISION) == of;
    // What rests may be of the current revision only; one of an old revision that is not ready makes room anyway.
    seen.rest.youngest_ready.is_some_and(|made| made > since) || seen.pods.values().any(|other| younger(&other.pod))
}
