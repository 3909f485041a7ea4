//! Choices that a spec offers.

use crate::word::words;

words! {
    /// What happens to a Pod of a Pool when its sandbox ends.
    listed RecycleType {
        /// The Pod goes with the sandbox. The default.
        Delete = "Delete",
        /// Its containers are restarted and proven new before it is idle again.
        Restart = "Restart",
        /// It is handed back as it is.
        Noop = "Noop",
    }
}

words! {
    /// What happens to a sandbox whose Pod was lost.
    listed Recovery {
        /// Its state was lost: the sandbox fails and says why.
        Fail = "Fail",
        /// The same sandbox gets a new Pod, a bounded number of times.
        Replace = "Replace",
    }
}

words! {
    /// What happens at `expireTime`.
    listed ExpirePolicy {
        /// The sandbox is deleted. The default.
        Delete = "Delete",
        /// The sandbox is paused.
        Pause = "Pause",
    }
}

words! {
    /// What happens to a Pod when its task is done. The contract reads every other word as `Retain`.
    free TaskResourcePolicy {
        /// The Pod is kept. The default.
        Retain = "Retain",
        /// The Pod is handed back.
        Release = "Release",
    }
}

/// What a `poolRef` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolRef<'a> {
    /// Absent or `""`: Pods come from the template.
    Unset,
    /// `"*"`: any Pool of the namespace that fits.
    Any,
    /// The Pool of this name in the same namespace.
    Named(&'a str),
}

impl<'a> PoolRef<'a> {
    /// Reads the field.
    pub fn read(field: Option<&'a str>) -> Self {
        match field {
            None | Some("") => Self::Unset,
            Some("*") => Self::Any,
            Some(name) => Self::Named(name),
        }
    }
}
