//! The invariants of the protocol, as what is seen when one is broken.

/// A broken invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Breach {
    /// A Pod was delivered to a second claim without being handed back.
    I1DeliveredTwice,
    /// A ledger promises a Pod twice.
    I1PromisedTwice,
    /// A used Pod was marked clean while its claim lives.
    I2CleanWhileInUse,
    /// A used Pod would be promised again: clean, named by nobody, in no entry.
    I2CountsAsClean,
    /// More Pods than `poolMax`.
    I3TooManyPods,
    /// A claim ended whose deadline had been moved.
    I4EndedAtAnOldDeadline,
    /// A younger claim was served before an older one.
    I5NotOldestFirst,
    /// At rest a claim waits that could be met.
    I5Unmet,
    /// At rest a claim of a Pool that is gone was not told.
    I5NotTold,
    /// At rest the ledger holds entries.
    I5LedgerNotDrained,
    /// At rest a Pod is left that nobody owns.
    I5NobodysPod,
    /// Without faults there is no rest.
    I5NoRest,
    /// We ended a Pod that a claim names.
    I6EndedInUse,
    /// We ended a Pod that is promised to a live claim.
    I6EndedWhilePromised,
    /// The collector ended a Pod that a live claim names.
    I6CollectedInUse,
    /// A Pod was delivered after we had ended it.
    I6DeliveredAfterWeEndedIt,
    /// A healthy Pod was un-named though its claim wants it.
    I6TakenFromItsClaim,
    /// A healthy Pod was declared lost.
    I6HealthyDeclaredLost,
}

impl Breach {
    /// The invariant's number.
    #[must_use]
    pub const fn invariant(self) -> &'static str {
        match self {
            Self::I1DeliveredTwice | Self::I1PromisedTwice => "I1",
            Self::I2CleanWhileInUse | Self::I2CountsAsClean => "I2",
            Self::I3TooManyPods => "I3",
            Self::I4EndedAtAnOldDeadline => "I4",
            Self::I5NotOldestFirst
            | Self::I5Unmet
            | Self::I5NotTold
            | Self::I5LedgerNotDrained
            | Self::I5NobodysPod
            | Self::I5NoRest => "I5",
            Self::I6EndedInUse
            | Self::I6EndedWhilePromised
            | Self::I6CollectedInUse
            | Self::I6DeliveredAfterWeEndedIt
            | Self::I6TakenFromItsClaim
            | Self::I6HealthyDeclaredLost => "I6",
        }
    }
}
