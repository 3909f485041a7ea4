//! JSON bodies: every way in which one can be wrong has an answer in the envelope.

use std::time::Duration;

use axum::body::Body as AxumBody;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use futures::StreamExt as _;
use serde_json::Value;
use tokio::time::timeout;

use crate::error::{ApiError, Code};
use crate::wire::shape_of_whole;

/// The largest body that is read. A create with a long environment is a few ten KiB; etcd takes no
/// object above 1.5 MiB.
const LIMIT: usize = 1024 * 1024;
/// How much of a larger one is thrown away before the answer, and for how long.
const THROWN_AWAY: usize = 16 * LIMIT;
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a body may take to come in. A request that waits for one has a place among those served at once.
const SLOWEST: Duration = Duration::from_secs(30);

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
        let bytes = timeout(SLOWEST, read(request.into_body())).await.map_err(|_| too_slow())??;
        let value = serde_json::from_slice(&bytes);
        value.map(Self).map_err(|error| {
            shape_of_whole(&format!("the body is not valid JSON (line {}, column {})", error.line(), error.column()))
        })
    }
}

/// Reads a body of at most [`LIMIT`]. What goes beyond is read and thrown away, since a caller who
/// is still sending when the connection closes sees that, and not the answer.
async fn read(body: AxumBody) -> Result<Vec<u8>, ApiError> {
    let mut stream = body.into_data_stream();
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        let Ok(chunk) = chunk else { return Err(too_large()) };
        if bytes.len() + chunk.len() <= LIMIT {
            bytes.extend_from_slice(&chunk);
            continue;
        }
        let mut dropped = bytes.len() + chunk.len();
        let rest = async {
            while let (true, Some(Ok(chunk))) = (dropped <= THROWN_AWAY, stream.next().await) {
                dropped += chunk.len();
            }
        };
        // A caller too slow for that has had its chance to hear the answer.
        let _ = timeout(PATIENCE, rest).await;
        return Err(too_large());
    }
    Ok(bytes)
}

fn too_slow() -> ApiError {
    ApiError::new(
        StatusCode::REQUEST_TIMEOUT,
        Code::RequestTimeout,
        format!("the body did not come in within {} seconds; send the request again", SLOWEST.as_secs()),
    )
}

fn too_large() -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        Code::PayloadTooLarge,
        format!("the body must be complete and at most {LIMIT} bytes long"),
    )
}
