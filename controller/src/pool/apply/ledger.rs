//! Writes of a Pool itself: its ledger and status, its taking over, its
//! anchors.

#![expect(clippy::disallowed_methods, reason = "writes of a Pool itself")]

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::jiff::Timestamp;
use sandbox_api::{Condition, Pool, PoolStatus, labels};
use sandbox_core::pool::Anchor;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Job;
use crate::apply::calls::Failure;
use crate::apply::ending::Ending;
use crate::context::{Context, PoolAt};
use crate::events::{self, Note};
use crate::in_flight::Target;
use crate::lanes::Lane;
use crate::live::Read;
use crate::store::kinds::{ClaimIndex, PodIndex, PodRecord};
use crate::store::{Held, Key, Seq, Source};

/// Compare-and-swap of the whole status.
pub(super) async fn commit(job: Arc<Job>, resource_version: String, status: PoolStatus) -> Ending {
    let Job { context, at } = &*job;
    let now = Timestamp::now();
    let status = serde_json::to_value(status).unwrap_or_default();
    // Before the write: the watch may show it sooner than its answer does.
    let before = context.pools.by_uid(&at.uid).map_or_else(Vec::new, |held| conditions(&held.object));
    match cas(context, at, &resource_version, &status).await {
        Cas::Written { sent, pool } => {
            context.memories.with(&at.uid, |memory| {
                memory.proved(sent);
                memory.last_commit = Some(now);
            });
            if let Some((what, text)) = events::trouble(&before, &conditions(&pool)) {
                context.events.tell(Note::pool(at, what, text));
            }
            context.pools.take(*pool, Source::Answer { sent });
            Ending::Done
        }
        // Whoever wrote it may have taken it: read before any next step.
        Cas::Failed(ending) => {
            match ending {
                Ending::Moved | Ending::Unsure { .. } => until_read(context, at).await,
                Ending::Done | Ending::Refused => {}
            }
            ending
        }
    }
}

fn conditions(pool: &Pool) -> Vec<Condition> {
    pool.status.as_ref().map_or_else(Vec::new, |status| status.conditions.clone())
}

enum Cas {
    Written { sent: Seq, pool: Box<Pool> },
    Failed(Ending),
}

async fn cas(context: &Context, at: &PoolAt, resource_version: &str, status: &Value) -> Cas {
    let patch = json!({ "metadata": { "uid": at.uid, "resourceVersion": resource_version }, "status": status });
    let answer = context.calls.patch_status::<Pool>(Lane::Delivery, &at.key, &patch).await;
    let sent = answer.sent;
    match answer.outcome {
        Ok(pool) => Cas::Written { sent, pool: Box::new(pool) },
        Err(Failure::Conflict | Failure::NotFound | Failure::AlreadyExists) => Cas::Failed(Ending::Moved),
        Err(Failure::Unknown { message, after }) => {
            tracing::warn!(pool = %at.key, error = message, "the pool's status may have been written or not: reading it");
            Cas::Failed(Ending::Unsure { after })
        }
        Err(Failure::NotLeading) => Cas::Failed(Ending::Refused),
        Err(error @ Failure::Refused { .. }) => {
            tracing::error!(pool = %at.key, %error, "the pool's status was refused");
            Cas::Failed(Ending::Refused)
        }
    }
}

/// Reads the Pool until there is an answer: after an uncertain write nothing
/// may be planned on what was known before it.
async fn until_read(context: &Context, at: &PoolAt) {
    let mut wait = Duration::from_millis(50);
    while prove_now(context, at).await == Read::Unknown {
        sleep(wait).await;
        wait = (wait * 2).min(Duration::from_secs(5));
    }
}

async fn prove_now(context: &Context, at: &PoolAt) -> Read {
    context.read(Lane::Delivery, &context.pools, &at.key, &at.uid).await
}

