//! Conditions, the same shape in every kind's status.

use k8s_openapi::jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::moment::Moment;
use crate::reason::Reason;
use crate::word::words;

words! {
    /// What a condition is about. Each kind's schema lists the types it may carry.
    listed ConditionType {
        /// Able to do what it is for.
        Ready = "Ready",
        /// On the way to it.
        Progressing = "Progressing",
        /// Paused.
        Paused = "Paused",
        /// The last pause failed; the sandbox is as it was.
        PauseFailed = "PauseFailed",
        /// The last resume failed; the snapshot is kept.
        ResumeFailed = "ResumeFailed",
        /// A Pod failed to start or ended.
        PodFailed = "PodFailed",
        /// Waits for a Pool that is at its limit.
        PoolAllocationPending = "PoolAllocationPending",
        /// A change of the Pool was not followed.
        PoolRefUpdateRejected = "PoolRefUpdateRejected",
        /// A shard patch does not apply.
        InvalidShardPatch = "InvalidShardPatch",
        /// A snapshot failed.
        Failed = "Failed",
    }
}

words! {
    /// Whether a condition holds.
    listed ConditionStatus {
        /// It holds.
        True = "True",
        /// It does not hold.
        False = "False",
        /// Nobody can tell.
        Unknown = "Unknown",
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// One observation about an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What the condition is about; unique in the list.
    #[serde(rename = "type")]
    pub type_: ConditionType,
    /// Whether it holds: True, False or Unknown.
    pub status: ConditionStatus,
    /// Why, in one word that a program may match on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Why, in words for a person: what happened, to which object, what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the status last changed (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Moment>,
}

impl Condition {
    /// A condition that came to be at `at`.
    pub fn new(
        type_: ConditionType,
        status: impl Into<ConditionStatus>,
        reason: Reason,
        message: impl Into<String>,
        at: Timestamp,
    ) -> Self {
        Self {
            type_,
            status: status.into(),
            reason: Some(reason),
            message: Some(message.into()),
            last_transition_time: Some(at.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_condition_of_another_writer_survives_reading_and_writing() {
        let wire = json!({"type": "SomethingNew", "status": "Maybe", "reason": "Because", "message": "m",
            "lastTransitionTime": "2026-11-30T10:00:00Z"});
        let condition: Condition = serde_json::from_value(wire.clone()).unwrap();
        assert_eq!(condition.type_, ConditionType::Other("SomethingNew".into()));
        assert_eq!(serde_json::to_value(&condition).unwrap(), wire);
    }
}
