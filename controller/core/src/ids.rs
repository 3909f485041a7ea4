//! What things are called: a uid that decides, and a name to address it by.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use sandbox_api::ledger::{ClaimKind, ClaimRef, PodRef};

/// A Pod. Compared by uid alone: names are used again.
#[derive(Clone, Debug)]
pub struct PodKey {
    /// Never names two Pods.
    pub uid: Arc<str>,
    /// Its name in the Pool's or claim's namespace.
    pub name: Arc<str>,
}

impl PodKey {
    /// From uid and name.
    #[must_use]
    pub fn new(uid: &str, name: &str) -> Self {
        Self { uid: uid.into(), name: name.into() }
    }

    /// As the ledger has it.
    #[must_use]
    pub fn from_ref(pod: &PodRef) -> Self {
        Self::new(&pod.uid, &pod.name)
    }

    /// As the ledger has it.
    #[must_use]
    pub fn to_ref(&self) -> PodRef {
        PodRef { name: self.name.to_string(), uid: self.uid.to_string() }
    }
}

/// A claim. Compared by uid alone.
#[derive(Clone, Debug)]
pub struct ClaimKey {
    /// Never names two claims.
    pub uid: Arc<str>,
    /// Which kind; only to address it.
    pub kind: ClaimKind,
    /// Its name; empty where only the uid is known.
    pub name: Arc<str>,
}

impl ClaimKey {
    /// `Kind/name/uid`, as the ledger and a Pod's annotation write it.
    #[must_use]
    pub fn address(&self) -> String {
        ClaimRef { kind: self.kind, name: self.name.to_string(), uid: self.uid.to_string() }.to_string()
    }

    /// Reads what [`ClaimKey::address`] writes.
    #[must_use]
    pub fn parse(address: &str) -> Option<Self> {
        let ClaimRef { kind, name, uid } = address.parse().ok()?;
        Some(Self { uid: uid.into(), kind, name: name.into() })
    }

    /// A claim of which only the uid is known, as on a Pod's label: enough to look it up, not to read it live.
    #[must_use]
    pub fn by_uid(uid: &str) -> Self {
        Self { uid: uid.into(), kind: ClaimKind::BatchSandbox, name: "".into() }
    }
}

macro_rules! compared_by_uid {
    ($($key:ty),*) => {$(
        impl PartialEq for $key {
            fn eq(&self, other: &Self) -> bool { self.uid == other.uid }
        }
        impl Eq for $key {}
        impl PartialOrd for $key {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> { Some(self.cmp(other)) }
        }
        impl Ord for $key {
            fn cmp(&self, other: &Self) -> Ordering { self.uid.cmp(&other.uid) }
        }
        impl Hash for $key {
            fn hash<H: Hasher>(&self, state: &mut H) { self.uid.hash(state); }
        }
    )*};
}
compared_by_uid!(PodKey, ClaimKey);
