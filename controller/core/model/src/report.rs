//! What was found, to read.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::explore::{Found, Outcome};
use crate::label::{Label, Verb, required};
use crate::mutation::{CASES, Case, NOTHING};
use crate::worlds::{Asks, WORLDS, World};

/// The head of the table of worlds.
pub const HEAD: &str = "world            pods claims   processes  acts crash lost takeover late retire      states  transitions depth  states/s      s";

/// A world's line.
#[must_use]
pub fn world(world: &World, outcome: &Outcome) -> String {
    let seconds = outcome.took.as_secs_f64();
    let asks: Vec<String> = world.claims.iter().filter_map(asked).collect();
    let budget = world.budget;
    let mut line = format!(
        "{:<16} {}/{}  {:<8} {:>9} {:>5} {:>5} {:>4} {:>8} {:>4} {:>6} {:>11} {:>12} {:>5} {:>9.0} {:>6.1}",
        world.name,
        world.warm,
        world.pods,
        asks.join("+"),
        world.leaders,
        budget.acts,
        budget.crashes,
        budget.lost,
        budget.takeovers,
        budget.late,
        budget.retire,
        outcome.states,
        outcome.transitions,
        outcome.depth,
        outcome.states as f64 / seconds,
        seconds
    );
    if let Some(found) = &outcome.found {
        let _ = write!(line, "  BROKEN: {:?}", found.breach);
    }
    if outcome.cut {
        line.push_str("  CUT OFF");
    }
    line
}

fn asked(asks: &Asks) -> Option<String> {
    match asks {
        Asks::Nobody => None,
        Asks::Now(replicas) => Some(replicas.to_string()),
        Asks::Later(replicas) => Some(format!("({replicas})")),
        Asks::Overdue => Some("1!".to_owned()),
    }
}

/// A broken rule's line.
#[must_use]
pub fn case(case: &Case, outcome: &Outcome) -> String {
    let cut = if outcome.cut { ", CUT OFF" } else { "" };
    let result = match &outcome.found {
        Some(found) if found.breach.invariant() == case.breaks => format!("caught: {:?}", found.breach),
        Some(found) => format!("NOT AS SAID ({}): {:?}", case.breaks, found.breach),
        None if case.breaks == NOTHING => "breaks nothing in this world".to_owned(),
        None => format!("NOT CAUGHT (should break {})", case.breaks),
    };
    format!(
        "{:<28} {:<16} {result:<44} {:>9} states, {} steps{cut}",
        case.name,
        case.world,
        outcome.states,
        outcome.depth + 1
    )
}

/// The shortest way to a broken invariant.
#[must_use]
pub fn way(found: &Found) -> String {
    let mut text = String::new();
    for (number, label) in (1..).zip(&found.way) {
        let _ = writeln!(text, "  {number:>2}. {label}");
    }
    let when = if found.at_rest { "on the way to rest from" } else { "by the last step, before which there was" };
    let _ = writeln!(text, "  {:?} {when}", found.breach);
    let _ = write!(text, "      {}", found.before);
    text
}

/// Names of worlds and rules.
#[must_use]
pub fn list() -> String {
    let worlds: Vec<&str> = WORLDS.iter().map(|world| world.name).collect();
    let cases: Vec<&str> = CASES.iter().map(|case| case.name).collect();
    format!("worlds: {}\nrules: {}", worlds.join(" "), cases.join(" "))
}

/// What all worlds together came to.
#[derive(Default)]
pub struct Sum {
    states: u64,
    transitions: u64,
    rests: u64,
    seconds: f64,
    plans: (u64, u64),
    commits: [u64; 4],
    unsound: bool,
    verbs: BTreeMap<Verb, u64>,
}

impl Sum {
    /// Adds a world.
    pub fn add(&mut self, outcome: &Outcome) {
        self.states += outcome.states;
        self.transitions += outcome.transitions;
        self.rests += outcome.rests;
        self.seconds += outcome.took.as_secs_f64();
        self.plans = (self.plans.0 + outcome.plans.0, self.plans.1 + outcome.plans.1);
        self.unsound |= outcome.found.is_some() || outcome.cut;
        for (sum, times) in self.commits.iter_mut().zip(outcome.commits) {
            *sum += times;
        }
        for (Label { verb, .. }, times) in &outcome.witness {
            *self.verbs.entry(*verb).or_default() += times;
        }
    }

    /// Nothing broke, and nothing was cut off.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        !self.unsound
    }

    /// Sums.
    #[must_use]
    pub fn line(&self) -> String {
        format!(
            "{} states, {} transitions, {} runs to rest, {} plans by production code (asked for {} times), {:.0} s",
            self.states, self.transitions, self.rests, self.plans.0, self.plans.1, self.seconds
        )
    }

    /// What no world reached.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let verbs =
            required().into_iter().filter(|verb| !self.verbs.contains_key(verb)).map(|verb| format!("{verb:?}"));
        let commits = ["promised", "withdrawn", "retired", "settled"].into_iter().zip(self.commits);
        verbs.chain(commits.filter(|(_, times)| *times == 0).map(|(name, _)| name.to_owned())).collect()
    }

    /// How often each transition was taken, and which never was.
    #[must_use]
    pub fn witness(&self) -> String {
        let [promised, withdrawn, retired, settled] = self.commits;
        let mut text = format!(
            "witness: commits promised {promised} Pods, withdrew {withdrawn}, retired {retired}, settled {settled} entries\n"
        );
        for (verb, times) in &self.verbs {
            let _ = writeln!(text, "  {:<28} {times:>12}", format!("{verb:?}"));
        }
        match self.missing().as_slice() {
            [] => text.push_str("every fault and every action was reached"),
            missing => {
                let _ = write!(text, "NEVER REACHED: {}", missing.join(", "));
            }
        }
        text
    }
}
