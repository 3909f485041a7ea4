//! Starts each action of a Pool's plan. Nothing is chosen here: names, uids
//! and preconditions are in the action.

pub(crate) mod ledger;
mod pods;

use std::sync::Arc;

use prometheus::IntGauge;
use sandbox_core::claim::{Claim, Report};
use sandbox_core::ids::ClaimKey;
use sandbox_core::pool::{Action, PatchReason};

use crate::apply::ending::Ending;
use crate::claim::apply::status;
use crate::context::{ClaimAt, Context, PoolAt};
use crate::in_flight::{Target, Writing};
use crate::lanes::Lane;
pub(crate) use pods::prove as prove_pod;

/// Starts an action unless its target is being written already.
pub(crate) fn start(context: &Arc<Context>, at: &PoolAt, action: Action) {
    match action {
        Action::TakeOver => on_ledger(context, at, ledger::take_over),
        Action::Commit { resource_version, status } => {
            on_ledger(context, at, move |job| ledger::commit(job, resource_version, *status));
        }
        Action::ProvePool => proof(context, at, &at.uid, |job| async move {
            let sent = ledger::prove(&job).await;
            if sent.is_some() { Ending::Done } else { Ending::Unsure { after: None } }
        }),
        Action::WriteClaim { claim, report } => write_claim(context, at, claim, *report),
        Action::PatchPod { pod, reason, patch } => {
            let target = Target::Pod(pod.uid.to_string());
            write(context, at, target, move |job| async move {
                let _pending = Pending::of(&job.context, reason);
                pods::patch(&job, &pod, &patch).await
            });
        }
        Action::Readopt { pod, claim, patch } => {
            let target = Target::Pod(pod.uid.to_string());
            write(context, at, target, |job| async move { pods::readopt(&job, &pod, &claim, &patch).await });
        }
        Action::DeletePod { pod, resource_version, unless_named_by, reason } => {
            let target = Target::Pod(pod.uid.to_string());
            write(context, at, target, move |job| async move {
                pods::delete(&job, &pod, resource_version.as_deref(), unless_named_by.as_ref(), reason).await
            });
        }
        Action::ProvePod(pod) => {
            let uid = pod.uid.to_string();
            proof(context, at, &uid, |job| async move {
                let proven = pods::prove(&job.context, &job.at.key.namespace, &pod).await;
                if proven { Ending::Done } else { Ending::Unsure { after: None } }
            });
        }
        Action::ProveClaim(claim) => prove_claim(context, at, claim),
        Action::CreateAnchor { name, revision, body } => {
            ledger::anchoring(context, at, &name.clone(), |job| ledger::create_anchor(job, name, revision, body));
        }
        Action::DeleteAnchor(anchor) => {
            ledger::anchoring(context, at, &anchor.name.clone(), |job| ledger::delete_anchor(job, anchor));
        }
        Action::CreatePod { slot, name, body } => pods::create(context, at, slot, name, body),
        Action::ListClaims => on_ledger(context, at, ledger::list_claims),
    }
}

/// Counts an adoption until it has ended.
struct Pending(Option<IntGauge>);

impl Pending {
    fn of(context: &Context, reason: PatchReason) -> Self {
        let gauge = match reason {
            PatchReason::Adopt => Some(context.metrics.adoptions_pending.clone()),
            PatchReason::HandBack => None,
        };
        gauge.iter().for_each(IntGauge::inc);
        Self(gauge)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.iter().for_each(IntGauge::dec);
    }
}

/// An action that runs.
pub(super) struct Job {
    pub(super) context: Arc<Context>,
    pub(super) at: PoolAt,
}

impl Job {
    fn new(context: &Arc<Context>, at: &PoolAt) -> Self {
        Self { context: Arc::clone(context), at: at.clone() }
    }

    /// Whatever came of it, look at the Pool again; after a pause if it failed.
    fn over(self, writing: Writing, ending: Ending) {
        let at = self.at;
        self.context.over(writing, ending, move |context| context.pool_queue.add(at));
    }
}

/// Runs a write; its target is in flight meanwhile.
pub(super) fn write<F: Future<Output = Ending> + Send + 'static>(
    context: &Arc<Context>,
    at: &PoolAt,
    target: Target,
    run: impl FnOnce(Arc<Job>) -> F,
) {
    let Some(writing) = context.in_flight.begin(target) else { return };
    let job = Job::new(context, at);
    let running = run(Arc::new(Job::new(context, at)));
    context.work.spawn(async move {
        let ending = running.await;
        job.over(writing, ending);
    });
}

fn on_ledger<F: Future<Output = Ending> + Send + 'static>(
    context: &Arc<Context>,
    at: &PoolAt,
    run: impl FnOnce(Arc<Job>) -> F,
) {
    write(context, at, Target::Ledger(at.uid.clone()), run);
}

/// Runs a live read.
fn proof<F: Future<Output = Ending> + Send + 'static>(
    context: &Arc<Context>,
    at: &PoolAt,
    uid: &str,
    run: impl FnOnce(Arc<Job>) -> F,
) {
    write(context, at, Target::Proof(uid.to_owned()), run);
}

fn prove_claim(context: &Arc<Context>, at: &PoolAt, claim: ClaimKey) {
    let uid = claim.uid.to_string();
    proof(context, at, &uid, |job| async move {
        let namespace = &job.at.key.namespace;
        Ending::read(job.context.read_claim(Lane::Adoption, namespace, &claim).await, Ending::Done)
    });
}

fn write_claim(context: &Arc<Context>, at: &PoolAt, claim: Arc<Claim>, report: Report) {
    let target = Target::Claim(claim.key.uid.to_string());
    write(context, at, target, |job| async move {
        let ending = status::write(&job.context, &claim, &report).await;
        job.context.claim_queue.add(ClaimAt::of(&claim));
        ending
    });
}
