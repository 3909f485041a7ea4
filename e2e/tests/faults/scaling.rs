//! Replicas that are lowered and raised again while the writes for it take their time.

use std::time::Duration;

use anyhow::{Context, ensure};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use sandbox_e2e::faults::{Fault, FaultProxy, Scope, Verb, Weather};
use sandbox_e2e::objects::{own, pods_of};
use sandbox_e2e::operator::OperatorOptions;
use sandbox_e2e::scene::{SOON, Scene, is_ending};
use sandbox_e2e::{Operator, Outcome, StageOptions, on_own_stage};
use serde_json::json;
use tokio::time::{sleep, timeout};

/// How long what un-names and ends Pods is on its way.
const LATE: Duration = Duration::from_secs(2);

#[test]
fn a_sandbox_scaled_down_and_up_again_at_once_keeps_its_pods() -> Outcome {
    let stage = StageOptions { operator: false, ..StageOptions::named("down-and-up") };
    on_own_stage(stage, async |stage| {
        let scene = Scene::set(stage, "down-and-up").await?;
        let direct = stage.plane().dir().join("operator.kubeconfig");
        let proxy = FaultProxy::start("operator", &direct, 1).await?;
        let mut operator = Operator::start(&OperatorOptions::new(proxy.kubeconfig(), stage.logs())).await?;
        scene.claim(&own("c", 2)).await?;
        let before = pods_of(&scene.until_runs("c").await?);
        ensure!(before.len() == 2, "{before:?}");

        let writes = Scope::of(&[Verb::Delete, Verb::Patch], &["pods", "batchsandboxes/status"]);
        proxy.set(Weather::of(writes, 100, Fault::Late(LATE, LATE)));
        let to = async |replicas: i32| {
            let patch = json!({ "spec": { "replicas": replicas } });
            scene.claims.patch("c", &PatchParams::default(), &Patch::Merge(&patch)).await
        };
        to(0).await?;
        let sent = async {
            while proxy.counts().1.values().sum::<u64>() == 0 {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(SOON, sent).await.context("nothing was written for the lowered replicas")?;
        to(2).await?;
        // The time that the first writes take is the scenario itself.
        sleep(LATE).await;
        proxy.heal();
        scene.until_runs("c").await?;
        for (name, uid) in before {
            let pod = scene.pods.get_opt(&name).await?;
            let kept = pod.is_some_and(|pod| pod.uid().as_ref() == Some(&uid) && !is_ending(&pod));
            ensure!(kept, "{name} ({uid}) was wanted again and is gone");
        }
        operator.program().check()
    })
}
