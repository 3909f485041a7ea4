//! What wraps every request: its id, its line in the log, its place in the counters, its turn.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::{Method, StatusCode};
use tracing::Instrument as _;
use uuid::Uuid;

use crate::app::Shared;
use crate::error::{ApiError, Code};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Gives a request its id, logs and counts it.
pub async fn observe(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(&request);
    let method = request.method().clone();
    // Patterns only: a label of paths would grow with every sandbox.
    let route = request.extensions().get::<MatchedPath>().map_or("(none)", MatchedPath::as_str).to_owned();
    let path = request.uri().path().to_owned();
    let span = tracing::info_span!("request", request_id = id.to_str().unwrap_or_default());
    let busy = Busy::begin(&app);
    // Dropping the handler where it stands is what a caller who hangs up does, too: what a create
    // has written by then is cleaned up behind it.
    let mut response = tokio::select! {
        response = next.run(request).instrument(span.clone()) => response,
        () = app.cut() => {
            let message = "the server is stopping and did not finish this request; send it again";
            ApiError::unavailable(Code::Overloaded, message).into_response()
        }
    };
    drop(busy);
    let took = started.elapsed();
    let status = response.status().as_u16();
    app.metrics.answered(known(&method), &route, status, took);
    span.in_scope(|| {
        let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        match path.as_str() {
            // Probes come every few seconds and say nothing when all is well.
            "/health" | "/ready" | "/metrics" if status == 200 => {
                tracing::debug!(method = method.as_str(), path, status, duration_ms, "answered");
            }
            _ => tracing::info!(method = method.as_str(), path, status, duration_ms, "answered"),
        }
    });
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// A label must not be the caller's to make up.
fn known(method: &Method) -> &str {
    let names = ["GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS"];
    names.into_iter().find(|name| *name == method.as_str()).unwrap_or("other")
}

struct Busy(Shared);

impl Busy {
    fn begin(app: &Shared) -> Self {
        app.metrics.in_flight().inc();
        Self(Arc::clone(app))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.metrics.in_flight().dec();
    }
}

fn request_id(request: &Request) -> HeaderValue {
    let sent = request.headers().get(REQUEST_ID).map(|value| value.as_bytes().trim_ascii());
    let sent = sent.filter(|id| !id.is_empty() && id.len() <= 256);
    let sent = sent.and_then(|id| HeaderValue::from_bytes(id).ok());
    sent.unwrap_or_else(|| {
        HeaderValue::from_str(&Uuid::new_v4().simple().to_string()).unwrap_or(HeaderValue::from_static("none"))
    })
}

/// How many requests may be served at once.
#[derive(Clone)]
pub struct Turnstile {
    limit: Option<usize>,
    inside: Arc<AtomicUsize>,
}

impl Turnstile {
    /// With a limit, or open.
    #[must_use]
    pub fn new(limit: Option<usize>) -> Self {
        Self { limit, inside: Arc::default() }
    }
}

struct Inside(Arc<AtomicUsize>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers 503 when the house is full. Probes always get in: a busy server is not a dead one.
pub async fn turnstile(State(gate): State<Turnstile>, request: Request, next: Next) -> Response {
    let before = gate.inside.fetch_add(1, Ordering::Relaxed);
    let inside = Inside(Arc::clone(&gate.inside));
    let probe = matches!(request.uri().path(), "/health" | "/ready" | "/metrics");
    if gate.limit.is_some_and(|limit| before >= limit) && !probe {
        let message = "the server has as many requests in flight as it may (server.limit_concurrency)";
        return ApiError::unavailable(Code::Overloaded, message).into_response();
    }
    let response = next.run(request).await;
    drop(inside);
    response
}

/// A handler that panicked answers 500 and nothing of what it said.
pub fn panicked(payload: Box<dyn Any + Send + 'static>) -> Response {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    tracing::error!(panic = text.unwrap_or("without words"), "a handler panicked");
    ApiError::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        Code::Unknown,
        "the server failed on this request; its log says why",
    )
    .into_response()
}
