//! Quantities of Kubernetes, exact to a billionth: enough to compare two of them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::containers;

/// What the containers of a template request together, by resource, in billionths.
pub(super) fn requests(template: &Value) -> Result<BTreeMap<String, i128>, String> {
    let mut sum = BTreeMap::new();
    for container in containers(template) {
        let requests = container.get("resources").and_then(|resources| resources.get("requests"));
        for (name, quantity) in requests.and_then(Value::as_object).into_iter().flatten() {
            let amount = read(quantity).ok_or_else(|| format!("{quantity} is no quantity of {name}"))?;
            *sum.entry(name.clone()).or_insert(0) += amount;
        }
    }
    Ok(sum)
}

fn read(quantity: &Value) -> Option<i128> {
    match quantity {
        Value::Number(number) => parse(&number.to_string()),
        Value::String(text) => parse(text.trim()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// One, in billionths.
const ONE: i128 = 1_000_000_000;

fn parse(text: &str) -> Option<i128> {
    let end = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '+' | '-')).unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(end)?;
    let (negative, digits) = match number.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let billionths: i128 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    let amount = whole.checked_mul(ONE)?.checked_add(billionths)?;
    let (times, over) = scale(suffix)?;
    let scaled = amount.checked_mul(times)? / over;
    Some(if negative { -scaled } else { scaled })
}

fn scale(suffix: &str) -> Option<(i128, i128)> {
    Some(match suffix {
        "" => (1, 1),
        "n" => (1, ONE),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "k" => (1_000, 1),
        "M" => (1_000_000, 1),
        "G" => (ONE, 1),
        "T" => (ONE * 1_000, 1),
        "P" => (ONE * 1_000_000, 1),
        "E" => (ONE * ONE, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        _ => {
            let power: u32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            (10_i128.checked_pow(power)?, 1)
        }
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{ONE, parse};

    #[test]
    fn quantities_compare_as_kubernetes_compares_them() {
        for (text, amount) in [
            ("1", ONE),
            ("0.5", ONE / 2),
            (".5", ONE / 2),
            ("500m", ONE / 2),
            ("1k", 1_000 * ONE),
            ("1Ki", 1_024 * ONE),
            ("1.5Gi", 1_610_612_736 * ONE),
            ("1e3", 1_000 * ONE),
            ("-2", -2 * ONE),
        ] {
            assert_eq!(parse(text), Some(amount), "{text}");
        }
        for text in ["", "x", "1X", "1.2.3", "1mm", "Ki"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
