//! Look up where a port can be reached.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use serde_json::Value;

use super::path::IdAndPort;
use crate::app::Shared;
use crate::endpoint::{self, Lookup};
use crate::error::{ApiError, Code};
use crate::scope::Scope;
use crate::wire::query::Query;
use crate::wire::time;

pub(super) async fn lookup(
    scope: Scope,
    State(app): State<Shared>,
    IdAndPort(id, port): IdAndPort,
    RawQuery(raw): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let query = Query::read(raw.as_deref());
    let through_server = query.bool("use_server_proxy")?;
    let expires = query.int("expires")?;
    if through_server && expires.is_some() {
        return Err(ApiError::bad(Code::InvalidParameter, "expires cannot be combined with use_server_proxy"));
    }
    let view = app.find(&scope, &id).await?;
    let endpoint =
        endpoint::resolve(&app.config.ingress, &view, Lookup { port, expires, now: time::now().as_second() })?;
    if through_server {
        let message = "this build does not proxy to sandboxes; ask for the endpoint without use_server_proxy";
        return Err(ApiError::new(StatusCode::NOT_IMPLEMENTED, Code::NotImplemented, message));
    }
    Ok(Json(endpoint))
}