/// Live GET of the Pool: if it shows that the Pool is ours, facts that arrived
/// before are good to act on. None without an answer.
pub(super) async fn prove(job: &Job) -> Option<Seq> {
    let Job { context, at } = job;
    let answer = context.calls.get::<Pool>(Lane::Delivery, &at.key).await;
    let sent = answer.sent;
    match answer.outcome {
        Ok(pool) if pool.metadata.uid.as_deref() == Some(&*at.uid) => {
            let holder = pool.status.as_ref().and_then(|status| status.holder.clone());
            context.memories.with(&at.uid, |memory| {
                if holder.as_ref() == Some(&memory.token) {
                    memory.proved(sent);
                }
            });
            context.pools.take(pool, Source::Answer { sent });
            Some(sent)
        }
        Ok(_) | Err(_) => (prove_now(context, at).await != Read::Unknown).then_some(sent),
    }
}

/// Takes over a Pool that another process holds: our token first, then live
/// lists, and only then anything else.
pub(super) async fn take_over(job: Arc<Job>) -> Ending {
    let Job { context, at } = &*job;
    context.memories.with(&at.uid, |memory| memory.taking_over = true);
    let taken = try_take_over(context, at).await;
    context.memories.with(&at.uid, |memory| memory.taking_over = false);
    if taken { Ending::Done } else { Ending::Unsure { after: None } }
}

async fn try_take_over(context: &Context, at: &PoolAt) -> bool {
    let Some((pool, sent)) = swap_holder(context, at).await else { return false };
    if !relist(context, at).await {
        // Ours in name only: what the stores have may be older than the other
        // holder's last promises. A token that was never written makes the
        // Pool another's again, so that it is taken over once more.
        context.memories.with(&at.uid, |memory| memory.token = format!("{}.unlisted", context.token()));
        return false;
    }
    context.memories.with(&at.uid, |memory| memory.proved(sent));
    context.pools.take(pool, Source::Answer { sent });
    tracing::info!(pool = %at.key, "took the pool over from another process");
    true
}

/// (a) live GET, (b) CAS of the holder. None if that did not happen.
async fn swap_holder(context: &Context, at: &PoolAt) -> Option<(Pool, Seq)> {
    let pool = context.calls.get::<Pool>(Lane::Delivery, &at.key).await.outcome.ok()?;
    let holder = pool.status.as_ref().and_then(|status| status.holder.clone()).unwrap_or_default();
    if term(&holder) > context.setup.term.number {
        context.fatal(format!("pool {} is held by a later term ({holder}) than ours", at.key));
        return None;
    }
    let token = format!("{}.{}", context.token(), context.calls.now().0);
    let version = pool.metadata.resource_version.unwrap_or_default();
    match cas(context, at, &version, &json!({ "holder": token })).await {
        Cas::Written { sent, pool } => {
            // What was proved under an older token proves nothing now.
            context.memories.with(&at.uid, |memory| {
                memory.token = token;
                memory.proof = Seq::default();
            });
            Some((*pool, sent))
        }
        Cas::Failed(_) => None,
    }
}

/// The term in a holder token; 0 where a person wrote something else.
pub fn term(holder: &str) -> u64 {
    holder.split('/').next().and_then(|term| term.parse().ok()).unwrap_or(0)
}

/// (c) live LIST of the Pool's Pods and claims. What the stores have and the
/// list has not is asked after one by one.
async fn relist(context: &Context, at: &PoolAt) -> bool {
    let begun = context.calls.now();
    let selector = format!("{}={}", labels::POOL_UID, at.uid);
    let listed =
        context.list_into::<PodRecord>(Lane::Delivery, &at.key.namespace, Some(&selector), &context.pods).await
            && context.list_claims(Lane::Delivery, &at.key.namespace).await;
    if !listed {
        return false;
    }
    for held in context.pods.indexed(&PodIndex::Pool(at.uid.clone())) {
        let pod = held.object.0.key();
        let seen_since = held.seq > begun;
        if !seen_since
            && context.read(Lane::Adoption, &context.pods, &Key::new(&*at.key.namespace, &*pod.name), &pod.uid).await
                == Read::Unknown
        {
            return false;
        }
    }
    true
}

/// After the Pool's end: the claims of its namespace, live.
pub(super) async fn list_claims(job: Arc<Job>) -> Ending {
    let Job { context, at } = &*job;
    if context.list_claims(Lane::Adoption, &at.key.namespace).await {
        let index = ClaimIndex::Pool(at.key.namespace.clone(), at.key.name.clone());
        let listed = context.claims_indexed(&index).into_iter().map(|held| Arc::clone(&held.claim.key.uid)).collect();
        context.memories.with(&at.uid, |memory| {
            memory.listed_claims.get_or_insert_with(|| Arc::new(listed));
        });
        Ending::Done
    } else {
        Ending::Unsure { after: None }
    }
}

