//! What a transition is called: for traces, and for the witness of what was reached.

use crate::write::Kind;

/// Who acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// A process.
    Leader(u8),
    /// Kubelet, collector, watch.
    Cluster,
    /// A user.
    User,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// A request is sent, carried out and answered.
    Done(Kind),
    /// A request is sent and refused; the object is read.
    Refused(Kind),
    /// A request is dropped since a live read forbids it.
    Forbidden(Kind),
    /// A request sets out.
    Sent(Kind),
    /// The live read that it waits for allows it.
    Checked(Kind),
    /// The request under way is carried out and answered.
    Landed(Kind),
    /// The request under way is refused.
    Bounced(Kind),
    /// The request under way is carried out, its answer is lost.
    AnswerLost(Kind),
    /// The request under way never arrives.
    RequestLost(Kind),
    /// The request of a process that is no more is carried out.
    OrphanLanded(Kind),
    /// The request of a process that is no more is refused or never arrives.
    OrphanGone(Kind),
    /// The object of an uncertain or refused request is read.
    Reread(Kind),
    /// Live GET of a Pod.
    ProvePod,
    /// Live GET of a Pod that left the watch.
    AskAfter,
    /// Live GET of a claim.
    ProveClaim,
    /// Live GET of the Pool.
    ProvePool,
    /// Live LIST of the claims, at the Pool's end.
    ListClaims,
    /// Our token is written.
    Swapped,
    /// Pods are listed after it.
    PodsListed,
    /// Claims are listed after it.
    ClaimsListed,
    /// A process starts.
    Started,
    /// A process ends.
    Crashed,
    /// The watch shows a Pod.
    SeesPod,
    /// The watch shows that a Pod left it.
    MissesPod,
    /// The watch shows a claim.
    SeesClaim,
    /// The watch shows the Pool.
    SeesPool,
    /// A terminating Pod is gone.
    PodEnds,
    /// The collector ends a Pod whose owner is gone.
    Collected,
    /// A claim that was being deleted is gone.
    ClaimEnds,
    /// A Pool that was being deleted is gone.
    PoolEnds,
    /// A claim is created.
    NewClaim,
    /// A Pod ends by itself.
    PodDies,
    /// A Pod is deleted.
    DeletesPod,
    /// A claim is deleted.
    DeletesClaim,
    /// A claim is deleted, its dependents first.
    DeletesClaimForeground,
    /// The Pool is deleted.
    DeletesPool,
    /// The Pool is deleted, its dependents first.
    DeletesPoolForeground,
    /// A Pod's watch label is taken off.
    StripsWatch,
    /// A Pod's claim labels are taken off.
    StripsLabel,
    /// A Pod's owner is taken off.
    StripsOwner,
    /// A Pod's clean mark is taken off.
    StripsWarm,
    /// All marks of a Pod are taken off.
    StripsAll,
    /// Replicas are lowered.
    Lowers,
    /// Replicas are raised.
    Raises,
    /// The status of a claim is emptied.
    ClearsStatus,
    /// A promised Pod is recorded lost by hand.
    WritesLost,
    /// A deadline is moved.
    Renews,
}

/// A transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    /// Who.
    pub who: Who,
    /// What.
    pub verb: Verb,
    /// To which Pod, claim or slot.
    pub target: u8,
}

/// Every transition that some world must take: each fault, each read, each write that is done, refused, delayed or lost.
#[must_use]
pub fn required() -> Vec<Verb> {
    let mut all = vec![
        Verb::ProvePod,
        Verb::AskAfter,
        Verb::ProveClaim,
        Verb::ProvePool,
        Verb::ListClaims,
        Verb::Swapped,
        Verb::PodsListed,
        Verb::ClaimsListed,
        Verb::Started,
        Verb::Crashed,
        Verb::SeesPod,
        Verb::MissesPod,
        Verb::SeesClaim,
        Verb::SeesPool,
        Verb::PodEnds,
        Verb::Collected,
        Verb::ClaimEnds,
        Verb::PoolEnds,
        Verb::NewClaim,
        Verb::PodDies,
        Verb::DeletesPod,
        Verb::DeletesClaim,
        Verb::DeletesClaimForeground,
        Verb::DeletesPool,
        Verb::DeletesPoolForeground,
        Verb::StripsWatch,
        Verb::StripsLabel,
        Verb::StripsOwner,
        Verb::StripsWarm,
        Verb::StripsAll,
        Verb::Lowers,
        Verb::Raises,
        Verb::ClearsStatus,
        Verb::WritesLost,
        Verb::Renews,
        Verb::Forbidden(Kind::Readopt),
        Verb::Forbidden(Kind::DropAnchor),
    ];
    // Telling early is a mutation; taking over is told by its stages.
    for kind in Kind::ALL.into_iter().filter(|kind| !matches!(kind, Kind::Tell | Kind::TakeOver)) {
        all.extend([Verb::Done(kind), Verb::Landed(kind)]);
        if kind != Kind::DropAnchor {
            all.extend([Verb::Refused(kind), Verb::Bounced(kind)]);
        }
    }
    for kind in [Kind::Commit, Kind::Deliver, Kind::Adopt] {
        all.extend([Verb::AnswerLost(kind), Verb::RequestLost(kind), Verb::OrphanLanded(kind), Verb::OrphanGone(kind)]);
    }
    all
}
