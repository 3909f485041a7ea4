//! The small worlds that are explored: who is there, and what may go wrong how often.

use sandbox_core::grant::Recycle;

use crate::bits::{CLAIMS, Claim, LEADERS, Life, Pod, Pool};
use crate::mutation::Mutation;
use crate::state::{Budget, Leader, State};

/// Something that a user does, or that happens to a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A Pod ends by itself.
    KillPod,
    /// A Pod is deleted.
    DeletePod,
    /// A Pod's watch label is taken off.
    StripWatch,
    /// A Pod's claim labels are taken off.
    StripLabel,
    /// A Pod's owner is taken off.
    StripOwner,
    /// A Pod's clean mark is taken off.
    StripWarm,
    /// All of them.
    StripAll,
    /// A claim is deleted.
    DeleteClaim,
    /// A claim is deleted, its dependents first.
    DeleteClaimForeground,
    /// A deadline is moved.
    Renew,
    /// Replicas are lowered.
    Lower,
    /// Replicas are raised.
    Raise,
    /// The status of a claim is emptied.
    ClearStatus,
    /// A promised Pod is recorded lost by hand.
    WriteLost,
    /// The Pool is deleted.
    DeletePool,
    /// The Pool is deleted, its dependents first.
    DeletePoolForeground,
}

/// A claim of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// There is none.
    Nobody,
    /// There from the beginning, for so many sandboxes.
    Now(u8),
    /// Created at any time, for so many sandboxes.
    Later(u8),
    /// There from the beginning, for one sandbox, and past its deadline.
    Overdue,
}

impl Asks {
    /// The claim as it is created.
    #[must_use]
    pub const fn claim(self) -> Claim {
        match self {
            Self::Nobody => Claim(0),
            Self::Now(replicas) | Self::Later(replicas) => Claim::new(replicas),
            Self::Overdue => Claim::new(1).with_due(1),
        }
    }

    /// Whether it may be created now.
    #[must_use]
    pub const fn comes_later(self, state: &State, id: u8) -> bool {
        match self {
            Self::Later(_) => matches!(state.claims[id as usize].life(), Life::None),
            Self::Nobody | Self::Now(_) | Self::Overdue => false,
        }
    }
}

/// How a world begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// The first process holds the Pool and has seen everything.
    Held,
    /// The Pool's status was never written; the first process has seen everything.
    Unwritten,
}

/// A small world.
#[derive(Clone, Copy, Debug)]
pub struct World {
    /// Its name, for `--world`.
    pub name: &'static str,
    /// Warm Pods at the beginning.
    pub warm: u8,
    /// Pods that may ever be, the first ones too.
    pub pods: u8,
    /// `poolMax`.
    pub slots: u8,
    /// Claims.
    pub claims: [Asks; CLAIMS as usize],
    /// Most replicas that a claim is raised to.
    pub indexes: u8,
    /// Processes.
    pub leaders: u8,
    /// What becomes of used Pods.
    pub recycle: Recycle,
    /// Lost Pods are replaced.
    pub replaces: bool,
    /// How it begins.
    pub begins: Begins,
    /// What may go wrong, and how often.
    pub budget: Budget,
    /// The acts that `budget.acts` may be spent on.
    pub acts: &'static [Act],
}

impl World {
    /// Whether an act happens in this world.
    #[must_use]
    pub fn allows(&self, act: Act) -> bool {
        self.acts.contains(&act)
    }

    /// Where it begins.
    #[must_use]
    pub fn start(&self, owner: u8) -> State {
        let holder = match self.begins {
            Begins::Held => 1,
            Begins::Unwritten => 0,
        };
        let pool = Pool(0).with_life(Life::Alive).with_holder(holder).with_anchor(1);
        let mut state = State { pool, budget: self.budget, ..State::default() };
        let mut first = Leader { up: true, pool: pool.with_anchor(0).with_current(1), ..Leader::default() };
        for pod in 0..self.warm {
            let new = Pod::new(pod, owner);
            state.pods[usize::from(pod)] = new;
            first.pods[usize::from(pod)] = new.with_current(1).with_confirmed(1);
        }
        for (id, asks) in self.claims.iter().enumerate() {
            let claim = match asks {
                Asks::Now(_) | Asks::Overdue => asks.claim(),
                Asks::Nobody | Asks::Later(_) => continue,
            };
            state.claims[id] = claim;
            first.claims[id] = claim.with_current(1).with_confirmed(1);
        }
        state.leaders[0] = first;
        debug_assert!(self.leaders <= LEADERS);
        state
    }
}

