//! How many Pods a Pool keeps, and what becomes of them when it goes.

use anyhow::ensure;
use kube::ResourceExt;
use kube::api::{DeleteParams, PropagationPolicy};
use sandbox_api::{ConditionType, Reason};
use sandbox_e2e::objects::{capacity, claim, condition, pods_of, pool};
use sandbox_e2e::scene::{SOON, Scene, edit, is_ending, is_warm};
use sandbox_e2e::{Outcome, on_stage, until, until_all, until_gone};
use serde_json::json;

#[test]
fn a_pool_scales_up_on_demand_and_down_to_buffer_max() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "scale").await?;
        let made = scene.pool(&pool("p", capacity(2, 4, 20))).await?;
        let pods = scene.until_pods(&made, "two Pods", |pods| pods.len() == 2).await?;
        ensure!(pods.values().all(is_warm));

        let claims: Vec<_> = (0..6).map(|number| claim(&format!("c{number}"), "p")).collect();
        scene.claim_all(&claims).await?;
        for claim in &claims {
            scene.until_runs(&claim.name_any()).await?;
        }
        // 6 held and bufferMin again.
        let pool = scene
            .until_pool("p", "six held, two idle", |status| status.allocated == 6 && status.available == 2)
            .await?;
        scene.until_pods(&pool, "eight Pods", |pods| pods.len() == 8).await?;

        // More idle than bufferMax: the surplus goes, bufferMax stays.
        edit(&scene.pools, "p", json!({ "spec": { "capacitySpec": { "bufferMin": 9, "bufferMax": 9 } } })).await?;
        scene.until_pool("p", "nine idle", |status| status.available == 9).await?;
        edit(&scene.pools, "p", json!({ "spec": { "capacitySpec": { "bufferMin": 1, "bufferMax": 3 } } })).await?;
        scene.until_pool("p", "three idle", |status| status.available == 3 && status.total == 9).await?;
        let pods = scene.until_pods(&pool, "nine Pods", |pods| pods.len() == 9).await?;
        ensure!(pods.values().filter(|pod| is_warm(pod)).count() == 3);

        // The sandboxes' Pods were not touched by any of it, and go with their sandboxes.
        for claim in &claims {
            let now = scene.claims.get(&claim.name_any()).await?;
            for (name, uid) in pods_of(&now) {
                ensure!(pods.get(&name).is_some_and(|pod| pod.uid().as_deref() == Some(&uid)), "{name} is gone");
            }
            scene.end(&claim.name_any()).await?;
        }
        scene.until_pods(&pool, "three Pods", |pods| pods.len() == 3 && pods.values().all(is_warm)).await?;
        scene.until_pool("p", "none held", |status| status.allocated == 0 && status.total == 3).await?;
        Ok(())
    })
}

#[test]
fn a_pool_never_has_more_pods_than_pool_max() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "max").await?;
        let made = scene.pool(&pool("p", capacity(1, 2, 3))).await?;
        let claims: Vec<_> = (0..5).map(|number| claim(&format!("c{number}"), "p")).collect();
        scene.claim_all(&claims).await?;
        let mut deliveries = scene.deliveries();
        deliveries.until_running(3, SOON).await?;
        // Two wait, and know why.
        let waits = |claim: &sandbox_api::BatchSandbox| {
            condition(claim, &ConditionType::PoolAllocationPending)
                .is_some_and(|condition| condition.reason == Some(Reason::PoolCapacityExhausted))
        };
        let all = until_all(&scene.claims, "", "two wait for poolMax", SOON, |all| {
            all.values().filter(|claim| waits(claim)).count() == 2
        })
        .await?;
        scene.until_pods(&made, "three Pods", |pods| pods.len() == 3).await?;
        let running: Vec<String> =
            all.iter().filter(|(_, claim)| !pods_of(claim).is_empty()).map(|(name, _)| name.clone()).collect();
        ensure!(running.len() == 3, "{running:?}");
        for name in running.iter().take(2) {
            scene.end(name).await?;
        }
        deliveries.until_running(5, SOON).await?;
        scene.until_pods(&made, "three Pods again", |pods| pods.len() == 3).await?;
        deliveries.check()
    })
}

#[test]
fn an_empty_pool_starts_a_sandbox_on_demand() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "zero").await?;
        let made = scene.pool(&pool("p", capacity(0, 0, 3))).await?;
        let empty = scene.until_pool("p", "ready at zero", |status| {
            status.conditions.iter().any(|each| each.type_ == ConditionType::Ready && each.status.as_str() == "True")
        });
        ensure!(empty.await?.status.is_some_and(|status| status.total == 0));
        scene.claim(&claim("c", "p")).await?;
        // A cold start is not a refusal: the claim never says that the Pool is exhausted.
        let mut refused = false;
        until(&scene.claims, "c", "runs", SOON, |claim| {
            refused |= condition(claim, &ConditionType::PoolAllocationPending).is_some();
            sandbox_e2e::objects::runs(claim)
        })
        .await?;
        ensure!(!refused, "a cold start from zero was shown as PoolAllocationPending");
        scene.end("c").await?;
        scene.until_pods(&made, "empty again", std::collections::BTreeMap::is_empty).await?;
        Ok(())
    })
}

#[test]
fn a_pool_deleted_under_live_sandboxes_ends_none_of_them() -> Outcome {
    on_stage(async |stage| {
        for policy in [PropagationPolicy::Background, PropagationPolicy::Foreground, PropagationPolicy::Orphan] {
            let scene = Scene::set(stage, "pool-gone").await?;
            let made = scene.pool(&pool("p", capacity(2, 2, 5))).await?;
            for name in ["a", "b", "c"] {
                scene.claim(&claim(name, "p")).await?;
                scene.until_runs(name).await?;
            }
            scene.until_pods(&made, "five Pods", |pods| pods.len() == 5).await?;
            let how = DeleteParams { propagation_policy: Some(policy.clone()), ..DeleteParams::default() };
            scene.pools.delete("p", &how).await?;
            // A claim that comes too late for this Pool.
            scene.claim(&claim("late", "p")).await?;

            let left = scene.until_pods(&made, "only the sandboxes' Pods are left", |pods| pods.len() == 3).await?;
            ensure!(!left.values().any(is_ending), "{policy:?}: a sandbox's Pod is ending");
            for name in ["a", "b", "c"] {
                let claim = scene.until_runs(name).await?;
                for (pod, uid) in pods_of(&claim) {
                    ensure!(left.get(&pod).is_some_and(|pod| pod.uid().as_deref() == Some(&uid)), "{name} lost {pod}");
                }
            }
            until(&scene.claims, "late", "says that its Pool is gone", SOON, |claim| {
                condition(claim, &ConditionType::Ready)
                    .is_some_and(|it| matches!(it.reason, Some(Reason::PoolGone | Reason::PoolNotFound)))
            })
            .await?;

            // They live on as any sandbox does: their end ends their Pods.
            let (pod, uid) = pods_of(&scene.claims.get("a").await?).remove(0);
            scene.end("a").await?;
            until_gone(&scene.pods, &pod, &uid, SOON).await?;
        }
        Ok(())
    })
}
