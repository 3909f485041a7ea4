//! Breadth-first over all states of a world, by fingerprints.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::bits::{PODS, Pool};
use crate::breach::Breach;
use crate::hands::{Sink, process};
use crate::label::{Label, Verb};
use crate::plans::Plans;
use crate::prints::{Fast, Prints, Reached, fingerprint};
use crate::rest::to_rest;
use crate::state::State;
use crate::users::others;
use crate::worlds::Cx;
use crate::write::{Kind, check};

/// States that a thread takes at once.
const CHUNK: usize = 256;

/// A broken invariant, and the shortest way to it.
#[derive(Clone, Debug)]
pub struct Found {
    /// Which.
    pub breach: Breach,
    /// The state before the last step.
    pub before: State,
    /// The labels up to it, the breaking one last; empty if ways were not kept.
    pub way: Vec<Label>,
    /// The breach shows only in the run to rest from there.
    pub at_rest: bool,
}

impl Found {
    fn order(&self) -> (bool, Breach, u64) {
        (self.at_rest, self.breach, fingerprint(&self.before))
    }
}

/// What an exploration came to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// States reached.
    pub states: u64,
    /// Transitions taken.
    pub transitions: u64,
    /// Longest shortest way.
    pub depth: u32,
    /// How long it took.
    pub took: Duration,
    /// Runs to rest.
    pub rests: u64,
    /// How often each transition was taken, by its name.
    pub witness: BTreeMap<Label, u64>,
    /// What commits did: Pods promised, promises withdrawn, Pods retired, entries settled.
    pub commits: [u64; 4],
    /// Plans made by production code, and plans asked for.
    pub plans: (u64, u64),
    /// The first broken invariant.
    pub found: Option<Found>,
    /// It stopped before the end, at a limit.
    pub cut: bool,
}

/// How to explore.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Threads.
    pub threads: usize,
    /// Keep ways, for a trace.
    pub traced: bool,
    /// Every so many states are run to rest; 0 for none.
    pub rest_every: u64,
    /// Stop after so many states.
    pub limit: u64,
}

struct Worker<'a> {
    cx: &'a Cx,
    how: How,
    reached: &'a Reached,
    known: &'a Prints,
    plans: Plans,
    witness: HashMap<Label, u64, Fast>,
    commits: [u64; 4],
    next: Vec<State>,
    transitions: u64,
    rests: u64,
    found: Option<Found>,
    parent: (u64, State),
}

impl Sink for Worker<'_> {
    fn next(&mut self, label: Label, after: Result<State, Breach>) {
        self.transitions += 1;
        *self.witness.entry(Label { target: 0, ..label }).or_default() += 1;
        let checked = after.and_then(|state| check(&state).map(|()| state));
        match checked {
            Ok(state) => {
                if matches!(label.verb, Verb::Done(Kind::Commit) | Verb::Landed(Kind::Commit)) {
                    self.committed(state.pool);
                }
                let print = fingerprint(&state);
                if self.reached.insert(print, self.parent.0, Some(label)) {
                    self.next.push(state);
                }
            }
            Err(breach) => self.broke(breach, self.parent.1, Some(label)),
        }
    }
}

impl<'a> Worker<'a> {
    fn new(cx: &'a Cx, how: How, reached: &'a Reached, known: &'a Prints) -> Self {
        Self {
            cx,
            how,
            reached,
            known,
            plans: Plans::default(),
            witness: HashMap::default(),
            commits: [0; 4],
            next: Vec::new(),
            transitions: 0,
            rests: 0,
            found: None,
            parent: (0, State::default()),
        }
    }

    /// Of what breaks on one level, the first in the order of breaches and states: two runs find the same.
    fn broke(&mut self, breach: Breach, before: State, by: Option<Label>) {
        let new = Found { breach, before, way: Vec::new(), at_rest: by.is_none() };
        if self.found.as_ref().is_none_or(|old| new.order() < old.order()) {
            let mut way = self.reached.way(fingerprint(&before));
            way.extend(by);
            self.found = Some(Found { way, ..new });
        }
    }

    fn committed(&mut self, after: Pool) {
        let before = self.parent.1.pool;
        for pod in 0..PODS {
            match (before.entry(pod), after.entry(pod)) {
                (same, other) if same == other => {}
                (_, 0) => self.commits[3] += 1,
                (0, Pool::RETIRING) => self.commits[2] += 1,
                (_, Pool::RETIRING) => self.commits[1] += 1,
                (_, _) => self.commits[0] += 1,
            }
        }
    }

    /// Takes states of a level until none is left.
    fn level(&mut self, frontier: &[State], done: &AtomicUsize) {
        loop {
            let from = done.fetch_add(CHUNK, Ordering::Relaxed);
            let Some(chunk) = frontier.get(from..frontier.len().min(from + CHUNK)).filter(|chunk| !chunk.is_empty())
            else {
                return;
            };
            chunk.iter().for_each(|state| self.expand(state));
        }
    }

    fn expand(&mut self, state: &State) {
        self.parent = (fingerprint(state), *state);
        for at in 0..2_u8 {
            let moves = self.plans.of(&state.leaders[usize::from(at)], self.cx);
            process(state, self.cx, at, &moves, self);
        }
        others(state, self.cx, self);
        if self.how.rest_every > 0 && self.parent.0.is_multiple_of(self.how.rest_every) {
            self.rest(state);
        }
    }

    fn rest(&mut self, state: &State) {
        for survivor in 0..self.cx.world.leaders {
            // One that is down is started anew only if no other lives.
            let lives = |at: u8| state.leaders[usize::from(at)].up;
            if !lives(survivor) && (0..self.cx.world.leaders).any(lives) {
                continue;
            }
            self.rests += 1;
            let result = to_rest(state, self.cx, survivor, &mut self.plans, self.known);
            if let Err(breach) = result {
                self.broke(breach, *state, None);
            }
        }
    }
}

/// Explores a world.
#[must_use]
pub fn explore(cx: &Cx, how: How) -> Outcome {
    let begun = Instant::now();
    let (reached, known) = (Reached::new(how.traced), Prints::default());
    let first = cx.start();
    reached.insert(fingerprint(&first), 0, None);
    let mut workers: Vec<_> = (0..how.threads).map(|_| Worker::new(cx, how, &reached, &known)).collect();
    let mut frontier = vec![first];
    let (mut depth, mut cut) = (0, false);
    while !frontier.is_empty() {
        let done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for worker in &mut workers {
                scope.spawn(|| worker.level(&frontier, &done));
            }
        });
        frontier = workers.iter_mut().flat_map(|worker| std::mem::take(&mut worker.next)).collect();
        cut = reached.len() > how.limit;
        if cut || workers.iter().any(|worker| worker.found.is_some()) {
            break;
        }
        depth += u32::from(!frontier.is_empty());
    }
    let mut outcome = Outcome { states: reached.len(), depth, took: begun.elapsed(), cut, ..Outcome::default() };
    for worker in workers {
        outcome.add(worker);
    }
    outcome
}

impl Outcome {
    fn add(&mut self, worker: Worker) {
        self.transitions += worker.transitions;
        self.rests += worker.rests;
        let (made, asked) = worker.plans.counts();
        self.plans = (self.plans.0 + made, self.plans.1 + asked);
        for (sum, times) in self.commits.iter_mut().zip(worker.commits) {
            *sum += times;
        }
        for (label, times) in worker.witness {
            *self.witness.entry(label).or_default() += times;
        }
        if let Some(found) = worker.found
            && self.found.as_ref().is_none_or(|other| found.order() < other.order())
        {
            self.found = Some(found);
        }
    }
}
