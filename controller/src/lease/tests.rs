#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Mutex;

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;

use super::*;

/// A Lease as an API server keeps it: versions checked, nothing else.
#[derive(Clone, Default)]
struct Server {
    lease: Arc<Mutex<Option<Lease>>>,
    down: Arc<Mutex<bool>>,
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                if *server.down.lock().unwrap() {
                    std::future::pending::<()>().await;
                }
                let (parts, body) = request.into_parts();
                let bytes = body.collect().await?.to_bytes();
                Ok::<_, tower::BoxError>(server.answer(&parts.method, &bytes))
            }
        });
        Client::new(service, "ns")
    }

    fn answer(&self, method: &Method, body: &[u8]) -> Response<Body> {
        let mut lease = self.lease.lock().unwrap();
        let version = lease.as_ref().and_then(|l| l.metadata.resource_version.clone());
        if *method == Method::GET {
            return match &*lease {
                Some(lease) => json(StatusCode::OK, lease),
                None => json(StatusCode::NOT_FOUND, &status(404, "NotFound")),
            };
        }
        let mut sent: Lease = serde_json::from_slice(body).unwrap();
        let creates_what_exists = *method == Method::POST && lease.is_some();
        let is_stale = *method == Method::PUT && sent.metadata.resource_version != version;
        if creates_what_exists || is_stale {
            return json(StatusCode::CONFLICT, &status(409, "Conflict"));
        }
        let next = version.and_then(|v| v.parse::<u64>().ok()).unwrap_or(0) + 1;
        sent.metadata.resource_version = Some(next.to_string());
        *lease = Some(sent.clone());
        json(StatusCode::OK, &sent)
    }

    fn holder(&self) -> String {
        self.lease.lock().unwrap().clone().unwrap().spec.unwrap().holder_identity.unwrap()
    }

    fn elector(&self, process: &str) -> Elector {
        Elector::new(self.client(), "ns", process.to_owned())
    }
}

fn status(code: u16, reason: &str) -> serde_json::Value {
    serde_json::json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason})
}

fn json(code: StatusCode, value: &impl serde::Serialize) -> Response<Body> {
    Response::builder().status(code).body(Body::from(serde_json::to_vec(value).unwrap())).unwrap()
}

#[tokio::test(start_paused = true)]
async fn of_two_candidates_one_leads_and_the_other_follows_its_release() {
    let server = Server::default();
    let (mut first, leadership) = server.elector("one").acquire().await;
    let second = tokio::spawn(server.elector("two").acquire());
    let _ = tokio::time::timeout(Duration::from_secs(120), first.hold(std::future::pending())).await;
    assert!(leadership.may_write() && !second.is_finished());
    let term = first.term.clone();
    first.release().await.unwrap();
    assert!(!leadership.may_write());
    let (second, leadership) = second.await.unwrap();
    assert!(leadership.may_write() && second.term.number > term.number);
    assert_eq!(server.holder(), "two");
}

#[tokio::test(start_paused = true)]
async fn a_dead_leader_is_followed_after_its_time_by_our_own_clock() {
    let server = Server::default();
    let (first, first_leadership) = server.elector("one").acquire().await;
    let start = Instant::now();
    let (second, _) = server.elector("two").acquire().await;
    let waited = start.elapsed();
    assert!(waited > DURATION && waited < DURATION + Duration::from_secs(5), "{waited:?}");
    assert!(!first_leadership.may_write());
    assert!(second.term.number > first.term.number);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_writing_before_another_may_start() {
    let server = Server::default();
    let (mut office, leadership) = server.elector("one").acquire().await;
    let start = Instant::now();
    *server.down.lock().unwrap() = true;
    office.hold(std::future::pending()).await.unwrap_err();
    assert!(!leadership.may_write());
    assert!(start.elapsed() < DURATION);
}

#[tokio::test(start_paused = true)]
async fn a_label_put_on_the_lease_does_not_cost_the_leadership() {
    let server = Server::default();
    let (mut office, leadership) = server.elector("one").acquire().await;
    server.lease.lock().unwrap().as_mut().unwrap().metadata.resource_version = Some("77".to_owned());
    let held = tokio::time::timeout(Duration::from_secs(60), office.hold(std::future::pending())).await;
    assert!(held.is_err() && leadership.may_write());
}

#[tokio::test(start_paused = true)]
async fn a_lease_taken_by_another_ends_the_leader() {
    let server = Server::default();
    let (mut office, _) = server.elector("one").acquire().await;
    {
        let mut lease = server.lease.lock().unwrap();
        let lease = lease.as_mut().unwrap();
        lease.metadata.resource_version = Some("77".to_owned());
        lease.spec.as_mut().unwrap().holder_identity = Some("thief".to_owned());
    }
    let error = office.hold(std::future::pending()).await.unwrap_err();
    assert!(error.to_string().contains("thief"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn terms_grow_even_over_a_deleted_lease() {
    let server = Server::default();
    let (first, _) = server.elector("one").acquire().await;
    first.release().await.unwrap();
    *server.lease.lock().unwrap() = None;
    let (second, _) = server.elector("two").acquire().await;
    assert!(second.term.number > 40_000_000);
}
