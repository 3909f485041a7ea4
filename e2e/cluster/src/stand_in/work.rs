//! The stand-in's requests: each is tried until it is done or has lost its object.

use std::future::Future;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::addresses::Addresses;
use super::behaviour::Behaviour;
use super::nodes::Nodes;
use super::status;

/// Requests in flight at once: each is a connection.
const AT_ONCE: usize = 32;
const RETRY: Duration = Duration::from_millis(200);

/// Runs the stand-in's requests in tasks of their own.
#[derive(Clone)]
pub struct Worker {
    client: Client,
    nodes: Nodes,
    addresses: Arc<Mutex<Addresses>>,
    room: Arc<Semaphore>,
}

impl Worker {
    /// A worker that acts through `client`.
    pub fn new(client: Client, nodes: Nodes) -> Self {
        Self { client, nodes, addresses: Arc::default(), room: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// The Pod is gone: its address is free.
    pub fn free(&self, uid: &str) {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).free(uid);
    }

    fn pods(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default())
    }

    /// Binds the Pod to `node`.
    pub fn bind(&self, pod: Pod, node: String) {
        let api = self.pods(&pod);
        let binding = Binding {
            metadata: ObjectMeta {
                name: pod.metadata.name.clone(),
                uid: pod.metadata.uid.clone(),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                api_version: Some("v1".into()),
                kind: Some("Node".into()),
                name: Some(node),
                ..ObjectReference::default()
            },
        };
        self.begin(async move |worker: Self| {
            let name = pod.name_any();
            let params = PostParams::default();
            worker
                .persist(|| async {
                    // The answer is a Status.
                    let answer: kube::Result<serde_json::Value> =
                        api.create_subresource("binding", &name, &params, &binding).await;
                    answer.map(drop)
                })
                .await;
        });
    }

    /// Says that no node fits.
    pub fn refuse(&self, pod: Pod, message: String) {
        let api = self.pods(&pod);
        self.begin(async move |worker: Self| {
            let patch = Patch::Strategic(status::unschedulable(&pod, &message, Timestamp::now()));
            worker
                .persist(|| async {
                    api.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await.map(drop)
                })
                .await;
        });
    }

    /// Brings the Pod into the state it asks for, after the time it asks for.
    pub fn show(&self, pod: Pod, behaviour: Behaviour, host: IpAddr, node: String) -> AbortHandle {
        let api = self.pods(&pod);
        let taken = || self.addresses.lock().unwrap_or_else(PoisonError::into_inner).of(&pod.uid().unwrap_or_default());
        let address = behaviour.address.unwrap_or_else(taken);
        self.begin(async move |worker: Self| {
            tokio::time::sleep(behaviour.after).await;
            worker.await_node(&node).await;
            let patch = Patch::Strategic(status::patch(&pod, &behaviour, address, host, Timestamp::now()));
            worker
                .persist(|| async {
                    api.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await.map(drop)
                })
                .await;
        })
    }

    /// Ends a Pod that is marked for deletion.
    pub fn end(&self, pod: Pod, after: Duration, node: String) -> AbortHandle {
        let api = self.pods(&pod);
        self.begin(async move |worker: Self| {
            tokio::time::sleep(after).await;
            worker.await_node(&node).await;
            let exactly = Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
            let params = DeleteParams::default().grace_period(0).preconditions(exactly);
            worker.persist(|| async { api.delete(&pod.name_any(), &params).await.map(drop) }).await;
        })
    }

    fn begin<F, W>(&self, work: W) -> AbortHandle
    where
        W: FnOnce(Self) -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        tokio::spawn(work(self.clone())).abort_handle()
    }

    /// A lost node's kubelet does nothing until the node is back.
    async fn await_node(&self, node: &str) {
        while self.nodes.alive(node).is_none() {
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Tries again while the server is away; an answer that the object is gone or another ends it.
    async fn persist<F, P>(&self, request: F)
    where
        F: Fn() -> P,
        P: Future<Output = kube::Result<()>>,
    {
        loop {
            let room = self.room.acquire().await;
            let outcome = request().await;
            drop(room);
            match outcome {
                Ok(()) => return,
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return,
                Err(kube::Error::Api(status)) if matches!(status.code, 400..=428) => {
                    eprintln!("the stand-in kubelet was refused: {}", status.message);
                    return;
                }
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }
}
