//! Who may read `/metrics` over TLS: whoever the cluster's own rules let `get`
//! the path, as for the operator that this one takes the place of.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;
use kube::Client;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::apply::review::{self, Verdict};

/// How long a permission is believed.
const ALLOWED: Duration = Duration::from_secs(60);
/// How long a refusal is: shorter, for somebody waits for the right just given.
const REFUSED: Duration = Duration::from_secs(10);
/// Verdicts kept.
const KEPT: usize = 256;
/// Questions to the API server at once, whoever knocks how often.
const QUESTIONS: usize = 4;

/// Asks who may: token, verb, path.
pub type Ask = Arc<dyn Fn(String, String, String) -> BoxFuture<'static, anyhow::Result<Verdict>> + Send + Sync>;

/// Lets through whom the API server lets. Clones share what is known.
#[derive(Clone)]
pub struct Guard {
    ask: Ask,
    known: Arc<Mutex<HashMap<Question, (Verdict, Instant)>>>,
    questions: Arc<Semaphore>,
}

/// Digest of token, verb and path: no token is kept.
type Question = [u8; 32];

impl Guard {
    /// Asks through `client`.
    #[must_use]
    pub fn of_cluster(client: Client) -> Self {
        Self::asking(Arc::new(move |token, verb, path| {
            let client = client.clone();
            Box::pin(async move { review::review(&client, &token, &verb, &path).await })
        }))
    }

    /// Asks through `ask`.
    #[must_use]
    pub fn asking(ask: Ask) -> Self {
        Self { ask, known: Arc::default(), questions: Arc::new(Semaphore::new(QUESTIONS)) }
    }

    async fn verdict(&self, token: &str, verb: &str, path: &str) -> anyhow::Result<Verdict> {
        let question = question(token, verb, path);
        if let Some(known) = self.remembered(&question) {
            return Ok(known);
        }
        let _turn = self.questions.acquire().await?;
        // Somebody may have asked the same while we waited.
        if let Some(known) = self.remembered(&question) {
            return Ok(known);
        }
        let verdict = (self.ask)(token.to_owned(), verb.to_owned(), path.to_owned()).await?;
        self.remember(question, verdict.clone());
        Ok(verdict)
    }

    fn remembered(&self, question: &Question) -> Option<Verdict> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(question).filter(|(_, until)| *until > Instant::now()).map(|(verdict, _)| verdict.clone())
    }

    fn remember(&self, question: Question, verdict: Verdict) {
        let now = Instant::now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEPT {
            known.retain(|_, (_, until)| *until > now);
        }
        // A flood of made-up tokens must not push those out that are in use.
        let room = known.len() < KEPT;
        let time = if verdict == Verdict::Allowed { ALLOWED } else { REFUSED };
        if room || verdict == Verdict::Allowed {
            known.insert(question, (verdict, now + time));
        }
    }
}

fn question(token: &str, verb: &str, path: &str) -> Question {
    let mut digest = Sha256::new();
    for part in [token, verb, path] {
        digest.update(part.len().to_be_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}

/// Lets a request through or answers 401, 403 or 500.
pub async fn check(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let bearer = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token =
        bearer.and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let Some((_, token)) = token.map(|(scheme, token)| (scheme, token.trim())).filter(|(_, token)| !token.is_empty())
    else {
        return refuse(StatusCode::UNAUTHORIZED, "no bearer token: send that of an account that may get /metrics");
    };
    let verb = request.method().as_str().to_lowercase();
    match guard.verdict(token, &verb, request.uri().path()).await {
        Ok(Verdict::Allowed) => next.run(request).await,
        Ok(Verdict::Unknown) => refuse(StatusCode::UNAUTHORIZED, "this token is nobody's"),
        Ok(Verdict::Forbidden(user)) => {
            refuse(StatusCode::FORBIDDEN, &format!("{user} may not {verb} {}", request.uri().path()))
        }
        Err(error) => {
            tracing::warn!(error = format!("{error:#}"), "cannot ask who may read the metrics");
            refuse(StatusCode::INTERNAL_SERVER_ERROR, "the API server does not say who you are: see the log")
        }
    }
}

fn refuse(code: StatusCode, words: &str) -> Response {
    (code, format!("{words}\n")).into_response()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::body::Body;
    use axum::routing::get;
    use axum::{Router, middleware};
    use tower::ServiceExt;

    use super::*;

    fn guarded() -> (Router, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let ask: Ask = Arc::new(move |token, verb, path| {
            count.fetch_add(1, Ordering::SeqCst);
            assert_eq!((verb.as_str(), path.as_str()), ("get", "/metrics"));
            Box::pin(async move {
                match token.as_str() {
                    "good" => Ok(Verdict::Allowed),
                    "other" => Ok(Verdict::Forbidden("somebody".to_owned())),
                    "broken" => anyhow::bail!("no answer"),
                    _ => Ok(Verdict::Unknown),
                }
            })
        });
        let router = Router::new()
            .route("/metrics", get(|| async { "1" }))
            .layer(middleware::from_fn_with_state(Guard::asking(ask), check));
        (router, asked)
    }

    async fn code(router: &Router, authorization: Option<&str>) -> StatusCode {
        let mut request = axum::http::Request::get("/metrics");
        if let Some(value) = authorization {
            request = request.header(header::AUTHORIZATION, value);
        }
        router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status()
    }

    #[tokio::test]
    async fn only_whom_the_cluster_lets_may_read() {
        let (router, asked) = guarded();
        assert_eq!(code(&router, None).await, StatusCode::UNAUTHORIZED);
        assert_eq!(code(&router, Some("Basic good")).await, StatusCode::UNAUTHORIZED);
        assert_eq!(code(&router, Some("Bearer ")).await, StatusCode::UNAUTHORIZED);
        assert_eq!(asked.load(Ordering::SeqCst), 0);
        assert_eq!(code(&router, Some("Bearer bad")).await, StatusCode::UNAUTHORIZED);
        assert_eq!(code(&router, Some("Bearer other")).await, StatusCode::FORBIDDEN);
        assert_eq!(code(&router, Some("Bearer broken")).await, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(code(&router, Some("bearer good")).await, StatusCode::OK);
    }

    #[tokio::test(start_paused = true)]
    async fn a_verdict_is_asked_for_once_a_while() {
        let (router, asked) = guarded();
        for _ in 0..5 {
            assert_eq!(code(&router, Some("Bearer good")).await, StatusCode::OK);
            assert_eq!(code(&router, Some("Bearer bad")).await, StatusCode::UNAUTHORIZED);
        }
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        tokio::time::advance(REFUSED + Duration::from_secs(1)).await;
        code(&router, Some("Bearer good")).await;
        code(&router, Some("Bearer bad")).await;
        assert_eq!(asked.load(Ordering::SeqCst), 3);
        tokio::time::advance(ALLOWED).await;
        code(&router, Some("Bearer good")).await;
        assert_eq!(asked.load(Ordering::SeqCst), 4);
    }

    #[tokio::test]
    async fn made_up_tokens_are_kept_within_a_bound() {
        let ask: Ask = Arc::new(|_, _, _| Box::pin(async { Ok(Verdict::Unknown) }));
        let guard = Guard::asking(ask);
        for number in 0..2 * KEPT {
            guard.verdict(&number.to_string(), "get", "/metrics").await.unwrap();
        }
        assert_eq!(guard.known.lock().unwrap().len(), KEPT);
    }
}
