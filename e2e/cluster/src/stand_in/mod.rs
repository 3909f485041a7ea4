//! A stand-in for kubelets: Pods become Running and Ready by one status patch, and end when deleted.
//!
//! What a Pod asks of it is said by annotations on the Pod ([`behaviour`]).

mod addresses;
pub mod behaviour;
mod nodes;
mod status;
mod work;

use std::collections::{BTreeSet, HashMap};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinHandle};

use behaviour::Behaviour;
use nodes::Nodes;
use work::Worker;

/// How long a Pod may stay marked at grace 0 before the request that marked it must have been cut off.
const CUT_OFF: Duration = Duration::from_secs(1);

/// How the stand-in behaves where a Pod does not say.
#[derive(Clone, Debug)]
pub struct StandInOptions {
    /// How many nodes there are, `stand-in-0` and on.
    pub nodes: u8,
    /// Time from being bound to being Ready.
    pub ready_after: Duration,
    /// Time from the deletion mark to the end.
    pub ends_after: Duration,
}

impl Default for StandInOptions {
    fn default() -> Self {
        Self { nodes: 2, ready_after: Duration::ZERO, ends_after: Duration::ZERO }
    }
}

/// The running stand-in; it stops when dropped.
pub struct StandInKubelet {
    client: Client,
    nodes: Nodes,
    ready_after: Arc<AtomicU64>,
    returned: UnboundedSender<Vec<Pod>>,
    tasks: Vec<JoinHandle<()>>,
}

impl StandInKubelet {
    /// Registers the nodes and begins to act on Pods. `binds`: whether it is the scheduler too.
    ///
    /// # Errors
    /// When a node cannot be created.
    pub async fn start(client: Client, options: StandInOptions, binds: bool) -> Result<Self> {
        let nodes = Nodes::named(options.nodes);
        nodes.register(&client).await?;
        let ready_after = Arc::new(AtomicU64::new(millis(options.ready_after)));
        let worker = Worker::new(client.clone(), nodes.clone());
        let (returned, inbox) = unbounded_channel();
        let watch = Watch {
            worker,
            nodes: nodes.clone(),
            ready_after: ready_after.clone(),
            ends_after: options.ends_after,
            binds,
            returned: inbox,
            seen: HashMap::new(),
            unbound: HashMap::new(),
            listed: BTreeSet::new(),
        };
        let tasks = vec![tokio::spawn(watch.run(client.clone())), tokio::spawn(nodes.clone().beat(client.clone()))];
        Ok(Self { client, nodes, ready_after, returned, tasks })
    }

    /// The names of its nodes.
    pub fn nodes(&self) -> Vec<String> {
        self.nodes.names()
    }

    /// From now on Pods that do not say otherwise take this long to get Ready.
    pub fn set_ready_after(&self, delay: Duration) {
        self.ready_after.store(millis(delay), Ordering::Relaxed);
    }

    /// Loses a node: its Pods are acted on no more and its lease runs out. What the node controller
    /// does after its grace period of 50 s is done at once: the node's state becomes unknown and its
    /// Pods not ready. The taint, and the eviction 300 s later, are left to the real one.
    ///
    /// # Errors
    /// When a status cannot be written.
    pub async fn lose_node(&self, name: &str) -> Result<()> {
        self.nodes.set_lost(name, true);
        self.set_ready(name, "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.").await?;
        for pod in self.pods_of(name).await? {
            let patch = Patch::Strategic(status::not_ready(&pod, Timestamp::now()));
            let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
            match api.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await {
                Ok(_) => {}
                // It has gone since it was listed; 422: another has its name.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409 | 422) => {}
                Err(error) => return Err(error).with_context(|| format!("write the status of Pod {}", pod.name_any())),
            }
        }
        Ok(())
    }

    /// Brings a lost node back, with its Pods.
    ///
    /// # Errors
    /// When the node's status cannot be written.
    pub async fn return_node(&self, name: &str) -> Result<()> {
        self.nodes.set_lost(name, false);
        self.set_ready(name, "True", "KubeletReady", "the stand-in kubelet is ready").await?;
        // Without a receiver the stand-in has ended, and nobody waits for these Pods.
        let _ = self.returned.send(self.pods_of(name).await?);
        Ok(())
    }

    async fn pods_of(&self, node: &str) -> Result<Vec<Pod>> {
        let params = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let list = Api::<Pod>::all(self.client.clone()).list(&params).await;
        Ok(list.with_context(|| format!("list the Pods of node {node}"))?.items)
    }

    async fn set_ready(&self, name: &str, status: &str, reason: &str, message: &str) -> Result<()> {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let patch = json!({ "status": { "conditions": [nodes::condition(status, reason, message, &now)] } });
        Api::<Node>::all(self.client.clone())
            .patch_status(name, &PatchParams::default(), &Patch::Strategic(patch))
            .await
            .with_context(|| format!("write the status of node {name}"))?;
        Ok(())
    }
}

impl Drop for StandInKubelet {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

fn millis(delay: Duration) -> u64 {
    u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)
}

/// What has been begun for one Pod.
#[derive(Default)]
struct Seen {
    bound: bool,
    shown: Option<(Behaviour, AbortHandle)>,
    ending: Option<AbortHandle>,
}

