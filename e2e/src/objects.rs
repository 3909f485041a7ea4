//! Objects that tests make.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use sandbox_api::{
    BatchSandbox, BatchSandboxPhase, BatchSandboxSpec, CapacitySpec, Condition, ConditionType, Moment, Pool, PoolSpec,
    SandboxSlot,
};
use serde_json::{Value, json};

/// A Pod template that the stand-in kubelet runs; it ends at once when deleted.
#[must_use]
pub fn template() -> Value {
    json!({
        "metadata": { "labels": { "app": "warm" } },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "containers": [{ "name": "main", "image": "nowhere/main:1" }],
        },
    })
}

/// Sizes of a Pool: idle Pods from and to, and the most Pods.
#[must_use]
pub fn capacity(buffer_min: i32, buffer_max: i32, pool_max: i32) -> CapacitySpec {
    CapacitySpec { buffer_min, buffer_max, pool_min: 0, pool_max }
}

/// A Pool of [`template`].
#[must_use]
pub fn pool(name: &str, capacity_spec: CapacitySpec) -> Pool {
    Pool::new(name, PoolSpec { template: Some(template()), capacity_spec, ..PoolSpec::default() })
}

/// A claim of one Pod of a Pool.
#[must_use]
pub fn claim(name: &str, pool: &str) -> BatchSandbox {
    BatchSandbox::new(name, BatchSandboxSpec { pool_ref: Some(pool.into()), ..BatchSandboxSpec::default() })
}

/// A BatchSandbox of Pods of its own.
#[must_use]
pub fn own(name: &str, replicas: i32) -> BatchSandbox {
    BatchSandbox::new(name, BatchSandboxSpec { template: Some(template()), replicas, ..BatchSandboxSpec::default() })
}

/// The moment that is so far from now.
#[must_use]
pub fn after(delay: Duration) -> Moment {
    let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
    Timestamp::now().saturating_add(delay).unwrap_or(Timestamp::MAX).into()
}

/// Whether all sandboxes that it asks for have a ready Pod with an IP.
#[must_use]
pub fn runs(claim: &BatchSandbox) -> bool {
    let Some(status) = &claim.status else { return false };
    let up = |slot: &&SandboxSlot| matches!(slot, SandboxSlot::Named { ip: Some(_), ready: true, .. });
    let count = status.pods.iter().filter(up).count();
    status.phase == Some(BatchSandboxPhase::Succeed) && i32::try_from(count) == Ok(claim.spec.replicas)
}

/// Names and uids of the Pods that a claim names.
#[must_use]
pub fn pods_of(claim: &BatchSandbox) -> Vec<(String, String)> {
    let named = |slot: &SandboxSlot| match slot {
        SandboxSlot::Named { name, uid, .. } => Some((name.clone(), uid.clone())),
        SandboxSlot::Open | SandboxSlot::Lost { .. } | SandboxSlot::Undelivered { .. } => None,
    };
    claim.status.iter().flat_map(|status| &status.pods).filter_map(named).collect()
}

/// A condition of a claim.
#[must_use]
pub fn condition<'a>(claim: &'a BatchSandbox, type_: &ConditionType) -> Option<&'a Condition> {
    claim.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == *type_)
}
