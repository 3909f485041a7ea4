//! Why something is as it is: one closed set of reasons for every condition of every kind.

use crate::word::words;

words! {
    /// The typed reason of a condition.
    ///
    /// The cluster's own words go into the condition's message; this is what a program may match on. Words of the
    /// contract keep their spelling (`CrashLoopBackOff`, `PoolCapacityExhausted`, …).
    free Reason {
        // Progress.
        /// The sandbox is being created.
        Creating = "Creating",
        /// Its Pods are ready.
        PodsReady = "PodsReady",
        /// A pause is under way.
        PauseInProgress = "PauseInProgress",
        /// It is paused.
        Paused = "Paused",
        /// A resume is under way.
        ResumeInProgress = "ResumeInProgress",
        /// It is being ended.
        Stopping = "Stopping",
        /// Some Pods of several are not ready yet.
        PodsNotReady = "PodsNotReady",
        /// A lost Pod is being replaced.
        Recovering = "Recovering",
        /// No sandbox was asked for (`replicas: 0`).
        NoReplicas = "NoReplicas",

        // A Pod that does not start.
        /// No node takes the Pod.
        Unschedulable = "Unschedulable",
        /// An image cannot be pulled.
        ImagePullFailed = "ImagePullFailed",
        /// The kubelet's word for a pull that is backing off.
        ImagePullBackOff = "ImagePullBackOff",
        /// The kubelet's word for a pull that failed.
        ErrImagePull = "ErrImagePull",
        /// An image's name cannot be read.
        InvalidImageName = "InvalidImageName",
        /// A container ends again and again.
        CrashLoopBackOff = "CrashLoopBackOff",
        /// A container's configuration (a ConfigMap, a Secret, an env) is not there.
        CreateContainerConfigError = "CreateContainerConfigError",
        /// The runtime cannot create or start a container.
        CreateContainerError = "CreateContainerError",
        /// An init container failed.
        InitFailed = "InitFailed",
        /// The template is missing or makes no valid Pod.
        InvalidTemplate = "InvalidTemplate",
        /// A shard patch does not apply.
        InvalidShardPatch = "InvalidShardPatch",
        /// A ResourceQuota or LimitRange refuses the Pod.
        QuotaExceeded = "QuotaExceeded",
        /// The API server or an admission policy refuses the Pod.
        PodRefused = "PodRefused",
        /// It did not become ready in the time given.
        StartTimeout = "StartTimeout",

        // A Pod that was lost.
        /// A container was killed for memory.
        OOMKilled = "OOMKilled",
        /// The Pod was evicted.
        Evicted = "Evicted",
        /// Its node is gone or does not answer.
        NodeLost = "NodeLost",
        /// Somebody deleted the Pod.
        PodDeleted = "PodDeleted",
        /// The Pod ended in phase Failed.
        PodFailed = "PodFailed",
        /// The Pod ended in phase Succeeded.
        PodCompleted = "PodCompleted",
        /// No Pod was found.
        PodNotFound = "PodNotFound",
        /// Replacing lost Pods was given up after the bounded number of attempts.
        RecoveryLimitReached = "RecoveryLimitReached",

        // Tasks.
        /// The task ended with an error or could not be started.
        TaskFailed = "TaskFailed",
        /// The Pod's task executor does not answer.
        TaskExecutorUnreachable = "TaskExecutorUnreachable",

        // Pools.
        /// The Pool named does not exist.
        PoolNotFound = "PoolNotFound",
        /// The Pool was deleted before it could serve.
        PoolGone = "PoolGone",
        /// The Pool is at `poolMax`, or the claim asks for more than `poolMax`.
        PoolCapacityExhausted = "PoolCapacityExhausted",
        /// No Pool fits a claim on `"*"`.
        NoPoolMatches = "NoPoolMatches",
        /// A claim tried to move to another Pool.
        PoolRefUpdateRejected = "PoolRefUpdateRejected",
        /// The Pool serves claims.
        Serving = "Serving",
        /// Pods of the current template do not start.
        PodsNotStarting = "PodsNotStarting",
        /// A new revision does not become ready; the roll is stopped.
        RolloutStopped = "RolloutStopped",

        // Pause, resume and snapshots.
        /// Pausing needs exactly one replica.
        UnsupportedReplicas = "UnsupportedReplicas",
        /// The snapshot for a pause failed.
        SnapshotFailed = "SnapshotFailed",
        /// The snapshot to resume from does not exist.
        SnapshotNotFound = "SnapshotNotFound",
        /// The snapshot to resume from is not complete.
        SnapshotNotReady = "SnapshotNotReady",
        /// The snapshot's images are not in the registry.
        SnapshotMissing = "SnapshotMissing",
        /// The snapshot is complete.
        SnapshotReady = "SnapshotReady",
        /// The snapshot names no usable image digest.
        InvalidSnapshotImage = "InvalidSnapshotImage",
        /// The machine state of a snapshot cannot be restored.
        InvalidQemuRestore = "InvalidQEMURestore",
        /// The operator has no snapshot registry.
        RegistryNotConfigured = "RegistryNotConfigured",
        /// The sandbox of a snapshot cannot be read.
        BatchSandboxLookupFailed = "BatchSandboxLookupFailed",
        /// No running Pod to take a snapshot of.
        SourcePodNotFound = "SourcePodNotFound",
        /// The Pod has no container to take a snapshot of.
        NoContainers = "NoContainers",
        /// The commit Job cannot be built.
        BuildCommitJobFailed = "BuildCommitJobFailed",
        /// The commit Job failed.
        CommitJobFailed = "CommitJobFailed",
    }
}

impl Default for Reason {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_of_another_writer_survives_reading_and_writing() {
        let reason: Reason = serde_json::from_str("\"SomethingNew\"").unwrap();
        assert_eq!(reason, Reason::Other("SomethingNew".into()));
        assert_eq!(serde_json::to_string(&reason).unwrap(), "\"SomethingNew\"");
    }

    #[test]
    fn a_known_reason_is_spelled_as_in_the_contract() {
        assert_eq!(Reason::from("InvalidQEMURestore"), Reason::InvalidQemuRestore);
        assert_eq!(Reason::PoolCapacityExhausted.to_string(), "PoolCapacityExhausted");
    }
}
