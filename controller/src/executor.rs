//! Talking to the task executor in a Pod (contract §3.8.5): `POST /setTasks`
//! with the complete set of tasks, `GET /getTasks` for how they fare.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use sandbox_core::claim::TaskState;
use serde_json::{Value, json};
use tokio::time::timeout;

const CALL: Duration = Duration::from_secs(3);
const LONGEST_ANSWER: usize = 1 << 20;

/// Why an executor did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    /// No connection or no answer in time.
    #[error("no answer: {0}")]
    NoAnswer(String),
    /// It said no. Its message may quote the task, so it is kept out of logs.
    #[error("refused with {0}")]
    Refused(StatusCode),
    /// It does not speak the protocol.
    #[error("its answer cannot be read: {0}")]
    Unreadable(String),
}

/// A client for all executors. Clones share connections.
#[derive(Clone)]
pub struct Executor {
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Default for Executor {
    fn default() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(Duration::from_secs(1)));
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(1).build(connector);
        Self { client }
    }
}

impl Executor {
    /// Makes `task` the one task of the executor at `address`. Named tasks are
    /// started once however often they are posted.
    ///
    /// # Errors
    /// When it was not accepted; it may then be posted again.
    pub async fn start(&self, address: &str, task: &Value) -> Result<(), ExecutorError> {
        let body = json!([task]).to_string();
        self.send(Method::POST, address, "setTasks", body).await.map(drop)
    }

    /// How the task named `name` fares; none if the executor does not have it.
    ///
    /// # Errors
    /// When there is no answer that can be read.
    pub async fn read(&self, address: &str, name: &str) -> Result<Option<TaskState>, ExecutorError> {
        let answer = self.send(Method::GET, address, "getTasks", String::new()).await?;
        let tasks: Vec<Value> =
            serde_json::from_slice(&answer).map_err(|error| ExecutorError::Unreadable(error.to_string()))?;
        Ok(tasks.iter().find(|task| task["name"] == name).map(state))
    }

    async fn send(&self, method: Method, address: &str, path: &str, body: String) -> Result<Bytes, ExecutorError> {
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{address}/{path}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::from(body))
            .map_err(|error| ExecutorError::NoAnswer(error.to_string()))?;
        let call = async {
            let answer = self.client.request(request).await.map_err(|e| ExecutorError::NoAnswer(cause(&e)))?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, LONGEST_ANSWER).collect().await;
            let body = body.map_err(|error| ExecutorError::Unreadable(error.to_string()))?.to_bytes();
            if head.status.is_success() { Ok(body) } else { Err(ExecutorError::Refused(head.status)) }
        };
        let late = || ExecutorError::NoAnswer(format!("nothing within {} s", CALL.as_secs()));
        timeout(CALL, call).await.map_err(|_| late())?
    }
}

/// The innermost cause: "connection refused" and the like.
fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

fn state(task: &Value) -> TaskState {
    let status = &task["processStatus"];
    if !status["running"].is_null() {
        return TaskState::Running;
    }
    let ended = &status["terminated"];
    if ended.is_null() {
        return TaskState::Starting;
    }
    match ended["exitCode"].as_i64().unwrap_or(-1) {
        0 => TaskState::Succeeded,
        code => {
            let reason = ended["reason"].as_str().filter(|reason| !reason.is_empty()).unwrap_or("Error");
            let message = ended["message"].as_str().unwrap_or_default();
            TaskState::Failed(format!("exit code {code} ({reason}) {message}").trim_end().to_owned())
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use axum::routing::{get, post};
    use axum::{Json, Router};

    use super::*;

    async fn serve(router: Router) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    }

    #[tokio::test]
    async fn a_task_is_posted_as_the_complete_set() {
        let router = Router::new().route(
            "/setTasks",
            post(|Json(body): Json<Value>| async move {
                assert_eq!(body, json!([{"name": "a-0", "process": {}}]));
                Json(body)
            }),
        );
        let address = serve(router).await;
        Executor::default().start(&address, &json!({"name": "a-0", "process": {}})).await.unwrap();
    }

    #[tokio::test]
    async fn every_state_of_a_task_is_read() {
        let router = Router::new().route(
            "/getTasks",
            get(|| async {
                Json(json!([
                    {"name": "runs", "processStatus": {"running": {"startedAt": "x"}}},
                    {"name": "waits", "processStatus": {"waiting": {}}},
                    {"name": "done", "processStatus": {"terminated": {"exitCode": 0}}},
                    {"name": "failed", "processStatus": {"terminated": {"exitCode": 3, "reason": "Boom"}}},
                ]))
            }),
        );
        let address = serve(router).await;
        let executor = Executor::default();
        let mut seen = Vec::new();
        for name in ["runs", "waits", "done", "failed", "none"] {
            seen.push(executor.read(&address, name).await.unwrap());
        }
        assert_eq!(
            seen,
            vec![
                Some(TaskState::Running),
                Some(TaskState::Starting),
                Some(TaskState::Succeeded),
                Some(TaskState::Failed("exit code 3 (Boom)".to_owned())),
                None,
            ]
        );
    }

    #[tokio::test]
    async fn a_pod_that_does_not_listen_is_an_error_with_its_cause() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let error = Executor::default().read(&address, "a").await.unwrap_err();
        assert!(error.to_string().contains("refused"), "{error}");
    }
}
