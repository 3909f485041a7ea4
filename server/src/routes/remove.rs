//! Delete.

use axum::extract::State;
use axum::http::StatusCode;

use super::path::Id;
use crate::app::Shared;
use crate::cluster::Deleted;
use crate::error::ApiError;
use crate::scope::Scope;

/// By uid: whatever has the name by then is only ended if it is what the caller could see.
/// PVCs and Secrets of the sandbox are owned by its object and go with it.
pub(super) async fn delete(scope: Scope, State(app): State<Shared>, Id(id): Id) -> Result<StatusCode, ApiError> {
    let view = app.find(&scope, &id).await?;
    match app.cluster.delete(&view.key(), Some(&view.uid)).await {
        Ok(Deleted::Done) => Ok(StatusCode::NO_CONTENT),
        Ok(Deleted::Missing) => Err(ApiError::no_sandbox(&id)),
        Err(failure) => Err(failure.told(&id)),
    }
}
