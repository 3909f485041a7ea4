//! What a Pool promises, over a toy cluster.

#![allow(clippy::unwrap_used, clippy::panic, clippy::wildcard_enum_match_arm, missing_docs)]

mod toy;

use proptest::prelude::*;
use sandbox_api::{CapacitySpec, Recovery, SandboxSlot};
use sandbox_core::grant::PoolLife;
use sandbox_core::pool::Action;
use toy::Toy;

fn size(buffer_min: i32, buffer_max: i32, pool_min: i32, pool_max: i32) -> CapacitySpec {
    CapacitySpec { buffer_min, buffer_max, pool_min, pool_max }
}

fn named(toy: &Toy, claim: &sandbox_core::ids::ClaimKey) -> Vec<String> {
    toy.read(claim).status.slots.iter().filter_map(|slot| slot.named_uid().map(str::to_owned)).collect()
}

#[test]
fn e014_an_empty_pool_starts_a_sandbox_on_demand() {
    let mut toy = Toy::new(size(0, 1, 0, 3));
    toy.rest();
    assert!(toy.pods.is_empty());
    let claim = toy.claim("a", 1);
    toy.rest();
    assert_eq!(named(&toy, &claim).len(), 1);
    assert_eq!(toy.pods.len(), 1, "a demand of one makes one pod");
}

#[test]
fn a_warm_claim_costs_a_commit_a_delivery_an_adoption_and_a_refill() {
    let mut toy = Toy::new(size(2, 2, 0, 10));
    toy.rest();
    toy.wait(10);
    let claim = toy.claim("a", 1);
    let mut writes = Vec::new();
    let note = |action: &Action, writes: &mut Vec<&'static str>| {
        writes.push(match action {
            Action::Commit { .. } => "commit",
            Action::WriteClaim { .. } => "deliver",
            Action::PatchPod { .. } => "adopt",
            Action::CreatePod { .. } => "create",
            Action::ProvePool | Action::ProvePod(_) | Action::ProveClaim(_) => "read",
            _ => "other",
        })
    };
    for _ in 0..5 {
        toy.step(|action| {
            note(action, &mut writes);
            true
        });
        toy.start_pods();
    }
    assert_eq!(named(&toy, &claim).len(), 1);
    writes.sort_unstable();
    assert_eq!(writes, ["adopt", "commit", "commit", "create", "deliver"], "the second commit settles");
}

#[test]
fn a_pod_that_is_seen_before_its_creation_is_answered_counts_once() {
    let mut toy = Toy::new(size(1, 1, 0, 9));
    toy.rest();
    toy.wait(10);
    let mut observed = toy.observe();
    observed.creating.insert(0);
    assert!(sandbox_core::pool::plan(&observed).actions.is_empty(), "neither a pod too many nor one too few");
}

#[test]
fn a_plan_looks_at_what_changed_and_not_at_what_there_is() {
    let mut toy = Toy::new(size(20, 20, 0, 99));
    for number in 0..30 {
        toy.claim(&format!("c{number}"), 1);
    }
    toy.rest();
    assert_eq!((toy.pods.len(), toy.looked_at()), (50, 0));
    toy.claim("one more", 1);
    assert_eq!(toy.looked_at(), 1, "the one that it is to be given");
    toy.rest();
    assert_eq!((toy.pods.len(), toy.looked_at()), (51, 0));
}

#[test]
fn an_idle_pod_on_a_cordoned_node_does_not_keep_an_empty_pool_from_serving() {
    let mut toy = Toy::new(size(0, 1, 0, 3));
    let cancelled = toy.claim("cancelled", 1);
    for _ in 0..3 {
        toy.step(|_| true);
    }
    toy.start_pods();
    toy.end_claim(&cancelled);
    toy.sick_nodes.insert("node".to_owned());
    let claim = toy.claim("a", 1);
    for _ in 0..12 {
        toy.step(|_| true);
    }
    assert!(toy.pods.values().any(|(pod, _)| pod.spec.node_name.is_none()), "a pod is made for it elsewhere");
    toy.sick_nodes.clear();
    toy.rest();
    assert_eq!(named(&toy, &claim).len(), 1);
}

