//! A Pool's status.

use k8s_openapi::jiff::Timestamp;
use sandbox_api::{Condition, ConditionStatus, ConditionType, PoolStatus, Reason, labels};
use serde_json::Value;

use super::{Observed, ledger};
use crate::failure::Failure;
use crate::grant::{Counts, Ledger, PoolLife};
use crate::ids::{ClaimKey, PodKey};

/// The whole status with this ledger in it.
pub(super) fn status(seen: &Observed, counts: &Counts, revision: &str, next: &Ledger<PodKey, ClaimKey>) -> PoolStatus {
    let (grants, retiring) = ledger::write(next);
    let before = seen.pool.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let updated = seen.pods.values().filter(|seen| {
        !seen.pod.is_terminating() && !seen.pod.is_terminal() && seen.pod.label(labels::POOL_REVISION) == Some(revision)
    });
    PoolStatus {
        observed_generation: seen.pool.metadata.generation.unwrap_or(0),
        revision: revision.to_owned(),
        total: number(counts.held + counts.idle),
        allocated: number(counts.held),
        available: number(counts.grantable),
        updated: number(u32::try_from(updated.count()).unwrap_or(u32::MAX).saturating_add(seen.rest.updated)),
        holder: Some(seen.me.clone()),
        grants,
        retiring,
        conditions: crate::claim::conditions(before, &[ready(seen, counts)], seen.now),
    }
}

fn number(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Able to serve: an empty Pool that makes Pods on demand is, one at its limit is, one that cannot make Pods is not.
fn ready(seen: &Observed, counts: &Counts) -> Condition {
    let (holds, reason, message) = match obstacle(seen, counts) {
        None => (true, Reason::Serving, "the pool serves claims".to_owned()),
        Some(Failure { reason, message, .. }) => (false, reason, message),
    };
    Condition {
        type_: ConditionType::Ready,
        status: ConditionStatus::from(holds),
        reason: Some(reason),
        message: Some(message),
        last_transition_time: None,
    }
}

pub(super) fn obstacle(seen: &Observed, counts: &Counts) -> Option<Failure> {
    if seen.life != PoolLife::Live {
        return Some(Failure::new(Reason::Stopping, "the pool is being deleted"));
    }
    if let Err(failure) = template(seen) {
        return Some(failure);
    }
    if counts.grantable > 0 {
        return None;
    }
    if let Some(failure) = &seen.create_failure {
        return Some(failure.clone());
    }
    let failing =
        seen.pods.values().filter(|seen| seen.pod.is_warm()).find_map(|seen| crate::failure::failure(&seen.pod));
    let failing = failing.map(|why| Failure::new(Reason::PodsNotStarting, format!("{}: {}", why.reason, why.message)));
    failing.or_else(|| last_failure(seen).filter(|_| seen.start_failures.count > 0))
}

/// Why Pods did not start, as it was last written: the next ones are tried, but nothing says yet that they will do better.
fn last_failure(seen: &Observed) -> Option<Failure> {
    let written =
        seen.pool.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == ConditionType::Ready)?;
    let message = written.message.clone().filter(|_| written.reason == Some(Reason::PodsNotStarting))?;
    Some(Failure::new(Reason::PodsNotStarting, message))
}

/// The template, if it can make a Pod at all.
pub(super) fn template(seen: &Observed) -> Result<&Value, Failure> {
    let missing =
        || Failure::new(Reason::InvalidTemplate, "spec.template is missing: set it to the template of the pool's pods");
    let template = seen.pool.spec.template.as_ref().ok_or_else(missing)?;
    let containers = template.get("spec").and_then(|spec| spec.get("containers")).and_then(Value::as_array);
    match containers {
        Some(containers) if !containers.is_empty() => Ok(template),
        Some(_) | None => Err(Failure::new(
            Reason::InvalidTemplate,
            "spec.template.spec.containers is empty: name at least one container",
        )),
    }
}

/// When a status that nobody waits for may be written.
pub(super) fn settle_at(seen: &Observed) -> Option<Timestamp> {
    seen.last_commit?.saturating_add(super::SETTLE).ok()
}
