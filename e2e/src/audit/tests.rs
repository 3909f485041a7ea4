//! Each invariant can fail.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::super::fact::{Change, ClaimState, Fact, Grant, Kind, PodState, PoolState, Slot, State};
use super::super::record::Log;
use super::super::{Invariant, audit};

/// A log that grows by a second an event.
#[derive(Default)]
struct Story {
    log: Log,
}

impl Story {
    fn fact(&mut self, kind: Kind, change: Change, name: &str, state: State) -> &mut Self {
        let revision = 1 + self.log.facts.len() as u64;
        let at = Timestamp::UNIX_EPOCH + Duration::from_secs(revision);
        let fact = Fact {
            revision,
            at,
            line: revision,
            change,
            kind,
            name: name.into(),
            uid: name.into(),
            ending: false,
            state,
        };
        self.log.facts.push(fact);
        self
    }

    fn pool(&mut self, max: i64, grants: &[(&str, &str)]) -> &mut Self {
        let grant = |(claim, pod): &(&str, &str)| Grant { claim: (*claim).into(), index: 0, pod: (*pod).into() };
        let grants = grants.iter().map(grant).collect();
        self.fact(Kind::Pool, Change::Modified, "pool", State::Pool(PoolState { max, grants, ..PoolState::default() }))
    }

    fn pod(&mut self, change: Change, name: &str, warm: bool) -> &mut Self {
        let pod = PodState { pool: Some("pool".into()), warm, ready: true, ..PodState::default() };
        self.fact(Kind::Pod, change, name, State::Pod(pod))
    }

    fn claim(&mut self, change: Change, name: &str, expires: Option<i64>, slots: Vec<Slot>) -> &mut Self {
        let expires = expires.and_then(|second| Timestamp::from_second(second).ok());
        let claim = ClaimState { pool: Some("pool".into()), replicas: 1, expires, slots, ..ClaimState::default() };
        self.fact(Kind::BatchSandbox, change, name, State::Claim(claim))
    }

    fn named(&mut self, name: &str, pod: &str) -> &mut Self {
        self.claim(Change::Modified, name, None, vec![Slot::Named { uid: pod.into(), ready: true }])
    }

    fn deleted(&mut self, what: &str) -> &mut Self {
        self.log.acts.ended.insert(what.into());
        self
    }

    fn broken(&self) -> Vec<Invariant> {
        audit(&self.log).into_iter().map(|violation| violation.invariant).collect()
    }
}

fn begun() -> Story {
    let mut story = Story::default();
    story.pool(2, &[]).pod(Change::Added, "a", true).pod(Change::Added, "b", true);
    story
}

#[test]
fn a_whole_life_breaks_nothing() {
    let mut story = begun();
    story.claim(Change::Added, "c", Some(9), vec![]).pool(2, &[("c", "a")]);
    story.claim(Change::Modified, "c", Some(9), vec![Slot::Named { uid: "a".into(), ready: true }]);
    story.pod(Change::Modified, "a", false).pool(2, &[]);
    // Line 9 at second 9: due.
    story.claim(Change::Deleted, "c", Some(9), vec![Slot::Named { uid: "a".into(), ready: true }]);
    story.pod(Change::Deleted, "a", false).pod(Change::Added, "a2", true);
    assert_eq!(story.broken(), []);
}

#[test]
fn a_pod_delivered_to_two_claims_breaks_i1_even_long_after() {
    let mut story = begun();
    story.named("c", "a").deleted("c").claim(Change::Deleted, "c", None, vec![]).named("d", "a");
    assert_eq!(story.broken(), [Invariant::I1]);
}

#[test]
fn a_used_pod_that_is_marked_clean_or_promised_again_breaks_i2() {
    let mut story = begun();
    story.named("c", "a").pod(Change::Modified, "a", false).pod(Change::Modified, "a", true);
    assert_eq!(story.broken(), [Invariant::I2]);
    let mut story = begun();
    story.pool(2, &[("c", "a")]).pool(2, &[]).pool(2, &[("d", "a")]);
    assert_eq!(story.broken(), [Invariant::I2]);
    let mut story = begun();
    story.pool(2, &[("c", "a"), ("c", "a")]);
    assert_eq!(story.broken(), [Invariant::I2]);
}