#[test]
fn a_lowered_pool_max_takes_no_promise_back() {
    let mut toy = Toy::new(size(2, 2, 0, 5));
    toy.rest();
    let claim = toy.claim("a", 2);
    toy.step(|action| matches!(action, Action::Commit { .. }));
    toy.edit_pool(|pool| pool.spec.capacity_spec = size(0, 0, 0, 1));
    toy.rest();
    assert_eq!(named(&toy, &claim).len(), 2, "it may be on its way to the claim already");
}

#[test]
fn the_oldest_claim_is_served_first() {
    let mut toy = Toy::new(size(0, 0, 0, 3));
    let first = toy.claim("z", 2);
    toy.wait(2);
    let second = toy.claim("a", 2);
    toy.rest();
    assert_eq!((named(&toy, &first).len(), named(&toy, &second).len()), (2, 1));
    toy.end_claim(&first);
    toy.rest();
    assert_eq!(named(&toy, &second).len(), 2);
}

#[test]
fn claims_that_wait_cost_no_writes_while_others_come_and_go() {
    let mut toy = Toy::new(size(0, 0, 0, 2));
    let mut running: Vec<_> = (0..2).map(|number| toy.claim(&format!("first{number}"), 1)).collect();
    toy.rest();
    toy.wait(5);
    let waiting: Vec<_> = (0..10)
        .map(|number| {
            toy.wait(1);
            toy.claim(&format!("c{number}"), 1)
        })
        .collect();
    toy.wait(5);
    toy.rest();
    let version = |toy: &Toy, key| toy.claims[key].0.metadata.resource_version.clone();
    let last = waiting.last().unwrap();
    let told = version(&toy, last);
    for next in &waiting[..6] {
        toy.end_claim(&running.remove(0));
        toy.wait(1);
        toy.rest();
        assert_eq!(named(&toy, next).len(), 1, "the oldest goes first");
        running.push(next.clone());
    }
    assert_eq!(version(&toy, last), told, "its status was not written again");
}

#[test]
fn a_claim_that_can_never_be_met_holds_up_nobody() {
    let mut toy = Toy::new(size(0, 0, 0, 2));
    let huge = toy.claim("huge", 3);
    toy.wait(2);
    let small = toy.claim("small", 1);
    toy.rest();
    assert_eq!((named(&toy, &huge).len(), named(&toy, &small).len()), (0, 1));
}

/// Takes everything off a Pod by hand but the labels that it is watched by.
fn strip(pod: &mut sandbox_core::pod::Pod) {
    let labels = pod.metadata.labels.as_mut().unwrap();
    labels.retain(|label, _| label.ends_with("pool-uid") || label.ends_with("managed-by"));
    pod.metadata.owner_references = None;
}

#[test]
fn a_stripped_pod_in_use_is_adopted_again_and_never_idle() {
    let mut toy = Toy::new(size(1, 1, 0, 5));
    let claim = toy.claim("a", 1);
    toy.rest();
    let uid = named(&toy, &claim).remove(0);
    let key = toy.pods.keys().find(|key| *key.uid == *uid).unwrap().clone();
    toy.edit_pod(&key, strip);
    let other = toy.claim("b", 1);
    toy.rest();
    assert_ne!(named(&toy, &other), [uid]);
    assert_eq!(toy.pods[&key].0.claim_owner(), Some(&*claim.uid));
}

#[test]
fn labels_of_a_pod_in_use_that_were_stripped_are_put_back() {
    let mut toy = Toy::new(size(0, 0, 0, 5));
    let claim = toy.claim("a", 1);
    toy.rest();
    let key = only(&toy);
    toy.edit_pod(&key, |pod| pod.metadata.labels.as_mut().unwrap().retain(|label, _| !label.contains("claim-")));
    assert_eq!(toy.pods[&key].0.claim_owner(), Some(&*claim.uid), "only the labels");
    toy.rest();
    assert_eq!(toy.pods[&key].0.label(sandbox_api::labels::CLAIM_UID), Some(&*claim.uid));
}

#[test]
fn a_pod_that_dies_between_promise_and_delivery_is_no_loss_of_its_claim() {
    let mut toy = Toy::new(size(1, 1, 0, 5));
    toy.rest();
    let claim = toy.claim("a", 1);
    assert_eq!(toy.read(&claim).recovery, Recovery::Fail);
    toy.step(|action| matches!(action, Action::Commit { .. }));
    let promised = toy.pool.status.as_ref().unwrap().grants[0].pods[0].clone();
    let key = toy.pods.keys().find(|key| promised.ends_with(&*key.uid)).unwrap().clone();
    toy.end_pod(&key);
    toy.rest();
    assert_eq!(named(&toy, &claim).len(), 1);
    assert!(toy.pool.status.as_ref().unwrap().grants.is_empty(), "the ledger drains");
}

