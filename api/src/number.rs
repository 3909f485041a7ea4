//! Counts on the wire.

use serde::{Deserialize, Deserializer};

/// The largest count of a spec. The API server does not hold `int32` to its range by itself, so schemas say it.
pub(crate) const COUNT_MAX: i32 = i32::MAX;

/// Reads a count, cutting what is out of range: an object that was stored before the schema had a bound must not
/// fail the decoding of a list.
pub(crate) fn clamped<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Whole(i64),
        Other(f64),
    }
    Ok(match Number::deserialize(deserializer)? {
        Number::Whole(number) => number.clamp(0, i64::from(COUNT_MAX)) as i32,
        // `as` saturates, and reads what is no number as 0.
        Number::Other(number) => (number as i32).max(0),
    })
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
