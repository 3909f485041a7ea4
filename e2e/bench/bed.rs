//! What a case runs on: a control plane with etcd on disk, the operator, and clients as a real one has them.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use sandbox_api::{BatchSandbox, CapacitySpec, Pool, PoolStatus};
use sandbox_cluster::{Plane, PlaneOptions, Storage, kubeconfig};
use sandbox_e2e::{Stage, StageOptions, accounts, manifests, objects, until, until_all};
use serde_json::{Value, json};

use crate::cost::{OPERATOR_FLOWS, Snapshot};
use crate::probe::{self, Probe};

/// For what is not measured but must come: a machine with other work on it takes its time.
pub const LIMIT: Duration = Duration::from_secs(900);
/// How long nothing is written at rest, and how often that is looked at.
const REST: Duration = Duration::from_secs(3);
const RESTLESS: u32 = 10;
/// The Pool that cases measure.
pub const POOL: &str = "p";
/// Whose account the measuring client has, and the probe's. Not an administrator's: those are never queued.
const DRIVER: &str = "bench-driver";
const PROBE: &str = "bench-probe";

/// A control plane, the operator at work on it, a namespace and the probe.
pub struct Bed {
    stage: Stage,
    pub pools: Api<Pool>,
    pub claims: Api<BatchSandbox>,
    pub pods: Api<Pod>,
    pub probe: Probe,
}

impl Bed {
    /// Makes one.
    ///
    /// # Errors
    /// When a part does not start; the message says which and why.
    pub async fn make(name: &str) -> Result<Self> {
        let definition = probe::definition()?;
        let plane = PlaneOptions { storage: Storage::Disk, definitions: vec![definition], ..PlaneOptions::default() };
        // The operator comes later: its requests are to be told apart from the first on.
        let options = StageOptions { plane, operator: false, ..StageOptions::named(name) };
        let stage = Stage::start(options).await?;
        manifests::apply(&stage.admin(), &accounts_and_flows()?).await?;
        stage.start_operator().await?;
        let namespace = stage.namespace("bench").await?;
        let driver = client(stage.plane(), DRIVER).await?;
        let probe = Probe::start(&driver, client(stage.plane(), PROBE).await?, &namespace).await?;
        Ok(Self {
            pools: Api::namespaced(driver.clone(), &namespace),
            claims: Api::namespaced(driver.clone(), &namespace),
            pods: Api::namespaced(driver.clone(), &namespace),
            probe,
            stage,
        })
    }

    /// Creates the Pool, of Pods that are bound from the start, and waits until its buffer is full.
    ///
    /// # Errors
    /// When that does not happen.
    pub async fn pool(&self, buffer: i32, most: i32) -> Result<()> {
        self.create_pool(buffer, most).await?;
        self.until_pool("the buffer is full", move |status| status.available >= buffer).await
    }

