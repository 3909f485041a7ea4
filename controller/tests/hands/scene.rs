//! A namespace of a test's own.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt};
use sandbox_api::{BatchSandbox, Pool};
use sandbox_e2e::objects::{pods_of, runs};
use sandbox_e2e::{Stage, until};
use serde_json::Value;

/// For what takes the operator milliseconds: a busy machine must not fail a
/// test.
pub const SOON: Duration = Duration::from_secs(60);

pub struct Scene {
    pub pools: Api<Pool>,
    pub claims: Api<BatchSandbox>,
    pub pods: Api<Pod>,
}

impl Scene {
    pub async fn set(stage: &Stage, name: &str) -> Result<Self> {
        let namespace = stage.namespace(name).await?;
        let client = stage.admin();
        Ok(Self {
            pools: Api::namespaced(client.clone(), &namespace),
            claims: Api::namespaced(client.clone(), &namespace),
            pods: Api::namespaced(client, &namespace),
        })
    }

    pub async fn pool(&self, pool: &Pool) -> Result<Pool> {
        let made = self.pools.create(&PostParams::default(), pool).await.context("create a Pool")?;
        let wanted = pool.spec.capacity_spec.buffer_min;
        self.until_available(&made.name_any(), wanted).await
    }

    pub async fn until_available(&self, pool: &str, number: i32) -> Result<Pool> {
        let enough = |pool: &Pool| pool.status.as_ref().is_some_and(|status| status.available >= number);
        until(&self.pools, pool, "enough Pods are ready", SOON, enough).await
    }

    /// Makes a claim, waits until it runs; its first Pod's name and uid.
    pub async fn runs(&self, claim: &BatchSandbox) -> Result<(String, String)> {
        self.claims.create(&PostParams::default(), claim).await.context("create a claim")?;
        self.still_runs(&claim.name_any()).await
    }

    pub async fn still_runs(&self, name: &str) -> Result<(String, String)> {
        let claim = until(&self.claims, name, "runs", SOON, runs).await?;
        pods_of(&claim).into_iter().next().context("no Pod is named")
    }

    pub async fn end(&self, name: &str) -> Result<()> {
        self.claims.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    pub async fn pod(&self, name: &str, what: &str, wanted: impl Fn(&Pod) -> bool) -> Result<Pod> {
        until(&self.pods, name, what, SOON, wanted).await
    }
}

/// Merge patch by an administrator.
pub async fn edit<K>(api: &Api<K>, name: &str, patch: Value) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}
