//! The wire form of a task, `spec/controllers.md` §3.8.5.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// One task, as it is posted and as it is reported.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Task {
    /// Unique in this executor; also the name of its directory.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Set from the moment its end was asked for until it is gone.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Timestamp>,
    /// What to run. Without it the task is refused: running a container is not possible here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    /// Declared by the contract and never run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_spec: Option<Value>,
    /// How it goes; ignored when posted.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub process_status: Option<ProcessStatus>,
}

/// A command with its surroundings.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Process {
    /// Program and first arguments.
    #[serde(deserialize_with = "null_as_default")]
    pub command: Vec<String>,
    /// Further arguments.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Added to the executor's own environment.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
    /// Empty means the executor's own.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub working_dir: String,
    /// Seconds after which the task is stopped and failed; absent or not above 0 is without limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i64>,
}

/// One environment variable. `valueFrom` cannot be resolved inside a Pod: such a variable is left out, and the log
/// says so by name.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvVar {
    /// Without `=` and NUL.
    pub name: String,
    /// Empty when left out.
    #[serde(deserialize_with = "null_as_default")]
    pub value: String,
    /// Only ever read to say that it is not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_from: Option<Value>,
}

/// Exactly one state, as its only key.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ProcessStatus {
    /// Accepted and not started yet.
    Waiting {
        /// One word.
        reason: &'static str,
        /// For a person.
        message: String,
    },
    /// Its first process lives.
    #[serde(rename_all = "camelCase")]
    Running {
        /// When that process was started.
        started_at: Timestamp,
    },
    /// Its first process ended, or its time is over.
    Terminated(Terminated),
}

/// How a task ended.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Terminated {
    /// 128 + signal for a process that was killed.
    pub exit_code: i32,
    /// The signal that killed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Why, as one word.
    pub reason: EndReason,
    /// For a person.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it was started; for one that never was, when that was tried.
    pub started_at: Timestamp,
    /// When its end was seen.
    pub finished_at: Timestamp,
}

/// Why a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum EndReason {
    /// Exit code 0.
    Completed,
    /// Another exit code, or a signal.
    Error,
    /// Its `timeoutSeconds` passed.
    TaskTimeout,
    /// Its program could not be started.
    StartError,
}

/// Why a task cannot be run as it is written. Says which field.
pub type Flaw = String;

impl Task {
    /// Looks at everything that can be wrong before a process is started.
    ///
    /// # Errors
    /// The first flaw, naming the task and the field.
    pub fn check(&self) -> Result<&Process, Flaw> {
        let flaw = |what: &str| Err(format!("task {:?}: {what}", self.name));
        if self.name.is_empty()
            || self.name.len() > 253
            || self.name.starts_with('.')
            || self.name.contains(['/', '\0'])
        {
            return flaw("name must have 1 to 253 characters, no \"/\", and not start with \".\"");
        }
        let Some(process) = &self.process else {
            return flaw("process is missing; a podTemplateSpec cannot be run by this executor");
        };
        if process.command.is_empty() && process.args.is_empty() {
            return flaw("process.command is empty");
        }
        if let Some(wrong) = process.env.iter().find(|var| var.name.is_empty() || var.name.contains(['=', '\0'])) {
            return flaw(&format!("process.env name {:?} is not the name of a variable", wrong.name));
        }
        Ok(process)
    }
}

/// Go writes an empty slice or string as `null`.
fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_status_is_one_key_with_the_contracts_fields() {
        let at: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let status = |status: ProcessStatus| serde_json::to_value(status).unwrap();
        assert_eq!(
            status(ProcessStatus::Running { started_at: at }),
            serde_json::json!({"running": {"startedAt": "2026-01-02T03:04:05Z"}})
        );
        let ended = Terminated {
            exit_code: 137,
            signal: Some(9),
            reason: EndReason::Error,
            message: String::new(),
            started_at: at,
            finished_at: at,
        };
        assert_eq!(
            status(ProcessStatus::Terminated(ended)),
            serde_json::json!({"terminated": {"exitCode": 137, "signal": 9, "reason": "Error",
                "startedAt": "2026-01-02T03:04:05Z", "finishedAt": "2026-01-02T03:04:05Z"}})
        );
    }

    #[test]
    fn nulls_of_go_are_empty_values() {
        let task: Task = serde_json::from_str(
            r#"{"name":"a","process":{"command":["x"],"args":null,"env":null,"workingDir":null}}"#,
        )
        .unwrap();
        assert!(task.check().unwrap().args.is_empty());
    }

    #[test]
    fn a_name_that_would_leave_the_data_directory_is_refused() {
        for name in ["", "../x", "a/b", "..", "."] {
            let task = Task { name: name.into(), process: Some(Process::default()), ..Task::default() };
            assert!(task.check().unwrap_err().contains("name"), "{name:?}");
        }
    }
}
