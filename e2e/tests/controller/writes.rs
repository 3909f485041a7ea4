//! What a claim costs the API server, by its own counters.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use kube::Resource;
use kube::api::DeleteParams;
use sandbox_cluster::{PlaneOptions, Storage};
use sandbox_e2e::objects::{capacity, claim, pool};
use sandbox_e2e::requests::Requests;
use sandbox_e2e::scene::Scene;
use sandbox_e2e::{Outcome, Stage, StageOptions, figure, on_own_stage};
use serde_json::json;

use crate::budget::Ledger;

const CLAIMS: u32 = 20;
const BUFFER: i32 = 10;

/// Rows of the write budget: refill included, the kubelet's own writes not counted.
pub const SERIAL: &str = "one claim on a warm Pool";
pub const BURST: &str = "one of many claims at once";
/// With its Pod's end by collector and kubelet.
pub const LIFE: &str = "one claim from POST to its end";

/// A Pool whose Pods are bound from the start, so that every write to `pods` but one is ours.
fn warm_pool() -> sandbox_api::Pool {
    let mut pool = pool("p", capacity(BUFFER, BUFFER, 200));
    if let Some(template) = &mut pool.spec.template {
        template["spec"]["nodeName"] = json!("stand-in-0");
    }
    pool
}

async fn counted(stage: &Stage) -> Result<Requests> {
    Ok(Requests::read(&stage.plane().metrics().await?))
}

/// Until nothing is left to do for the claims so far.
async fn quiet(scene: &Scene, held: i32) -> Result<()> {
    scene
        .until_pool("p", "settled", |status| {
            status.grants.is_empty() && status.allocated == held && status.available == BUFFER
        })
        .await?;
    Ok(())
}

#[test]
fn a_claim_costs_at_most_6_5_writes_and_5_3_in_a_burst() -> Outcome {
    let mut options = StageOptions::named("writes");
    options.plane = PlaneOptions { storage: Storage::Disk, ..PlaneOptions::default() };
    on_own_stage(options, async |stage| {
        let scene = Scene::set(stage, "writes").await?;
        scene.pool(&warm_pool()).await?;
        // One before the count: connections, caches, the first status.
        scene.claim(&claim("first", "p")).await?;
        scene.until_runs("first").await?;
        quiet(&scene, 1).await?;

        let before = counted(stage).await?;
        for number in 0..CLAIMS {
            scene.claim(&claim(&format!("c{number}"), "p")).await?;
            scene.until_runs(&format!("c{number}")).await?;
        }
        quiet(&scene, 1 + i32::try_from(CLAIMS)?).await?;
        let cost = counted(stage).await?.since(&before);
        let mut ledger = Ledger::default();
        let serial = table("one after the other", &cost);
        ledger.enter(SERIAL, serial)?;

        let before = counted(stage).await?;
        let claims: Vec<_> = (0..CLAIMS).map(|number| claim(&format!("b{number}"), "p")).collect();
        let mut deliveries = scene.deliveries();
        scene.claim_all(&claims).await?;
        deliveries.until_running(1 + 2 * CLAIMS as usize, sandbox_e2e::scene::SOON).await?;
        quiet(&scene, 1 + 2 * i32::try_from(CLAIMS)?).await?;
        ledger.enter(BURST, table("all at once", &counted(stage).await?.since(&before)))?;

        let before = counted(stage).await?;
        for number in 0..CLAIMS {
            scene.claims.delete(&format!("c{number}"), &DeleteParams::default()).await?;
        }
        quiet(&scene, 1 + i32::try_from(CLAIMS)?).await?;
        ledger.enter(LIFE, serial + table("their ends", &counted(stage).await?.since(&before)))?;
        ledger.close()?;
        ensure!(scene.claims.get("first").await?.meta().deletion_timestamp.is_none());
        Ok(())
    })
}

fn steps() -> BTreeMap<&'static str, &'static str> {
    BTreeMap::from([
        ("POST batchsandboxes", "the client's own"),
        ("PATCH pools/status", "commit, and settle behind the last"),
        ("PATCH batchsandboxes/status", "deliver"),
        ("PATCH pods", "adopt"),
        ("POST pods", "refill"),
        ("DELETE batchsandboxes", "the client's own"),
        ("DELETE pods", "garbage collector and kubelet"),
        ("PATCH pods/status", "the kubelet's"),
    ])
}

/// Prints what each claim cost and returns how many writes of that are ours.
fn table(what: &str, cost: &Requests) -> f64 {
    let each = |count: u64| count as f64 / f64::from(CLAIMS);
    figure!("\n{CLAIMS} claims from a warm Pool, {what}; per claim:");
    let mut ours = 0.0;
    for (request, count) in &cost.0 {
        if !request.is_write() {
            continue;
        }
        let mark = if request.is_for_claims() { "" } else { "(not counted) " };
        let name = request.to_string();
        figure!("  {:6.2}  {name:30} {mark}{}", each(*count), steps().get(name.as_str()).unwrap_or(&""));
        if request.is_for_claims() {
            ours += each(*count);
        }
    }
    figure!("  {ours:6.2}  writes, the client's own among them");
    let reads: Vec<String> = cost
        .0
        .iter()
        .filter(|(request, _)| matches!(request.verb.as_str(), "GET" | "LIST"))
        .map(|(request, count)| format!("{request} {count}"))
        .collect();
    figure!("  reads by everybody in all: {}", reads.join(", "));
    ours
}