/// Runs a write of the anchor called `name`.
pub(super) fn anchoring<F: Future<Output = Ending> + Send + 'static>(
    context: &Arc<Context>,
    at: &PoolAt,
    name: &str,
    run: impl FnOnce(Arc<Job>) -> F,
) {
    let Some(writing) = context.in_flight.begin(Target::Anchor(at.uid.clone(), name.to_owned())) else { return };
    context.memories.with(&at.uid, |memory| memory.anchoring += 1);
    let job = Arc::new(Job { context: Arc::clone(context), at: at.clone() });
    let running = run(Arc::clone(&job));
    context.work.spawn(async move {
        let ending = running.await;
        let at = job.at.clone();
        job.context.over(writing, ending, move |context| {
            context.memories.with(&at.uid, |memory| memory.anchoring -= 1);
            context.pool_queue.add(at);
        });
    });
}

pub(super) async fn create_anchor(job: Arc<Job>, name: String, revision: String, body: Value) -> Ending {
    let Job { context, at } = &*job;
    let created = context.calls.create::<ControllerRevision>(Lane::Delivery, &at.key.namespace, &body).await;
    let made = match created.outcome {
        Ok(made) => Ok(made),
        Err(error @ (Failure::AlreadyExists | Failure::Unknown { .. })) => {
            let key = Key::new(&*at.key.namespace, &*name);
            context.calls.get::<ControllerRevision>(Lane::Delivery, &key).await.outcome.map_err(|_| error)
        }
        Err(error @ (Failure::Conflict | Failure::NotFound | Failure::Refused { .. } | Failure::NotLeading)) => {
            Err(error)
        }
    };
    match made.map(|made| made.metadata.uid) {
        Ok(Some(uid)) => {
            context.memories.with(&at.uid, |memory| memory.anchors.push(Anchor { name, uid, revision }));
            Ending::Done
        }
        Ok(None) => Ending::Refused,
        Err(error) => {
            tracing::warn!(pool = %at.key, anchor = %name, %error, "the owner of the pool's pods cannot be made");
            Ending::of(&error, Read::Unknown)
        }
    }
}

pub(super) async fn delete_anchor(job: Arc<Job>, anchor: Anchor) -> Ending {
    let Job { context, at } = &*job;
    match names_no_pod(context, at, &anchor).await {
        Some(true) => {}
        Some(false) => return Ending::Moved,
        None => return Ending::Unsure { after: None },
    }
    let key = Key::new(&*at.key.namespace, &*anchor.name);
    match context.calls.delete::<ControllerRevision>(Lane::Refill, &key, &anchor.uid, None).await.outcome {
        Ok(_) | Err(Failure::NotFound | Failure::Conflict) => {
            context.memories.with(&at.uid, |memory| memory.anchors.retain(|known| known.uid != anchor.uid));
            Ending::Done
        }
        Err(error) => {
            tracing::warn!(pool = %at.key, anchor = %anchor.name, %error, "an old anchor cannot be deleted yet");
            Ending::of(&error, Read::Unknown)
        }
    }
}

/// Whether no Pod is owned by this anchor, as a live list shows it; none
/// without an answer. A Pod that lost the label by which it is watched is in no
/// store, and the collector would end it with its owner, in use or not.
async fn names_no_pod(context: &Context, at: &PoolAt, anchor: &Anchor) -> Option<bool> {
    let selector = format!("{}={}", labels::POOL_UID, at.uid);
    if !context.list_into::<PodRecord>(Lane::Refill, &at.key.namespace, Some(&selector), &context.pods).await {
        return None;
    }
    let owners = |held: &Held<PodRecord>| held.object.0.metadata.owner_references.clone().unwrap_or_default();
    let pods = context.pods.indexed(&PodIndex::Pool(at.uid.clone()));
    Some(!pods.iter().any(|held| owners(held).iter().any(|owner| owner.uid == anchor.uid)))
}
