//! One BatchSandbox of many Pods on a warm Pool.

use std::time::Instant;

use anyhow::Result;

use super::running;
use crate::bed::{Bed, LIMIT, named};
use crate::figure::{Figure, Unit};
use crate::load::{claim, millis};
use crate::statistics::median;

/// How large, how often, and how long at most (ms).
pub struct Batch {
    pub pods: i32,
    pub samples: usize,
    pub limit: f64,
}

pub async fn run(bed: &mut Bed, batch: Batch) -> Result<Vec<Figure>> {
    let rounds = batch.samples + 1;
    bed.pool(batch.pods, batch.pods * i32::try_from(rounds + 2)?).await?;
    let mut sights = running(bed).await?;
    let (mut ours, mut probe) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let name = named("b", round);
        let begin = Instant::now();
        bed.probe.post(name.clone(), batch.pods).await?;
        let probed = millis(begin, bed.probe.seen(&name).await?);

        let begin = Instant::now();
        claim(bed, name.clone(), batch.pods).await?;
        let took = millis(begin, sights.of_name(&name, LIMIT).await?);
        // The first one opens connections.
        if round > 0 {
            ours.push(took);
            probe.push(probed);
        }
        bed.quiet((round + 1) * usize::try_from(batch.pods)?, batch.pods).await?;
    }
    let what = format!("one BatchSandbox of {} on a warm pool, p50", batch.pods);
    let figure = Figure::new(&what, Unit::Milliseconds, median(&ours)).limit(batch.limit);
    Ok(vec![figure.probe(median(&probe)).samples(&ours, &probe)])
}
