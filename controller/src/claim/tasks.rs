//! What is known of tasks, in memory only: executors are asked again after a
//! restart.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use sandbox_core::claim::{TaskReport, TaskState};

use crate::executor::ExecutorError;

/// How often a task that runs is asked after.
const POLL: SignedDuration = SignedDuration::from_secs(3);
const FIRST_BACK_OFF: SignedDuration = SignedDuration::from_millis(200);
const LAST_BACK_OFF: SignedDuration = SignedDuration::from_secs(5);

/// Reports of all claims' tasks by claim uid and index.
#[derive(Debug, Default)]
pub struct TaskBook {
    claims: Mutex<HashMap<Arc<str>, BTreeMap<u32, Entry>>>,
}

#[derive(Debug)]
struct Entry {
    report: TaskReport,
    failures: u32,
}

impl TaskBook {
    /// What is known of a claim's tasks.
    #[must_use]
    pub fn of(&self, claim: &str) -> BTreeMap<u32, TaskReport> {
        let claims = self.lock();
        let entries = claims.get(claim).into_iter().flatten();
        entries.map(|(index, entry)| (*index, entry.report.clone())).collect()
    }

    /// Enters that a request about this task is on its way. False if one is.
    pub fn begin(&self, claim: &str, index: u32, pod: &Arc<str>, now: Timestamp) -> bool {
        let mut claims = self.lock();
        let entries = claims.entry(claim.into()).or_default();
        let fresh = || Entry {
            report: TaskReport { pod: Arc::clone(pod), state: TaskState::Unstarted, not_before: now, busy: false },
            failures: 0,
        };
        let entry = entries.entry(index).or_insert_with(fresh);
        if entry.report.pod != *pod {
            *entry = fresh();
        }
        !std::mem::replace(&mut entry.report.busy, true)
    }

    /// The answer to that request: the task's state, or none where the
    /// executor does not have it.
    pub fn end(
        &self,
        claim: &str,
        index: u32,
        pod: &Arc<str>,
        answer: &Result<Option<TaskState>, ExecutorError>,
        now: Timestamp,
    ) {
        let mut claims = self.lock();
        let entry = claims.get_mut(claim).and_then(|entries| entries.get_mut(&index));
        let Some(entry) = entry.filter(|entry| entry.report.pod == *pod) else { return };
        entry.report.busy = false;
        let wait = match answer {
            Ok(state) => {
                entry.failures = 0;
                entry.report.state = state.clone().unwrap_or(TaskState::Unstarted);
                wait_in(&entry.report.state)
            }
            Err(_) => {
                entry.failures = entry.failures.saturating_add(1);
                back_off(entry.failures)
            }
        };
        entry.report.not_before = now.saturating_add(wait).unwrap_or(now);
    }

    /// The claim is gone.
    pub fn forget(&self, claim: &str) {
        self.lock().remove(claim);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, BTreeMap<u32, Entry>>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task that was just accepted is looked at soon: it may fail at once.
fn wait_in(state: &TaskState) -> SignedDuration {
    match state {
        TaskState::Unstarted | TaskState::Starting => FIRST_BACK_OFF,
        TaskState::Running | TaskState::Succeeded | TaskState::Failed(_) => POLL,
    }
}

fn back_off(failures: u32) -> SignedDuration {
    let factor = 1_i32 << failures.saturating_sub(1).min(10);
    FIRST_BACK_OFF.saturating_mul(factor).min(LAST_BACK_OFF)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    fn book() -> (TaskBook, Arc<str>, Timestamp) {
        (TaskBook::default(), "pod".into(), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn one_request_about_a_task_at_a_time() {
        let (book, pod, now) = book();
        assert!(book.begin("c", 0, &pod, now));
        assert!(!book.begin("c", 0, &pod, now));
        book.end("c", 0, &pod, &Ok(Some(TaskState::Running)), now);
        assert_eq!(book.of("c")[&0].state, TaskState::Running);
        assert!(book.begin("c", 0, &pod, now));
    }

    #[test]
    fn failures_wait_longer_and_keep_the_state() {
        let (book, pod, now) = book();
        let mut waits = Vec::new();
        for _ in 0..8 {
            book.begin("c", 0, &pod, now);
            book.end("c", 0, &pod, &Err(ExecutorError::NoAnswer("x".into())), now);
            waits.push(book.of("c")[&0].not_before.as_millisecond());
        }
        assert_eq!(waits, vec![200, 400, 800, 1600, 3200, 5000, 5000, 5000]);
    }

    #[test]
    fn another_pod_is_another_task() {
        let (book, pod, now) = book();
        book.begin("c", 0, &pod, now);
        let other: Arc<str> = "other".into();
        assert!(book.begin("c", 0, &other, now));
        book.end("c", 0, &pod, &Ok(Some(TaskState::Running)), now);
        assert_eq!(book.of("c")[&0].state, TaskState::Unstarted);
    }

    #[test]
    fn a_task_that_its_executor_forgot_is_started_again() {
        let (book, pod, now) = book();
        book.begin("c", 0, &pod, now);
        book.end("c", 0, &pod, &Ok(Some(TaskState::Running)), now);
        book.begin("c", 0, &pod, now);
        book.end("c", 0, &pod, &Ok(None), now);
        assert_eq!(book.of("c")[&0].state, TaskState::Unstarted);
    }
}
