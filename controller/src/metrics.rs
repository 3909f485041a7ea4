//! What the operator counts, in one registry of its own.

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

use crate::queue::QueueMetrics;

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
    /// Actions by name and result.
    pub actions: IntCounterVec,
    /// Lost Pods noticed.
    pub lost_pods: IntCounter,
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
            actions: make.counters("actions_total", "Actions carried out.", &["action", "result"])?,
            lost_pods: make
                .counters("lost_pods_total", "Pods that sandboxes lost.", &[])?
                .with_label_values::<&str>(&[]),
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
}
