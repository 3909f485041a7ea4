//! The weather of a run: which faults strike for how long, by seed.

use std::sync::Arc;
use std::time::Duration;

use sandbox_e2e::faults::{Dice, Fault, Refusal, Rule, Scope, Verb, Weather};
use tokio::time::sleep;

use crate::replicas::Replica;
use crate::tally::Tally;

/// The kinds whose watches freeze.
const WATCHED: [&str; 5] = ["pods", "pools", "batchsandboxes", "sandboxes", "nodes"];

const fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

/// One weather after the other, for ever. `without_versions` makes the operator wrong all the time.
pub async fn blow(replica: Arc<Replica>, seed: u64, tally: Tally, without_versions: bool) {
    let mut dice = Dice::at(seed, &["storms", &replica.name], 0);
    loop {
        replica.proxy.set(Weather { without_versions, ..Weather::default() });
        sleep(dice.between(ms(300), ms(2_500))).await;
        let storm = Storm::throw(&mut dice);
        tally.add(format!("storm: {}", storm.word()));
        replica.proxy.set(Weather { without_versions, ..storm.weather(&mut dice) });
        if storm.breaks_watches() {
            replica.proxy.cut_watches();
        }
        sleep(storm.lasts(&mut dice)).await;
    }
}

#[derive(Clone, Copy)]
enum Storm {
    Slow,
    Late,
    Lossy,
    Refusing,
    Frozen,
    Cut,
    Expired,
    Partition,
    LongPartition,
    Lease,
    Everything,
}

impl Storm {
    /// Without a leader nothing happens that could go wrong, so what ends leaders is rare.
    const OFTEN: [(Self, usize); 11] = [
        (Self::Slow, 3),
        (Self::Late, 5),
        (Self::Lossy, 5),
        (Self::Refusing, 4),
        (Self::Frozen, 5),
        (Self::Cut, 3),
        (Self::Expired, 2),
        (Self::Partition, 3),
        (Self::LongPartition, 1),
        (Self::Lease, 1),
        (Self::Everything, 6),
    ];

    fn throw(dice: &mut Dice) -> Self {
        let mut left = dice.below(Self::OFTEN.iter().map(|(_, often)| often).sum());
        for (storm, often) in Self::OFTEN {
            if left < often {
                return storm;
            }
            left -= often;
        }
        Self::Everything
    }

    fn word(self) -> &'static str {
        match self {
            Self::Slow => "slow requests",
            Self::Late => "late writes",
            Self::Lossy => "lost answers",
            Self::Refusing => "refusals",
            Self::Frozen => "frozen watches",
            Self::Cut => "cut watches",
            Self::Expired => "expired watches",
            Self::Partition => "partition, short",
            Self::LongPartition => "partition, longer than the Lease",
            Self::Lease => "trouble with the Lease",
            Self::Everything => "a little of everything",
        }
    }

    fn breaks_watches(self) -> bool {
        match self {
            Self::Cut | Self::Expired => true,
            Self::Slow
            | Self::Late
            | Self::Lossy
            | Self::Refusing
            | Self::Frozen
            | Self::Partition
            | Self::LongPartition
            | Self::Lease
            | Self::Everything => false,
        }
    }

    fn lasts(self, dice: &mut Dice) -> Duration {
        match self {
            // The Lease lasts 15 s.
            Self::LongPartition => dice.between(ms(14_000), ms(20_000)),
            Self::Partition => dice.between(ms(500), ms(6_000)),
            Self::Slow
            | Self::Late
            | Self::Lossy
            | Self::Refusing
            | Self::Frozen
            | Self::Cut
            | Self::Expired
            | Self::Lease
            | Self::Everything => dice.between(ms(2_000), ms(9_000)),
        }
    }

    fn weather(self, dice: &mut Dice) -> Weather {
        let rules = match self {
            Self::Slow => vec![rule(Scope::default(), 40, Fault::Delay(ms(20), ms(1_500)))],
            Self::Late => vec![rule(Scope::writes(), 15, Fault::Late(ms(200), ms(12_000)))],
            Self::Lossy => {
                vec![rule(Scope::writes(), 20, Fault::LoseAnswer), rule(Scope::writes(), 10, Fault::HideAnswer)]
            }
            Self::Refusing => [Refusal::Conflict, Refusal::TooManyRequests, Refusal::Internal, Refusal::Unavailable]
                .into_iter()
                .map(|refusal| rule(Scope::default(), 10, Fault::Refuse(refusal)))
                .collect(),
            Self::Cut => vec![rule(watches(), 70, Fault::CutWatch(ms(30), ms(2_000)))],
            Self::Expired => vec![
                rule(watches(), 60, Fault::ExpireWatch(ms(30), ms(2_000))),
                rule(Scope::of(&[Verb::List, Verb::Watch], &[]), 20, Fault::Refuse(Refusal::Expired)),
            ],
            Self::Lease => {
                let lease = || Scope::of(&[], &["leases"]);
                vec![
                    rule(lease(), 40, Fault::LoseAnswer),
                    rule(lease(), 30, Fault::Refuse(Refusal::Conflict)),
                    rule(lease(), 20, Fault::Delay(ms(1_000), ms(4_000))),
                ]
            }
            Self::Everything => vec![
                rule(Scope::writes(), 4, Fault::LoseAnswer),
                rule(Scope::writes(), 4, Fault::Late(ms(100), ms(8_000))),
                rule(Scope::default(), 4, Fault::Refuse(Refusal::Conflict)),
                rule(Scope::default(), 4, Fault::Refuse(Refusal::Internal)),
                rule(Scope::default(), 10, Fault::Delay(ms(5), ms(600))),
                rule(watches(), 20, Fault::CutWatch(ms(200), ms(3_000))),
            ],
            Self::Frozen | Self::Partition | Self::LongPartition => Vec::new(),
        };
        let frozen = match self {
            Self::Frozen => WATCHED.iter().filter(|_| dice.chance(55)).map(|kind| (*kind).to_owned()).collect(),
            Self::Slow
            | Self::Late
            | Self::Lossy
            | Self::Refusing
            | Self::Cut
            | Self::Expired
            | Self::Partition
            | Self::LongPartition
            | Self::Lease
            | Self::Everything => Vec::new(),
        };
        let partitioned = matches!(self, Self::Partition | Self::LongPartition);
        Weather { rules, frozen, partitioned, ..Weather::default() }
    }
}

fn rule(scope: Scope, percent: u32, fault: Fault) -> Rule {
    Rule { scope, percent, fault }
}

fn watches() -> Scope {
    Scope::of(&[Verb::Watch], &[])
}
