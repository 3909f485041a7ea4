//! Closed sets of words that cross the wire as strings, and still read a word they do not know.

/// Declares an enum of words.
///
/// `listed`: the schema lists the words and the API server refuses others; `free`: any string is stored.
/// Either way an unknown word is read as `Other` and written back as it was.
macro_rules! words {
    ($(#[$meta:meta])* $mode:ident $name:ident {
        $($(#[$word_meta:meta])* $word:ident = $text:literal,)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$word_meta])* $word,)+
            /// A word of another writer, kept as it was read.
            Other(String),
        }

        impl $name {
            /// The word as it is on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$word => $text,)+
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$word,)+
                    other => Self::Other(other.to_owned()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                Ok(Self::from(text.as_ref()))
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::word::schema(stringify!($mode) == "listed", &[$($text),+])
            }
        }
    };
}

pub(crate) use words;

/// A string, of the listed words only when `listed`.
pub(crate) fn schema(listed: bool, words: &[&str]) -> schemars::Schema {
    if listed {
        schemars::json_schema!({ "type": "string", "enum": words })
    } else {
        schemars::json_schema!({ "type": "string" })
    }
}
