//! The kinds that are kept, each cut down on arrival to what plans read.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus};
use kube::Resource;
use kube::api::ObjectMeta;
use sandbox_api::ledger::ClaimKind;
use sandbox_api::{BatchSandbox, Pool, Sandbox};
use sandbox_core::claim::{Claim, Report, Source};
use sandbox_core::pod::Pod;
use sandbox_core::pool::roster::is_open;
use sandbox_core::{batch_sandbox, sandbox};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::Kept;

/// What our labels have in common; a template's own are read by no plan.
const LABELS: &str = "opensandbox.io/";
/// The conditions of a Pod that plans read.
const READ: [&str; 3] = ["Ready", "PodScheduled", "DisruptionTarget"];

/// A Pod as plans read it.
#[derive(Clone, Debug)]
pub struct PodRecord(pub Arc<Pod>);

impl<'de> Deserialize<'de> for PodRecord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut pod = Pod::deserialize(deserializer)?;
        trim(&mut pod.metadata);
        if let Some(labels) = &mut pod.metadata.labels {
            labels.retain(|key, _| key.contains(LABELS));
        }
        pod.status.conditions.retain(|condition| READ.contains(&&*condition.type_));
        pod.status.conditions.shrink_to_fit();
        Ok(Self(Arc::new(pod)))
    }
}

/// Drops what no plan reads and what is most of an object's metadata.
fn trim(metadata: &mut ObjectMeta) {
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.retain(|key, _| key.contains(sandbox_api::GROUP));
    }
}

impl Resource for PodRecord {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Pod".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "pods".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.0.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut Arc::make_mut(&mut self.0).metadata
    }
}

/// How Pods are found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PodIndex {
    /// By the Pool uid on their label.
    Pool(String),
    /// By the claim uid on their label, or of their owner.
    Claim(String),
}

impl Kept for PodRecord {
    type Index = PodIndex;

    fn indexes(&self) -> Vec<PodIndex> {
        let pool = self.0.label(sandbox_api::labels::POOL_UID).map(|uid| PodIndex::Pool(uid.to_owned()));
        let claim = self.0.held_by().map(|(claim, _)| PodIndex::Claim(claim.uid.to_string()));
        pool.into_iter().chain(claim).collect()
    }
}

/// A Pool is looked up by name and uid only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NoIndex {}

impl Kept for Pool {
    type Index = NoIndex;

    fn indexes(&self) -> Vec<NoIndex> {
        Vec::new()
    }
}

/// A kind that claims Pods.
pub trait ClaimSort:
    Resource<DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug + Send + Sync + 'static
{
    /// Which of the two.
    const KIND: ClaimKind;

    /// The object as a claim.
    fn read(&self) -> Claim;

    /// The whole status that spells `report`, with what this operator does
    /// not decide kept as it is.
    fn status(&self, claim: &Claim, report: &Report) -> Value;
}

impl ClaimSort for BatchSandbox {
    const KIND: ClaimKind = ClaimKind::BatchSandbox;

    fn read(&self) -> Claim {
        batch_sandbox::read(self)
    }

    fn status(&self, _: &Claim, report: &Report) -> Value {
        serde_json::to_value(batch_sandbox::status(self.status.as_ref(), report)).unwrap_or_default()
    }
}

impl ClaimSort for Sandbox {
    const KIND: ClaimKind = ClaimKind::Sandbox;

    fn read(&self) -> Claim {
        sandbox::read(self)
    }

    fn status(&self, claim: &Claim, report: &Report) -> Value {
        serde_json::to_value(sandbox::status(self.status.as_ref(), claim, report)).unwrap_or_default()
    }
}

/// A claim and the object it was read from.
#[derive(Clone, Debug)]
pub struct ClaimRecord<K> {
    /// As stored in the cluster.
    pub object: K,
    /// As plans read it.
    pub claim: Arc<Claim>,
}

impl<'de, K: ClaimSort> Deserialize<'de> for ClaimRecord<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object: K = K::deserialize(deserializer).map_err(D::Error::custom)?;
        trim(object.meta_mut());
        Ok(Self { claim: Arc::new(object.read()), object })
    }
}

impl<K: ClaimSort> Resource for ClaimRecord<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        self.object.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.object.meta_mut()
    }
}

/// How claims are found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClaimIndex {
    /// By namespace and the name of the Pool they ask.
    Pool(String, String),
    /// By namespace: those that ask any Pool.
    Any(String),
    /// By namespace and the name of the Pool they ask: the ones that wait for a Pod.
    Open(String, String),
    /// By the uid of a Pod that their status names.
    Names(String),
}

impl<K: ClaimSort> Kept for ClaimRecord<K> {
    type Index = ClaimIndex;

    fn indexes(&self) -> Vec<ClaimIndex> {
        let claim = &*self.claim;
        let pool = claim.pool().map(|pool| (claim.namespace.clone(), pool.to_owned()));
        let open = pool.clone().filter(|_| is_open(claim)).map(|(namespace, pool)| ClaimIndex::Open(namespace, pool));
        let pool = pool.map(|(namespace, pool)| ClaimIndex::Pool(namespace, pool));
        let named = claim.status.slots.iter().filter_map(|slot| slot.named_uid());
        let any = matches!(claim.source, Source::AnyPool(_)).then(|| ClaimIndex::Any(claim.namespace.clone()));
        pool.into_iter().chain(open).chain(any).chain(named.map(|uid| ClaimIndex::Names(uid.to_owned()))).collect()
    }
}

/// A node: its name, and whether it takes sandboxes.
#[derive(Clone, Debug)]
pub struct NodeRecord {
    metadata: ObjectMeta,
    /// Cordoned, or not Ready.
    pub sick: bool,
}

#[derive(Deserialize)]
struct NodeParts {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: NodeSpec,
    #[serde(default)]
    status: NodeStatus,
}

impl<'de> Deserialize<'de> for NodeRecord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let NodeParts { metadata, spec, status } = NodeParts::deserialize(deserializer)?;
        let cordoned = spec.unschedulable.unwrap_or(false);
        let conditions = status.conditions.unwrap_or_default();
        let ready = conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
        let ObjectMeta { name, uid, resource_version, .. } = metadata;
        let metadata = ObjectMeta { name, uid, resource_version, ..ObjectMeta::default() };
        Ok(Self { metadata, sick: cordoned || !ready })
    }
}

impl Resource for NodeRecord {
    type DynamicType = ();
    type Scope = <Node as Resource>::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        "Node".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "nodes".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// How nodes are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeIndex {
    /// Those that take no sandboxes.
    Sick,
}

impl Kept for NodeRecord {
    type Index = NodeIndex;

    fn indexes(&self) -> Vec<NodeIndex> {
        self.sick.then_some(NodeIndex::Sick).into_iter().collect()
    }
}
