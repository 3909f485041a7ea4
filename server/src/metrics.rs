//! Counters in Prometheus' text format. Labels come from closed sets and route patterns only.

use std::time::Duration;

use prometheus::{
    Encoder as _, Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
};

/// The server's counters.
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    durations: HistogramVec,
    creates: IntCounterVec,
    create_waits: Histogram,
    in_flight: IntGauge,
    known: IntGauge,
}

const SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0];

impl Metrics {
    /// All counters at zero.
    ///
    /// # Errors
    /// Only if two of them had one name.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let seconds = |name: &str, help: &str| HistogramOpts::new(name, help).buckets(SECONDS.to_vec());
        let metrics = Self {
            requests: IntCounterVec::new(
                Opts::new("sandbox_http_requests_total", "HTTP requests answered"),
                &["method", "route", "status"],
            )?,
            durations: HistogramVec::new(
                seconds("sandbox_http_request_duration_seconds", "Time to answer"),
                &["method", "route"],
            )?,
            creates: IntCounterVec::new(Opts::new("sandbox_creates_total", "Creates by how they ended"), &["code"])?,
            create_waits: Histogram::with_opts(seconds(
                "sandbox_create_wait_seconds",
                "Time from the written object to a running sandbox",
            ))?,
            in_flight: IntGauge::new("sandbox_http_requests_in_flight", "HTTP requests being served")?,
            known: IntGauge::new("sandbox_cache_objects", "Objects in the watch cache")?,
            registry,
        };
        let registry = &metrics.registry;
        registry.register(Box::new(metrics.requests.clone()))?;
        registry.register(Box::new(metrics.durations.clone()))?;
        registry.register(Box::new(metrics.creates.clone()))?;
        registry.register(Box::new(metrics.create_waits.clone()))?;
        registry.register(Box::new(metrics.in_flight.clone()))?;
        registry.register(Box::new(metrics.known.clone()))?;
        Ok(metrics)
    }

    /// A request was answered.
    pub fn answered(&self, method: &str, route: &str, status: u16, took: Duration) {
        self.requests.with_label_values(&[method, route, &status.to_string()]).inc();
        self.durations.with_label_values(&[method, route]).observe(took.as_secs_f64());
    }

    /// A create ended; `code` is `OK` or the error's.
    pub fn create_ended(&self, code: &str) {
        self.creates.with_label_values(&[code]).inc();
    }

    /// A sandbox came to run.
    pub fn waited(&self, took: Duration) {
        self.create_waits.observe(took.as_secs_f64());
    }

    /// Requests being served right now.
    #[must_use]
    pub const fn in_flight(&self) -> &IntGauge {
        &self.in_flight
    }

    /// Everything as text.
    #[must_use]
    pub fn text(&self, known: usize) -> String {
        self.known.set(i64::try_from(known).unwrap_or(i64::MAX));
        let mut out = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut out) {
            tracing::error!(%error, "encode metrics");
        }
        String::from_utf8(out).unwrap_or_default()
    }
}
