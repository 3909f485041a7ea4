//! Routes that need no key and tell nothing.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::app::Shared;
use crate::error::{ApiError, Code};

/// The process lives.
pub(super) async fn health() -> Json<Value> {
    Json(json!({"status": "healthy"}))
}

/// The server can answer; when it cannot, what is missing.
pub(super) async fn ready(State(app): State<Shared>) -> Result<Json<Value>, ApiError> {
    let missing = app.missing();
    if missing.is_empty() {
        return Ok(Json(json!({"status": "ready"})));
    }
    Err(ApiError::unavailable(Code::ListUnavailable, missing.join("; ")))
}

pub(super) async fn version() -> Json<Value> {
    Json(json!({"version": env!("CARGO_PKG_VERSION")}))
}

pub(super) async fn metrics(State(app): State<Shared>) -> String {
    app.metrics.text(app.store.len())
}

/// SDKs report their start here; nothing is kept.
pub(super) async fn events() -> StatusCode {
    StatusCode::NO_CONTENT
}
