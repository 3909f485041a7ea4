//! Which faults there are, and how often.

use std::fmt;
use std::time::Duration;

use super::asked::{Asked, Verb};
use super::dice::Dice;

/// What happens to a request. A proxy may hold up, refuse, or lose; it never says of an object what is not so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is passed on between so and so much later, if its sender still waits then.
    Delay(Duration, Duration),
    /// It is passed on later **whether or not** its sender still waits, or lives: a write lands when nobody expects
    /// it any more.
    Late(Duration, Duration),
    /// It is not passed on; the answer says so.
    Refuse(Refusal),
    /// It takes effect and its answer is lost with the connection.
    LoseAnswer,
    /// It takes effect and is answered as a failure.
    HideAnswer,
    /// A watch breaks off so and so much later, in the middle of a line if need be.
    CutWatch(Duration, Duration),
    /// A watch is ended so and so much later by an event that says that its place is too old (410).
    ExpireWatch(Duration, Duration),
}

/// How the proxy refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 409 Conflict.
    Conflict,
    /// 410 Expired: the list or watch has to begin anew.
    Expired,
    /// 429, to be tried again in a second.
    TooManyRequests,
    /// 500.
    Internal,
    /// 503.
    Unavailable,
}

impl Refusal {
    /// HTTP status code.
    #[must_use]
    pub fn code(self) -> u16 {
        match self {
            Self::Conflict => 409,
            Self::Expired => 410,
            Self::TooManyRequests => 429,
            Self::Internal => 500,
            Self::Unavailable => 503,
        }
    }

    /// The API's reason word.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Conflict => "Conflict",
            Self::Expired => "Expired",
            Self::TooManyRequests => "TooManyRequests",
            Self::Internal => "InternalError",
            Self::Unavailable => "ServiceUnavailable",
        }
    }

    /// Whether an API server would ever answer so to this.
    fn fits(self, asked: &Asked) -> bool {
        match self {
            // A conflict that is none makes its sender look again. On a create it would mean that the name is in
            // use, which is not so.
            Self::Conflict => matches!(asked.verb, Verb::Patch | Verb::Replace | Verb::Delete),
            Self::Expired => matches!(asked.verb, Verb::List | Verb::Watch),
            Self::TooManyRequests | Self::Internal | Self::Unavailable => true,
        }
    }
}

impl Fault {
    /// Its word in tables.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Delay(..) => "delayed",
            Self::Late(..) => "landed late",
            Self::Refuse(Refusal::Conflict) => "refused 409",
            Self::Refuse(Refusal::Expired) => "refused 410",
            Self::Refuse(Refusal::TooManyRequests) => "refused 429",
            Self::Refuse(Refusal::Internal) => "refused 500",
            Self::Refuse(Refusal::Unavailable) => "refused 503",
            Self::LoseAnswer => "answer lost",
            Self::HideAnswer => "done, answered 500",
            Self::CutWatch(..) => "watch cut",
            Self::ExpireWatch(..) => "watch expired 410",
        }
    }

    fn fits(self, asked: &Asked) -> bool {
        let watch = asked.verb == Verb::Watch;
        match self {
            Self::Delay(..) => true,
            Self::Late(..) | Self::LoseAnswer | Self::HideAnswer => !watch,
            Self::Refuse(refusal) => refusal.fits(asked),
            Self::CutWatch(..) | Self::ExpireWatch(..) => watch,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Which requests something is about. Empty lists mean all.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Verbs.
    pub verbs: Vec<Verb>,
    /// Plurals with their subresource, as in [`Asked::resource`].
    pub resources: Vec<String>,
}

impl Scope {
    /// All requests that write; but for the Lease, which has to be named.
    #[must_use]
    pub fn writes() -> Self {
        Self { verbs: Verb::WRITES.to_vec(), resources: Vec::new() }
    }

    /// Requests of these verbs on these resources.
    #[must_use]
    pub fn of(verbs: &[Verb], resources: &[&str]) -> Self {
        Self { verbs: verbs.to_vec(), resources: resources.iter().map(|each| (*each).to_owned()).collect() }
    }

    fn holds(&self, asked: &Asked) -> bool {
        let verb = self.verbs.is_empty() || self.verbs.contains(&asked.verb);
        let resource = match self.resources.as_slice() {
            // The Lease decides who leads: a scope that does not name it would end every leader.
            [] => asked.resource != "leases",
            named => named.contains(&asked.resource),
        };
        verb && resource
    }
}

/// One fault, for a share of some requests.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Which.
    pub scope: Scope,
    /// In how many of 100 cases.
    pub percent: u32,
    /// What happens.
    pub fault: Fault,
}

