//! The shape of every change: decide on what was seen, patch that version, look again if it moved.

use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::Value;

use crate::app::App;
use crate::error::{ApiError, Code};
use crate::scope::Scope;
use crate::view::View;

/// How often a change looks again before it gives up.
const ATTEMPTS: usize = 16;

/// Changes one sandbox. `decide` sees the sandbox, checks everything that must hold, and gives the
/// merge patch; it is asked again for every version that the sandbox turns out to have.
///
/// # Errors
/// What `decide` refuses, 404 when the sandbox is gone, 409 when it moves faster than we do.
pub(super) async fn change(
    app: &App,
    scope: &Scope,
    id: &str,
    mut decide: impl FnMut(&View) -> Result<Value, ApiError>,
) -> Result<View, ApiError> {
    let mut view: Arc<View> = app.find(scope, id).await?;
    for _ in 0..ATTEMPTS {
        // The cache may be behind, so a refusal needs a live look, too.
        let patch = match decide(&view) {
            Ok(patch) => patch,
            Err(_) => {
                view = app.find_live(scope, id).await?;
                decide(&view)?
            }
        };
        match app.cluster.patch(&view, patch).await {
            Ok(changed) => return Ok(changed),
            Err(failure) if failure.code() == Some(409) => view = app.find_live(scope, id).await?,
            Err(failure) if failure.code() == Some(404) => return Err(ApiError::no_sandbox(id)),
            Err(failure) => return Err(failure.told(id)),
        }
    }
    let message = format!("sandbox {id} was changed by others {ATTEMPTS} times in a row; try again");
    Err(ApiError::new(StatusCode::CONFLICT, Code::InvalidState, message))
}
