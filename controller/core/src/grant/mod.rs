//! Who holds a Pod: the rules of the grant protocol, over abstract identifiers.
//!
//! A Pool's *ledger* (in `Pool.status`) says which idle Pods were promised to which claims. A claim's *slots* (in its
//! status) say which Pods it was given. Everything in this module is a pure function of a [`World`]: what one process has
//! seen of one Pool. The identifiers are type parameters, so that the same code that runs in production runs in a model
//! checker whose states pack into bytes. What may enter here: rules about holding Pods. What may not: names, clocks,
//! templates, scale.
//!
//! A rule that needs a fact which the store cannot give (that something is *gone*, that this process is *still* the holder)
//! yields a proving step instead of a write; the answer enters the world and the rule is asked again.

mod adopt;
mod commit;
mod count;
mod deliver;
mod end;
mod gone;
mod release;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

pub use commit::{Commit, commit, idle};
pub use count::{Counts, count};
pub use end::{EndStep, end};

/// An identifier that never names two things: a uid in production, a small number in a model.
pub trait Id: Clone + Ord + Debug {}

impl<T: Clone + Ord + Debug> Id for T {}

/// One promise of the ledger: this Pod is for this index of this claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Grant<P, C> {
    /// Whose.
    pub claim: C,
    /// Which of the claim's sandboxes.
    pub index: u32,
    /// The Pod.
    pub pod: P,
}

/// `Pool.status.grants` and `Pool.status.retiring`. A Pod is in it at most once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ledger<P, C> {
    /// Pods promised to claims, in the order they were granted.
    pub grants: Vec<Grant<P, C>>,
    /// Pods that were idle and are being deleted.
    pub retiring: Vec<P>,
}

impl<P, C> Default for Ledger<P, C> {
    fn default() -> Self {
        Self { grants: Vec::new(), retiring: Vec::new() }
    }
}

/// Whether this process may use the Pool's ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// `Pool.status.holder` is this process's token in the freshest version seen.
    Mine,
    /// The status was never written: nobody can have promised anything, so the first commit may also take the Pool.
    Unset,
    /// Another token: every write of this Pool stops until it is taken over.
    Foreign,
}

/// The Pool itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PoolLife {
    /// Exists.
    Live,
    /// Has a deletion timestamp: no new promises, the old ones are kept.
    Ending,
    /// A live read said so: [`end`] takes over.
    Gone,
}

/// How far a Pod is on its way out. Everything but `Alive` lasts for ever, so it may be acted on later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodLife {
    /// Neither of the below.
    Alive,
    /// Phase `Succeeded` or `Failed`: dead, but still in the way until it is deleted.
    Terminal,
    /// Has a deletion timestamp.
    Terminating,
    /// A live read said 404 or another uid.
    Gone,
}

impl PodLife {
    /// Dead as `grants.md` means it: gone, terminating or terminal.
    #[must_use]
    pub fn is_dead(self) -> bool {
        match self {
            Self::Alive => false,
            Self::Terminal | Self::Terminating | Self::Gone => true,
        }
    }
}

/// A Pod as its newest version in the store shows it, or as a live read proved it. A Pod that is in no store and was not
/// proven gone is not in the world at all: absence proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodView<C> {
    /// Alive or not.
    pub life: PodLife,
    /// Carries the positive clean mark. Everything without it is used, whatever else its labels say.
    pub warm: bool,
    /// The claim and index that its labels, or else its owner, name.
    pub held_by: Option<(C, u32)>,
    /// Its controller owner is the claim in `held_by`, so the garbage collector ends it with that claim.
    pub owned: bool,
    /// May be granted now: Ready, of a healthy node, not marked for eviction.
    pub grantable: bool,
    /// Preference among grantable Pods; the smallest goes first.
    pub rank: u64,
    /// The still-mine rule: this version was in the store before the request of the last write or read that proved the
    /// Pool to be ours.
    pub confirmed: bool,
    /// A write of ours to this Pod has no answer yet.
    pub busy: bool,
}

/// One sandbox of a claim, as the claim's status has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot<P> {
    /// No Pod.
    Open,
    /// This Pod was delivered.
    Named(P),
    /// This Pod was here and was lost; it is never named here again.
    Lost(P),
    /// This Pod was promised and died before it was delivered: it is never named here, and the index is open.
    Undelivered(P),
}