#[test]
fn one_pod_too_many_breaks_i3_and_ending_ones_count() {
    let mut story = begun();
    story.pod(Change::Modified, "a", true);
    if let Some(last) = story.log.facts.last_mut() {
        last.ending = true;
    }
    story.pod(Change::Added, "x", true);
    assert_eq!(story.broken(), [Invariant::I3]);
    // A size that was lowered this moment could not be known.
    let mut story = begun();
    story.pod(Change::Deleted, "a", true).pool(1, &[]).pod(Change::Added, "x", true);
    assert_eq!(story.broken(), []);
}

#[test]
fn an_end_before_the_deadline_breaks_i4_and_one_on_purpose_does_not() {
    let mut story = begun();
    story.claim(Change::Added, "c", Some(3), vec![]).claim(Change::Modified, "c", Some(60), vec![]);
    story.claim(Change::Deleted, "c", Some(60), vec![]);
    assert_eq!(story.broken(), [Invariant::I4]);
    story.deleted("c");
    assert_eq!(story.broken(), []);
    let mut story = begun();
    story.claim(Change::Added, "c", None, vec![]).claim(Change::Deleted, "c", None, vec![]);
    assert_eq!(story.broken(), [Invariant::I4]);
}

#[test]
fn a_pod_in_use_that_is_deleted_breaks_i6_unless_somebody_else_did_it() {
    let mut story = begun();
    story.named("c", "a").pod(Change::Deleted, "a", true);
    assert_eq!(story.broken(), [Invariant::I6]);
    story.deleted("a");
    assert_eq!(story.broken(), []);
    let mut story = begun();
    story.claim(Change::Added, "c", None, vec![]).pool(2, &[("c", "a")]).pod(Change::Deleted, "a", true);
    assert_eq!(story.broken(), [Invariant::I6]);
}

#[test]
fn a_healthy_pod_that_is_declared_lost_or_given_up_breaks_i6() {
    let mut story = begun();
    story.named("c", "a").claim(Change::Modified, "c", None, vec![Slot::Lost("a".into())]);
    assert_eq!(story.broken(), [Invariant::I6]);
    let mut story = begun();
    story.named("c", "a").claim(Change::Modified, "c", None, vec![Slot::Open]);
    assert_eq!(story.broken(), [Invariant::I6]);
    let mut story = begun();
    story.named("c", "a").deleted("a").pod(Change::Deleted, "a", true);
    story.claim(Change::Modified, "c", None, vec![Slot::Lost("a".into())]);
    assert_eq!(story.broken(), []);
}

#[test]
fn a_younger_claim_served_before_one_that_has_waited_long_breaks_i5() {
    let told = |wait: u64| {
        let mut story = begun();
        for (name, second) in [("old", 1), ("young", 2)] {
            story.claim(Change::Added, name, None, vec![]);
            if let Some(Fact { state: State::Claim(claim), .. }) = story.log.facts.last_mut() {
                claim.created = Timestamp::from_second(second).ok();
            }
        }
        story.pool(2, &[("young", "a")]);
        if let Some(last) = story.log.facts.last_mut() {
            last.at += Duration::from_secs(wait);
        }
        story.broken()
    };
    assert_eq!(told(60), [Invariant::I5]);
    // It may not have been known yet.
    assert_eq!(told(5), []);
}

#[test]
fn a_violation_is_shown_with_the_lines_around_it() {
    let mut story = begun();
    story.named("c", "a").named("d", "a");
    let found = audit(&story.log);
    let shown = found.first().map(|violation| violation.shown(&story.log).to_string()).unwrap_or_default();
    assert!(shown.contains("I1 BROKEN") && shown.contains("line 4") && shown.contains("-> line 5"), "{shown}");
}
