//! One claim at a time, BatchSandbox or Sandbox: look, decide, start what was
//! decided. Finding it Pods of a Pool is the Pool's business.

pub(crate) mod apply;
mod observe;
pub mod own_pods;
pub mod tasks;
pub mod waits;

use std::sync::Arc;

use sandbox_core::claim::{Plan, plan};

use crate::context::{ClaimAt, Context};
use crate::pool::delay;
use crate::queue::Outcome;

/// Looks at a claim once.
#[allow(clippy::unused_async)] // The same shape as a Pool's.
pub async fn reconcile(context: &Arc<Context>, at: &ClaimAt) -> Outcome {
    let Some(observed) = observe::observe(context, at) else { return Outcome::Done };
    let Plan { actions, again } = plan(&observed);
    let now = observed.now;
    let claim = observed.claim;
    for action in actions {
        apply::start(context, &claim, action);
    }
    again.map_or(Outcome::Done, |at| Outcome::Again(delay(now, at)))
}
