//! Tasks, with an executor of the test's own on the loopback address that the
//! stand-in kubelet gives to the Pod.

use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use sandbox_api::BatchSandbox;
use sandbox_e2e::objects::{capacity, claim, pool, template};
use sandbox_e2e::scene::{SOON, Scene};
use sandbox_e2e::{Outcome, on_stage, until};
use serde_json::{Value, json};

#[derive(Clone, Default)]
struct Executor {
    posted: Arc<Mutex<Vec<Value>>>,
    ended: Arc<Mutex<bool>>,
}

async fn serve(executor: Executor) -> anyhow::Result<tokio::task::JoinHandle<()>> {
    let set = |State(executor): State<Executor>, Json(tasks): Json<Vec<Value>>| async move {
        executor.posted.lock().unwrap().extend(tasks.clone());
        Json(tasks)
    };
    let show = |State(executor): State<Executor>| async move {
        let status = if *executor.ended.lock().unwrap() {
            json!({ "terminated": { "exitCode": 7, "reason": "Error" } })
        } else {
            json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } })
        };
        let posted = executor.posted.lock().unwrap().clone();
        Json(json!(
            posted
                .iter()
                .take(1)
                .map(|task| json!({ "name": task["name"], "processStatus": status }))
                .collect::<Vec<_>>()
        ))
    };
    let router = Router::new().route("/setTasks", post(set)).route("/getTasks", get(show)).with_state(executor);
    let listener = tokio::net::TcpListener::bind("127.0.0.7:5758").await?;
    Ok(tokio::spawn(async move {
        let _ = axum::serve(listener, router).await;
    }))
}

#[test]
fn a_task_is_started_once_in_the_delivered_pod_and_its_state_is_reported() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "task").await?;
        let mut wanted = pool("p", capacity(1, 1, 1));
        let mut template = template();
        template["metadata"]["annotations"] = json!({ "stand-in.opensandbox.io/pod-ip": "127.0.0.7" });
        wanted.spec.template = Some(template);
        scene.pool(&wanted).await?;
        let executor = Executor::default();
        let mut asking = claim("c", "p");
        asking.spec.task_template =
            Some(json!({ "spec": { "process": { "command": ["/bin/start"] }, "timeoutSeconds": 5 } }));
        // Nobody listens at first, as while a Pod's processes start.
        scene.runs(&asking).await?;
        let serving = serve(executor.clone()).await?;
        let running = |claim: &BatchSandbox| claim.status.as_ref().is_some_and(|status| status.task_running == 1);
        until(&scene.claims, "c", "its task runs", SOON, running).await?;
        let posted = executor.posted.lock().unwrap().clone();
        anyhow::ensure!(
            posted == [json!({ "name": "c-0", "process": { "command": ["/bin/start"], "timeoutSeconds": 5 } })],
            "{posted:?}"
        );
        *executor.ended.lock().unwrap() = true;
        let failed = |claim: &BatchSandbox| claim.status.as_ref().is_some_and(|status| status.task_failed == 1);
        until(&scene.claims, "c", "its task failed", SOON, failed).await?;
        serving.abort();
        Ok(())
    })
}