#[test]
fn lowered_replicas_give_pods_back() {
    let mut toy = Toy::new(size(0, 0, 0, 5));
    let claim = toy.claim("a", 3);
    toy.rest();
    toy.edit_claim(&claim, |object| object.spec.replicas = 1);
    toy.delivered.retain(|_, _| false);
    toy.rest();
    assert_eq!(named(&toy, &claim).len(), 1);
    assert_eq!(toy.pods.len(), 1);
}

#[test]
fn deleting_a_pool_ends_its_warm_pods_and_no_sandbox() {
    let mut toy = Toy::new(size(2, 2, 0, 5));
    let claim = toy.claim("a", 1);
    toy.rest();
    let waiting = toy.claim("b", 5);
    toy.life = PoolLife::Gone;
    toy.rest();
    assert_eq!(toy.pods.len(), 1);
    assert_eq!(named(&toy, &claim).len(), 1);
    assert!(toy.read(&waiting).status.pool_gone.is_some());
    assert!(toy.anchors.is_empty());
}

#[test]
fn a_new_template_replaces_idle_pods_and_leaves_used_ones() {
    let mut toy = Toy::new(size(4, 4, 0, 10));
    let claim = toy.claim("a", 1);
    toy.rest();
    let used = named(&toy, &claim);
    toy.edit_pool(|pool| {
        pool.spec.template = Some(serde_json::json!({"spec": {"containers": [{"name": "c", "image": "new"}]}}))
    });
    toy.rest();
    let revision = toy.pool.status.as_ref().unwrap().revision.clone();
    let old: Vec<_> = toy
        .pods
        .iter()
        .filter(|(_, (pod, _))| pod.label(sandbox_api::labels::POOL_REVISION) != Some(&revision))
        .map(|(key, _)| key.uid.to_string())
        .collect();
    assert_eq!(old, used);
    assert_eq!(toy.pods.len(), 5);
    assert_eq!(toy.anchors.len(), 1, "the old anchor goes with the last pod that names it");
}

fn image_pull_back_off() -> serde_json::Value {
    serde_json::json!({"phase": "Pending", "containerStatuses": [{"name": "c",
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}]})
}

fn steps(toy: &mut Toy, number: usize) {
    for _ in 0..number {
        toy.step(|_| true);
    }
}

fn only(toy: &Toy) -> sandbox_core::ids::PodKey {
    let [key] = &toy.pods.keys().collect::<Vec<_>>()[..] else { panic!("{:?}", toy.pods.keys()) };
    (*key).clone()
}

/// An empty Pool with a claim that waits for a Pod which does not start.
fn hanging(status: serde_json::Value) -> (Toy, sandbox_core::ids::ClaimKey, sandbox_core::ids::PodKey) {
    let mut toy = Toy::new(size(0, 0, 0, 9));
    let claim = toy.claim("a", 1);
    steps(&mut toy, 3);
    let pod = only(&toy);
    toy.hang(&pod, status);
    (toy, claim, pod)
}

#[test]
fn a_pod_that_cannot_start_is_given_up_for_another() {
    let (mut toy, claim, pod) = hanging(image_pull_back_off());
    toy.wait(59);
    assert!(!toy.step(|_| true) || toy.pods.contains_key(&pod), "the kubelet tries again by itself for a while");
    toy.wait(2);
    toy.rest();
    assert!(!toy.pods.contains_key(&pod));
    assert_eq!(named(&toy, &claim).len(), 1);
}

#[test]
fn pods_that_cannot_start_are_given_up_no_faster_than_they_may_be_made() {
    let (mut toy, _, pod) = hanging(image_pull_back_off());
    toy.wait(90);
    toy.start_failures = sandbox_core::pool::StartFailures { count: 7, last: Some(toy.now) };
    let planned = sandbox_core::pool::plan(&toy.observe());
    let retires = |action: &Action| matches!(action, Action::Commit { status, .. } if !status.retiring.is_empty());
    assert!(!planned.actions.iter().any(retires), "{:?}", planned.actions);
    toy.wait(65);
    toy.rest();
    assert!(!toy.pods.contains_key(&pod));
}

