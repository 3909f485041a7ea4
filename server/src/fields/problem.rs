//! What is wrong with an object that somebody wrote, and where.

use std::fmt;

/// What kind of mistake a [`Problem`] is; the words are those of the reference's 422 bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A required key is not there.
    Missing,
    /// The value has another type than the key asks for.
    Type,
    /// The type fits, the value does not.
    Value,
    /// The key is not known and this object is strict.
    Unknown,
}

impl Fault {
    /// The `type` of a detail entry.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Type => "type_error",
            Self::Value => "value_error",
            Self::Unknown => "extra_forbidden",
        }
    }
}

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What kind of mistake.
    pub fault: Fault,
    /// The keys that lead to it, outermost first; list positions are decimal numbers.
    pub path: Vec<String>,
    /// What is wrong, without the value.
    pub message: String,
}

impl Problem {
    /// `volumes[0].name`-like name of the key; empty for the whole object.
    #[must_use]
    pub fn key(&self) -> String {
        let mut out = String::new();
        for part in &self.path {
            if part.bytes().all(|b| b.is_ascii_digit()) {
                out.push_str(&format!("[{part}]"));
            } else {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(part);
            }
        }
        out
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key();
        if key.is_empty() { f.write_str(&self.message) } else { write!(f, "{key}: {}", self.message) }
    }
}
