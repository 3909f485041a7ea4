//! One Pool at a time: look, decide, and start what was decided.
//!
//! A worker never waits for a write. Writes run on their own and are entered
//! as being in flight before the worker is done, so the next look knows of
//! them; their answers change the stores, which wakes the worker. A Pool's
//! commits are serial since only one may be in flight.

pub(crate) mod apply;
pub mod memory;
mod observe;

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use sandbox_api::labels;
use sandbox_core::grant::PoolLife;
use sandbox_core::pool::{Action, Plan, Standing, plan};

use crate::context::{ClaimAt, Context, PoolAt};
use crate::lanes::Lane;
use crate::live::Read;
use crate::queue::Outcome;
use crate::store::kinds::ClaimIndex;

/// Longest pause after looking at a Pool.
const PAUSE: Duration = Duration::from_millis(50);

/// Looks at a Pool once. If nobody waits for what it found to do, it then rests
/// for as long as that took: a large Pool whose every Pod changes is looked at
/// for half of the time at most, and what changes meanwhile is seen together.
pub async fn reconcile(context: &Arc<Context>, at: &PoolAt) -> Outcome {
    let start = Instant::now();
    let (outcome, hurry) = look(context, at).await;
    let took = start.elapsed();
    if !hurry && took > Duration::from_millis(1) {
        tokio::time::sleep(took.min(PAUSE)).await;
    }
    outcome
}

/// What somebody waits for, and what leads to it.
fn is_urgent(action: &Action) -> bool {
    match action {
        Action::TakeOver
        | Action::ProvePool
        | Action::Commit { .. }
        | Action::WriteClaim { .. }
        | Action::CreateAnchor { .. } => true,
        Action::PatchPod { .. }
        | Action::Readopt { .. }
        | Action::DeletePod { .. }
        | Action::ProvePod(_)
        | Action::ProveClaim(_)
        | Action::DeleteAnchor(_)
        | Action::CreatePod { .. }
        | Action::ListClaims => false,
    }
}

async fn look(context: &Arc<Context>, at: &PoolAt) -> (Outcome, bool) {
    if context.pools.by_uid(&at.uid).is_none() && !context.proofs.is_gone(&at.uid) {
        // Known from its Pods only: an absent Pool is not a gone one.
        if find(context, at).await == Read::Unknown {
            return (Outcome::Failed, false);
        }
    }
    let Some((observed, seen)) = observe::observe(context, at) else { return (Outcome::Done, false) };
    let now = observed.now;
    let Plan { actions, again, at_rest, standing, finished } = plan(&observed);
    drop(observed);
    context.memories.with(&at.uid, |memory| memory.roster.settle(at_rest, seen));
    tell_claims(context, at, standing);
    let hurry = actions.iter().any(is_urgent);
    for action in actions {
        apply::start(context, at, action);
    }
    if finished {
        context.memories.forget(&at.key, &at.uid);
        return (Outcome::Done, false);
    }
    (again.map_or(Outcome::Done, |at| Outcome::Again(delay(now, at))), hurry)
}

/// Live read of a Pool that only its Pods tell of. The name on a label may be
/// a shortened one, which can only be looked for among all.
async fn find(context: &Context, at: &PoolAt) -> Read {
    if at.key.name.len() < labels::VALUE_MAX {
        return context.read(Lane::Adoption, &context.pools, &at.key, &at.uid).await;
    }
    let sent = context.calls.now();
    if !context.list_into(Lane::Adoption, &at.key.namespace, None, &context.pools).await {
        return Read::Unknown;
    }
    if context.pools.by_uid(&at.uid).is_some() {
        return Read::Alive { sent };
    }
    context.proofs.gone(&at.uid);
    Read::Gone
}

/// From now until then, at least a millisecond: a plan that asks to look
/// again at once has nothing to do now.
pub(crate) fn delay(now: Timestamp, at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default().max(Duration::from_millis(1))
}

/// Wakes the claims to which the Pool now stands otherwise than before.
fn tell_claims(context: &Context, at: &PoolAt, standing: Option<Standing>) {
    let Some(now) = standing else { return };
    let before = context.memories.with(&at.uid, |memory| memory.standing.replace(now.clone())).flatten();
    if now.life == PoolLife::Live && before.as_ref().is_none_or(|before| before.counts != now.counts) {
        context.metrics.pool(&at.key, &now);
    }
    if before.as_ref().is_some_and(|before| !now.is_news(before)) {
        return;
    }
    let index = ClaimIndex::Open(at.key.namespace.clone(), at.key.name.clone());
    for held in context.claims_indexed(&index) {
        context.claim_queue.add(ClaimAt::of(&held.claim));
    }
}
