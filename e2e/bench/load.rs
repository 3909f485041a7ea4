//! How claims arrive: one after the other at a fixed pace, or all at once; each beside the probe.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::api::PostParams;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::bed::{Bed, LIMIT, named};
use crate::sights::Sights;

/// From one claim to the next; a probe comes in the middle. Long enough that a claim's refill is over.
const PACE: Duration = Duration::from_millis(120);
/// Connections that a client has at most.
const CONNECTIONS: usize = 100;

/// Times of claims and of probes, in ms.
#[derive(Default)]
pub struct Times {
    pub ours: Vec<f64>,
    pub probe: Vec<f64>,
}

/// Milliseconds from one moment to a later one.
pub fn millis(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64() * 1e3
}

/// Claims of one Pod at a fixed pace, each timed from before its POST until it was seen running; probes in between.
///
/// # Errors
/// When one is refused or does not run.
pub async fn serial(bed: &mut Bed, sights: &mut Sights, prefix: &str, count: usize) -> Result<Times> {
    let mut posts = JoinSet::new();
    let begin = tokio::time::Instant::now();
    for number in 0..count {
        let due = begin + PACE * u32::try_from(number)?;
        tokio::time::sleep_until(due).await;
        let name = named(prefix, number);
        posts.spawn(timed((true, number), claim(bed, name.clone(), 1)));
        tokio::time::sleep_until(due + PACE / 2).await;
        posts.spawn(timed((false, number), bed.probe.post(name, 1)));
    }
    let mut times = Times::default();
    while let Some(posted) = posts.join_next().await {
        let ((is_ours, number), begin) = posted.context("a task of the bench panicked")??;
        let name = named(prefix, number);
        if is_ours {
            times.ours.push(millis(begin, sights.of_name(&name, LIMIT).await?));
        } else {
            times.probe.push(millis(begin, bed.probe.seen(&name).await?));
        }
    }
    Ok(times)
}

async fn timed<T>(what: T, post: impl Future<Output = Result<()>>) -> Result<(T, Instant)> {
    let begin = Instant::now();
    post.await?;
    Ok((what, begin))
}

/// The POST of a claim.
pub fn claim(bed: &Bed, name: String, replicas: i32) -> impl Future<Output = Result<()>> + Send + use<> {
    let claim = bed.claim(&name, replicas);
    let api = bed.claims.clone();
    async move {
        api.create(&PostParams::default(), &claim).await.with_context(|| format!("create the claim {name}"))?;
        Ok(())
    }
}

/// Does things all at once, as far as a client's connections go.
///
/// # Errors
/// When one fails.
pub async fn all_at_once<F>(work: impl IntoIterator<Item = F>) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut tasks = JoinSet::new();
    for each in work {
        let room = room.clone();
        tasks.spawn(async move {
            let _place = room.acquire().await.context("the bench's own semaphore was closed")?;
            each.await
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.context("a task of the bench panicked")??;
    }
    Ok(())
}

/// Claims of one Pod all at once; the time until the last was seen running, in ms.
///
/// # Errors
/// When one is refused or does not run.
pub async fn burst(bed: &Bed, sights: &mut Sights, prefix: &str, count: usize) -> Result<f64> {
    let begin = Instant::now();
    all_at_once((0..count).map(|number| claim(bed, named(prefix, number), 1))).await?;
    let mut last = begin;
    for number in 0..count {
        last = last.max(sights.of_name(&named(prefix, number), LIMIT).await?);
    }
    Ok(millis(begin, last))
}

/// As many probes all at once.
///
/// # Errors
/// When one is refused or not answered.
pub async fn probe_burst(bed: &mut Bed, prefix: &str, count: usize) -> Result<f64> {
    let begin = Instant::now();
    all_at_once((0..count).map(|number| bed.probe.post(named(prefix, number), 1))).await?;
    let mut last = begin;
    for number in 0..count {
        last = last.max(bed.probe.seen(&named(prefix, number)).await?);
    }
    Ok(millis(begin, last))
}