/// All faults of a while.
#[derive(Clone, Debug, Default)]
pub struct Weather {
    /// Tried in their order; the first that strikes is the only one.
    pub rules: Vec<Rule>,
    /// Plurals whose watches show nothing for the time being; what happened comes when it is over.
    pub frozen: Vec<String>,
    /// Whether nothing passes either way. Requests that their sender still waits for pass when it is over.
    pub partitioned: bool,
    /// Whether writes lose the condition on the object's version ([`Asked::without_version`]): no fault of a network,
    /// but an operator that is wrong, for audits that must notice.
    pub without_versions: bool,
}

/// A fault that struck, with its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Struck {
    pub fault: Fault,
    pub after: Duration,
}

impl Weather {
    /// One fault only.
    #[must_use]
    pub fn of(scope: Scope, percent: u32, fault: Fault) -> Self {
        Self { rules: vec![Rule { scope, percent, fault }], ..Self::default() }
    }

    pub(super) fn freezes(&self, resource: &str) -> bool {
        self.frozen.iter().any(|each| each == resource)
    }

    /// What happens to the `number`th request of its verb and resource: by seed and number alone.
    pub(super) fn strike(&self, seed: u64, asked: &Asked, number: u64) -> Option<Struck> {
        let mut dice = Dice::at(seed, &[asked.verb.as_str(), &asked.resource], number);
        for rule in &self.rules {
            let strikes = dice.chance(rule.percent);
            if strikes && rule.scope.holds(asked) && rule.fault.fits(asked) {
                let after = match rule.fault {
                    Fault::Delay(from, to)
                    | Fault::Late(from, to)
                    | Fault::CutWatch(from, to)
                    | Fault::ExpireWatch(from, to) => dice.between(from, to),
                    Fault::Refuse(_) | Fault::LoseAnswer | Fault::HideAnswer => Duration::ZERO,
                };
                return Some(Struck { fault: rule.fault, after });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{Method, Uri};

    use super::*;

    fn asked(method: Method, uri: &'static str) -> Asked {
        Asked::read(&method, &Uri::from_static(uri), Bytes::new())
    }

    #[test]
    fn what_strikes_depends_on_seed_and_number_alone() {
        let weather = Weather::of(Scope::writes(), 30, Fault::LoseAnswer);
        let pod = asked(Method::DELETE, "/api/v1/namespaces/ns/pods/a");
        let struck = |seed| (0..200).map(|n| weather.strike(seed, &pod, n).is_some()).collect::<Vec<_>>();
        assert_eq!(struck(1), struck(1));
        assert_ne!(struck(1), struck(2));
        assert!(struck(1).contains(&true) && struck(1).contains(&false));
    }

    #[test]
    fn no_fault_says_what_an_api_server_would_not() {
        let conflict = Weather::of(Scope::default(), 100, Fault::Refuse(Refusal::Conflict));
        assert!(conflict.strike(1, &asked(Method::POST, "/api/v1/namespaces/ns/pods"), 0).is_none());
        assert!(conflict.strike(1, &asked(Method::PATCH, "/api/v1/namespaces/ns/pods/a"), 0).is_some());
        let expired = Weather::of(Scope::default(), 100, Fault::Refuse(Refusal::Expired));
        assert!(expired.strike(1, &asked(Method::GET, "/api/v1/namespaces/ns/pods/a"), 0).is_none());
        assert!(expired.strike(1, &asked(Method::GET, "/api/v1/pods?watch=true"), 0).is_some());
    }

    #[test]
    fn the_lease_is_struck_only_where_it_is_named() {
        let lease = asked(Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l");
        assert!(Weather::of(Scope::writes(), 100, Fault::LoseAnswer).strike(1, &lease, 0).is_none());
        let named = Scope::of(&[], &["leases"]);
        assert!(Weather::of(named, 100, Fault::LoseAnswer).strike(1, &lease, 0).is_some());
    }
}
