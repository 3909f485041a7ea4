//! The rules of the grant protocol, one situation each, over numbers for identifiers. The holes of its first version (H1 to
//! H15 of the protocol's page) that one process can show are here by number.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;

use sandbox_core::grant::{
    ClaimLife, ClaimView, EndStep, Grant, Holder, Ledger, PodLife, PodView, PoolLife, Recycle, Slot, Step, World,
    commit, count, end, steps,
};

type W = World<u8, char>;

fn pod() -> PodView<char> {
    PodView {
        life: PodLife::Alive,
        warm: true,
        held_by: None,
        owned: false,
        grantable: true,
        rank: 0,
        confirmed: true,
        busy: false,
    }
}

fn held(claim: char) -> PodView<char> {
    PodView { warm: false, held_by: Some((claim, 0)), owned: true, ..pod() }
}

fn claim(slots: &[Slot<u8>]) -> ClaimView<u8> {
    ClaimView {
        life: ClaimLife::Live,
        asks: true,
        can_be_met: true,
        replaces_lost: false,
        replicas: 1,
        slots: slots.to_vec(),
        rank: 0,
        confirmed: true,
        busy: false,
    }
}

fn gone() -> ClaimView<u8> {
    ClaimView { life: ClaimLife::Gone, ..claim(&[]) }
}

fn world(pods: &[(u8, PodView<char>)], claims: &[(char, ClaimView<u8>)], grants: &[(char, u8)]) -> W {
    World {
        holder: Holder::Mine,
        pool: PoolLife::Live,
        ledger: Ledger {
            grants: grants.iter().map(|(claim, pod)| Grant { claim: *claim, index: 0, pod: *pod }).collect(),
            retiring: Vec::new(),
        },
        committing: false,
        recycle: Recycle::Delete,
        pods: pods.iter().cloned().collect::<BTreeMap<_, _>>(),
        claims: claims.iter().cloned().collect::<BTreeMap<_, _>>(),
    }
}

#[test]
fn a_waiting_claim_is_promised_an_idle_pod_and_then_given_it() {
    let mut world = world(&[(1, pod())], &[('a', claim(&[]))], &[]);
    let next = commit(&world, &[]);
    assert_eq!(next.ledger.grants, [Grant { claim: 'a', index: 0, pod: 1 }]);
    assert!(next.is_urgent() && steps(&world).is_empty(), "nothing is given that was not promised in writing");
    world.ledger = next.ledger;
    assert_eq!(steps(&world), [Step::Deliver { claim: 'a', pods: vec![(0, 1)] }]);
}

#[test]
fn h1_nothing_is_written_while_the_pool_is_anothers() {
    let mut world = world(&[(1, pod())], &[('a', claim(&[]))], &[('a', 1)]);
    world.holder = Holder::Foreign;
    assert!(steps(&world).is_empty());
}

#[test]
fn h2_an_idle_pod_is_deleted_only_after_its_retirement_is_written() {
    let mut world = world(&[(1, pod())], &[], &[]);
    let next = commit(&world, &[1]);
    assert_eq!((next.ledger.retiring.as_slice(), next.retired), (&[1][..], 1));
    assert!(steps(&world).is_empty());
    world.ledger = next.ledger;
    assert_eq!(steps(&world), [Step::EndRetired(1)]);
    world.claims.insert('a', claim(&[]));
    assert_eq!(commit(&world, &[]).granted, 0, "a retiring pod is promised to nobody");
}

#[test]
fn h2_a_promised_pod_is_never_retired() {
    let world = world(&[(1, pod())], &[('a', claim(&[]))], &[('a', 1)]);
    assert_eq!(commit(&world, &[1]).retired, 0);
}

#[test]
fn h5_h13_a_pod_that_is_not_seen_is_asked_for_and_not_lost() {
    let world = world(&[], &[('a', claim(&[Slot::Named(1)]))], &[('a', 1)]);
    assert_eq!(steps(&world), [Step::ProvePod(1)]);
    assert!(commit(&world, &[]).is_empty());
}

