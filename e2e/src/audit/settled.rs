//! I5: what is still to do when nothing fails any more.

use k8s_openapi::jiff::Timestamp;

use super::fact::{ClaimState, PoolState, Slot};
use super::world::{Thing, World};

/// How much later than its deadline a claim may be seen, in seconds.
const LATE: i64 = 2;

/// Everything that is not as it should come to rest: one line each, none if it has.
#[must_use]
pub fn unsettled(world: &World, now: Timestamp) -> Vec<String> {
    let mut open = Vec::new();
    ending(world, &mut open);
    for (uid, pool) in &world.pools {
        of_pool(world, uid, pool, &mut open);
    }
    for (uid, claim) in &world.claims {
        of_claim(world, uid, claim, now, &mut open);
    }
    of_pods(world, &mut open);
    let left =
        |anchor: &&Thing<Option<String>>| anchor.state.as_ref().is_some_and(|pool| !world.pools.contains_key(pool));
    open.extend(
        world
            .anchors
            .values()
            .filter(left)
            .map(|anchor| format!("ControllerRevision {} is left of a Pool that is gone", anchor.name)),
    );
    open
}

fn ending(world: &World, open: &mut Vec<String>) {
    let pods = world.pods.values().filter(|pod| pod.ending).map(|pod| format!("Pod {}", pod.name));
    let pools = world.pools.values().filter(|pool| pool.ending).map(|pool| format!("Pool {}", pool.name));
    let claims = world.claims.values().filter(|claim| claim.ending).map(|claim| claim.name.clone());
    open.extend(pods.chain(pools).chain(claims).map(|what| format!("{what} is stuck in deletion")));
}

