//! What every definition keeps to.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use serde_json::{Value, json};

struct Schema {
    kind: String,
    root: Value,
    document: Value,
}

fn schemas() -> Vec<Schema> {
    crd_gen::definitions()
        .unwrap()
        .iter()
        .map(|definition| Schema {
            kind: definition.document()["spec"]["names"]["kind"].as_str().unwrap().to_owned(),
            root: definition.document()["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone(),
            document: definition.document().clone(),
        })
        .collect()
}

fn schema(kind: &str) -> Schema {
    schemas().into_iter().find(|schema| schema.kind == kind).unwrap()
}

/// Calls `visit` with the path and schema of every property, at any depth.
fn properties(path: &str, node: &Value, visit: &mut impl FnMut(&str, &Value)) {
    for (name, property) in node["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        visit(&path, property);
        properties(&path, property, visit);
    }
    if node["items"].is_object() {
        properties(&format!("{path}[]"), &node["items"], visit);
    }
}

#[test]
fn every_field_of_every_kind_is_described_in_one_line() {
    for Schema { kind, root, .. } in schemas() {
        assert!(root["description"].is_string(), "{kind}");
        properties(&kind, &root, &mut |path, property| {
            let text = property["description"].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{path} has no description");
            assert!(!text.contains('\n') && !text.contains("crate::") && !text.contains('`'), "{path}: {text}");
            assert!(!text.contains("{{"), "{path} would be read as a template by Helm: {text}");
        });
    }
}

#[test]
fn no_rule_is_at_the_root_where_it_would_block_status_and_finalizers() {
    for Schema { kind, root, .. } in schemas() {
        assert_eq!(root.get("x-kubernetes-validations"), None, "{kind}");
        properties("", &root["properties"]["status"], &mut |path, property| {
            assert_eq!(property.get("x-kubernetes-validations"), None, "{kind}.status{path}");
        });
    }
}

#[test]
fn every_rule_has_a_message() {
    for Schema { kind, root, .. } in schemas() {
        properties(&kind, &root, &mut |path, property| {
            for rule in property["x-kubernetes-validations"].as_array().into_iter().flatten() {
                assert!(rule["message"].is_string() || rule["messageExpression"].is_string(), "{path}: {rule}");
            }
        });
    }
}

#[test]
fn an_open_field_is_a_nullable_object_so_that_rules_may_name_it() {
    for (kind, field) in [
        ("Pool", "template"),
        ("BatchSandbox", "template"),
        ("BatchSandbox", "taskTemplate"),
        ("Sandbox", "template"),
        ("Sandbox", "task"),
    ] {
        let spec = &schema(kind).root["properties"]["spec"]["properties"][field];
        assert_eq!(spec["type"], "object", "{kind}.{field}");
        assert_eq!(spec["nullable"], true, "{kind}.{field}");
        assert_eq!(spec["x-kubernetes-preserve-unknown-fields"], true, "{kind}.{field}");
    }
}

#[test]
fn defaults_are_the_contracts_and_no_others() {
    let mut defaults = Vec::new();
    for Schema { kind, root, .. } in schemas() {
        properties(&kind, &root, &mut |path, property| {
            if let Some(default) = property.get("default") {
                defaults.push((path.to_owned(), default.clone()));
            }
        });
    }
    let expected = [
        ("Pool.spec.recycleStrategy.type", json!("Delete")),
        ("BatchSandbox.spec.replicas", json!(1)),
        ("BatchSandbox.spec.taskResourcePolicyWhenCompleted", json!("Retain")),
        ("Sandbox.spec.paused", json!(false)),
    ];
    assert_eq!(defaults, expected.map(|(path, default)| (path.to_owned(), default)));
}

#[test]
fn counters_of_the_contract_are_required() {
    let required = |kind: &str| schema(kind).root["properties"]["status"]["required"].clone();
    assert_eq!(required("Pool"), json!(["allocated", "available", "revision", "total"]));
    assert_eq!(
        required("BatchSandbox"),
        json!([
            "allocated",
            "ready",
            "replicas",
            "taskFailed",
            "taskPending",
            "taskRunning",
            "taskSucceed",
            "taskUnknown"
        ])
    );
}

#[test]
fn names_and_columns_are_the_contracts() {
    let names = |kind: &str| {
        let names = &schema(kind).document["spec"]["names"];
        (names["plural"].clone(), names.get("shortNames").cloned().unwrap_or_default())
    };
    assert_eq!(names("Pool"), (json!("pools"), json!(null)));
    assert_eq!(names("BatchSandbox"), (json!("batchsandboxes"), json!(["bsbx"])));
    assert_eq!(names("Sandbox"), (json!("sandboxes"), json!(["sbx"])));
    assert_eq!(names("SandboxSnapshot"), (json!("sandboxsnapshots"), json!(["sbxsnap"])));
    let columns = |kind: &str| -> String {
        let columns = &schema(kind).document["spec"]["versions"][0]["additionalPrinterColumns"];
        let shown = columns.as_array().unwrap().iter().filter(|column| column.get("priority").is_none());
        shown.map(|column| column["name"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(columns("Pool"), "TOTAL ALLOCATED AVAILABLE UPDATED READY AGE");
    assert_eq!(columns("BatchSandbox"), "DESIRED TOTAL ALLOCATED Ready STATUS EXPIRE AGE");
    assert_eq!(columns("Sandbox"), "PHASE SOURCE POD READY EXPIRES AGE");
    assert_eq!(columns("SandboxSnapshot"), "PHASE SANDBOX AGE");
}

#[test]
fn the_checkout_has_no_drift() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    assert_eq!(crd_gen::drift(root).unwrap(), []);
}
