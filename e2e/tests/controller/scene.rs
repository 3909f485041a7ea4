//! A namespace of a test's own, and what tests do in it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use sandbox_api::{BatchSandbox, Pool, PoolStatus, Sandbox, labels};
use sandbox_e2e::objects::runs;
use sandbox_e2e::{Deliveries, Stage, until, until_all};
use serde_json::Value;

/// For what takes the operator milliseconds: a busy machine must not fail a test.
pub const SOON: Duration = Duration::from_secs(60);

pub struct Scene {
    pub client: Client,
    pub namespace: String,
    pub pools: Api<Pool>,
    pub claims: Api<BatchSandbox>,
    pub sandboxes: Api<Sandbox>,
    pub pods: Api<Pod>,
}

impl Scene {
    pub async fn set(stage: &Stage, name: &str) -> Result<Self> {
        let namespace = stage.namespace(name).await?;
        let client = stage.admin();
        Ok(Self {
            pools: Api::namespaced(client.clone(), &namespace),
            claims: Api::namespaced(client.clone(), &namespace),
            sandboxes: Api::namespaced(client.clone(), &namespace),
            pods: Api::namespaced(client.clone(), &namespace),
            client,
            namespace,
        })
    }

    pub fn deliveries(&self) -> Deliveries {
        Deliveries::watch(&self.client, &self.namespace)
    }

    /// Creates a Pool and waits until it shows what it keeps.
    pub async fn pool(&self, pool: &Pool) -> Result<Pool> {
        let made = self.pools.create(&PostParams::default(), pool).await.context("create a Pool")?;
        let wanted = pool.spec.capacity_spec.buffer_min.max(pool.spec.capacity_spec.pool_min);
        self.until_pool(&made.name_any(), "the buffer is full", |status| status.available >= wanted).await
    }

    pub async fn until_pool(&self, name: &str, what: &str, wanted: impl Fn(&PoolStatus) -> bool) -> Result<Pool> {
        until(&self.pools, name, what, SOON, |pool: &Pool| pool.status.as_ref().is_some_and(&wanted)).await
    }

    pub async fn claim(&self, claim: &BatchSandbox) -> Result<BatchSandbox> {
        self.claims.create(&PostParams::default(), claim).await.context("create a claim")
    }

    /// Creates claims, all at once.
    pub async fn claim_all(&self, claims: &[BatchSandbox]) -> Result<Vec<BatchSandbox>> {
        let creates = claims.iter().map(|claim| self.claim(claim));
        stream::iter(creates).buffer_unordered(claims.len().max(1)).try_collect().await
    }

    pub async fn until_runs(&self, name: &str) -> Result<BatchSandbox> {
        until(&self.claims, name, "runs", SOON, runs).await
    }

    pub async fn end(&self, name: &str) -> Result<()> {
        self.claims.delete(name, &DeleteParams::default()).await.with_context(|| format!("delete {name}"))?;
        Ok(())
    }

    pub async fn patch_pool(&self, name: &str, patch: &Value) -> Result<()> {
        self.pools
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .with_context(|| format!("patch Pool {name}"))?;
        Ok(())
    }

    /// Pods of a Pool, whoever holds them.
    pub async fn until_pods(
        &self,
        pool: &Pool,
        what: &str,
        wanted: impl Fn(&BTreeMap<String, Pod>) -> bool,
    ) -> Result<BTreeMap<String, Pod>> {
        let labels = format!("{}={}", labels::POOL_UID, pool.uid().unwrap_or_default());
        until_all(&self.pods, &labels, what, SOON, wanted).await
    }
}

/// Whether nobody uses it and nothing ends it.
pub fn is_warm(pod: &Pod) -> bool {
    pod.labels().get(labels::WARM).is_some_and(|value| value == labels::WARM_TRUE) && !is_ending(pod)
}

pub fn is_ending(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}
