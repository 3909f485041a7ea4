//! Times on the wire: RFC 3339 with any fraction and any offset.

use std::borrow::Cow;
use std::cmp::Ordering;

use k8s_openapi::jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in time with the text it came in, so that microseconds and offsets survive a round trip.
///
/// (`metav1.Time` of `k8s-openapi` writes whole seconds.) Two moments are equal when they are the same instant.
/// A text that is no time reads as [`Timestamp::MAX`]: nobody's sandbox is ended on a guess, and one bad object
/// does not fail a whole list. The schema refuses such a text on write.
#[derive(Clone, Debug)]
pub struct Moment {
    at: Timestamp,
    text: String,
}

impl Moment {
    /// The instant.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// The text as it is on the wire.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl From<Timestamp> for Moment {
    fn from(at: Timestamp) -> Self {
        Self { at, text: at.to_string() }
    }
}

impl From<String> for Moment {
    fn from(text: String) -> Self {
        Self { at: text.parse().unwrap_or(Timestamp::MAX), text }
    }
}

impl PartialEq for Moment {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at)
    }
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

impl JsonSchema for Moment {
    fn schema_name() -> Cow<'static, str> {
        "Moment".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Moment {
        serde_json::from_value(serde_json::json!(text)).unwrap()
    }

    #[test]
    fn microseconds_and_offsets_survive_a_round_trip() {
        for text in [
            "2026-11-30T10:00:00Z",
            "2026-11-30T10:00:00.123456Z",
            "2026-11-30T10:00:00.123456+00:00",
            "2026-11-30T18:00:00.123456789+08:00",
            "2026-11-29T22:30:00-11:30",
        ] {
            assert_eq!(serde_json::to_value(read(text)).unwrap(), serde_json::json!(text));
            assert_ne!(read(text).at(), Timestamp::MAX, "{text}");
        }
    }

    #[test]
    fn the_same_instant_in_another_offset_is_equal() {
        assert_eq!(read("2026-11-30T10:00:00Z"), read("2026-11-30T18:00:00.000+08:00"));
        assert!(read("2026-11-30T10:00:00Z") < read("2026-11-30T10:00:00.000001Z"));
    }

    #[test]
    fn a_text_that_is_no_time_never_comes_due_and_is_kept() {
        let moment = read("2026-11-30T10:00:00+99:99");
        assert_eq!(moment.at(), Timestamp::MAX);
        assert_eq!(moment.as_str(), "2026-11-30T10:00:00+99:99");
    }

    #[test]
    fn a_timestamp_is_written_with_its_microseconds() {
        let at: Timestamp = "2026-11-30T10:00:00.123456Z".parse().unwrap();
        assert_eq!(Moment::from(at).as_str(), "2026-11-30T10:00:00.123456Z");
    }
}
