//! What a caller is told when something is not done: always `{code, message}`.
//!
//! Codes are the reference's words (the SDKs branch on some of them); messages are ours and name the
//! object and the way out. Nothing from inside (API server bodies, addresses, other owners) leaks.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::fields::Problem;

/// The closed set of error codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// No key was sent.
    MissingApiKey,
    /// The key is not the server's.
    InvalidApiKey,
    /// A parameter is wrong by itself or in this combination.
    InvalidParameter,
    /// User metadata cannot be a label.
    InvalidMetadataLabel,
    /// A change of metadata names a reserved key (the contract has no prefix on this one).
    ReservedMetadataLabel,
    /// The metadata filter of a list is not `k=v&k2=v2`.
    InvalidMetadataFormat,
    /// An expiry lies in the past, or the sandbox has none.
    InvalidExpiration,
    /// A port is not one.
    InvalidPort,
    /// There is nothing to run.
    InvalidEntrypoint,
    /// No such sandbox (or not the caller's).
    SandboxNotFound,
    /// No such Pool.
    PoolNotFound,
    /// The sandbox has no address yet; the SDKs retry on exactly this code.
    PodIpNotAvailable,
    /// The sandbox failed while it started.
    PodFailed,
    /// The sandbox was not running in time.
    PodReadyTimeout,
    /// A ResourceQuota forbids it.
    QuotaExceeded,
    /// The Pool has no room.
    PoolCapacityExhausted,
    /// The sandbox is in another state than this needs.
    InvalidState,
    /// The API server refused or failed.
    ApiError,
    /// The watch cache cannot answer.
    ListUnavailable,
    /// Snapshots are not served.
    SnapshotNotImplemented,
    /// No such fast-sandbox template.
    TemplateNotFound,
    /// Two volumes have one name.
    VolumeDuplicateName,
    /// A subPath leaves its volume.
    VolumeInvalidSubPath,
    /// A host path is malformed.
    VolumeInvalidHostPath,
    /// A host path is not on the list.
    VolumeHostPathNotAllowed,
    /// A claim name cannot be one.
    VolumeInvalidPvcName,
    /// A PVC could not be made or read.
    InternalError,
    /// No such route.
    NotFound,
    /// The route has no such method.
    MethodNotAllowed,
    /// The body is larger than allowed.
    PayloadTooLarge,
    /// The body did not come in time.
    RequestTimeout,
    /// More requests at once than allowed.
    Overloaded,
    /// The route or option is not served by this build.
    NotImplemented,
    /// Anything that has no better word.
    Unknown,
}

