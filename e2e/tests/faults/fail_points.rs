//! An operator that is killed between two writes; the next leader finds what it left.

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use sandbox_api::ledger::{GrantedPod, PodRef};
use sandbox_api::{PoolStatus, labels};
use sandbox_e2e::faults::{Asked, Caught, FaultProxy, Moment, Verb};
use sandbox_e2e::objects::{capacity, claim, pods_of, pool};
use sandbox_e2e::operator::OperatorOptions;
use sandbox_e2e::scene::{SOON, Scene, edit, is_ending, is_warm};
use sandbox_e2e::{Operator, Outcome, Stage, StageOptions, figure, on_own_stage, until_all};
use serde_json::{Value, json};

/// The leader, through a proxy, and another operator that stands by.
struct Pair {
    proxy: FaultProxy,
    leader: Operator,
    standby: Operator,
}

impl Pair {
    async fn start(stage: &Stage) -> Result<Self> {
        let direct = stage.plane().dir().join("operator.kubeconfig");
        let proxy = FaultProxy::start("leader", &direct, 1).await?;
        let named = |name: &str, kubeconfig| OperatorOptions {
            name: name.into(),
            ..OperatorOptions::new(kubeconfig, stage.logs())
        };
        let leader = Operator::start(&named("leader", proxy.kubeconfig())).await?;
        let standby = Operator::start(&named("standby", &direct)).await?;
        Ok(Self { proxy, leader, standby })
    }

    /// Kills the leader when it has come to this request.
    async fn killed_at(&mut self, waiting: sandbox_e2e::faults::Waiting) -> Result<Caught> {
        let caught = tokio::time::timeout(SOON, waiting.caught()).await.context("the leader never came so far")??;
        self.leader.program().kill();
        figure!("the leader was killed at: {}", caught.asked);
        Ok(caught)
    }

    fn check(&mut self) -> Result<()> {
        self.standby.program().check()
    }
}

fn alone(name: &str) -> StageOptions {
    StageOptions { operator: false, ..StageOptions::named(name) }
}

fn list<'a>(body: &'a Value, field: &str) -> &'a [Value] {
    body["status"][field].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn commits(asked: &Asked) -> bool {
    asked.verb == Verb::Patch && asked.resource == "pools/status" && !list(&asked.json(), "grants").is_empty()
}

fn retires(asked: &Asked) -> bool {
    asked.verb == Verb::Patch && asked.resource == "pools/status" && !list(&asked.json(), "retiring").is_empty()
}

fn delivers(asked: &Asked) -> bool {
    let named = |slot: &Value| slot.as_str().is_some_and(|text| !text.is_empty() && !text.starts_with("lost:"));
    asked.verb == Verb::Patch
        && asked.resource == "batchsandboxes/status"
        && list(&asked.json(), "pods").iter().any(named)
}

fn deletes_a_pod(asked: &Asked) -> bool {
    asked.verb == Verb::Delete && asked.resource == "pods"
}

fn granted(status: &PoolStatus) -> BTreeSet<String> {
    let pods = status.grants.iter().flat_map(|grant| &grant.pods);
    pods.filter_map(|pod| pod.parse::<GrantedPod>().ok()).map(|granted| granted.pod.uid).collect()
}

fn retiring(status: &PoolStatus) -> BTreeSet<String> {
    status.retiring.iter().filter_map(|pod| pod.parse::<PodRef>().ok()).map(|pod| pod.uid).collect()
}

fn uids<'a>(pods: impl IntoIterator<Item = &'a (String, String)>) -> BTreeSet<String> {
    pods.into_iter().map(|(_, uid)| uid.clone()).collect()
}