#[test]
fn h6_a_pod_without_the_clean_mark_is_never_promised() {
    let stripped = PodView { warm: false, ..pod() };
    let world = world(&[(1, stripped)], &[('a', claim(&[]))], &[]);
    assert_eq!(commit(&world, &[]).granted, 0);
    assert_eq!(steps(&world), [Step::EndUnclaimed(1)]);
}

#[test]
fn h7_h8_a_write_on_a_version_newer_than_the_last_proof_waits_for_a_new_proof() {
    let late = ClaimView { confirmed: false, ..claim(&[]) };
    let unproven = world(&[(1, pod())], &[('a', late)], &[('a', 1)]);
    assert_eq!(steps(&unproven), [Step::ProvePool]);
    let used = PodView { warm: false, confirmed: false, ..pod() };
    assert_eq!(steps(&world(&[(1, used)], &[], &[])), [Step::ProvePool]);
}

#[test]
fn h9_no_proof_is_asked_for_while_the_ledger_is_being_written() {
    let raised_again = ClaimView { confirmed: false, ..claim(&[]) };
    let mut world = world(&[(1, pod())], &[('a', raised_again)], &[('a', 1)]);
    world.committing = true;
    assert!(steps(&world).is_empty(), "the write under way may take back what would be delivered");
}

#[test]
fn h9_a_promise_that_is_wanted_no_more_is_taken_back_in_the_ledger() {
    let lowered = ClaimView { replicas: 0, ..claim(&[]) };
    let mut world = world(&[(1, pod())], &[('a', lowered)], &[('a', 1)]);
    assert!(steps(&world).is_empty(), "the pod is not deleted on a look");
    let next = commit(&world, &[]);
    assert_eq!((next.withdrawn, next.ledger.retiring.as_slice()), (1, &[1][..]));
    world.claims.insert('a', ClaimView { replicas: 0, busy: true, ..claim(&[]) });
    assert_eq!(commit(&world, &[]).withdrawn, 0, "a delivery on its way may yet name it");
}

#[test]
fn h12_a_dead_idle_pod_is_removed() {
    let dead = PodView { life: PodLife::Terminal, ..pod() };
    assert_eq!(steps(&world(&[(1, dead.clone())], &[], &[])), [Step::EndTerminal(1)]);
    assert!(
        steps(&world(&[(1, dead)], &[('a', claim(&[Slot::Named(1)]))], &[])).is_empty(),
        "a named one tells its end first"
    );
}

#[test]
fn a_pod_in_use_whose_owner_was_stripped_is_given_it_again() {
    let stripped = PodView { owned: false, ..held('a') };
    let mut world = world(&[(1, stripped)], &[('a', claim(&[Slot::Named(1)]))], &[]);
    assert_eq!(steps(&world), [Step::Readopt { pod: 1, claim: 'a', index: 0 }], "it would outlive its claim");
    world.recycle = Recycle::Noop;
    assert!(steps(&world).is_empty(), "where used Pods come back the labels alone mark the holder");
}

#[test]
fn a_promise_to_a_claim_that_ended_ends_its_pod() {
    let world = world(&[(1, pod())], &[('a', gone())], &[('a', 1)]);
    assert_eq!(steps(&world), [Step::EndCommitted(1)], "committed means used: it is never put back");
}

#[test]
fn a_claim_that_is_not_seen_is_asked_for_before_its_pod_ends() {
    let world = world(&[(1, pod())], &[], &[('a', 1)]);
    assert_eq!(steps(&world), [Step::ProveClaim('a')]);
}

#[test]
fn a_pod_that_died_before_delivery_is_recorded_and_never_named_there() {
    let dead = PodView { life: PodLife::Gone, ..pod() };
    let mut world = world(&[(1, dead)], &[('a', claim(&[]))], &[('a', 1)]);
    assert_eq!(steps(&world), [Step::RecordUndelivered { claim: 'a', index: 0, pod: 1 }]);
    world.pods.insert(2, pod());
    world.claims.insert('a', claim(&[Slot::Undelivered(1)]));
    assert!(steps(&world).is_empty());
    let next = commit(&world, &[]);
    assert_eq!(
        (next.settled, next.ledger.grants),
        (1, vec![Grant { claim: 'a', index: 0, pod: 2 }]),
        "nobody ever had it: the index is open, and has one entry"
    );
}