    /// Creates the Pool and waits for nothing.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn create_pool(&self, buffer: i32, most: i32) -> Result<()> {
        let sizes = CapacitySpec { buffer_min: buffer, buffer_max: buffer, pool_min: 0, pool_max: most };
        let mut pool = objects::pool(POOL, sizes);
        if let Some(template) = &mut pool.spec.template {
            template["spec"]["nodeName"] = json!("stand-in-0");
        }
        self.pools.create(&PostParams::default(), &pool).await.context("create the Pool")?;
        Ok(())
    }

    /// Changes the Pool's buffer.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn resize(&self, buffer: i32) -> Result<()> {
        let patch = json!({ "spec": { "capacitySpec": { "bufferMin": buffer, "bufferMax": buffer } } });
        self.pools.patch(POOL, &PatchParams::default(), &Patch::Merge(patch)).await.context("resize the Pool")?;
        Ok(())
    }

    /// Waits for a state of the Pool.
    ///
    /// # Errors
    /// When it does not come.
    pub async fn until_pool(&self, what: &str, wanted: impl Fn(&PoolStatus) -> bool) -> Result<()> {
        let reached = until(&self.pools, POOL, what, LIMIT, |pool: &Pool| pool.status.as_ref().is_some_and(&wanted));
        let outcome = reached.await;
        self.stage.check().await?;
        outcome.map(drop)
    }

    /// Waits until nothing is left to do: so many Pods are held, so many are free, and the ledger is empty.
    ///
    /// # Errors
    /// When that does not come.
    pub async fn quiet(&self, held: usize, free: i32) -> Result<()> {
        let held = i32::try_from(held)?;
        self.until_pool("settled", |status| {
            status.grants.is_empty()
                && status.retiring.is_empty()
                && status.allocated == held
                && status.available == free
        })
        .await
    }

    /// Waits until nothing at all is written for claims any more, and returns the counters of that moment. The operator
    /// settles its ledger after a second without work.
    ///
    /// # Errors
    /// When it never comes to rest.
    pub async fn rest(&self) -> Result<Snapshot> {
        let mut earlier = self.snapshot().await?;
        for _ in 0..RESTLESS {
            tokio::time::sleep(REST).await;
            let later = self.snapshot().await?;
            if earlier.until(&later).writes() == 0 {
                return Ok(later);
            }
            earlier = later;
        }
        bail!("the operator goes on writing though nothing happens")
    }

    /// A claim of the Pool.
    pub fn claim(&self, name: &str, replicas: i32) -> BatchSandbox {
        let mut claim = objects::claim(name, POOL);
        claim.spec.replicas = replicas;
        claim
    }

    /// Ends a claim.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn end(&self, name: &str) -> Result<()> {
        self.ending(name.to_owned()).await
    }

    /// The end of a claim, to be awaited elsewhere.
    pub fn ending(&self, name: String) -> impl Future<Output = Result<()>> + Send + use<> {
        let claims = self.claims.clone();
        async move {
            claims.delete(&name, &DeleteParams::default()).await.with_context(|| format!("delete {name}"))?;
            Ok(())
        }
    }

    /// Waits until so many Pods are there, ending ones included.
    ///
    /// # Errors
    /// When that does not come.
    pub async fn until_pods(&self, count: usize) -> Result<()> {
        until_all(&self.pods, "", &format!("{count} Pods"), LIMIT, |pods| pods.len() == count).await?;
        Ok(())
    }

    /// What was asked of the API server so far, and what the operator used.
    ///
    /// # Errors
    /// When somebody does not answer.
    pub async fn snapshot(&self) -> Result<Snapshot> {
        let operator = self.stage.operator().lock().await;
        let operator = operator.as_ref().context("the operator was not started")?;
        Snapshot::read(&self.stage.plane().metrics().await?, &operator.metrics().await?, operator.pid()?)
    }

    /// The operator's process.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn operator_pid(&self) -> Result<i32> {
        self.stage.check().await?;
        self.stage.operator().lock().await.as_ref().context("the operator was not started")?.pid()
    }
}

async fn client(plane: &Plane, account: &str) -> Result<Client> {
    let path = plane.dir().join(format!("{account}.kubeconfig"));
    accounts::kubeconfig(&plane.admin(), &plane.kubeconfig(), account, &path).await?;
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    kubeconfig::client(&text).await
}

/// The bench's accounts, and a flow schema that differs from the one for all accounts in nothing but its name: the
/// API server counts by it.
fn accounts_and_flows() -> Result<Vec<DynamicObject>> {
    let account = |name: &str| json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name, "namespace": accounts::SYSTEM } });
    let subject = |name: &str| json!({ "kind": "ServiceAccount", "name": name, "namespace": accounts::SYSTEM });
    let may_all = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "bench" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [subject(DRIVER), subject(PROBE)],
    });
    let flows = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": { "name": OPERATOR_FLOWS },
        "spec": {
            "matchingPrecedence": 8999,
            "priorityLevelConfiguration": { "name": "workload-low" },
            "distinguisherMethod": { "type": "ByUser" },
            "rules": [{
                "subjects": [{
                    "kind": "ServiceAccount",
                    "serviceAccount": { "name": accounts::OPERATOR, "namespace": accounts::SYSTEM },
                }],
                "resourceRules": [{
                    "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"],
                }],
                "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
            }],
        },
    });
    let read = |object: Value| serde_json::from_value::<DynamicObject>(object).context("describe the bench's rights");
    [account(DRIVER), account(PROBE), may_all, flows].into_iter().map(read).collect()
}

/// The name of the nth object with this prefix.
pub fn named(prefix: &str, number: usize) -> String {
    format!("{prefix}-{number}")
}

/// Whether a claim's Pods are all there; by the name that cases know.
pub fn is_up(claim: &BatchSandbox) -> bool {
    !claim.name_any().is_empty() && objects::runs(claim)
}
