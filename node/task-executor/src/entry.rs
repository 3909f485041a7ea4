//! One task and what became of its process; the words that the supervisor's loop is written in.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use nix::unistd::Pid;

use crate::log::Log;
use crate::process::Exit;
use crate::task::{EndReason, ProcessStatus, Task, Terminated};

/// One task with its process.
pub struct Entry {
    /// As it was posted, with the time at which its end was asked for.
    pub task: Task,
    /// How far its process is.
    pub phase: Phase,
    /// Set while everything that came of it is being stopped.
    pub stop: Option<Stop>,
}

/// How far a process is.
pub enum Phase {
    /// Not started: a former task is still going.
    Waiting,
    /// Its first process, which leads a group of its own, has not been reaped.
    Running {
        /// Process and group.
        leader: Pid,
        /// For the report.
        started_at: Timestamp,
        /// For its time limit.
        since: Instant,
    },
    /// Its first process has been reaped; others may live on.
    Ended {
        /// The group that the others are in; none if it never started.
        leader: Option<Pid>,
        /// What is reported.
        how: Terminated,
    },
}

/// How far the stopping of a task is.
#[derive(Clone, Copy)]
pub struct Stop {
    /// The grace counts from here.
    pub since: Instant,
    /// What it is stopped for.
    pub why: StopReason,
    /// SIGTERM was sent.
    pub asked: bool,
    /// SIGKILL was sent at least once.
    pub killed: bool,
}

/// What a task is stopped for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// Its end was asked for, or the Pod ends.
    Deleted,
    /// Its `timeoutSeconds` passed at this time.
    Timeout(Timestamp),
}

impl Stop {
    /// From now on, for `why`.
    pub fn now(why: StopReason) -> Self {
        Self { since: Instant::now(), why, asked: false, killed: false }
    }
}

impl Entry {
    /// Asks for its end; asking again changes nothing.
    pub fn delete(&mut self, now: Timestamp, log: &Log) {
        if self.task.deletion_timestamp.is_some() {
            return;
        }
        log.info(&format!("task {:?} is to go", self.task.name));
        self.task.deletion_timestamp = Some(now);
        // A stop for its timeout goes on; its grace is not given twice.
        self.stop = Some(self.stop.unwrap_or_else(|| Stop::now(StopReason::Deleted)));
    }

    /// Takes the one place: it is to run, or does.
    pub fn active(&self) -> bool {
        self.task.deletion_timestamp.is_none() && !matches!(self.phase, Phase::Ended { .. })
    }

    /// To go, and not gone: the next task waits for it.
    pub fn going(&self) -> bool {
        self.task.deletion_timestamp.is_some()
    }

    /// Its first process has not been reaped.
    pub fn lives(&self) -> bool {
        matches!(self.phase, Phase::Running { .. })
    }

    /// Nothing of it is left and nobody wants it.
    pub fn gone(&self) -> bool {
        self.going() && self.stop.is_none() && !self.lives()
    }

    /// The group of its processes.
    pub fn leader(&self) -> Option<Pid> {
        match &self.phase {
            Phase::Waiting => None,
            Phase::Running { leader, .. } => Some(*leader),
            Phase::Ended { leader, .. } => *leader,
        }
    }

    /// Whether `pid` is its first process.
    pub fn runs_as(&self, pid: Pid) -> bool {
        matches!(self.phase, Phase::Running { leader, .. } if leader == pid)
    }

    /// Its `timeoutSeconds`, if they are above 0.
    pub fn time_limit(&self) -> Option<Duration> {
        let seconds = self.task.process.as_ref()?.timeout_seconds?;
        u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
    }

    /// Its first process was reaped.
    pub fn ended(&mut self, exit: Exit, log: &Log) {
        let Phase::Running { leader, started_at, .. } = self.phase else {
            return;
        };
        let how = self.how_it_ended(exit, started_at);
        log.info(&format!("task {:?} ended: exit code {}, {:?}", self.task.name, how.exit_code, how.reason));
        self.phase = Phase::Ended { leader: Some(leader), how };
    }

    fn how_it_ended(&self, exit: Exit, started_at: Timestamp) -> Terminated {
        if let Some(Stop { why: StopReason::Timeout(at), .. }) = self.stop {
            return self.out_of_time(started_at, at);
        }
        let (exit_code, signal) = match exit {
            Exit::Code(code) => (code, None),
            Exit::Signal(signal) => (128 + signal, Some(signal)),
        };
        let reason = if exit_code == 0 { EndReason::Completed } else { EndReason::Error };
        Terminated { exit_code, signal, reason, message: String::new(), started_at, finished_at: Timestamp::now() }
    }

    fn out_of_time(&self, started_at: Timestamp, finished_at: Timestamp) -> Terminated {
        let limit = self.time_limit().unwrap_or_default().as_secs();
        Terminated {
            exit_code: 137,
            signal: None,
            reason: EndReason::TaskTimeout,
            message: format!("the task ran for its timeoutSeconds of {limit} and was stopped"),
            started_at,
            finished_at,
        }
    }

    /// As the operator sees it.
    pub fn report(&self) -> Task {
        let status = match &self.phase {
            Phase::Waiting => ProcessStatus::Waiting {
                reason: "FormerTaskEnding",
                message: "a former task of this Pod is being stopped".to_owned(),
            },
            Phase::Running { started_at, .. } => match self.stop {
                Some(Stop { why: StopReason::Timeout(at), .. }) => {
                    ProcessStatus::Terminated(self.out_of_time(*started_at, at))
                }
                Some(Stop { why: StopReason::Deleted, .. }) | None => {
                    ProcessStatus::Running { started_at: *started_at }
                }
            },
            Phase::Ended { how, .. } => ProcessStatus::Terminated(how.clone()),
        };
        Task { process_status: Some(status), ..self.task.clone() }
    }
}
