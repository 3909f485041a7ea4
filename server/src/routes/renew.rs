//! Renew the expiration.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::body::Body;
use super::change::change;
use super::path::Id;
use crate::app::Shared;
use crate::error::{ApiError, Code};
use crate::scope::Scope;
use crate::view::View;
use crate::wire::{read_body, time};

/// To a later time or to an earlier one. The patch names the version that was looked at, and so
/// does the operator's delete at the deadline: one of the two looks again, never both win.
pub(super) async fn renew(
    scope: Scope,
    State(app): State<Shared>,
    Id(id): Id,
    Body(body): Body,
) -> Result<Json<Value>, ApiError> {
    let at = read_body(&body, |f| {
        let value = f.required("expiresAt", f.value("expiresAt"))?;
        let at = time::read(value);
        if at.is_none() {
            f.refuse("expiresAt", "must be a time like 2030-01-01T00:00:00Z");
        }
        at
    })?;
    let decide = |view: &View| {
        if at <= time::now() {
            return Err(ApiError::bad(Code::InvalidExpiration, "expiresAt must lie in the future"));
        }
        let conflict = |message: String| Err(ApiError::new(StatusCode::CONFLICT, Code::InvalidExpiration, message));
        if view.ending() {
            return conflict(format!("sandbox {id} is being deleted and cannot be renewed"));
        }
        if view.expires.is_none() {
            return conflict(format!("sandbox {id} never expires, so there is nothing to renew"));
        }
        Ok(json!({"spec": {"expireTime": time::resource(at)}}))
    };
    change(&app, &scope, &id, decide).await?;
    Ok(Json(json!({"expiresAt": time::answer(at)})))
}
