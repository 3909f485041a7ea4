//! The tasks of this Pod: what is to run, what runs, and the loop that brings the two together.
//!
//! One task is active at a time. A task that is to go is stopped with everything that came of it, also with what left
//! its process group; only then the next one starts, so that no task ever shares the Pod with what a former one left.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use nix::sys::signal::Signal;

use crate::entry::{Entry, Phase, Stop, StopReason};
use crate::log::Log;
use crate::output::TaskDir;
use crate::process::{self, Living};
use crate::task::{EndReason, Task, Terminated};

/// How often a stopping task is looked at.
const STOPPING: Duration = Duration::from_millis(20);
/// How often the output of a running task is measured.
const MEASURE: Duration = Duration::from_secs(1);

/// Why a request about tasks was not carried out. Each carries a message for a person.
#[derive(Debug)]
pub enum Refusal {
    /// The task itself is wrong.
    Flawed(String),
    /// Its name or the one active place is taken.
    Taken(String),
    /// Its process cannot be started.
    NotStarted(String),
    /// The executor is ending.
    Ending(String),
}

impl Refusal {
    /// What to tell the caller.
    pub fn message(&self) -> &str {
        match self {
            Self::Flawed(text) | Self::Taken(text) | Self::NotStarted(text) | Self::Ending(text) => text,
        }
    }
}

/// All tasks of this executor. Methods may be called from any thread.
pub struct Supervisor {
    state: Mutex<State>,
    wake: Condvar,
    data_dir: PathBuf,
    grace: Duration,
    output_limit: u64,
    log: Arc<Log>,
}

#[derive(Default)]
struct State {
    tasks: BTreeMap<String, Entry>,
    /// SIGTERMs so far.
    ends: u32,
    woken: bool,
}

impl Supervisor {
    /// Without tasks. `grace` lies between SIGTERM and SIGKILL; `output_limit` are bytes of one output file.
    pub fn new(data_dir: PathBuf, grace: Duration, output_limit: u64, log: Arc<Log>) -> Self {
        Self { state: Mutex::default(), wake: Condvar::new(), data_dir, grace, output_limit, log }
    }

    /// Makes `desired` the whole set: others are stopped, missing ones started, present ones left as they are. A task
    /// without a name is ignored.
    ///
    /// # Errors
    /// What could not be created; everything else was applied.
    pub fn set(&self, desired: Vec<Task>) -> Result<Vec<Task>, Vec<Refusal>> {
        let mut state = self.lock();
        let now = Timestamp::now();
        for (name, entry) in &mut state.tasks {
            if !desired.iter().any(|task| task.name == *name) {
                entry.delete(now, &self.log);
            }
        }
        self.advance(&mut state);
        let mut refused = Vec::new();
        for task in desired.into_iter().filter(|task| !task.name.is_empty()) {
            if !state.tasks.contains_key(&task.name)
                && let Err(refusal) = self.add(&mut state, task)
            {
                refused.push(refusal);
            }
        }
        self.poke(state);
        if refused.is_empty() { Ok(self.list()) } else { Err(refused) }
    }

    /// Adds one task.
    ///
    /// # Errors
    /// It is flawed, its name is taken, another is active, or it cannot be started.
    pub fn create(&self, task: Task) -> Result<Task, Refusal> {
        let name = task.name.clone();
        let mut state = self.lock();
        if state.tasks.contains_key(&name) {
            return Err(Refusal::Taken(format!("task {name:?} exists already")));
        }
        self.add(&mut state, task)?;
        let report = state.tasks.get(&name).map(Entry::report);
        self.poke(state);
        report.ok_or_else(|| Refusal::NotStarted(format!("task {name:?} is gone")))
    }

    /// Asks for the end of a task; one that is not there is no error.
    pub fn delete(&self, name: &str) {
        let mut state = self.lock();
        if let Some(entry) = state.tasks.get_mut(name) {
            entry.delete(Timestamp::now(), &self.log);
        }
        self.advance(&mut state);
        self.poke(state);
    }

    /// One task as it is now.
    pub fn get(&self, name: &str) -> Option<Task> {
        self.lock().tasks.get(name).map(Entry::report)
    }

    /// All tasks as they are now, those that are to stay first: the operator reads the first one.
    pub fn list(&self) -> Vec<Task> {
        let mut tasks: Vec<Task> = self.lock().tasks.values().map(Entry::report).collect();
        tasks.sort_by_key(|task| task.deletion_timestamp.is_some());
        tasks
    }

    /// A child may have ended.
    pub fn look(&self) {
        self.poke(self.lock());
    }

    /// The Pod is to end: all tasks are stopped, nothing new starts. The second call skips the grace.
    pub fn end(&self) {
        let mut state = self.lock();
        state.ends += 1;
        let now = Timestamp::now();
        for entry in state.tasks.values_mut() {
            entry.delete(now, &self.log);
        }
        self.poke(state);
    }

