//! What the operator counts, in one registry of its own.

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
};

use sandbox_core::grant::Counts;
use sandbox_core::pool::Standing;

use crate::queue::QueueMetrics;
use crate::store::Key;

const POOL: &[&str] = &["namespace", "pool"];
/// Held by sandboxes; free; of those: ready; and all there are, the ending
/// ones among them.
const POOL_STATES: [&str; 4] = ["held", "idle", "ready", "present"];

/// Seconds from half a millisecond to half a minute.
const SECONDS: &[f64] = &[
    0.0005, 0.001, 0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

/// All metrics. Clones share them.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    /// Requests to the API server by verb, kind and code.
    pub requests: IntCounterVec,
    /// Seconds until the head of the answer, by verb and kind.
    pub request_seconds: HistogramVec,
    /// Complete lists of a watch, by kind.
    pub watch_lists: IntCounterVec,
    /// Errors of a watch, by kind.
    pub watch_errors: IntCounterVec,
    /// Objects that could not be decoded, by kind.
    pub malformed: IntCounterVec,
    /// Objects stored, by kind.
    pub stored: IntGaugeVec,
    /// Reconciles by kind and result.
    pub reconciles: IntCounterVec,
    /// Seconds of a reconcile by kind.
    pub reconcile_seconds: HistogramVec,
    /// 1 while this process holds the Lease.
    pub leader: IntGauge,
    /// Lists that a watch began (with, or again), by kind.
    pub watch_restarts: IntCounterVec,
    /// Work on targets by target and ending: rounds are `ledger`, lost races
    /// `moved`.
    pub work: IntCounterVec,
    /// Pods being marked as their claims', or waiting for their turn.
    pub adoptions_pending: IntGauge,
    /// Claims that wait for Pods of a Pool, by kind.
    pub claims_waiting: IntGaugeVec,
    /// Seconds from seeing a claim on a Pool to its last Pod being named, by
    /// kind.
    pub claim_seconds: HistogramVec,
    /// Pods that sandboxes lost, by kind of claim.
    pub lost_pods: IntCounterVec,
    /// Events by result.
    pub events: IntCounterVec,
    /// Pools' Pods by namespace, Pool and state.
    pub pool_pods: IntGaugeVec,
    /// Sandboxes that wait for a Pod, by namespace and Pool.
    pub pool_waiting: IntGaugeVec,
    /// 1 while a Pool has as many Pods as it may, and sandboxes wait.
    pub pool_full: IntGaugeVec,
    queue_depth: IntGaugeVec,
    queue_lag: HistogramVec,
}

