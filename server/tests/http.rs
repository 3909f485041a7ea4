//! The router over an API server that the test plays, for what must be exact on the wire.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode};
use clap::Parser as _;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body as KubeBody;
use sandbox_server::cli::Args;
use sandbox_server::config::{self, Env};
use sandbox_server::routes::router;
use sandbox_server::run::Server;
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// One call to the API server.
#[derive(Clone, Debug)]
struct Call {
    method: Method,
    path: String,
    body: Value,
}

/// What the test's API server answers to writes and single reads, in this order.
#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<(u16, Value)>>>,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Script {
    fn of(answers: Vec<(u16, Value)>) -> Self {
        Self { answers: Arc::new(Mutex::new(answers.into())), calls: Arc::default() }
    }

    fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    async fn answer(self, request: Request<KubeBody>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        let collection = path.ends_with("sandboxes");
        if parts.method == Method::GET && collection {
            if parts.uri.query().is_some_and(|q| q.contains("watch=")) {
                // A watch that is up and silent.
                return Response::new(Body::from_stream(futures::stream::pending::<Result<Vec<u8>, Infallible>>()));
            }
            return json_answer(
                200,
                &json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}),
            );
        }
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        self.calls.lock().unwrap().push(Call { method: parts.method, path: path.clone(), body });
        // Other kinds and older names of the same id are not there.
        if !path.contains("/batchsandboxes/") || path.contains("/sandbox-") {
            return json_answer(404, &status(404));
        }
        let (code, body) = self.answers.lock().unwrap().pop_front().unwrap_or((500, status(500)));
        json_answer(code, &body)
    }

    async fn server(&self, more: &str) -> Server {
        let script = self.clone();
        let client = Client::new(
            tower::service_fn(move |request| {
                let script = script.clone();
                async move { Ok::<_, Infallible>(script.answer(request).await) }
            }),
            "sandboxes",
        );
        let text = format!("[server]\n{more}\n[runtime]\ntype = \"kubernetes\"\nexecd_image = \"e\"\n");
        let env = Env { api_key: Some("very-secret".to_owned()), ..Env::default() };
        let config = config::parse(&text, &env).unwrap().config;
        let args = Args::parse_from(["opensandbox-server", "--listen", "127.0.0.1:0"]);
        Server::build(config, client, &args).await.unwrap()
    }

    async fn app(&self, more: &str) -> axum::Router {
        let server = self.server(more).await;
        let app = server.app();
        // The watches live as long as the server.
        std::mem::forget(server);
        while !app.missing().is_empty() {
            tokio::task::yield_now().await;
        }
        router(app)
    }
}

fn json_answer(code: u16, body: &Value) -> Response<Body> {
    let builder = Response::builder().status(code).header("content-type", "application/json");
    builder.body(Body::from(body.to_string())).unwrap()
}

fn status(code: u16) -> Value {
    let reason = if code == 409 { "Conflict" } else { "Unknown" };
    json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": reason, "code": code, "message": "inner words"})
}

fn object(version: u64, more: Value) -> Value {
    let mut object = json!({
        "apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "BatchSandbox",
        "metadata": {"name": "a", "namespace": "sandboxes", "uid": "u", "resourceVersion": version.to_string(),
            "creationTimestamp": "2026-11-30T10:00:00Z", "labels": {"opensandbox.io/id": "a"}},
        "spec": {"expireTime": "2090-01-01T00:00:00Z"}, "status": {"phase": "Succeed"},
    });
    for (key, value) in more.as_object().unwrap() {
        object["metadata"][key] = value.clone();
    }
    object
}

