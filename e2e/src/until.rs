//! Waiting for the API server to show something, by a watch: no sleeps, no polling.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Result, anyhow};
use futures::StreamExt;
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

/// How many objects a message shows.
const SHOWN: usize = 8;
/// How many characters of each.
const LONGEST: usize = 900;

/// What can be waited for.
pub trait Watched: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug + Send + 'static {}

impl<K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug + Send + 'static> Watched for K {}

/// Waits until the object called `name` exists and is as wanted; returns it as it was then.
///
/// # Errors
/// When `limit` passes first; the message shows the object as it was last seen.
pub async fn until<K: Watched>(
    api: &Api<K>,
    name: &str,
    what: &str,
    limit: Duration,
    mut wanted: impl FnMut(&K) -> bool,
) -> Result<K> {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let what = format!("{name}: {what}");
    let mut found = follow(api, config, &what, limit, |all| all.get(name).is_some_and(&mut wanted)).await?;
    found.remove(name).ok_or_else(|| anyhow!("{name} vanished"))
}

/// Waits until the object that had this name and uid is gone.
///
/// # Errors
/// When `limit` passes first.
pub async fn until_gone<K: Watched>(api: &Api<K>, name: &str, uid: &str, limit: Duration) -> Result<()> {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    follow(api, config, &format!("{name} (uid {uid}): gone"), limit, |all| {
        all.get(name).and_then(ResourceExt::uid).as_deref() != Some(uid)
    })
    .await?;
    Ok(())
}

/// Waits until all objects with these labels (`""`: all) are together as wanted; returns them by name.
///
/// # Errors
/// When `limit` passes first; the message shows the objects as they were last seen.
pub async fn until_all<K: Watched>(
    api: &Api<K>,
    labels: &str,
    what: &str,
    limit: Duration,
    wanted: impl FnMut(&BTreeMap<String, K>) -> bool,
) -> Result<BTreeMap<String, K>> {
    follow(api, watcher::Config::default().labels(labels), what, limit, wanted).await
}

async fn follow<K: Watched>(
    api: &Api<K>,
    config: watcher::Config,
    what: &str,
    limit: Duration,
    mut wanted: impl FnMut(&BTreeMap<String, K>) -> bool,
) -> Result<BTreeMap<String, K>> {
    let mut all = BTreeMap::new();
    let mut trouble = None;
    let seen = async {
        let mut events = pin!(watcher(api.clone(), config).default_backoff());
        let mut listed = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => {
                    all.clear();
                    listed = false;
                }
                Ok(Event::InitApply(object) | Event::Apply(object)) => {
                    all.insert(object.name_any(), object);
                }
                Ok(Event::Delete(object)) => {
                    all.remove(&object.name_any());
                }
                Ok(Event::InitDone) => listed = true,
                Err(error) => trouble = Some(error),
            }
            if listed && wanted(&all) {
                return;
            }
        }
    };
    match tokio::time::timeout(limit, seen).await {
        Ok(()) => Ok(all),
        Err(_) => Err(anyhow!(
            "not within {:.1} s: {what}\nlast seen:{}{}",
            limit.as_secs_f64(),
            shown(&all),
            trouble.map(|error| format!("\nthe watch's last error: {error}")).unwrap_or_default(),
        )),
    }
}

fn shown<K: Watched>(all: &BTreeMap<String, K>) -> String {
    if all.is_empty() {
        return " nothing".into();
    }
    let mut text: String = all.values().take(SHOWN).map(|object| format!("\n  {}", brief(object))).collect();
    if all.len() > SHOWN {
        text.push_str(&format!("\n  and {} more", all.len() - SHOWN));
    }
    text
}

/// Name, marks and status of an object: what a wait is about.
fn brief<K: Watched>(object: &K) -> String {
    let meta = object.meta();
    let whole = serde_json::to_value(object).unwrap_or_default();
    let brief = json!({
        "name": meta.name,
        "uid": meta.uid,
        "labels": meta.labels,
        "ending": meta.deletion_timestamp,
        "status": whole.get("status"),
    });
    let mut text = brief.to_string();
    if let Some((end, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(end);
        text.push('…');
    }
    text
}
