//! Parts of a path. Text that is no text names nothing, and is told so in the envelope.

use std::collections::HashMap;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use crate::endpoint;
use crate::error::ApiError;
use crate::wire::volume::is_dns_label;

/// The id of a sandbox: what cannot be one is not looked for.
pub(super) struct Id(pub String);

/// The id of a sandbox and a port of it.
pub(super) struct IdAndPort(pub String, pub u16);

async fn parts_of<S: Send + Sync>(parts: &mut Parts, state: &S) -> HashMap<String, String> {
    Path::from_request_parts(parts, state).await.map_or_else(|_| HashMap::new(), |Path(found)| found)
}

fn id(parts: &mut HashMap<String, String>) -> Result<String, ApiError> {
    let id = parts.remove("id").unwrap_or_default();
    if is_dns_label(&id) { Ok(id) } else { Err(ApiError::no_sandbox(&id)) }
}

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        id(&mut parts_of(parts, state).await).map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for IdAndPort {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let mut found = parts_of(parts, state).await;
        let id = id(&mut found)?;
        let port = endpoint::port(found.get("port").map(String::as_str).unwrap_or_default())?;
        Ok(Self(id, port))
    }
}