async fn ask(app: &axum::Router, request: Request<Body>) -> (StatusCode, Value) {
    let answer = app.clone().oneshot(request).await.unwrap();
    let status = answer.status();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

fn renewal() -> Request<Body> {
    Request::post("/v1/sandboxes/a/renew-expiration")
        .header("open-sandbox-api-key", "very-secret")
        .header("content-type", "application/json")
        .body(Body::from(r#"{"expiresAt": "2091-01-01T00:00:00Z"}"#))
        .unwrap()
}

#[tokio::test]
async fn a_renewal_names_the_version_it_looked_at_and_looks_again_when_that_moved() {
    let script = Script::of(vec![
        (200, object(5, json!({}))),
        (409, status(409)),
        (200, object(7, json!({}))),
        (200, object(8, json!({}))),
    ]);
    let app = script.app("").await;
    let (status, body) = ask(&app, renewal()).await;
    assert_eq!((status, &body), (StatusCode::OK, &json!({"expiresAt": "2091-01-01T00:00:00Z"})));
    let patches: Vec<Call> = script.calls().into_iter().filter(|call| call.method == Method::PATCH).collect();
    let expected = |version: &str| json!({"metadata": {"uid": "u", "resourceVersion": version}, "spec": {"expireTime": "2091-01-01T00:00:00+00:00"}});
    assert_eq!(patches.len(), 2);
    assert_eq!((&patches[0].body, &patches[1].body), (&expected("5"), &expected("7")));
}

#[tokio::test]
async fn a_renewal_that_lost_the_race_is_refused_and_never_told_to_have_won() {
    let going = json!({"deletionTimestamp": "2026-11-30T10:00:00Z"});
    let script = Script::of(vec![
        (200, object(5, json!({}))),
        (409, status(409)),
        (200, object(7, going.clone())),
        (200, object(7, going)),
    ]);
    let app = script.app("").await;
    let (status_code, body) = ask(&app, renewal()).await;
    assert_eq!((status_code, &body["code"]), (StatusCode::CONFLICT, &json!("DOCKER::INVALID_EXPIRATION")));
    let script = Script::of(vec![(200, object(5, json!({}))), (409, status(409)), (404, status(404))]);
    let app = script.app("").await;
    assert_eq!(ask(&app, renewal()).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_renewal_is_not_tried_for_ever() {
    let mut answers = vec![(200, object(1, json!({})))];
    for version in 2..60 {
        answers.extend([(409, status(409)), (200, object(version, json!({})))]);
    }
    let script = Script::of(answers);
    let app = script.app("").await;
    assert_eq!(ask(&app, renewal()).await.0, StatusCode::CONFLICT);
    assert!(script.calls().iter().filter(|call| call.method == Method::PATCH).count() <= 16);
}

#[tokio::test]
async fn a_delete_carries_the_uid_that_was_seen() {
    let success = json!({"apiVersion": "v1", "kind": "Status", "status": "Success"});
    let script = Script::of(vec![(200, object(5, json!({}))), (200, success)]);
    let app = script.app("").await;
    let request =
        Request::delete("/sandboxes/a").header("open-sandbox-api-key", "very-secret").body(Body::empty()).unwrap();
    assert_eq!(ask(&app, request).await.0, StatusCode::NO_CONTENT);
    let calls = script.calls();
    let deleted = calls.iter().find(|call| call.method == Method::DELETE).unwrap();
    assert_eq!(deleted.path, "/apis/sandbox.opensandbox.io/v1alpha1/namespaces/sandboxes/batchsandboxes/a");
    assert_eq!(deleted.body["preconditions"], json!({"uid": "u"}));
    assert_eq!(deleted.body["gracePeriodSeconds"], 0);
}

#[tokio::test]
async fn what_the_api_server_says_inside_stays_inside() {
    let script = Script::of(vec![(200, object(5, json!({}))), (500, status(500))]);
    let app = script.app("").await;
    let (status, body) = ask(&app, renewal()).await;
    assert_eq!((status, &body["code"]), (StatusCode::INTERNAL_SERVER_ERROR, &json!("KUBERNETES::API_ERROR")));
    assert!(!body.to_string().contains("inner words"), "{body}");
}

#[tokio::test]
async fn nothing_of_the_lifecycle_api_is_told_without_the_key() {
    let app = Script::default().app("").await;
    for path in
        ["/sandboxes", "/v1/sandboxes", "/sandboxes/a", "/nowhere", "/v1/metrics/events", "/healthzfoo", "/v1/health"]
    {
        let (status, body) = ask(&app, Request::get(path).body(Body::empty()).unwrap()).await;
        assert_eq!((status, &body["code"]), (StatusCode::UNAUTHORIZED, &json!("MISSING_API_KEY")), "{path}");
    }
    for path in ["/health", "/ready", "/version", "/metrics"] {
        assert_eq!(ask(&app, Request::get(path).body(Body::empty()).unwrap()).await.0, StatusCode::OK, "{path}");
    }
    let preflight = Request::builder().method(Method::OPTIONS).uri("/v1/sandboxes").header("origin", "https://a");
    let preflight = preflight.header("access-control-request-method", "POST").body(Body::empty()).unwrap();
    assert_eq!(ask(&app, preflight).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_trailing_slash_is_sent_to_the_path_without_it_and_nowhere_else() {
    let app = Script::default().app("").await;
    let get = |path: &str| {
        let request = Request::get(path).header("open-sandbox-api-key", "very-secret").body(Body::empty()).unwrap();
        app.clone().oneshot(request)
    };
    let answer = get("/v1/sandboxes/?page=2").await.unwrap();
    assert_eq!(answer.status(), StatusCode::TEMPORARY_REDIRECT);
    assert_eq!(answer.headers()["location"], "/v1/sandboxes?page=2");
    assert_eq!(get("//evil.example.org/").await.unwrap().status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_id_that_is_no_text_or_leaves_the_path_names_nothing() {
    let script = Script::default();
    let app = script.app("").await;
    for path in
        ["/sandboxes/%ff", "/sandboxes/%2e%2e", "/sandboxes/a%2fb", "/sandboxes/A", "/sandboxes/%ff/endpoints/80"]
    {
        let request = Request::get(path).header("open-sandbox-api-key", "very-secret").body(Body::empty()).unwrap();
        let (status, body) = ask(&app, request).await;
        assert_eq!((status, &body["code"]), (StatusCode::NOT_FOUND, &json!("KUBERNETES::SANDBOX_NOT_FOUND")), "{path}");
    }
    assert!(script.calls().is_empty(), "none of them reaches the cluster: {:?}", script.calls());
}

#[tokio::test]
async fn a_method_that_a_caller_makes_up_is_no_label_of_a_counter() {
    let app = Script::default().app("").await;
    let made_up = Request::builder().method("MADEUP").uri("/health").body(Body::empty()).unwrap();
    assert_eq!(ask(&app, made_up).await.0, StatusCode::METHOD_NOT_ALLOWED);
    let answer = app.clone().oneshot(Request::get("/metrics").body(Body::empty()).unwrap()).await.unwrap();
    let text = String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap();
    assert!(text.contains("method=\"other\"") && !text.contains("MADEUP"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_trickles_in_cannot_hold_a_place() {
    let app = Script::default().app("").await;
    let drops = futures::stream::unfold((), |()| async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        Some((Ok::<_, Infallible>(" "), ()))
    });
    let request = Request::post("/v1/sandboxes")
        .header("open-sandbox-api-key", "very-secret")
        .header("content-type", "application/json")
        .body(Body::from_stream(drops))
        .unwrap();
    let (status, body) = ask(&app, request).await;
    assert_eq!((status, &body["code"]), (StatusCode::REQUEST_TIMEOUT, &json!("GENERAL::REQUEST_TIMEOUT")));
}

#[tokio::test]
async fn an_idle_connection_is_closed_when_the_configuration_says() {
    use tokio::io::AsyncReadExt as _;
    let server = Script::default().server("timeout_keep_alive = 1").await;
    let address = server.address().unwrap();
    let serving = tokio::spawn(server.serve(std::future::pending()));
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let opened = std::time::Instant::now();
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
    let open = opened.elapsed().as_secs_f64();
    assert!((0.9..30.0).contains(&open), "{open} s");
    serving.abort();
}