impl Code {
    /// The code on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MissingApiKey => "MISSING_API_KEY",
            Self::InvalidApiKey => "INVALID_API_KEY",
            Self::InvalidParameter => "SANDBOX::INVALID_PARAMETER",
            Self::InvalidMetadataLabel => "SANDBOX::INVALID_METADATA_LABEL",
            Self::ReservedMetadataLabel => "INVALID_METADATA_LABEL",
            Self::InvalidMetadataFormat => "INVALID_METADATA_FORMAT",
            Self::InvalidExpiration => "DOCKER::INVALID_EXPIRATION",
            Self::InvalidPort => "DOCKER::INVALID_PORT",
            Self::InvalidEntrypoint => "DOCKER::INVALID_ENTRYPOINT",
            Self::SandboxNotFound => "KUBERNETES::SANDBOX_NOT_FOUND",
            Self::PoolNotFound => "KUBERNETES::POOL_NOT_FOUND",
            Self::PodIpNotAvailable => "KUBERNETES::POD_IP_NOT_AVAILABLE",
            Self::PodFailed => "KUBERNETES::POD_FAILED",
            Self::PodReadyTimeout => "KUBERNETES::POD_READY_TIMEOUT",
            Self::QuotaExceeded => "KUBERNETES::QUOTA_EXCEEDED",
            Self::PoolCapacityExhausted => "KUBERNETES::POOL_CAPACITY_EXHAUSTED",
            Self::InvalidState => "KUBERNETES::INVALID_STATE",
            Self::ApiError => "KUBERNETES::API_ERROR",
            Self::ListUnavailable => "SANDBOX_LIST_UNAVAILABLE",
            Self::SnapshotNotImplemented => "SNAPSHOT::NOT_IMPLEMENTED",
            Self::TemplateNotFound => "FSB::TEMPLATE_NOT_FOUND",
            Self::VolumeDuplicateName => "VOLUME::DUPLICATE_NAME",
            Self::VolumeInvalidSubPath => "VOLUME::INVALID_SUB_PATH",
            Self::VolumeInvalidHostPath => "VOLUME::INVALID_HOST_PATH",
            Self::VolumeHostPathNotAllowed => "VOLUME::HOST_PATH_NOT_ALLOWED",
            Self::VolumeInvalidPvcName => "VOLUME::INVALID_PVC_NAME",
            Self::InternalError => "SANDBOX::INTERNAL_ERROR",
            Self::NotFound => "GENERAL::NOT_FOUND",
            Self::MethodNotAllowed => "GENERAL::METHOD_NOT_ALLOWED",
            Self::PayloadTooLarge => "GENERAL::PAYLOAD_TOO_LARGE",
            Self::RequestTimeout => "GENERAL::REQUEST_TIMEOUT",
            Self::Overloaded => "GENERAL::OVERLOADED",
            Self::NotImplemented => "GENERAL::NOT_IMPLEMENTED",
            Self::Unknown => "GENERAL::UNKNOWN_ERROR",
        }
    }
}

/// An answer that is not a success.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}: {message}", .code.as_str())]
pub struct ApiError {
    /// HTTP status.
    pub status: StatusCode,
    /// What kind of error.
    pub code: Code,
    /// What happened, to which object, what to do.
    pub message: String,
    /// Seconds after which a retry makes sense.
    pub retry_after: Option<u64>,
    /// Schema problems, as `detail` entries; only with 422.
    detail: Vec<Value>,
}

impl ApiError {
    /// An error of this status and code.
    #[must_use]
    pub fn new(status: StatusCode, code: Code, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), retry_after: None, detail: Vec::new() }
    }

    /// 400: the request is well-formed and cannot be done.
    #[must_use]
    pub fn bad(code: Code, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// 404 for a sandbox: missing and foreign ones are told the same.
    #[must_use]
    pub fn no_sandbox(id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, Code::SandboxNotFound, format!("there is no sandbox {id}"))
    }

    /// 503 with a time to come back.
    #[must_use]
    pub fn unavailable(code: Code, message: impl Into<String>) -> Self {
        Self { retry_after: Some(1), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message) }
    }

    /// 422: the request does not have the asked-for shape. `place` is `body`, `query` or `path`.
    #[must_use]
    pub fn shape(place: &str, problems: &[Problem]) -> Self {
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let mut error = Self::new(StatusCode::UNPROCESSABLE_ENTITY, Code::InvalidParameter, told.join("; "));
        error.detail = problems.iter().map(|p| detail(place, p)).collect();
        error
    }

    /// The same, with a time to come back.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

fn detail(place: &str, problem: &Problem) -> Value {
    let mut loc = vec![json!(place)];
    loc.extend(problem.path.iter().map(|part| match part.parse::<u32>() {
        Ok(index) => json!(index),
        Err(_) => json!(part),
    }));
    // The reference repeats the caller's input here, passwords included; we do not.
    json!({"type": problem.fault.as_str(), "loc": loc, "msg": problem.message})
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut body = json!({"code": self.code.as_str(), "message": self.message});
        if !self.detail.is_empty()
            && let Some(map) = body.as_object_mut()
        {
            map.insert("detail".to_owned(), Value::Array(self.detail));
        }
        let mut response = (self.status, Json(body)).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
