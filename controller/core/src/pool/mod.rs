//! What to do about one Pool: whose Pods they are ([`crate::grant`]), how many there should be, of which revision.

mod end;
mod ledger;
mod plan;
pub mod pod;
mod roll;
pub mod roster;
mod scale;
mod situation;
mod start;
mod status;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use sandbox_api::{Pool, PoolStatus};
use serde_json::Value;

use crate::claim::{Claim, Report, SeenPod};
use crate::failure::Failure;
use crate::grant::PoolLife;
use crate::ids::{ClaimKey, PodKey};

pub use plan::plan;
pub use situation::Standing;
pub use start::{StartFailures, backoff};

/// A claim in the store.
#[derive(Clone, Debug)]
pub struct SeenClaim {
    /// Its newest version.
    pub claim: Arc<Claim>,
    /// The still-mine rule: in the store before the request of the last proof that the Pool is ours.
    pub confirmed: bool,
    /// A write of ours to it has no answer yet.
    pub busy: bool,
}

/// The ControllerRevision that owns the warm Pods of one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Of which revision.
    pub revision: String,
}

/// Everything that decides about one Pool.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Now.
    pub now: Timestamp,
    /// This process's token: `<term>/<uuid>`.
    pub me: String,
    /// The Pool as it was last seen; also after its end, for its name and uid.
    pub pool: Arc<Pool>,
    /// Whether it still exists.
    pub life: PoolLife,
    /// After its end: the claims (uids) that the live list of its namespace showed. Only they can have been promised a Pod of
    /// it; none before the list.
    pub listed_claims: Option<Arc<BTreeSet<Arc<str>>>>,
    /// A write to its status has no answer yet.
    pub committing: bool,
    /// When its status was last written by us; the next write that nobody waits for comes no sooner than [`SETTLE`] after.
    pub last_commit: Option<Timestamp>,
    /// Pods with its `pool-uid` label, and those that its ledger or its claims name, but for those at [`Observed::rest`]; by
    /// uid.
    pub pods: BTreeMap<PodKey, SeenPod>,
    /// Pods that need not be looked at.
    pub rest: roster::Rest,
    /// Uids of Pods proven gone.
    pub gone_pods: BTreeSet<Arc<str>>,
    /// Claims whose `poolRef` is this Pool and that have an open index, those in its ledger, and those that any of `pods` is
    /// named by or marked for.
    pub claims: BTreeMap<ClaimKey, SeenClaim>,
    /// Uids of claims proven gone.
    pub gone_claims: BTreeSet<Arc<str>>,
    /// Nodes that take no sandboxes: cordoned, NotReady or unknown.
    pub sick_nodes: BTreeSet<String>,
    /// Slots whose Pod is being created.
    pub creating: BTreeSet<u32>,
    /// Slots whose name somebody else's Pod has: left alone for a while.
    pub blocked: BTreeSet<u32>,
    /// Anchors known of this Pool.
    pub anchors: Vec<Anchor>,
    /// An anchor is being written.
    pub anchoring: bool,
    /// How often Pods of the current revision failed to start of late.
    pub start_failures: StartFailures,
    /// When it was last full ([`Standing::full`]).
    pub last_full: Option<Timestamp>,
    /// Why the API server refused the last Pod.
    pub create_failure: Option<Failure>,
}

/// How long the ledger's settling and the status's counts wait for a write that they can ride on.
pub const SETTLE: k8s_openapi::jiff::SignedDuration = k8s_openapi::jiff::SignedDuration::from_secs(1);

/// Why a Pod is patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchReason {
    /// It was delivered.
    Adopt,
    /// It comes back clean.
    HandBack,
}

/// Why a Pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The Pool has too many, or it is of an old revision, or marked for eviction; its retirement is in the ledger.
    Retired,
    /// It was promised to a claim that ended before delivery.
    Committed,
    /// A live claim gave it back.
    Released,
    /// It was used and belongs to nobody.
    Unclaimed,
    /// It ended by itself.
    Terminal,
}

/// One thing to do about a Pool. Complete: names, uids, preconditions are in it.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Live GET of the Pool, then write `status.holder` (it must change), then list Pods and claims live.
    TakeOver,
    /// Live GET of the Pool: renews the proof that it is ours.
    ProvePool,
    /// Compare-and-swap of the Pool's whole status, by uid and resourceVersion.
    Commit {
        /// Of the Pool that was observed.
        resource_version: String,
        /// All of it, the ledger too.
        status: Box<PoolStatus>,
    },
    /// Compare-and-swap of a claim's status, by the version observed: delivery, a loss, the Pool's end.
    WriteClaim {
        /// As observed.
        claim: Arc<Claim>,
        /// The whole status.
        report: Box<Report>,
    },
    /// Merge patch of a Pod, by uid and resourceVersion (both in `patch`).
    PatchPod {
        /// Which.
        pod: PodKey,
        /// Why.
        reason: PatchReason,
        /// The whole patch.
        patch: Value,
    },
    /// Like [`Action::PatchPod`], after a live GET of the claim has shown that it names the Pod.
    Readopt {
        /// Which.
        pod: PodKey,
        /// Must name it.
        claim: ClaimKey,
        /// The whole patch.
        patch: Value,
    },
    /// Delete a Pod, by uid and, where given, resourceVersion.
    DeletePod {
        /// Which.
        pod: PodKey,
        /// Of the version observed.
        resource_version: Option<String>,
        /// Only after a live GET of this claim has shown that it does not name the Pod.
        unless_named_by: Option<ClaimKey>,
        /// Why.
        reason: EndReason,
    },
    /// Live GET of a Pod.
    ProvePod(PodKey),
    /// Live GET of a claim. One of which only the uid is known is looked for among all claims of the namespace.
    ProveClaim(ClaimKey),
    /// Create the ControllerRevision that owns the Pods of a revision; AlreadyExists is as good.
    CreateAnchor {
        /// Its name.
        name: String,
        /// Of which revision.
        revision: String,
        /// All of it.
        body: Value,
    },
    /// Delete an anchor that no Pod names. By uid.
    DeleteAnchor(Anchor),
    /// Create a Pod in a free slot; AlreadyExists means that the slot is in use: read it into the store.
    CreatePod {
        /// Which slot.
        slot: u32,
        /// Its name.
        name: String,
        /// All of it.
        body: Value,
    },
    /// Live LIST of the claims of the Pool's namespace, after its end.
    ListClaims,
}

/// What to do about a Pool, and when to look again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// To be done now; deliveries first, then adoption, then refill.
    pub actions: Vec<Action>,
    /// When to look again though nothing changed.
    pub again: Option<Timestamp>,
    /// Of the Pods that were looked at, those that need not be looked at again until they are touched.
    pub at_rest: Vec<roster::AtRest>,
    /// How the Pool stands, for its claims; none while it is another's.
    pub standing: Option<Standing>,
    /// The Pool is gone and nothing of it is left.
    pub finished: bool,
}

impl Plan {
    fn look_again(&mut self, at: Timestamp) {
        self.again = Some(self.again.map_or(at, |earlier| earlier.min(at)));
    }
}