/// Whether a claim exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClaimLife {
    /// Exists and was not asked to end.
    Live,
    /// Exists and has a deletion timestamp.
    Ending,
    /// Proven gone.
    Gone,
}

/// A claim on this Pool. One that is in no store and was not proven gone is not in the world.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimView<P> {
    /// Exists or not.
    pub life: ClaimLife,
    /// Wants Pods for its open indexes (not failed, not paused, its Pool reference is this Pool).
    pub asks: bool,
    /// The Pool may ever have as many Pods as it asks for. Only for new promises: it is a fact about the Pool, and a change of
    /// the Pool fences no write to the claim, so nothing is taken back for it.
    pub can_be_met: bool,
    /// Wants another Pod for an index whose Pod was lost.
    pub replaces_lost: bool,
    /// Indexes `0..replicas` are wanted.
    pub replicas: u32,
    /// By index; missing ones are open.
    pub slots: Vec<Slot<P>>,
    /// Order among claims: the smallest is served first.
    pub rank: u64,
    /// The still-mine rule, as for a Pod.
    pub confirmed: bool,
    /// A write of ours to this claim has no answer yet.
    pub busy: bool,
}

impl<P: Id> ClaimView<P> {
    /// The slot of an index; one never written is open.
    #[must_use]
    pub fn slot(&self, index: u32) -> &Slot<P> {
        self.slots.get(index as usize).unwrap_or(&Slot::Open)
    }

    /// Whether a Pod may be promised and delivered to this index.
    #[must_use]
    pub fn wants(&self, index: u32) -> bool {
        self.life == ClaimLife::Live
            && self.asks
            && index < self.replicas
            && match self.slot(index) {
                Slot::Open | Slot::Undelivered(_) => true,
                Slot::Lost(_) => self.replaces_lost,
                Slot::Named(_) => false,
            }
    }

    /// Whether this Pod was recorded dead at this index.
    #[must_use]
    pub fn has_recorded(&self, index: u32, pod: &P) -> bool {
        match self.slot(index) {
            Slot::Open | Slot::Named(_) => false,
            Slot::Lost(dead) | Slot::Undelivered(dead) => dead == pod,
        }
    }

    /// Whether the claim's status names this Pod in any slot.
    #[must_use]
    pub fn names(&self, pod: &P) -> bool {
        self.slots.iter().any(|slot| matches!(slot, Slot::Named(named) if named == pod))
    }
}

/// What happens to a Pod when its sandbox ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Recycle {
    /// It goes with it: the Pod is owned by its claim.
    Delete,
    /// It comes back to the Pool once its containers are proven new.
    Restart,
    /// It comes back as it is.
    Noop,
}

/// What one process has seen of one Pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct World<P: Ord, C: Ord> {
    /// Whether the ledger is ours.
    pub holder: Holder,
    /// Whether the Pool exists.
    pub pool: PoolLife,
    /// The ledger in the freshest version seen of the Pool.
    pub ledger: Ledger<P, C>,
    /// A write to the Pool's status has no answer yet.
    pub committing: bool,
    /// What becomes of used Pods.
    pub recycle: Recycle,
    /// Pods seen or proven gone.
    pub pods: BTreeMap<P, PodView<C>>,
    /// Claims seen or proven gone.
    pub claims: BTreeMap<C, ClaimView<P>>,
}

impl<P: Id, C: Id> World<P, C> {
    /// Every Pod that the ledger mentions.
    #[must_use]
    pub fn in_ledger(&self) -> BTreeSet<&P> {
        self.ledger.grants.iter().map(|grant| &grant.pod).chain(&self.ledger.retiring).collect()
    }

    /// Whether a Pod's marks say that this index of this claim has it: its labels, no clean mark and, where used Pods end with
    /// their claims, its owner.
    #[must_use]
    pub fn is_marked(&self, pod: &PodView<C>, claim: &C, index: u32) -> bool {
        let labelled = pod.held_by.as_ref().is_some_and(|(held_by, at)| held_by == claim && *at == index);
        let owned = match self.recycle {
            Recycle::Delete => pod.owned,
            Recycle::Restart | Recycle::Noop => true,
        };
        labelled && owned && !pod.warm
    }