impl Metrics {
    /// Registers everything.
    ///
    /// # Errors
    /// When two metrics have one name, which is a mistake in this file.
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let make = Maker { registry: &registry };
        let metrics = Self {
            requests: make.counters("requests_total", "Requests to the API server.", &["verb", "kind", "code"])?,
            request_seconds: make.histograms("request_seconds", "Time to an answer.", &["verb", "kind"])?,
            watch_lists: make.counters("watch_lists_total", "Complete lists taken.", &["kind"])?,
            watch_errors: make.counters("watch_errors_total", "Errors of watches.", &["kind"])?,
            malformed: make.counters("malformed_objects_total", "Objects that could not be read.", &["kind"])?,
            stored: make.gauges("stored_objects", "Objects in memory.", &["kind"])?,
            reconciles: make.counters("reconciles_total", "Reconciles.", &["kind", "result"])?,
            reconcile_seconds: make.histograms("reconcile_seconds", "Time of a reconcile.", &["kind"])?,
            leader: make.gauges("leader", "1 while this process leads.", &[])?.with_label_values::<&str>(&[]),
            watch_restarts: make.counters("watch_restarts_total", "Lists that watches began.", &["kind"])?,
            work: make.counters("work_total", "Work on objects, by how it ended.", &["target", "ending"])?,
            adoptions_pending: make
                .gauges("adoptions_pending", "Pods on their way to their claims.", &[])?
                .with_label_values::<&str>(&[]),
            claims_waiting: make.gauges("claims_waiting", "Claims that wait for Pods of a Pool.", &["kind"])?,
            claim_seconds: make.histograms("claim_delivery_seconds", "From a claim to its last Pod.", &["kind"])?,
            lost_pods: make.counters("lost_pods_total", "Pods that sandboxes lost.", &["kind"])?,
            events: make.counters("events_total", "Events told, by what became of them.", &["result"])?,
            pool_pods: make.gauges("pool_pods", "Pods of a Pool.", &["namespace", "pool", "state"])?,
            pool_waiting: make.gauges("pool_waiting", "Sandboxes that wait for a Pod.", POOL)?,
            pool_full: make.gauges("pool_full", "1 while poolMax makes sandboxes wait.", POOL)?,
            queue_depth: make.gauges("queue_depth", "Keys that wait for a worker.", &["queue"])?,
            queue_lag: make.histograms("queue_lag_seconds", "Wait of a key for a worker.", &["queue"])?,
            registry: registry.clone(),
        };
        Ok(metrics)
    }

    /// Metrics of the queue with this name.
    #[must_use]
    pub fn queue(&self, name: &str) -> QueueMetrics {
        let lag: Histogram = self.queue_lag.with_label_values(&[name]);
        QueueMetrics { depth: self.queue_depth.with_label_values(&[name]), lag }
    }

    /// A Pool was planned.
    pub fn pool(&self, key: &Key, standing: &Standing) {
        let Counts { held, idle, grantable, waiting, present } = standing.counts;
        let at = [key.namespace.as_str(), key.name.as_str()];
        for (state, number) in POOL_STATES.into_iter().zip([held, idle, grantable, present]) {
            self.pool_pods.with_label_values(&[at[0], at[1], state]).set(number.into());
        }
        self.pool_waiting.with_label_values(&at).set(waiting.into());
        self.pool_full.with_label_values(&at).set((present >= standing.max && waiting > idle).into());
    }

    /// A Pool ended.
    pub fn pool_ended(&self, key: &Key) {
        let at = [key.namespace.as_str(), key.name.as_str()];
        // What was never there cannot be removed; that is no failure.
        for state in POOL_STATES {
            let _ = self.pool_pods.remove_label_values(&[at[0], at[1], state]);
        }
        let _ = self.pool_waiting.remove_label_values(&at);
        let _ = self.pool_full.remove_label_values(&at);
    }

    /// All metrics in the Prometheus text format.
    ///
    /// # Errors
    /// When encoding fails.
    pub fn text(&self) -> prometheus::Result<String> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

struct Maker<'a> {
    registry: &'a Registry,
}

impl Maker<'_> {
    fn counters(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntCounterVec> {
        let made = IntCounterVec::new(Opts::new(format!("opensandbox_controller_{name}"), help), labels)?;
        self.registry.register(Box::new(made.clone()))?;
        Ok(made)
    }

    fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntGaugeVec> {
        let made = IntGaugeVec::new(Opts::new(format!("opensandbox_controller_{name}"), help), labels)?;
        self.registry.register(Box::new(made.clone()))?;
        Ok(made)
    }

    fn histograms(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<HistogramVec> {
        let opts = HistogramOpts::new(format!("opensandbox_controller_{name}"), help).buckets(SECONDS.to_vec());
        let made = HistogramVec::new(opts, labels)?;
        self.registry.register(Box::new(made.clone()))?;
        Ok(made)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_printed_with_their_labels() {
        let metrics = Metrics::new().unwrap();
        metrics.requests.with_label_values(&["patch", "pods", "409"]).inc();
        metrics.queue("pool").depth.set(3);
        let text = metrics.text().unwrap();
        assert!(text.contains(r#"opensandbox_controller_requests_total{code="409",kind="pods",verb="patch"} 1"#));
        assert!(text.contains(r#"opensandbox_controller_queue_depth{queue="pool"} 3"#));
    }

    #[test]
    fn a_pool_is_shown_until_it_ends() {
        let metrics = Metrics::new().unwrap();
        let counts = Counts { held: 3, idle: 2, grantable: 1, waiting: 4, present: 5 };
        let standing = Standing {
            uid: "u".into(),
            life: sandbox_core::grant::PoolLife::Live,
            max: 5,
            counts,
            full: None,
            at: k8s_openapi::jiff::Timestamp::UNIX_EPOCH,
            failure: None,
        };
        let key = Key::new("ns", "p");
        metrics.pool(&key, &standing);
        let text = metrics.text().unwrap();
        for line in [
            r#"pool_pods{namespace="ns",pool="p",state="held"} 3"#,
            r#"pool_pods{namespace="ns",pool="p",state="ready"} 1"#,
            r#"pool_waiting{namespace="ns",pool="p"} 4"#,
            r#"pool_full{namespace="ns",pool="p"} 1"#,
        ] {
            assert!(text.contains(line), "no {line} in {text}");
        }
        metrics.pool_ended(&key);
        assert!(!metrics.text().unwrap().contains(r#"pool="p""#));
    }
}
