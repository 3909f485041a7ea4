//! What becomes of BatchSandboxes and Sandboxes.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy};
use sandbox_api::{BatchSandbox, ConditionStatus, ConditionType, Reason, Sandbox, SandboxPhase, SandboxSpec, labels};
use sandbox_e2e::objects::{capacity, claim, condition, own, pods_of, pool, runs, template};
use sandbox_e2e::scene::{SOON, Scene};
use sandbox_e2e::{Outcome, alone_on_stage, figure, on_stage, until, until_gone};
use serde_json::json;

#[test]
fn no_pod_is_delivered_twice_under_100_concurrent_claims() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "hundred").await?;
        let mut deliveries = scene.deliveries();
        let made = scene.pool(&pool("p", capacity(50, 60, 120))).await?;
        let claims: Vec<_> = (0..100).map(|number| claim(&format!("c{number}"), "p")).collect();
        let begun = Instant::now();
        scene.claim_all(&claims).await?;
        deliveries.until_running(100, SOON).await?;
        let last = deliveries.running().into_values().max().context("nobody runs")?;
        figure!("100 claims at once on a Pool of 50: the last one ran {:?} after the first POST", last - begun);
        ensure!(deliveries.pods() == 100, "{} Pods for 100 claims", deliveries.pods());

        // Each Pod was adopted by the claim that names it, and by no other.
        let pods = scene
            .until_pods(&made, "100 adopted Pods", |pods| {
                pods.values().filter(|pod| pod.labels().contains_key(labels::CLAIM_UID)).count() == 100
            })
            .await?;
        for claim in &claims {
            let claim = scene.claims.get(&claim.name_any()).await?;
            let (name, uid) = pods_of(&claim).pop().context("no Pod")?;
            let pod = pods.get(&name).with_context(|| format!("{name} is gone"))?;
            ensure!(pod.uid() == Some(uid));
            ensure!(pod.labels().get(labels::CLAIM_UID) == claim.uid().as_ref());
            ensure!(!pod.labels().contains_key(labels::WARM));
            ensure!(pod.owner_references().iter().any(|owner| Some(&owner.uid) == claim.uid().as_ref()));
        }
        deliveries.check()
    })
}

#[test]
fn a_batch_of_a_pool_gets_as_many_pods_as_it_asks_for() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "batch").await?;
        scene.pool(&pool("p", capacity(10, 10, 40))).await?;
        let mut wanted = claim("many", "p");
        wanted.spec.replicas = 25;
        scene.claim(&wanted).await?;
        let claim = scene.until_runs("many").await?;
        let status = claim.status.clone().context("no status")?;
        ensure!(status.ready == 25 && status.replicas == 25 && status.pods.len() == 25, "{status:?}");
        let mut uids: Vec<_> = pods_of(&claim).into_iter().map(|(_, uid)| uid).collect();
        uids.sort();
        uids.dedup();
        ensure!(uids.len() == 25);
        Ok(())
    })
}

#[test]
fn a_claim_on_an_unknown_pool_says_so_within_2_seconds_and_is_served_once_the_pool_exists() -> Outcome {
    alone_on_stage(async |stage| {
        let scene = Scene::set(stage, "unknown-pool").await?;
        scene.claim(&claim("c", "nope")).await?;
        let told = |claim: &BatchSandbox| {
            condition(claim, &ConditionType::Ready)
                .is_some_and(|it| it.status == ConditionStatus::False && it.reason == Some(Reason::PoolNotFound))
        };
        let claim = until(&scene.claims, "c", "PoolNotFound", Duration::from_secs(2), told).await?;
        let message = condition(&claim, &ConditionType::Ready).and_then(|it| it.message.clone()).unwrap_or_default();
        ensure!(message.contains("nope") && message.contains(&scene.namespace), "{message}");
        // Nothing else is done to it.
        scene.pool(&pool("nope", capacity(0, 1, 2))).await?;
        scene.until_runs("c").await?;
        Ok(())
    })
}

#[test]
fn a_claim_on_any_pool_is_given_one_that_fits_and_waits_for_it_if_there_is_none() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "any-pool").await?;
        let mut batch = claim("b", "*");
        batch.spec.template = Some(json!({ "spec": { "containers": [{ "name": "x", "image": "not-there:1" }] } }));
        let sandbox = Sandbox::new("s", SandboxSpec { pool_ref: Some("*".into()), ..SandboxSpec::default() });
        scene.pool(&pool("small", capacity(0, 0, 2))).await?;
        scene.claim(&batch).await?;
        scene.sandboxes.create(&PostParams::default(), &sandbox).await?;
        let told = |claim: &BatchSandbox| {
            let why = condition(claim, &ConditionType::Ready).and_then(|it| it.message.clone()).unwrap_or_default();
            why.contains("pool small: none of its containers has image not-there:1")
        };
        until(&scene.claims, "b", "the reason why no Pool fits", SOON, told).await?;
        let assigned = |sandbox: &Sandbox| {
            sandbox.spec.pool_ref.as_deref() == Some("small")
                && sandbox.status.as_ref().is_some_and(|status| status.phase == Some(SandboxPhase::Running))
        };
        until(&scene.sandboxes, "s", "a Pod of the one Pool there is", SOON, assigned).await?;

        let mut fits = pool("fits", capacity(0, 0, 2));
        fits.spec.template = batch.spec.template.clone();
        scene.pool(&fits).await?;
        let claim = scene.until_runs("b").await?;
        ensure!(claim.spec.pool_ref.as_deref() == Some("fits") && claim.spec.template.is_none(), "{:?}", claim.spec);
        Ok(())
    })
}

