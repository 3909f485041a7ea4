//! Whether the nodes that a Pool's Pods run on are those that a claim asks for.

use std::collections::BTreeMap;

use serde_json::Value;

/// The Pool's labels, overlaid by its template's node selector, must satisfy the claim's node selector and required node
/// affinity.
pub(super) fn selects(
    template: &Value,
    of_pool: &Value,
    labels: Option<&BTreeMap<String, String>>,
) -> Result<(), String> {
    let mut has: BTreeMap<&str, &str> = labels.into_iter().flatten().map(|(key, value)| (&**key, &**value)).collect();
    has.extend(selector(of_pool));
    if let Some((key, value)) = selector(template).find(|(key, value)| has.get(key) != Some(value)) {
        return Err(format!("its nodes are not selected by {key}={value}"));
    }
    let terms = template.pointer("/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution");
    let terms = terms.and_then(|terms| terms.get("nodeSelectorTerms")).and_then(Value::as_array);
    match terms {
        Some(terms) if !terms.iter().any(|term| term_matches(term, &has)) => {
            Err("its nodes do not satisfy the required node affinity".to_owned())
        }
        Some(_) | None => Ok(()),
    }
}

fn selector(template: &Value) -> impl Iterator<Item = (&str, &str)> {
    let selector = template.pointer("/spec/nodeSelector").and_then(Value::as_object);
    selector.into_iter().flatten().filter_map(|(key, value)| Some((&**key, value.as_str()?)))
}

/// A term without expressions matches nothing.
fn term_matches(term: &Value, has: &BTreeMap<&str, &str>) -> bool {
    let expressions = term.get("matchExpressions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    !expressions.is_empty() && expressions.iter().all(|expression| expression_matches(expression, has))
}

fn expression_matches(expression: &Value, has: &BTreeMap<&str, &str>) -> bool {
    let text = |member: &str| expression.get(member).and_then(Value::as_str).unwrap_or_default();
    let values: Vec<&str> =
        expression.get("values").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let value = has.get(text("key")).copied();
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    let bound = number(values.first().copied());
    match text("operator") {
        "In" => value.is_some_and(|value| values.contains(&value)),
        "NotIn" => value.is_none_or(|value| !values.contains(&value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => number(value).zip(bound).is_some_and(|(value, bound)| value > bound),
        "Lt" => number(value).zip(bound).is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}
