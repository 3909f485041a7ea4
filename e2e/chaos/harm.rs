//! What people and tools do to objects that are not theirs: Pods end, lose their labels, Pools go and come back.

use std::time::Duration;

use anyhow::Result;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use sandbox_api::labels;
use sandbox_cluster::stand_in::behaviour::FAIL;
use sandbox_e2e::faults::Dice;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::load::{Users, tolerated};
use crate::pools;

impl Users {
    /// Ends a Pod by hand.
    pub(crate) async fn kill_pod(&self, dice: &mut Dice, held: bool) -> Result<()> {
        let Some((uid, name)) = self.pod(dice, held) else { return Ok(()) };
        self.tally.add(if held { "Pod of a sandbox deleted by hand" } else { "idle Pod deleted by hand" });
        self.record.ends(&uid, format!("delete Pod {name}"));
        tolerated(self.pods.delete(&name, &exactly(&uid)).await).map(drop)
    }

    /// A Pod ends by itself.
    pub(crate) async fn fail_pod(&self, dice: &mut Dice) -> Result<()> {
        let held = dice.chance(60);
        let Some((uid, name)) = self.pod(dice, held) else { return Ok(()) };
        let reason = if dice.chance(50) { "OOMKilled" } else { "Evicted" };
        self.tally.add(format!("Pod {reason}"));
        self.record.tells(format!("Pod {name} ends: {reason}"));
        self.mark(&uid, &name, json!({ "annotations": { FAIL: reason } })).await
    }

    /// Takes marks of ours from a Pod. The clean mark is only ever taken, never given: that would be forgery.
    pub(crate) async fn strip_pod(&self, dice: &mut Dice) -> Result<()> {
        let held = dice.chance(70);
        let Some((uid, name)) = self.pod(dice, held) else { return Ok(()) };
        let (what, marks) = match dice.below(4) {
            0 => ("label managed-by", json!({ "labels": { labels::MANAGED_BY: null } })),
            1 => ("labels of its claim", json!({ "labels": { labels::CLAIM_UID: null, labels::CLAIM_INDEX: null } })),
            2 if held && self.strips_owners => ("owner", json!({ "ownerReferences": null })),
            2 | 3 if !held => ("clean mark", json!({ "labels": { labels::WARM: null } })),
            _ => (
                "labels, all but its Pool's",
                json!({ "labels": { labels::MANAGED_BY: null, labels::CLAIM_UID: null, labels::WARM: null } }),
            ),
        };
        self.tally.add(format!("Pod stripped of {what}"));
        self.record.tells(format!("strip Pod {name} ({uid}) of {what}"));
        self.mark(&uid, &name, marks).await
    }

    async fn mark(&self, uid: &str, name: &str, marks: Value) -> Result<()> {
        let mut patch = json!({ "metadata": marks });
        patch["metadata"]["uid"] = json!(uid);
        let patched = self.pods.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        tolerated(patched).map(drop)
    }

    /// Deletes a Pool under its sandboxes, and makes it again a little later.
    pub(crate) async fn pass_pool(&self, dice: &mut Dice, later: &mut JoinSet<Result<()>>) -> Result<()> {
        let found = self.record.look(|world| world.pool_named(pools::PASSING).map(|(uid, _)| uid.clone()));
        let Some(uid) = found else { return Ok(()) };
        let policies = [PropagationPolicy::Background, PropagationPolicy::Foreground, PropagationPolicy::Orphan];
        let policy = dice.pick(&policies).cloned();
        self.tally.add("Pool deleted and made again");
        self.record.ends(&uid, format!("delete the Pool {} ({policy:?})", pools::PASSING));
        let params = DeleteParams { propagation_policy: policy, ..exactly(&uid) };
        tolerated(self.pools.delete(pools::PASSING, &params).await)?;
        let (users, pause) = (self.clone(), dice.between(Duration::ZERO, Duration::from_secs(4)));
        later.spawn(async move {
            sleep(pause).await;
            users.pool_again().await
        });
        Ok(())
    }

    /// Makes the Pool that comes and goes, unless it is there.
    pub(crate) async fn pool_again(&self) -> Result<()> {
        tolerated(self.pools.create(&PostParams::default(), &pools::passing()).await).map(drop)
    }

    fn pod(&self, dice: &mut Dice, held: bool) -> Option<(String, String)> {
        let pods: Vec<(String, String)> = self.record.look(|world| {
            let named = world.named();
            let wanted = world.pods.iter().filter(|(uid, pod)| !pod.ending && named.contains(uid.as_str()) == held);
            wanted.map(|(uid, pod)| (uid.clone(), pod.name.clone())).collect()
        });
        dice.pick(&pods).cloned()
    }
}

/// A deletion of exactly this object.
pub(crate) fn exactly(uid: &str) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions { uid: Some(uid.to_owned()), resource_version: None })
}
