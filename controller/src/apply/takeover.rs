//! What happens once the Lease is held, before anything is planned.
//!
//! Every Pool whose status was ever written gets our token, and only then do
//! the watches of Pods and claims begin, with consistent lists: what they show
//! is newer than anything another process did while it held the Pools.

#![expect(clippy::disallowed_methods, reason = "takes Pools by writing their holder")]

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::ControllerRevision;
use sandbox_api::{Pool, labels};
use sandbox_core::pool::Anchor;
use serde_json::json;
use tokio::time::sleep;

use crate::apply::calls::Failure;
use crate::apply::ending::Ending;
use crate::context::{Context, PoolAt};
use crate::lanes::Lane;
use crate::live::Read;
use crate::pool::apply::ledger::term;
use crate::store::{Key, Source};

/// Takes every Pool and finds the anchors.
///
/// # Errors
/// When a Pool is held by a later term: then this process must not act.
pub async fn take_all(context: &Arc<Context>) -> anyhow::Result<()> {
    let namespace = context.setup.namespace.clone().unwrap_or_default();
    let pools: Vec<Pool> = until_answered("pools", || context.calls.list(Lane::Delivery, &namespace, None)).await;
    let there: HashSet<String> = pools.iter().filter_map(|pool| pool.metadata.uid.clone()).collect();
    let written: Vec<Pool> = pools.into_iter().filter(|pool| pool.status.is_some()).collect();
    let number = written.len();
    futures::stream::iter(written)
        .map(|pool| take(context, pool))
        .buffer_unordered(16)
        .try_collect::<Vec<()>>()
        .await?;
    let anchors = find_anchors(context, &namespace).await;
    // A Pool that was deleted while nobody led may have left nothing but these, and nothing else tells of it.
    for (at, _) in anchors.iter().filter(|(at, _)| !there.contains(&at.uid)) {
        context.pool_queue.add(at.clone());
    }
    context.memories.anchors_found(anchors.into_iter().map(|(at, anchors)| (at.uid, anchors)).collect());
    tracing::info!(pools = number, token = context.token(), "took over");
    Ok(())
}

async fn until_answered<T, F>(what: &str, ask: impl Fn() -> F) -> T
where
    F: Future<Output = crate::apply::calls::Answer<T>>,
{
    loop {
        match ask().await.outcome {
            Ok(answer) => return answer,
            Err(error) => tracing::warn!(%error, "{what} cannot be listed yet"),
        }
        sleep(Duration::from_secs(1)).await;
    }
}

/// Compare-and-swap of the holder until it is ours or the Pool is gone.
async fn take(context: &Context, mut pool: Pool) -> anyhow::Result<()> {
    let key = Key::of(&pool);
    let mut tries = 0_u32;
    loop {
        let holder = pool.status.as_ref().and_then(|status| status.holder.clone()).unwrap_or_default();
        anyhow::ensure!(
            term(&holder) <= context.setup.term.number,
            "pool {key} is held by a later term ({holder}) than ours ({})",
            context.setup.term.number
        );
        let meta = json!({ "uid": pool.metadata.uid, "resourceVersion": pool.metadata.resource_version });
        let patch = json!({ "metadata": meta, "status": { "holder": context.token() } });
        let answer = context.calls.patch_status::<Pool>(Lane::Delivery, &key, &patch).await;
        match answer.outcome {
            Ok(taken) => {
                let memory = context.memories.open(&Arc::new(taken.clone()), || context.token());
                memory.lock().unwrap_or_else(std::sync::PoisonError::into_inner).proved(answer.sent);
                context.pools.take(taken, Source::Answer { sent: answer.sent });
                return Ok(());
            }
            Err(Failure::NotLeading) => anyhow::bail!("the Lease was lost while taking over"),
            Err(error @ Failure::Refused { .. }) => anyhow::bail!("pool {key} cannot be taken over: {error}"),
            // Reads may be answered while writes fail.
            Err(error @ (Failure::Conflict | Failure::NotFound | Failure::AlreadyExists | Failure::Unknown { .. })) => {
                tries = tries.saturating_add(1);
                sleep(Ending::of(&error, Read::Gone).pause(tries)).await;
            }
        }
        match context.calls.get::<Pool>(Lane::Delivery, &key).await.outcome {
            // Its answer was lost, or somebody wrote it: look again.
            Ok(newer) => pool = newer,
            Err(Failure::NotFound) => return Ok(()),
            Err(error) => {
                tracing::warn!(pool = %key, %error, "the pool cannot be read yet");
                sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// Anchors by Pool.
async fn find_anchors(context: &Context, namespace: &str) -> HashMap<PoolAt, Vec<Anchor>> {
    let selector = format!("{}={}", labels::MANAGED_BY, labels::MANAGED_BY_CONTROLLER);
    let list = || context.calls.list::<ControllerRevision>(Lane::Delivery, namespace, Some(&selector));
    let mut found: HashMap<PoolAt, Vec<Anchor>> = HashMap::new();
    for made in until_answered("controllerrevisions", list).await {
        let marks = made.metadata.labels.unwrap_or_default();
        let (Some(pool), Some(revision)) = (marks.get(labels::POOL_UID), marks.get(labels::POOL_REVISION)) else {
            continue;
        };
        let (Some(name), Some(uid)) = (made.metadata.name, made.metadata.uid) else { continue };
        let of = marks.get(labels::POOL_NAME).map(String::as_str).unwrap_or_default();
        let key = Key::new(made.metadata.namespace.unwrap_or_default(), of);
        found.entry(PoolAt { key, uid: pool.clone() }).or_default().push(Anchor {
            name,
            uid,
            revision: revision.clone(),
        });
    }
    found
}
