//! Get and list.

use axum::Json;
use axum::extract::{RawQuery, State};
use serde_json::Value;

use super::path::Id;
use crate::app::Shared;
use crate::error::ApiError;
use crate::scope::Scope;
use crate::wire::query::{ListQuery, Query};
use crate::wire::sandbox;

pub(super) async fn get(scope: Scope, State(app): State<Shared>, Id(id): Id) -> Result<Json<Value>, ApiError> {
    let view = app.find(&scope, &id).await?;
    Ok(Json(sandbox::sandbox(&view)))
}

pub(super) async fn list(
    scope: Scope,
    State(app): State<Shared>,
    RawQuery(raw): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let asked = ListQuery::read(&Query::read(raw.as_deref()))?;
    app.believe()?;
    let page = app.store.list(&scope, &asked.filter, asked.page, asked.page_size);
    Ok(Json(sandbox::list(&page, asked.page, asked.page_size)))
}
