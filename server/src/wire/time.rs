//! Timestamps: read as leniently as the reference reads them, written as it writes them.

use k8s_openapi::jiff::civil::DateTime;
use k8s_openapi::jiff::tz::TimeZone;
use k8s_openapi::jiff::{Timestamp, fmt::temporal::DateTimeParser};
use serde_json::Value;

/// A timestamp of a request: RFC 3339 with any offset, a local one taken as UTC, or epoch seconds.
/// Fractions beyond microseconds are cut off.
#[must_use]
pub fn read(value: &Value) -> Option<Timestamp> {
    let read = match value {
        Value::String(text) => read_text(text.trim()),
        Value::Number(n) => from_epoch(n.as_f64()?),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    read.and_then(to_micros)
}

fn read_text(text: &str) -> Option<Timestamp> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    if let Ok(number) = text.parse::<f64>() {
        return from_epoch(number);
    }
    PARSER.parse_timestamp(text).ok().or_else(|| {
        let local: DateTime = text.parse().ok()?;
        Some(local.to_zoned(TimeZone::UTC).ok()?.timestamp())
    })
}

fn from_epoch(seconds: f64) -> Option<Timestamp> {
    // As the reference does: numbers too large for seconds are milliseconds.
    let seconds = if seconds.abs() > 2e10 { seconds / 1000.0 } else { seconds };
    let micros = (seconds * 1e6).round();
    if micros.is_finite() { Timestamp::from_microsecond(micros as i64).ok() } else { None }
}

fn to_micros(at: Timestamp) -> Option<Timestamp> {
    Timestamp::from_microsecond(at.as_microsecond()).ok()
}

/// The current time at microsecond precision.
#[must_use]
pub fn now() -> Timestamp {
    let now = Timestamp::now();
    to_micros(now).unwrap_or(now)
}

fn digits(at: Timestamp) -> String {
    let civil = TimeZone::UTC.to_datetime(at);
    let whole = civil.strftime("%Y-%m-%dT%H:%M:%S");
    match at.subsec_microsecond_floor() {
        0 => whole.to_string(),
        micros => format!("{whole}.{micros:06}"),
    }
}

trait Micros {
    fn subsec_microsecond_floor(&self) -> i64;
}

impl Micros for Timestamp {
    fn subsec_microsecond_floor(&self) -> i64 {
        self.as_microsecond().rem_euclid(1_000_000)
    }
}

/// A timestamp of an answer: `2026-11-30T18:56:27.578058Z`, the fraction only if there is one.
#[must_use]
pub fn answer(at: Timestamp) -> String {
    format!("{}Z", digits(at))
}

/// A timestamp in a custom resource, in the reference's spelling: `+00:00` instead of `Z`.
#[must_use]
pub fn resource(at: Timestamp) -> String {
    format!("{}+00:00", digits(at))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_spelling_that_the_reference_reads_is_read() {
        let spellings = [
            json!("2030-01-01T02:00:00+02:00"),
            json!("2030-01-01T00:00:00Z"),
            json!("2030-01-01T00:00:00"),
            json!("2030-01-01 00:00:00Z"),
            json!(1_893_456_000),
            json!("1893456000"),
        ];
        for spelling in spellings {
            assert_eq!(read(&spelling).map(answer).as_deref(), Some("2030-01-01T00:00:00Z"), "{spelling}");
        }
        assert_eq!(
            read(&json!("2030-01-01T00:00:00.123456789Z")).map(answer).as_deref(),
            Some("2030-01-01T00:00:00.123456Z")
        );
        for wrong in [json!("tomorrow"), json!(true), json!({})] {
            assert_eq!(read(&wrong), None);
        }
    }

    #[test]
    fn a_deadline_is_written_as_the_reference_writes_it() {
        let at = read(&json!("2026-11-30T18:56:27.578058Z")).unwrap();
        assert_eq!(resource(at), "2026-11-30T18:56:27.578058+00:00");
        let at = read(&json!("2026-11-30T18:56:27Z")).unwrap();
        assert_eq!(resource(at), "2026-11-30T18:56:27+00:00");
    }
}
