//! The CustomResourceDefinitions of all kinds, made from the types of `sandbox-api`.
//!
//! One document per kind, the same in `config/crd` and, wrapped for Helm, in the chart: a chart whose CRDs drift
//! from the types loses fields without an error.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod files;
mod tidy;

pub use files::{Drift, drift, write};

use anyhow::Context;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use sandbox_api::{BatchSandbox, Pool, Sandbox, SandboxSnapshot};
use serde_json::Value;

/// First lines of every generated file.
const HEADER: &str =
    "# Made by crd-gen from the types in api/. Change those, then run: cargo run -p crd-gen -- --write\n";

/// The definition of one kind, ready to be installed.
#[derive(Clone, Debug)]
pub struct Definition {
    plural: String,
    document: Value,
}

/// The definitions of all kinds, in the order they are printed.
///
/// # Errors
/// A definition that is not serializable: a defect of the types.
pub fn definitions() -> anyhow::Result<Vec<Definition>> {
    [Pool::crd(), BatchSandbox::crd(), Sandbox::crd(), SandboxSnapshot::crd()].into_iter().map(Definition::of).collect()
}

impl Definition {
    fn of(crd: CustomResourceDefinition) -> anyhow::Result<Self> {
        let plural = crd.spec.names.plural.clone();
        let document = serde_json::to_value(crd).with_context(|| format!("definition of {plural}"))?;
        Ok(Self { plural, document: tidy::tidy(document) })
    }

    /// The kind's plural, which names its file.
    pub fn plural(&self) -> &str {
        &self.plural
    }

    /// The definition as the API server takes it.
    pub fn document(&self) -> &Value {
        &self.document
    }

    /// The definition as YAML.
    ///
    /// # Errors
    /// As the YAML writer's.
    pub fn yaml(&self) -> anyhow::Result<String> {
        Ok(format!("{HEADER}{}", to_yaml(&self.document)?))
    }

    /// The definition as a template of the operator's chart, under its values `crds.install`, `crds.keep` and
    /// `crds.annotations`.
    ///
    /// A template and not a file of Helm's `crds/` folder, which Helm and Flux skip on upgrade.
    ///
    /// # Errors
    /// As the YAML writer's.
    pub fn chart_template(&self) -> anyhow::Result<String> {
        let mut document = self.document.clone();
        if let Some(top) = document.as_object_mut() {
            // Written by hand below, with the chart's annotations in it.
            top.retain(|key, _| key == "spec");
        }
        Ok(format!(
            "{HEADER}{CHART_HEAD}  name: {}.{}\n{}{CHART_TAIL}",
            self.plural,
            sandbox_api::GROUP,
            to_yaml(&document)?
        ))
    }
}

const CHART_HEAD: &str = "\
{{- if .Values.crds.install }}
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  {{- if or .Values.crds.keep .Values.crds.annotations }}
  annotations:
    {{- if .Values.crds.keep }}
    helm.sh/resource-policy: keep
    {{- end }}
    {{- with .Values.crds.annotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
";

const CHART_TAIL: &str = "{{- end }}\n";

fn to_yaml(document: &Value) -> anyhow::Result<String> {
    let mut yaml = serde_saphyr::to_string(document).context("writing YAML")?;
    if !yaml.ends_with('\n') {
        yaml.push('\n');
    }
    Ok(yaml)
}
