//! What is counted and the same on every machine, quickly.

use std::time::Duration;

use anyhow::Result;

use super::running;
use crate::bed::{Bed, named};
use crate::figure::{Figure, Unit};
use crate::load::{self, all_at_once};

const BUFFER: i32 = 100;
const SERIAL: usize = 20;
const BURST: usize = 100;
/// No claim needs a read. One whose write was refused or cut off may have one, so a few in a hundred do.
pub const READS: f64 = 0.1;
const IDLE: Duration = Duration::from_secs(30);

/// Writes and reads per claim and per life, serial and in a burst, and requests while nothing happens.
///
/// # Errors
/// When something does not start, is refused or does not come.
pub async fn check() -> Result<Vec<Figure>> {
    let mut bed = Bed::make("check").await?;
    bed.pool(BUFFER, 1000).await?;
    let mut sights = running(&bed).await?;
    load::serial(&mut bed, &mut sights, "warm", 1).await?;
    bed.quiet(1, BUFFER).await?;

    let begin = bed.snapshot().await?;
    load::serial(&mut bed, &mut sights, "s", SERIAL).await?;
    bed.quiet(1 + SERIAL, BUFFER).await?;
    let served = bed.snapshot().await?;
    for number in 0..SERIAL {
        bed.end(&named("s", number)).await?;
    }
    bed.quiet(1, BUFFER).await?;
    bed.until_pods(1 + usize::try_from(BUFFER)?).await?;
    let ended = bed.snapshot().await?;
    let (serial, serial_ends) = (begin.until(&served), served.until(&ended));

    load::burst(&bed, &mut sights, "b", BURST).await?;
    bed.quiet(1 + BURST, BUFFER).await?;
    let served = bed.snapshot().await?;
    all_at_once((0..BURST).map(|number| bed.ending(named("b", number)))).await?;
    bed.quiet(1, BUFFER).await?;
    bed.until_pods(1 + usize::try_from(BUFFER)?).await?;
    let all_ended = bed.snapshot().await?;
    let (burst, burst_ends) = (ended.until(&served), served.until(&all_ended));

    let at_rest = bed.rest().await?;
    tokio::time::sleep(IDLE).await;
    let idle = at_rest.until(&bed.snapshot().await?);

    let each = |count: u64, of: usize| count as f64 / of as f64;
    let figure = |what: &str, value: f64, limit: f64| Figure::new(what, Unit::Count, value).limit(limit);
    let minute = 60.0 / IDLE.as_secs_f64();
    Ok(vec![
        figure("API writes per claim, refill included, serial", each(serial.writes(), SERIAL), 6.5)
            .note(serial.each(SERIAL)),
        figure("API writes per whole life, serial", each(serial.writes() + serial_ends.writes(), SERIAL), 8.5),
        figure("operator's reads per life, serial", each(serial.reads() + serial_ends.reads(), SERIAL), READS)
            .note(serial.of_operator()),
        figure("API writes per claim, refill included, burst of 100", each(burst.writes(), BURST), 5.3)
            .note(burst.each(BURST)),
        figure("API writes per whole life, burst of 100", each(burst.writes() + burst_ends.writes(), BURST), 7.5),
        figure("operator's reads per life, burst of 100", each(burst.reads() + burst_ends.reads(), BURST), READS)
            .note(burst.of_operator()),
        figure("idle: API requests a minute", idle.by_operator as f64 * minute, 40.0).note(idle.of_operator()),
        figure("idle: writes but lease renewals", idle.writes() as f64, 0.0).note(idle.each(1)),
        figure("idle: reads", idle.reads() as f64, 0.0),
    ])
}
