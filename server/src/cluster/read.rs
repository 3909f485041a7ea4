//! Live reads: what the cache cannot answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::join_all;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::core::PartialObjectMeta;
use kube::{Api, Resource};
use sandbox_api::{BatchSandbox, Pool, Sandbox};

use super::{Cluster, Failure, call};
use crate::scope::Scope;
use crate::store::Watched;
use crate::view::{Kind, View};

/// How long a Pool that was seen counts as there; a create on one that is gone since is refused by
/// the operator's own condition.
const POOL_SEEN: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct PoolMemory {
    seen: Mutex<HashMap<(String, String), Instant>>,
}

/// Whether a Pool is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolCheck {
    /// It is.
    There,
    /// It is not, or it is being deleted.
    Missing,
}

impl Cluster {
    /// One object, read from the API server itself.
    ///
    /// # Errors
    /// When the API server does not answer; a missing object (or kind) is `None`.
    pub async fn live(&self, kind: Kind, namespace: &str, name: &str) -> Result<Option<View>, Failure> {
        match kind {
            Kind::BatchSandbox => self.live_one::<BatchSandbox>(namespace, name).await,
            Kind::Sandbox => self.live_one::<Sandbox>(namespace, name).await,
        }
    }

    async fn live_one<K>(&self, namespace: &str, name: &str) -> Result<Option<View>, Failure>
    where
        K: Watched + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let api: Api<K> = self.api(namespace);
        match call("read sandbox", api.get_opt(name)).await {
            Ok(found) => {
                let view = found.map(|object| object.view());
                if let Some(view) = &view {
                    self.store.take(view.clone());
                }
                Ok(view)
            }
            Err(failure) if failure.code() == Some(404) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// A sandbox by id, from the API server itself, within what the caller may see.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn find_live(&self, scope: &Scope, id: &str) -> Result<Option<Arc<View>>, Failure> {
        let names = View::names(id);
        let reads = names.iter().map(|(kind, name)| self.live(*kind, scope.namespace(), name));
        let mut failed = None;
        for read in join_all(reads).await {
            match read {
                Ok(Some(view)) if view.id == id && scope.sees(&view) => return Ok(Some(Arc::new(view))),
                Ok(Some(_) | None) => {}
                Err(failure) => failed = Some(failure),
            }
        }
        failed.map_or(Ok(None), Err)
    }

    /// Whether a Pool is there to take Pods from.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn pool(&self, namespace: &str, name: &str) -> Result<PoolCheck, Failure> {
        let key = (namespace.to_owned(), name.to_owned());
        {
            let seen = self.pools.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if seen.get(&key).is_some_and(|at| at.elapsed() < POOL_SEEN) {
                return Ok(PoolCheck::There);
            }
        }
        let api: Api<PartialObjectMeta<Pool>> = Api::namespaced(self.client(), namespace);
        let found = call("read pool", api.get_opt(name)).await?;
        let there = found.is_some_and(|pool| pool.metadata.deletion_timestamp.is_none());
        let mut seen = self.pools.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if there {
            seen.insert(key, Instant::now());
            return Ok(PoolCheck::There);
        }
        seen.remove(&key);
        Ok(PoolCheck::Missing)
    }

    /// A claim on storage; `None` when it is missing.
    ///
    /// # Errors
    /// When the API server refuses or does not answer.
    pub async fn claim(&self, namespace: &str, name: &str) -> Result<Option<PersistentVolumeClaim>, Failure> {
        let api: Api<PersistentVolumeClaim> = self.api(namespace);
        call("read persistentvolumeclaim", api.get_opt(name)).await
    }

    /// Whether the cluster has a RuntimeClass.
    ///
    /// # Errors
    /// When the API server refuses or does not answer.
    pub async fn has_runtime_class(&self, name: &str) -> Result<bool, Failure> {
        let api: Api<PartialObjectMeta<RuntimeClass>> = Api::all(self.client());
        Ok(call("read runtimeclass", api.get_opt(name)).await?.is_some())
    }
}
