//! Change the metadata.

use axum::Json;
use axum::extract::State;
use serde_json::{Map, Value, json};

use super::body::Body;
use super::change::change;
use super::path::Id;
use crate::app::Shared;
use crate::create::check_metadata;
use crate::error::{ApiError, Code};
use crate::scope::Scope;
use crate::wire::{read_body, sandbox};
use crate::words;

/// Sends the difference only: two callers who change two keys both keep what they wrote.
pub(super) async fn patch(
    scope: Scope,
    State(app): State<Shared>,
    Id(id): Id,
    Body(body): Body,
) -> Result<Json<Value>, ApiError> {
    // The body itself is the map; wrapped, its keys are read and named like any other field.
    let wrapped = json!({"metadata": body});
    let changes = read_body(&wrapped, |f| f.required("metadata", f.nullable_map("metadata")))?;
    let reserved = changes.iter().map(|(key, _)| key).find(|key| key.split('/').next() == Some(words::RESERVED));
    if let Some(key) = reserved {
        let message = format!("metadata key \"{key}\" is reserved");
        return Err(ApiError::bad(Code::ReservedMetadataLabel, message));
    }
    let kept = changes.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?))).collect();
    check_metadata(Some(&kept))?;
    if changes.is_empty() {
        let view = app.find(&scope, &id).await?;
        return Ok(Json(sandbox::sandbox(&view)));
    }
    let labels: Map<String, Value> = changes.into_iter().map(|(key, value)| (key, json!(value))).collect();
    let view = change(&app, &scope, &id, |_| Ok(json!({"metadata": {"labels": labels}}))).await?;
    Ok(Json(sandbox::sandbox(&view)))
}
