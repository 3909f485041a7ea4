#![allow(clippy::unwrap_used)]

use super::*;
use serde_json::json;

fn read<T>(value: Value, with: impl FnOnce(&Fields<'_>) -> T) -> (T, Vec<Problem>) {
    let map = value.as_object().unwrap().clone();
    let problems = Problems::default();
    let out = with(&Fields::root(&map, &problems));
    (out, problems.into_vec())
}

#[test]
fn every_problem_is_told_at_once_and_by_its_full_name() {
    let body = json!({"timeout": "soon", "image": {"uri": 7}, "volumes": [{"name": "a"}, 3]});
    let ((), problems) = read(body, |f| {
        f.int("timeout", 60, i64::MAX);
        f.object("image").map(|image| image.string("uri"));
        f.objects("volumes");
    });
    let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "timeout: must be an integer, not a string",
            "image.uri: must be a string, not a number",
            "volumes[1]: must be an object, not a number",
        ]
    );
}

#[test]
fn numbers_are_read_as_leniently_as_the_reference_reads_them() {
    let body = json!({"a": "60", "b": 60.0, "c": "60.5", "resource_limits": {"cpu": "1"}});
    let (out, problems) =
        read(body, |f| (f.int("a", 0, 99), f.int("b", 0, 99), f.int("c", 0, 99), f.string_map("resourceLimits")));
    assert_eq!((out.0, out.1, out.2), (Some(60), Some(60), None));
    assert_eq!(out.3.unwrap()["cpu"], "1");
    assert_eq!(problems.len(), 1);
}

#[test]
fn keys_that_nobody_asked_for_are_known_by_their_full_name() {
    let (unread, _) = read(json!({"a": 1, "b": {"x": 1, "y": 2}}), |f| {
        f.int("a", 0, 9);
        let b = f.object("b").unwrap();
        b.int("x", 0, 9);
        b.unread()
    });
    assert_eq!(unread, ["b.y"]);
}
