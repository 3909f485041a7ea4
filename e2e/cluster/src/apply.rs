//! Objects from YAML, applied to a cluster.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, ResourceExt};
use serde_json::Value;

const MANAGER: &str = "opensandbox-cluster";
const ESTABLISHED_LIMIT: Duration = Duration::from_secs(60);

/// Applies one object (server side, by force).
///
/// # Errors
/// When it is no object, or when the API server refuses it.
pub async fn apply_object(client: &Client, value: Value) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(value).context("read an object")?;
    let types = object.types.clone().unwrap_or_default();
    let name = object.name_any();
    let kind = GroupVersionKind::try_from(&types).context("read an object's kind")?;
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    api.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&object))
        .await
        .with_context(|| format!("apply {} {name}", types.kind))?;
    Ok(())
}

/// Applies the CustomResourceDefinitions of YAML files (or of all YAML files of a directory; other
/// kinds in them are passed over) and waits until their kinds are served.
///
/// # Errors
/// When a file cannot be read, or when the API server refuses one.
pub async fn apply_definitions(client: &Client, places: &[PathBuf]) -> Result<()> {
    let mut names = Vec::new();
    for file in yaml_files(places)? {
        let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&text).with_context(|| format!("read {} as YAML", file.display()))?;
        for document in documents.into_iter().filter(|each| each["kind"] == "CustomResourceDefinition") {
            names.extend(document["metadata"]["name"].as_str().map(str::to_owned));
            apply_object(client, document).await.with_context(|| format!("of {}", file.display()))?;
        }
    }
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for name in names {
        let served = await_condition(definitions.clone(), &name, conditions::is_crd_established());
        tokio::time::timeout(ESTABLISHED_LIMIT, served)
            .await
            .with_context(|| format!("{name} is not established after {ESTABLISHED_LIMIT:?}"))?
            .with_context(|| format!("watch {name}"))?;
    }
    Ok(())
}

fn yaml_files(places: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for place in places {
        if place.is_dir() {
            let entries = fs::read_dir(place).with_context(|| format!("read {}", place.display()))?;
            files.extend(entries.flatten().map(|entry| entry.path()).filter(|path| is_yaml(path)));
        } else {
            files.push(place.clone());
        }
    }
    files.sort();
    Ok(files)
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}
