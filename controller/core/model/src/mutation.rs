//! The protocol, broken on purpose: one rule at a time.

use crate::write::Kind;

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutation {
    /// Pods and claims are listed before our token stands.
    H1,
    /// Idle Pods are deleted without a retirement in the ledger.
    H2,
    /// Pods are not named by slots.
    H3,
    /// Pods are owned by the Pool.
    H4Owner,
    /// At the Pool's end open claims are not told before its Pods end.
    H4Fence,
    /// Absence in a store is taken for an end.
    H5,
    /// Clean is what has no marks.
    H6,
    /// The still-mine rule is not asked for claims.
    H7,
    /// The still-mine rule is not asked for Pods.
    H8,
    /// Withdrawing deletes the Pod after a look.
    H9,
    /// All processes have the same token, so taking over writes nothing.
    H10,
    /// A create is answered from the ledger.
    H11,
    /// Dead idle Pods are left.
    H12,
    /// A DELETED event of the Pods' watch is a proof.
    H13,
    /// The answer of an own write is as good as a confirmed version.
    H14,
    /// The Pool's end leaves released Pods.
    H15,
    /// A deletion goes by name.
    DeleteByName,
    /// Writes of this kind are not versioned.
    Unversioned(Kind),
    /// Claims that are in no store are gone.
    AbsentClaimIsGone,
    /// A relabelled Pod keeps its clean mark.
    RelabelKeepsWarm,
    /// A Pod is re-adopted without a live read of its claim.
    ReadoptUnread,
    /// A released Pod ends without a live read of its claim.
    ReleaseUnread,
    /// Entries leave the ledger at delivery, before adoption.
    SettleAtDelivery,
    /// The youngest claim is served first.
    YoungestFirst,
    /// After an uncertain commit the Pool is not read.
    CommitUnread,
    /// Taking over proves what was listed under the old token.
    TakeOverKeepsProof,
    /// A write under way does not hold its object.
    NotBusy,
    /// Adoption leaves the clean mark.
    AdoptKeepsWarm,
    /// A Pod of a gone claim that was promised goes back.
    PutBack,
    /// The Pool's end does not list claims first.
    EndUnlisted,
    /// An anchor goes without a live list of the Pods that it owns.
    AnchorUnlisted,
    /// The Pool is proven to be ours by a read while its ledger is being written.
    ProveWhileCommitting,
    /// A claim's own report counts as told while the Pool is only being deleted.
    TellEarly,
}

impl Mutation {
    /// Whether writes of this kind lose their version under it.
    #[must_use]
    pub fn unversions(self, kind: Kind) -> bool {
        self == Self::Unversioned(kind)
    }
}

/// The `breaks` of a rule without which nothing breaks in its world, explored to the end: others cover it there.
pub const NOTHING: &str = "nothing";

/// A mutation to be caught: its name, the invariant that it breaks, and where.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// For `--trace`.
    pub name: &'static str,
    /// What is left out.
    pub mutation: Mutation,
    /// The invariant that breaks first.
    pub breaks: &'static str,
    /// The world in which it shows.
    pub world: &'static str,
}

const fn case(name: &'static str, mutation: Mutation, breaks: &'static str, world: &'static str) -> Case {
    Case { name, mutation, breaks, world }
}

/// Every hole of the first version, and every precondition and ordering of this one.
pub const CASES: &[Case] = &[
    case("H1", Mutation::H1, "I6", "takeover"),
    case("H2", Mutation::H2, "I6", "scale"),
    case("H3", Mutation::H3, "I3", "create"),
    case("H4-owner", Mutation::H4Owner, "I6", "alone-pool"),
    case("H4-fence", Mutation::H4Fence, "I6", "alone-pool"),
    case("H5", Mutation::H5, "I6", "strips"),
    case("H6", Mutation::H6, "I1", "strips-and-ends"),
    case("H7", Mutation::H7, "I6", "replicas"),
    case("H8", Mutation::H8, "I6", "strips"),
    case("H9", Mutation::H9, "I6", "alone-replicas"),
    case("H10", Mutation::H10, "I6", "takeover"),
    case("H11", Mutation::H11, "I6", "alone-pool"),
    case("H12", Mutation::H12, "I5", "alone-ends"),
    case("H13", Mutation::H13, "I6", "alone-strips"),
    case("H14", Mutation::H14, "I6", "strips-and-ends"),
    case("H15", Mutation::H15, "I5", "pool-twice"),
    case("delete-by-name", Mutation::DeleteByName, "I6", "alone-ends"),
    case("commit-unversioned", Mutation::Unversioned(Kind::Commit), "I6", "takeover"),
    case("deliver-unversioned", Mutation::Unversioned(Kind::Deliver), "I6", "alone-replicas"),
    case("record-unversioned", Mutation::Unversioned(Kind::RecordUndelivered), "I6", "replaced"),
    case("follow-unversioned", Mutation::Unversioned(Kind::Follow), "I6", "replaced"),
    case("release-unversioned", Mutation::Unversioned(Kind::Release), "I6", "replicas"),
    case("fence-unversioned", Mutation::Unversioned(Kind::Fence), "I6", "pool"),
    case("expire-unversioned", Mutation::Unversioned(Kind::Expire), "I4", "deadline"),
    case("adopt-unversioned", Mutation::Unversioned(Kind::Adopt), NOTHING, "alone-recycles"),
    case("readopt-unversioned", Mutation::Unversioned(Kind::Readopt), NOTHING, "alone-recycles"),
    case("end-committed-unversioned", Mutation::Unversioned(Kind::EndCommitted), "I6", "recycles"),
    case("end-released-unversioned", Mutation::Unversioned(Kind::EndReleased), "I6", "recycles"),
    case("end-unclaimed-unversioned", Mutation::Unversioned(Kind::EndUnclaimed), NOTHING, "alone-pool"),
    case("hand-back-unversioned", Mutation::Unversioned(Kind::HandBack), "I2", "recycles"),
    case("absent-claim-is-gone", Mutation::AbsentClaimIsGone, NOTHING, "takeover"),
    case("relabel-keeps-warm", Mutation::RelabelKeepsWarm, NOTHING, "alone-strips-and-ends"),
    case("readopt-unread", Mutation::ReadoptUnread, NOTHING, "alone-strips-and-ends"),
    case("release-unread", Mutation::ReleaseUnread, NOTHING, "alone-strips-and-ends"),
    case("settle-at-delivery", Mutation::SettleAtDelivery, "I2", "replicas"),
    case("youngest-first", Mutation::YoungestFirst, "I5", "takeover"),
    case("commit-unread", Mutation::CommitUnread, NOTHING, "unwritten"),
    case("take-over-keeps-proof", Mutation::TakeOverKeepsProof, NOTHING, "takeover"),
    case("not-busy", Mutation::NotBusy, NOTHING, "alone-replicas"),
    case("adopt-keeps-warm", Mutation::AdoptKeepsWarm, "I5", "alone-replicas"),
    case("put-back", Mutation::PutBack, "I2", "alone-ends"),
    case("end-unlisted", Mutation::EndUnlisted, "I6", "pool-late"),
    case("anchor-unlisted", Mutation::AnchorUnlisted, "I6", "alone-pool"),
    case("tell-early", Mutation::TellEarly, "I6", "alone-pool"),
    case("prove-while-committing", Mutation::ProveWhileCommitting, "I6", "alone-replicas"),
];