/// A world, and what is broken in it.
#[derive(Clone, Copy, Debug)]
pub struct Cx {
    /// The world.
    pub world: World,
    /// The rule that is left out; none for the protocol as it is.
    pub broken: Option<Mutation>,
}

impl Cx {
    /// Whether this rule is left out.
    #[must_use]
    pub fn is(&self, mutation: Mutation) -> bool {
        self.broken == Some(mutation)
    }

    /// Where it begins.
    #[must_use]
    pub fn start(&self) -> State {
        let start = self.world.start(if self.is(Mutation::H4Owner) { Pod::POOL } else { Pod::ANCHOR });
        State { one_token: self.is(Mutation::H10), ..start }
    }
}

/// A budget: acts, crashes, lost answers, takings over, late requests, retirements.
const fn budget([acts, crashes, lost, takeovers, late, retire]: [u8; 6]) -> Budget {
    Budget { acts, crashes, lost, takeovers, late, retire }
}

/// Two processes, two warm Pods, a claim, and a younger one that comes at any time.
const BASE: World = World {
    name: "",
    warm: 2,
    pods: 2,
    slots: 2,
    claims: [Asks::Now(1), Asks::Later(1), Asks::Nobody],
    indexes: 1,
    leaders: 2,
    recycle: Recycle::Delete,
    replaces: false,
    begins: Begins::Held,
    budget: budget([0, 0, 0, 0, 0, 0]),
    acts: &[],
};

/// One warm Pod, of one that may be, and another uid for it.
const NARROW: World = World { warm: 1, slots: 1, ..BASE };

/// One process, whose requests take their time and get lost.
const ALONE: World = World { leaders: 1, ..BASE };

const ENDS: &[Act] = &[Act::KillPod, Act::DeletePod, Act::DeleteClaim, Act::DeleteClaimForeground];
const STRIPS: &[Act] = &[Act::StripWatch, Act::StripLabel, Act::StripOwner, Act::StripWarm, Act::StripAll];
const STRIPS_AND_ENDS: &[Act] = &[Act::StripWatch, Act::StripLabel, Act::StripAll, Act::DeleteClaim, Act::Lower];
const REPLICAS: &[Act] = &[Act::Lower, Act::Raise];
const HANDS: &[Act] = &[Act::ClearStatus, Act::WriteLost, Act::DeleteClaim, Act::DeletePod];
const RECYCLES: &[Act] = &[Act::DeleteClaim, Act::DeletePod, Act::StripLabel, Act::Lower];
const POOL: &[Act] = &[Act::DeletePool, Act::DeletePoolForeground, Act::DeleteClaim, Act::StripWatch, Act::Lower];

/// How many of the first worlds are the small part.
pub const SMALL: usize = 14;

/// How many of the first worlds are explored to their end. The others have tens of millions of states and more: they serve to
/// catch rules that are left out, which takes only their beginning.
pub const WHOLE: usize = 23;

