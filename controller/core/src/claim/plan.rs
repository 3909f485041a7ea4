//! What to do about one claim, other than finding it a Pod of a Pool (that is decided where all claims of the Pool are seen).

use super::report::{quiet_until, report};
use super::{Action, Observed, Plan};

/// Ends it when its deadline is due; follows its Pods; makes those of its own template; drives its tasks; reports.
#[must_use]
pub fn plan(seen: &Observed) -> Plan {
    let mut plan = Plan::default();
    let claim = &*seen.claim;
    if claim.ending {
        return plan;
    }
    // The deadline waits for no write: one that hangs or is refused for ever would keep the claim alive.
    if super::expiry::expire(seen.now, claim, &mut plan) || seen.busy {
        return plan;
    }
    if super::assign::assign(seen, &mut plan) {
        return plan;
    }
    let followed = super::lost::follow(seen, &mut plan);
    let slots = super::template::own_pods(seen, followed.slots, &mut plan);
    super::task::drive(seen, &mut plan);
    let report = report(seen, slots, followed.loss);
    if report == claim.status && !claim.unwritten {
        return plan;
    }
    let quiet_until = quiet_until(claim);
    if report.is_news(&claim.status) || seen.now >= quiet_until {
        plan.actions.push(Action::WriteStatus { report: Box::new(report) });
    } else {
        plan.look_again(quiet_until);
    }
    plan
}