#[test]
fn a_claim_does_not_wait_for_ever_for_a_pod_that_never_gets_ready() {
    let (mut toy, claim, pod) = hanging(serde_json::json!({"phase": "Pending"}));
    toy.wait(61);
    steps(&mut toy, 2);
    assert_eq!(toy.pods.len(), 2, "another is tried beside it");
    toy.start_pods();
    toy.wait(1);
    toy.rest();
    assert_eq!(named(&toy, &claim).len(), 1);
    assert!(!toy.pods.contains_key(&pod), "it was overtaken by a younger one");
}

#[test]
fn a_slow_image_does_not_fill_the_pool() {
    let (mut toy, _, _) = hanging(serde_json::json!({"phase": "Pending"}));
    let end = toy.now.saturating_add(k8s_openapi::jiff::SignedDuration::from_mins(20)).unwrap();
    while toy.now < end {
        toy.wait(10);
        steps(&mut toy, 1);
        let keys: Vec<_> = toy.pods.keys().cloned().collect();
        keys.iter().for_each(|key| toy.hang(key, serde_json::json!({"phase": "Pending"})));
    }
    assert!((4..=7).contains(&toy.pods.len()), "{} pods after 20 minutes of pulling", toy.pods.len());
}

#[test]
fn a_pod_that_no_node_has_room_for_is_not_tried_again() {
    let (mut toy, _, pod) = hanging(serde_json::json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}]}));
    toy.wait(600);
    steps(&mut toy, 3);
    assert_eq!(only(&toy), pod);
}

#[test]
fn a_claim_made_after_the_end_of_its_pool_is_not_told_of_it() {
    let mut toy = Toy::new(size(0, 0, 0, 5));
    let held = toy.claim("a", 1);
    toy.rest();
    let waiting = toy.claim("b", 5);
    toy.life = PoolLife::Gone;
    toy.step(|action| matches!(action, Action::ListClaims));
    let later = toy.claim("c", 1);
    toy.rest();
    assert!(toy.read(&waiting).status.pool_gone.is_some());
    assert!(toy.read(&later).status.pool_gone.is_none(), "it waits for the next pool of that name");
    assert_eq!(named(&toy, &held).len(), 1);
}

/// One thing that happens to the toy cluster.
#[derive(Clone, Debug)]
enum Event {
    Claim(i32),
    EndClaim(prop::sample::Index),
    EndPod(prop::sample::Index),
    Start,
    /// One plan, of which the actions with these bits are lost.
    Step(u64),
    Wait,
    Resize(i32, i32, i32),
    /// A person strips a Pod's claim labels and owner.
    Strip(prop::sample::Index),
    /// A person strips a Pod's owner.
    Disown(prop::sample::Index),
    /// A person strips the labels that say whose a Pod is.
    Unlabel(prop::sample::Index),
    /// A claim wants one more.
    Grow(prop::sample::Index),
    /// The only node is cordoned, or takes Pods again.
    Cordon(bool),
    Template(u8),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (1..4).prop_map(Event::Claim),
        1 => any::<prop::sample::Index>().prop_map(Event::EndClaim),
        1 => any::<prop::sample::Index>().prop_map(Event::EndPod),
        3 => Just(Event::Start),
        6 => any::<u64>().prop_map(Event::Step),
        1 => Just(Event::Wait),
        1 => (0..4, 0..4, 3..9).prop_map(|(buffer, min, max)| Event::Resize(buffer, min, max)),
        1 => any::<prop::sample::Index>().prop_map(Event::Strip),
        1 => any::<prop::sample::Index>().prop_map(Event::Disown),
        1 => any::<prop::sample::Index>().prop_map(Event::Unlabel),
        1 => any::<prop::sample::Index>().prop_map(Event::Grow),
        1 => any::<bool>().prop_map(Event::Cordon),
        1 => (0..3_u8).prop_map(Event::Template),
    ]
}

