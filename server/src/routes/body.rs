//! JSON bodies: every way in which one can be wrong has an answer in the envelope.

use axum::body::to_bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use serde_json::Value;

use crate::error::{ApiError, Code};
use crate::wire::shape_of_whole;

/// The largest body that is read. A create with a long environment is a few ten KiB; etcd takes no
/// object above 1.5 MiB.
const LIMIT: usize = 1024 * 1024;

/// A JSON body.
pub(super) struct Body(pub Value);

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let kind =
            request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let json = kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"));
        if !json {
            return Err(shape_of_whole("the body must be JSON, sent with Content-Type: application/json"));
        }
        let announced =
            request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        if announced.is_some_and(|length| length > LIMIT) {
            return Err(too_large());
        }
        let bytes = to_bytes(request.into_body(), LIMIT).await.map_err(|_| too_large())?;
        let value = serde_json::from_slice(&bytes);
        value.map(Self).map_err(|error| {
            shape_of_whole(&format!("the body is not valid JSON (line {}, column {})", error.line(), error.column()))
        })
    }
}

fn too_large() -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        Code::PayloadTooLarge,
        format!("the body must be complete and at most {LIMIT} bytes long"),
    )
}
