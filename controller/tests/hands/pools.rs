//! Templates that change, and templates that cannot start.

use anyhow::{Context, ensure};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use sandbox_api::{ConditionStatus, Pool, labels};
use sandbox_e2e::objects::{capacity, claim, pool};
use sandbox_e2e::scene::{SOON, Scene, edit};
use sandbox_e2e::{Outcome, on_stage, until, until_all};
use serde_json::json;

#[test]
fn a_new_template_replaces_warm_pods_and_never_a_held_one() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "roll").await?;
        let made = scene.pool(&pool("p", capacity(3, 3, 9))).await?;
        let (held, uid) = scene.runs(&claim("c", "p")).await?;
        edit(&scene.pools, "p", json!({ "spec": { "template": { "metadata": { "labels": { "version": "two" } } } } }))
            .await?;
        let selector = format!("{}={},{}=true", labels::POOL_UID, made.uid().unwrap_or_default(), labels::WARM);
        until_all(&scene.pods, &selector, "three of the new template", SOON, |all| {
            all.len() == 3 && all.values().all(|pod| pod.labels().contains_key("version"))
        })
        .await?;
        ensure!(scene.still_runs("c").await? == (held, uid));
        let full =
            |pool: &Pool| pool.status.as_ref().is_some_and(|status| status.available == 3 && status.updated == 3);
        until(&scene.pools, "p", "all updated", SOON, full).await?;
        Ok(())
    })
}

#[test]
fn a_template_that_the_cluster_refuses_is_a_condition_and_its_correction_heals() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "refused").await?;
        let mut wanted = pool("p", capacity(1, 1, 3));
        wanted.spec.template = Some(json!({ "spec": { "containers": [{ "name": "Not A Name", "image": "x" }] } }));
        scene.pools.create(&kube::api::PostParams::default(), &wanted).await?;
        let refused = |pool: &Pool| {
            let conditions = pool.status.iter().flat_map(|status| &status.conditions);
            conditions.clone().any(|it| {
                it.status == ConditionStatus::False
                    && it.message.as_ref().is_some_and(|text| text.contains("Not A Name"))
            })
        };
        until(&scene.pools, "p", "says what is refused", SOON, refused).await?;
        edit(&scene.pools, "p", json!({ "spec": { "template": sandbox_e2e::objects::template() } })).await?;
        scene.until_available("p", 1).await?;
        Ok(())
    })
}

#[test]
fn a_pool_that_another_process_took_is_taken_back_before_it_serves_again() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "taken").await?;
        let made = scene.pool(&pool("p", capacity(2, 2, 9))).await?;
        let (_, first) = scene.runs(&claim("a", "p")).await?;
        let before = made.status.and_then(|status| status.holder).context("no holder")?;
        let other = json!({ "status": { "holder": "1/another" } });
        scene.pools.patch_status("p", &PatchParams::default(), &Patch::Merge(other)).await?;
        let (_, second) = scene.runs(&claim("b", "p")).await?;
        ensure!(first != second);
        let holder = scene.pools.get("p").await?.status.and_then(|status| status.holder).context("no holder")?;
        // A new token: what the old one proved proves nothing any more.
        ensure!(holder != before && holder.starts_with(&before), "{before} then {holder}");
        ensure!(scene.still_runs("a").await?.1 == first);
        Ok(())
    })
}

#[test]
fn an_anchor_deleted_by_hand_is_made_again_and_the_pool_fills() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "anchor").await?;
        let made = scene.pool(&pool("p", capacity(2, 2, 9))).await?;
        let (held, uid) = scene.runs(&claim("a", "p")).await?;
        let full = scene.until_available("p", 2).await?;
        let revision = full.status.map(|status| status.revision).context("no revision")?;
        let anchors: Api<ControllerRevision> = Api::namespaced(stage.admin(), &made.namespace().unwrap_or_default());
        let name = sandbox_api::child_names::pool_anchor("p", &made.uid().unwrap_or_default(), &revision);
        let lost = anchors.get(&name).await?;
        anchors.delete(&name, &kube::api::DeleteParams::background()).await?;
        until(&anchors, &name, "made again", SOON, |anchor: &ControllerRevision| anchor.uid() != lost.uid()).await?;
        let anchor = anchors.get(&name).await?.uid();
        let selector = format!("{}={},{}=true", labels::POOL_UID, made.uid().unwrap_or_default(), labels::WARM);
        until_all(&scene.pods, &selector, "two that the new anchor owns", SOON, |all| {
            let owned = |pod: &Pod| pod.owner_references().iter().any(|owner| Some(&owner.uid) == anchor.as_ref());
            all.values().filter(|pod| pod.metadata.deletion_timestamp.is_none() && owned(pod)).count() == 2
        })
        .await?;
        ensure!(scene.still_runs("a").await? == (held, uid));
        Ok(())
    })
}
