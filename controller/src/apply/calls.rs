//! Requests to the API server, and what their answers mean.
//!
//! The only file that sends a write. Every write carries its preconditions
//! with it and is sent at most once; what came of it is one of a closed set of
//! outcomes, and the caller decides. Answers go into the stores by the caller,
//! with the point in time at which the request was sent.

#![expect(clippy::disallowed_methods, reason = "the one way to send a write")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::RETRY_AFTER;
use http_body_util::BodyExt;
use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::client::Body;
use kube::core::{ObjectList, Request, Status};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use crate::lanes::{Lane, Lanes};
use crate::lease::Leadership;
use crate::store::{Arrivals, Key, Seq};

/// Longest wait for an answer. With the Lease's own margin it makes sure that
/// a write ends before another process may lead.
const CALL: Duration = Duration::from_secs(5);

/// Longest wait for a page of a list.
const LIST: Duration = Duration::from_secs(60);

/// An answer, with the arrival count when its request was sent.
#[derive(Debug)]
pub struct Answer<T> {
    /// [`Arrivals::now`] just before the request was sent.
    pub sent: Seq,
    /// What it said.
    pub outcome: Result<T, Failure>,
}

/// Why a request did not do what it asked for.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The object moved on since the version named.
    #[error("the object has changed meanwhile")]
    Conflict,
    /// The name is in use.
    #[error("the name is in use")]
    AlreadyExists,
    /// There is no such object, or not with this uid.
    #[error("there is no such object")]
    NotFound,
    /// The API server says no, and would again.
    #[error("refused by the API server ({code} {reason}): {message}")]
    Refused {
        /// HTTP status code.
        code: u16,
        /// Reason word.
        reason: String,
        /// What a person can read.
        message: String,
    },
    /// It may have happened or not: lost answer, time-out, 429, 5xx.
    #[error("no certain answer: {message}")]
    Unknown {
        /// What a person can read.
        message: String,
        /// How long the API server asked to be left alone.
        after: Option<Duration>,
    },
    /// Not sent: this process may not write any more.
    #[error("not sent: the Lease is not held")]
    NotLeading,
}

/// The way to the API server. Clones are cheap.
#[derive(Clone)]
pub struct Calls {
    client: Client,
    lanes: Lanes,
    arrivals: Arc<Arrivals>,
    leadership: Leadership,
}

impl Calls {
    /// Calls through `client`, in `lanes`, while `leadership` lasts.
    #[must_use]
    pub fn new(client: Client, lanes: Lanes, arrivals: Arc<Arrivals>, leadership: Leadership) -> Self {
        Self { client, lanes, arrivals, leadership }
    }

    /// This point in the order of arrivals.
    #[must_use]
    pub fn now(&self) -> Seq {
        self.arrivals.now()
    }

    /// A live (quorum) read.
    pub async fn get<K>(&self, lane: Lane, key: &Key) -> Answer<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let request = path::<K>(&key.namespace).get(&key.name, &GetParams::default());
        self.send(lane, "get", Access::Read, request, CALL).await
    }

    /// A live (quorum) list, page by page.
    pub async fn list<K>(&self, lane: Lane, namespace: &str, labels: Option<&str>) -> Answer<Vec<K>>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone,
    {
        let mut params = ListParams { label_selector: labels.map(str::to_owned), ..ListParams::default() }.limit(500);
        let mut items = Vec::new();
        let mut first = None;
        loop {
            let request = path::<K>(namespace).list(&params);
            let page: Answer<ObjectList<K>> = self.send(lane, "list", Access::Read, request, LIST).await;
            let sent = *first.get_or_insert(page.sent);
            match page.outcome {
                Err(failure) => return Answer { sent, outcome: Err(failure) },
                Ok(page) => {
                    items.extend(page.items);
                    params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
                }
            }
            if params.continue_token.is_none() {
                return Answer { sent, outcome: Ok(items) };
            }
        }
    }

    /// Creates an object from its full JSON.
    pub async fn create<K>(&self, lane: Lane, namespace: &str, body: &Value) -> Answer<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let bytes = body.to_string().into_bytes();
        let request = path::<K>(namespace).create(&PostParams::default(), bytes);
        self.send(lane, "create", Access::Write, request, CALL).await
    }

    /// Merge patch; uid and resourceVersion in its `metadata` make it a
    /// compare-and-swap.
    pub async fn patch<K>(&self, lane: Lane, key: &Key, patch: &Value) -> Answer<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let request = path::<K>(&key.namespace).patch(&key.name, &PatchParams::default(), &Patch::Merge(patch));
        self.send(lane, "patch", Access::Write, request, CALL).await
    }

    /// Merge patch of the status.
    pub async fn patch_status<K>(&self, lane: Lane, key: &Key, patch: &Value) -> Answer<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let patch = Patch::Merge(patch);
        let request = path::<K>(&key.namespace).patch_subresource("status", &key.name, &PatchParams::default(), &patch);
        self.send(lane, "patch_status", Access::Write, request, CALL).await
    }

    /// Deletes exactly this uid and, if given, exactly this version. The
    /// answer is the object, or a bare success.
    pub async fn delete<K>(&self, lane: Lane, key: &Key, uid: &str, version: Option<&str>) -> Answer<Value>
    where
        K: Resource<DynamicType = ()>,
    {
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: version.map(str::to_owned) };
        let params = DeleteParams::background().preconditions(preconditions);
        let request = path::<K>(&key.namespace).delete(&key.name, &params);
        self.send(lane, "delete", Access::Write, request, CALL).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        lane: Lane,
        verb: &'static str,
        access: Access,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
        limit: Duration,
    ) -> Answer<T> {
        let mut request = match request {
            Ok(request) => request,
            Err(error) => {
                let refused = Failure::Refused { code: 0, reason: "BadRequest".into(), message: error.to_string() };
                return Answer { sent: self.arrivals.now(), outcome: Err(refused) };
            }
        };
        request.extensions_mut().insert(verb);
        let _permit = self.lanes.enter(lane).await;
        let sent = self.arrivals.now();
        if matches!(access, Access::Write) && !self.leadership.may_write() {
            return Answer { sent, outcome: Err(Failure::NotLeading) };
        }
        let outcome = match timeout(limit, self.exchange(request)).await {
            Ok(Ok(body)) => serde_json::from_slice(&body).map_err(lost),
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(lost(format!("no answer within {} s", limit.as_secs()))),
        };
        Answer { sent, outcome }
    }

    /// The body of a good answer.
    async fn exchange(&self, request: http::Request<Vec<u8>>) -> Result<Bytes, Failure> {
        let answer = self.client.send(request.map(Body::from)).await.map_err(lost)?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.map_err(lost)?.to_bytes();
        if head.status.is_success() {
            return Ok(body);
        }
        let after = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
        Err(refusal(&read_status(head.status, &body), after.map(Duration::from_secs)))
    }
}

