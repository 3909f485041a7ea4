//! One request's way through the proxy.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, RETRY_AFTER, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::ambush::{Caught, Moment};
use super::asked::{Asked, Verb};
use super::state::{Entry, State};
use super::watches::followed;
use super::weather::{Fault, Refusal, Struck};

/// The body of an answer.
pub(super) type Answer = UnsyncBoxBody<Bytes, Lost>;

/// The connection ends here, without an answer.
#[derive(Debug)]
pub(super) struct Lost(pub String);

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Lost {}

/// The way to the API server.
#[derive(Clone)]
pub(super) struct Way {
    pub state: Arc<State>,
    pub upstream: Client,
}

/// A request on its way: noted in the journal however it ends.
struct Trace {
    state: Arc<State>,
    begun: Instant,
    entry: Entry,
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.state.note(self.begun, self.entry.clone());
    }
}

impl Way {
    /// Passes one request on, or not.
    pub async fn pass(self, request: Request<Incoming>) -> Result<Response<Answer>, Lost> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|error| Lost(error.to_string()))?.to_bytes();
        let asked = Asked::read(&parts.method, &parts.uri, body);
        let mut trace = self.trace(&asked);
        if !self.state.is_open() {
            self.state.count(&asked, "met a partition");
        }
        self.state.open().await;
        if let Some(tell) = self.state.caught(&asked, Moment::Before) {
            return self.stopped(tell, asked).await;
        }
        let struck = self.state.strike(&asked);
        trace.entry.fault = struck.map(|struck| struck.fault.word());
        let answer = self.through(parts, &asked, struck, &mut trace).await;
        trace.entry.given_up = false;
        answer
    }

    fn trace(&self, asked: &Asked) -> Trace {
        let entry = Entry {
            at: Default::default(),
            took: Default::default(),
            asked: asked.to_string(),
            fault: None,
            code: None,
            // Until it is answered; a sender that leaves ends it where it stands.
            given_up: true,
        };
        Trace { state: Arc::clone(&self.state), begun: Instant::now(), entry }
    }

    async fn stopped(&self, tell: oneshot::Sender<Caught>, asked: Asked) -> Result<Response<Answer>, Lost> {
        // Whoever lay in wait may have given up; the request is stopped all the same.
        let _ = tell.send(Caught { asked });
        self.state.open().await;
        Err(Lost("stopped here".into()))
    }

    async fn through(
        &self,
        parts: Parts,
        asked: &Asked,
        struck: Option<Struck>,
        trace: &mut Trace,
    ) -> Result<Response<Answer>, Lost> {
        let onward = self.onward(parts, asked);
        let after = struck.map(|struck| struck.after).unwrap_or_default();
        let answer = match struck.map(|struck| struck.fault) {
            Some(Fault::Refuse(refusal)) => return Ok(refused(refusal)),
            Some(Fault::Delay(..)) => {
                sleep(after).await;
                self.send(onward, asked.verb).await?
            }
            Some(Fault::Late(..)) => self.send_late(onward, asked.verb, after).await?,
            None | Some(Fault::LoseAnswer | Fault::HideAnswer | Fault::CutWatch(..) | Fault::ExpireWatch(..)) => {
                self.send(onward, asked.verb).await?
            }
        };
        let code = answer.head.status;
        trace.entry.code = Some(code.as_u16());
        if code.is_success()
            && let Some(tell) = self.state.caught(asked, Moment::After)
        {
            return self.stopped(tell, asked.clone()).await;
        }
        // A partition loses nothing that both ends wait out; an answer comes when it is over.
        self.state.open().await;
        match struck.map(|struck| struck.fault) {
            Some(Fault::LoseAnswer) => return Err(Lost("the answer was lost".into())),
            Some(Fault::HideAnswer) => return Ok(refused(Refusal::Internal)),
            None
            | Some(
                Fault::Delay(..) | Fault::Late(..) | Fault::Refuse(_) | Fault::CutWatch(..) | Fault::ExpireWatch(..),
            ) => {}
        }
        let body = match answer.body {
            Came::Whole(bytes) => whole(bytes),
            Came::Stream(body) if code.is_success() => {
                followed(Arc::clone(&self.state), asked.resource.clone(), *body, struck)
            }
            Came::Stream(body) => whole(collected(*body).await?),
        };
        Ok(Response::from_parts(answer.head, body))
    }

    fn onward(&self, parts: Parts, asked: &Asked) -> Request<Body> {
        let stripped = self.state.strips_versions().then(|| asked.without_version()).flatten();
        let body = stripped.unwrap_or_else(|| asked.body.clone());
        let mut request = Request::new(Body::from(body));
        *request.method_mut() = parts.method;
        *request.uri_mut() = parts.uri;
        *request.headers_mut() = parts.headers;
        // The way upstream has its own: who the client is, to whom it goes, how long it is.
        for own in [AUTHORIZATION, HOST, CONTENT_LENGTH, CONNECTION, TRANSFER_ENCODING] {
            request.headers_mut().remove(own);
        }
        request
    }

    async fn send(&self, request: Request<Body>, verb: Verb) -> Result<Upstream, Lost> {
        let answer = self.upstream.send(request).await.map_err(|error| Lost(error.to_string()))?;
        let (mut head, body) = answer.into_parts();
        tidy(&mut head.headers);
        let body = match verb {
            Verb::Watch => Came::Stream(Box::new(body)),
            Verb::Get | Verb::List | Verb::Create | Verb::Patch | Verb::Replace | Verb::Delete => {
                Came::Whole(collected(body).await?)
            }
        };
        Ok(Upstream { head, body })
    }

    /// Sends it later, whatever has become of its sender; at once when the faults end.
    async fn send_late(
        &self,
        request: Request<Body>,
        verb: Verb,
        after: std::time::Duration,
    ) -> Result<Upstream, Lost> {
        let way = self.clone();
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move {
            tokio::select! {
                () = sleep(after) => {}
                () = way.state.calm() => {}
            }
            // Its sender may be gone: that is the point.
            let _ = answer.send(way.send(request, verb).await);
        });
        answered.await.map_err(|_| Lost("the proxy ends".into()))?
    }
}

/// An answer of the API server.
struct Upstream {
    head: http::response::Parts,
    body: Came,
}

enum Came {
    Whole(Bytes),
    Stream(Box<Body>),
}

async fn collected(body: Body) -> Result<Bytes, Lost> {
    Ok(body.collect().await.map_err(|error| Lost(error.to_string()))?.to_bytes())
}

fn whole(bytes: Bytes) -> Answer {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

fn tidy(headers: &mut HeaderMap) {
    for own in [CONTENT_LENGTH, CONNECTION, TRANSFER_ENCODING] {
        headers.remove(own);
    }
}

fn refused(refusal: Refusal) -> Response<Answer> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "the fault proxy says no", "reason": refusal.reason(), "code": refusal.code(),
    });
    let mut response = Response::new(whole(Bytes::from(status.to_string())));
    *response.status_mut() = http::StatusCode::from_u16(refusal.code()).unwrap_or_default();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    if refusal == Refusal::TooManyRequests {
        headers.insert(RETRY_AFTER, http::HeaderValue::from_static("1"));
    }
    response
}
