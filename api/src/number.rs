//! Counts on the wire.

use serde::{Deserialize, Deserializer};

/// The largest count of a spec. The API server does not hold `int32` to its range by itself, so schemas say it.
pub(crate) const COUNT_MAX: i32 = i32::MAX;

/// Reads a count, cutting what is out of range: an object that was stored before the schema had a bound must not
/// fail the decoding of a list.
pub(crate) fn clamped<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    let number = serde_json::Number::deserialize(deserializer)?;
    Ok(whole(&number).clamp(0, i64::from(COUNT_MAX)) as i32)
}

/// A number without its fraction; the nearest bound when it is out of range.
pub(crate) fn whole(number: &serde_json::Number) -> i64 {
    // `as` saturates, and reads what is no number as 0.
    number.as_i64().unwrap_or_else(|| number.as_f64().unwrap_or_default() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_out_of_range_is_cut_and_not_an_error() {
        for (text, count) in
            [("3", 3), ("3.0", 3), ("-1", 0), ("5000000000", i32::MAX), ("1e30", i32::MAX), ("-1e30", 0)]
        {
            assert_eq!(clamped(&mut serde_json::Deserializer::from_str(text)).unwrap(), count, "{text}");
        }
    }
}
