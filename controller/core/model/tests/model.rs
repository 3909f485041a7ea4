//! The part of the model that belongs to the inner loop.

#![allow(missing_docs)]

use grant_model::explore::{How, Outcome, explore};
use grant_model::mutation::{CASES, Case};
use grant_model::report::way;
use grant_model::worlds::{Cx, SMALL, WORLDS};

fn run(cx: &Cx) -> Outcome {
    explore(cx, How { threads: 2, traced: false, rest_every: 1, limit: 2_000_000 })
}

#[test]
fn nothing_breaks_in_any_small_world() {
    for world in &WORLDS[..SMALL] {
        let outcome = run(&Cx { world: *world, broken: None });
        assert!(!outcome.cut, "{}: {} states", world.name, outcome.states);
        assert!(outcome.found.is_none(), "{}:\n{}", world.name, outcome.found.as_ref().map(way).unwrap_or_default());
    }
}

#[test]
fn every_hole_of_the_first_version_that_a_small_world_shows_is_caught() {
    let small: Vec<&str> = WORLDS[..SMALL].iter().map(|world| world.name).collect();
    let holes: Vec<&Case> =
        CASES.iter().filter(|case| case.name.starts_with('H') && small.contains(&case.world)).collect();
    assert!(holes.len() >= 8, "{holes:?}");
    for case in holes {
        let world = WORLDS.iter().find(|world| world.name == case.world).copied().unwrap_or(WORLDS[0]);
        let rest_every = u64::from(case.breaks == "I5");
        let cx = Cx { world, broken: Some(case.mutation) };
        let found = explore(&cx, How { threads: 2, traced: false, rest_every, limit: 2_000_000 }).found;
        assert_eq!(found.map(|found| found.breach.invariant()), Some(case.breaks), "{}", case.name);
    }
}
