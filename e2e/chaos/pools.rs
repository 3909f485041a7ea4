//! The Pools of a run.

use anyhow::Result;
use kube::api::{Api, PostParams};
use sandbox_api::Pool;
use sandbox_e2e::faults::Dice;
use sandbox_e2e::objects::{capacity, pool};
use serde_json::json;

/// Never edited: its `poolMax` is one number.
pub const STEADY: &str = "steady";
/// Resized and given new templates all the time.
pub const EDITED: &str = "edited";
/// Its Pods start and end slowly, and there is little room: ending ones count.
pub const SLOW: &str = "slow";

/// Deleted under its sandboxes and made again.
pub const PASSING: &str = "passing";

/// How many there are.
pub const COUNT: usize = 4;

/// The Pool that comes and goes.
pub fn passing() -> Pool {
    pool(PASSING, capacity(2, 4, 16))
}

/// Makes all of them.
pub async fn make(api: &Api<Pool>) -> Result<()> {
    let steady = pool(STEADY, capacity(4, 7, 26));
    let edited = pool(EDITED, capacity(3, 6, 20));
    let mut slow = pool(SLOW, capacity(2, 3, 7));
    if let Some(template) = &mut slow.spec.template {
        template["metadata"]["annotations"] = json!({
            "stand-in.opensandbox.io/ready-after": "400",
            "stand-in.opensandbox.io/ends-after": "800",
        });
        template["spec"]["terminationGracePeriodSeconds"] = json!(5);
    }
    for pool in [steady, edited, slow, passing()] {
        api.create(&PostParams::default(), &pool).await?;
    }
    Ok(())
}

/// One of them, the big ones more often.
pub fn pick(dice: &mut Dice) -> &'static str {
    [STEADY, STEADY, EDITED, EDITED, PASSING, SLOW][dice.below(6)]
}