    /// Every Pod that a claim's status names, with that claim and index.
    #[must_use]
    pub fn names(&self) -> BTreeMap<&P, (&C, u32)> {
        let mut named = BTreeMap::new();
        for (id, claim) in self.claims.iter().filter(|(_, claim)| claim.life != ClaimLife::Gone) {
            for (index, slot) in (0_u32..).zip(&claim.slots) {
                match slot {
                    Slot::Named(pod) => drop(named.insert(pod, (id, index))),
                    Slot::Open | Slot::Lost(_) | Slot::Undelivered(_) => {}
                }
            }
        }
        named
    }
}

/// One write, or one live read, that the protocol asks for. Complete: whoever applies it has nothing left to choose.
/// Preconditions are those of `grants.md`; "versioned" is uid and resourceVersion, of the version that the world showed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step<P, C> {
    /// Name these Pods in the claim's status, by index. Versioned. (2)
    Deliver {
        /// Whose status.
        claim: C,
        /// Index and Pod, ascending by index.
        pods: Vec<(u32, P)>,
    },
    /// Make the claim the Pod's owner and take the clean mark off. Versioned. (3)
    Adopt {
        /// Which Pod.
        pod: P,
        /// The claim that names it.
        claim: C,
        /// At this index.
        index: u32,
    },
    /// Like [`Step::Adopt`] for a Pod whose marks were stripped by hand; first a live read of the claim must name it. (12)
    Readopt {
        /// Which Pod.
        pod: P,
        /// The claim that names it.
        claim: C,
        /// At this index.
        index: u32,
    },
    /// Delete a Pod whose retirement is in the ledger. By uid. (8)
    EndRetired(P),
    /// Delete a Pod that was promised to a claim which is gone. Versioned. (5)
    EndCommitted(P),
    /// Delete a Pod that a live claim released; first a live read of the claim must not name it. Versioned. (11)
    EndReleased {
        /// Which Pod.
        pod: P,
        /// The claim that its marks name.
        claim: C,
    },
    /// Delete a used Pod that is nobody's. Versioned. (13)
    EndUnclaimed(P),
    /// Delete a terminal Pod that no claim names. By uid. (15)
    EndTerminal(P),
    /// A used Pod whose claim is gone goes through the Pool's recycle strategy: proven new, its marks come off and the
    /// clean mark comes back. Versioned. (14)
    HandBack(P),
    /// Record in the claim's status that a promised Pod died before delivery; the index stays open. Versioned. (6)
    RecordUndelivered {
        /// Whose status.
        claim: C,
        /// At this index.
        index: u32,
        /// The Pod that died.
        pod: P,
    },
    /// Live GET of the Pod.
    ProvePod(P),
    /// Live GET of the claim.
    ProveClaim(C),
    /// Live GET of the Pool: renews the proof that it is ours.
    ProvePool,
}

/// The steps that may be taken now, other than writing the ledger ([`commit`]). Each is independent of the others; any
/// subset may be taken, in any order. Nothing while the Pool is not ours, or is gone.
#[must_use]
pub fn steps<P: Id, C: Id>(world: &World<P, C>) -> Vec<Step<P, C>> {
    let mut out = Steps { committing: world.committing, ..Steps::default() };
    if world.holder != Holder::Mine || world.pool == PoolLife::Gone {
        return out.list;
    }
    deliver::deliver(world, &mut out);
    adopt::adopt(world, &mut out);
    release::release(world, &mut out);
    out.list
}

/// Collects steps; proofs that several rules ask for are asked once.
struct Steps<P, C> {
    list: Vec<Step<P, C>>,
    /// The ledger's next write is under way.
    committing: bool,
}

impl<P, C> Default for Steps<P, C> {
    fn default() -> Self {
        Self { list: Vec::new(), committing: false }
    }
}

impl<P: Id, C: Id> Steps<P, C> {
    fn push(&mut self, step: Step<P, C>) {
        self.list.push(step);
    }

    /// Asks for a live read, once.
    fn prove(&mut self, proof: Step<P, C>) {
        if !self.list.contains(&proof) {
            self.list.push(proof);
        }
    }

    /// Takes a step under the still-mine rule, or asks for the proof that it lacks. While the ledger is being written there is
    /// none but that write: a version that arrived since may want what the write takes back (replicas lowered and raised
    /// again), and a read that proves the Pool to be ours does not show what is on its way to it.
    fn still_mine(&mut self, confirmed: bool, step: Step<P, C>) {
        if confirmed {
            self.push(step);
        } else if !self.committing {
            self.prove(Step::ProvePool);
        }
    }
}
