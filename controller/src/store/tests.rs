#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Mutex;

use k8s_openapi::api::core::v1::ConfigMap;

use super::*;

impl Kept for ConfigMap {
    type Index = String;

    fn indexes(&self) -> Vec<String> {
        self.metadata.labels.iter().flatten().filter(|(k, _)| *k == "pool").map(|(_, v)| v.clone()).collect()
    }
}

fn object(name: &str, uid: &str, version: &str, pool: &str) -> ConfigMap {
    serde_json::from_value(serde_json::json!({"metadata": {
        "namespace": "ns", "name": name, "uid": uid, "resourceVersion": version, "labels": {"pool": pool}}}))
    .unwrap()
}

fn store() -> Store<ConfigMap> {
    Store::new(Arc::new(Arrivals::default()), |_| {})
}

fn version(store: &Store<ConfigMap>, name: &str) -> Option<String> {
    store.get(&Key::new("ns", name))?.object.metadata.resource_version.clone()
}

#[test]
fn the_newer_version_wins_and_versions_are_numbers() {
    let store = store();
    assert_eq!(store.take(object("a", "u", "9", "p"), Source::Watch), Arrival::Stored);
    assert_eq!(store.take(object("a", "u", "10", "p"), Source::Answer { sent: Seq(0) }), Arrival::Stored);
    assert_eq!(store.take(object("a", "u", "9", "p"), Source::Watch), Arrival::Old);
    assert_eq!(version(&store, "a").unwrap(), "10");
}

#[test]
fn the_watch_repeating_an_own_write_does_not_make_it_arrive_later() {
    let store = store();
    store.take(object("a", "u", "5", "p"), Source::Answer { sent: Seq(0) });
    let first = store.by_uid("u").unwrap().seq;
    store.take(object("b", "w", "6", "p"), Source::Watch);
    store.take(object("a", "u", "5", "p"), Source::Watch);
    assert_eq!(store.by_uid("u").unwrap().seq, first);
}

#[test]
fn a_late_answer_does_not_bring_a_deleted_object_back() {
    let store = store();
    store.take(object("a", "u", "5", "p"), Source::Watch);
    store.removed(&object("a", "u", "8", "p").metadata);
    assert_eq!(store.take(object("a", "u", "7", "p"), Source::Answer { sent: Seq(0) }), Arrival::Buried);
    assert!(store.is_empty());
}

#[test]
fn an_object_that_regains_its_label_returns() {
    let store = store();
    store.take(object("a", "u", "5", "p"), Source::Watch);
    store.removed(&object("a", "u", "8", "p").metadata);
    assert_eq!(store.take(object("a", "u", "9", "p"), Source::Watch), Arrival::Stored);
}

#[test]
fn a_live_read_shows_the_version_that_lost_its_label() {
    let store = store();
    store.take(object("a", "u", "5", "p"), Source::Watch);
    store.removed(&object("a", "u", "8", "p").metadata);
    assert_eq!(store.take(object("a", "u", "8", "p"), Source::Answer { sent: Seq(9) }), Arrival::Stored);
}

#[test]
fn the_answer_to_a_deletion_that_the_watch_overtook_leaves_no_ghost() {
    let store = store();
    store.take(object("a", "u", "5", "p"), Source::Watch);
    store.removed(&object("a", "u", "8", "p").metadata);
    assert_eq!(store.take(object("a", "u", "8", "p"), Source::Deletion { sent: Seq(9) }), Arrival::Buried);
    assert!(store.is_empty());
}

#[test]
fn what_a_list_lacked_does_not_return_at_its_known_version() {
    let store = store();
    store.take(object("a", "u", "5", "p"), Source::Watch);
    store.list_begins();
    store.list_ends();
    assert_eq!(store.take(object("a", "u", "5", "p"), Source::Watch), Arrival::Buried);
}

#[test]
fn what_a_live_read_proved_gone_never_returns() {
    let store = store();
    store.take(object("a", "u", "5", "p"), Source::Watch);
    store.proven_gone("u");
    assert_eq!(store.take(object("a", "u", "900", "p"), Source::Watch), Arrival::Buried);
}

