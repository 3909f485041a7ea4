//! What a Pod asks of the stand-in kubelet, by annotations (or labels) on itself.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

/// Milliseconds until the Pod is Ready; wins over the stand-in's own delay.
pub const READY_AFTER: &str = "stand-in.opensandbox.io/ready-after";
/// `true`: containers run, the Pod never gets Ready.
pub const NEVER_READY: &str = "stand-in.opensandbox.io/never-ready";
/// A reason such as `ImagePullBackOff`: containers stay waiting with it.
pub const WAITING: &str = "stand-in.opensandbox.io/waiting";
/// A reason such as `OOMKilled` (containers end with it, exit code 137) or `Evicted` (the Pod does).
pub const FAIL: &str = "stand-in.opensandbox.io/fail";
/// An exit code: containers end with it; 0 makes the Pod Succeeded.
pub const EXIT: &str = "stand-in.opensandbox.io/exit";
/// A message: the Pod is not bound and says that no node fits, for this reason.
pub const UNSCHEDULABLE: &str = "stand-in.opensandbox.io/unschedulable";
/// A number: how often the containers have been restarted. A change gives them new ids.
pub const RESTARTS: &str = "stand-in.opensandbox.io/restarts";
/// The Pod's address, instead of one of 198.18.0.0/16: for a test that listens itself.
pub const POD_IP: &str = "stand-in.opensandbox.io/pod-ip";
/// Milliseconds from the deletion mark to the Pod's end.
pub const ENDS_AFTER: &str = "stand-in.opensandbox.io/ends-after";

/// How a Pod's containers fare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Course {
    /// They run and are ready.
    Ready,
    /// They run and never get ready.
    NeverReady,
    /// They do not start, for this reason.
    Waiting(String),
    /// They end, or the Pod does, for this reason.
    Fail(String),
    /// They end with this code.
    Exit(i32),
}

/// All that a Pod asks for. An annotation changed later changes the Pod's course later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// How its containers fare.
    pub course: Course,
    /// How long that takes.
    pub after: Duration,
    /// How often they were restarted.
    pub restarts: i32,
    /// Its own address, if it asks for one.
    pub address: Option<IpAddr>,
}

impl Behaviour {
    /// Reads it from a Pod; what cannot be read counts as not given.
    pub fn of(pod: &Pod, default_delay: Duration) -> Self {
        let course = if let Some(reason) = mark(pod, FAIL) {
            Course::Fail(reason.to_owned())
        } else if let Some(code) = number(pod, EXIT) {
            Course::Exit(code)
        } else if let Some(reason) = mark(pod, WAITING) {
            Course::Waiting(reason.to_owned())
        } else if mark(pod, NEVER_READY) == Some("true") {
            Course::NeverReady
        } else {
            Course::Ready
        };
        Self {
            course,
            after: number(pod, READY_AFTER).map_or(default_delay, Duration::from_millis),
            restarts: number(pod, RESTARTS).unwrap_or_default(),
            address: number(pod, POD_IP),
        }
    }
}

/// Why no node fits the Pod, if it asks for that.
pub fn unschedulable(pod: &Pod) -> Option<&str> {
    mark(pod, UNSCHEDULABLE)
}

/// How long the Pod takes to end.
pub fn ends_after(pod: &Pod, default: Duration) -> Duration {
    number(pod, ENDS_AFTER).map_or(default, Duration::from_millis)
}

fn mark<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    pod.annotations().get(key).or_else(|| pod.labels().get(key)).map(String::as_str)
}

fn number<T: std::str::FromStr>(pod: &Pod, key: &str) -> Option<T> {
    mark(pod, key)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(annotations: &[(&str, &str)]) -> Pod {
        let mut pod = Pod::default();
        pod.annotations_mut().extend(annotations.iter().map(|(key, value)| ((*key).into(), (*value).into())));
        pod
    }

    #[test]
    fn a_pod_without_marks_gets_ready() {
        let behaviour = Behaviour::of(&pod(&[]), Duration::from_millis(7));
        assert_eq!(behaviour.course, Course::Ready);
        assert_eq!(behaviour.after, Duration::from_millis(7));
    }

    #[test]
    fn marks_are_read_from_annotations_and_from_labels() {
        let mut labelled = Pod::default();
        labelled.labels_mut().insert(NEVER_READY.into(), "true".into());
        assert_eq!(Behaviour::of(&labelled, Duration::ZERO).course, Course::NeverReady);
        let failing = pod(&[(FAIL, "OOMKilled"), (READY_AFTER, "30")]);
        let behaviour = Behaviour::of(&failing, Duration::ZERO);
        assert_eq!(behaviour.course, Course::Fail("OOMKilled".into()));
        assert_eq!(behaviour.after, Duration::from_millis(30));
    }
}
