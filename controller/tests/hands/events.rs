//! What `kubectl describe` tells.

use anyhow::ensure;
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use sandbox_api::{Pool, labels};
use sandbox_e2e::objects::{capacity, claim, own, pool};
use sandbox_e2e::{Outcome, Stage, on_stage, until, until_all, until_gone};
use serde_json::json;

use sandbox_e2e::scene::{SOON, Scene, edit};

fn events(stage: &Stage, namespace: &str) -> Api<Event> {
    Api::namespaced(stage.admin(), namespace)
}

/// Kind, name and reason.
fn is(event: &Event, kind: &str, name: &str, reason: &str) -> bool {
    let object = event.regarding.clone().unwrap_or_default();
    object.kind.as_deref() == Some(kind)
        && object.name.as_deref() == Some(name)
        && object.uid.is_some()
        && event.reason.as_deref() == Some(reason)
}

#[test]
fn a_template_that_is_refused_is_one_event_however_often_it_is_tried() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "ev-refused").await?;
        let mut wanted = pool("p", capacity(1, 1, 3));
        wanted.spec.template = Some(json!({ "spec": { "containers": [{ "name": "Not A Name", "image": "x" }] } }));
        let made = scene.pools.create(&PostParams::default(), &wanted).await?;
        let events = events(stage, &made.namespace().unwrap_or_default());
        let seen = until_all(&events, "", "both are told", SOON, |all| {
            ["FailedCreate", "PodRefused"].iter().all(|reason| all.values().any(|event| is(event, "Pool", "p", reason)))
        })
        .await?;
        let failed = seen.values().find(|event| is(event, "Pool", "p", "FailedCreate")).unwrap();
        ensure!(failed.type_.as_deref() == Some("Warning"), "{failed:?}");
        ensure!(failed.reporting_controller.as_deref() == Some("pool-controller"), "{failed:?}");
        ensure!(failed.note.as_deref().is_some_and(|note| note.contains("Not A Name")), "{failed:?}");

        edit(&scene.pools, "p", json!({ "spec": { "template": sandbox_e2e::objects::template() } })).await?;
        scene.until_available("p", 1).await?;
        let all = until_all(&events, "", "the Pod is told of", SOON, |all| {
            all.values().any(|event| is(event, "Pool", "p", "SuccessfulCreate"))
        })
        .await?;
        let failures = all.values().filter(|event| is(event, "Pool", "p", "FailedCreate")).count();
        ensure!(failures == 1, "{failures} events of one kind");
        Ok(())
    })
}

#[test]
fn a_pod_made_for_a_sandbox_and_one_evicted_are_told_of_and_a_pooled_life_writes_no_event() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "ev-life").await?;
        let made = scene.pool(&pool("p", capacity(1, 1, 4))).await?;
        let namespace = made.namespace().unwrap_or_default();
        let events = events(stage, &namespace);
        scene.runs(&claim("pooled", "p")).await?;
        let pooled = scene.claims.get("pooled").await?;
        scene.end("pooled").await?;
        until_gone(&scene.claims, "pooled", &pooled.uid().unwrap_or_default(), SOON).await?;
        let settled = |pool: &Pool| pool.status.as_ref().is_some_and(|it| it.available == 1 && it.allocated == 0);
        until(&scene.pools, "p", "settled", SOON, settled).await?;

        scene.runs(&own("own", 1)).await?;
        let selector = format!("{}={},{}=true", labels::POOL_UID, made.uid().unwrap_or_default(), labels::WARM);
        let warm = until_all(&scene.pods, &selector, "one warm Pod", SOON, |all| all.len() == 1).await?;
        let evicted = warm.into_keys().next().unwrap();
        edit(&scene.pods, &evicted, json!({ "metadata": { "labels": { labels::EVICT: "true" } } })).await?;
        // The writer is one and in order: after these two nothing older comes.
        until_all(&events, "", "both are told", SOON, |all| {
            all.values().any(|event| is(event, "BatchSandbox", "own", "SuccessfulCreate"))
                && all.values().any(|event| is(event, "Pool", "p", "PodEvicted"))
        })
        .await?;
        let all = events.list(&ListParams::default()).await?.items;
        let told: Vec<_> = all
            .iter()
            .filter(|event| event.regarding.as_ref().and_then(|it| it.name.as_deref()) == Some("pooled"))
            .collect();
        ensure!(told.is_empty(), "a pooled sandbox was told of: {told:?}");
        Ok(())
    })
}
