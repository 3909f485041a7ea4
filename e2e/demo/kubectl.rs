//! What is shown and waited for on the Kubernetes side.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use sandbox_api::{BatchSandbox, Pool};
use sandbox_cluster::home;
use sandbox_e2e::objects::{pods_of, runs};
use sandbox_e2e::program::find;
use sandbox_e2e::site::{Cluster, NAMESPACE};
use sandbox_e2e::{until, until_all, until_gone};

use crate::show::{say, shown};

const LIMIT: Duration = Duration::from_secs(60);
const POOLS: [&str; 2] = ["ci-pod", "ci-vm"];

/// kubectl on the cluster of the demo.
pub struct Kubectl<'a> {
    cluster: &'a Cluster,
    program: PathBuf,
    pools: Api<Pool>,
    claims: Api<BatchSandbox>,
    pods: Api<Pod>,
}

/// The Pod of a sandbox.
pub struct PodOf {
    name: String,
    uid: String,
}

impl<'a> Kubectl<'a> {
    /// # Errors
    /// When `sandbox-cluster`, which brings kubectl, is not built.
    pub fn new(cluster: &'a Cluster) -> Result<Self> {
        let client = || cluster.client.clone();
        Ok(Self {
            cluster,
            program: find("sandbox-cluster", "sandbox-cluster")?,
            pools: Api::namespaced(client(), NAMESPACE),
            claims: Api::namespaced(client(), NAMESPACE),
            pods: Api::namespaced(client(), NAMESPACE),
        })
    }

    /// Runs kubectl in the checkout and shows what it says.
    ///
    /// # Errors
    /// When kubectl fails.
    pub fn shown(&self, args: &[&str]) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.arg("kubectl").args(args).current_dir(home::checkout()).env("KUBECONFIG", &self.cluster.kubeconfig);
        shown(&format!("kubectl {}", args.join(" ")), &mut command)?;
        Ok(())
    }

    /// Shows Pools, sandboxes and Pods.
    ///
    /// # Errors
    /// When kubectl fails.
    pub fn look(&self) -> Result<()> {
        self.shown(&["get", "pools,bsbx,sbx,pods", "--namespace", NAMESPACE])
    }

    /// Ends what a demo that was interrupted left behind: its Pools and the sandboxes of them.
    ///
    /// # Errors
    /// When there are such objects in a cluster that is not this checkout's own.
    pub async fn clear_earlier_run(&self) -> Result<()> {
        let pools = self.pools.list(&ListParams::default()).await.context("look for what an earlier demo left")?;
        let left: Vec<String> =
            pools.items.into_iter().map(|pool| pool.name_any()).filter(|name| POOLS.contains(&name.as_str())).collect();
        if left.is_empty() {
            return Ok(());
        }
        if !self.cluster.is_ours() {
            bail!(
                "the cluster of {} has the Pools {} in namespace {NAMESPACE}, which the demo would apply and delete: \
                 delete them yourself, or unset KUBECONFIG to run it on a cluster of its own",
                self.cluster.kubeconfig.display(),
                left.join(", ")
            );
        }
        say(&format!("   an earlier demo left the Pools {}: they and their sandboxes go first", left.join(", ")));
        for claim in self.claims.list(&ListParams::default()).await? {
            if claim.spec.pool_ref.as_ref().is_some_and(|pool| left.contains(pool)) {
                self.claims.delete(&claim.name_any(), &DeleteParams::default()).await?;
            }
        }
        for pool in &left {
            self.pools.delete(pool, &DeleteParams::default()).await?;
        }
        // No operator runs yet that would end them.
        for pod in self.pods.list(&ListParams::default().labels(sandbox_api::labels::POOL_UID)).await? {
            self.pods.delete(&pod.name_any(), &DeleteParams::default()).await?;
        }
        until_no_pods(self.cluster).await
    }

    /// Waits until both Pools say that they are ready, with no Pod.
    ///
    /// # Errors
    /// When they do not.
    pub async fn until_pools_at_zero(&self) -> Result<()> {
        for pool in POOLS {
            until(&self.pools, pool, "Ready with no Pod", LIMIT, |pool| {
                pool.status.as_ref().is_some_and(|status| {
                    let ready =
                        |it: &sandbox_api::Condition| it.type_.as_str() == "Ready" && it.status.as_str() == "True";
                    status.total == 0 && status.conditions.iter().any(ready)
                })
            })
            .await?;
        }
        Ok(())
    }

    /// The Pod of a sandbox that the server says is running.
    ///
    /// # Errors
    /// When Kubernetes does not say the same.
    pub async fn sandbox(&self, id: &str) -> Result<PodOf> {
        let claim = until(&self.claims, id, "runs", LIMIT, runs).await?;
        let (name, uid) = pods_of(&claim).pop().with_context(|| format!("{id} runs and names no Pod"))?;
        let pod = self.pods.get(&name).await?;
        let ip = pod.status.and_then(|status| status.pod_ip).with_context(|| format!("{name} has no IP"))?;
        say(&format!("   sandbox {id} is Pod {name} with IP {ip}"));
        Ok(PodOf { name, uid })
    }

    /// Fails unless the Pod has this RuntimeClass.
    ///
    /// # Errors
    /// As said.
    pub async fn runtime_class(&self, pod: &PodOf, wanted: &str) -> Result<()> {
        let found = self.pods.get(&pod.name).await?.spec.and_then(|spec| spec.runtime_class_name);
        if found.as_deref() != Some(wanted) {
            bail!("Pod {} runs under {found:?} and not under the RuntimeClass {wanted}", pod.name);
        }
        say(&format!("   Pod {} runs under the RuntimeClass {wanted}", pod.name));
        Ok(())
    }

    /// Waits until a sandbox's object and Pod are gone.
    ///
    /// # Errors
    /// When they stay.
    pub async fn until_gone(&self, id: &str, pod: &PodOf) -> Result<()> {
        if let Some(claim) = self.claims.get_opt(id).await? {
            until_gone(&self.claims, id, &claim.uid().unwrap_or_default(), LIMIT).await?;
        }
        until_gone(&self.pods, &pod.name, &pod.uid, LIMIT).await?;
        say(&format!("   sandbox {id} and Pod {} are gone", pod.name));
        Ok(())
    }
}

/// Waits until no Pod of a Pool is left.
///
/// # Errors
/// When some stay.
pub async fn until_no_pods(cluster: &Cluster) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    until_all(
        &pods,
        sandbox_api::labels::POOL_UID,
        "no Pod of a Pool is left",
        LIMIT,
        std::collections::BTreeMap::is_empty,
    )
    .await?;
    say("   no Pod is left");
    Ok(())
}
