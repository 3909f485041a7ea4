//! The invariants I1 to I6 of the grant protocol, checked on a watch log of the API server.
//!
//! The log is made over a connection of its own and read by field names: nothing of the operator's code decides what is
//! right here. All kinds live in one store, so the revisions of their events are one order, and a check may ask "what
//! was true at this moment" across kinds.

pub mod fact;
mod invariants;
mod order;
mod record;
mod settled;
mod world;

use std::collections::BTreeMap;
use std::fmt;

pub use fact::{Fact, Kind};
pub use record::{Acts, Log, Record};
pub use settled::unsettled;
pub use world::{Thing, World};

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// A Pod is delivered to at most one claim, ever, unless it was handed back in between.
    I1,
    /// A Pod that was promised or delivered never counts as clean again unless handed back.
    I2,
    /// The Pods of a Pool, ending ones included, never exceed `poolMax`.
    I3,
    /// A sandbox whose deadline was moved is not ended at the old one.
    I4,
    /// Without further faults everything settles.
    I5,
    /// A Pod in use is deleted only for its own claim's end; a healthy one is never declared lost.
    I6,
}

impl Invariant {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::I1, Self::I2, Self::I3, Self::I4, Self::I5, Self::I6];
}

/// Something that must not be.
#[derive(Clone, Debug)]
pub struct Violation {
    /// What it breaks.
    pub invariant: Invariant,
    /// In words, with the object's name.
    pub says: String,
    /// The uids of all objects that have to do with it.
    pub about: Vec<String>,
    /// The event that shows it, as a place in [`Log::facts`]; none if it is about the end.
    pub at: Option<usize>,
}

/// Lines of the log shown before and after a violation.
const BEFORE: usize = 14;
const AFTER: usize = 4;

impl Violation {
    /// The violation with the events of its objects around it.
    #[must_use]
    pub fn shown<'a>(&'a self, log: &'a Log) -> impl fmt::Display + 'a {
        Shown { violation: self, log }
    }
}

struct Shown<'a> {
    violation: &'a Violation,
    log: &'a Log,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { invariant, says, about, at } = self.violation;
        writeln!(f, "{invariant:?} BROKEN: {says}")?;
        let at = at.unwrap_or(self.log.facts.len());
        let lines = self.lines(about);
        let (before, after): (Vec<_>, Vec<_>) = lines.into_iter().partition(|(place, _)| *place < at);
        for (_, line) in before.iter().skip(before.len().saturating_sub(BEFORE)) {
            writeln!(f, "      {line}")?;
        }
        for (place, line) in after.iter().take(AFTER + 1) {
            writeln!(f, "  {}{line}", if *place == at { "-> " } else { "    " })?;
        }
        Ok(())
    }
}

impl Shown<'_> {
    /// Every event of these objects, with its place; of a ledger only what it says of them, and only when that changes.
    fn lines(&self, about: &[String]) -> Vec<(usize, String)> {
        let mut said = BTreeMap::new();
        let mut lines = Vec::new();
        for (place, fact) in self.log.facts.iter().enumerate() {
            if let fact::State::Pool(pool) = &fact.state {
                let says = pool.says_of(about);
                let before: Vec<String> = said.insert(&fact.uid, says.clone()).unwrap_or_default();
                if says != before {
                    lines.push((place, format!("{fact} {}", says.join(", "))));
                }
            } else if about.iter().any(|uid| mentions(fact, uid)) {
                lines.push((place, fact.to_string()));
            }
        }
        lines
    }
}

fn mentions(fact: &Fact, uid: &str) -> bool {
    let state = match &fact.state {
        fact::State::Pod(pod) => pod.claim.as_deref() == Some(uid),
        fact::State::Pool(_) | fact::State::Anchor(_) => false,
        fact::State::Claim(claim) => claim.slots.iter().any(|slot| match slot {
            fact::Slot::Open => false,
            fact::Slot::Named { uid: named, .. } | fact::Slot::Lost(named) => named == uid,
        }),
        fact::State::Lease(_) => false,
    };
    state || fact.uid == uid
}

/// Everything in the log that must not be. `unsettled` is left to whoever knows when the faults ended.
#[must_use]
pub fn audit(log: &Log) -> Vec<Violation> {
    invariants::Audit::of(log)
}
