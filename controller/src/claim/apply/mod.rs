//! Starts each action of a claim's plan.

#![expect(clippy::disallowed_methods, reason = "writes of claims")]

pub(crate) mod status;
pub(crate) mod unowned;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use sandbox_api::ledger::ClaimKind;
use sandbox_api::{BatchSandbox, Reason, Sandbox};
use sandbox_core::claim::{Action, Claim, TaskState, is_ours};
use sandbox_core::failure::Failure as Why;
use sandbox_core::ids::PodKey;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::apply::calls::Failure;
use crate::apply::ending::Ending;
use crate::claim::own_pods::Refusal;
use crate::context::{ClaimAt, Context};
use crate::events::{Note, What};
use crate::in_flight::Target;
use crate::lanes::Lane;
use crate::live::Read;
use crate::pool::apply::prove_pod;
use crate::store::kinds::{ClaimRecord, ClaimSort, PodRecord};
use crate::store::{Key, Source, Store};

/// Starts an action unless its target is being written already.
pub(super) fn start(context: &Arc<Context>, claim: &Arc<Claim>, action: Action) {
    match action {
        Action::WriteStatus { report } => {
            let target = Target::Claim(claim.key.uid.to_string());
            let waiting = Arc::clone(claim);
            let wake = move |context: &Context| {
                context.claim_queue.add(ClaimAt::of(&waiting));
                wake_pool(context, &waiting);
            };
            run_then(context, claim, target, wake, |context, claim| async move {
                status::write(&context, &claim, &report).await
            });
        }
        Action::Expire { deadline } => {
            let target = Target::End(claim.key.uid.to_string());
            run(context, claim, target, move |context, claim| async move { expire(&context, &claim, deadline).await });
        }
        Action::Assign { pool } => {
            let target = Target::Claim(claim.key.uid.to_string());
            run(context, claim, target, |context, claim| async move {
                match claim.key.kind {
                    ClaimKind::BatchSandbox => assign(&context, &context.batches, &claim, &pool).await,
                    ClaimKind::Sandbox => assign(&context, &context.singles, &claim, &pool).await,
                }
            });
        }
        Action::CreatePod { index, name, body } => create(context, claim, index, name, body),
        Action::PatchPod { pod, patch } => {
            let target = Target::Pod(pod.uid.to_string());
            run(
                context,
                claim,
                target,
                |context, claim| async move { patch_pod(&context, &claim, &pod, &patch).await },
            );
        }
        Action::DeletePod { pod, resource_version } => {
            let target = Target::Pod(pod.uid.to_string());
            run(context, claim, target, |context, claim| async move {
                delete(&context, &claim, &pod, &resource_version).await
            });
        }
        Action::ProvePod(pod) => {
            let target = Target::Proof(pod.uid.to_string());
            run(context, claim, target, |context, claim| async move {
                let proven = prove_pod(&context, &claim.namespace, &pod).await;
                if proven { Ending::Done } else { Ending::Unsure { after: None } }
            });
        }
        Action::StartTask { index, pod, address, body } => {
            task(context, claim, index, &pod, move |context| async move {
                context.executor.start(&address, &body).await.map(|()| Some(TaskState::Starting))
            });
        }
        Action::ReadTask { index, pod, address } => {
            let name = format!("{}-{index}", claim.key.name);
            task(
                context,
                claim,
                index,
                &pod,
                move |context| async move { context.executor.read(&address, &name).await },
            );
        }
    }
}

fn run<F: Future<Output = Ending> + Send + 'static>(
    context: &Arc<Context>,
    claim: &Arc<Claim>,
    target: Target,
    work: impl FnOnce(Arc<Context>, Arc<Claim>) -> F,
) {
    let at = ClaimAt::of(claim);
    run_then(context, claim, target, move |context| context.claim_queue.add(at), work);
}

fn run_then<F: Future<Output = Ending> + Send + 'static>(
    context: &Arc<Context>,
    claim: &Arc<Claim>,
    target: Target,
    wake: impl FnOnce(&Context) + Send + 'static,
    work: impl FnOnce(Arc<Context>, Arc<Claim>) -> F,
) {
    let Some(writing) = context.in_flight.begin(target) else { return };
    let running = work(Arc::clone(context), Arc::clone(claim));
    let (context, at) = (Arc::clone(context), ClaimAt::of(claim));
    context.work.clone().spawn(async move {
        let ending = running.await;
        context.over(writing, ending, wake);
        // What else it needs does not wait for the pause.
        context.claim_queue.add(at);
    });
}

