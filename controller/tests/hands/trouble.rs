//! An API server that goes away, and users who mean harm.

use anyhow::ensure;
use kube::api::PostParams;
use sandbox_cluster::Stop;
use sandbox_e2e::objects::{capacity, claim, own, pool};
use sandbox_e2e::scene::{SOON, Scene};
use sandbox_e2e::{Outcome, StageOptions, on_own_stage, on_stage, until_gone};
use serde_json::json;

#[test]
fn an_api_server_that_restarts_costs_no_sandbox() -> Outcome {
    on_own_stage(StageOptions::named("api-server"), async |stage| {
        let scene = Scene::set(stage, "restart").await?;
        scene.pool(&pool("p", capacity(5, 5, 20))).await?;
        let (pod, uid) = scene.runs(&claim("before", "p")).await?;
        stage.plane().stop_api_server(Stop::Hard).await;
        stage.plane().start_api_server().await?;
        let (_, given) = scene.runs(&claim("after", "p")).await?;
        ensure!(given != uid);
        ensure!(scene.still_runs("before").await? == (pod, uid));
        Ok(())
    })
}

#[test]
fn a_template_nested_too_deep_harms_nobody_else() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "deep").await?;
        scene.pool(&pool("p", capacity(1, 1, 3))).await?;
        let mut deep = own("deep", 1);
        let nested = (0..300).fold(json!(1), |inner, _| json!({ "x": inner }));
        deep.spec.template =
            Some(json!({ "spec": { "containers": [{ "name": "a", "image": "b" }] }, "nested": nested }));
        // The API server takes it; the test's own client cannot read its answer.
        let answer = scene.claims.create(&PostParams::default(), &deep).await;
        ensure!(matches!(answer, Err(kube::Error::SerdeError(_))), "{answer:?}");
        scene.runs(&claim("c", "p")).await?;
        Ok(())
    })
}

#[test]
fn a_claim_deleted_while_it_waits_leaves_nothing_behind() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "gone").await?;
        scene.pool(&pool("p", capacity(1, 1, 2))).await?;
        for round in 0..10 {
            let name = format!("c{round}");
            let made = scene.claims.create(&PostParams::default(), &claim(&name, "p")).await?;
            scene.end(&name).await?;
            until_gone(&scene.claims, &name, &made.metadata.uid.unwrap_or_default(), SOON).await?;
        }
        // Both of its Pods can be had at once: no grant is stuck.
        let mut both = claim("both", "p");
        both.spec.replicas = 2;
        scene.runs(&both).await?;
        Ok(())
    })
}
