//! `grant-model`: explores the worlds, breaks the rules, shows ways.
//!
//! - `grant-model` explores every world of the whole, then breaks every rule; exit 0 if nothing but that broke anything.
//! - `grant-model small` does the part that belongs to the inner loop.
//! - `grant-model world NAME...` explores these worlds and, if one breaks, shows the way.
//! - `grant-model trace NAME...` breaks these rules and shows the shortest way to what breaks.
//! - `grant-model list` names worlds and rules.

#![expect(clippy::print_stdout, reason = "what it finds is for a person to read")]

use std::process::ExitCode;

use grant_model::explore::{How, Outcome, explore};
use grant_model::mutation::{CASES, Case, NOTHING};
use grant_model::report::{self, Sum};
use grant_model::worlds::{Cx, SMALL, WHOLE, WORLDS, World};

/// The most states of one world. None of them has so many: it is what ends a mistake.
const LIMIT: u64 = 20_000_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let names: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let fine = match names.as_slice() {
        [] => worlds(&WORLDS[..WHOLE], true) & rules(CASES, false),
        ["small"] => worlds(&WORLDS[..SMALL], false),
        ["rules"] => rules(CASES, false),
        ["list"] => {
            println!("{}", report::list());
            true
        }
        ["world", names @ ..] => names.iter().all(|name| with_ways(name)),
        ["trace", names @ ..] => {
            let chosen: Vec<Case> = CASES.iter().filter(|case| names.contains(&case.name)).copied().collect();
            chosen.len() == names.len() && rules(&chosen, true)
        }
        [..] => {
            println!("usage: grant-model [small | rules | list | world NAME... | trace NAME...]");
            false
        }
    };
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn how(traced: bool) -> How {
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    How { threads, traced, rest_every: 1, limit: LIMIT }
}

/// Explores worlds as they are. True if nothing broke and, if `all` of them are explored, everything was reached.
fn worlds(worlds: &[World], all: bool) -> bool {
    println!("{}", report::HEAD);
    let mut sum = Sum::default();
    for world in worlds {
        let outcome = explore(&Cx { world: *world, broken: None }, how(false));
        println!("{}", report::world(world, &outcome));
        sum.add(&outcome);
        if outcome.found.is_some() {
            println!("{}", shown(&Cx { world: *world, broken: None }));
        }
    }
    println!("{}", sum.line());
    if all {
        println!("{}", sum.witness());
    }
    sum.is_sound() && (!all || sum.missing().is_empty())
}

fn with_ways(name: &str) -> bool {
    let Some(world) = WORLDS.iter().find(|world| world.name == name) else {
        println!("there is no world {name}: see grant-model list");
        return false;
    };
    let outcome = explore(&Cx { world: *world, broken: None }, how(true));
    println!("{}\n{}", report::HEAD, report::world(world, &outcome));
    if let Some(found) = &outcome.found {
        println!("{}", report::way(found));
    }
    outcome.found.is_none() && !outcome.cut
}

/// Explored once more, with ways.
fn shown(cx: &Cx) -> String {
    explore(cx, how(true)).found.as_ref().map(report::way).unwrap_or_default()
}

/// Breaks rules one by one. True if each is caught by the invariant that it is said to break.
fn rules(cases: &[Case], ways: bool) -> bool {
    let mut fine = true;
    for case in cases {
        let Some(world) = WORLDS.iter().find(|world| world.name == case.world) else { return false };
        let cx = Cx { world: *world, broken: Some(case.mutation) };
        // Only I5 is about the rest.
        let rest_every = u64::from(case.breaks == "I5" || case.breaks == NOTHING);
        let outcome: Outcome = explore(&cx, How { rest_every, ..how(ways) });
        let broken = outcome.found.as_ref().map_or(NOTHING, |found| found.breach.invariant());
        println!("{}", report::case(case, &outcome));
        if ways && let Some(found) = &outcome.found {
            println!("{}", report::way(found));
        }
        fine &= broken == case.breaks && !outcome.cut;
    }
    fine
}
