//! The older operator's annotations.

use anyhow::{Context, ensure};
use kube::ResourceExt;
use sandbox_api::annotations::{ALLOC_STATUS, ENDPOINTS};
use sandbox_e2e::objects::{capacity, claim, pool, runs};
use sandbox_e2e::scene::{SOON, Scene};
use sandbox_e2e::{Outcome, StageOptions, on_own_stage, until};
use serde_json::Value;

fn with(mode: &str) -> StageOptions {
    let mut options = StageOptions::named(&format!("compat-{mode}"));
    options.operator_args = vec![format!("--compat-annotations={mode}")];
    options
}

#[test]
fn annotations_come_before_the_status_where_that_is_asked_for() -> Outcome {
    on_own_stage(with("before"), async |stage| {
        let scene = Scene::set(stage, "before").await?;
        scene.pool(&pool("p", capacity(1, 1, 3))).await?;
        let (pod, _) = scene.runs(&claim("c", "p")).await?;
        // The very version that runs has them.
        let seen = until(&scene.claims, "c", "runs", SOON, runs).await?;
        let endpoints = seen.annotations().get(ENDPOINTS).context("no endpoints")?;
        let addresses: Vec<String> = serde_json::from_str(endpoints)?;
        ensure!(addresses.len() == 1 && !addresses[0].is_empty(), "{endpoints}");
        let status: Value = serde_json::from_str(seen.annotations().get(ALLOC_STATUS).context("no alloc-status")?)?;
        ensure!(status["pods"] == serde_json::json!([pod]), "{status}");
        Ok(())
    })
}

#[test]
fn annotations_follow_the_status_where_that_is_asked_for() -> Outcome {
    on_own_stage(with("after"), async |stage| {
        let scene = Scene::set(stage, "after").await?;
        scene.pool(&pool("p", capacity(1, 1, 3))).await?;
        scene.runs(&claim("c", "p")).await?;
        let annotated = |claim: &sandbox_api::BatchSandbox| claim.annotations().contains_key(ENDPOINTS);
        until(&scene.claims, "c", "annotated", SOON, annotated).await?;
        Ok(())
    })
}