/// The ledger is empty and the Pool has its size.
fn of_pool(world: &World, uid: &str, pool: &Thing<PoolState>, open: &mut Vec<String>) {
    let PoolState { max, buffer: (low, high), min, grants, retiring, .. } = &pool.state;
    if !grants.is_empty() || !retiring.is_empty() {
        let (promised, retired) = (grants.len(), retiring.len());
        open.push(format!("Pool {}: the ledger promises {promised} Pods and retires {retired}", pool.name));
    }
    let named = world.named();
    let of_pool = world.pods.iter().filter(|(_, pod)| pod.state.pool.as_deref() == Some(uid));
    let (held, idle): (Vec<_>, Vec<_>) = of_pool.partition(|(uid, _)| named.contains(uid.as_str()));
    let (held, idle) = (count(held.len()), count(idle.len()));
    let floor = (held + low).max(*min).min((*max).max(held));
    let ceil = (held + high.max(low)).max(*min);
    if held + idle < floor || held + idle > ceil {
        open.push(format!("Pool {}: {held} held and {idle} idle Pods, wanted are {floor} to {ceil}", pool.name));
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// It is served, or cannot be; it is not past its deadline.
fn of_claim(world: &World, uid: &str, claim: &Thing<ClaimState>, now: Timestamp, open: &mut Vec<String>) {
    let Thing { name, state, .. } = claim;
    if let Some(expires) = state.expires
        && expires.as_second() + LATE < now.as_second()
    {
        open.push(format!("{name} ({uid}) is past its deadline {expires}"));
    }
    for index in 0..state.replicas {
        match state.slots.get(index).unwrap_or(&Slot::Open) {
            // Its failure is said, and it asks for nothing more.
            Slot::Open | Slot::Lost(_) if state.failed && !state.replaces => {}
            Slot::Named { uid: pod, ready } => match world.pods.get(pod) {
                Some(there) if there.state.ready && *ready => {}
                Some(there) if there.state.ready == *ready && there.state.terminal => {}
                Some(there) => open.push(format!(
                    "{name}[{index}] shows its Pod {} as ready={ready}, the Pod says {}",
                    there.name, there.state.ready
                )),
                None => open.push(format!("{name}[{index}] names the Pod {pod}, which is gone")),
            },
            Slot::Open | Slot::Lost(_) if !can_be_met(world, state) => {}
            Slot::Open | Slot::Lost(_) => open.push(format!("{name}[{index}] has no Pod")),
        }
    }
    if state.slots.iter().skip(state.replicas).any(|slot| slot.named().is_some()) {
        open.push(format!("{name} wants {} and names more", state.replicas));
    }
}

/// A claim on a Pool that is full, or that is not there, waits.
fn can_be_met(world: &World, claim: &ClaimState) -> bool {
    let Some(name) = &claim.pool else { return true };
    if name == "*" {
        // It is to be given a Pool, and is, as long as one is large enough.
        return world.pools.values().any(|pool| count(claim.replicas) <= pool.state.max);
    }
    let Some((uid, pool)) = world.pool_named(name) else { return false };
    let named = world.named();
    // By uid: sandboxes outlive their Pool, and one of its name may come after it.
    let held =
        world.pods.iter().filter(|(pod, it)| it.state.pool.as_ref() == Some(uid) && named.contains(pod.as_str()));
    count(claim.replicas) <= pool.state.max && count(held.count()) < pool.state.max
}

/// Every Pod is somebody's, or clean and its Pool's.
fn of_pods(world: &World, open: &mut Vec<String>) {
    for (uid, pod) in &world.pods {
        let name = &pod.name;
        let mark = pod.state.claim.as_ref();
        match (world.named_by(uid).next(), pod.state.warm) {
            (Some(_), true) => open.push(format!("Pod {name} is delivered and still marked clean")),
            (Some((claim, _)), false) if pod.state.owner.as_ref() != Some(claim) => {
                open.push(format!("Pod {name} is delivered and owned by another: {:?}", pod.state.owner));
            }
            (Some((claim, _)), false) if mark.is_some_and(|mark| mark != claim) => {
                open.push(format!("Pod {name} is delivered and bears the mark of another: {mark:?}"));
            }
            (Some(_), false) => {}
            (None, true) => {
                let pool = pod.state.pool.as_ref().and_then(|pool| world.pools.get(pool));
                if pool.is_none() {
                    open.push(format!("Pod {name} is clean and its Pool is gone: nobody owns it"));
                }
            }
            (None, false) => open.push(format!("Pod {name} is used and no claim names it: nobody owns it")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fact::{Change, Fact, Grant, Kind, PodState, State};
    use super::*;

    /// A Pool of two: one Pod of a claim, one idle.
    fn at_rest() -> World {
        let pool = PoolState { max: 3, buffer: (1, 1), ..PoolState::default() };
        let of_pool = |warm| PodState { pool: Some("pool".into()), warm, ready: true, ..PodState::default() };
        let held = PodState { claim: Some("claim".into()), owner: Some("claim".into()), ..of_pool(false) };
        let slots = vec![Slot::Named { uid: "held".into(), ready: true }];
        let claim = ClaimState { pool: Some("pool".into()), replicas: 1, slots, ..ClaimState::default() };
        let mut world = World::default();
        put(&mut world, Kind::Pool, "pool", State::Pool(pool));
        put(&mut world, Kind::Pod, "held", State::Pod(held));
        put(&mut world, Kind::Pod, "idle", State::Pod(of_pool(true)));
        put(&mut world, Kind::Sandbox, "claim", State::Claim(claim));
        world
    }

    fn put(world: &mut World, kind: Kind, name: &str, state: State) {
        let revision = 1 + (world.pods.len() + world.pools.len() + world.claims.len()) as u64;
        let (at, change, ending) = (Timestamp::UNIX_EPOCH, Change::Modified, false);
        let (name, uid) = (name.to_owned(), name.to_owned());
        world.take(&Fact { revision, at, line: revision, change, kind, name, uid, ending, state });
    }

    fn open(change: impl FnOnce(&mut World)) -> String {
        let mut world = at_rest();
        change(&mut world);
        unsettled(&world, Timestamp::UNIX_EPOCH).join("; ")
    }

    fn claim(world: &mut World, change: impl FnOnce(&mut ClaimState)) {
        if let Some(claim) = world.claims.get_mut("claim") {
            change(&mut claim.state);
        }
    }

    #[test]
    fn what_rests_is_settled() {
        assert_eq!(open(|_| {}), "");
    }

    #[test]
    fn a_deletion_that_hangs_is_not() {
        assert!(open(|world| world.pods.values_mut().for_each(|pod| pod.ending = true)).contains("stuck in deletion"));
    }

    #[test]
    fn a_ledger_that_holds_something_is_not() {
        let grant = Grant { claim: "claim".into(), index: 0, pod: "held".into() };
        let promised = open(|world| world.pools.values_mut().for_each(|pool| pool.state.grants.push(grant.clone())));
        assert!(promised.contains("promises 1 Pods"), "{promised}");
    }

    #[test]
    fn a_claim_that_could_be_served_is_not_and_one_that_failed_is() {
        let waits = open(|world| claim(world, |claim| claim.replicas = 2));
        assert!(waits.contains("claim[1] has no Pod"), "{waits}");
        let failed = |claim: &mut ClaimState| (claim.replicas, claim.failed) = (2, true);
        assert_eq!(open(|world| claim(world, failed)), "");
        assert_eq!(open(|world| claim(world, |claim| claim.replicas = 9)).matches("has no Pod").count(), 0);
    }

    #[test]
    fn a_claim_past_its_deadline_is_not() {
        let late = Timestamp::from_second(-5).ok();
        assert!(open(|world| claim(world, |claim| claim.expires = late)).contains("past its deadline"));
    }

    #[test]
    fn a_pod_that_nobody_owns_is_not() {
        let lost = open(|world| claim(world, |claim| (claim.slots, claim.replicas) = (Vec::new(), 0)));
        assert!(lost.contains("used and no claim names it"), "{lost}");
        let anchor = open(|world| put(world, Kind::Anchor, "anchor", State::Anchor(Some("earlier".into()))));
        assert!(anchor.contains("left of a Pool that is gone"), "{anchor}");
        let orphan = open(|world| world.pools.clear());
        assert!(orphan.contains("its Pool is gone"), "{orphan}");
    }

    #[test]
    fn a_pool_of_another_size_is_not() {
        assert!(open(|world| drop(world.pods.remove("idle"))).contains("wanted are 2 to 2"));
    }
}
