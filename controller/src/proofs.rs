//! What live reads proved.
//!
//! Absence in a store proves nothing; a GET that answers 404 or another uid
//! does, and so does a Pod seen terminating or ended. Both last for ever, so
//! the proof may be acted on later.

use std::collections::{HashSet, VecDeque};
use std::sync::{PoisonError, RwLock};

/// How many proofs are kept. An older one is simply found out again.
const REMEMBERED: usize = 65_536;

/// Uids proven gone (claims, Pools, Pods) or dead (Pods).
#[derive(Debug, Default)]
pub struct Proofs {
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    gone: Bounded,
    dead: Bounded,
}

#[derive(Debug, Default)]
struct Bounded {
    known: HashSet<Box<str>>,
    order: VecDeque<Box<str>>,
}

impl Bounded {
    fn insert(&mut self, uid: &str) {
        if !self.known.insert(uid.into()) {
            return;
        }
        self.order.push_back(uid.into());
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

impl Proofs {
    /// A live read answered 404 or another uid for this object.
    pub fn gone(&self, uid: &str) {
        self.inner.write().unwrap_or_else(PoisonError::into_inner).gone.insert(uid);
    }

    /// This Pod was seen terminating or ended.
    pub fn dead(&self, uid: &str) {
        self.inner.write().unwrap_or_else(PoisonError::into_inner).dead.insert(uid);
    }

    /// Whether the object is proven gone.
    pub fn is_gone(&self, uid: &str) -> bool {
        self.inner.read().unwrap_or_else(PoisonError::into_inner).gone.known.contains(uid)
    }

    /// Whether the Pod is proven gone, terminating or ended.
    pub fn is_dead(&self, uid: &str) -> bool {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.dead.known.contains(uid) || inner.gone.known.contains(uid)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn gone_is_dead_but_dead_is_not_gone() {
        let proofs = Proofs::default();
        proofs.gone("a");
        proofs.dead("b");
        assert!(proofs.is_gone("a") && proofs.is_dead("a"));
        assert!(!proofs.is_gone("b") && proofs.is_dead("b"));
    }

    #[test]
    fn the_number_of_proofs_is_bounded() {
        let proofs = Proofs::default();
        for i in 0..=REMEMBERED {
            proofs.gone(&i.to_string());
        }
        assert!(!proofs.is_gone("0") && proofs.is_gone("1"));
    }
}
