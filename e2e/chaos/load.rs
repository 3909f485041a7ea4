//! What users do: claims of all kinds, renewals, edits, deletions, by seed.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use sandbox_api::{BatchSandbox, Pool, Recovery, Sandbox, SandboxSpec};
use sandbox_e2e::audit::{Kind, Record, World};
use sandbox_e2e::faults::Dice;
use sandbox_e2e::objects::{after, claim, own, template};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::harm::exactly;
use crate::pools;
use crate::tally::Tally;

/// Between two acts.
const PACE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(110));
/// More living claims than this are not made.
const MOST: usize = 45;

/// Users of one namespace.
#[derive(Clone)]
pub struct Users {
    pub(crate) claims: Api<BatchSandbox>,
    pub(crate) sandboxes: Api<Sandbox>,
    pub(crate) pools: Api<Pool>,
    pub(crate) pods: Api<Pod>,
    pub(crate) record: Arc<Record>,
    pub(crate) tally: Tally,
    /// Whether owner references are taken away, too.
    pub(crate) strips_owners: bool,
}

/// A claim as the log shows it.
struct Seen {
    kind: Kind,
    name: String,
    uid: String,
    replicas: usize,
    expires: Option<Timestamp>,
}

impl Users {
    /// Users that act through this client, and tell the record what they end.
    pub fn new(client: &Client, namespace: &str, record: Arc<Record>, tally: Tally, strips_owners: bool) -> Self {
        Self {
            claims: Api::namespaced(client.clone(), namespace),
            sandboxes: Api::namespaced(client.clone(), namespace),
            pools: Api::namespaced(client.clone(), namespace),
            pods: Api::namespaced(client.clone(), namespace),
            record,
            tally,
            strips_owners,
        }
    }

    /// Acts until dropped.
    ///
    /// # Errors
    /// When the API server refuses what it should not.
    pub async fn act(&self, seed: u64) -> Result<()> {
        let mut dice = Dice::at(seed, &["load"], 0);
        let mut later = JoinSet::new();
        for number in 0_u64.. {
            sleep(dice.between(PACE.0, PACE.1)).await;
            let full = self.record.look(|world| world.claims.len()) >= MOST;
            match dice.below(100) {
                0..=37 if full => self.end_one(&mut dice).await?,
                0..=14 => self.batch(&mut dice, number).await?,
                15..=25 => self.single(&mut dice, number).await?,
                26..=31 => self.own(&mut dice, number).await?,
                32 => self.burst(&mut dice, number).await?,
                33..=37 => self.too_many(&mut dice, number).await?,
                38..=59 => self.end_one(&mut dice).await?,
                60..=73 => self.scale(&mut dice).await?,
                74..=90 => self.renew_at_the_deadline(&mut dice, &mut later),
                91 | 92 => self.harm(&mut dice).await?,
                93 | 94 => self.strip_pod(&mut dice).await?,
                95 if dice.chance(30) => self.pass_pool(&mut dice, &mut later).await?,
                95..=98 => self.resize(&mut dice).await?,
                _ => self.new_template(&mut dice, number).await?,
            }
            while let Some(done) = later.try_join_next() {
                done??;
            }
        }
        Ok(())
    }

    /// Nobody can be served where more is wanted than there may be: the last claims are ended until all can.
    ///
    /// # Errors
    /// When the API server refuses what it should not.
    pub async fn make_room(&self) -> Result<()> {
        self.pool_again().await?;
        loop {
            let claims = self.record.look(excess);
            let Some(seen) = claims else { return Ok(()) };
            let uid = seen.uid.clone();
            self.end(seen).await?;
            self.record.until(Duration::from_secs(10), |world| !world.claims.contains_key(&uid)).await;
        }
    }

    async fn harm(&self, dice: &mut Dice) -> Result<()> {
        match dice.below(5) {
            0 | 1 => self.kill_pod(dice, true).await,
            2 => self.kill_pod(dice, false).await,
            _ => self.fail_pod(dice).await,
        }
    }

    async fn batch(&self, dice: &mut Dice, number: u64) -> Result<()> {
        let (mut wanted, what) = match dice.below(6) {
            // Of any Pool; the template only chooses.
            0 => (own(&format!("a{number}"), 1), "BatchSandbox of any Pool"),
            _ => (claim(&format!("b{number}"), pools::pick(dice)), "BatchSandbox of a Pool"),
        };
        if wanted.spec.template.is_some() {
            wanted.spec.pool_ref = Some("*".into());
        }
        wanted.spec.replicas = [1, 1, 1, 2, 3][dice.below(5)];
        self.create_batch(dice, wanted, what).await
    }

