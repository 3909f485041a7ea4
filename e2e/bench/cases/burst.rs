//! Many claims at once.

use anyhow::Result;

use super::running;
use crate::bed::{Bed, named};
use crate::cost::Cost;
use crate::figure::{Figure, Unit};
use crate::load::{all_at_once, burst, probe_burst};
use crate::sights::Sights;
use crate::statistics::median;

const POOL: i32 = 100;

/// 100 claims on 100 Pods, five times.
pub async fn of_100(bed: &mut Bed) -> Result<Vec<Figure>> {
    let mut rounds = Rounds::begin(bed, 100, 1000).await?;
    rounds.warm_up().await?;
    let before = rounds.bed.snapshot().await?;
    for _ in 0..5 {
        rounds.next().await?;
    }
    let cost = before.until(&rounds.bed.snapshot().await?);
    let ends = rounds.end_last().await?;
    let claims = rounds.ours.len() * rounds.count;
    let (writes, per_end) = (cost.writes() as f64 / claims as f64, ends.writes() as f64 / rounds.count as f64);
    Ok(vec![
        rounds.figure("100 single claims at once on a pool of 100, wall").limit(400.0),
        Figure::new("API writes per claim, refill included, burst of 100", Unit::Count, writes)
            .limit(5.3)
            .note(cost.each(claims)),
        Figure::new("API writes per whole life, burst of 100", Unit::Count, writes + per_end)
            .limit(7.5)
            .note(format!("their ends: {}", ends.each(rounds.count))),
        Figure::new(
            "CPU per claim in the controller, burst of 100",
            Unit::Milliseconds,
            cost.processor.as_secs_f64() * 1e3 / claims as f64,
        ),
    ])
}

/// 300 claims on 100 Pods, three times: 200 wait for new Pods.
pub async fn of_300(bed: &mut Bed) -> Result<Vec<Figure>> {
    let mut rounds = Rounds::begin(bed, 300, 2000).await?;
    rounds.warm_up().await?;
    for _ in 0..3 {
        rounds.next().await?;
    }
    Ok(vec![rounds.figure("300 at once on a pool of 100 (200 need new Pods), wall").limit(1500.0)])
}

struct Rounds<'a> {
    bed: &'a mut Bed,
    sights: Sights,
    count: usize,
    round: usize,
    ours: Vec<f64>,
    probe: Vec<f64>,
}

impl<'a> Rounds<'a> {
    async fn begin(bed: &'a mut Bed, count: usize, most: i32) -> Result<Self> {
        bed.pool(POOL, most).await?;
        let sights = running(bed).await?;
        Ok(Self { bed, sights, count, round: 0, ours: Vec::new(), probe: Vec::new() })
    }

    /// One round that does not count: it opens the connections.
    async fn warm_up(&mut self) -> Result<()> {
        self.next().await?;
        self.ours.clear();
        self.probe.clear();
        Ok(())
    }

    async fn next(&mut self) -> Result<()> {
        let prefix = format!("r{}", self.round);
        self.probe.push(probe_burst(self.bed, &prefix, self.count).await?);
        self.ours.push(burst(self.bed, &mut self.sights, &prefix, self.count).await?);
        self.round += 1;
        self.bed.quiet(self.round * self.count, POOL).await
    }

    /// Ends the claims of the last round all at once; what that cost.
    async fn end_last(&mut self) -> Result<Cost> {
        let before = self.bed.snapshot().await?;
        let prefix = format!("r{}", self.round - 1);
        all_at_once((0..self.count).map(|number| self.bed.ending(named(&prefix, number)))).await?;
        let held = (self.round - 1) * self.count;
        self.bed.quiet(held, POOL).await?;
        self.bed.until_pods(held + usize::try_from(POOL)?).await?;
        Ok(before.until(&self.bed.snapshot().await?))
    }

    fn figure(&self, what: &str) -> Figure {
        Figure::new(what, Unit::Milliseconds, median(&self.ours))
            .probe(median(&self.probe))
            .samples(&self.ours, &self.probe)
    }
}
