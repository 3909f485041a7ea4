//! From what the derives give to what is installed.

use std::collections::BTreeMap;

use serde_json::Value;

/// Removes what a derive says too much, and sorts, so that the output is the same whatever features a build unites.
pub(crate) fn tidy(mut document: Value) -> Value {
    if let Some(root) = document.pointer_mut("/spec/versions/0/schema/openAPIV3Schema") {
        strip(root, "title");
        plain(root);
        never_null_enums(root);
        if let Some(spec) = root.pointer_mut("/properties/spec") {
            // Serde's default for reading an object without a spec; the API server must not invent one.
            strip(spec, "default");
            drop_null_defaults(spec);
        }
        if let Some(status) = root.pointer_mut("/properties/status") {
            drop_defaults(status);
        }
    }
    sorted(document)
}

fn strip(node: &mut Value, key: &str) {
    if let Some(object) = node.as_object_mut() {
        object.remove(key);
    }
}

/// Comments are wrapped for the reader of the code, and bounds come out as `0.0`.
fn plain(schema: &mut Value) {
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = description.replace('\n', " ");
    }
    for bound in ["minimum", "maximum"] {
        if let Some(whole) = schema.get(bound).and_then(Value::as_f64).and_then(whole) {
            schema[bound] = whole.into();
        }
    }
    for child in children(schema) {
        plain(child);
    }
}

fn whole(number: f64) -> Option<i64> {
    // Every bound of ours is far inside what both types hold exactly.
    (number.fract() == 0.0 && number.abs() < 1e15).then_some(number as i64)
}

/// kube makes `Option` of an enum nullable and lists null; the API server (1.34) refuses null all the same, and where
/// there is a default a null is only replaced by it if the field is not nullable.
fn never_null_enums(schema: &mut Value) {
    if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        words.retain(|word| !word.is_null());
        strip(schema, "nullable");
    }
    for child in children(schema) {
        never_null_enums(child);
    }
}

/// A status has no defaults: serde's are for reading.
fn drop_defaults(schema: &mut Value) {
    strip(schema, "default");
    for child in children(schema) {
        drop_defaults(child);
    }
}

/// `default: null` is serde's way to say "optional".
fn drop_null_defaults(schema: &mut Value) {
    if schema.get("default").is_some_and(Value::is_null) {
        strip(schema, "default");
    }
    for child in children(schema) {
        drop_null_defaults(child);
    }
}

/// The schemas right below a schema. (`default` may be the name of a property, so plain recursion would be wrong.)
fn children(schema: &mut Value) -> Vec<&mut Value> {
    let Some(object) = schema.as_object_mut() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (key, value) in object.iter_mut() {
        match key.as_str() {
            "properties" => {
                found.extend(value.as_object_mut().into_iter().flat_map(|all| all.iter_mut().map(|(_, v)| v)))
            }
            "items" | "additionalProperties" => found.push(value),
            _ => {}
        }
    }
    found
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(entries) => {
            let entries: BTreeMap<String, Value> =
                entries.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => plain,
    }
}
