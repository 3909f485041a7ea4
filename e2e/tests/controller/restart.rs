//! An operator that dies in the middle of work.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use sandbox_api::Moment;
use sandbox_e2e::objects::{after, capacity, claim, own, pods_of, pool, runs};
use sandbox_e2e::scene::{SOON, Scene, is_ending, is_warm};
use sandbox_e2e::{Outcome, StageOptions, figure, on_own_stage, until_all};
use serde_json::json;

/// The dead operator's Lease has to run out first.
const TAKEOVER: Duration = Duration::from_secs(60);

#[test]
fn a_restart_in_the_middle_of_work_loses_nothing() -> Outcome {
    on_own_stage(StageOptions::named("restart"), async |stage| {
        let scene = Scene::set(stage, "restart").await?;
        let made = scene.pool(&pool("p", capacity(20, 25, 100))).await?;
        let mut deliveries = scene.deliveries();
        let claims: Vec<_> = (0..60).map(|number| claim(&format!("c{number}"), "p")).collect();
        let (first, rest) = claims.split_at(20);
        let load = async {
            scene.claim_all(first).await?;
            scene.claim_all(rest).await
        };
        let killed = async {
            // In the middle: some are served, many wait, grants and adoptions are under way.
            deliveries.until_running(15, SOON).await?;
            stage.kill_operator().await;
            Ok::<_, anyhow::Error>(deliveries.running().len())
        };
        let (made_claims, at_death) = tokio::try_join!(load, killed)?;
        ensure!(made_claims.len() == 40);
        figure!("killed with {at_death} of 60 claims running");
        let begun = Instant::now();
        stage.start_operator().await?;
        deliveries.until_running(60, TAKEOVER).await?;
        figure!("all 60 run {:?} after the start of the next operator", begun.elapsed());
        ensure!(deliveries.pods() == 60, "{} Pods were delivered to 60 claims", deliveries.pods());

        // Nothing is left over: every Pod is somebody's or clean, and the ledger drains.
        scene
            .until_pool("p", "the ledger is empty, the buffer full", |status| {
                status.grants.is_empty()
                    && status.retiring.is_empty()
                    && status.allocated == 60
                    && status.available >= 20
            })
            .await?;
        let pods = scene
            .until_pods(&made, "60 held, the buffer clean", |pods| {
                let warm = pods.values().filter(|pod| is_warm(pod)).count();
                (20..=25).contains(&warm) && pods.len() == 60 + warm
            })
            .await?;
        let all = until_all(&scene.claims, "", "60 claims", SOON, |all| all.len() == 60).await?;
        for (name, uid) in all.values().flat_map(pods_of) {
            let pod = pods.get(&name).filter(|pod| pod.uid().as_deref() == Some(&uid));
            ensure!(pod.is_some_and(|pod| !is_ending(pod)), "{name} was delivered and is gone");
        }
        deliveries.check()
    })
}

#[test]
fn a_second_operator_takes_over_when_the_first_ends() -> Outcome {
    on_own_stage(StageOptions::named("handover"), async |stage| {
        let scene = Scene::set(stage, "handover").await?;
        scene.pool(&pool("p", capacity(2, 2, 20))).await?;
        scene.claim(&claim("before", "p")).await?;
        scene.until_runs("before").await?;
        if let Some(operator) = stage.operator().lock().await.as_mut() {
            operator.program().stop();
        }
        scene.claim(&claim("between", "p")).await?;
        let begun = Instant::now();
        stage.start_operator().await?;
        scene.until_runs("between").await?;
        // A clean end gives the Lease back: nobody waits for it to run out.
        let taken = begun.elapsed();
        figure!("served {taken:?} after the start of the next operator");
        ensure!(taken < Duration::from_secs(10), "the Lease was not given back: {taken:?}");
        scene.until_runs("before").await?;
        Ok(())
    })
}

#[test]
fn deadlines_that_pass_while_no_operator_runs_are_kept_and_renewals_hold() -> Outcome {
    on_own_stage(StageOptions::named("deadlines"), async |stage| {
        let scene = Scene::set(stage, "deadlines").await?;
        for number in 0..10 {
            let mut claim = own(&format!("c{number}"), 1);
            claim.spec.expire_time = Some(after(Duration::from_secs(6)));
            scene.claim(&claim).await?;
        }
        let all =
            until_all(&scene.claims, "", "all run", SOON, |all| all.len() == 10 && all.values().all(runs)).await?;
        stage.kill_operator().await;
        // Half of them are renewed while nobody watches, after their deadline.
        let last = all.values().filter_map(|claim| claim.spec.expire_time.as_ref()).map(Moment::at).max();
        let wait = last.context("no deadline")?.duration_since(Timestamp::now());
        tokio::time::sleep(Duration::try_from(wait).unwrap_or_default()).await;
        for number in 0..5 {
            let later = json!({ "spec": { "expireTime": after(Duration::from_secs(3_600)) } });
            scene.claims.patch(&format!("c{number}"), &PatchParams::default(), &Patch::Merge(&later)).await?;
        }
        stage.start_operator().await?;
        let left = until_all(&scene.claims, "", "the others have ended", TAKEOVER, |all| all.len() == 5).await?;
        ensure!(left.keys().eq(["c0", "c1", "c2", "c3", "c4"]), "{:?}", left.keys());
        for (name, uid) in left.values().flat_map(pods_of) {
            let pod = scene.pods.get(&name).await?;
            ensure!(pod.uid() == Some(uid) && !is_ending(&pod), "{name} belongs to a renewed sandbox and is ending");
        }
        Ok(())
    })
}