/// Writes the Pool that was chosen for a claim on any.
async fn assign<K: ClaimSort>(context: &Context, store: &Store<ClaimRecord<K>>, claim: &Claim, pool: &str) -> Ending {
    let key = Key::new(claim.namespace.clone(), &*claim.key.name);
    let patch = json!({
        "metadata": { "uid": &*claim.key.uid, "resourceVersion": claim.resource_version },
        "spec": { "poolRef": pool, "template": null },
    });
    let answer = context.calls.patch::<ClaimRecord<K>>(Lane::Delivery, &key, &patch).await;
    match answer.outcome {
        Ok(record) => {
            tracing::info!(kind = claim.key.kind.as_str(), claim = %key, pool, "assigned a pool to a claim on any");
            store.take(record, Source::Answer { sent: answer.sent });
            Ending::Done
        }
        Err(error) => status::settle(context, store, &key, claim, &error).await,
    }
}

/// The Pool may have waited for the claim's write to end.
fn wake_pool(context: &Context, claim: &Claim) {
    if let Some(pool) = claim.pool() {
        context.wake_pool_named(&Key::new(claim.namespace.clone(), pool));
    }
}

/// Deletes a claim whose deadline is due, unless it moved meanwhile.
async fn expire(context: &Context, claim: &Claim, deadline: Timestamp) -> Ending {
    let key = Key::new(claim.namespace.clone(), &*claim.key.name);
    let (uid, version) = (&*claim.key.uid, Some(claim.resource_version.as_str()));
    let answer = match claim.key.kind {
        ClaimKind::BatchSandbox => context.calls.delete::<BatchSandbox>(Lane::Delivery, &key, uid, version).await,
        ClaimKind::Sandbox => context.calls.delete::<Sandbox>(Lane::Delivery, &key, uid, version).await,
    };
    match answer.outcome {
        Ok(body) => {
            tracing::info!(kind = claim.key.kind.as_str(), claim = %key, %deadline, "deadline reached: deleted");
            ended(context, claim, &body, answer.sent);
            Ending::Done
        }
        Err(error) => match claim.key.kind {
            ClaimKind::BatchSandbox => status::settle(context, &context.batches, &key, claim, &error).await,
            ClaimKind::Sandbox => status::settle(context, &context.singles, &key, claim, &error).await,
        },
    }
}

/// A bare success says that the object is gone; an object, that a finalizer
/// keeps it.
fn ended(context: &Context, claim: &Claim, body: &Value, sent: crate::store::Seq) {
    let source = Source::Deletion { sent };
    match claim.key.kind {
        _ if body["kind"] == "Status" => {
            context.proofs.gone(&claim.key.uid);
            context.batches.proven_gone(&claim.key.uid);
            context.singles.proven_gone(&claim.key.uid);
        }
        ClaimKind::BatchSandbox => {
            if let Ok(record) = serde_json::from_value::<ClaimRecord<BatchSandbox>>(body.clone()) {
                context.batches.take(record, source);
            }
        }
        ClaimKind::Sandbox => {
            if let Ok(record) = serde_json::from_value::<ClaimRecord<Sandbox>>(body.clone()) {
                context.singles.take(record, source);
            }
        }
    }
}

/// Creates a Pod of the claim's own template.
fn create(context: &Arc<Context>, claim: &Arc<Claim>, index: u32, name: String, body: Value) {
    if let Err(until) = context.own_pods.begin(&claim.key.uid, index) {
        context.claim_queue.add_after(ClaimAt::of(claim), until.saturating_duration_since(Instant::now()));
        return;
    }
    let (context, claim) = (Arc::clone(context), Arc::clone(claim));
    context.work.clone().spawn(async move {
        let refused = create_now(&context, &claim, &name, &body).await;
        if let Some(refusal) = &refused {
            context.events.tell(Note::claim(&claim, What::FailedCreate, refusal.why.message.clone()));
        }
        context.own_pods.end(&claim.key.uid, index, refused);
        context.claim_queue.add(ClaimAt::of(&claim));
    });
}

