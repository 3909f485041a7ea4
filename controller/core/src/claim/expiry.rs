//! When a claim ends by itself.

use k8s_openapi::jiff::Timestamp;

use super::{Action, Claim, Plan};

/// A deadline is due at its very moment, not after it.
#[must_use]
pub fn is_due(now: Timestamp, deadline: Timestamp) -> bool {
    now >= deadline
}

/// Ends a claim whose deadline is due; wakes up for one that is not. True if it ends.
pub(super) fn expire(now: Timestamp, claim: &Claim, plan: &mut Plan) -> bool {
    let Some(deadline) = claim.expires.filter(|_| claim.deletes_on_expiry) else { return false };
    if is_due(now, deadline) {
        plan.actions.push(Action::Expire { deadline });
        return true;
    }
    plan.look_again(deadline);
    false
}
