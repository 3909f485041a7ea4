//! Scenarios on a whole node: the real kubelet, containerd, registry, and the unmodified Python SDK. `make e2e` brings the
//! node up and pushes the images first.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use sandbox_api::{BatchSandbox, Pool, labels};
use sandbox_e2e::sdk::{Sdk, run};
use sandbox_e2e::site::{self, API_KEY, Cluster, IMAGE, NAMESPACE, Site};
use sandbox_e2e::{figure, manifests, until, until_all};

const LIMIT: Duration = Duration::from_secs(120);

/// Operator and server for one scenario; the scenarios run one after the other, the node has two cores.
async fn on_node(name: &str, test: impl AsyncFnOnce(&Cluster, &Site) -> Result<()>) -> Result<()> {
    let cluster = Cluster::in_use().await.context("no node is up: run these by `make e2e`")?;
    site::install(&cluster, cluster.has_kinds().await?).await?;
    let mut site = Site::start(&cluster, &format!("node-{name}")).await?;
    let outcome = test(&cluster, &site).await;
    site.operator.program().check()?;
    site.server.program().check()?;
    let logs = site.logs.display().to_string();
    site.stop();
    outcome.with_context(|| format!("the logs of our programs are in {logs}"))
}

async fn seed_pools(cluster: &Cluster) -> Result<()> {
    let file = sandbox_cluster::home::checkout().join("e2e/seeds/pools.yaml");
    manifests::apply(&cluster.client, &manifests::read_file(&file)?).await?;
    let pools: Api<Pool> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let seen = |pool: &Pool| {
        pool.status.as_ref().is_some_and(|status| Some(status.observed_generation) == pool.metadata.generation)
    };
    for name in ["ci-pod", "ci-vm"] {
        until(&pools, name, "seen by the operator", LIMIT, seen).await?;
    }
    Ok(())
}

async fn life(cluster: &Cluster, site: &Site, from: &[&str]) -> Result<()> {
    let mut script = Sdk::install()?.script("life.py", &site.server.address(), API_KEY);
    let text = String::from_utf8(run(script.args(from))?.stdout)?;
    figure!("Python SDK, {from:?}:\n{text}");
    nothing_left(cluster).await
}

/// The SDK's kill took the object, and the object its Pod.
async fn nothing_left(cluster: &Cluster) -> Result<()> {
    let claims: Api<BatchSandbox> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    until_all(&claims, "", "no sandbox is left", LIMIT, BTreeMap::is_empty).await?;
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    until_all(&pods, labels::CLAIM_UID, "no Pod of a sandbox is left", LIMIT, BTreeMap::is_empty).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sdk_python_lives_a_whole_life_from_an_image() -> Result<()> {
    on_node("image", async |cluster, site| life(cluster, site, &[IMAGE]).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn sdk_python_lives_a_whole_life_from_a_pool() -> Result<()> {
    on_node("pool", async |cluster, site| {
        seed_pools(cluster).await?;
        life(cluster, site, &[IMAGE, "ci-pod"]).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn sdk_python_lives_a_whole_life_under_a_runtime_class() -> Result<()> {
    on_node("vm", async |cluster, site| {
        seed_pools(cluster).await?;
        life(cluster, site, &[IMAGE, "ci-vm"]).await
    })
    .await
}
