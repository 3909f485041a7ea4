//! Claims one after the other on a warm Pool.

use std::time::Duration;

use anyhow::Result;

use super::running;
use crate::bed::{Bed, named};
use crate::figure::{Figure, Unit};
use crate::load;
use crate::statistics::{median, quantile};

const CLAIMS: usize = 200;
const BUFFER: i32 = 20;
/// Claims before the first that counts: connections, caches.
const WARM_UP: usize = 10;

pub async fn run(bed: &mut Bed) -> Result<Vec<Figure>> {
    bed.pool(BUFFER, 2000).await?;
    let mut sights = running(bed).await?;
    load::serial(bed, &mut sights, "warm", WARM_UP).await?;
    bed.quiet(WARM_UP, BUFFER).await?;

    let before = bed.snapshot().await?;
    let times = load::serial(bed, &mut sights, "s", CLAIMS).await?;
    let busy = before.until(&bed.snapshot().await?).processor;
    bed.quiet(WARM_UP + CLAIMS, BUFFER).await?;
    let cost = before.until(&bed.snapshot().await?);

    let before = bed.snapshot().await?;
    for number in 0..CLAIMS {
        bed.end(&named("s", number)).await?;
    }
    bed.quiet(WARM_UP, BUFFER).await?;
    bed.until_pods(WARM_UP + usize::try_from(BUFFER)?).await?;
    let ends = before.until(&bed.snapshot().await?);

    let each = |count: u64| count as f64 / CLAIMS as f64;
    let millis = |time: Duration| time.as_secs_f64() * 1e3 / CLAIMS as f64;
    let (p50, p99) = (median(&times.ours), quantile(&times.ours, 0.99));
    Ok(vec![
        Figure::new("warm create, serial, p50", Unit::Milliseconds, p50)
            .limit(12.0)
            .probe(median(&times.probe))
            .ratio_limit(1.7)
            .samples(&times.ours, &times.probe),
        Figure::new("warm create, serial, p99", Unit::Milliseconds, p99)
            .limit(35.0)
            .probe(quantile(&times.probe, 0.99)),
        Figure::new("API writes per claim, refill included, serial", Unit::Count, each(cost.writes()))
            .limit(6.5)
            .note(cost.each(CLAIMS)),
        Figure::new("operator's reads per claim, serial", Unit::Count, each(cost.reads())).limit(0.0).note(format!(
            "the operator's requests: {}; counted by the API server: {}",
            cost.of_operator(),
            cost.by_operator
        )),
        Figure::new("API writes per whole life, serial", Unit::Count, each(cost.writes() + ends.writes()))
            .limit(8.5)
            .note(format!("their ends: {}", ends.each(CLAIMS))),
        Figure::new("CPU per claim in the controller, serial", Unit::Milliseconds, millis(busy)).limit(3.0),
    ])
}
