#![allow(clippy::unwrap_used, clippy::panic)]

use sandbox_api::BatchSandbox;
use serde_json::json;

use super::*;

fn view(name: &str, uid: &str, version: u64, label: &str, second: u32) -> View {
    let object = json!({
        "apiVersion": "sandbox.opensandbox.io/v1alpha1", "kind": "BatchSandbox",
        "metadata": {"name": name, "namespace": "n", "uid": uid, "resourceVersion": version.to_string(),
            "creationTimestamp": format!("2026-11-30T10:00:{second:02}Z"),
            "labels": {"opensandbox.io/id": name, "team": label}},
        "spec": {}, "status": {"phase": if version.is_multiple_of(2) { "Succeed" } else { "Pending" }},
    });
    serde_json::from_value::<BatchSandbox>(object).unwrap().view()
}

fn scope() -> Scope {
    Scope::of_namespace("n")
}

fn ids(page: &Page) -> Vec<&str> {
    page.items.iter().map(|view| view.id.as_str()).collect()
}

fn team(label: &str) -> Filter {
    Filter { metadata: [("team".to_owned(), label.to_owned())].into(), ..Filter::default() }
}

#[test]
fn the_newer_version_stays_whoever_brings_it() {
    let store = Store::new();
    store.take(view("a", "u", 10, "x", 0));
    store.take(view("a", "u", 9, "y", 0));
    assert_eq!(store.find(&scope(), "a").unwrap().version, 10);
    // Numbers, not text: 9 < 10 < 100.
    store.take(view("a", "u", 100, "y", 0));
    assert_eq!(store.find(&scope(), "a").unwrap().version, 100);
    assert_eq!(store.list(&scope(), &team("x"), 1, 9).total, 0);
    assert_eq!(store.list(&scope(), &team("y"), 1, 9).total, 1);
}

#[test]
fn a_deleted_sandbox_does_not_come_back_with_a_late_event() {
    let store = Store::new();
    let first = view("a", "u", 1, "x", 0);
    store.take(first.clone());
    store.bury(&first.key(), "u");
    store.take(view("a", "u", 5, "x", 0));
    assert!(store.find(&scope(), "a").is_none());
    store.take(view("a", "other-uid", 2, "x", 0));
    assert!(store.find(&scope(), "a").is_some());
    // A late delete of the first one does not end the second.
    store.bury(&first.key(), "u");
    assert!(store.find(&scope(), "a").is_some());
}

#[test]
fn a_list_ends_what_it_does_not_name_but_not_what_was_written_since() {
    let store = Store::new();
    store.take(view("old", "1", 5, "x", 0));
    store.take(view("kept", "2", 6, "x", 0));
    store.take(view("just-written", "3", 20, "x", 0));
    store.keep_only(Kind::BatchSandbox, "n", &["2".to_owned()].into(), 10);
    assert!(store.find(&scope(), "old").is_none());
    assert!(store.find(&scope(), "kept").is_some() && store.find(&scope(), "just-written").is_some());
}

#[test]
fn a_list_is_ordered_by_age_and_then_by_id() {
    let store = Store::new();
    for (name, second) in [("b", 1), ("a", 1), ("c", 3), ("d", 2)] {
        store.take(view(name, name, 2, "x", second));
    }
    assert_eq!(ids(&store.list(&scope(), &Filter::default(), 1, 3)), ["c", "d", "a"]);
    let second = store.list(&scope(), &Filter::default(), 2, 3);
    assert_eq!((ids(&second), second.total), (vec!["b"], 4));
    assert_eq!(store.list(&scope(), &Filter::default(), 99, 3).total, 4);
}

#[test]
fn filters_find_by_state_and_by_metadata() {
    let store = Store::new();
    for (name, version, label) in [("a", 2, "x"), ("b", 3, "x"), ("c", 4, "y")] {
        store.take(view(name, name, version, label, 0));
    }
    let states = |states: &[State]| Filter { states: Some(states.to_vec()), ..Filter::default() };
    assert_eq!(ids(&store.list(&scope(), &states(&[State::Running]), 1, 9)), ["a", "c"]);
    assert_eq!(store.list(&scope(), &states(&[State::Running, State::Pending]), 1, 9).total, 3);
    assert_eq!(store.list(&scope(), &states(&[]), 1, 9).total, 0);
    let both = Filter { states: Some(vec![State::Pending]), ..team("x") };
    assert_eq!(ids(&store.list(&scope(), &both, 1, 9)), ["b"]);
}

#[test]
fn another_namespace_is_not_seen() {
    let store = Store::new();
    store.take(view("a", "u", 1, "x", 0));
    let other = Scope::of_namespace("other");
    assert!(store.find(&other, "a").is_none());
    assert_eq!(store.list(&other, &Filter::default(), 1, 9).total, 0);
}

#[tokio::test]
async fn a_follower_sees_what_is_there_what_comes_and_the_end() {
    let store = Store::new();
    let first = view("a", "u", 1, "x", 0);
    store.take(first.clone());
    let mut follower = store.follow(first.key());
    assert!(matches!(follower.latest(), Sighting::Live(view) if view.version == 1));
    store.take(view("a", "u", 2, "x", 0));
    follower.changed().await;
    assert!(matches!(follower.latest(), Sighting::Live(view) if view.version == 2));
    store.bury(&first.key(), "u");
    follower.changed().await;
    assert!(matches!(follower.latest(), Sighting::Gone));
    drop(follower);
    assert!(store.followers().is_empty());
}