#[test]
fn a_batch_of_its_own_template_gets_a_pod_for_each_index_with_its_patch() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "own").await?;
        let mut wanted = own("b", 3);
        wanted.spec.shard_patches = Some(vec![
            json!({}),
            json!({ "metadata": { "labels": { "shard": "one" } }, "spec": { "hostname": "number-one" } }),
        ]);
        scene.claim(&wanted).await?;
        let claim = scene.until_runs("b").await?;
        let named = pods_of(&claim);
        ensure!(named.len() == 3);
        for (index, (name, uid)) in named.iter().enumerate() {
            let pod = scene.pods.get(name).await?;
            ensure!(pod.uid().as_ref() == Some(uid));
            ensure!(pod.labels().get(labels::BATCH_SANDBOX_POD_INDEX) == Some(&index.to_string()));
            ensure!(pod.labels().get("app").map(String::as_str) == Some("warm"), "the template's labels are kept");
            let hostname = pod.spec.as_ref().and_then(|spec| spec.hostname.as_deref());
            ensure!((hostname == Some("number-one")) == (index == 1), "index {index} has hostname {hostname:?}");
        }
        scene.end("b").await?;
        for (name, uid) in &named {
            until_gone(&scene.pods, name, uid, SOON).await?;
        }
        Ok(())
    })
}

#[test]
fn a_pod_whose_owner_was_stripped_still_ends_with_its_claim() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "stripped").await?;
        scene.pool(&pool("p", capacity(0, 0, 2))).await?;
        scene.claim(&own("template", 1)).await?;
        scene.claim(&claim("pooled", "p")).await?;
        for name in ["template", "pooled"] {
            let (pod, uid) = pods_of(&scene.until_runs(name).await?).pop().context("no Pod")?;
            let owner = scene.claims.get(name).await?.uid().context("no uid")?;
            let owned = |pod: &Pod| pod.owner_references().iter().any(|it| it.uid == owner);
            until(&scene.pods, &pod, "its owner", SOON, owned).await?;
            let strip = json!({ "metadata": { "ownerReferences": null } });
            scene.pods.patch(&pod, &PatchParams::default(), &Patch::Merge(strip)).await?;
            until(&scene.pods, &pod, "its owner again", SOON, owned).await?;

            // The collector strips the owner of what an orphaning deletion leaves behind.
            let orphan =
                DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
            scene.claims.delete(name, &orphan).await?;
            until_gone(&scene.pods, &pod, &uid, SOON).await?;
        }
        Ok(())
    })
}

#[test]
fn a_sandbox_runs_from_a_template_and_from_a_pool() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "sbx").await?;
        scene.pool(&pool("p", capacity(1, 1, 3))).await?;
        let from_pool = Sandbox::new("warm", SandboxSpec { pool_ref: Some("p".into()), ..SandboxSpec::default() });
        let from_template = Sandbox::new("cold", SandboxSpec { template: Some(template()), ..SandboxSpec::default() });
        for (sandbox, source) in [(from_pool, "pool/p"), (from_template, "template")] {
            let name = sandbox.name_any();
            scene.sandboxes.create(&PostParams::default(), &sandbox).await?;
            let runs = until(&scene.sandboxes, &name, "Running", SOON, |sandbox: &Sandbox| {
                sandbox
                    .status
                    .as_ref()
                    .is_some_and(|status| status.phase == Some(SandboxPhase::Running) && status.pod_ip.is_some())
            });
            let status = runs.await?.status.context("no status")?;
            ensure!(status.source.as_deref() == Some(source), "{:?}", status.source);
            ensure!(status.node_name.is_some(), "{status:?}");
            let (pod, uid) = (status.pod_name.context("no Pod")?, status.pod_uid.context("no uid")?);
            ensure!(scene.pods.get(&pod).await?.uid().as_ref() == Some(&uid));
            scene.sandboxes.delete(&name, &DeleteParams::default()).await?;
            until_gone(&scene.pods, &pod, &uid, SOON).await?;
        }
        Ok(())
    })
}

#[test]
fn a_claim_that_ends_takes_its_pod_with_it_and_the_pool_is_filled_again() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "end").await?;
        scene.pool(&pool("p", capacity(1, 1, 4))).await?;
        let mut last = None;
        for round in 0..5 {
            scene.claim(&claim("c", "p")).await?;
            let claim = scene.until_runs("c").await?;
            let (pod, uid) = pods_of(&claim).pop().context("no Pod")?;
            ensure!(last.as_ref() != Some(&uid), "round {round} got the Pod of the round before");
            scene.end("c").await?;
            until_gone(&scene.pods, &pod, &uid, SOON).await?;
            last = Some(uid);
        }
        scene.until_pool("p", "one idle", |status| status.available == 1 && status.total == 1).await?;
        Ok(())
    })
}

#[test]
fn a_lost_pod_fails_its_sandbox_with_the_cause_and_is_not_replaced_silently() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "lost").await?;
        scene.pool(&pool("p", capacity(1, 1, 4))).await?;
        scene.claim(&claim("c", "p")).await?;
        let (pod, _) = pods_of(&scene.until_runs("c").await?).pop().context("no Pod")?;
        scene.pods.delete(&pod, &DeleteParams::default()).await?;
        let failed = until(&scene.claims, "c", "says that its Pod was lost", SOON, |claim| {
            condition(claim, &ConditionType::PodFailed).is_some() && !runs(claim)
        });
        let failed = failed.await?;
        let why = condition(&failed, &ConditionType::PodFailed).and_then(|it| it.reason.clone());
        ensure!(why == Some(Reason::PodDeleted), "{why:?}");
        Ok(())
    })
}