async fn create_now(context: &Context, claim: &Claim, name: &str, body: &Value) -> Option<Refusal> {
    let answer = context.calls.create::<PodRecord>(Lane::Delivery, &claim.namespace, body).await;
    match answer.outcome {
        Ok(record) => {
            context.pods.take(record, Source::Answer { sent: answer.sent });
            context.events.tell(Note::claim(claim, What::SuccessfulCreate, format!("created pod {name}")));
            None
        }
        Err(error @ (Failure::AlreadyExists | Failure::Unknown { .. })) => in_use(context, claim, name, &error).await,
        Err(error @ (Failure::Refused { .. } | Failure::NotFound | Failure::Conflict | Failure::NotLeading)) => {
            Some(refused(claim, name, &error))
        }
    }
}

fn refused(claim: &Claim, name: &str, error: &Failure) -> Refusal {
    let text = error.to_string();
    let reason = if text.contains("exceeded quota") { Reason::QuotaExceeded } else { Reason::PodRefused };
    tracing::warn!(kind = claim.key.kind.as_str(), claim = %claim.key.name, pod = %name, %error, "the pod was refused");
    Refusal { why: Why::new(reason, text), ending: Ending::of(error, Read::Gone) }
}

/// The name is in use: by our own Pod, whose creation's answer was lost, or by
/// a stranger's. If not, or nobody knows, the creation failed.
async fn in_use(context: &Context, claim: &Claim, name: &str, error: &Failure) -> Option<Refusal> {
    let key = Key::new(claim.namespace.clone(), name);
    let answer = context.calls.get::<PodRecord>(Lane::Delivery, &key).await;
    let Ok(record) = answer.outcome else { return Some(refused(claim, name, error)) };
    let stranger = || Why::new(Reason::PodRefused, format!("pod {name} exists and is not this sandbox's: delete it"));
    if !is_ours(claim, &record.0) {
        return Some(Refusal { why: stranger(), ending: Ending::Refused });
    }
    context.pods.take(record, Source::Answer { sent: answer.sent });
    None
}

async fn patch_pod(context: &Context, claim: &Claim, pod: &PodKey, patch: &Value) -> Ending {
    let key = Key::new(claim.namespace.clone(), &*pod.name);
    let answer = context.calls.patch::<PodRecord>(Lane::Adoption, &key, patch).await;
    match answer.outcome {
        Ok(record) => {
            context.pods.take(record, Source::Answer { sent: answer.sent });
            Ending::Done
        }
        Err(error) => Ending::of(&error, context.read(Lane::Adoption, &context.pods, &key, &pod.uid).await),
    }
}

async fn delete(context: &Context, claim: &Claim, pod: &PodKey, version: &str) -> Ending {
    let key = Key::new(claim.namespace.clone(), &*pod.name);
    let answer = context.calls.delete::<PodRecord>(Lane::Refill, &key, &pod.uid, Some(version)).await;
    match answer.outcome {
        Ok(body) => {
            context.took_end(body, answer.sent);
            Ending::Done
        }
        Err(error) => {
            tracing::warn!(pod = %key, %error, "the pod was not deleted");
            Ending::of(&error, context.read(Lane::Refill, &context.pods, &key, &pod.uid).await)
        }
    }
}

/// Runs a request about a task; its answer goes into the book.
fn task<F>(context: &Arc<Context>, claim: &Arc<Claim>, index: u32, pod: &PodKey, ask: impl FnOnce(Arc<Context>) -> F)
where
    F: Future<Output = Result<Option<TaskState>, crate::executor::ExecutorError>> + Send + 'static,
{
    let uid = Arc::clone(&claim.key.uid);
    if !context.tasks.begin(&uid, index, &pod.uid, Timestamp::now()) {
        return;
    }
    let asking = ask(Arc::clone(context));
    let (context, at, pod) = (Arc::clone(context), ClaimAt::of(claim), pod.clone());
    context.work.clone().spawn(async move {
        let answer = asking.await;
        if let Err(error) = &answer {
            tracing::debug!(claim = %at.key, index, pod = %pod.name, %error, "the task executor did not answer");
        }
        context.tasks.end(&uid, index, &pod.uid, &answer, Timestamp::now());
        context.claim_queue.add(at);
    });
}
