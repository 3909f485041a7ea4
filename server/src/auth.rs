//! Who may come in: one key, compared in constant time, before any routing.

use axum::extract::{FromRequestParts, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::app::Shared;
use crate::error::{ApiError, Code};
use crate::scope::Scope;

/// Header that carries the key.
pub const HEADER: &str = "open-sandbox-api-key";

/// Paths that need no key. Exactly these: what else there is may be anybody's business only with one.
const OPEN: [&str; 4] = ["/health", "/ready", "/version", "/metrics"];

/// Lets a request in, with the scope it has, or answers 401.
pub async fn admit(State(app): State<Shared>, mut request: Request, next: Next) -> Response {
    if OPEN.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let sent = request.headers().get(HEADER).map(|value| value.as_bytes());
    if let Err(error) = check(app.config.server.api_key.as_deref(), sent) {
        return error.into_response();
    }
    let scope = Scope::of_namespace(&app.namespace);
    request.extensions_mut().insert(scope);
    next.run(request).await
}

fn check(key: Option<&str>, sent: Option<&[u8]>) -> Result<(), ApiError> {
    let refused = |code, message: &str| Err(ApiError::new(StatusCode::UNAUTHORIZED, code, message));
    let Some(key) = key else { return Ok(()) };
    match sent.map(<[u8]>::trim_ascii) {
        None | Some([]) => refused(Code::MissingApiKey, "send the API key in the header OPEN-SANDBOX-API-KEY"),
        Some(sent) if same(key.as_bytes(), sent) => Ok(()),
        Some(_) => refused(Code::InvalidApiKey, "the key in the header OPEN-SANDBOX-API-KEY is not this server's"),
    }
}

/// Equal lengths first: hashing makes the comparison independent of both.
fn same(a: &[u8], b: &[u8]) -> bool {
    Sha256::digest(a).as_slice().ct_eq(Sha256::digest(b).as_slice()).into()
}

impl<S: Send + Sync> FromRequestParts<S> for Scope {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let scope = parts.extensions.get::<Self>().cloned();
        scope.ok_or_else(|| ApiError::new(StatusCode::UNAUTHORIZED, Code::MissingApiKey, "this route needs an API key"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_the_key_itself_opens() {
        assert!(check(Some("secret"), Some(b"secret")).is_ok());
        assert_eq!(check(Some("secret"), Some(b"secreT")).unwrap_err().code, Code::InvalidApiKey);
        assert_eq!(check(Some("secret"), Some(b"secret2")).unwrap_err().code, Code::InvalidApiKey);
        assert_eq!(check(Some("secret"), None).unwrap_err().code, Code::MissingApiKey);
        assert_eq!(check(Some("secret"), Some(b" ")).unwrap_err().code, Code::MissingApiKey);
        assert!(check(None, None).is_ok());
    }
}
