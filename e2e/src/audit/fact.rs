//! One line of the watch log, reduced to what the invariants are about.
//!
//! Read from the API server's JSON by names of fields, with none of the operator's own types: an audit that shared the
//! code of what it audits would share its mistakes.

use std::fmt;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

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
    /// The operator's Lease: who led when. No invariant rests on it.
    Lease,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Pod, Self::Pool, Self::BatchSandbox, Self::Sandbox, Self::Lease];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::Pool => "Pool",
            Self::BatchSandbox => "BatchSandbox",
            Self::Sandbox => "Sandbox",
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

impl Fact {
    /// Reads one object of a list or event.
    #[must_use]
    pub fn read(kind: Kind, change: Change, object: &Value, at: Timestamp, line: u64) -> Option<Self> {
        let meta = &object["metadata"];
        let state = match kind {
            Kind::Pod => State::Pod(pod(object)),
            Kind::Pool => State::Pool(pool(object)),
            Kind::BatchSandbox => State::Claim(batch(object)),
            Kind::Sandbox => State::Claim(single(object)),
            Kind::Lease => State::Lease(text(&object["spec"]["holderIdentity"])),
        };
        Some(Self {
            revision: meta["resourceVersion"].as_str()?.parse().ok()?,
            at,
            line,
            change,
            kind,
            name: text(&meta["name"]),
            uid: text(&meta["uid"]),
            ending: meta["deletionTimestamp"].is_string(),
            state,
        })
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
            State::Pod(_) | State::Pool(_) | State::Claim(_) => None,
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn some(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn pod(object: &Value) -> PodState {
    let labels = &object["metadata"]["labels"];
    let status = &object["status"];
    let ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    let owner = list(&object["metadata"]["ownerReferences"]).iter().find(|owner| owner["controller"] == true);
    PodState {
        pool: some(&labels["sandbox.opensandbox.io/pool-uid"]),
        claim: some(&labels["sandbox.opensandbox.io/claim-uid"]),
        warm: labels["sandbox.opensandbox.io/warm"] == "true",
        ready: list(&status["conditions"]).iter().any(ready),
        terminal: status["phase"] == "Failed" || status["phase"] == "Succeeded",
        bound: object["spec"]["nodeName"].is_string(),
        owner: owner.and_then(|owner| some(&owner["uid"])),
    }
}

fn pool(object: &Value) -> PoolState {
    let sizes = &object["spec"]["capacitySpec"];
    let size = |name: &str| sizes[name].as_i64().unwrap_or_default();
    let status = &object["status"];
    let recycle = &object["spec"]["recycleStrategy"]["type"];
    PoolState {
        max: size("poolMax"),
        buffer: (size("bufferMin"), size("bufferMax")),
        min: size("poolMin"),
        recycles: recycle.as_str().is_some_and(|recycle| recycle != "Delete"),
        holder: text(&status["holder"]),
        grants: list(&status["grants"]).iter().flat_map(grants).collect(),
        retiring: list(&status["retiring"]).iter().map(|entry| last(&text(entry))).collect(),
    }
}

/// `{claim: "Kind/name/uid", pods: ["index:name/uid"]}`
fn grants(entry: &Value) -> Vec<Grant> {
    let claim = last(&text(&entry["claim"]));
    let pods = list(&entry["pods"]).iter().map(text);
    let grant = |pod: String| {
        let index = pod.split(':').next().and_then(|index| index.parse().ok()).unwrap_or(usize::MAX);
        Grant { claim: claim.clone(), index, pod: last(&pod) }
    };
    pods.map(grant).collect()
}

fn last(text: &str) -> String {
    text.rsplit('/').next().unwrap_or_default().to_owned()
}

fn claim(object: &Value) -> ClaimState {
    let spec = &object["spec"];
    ClaimState {
        pool: some(&spec["poolRef"]),
        replicas: 1,
        expires: spec["expireTime"].as_str().and_then(|text| text.parse().ok()),
        replaces: spec["recovery"] == "Replace",
        failed: object["status"]["phase"] == "Failed",
        slots: Vec::new(),
    }
}

fn batch(object: &Value) -> ClaimState {
    let replicas = object["spec"]["replicas"].as_u64().and_then(|count| usize::try_from(count).ok());
    let slots = list(&object["status"]["pods"]).iter().map(|slot| slot_of(slot.as_str().unwrap_or_default()));
    ClaimState { replicas: replicas.unwrap_or(1), slots: slots.collect(), ..claim(object) }
}

/// `""`, `name/uid/ip`, `name/uid/ip/ready`, `lost:uid`
fn slot_of(text: &str) -> Slot {
    if let Some(uid) = text.strip_prefix("lost:") {
        return Slot::Lost(uid.to_owned());
    }
    match text.split('/').collect::<Vec<_>>().as_slice() {
        [_, uid, rest @ ..] => Slot::Named { uid: (*uid).to_owned(), ready: rest.get(1) == Some(&"ready") },
        [_] | [] => Slot::Open,
    }
}

fn single(object: &Value) -> ClaimState {
    let status = &object["status"];
    let ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    let slot = match (some(&status["podUID"]), some(&status["lostPodUID"])) {
        (Some(uid), _) => Slot::Named { uid, ready: list(&status["conditions"]).iter().any(ready) },
        (None, Some(uid)) => Slot::Lost(uid),
        (None, None) => Slot::Open,
    };
    ClaimState { slots: vec![slot], ..claim(object) }
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
            State::Lease(holder) => write!(f, "holder={holder}"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(kind: Kind, object: &Value) -> State {
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = json!("7");
        Fact::read(kind, Change::Modified, &object, Timestamp::UNIX_EPOCH, 1).unwrap().state
    }

    #[test]
    fn a_ledger_is_read_from_its_strings() {
        let pool = json!({
            "spec": { "capacitySpec": { "poolMax": 9, "bufferMin": 1, "bufferMax": 2, "poolMin": 0 } },
            "status": {
                "grants": [{ "claim": "Sandbox/s/claim-uid", "pods": ["3:p-0/pod-uid"] }],
                "retiring": ["p-1/other-uid"],
            },
        });
        let State::Pool(pool) = read(Kind::Pool, &pool) else { unreachable!() };
        assert_eq!(pool.grants, [Grant { claim: "claim-uid".into(), index: 3, pod: "pod-uid".into() }]);
        assert_eq!((pool.retiring, pool.max, pool.buffer), (vec!["other-uid".into()], 9, (1, 2)));
    }

    #[test]
    fn a_claim_s_slots_are_read_from_both_kinds() {
        let batch = json!({
            "spec": { "replicas": 3 },
            "status": { "pods": ["p/u/198.18.0.2/ready", "", "lost:v", "q/w/"] },
        });
        let State::Claim(claim) = read(Kind::BatchSandbox, &batch) else { unreachable!() };
        let named = |uid: &str, ready| Slot::Named { uid: uid.into(), ready };
        assert_eq!(claim.slots, [named("u", true), Slot::Open, Slot::Lost("v".into()), named("w", false)]);
        let single = json!({ "spec": {}, "status": { "podUID": "u", "lostPodUID": null } });
        let State::Claim(claim) = read(Kind::Sandbox, &single) else { unreachable!() };
        assert_eq!((claim.slots, claim.replicas), (vec![named("u", false)], 1));
    }
}