/// Every world: the small part first, then the rest of the whole, then those that only serve to catch rules.
pub const WORLDS: &[World] = &[
    World { name: "takeover", budget: budget([0, 0, 0, 2, 1, 0]), ..BASE },
    World { name: "unwritten", begins: Begins::Unwritten, budget: budget([0, 0, 1, 2, 1, 0]), ..BASE },
    World {
        name: "create",
        warm: 0,
        claims: [Asks::Now(1), Asks::Nobody, Asks::Nobody],
        budget: budget([0, 0, 0, 1, 1, 0]),
        ..NARROW
    },
    World { name: "alone-ends", pods: 3, budget: budget([2, 0, 0, 0, 1, 0]), acts: ENDS, ..ALONE },
    World { name: "alone-crash", budget: budget([1, 1, 1, 1, 1, 0]), acts: &[Act::DeleteClaim], ..ALONE },
    World { name: "alone-strips", budget: budget([2, 0, 0, 0, 1, 0]), acts: STRIPS, ..ALONE },
    World { name: "alone-strips-and-ends", budget: budget([2, 0, 0, 0, 1, 0]), acts: STRIPS_AND_ENDS, ..ALONE },
    World { name: "alone-replicas", budget: budget([3, 0, 1, 0, 1, 0]), acts: REPLICAS, ..ALONE },
    World { name: "alone-hands", budget: budget([2, 0, 0, 0, 1, 0]), acts: HANDS, ..ALONE },
    World {
        name: "alone-recycles",
        recycle: Recycle::Noop,
        budget: budget([2, 0, 0, 0, 1, 0]),
        acts: RECYCLES,
        ..ALONE
    },
    World { name: "alone-scale", budget: budget([1, 0, 1, 0, 1, 2]), acts: &[Act::DeleteClaim, Act::Lower], ..ALONE },
    World { name: "alone-pool", budget: budget([2, 0, 0, 0, 1, 0]), acts: POOL, ..ALONE },
    World {
        name: "deadline",
        claims: [Asks::Overdue, Asks::Nobody, Asks::Nobody],
        budget: budget([1, 0, 1, 1, 1, 0]),
        acts: &[Act::Renew],
        ..BASE
    },
    World {
        name: "pool-late",
        pods: 1,
        claims: [Asks::Later(1), Asks::Nobody, Asks::Nobody],
        budget: budget([1, 0, 0, 2, 1, 0]),
        acts: &[Act::DeletePool],
        ..NARROW
    },
    World { name: "narrow-ends", budget: budget([1, 0, 0, 1, 0, 0]), acts: ENDS, ..NARROW },
    World { name: "narrow-strips", budget: budget([2, 0, 0, 1, 1, 0]), acts: STRIPS, ..NARROW },
    World { name: "narrow-replicas", budget: budget([1, 0, 0, 1, 1, 0]), acts: REPLICAS, ..NARROW },
    World { name: "narrow-hands", budget: budget([1, 0, 0, 1, 1, 0]), acts: HANDS, ..NARROW },
    World {
        name: "narrow-recycles",
        recycle: Recycle::Noop,
        budget: budget([1, 0, 0, 1, 1, 0]),
        acts: RECYCLES,
        ..NARROW
    },
    World { name: "narrow-pool", budget: budget([1, 0, 0, 1, 1, 0]), acts: POOL, ..NARROW },
    World { name: "crash", budget: budget([0, 1, 1, 2, 1, 0]), ..BASE },
    World { name: "ends", budget: budget([1, 0, 0, 1, 0, 0]), acts: ENDS, ..BASE },
    World { name: "scale", budget: budget([0, 0, 0, 1, 1, 1]), ..BASE },
    World { name: "replaced", replaces: true, pods: 3, budget: budget([1, 0, 0, 1, 0, 0]), acts: ENDS, ..BASE },
    World { name: "strips", budget: budget([1, 0, 0, 1, 1, 0]), acts: STRIPS, ..BASE },
    World { name: "strips-and-ends", budget: budget([2, 0, 0, 1, 0, 0]), acts: STRIPS_AND_ENDS, ..NARROW },
    World { name: "replicas", budget: budget([2, 0, 0, 1, 0, 0]), acts: REPLICAS, ..BASE },
    World {
        name: "pair",
        claims: [Asks::Now(2), Asks::Nobody, Asks::Nobody],
        indexes: 2,
        budget: budget([1, 0, 0, 1, 1, 0]),
        acts: &[Act::Lower, Act::DeleteClaim, Act::DeletePod],
        ..BASE
    },
    World { name: "hands", budget: budget([1, 0, 0, 1, 1, 0]), acts: HANDS, ..BASE },
    World { name: "recycles", recycle: Recycle::Noop, budget: budget([2, 0, 0, 1, 0, 0]), acts: RECYCLES, ..NARROW },
    World { name: "pool", budget: budget([1, 0, 0, 1, 1, 0]), acts: POOL, ..NARROW },
    World { name: "pool-twice", budget: budget([2, 0, 0, 1, 0, 0]), acts: POOL, ..NARROW },
    World {
        name: "three",
        claims: [Asks::Now(1), Asks::Now(1), Asks::Now(1)],
        pods: 4,
        budget: budget([1, 0, 0, 1, 0, 0]),
        acts: &[Act::DeleteClaim, Act::DeletePod],
        ..BASE
    },
];
