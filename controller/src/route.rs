//! Who has to look when something changes. Called by the stores after they
//! show the change; only ever adds keys to queues.

use std::sync::{Arc, Weak};

use sandbox_api::{Pool, labels};
use sandbox_core::claim::Claim;
use sandbox_core::failure::failure;
use sandbox_core::pod::Pod;
use sandbox_core::pool::roster::touched_by;

use crate::claim::apply::unowned;
use crate::context::{ClaimAt, Context, PoolAt};
use crate::in_flight::Target;
use crate::pool::apply::prove_pod;
use crate::store::kinds::{ClaimIndex, ClaimRecord, ClaimSort, NodeRecord, PodRecord};
use crate::store::{Change, Key};

/// A listener that finds the context once it is built.
pub fn to<K>(
    context: &Weak<Context>,
    route: fn(&Arc<Context>, &Change<K>),
) -> impl Fn(&Change<K>) + Send + Sync + use<K> {
    let context = Weak::clone(context);
    move |change| {
        if let Some(context) = context.upgrade() {
            route(&context, change);
        }
    }
}

/// A Pool changed: itself, and its claims if it came or went.
pub fn pool(context: &Arc<Context>, change: &Change<Pool>) {
    if let Some(old) = change.old.as_ref().filter(|_| change.left) {
        context.proofs.gone(old.metadata.uid.as_deref().unwrap_or_default());
        context.metrics.pool_ended(&Key::of(&**old));
    }
    for pool in change.old.iter().chain(&change.new) {
        let uid = pool.metadata.uid.clone().unwrap_or_default();
        context.pool_queue.add(PoolAt { key: Key::of(&**pool), uid });
    }
    let came_or_went = change.old.is_none() || change.new.is_none() || change.left;
    if let Some(pool) = change.new.as_ref().or(change.old.as_ref()).filter(|_| came_or_went) {
        let Key { namespace, name } = Key::of(&**pool);
        for held in context.claims_indexed(&ClaimIndex::Pool(namespace, name)) {
            context.claim_queue.add(ClaimAt::of(&held.claim));
        }
    }
    let generation = |pool: &Option<Arc<Pool>>| pool.as_ref().and_then(|pool| pool.metadata.generation);
    if let Some(pool) = change.new.as_ref().filter(|_| generation(&change.old) != generation(&change.new)) {
        for held in context.claims_indexed(&ClaimIndex::Any(Key::of(&**pool).namespace)) {
            context.claim_queue.add(ClaimAt::of(&held.claim));
        }
    }
}

/// A claim changed: itself, its Pool, and the Pools of the Pods it names or
/// named.
pub fn claim<K: ClaimSort>(context: &Arc<Context>, change: &Change<ClaimRecord<K>>) {
    if let Some(old) = change.old.as_ref().filter(|_| change.left) {
        context.proofs.gone(&old.claim.key.uid);
        context.tasks.forget(&old.claim.key.uid);
        context.own_pods.forget(&old.claim.key.uid);
    }
    let [old, new] = [&change.old, &change.new].map(|record| record.as_ref().map(|record| &*record.claim));
    context.waits.changed(old, new);
    touch_named(context, old, new);
    for record in change.old.iter().chain(&change.new) {
        let claim = &record.claim;
        context.claim_queue.add(ClaimAt::of(claim));
        if let Some(pool) = claim.pool() {
            context.wake_pool_named(&Key::new(claim.namespace.clone(), pool));
        }
        for uid in claim.status.slots.iter().filter_map(|slot| slot.named_uid()) {
            if let Some(pool) = context.pods.by_uid(uid).and_then(|held| pool_uid(&held.object.0)) {
                context.wake_pool(&pool);
            }
        }
    }
    if change.new.is_none()
        && let Some(old) = &change.old
    {
        let index = crate::store::kinds::PodIndex::Claim(old.claim.key.uid.to_string());
        for held in context.pods.indexed(&index) {
            let pod = &held.object.0;
            match pool_uid(pod) {
                Some(pool) => {
                    context.memories.touch(&pool, pod.key());
                    wake_pool_of(context, pod, &pool);
                }
                None => unowned::end(context, pod),
            }
        }
    }
}

/// The Pools of Pods that a claim's change concerns have to look at them.
fn touch_named(context: &Context, old: Option<&Claim>, new: Option<&Claim>) {
    for pod in touched_by(old, new) {
        let label = context.pods.by_uid(&pod.uid).and_then(|held| pool_uid(&held.object.0));
        if let Some(pool) = label.or_else(|| pool_of(context, new.or(old)?)) {
            context.memories.touch(&pool, pod);
        }
    }
}

/// The uid of the Pool that a claim asks.
fn pool_of(context: &Context, claim: &Claim) -> Option<String> {
    let pool = context.pools.get(&Key::new(claim.namespace.clone(), claim.pool()?))?;
    pool.object.metadata.uid.clone()
}

