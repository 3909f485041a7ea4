//! What every cluster of ours holds from the start.

use anyhow::Result;
use kube::Client;
use serde_json::{Value, json};

use super::config::VM_HANDLER;
use super::places::Places;
use crate::apply::apply_object;
use crate::control_plane::NODE_ADDRESS;

/// Applies them.
///
/// # Errors
/// When the API server refuses one.
pub async fn apply(client: &Client, places: &Places) -> Result<()> {
    for value in all(places) {
        apply_object(client, value).await?;
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
