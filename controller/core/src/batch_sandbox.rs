//! BatchSandbox as a [`Claim`], and a [`Report`] as its status.

use std::sync::Arc;

use sandbox_api::ledger::ClaimKind;
use sandbox_api::{BatchSandbox, BatchSandboxPhase, BatchSandboxStatus, ExpirePolicy, PoolRef, Recovery};

use crate::claim::assign::Wish;
use crate::claim::{Claim, Counts, Phase, Report, Source, TaskCounts, head};

/// Reads a BatchSandbox.
#[must_use]
pub fn read(object: &BatchSandbox) -> Claim {
    let spec = &object.spec;
    let source = match (spec.pool(), &spec.template) {
        (PoolRef::Named(pool), _) => Source::Pool(pool.to_owned()),
        (PoolRef::Any, template) => Source::AnyPool(Wish {
            template: template.clone().map(Arc::new),
            labels: object.metadata.labels.clone().unwrap_or_default(),
        }),
        (PoolRef::Unset, Some(template)) => Source::Template(Arc::new(template.clone())),
        (PoolRef::Unset, None) => Source::Nothing,
    };
    let default_recovery = match source {
        // The contract makes a deleted Pod of a template anew; a Pod of a Pool had state that is gone.
        Source::Template(_) => Recovery::Replace,
        Source::Pool(_) | Source::AnyPool(_) | Source::Snapshot(_) | Source::Nothing => Recovery::Fail,
    };
    let head = head(ClaimKind::BatchSandbox, &object.metadata);
    Claim {
        source,
        replicas: u32::try_from(spec.replicas).unwrap_or(0),
        expires: spec.expire_time.as_ref().map(sandbox_api::Moment::at),
        deletes_on_expiry: spec.expire_policy != Some(ExpirePolicy::Pause),
        recovery: spec.recovery.clone().unwrap_or(default_recovery),
        task: spec.task_template.clone(),
        task_patches: spec.shard_task_patches.clone().unwrap_or_default(),
        pod_patches: spec.shard_patches.clone().unwrap_or_default(),
        status: object.status.as_ref().map(read_status).unwrap_or_default(),
        unwritten: object.status.as_ref().is_none_or(|status| status.phase.is_none()),
        ..head
    }
}

fn read_status(status: &BatchSandboxStatus) -> Report {
    let number = |number: i32| u32::try_from(number).unwrap_or(0);
    Report {
        phase: match &status.phase {
            None | Some(BatchSandboxPhase::Pending | BatchSandboxPhase::Other(_)) => Phase::Pending,
            Some(BatchSandboxPhase::Succeed) => Phase::Running,
            Some(BatchSandboxPhase::Pausing) => Phase::Pausing,
            Some(BatchSandboxPhase::Paused) => Phase::Paused,
            Some(BatchSandboxPhase::Resuming) => Phase::Resuming,
            Some(BatchSandboxPhase::Failed) => Phase::Failed,
        },
        slots: status.pods.clone(),
        node: None,
        counts: Counts {
            total: number(status.replicas),
            allocated: number(status.allocated),
            ready: number(status.ready),
        },
        tasks: TaskCounts {
            pending: number(status.task_pending),
            unknown: number(status.task_unknown),
            running: number(status.task_running),
            succeeded: number(status.task_succeed),
            failed: number(status.task_failed),
        },
        task_error: status.task_last_error_message.clone(),
        conditions: status.conditions.clone(),
        pool_gone: status.pool_gone_uid.clone(),
        observed_generation: status.observed_generation,
    }
}

/// The status to write. What this operator does not decide is kept as it was.
#[must_use]
pub fn status(before: Option<&BatchSandboxStatus>, report: &Report) -> BatchSandboxStatus {
    let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    BatchSandboxStatus {
        observed_generation: report.observed_generation,
        replicas: number(report.counts.total),
        allocated: number(report.counts.allocated),
        ready: number(report.counts.ready),
        task_running: number(report.tasks.running),
        task_succeed: number(report.tasks.succeeded),
        task_failed: number(report.tasks.failed),
        task_unknown: number(report.tasks.unknown),
        task_pending: number(report.tasks.pending),
        task_last_error_message: report.task_error.clone(),
        phase: Some(match report.phase {
            Phase::Pending => BatchSandboxPhase::Pending,
            Phase::Running => BatchSandboxPhase::Succeed,
            Phase::Pausing => BatchSandboxPhase::Pausing,
            Phase::Paused => BatchSandboxPhase::Paused,
            Phase::Resuming => BatchSandboxPhase::Resuming,
            Phase::Failed => BatchSandboxPhase::Failed,
        }),
        pods: report.slots.clone(),
        conditions: report.conditions.clone(),
        pool_gone_uid: report.pool_gone.clone(),
        ..before.cloned().unwrap_or_default()
    }
}
