//! Reading the two kinds. Total: an object in any shape gives a view.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use sandbox_api::{BatchSandbox, Condition, ConditionType, Moment, PoolRef, Sandbox, SandboxSlot, annotations};
use serde_json::Value;

use super::state::trouble;
use super::{Kind, Platform, Standing, View, version};
use crate::store::Watched;
use crate::words;

impl Watched for BatchSandbox {
    const KIND: Kind = Kind::BatchSandbox;

    fn view(&self) -> View {
        let status = self.status.clone().unwrap_or_default();
        let ip = ip_of_batch_sandbox(self, &status.pods);
        let standing = match self.metadata.deletion_timestamp {
            Some(_) => Standing::deleting(),
            None => Standing::of_batch_sandbox(&status, ip.as_deref()),
        };
        let named = status.pods.first().is_some_and(|slot| !slot.is_open());
        let pool = self.spec.pool();
        let source = Source { pool, template: self.spec.template.as_ref(), named };
        let facts =
            Facts { meta: &self.metadata, conditions: &status.conditions, expires: self.spec.expire_time.as_ref() };
        build(Kind::BatchSandbox, facts, standing, ip, &source)
    }
}

/// The Pod's address from the status. Only an operator that writes no slots is believed by its
/// annotation: with slots, the annotation may be older than they are.
fn ip_of_batch_sandbox(object: &BatchSandbox, slots: &[SandboxSlot]) -> Option<String> {
    match slots.first() {
        Some(SandboxSlot::Named { ip, .. }) => ip.clone(),
        Some(SandboxSlot::Open | SandboxSlot::Lost { .. } | SandboxSlot::Undelivered { .. }) => None,
        None => {
            let text = object.metadata.annotations.as_ref()?.get(annotations::ENDPOINTS)?;
            let ips: Vec<String> = serde_json::from_str(text).ok()?;
            ips.into_iter().next().filter(|ip| !ip.is_empty())
        }
    }
}

impl Watched for Sandbox {
    const KIND: Kind = Kind::Sandbox;

    fn view(&self) -> View {
        let status = self.status.clone().unwrap_or_default();
        let ip = status.pod_ip.clone().filter(|ip| !ip.is_empty());
        let standing = match self.metadata.deletion_timestamp {
            Some(_) => Standing::deleting(),
            None => Standing::of_sandbox(&status),
        };
        let pool = PoolRef::read(self.spec.pool_ref.as_deref());
        let source = Source { pool, template: self.spec.template.as_ref(), named: status.pod_uid.is_some() };
        let facts =
            Facts { meta: &self.metadata, conditions: &status.conditions, expires: self.spec.expire_time.as_ref() };
        build(Kind::Sandbox, facts, standing, ip, &source)
    }
}

struct Source<'a> {
    pool: PoolRef<'a>,
    template: Option<&'a Value>,
    /// Whether a Pod serves it.
    named: bool,
}

struct Facts<'a> {
    meta: &'a ObjectMeta,
    conditions: &'a [Condition],
    expires: Option<&'a Moment>,
}

fn build(kind: Kind, facts: Facts<'_>, standing: Standing, ip: Option<String>, source: &Source<'_>) -> View {
    let meta = facts.meta;
    let labels = meta.labels.clone().unwrap_or_default();
    let annotations = meta.annotations.clone().unwrap_or_default();
    let resource_version = meta.resource_version.clone().unwrap_or_default();
    let created = meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |t| t.0);
    let ended = meta.deletion_timestamp.as_ref().map(|t| t.0);
    let turned = facts.conditions.iter().find(|c| c.type_ == ConditionType::Ready);
    let turned = turned.and_then(|c| c.last_transition_time.as_ref()).map(Moment::at);
    let turned = turned.filter(|at| *at != Timestamp::MAX);
    let container = source.template.and_then(|t| t.pointer("/spec/containers/0"));
    let pooled = source.template.is_none();
    let allocated_from = match source.pool {
        PoolRef::Named(pool) if source.named && ended.is_none() => Some(pool.to_owned()),
        PoolRef::Named(_) | PoolRef::Any | PoolRef::Unset => None,
    };
    View {
        kind,
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        version: version(&resource_version),
        resource_version,
        id: labels.get(words::ID).cloned().unwrap_or_default(),
        created,
        since: ended.or(turned).unwrap_or(created),
        standing,
        expires: facts.expires.map(Moment::at).filter(|at| *at != Timestamp::MAX),
        image: container.and_then(|c| text(c.get("image"))).filter(|_| !pooled),
        snapshot_id: labels.get(words::SNAPSHOT_ID).cloned(),
        platform: source.template.and_then(platform),
        entrypoint: container.and_then(|c| c.get("command")).map(strings).unwrap_or_default(),
        allocated_from,
        ip,
        trouble: trouble(facts.conditions),
        egress_token: annotations.get(words::EGRESS_AUTH_TOKEN).cloned(),
        secure_token: annotations.get(words::SECURE_ACCESS_TOKEN).cloned(),
        extensions: extensions(&annotations),
        metadata: metadata(labels),
    }
}

fn metadata(labels: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let own = |key: &str| key.split_once('/').is_some_and(|(prefix, _)| prefix == words::RESERVED);
    labels.into_iter().filter(|(key, _)| !own(key)).collect()
}

fn extensions(annotations: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let named = annotations.iter().filter_map(|(key, value)| {
        let suffix = key.strip_prefix(words::EXTENSION_ANNOTATION)?;
        Some((format!("{}{suffix}", words::EXTENSION_KEY), value.clone()))
    });
    named.collect()
}

fn platform(template: &Value) -> Option<Platform> {
    let selector = template.pointer("/spec/nodeSelector")?;
    let os = text(selector.get(words::NODE_OS)).filter(|os| ["linux", "windows"].contains(&os.as_str()))?;
    let arch = text(selector.get(words::NODE_ARCH)).filter(|arch| ["amd64", "arm64"].contains(&arch.as_str()))?;
    Some(Platform { os, arch })
}

fn text(value: Option<&Value>) -> Option<String> {
    value?.as_str().map(str::to_owned)
}

fn strings(value: &Value) -> Vec<String> {
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}
