//! Uids that were removed, and up to which version.
//!
//! An answer or event that is late must not bring a removed object back. A
//! version as new as the removal may: a label-selected watch reports the edit
//! that took the label off as a removal, with that edit's version, and a live
//! read of the object shows that very version. An object that was really
//! deleted had only older ones.

use std::collections::{HashMap, VecDeque};

use super::Source;

/// How many removals are remembered. Late answers are at most a call timeout
/// late, in which far fewer objects end.
const REMEMBERED: usize = 65_536;

#[derive(Default)]
pub(super) struct Burials {
    until: HashMap<Box<str>, u64>,
    order: VecDeque<Box<str>>,
}

impl Burials {
    /// Versions of `uid` below `version` are refused from now on.
    pub(super) fn bury(&mut self, uid: &str, version: u64) {
        if let Some(until) = self.until.get_mut(uid) {
            *until = version.max(*until);
            return;
        }
        if self.order.len() >= REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.until.remove(&oldest);
        }
        self.until.insert(uid.into(), version);
        self.order.push_back(uid.into());
    }

    /// Whether this version of `uid` was removed. A version that is no number
    /// cannot be shown to be newer than the removal.
    pub(super) fn covers(&self, uid: &str, version: Option<u64>, source: Source) -> bool {
        let Some(until) = self.until.get(uid) else { return false };
        match source {
            Source::Watch | Source::Answer { .. } => version.is_none_or(|version| version < *until),
            Source::Deletion { .. } => version.is_none_or(|version| version <= *until),
        }
    }
}
