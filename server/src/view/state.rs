//! From an object's status to the state on the wire: the reference's table, row by row.

use sandbox_api::sandbox::TaskState;
use sandbox_api::{
    BatchSandboxPhase, BatchSandboxStatus, Condition, ConditionStatus, ConditionType, SandboxPhase, SandboxStatus,
};

use super::Trouble;

/// States on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Not running yet.
    Pending,
    /// Running.
    Running,
    /// Has an address and no phase; only under an operator that writes none.
    Allocated,
    /// Being paused.
    Pausing,
    /// Paused.
    Paused,
    /// Being resumed.
    Resuming,
    /// Being deleted.
    Stopping,
    /// Failed.
    Failed,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Running,
        Self::Allocated,
        Self::Pausing,
        Self::Paused,
        Self::Resuming,
        Self::Stopping,
        Self::Failed,
    ];

    /// The state on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Allocated => "Allocated",
            Self::Pausing => "Pausing",
            Self::Paused => "Paused",
            Self::Resuming => "Resuming",
            Self::Stopping => "Stopping",
            Self::Failed => "Failed",
        }
    }
}

/// Reasons on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateReason {
    /// The object has a deletionTimestamp.
    Deleting,
    /// The task failed.
    TaskFailed,
    /// The phase says so.
    Running,
    /// The phase says so.
    Pausing,
    /// The phase says so.
    Paused,
    /// The phase says so.
    Resuming,
    /// The phase says so.
    Failed,
    /// The Pool has no room.
    PoolCapacityExhausted,
    /// The phase says Pending.
    Creating,
    /// No phase, one ready Pod with an address.
    PodReadyWithIp,
    /// No phase, an address.
    IpAssigned,
    /// No phase, a node.
    PodScheduled,
    /// Nothing at all yet.
    BatchSandboxPending,
}

impl StateReason {
    /// The reason on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deleting => "DELETING",
            Self::TaskFailed => "TASK_FAILED",
            Self::Running => "RUNNING",
            Self::Pausing => "PAUSING",
            Self::Paused => "PAUSED",
            Self::Resuming => "RESUMING",
            Self::Failed => "FAILED",
            Self::PoolCapacityExhausted => "POOL_CAPACITY_EXHAUSTED",
            Self::Creating => "CREATING",
            Self::PodReadyWithIp => "POD_READY_WITH_IP",
            Self::IpAssigned => "IP_ASSIGNED",
            Self::PodScheduled => "POD_SCHEDULED",
            Self::BatchSandboxPending => "BATCHSANDBOX_PENDING",
        }
    }
}

/// State, reason and words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// State on the wire.
    pub state: State,
    /// Reason on the wire.
    pub reason: StateReason,
    /// Words for a person.
    pub message: String,
}

impl Standing {
    fn new(state: State, reason: StateReason, message: impl Into<String>) -> Self {
        Self { state, reason, message: message.into() }
    }

    pub(super) fn deleting() -> Self {
        Self::new(State::Stopping, StateReason::Deleting, "the sandbox is being deleted")
    }

    fn failed(conditions: &[Condition]) -> Self {
        let failures = [ConditionType::PodFailed, ConditionType::ResumeFailed, ConditionType::PauseFailed];
        let told = failures.iter().find_map(|kind| holding(conditions, kind)).or_else(|| not_ready(conditions));
        let message = told.map_or_else(|| "the sandbox failed".to_owned(), |t| t.to_string());
        Self::new(State::Failed, StateReason::Failed, message)
    }

    fn pending(reason: StateReason, conditions: &[Condition]) -> Self {
        let message =
            not_ready(conditions).map_or_else(|| "the sandbox is being created".to_owned(), |t| t.to_string());
        Self::new(State::Pending, reason, message)
    }

    fn no_room(conditions: &[Condition]) -> Option<Self> {
        let told = holding(conditions, &ConditionType::PoolAllocationPending)?;
        Some(Self::new(State::Pending, StateReason::PoolCapacityExhausted, told.to_string()))
    }

    fn running() -> Self {
        Self::new(State::Running, StateReason::Running, "the sandbox is running")
    }

