//! A state: the API server, what each process knows, what is under way.

use crate::bits::{CLAIMS, Claim, LEADERS, Life, PODS, Pod, Pool};
use crate::write::{Kind, Object};

/// One request, from the decision to its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flight {
    /// What it is.
    pub kind: Kind,
    /// Which Pod, claim or slot.
    pub target: u8,
    /// The claim of a Pod's adoption or release.
    pub claim: u8,
    /// How far it is.
    pub stage: Stage,
    /// The version that it was planned on is still the newest.
    pub current: bool,
    /// Its sender is no more.
    pub orphan: bool,
    /// A commit or a taking over: what was in the store before it was sent, a bit for each Pod and claim.
    pub before: u8,
    /// The fields that it sets.
    pub value: u32,
}

/// How far a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Nothing is under way.
    #[default]
    Idle,
    /// The live read that it waits for was not made yet.
    Unchecked,
    /// Sent.
    Sent,
    /// Nobody knows what came of it, or it failed: the object must be read first.
    Unsure,
    /// Taking over: our token stands, Pods are not listed yet.
    Swapped,
    /// Taking over: Pods are listed, claims are not.
    Listed,
}

impl Flight {
    /// The object that it writes, while it is under way.
    #[must_use]
    pub fn object(&self) -> Option<Object> {
        (self.stage != Stage::Idle).then(|| self.kind.object(self.target))
    }

    fn outdated(&mut self, object: Object) {
        if self.object() == Some(object) {
            self.current = false;
        }
    }
}

/// What one process knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Leader {
    /// It runs.
    pub up: bool,
    /// It has not made its first lists.
    pub starting: bool,
    /// After the Pool's end: claims were listed.
    pub listed: bool,
    /// Those that were there, a bit each.
    pub listed_claims: u8,
    /// Its store's Pool.
    pub pool: Pool,
    /// Its store's Pods.
    pub pods: [Pod; PODS as usize],
    /// Its store's claims.
    pub claims: [Claim; CLAIMS as usize],
    /// A request that takes its time. All others are sent, carried out and answered at once.
    pub flight: Flight,
}

/// What is left of each fault and act of users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Acts of users, and Pods that end by themselves.
    pub acts: u8,
    /// Ends of processes.
    pub crashes: u8,
    /// Answers and requests that get lost.
    pub lost: u8,
    /// Takings over, of a process that starts too.
    pub takeovers: u8,
    /// Requests that take their time.
    pub late: u8,
    /// Idle Pods that the Pool may want to be rid of.
    pub retire: u8,
}

/// Everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The server's Pool.
    pub pool: Pool,
    /// The server's Pods.
    pub pods: [Pod; PODS as usize],
    /// The server's claims.
    pub claims: [Claim; CLAIMS as usize],
    /// For each Pod the claim (from 1) that it was delivered to and was not handed back by.
    pub delivered: [u8; PODS as usize],
    /// Pods that we ended, a bit each.
    pub ended: u8,
    /// Processes.
    pub leaders: [Leader; LEADERS as usize],
    /// What is left of the faults.
    pub budget: Budget,
    /// All processes have one token: only in a mutation.
    pub one_token: bool,
}

impl State {
    /// A Pod changed: no version of it that anybody has is the newest any more.
    pub fn set_pod(&mut self, pod: u8, value: Pod) {
        self.pods[usize::from(pod)] = value.bare();
        for leader in &mut self.leaders {
            let seen = &mut leader.pods[usize::from(pod)];
            if seen.life().exists() {
                *seen = seen.with_current(0);
            }
            leader.flight.outdated(Object::Pod(pod));
        }
    }

    /// A claim changed.
    pub fn set_claim(&mut self, claim: u8, value: Claim) {
        self.claims[usize::from(claim)] = value.bare();
        for leader in &mut self.leaders {
            let seen = &mut leader.claims[usize::from(claim)];
            if seen.life().exists() {
                *seen = seen.with_current(0);
            }
            leader.flight.outdated(Object::Claim(claim));
        }
    }

    /// The Pool changed.
    pub fn set_pool(&mut self, value: Pool) {
        self.pool = value.with_current(0);
        for leader in &mut self.leaders {
            if leader.pool.life().exists() {
                leader.pool = leader.pool.with_current(0);
            }
            leader.flight.outdated(Object::Pool);
        }
    }

    /// The server's Pod.
    #[must_use]
    pub fn pod(&self, pod: u8) -> Pod {
        self.pods[usize::from(pod)]
    }

    /// The server's claim.
    #[must_use]
    pub fn claim(&self, claim: u8) -> Claim {
        self.claims[usize::from(claim)]
    }

    /// The live claim, and its index, whose status names the Pod.
    #[must_use]
    pub fn named_by(&self, pod: u8) -> Option<(u8, u8)> {
        (0..CLAIMS).find_map(|id| {
            let claim = self.claim(id);
            claim.life().exists().then(|| claim.names(pod)).flatten().map(|index| (id, index))
        })
    }

    /// A store takes the newest version of a Pod, as an answer or an event.
    pub fn take_pod(&mut self, at: u8, pod: u8) {
        let value = self.pod(pod);
        let leader = &mut self.leaders[usize::from(at)];
        let seen = &mut leader.pods[usize::from(pod)];
        if seen.life() == Life::Gone || (seen.life().exists() && seen.current() == 1) {
            return;
        }
        leader.flight.before &= !(1 << pod);
        *seen = match value.life() {
            Life::Gone => Pod(0).with_life(Life::Gone),
            Life::None | Life::Alive | Life::Ending | Life::Terminating => value.with_current(1),
        };
    }

