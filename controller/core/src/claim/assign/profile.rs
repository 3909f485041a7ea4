//! How a Pool is chosen, as the ConfigMap `pool-assign-profiles` says it.

use std::collections::{BTreeMap, BTreeSet};

use sandbox_api::Pool;
use serde::Deserialize;
use serde_json::Value;

use super::{Wish, containers, node, quantity};

/// Predicates that must hold, and scores of which the weighted sum decides.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// All must hold.
    pub predicates: Vec<Predicate>,
    /// Each with its weight.
    pub scores: Vec<(Score, f64)>,
}

/// Whether a Pool can serve a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Predicate {
    /// One of the claim's images is one of the Pool's.
    Image,
    /// The Pool's containers request at least what the claim's do, of every resource.
    Resource,
    /// The Pool's labels and node selector satisfy the claim's node selector and required node affinity.
    NodeSelector,
    /// These labels are on both, with the same value.
    LabelSelector(Vec<String>),
}

/// Which of several Pools serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// By the share of the Pool's Pods that are in use.
    ResourceBalance(Strategy),
}

/// Which share is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Strategy {
    /// The emptier Pool. One without any Pod comes last.
    #[default]
    LeastAllocated,
    /// The fuller one.
    MostAllocated,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            predicates: vec![Predicate::Image, Predicate::Resource, Predicate::NodeSelector],
            scores: vec![(Score::ResourceBalance(Strategy::LeastAllocated), 100.0)],
        }
    }
}

/// What is wrong with a ConfigMap of profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileError(String);

impl std::fmt::Display for ProfileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ProfileError {}

#[derive(Deserialize)]
struct Written {
    name: String,
    #[serde(default)]
    plugins: Plugins,
    #[serde(default, rename = "pluginConf")]
    conf: Vec<Conf>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Plugins {
    predicate: Vec<String>,
    score: Vec<Weighted>,
}

#[derive(Deserialize)]
struct Weighted {
    name: String,
    weight: f64,
}

#[derive(Deserialize)]
struct Conf {
    name: String,
    #[serde(default)]
    args: Value,
}

impl Profile {
    /// Reads `data.profiles` of the ConfigMap: a JSON array of profiles, of which the one named `default` is used.
    ///
    /// # Errors
    /// When it is no such array, has no `default`, or names a plugin that there is not: what to change, in words.
    pub fn read(text: &str) -> Result<Self, ProfileError> {
        let all: Vec<Written> = serde_json::from_str(text)
            .map_err(|error| ProfileError(format!("profiles is no list of profiles: {error}")))?;
        let named_default = |profile: &Written| profile.name == "default";
        let missing = || ProfileError("profiles has none named \"default\"".to_owned());
        let written = all.into_iter().find(named_default).ok_or_else(missing)?;
        let args: BTreeMap<&str, &Value> = written.conf.iter().map(|conf| (&*conf.name, &conf.args)).collect();
        let predicates = written.plugins.predicate.iter().map(|name| predicate(name, args.get(&**name).copied()));
        let scores = written
            .plugins
            .score
            .iter()
            .map(|score| Ok((self::score(&score.name, args.get(&*score.name).copied())?, score.weight)));
        Ok(Self { predicates: predicates.collect::<Result<_, _>>()?, scores: scores.collect::<Result<_, _>>()? })
    }

    /// The larger, the better.
    #[must_use]
    pub fn score(&self, pool: &Pool) -> f64 {
        self.scores.iter().map(|(score, weight)| score.of(pool) * weight).sum()
    }
}

fn predicate(name: &str, args: Option<&Value>) -> Result<Predicate, ProfileError> {
    Ok(match name {
        "image" => Predicate::Image,
        "resource" => Predicate::Resource,
        "nodeselector" => Predicate::NodeSelector,
        "labelselector" => {
            let keys = args.and_then(|args| args.get("keys")).and_then(Value::as_array).into_iter().flatten();
            Predicate::LabelSelector(keys.filter_map(|key| key.as_str().map(str::to_owned)).collect())
        }
        other => {
            return Err(ProfileError(format!(
                "there is no predicate {other}: image, resource, nodeselector, labelselector"
            )));
        }
    })
}

fn score(name: &str, args: Option<&Value>) -> Result<Score, ProfileError> {
    if name != "resbalance" {
        return Err(ProfileError(format!("there is no score {name}: resbalance")));
    }
    let strategy = args.and_then(|args| args.get("strategy")).cloned();
    let strategy = strategy.map_or(Ok(Strategy::default()), serde_json::from_value);
    strategy.map(Score::ResourceBalance).map_err(|error| ProfileError(format!("resbalance, strategy: {error}")))
}

impl Score {
    fn of(self, pool: &Pool) -> f64 {
        let (total, allocated) = pool.status.as_ref().map_or((0, 0), |status| (status.total, status.allocated));
        if total <= 0 {
            return 0.0;
        }
        let share = f64::from(allocated) / f64::from(total);
        match self {
            Self::ResourceBalance(Strategy::LeastAllocated) => 1.0 - share,
            Self::ResourceBalance(Strategy::MostAllocated) => share,
        }
    }
}

impl Predicate {
    /// Whether it holds; else why not, to follow the Pool's name.
    pub(super) fn holds(&self, wish: &Wish, pool: &Pool) -> Result<(), String> {
        let empty = Value::Null;
        let of_pool = pool.spec.template.as_ref().unwrap_or(&empty);
        match (self, wish.template.as_deref()) {
            (Self::Image, Some(template)) => image(template, of_pool),
            (Self::Resource, Some(template)) => resources(template, of_pool),
            (Self::NodeSelector, Some(template)) => node::selects(template, of_pool, pool.metadata.labels.as_ref()),
            (Self::Image | Self::Resource | Self::NodeSelector, None) => Ok(()),
            (Self::LabelSelector(keys), _) => labels(keys, wish, pool),
        }
    }
}

fn image(template: &Value, of_pool: &Value) -> Result<(), String> {
    fn images(template: &Value) -> BTreeSet<&str> {
        containers(template).filter_map(|container| container.get("image")?.as_str()).collect()
    }
    let wanted = images(template);
    if wanted.is_empty() || !wanted.is_disjoint(&images(of_pool)) {
        return Ok(());
    }
    Err(format!("none of its containers has image {}", wanted.into_iter().collect::<Vec<_>>().join(" or ")))
}

fn resources(template: &Value, of_pool: &Value) -> Result<(), String> {
    let has = quantity::requests(of_pool)?;
    for (name, wanted) in quantity::requests(template)? {
        if has.get(&name).is_none_or(|has| *has < wanted) {
            return Err(format!("its containers request less {name} than is asked for"));
        }
    }
    Ok(())
}

fn labels(keys: &[String], wish: &Wish, pool: &Pool) -> Result<(), String> {
    let of_pool = pool.metadata.labels.as_ref();
    let differs = |key: &&String| {
        let (ours, theirs) = (wish.labels.get(*key), of_pool.and_then(|labels| labels.get(*key)));
        ours.is_none() || ours != theirs
    };
    match keys.iter().find(differs) {
        None => Ok(()),
        Some(key) => Err(format!("label {key} is not the same on both")),
    }
}
