//! One line of the watch log, reduced to what the invariants are about.
//!
//! Read from the API server's JSON by names of fields, with none of the operator's own types: an audit that shared the
//! code of what it audits would share its mistakes.

mod read;

use std::fmt;

use k8s_openapi::jiff::Timestamp;

/// The kinds that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Pods.
    Pod,
    /// Pools.
    Pool,
    /// BatchSandboxes.
    BatchSandbox,
    /// Sandboxes.
    Sandbox,
    /// ControllerRevisions: what owns warm Pods.
    Anchor,
    /// The operator's Lease: who led when. No invariant rests on it.
    Lease,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Pod, Self::Pool, Self::BatchSandbox, Self::Sandbox, Self::Anchor, Self::Lease];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::Pool => "Pool",
            Self::BatchSandbox => "BatchSandbox",
            Self::Sandbox => "Sandbox",
            Self::Anchor => "ControllerRevision",
            Self::Lease => "Lease",
        }
    }
}

/// What happened to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was there when the log began.
    Listed,
    /// It was created.
    Added,
    /// It was written.
    Modified,
    /// It is gone; this was its last state.
    Deleted,
}

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// The revision of the API server's store: the one order of all events of all kinds.
    pub revision: u64,
    /// When its line arrived here: never before it happened.
    pub at: Timestamp,
    /// Its line in the raw log, from 1.
    pub line: u64,
    /// What happened.
    pub change: Change,
    /// To which kind of object.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Whether it is marked for deletion.
    pub ending: bool,
    /// Its state after it.
    pub state: State,
}

/// The state of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// Of a Pod.
    Pod(PodState),
    /// Of a Pool.
    Pool(PoolState),
    /// Of a claim of either kind.
    Claim(ClaimState),
    /// Of an anchor: the uid of its Pool.
    Anchor(Option<String>),
    /// Of the Lease: its holder.
    Lease(String),
}

/// A Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodState {
    /// The uid of its Pool, by label.
    pub pool: Option<String>,
    /// The uid of the claim that adopted it, by label.
    pub claim: Option<String>,
    /// Whether it has the clean mark.
    pub warm: bool,
    /// Whether it is Ready.
    pub ready: bool,
    /// Whether it has ended by itself.
    pub terminal: bool,
    /// Whether it is bound to a node.
    pub bound: bool,
    /// The uid of its controller.
    pub owner: Option<String>,
}

/// A Pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolState {
    /// The most Pods it may have.
    pub max: i64,
    /// The fewest idle ones, and the most.
    pub buffer: (i64, i64),
    /// The fewest in all.
    pub min: i64,
    /// Whether used Pods come back.
    pub recycles: bool,
    /// Whose ledger it is.
    pub holder: String,
    /// The Pods that the ledger promises, with the claim's uid.
    pub grants: Vec<Grant>,
    /// The uids of the Pods that the ledger retires.
    pub retiring: Vec<String>,
}

/// One Pod that a ledger promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The claim's uid.
    pub claim: String,
    /// Its index.
    pub index: usize,
    /// The Pod's uid.
    pub pod: String,
}

/// A BatchSandbox or Sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimState {
    /// The name of its Pool; none if it has a template of its own.
    pub pool: Option<String>,
    /// When it was made; whole seconds, as the API server has it.
    pub created: Option<Timestamp>,
    /// How many Pods it wants.
    pub replicas: usize,
    /// When it is to end.
    pub expires: Option<Timestamp>,
    /// Whether a lost Pod is to be replaced.
    pub replaces: bool,
    /// Whether it says that it has failed.
    pub failed: bool,
    /// By index.
    pub slots: Vec<Slot>,
}

/// What a claim says of one index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Slot {
    /// No Pod.
    #[default]
    Open,
    /// This Pod.
    Named {
        /// Its uid.
        uid: String,
        /// Whether it is said to be ready.
        ready: bool,
    },
    /// This Pod was lost.
    Lost(String),
}

impl Slot {
    /// The uid of the Pod named here.
    #[must_use]
    pub fn named(&self) -> Option<&str> {
        match self {
            Self::Named { uid, .. } => Some(uid),
            Self::Open | Self::Lost(_) => None,
        }
    }
}
impl PoolState {
    /// What the ledger says of these objects.
    #[must_use]
    pub fn says_of(&self, uids: &[String]) -> Vec<String> {
        let known = |uid: &String| uids.contains(uid);
        let grants = self.grants.iter().filter(|grant| known(&grant.pod) || known(&grant.claim));
        let grants = grants.map(|Grant { claim, index, pod }| format!("promises {pod} to {claim}[{index}]"));
        grants.chain(self.retiring.iter().filter(|pod| known(pod)).map(|pod| format!("retires {pod}"))).collect()
    }
}

impl Fact {
    /// Who leads after this event, if it is about that.
    #[must_use]
    pub fn lease_holder(&self) -> Option<&str> {
        match &self.state {
            State::Lease(holder) => Some(holder),
            State::Pod(_) | State::Pool(_) | State::Claim(_) | State::Anchor(_) => None,
        }
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { revision, at, line, change, kind, name, uid, ending, state } = self;
        let time = at.strftime("%H:%M:%S%.3f");
        let mark = if *ending { " ENDING" } else { "" };
        write!(f, "line {line} rev {revision} {time} {change:?} {} {name} ({uid}){mark}: ", kind.as_str())?;
        match state {
            State::Pod(pod) => write!(
                f,
                "warm={} ready={} terminal={} claim={} owner={}",
                pod.warm,
                pod.ready,
                pod.terminal,
                pod.claim.as_deref().unwrap_or("-"),
                pod.owner.as_deref().unwrap_or("-"),
            ),
            State::Pool(pool) => {
                let PoolState { max, buffer: (low, high), holder, grants, retiring, .. } = pool;
                let (promised, retired) = (grants.len(), retiring.len());
                write!(f, "max={max} buffer={low}..{high} promised={promised} retiring={retired} holder={holder}")
            }
            State::Claim(claim) => {
                let expires = claim.expires.map(|at| at.to_string()).unwrap_or_else(|| "never".into());
                write!(f, "replicas={} expires={expires} failed={} {:?}", claim.replicas, claim.failed, claim.slots)
            }
            State::Anchor(pool) => write!(f, "pool={}", pool.as_deref().unwrap_or("-")),
            State::Lease(holder) => write!(f, "holder={holder}"),
        }
    }
}
