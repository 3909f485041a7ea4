//! Pods that claims made and that would outlive them: their owner was stripped
//! by hand. While the claim lives, its own plan gives the owner back.

#![expect(clippy::disallowed_methods, reason = "ends Pods whose claim is gone")]

use std::sync::Arc;
use std::time::Duration;

use sandbox_core::claim::unowned;
use sandbox_core::ids::ClaimKey;
use sandbox_core::pod::Pod;
use tokio::time::sleep;

use crate::apply::calls::Failure;
use crate::context::Context;
use crate::in_flight::Target;
use crate::lanes::Lane;
use crate::live::Read;
use crate::store::kinds::PodRecord;
use crate::store::{Key, Source};

/// Longest pause between two tries.
const LAST: Duration = Duration::from_secs(30);

/// Ends a Pod that nothing owns once its claim is proven gone.
pub(crate) fn end(context: &Arc<Context>, pod: &Pod) {
    let Some(claim) = unowned(pod) else { return };
    if context.claim_by_uid(&claim.uid).is_some() {
        return;
    }
    let uid = pod.key().uid;
    let Some(ending) = context.in_flight.begin(Target::Pod(uid.to_string())) else { return };
    let context = Arc::clone(context);
    context.work.clone().spawn(async move {
        let mut pause = Duration::from_millis(500);
        while !try_end(&context, &uid, &claim).await {
            sleep(pause).await;
            pause = (pause * 2).min(LAST);
        }
        drop(ending);
    });
}

/// False if there was no certain answer.
async fn try_end(context: &Context, uid: &str, claim: &ClaimKey) -> bool {
    let Some(held) = context.pods.by_uid(uid) else { return true };
    let pod = &held.object.0;
    if unowned(pod).as_ref() != Some(claim) {
        return true;
    }
    let key = Key::of(&*held.object);
    match context.read_claim(Lane::Adoption, &key.namespace, claim).await {
        Read::Alive { .. } => return true,
        Read::Unknown => return false,
        Read::Gone => {}
    }
    let version = pod.metadata.resource_version.as_deref();
    let answer = context.calls.delete::<PodRecord>(Lane::Refill, &key, uid, version).await;
    match answer.outcome {
        Ok(body) => {
            tracing::info!(pod = %key, claim = %claim.uid, "ended a pod whose owner was stripped and whose claim is gone");
            if body["kind"] == "Pod"
                && let Ok(record) = serde_json::from_value::<PodRecord>(body)
            {
                context.pods.take(record, Source::Deletion { sent: answer.sent });
            }
            true
        }
        Err(error @ (Failure::Conflict | Failure::NotFound)) => {
            tracing::debug!(pod = %key, %error, "the pod moved on: looking again");
            context.read(Lane::Refill, &context.pods, &key, uid).await == Read::Gone
        }
        Err(
            error @ (Failure::Unknown { .. } | Failure::Refused { .. } | Failure::AlreadyExists | Failure::NotLeading),
        ) => {
            tracing::warn!(pod = %key, %error, "a pod that nobody owns was not deleted");
            false
        }
    }
}
