//! Writes of a Pool's Pods.

#![expect(clippy::disallowed_methods, reason = "writes of a Pool's Pods")]

use std::sync::Arc;
use std::time::Duration;

use kube::Resource;
use sandbox_api::{Reason, labels};
use sandbox_core::failure::Failure as Why;
use sandbox_core::ids::{ClaimKey, PodKey};
use sandbox_core::pool::{EndReason, pod as shape};
use serde_json::Value;
use tokio::time::Instant;

use super::Job;
use crate::apply::calls::Failure;
use crate::apply::ending::Ending;
use crate::context::{Context, PoolAt};
use crate::events::{Note, What};
use crate::in_flight::Target;
use crate::lanes::Lane;
use crate::live::Read;
use crate::pool::memory::Memory;
use crate::store::kinds::PodRecord;
use crate::store::{Key, Source};

/// How long a slot is left alone whose name a stranger's Pod has.
const BLOCKED: Duration = Duration::from_secs(30);
const UNKNOWN: Ending = Ending::Unsure { after: None };

fn key(job: &Job, pod: &PodKey) -> Key {
    Key::new(&*job.at.key.namespace, &*pod.name)
}

/// Merge patch with the preconditions in it.
pub(super) async fn patch(job: &Job, pod: &PodKey, patch: &Value) -> Ending {
    let context = &job.context;
    let answer = context.calls.patch::<PodRecord>(Lane::Adoption, &key(job, pod), patch).await;
    match answer.outcome {
        Ok(record) => {
            context.pods.take(record, Source::Answer { sent: answer.sent });
            Ending::Done
        }
        Err(error) => failed(job, pod, &error, "the pod cannot be marked").await,
    }
}

/// After a write that did not happen, or may not have: the newest version.
async fn failed(job: &Job, pod: &PodKey, error: &Failure, what: &str) -> Ending {
    let Job { context, at } = job;
    match error {
        Failure::Conflict | Failure::NotFound | Failure::Unknown { .. } => {
            Ending::of(error, context.read(Lane::Adoption, &context.pods, &key(job, pod), &pod.uid).await)
        }
        Failure::Refused { .. } | Failure::AlreadyExists => {
            tracing::warn!(pool = %at.key, pod = %pod.name, %error, "{what}");
            Ending::Refused
        }
        Failure::NotLeading => UNKNOWN,
    }
}

/// Marks a Pod again as its claim's, if a live read shows that it still is.
pub(super) async fn readopt(job: &Job, pod: &PodKey, claim: &ClaimKey, change: &Value) -> Ending {
    match named_live(job, pod, claim).await {
        Some(true) => patch(job, pod, change).await,
        Some(false) => Ending::Done,
        None => UNKNOWN,
    }
}

/// Whether a live read of the claim names the Pod; none without an answer.
async fn named_live(job: &Job, pod: &PodKey, claim: &ClaimKey) -> Option<bool> {
    let read = job.context.read_claim(Lane::Adoption, &job.at.key.namespace, claim).await;
    match read {
        Read::Unknown => None,
        Read::Gone => Some(false),
        Read::Alive { .. } => {
            let held = job.context.claim_by_uid(&claim.uid);
            Some(held.is_some_and(|held| shape::is_named_by(&held.claim, pod)))
        }
    }
}

/// Deletes a Pod, by uid and, where given, version.
pub(super) async fn delete(
    job: &Job,
    pod: &PodKey,
    version: Option<&str>,
    unless_named_by: Option<&ClaimKey>,
    reason: EndReason,
) -> Ending {
    if let Some(claim) = unless_named_by {
        match named_live(job, pod, claim).await {
            Some(false) => {}
            Some(true) => return Ending::Done,
            None => return UNKNOWN,
        }
    }
    let Job { context, at } = job;
    // Before the write: the watch may show its end sooner than the answer does.
    let evicted = is_marked_for_eviction(context, pod);
    let answer = context.calls.delete::<PodRecord>(Lane::Refill, &key(job, pod), &pod.uid, version).await;
    match answer.outcome {
        Ok(body) => {
            tracing::debug!(pool = %at.key, pod = %pod.name, ?reason, "deleted a pod");
            if evicted {
                // Whoever marked it learns that it is done.
                context.events.tell(Note::pool(at, What::PodEvicted, format!("evicted pod {}", pod.name)));
            }
            context.took_end(body, answer.sent);
            Ending::Done
        }
        Err(error) => failed(job, pod, &error, "the pod cannot be deleted").await,
    }
}

fn is_marked_for_eviction(context: &Context, pod: &PodKey) -> bool {
    context.pods.by_uid(&pod.uid).is_some_and(|held| held.object.0.label(labels::EVICT).is_some())
}