    /// A store takes the newest version of a claim.
    pub fn take_claim(&mut self, at: u8, claim: u8) {
        let value = self.claim(claim);
        let leader = &mut self.leaders[usize::from(at)];
        let seen = &mut leader.claims[usize::from(claim)];
        if seen.life() == Life::Gone || (seen.life().exists() && seen.current() == 1) {
            return;
        }
        leader.flight.before &= !(1 << (PODS + claim));
        *seen = match value.life() {
            Life::Gone => Claim(0).with_life(Life::Gone),
            Life::None | Life::Alive | Life::Ending | Life::Terminating => value.with_current(1),
        };
    }

    /// A store takes the newest version of the Pool.
    pub fn take_pool(&mut self, at: u8) {
        let (value, one_token) = (self.pool, self.one_token);
        let leader = &mut self.leaders[usize::from(at)];
        if leader.pool.life() == Life::Gone || (leader.pool.life().exists() && leader.pool.current() == 1) {
            return;
        }
        leader.pool = match value.life() {
            // Its ledger is read no more. Its anchor may still stand.
            Life::Gone => Pool(0).with_life(Life::Gone).with_anchor(1),
            Life::None | Life::Alive | Life::Ending | Life::Terminating => {
                let holder = match value.holder() {
                    0 => 0,
                    holder if holder == at + 1 || one_token => Pool::MINE,
                    _ => Pool::FOREIGN,
                };
                value.with_holder(holder).with_anchor(0).with_current(1)
            }
        };
    }

    /// Everything in the store was there before a request that proved the Pool to be ours.
    pub fn proved(&mut self, at: u8, before: u8) {
        let leader = &mut self.leaders[usize::from(at)];
        for (bit, pod) in (0..).zip(&mut leader.pods) {
            if before & (1 << bit) != 0 && pod.life().exists() {
                *pod = pod.with_confirmed(1);
            }
        }
        for (bit, claim) in (PODS..).zip(&mut leader.claims) {
            if before & (1 << bit) != 0 && claim.life().exists() {
                *claim = claim.with_confirmed(1);
            }
        }
    }

    /// What is in a store, a bit each.
    #[must_use]
    pub fn present(&self, at: u8) -> u8 {
        let leader = &self.leaders[usize::from(at)];
        let pods = (0..).zip(&leader.pods).filter(|(_, pod)| pod.life().exists()).map(|(bit, _)| 1 << bit);
        let claims = (PODS..).zip(&leader.claims).filter(|(_, claim)| claim.life().exists()).map(|(bit, _)| 1 << bit);
        pods.chain(claims).sum()
    }

    /// The process ends; what it sent is still on its way.
    pub fn crash(&mut self, at: u8) {
        let leader = &mut self.leaders[usize::from(at)];
        let flight = leader.flight;
        *leader = Leader::default();
        if flight.stage == Stage::Sent {
            leader.flight = Flight { orphan: true, before: 0, ..flight };
        }
        if self.pool.holder() == at + 1 {
            // The token of a process that is no more; the object does not change by that.
            self.pool = self.pool.with_holder(Pool::DEAD);
        }
    }

    /// All of it, packed.
    #[must_use]
    pub fn words(&self) -> [u64; 9] {
        let delivered = self.delivered.iter().fold(0, |word, to| (word << 2) | u64::from(*to));
        let Budget { acts, crashes, lost, takeovers, late, retire } = self.budget;
        let budget = [acts, crashes, lost, takeovers, late, retire];
        let counts = budget.iter().fold(0, |word, count| (word << 3) | u64::from(*count));
        let [first, second] = &self.leaders;
        let [a, b, c] = first.words();
        let [d, e, f] = second.words();
        let rest = u64::from(self.pool.0) | (delivered << 20) | (u64::from(self.ended) << 28) | (counts << 32);
        [pods(&self.pods), claims(&self.claims), rest, a, b, c, d, e, f]
    }
}

fn pods(pods: &[Pod; PODS as usize]) -> u64 {
    pods.iter().fold(0, |word, pod| (word << 16) | u64::from(pod.0))
}

fn claims(claims: &[Claim; CLAIMS as usize]) -> u64 {
    claims.iter().fold(0, |word, claim| (word << 17) | u64::from(claim.0))
}

impl Leader {
    fn words(&self) -> [u64; 3] {
        let Flight { kind, target, claim, stage, current, orphan, before, value } = self.flight;
        let flags = [self.up, self.starting, self.listed].iter().fold(0, |word, flag| (word << 1) | u64::from(*flag));
        let flight = [
            (kind as u64, 5),
            (u64::from(target), 3),
            (u64::from(claim), 2),
            (stage as u64, 3),
            (u64::from(current), 1),
            (u64::from(orphan), 1),
            (u64::from(before), 8),
            (u64::from(value), 19),
        ];
        let flight = flight.iter().fold(0, |word, (field, bits)| (word << bits) | field);
        [
            pods(&self.pods),
            claims(&self.claims) | (flags << 51) | (u64::from(self.listed_claims) << 54),
            (flight << 20) | u64::from(self.pool.0),
        ]
    }
}