    async fn own(&self, dice: &mut Dice, number: u64) -> Result<()> {
        let wanted = own(&format!("o{number}"), if dice.chance(70) { 1 } else { 2 });
        self.create_batch(dice, wanted, "BatchSandbox of its own template").await
    }

    async fn burst(&self, dice: &mut Dice, number: u64) -> Result<()> {
        for each in 0..8 {
            let wanted = claim(&format!("u{number}-{each}"), pools::pick(dice));
            self.create_batch(dice, wanted, "BatchSandbox of a Pool").await?;
        }
        Ok(())
    }

    /// More than its Pool may ever have, or of a Pool that is not there: it must hold up nobody.
    async fn too_many(&self, dice: &mut Dice, number: u64) -> Result<()> {
        let mut wanted = claim(&format!("x{number}"), "nowhere");
        if dice.chance(50) {
            wanted = claim(&format!("x{number}"), pools::pick(dice));
            wanted.spec.replicas = 1_000;
        }
        wanted.spec.expire_time = Some(after(dice.between(Duration::from_secs(2), Duration::from_secs(8))));
        self.tally.add("claim that can never be met");
        tolerated(self.claims.create(&PostParams::default(), &wanted).await).map(drop)
    }

    async fn create_batch(&self, dice: &mut Dice, mut wanted: BatchSandbox, what: &str) -> Result<()> {
        wanted.spec.expire_time = deadline(dice);
        if dice.chance(25) {
            wanted.spec.recovery = Some(Recovery::Replace);
        }
        self.tally.add(what);
        tolerated(self.claims.create(&PostParams::default(), &wanted).await).map(drop)
    }

    async fn single(&self, dice: &mut Dice, number: u64) -> Result<()> {
        let mut spec = SandboxSpec { expire_time: deadline(dice), ..SandboxSpec::default() };
        let mut what = "Sandbox of a Pool";
        if dice.chance(85) {
            spec.pool_ref = Some(pools::pick(dice).into());
        } else {
            what = "Sandbox of its own template";
            spec.template = Some(template());
        }
        self.tally.add(what);
        tolerated(self.sandboxes.create(&PostParams::default(), &Sandbox::new(&format!("s{number}"), spec)).await)
            .map(drop)
    }

    async fn end_one(&self, dice: &mut Dice) -> Result<()> {
        match self.any(dice, |_| true) {
            Some(seen) => {
                self.tally.add("claim deleted");
                self.end(seen).await
            }
            None => Ok(()),
        }
    }

    async fn end(&self, seen: Seen) -> Result<()> {
        self.record.ends(&seen.uid, format!("delete {} {}", seen.kind.as_str(), seen.name));
        let params = exactly(&seen.uid);
        match seen.kind {
            Kind::Sandbox => tolerated(self.sandboxes.delete(&seen.name, &params).await).map(drop),
            Kind::BatchSandbox | Kind::Pod | Kind::Pool | Kind::Anchor | Kind::Lease => {
                tolerated(self.claims.delete(&seen.name, &params).await).map(drop)
            }
        }
    }

    async fn scale(&self, dice: &mut Dice) -> Result<()> {
        let Some(seen) = self.any(dice, |seen| seen.kind == Kind::BatchSandbox && seen.replicas < 9) else {
            return Ok(());
        };
        let to = dice.below(5);
        self.tally.add(if to < seen.replicas { "claim scaled down" } else { "claim scaled up" });
        self.patch(&seen, json!({ "metadata": { "uid": seen.uid }, "spec": { "replicas": to } })).await
    }

    /// As the server renews, in the moment in which the operator ends: what is read is what the write rests on.
    fn renew_at_the_deadline(&self, dice: &mut Dice, later: &mut JoinSet<Result<()>>) {
        let now = Timestamp::now();
        let soon = |seen: &Seen| seen.expires.is_some_and(|at| at > now && at.as_second() < now.as_second() + 6);
        let Some(seen) = self.any(dice, soon) else { return };
        let early = dice.between(Duration::ZERO, Duration::from_millis(150));
        let longer = dice.between(Duration::from_secs(4), Duration::from_secs(12));
        let users = self.clone();
        later.spawn(async move {
            let wait = seen.expires.and_then(|at| Duration::try_from(at.duration_since(Timestamp::now())).ok());
            sleep(wait.unwrap_or_default().saturating_sub(early)).await;
            users.renew(&seen, longer).await
        });
    }

