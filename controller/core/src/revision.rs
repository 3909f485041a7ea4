//! The revision of a template: a hash over a canonical form, so that it does not depend on who wrote the template or on the
//! operator's version.

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// 16 hex characters: the first 8 bytes of SHA-256 over the canonical form of `template`.
///
/// Canonical: object keys sorted, members that are `null` left out, no white space. What the operator injects into every
/// Pod (its labels and owner) is the same for all revisions, so it is not part of the hash.
#[must_use]
pub fn revision(template: &Value) -> String {
    let mut text = String::new();
    canonical(template, &mut text);
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(8).fold(String::with_capacity(16), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => {
            let mut kept: Vec<_> = members.iter().filter(|(_, member)| !member.is_null()).collect();
            kept.sort_unstable_by_key(|(key, _)| *key);
            separated(out, '{', '}', kept, |(key, member), out| {
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                canonical(member, out);
            });
        }
        Value::Array(items) => separated(out, '[', ']', items, canonical),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => out.push_str(&value.to_string()),
    }
}

fn separated<T>(
    out: &mut String,
    open: char,
    close: char,
    items: impl IntoIterator<Item = T>,
    mut each: impl FnMut(T, &mut String),
) {
    out.push(open);
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        each(item, out);
    }
    out.push(close);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::revision;

    #[test]
    fn a_revision_is_the_same_across_operator_versions() {
        let template = json!({"metadata": {"labels": {"b": "2", "a": "1"}}, "spec": {"containers": [{"name": "x", "image": "y"}]}});
        assert_eq!(revision(&template), "6afa5085d0a87ba9");
    }

    #[test]
    fn order_of_members_and_nulls_do_not_make_a_new_revision() {
        let written = json!({"spec": {"containers": [], "x": null}, "metadata": null});
        assert_eq!(revision(&written), revision(&json!({"spec": {"containers": []}})));
        assert_ne!(revision(&written), revision(&json!({"spec": {"containers": [null]}})));
    }
}
