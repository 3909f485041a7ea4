//! The only room that talks to the API server: [`read`](Cluster::live) here, writes in `write`.
//!
//! Every call has a time limit, and every answer that carries a sandbox goes into the store before
//! the caller sees it.

mod read;
mod write;

use std::fmt::Debug;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use kube::{Api, Client, Config as ClientConfig, Resource};
use serde::de::DeserializeOwned;

use crate::config::Kubernetes;
use crate::error::{ApiError, Code};
use crate::store::Store;

pub use read::PoolCheck;
pub use write::Deleted;

/// The longest time one call may take.
const CALL: Duration = Duration::from_secs(10);
/// Field manager of our writes.
const MANAGER: &str = "opensandbox-server";

/// Why a call gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The API server refused it, or could not be reached.
    #[error("{operation}: {source}")]
    Call {
        /// What was tried.
        operation: &'static str,
        /// What came of it.
        source: Box<kube::Error>,
    },
    /// Nobody knows what came of it.
    #[error("{operation}: no answer within {CALL:?}")]
    Timeout {
        /// What was tried.
        operation: &'static str,
    },
    /// The object cannot be written down as JSON.
    #[error("{operation}: {source}")]
    Encode {
        /// What was tried.
        operation: &'static str,
        /// Why not.
        source: serde_json::Error,
    },
}

impl Failure {
    fn answer(&self) -> Option<&Status> {
        match self {
            Self::Call { source, .. } => {
                if let kube::Error::Api(status) = source.as_ref() {
                    return Some(status);
                }
                None
            }
            Self::Timeout { .. } | Self::Encode { .. } => None,
        }
    }

    /// HTTP code of the API server's answer, if it answered.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        self.answer().map(|status| status.code)
    }

    /// Whether a write was refused for certain, so that nothing was written.
    #[must_use]
    pub fn refused(&self) -> bool {
        self.code().is_some_and(|code| (400..500).contains(&code) && code != 408)
    }

    /// Whether a ResourceQuota stands in the way.
    #[must_use]
    pub fn over_quota(&self) -> bool {
        self.answer().is_some_and(|status| status.code == 403 && status.message.contains("exceeded quota"))
    }

    /// What a caller is told when there is no better word. The details are logged, not told.
    #[must_use]
    pub fn told(&self, id: &str) -> ApiError {
        tracing::error!(id, error = %self, "call to the API server");
        let message = format!("the cluster did not do what sandbox {id} needs; the server's log says why");
        ApiError::new(http::StatusCode::INTERNAL_SERVER_ERROR, Code::ApiError, message)
    }
}

/// The API server, and the store that its answers go into.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    store: Arc<Store>,
    pools: Arc<read::PoolMemory>,
}

impl Cluster {
    /// On a client.
    #[must_use]
    pub fn new(client: Client, store: Arc<Store>) -> Self {
        Self { client, store, pools: Arc::default() }
    }

    /// The client, for watches.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        Api::namespaced(self.client.clone(), namespace)
    }
}

/// Connects as the configuration says: `kubeconfig` (a flag) before the file's path before what
/// kubectl would use, and in-cluster last.
///
/// # Errors
/// When no usable configuration is found.
pub async fn connect(kubernetes: &Kubernetes, kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let named = kubeconfig.or(kubernetes.kubeconfig_path.as_deref());
    let mut config = match named {
        Some(path) => {
            let file = Kubeconfig::read_from(path)?;
            ClientConfig::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?
        }
        None => ClientConfig::infer().await?,
    };
    config.connect_timeout = Some(Duration::from_secs(5));
    // A retried POST would make a second object; we retry where it is safe.
    config.default_retry = false;
    config.accept_invalid_certs |= kubernetes.insecure_skip_tls_verify;
    Ok(Client::try_from(config)?)
}

async fn call<T>(operation: &'static str, future: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Failure> {
    match tokio::time::timeout(CALL, future).await {
        Ok(Ok(out)) => Ok(out),
        Ok(Err(source)) => Err(Failure::Call { operation, source: Box::new(source) }),
        Err(_) => Err(Failure::Timeout { operation }),
    }
}
