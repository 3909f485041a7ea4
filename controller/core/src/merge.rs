//! Merging JSON documents.

use serde_json::Value;

/// Lays `patch` over `target` as RFC 7386 says, but for lists of objects that are told apart by `name` (`env`,
/// `containers`, `volumes`, `volumeMounts` by `mountPath`): those are merged element by element, as a strategic merge does.
pub fn merge(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                if value.is_null() {
                    target.remove(key);
                } else {
                    merge(target.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (Value::Array(target), Value::Array(patch)) => match merge_key(target, patch) {
            Some(key) => patch.iter().for_each(|item| merge_item(target, item, key)),
            None => target.clone_from(patch),
        },
        (target, patch) => *target = patch.clone(),
    }
}

fn merge_key(target: &[Value], patch: &[Value]) -> Option<&'static str> {
    let all_have = |key: &str| !patch.is_empty() && target.iter().chain(patch).all(|item| item.get(key).is_some());
    ["mountPath", "name"].into_iter().find(|key| all_have(key))
}

fn merge_item(target: &mut Vec<Value>, item: &Value, key: &str) {
    match target.iter_mut().find(|old| old.get(key) == item.get(key)) {
        Some(old) => merge(old, item),
        None => target.push(item.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::merge;

    #[test]
    fn a_patch_changes_what_it_names_and_nothing_else() {
        let mut target = json!({"a": {"b": 1, "c": 2}, "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}], "args": ["a"]});
        merge(
            &mut target,
            &json!({"a": {"c": null}, "env": [{"name": "Y", "value": "3"}, {"name": "Z"}], "args": ["b", "c"]}),
        );
        let expected = json!({"a": {"b": 1}, "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "3"}, {"name": "Z"}], "args": ["b", "c"]});
        assert_eq!(target, expected);
    }
}
