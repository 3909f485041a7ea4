//! Which Pod serves which index of a BatchSandbox, as one compact string per index.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The Pod of one sandbox index.
///
/// On the wire a string, since a thousand objects in one status cost the API server several times as much:
/// `""` open, `name/uid/ip` named (the ip may be empty), `name/uid/ip/ready` named and ready, `lost:uid` lost,
/// `undelivered:uid` open again.
/// Parts after those are ignored, so that a later version may add some.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum SandboxSlot {
    /// No Pod yet.
    #[default]
    Open,
    /// This Pod is the sandbox.
    Named {
        /// The Pod's name.
        name: String,
        /// The Pod's uid: names are reused, everything goes by uid.
        uid: String,
        /// The Pod's IP, once it has one.
        ip: Option<String>,
        /// Whether the Pod is Ready.
        ready: bool,
    },
    /// The Pod that served this index was lost. Whether the index gets another one is the claim's `recovery`.
    Lost {
        /// The lost Pod's uid, never to be named here again.
        uid: String,
    },
    /// A Pod was promised to this index and died before it was given: nobody ever had it, so the index is open as if nothing
    /// had been. Written down so that a delivery still on its way is refused.
    Undelivered {
        /// The dead Pod's uid, never to be named here.
        uid: String,
    },
}

impl SandboxSlot {
    /// The uid of the Pod named here.
    pub fn named_uid(&self) -> Option<&str> {
        match self {
            Self::Named { uid, .. } => Some(uid),
            Self::Open | Self::Lost { .. } | Self::Undelivered { .. } => None,
        }
    }

    /// The name of the Pod named here.
    pub fn named(&self) -> Option<&str> {
        match self {
            Self::Named { name, .. } => Some(name),
            Self::Open | Self::Lost { .. } | Self::Undelivered { .. } => None,
        }
    }

    /// Whether this index has no Pod.
    pub fn is_open(&self) -> bool {
        match self {
            Self::Open | Self::Lost { .. } | Self::Undelivered { .. } => true,
            Self::Named { .. } => false,
        }
    }
}

impl fmt::Display for SandboxSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => Ok(()),
            Self::Named { name, uid, ip, ready } => {
                let ready = if *ready { "/ready" } else { "" };
                write!(f, "{name}/{uid}/{}{ready}", ip.as_deref().unwrap_or_default())
            }
            Self::Lost { uid } => write!(f, "lost:{uid}"),
            Self::Undelivered { uid } => write!(f, "undelivered:{uid}"),
        }
    }
}

/// Total: a text of none of these forms is a Pod that nobody can name, hence lost.
impl From<&str> for SandboxSlot {
    fn from(text: &str) -> Self {
        if text.is_empty() {
            return Self::Open;
        }
        if let Some(uid) = text.strip_prefix("lost:") {
            return Self::Lost { uid: uid.to_owned() };
        }
        if let Some(uid) = text.strip_prefix("undelivered:") {
            return Self::Undelivered { uid: uid.to_owned() };
        }
        let mut parts = text.split('/');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(name), Some(uid), ip, ready) if !name.is_empty() && !uid.is_empty() => Self::Named {
                name: name.to_owned(),
                uid: uid.to_owned(),
                ip: ip.filter(|ip| !ip.is_empty()).map(str::to_owned),
                ready: ready == Some("ready"),
            },
            _ => Self::Lost { uid: text.to_owned() },
        }
    }
}

impl Serialize for SandboxSlot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SandboxSlot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Ok(Self::from(text.as_ref()))
    }
}

impl JsonSchema for SandboxSlot {
    fn schema_name() -> Cow<'static, str> {
        "SandboxSlot".into()
    }

    fn inline_schema() -> bool {
        true
    }

    // No pattern: with one a status of a thousand slots cost the API server 37 ms instead of 21 (best of 40).
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "One sandbox: \"\" waits for a Pod, \"pod/uid/ip\" has one (\"pod/uid/ip/ready\" when Ready), \"lost:uid\" lost it, \"undelivered:uid\" waits for another since that one died before it was given.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(ip: Option<&str>, ready: bool) -> SandboxSlot {
        SandboxSlot::Named { name: "p-0".into(), uid: "u-1".into(), ip: ip.map(str::to_owned), ready }
    }

    #[test]
    fn every_slot_is_read_as_it_was_written() {
        for (slot, text) in [
            (SandboxSlot::Open, ""),
            (named(None, false), "p-0/u-1/"),
            (named(Some("10.0.0.1"), false), "p-0/u-1/10.0.0.1"),
            (named(Some("fd00::1"), true), "p-0/u-1/fd00::1/ready"),
            (named(None, true), "p-0/u-1//ready"),
            (SandboxSlot::Lost { uid: "u-1".into() }, "lost:u-1"),
            (SandboxSlot::Undelivered { uid: "u-1".into() }, "undelivered:u-1"),
        ] {
            assert_eq!(slot.to_string(), text);
            assert_eq!(SandboxSlot::from(text), slot);
            assert_eq!(serde_json::to_value(&slot).unwrap(), serde_json::json!(text));
        }
    }

    #[test]
    fn a_part_that_a_later_version_added_is_ignored() {
        assert_eq!(SandboxSlot::from("p-0/u-1/10.0.0.1/ready/zone-a"), named(Some("10.0.0.1"), true));
    }

    #[test]
    fn a_text_that_names_no_pod_is_never_an_open_slot_nor_a_pod() {
        for text in ["x", "/", "//", "a//10.0.0.1"] {
            assert_eq!(SandboxSlot::from(text), SandboxSlot::Lost { uid: text.into() });
        }
    }
}
