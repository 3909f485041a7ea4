//! What is measured, one file per kind of case.

mod batch;
mod burst;
mod check;
mod growth;
mod pooled;
mod serial;
mod waves;

use anyhow::Result;
use clap::ValueEnum;
use sandbox_api::BatchSandbox;

use crate::bed::{Bed, is_up};
use crate::figure::Figure;
use crate::sights::{Seen, Sights};

pub use check::check;

/// A case: it can be run alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Case {
    /// Claims one after the other on a warm Pool: latency, writes, processor time.
    Serial,
    /// One BatchSandbox of 100 on a warm Pool.
    #[value(name = "batch-100")]
    Batch100,
    /// One BatchSandbox of 1,000 on a warm Pool.
    #[value(name = "batch-1000")]
    Batch1000,
    /// 100 claims at once on a Pool of 100.
    #[value(name = "burst-100")]
    Burst100,
    /// 300 claims at once on a Pool of 100.
    #[value(name = "burst-300")]
    Burst300,
    /// 1,000 claims at once on a Pool of at most 200, each for 3 s.
    Waves,
    /// 3,000 pooled Pods: fill, memory, idle requests, latency.
    Pooled,
    /// Latency with 10,000 live sandboxes.
    Growth,
}

impl Case {
    /// All of them, the short ones first.
    pub const ALL: [Self; 8] = [
        Self::Serial,
        Self::Batch100,
        Self::Batch1000,
        Self::Burst100,
        Self::Burst300,
        Self::Waves,
        Self::Pooled,
        Self::Growth,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Serial => "serial",
            Self::Batch100 => "batch-100",
            Self::Batch1000 => "batch-1000",
            Self::Burst100 => "burst-100",
            Self::Burst300 => "burst-300",
            Self::Waves => "waves",
            Self::Pooled => "pooled",
            Self::Growth => "growth",
        }
    }

    /// Runs it on a control plane of its own.
    ///
    /// # Errors
    /// When something does not start, is refused or does not come.
    pub async fn run(self) -> Result<Vec<Figure>> {
        let mut bed = Bed::make(self.name()).await?;
        match self {
            Self::Serial => serial::run(&mut bed).await,
            Self::Batch100 => batch::run(&mut bed, batch::Batch { pods: 100, samples: 15, limit: 15.0 }).await,
            Self::Batch1000 => batch::run(&mut bed, batch::Batch { pods: 1000, samples: 4, limit: 45.0 }).await,
            Self::Burst100 => burst::of_100(&mut bed).await,
            Self::Burst300 => burst::of_300(&mut bed).await,
            Self::Waves => waves::run(&mut bed).await,
            Self::Pooled => pooled::run(&mut bed).await,
            Self::Growth => growth::run(&mut bed).await,
        }
    }
}

/// Follows the claims of a bed until each runs.
async fn running(bed: &Bed) -> Result<Sights> {
    Sights::of(bed.claims.clone(), |seen: Seen<'_, BatchSandbox>| match seen {
        Seen::There(claim) => is_up(claim),
        Seen::Gone(_) => false,
    })
    .await
}
