//! Whether a claim takes longer where 10,000 sandboxes live.

use anyhow::Result;

use super::running;
use crate::bed::{Bed, named};
use crate::figure::{Figure, Unit};
use crate::load::{self, all_at_once, claim};
use crate::process::resident;
use crate::statistics::median;

const LIVE: usize = 10_000;
const CLAIMS: usize = 60;
const BUFFER: i32 = 50;
/// Claims made at once while the sandboxes are made.
const STEP: usize = 500;

pub async fn run(bed: &mut Bed) -> Result<Vec<Figure>> {
    bed.pool(BUFFER, 15_000).await?;
    let mut sights = running(bed).await?;
    load::serial(bed, &mut sights, "warm", 10).await?;
    bed.quiet(10, BUFFER).await?;
    let few = load::serial(bed, &mut sights, "few", CLAIMS).await?;

    for step in 0..LIVE / STEP {
        let prefix = format!("live{step}");
        all_at_once((0..STEP).map(|number| claim(bed, named(&prefix, number), 1))).await?;
        bed.quiet(10 + CLAIMS + (step + 1) * STEP, BUFFER).await?;
    }
    let before = bed.snapshot().await?;
    let many = load::serial(bed, &mut sights, "many", CLAIMS).await?;
    let cost = before.until(&bed.snapshot().await?);
    bed.quiet(10 + 2 * CLAIMS + LIVE, BUFFER).await?;

    let quotient = median(&many.ours) / median(&few.ours);
    let probes = median(&many.probe) / median(&few.probe);
    let processor = cost.processor.as_secs_f64() * 1e3 / CLAIMS as f64;
    Ok(vec![
        Figure::new("growth: warm create p50, 10,000 live over none", Unit::Times, quotient)
            .limit(1.3)
            .note(format!("{:.2} ms over {:.2} ms; the probe's: {probes:.2} x", median(&many.ours), median(&few.ours)))
            .samples(&many.ours, &few.ours),
        Figure::new("warm create, serial, 10,000 live, p50", Unit::Milliseconds, median(&many.ours))
            .probe(median(&many.probe))
            .samples(&many.ours, &many.probe),
        Figure::new("CPU per claim in the controller, 10,000 live", Unit::Milliseconds, processor),
        Figure::new("controller RSS with 10,000 live sandboxes", Unit::Mebibytes, resident(bed.operator_pid().await?)?),
    ])
}