#[test]
fn what_a_killed_leader_had_committed_is_delivered_by_the_next_to_whom_it_was_promised() -> Outcome {
    on_own_stage(alone("committed"), async |stage| {
        let scene = Scene::set(stage, "committed").await?;
        let mut pair = Pair::start(stage).await?;
        scene.pool(&pool("p", capacity(5, 5, 12))).await?;
        let mut deliveries = scene.deliveries();
        let caught = pair.proxy.ambush(Moment::After, 1, commits);
        let claims: Vec<_> = (0..5).map(|number| claim(&format!("c{number}"), "p")).collect();
        scene.claim_all(&claims).await?;
        pair.killed_at(caught).await?;

        // Exactly between the two: promised, and nobody told.
        let left = scene.pools.get("p").await?.status.context("no status")?;
        let promised = granted(&left);
        ensure!(!promised.is_empty(), "nothing was committed: {left:?}");
        for claim in &claims {
            let named = pods_of(&scene.claims.get(&claim.name_any()).await?);
            ensure!(named.is_empty(), "{} had its Pod already: {named:?}", claim.name_any());
        }
        let begun = Instant::now();
        deliveries.until_running(5, SOON).await?;
        figure!("all 5 claims run {:.1?} later, the Lease's 15 s among it", begun.elapsed());
        for grant in &left.grants {
            let name = grant.claim.split('/').nth(1).context("no name in the ledger")?;
            let wanted: BTreeSet<String> =
                granted(&PoolStatus { grants: vec![grant.clone()], ..PoolStatus::default() });
            let got = uids(&pods_of(&scene.claims.get(name).await?));
            ensure!(got == wanted, "{name} was promised {wanted:?} and got {got:?}");
        }
        settled(&scene, 5).await?;
        pair.check()?;
        deliveries.check()
    })
}

#[test]
fn what_a_killed_leader_had_delivered_is_adopted_by_the_next_and_given_to_nobody_else() -> Outcome {
    on_own_stage(alone("delivered"), async |stage| {
        let scene = Scene::set(stage, "delivered").await?;
        let mut pair = Pair::start(stage).await?;
        let made = scene.pool(&pool("p", capacity(4, 4, 12))).await?;
        let mut deliveries = scene.deliveries();
        let caught = pair.proxy.ambush(Moment::After, 1, delivers);
        scene.claim(&claim("first", "p")).await?;
        pair.killed_at(caught).await?;

        let first = scene.claims.get("first").await?;
        let named = pods_of(&first);
        let (pod, uid) = named.first().context("nothing was delivered")?;
        let before = scene.pods.get(pod).await?;
        ensure!(is_warm(&before) && !before.labels().contains_key(labels::CLAIM_UID), "it was adopted already");
        // Everybody wants a Pod now, and this one still looks clean.
        let others: Vec<_> = (0..6).map(|number| claim(&format!("c{number}"), "p")).collect();
        scene.claim_all(&others).await?;
        deliveries.until_running(7, SOON).await?;
        let adopted = scene
            .until_pods(&made, "the Pod is adopted", |pods| {
                pods.get(pod).is_some_and(|pod| pod.labels().get(labels::CLAIM_UID) == first.uid().as_ref())
            })
            .await?;
        let after = adopted.get(pod).context("it is gone")?;
        ensure!(after.uid().as_ref() == Some(uid) && !is_warm(after) && !is_ending(after));
        ensure!(uids(&pods_of(&scene.claims.get("first").await?)) == uids(&named), "the claim names another Pod");
        settled(&scene, 7).await?;
        pair.check()?;
        deliveries.check()
    })
}

#[test]
fn a_retirement_that_a_killed_leader_had_only_written_down_is_completed_by_the_next() -> Outcome {
    retirement("retiring", 0)
}

#[test]
fn a_retirement_that_a_killed_leader_had_half_done_is_completed_by_the_next() -> Outcome {
    retirement("half-retired", 2)
}

