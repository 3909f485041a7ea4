//! Writing a claim's status.

use sandbox_api::ledger::ClaimKind;
use sandbox_core::claim::{Claim, Report, compat};
use serde_json::json;

use crate::apply::calls::Failure;
use crate::apply::ending::Ending;
use crate::context::Context;
use crate::events::{Note, trouble};
use crate::flags::CompatAnnotations;
use crate::lanes::Lane;
use crate::store::kinds::{ClaimRecord, ClaimSort};
use crate::store::{Key, Source, Store};

/// Compare-and-swap of the whole status, on the version that was planned on.
/// Whatever comes of it, the store then has the newest version.
pub async fn write(context: &Context, claim: &Claim, report: &Report) -> Ending {
    match claim.key.kind {
        ClaimKind::BatchSandbox => write_in(context, &context.batches, claim, report).await,
        ClaimKind::Sandbox => write_in(context, &context.singles, claim, report).await,
    }
}

async fn write_in<K: ClaimSort>(
    context: &Context,
    store: &Store<ClaimRecord<K>>,
    claim: &Claim,
    report: &Report,
) -> Ending {
    let key = Key::new(claim.namespace.clone(), &*claim.key.name);
    let Some(held) = store.by_uid(&claim.key.uid) else { return Ending::Done };
    let mut version = claim.resource_version.clone();
    // Planned on an older version: the swap could only fail.
    if held.object.claim.resource_version != version {
        return Ending::Done;
    }
    if context.setup.compat == CompatAnnotations::Before {
        match annotate(context, store, &key, claim, &version, report).await {
            Ok(annotated) => version = annotated,
            Err(ending) => return ending,
        }
    }
    let status = held.object.object.status(claim, report);
    let patch = json!({ "metadata": { "uid": &*claim.key.uid, "resourceVersion": version }, "status": status });
    let answer = context.calls.patch_status::<ClaimRecord<K>>(Lane::Delivery, &key, &patch).await;
    match answer.outcome {
        Ok(record) => {
            let version = record.claim.resource_version.clone();
            if let Some((what, text)) = trouble(&claim.status.conditions, &record.claim.status.conditions) {
                context.events.tell(Note::claim(claim, what, text));
            }
            store.take(record, Source::Answer { sent: answer.sent });
            match context.setup.compat {
                CompatAnnotations::After => annotate(context, store, &key, claim, &version, report)
                    .await
                    .map_or_else(|failed| failed, |_| Ending::Done),
                CompatAnnotations::Off | CompatAnnotations::Before => Ending::Done,
            }
        }
        Err(error) => settle(context, store, &key, claim, &error).await,
    }
}

/// Writes the older operator's annotations, unless they say so already. The
/// version after it.
async fn annotate<K: ClaimSort>(
    context: &Context,
    store: &Store<ClaimRecord<K>>,
    key: &Key,
    claim: &Claim,
    version: &str,
    report: &Report,
) -> Result<String, Ending> {
    let wanted = compat(claim, report);
    let held = store.by_uid(&claim.key.uid).ok_or(Ending::Done)?;
    let there = held.object.object.meta().annotations.clone().unwrap_or_default();
    if wanted.iter().all(|(name, value)| there.get(*name) == Some(value)) {
        return Ok(version.to_owned());
    }
    let patch = json!({ "metadata": { "uid": &*claim.key.uid, "resourceVersion": version, "annotations": wanted } });
    let answer = context.calls.patch::<ClaimRecord<K>>(Lane::Delivery, key, &patch).await;
    match answer.outcome {
        Ok(record) => {
            let version = record.claim.resource_version.clone();
            store.take(record, Source::Answer { sent: answer.sent });
            Ok(version)
        }
        Err(error) => Err(settle(context, store, key, claim, &error).await),
    }
}

/// After a write that did not happen, or may not have: the newest version.
pub(super) async fn settle<K: ClaimSort>(
    context: &Context,
    store: &Store<ClaimRecord<K>>,
    key: &Key,
    claim: &Claim,
    error: &Failure,
) -> Ending {
    match error {
        Failure::Conflict | Failure::NotFound | Failure::Unknown { .. } => {
            Ending::of(error, context.read(Lane::Delivery, store, key, &claim.key.uid).await)
        }
        Failure::Refused { .. } | Failure::AlreadyExists => {
            tracing::error!(kind = claim.key.kind.as_str(), claim = %key, %error, "the claim cannot be written");
            Ending::Refused
        }
        Failure::NotLeading => Ending::Unsure { after: None },
    }
}
