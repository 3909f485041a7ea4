//! The task that runs in each Pod of a claim.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use sandbox_api::SandboxSlot;
use serde_json::{Value, json};

use super::{Action, Claim, Observed, Plan};
use crate::ids::PodKey;

/// Where the executor listens in every Pod.
pub const EXECUTOR_PORT: u16 = 5758;

/// How a task fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Not accepted by the executor yet.
    Unstarted,
    /// Accepted; not seen running.
    Starting,
    /// Runs.
    Running,
    /// Ended with exit code 0.
    Succeeded,
    /// Ended otherwise, in words.
    Failed(String),
}

impl TaskState {
    /// Nothing more will happen to it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        match self {
            Self::Unstarted | Self::Starting | Self::Running => false,
            Self::Succeeded | Self::Failed(_) => true,
        }
    }
}

/// What is known of one index's task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskReport {
    /// On this Pod; for another one the task is unstarted.
    pub pod: Arc<str>,
    /// How it fares.
    pub state: TaskState,
    /// Not to be asked again before.
    pub not_before: Timestamp,
    /// A request has no answer yet.
    pub busy: bool,
}

/// Tasks by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounts {
    /// Not bound to a Pod.
    pub pending: u32,
    /// Bound; not seen running.
    pub unknown: u32,
    /// Running.
    pub running: u32,
    /// Exit code 0.
    pub succeeded: u32,
    /// Any other end.
    pub failed: u32,
}

/// Counts the tasks of a claim. While nothing is known of a bound task (the operator has just started), what was last
/// written is kept.
pub(super) fn count(seen: &Observed, slots: &[SandboxSlot]) -> TaskCounts {
    let claim = &*seen.claim;
    if claim.task.is_none() {
        return TaskCounts::default();
    }
    let bound: Vec<_> = bound(seen, slots).collect();
    let unlearnt = bound.iter().any(|(index, pod, _)| known(seen, *index, pod).is_none());
    let before = claim.status.tasks;
    if unlearnt && before.running + before.succeeded + before.failed > 0 {
        return before;
    }
    let placed = u32::try_from(bound.len()).unwrap_or(u32::MAX);
    let start = TaskCounts { pending: claim.replicas.saturating_sub(placed), ..TaskCounts::default() };
    bound.iter().fold(start, |mut counts, (index, pod, _)| {
        match known(seen, *index, pod).map(|report| &report.state) {
            None | Some(TaskState::Unstarted | TaskState::Starting) => counts.unknown += 1,
            Some(TaskState::Running) => counts.running += 1,
            Some(TaskState::Succeeded) => counts.succeeded += 1,
            Some(TaskState::Failed(_)) => counts.failed += 1,
        }
        counts
    })
}

/// Why the first failed task failed; what was last written while nothing newer is known.
pub(super) fn error(seen: &Observed, slots: &[SandboxSlot]) -> Option<String> {
    let failed =
        bound(seen, slots).find_map(|(index, pod, _)| match known(seen, index, &pod).map(|report| &report.state) {
            Some(TaskState::Failed(why)) => Some(why.clone()),
            None | Some(TaskState::Unstarted | TaskState::Starting | TaskState::Running | TaskState::Succeeded) => None,
        });
    failed.or_else(|| seen.claim.status.task_error.clone().filter(|_| count(seen, slots).failed > 0))
}

fn known<'a>(seen: &'a Observed, index: u32, pod: &PodKey) -> Option<&'a TaskReport> {
    seen.tasks.get(&index).filter(|report| report.pod == pod.uid)
}

/// Indexes whose Pod has an address.
fn bound<'a>(seen: &Observed, slots: &'a [SandboxSlot]) -> impl Iterator<Item = (u32, PodKey, &'a str)> {
    let replicas = seen.claim.replicas;
    (0..replicas).zip(slots).filter_map(|(index, slot)| match slot {
        SandboxSlot::Named { name, uid, ip: Some(ip), .. } => Some((index, PodKey::new(uid, name), ip.as_str())),
        SandboxSlot::Named { ip: None, .. }
        | SandboxSlot::Open
        | SandboxSlot::Lost { .. }
        | SandboxSlot::Undelivered { .. } => None,
    })
}

/// Starts tasks that were not accepted, asks after those that are not over. Only for Pods that the written status names:
/// a task must not start for a delivery that may yet be refused.
pub(super) fn drive(seen: &Observed, plan: &mut Plan) {
    let claim = &*seen.claim;
    let Some(template) = &claim.task else { return };
    if claim.ending || claim.status.phase.is_paused() {
        return;
    }
    for (index, pod, ip) in bound(seen, &claim.status.slots) {
        let alive = seen.pods.get(&pod).is_some_and(|seen| !seen.pod.is_terminating() && !seen.pod.is_terminal());
        let report = known(seen, index, &pod);
        if !alive || report.is_some_and(|report| report.busy || report.state.is_over()) {
            continue;
        }
        if let Some(report) = report.filter(|report| report.not_before > seen.now) {
            plan.look_again(report.not_before);
            continue;
        }
        let address = address(ip);
        plan.actions.push(match report.map(|report| &report.state) {
            None | Some(TaskState::Unstarted) => {
                Action::StartTask { index, pod, address, body: body(claim, index, template) }
            }
            Some(TaskState::Starting | TaskState::Running | TaskState::Succeeded | TaskState::Failed(_)) => {
                Action::ReadTask { index, pod, address }
            }
        });
    }
}

fn address(ip: &str) -> String {
    if ip.contains(':') { format!("[{ip}]:{EXECUTOR_PORT}") } else { format!("{ip}:{EXECUTOR_PORT}") }
}

/// The task as the executor's protocol has it: named after claim and index, which makes a repeated start harmless.
fn body(claim: &Claim, index: u32, template: &Value) -> Value {
    let spec = template.get("spec").cloned().unwrap_or_default();
    let patched = claim.task_patches.get(index as usize).and_then(|patch| patch.get("spec"));
    let mut process = spec.get("process").cloned().unwrap_or_else(|| json!({}));
    if let Some(patch) = patched.and_then(|patch| patch.get("process")) {
        crate::merge::merge(&mut process, patch);
    }
    if let (Some(timeout), Some(process)) = (spec.get("timeoutSeconds"), process.as_object_mut()) {
        process.insert("timeoutSeconds".to_owned(), timeout.clone());
    }
    json!({ "name": format!("{}-{index}", claim.key.name), "process": process })
}
