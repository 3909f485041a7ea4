//! The status that a kubelet would write, as one patch.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::behaviour::{Behaviour, Course};

/// The patch of `pods/<name>/status` (strategic merge, so that conditions of others stay). It names
/// the Pod's uid: a later Pod of the same name refuses it.
pub fn patch(pod: &Pod, behaviour: &Behaviour, address: IpAddr, host: IpAddr, now: Timestamp) -> Value {
    let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let spec = pod.spec.clone().unwrap_or_default();
    let view = View { pod, behaviour, time: &time };
    let mut status = json!({
        "phase": phase(&behaviour.course),
        "hostIP": host,
        "hostIPs": [{ "ip": host }],
        "startTime": time,
        "observedGeneration": pod.metadata.generation,
        "conditions": view.conditions(),
        "containerStatuses": spec.containers.iter().map(|each| view.container(each)).collect::<Vec<_>>(),
        "initContainerStatuses": spec.init_containers.iter().flatten().map(|each| view.init_container(each)).collect::<Vec<_>>(),
    });
    let map = status.as_object_mut();
    if let Some(map) = map {
        match &behaviour.course {
            Course::Waiting(_) => {}
            Course::Ready | Course::NeverReady | Course::Exit(_) => put_address(map, address),
            Course::Fail(reason) => {
                put_address(map, address);
                map.insert("reason".into(), json!(reason));
                map.insert("message".into(), json!(format!("the stand-in kubelet ended the Pod: {reason}")));
            }
        }
    }
    json!({ "metadata": { "uid": pod.metadata.uid }, "status": status })
}

fn put_address(status: &mut Map<String, Value>, address: IpAddr) {
    status.insert("podIP".into(), json!(address));
    status.insert("podIPs".into(), json!([{ "ip": address }]));
}

/// The patch that a node controller writes on the Pods of a node it lost.
pub fn not_ready(pod: &Pod, now: Timestamp) -> Value {
    json!({
        "metadata": { "uid": pod.metadata.uid },
        "status": { "conditions": [{
            "type": "Ready",
            "status": "False",
            "reason": "NodeNotReady",
            "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        }] },
    })
}

/// The patch that says that no node fits.
pub fn unschedulable(pod: &Pod, message: &str, now: Timestamp) -> Value {
    json!({
        "metadata": { "uid": pod.metadata.uid },
        "status": { "conditions": [{
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        }] },
    })
}

fn phase(course: &Course) -> &'static str {
    match course {
        Course::Ready | Course::NeverReady => "Running",
        Course::Waiting(_) => "Pending",
        Course::Fail(_) => "Failed",
        Course::Exit(0) => "Succeeded",
        Course::Exit(_) => "Failed",
    }
}

struct View<'a> {
    pod: &'a Pod,
    behaviour: &'a Behaviour,
    time: &'a str,
}

impl View<'_> {
    fn conditions(&self) -> Value {
        let (ready, reason) = match &self.behaviour.course {
            Course::Ready => ("True", None),
            Course::NeverReady | Course::Waiting(_) => ("False", Some("ContainersNotReady")),
            Course::Fail(_) => ("False", Some("PodFailed")),
            Course::Exit(_) => ("False", Some("PodCompleted")),
        };
        let condition = |kind: &str, status: &str, reason: Option<&str>| json!({ "type": kind, "status": status, "reason": reason, "lastTransitionTime": self.time });
        json!([
            condition("PodReadyToStartContainers", "True", None),
            condition("Initialized", "True", None),
            condition("ContainersReady", ready, reason),
            condition("Ready", ready, reason),
        ])
    }

    fn container(&self, container: &Container) -> Value {
        let running = matches!(self.behaviour.course, Course::Ready | Course::NeverReady);
        let mut status = self.base(container, self.behaviour.course == Course::Ready);
        let state = match &self.behaviour.course {
            Course::Ready | Course::NeverReady => json!({ "running": { "startedAt": self.time } }),
            Course::Waiting(reason) => {
                json!({ "waiting": { "reason": reason, "message": format!("{reason}: {}", container.image.as_deref().unwrap_or_default()) } })
            }
            Course::Fail(reason) if reason == "OOMKilled" => self.ended(reason, 137),
            Course::Fail(_) => self.ended("Error", 137),
            Course::Exit(0) => self.ended("Completed", 0),
            Course::Exit(code) => self.ended("Error", *code),
        };
        status["state"] = state;
        status["started"] = json!(running);
        status
    }

    fn init_container(&self, container: &Container) -> Value {
        let mut status = self.base(container, true);
        status["state"] = self.ended("Completed", 0);
        status
    }

    fn base(&self, container: &Container, ready: bool) -> Value {
        let image = container.image.as_deref().unwrap_or_default();
        json!({
            "name": container.name,
            "image": image,
            "imageID": format!("stand-in://{image}"),
            "containerID": self.id(&container.name),
            "ready": ready,
            "restartCount": self.behaviour.restarts,
        })
    }

    fn ended(&self, reason: &str, code: i32) -> Value {
        json!({ "terminated": {
            "reason": reason, "exitCode": code, "startedAt": self.time, "finishedAt": self.time,
        } })
    }

    /// A restarted container has another id, as in a container runtime.
    fn id(&self, name: &str) -> String {
        let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
        format!("stand-in://{uid}/{name}/{}", self.behaviour.restarts)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::PodSpec;

    use super::*;

    fn render(course: Course) -> Value {
        let container = Container { name: "main".into(), image: Some("img".into()), ..Container::default() };
        let pod = Pod { spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }), ..Pod::default() };
        let behaviour = Behaviour { course, after: Duration::ZERO, restarts: 2, address: None };
        let ip = "198.18.1.1".parse().unwrap();
        patch(&pod, &behaviour, ip, ip, Timestamp::UNIX_EPOCH)["status"].take()
    }

    #[test]
    fn a_ready_pod_has_an_address_and_ready_containers() {
        let status = render(Course::Ready);
        assert_eq!(status["phase"], "Running");
        assert_eq!(status["podIP"], "198.18.1.1");
        assert_eq!(status["containerStatuses"][0]["ready"], true);
        assert_eq!(status["containerStatuses"][0]["containerID"], "stand-in:///main/2");
    }

    #[test]
    fn a_killed_container_says_so() {
        let status = render(Course::Fail("OOMKilled".into()));
        assert_eq!(status["phase"], "Failed");
        assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["reason"], "OOMKilled");
    }

    #[test]
    fn a_pod_whose_image_is_not_there_stays_pending_without_an_address() {
        let status = render(Course::Waiting("ImagePullBackOff".into()));
        assert_eq!(status["phase"], "Pending");
        assert!(status.get("podIP").is_none());
    }
}
