//! Every write of this server: custom resources, pull Secrets, PVCs. Never a Pod.
#![expect(clippy::disallowed_methods, reason = "the one file of this crate that writes")]

use http::Request as HttpRequest;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use kube::{Api, Resource};
use sandbox_api::{BatchSandbox, Sandbox};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Cluster, Failure, MANAGER, call};
use crate::store::{Key, Watched};
use crate::view::{Kind, View};

/// What came of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone, or on its way.
    Done,
    /// No object of that uid was there.
    Missing,
}

impl Cluster {
    /// Writes a new sandbox object. It goes over the wire exactly as it was planned.
    ///
    /// # Errors
    /// [`Failure::refused`] says whether it is certain that nothing was written.
    pub async fn create(&self, kind: Kind, namespace: &str, manifest: &Value) -> Result<View, Failure> {
        match kind {
            Kind::BatchSandbox => self.create_one::<BatchSandbox>(namespace, manifest).await,
            Kind::Sandbox => self.create_one::<Sandbox>(namespace, manifest).await,
        }
    }

    async fn create_one<K>(&self, namespace: &str, manifest: &Value) -> Result<View, Failure>
    where
        K: Watched + Resource<DynamicType = ()>,
    {
        let object: K = self.post("create sandbox", &K::url_path(&(), Some(namespace)), manifest).await?;
        let view = object.view();
        self.store.take(view.clone());
        Ok(view)
    }

    async fn post<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        url: &str,
        manifest: &Value,
    ) -> Result<T, Failure> {
        let body = serde_json::to_vec(manifest).map_err(|source| Failure::Encode { operation, source })?;
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let request: HttpRequest<Vec<u8>> = Request::new(url.to_owned())
            .create(&params, body)
            .map_err(|source| Failure::Call { operation, source: Box::new(kube::Error::BuildRequest(source)) })?;
        call(operation, self.client.request::<T>(request)).await
    }

    /// Changes a part of a sandbox, only if it still is the version that the caller looked at.
    ///
    /// # Errors
    /// 409 when it moved; see [`Failure::code`].
    pub async fn patch(&self, seen: &View, change: Value) -> Result<View, Failure> {
        let mut change = change;
        change["metadata"]["uid"] = json!(seen.uid);
        change["metadata"]["resourceVersion"] = json!(seen.resource_version);
        match seen.kind {
            Kind::BatchSandbox => self.patch_one::<BatchSandbox>(seen, &change).await,
            Kind::Sandbox => self.patch_one::<Sandbox>(seen, &change).await,
        }
    }

    async fn patch_one<K>(&self, seen: &View, change: &Value) -> Result<View, Failure>
    where
        K: Watched + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let api: Api<K> = self.api(&seen.namespace);
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let object = call("patch sandbox", api.patch(&seen.name, &params, &Patch::Merge(change))).await?;
        let view = object.view();
        self.store.take(view.clone());
        Ok(view)
    }

    /// Deletes the sandbox of this uid. Without a uid the name alone must say which one is meant:
    /// that is only so for a name that this server has just made up.
    ///
    /// # Errors
    /// When the API server refuses or does not answer.
    pub async fn delete(&self, key: &Key, uid: Option<&str>) -> Result<Deleted, Failure> {
        match key.kind {
            Kind::BatchSandbox => self.delete_one::<BatchSandbox>(key, uid).await,
            Kind::Sandbox => self.delete_one::<Sandbox>(key, uid).await,
        }
    }

    async fn delete_one<K>(&self, key: &Key, uid: Option<&str>) -> Result<Deleted, Failure>
    where
        K: Watched + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let api: Api<K> = self.api(&key.namespace);
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: uid.map(|uid| Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
            ..DeleteParams::background()
        };
        match call("delete sandbox", api.delete(&key.name, &params)).await {
            Ok(answer) => {
                // An object in the answer still waits for a finalizer; a status says that it is gone.
                match (answer.left(), uid) {
                    (Some(object), _) => {
                        let view = object.view();
                        if view.ending() { self.store.take(view) } else { self.store.bury(key, &view.uid) }
                    }
                    (None, Some(uid)) => self.store.bury(key, uid),
                    (None, None) => {}
                }
                Ok(Deleted::Done)
            }
            Err(failure) if matches!(failure.code(), Some(404 | 409)) => {
                if let Some(uid) = uid {
                    self.store.bury(key, uid);
                }
                Ok(Deleted::Missing)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Writes a Secret.
    ///
    /// # Errors
    /// When the API server refuses or does not answer.
    pub async fn create_secret(&self, namespace: &str, manifest: &Value) -> Result<(), Failure> {
        let url = Secret::url_path(&(), Some(namespace));
        // The answer is not read: the credentials need not be in memory twice.
        self.post::<Value>("create secret", &url, manifest).await.map(drop)
    }

    /// Writes a claim on storage.
    ///
    /// # Errors
    /// When the API server refuses or does not answer.
    pub async fn create_claim(&self, namespace: &str, manifest: &Value) -> Result<(), Failure> {
        let url = PersistentVolumeClaim::url_path(&(), Some(namespace));
        self.post::<Value>("create persistentvolumeclaim", &url, manifest).await.map(drop)
    }

    /// Makes a claim on storage end with its sandbox.
    ///
    /// # Errors
    /// When the API server refuses or does not answer.
    pub async fn own_claim(&self, namespace: &str, name: &str, owner: &Value) -> Result<(), Failure> {
        let api: Api<PersistentVolumeClaim> = self.api(namespace);
        let change = json!({"metadata": {"ownerReferences": [owner]}});
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        call("own persistentvolumeclaim", api.patch(name, &params, &Patch::Strategic(&change))).await.map(drop)
    }

    /// Deletes a claim on storage that this server made.
    ///
    /// # Errors
    /// When the API server refuses or does not answer.
    pub async fn delete_claim(&self, namespace: &str, name: &str) -> Result<(), Failure> {
        let api: Api<PersistentVolumeClaim> = self.api(namespace);
        match call("delete persistentvolumeclaim", api.delete(name, &DeleteParams::default())).await {
            Ok(_) => Ok(()),
            Err(failure) if failure.code() == Some(404) => Ok(()),
            Err(failure) => Err(failure),
        }
    }
}
