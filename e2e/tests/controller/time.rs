//! Deadlines: when a sandbox ends, and when it must not.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use sandbox_api::BatchSandbox;
use sandbox_e2e::objects::{after, capacity, claim, own, pods_of, pool};
use sandbox_e2e::scene::{SOON, Scene, is_ending};
use sandbox_e2e::{Outcome, alone_on_stage, figure, on_stage, until_all, until_gone};
use serde_json::json;

#[test]
fn a_sandbox_ends_at_its_deadline_within_2_seconds() -> Outcome {
    alone_on_stage(async |stage| {
        let scene = Scene::set(stage, "deadline").await?;
        scene.pool(&pool("p", capacity(10, 10, 40))).await?;
        let mut deadlines = BTreeMap::new();
        let mut wanted = Vec::new();
        for number in 0..20 {
            let mut claim =
                if number % 2 == 0 { claim(&format!("c{number}"), "p") } else { own(&format!("c{number}"), 1) };
            let deadline = after(Duration::from_millis(4_000 + 150 * number));
            deadlines.insert(claim.name_any(), deadline.at());
            claim.spec.expire_time = Some(deadline);
            wanted.push(claim);
        }
        scene.claim_all(&wanted).await?;
        let mut pods = BTreeMap::new();
        let mut ended = BTreeMap::new();
        until_all(&scene.claims, "", "all have ended", SOON, |all| {
            for claim in all.values() {
                pods.extend(pods_of(claim));
            }
            let now = Timestamp::now();
            for name in deadlines.keys().filter(|name| !all.contains_key(*name)) {
                ended.entry(name.clone()).or_insert(now);
            }
            all.is_empty()
        })
        .await?;
        let late = |name: &String, at: &Timestamp| deadlines.get(name).map(|deadline| at.duration_since(*deadline));
        let late: Vec<SignedDuration> = ended.iter().filter_map(|(name, at)| late(name, at)).collect();
        let (least, most) = (late.iter().min().context("none ended")?, late.iter().max().context("none ended")?);
        figure!("20 deadlines: ended {least:?} to {most:?} after");
        ensure!(!least.is_negative(), "one ended {least:?} after its deadline: too early");
        ensure!(*most <= SignedDuration::from_secs(2), "one ended {most:?} after its deadline");
        ensure!(pods.len() == 20, "{} Pods were named before the end", pods.len());
        for (pod, uid) in &pods {
            until_gone(&scene.pods, pod, uid, SOON).await?;
        }
        Ok(())
    })
}

const RACES: usize = 1_000;
const AT_ONCE: usize = 100;

/// How a renewal that raced the deadline was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    /// The API server stored the new deadline.
    Renewed,
    /// There was nothing left to renew.
    TooLate,
}

#[test]
fn a_renewed_sandbox_is_never_killed() -> Outcome {
    on_stage(async |stage| {
        let scene = Scene::set(stage, "renew").await?;
        let mut counts = [0; 2];
        for round in 0..RACES / AT_ONCE {
            for (answer, count) in race(&scene, round).await? {
                counts[usize::from(answer == Answer::TooLate)] += count;
            }
        }
        let [renewed, late] = counts;
        figure!("{RACES} races: {renewed} renewed and alive, {late} ended before the renewal came");
        ensure!(renewed + late == RACES);
        // Both sides must have won, or nothing was raced.
        ensure!(renewed >= RACES / 10 && late >= RACES / 10, "{renewed} renewed, {late} late: no race");
        Ok(())
    })
}

/// One round: sandboxes whose renewal arrives around the moment of their deadline, some before and some after.
async fn race(scene: &Scene, round: usize) -> Result<BTreeMap<Answer, usize>> {
    let mut wanted = Vec::new();
    for number in 0..AT_ONCE {
        let mut claim = own(&format!("r{round}-{number}"), 1);
        claim.spec.expire_time = Some(after(Duration::from_millis(3_000 + 10 * number as u64)));
        wanted.push(claim);
    }
    let made = scene.claim_all(&wanted).await?;
    let races = made.iter().enumerate().map(|(number, claim)| renew_at_the_deadline(scene, claim, number));
    let answers: Vec<(String, Answer)> = try_join_all(races).await?;
    let lost = answers.iter().filter(|(_, answer)| *answer == Answer::TooLate).count();
    // Whoever was too late is gone; whoever was renewed is there, and so is its Pod.
    let left = until_all(&scene.claims, "", "the ended ones are gone", SOON, |all| {
        all.keys().filter(|name| name.starts_with(&format!("r{round}-"))).count() == AT_ONCE - lost
    })
    .await?;
    let mut counts = BTreeMap::new();
    for (name, answer) in answers {
        *counts.entry(answer).or_insert(0) += 1;
        if answer == Answer::TooLate {
            ensure!(!left.contains_key(&name), "{name} was too late for a renewal and is still there");
            continue;
        }
        let claim = left.get(&name).with_context(|| format!("{name} was renewed and then ended"))?;
        ensure!(claim.metadata.deletion_timestamp.is_none(), "{name} was renewed and is being ended");
        for (pod, uid) in pods_of(claim) {
            let pod = scene.pods.get(&pod).await.with_context(|| format!("{name} was renewed and lost its Pod"))?;
            ensure!(pod.uid().as_deref() == Some(&uid) && !is_ending(&pod), "{name} was renewed and loses its Pod");
        }
    }
    for name in left.keys().filter(|name| name.starts_with(&format!("r{round}-"))) {
        scene.end(name).await?;
    }
    Ok(counts)
}

async fn renew_at_the_deadline(scene: &Scene, claim: &BatchSandbox, number: usize) -> Result<(String, Answer)> {
    let name = claim.name_any();
    let deadline = claim.spec.expire_time.as_ref().context("no deadline")?.at();
    // From 65 ms before the deadline to 33 ms after it: a renewal takes some 10 ms, so the operator's own delete is
    // in the middle of that.
    let aim = SignedDuration::from_millis(2 * i64::try_from(number % 50)? - 65);
    let wait = deadline.checked_add(aim)?.duration_since(Timestamp::now());
    // The moment is the scenario itself.
    tokio::time::sleep(Duration::try_from(wait).unwrap_or_default()).await;
    Ok((name.clone(), renew(&scene.claims, &name).await?))
}

/// As the server renews: what is read is what the write is conditional on.
async fn renew(claims: &Api<BatchSandbox>, name: &str) -> Result<Answer> {
    loop {
        let Some(now) = claims.get_opt(name).await? else { return Ok(Answer::TooLate) };
        let patch = json!({
            "metadata": { "uid": now.uid(), "resourceVersion": now.resource_version() },
            "spec": { "expireTime": after(Duration::from_secs(3_600)) },
        });
        match claims.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(_) => return Ok(Answer::Renewed),
            // Something was written in between, or it is gone: look again.
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl PartialOrd for Answer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Answer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (*self as u8).cmp(&(*other as u8))
    }
}
