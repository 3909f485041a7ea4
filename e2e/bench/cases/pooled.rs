//! Thousands of Pods that wait: how fast they come, what they weigh, what they ask while nothing happens.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::running;
use crate::bed::Bed;
use crate::figure::{Figure, Unit};
use crate::load;
use crate::process::resident;
use crate::statistics::{median, quantile};

const POOLED: i32 = 3000;
const MORE: i32 = 1000;
const CLAIMS: usize = 60;
/// How long nothing is done.
const IDLE: Duration = Duration::from_secs(60);

pub async fn run(bed: &mut Bed) -> Result<Vec<Figure>> {
    let empty = resident(bed.operator_pid().await?)?;
    let begin = Instant::now();
    bed.create_pool(POOLED, 2 * (POOLED + MORE)).await?;
    bed.until_pool("3,000 Pods are ready", |status| status.available == POOLED).await?;
    let fill = begin.elapsed().as_secs_f64();
    bed.quiet(0, POOLED).await?;
    let full = resident(bed.operator_pid().await?)?;

    let idle = idle(bed).await?;
    let latency = latency(bed).await?;

    let before = resident(bed.operator_pid().await?)?;
    bed.resize(POOLED + MORE).await?;
    bed.quiet(CLAIMS, POOLED + MORE).await?;
    let after = resident(bed.operator_pid().await?)?;

    let mut figures = vec![
        Figure::new("pool fill 0 -> 3,000", Unit::Seconds, fill).limit(12.0),
        Figure::new("controller RSS with 3,000 pooled Pods", Unit::Mebibytes, full)
            .limit(25.0)
            .note(format!("with none: {empty:.1} MiB")),
        Figure::new("controller RSS per 1,000 Pods more", Unit::Mebibytes, after - before).limit(6.0),
    ];
    figures.extend(idle);
    figures.extend(latency);
    Ok(figures)
}

async fn idle(bed: &Bed) -> Result<Vec<Figure>> {
    let before = bed.rest().await?;
    tokio::time::sleep(IDLE).await;
    let cost = before.until(&bed.snapshot().await?);
    let processor = cost.processor.as_secs_f64() * 1e3;
    Ok(vec![
        Figure::new("idle, 3,000 pooled: API requests a minute", Unit::Count, cost.by_operator as f64)
            .limit(40.0)
            .note(cost.of_operator()),
        Figure::new("idle, 3,000 pooled: reads a minute", Unit::Count, cost.reads() as f64).limit(0.0),
        Figure::new("idle, 3,000 pooled: writes but lease renewals a minute", Unit::Count, cost.writes() as f64)
            .limit(0.0)
            .note(cost.each(1)),
        Figure::new("idle, 3,000 pooled: CPU a minute", Unit::Milliseconds, processor),
    ])
}

async fn latency(bed: &mut Bed) -> Result<Vec<Figure>> {
    let mut sights = running(bed).await?;
    let before = bed.snapshot().await?;
    let times = load::serial(bed, &mut sights, "s", CLAIMS).await?;
    let cost = before.until(&bed.snapshot().await?);
    bed.quiet(CLAIMS, POOLED).await?;
    let processor = cost.processor.as_secs_f64() * 1e3 / CLAIMS as f64;
    Ok(vec![
        Figure::new("warm create, serial, 3,000 pooled, p50", Unit::Milliseconds, median(&times.ours))
            .probe(median(&times.probe))
            .ratio_limit(1.7)
            .samples(&times.ours, &times.probe),
        Figure::new("warm create, serial, 3,000 pooled, p99", Unit::Milliseconds, quantile(&times.ours, 0.99))
            .probe(quantile(&times.probe, 0.99)),
        Figure::new("CPU per claim in the controller, 3,000 pooled", Unit::Milliseconds, processor).limit(3.0),
    ])
}
