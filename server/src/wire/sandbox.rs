//! Sandboxes on the wire.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Answer, time};
use crate::store::Page;
use crate::view::{State, View};

/// `Sandbox`, as get and list answer it.
#[must_use]
pub fn sandbox(view: &View) -> Value {
    let image = match (&view.snapshot_id, &view.image) {
        (Some(_), _) => None,
        (None, Some(uri)) => Some(json!({"uri": uri})),
        (None, None) => Some(json!({"uri": "unknown"})),
    };
    let allocation = view.allocated_from.as_ref();
    let allocation = allocation.map(|pool| json!({"mode": "pool", "poolRef": pool, "state": "allocated"}));
    Answer::new()
        .with("id", view.id.as_str())
        .maybe("image", image)
        .maybe("snapshotId", view.snapshot_id.as_deref())
        .with("status", status(view, view.standing.state))
        .maybe("metadata", filled(&view.metadata))
        .maybe("extensions", filled(&view.extensions))
        .maybe("allocation", allocation)
        .maybe("platform", platform(view))
        .with("entrypoint", json!(view.entrypoint))
        .maybe("expiresAt", view.expires.map(time::answer))
        .with("createdAt", time::answer(view.created))
        .done()
}

/// What create answers: the request's own words where GET would show the machinery's.
#[must_use]
pub fn created(view: &View, entrypoint: &[String], metadata: Option<&BTreeMap<String, String>>) -> Value {
    // Only here, `Allocated` is told as `Running`.
    let state = if view.standing.state == State::Allocated { State::Running } else { view.standing.state };
    Answer::new()
        .with("id", view.id.as_str())
        .with("status", status(view, state))
        .maybe("metadata", metadata.map(|m| json!(m)))
        .maybe("extensions", filled(&view.extensions))
        .maybe("platform", platform(view))
        .maybe("expiresAt", view.expires.map(time::answer))
        .with("createdAt", time::answer(view.created))
        .with("entrypoint", json!(entrypoint))
        .done()
}

/// `ListSandboxesResponse`.
#[must_use]
pub fn list(page: &Page, number: usize, size: usize) -> Value {
    let pages = page.total.div_ceil(size);
    json!({
        "items": page.items.iter().map(|view| sandbox(view)).collect::<Vec<_>>(),
        "pagination": {
            "page": number,
            "pageSize": size,
            "totalItems": page.total,
            "totalPages": pages,
            "hasNextPage": number < pages,
        },
    })
}

fn status(view: &View, state: State) -> Value {
    json!({
        "state": state.as_str(),
        "reason": view.standing.reason.as_str(),
        "message": view.standing.message,
        "lastTransitionAt": time::answer(view.since),
    })
}

fn filled(map: &BTreeMap<String, String>) -> Option<Value> {
    (!map.is_empty()).then(|| json!(map))
}

fn platform(view: &View) -> Option<Value> {
    view.platform.as_ref().map(|p| json!({"os": p.os, "arch": p.arch}))
}
