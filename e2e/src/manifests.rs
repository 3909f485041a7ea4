//! Applies manifests of this repository as they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::gvk::GroupVersionKind;
use kube::runtime::wait::{Condition, conditions};
use kube::{Client, ResourceExt};
use sandbox_cluster::home;

use crate::until::until;

const ESTABLISH_LIMIT: Duration = Duration::from_secs(30);

/// The objects of all YAML files of a directory of the checkout, in the order of file names; kustomizations are
/// left out.
///
/// # Errors
/// When a file cannot be read or is no manifest.
pub fn read(dir: &str) -> Result<Vec<DynamicObject>> {
    let dir = home::checkout().join(dir);
    let entries = fs::read_dir(&dir).with_context(|| format!("list {}", dir.display()))?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|end| end == "yaml") && !file.ends_with("kustomization.yaml"));
    files.sort();
    let parsed = files.iter().map(|file| read_file(file)).collect::<Result<Vec<_>>>()?;
    Ok(parsed.into_iter().flatten().collect())
}

/// The objects of one YAML file.
///
/// # Errors
/// When it cannot be read or is no manifest.
pub fn read_file(file: &Path) -> Result<Vec<DynamicObject>> {
    let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    serde_saphyr::from_multiple(&text).with_context(|| format!("{} is no manifest", file.display()))
}

/// Applies objects as `kubectl apply --server-side` does. Those with a namespace go there, the others are taken to
/// have none.
///
/// # Errors
/// When the API server refuses one.
pub async fn apply(client: &Client, objects: &[DynamicObject]) -> Result<()> {
    for object in objects {
        let types = object.types.as_ref().context("an object without apiVersion and kind")?;
        let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let name = object.name_any();
        let params = PatchParams::apply("sandbox-e2e").force();
        api.patch(&name, &params, &Patch::Apply(object))
            .await
            .with_context(|| format!("apply {} {name}", types.kind))?;
    }
    Ok(())
}

/// Applies namespaces, definitions and rights of `config/`, and waits until the kinds can be used.
///
/// # Errors
/// When the API server refuses one, or does not establish a kind.
pub async fn install(client: &Client) -> Result<()> {
    let definitions = read("config/crd")?;
    apply(client, &read("config/namespaces")?).await?;
    apply(client, &definitions).await?;
    apply(client, &read("config/rbac")?).await?;
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in &definitions {
        let established =
            |found: &CustomResourceDefinition| conditions::is_crd_established().matches_object(Some(found));
        until(&api, &definition.name_any(), "the definition is established", ESTABLISH_LIMIT, established).await?;
    }
    Ok(())
}
