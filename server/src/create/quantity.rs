//! Resource quantities of a sandbox's main container.

use std::collections::BTreeMap;

use crate::error::{ApiError, Code};

/// The contract's short name for the one accelerator that it knows.
const GPU: &str = "gpu";
const NVIDIA_GPU: &str = "nvidia.com/gpu";

/// Checks a map of quantities before any object exists; `gpu` becomes the resource it means.
pub(super) fn read(field: &str, map: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, ApiError> {
    let mut out = BTreeMap::new();
    for (name, quantity) in map {
        let quantity = quantity.trim();
        if name == GPU {
            if let Some(count) = gpus(field, quantity)? {
                out.insert(NVIDIA_GPU.to_owned(), count);
            }
            continue;
        }
        if !is_quantity(quantity) {
            let message = format!("{field}.{name} is no quantity: write it like 500m, 2, 512Mi or 4Gi");
            return Err(ApiError::bad(Code::InvalidParameter, message));
        }
        out.insert(name.clone(), quantity.to_owned());
    }
    Ok(out)
}

fn gpus(field: &str, text: &str) -> Result<Option<String>, ApiError> {
    if text == "all" {
        let message = format!("{field}.gpu must be a number on Kubernetes, not \"all\"");
        return Err(ApiError::bad(Code::InvalidParameter, message));
    }
    // The contract: a count that is none, or cannot be read, asks for none.
    Ok(text.parse::<u32>().ok().filter(|n| *n > 0).map(|n| n.to_string()))
}

/// Whether Kubernetes reads a text as a quantity that is not negative.
fn is_quantity(text: &str) -> bool {
    let text = text.strip_prefix('+').unwrap_or(text);
    let digits_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits_end);
    let dots = number.bytes().filter(|b| *b == b'.').count();
    if dots > 1 || !number.bytes().any(|b| b.is_ascii_digit()) {
        return false;
    }
    match suffix {
        "" | "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E" | "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei" => true,
        exponent => {
            let digits = exponent.strip_prefix(['e', 'E']).unwrap_or_default();
            let digits = digits.strip_prefix(['+', '-']).unwrap_or(digits);
            !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_quantity;

    #[test]
    fn quantities_are_told_from_words() {
        for good in ["1", "500m", "0.5", ".5", "2.", "4Gi", "1e3", "1E-2", "100k", "+1"] {
            assert!(is_quantity(good), "{good}");
        }
        for bad in ["", "banana", "1 Gi", "-1", "1.2.3", "Gi", "1gi", "1e", "."] {
            assert!(!is_quantity(bad), "{bad}");
        }
    }
}