#[test]
fn a_late_removal_of_an_older_version_does_not_remove_a_newer_one() {
    let store = store();
    store.take(object("a", "u", "9", "p"), Source::Answer { sent: Seq(0) });
    store.removed(&object("a", "u", "8", "p").metadata);
    assert_eq!(store.len(), 1);
}

#[test]
fn a_name_used_again_is_another_object() {
    let store = store();
    store.take(object("a", "u1", "5", "p"), Source::Watch);
    store.take(object("a", "u2", "8", "p"), Source::Answer { sent: Seq(0) });
    store.removed(&object("a", "u1", "7", "p").metadata);
    assert!(store.by_uid("u1").is_none());
    assert_eq!(store.by_uid("u2").unwrap().object.metadata.uid.as_deref(), Some("u2"));
    assert_eq!(store.take(object("a", "u1", "9", "p"), Source::Watch), Arrival::Buried);
}

#[test]
fn a_list_removes_what_it_lacks() {
    let store = store();
    store.take(object("gone", "g", "5", "p"), Source::Watch);
    store.list_begins();
    store.listed(object("kept", "k", "6", "p"));
    assert!(!store.is_synced());
    store.list_ends();
    assert!(store.is_synced());
    assert!(store.by_uid("g").is_none() && store.by_uid("k").is_some());
}

#[test]
fn what_a_list_has_and_nobody_can_read_stays_as_it_was_known() {
    let store = store();
    store.take(object("odd", "o", "5", "p"), Source::Watch);
    store.take(object("gone", "g", "5", "p"), Source::Watch);
    store.list_begins();
    store.listed_unread(&object("odd", "o", "7", "p").metadata);
    store.list_ends();
    assert_eq!(version(&store, "odd").unwrap(), "5");
    assert!(store.by_uid("g").is_none());
    assert_eq!(store.take(object("odd", "o", "8", "p"), Source::Watch), Arrival::Stored);
}

#[test]
fn what_was_written_while_a_list_ran_returns_with_the_watch() {
    let store = store();
    store.list_begins();
    let sent = store.arrivals.now();
    store.take(object("made", "m", "12", "p"), Source::Answer { sent });
    store.list_ends();
    assert_eq!(store.take(object("made", "m", "12", "p"), Source::Watch), Arrival::Stored);
}

#[test]
fn an_answer_that_a_list_overtook_leaves_no_ghost() {
    let store = store();
    store.take(object("a", "u", "5", "p"), Source::Watch);
    let sent = store.arrivals.now();
    store.take(object("b", "w", "6", "p"), Source::Watch);
    store.list_begins();
    store.list_ends();
    assert_eq!(store.take(object("a", "u", "7", "p"), Source::Answer { sent }), Arrival::Buried);
}

#[test]
fn indexes_follow_every_change() {
    let store = store();
    store.take(object("a", "u", "5", "p"), Source::Watch);
    assert_eq!(store.count(&"p".to_owned()), 1);
    store.take(object("a", "u", "6", "q"), Source::Watch);
    assert_eq!(store.count(&"p".to_owned()), 0);
    assert_eq!(store.indexed(&"q".to_owned()).len(), 1);
    store.proven_gone("u");
    assert_eq!(store.count(&"q".to_owned()), 0);
}

#[test]
fn the_listener_sees_the_version_before_and_after() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let rv = |object: &Option<Arc<ConfigMap>>| object.as_ref().and_then(|o| o.metadata.resource_version.clone());
    let store: Store<ConfigMap> = Store::new(Arc::new(Arrivals::default()), move |change: &Change<ConfigMap>| {
        sink.lock().unwrap().push((rv(&change.old), rv(&change.new)));
    });
    store.take(object("a", "u", "5", "p"), Source::Watch);
    store.take(object("a", "u", "6", "p"), Source::Watch);
    store.proven_gone("u");
    let s = |text: &str| Some(text.to_owned());
    assert_eq!(*seen.lock().unwrap(), vec![(None, s("5")), (s("5"), s("6")), (s("6"), None)]);
}
