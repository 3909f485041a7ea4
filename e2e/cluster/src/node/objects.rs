//! What every cluster of ours holds from the start.

use anyhow::{Context, Result};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::config::VM_HANDLER;
use super::places::Places;
use crate::control_plane::NODE_ADDRESS;

/// Applies them.
///
/// # Errors
/// When the API server refuses one.
pub async fn apply(client: &Client, places: &Places) -> Result<()> {
    for value in all(places) {
        let object: DynamicObject = serde_json::from_value(value).context("describe an object")?;
        let types = object.types.clone().unwrap_or_default();
        let name = object.name_any();
        let kind = GroupVersionKind::try_from(&types).context("describe an object's kind")?;
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        api.patch(&name, &PatchParams::apply("opensandbox-cluster").force(), &Patch::Apply(&object))
            .await
            .with_context(|| format!("apply {} {name}", types.kind))?;
    }
    Ok(())
}

fn all(places: &Places) -> Vec<Value> {
    vec![
        json!({
            "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
            "metadata": { "name": VM_HANDLER }, "handler": VM_HANDLER,
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": { "name": "system:coredns" },
            "rules": [
                { "apiGroups": [""], "resources": ["services", "pods", "namespaces", "endpoints"], "verbs": ["list", "watch"] },
                { "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"] },
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": "system:coredns" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns" },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:coredns" }],
        }),
        // kube-proxy's own role exists already; only its certificate's user is bound to it by default.
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "registry", "namespace": "kube-system" },
            "spec": { "ports": [{ "name": "http", "port": places.registry_port }] },
        }),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": "registry", "namespace": "kube-system",
                "labels": { "kubernetes.io/service-name": "registry" },
            },
            "addressType": "IPv4",
            "ports": [{ "name": "http", "port": places.registry_port }],
            "endpoints": [{ "addresses": [NODE_ADDRESS] }],
        }),
    ]
}