#[test]
fn a_claim_whose_promised_pod_died_keeps_its_turn_before_younger_claims() {
    let recorded = claim(&[Slot::Undelivered(1)]);
    let younger = ClaimView { rank: 1, ..claim(&[]) };
    let dead = PodView { life: PodLife::Gone, ..pod() };
    let world = world(&[(1, dead), (2, pod())], &[('a', recorded), ('b', younger)], &[('a', 1)]);
    let next = commit(&world, &[]);
    assert_eq!((next.settled, next.ledger.grants), (1, vec![Grant { claim: 'a', index: 0, pod: 2 }]));
}

#[test]
fn a_delivered_pod_is_adopted_and_then_settled() {
    let mut world = world(&[(1, pod())], &[('a', claim(&[Slot::Named(1)]))], &[('a', 1)]);
    assert_eq!(steps(&world), [Step::Adopt { pod: 1, claim: 'a', index: 0 }]);
    assert!(commit(&world, &[]).is_empty());
    world.pods.insert(1, held('a'));
    assert!(steps(&world).is_empty());
    let next = commit(&world, &[]);
    assert_eq!((next.settled, next.is_urgent()), (1, false));
}

#[test]
fn a_released_pod_ends_only_through_a_live_read_of_its_claim() {
    let used = PodView { owned: true, ..held('a') };
    let world = world(&[(1, used)], &[('a', ClaimView { replicas: 0, ..claim(&[]) })], &[]);
    assert_eq!(steps(&world), [Step::EndReleased { pod: 1, claim: 'a' }]);
}

#[test]
fn an_owned_pod_of_an_ended_claim_is_the_collectors() {
    assert!(steps(&world(&[(1, held('a'))], &[('a', gone())], &[])).is_empty());
}

#[test]
fn a_used_pod_of_a_recycling_pool_comes_back_once_its_claim_is_proven_gone() {
    let used = PodView { owned: false, ..held('a') };
    let mut world = world(&[(1, used)], &[], &[]);
    world.recycle = Recycle::Noop;
    assert_eq!(steps(&world), [Step::ProveClaim('a')]);
    world.claims.insert('a', gone());
    assert_eq!(steps(&world), [Step::HandBack(1)]);
}

#[test]
fn every_pod_is_counted_once() {
    let dying = PodView { life: PodLife::Terminating, ..pod() };
    let pods = [(1, pod()), (2, held('a')), (3, pod()), (4, dying), (5, pod())];
    let mut world = world(&pods, &[('a', claim(&[Slot::Named(2)])), ('b', claim(&[])), ('c', claim(&[]))], &[('b', 3)]);
    world.ledger.retiring.push(5);
    let counts = count(&world);
    assert_eq!((counts.held, counts.idle, counts.waiting, counts.present), (2, 1, 1, 5));
}

#[test]
fn h4_h15_a_pools_end_tells_every_open_claim_before_it_ends_a_pod() {
    let open = claim(&[]);
    let mut world = world(&[(1, pod()), (2, held('b'))], &[('a', open), ('b', claim(&[Slot::Named(2)]))], &[]);
    world.pool = PoolLife::Gone;
    assert_eq!(end(&world, false, |_| false), [EndStep::ListClaims]);
    assert_eq!(end(&world, true, |_| false), [EndStep::Fence('a')]);
    assert_eq!(end(&world, true, |_| true), [EndStep::Pod(Step::EndUnclaimed(1))], "the one in use lives on");
    world.claims.insert('b', claim(&[]));
    let released = end(&world, true, |_| true);
    assert!(released.contains(&EndStep::Pod(Step::EndReleased { pod: 2, claim: 'b' })), "{released:?}");
}
