//! Errors in the form that the SDKs parse: `{code, message}`.

use std::io;

use axum::Json;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// Why a request was not carried out.
#[derive(Debug)]
pub struct Failure {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Failure {
    /// The request is wrong; `message` says how.
    pub fn bad(message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, code: "INVALID_REQUEST", message: message.into() }
    }

    /// What the request names is not there.
    pub fn missing(message: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, code: "NOT_FOUND", message: message.into() }
    }

    /// The file system refused something about `path`.
    pub fn io(path: &str, error: &io::Error) -> Self {
        let message = format!("{path}: {error}");
        if error.kind() == io::ErrorKind::NotFound {
            return Self { status: StatusCode::NOT_FOUND, code: "FILE_NOT_FOUND", message };
        }
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, code: "RUNTIME_ERROR", message }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "code": self.code, "message": self.message }))).into_response()
    }
}

/// For every path that this stand-in does not have.
pub async fn nothing_here(uri: Uri) -> Failure {
    Failure::missing(format!("this execd has nothing at {}", uri.path()))
}