fn happen(toy: &mut Toy, event: Event, number: usize) {
    match event {
        Event::Claim(replicas) => drop(toy.claim(&format!("c{number}"), replicas)),
        Event::EndClaim(which) if !toy.claims.is_empty() => {
            let key = toy.claims.keys().nth(which.index(toy.claims.len())).unwrap().clone();
            toy.end_claim(&key);
        }
        Event::EndPod(which) if !toy.pods.is_empty() => {
            let key = toy.pods.keys().nth(which.index(toy.pods.len())).unwrap().clone();
            toy.end_pod(&key);
        }
        Event::Strip(which) if !toy.pods.is_empty() => {
            let key = toy.pods.keys().nth(which.index(toy.pods.len())).unwrap().clone();
            toy.edit_pod(&key, strip);
        }
        Event::Disown(which) if !toy.pods.is_empty() => {
            let key = toy.pods.keys().nth(which.index(toy.pods.len())).unwrap().clone();
            toy.edit_pod(&key, |pod| pod.metadata.owner_references = None);
        }
        Event::Unlabel(which) if !toy.pods.is_empty() => {
            let key = toy.pods.keys().nth(which.index(toy.pods.len())).unwrap().clone();
            toy.edit_pod(&key, |pod| {
                pod.metadata.labels.as_mut().unwrap().retain(|label, _| !label.contains("claim-"));
            });
        }
        Event::Grow(which) if !toy.claims.is_empty() => {
            let key = toy.claims.keys().nth(which.index(toy.claims.len())).unwrap().clone();
            toy.edit_claim(&key, |claim| claim.spec.replicas += 1);
        }
        Event::EndClaim(_)
        | Event::EndPod(_)
        | Event::Strip(_)
        | Event::Disown(_)
        | Event::Unlabel(_)
        | Event::Grow(_) => {}
        Event::Cordon(cordoned) => toy.sick_nodes = cordoned.then(|| "node".to_owned()).into_iter().collect(),
        Event::Template(number) => toy.edit_pool(|pool| {
            pool.spec.template =
                Some(serde_json::json!({"spec": {"containers": [{"name": "c", "image": format!("i{number}")}]}}));
        }),
        Event::Start => toy.start_pods(),
        Event::Step(lost) => {
            let mut at = 0;
            toy.step(|_| {
                at += 1;
                lost >> (at % 64) & 1 == 0
            });
        }
        Event::Wait => toy.wait(3),
        Event::Resize(buffer, min, max) => {
            toy.edit_pool(|pool| pool.spec.capacity_spec = size(buffer, buffer + 1, min, max))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Delivering a Pod twice and deleting one in use are asserted by the toy itself.
    #[test]
    fn whatever_happens_a_pool_comes_to_rest_with_every_claim_met(events in prop::collection::vec(event(), 1..40)) {
        let mut toy = Toy::new(size(1, 2, 0, 6));
        for (number, event) in events.into_iter().enumerate() {
            happen(&mut toy, event, number);
        }
        toy.sick_nodes.clear();
        toy.rest();
        let status = toy.pool.status.clone().unwrap_or_default();
        prop_assert!(status.grants.is_empty() && status.retiring.is_empty(), "the ledger drains: {status:?}");
        let spec = toy.pool.spec.capacity_spec;
        let held: usize = toy.claims.keys().map(|key| named(&toy, key).len()).sum();
        let mut waiting = 0;
        for key in toy.claims.keys() {
            let claim = toy.read(key);
            let open = claim.status.slots.iter().filter(|slot| matches!(slot, SandboxSlot::Open)).count()
                + (claim.replicas as usize).saturating_sub(claim.status.slots.len());
            if claim.asks() && claim.replicas as i32 <= spec.pool_max {
                waiting += open;
            }
        }
        let idle = toy.pods.values().filter(|(pod, _)| pod.is_warm()).count();
        prop_assert!(waiting == 0 || toy.pods.len() >= spec.pool_max as usize && idle == 0, "{waiting} wait, {idle} are idle, {held} held");
        let floor = (held + waiting + spec.buffer_min as usize).max(spec.pool_min as usize);
        let ceil = (held + waiting + spec.buffer_max as usize).max(spec.pool_min as usize);
        prop_assert!(toy.pods.len() <= ceil.max(held), "{} pods, ceiling {ceil}", toy.pods.len());
        prop_assert!(toy.pods.len() >= floor.min(spec.pool_max as usize), "{} pods, floor {floor}", toy.pods.len());
    }
}
