//! The API server's JSON, by names of fields.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::{Change, ClaimState, Fact, Grant, Kind, PodState, PoolState, Slot, State};

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
            Kind::Anchor => State::Anchor(some(&meta["labels"]["sandbox.opensandbox.io/pool-uid"])),
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
        created: object["metadata"]["creationTimestamp"].as_str().and_then(|text| text.parse().ok()),
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
