//! What a control plane promises to those who test on it.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::path::Path;
use std::pin::pin;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher::{self, watcher};
use kube::{Client, ResourceExt};
use sandbox_cluster::process::ProcessId;
use sandbox_cluster::stand_in::behaviour;
use sandbox_cluster::{Plane, PlaneOptions, Stop};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(60);

fn pod(name: &str, annotations: &serde_json::Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": name, "annotations": annotations },
        "spec": { "containers": [{ "name": "main", "image": "nowhere/main:1" }] },
    }))
    .unwrap()
}

async fn reaches(api: &Api<Pod>, name: &str, what: impl Fn(&Pod) -> bool + Send) -> Pod {
    let condition = |pod: Option<&Pod>| pod.is_some_and(&what);
    let found = tokio::time::timeout(LIMIT, await_condition(api.clone(), name, condition)).await;
    found.expect("in time").unwrap().unwrap()
}

fn phase_is(pod: &Pod, phase: &str) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(phase)
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|each| each.type_ == "Ready" && each.status == "True")
}

#[tokio::test(flavor = "multi_thread")]
async fn two_control_planes_run_side_by_side() {
    let (one, two) = tokio::join!(Plane::start(PlaneOptions::default()), Plane::start(PlaneOptions::default()));
    let (one, two) = (one.unwrap(), two.unwrap());
    let map: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": "only-in-one" } })).unwrap();
    Api::namespaced(one.admin(), "default").create(&PostParams::default(), &map).await.unwrap();
    let of = |client: Client| Api::<ConfigMap>::namespaced(client, "default");
    assert!(of(one.admin()).get_opt("only-in-one").await.unwrap().is_some());
    assert!(of(two.admin()).get_opt("only-in-one").await.unwrap().is_none());
    let version = two.admin().apiserver_version().await.unwrap();
    assert_eq!(version.git_version, "v1.34.4");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_becomes_ready_under_the_stand_in_kubelet() {
    let plane = Plane::start(PlaneOptions::default()).await.unwrap();
    let namespace = plane.namespace("pods").await.unwrap();
    let api: Api<Pod> = Api::namespaced(plane.admin(), &namespace);
    let begun = Instant::now();
    api.create(&PostParams::default(), &pod("plain", &json!({}))).await.unwrap();
    let ready = reaches(&api, "plain", is_ready).await;
    eprintln!("created to Ready: {:?}", begun.elapsed());
    let status = ready.status.clone().unwrap();
    assert!(status.pod_ip.unwrap().starts_with("198.18."));
    assert!(ready.spec.as_ref().unwrap().node_name.as_ref().unwrap().starts_with("stand-in-"));
    assert!(status.conditions.unwrap().iter().any(|each| each.type_ == "PodScheduled" && each.status == "True"));

    api.delete("plain", &DeleteParams::default()).await.unwrap();
    let uid = ready.uid().unwrap();
    let gone = conditions::is_deleted(&uid);
    tokio::time::timeout(LIMIT, await_condition(api, "plain", gone)).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_takes_the_course_its_annotations_ask_for() {
    let plane = Plane::start(PlaneOptions::default()).await.unwrap();
    let namespace = plane.namespace("courses").await.unwrap();
    let api: Api<Pod> = Api::namespaced(plane.admin(), &namespace);
    let create = async |name: &str, key: &str, value: &str| {
        api.create(&PostParams::default(), &pod(name, &json!({ key: value }))).await.unwrap();
    };
    create("waits", behaviour::WAITING, "ImagePullBackOff").await;
    create("exits", behaviour::EXIT, "0").await;
    create("homeless", behaviour::UNSCHEDULABLE, "no node is big enough").await;
    create("slow", behaviour::NEVER_READY, "true").await;
    create("dies", behaviour::READY_AFTER, "10").await;

    let waits = reaches(&api, "waits", |pod| pod.status.as_ref().unwrap().container_statuses.is_some()).await;
    let statuses = waits.status.unwrap().container_statuses.unwrap();
    let reason = statuses[0].state.as_ref().unwrap().waiting.as_ref().unwrap().reason.clone();
    assert_eq!(reason.as_deref(), Some("ImagePullBackOff"));
    reaches(&api, "exits", |pod| phase_is(pod, "Succeeded")).await;
    let unscheduled = |pod: &Pod| {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().any(|each| each.reason.as_deref() == Some("Unschedulable"))
    };
    reaches(&api, "homeless", unscheduled).await;
    let slow = reaches(&api, "slow", |pod| phase_is(pod, "Running")).await;
    assert!(!is_ready(&slow));

    reaches(&api, "dies", is_ready).await;
    let patch = json!({ "metadata": { "annotations": { behaviour::FAIL: "OOMKilled" } } });
    api.patch("dies", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    reaches(&api, "dies", |pod| phase_is(pod, "Failed")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_api_server_comes_back_with_what_it_held() {
    let plane = Plane::start(PlaneOptions { audit: true, ..PlaneOptions::default() }).await.unwrap();
    let api: Api<Pod> = Api::namespaced(plane.admin(), "default");
    api.create(&PostParams::default(), &pod("before", &json!({}))).await.unwrap();
    let before = reaches(&api, "before", is_ready).await;
    plane.stop_api_server(Stop::Hard).await;
    assert!(api.get("before").await.is_err());
    plane.start_api_server().await.unwrap();
    assert_eq!(api.get("before").await.unwrap().uid(), before.uid());
    // The stand-in's watch found the server again.
    api.create(&PostParams::default(), &pod("after", &json!({}))).await.unwrap();
    reaches(&api, "after", is_ready).await;
    assert!(plane.metrics().await.unwrap().contains("apiserver_request_total"));
    assert!(std::fs::read_to_string(plane.audit_log()).unwrap().contains("\"verb\":\"create\""));
}

const WIDGETS: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: widgets.example.com }
spec:
  group: example.com
  scope: Namespaced
  names: { plural: widgets, singular: widget, kind: Widget, listKind: WidgetList }
  versions:
  - { name: v1, served: true, storage: true, schema: { openAPIV3Schema: { type: object } } }
";

#[tokio::test(flavor = "multi_thread")]
async fn what_a_custom_object_owns_ends_with_it_from_the_start() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("widgets.yaml"), WIDGETS).unwrap();
    let definitions = vec![place.path().to_owned()];
    let plane = Plane::start(PlaneOptions { definitions, ..PlaneOptions::default() }).await.unwrap();
    let kind = kube::core::GroupVersionKind::gvk("example.com", "v1", "Widget");
    let resource = kube::core::ApiResource::from_gvk(&kind);
    let widgets: Api<kube::api::DynamicObject> = Api::namespaced_with(plane.admin(), "default", &resource);
    let mut widget = kube::api::DynamicObject::new("owner", &resource);
    widget = widgets.create(&PostParams::default(), &widget).await.unwrap();
    let api: Api<Pod> = Api::namespaced(plane.admin(), "default");
    let mut owned = pod("owned", &json!({}));
    owned.metadata.owner_references = Some(vec![
        serde_json::from_value(json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "name": "owner", "uid": widget.uid(),
        }))
        .unwrap(),
    ]);
    let uid = api.create(&PostParams::default(), &owned).await.unwrap().uid().unwrap();
    widgets.delete("owner", &DeleteParams::default()).await.unwrap();
    let begun = Instant::now();
    let gone = conditions::is_deleted(&uid);
    // Well below the 30 s after which the collector would look for new kinds.
    tokio::time::timeout(Duration::from_secs(20), await_condition(api, "owned", gone)).await.unwrap().unwrap();
    eprintln!("collected after {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_a_role_may_do_nothing() {
    let plane = Plane::start(PlaneOptions::default()).await.unwrap();
    let somebody: Api<Pod> = Api::namespaced(plane.client_for("somebody", &["nobodies"]).await.unwrap(), "default");
    let Err(kube::Error::Api(refused)) = somebody.list(&ListParams::default()).await else { panic!("allowed") };
    assert_eq!(refused.code, 403);
    assert!(refused.message.contains("somebody"));
    let path = plane.kubeconfig_for_service_account("default", "default").await.unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    let account = sandbox_cluster::kubeconfig::client(&text).await.unwrap();
    let Err(kube::Error::Api(refused)) = Api::<Pod>::namespaced(account, "default").list(&ListParams::default()).await
    else {
        panic!("allowed")
    };
    assert!(refused.message.contains("system:serviceaccount:default:default"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_node_s_pods_stay_until_it_returns() {
    let plane = Plane::start(PlaneOptions::default()).await.unwrap();
    let api: Api<Pod> = Api::namespaced(plane.admin(), "default");
    api.create(&PostParams::default(), &pod("held", &json!({}))).await.unwrap();
    let held = reaches(&api, "held", is_ready).await;
    let node = held.spec.as_ref().unwrap().node_name.clone().unwrap();
    plane.stand_in().unwrap().lose_node(&node).await.unwrap();
    reaches(&api, "held", |pod| !is_ready(pod)).await;
    api.delete("held", &DeleteParams::default()).await.unwrap();
    // Another Pod's whole life passes, and this one is still there.
    api.create(&PostParams::default(), &pod("other", &json!({}))).await.unwrap();
    reaches(&api, "other", is_ready).await;
    assert!(api.get("held").await.unwrap().metadata.deletion_timestamp.is_some());
    plane.stand_in().unwrap().return_node(&node).await.unwrap();
    let uid = held.uid().unwrap();
    let gone = conditions::is_deleted(&uid);
    tokio::time::timeout(LIMIT, await_condition(api, "held", gone)).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_pods_are_ready_within_seconds() {
    let plane = Plane::start(PlaneOptions::default()).await.unwrap();
    let api: Api<Pod> = Api::namespaced(plane.admin(), "default");
    let mut events = pin!(watcher(api.clone(), watcher::Config::default()));
    let begun = Instant::now();
    let params = PostParams::default();
    let wanted: Vec<Pod> = (0..200).map(|number| pod(&format!("p{number}"), &json!({}))).collect();
    let creates = futures::stream::iter(&wanted).for_each_concurrent(16, |pod| {
        let (api, params) = (&api, &params);
        async move { drop(api.create(params, pod).await.unwrap()) }
    });
    let all_ready = async {
        let mut ready = std::collections::BTreeSet::new();
        while ready.len() < 200 {
            let event = events.next().await.unwrap().unwrap();
            if let watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) = event
                && is_ready(&pod)
            {
                ready.insert(pod.status.unwrap().pod_ip.unwrap());
            }
        }
    };
    tokio::time::timeout(LIMIT, async { tokio::join!(creates, all_ready) }).await.expect("200 distinct addresses");
    eprintln!("200 Pods created and Ready: {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_leaves_nothing_behind() {
    let plane = Plane::start(PlaneOptions::default()).await.unwrap();
    let dir = plane.dir().to_owned();
    let processes: Vec<ProcessId> = plane.pids().into_iter().filter_map(ProcessId::of).collect();
    assert_eq!(processes.len(), 3);
    drop(plane);
    assert!(processes.iter().all(|each| !each.alive()));
    assert!(!dir.exists());
}

const VICTIM: &str = "SANDBOX_CLUSTER_TEST_VICTIM";

/// Not a test of its own: the process that the next test kills.
#[tokio::test(flavor = "multi_thread")]
async fn a_plane_that_is_held_until_its_process_is_killed() {
    let Ok(told) = std::env::var(VICTIM) else { return };
    let plane = Plane::start(PlaneOptions::default()).await.unwrap();
    let pids: Vec<String> = plane.pids().iter().map(ToString::to_string).collect();
    let half = format!("{told}.half");
    std::fs::write(&half, format!("{}\n{}", plane.dir().display(), pids.join(" "))).unwrap();
    std::fs::rename(half, told).unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_test_takes_its_plane_with_it() {
    let place = tempfile::tempdir().unwrap();
    let told = place.path().join("told");
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_plane_that_is_held_until_its_process_is_killed"])
        .env(VICTIM, &told)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let text = sandbox_cluster::wait::until("the victim's plane", LIMIT, || async {
        Ok(match std::fs::read_to_string(&told) {
            Ok(text) => sandbox_cluster::wait::Probe::Done(text),
            Err(error) => sandbox_cluster::wait::Probe::NotYet(error.to_string()),
        })
    })
    .await
    .unwrap();
    let (dir, pids) = text.split_once('\n').unwrap();
    let processes: Vec<ProcessId> = pids.split(' ').filter_map(|pid| ProcessId::of(pid.parse().unwrap())).collect();
    assert_eq!(processes.len(), 3);
    // Only while it lives: any plane that starts beside this test may sweep up after it.
    assert!(Path::new(dir).exists());
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(processes.iter().all(|each| each.wait(LIMIT)));
    // The next plane sweeps up.
    let next = Plane::start(PlaneOptions::default()).await.unwrap();
    assert!(!Path::new(dir).exists());
    drop(next);
}
