//! Pods that claims made and that would outlive them: their owner was stripped
//! by hand. While the claim lives, its own plan gives the owner back.

#![expect(clippy::disallowed_methods, reason = "ends Pods whose claim is gone")]

use std::sync::Arc;

use sandbox_core::claim::unowned;
use sandbox_core::ids::ClaimKey;
use sandbox_core::pod::Pod;
use tokio::time::sleep;

use crate::apply::ending::Ending;
use crate::context::Context;
use crate::in_flight::Target;
use crate::lanes::Lane;
use crate::live::Read;
use crate::store::Key;
use crate::store::kinds::PodRecord;

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
        let mut failures = 0;
        loop {
            let ended = try_end(&context, &uid, &claim).await;
            if ended == Ending::Done {
                break;
            }
            failures += 1;
            sleep(ended.pause(failures)).await;
        }
        drop(ending);
    });
}

async fn try_end(context: &Context, uid: &str, claim: &ClaimKey) -> Ending {
    let Some(held) = context.pods.by_uid(uid) else { return Ending::Done };
    let pod = &held.object.0;
    if unowned(pod).as_ref() != Some(claim) {
        return Ending::Done;
    }
    let key = Key::of(&*held.object);
    match context.read_claim(Lane::Adoption, &key.namespace, claim).await {
        Read::Alive { .. } => return Ending::Done,
        Read::Unknown => return Ending::Unsure { after: None },
        Read::Gone => {}
    }
    let version = pod.metadata.resource_version.as_deref();
    let answer = context.calls.delete::<PodRecord>(Lane::Refill, &key, uid, version).await;
    match answer.outcome {
        Ok(body) => {
            tracing::info!(pod = %key, claim = %claim.uid, "ended a pod whose owner was stripped and whose claim is gone");
            context.took_end(body, answer.sent);
            Ending::Done
        }
        Err(error) => {
            tracing::warn!(pod = %key, %error, "a pod that nobody owns was not deleted");
            Ending::of(&error, context.read(Lane::Refill, &context.pods, &key, uid).await)
        }
    }
}