    async fn renew(&self, seen: &Seen, longer: Duration) -> Result<()> {
        let version = match seen.kind {
            Kind::Sandbox => self.sandboxes.get_opt(&seen.name).await?.map(|it| (it.uid(), it.resource_version())),
            Kind::BatchSandbox | Kind::Pod | Kind::Pool | Kind::Anchor | Kind::Lease => {
                self.claims.get_opt(&seen.name).await?.map(|it| (it.uid(), it.resource_version()))
            }
        };
        let Some((uid, version)) = version.filter(|(uid, _)| uid.as_ref() == Some(&seen.uid)) else {
            self.tally.add("renewal that came too late");
            return Ok(());
        };
        let patch = json!({
            "metadata": { "uid": uid, "resourceVersion": version },
            "spec": { "expireTime": after(longer) },
        });
        self.tally.add("renewal at the deadline");
        self.patch(seen, patch).await
    }

    async fn patch(&self, seen: &Seen, patch: Value) -> Result<()> {
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        match seen.kind {
            Kind::Sandbox => tolerated(self.sandboxes.patch(&seen.name, &params, &patch).await).map(drop),
            Kind::BatchSandbox | Kind::Pod | Kind::Pool | Kind::Anchor | Kind::Lease => {
                tolerated(self.claims.patch(&seen.name, &params, &patch).await).map(drop)
            }
        }
    }

    async fn resize(&self, dice: &mut Dice) -> Result<()> {
        let low = dice.below(6);
        let sizes = json!({
            "bufferMin": low, "bufferMax": low + dice.below(5), "poolMin": 0, "poolMax": 12 + dice.below(14),
        });
        self.tally.add("Pool resized");
        self.record.tells(format!("resize the Pool {} to {sizes}", pools::EDITED));
        let patch = json!({ "spec": { "capacitySpec": sizes } });
        tolerated(self.pools.patch(pools::EDITED, &PatchParams::default(), &Patch::Merge(&patch)).await).map(drop)
    }

    async fn new_template(&self, dice: &mut Dice, number: u64) -> Result<()> {
        let name = if dice.chance(50) { pools::EDITED } else { pools::SLOW };
        self.tally.add("Pool's template changed");
        self.record.tells(format!("change the template of Pool {name}"));
        let patch = json!({ "spec": { "template": { "metadata": { "labels": { "round": number.to_string() } } } } });
        tolerated(self.pools.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await).map(drop)
    }

    fn any(&self, dice: &mut Dice, wanted: impl Fn(&Seen) -> bool) -> Option<Seen> {
        let mut all: Vec<Seen> = self.record.look(|world| seen(world).filter(|seen| wanted(seen)).collect());
        (!all.is_empty()).then(|| all.swap_remove(dice.below(all.len())))
    }
}

fn seen(world: &World) -> impl Iterator<Item = Seen> + '_ {
    world.claims.iter().filter(|(_, claim)| !claim.ending).map(|(uid, claim)| Seen {
        kind: claim.kind,
        name: claim.name.clone(),
        uid: uid.clone(),
        replicas: claim.state.replicas,
        expires: claim.state.expires,
    })
}

/// A claim of a Pool of which more is wanted than there may be.
fn excess(world: &World) -> Option<Seen> {
    let over = world.pools.values().find(|pool| {
        let of_pool = world.claims.values().filter(|claim| claim.state.pool.as_ref() == Some(&pool.name));
        let wanted: usize = of_pool.map(|claim| claim.state.replicas).filter(|wanted| *wanted < 100).sum();
        i64::try_from(wanted).unwrap_or(i64::MAX) > pool.state.max
    })?;
    let mut of_pool: Vec<Seen> =
        seen(world).filter(|seen| world.claims[&seen.uid].state.pool.as_ref() == Some(&over.name)).collect();
    of_pool.pop()
}

fn deadline(dice: &mut Dice) -> Option<sandbox_api::Moment> {
    match dice.below(10) {
        0..=2 => None,
        3..=7 => Some(after(dice.between(Duration::from_secs(3), Duration::from_secs(14)))),
        _ => Some(after(dice.between(Duration::from_secs(20), Duration::from_secs(60)))),
    }
}

/// Somebody else was faster: that is what this is about.
pub(crate) fn tolerated<T>(answer: kube::Result<T>) -> Result<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
        Err(error) => Err(error).context("the API server refuses a user's request"),
    }
}
