//! The strings of a Pool's ledger (`Pool.status.grants` and `.retiring`).
//!
//! Strings and not objects: a thousand grants as objects cost several times as much per patch.

use std::fmt;
use std::str::FromStr;

/// A string of the ledger that cannot be read: kept with its text for the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable(pub String);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ledger entry {:?} cannot be read", self.0)
    }
}

impl std::error::Error for Unreadable {}

/// The kinds that claim Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ClaimKind {
    /// A [`crate::BatchSandbox`].
    BatchSandbox,
    /// A [`crate::Sandbox`].
    Sandbox,
}

impl ClaimKind {
    /// The kind's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BatchSandbox => "BatchSandbox",
            Self::Sandbox => "Sandbox",
        }
    }
}

impl fmt::Display for ClaimKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whose grant it is: `Kind/name/uid`, in the Pool's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimRef {
    /// The claim's kind.
    pub kind: ClaimKind,
    /// The claim's name.
    pub name: String,
    /// The claim's uid.
    pub uid: String,
}

impl fmt::Display for ClaimRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind, self.name, self.uid)
    }
}

impl FromStr for ClaimRef {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        let unreadable = || Unreadable(text.to_owned());
        let (kind, rest) = text.split_once('/').ok_or_else(unreadable)?;
        let kind = match kind {
            "BatchSandbox" => ClaimKind::BatchSandbox,
            "Sandbox" => ClaimKind::Sandbox,
            _ => return Err(unreadable()),
        };
        let PodRef { name, uid } = rest.parse().map_err(|Unreadable(_)| unreadable())?;
        Ok(Self { kind, name, uid })
    }
}

/// A Pod: `name/uid`, in the Pool's namespace. The form of a retirement.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodRef {
    /// The Pod's name.
    pub name: String,
    /// The Pod's uid.
    pub uid: String,
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.uid)
    }
}

impl FromStr for PodRef {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        match text.split_once('/') {
            Some((name, uid)) if !name.is_empty() && !uid.is_empty() && !uid.contains('/') => {
                Ok(Self { name: name.to_owned(), uid: uid.to_owned() })
            }
            Some(_) | None => Err(Unreadable(text.to_owned())),
        }
    }
}

/// A Pod granted to one index of a claim: `index:name/uid`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GrantedPod {
    /// The claim's index, from 0.
    pub index: u32,
    /// The Pod.
    pub pod: PodRef,
}

impl fmt::Display for GrantedPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.index, self.pod)
    }
}

impl FromStr for GrantedPod {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        let unreadable = || Unreadable(text.to_owned());
        let (index, pod) = text.split_once(':').ok_or_else(unreadable)?;
        Ok(Self {
            index: index.parse().map_err(|_| unreadable())?,
            pod: pod.parse().map_err(|Unreadable(_)| unreadable())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_read_as_it_was_written() {
        let claim = "BatchSandbox/ci-1/7f3a";
        assert_eq!(claim.parse::<ClaimRef>().unwrap().to_string(), claim);
        let claim = "Sandbox/ci.x/7f3a";
        assert_eq!(claim.parse::<ClaimRef>().unwrap().kind, ClaimKind::Sandbox);
        assert_eq!("12:ci-pod-ab12c-3/u".parse::<GrantedPod>().unwrap().to_string(), "12:ci-pod-ab12c-3/u");
        assert_eq!("ci-pod-ab12c-3/u".parse::<PodRef>().unwrap().to_string(), "ci-pod-ab12c-3/u");
    }

    #[test]
    fn an_entry_that_cannot_be_read_says_which() {
        for text in ["", "Pool/x/y", "BatchSandbox/x", "BatchSandbox//u"] {
            assert_eq!(text.parse::<ClaimRef>(), Err(Unreadable(text.into())));
        }
        for text in ["", "p/u", "x:p/u", "1:p", "-1:p/u"] {
            assert_eq!(text.parse::<GrantedPod>(), Err(Unreadable(text.into())));
        }
    }
}
