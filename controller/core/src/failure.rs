//! The one true reason why a Pod does not run, with the cluster's own words behind it.

use sandbox_api::Reason;

use crate::pod::{ContainerStatus, Pod, Terminated, Waiting};

/// Why something does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Closed, for programs.
    pub reason: Reason,
    /// For people: what happened, to which Pod or container, in the cluster's words.
    pub message: String,
    /// The kubelet's own word, where it has one: what the condition `PodFailed` carries (contract).
    pub kubelet: Option<Reason>,
}

impl Failure {
    /// From reason and message.
    #[must_use]
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), kubelet: None }
    }

    /// The kubelet's word, or else the reason.
    #[must_use]
    pub fn word(&self) -> Reason {
        self.kubelet.clone().unwrap_or_else(|| self.reason.clone())
    }
}

/// Why a Pod fails: it ended, or one of its containers cannot start. None for a Pod that runs or is on its way.
#[must_use]
pub fn failure(pod: &Pod) -> Option<Failure> {
    if pod.is_terminating() {
        return None;
    }
    ended(pod).or_else(|| stuck_container(pod))
}

/// Why a Pod that is not failing has not started: only what a person can act on.
#[must_use]
pub fn delay(pod: &Pod) -> Option<Failure> {
    let scheduled = pod.condition("PodScheduled")?;
    (scheduled.status == "False" && scheduled.reason.as_deref() == Some("Unschedulable")).then(|| {
        let why = scheduled.message.as_deref().unwrap_or("no node fits");
        Failure::new(Reason::Unschedulable, format!("pod {} cannot be scheduled: {why}", name(pod)))
    })
}

/// Why a Pod that is proven dead died, from the last version seen of it.
#[must_use]
pub fn death(name: &str, last_seen: Option<&Pod>) -> Failure {
    let Some(pod) = last_seen else {
        return Failure::new(Reason::PodDeleted, format!("pod {name} no longer exists: it was deleted from outside"));
    };
    let disruption = pod.condition("DisruptionTarget").filter(|condition| condition.status == "True");
    ended(pod)
        .or_else(|| {
            let condition = disruption?;
            let why = condition.message.as_deref().or(condition.reason.as_deref()).unwrap_or_default();
            let node_gone = matches!(condition.reason.as_deref(), Some("DeletionByTaintManager" | "DeletionByPodGC"));
            let reason = if node_gone { Reason::NodeLost } else { Reason::Evicted };
            Some(Failure::new(reason, format!("pod {name} was removed from its node: {why}")))
        })
        .unwrap_or_else(|| Failure::new(Reason::PodDeleted, format!("pod {name} was deleted from outside")))
}

fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

fn ended(pod: &Pod) -> Option<Failure> {
    if !pod.is_terminal() {
        return None;
    }
    if pod.status.reason.as_deref() == Some("Evicted") {
        let why = pod.status.message.as_deref().unwrap_or("evicted by the kubelet");
        return Some(Failure::new(Reason::Evicted, format!("pod {}: {why}", name(pod))));
    }
    if matches!(pod.status.reason.as_deref(), Some("NodeLost" | "NodeShutdown" | "Terminated")) {
        let why = pod.status.message.as_deref().unwrap_or("its node went away");
        return Some(Failure::new(Reason::NodeLost, format!("pod {}: {why}", name(pod))));
    }
    let init = pod.status.init_container_statuses.iter().find_map(|status| init_failed(pod, status));
    let container = || pod.status.container_statuses.iter().find_map(|status| exited(pod, status));
    init.or_else(container).or_else(|| {
        let why = pod.status.message.as_deref().or(pod.status.reason.as_deref()).unwrap_or("its containers ended");
        Some(Failure::new(Reason::PodFailed, format!("pod {}: {why}", name(pod))))
    })
}

fn exited(pod: &Pod, status: &ContainerStatus) -> Option<Failure> {
    let end = status.state.terminated.as_ref()?;
    let reason = if end.reason.as_deref() == Some("OOMKilled") { Reason::OOMKilled } else { Reason::PodFailed };
    Some(Failure::new(reason, format!("pod {}, container {}: {}", name(pod), status.name, how_it_ended(end))))
}

fn init_failed(pod: &Pod, status: &ContainerStatus) -> Option<Failure> {
    let end = status.state.terminated.as_ref().or(status.last_state.terminated.as_ref())?;
    (end.exit_code != 0).then(|| {
        let message = format!("pod {}, init container {}: {}", name(pod), status.name, how_it_ended(end));
        Failure::new(Reason::InitFailed, message)
    })
}

fn how_it_ended(end: &Terminated) -> String {
    let mut text = format!("ended with exit code {}", end.exit_code);
    for part in [&end.reason, &end.message].into_iter().flatten() {
        text.push_str(", ");
        text.push_str(part.trim_end());
    }
    text
}

fn stuck_container(pod: &Pod) -> Option<Failure> {
    let init = pod.status.init_container_statuses.iter().find_map(|status| stuck(pod, status, true));
    init.or_else(|| pod.status.container_statuses.iter().find_map(|status| stuck(pod, status, false)))
}

fn stuck(pod: &Pod, status: &ContainerStatus, init: bool) -> Option<Failure> {
    let waiting = status.state.waiting.as_ref()?;
    let word = waiting.reason.as_deref()?;
    let reason = match word {
        "ImagePullBackOff" | "ErrImagePull" | "InvalidImageName" | "ErrImageNeverPull" => Reason::ImagePullFailed,
        "CreateContainerConfigError" => Reason::CreateContainerConfigError,
        "CreateContainerError" | "RunContainerError" => Reason::CreateContainerError,
        "CrashLoopBackOff" if init => return init_failed(pod, status),
        "CrashLoopBackOff" => return Some(crash_loop(pod, status, waiting)),
        _ => return None,
    };
    Some(Failure { kubelet: Some(Reason::from(word)), ..Failure::new(reason, in_words(pod, status, waiting)) })
}

fn crash_loop(pod: &Pod, status: &ContainerStatus, waiting: &Waiting) -> Failure {
    let last = status.last_state.terminated.as_ref();
    let reason = match last.and_then(|end| end.reason.as_deref()) {
        Some("OOMKilled") => Reason::OOMKilled,
        _ => Reason::CrashLoopBackOff,
    };
    let end = last.map(how_it_ended).unwrap_or_default();
    Failure::new(reason, format!("{}; last run {end}", in_words(pod, status, waiting)))
}

fn in_words(pod: &Pod, status: &ContainerStatus, waiting: &Waiting) -> String {
    let reason = waiting.reason.as_deref().unwrap_or_default();
    let message = waiting.message.as_deref().unwrap_or("no message from the kubelet");
    format!("pod {}, container {}: {reason}: {message}", name(pod), status.name)
}