struct Watch {
    worker: Worker,
    nodes: Nodes,
    ready_after: Arc<AtomicU64>,
    ends_after: Duration,
    binds: bool,
    /// Pods of a node that has come back: their state is to be written anew.
    returned: UnboundedReceiver<Vec<Pod>>,
    seen: HashMap<String, Seen>,
    /// Pods for which no node was open.
    unbound: HashMap<String, Pod>,
    listed: BTreeSet<String>,
}

impl Watch {
    async fn run(mut self, client: Client) {
        let config = watcher::Config::default;
        let mut pods = pin!(watcher(Api::<Pod>::all(client.clone()), config()).default_backoff());
        let mut nodes = pin!(watcher(Api::<Node>::all(client), config()).default_backoff());
        loop {
            tokio::select! {
                event = pods.next() => match event {
                    Some(Ok(event)) => self.on_pod(event),
                    // The watch backs off and lists anew: the API server is stopped in tests.
                    Some(Err(_)) => {}
                    None => return,
                },
                event = nodes.next() => match event {
                    Some(Ok(event)) => self.on_node(event),
                    Some(Err(_)) => {}
                    None => return,
                },
                Some(pods) = self.returned.recv() => self.on_return(&pods),
            }
        }
    }

    fn on_return(&mut self, pods: &[Pod]) {
        for pod in pods {
            if let Some(seen) = self.seen.get_mut(&pod.uid().unwrap_or_default()) {
                seen.shown = None;
            }
            self.act(pod);
        }
    }

    fn on_node(&mut self, event: Event<Node>) {
        match event {
            Event::Apply(node) | Event::InitApply(node) => self.nodes.observe(&node),
            Event::Delete(_) | Event::Init | Event::InitDone => {}
        }
        for pod in std::mem::take(&mut self.unbound).into_values() {
            self.act(&pod);
        }
    }

    fn on_pod(&mut self, event: Event<Pod>) {
        match event {
            Event::Apply(pod) => self.act(&pod),
            Event::Delete(pod) => self.forget(&pod.uid().unwrap_or_default()),
            Event::Init => self.listed.clear(),
            Event::InitApply(pod) => {
                self.listed.insert(pod.uid().unwrap_or_default());
                self.act(&pod);
            }
            Event::InitDone => {
                let gone: Vec<String> = self.seen.keys().filter(|uid| !self.listed.contains(*uid)).cloned().collect();
                gone.iter().for_each(|uid| self.forget(uid));
            }
        }
    }

    fn forget(&mut self, uid: &str) {
        if let Some(Seen { shown, ending, .. }) = self.seen.remove(uid) {
            shown.map(|(_, task)| task).into_iter().chain(ending).for_each(|task| task.abort());
        }
        self.unbound.remove(uid);
        self.worker.free(uid);
    }

    fn act(&mut self, pod: &Pod) {
        let uid = pod.uid().unwrap_or_default();
        let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) else {
            return self.bind(pod, uid);
        };
        let Some(host) = self.nodes.alive(&node) else { return };
        let seen = self.seen.entry(uid).or_default();
        if pod.metadata.deletion_timestamp.is_some() {
            if seen.ending.is_none()
                && let Some(after) = ends_in(pod, self.ends_after)
            {
                seen.ending = Some(self.worker.end(pod.clone(), after, node));
            }
            return;
        }
        let behaviour = Behaviour::of(pod, Duration::from_millis(self.ready_after.load(Ordering::Relaxed)));
        match &seen.shown {
            Some((shown, _)) if shown.course == behaviour.course && shown.restarts == behaviour.restarts => {}
            _ if is_over(pod) => {}
            earlier => {
                if let Some((_, task)) = earlier {
                    task.abort();
                }
                let task = self.worker.show(pod.clone(), behaviour.clone(), host, node);
                seen.shown = Some((behaviour, task));
            }
        }
    }

    fn bind(&mut self, pod: &Pod, uid: String) {
        if !self.binds || pod.metadata.deletion_timestamp.is_some() {
            return;
        }
        let seen = self.seen.entry(uid.clone()).or_default();
        if seen.bound {
            return;
        }
        if let Some(message) = behaviour::unschedulable(pod) {
            if !says_unschedulable(pod) {
                self.worker.refuse(pod.clone(), message.to_owned());
            }
            return;
        }
        match self.nodes.pick() {
            Some(node) => {
                seen.bound = true;
                self.worker.bind(pod.clone(), node);
            }
            None => {
                if !says_unschedulable(pod) {
                    self.worker.refuse(pod.clone(), "0 nodes are available: every node is lost or cordoned.".into());
                }
                self.unbound.insert(uid, pod.clone());
            }
        }
    }
}

/// In what time a Pod that is marked for deletion is ended; never if only its finalizers keep it, which are not a
/// kubelet's business.
fn ends_in(pod: &Pod, default: Duration) -> Option<Duration> {
    if pod.metadata.deletion_grace_period_seconds != Some(0) {
        return Some(behaviour::ends_after(pod, default));
    }
    // At grace 0 the API server marks and removes it in one request. If that was cut off between the two, it is left
    // to the kubelet.
    pod.finalizers().is_empty().then_some(CUT_OFF)
}

fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
}

fn says_unschedulable(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|each| each.reason.as_deref() == Some("Unschedulable"))
}
