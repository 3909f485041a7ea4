//! The two-write probe: the least that a claim could cost anybody.
//!
//! A client POSTs an object; another sees it on a watch and patches its status once; the first sees that on a watch.
//! The object is a BatchSandbox in all but its group, so decoding, validation and size are those of a claim.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::StreamExt;
use kube::api::{Api, ApiResource, Object, Patch, PatchParams, PostParams};
use kube::core::gvk::GroupVersionKind;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, ResourceExt};
use sandbox_api::{BatchSandboxPhase, BatchSandboxSpec, BatchSandboxStatus, SandboxSlot};
use sandbox_cluster::home;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::report;
use crate::sights::{Seen, Sights};

const GROUP: &str = "bench.opensandbox.io";
const PLURAL: &str = "probes";

type Probed = Object<BatchSandboxSpec, BatchSandboxStatus>;

/// Writes the probe's definition, made of the one of BatchSandboxes, and returns where it is.
///
/// # Errors
/// When the definition cannot be read or written.
pub fn definition() -> Result<PathBuf> {
    let from = home::checkout().join("config/crd/batchsandboxes.yaml");
    let text = fs::read_to_string(&from).with_context(|| format!("read {}", from.display()))?;
    let mut definition: Value = serde_saphyr::from_str(&text).with_context(|| format!("read {}", from.display()))?;
    definition["metadata"]["name"] = json!(format!("{PLURAL}.{GROUP}"));
    definition["spec"]["group"] = json!(GROUP);
    definition["spec"]["names"] = json!({ "kind": "Probe", "plural": PLURAL, "singular": "probe" });
    let to = report::directory()?.join("probe-definition.yaml");
    fs::write(&to, serde_saphyr::to_string(&definition)?).with_context(|| format!("write {}", to.display()))?;
    Ok(to)
}

/// The probe at work.
pub struct Probe {
    api: Api<Probed>,
    resource: ApiResource,
    sights: Sights,
    echo: JoinHandle<()>,
}

impl Probe {
    /// Begins to watch with both clients.
    ///
    /// # Errors
    /// When the objects cannot be watched.
    pub async fn start(driver: &Client, other: Client, namespace: &str) -> Result<Self> {
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, "v1alpha1", "Probe"), PLURAL);
        let api: Api<Probed> = Api::namespaced_with(driver.clone(), namespace, &resource);
        let echo = tokio::spawn(echo(Api::namespaced_with(other, namespace, &resource)));
        let sights = Sights::of(api.clone(), |seen: Seen<'_, Probed>| match seen {
            Seen::There(object) => object.status.as_ref().is_some_and(|status| status.phase.is_some()),
            Seen::Gone(_) => false,
        })
        .await?;
        Ok(Self { api, resource, sights, echo })
    }

    /// POSTs one whose status will name so many Pods; the future is the POST alone.
    pub fn post(&self, name: String, pods: i32) -> impl Future<Output = Result<()>> + Send + use<> {
        let spec = BatchSandboxSpec { pool_ref: Some("p".into()), replicas: pods, ..BatchSandboxSpec::default() };
        let object = Probed::new(&name, &self.resource, spec);
        let api = self.api.clone();
        async move {
            api.create(&PostParams::default(), &object).await.with_context(|| format!("create the probe {name}"))?;
            Ok(())
        }
    }

    /// When its second write was seen.
    ///
    /// # Errors
    /// When it is not, for a minute.
    pub async fn seen(&mut self, name: &str) -> Result<Instant> {
        self.sights.of_name(name, Duration::from_secs(60)).await
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.echo.abort();
    }
}

async fn echo(api: Api<Probed>) {
    let mut done = HashSet::new();
    let mut events = pin!(watcher(api.clone(), watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        // The watcher lists anew after an error.
        let Ok(Event::Apply(object) | Event::InitApply(object)) = event else { continue };
        if object.status.is_some() || !done.insert(object.uid()) {
            continue;
        }
        let api = api.clone();
        tokio::spawn(async move {
            let patch = Patch::Merge(json!({ "status": answer(&object) }));
            if let Err(error) = api.patch_status(&object.name_any(), &PatchParams::default(), &patch).await {
                sandbox_e2e::figure!("the probe {} was not answered: {error}", object.name_any());
            }
        });
    }
}

/// A status of the size that a delivery has.
fn answer(object: &Probed) -> BatchSandboxStatus {
    let pods = object.spec.replicas;
    let slot = |index: i32| SandboxSlot::Named {
        name: format!("pool-p-{index:05}-abcde"),
        uid: format!("00000000-0000-4000-8000-{index:012}"),
        ip: Some(format!("198.18.{}.{}", index / 256, index % 256)),
        ready: true,
    };
    BatchSandboxStatus {
        observed_generation: 1,
        replicas: pods,
        allocated: pods,
        ready: pods,
        phase: Some(BatchSandboxPhase::Succeed),
        pods: (0..pods).map(slot).collect(),
        ..BatchSandboxStatus::default()
    }
}