/// Live GET of a Pod. One that lives without our label gets it back, and
/// loses the clean mark: nobody knows what happened to it meanwhile. False
/// without an answer.
pub(crate) async fn prove(context: &Context, namespace: &str, pod: &PodKey) -> bool {
    let key = Key::new(namespace, &*pod.name);
    if pod.name.is_empty() {
        return false;
    }
    if context.read(Lane::Adoption, &context.pods, &key, &pod.uid).await == Read::Unknown {
        return false;
    }
    let Some(held) = context.pods.by_uid(&pod.uid) else { return true };
    if held.object.0.label(labels::MANAGED_BY) == Some(labels::MANAGED_BY_CONTROLLER) {
        return true;
    }
    let version = held.object.meta().resource_version.clone().unwrap_or_default();
    let answer = context.calls.patch::<PodRecord>(Lane::Adoption, &key, &shape::relabel(pod, &version)).await;
    match answer.outcome {
        Ok(record) => {
            tracing::warn!(pod = %key, "the pod had lost its label {}: it is back, and the pod counts as used", labels::MANAGED_BY);
            context.pods.take(record, Source::Answer { sent: answer.sent });
            true
        }
        Err(_) => false,
    }
}

/// Creates a Pod in a free slot.
pub(super) fn create(context: &Arc<Context>, at: &PoolAt, slot: u32, name: String, body: Value) {
    let entered = context.memories.with(&at.uid, |memory| memory.creating.insert(slot)).unwrap_or(false);
    if !entered {
        return;
    }
    let Some(writing) = context.in_flight.begin(Target::Slot(at.uid.clone(), slot)) else { return };
    let (context, at) = (Arc::clone(context), at.clone());
    context.work.clone().spawn(async move {
        let ending = create_now(&context, &at, slot, &name, &body).await;
        context.over(writing, ending, move |context| {
            context.memories.with(&at.uid, |memory| memory.creating.remove(&slot));
            context.pool_queue.add(at);
        });
    });
}

/// A refusal holds back all creations of the Pool, so that the slot itself
/// rests only where the API server asked for it.
async fn create_now(context: &Context, at: &PoolAt, slot: u32, name: &str, body: &Value) -> Ending {
    let answer = context.calls.create::<PodRecord>(Lane::Refill, &at.key.namespace, body).await;
    match answer.outcome {
        Ok(record) => {
            context.pods.take(record, Source::Answer { sent: answer.sent });
            context.events.tell(Note::pool(at, What::SuccessfulCreate, format!("created pod {name}")));
            context.memories.with(&at.uid, |memory| {
                if memory.create_failure.take().is_some() {
                    memory.start_failures = sandbox_core::pool::StartFailures::default();
                }
            });
            Ending::Done
        }
        Err(Failure::AlreadyExists) => {
            let known = in_use(context, at, slot, name).await;
            if known { Ending::Done } else { UNKNOWN }
        }
        Err(ref error @ Failure::Unknown { after, .. }) => {
            if in_use(context, at, slot, name).await {
                return Ending::Done;
            }
            // The API server is not well, which says nothing about the Pod: this slot alone waits, for seconds.
            say_why(context, at, error);
            Ending::Unsure { after }
        }
        Err(error @ (Failure::Refused { .. } | Failure::NotFound | Failure::Conflict)) => {
            refused(context, at, &error);
            Ending::Done
        }
        Err(Failure::NotLeading) => UNKNOWN,
    }
}

/// The slot is in use: what stands in it belongs into the store. False if
/// nothing stands there.
async fn in_use(context: &Context, at: &PoolAt, slot: u32, name: &str) -> bool {
    let key = Key::new(&*at.key.namespace, name);
    let answer = context.calls.get::<PodRecord>(Lane::Refill, &key).await;
    let Ok(record) = answer.outcome else { return false };
    let pod = record.0.key();
    let ours = record.0.label(labels::POOL_UID) == Some(&*at.uid);
    let labelled = record.0.label(labels::MANAGED_BY) == Some(labels::MANAGED_BY_CONTROLLER);
    if ours && labelled {
        context.pods.take(record, Source::Answer { sent: answer.sent });
    } else if !(ours && prove(context, &at.key.namespace, &pod).await) {
        tracing::warn!(pool = %at.key, pod = %name, "this name is used by a pod that is not the pool's: its slot is left alone");
        context.memories.with(&at.uid, |memory| memory.blocked.insert(slot, Instant::now() + BLOCKED));
    }
    true
}

/// The API server says no: the Pool's condition tells its words, and creation
/// backs off.
fn refused(context: &Context, at: &PoolAt, error: &Failure) {
    say_why(context, at, error);
    context.memories.with(&at.uid, Memory::start_failed);
}

fn say_why(context: &Context, at: &PoolAt, error: &Failure) {
    let text = error.to_string();
    let reason = if text.contains("exceeded quota") { Reason::QuotaExceeded } else { Reason::PodRefused };
    tracing::warn!(pool = %at.key, %error, "a pod of the pool was refused");
    context.events.tell(Note::pool(at, What::FailedCreate, text.clone()));
    context.memories.with(&at.uid, |memory| memory.create_failure = Some(Why::new(reason, text)));
}
