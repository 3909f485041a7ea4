//! What every request works with.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use crate::cluster::Cluster;
use crate::config::Config;
use crate::error::{ApiError, Code};
use crate::leftover::Janitor;
use crate::metrics::Metrics;
use crate::scope::Scope;
use crate::store::{Freshness, Store};
use crate::view::{Kind, View};

/// The parts of a running server.
pub struct App {
    /// The configuration file.
    pub config: Config,
    /// Namespace of all sandboxes.
    pub namespace: String,
    /// The template file, read.
    pub template: Option<Value>,
    /// The watch cache.
    pub store: Arc<Store>,
    /// The API server.
    pub cluster: Cluster,
    /// Cleans up after failed creates.
    pub janitor: Janitor,
    /// Counters.
    pub metrics: Metrics,
    /// Where the server is in its life.
    pub stage: watch::Sender<Stage>,
}

/// Where the server is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It serves.
    Serving,
    /// It takes no new connections and finishes what it has.
    Draining,
    /// What is not finished by now is dropped.
    Cutting,
}

/// As handlers get it.
pub type Shared = Arc<App>;

impl App {
    /// What keeps the server from being ready; empty when nothing does.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let mut missing: Vec<String> =
            self.doubts().into_iter().map(|(kind, doubt)| format!("{} cache {doubt}", kind.as_str())).collect();
        if *self.stage.borrow() > Stage::Serving {
            missing.push("the server is shutting down".to_owned());
        }
        missing
    }

    fn doubts(&self) -> Vec<(Kind, &'static str)> {
        let doubt = |kind| match self.store.feed(kind).freshness() {
            Freshness::Fresh => None,
            Freshness::Unsynced => Some((kind, "is not synced yet")),
            Freshness::Stale => Some((kind, "is stale: its watch is down")),
        };
        [Kind::BatchSandbox, Kind::Sandbox].into_iter().filter_map(doubt).collect()
    }

    /// Returns when requests in flight are to be dropped.
    pub async fn cut(&self) {
        let mut stage = self.stage.subscribe();
        if stage.wait_for(|stage| *stage == Stage::Cutting).await.is_err() {
            // The sender is a field of ours.
            std::future::pending::<()>().await;
        }
    }

    /// Refuses to list from a cache that cannot be believed.
    ///
    /// # Errors
    /// 503 with a time to come back.
    pub fn believe(&self) -> Result<(), ApiError> {
        match self.missing_caches() {
            None => Ok(()),
            Some(why) => Err(ApiError::unavailable(Code::ListUnavailable, why)),
        }
    }

    fn missing_caches(&self) -> Option<String> {
        let doubts = self.doubts();
        let told: Vec<String> =
            doubts.iter().map(|(kind, doubt)| format!("the {} cache {doubt}", kind.as_str())).collect();
        (!told.is_empty()).then(|| told.join("; "))
    }

    /// A sandbox by id. The cache answers when it can be believed; a miss, or a doubt, is settled
    /// by a live read.
    ///
    /// # Errors
    /// 404 when there is none for this caller, 503 when nobody can tell.
    pub async fn find(&self, scope: &Scope, id: &str) -> Result<Arc<View>, ApiError> {
        if self.doubts().is_empty()
            && let Some(view) = self.store.find(scope, id)
        {
            return Ok(view);
        }
        self.find_live(scope, id).await
    }

    /// A sandbox by id, as the API server has it now.
    ///
    /// # Errors
    /// 404 when there is none for this caller, 503 when the API server cannot tell.
    pub async fn find_live(&self, scope: &Scope, id: &str) -> Result<Arc<View>, ApiError> {
        match self.cluster.find_live(scope, id).await {
            Ok(Some(view)) => Ok(view),
            Ok(None) => Err(ApiError::no_sandbox(id)),
            Err(failure) => {
                tracing::error!(id, error = %failure, "live read");
                Err(ApiError::unavailable(
                    Code::ApiError,
                    format!("sandbox {id} cannot be read: the cluster does not answer"),
                ))
            }
        }
    }
}
