//! One list-and-watch per kind, into the store.
//!
//! Our own loop instead of kube-runtime's: that one hides whether its watch is up, and this server
//! must know, since a cache whose watch is down may not answer.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::DeserializeGuard;
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::{Freshness, Key, Store};
use crate::view::{Kind, View, version};

/// kube-apiserver sends a bookmark about every minute; a silence of this length is a dead connection.
const SILENCE: Duration = Duration::from_secs(150);
/// How long the API server keeps a watch open.
const WATCH_SECONDS: u32 = 290;
const CONNECT: Duration = Duration::from_secs(15);
const LIST_PAGE: u32 = 500;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often to look whether an absent kind has come.
const ABSENT_PAUSE: Duration = Duration::from_secs(30);

/// A kind that can be watched into the store.
pub trait Watched: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static {
    /// Which kind.
    const KIND: Kind;

    /// What the API needs to know of the object.
    fn view(&self) -> View;
}

enum Ended {
    /// Normally; go on from this version.
    At(String),
    /// The version is too old: list again.
    Expired,
    /// By an error: pause, then go on from this version.
    Broken(String, String),
}

/// Feeds the store for ever. `optional`: the cluster may lack the kind.
pub async fn run<K: Watched>(store: Arc<Store>, api: Api<DeserializeGuard<K>>, namespace: String, optional: bool) {
    let feed = store.feed(K::KIND);
    let mut pause = FIRST_PAUSE;
    let mut from: Option<String> = None;
    loop {
        // A watch that resumes tells what it missed only after it is up. After a long gap a list
        // comes first, so that the cache is never believed before it has caught up.
        let listed = match from.take().filter(|_| feed.freshness() == Freshness::Fresh) {
            Some(version) => Ok(version),
            None => list(&store, &api, &namespace).await,
        };
        let version = match listed {
            Ok(version) => version,
            Err(kube::Error::Api(status)) if optional && status.code == 404 => {
                feed.absent();
                tokio::time::sleep(ABSENT_PAUSE).await;
                continue;
            }
            Err(error) => {
                let hint = hint(&error);
                tracing::warn!(kind = K::KIND.as_str(), namespace, %error, "list for the watch cache{hint}");
                feed.down();
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
        };
        match watch(&store, &api, version).await {
            Ended::At(version) => {
                pause = FIRST_PAUSE;
                from = Some(version);
            }
            Ended::Expired => tokio::time::sleep(FIRST_PAUSE).await,
            Ended::Broken(version, error) => {
                tracing::warn!(kind = K::KIND.as_str(), namespace, error, "watch");
                feed.down();
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                from = Some(version);
            }
        }
    }
}

fn hint(error: &kube::Error) -> &'static str {
    if let kube::Error::Api(status) = error {
        return match status.code {
            404 => ": the cluster does not have the kind; install the OpenSandbox CRDs",
            403 => ": this server's account may not list it; give it the rights of config/rbac/server.yaml",
            _ => "",
        };
    }
    ""
}

async fn list<K: Watched>(
    store: &Store,
    api: &Api<DeserializeGuard<K>>,
    namespace: &str,
) -> Result<String, kube::Error> {
    let mut uids = HashSet::new();
    let mut params = ListParams::default().limit(LIST_PAGE);
    loop {
        let page = api.list(&params).await?;
        for object in &page.items {
            uids.insert(object.uid().unwrap_or_default());
            take(store, object);
        }
        let at = page.metadata.resource_version.unwrap_or_default();
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => {
                store.keep_only(K::KIND, namespace, &uids, version(&at));
                return Ok(at);
            }
        }
    }
}

async fn watch<K: Watched>(store: &Store, api: &Api<DeserializeGuard<K>>, mut at: String) -> Ended {
    let params = WatchParams::default().timeout(WATCH_SECONDS);
    let stream = match timeout(CONNECT, api.watch(&params, &at)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(kube::Error::Api(status))) if status.code == 410 => return Ended::Expired,
        Ok(Err(error)) => return Ended::Broken(at, error.to_string()),
        Err(_) => return Ended::Broken(at, format!("no answer within {CONNECT:?}")),
    };
    store.feed(K::KIND).up();
    pin_mut!(stream);
    loop {
        let event = match timeout(SILENCE, stream.next()).await {
            Ok(Some(Ok(event))) => event,
            Ok(Some(Err(error))) => return Ended::Broken(at, error.to_string()),
            Ok(None) => {
                store.feed(K::KIND).down();
                return Ended::At(at);
            }
            Err(_) => return Ended::Broken(at, format!("nothing heard for {SILENCE:?}")),
        };
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                at = object.resource_version().unwrap_or(at);
                take(store, &object);
            }
            WatchEvent::Deleted(object) => {
                at = object.resource_version().unwrap_or(at);
                bury(store, &object);
            }
            WatchEvent::Bookmark(mark) => at = mark.metadata.resource_version,
            WatchEvent::Error(status) if status.code == 410 => return Ended::Expired,
            WatchEvent::Error(status) => return Ended::Broken(at, status.to_string()),
        }
    }
}

fn take<K: Watched>(store: &Store, object: &DeserializeGuard<K>) {
    match &object.0 {
        Ok(object) => store.take(object.view()),
        Err(invalid) => {
            tracing::warn!(
                kind = K::KIND.as_str(),
                name = object.name_any(),
                error = invalid.error,
                "object cannot be read and is not served"
            );
        }
    }
}

fn bury<K: Watched>(store: &Store, object: &DeserializeGuard<K>) {
    let key = Key { kind: K::KIND, namespace: object.namespace().unwrap_or_default(), name: object.name_any() };
    store.bury(&key, &object.uid().unwrap_or_default());
}
