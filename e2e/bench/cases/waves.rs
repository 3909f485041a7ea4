//! More claims than a Pool may have Pods, each for a short while: the Pool must never be idle and never too large.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use sandbox_api::BatchSandbox;
use sandbox_e2e::objects::pods_of;
use tokio::task::JoinSet;

use crate::bed::{Bed, LIMIT, is_up, named};
use crate::figure::{Figure, Unit};
use crate::load::{all_at_once, claim, millis, probe_burst};
use crate::sights::{Seen, Sights};

const CLAIMS: usize = 1000;
const MOST: i32 = 200;
const LIFE: Duration = Duration::from_secs(3);
/// Probes at once, for the write rate of the same run.
const PROBES: usize = 500;

pub async fn run(bed: &mut Bed) -> Result<Vec<Figure>> {
    bed.pool(MOST, MOST).await?;
    let audit = Arc::new(Mutex::new(Audit::default()));
    let _pods = watch_pods(bed, audit.clone()).await?;
    let mut claims = watch_claims(bed, audit.clone()).await?;
    probe_burst(bed, "warm", 100).await?;
    let rate = 2e3 * PROBES as f64 / probe_burst(bed, "rate", PROBES).await?;

    let before = bed.snapshot().await?;
    let begin = Instant::now();
    let served = serve(bed, &mut claims).await?;
    let cost = before.until(&bed.snapshot().await?);
    let last = served.values().max().copied().context("no claim was served")?;
    let seconds = millis(begin, last) / 1e3;

    let waves = CLAIMS as f64 / f64::from(MOST) * LIFE.as_secs_f64();
    let writing = cost.writes() as f64 / rate;
    let ideal = waves.max(writing);
    let audit = audit.lock().unwrap_or_else(PoisonError::into_inner);
    audit.check()?;
    let overtaken = audit.overtaken(&served);
    let all: Vec<f64> = served.values().map(|when| millis(begin, *when) / 1e3).collect();
    Ok(vec![
        Figure::new("1,000 claims of 3 s on poolMax 200: the last is served", Unit::Seconds, seconds)
            .limit(1.5 * ideal)
            .samples(&all, &[])
            .note(format!(
                "ideal {ideal:.1} s: waves x life {waves:.1} s, {} writes at {rate:.0}/s {writing:.1} s",
                cost.writes()
            )),
        Figure::new("the same over the ideal", Unit::Times, seconds / ideal).limit(1.5),
        Figure::new("Pods there at once, ending ones included", Unit::Count, audit.most as f64).limit(f64::from(MOST)),
        Figure::new("a claim was overtaken by one created a second later, by at most", Unit::Seconds, overtaken)
            .limit(1.0),
        Figure::new(
            "API writes per whole life, 1,000 on poolMax 200",
            Unit::Count,
            cost.writes() as f64 / CLAIMS as f64,
        )
        .note(cost.each(CLAIMS)),
    ])
}

/// POSTs all, ends each its life after it was seen running, and returns when each was.
async fn serve(bed: &Bed, claims: &mut Sights) -> Result<BTreeMap<String, Instant>> {
    let posts =
        tokio::spawn(all_at_once((0..CLAIMS).map(|number| claim(bed, named("c", number), 1)).collect::<Vec<_>>()));
    let mut ends = JoinSet::new();
    let mut served = BTreeMap::new();
    while served.len() < CLAIMS {
        let (name, when) = claims.next(LIMIT).await?;
        let end = bed.ending(name.clone());
        ends.spawn(async move {
            tokio::time::sleep_until((when + LIFE).into()).await;
            end.await
        });
        served.insert(name, when);
    }
    posts.await.context("a task of the bench panicked")??;
    while let Some(end) = ends.join_next().await {
        end.context("a task of the bench panicked")??;
    }
    bed.quiet(0, MOST).await?;
    Ok(served)
}

/// What two watches saw, in their order.
#[derive(Default)]
struct Audit {
    there: BTreeSet<String>,
    most: usize,
    /// Pod uid to the claims that named it.
    holders: BTreeMap<String, BTreeSet<String>>,
    /// Claim to the second of its creation.
    created: BTreeMap<String, i64>,
}

impl Audit {
    /// # Errors
    /// When a Pod was given twice.
    fn check(&self) -> Result<()> {
        let shared: Vec<_> = self.holders.iter().filter(|(_, claims)| claims.len() > 1).collect();
        ensure!(shared.is_empty(), "Pods delivered to more than one claim: {shared:?}");
        Ok(())
    }

    /// The longest time, in s, that a claim was served after one created in a later second.
    fn overtaken(&self, served: &BTreeMap<String, Instant>) -> f64 {
        let mut by_second: BTreeMap<i64, (Instant, Instant)> = BTreeMap::new();
        for (name, when) in served {
            let second = self.created.get(name).copied().unwrap_or_default();
            let span = by_second.entry(second).or_insert((*when, *when));
            *span = (span.0.min(*when), span.1.max(*when));
        }
        let spans: Vec<_> = by_second.into_values().collect();
        let later = |at: usize| spans.iter().skip(at + 1).map(|(first, _)| *first);
        let worst = spans.iter().enumerate().flat_map(|(at, (_, last))| later(at).map(|first| millis(first, *last)));
        worst.fold(0.0, f64::max) / 1e3
    }
}

async fn watch_pods(bed: &Bed, audit: Arc<Mutex<Audit>>) -> Result<Sights> {
    Sights::of(bed.pods.clone(), move |seen: Seen<'_, Pod>| {
        let mut audit = audit.lock().unwrap_or_else(PoisonError::into_inner);
        match seen {
            Seen::There(pod) => audit.there.insert(pod.uid().unwrap_or_default()),
            Seen::Gone(pod) => audit.there.remove(&pod.uid().unwrap_or_default()),
        };
        audit.most = audit.most.max(audit.there.len());
        false
    })
    .await
}

async fn watch_claims(bed: &Bed, audit: Arc<Mutex<Audit>>) -> Result<Sights> {
    Sights::of(bed.claims.clone(), move |seen: Seen<'_, BatchSandbox>| match seen {
        Seen::There(claim) => {
            let mut audit = audit.lock().unwrap_or_else(PoisonError::into_inner);
            for (_, uid) in pods_of(claim) {
                audit.holders.entry(uid).or_default().insert(claim.uid().unwrap_or_default());
            }
            if let Some(created) = &claim.metadata.creation_timestamp {
                audit.created.insert(claim.name_any(), created.0.as_second());
            }
            is_up(claim)
        }
        Seen::Gone(_) => false,
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_served_after_a_younger_one_is_noticed() {
        let now = Instant::now();
        let at = |millis| now + Duration::from_millis(millis);
        let created = BTreeMap::from([("old".to_owned(), 1), ("young".to_owned(), 2)]);
        let audit = Audit { created, ..Audit::default() };
        let served = |old, young| BTreeMap::from([("old".to_owned(), at(old)), ("young".to_owned(), at(young))]);
        assert_eq!(audit.overtaken(&served(10, 20)), 0.0);
        assert!((audit.overtaken(&served(2500, 500)) - 2.0).abs() < 1e-6);
    }
}