/// Its Pool has to look at a Pod that changed; one whose label was stripped is
/// still its Pool's, and that of the claim which names it.
fn touch(context: &Context, change: &Change<PodRecord>) {
    for record in change.old.iter().chain(&change.new) {
        let pod = &record.0;
        if let Some(pool) = pool_uid(pod) {
            context.memories.touch(&pool, pod.key());
            continue;
        }
        for held in context.claims_indexed(&ClaimIndex::Names(pod.key().uid.to_string())) {
            if let Some(pool) = pool_of(context, &held.claim) {
                context.memories.touch(&pool, pod.key());
                context.wake_pool(&pool);
            }
        }
    }
}

fn pool_uid(pod: &Pod) -> Option<String> {
    pod.label(labels::POOL_UID).map(str::to_owned)
}

/// A Pod changed: its Pool, the claim that its marks name, the claim that
/// names it.
pub fn pod(context: &Arc<Context>, change: &Change<PodRecord>) {
    if let Some(old) = change.old.as_ref().filter(|_| change.left) {
        // One that was terminating stays dead, whatever its labels became. Any
        // other may have lost only the label that it is watched by.
        if old.0.is_terminating() {
            context.proofs.gone(old.0.metadata.uid.as_deref().unwrap_or_default());
        } else {
            look_after(context, &old.0);
        }
    }
    if let Some(new) = &change.new {
        unowned::end(context, &new.0);
    }
    touch(context, change);
    note_start(context, change);
    doubt_anchor(context, change);
    for record in change.old.iter().chain(&change.new) {
        let pod = &record.0;
        if let Some(uid) = pool_uid(pod) {
            wake_pool_of(context, pod, &uid);
        }
        if let Some((claim, _)) = pod.held_by() {
            context.wake_claim(&claim.uid);
        }
    }
    let uid = change.new.as_ref().or(change.old.as_ref()).and_then(|record| record.0.metadata.uid.clone());
    for held in context.claims_indexed(&ClaimIndex::Names(uid.unwrap_or_default())) {
        context.claim_queue.add(ClaimAt::of(&held.claim));
    }
}

/// Asks after a Pod that left the watch, until there is an answer.
fn look_after(context: &Arc<Context>, pod: &Pod) {
    let key = pod.key();
    let Some(asking) = context.in_flight.begin(Target::Proof(key.uid.to_string())) else { return };
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let context = Arc::clone(context);
    context.work.clone().spawn(async move {
        // A proof wakes nobody by itself: the claim that names it must look.
        for wait in [1, 2, 4, 8, 16] {
            if prove_pod(&context, &namespace, &key).await {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_secs(wait)).await;
        }
        drop(asking);
        for held in context.claims_indexed(&ClaimIndex::Names(key.uid.to_string())) {
            context.claim_queue.add(ClaimAt::of(&held.claim));
        }
    });
}

/// The Pool may be unknown: then the Pod's labels tell its name.
pub(crate) fn wake_pool_of(context: &Context, pod: &Pod, uid: &str) {
    if context.wake_pool(uid) {
        return;
    }
    let name = pod.label(labels::POOL_NAME).unwrap_or_default();
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    context.pool_queue.add(PoolAt { key: Key::new(namespace, name), uid: uid.to_owned() });
}

/// Counts Pods that ended before they were ever ready.
fn note_start(context: &Context, change: &Change<PodRecord>) {
    let Some(new) = &change.new else { return };
    let Some(pool) = pool_uid(&new.0).filter(|_| new.0.is_warm()) else { return };
    let before = change.old.as_ref();
    let was_ready = before.is_some_and(|old| old.0.is_ready());
    let was_terminal = before.is_some_and(|old| old.0.is_terminal());
    if new.0.is_ready() && !was_ready {
        context.memories.started(&pool);
    } else if !was_ready && (new.0.is_terminal() && !was_terminal || was_given_up(before, &new.0)) {
        context.memories.failed_to_start(&pool);
    }
}

/// It is being deleted and never ran: its containers could not start.
fn was_given_up(before: Option<&Arc<PodRecord>>, now: &Pod) -> bool {
    let failing = before.is_some_and(|old| !old.0.is_terminating() && failure(&old.0).is_some());
    failing && now.is_terminating()
}

/// A warm Pod ends and nobody of ours retired it: its anchor may be gone, and
/// the collector with it. The next creation makes sure of it.
fn doubt_anchor(context: &Context, change: &Change<PodRecord>) {
    let Some(old) = change.old.as_ref().filter(|old| old.0.is_warm() && !old.0.is_terminating()) else { return };
    let ends = change.new.as_ref().is_none_or(|new| new.0.is_terminating());
    let (Some(pool), Some(uid)) = (pool_uid(&old.0), old.0.metadata.uid.as_deref()) else { return };
    if ends {
        let owners: Vec<&str> = old.0.metadata.owner_references.iter().flatten().map(|owner| &*owner.uid).collect();
        context.memories.doubt_anchor(&pool, uid, &owners);
    }
}

/// A node changed its health: all Pools. They are few.
pub fn node(context: &Arc<Context>, change: &Change<NodeRecord>) {
    let sick = |node: &Option<Arc<NodeRecord>>| node.as_ref().map(|node| node.sick);
    if sick(&change.old) == sick(&change.new) {
        return;
    }
    context.memories.touch_all();
    for held in context.pools.all() {
        let uid = held.object.metadata.uid.clone().unwrap_or_default();
        context.pool_queue.add(PoolAt { key: Key::of(&*held.object), uid });
    }
}
