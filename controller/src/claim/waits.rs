//! How long claims wait for their Pods, for the metrics: from when this
//! process first saw them. The time in the object knows only seconds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus::{HistogramVec, IntCounterVec, IntGaugeVec};
use sandbox_api::SandboxSlot;
use sandbox_api::ledger::ClaimKind;
use sandbox_core::claim::Claim;
use sandbox_core::pool::roster::is_open;
use tokio::time::Instant;

use crate::metrics::Metrics;

/// Claims that wait, by uid.
pub struct Waits {
    since: Mutex<HashMap<Arc<str>, Instant>>,
    waiting: IntGaugeVec,
    seconds: HistogramVec,
    lost: IntCounterVec,
}

impl Waits {
    /// Nobody waits.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        Self {
            since: Mutex::default(),
            waiting: metrics.claims_waiting.clone(),
            seconds: metrics.claim_seconds.clone(),
            lost: metrics.lost_pods.clone(),
        }
    }

    /// A claim changed from `old` to `new`, either of which may be none.
    pub fn changed(&self, old: Option<&Claim>, new: Option<&Claim>) {
        if let (Some(old), Some(new)) = (old, new) {
            let lost = lost(new).saturating_sub(lost(old));
            self.lost.with_label_values(&[new.key.kind.as_str()]).inc_by(lost);
        }
        match new {
            Some(claim) if claim.pool().is_some() && !claim.ending && is_open(claim) => self.begin(claim),
            Some(claim) => self.end(claim, true),
            None => old.into_iter().for_each(|claim| self.end(claim, false)),
        }
    }

    fn begin(&self, claim: &Claim) {
        let mut since = self.lock();
        if !since.contains_key(&claim.key.uid) {
            since.insert(Arc::clone(&claim.key.uid), Instant::now());
            self.gauge(claim.key.kind, 1);
        }
    }

    fn end(&self, claim: &Claim, served: bool) {
        let Some(since) = self.lock().remove(&claim.key.uid) else { return };
        self.gauge(claim.key.kind, -1);
        if served && !claim.ending {
            let kind = claim.key.kind.as_str();
            self.seconds.with_label_values(&[kind]).observe(since.elapsed().as_secs_f64());
        }
    }

    fn gauge(&self, kind: ClaimKind, change: i64) {
        self.waiting.with_label_values(&[kind.as_str()]).add(change);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Instant>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lost(claim: &Claim) -> u64 {
    let lost = claim.status.slots.iter().filter(|slot| match slot {
        SandboxSlot::Lost { .. } => true,
        SandboxSlot::Open | SandboxSlot::Named { .. } | SandboxSlot::Undelivered { .. } => false,
    });
    u64::try_from(lost.count()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::time::Duration;

    use sandbox_api::{BatchSandbox, BatchSandboxSpec};
    use serde_json::json;

    use super::*;

    fn claim(pods: &[&str]) -> Claim {
        let spec = BatchSandboxSpec { pool_ref: Some("p".into()), ..BatchSandboxSpec::default() };
        let mut object = serde_json::to_value(BatchSandbox::new("c", spec)).unwrap();
        object["metadata"] = json!({ "namespace": "ns", "name": "c", "uid": "u", "resourceVersion": "1" });
        object["status"] = json!({ "pods": pods });
        sandbox_core::batch_sandbox::read(&serde_json::from_value(object).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_waits_from_when_it_is_seen_until_its_last_pod_is_named() {
        let metrics = Metrics::new().unwrap();
        let waits = Waits::new(&metrics);
        let waiting = || metrics.claims_waiting.with_label_values(&["BatchSandbox"]).get();
        let seconds = metrics.claim_seconds.with_label_values(&["BatchSandbox"]);
        let (open, named) = (claim(&[]), claim(&["a/uid-a/10.0.0.1/ready"]));
        waits.changed(None, Some(&open));
        waits.changed(Some(&open), Some(&open));
        assert_eq!(waiting(), 1);
        tokio::time::advance(Duration::from_secs(2)).await;
        waits.changed(Some(&open), Some(&named));
        assert_eq!((waiting(), seconds.get_sample_count()), (0, 1));
        assert!((seconds.get_sample_sum() - 2.0).abs() < 0.1);

        waits.changed(None, Some(&open));
        waits.changed(Some(&open), None);
        assert_eq!((waiting(), seconds.get_sample_count()), (0, 1));
    }
}