#[derive(Clone, Copy)]
enum Access {
    Read,
    Write,
}

fn path<K: Resource<DynamicType = ()>>(namespace: &str) -> Request {
    Request::new(K::url_path(&(), Some(namespace).filter(|namespace| !namespace.is_empty())))
}

fn lost(error: impl ToString) -> Failure {
    Failure::Unknown { message: error.to_string(), after: None }
}

/// What the API server says about a request that it did not carry out. Filters
/// in front of it answer in plain text.
fn read_status(code: StatusCode, body: &[u8]) -> Status {
    let text = || String::from_utf8_lossy(body).trim().to_owned();
    let mut status = serde_json::from_slice(body).unwrap_or_else(|_| Status {
        reason: code.canonical_reason().unwrap_or_default().to_owned(),
        message: text(),
        ..Status::default()
    });
    status.code = code.as_u16();
    status
}

fn refusal(status: &Status, after: Option<Duration>) -> Failure {
    match status.code {
        404 => Failure::NotFound,
        409 if status.is_already_exists() => Failure::AlreadyExists,
        409 => Failure::Conflict,
        408 | 429 | 500.. => {
            Failure::Unknown { message: format!("{} {}: {}", status.code, status.reason, status.message), after }
        }
        code => Failure::Refused { code, reason: status.reason.clone(), message: status.message.clone() },
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use http::{Method, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn answering(code: u16, reason: &'static str) -> Calls {
        let service = tower::service_fn(move |request: http::Request<Body>| async move {
            assert_eq!(request.extensions().get::<&'static str>(), Some(&"delete"));
            assert_eq!(request.method(), Method::DELETE);
            let bytes = request.into_body().collect().await?.to_bytes();
            let sent: Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(sent["preconditions"], json!({"uid": "u", "resourceVersion": "7"}));
            let body = json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason});
            let answer = Response::builder().status(code).header(RETRY_AFTER, "3");
            Ok::<_, tower::BoxError>(answer.body(Body::from(body.to_string().into_bytes()))?)
        });
        Calls::new(Client::new(service, "ns"), Lanes::new(8), Arc::default(), Leadership::unlimited())
    }

    async fn outcome(code: u16, reason: &'static str) -> Failure {
        let calls = answering(code, reason);
        let answer = calls.delete::<ConfigMap>(Lane::Refill, &Key::new("ns", "a"), "u", Some("7")).await;
        answer.outcome.unwrap_err()
    }

    #[tokio::test]
    async fn every_answer_has_one_meaning() {
        assert!(matches!(outcome(409, "Conflict").await, Failure::Conflict));
        assert!(matches!(outcome(409, "AlreadyExists").await, Failure::AlreadyExists));
        assert!(matches!(outcome(404, "NotFound").await, Failure::NotFound));
        assert!(matches!(outcome(403, "Forbidden").await, Failure::Refused { code: 403, .. }));
        assert!(matches!(outcome(504, "Timeout").await, Failure::Unknown { .. }));
        let asked = Some(Duration::from_secs(3));
        assert!(matches!(outcome(429, "TooManyRequests").await, Failure::Unknown { after, .. } if after == asked));
    }

    #[test]
    fn an_answer_in_plain_text_has_its_code_and_words() {
        let status = read_status(StatusCode::TOO_MANY_REQUESTS, b"Too many requests, please try again later.\n");
        let said = "429 Too Many Requests: Too many requests, please try again later.";
        assert!(matches!(refusal(&status, None), Failure::Unknown { message, .. } if message == said));
    }
}