/// Kills the leader when it has `deleted` Pods of the retirement that it wrote down.
fn retirement(name: &str, deleted: u32) -> Outcome {
    on_own_stage(alone(name), async |stage| {
        let scene = Scene::set(stage, name).await?;
        let mut pair = Pair::start(stage).await?;
        let made = scene.pool(&pool("p", capacity(6, 6, 12))).await?;
        let mut deliveries = scene.deliveries();
        let caught = match deleted {
            0 => pair.proxy.ambush(Moment::After, 1, retires),
            done => pair.proxy.ambush(Moment::After, done, deletes_a_pod),
        };
        edit(&scene.pools, "p", json!({ "spec": { "capacitySpec": { "bufferMin": 1, "bufferMax": 1 } } })).await?;
        pair.killed_at(caught).await?;

        let left = scene.pools.get("p").await?.status.context("no status")?;
        let doomed = retiring(&left);
        ensure!(doomed.len() == 5, "five are to go, the ledger says {:?}", left.retiring);
        let labelled = format!("{}={}", labels::POOL_UID, made.uid().unwrap_or_default());
        let alive = until_all(&scene.pods, &labelled, "the Pods as they are", SOON, |_| true).await?;
        let gone = 6 - alive.values().filter(|pod| !is_ending(pod)).count();
        // Deletions go out together, so more than one may have passed before the leader died.
        ensure!(gone >= usize::try_from(deleted)? && (deleted > 0 || gone == 0), "{gone} of 5 had ended");
        // Whoever comes now must not get one of those.
        let claims: Vec<_> = (0..4).map(|number| claim(&format!("c{number}"), "p")).collect();
        scene.claim_all(&claims).await?;
        deliveries.until_running(4, SOON).await?;
        for claim in &claims {
            let got = uids(&pods_of(&scene.claims.get(&claim.name_any()).await?));
            ensure!(got.is_disjoint(&doomed), "{} got a Pod that was being retired: {got:?}", claim.name_any());
        }
        settled(&scene, 4).await?;
        let pods = scene
            .until_pods(&made, "the retired are gone", |pods| {
                pods.values().all(|pod| !pod.uid().is_some_and(|uid| doomed.contains(&uid)))
            })
            .await?;
        ensure!(pods.len() == 5, "{} Pods for 4 claims and a buffer of one", pods.len());
        pair.check()?;
        deliveries.check()
    })
}

/// Nothing is under way any more.
async fn settled(scene: &Scene, held: i32) -> Result<()> {
    let drained = |status: &PoolStatus| {
        status.grants.is_empty() && status.retiring.is_empty() && status.allocated == held && status.available > 0
    };
    scene.until_pool("p", "the ledger is empty, the buffer full", drained).await?;
    Ok(())
}

#[test]
fn a_commit_whose_answer_was_lost_is_delivered_once() -> Outcome {
    use sandbox_e2e::faults::{Fault, Scope, Weather};
    on_own_stage(alone("lost-commit"), async |stage| {
        let scene = Scene::set(stage, "lost-commit").await?;
        let mut pair = Pair::start(stage).await?;
        scene.pool(&pool("p", capacity(5, 5, 30))).await?;
        let mut deliveries = scene.deliveries();
        let commits = Scope::of(&[Verb::Patch], &["pools/status"]);
        pair.proxy.set(Weather::of(commits, 60, Fault::LoseAnswer));
        let claims: Vec<_> = (0..20).map(|number| claim(&format!("c{number}"), "p")).collect();
        scene.claim_all(&claims).await?;
        deliveries.until_running(20, SOON).await?;
        let (_, counts) = pair.proxy.counts();
        let lost: u64 = counts.values().sum();
        pair.proxy.heal();
        figure!("{lost} answers of commits were lost under 20 claims");
        ensure!(lost > 0, "no fault struck");
        ensure!(deliveries.pods() == 20, "{} Pods for 20 claims", deliveries.pods());
        settled(&scene, 20).await?;
        pair.leader.program().check()?;
        pair.check()?;
        deliveries.check()
    })
}

#[test]
fn a_pool_deleted_while_nobody_leads_leaves_nothing_behind() -> Outcome {
    on_own_stage(alone("pool-gone"), async |stage| {
        let scene = Scene::set(stage, "pool-gone").await?;
        let mut pair = Pair::start(stage).await?;
        // Its Pods come with its anchor, which stays when they are gone.
        let made = scene.pool(&pool("p", capacity(2, 2, 4))).await?;
        let sizes = json!({ "spec": { "capacitySpec": { "bufferMin": 0, "bufferMax": 0 } } });
        edit(&scene.pools, "p", sizes).await?;
        scene.until_pods(&made, "no Pods", |pods| pods.is_empty()).await?;
        pair.leader.program().kill();
        let anchors: Api<ControllerRevision> = Api::namespaced(stage.admin(), &scene.namespace);
        ensure!(!anchors.list(&ListParams::default()).await?.items.is_empty(), "there was no anchor");
        scene.pools.delete("p", &DeleteParams::default()).await?;
        until_all(&anchors, "", "the anchor is gone", SOON, |all| all.is_empty()).await?;
        pair.check()
    })
}
