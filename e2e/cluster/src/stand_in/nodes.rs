//! The stand-in's nodes: objects that say they are ready, kept alive by their leases.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::ResourceExt;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;

const BEAT: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(500);

/// What is known of the nodes, shared by all tasks.
#[derive(Clone, Default)]
pub struct Nodes {
    inner: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    ours: BTreeMap<String, IpAddr>,
    lost: BTreeSet<String>,
    closed: BTreeSet<String>,
    next: usize,
}

impl Nodes {
    /// `count` nodes, `stand-in-0` and on.
    pub fn named(count: u8) -> Self {
        let nodes = Self::default();
        for number in 0..count {
            // The last /24 of the Pod range; the stand-in's Pods stay below it.
            let address = IpAddr::V4(Ipv4Addr::new(198, 18, 255, number));
            nodes.with(|known| known.ours.insert(format!("stand-in-{number}"), address));
        }
        nodes
    }

    fn with<T>(&self, act: impl FnOnce(&mut Known) -> T) -> T {
        act(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Their names.
    pub fn names(&self) -> Vec<String> {
        self.with(|known| known.ours.keys().cloned().collect())
    }

    /// The address of a node that is ours and not lost: whose Pods the stand-in acts for.
    pub fn alive(&self, name: &str) -> Option<IpAddr> {
        self.with(|known| known.ours.get(name).copied().filter(|_| !known.lost.contains(name)))
    }

    /// The next node in turn that takes Pods.
    pub fn pick(&self) -> Option<String> {
        self.with(|known| {
            let open: Vec<&String> =
                known.ours.keys().filter(|name| !known.lost.contains(*name) && !known.closed.contains(*name)).collect();
            let chosen = open.get(known.next % open.len().max(1)).map(|name| (*name).clone());
            known.next = known.next.wrapping_add(1);
            chosen
        })
    }

    /// Takes a node's cordon from what the watch saw.
    pub fn observe(&self, node: &Node) {
        let closed = node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true));
        self.with(|known| {
            if closed {
                known.closed.insert(node.name_any());
            } else {
                known.closed.remove(&node.name_any());
            }
        });
    }

    /// Marks one as lost or found.
    pub fn set_lost(&self, name: &str, lost: bool) {
        self.with(|known| {
            if lost {
                known.lost.insert(name.to_owned());
            } else {
                known.lost.remove(name);
            }
        });
    }

    /// Creates the Node objects.
    ///
    /// # Errors
    /// When the API server refuses one.
    pub async fn register(&self, client: &Client) -> Result<()> {
        let api: Api<Node> = Api::all(client.clone());
        for name in self.names() {
            let Some(address) = self.alive(&name) else { continue };
            match api.create(&PostParams::default(), &node(&name, address)?).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                Err(error) => return Err(error).with_context(|| format!("create the node {name}")),
            }
        }
        Ok(())
    }

    /// Renews the leases of all that are not lost, for ever.
    pub async fn beat(self, client: Client) {
        let api: Api<Lease> = Api::namespaced(client, "kube-node-lease");
        loop {
            let mut pause = BEAT;
            for name in self.names().into_iter().filter(|name| self.alive(name).is_some()) {
                let params = PatchParams::apply("stand-in-kubelet").force();
                if api.patch(&name, &params, &Patch::Apply(lease(&name))).await.is_err() {
                    // The namespace comes a moment after the API server; and servers are stopped in tests.
                    pause = RETRY;
                }
            }
            tokio::time::sleep(pause).await;
        }
    }
}

fn node(name: &str, address: IpAddr) -> Result<Node> {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let room = json!({ "cpu": "100000", "memory": "400Ti", "pods": "100000", "ephemeral-storage": "400Ti" });
    serde_json::from_value(json!({
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "stand-in.opensandbox.io/node": "true",
            },
        },
        "status": {
            "capacity": room,
            "allocatable": room,
            "addresses": [
                { "type": "InternalIP", "address": address },
                { "type": "Hostname", "address": name },
            ],
            "conditions": [condition("True", "KubeletReady", "the stand-in kubelet is ready", &now)],
            "nodeInfo": {
                "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "stand-in://0",
                "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "stand-in",
                "machineID": "", "operatingSystem": "linux", "osImage": "", "systemUUID": "",
            },
        },
    }))
    .context("describe a node")
}

/// The node's Ready condition.
pub fn condition(status: &str, reason: &str, message: &str, time: &str) -> serde_json::Value {
    json!({
        "type": "Ready", "status": status, "reason": reason, "message": message,
        "lastHeartbeatTime": time, "lastTransitionTime": time,
    })
}

fn lease(name: &str) -> Lease {
    Lease {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        spec: Some(LeaseSpec {
            holder_identity: Some(name.to_owned()),
            lease_duration_seconds: Some(40),
            renew_time: Some(MicroTime(Timestamp::now())),
            ..LeaseSpec::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_go_round_the_nodes_that_take_them() {
        let nodes = Nodes::named(3);
        nodes.set_lost("stand-in-1", true);
        let picks: Vec<_> = (0..4).filter_map(|_| nodes.pick()).collect();
        assert!(!picks.contains(&"stand-in-1".to_owned()));
        assert!(picks.contains(&"stand-in-0".to_owned()) && picks.contains(&"stand-in-2".to_owned()));
        assert!(nodes.alive("stand-in-1").is_none());
    }

    #[test]
    fn without_a_node_nothing_is_picked() {
        assert_eq!(Nodes::named(0).pick(), None);
    }
}