    /// Keeps the tasks as they should be; returns when the Pod is to end and nothing is left.
    pub fn run(&self) {
        let mut state = self.lock();
        loop {
            let next = self.advance(&mut state);
            if state.ends > 0 && state.tasks.is_empty() {
                return;
            }
            if std::mem::take(&mut state.woken) {
                continue;
            }
            state = match next {
                Some(pause) => self.wake.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0,
                None => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
            state.woken = false;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poke(&self, mut state: MutexGuard<'_, State>) {
        state.woken = true;
        self.wake.notify_one();
    }

    fn add(&self, state: &mut State, task: Task) -> Result<(), Refusal> {
        if state.ends > 0 {
            return Err(Refusal::Ending(format!("task {:?}: this executor is ending", task.name)));
        }
        task.check().map_err(Refusal::Flawed)?;
        if let Some((active, _)) = state.tasks.iter().find(|(_, entry)| entry.active()) {
            let message = format!("task {:?}: {active:?} is active and this executor runs one at a time", task.name);
            return Err(Refusal::Taken(message));
        }
        let name = task.name.clone();
        let mut entry = Entry { task, phase: Phase::Waiting, stop: None };
        if !state.tasks.values().any(Entry::going) {
            self.start(&mut entry).map_err(Refusal::NotStarted)?;
        }
        state.tasks.insert(name, entry);
        Ok(())
    }

    /// Only ever called with the lock held: reaping takes it too, and must not meet a start.
    fn start(&self, entry: &mut Entry) -> Result<(), String> {
        let name = &entry.task.name;
        let process = entry.task.check()?;
        for left_out in process.env.iter().filter(|variable| variable.value_from.is_some()) {
            self.log.error(&format!("task {name:?}: {} is left out: valueFrom is not resolved", left_out.name));
        }
        let dir = TaskDir::new(&self.data_dir, name);
        let leader = process::start(process, &dir).map_err(|error| {
            let message = format!("task {name:?} cannot be started: {error}");
            self.log.error(&message);
            message
        })?;
        self.log.info(&format!("task {name:?} started as process {leader}"));
        entry.phase = Phase::Running { leader, started_at: Timestamp::now(), since: Instant::now() };
        Ok(())
    }

    /// One step of everything; answers when the next one is due at the latest.
    fn advance(&self, state: &mut State) -> Option<Duration> {
        while let Some((pid, exit)) = process::reap() {
            if let Some(entry) = state.tasks.values_mut().find(|entry| entry.runs_as(pid)) {
                entry.ended(exit, &self.log);
            }
        }
        let names: Vec<String> = state.tasks.keys().cloned().collect();
        let mut next = None;
        for name in &names {
            let shared = state.tasks.iter().any(|(other, entry)| other != name && entry.lives());
            let hurry = state.ends > 1;
            let Some(entry) = state.tasks.get_mut(name) else {
                continue;
            };
            if let Some(due) = self.step(entry, shared, hurry) {
                next = Some(next.map_or(due, |earlier: Duration| earlier.min(due)));
            }
            if entry.gone() {
                TaskDir::new(&self.data_dir, name).remove();
                self.log.info(&format!("task {name:?} is gone"));
                state.tasks.remove(name);
            }
        }
        self.start_waiting(state);
        next
    }

    fn start_waiting(&self, state: &mut State) {
        if state.ends > 0 || state.tasks.values().any(Entry::going) {
            return;
        }
        let Some(entry) = state.tasks.values_mut().find(|entry| matches!(entry.phase, Phase::Waiting)) else {
            return;
        };
        if let Err(message) = self.start(entry) {
            let now = Timestamp::now();
            let how = Terminated {
                exit_code: 128,
                signal: None,
                reason: EndReason::StartError,
                message,
                started_at: now,
                finished_at: now,
            };
            entry.phase = Phase::Ended { leader: None, how };
        }
        state.woken = true;
    }

    /// Drives one task; `shared` when another one lives beside it, whose processes must not be touched.
    fn step(&self, entry: &mut Entry, shared: bool, hurry: bool) -> Option<Duration> {
        let mut due = None;
        if let Phase::Running { since, .. } = entry.phase {
            TaskDir::new(&self.data_dir, &entry.task.name).bound(self.output_limit);
            due = Some(MEASURE);
            if let Some(limit) = entry.time_limit() {
                let left = limit.saturating_sub(since.elapsed());
                if left.is_zero() && entry.stop.is_none() {
                    self.log.info(&format!("task {:?} has run for its {limit:?}, stopping it", entry.task.name));
                    entry.stop = Some(Stop::now(StopReason::Timeout(Timestamp::now())));
                }
                due = Some(MEASURE.min(left.max(STOPPING)));
            }
        }
        let Some(mut stop) = entry.stop else {
            return due;
        };
        let left = match self.left_of(entry, shared) {
            Ok(left) => left,
            Err(error) => {
                self.log.error(&format!("cannot see which processes live: {error}"));
                return Some(MEASURE);
            }
        };
        if left.is_empty() && !entry.lives() {
            entry.stop = None;
            return due;
        }
        if let Some(leader) = entry.leader() {
            if hurry || stop.since.elapsed() >= self.grace {
                if !stop.killed {
                    self.log.info(&format!("task {:?}: killing {} processes", entry.task.name, left.len()));
                }
                stop.killed = true;
                process::signal(&left, leader, Signal::SIGKILL);
            } else if !stop.asked {
                stop.asked = true;
                process::signal(&left, leader, Signal::SIGTERM);
            }
        }
        entry.stop = Some(stop);
        Some(STOPPING)
    }

    fn left_of(&self, entry: &Entry, shared: bool) -> std::io::Result<Vec<Living>> {
        let Some(leader) = entry.leader() else {
            return Ok(Vec::new());
        };
        let mut left = process::descendants()?;
        if shared {
            left.retain(|process| process.group == leader);
        }
        Ok(left)
    }
}