    /// Of a BatchSandbox that is not being deleted; `ip` is the address of its first Pod.
    pub(super) fn of_batch_sandbox(status: &BatchSandboxStatus, ip: Option<&str>) -> Self {
        let conditions = &status.conditions;
        let phase = status.phase.as_ref();
        let task_counts = match phase {
            None | Some(BatchSandboxPhase::Pending | BatchSandboxPhase::Succeed | BatchSandboxPhase::Other(_)) => true,
            Some(
                BatchSandboxPhase::Pausing
                | BatchSandboxPhase::Paused
                | BatchSandboxPhase::Resuming
                | BatchSandboxPhase::Failed,
            ) => false,
        };
        if status.task_failed > 0 && task_counts {
            let told = status.task_last_error_message.clone().filter(|m| !m.is_empty());
            let message = told.unwrap_or_else(|| "the task of the sandbox failed".to_owned());
            return Self::new(State::Failed, StateReason::TaskFailed, message);
        }
        match phase {
            Some(BatchSandboxPhase::Succeed) => Self::running(),
            // "Running" is no word of the contract's enum, but some operators write it.
            Some(BatchSandboxPhase::Other(word)) if word == "Running" => Self::running(),
            Some(BatchSandboxPhase::Pausing) => Self::pausing(),
            Some(BatchSandboxPhase::Paused) => Self::paused(),
            Some(BatchSandboxPhase::Resuming) => Self::resuming(),
            Some(BatchSandboxPhase::Failed) => Self::failed(conditions),
            Some(BatchSandboxPhase::Pending) => {
                Self::no_room(conditions).unwrap_or_else(|| Self::pending(StateReason::Creating, conditions))
            }
            None | Some(BatchSandboxPhase::Other(_)) => Self::without_phase(status, ip),
        }
    }

    fn without_phase(status: &BatchSandboxStatus, ip: Option<&str>) -> Self {
        if let Some(waiting) = Self::no_room(&status.conditions) {
            return waiting;
        }
        match ip {
            Some(_) if status.ready == 1 => {
                Self::new(State::Running, StateReason::PodReadyWithIp, "the pod is ready and has an address")
            }
            Some(_) => Self::new(State::Allocated, StateReason::IpAssigned, "the pod has an address"),
            None if status.allocated > 0 => Self::pending(StateReason::PodScheduled, &status.conditions),
            None => Self::pending(StateReason::BatchSandboxPending, &status.conditions),
        }
    }

    /// Of a Sandbox that is not being deleted.
    pub(super) fn of_sandbox(status: &SandboxStatus) -> Self {
        let conditions = &status.conditions;
        let task_failed = status.task.as_ref().filter(|task| task.state == TaskState::Failed);
        match (&status.phase, task_failed) {
            (None | Some(SandboxPhase::Pending | SandboxPhase::Running | SandboxPhase::Other(_)), Some(task)) => {
                let told = task.message.clone().filter(|m| !m.is_empty());
                let message = told.unwrap_or_else(|| "the task of the sandbox failed".to_owned());
                Self::new(State::Failed, StateReason::TaskFailed, message)
            }
            (Some(SandboxPhase::Running), None) => Self::running(),
            (Some(SandboxPhase::Pausing), _) => Self::pausing(),
            (Some(SandboxPhase::Paused), _) => Self::paused(),
            (Some(SandboxPhase::Resuming), _) => Self::resuming(),
            (Some(SandboxPhase::Stopping), _) => Self::deleting(),
            (Some(SandboxPhase::Failed), _) => Self::failed(conditions),
            (None | Some(SandboxPhase::Pending | SandboxPhase::Other(_)), None) => {
                Self::no_room(conditions).unwrap_or_else(|| Self::pending(StateReason::Creating, conditions))
            }
        }
    }

    fn pausing() -> Self {
        Self::new(State::Pausing, StateReason::Pausing, "the sandbox is being paused")
    }

    fn paused() -> Self {
        Self::new(State::Paused, StateReason::Paused, "the sandbox is paused")
    }

    fn resuming() -> Self {
        Self::new(State::Resuming, StateReason::Resuming, "the sandbox is being resumed")
    }
}

/// Words of a condition that holds.
fn holding(conditions: &[Condition], kind: &ConditionType) -> Option<Trouble> {
    find(conditions, kind, &ConditionStatus::True)
}

/// Why the object is not ready.
pub(super) fn not_ready(conditions: &[Condition]) -> Option<Trouble> {
    find(conditions, &ConditionType::Ready, &ConditionStatus::False)
}

fn find(conditions: &[Condition], kind: &ConditionType, status: &ConditionStatus) -> Option<Trouble> {
    let condition = conditions.iter().find(|c| c.type_ == *kind && c.status == *status)?;
    Some(Trouble {
        reason: condition.reason.clone().unwrap_or_default(),
        message: condition.message.clone().unwrap_or_default(),
    })
}

/// Why the object failed or is not ready, the typed reason first.
pub(super) fn trouble(conditions: &[Condition]) -> Option<Trouble> {
    let failed = holding(conditions, &ConditionType::PodFailed);
    failed.or_else(|| not_ready(conditions)).filter(|t| !t.reason.as_str().is_empty())
}
