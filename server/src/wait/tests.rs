#![allow(clippy::unwrap_used)]

use sandbox_api::BatchSandbox;
use serde_json::{Value, json};

use super::*;
use crate::store::{Store, Watched as _};

const LIMITS: Limits = Limits { overall: Duration::from_secs(60), without_room: Duration::from_secs(30) };

fn view(version: u64, status: Value) -> View {
    let object = json!({
        "apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "BatchSandbox",
        "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": version.to_string(),
            "labels": {"opensandbox.io/id": "a"}},
        "spec": {"poolRef": "p"}, "status": status,
    });
    serde_json::from_value::<BatchSandbox>(object).unwrap().view()
}

fn condition(kind: &str, reason: &str) -> Value {
    let status = if kind == "Ready" { "False" } else { "True" };
    json!([{"type": kind, "status": status, "reason": reason, "message": "words"}])
}

fn full() -> Value {
    json!({"phase": "Pending", "conditions": condition("PoolAllocationPending", "PoolCapacityExhausted")})
}

fn running() -> Value {
    json!({"phase": "Succeed", "pods": ["p/u/10.0.0.1/ready"]})
}

/// Plays a life: each status comes that many seconds after the start.
async fn live(statuses: Vec<(u64, Value)>) -> (Result<Arc<View>, ApiError>, Duration) {
    let store = Store::new();
    store.take(view(1, Value::Null));
    let mut follower = store.follow(view(1, Value::Null).key());
    let started = Instant::now();
    let acts = async {
        for (version, (second, status)) in statuses.into_iter().enumerate() {
            sleep_until(started + Duration::from_secs(second)).await;
            store.take(view(2 + u64::try_from(version).unwrap(), status));
        }
        std::future::pending::<()>().await;
    };
    let out = tokio::select! {
        out = until_running(&mut follower, LIMITS, Some("p")) => out,
        () = acts => unreachable!(),
    };
    (out, started.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_create_is_answered_when_the_sandbox_runs_and_can_be_reached() {
    let no_address = json!({"phase": "Succeed", "pods": ["p/u/"]});
    let (out, took) = live(vec![(1, json!({"phase": "Pending"})), (2, no_address), (3, running())]).await;
    assert_eq!(out.unwrap().ip.as_deref(), Some("10.0.0.1"));
    assert_eq!(took.as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_full_pool_is_told_after_the_time_that_it_was_full() {
    let (out, took) = live(vec![(1, full())]).await;
    let error = out.unwrap_err();
    assert_eq!((error.status.as_u16(), error.retry_after), (429, Some(30)));
    assert_eq!(took.as_secs(), 31);
    // Only full times count, and they add up.
    let (out, took) = live(vec![(0, full()), (20, json!({"phase": "Pending"})), (40, full())]).await;
    assert_eq!((out.unwrap_err().status.as_u16(), took.as_secs()), (429, 50));
    // Repeated words about it do not start the clock again.
    let (out, took) = live((0..6).map(|i| (i * 9, full())).collect()).await;
    assert_eq!((out.unwrap_err().status.as_u16(), took.as_secs()), (429, 30));
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_takes_too_long_says_what_it_was_waiting_for() {
    let stuck = json!({"phase": "Pending", "conditions": condition("Ready", "ImagePullFailed")});
    let (out, took) = live(vec![(1, stuck)]).await;
    let error = out.unwrap_err();
    assert_eq!((error.status.as_u16(), took.as_secs()), (504, 60));
    assert!(error.message.contains("ImagePullFailed: words"), "{}", error.message);
}

#[tokio::test(start_paused = true)]
async fn what_will_never_run_is_told_at_once() {
    for (status, code, http) in [
        (json!({"phase": "Failed"}), Code::PodFailed, 500),
        (json!({"phase": "Succeed", "taskFailed": 1}), Code::PodFailed, 500),
        (json!({"phase": "Pending", "conditions": condition("Ready", "PoolNotFound")}), Code::PoolNotFound, 404),
        (json!({"phase": "Pending", "conditions": condition("Ready", "QuotaExceeded")}), Code::QuotaExceeded, 403),
    ] {
        let (out, took) = live(vec![(1, status.clone())]).await;
        let error = out.unwrap_err();
        assert_eq!((error.code, error.status.as_u16(), took.as_secs()), (code, http, 1), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_somebody_deletes_while_it_starts_is_no_success() {
    let store = Store::new();
    let first = view(1, Value::Null);
    store.take(first.clone());
    let mut follower = store.follow(first.key());
    store.bury(&first.key(), "u");
    let error = until_running(&mut follower, LIMITS, None).await.unwrap_err();
    assert_eq!(error.code, Code::PodFailed);
}
