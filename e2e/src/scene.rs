//! A namespace of a test's own, and what tests do in it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use sandbox_api::{BatchSandbox, Pool, PoolStatus, Sandbox, labels};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::objects::{pods_of, runs};
use crate::{Deliveries, Stage, until, until_all};

/// For what takes the operator milliseconds: a busy machine must not fail a test.
pub const SOON: Duration = Duration::from_secs(60);

/// A namespace of a test's own on a stage.
pub struct Scene {
    /// A client that may do everything.
    pub client: Client,
    /// Its name.
    pub namespace: String,
    /// Its Pools.
    pub pools: Api<Pool>,
    /// Its BatchSandboxes.
    pub claims: Api<BatchSandbox>,
    /// Its Sandboxes.
    pub sandboxes: Api<Sandbox>,
    /// Its Pods.
    pub pods: Api<Pod>,
}

impl Scene {
    /// Makes the namespace; its name begins with `name`.
    ///
    /// # Errors
    /// When it cannot be created.
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

    /// A record of what is delivered in it from now on.
    #[must_use]
    pub fn deliveries(&self) -> Deliveries {
        Deliveries::watch(&self.client, &self.namespace)
    }

    /// Creates a Pool and waits until it shows what it keeps.
    ///
    /// # Errors
    /// When it is refused, or not full [`SOON`].
    pub async fn pool(&self, pool: &Pool) -> Result<Pool> {
        let made = self.pools.create(&PostParams::default(), pool).await.context("create a Pool")?;
        let wanted = pool.spec.capacity_spec.buffer_min.max(pool.spec.capacity_spec.pool_min);
        self.until_pool(&made.name_any(), "the buffer is full", |status| status.available >= wanted).await
    }

    /// Waits until `name` shows that at least `number` Pods are ready and free.
    ///
    /// # Errors
    /// When that does not happen [`SOON`].
    pub async fn until_available(&self, name: &str, number: i32) -> Result<Pool> {
        self.until_pool(name, "enough Pods are ready", |status| status.available >= number).await
    }

    /// Waits for a status of a Pool.
    ///
    /// # Errors
    /// When it does not come [`SOON`]; the message says `what`.
    pub async fn until_pool(&self, name: &str, what: &str, wanted: impl Fn(&PoolStatus) -> bool) -> Result<Pool> {
        until(&self.pools, name, what, SOON, |pool: &Pool| pool.status.as_ref().is_some_and(&wanted)).await
    }

    /// Creates a claim.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn claim(&self, claim: &BatchSandbox) -> Result<BatchSandbox> {
        self.claims.create(&PostParams::default(), claim).await.context("create a claim")
    }

    /// Creates claims, all at once.
    ///
    /// # Errors
    /// When one is refused.
    pub async fn claim_all(&self, claims: &[BatchSandbox]) -> Result<Vec<BatchSandbox>> {
        let creates = claims.iter().map(|claim| self.claim(claim));
        stream::iter(creates).buffer_unordered(claims.len().max(1)).try_collect().await
    }

    /// Creates a claim and waits until it runs; its first Pod's name and uid.
    ///
    /// # Errors
    /// When it is refused, or does not run [`SOON`].
    pub async fn runs(&self, claim: &BatchSandbox) -> Result<(String, String)> {
        self.claim(claim).await?;
        self.still_runs(&claim.name_any()).await
    }

    /// Its first Pod's name and uid, once it runs.
    ///
    /// # Errors
    /// When it does not [`SOON`].
    pub async fn still_runs(&self, name: &str) -> Result<(String, String)> {
        pods_of(&self.until_runs(name).await?).into_iter().next().context("no Pod is named")
    }

    /// Waits until a claim runs.
    ///
    /// # Errors
    /// When it does not [`SOON`].
    pub async fn until_runs(&self, name: &str) -> Result<BatchSandbox> {
        until(&self.claims, name, "runs", SOON, runs).await
    }

    /// Deletes a claim.
    ///
    /// # Errors
    /// When that is refused.
    pub async fn end(&self, name: &str) -> Result<()> {
        self.claims.delete(name, &DeleteParams::default()).await.with_context(|| format!("delete {name}"))?;
        Ok(())
    }

    /// Waits for a state of a Pod.
    ///
    /// # Errors
    /// When it does not come [`SOON`]; the message says `what`.
    pub async fn pod(&self, name: &str, what: &str, wanted: impl Fn(&Pod) -> bool) -> Result<Pod> {
        until(&self.pods, name, what, SOON, wanted).await
    }

    /// Pods of a Pool, whoever holds them, once they are as wanted.
    ///
    /// # Errors
    /// When they are not [`SOON`]; the message says `what`.
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

/// Merge patch by an administrator.
///
/// # Errors
/// When it is refused.
pub async fn edit<K>(api: &Api<K>, name: &str, patch: Value) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug,
{
    let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    patched.with_context(|| format!("patch {} {name}", K::kind(&())))?;
    Ok(())
}

/// Whether nobody uses it and nothing ends it.
#[must_use]
pub fn is_warm(pod: &Pod) -> bool {
    pod.labels().get(labels::WARM).is_some_and(|value| value == labels::WARM_TRUE) && !is_ending(pod)
}

/// Whether its deletion has begun.
#[must_use]
pub fn is_ending(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}
