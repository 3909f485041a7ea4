//! Probes and metrics over HTTP.

pub mod guard;
pub mod tls;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Router, middleware, routing::get};
use guard::Guard;
use tls::Identity;
use tokio::net::TcpListener;

use crate::metrics::Metrics;

/// Says by name what is not there yet; nothing when all is.
pub type Missing = Box<dyn Fn() -> Vec<&'static str> + Send + Sync>;

/// What `/readyz` reports. A standby is ready: it is able to take over.
#[derive(Clone, Default)]
pub struct Readiness {
    missing: Arc<OnceLock<Missing>>,
    connected: Arc<OnceLock<()>>,
}

impl Readiness {
    /// The API server was reached; from now on this process can stand by.
    pub fn connected(&self) {
        let _ = self.connected.set(());
    }

    /// This process leads; `missing` names what it does not have yet.
    pub fn leads(&self, missing: Missing) {
        let _ = self.missing.set(missing);
    }

    fn lacks(&self) -> Vec<&'static str> {
        if self.connected.get().is_none() {
            return vec!["connection to the API server"];
        }
        self.missing.get().map_or_else(Vec::new, |missing| missing())
    }
}

/// Serves `/livez`, `/healthz` and `/readyz` until the process ends.
///
/// # Errors
/// When the address cannot be listened on; the message names it.
pub async fn probes(address: SocketAddr, readiness: Readiness) -> anyhow::Result<()> {
    let router = Router::new()
        .route("/livez", get(|| async { "ok" }))
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .with_state(readiness);
    listen(address, router, "--health-probe-bind-address").await
}

const METRICS: &str = "--metrics-bind-address";

/// Serves `/metrics` to everybody until the process ends.
///
/// # Errors
/// When the address cannot be listened on; the message names it.
pub async fn metrics(address: SocketAddr, metrics: Metrics) -> anyhow::Result<()> {
    listen(address, counts(metrics), METRICS).await
}

/// Serves `/metrics` over TLS, to whom `guard` lets through, until the process
/// ends.
///
/// # Errors
/// When the address cannot be listened on or the certificate cannot be used.
pub async fn secure_metrics(
    address: SocketAddr,
    metrics: Metrics,
    identity: Arc<Identity>,
    guard: Guard,
) -> anyhow::Result<()> {
    let router = counts(metrics).layer(middleware::from_fn_with_state(guard, guard::check));
    let listener = tls::Listener::new(bind(address, METRICS).await?, identity)?;
    axum::serve(listener, router).await.with_context(|| format!("{METRICS}: stopped serving on {address}"))
}

fn counts(metrics: Metrics) -> Router {
    Router::new().route("/metrics", get(print)).with_state(metrics)
}

async fn bind(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("{flag}: cannot listen on {address}"))
}

async fn listen(address: SocketAddr, router: Router, flag: &str) -> anyhow::Result<()> {
    let listener = bind(address, flag).await?;
    axum::serve(listener, router).await.with_context(|| format!("{flag}: stopped serving on {address}"))
}

async fn ready(State(readiness): State<Readiness>) -> Response {
    let lacks = readiness.lacks();
    if lacks.is_empty() {
        return "ok".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("not ready, missing: {}\n", lacks.join(", "))).into_response()
}

async fn print(State(metrics): State<Metrics>) -> Response {
    match metrics.text() {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn readiness_names_what_is_missing_and_a_standby_is_ready() {
        let readiness = Readiness::default();
        assert_eq!(ready(State(readiness.clone())).await.status(), StatusCode::SERVICE_UNAVAILABLE);
        readiness.connected();
        assert_eq!(ready(State(readiness.clone())).await.status(), StatusCode::OK);
        readiness.leads(Box::new(|| vec!["pods"]));
        let answer = ready(State(readiness)).await;
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        let body = axum::body::to_bytes(answer.into_body(), 1_000).await.unwrap();
        assert_eq!(body, "not ready, missing: pods\n");
    }
}
