//! Writes Events, one at a time, behind everything else.

#![expect(clippy::disallowed_methods, reason = "writes Events")]

use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::apply::calls::Failure;
use crate::context::Context;
use crate::events::{Book, Note, Step};
use crate::lanes::Lane;
use crate::store::Key;

/// Longest note that the API server takes, in bytes.
const LONGEST: usize = 1024;
/// Longest part of an Event's name that is its object's.
const LONGEST_NAME: usize = 200;

/// Writes what is told, for ever.
pub async fn publish(context: &Context) {
    let mut book = Book::new(Instant::now());
    loop {
        let note = context.events.next().await;
        match book.step(&note, Instant::now()) {
            Step::Create => create(context, &mut book, &note).await,
            Step::Recount(event, count) => recount(context, &mut book, &note, event, count).await,
            Step::Merge => context.events.count("merged"),
            Step::Drop => context.events.count("dropped"),
        }
    }
}

async fn create(context: &Context, book: &mut Book, note: &Note) {
    let object: String = note.key.name.chars().take(LONGEST_NAME).collect();
    let name = format!("{object}.{}", uuid::Uuid::new_v4().simple());
    let body = body(note, &name, &context.setup.term.process);
    let answer = context.calls.create::<Event>(Lane::Refill, &note.key.namespace, &body).await;
    let written = report(context, note, answer.outcome.map(drop));
    book.written(note, written.then_some(name));
}

async fn recount(context: &Context, book: &mut Book, note: &Note, event: String, count: u32) {
    let patch = json!({ "series": { "count": count, "lastObservedTime": MicroTime(Timestamp::now()) } });
    let key = Key::new(&*note.key.namespace, event.clone());
    let answer = context.calls.patch::<Event>(Lane::Refill, &key, &patch).await;
    let written = report(context, note, answer.outcome.map(drop));
    book.written(note, written.then_some(event));
}

/// An Event that cannot be written is lost: nothing rests on it.
fn report(context: &Context, note: &Note, outcome: Result<(), Failure>) -> bool {
    let result = if outcome.is_ok() { "written" } else { "failed" };
    context.events.count(result);
    if let Err(error) = &outcome {
        tracing::debug!(object = %note.key, reason = note.what.reason(), %error, "an event was not written");
    }
    outcome.is_ok()
}

fn body(note: &Note, name: &str, process: &str) -> Value {
    let mut text = note.text.as_str();
    if text.len() > LONGEST {
        text = &text[..text.floor_char_boundary(LONGEST)];
    }
    json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": { "name": name, "namespace": note.key.namespace },
        "eventTime": MicroTime(Timestamp::now()),
        "reportingController": note.kind.controller(),
        "reportingInstance": process,
        "type": if note.what.is_warning() { "Warning" } else { "Normal" },
        "reason": note.what.reason(),
        "action": note.what.action(),
        "note": text,
        "regarding": {
            "apiVersion": note.api_version(),
            "kind": note.kind.as_str(),
            "namespace": note.key.namespace,
            "name": note.key.name,
            "uid": note.uid,
        },
    })
}
