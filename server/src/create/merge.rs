//! The template file under the generated object.

use serde_json::{Map, Value};

/// Merges: maps recursively, lists and scalars replaced by the generated ones, nulls skipped; then
/// the template's extra volumes, and the mounts and security context of its sandbox container, are
/// put back.
pub(super) fn over(template: &Value, generated: &Value) -> Value {
    let mut out = template.clone();
    merge(&mut out, generated);
    restore_volumes(&mut out, template);
    restore_container(&mut out, template);
    out
}

fn merge(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                match base.get_mut(key) {
                    _ if value.is_null() => {}
                    Some(slot) => merge(slot, value),
                    None => {
                        base.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (base, over) => *base = over.clone(),
    }
}

const POD: &str = "/spec/template/spec";

fn list<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    object.pointer(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn named(item: &Value) -> Option<&str> {
    item.get("name").and_then(Value::as_str)
}

/// Appends the items whose name is not there yet.
fn append(to: &mut Map<String, Value>, key: &str, items: &[Value]) {
    if items.is_empty() {
        return;
    }
    let slot = to.entry(key).or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(there) = slot {
        for item in items {
            if !there.iter().any(|known| named(known) == named(item)) {
                there.push(item.clone());
            }
        }
    }
}

fn restore_volumes(out: &mut Value, template: &Value) {
    let extra = list(template, &format!("{POD}/volumes"));
    if let Some(pod) = out.pointer_mut(POD).and_then(Value::as_object_mut) {
        append(pod, "volumes", extra);
    }
}

fn restore_container(out: &mut Value, template: &Value) {
    let containers = list(template, &format!("{POD}/containers"));
    let of_template = containers.iter().find(|c| named(c) == Some("sandbox")).or_else(|| containers.first());
    let main = out.pointer_mut(&format!("{POD}/containers/0")).and_then(Value::as_object_mut);
    let (Some(of_template), Some(main)) = (of_template, main) else { return };
    append(main, "volumeMounts", list(of_template, "/volumeMounts"));
    if let Some(context) = of_template.get("securityContext").filter(|c| c.is_object()) {
        let mut merged = context.clone();
        if let Some(generated) = main.get("securityContext") {
            merge(&mut merged, generated);
        }
        main.insert("securityContext".to_owned(), merged);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_template_gives_what_the_server_does_not_and_nothing_else() {
        let template = json!({
            "metadata": {"labels": {"team": "a"}, "name": "x"},
            "spec": {"replicas": 3, "template": {"spec": {
                "restartPolicy": "Never", "tolerations": [{"key": "k"}],
                "volumes": [{"name": "opensandbox-bin", "hostPath": {}}, {"name": "cache", "emptyDir": {}}],
                "containers": [
                    {"name": "helper", "image": "h"},
                    {"name": "sandbox", "image": "t", "env": [{"name": "A"}],
                     "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
                     "securityContext": {"runAsUser": 5, "capabilities": {"add": ["X"], "drop": ["ALL"]}}},
                ]}}},
        });
        let generated = json!({
            "kind": "BatchSandbox", "metadata": {"name": "id", "labels": {"opensandbox.io/id": "id"}},
            "spec": {"replicas": 1, "template": {"spec": {
                "volumes": [{"name": "opensandbox-bin", "emptyDir": {}}],
                "containers": [{"name": "sandbox", "image": "i", "volumeMounts": [{"name": "opensandbox-bin"}],
                    "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]}}},
        });
        let out = over(&template, &generated);
        assert_eq!(out["metadata"], json!({"name": "id", "labels": {"team": "a", "opensandbox.io/id": "id"}}));
        assert_eq!(out["spec"]["replicas"], 1);
        let pod = out.pointer(POD).unwrap();
        assert_eq!(pod["restartPolicy"], "Never");
        assert_eq!(
            pod["volumes"],
            json!([{"name": "opensandbox-bin", "emptyDir": {}}, {"name": "cache", "emptyDir": {}}])
        );
        assert_eq!(
            pod["containers"],
            json!([{"name": "sandbox", "image": "i",
                "volumeMounts": [{"name": "opensandbox-bin"}, {"name": "cache", "mountPath": "/cache"}],
                "securityContext": {"runAsUser": 5, "capabilities": {"add": ["SYS_ADMIN"], "drop": ["ALL"]}}}])
        );
    }
}
