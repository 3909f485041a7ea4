//! `poolRef: "*"`: which Pool of its namespace serves a claim.
//!
//! Predicates and scores have the names and the meaning of the reference (`pool-assign-profiles`), with three repairs: a
//! claim's template only chooses and never stands in the way of the Pods of the Pool, an empty node selector term matches
//! nothing (as Kubernetes has it), and a Pool that can never be large enough is no candidate.

mod node;
mod profile;
mod quantity;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sandbox_api::{Pool, Reason};
use serde_json::Value;

use super::{Action, Observed, Plan, Source};
use crate::failure::Failure;
pub use profile::{Predicate, Profile, ProfileError, Score, Strategy};

/// What a claim on any Pool wishes for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wish {
    /// A template to be like; the Pods are made from the Pool's own.
    pub template: Option<Arc<Value>>,
    /// The claim's own labels.
    pub labels: BTreeMap<String, String>,
}

/// Assigns a Pool to a claim on any: true if it does.
pub(super) fn assign(seen: &Observed, plan: &mut Plan) -> bool {
    let Source::AnyPool(wish) = &seen.claim.source else { return false };
    let Ok(pool) = choose(seen, wish) else { return false };
    plan.actions.push(Action::Assign { pool });
    true
}

/// Why no Pool serves it.
pub(super) fn obstacle(seen: &Observed, wish: &Wish) -> Option<Failure> {
    choose(seen, wish).err()
}

fn choose(seen: &Observed, wish: &Wish) -> Result<String, Failure> {
    if let Some(pool) = already(seen) {
        return Ok(pool);
    }
    let mut unfit = Vec::new();
    let mut best: Option<(f64, &str)> = None;
    for pool in &seen.pools {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        match fits(seen, wish, pool) {
            Err(why) => unfit.push(format!("pool {name}: {why}")),
            Ok(()) => {
                let score = seen.profile.score(pool);
                let better = best.is_none_or(|(most, first)| score > most || score >= most && name < first);
                best = if better { Some((score, name)) } else { best };
            }
        }
    }
    best.map(|(_, name)| name.to_owned()).ok_or_else(|| none_fits(&seen.claim.namespace, &unfit))
}

/// The Pool whose Pods it has already: somebody wrote `*` back over the name.
fn already(seen: &Observed) -> Option<String> {
    let named: BTreeSet<&str> = seen.claim.status.slots.iter().filter_map(|slot| slot.named_uid()).collect();
    let mine = seen.pods.iter().filter(|(key, _)| named.contains(&*key.uid));
    let uid = mine.map(|(_, seen)| seen.pod.label(sandbox_api::labels::POOL_UID)).next().flatten()?;
    let pool = seen.pools.iter().find(|pool| pool.metadata.uid.as_deref() == Some(uid))?;
    pool.metadata.name.clone()
}

fn fits(seen: &Observed, wish: &Wish, pool: &Pool) -> Result<(), String> {
    if pool.metadata.deletion_timestamp.is_some() {
        return Err("it is being deleted".to_owned());
    }
    let max = pool.spec.capacity_spec.pool_max;
    if i64::from(seen.claim.replicas) > i64::from(max) {
        return Err(format!("it never has more than {max} pods"));
    }
    seen.profile.predicates.iter().try_for_each(|predicate| predicate.holds(wish, pool))
}

/// At most so many Pools are told of in a message.
const TOLD: usize = 4;

fn none_fits(namespace: &str, unfit: &[String]) -> Failure {
    let message = match unfit {
        [] => format!("namespace {namespace} has no pool: create one, and this claim is served"),
        some => {
            let more = some.len().saturating_sub(TOLD);
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            let told = some.iter().take(TOLD).map(String::as_str).collect::<Vec<_>>().join("; ");
            format!("no pool of namespace {namespace} fits: {told}{more}")
        }
    };
    Failure::new(Reason::PoolNotFound, message)
}

/// The containers of a template, as JSON.
fn containers(template: &Value) -> impl Iterator<Item = &Value> {
    template.get("spec").and_then(|spec| spec.get("containers")).and_then(Value::as_array).into_iter().flatten()
}
