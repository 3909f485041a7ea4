//! Pods whose marks people change, and Pods that come back.

use anyhow::ensure;
use kube::ResourceExt;
use sandbox_api::pool::RecycleStrategy;
use sandbox_api::{RecycleType, labels};
use sandbox_e2e::objects::{capacity, claim, pool};
use sandbox_e2e::scene::{SOON, Scene, edit};
use sandbox_e2e::{Outcome, on_stage, until, until_gone};
use serde_json::json;

#[test]
fn a_sandbox_whose_pod_was_stripped_of_its_marks_keeps_it_and_the_marks_return() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "strip").await?;
        scene.pool(&pool("p", capacity(1, 1, 3))).await?;
        let (pod, uid) = scene.runs(&claim("c", "p")).await?;
        scene.pod(&pod, "adopted", |pod| pod.labels().contains_key(labels::CLAIM_UID)).await?;
        let strip = json!({ "metadata": { "ownerReferences": [], "labels": {
            labels::CLAIM_UID: null, labels::CLAIM_INDEX: null, labels::MANAGED_BY: null } } });
        edit(&scene.pods, &pod, strip).await?;
        let back = |pod: &k8s_openapi::api::core::v1::Pod| {
            pod.labels().contains_key(labels::CLAIM_UID)
                && pod.labels().contains_key(labels::MANAGED_BY)
                && pod.owner_references().len() == 1
        };
        let pod = scene.pod(&pod, "marked again", back).await?;
        ensure!(pod.uid() == Some(uid.clone()));
        ensure!(scene.still_runs("c").await?.1 == uid, "the sandbox lost its Pod");
        Ok(())
    })
}

#[test]
fn a_warm_pod_that_lost_the_operators_label_is_never_given_out() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "unlabelled").await?;
        let made = scene.pool(&pool("p", capacity(1, 1, 3))).await?;
        let selector = format!("{}={}", labels::POOL_UID, made.uid().unwrap_or_default());
        let all = sandbox_e2e::until_all(&scene.pods, &selector, "one warm Pod", SOON, |all| all.len() == 1).await?;
        let (name, warm) = all.into_iter().next().unwrap();
        edit(&scene.pods, &name, json!({ "metadata": { "labels": { labels::MANAGED_BY: null } } })).await?;
        let uid = warm.uid().unwrap_or_default();
        until_gone(&scene.pods, &name, &uid, SOON).await?;
        let (_, given) = scene.runs(&claim("c", "p")).await?;
        ensure!(given != uid);
        Ok(())
    })
}

#[test]
fn a_pod_marked_for_eviction_is_replaced_and_a_held_one_is_left_alone() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "evict").await?;
        let made = scene.pool(&pool("p", capacity(1, 1, 4))).await?;
        let (held, held_uid) = scene.runs(&claim("c", "p")).await?;
        scene.until_available("p", 1).await?;
        let selector = format!("{}={},{}=true", labels::POOL_UID, made.uid().unwrap_or_default(), labels::WARM);
        let all = sandbox_e2e::until_all(&scene.pods, &selector, "one warm Pod", SOON, |all| all.len() == 1).await?;
        let (warm, pod) = all.into_iter().next().unwrap();
        let mark = || json!({ "metadata": { "labels": { labels::EVICT: "true" } } });
        edit(&scene.pods, &held, mark()).await?;
        edit(&scene.pods, &warm, mark()).await?;
        until_gone(&scene.pods, &warm, &pod.uid().unwrap_or_default(), SOON).await?;
        scene.until_available("p", 1).await?;
        ensure!(scene.still_runs("c").await?.1 == held_uid);
        Ok(())
    })
}

#[test]
fn a_pod_of_a_pool_that_recycles_as_is_serves_the_next_sandbox() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "noop").await?;
        let mut wanted = pool("p", capacity(0, 1, 1));
        wanted.spec.recycle_strategy = Some(RecycleStrategy { type_: Some(RecycleType::Noop) });
        scene.pool(&wanted).await?;
        let (pod, first) = scene.runs(&claim("a", "p")).await?;
        scene.pod(&pod, "adopted", |pod| pod.labels().contains_key(labels::CLAIM_UID)).await?;
        scene.end("a").await?;
        scene.pod(&pod, "clean again", |pod| pod.labels().contains_key(labels::WARM)).await?;
        let (_, second) = scene.runs(&claim("b", "p")).await?;
        ensure!(first == second, "the Pod was not handed back");
        Ok(())
    })
}

#[test]
fn a_claim_that_shrinks_releases_its_last_pods_and_keeps_the_others() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "shrink").await?;
        scene.pool(&pool("p", capacity(3, 3, 9))).await?;
        let mut wanted = claim("c", "p");
        wanted.spec.replicas = 3;
        let (_, kept) = scene.runs(&wanted).await?;
        let claim = scene.claims.get("c").await?;
        let named = sandbox_e2e::objects::pods_of(&claim);
        for (name, _) in &named {
            scene.pod(name, "adopted", |pod| pod.labels().contains_key(labels::CLAIM_UID)).await?;
        }
        edit(&scene.claims, "c", json!({ "spec": { "replicas": 1 } })).await?;
        for (name, uid) in named.iter().skip(1) {
            until_gone(&scene.pods, name, uid, SOON).await?;
        }
        until(&scene.claims, "c", "one Pod is named", SOON, |claim| sandbox_e2e::objects::pods_of(claim).len() == 1)
            .await?;
        ensure!(scene.still_runs("c").await?.1 == kept);
        Ok(())
    })
}
