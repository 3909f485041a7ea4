//! One watch for each kind, feeding one store.
//!
//! Lists that decide who holds what are quorum lists (`ListWatch` with
//! `MostRecent`). A watch has its own back-off and never waits for anybody
//! else: kube-apiserver closes slow readers. Errors are counted and logged; a
//! watch that ends is fatal for the process, which is for the caller to see.

use std::fmt::Debug;

use futures::StreamExt;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::{self, Config, Event, InitialListStrategy, ListSemantic};
use kube::runtime::{WatchStreamExt, watcher as watch_stream};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use crate::metrics::Metrics;
use crate::store::{Kept, Key, Source, Store};

/// Follows `api` into `store` for ever; returns only if the stream ends. Tells
/// `synced` of every complete list.
pub async fn follow<K>(
    api: Api<DeserializeGuard<K>>,
    labels: Option<&str>,
    store: &Store<K>,
    metrics: &Metrics,
    synced: &Notify,
) where
    K: Kept + Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
{
    let kind = K::plural(&()).into_owned();
    let mut events = std::pin::pin!(watch_stream(api, config(labels)).default_backoff());
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                let complete = matches!(event, Event::InitDone);
                take(event, store, metrics, &kind);
                if complete {
                    synced.notify_one();
                }
            }
            Err(error) => {
                metrics.watch_errors.with_label_values(&[&kind]).inc();
                report(&kind, &error);
            }
        }
    }
}

fn config(labels: Option<&str>) -> Config {
    let config = Config {
        list_semantic: ListSemantic::MostRecent,
        initial_list_strategy: InitialListStrategy::ListWatch,
        ..Config::default()
    };
    labels.map_or(config.clone(), |labels| config.labels(labels))
}

fn take<K: Kept>(event: Event<DeserializeGuard<K>>, store: &Store<K>, metrics: &Metrics, kind: &str) {
    match event {
        Event::Init => {
            store.list_begins();
            metrics.watch_restarts.with_label_values(&[kind]).inc();
        }
        Event::InitApply(object) => {
            // One that cannot be read is no proof of its end.
            store.listed_unread(object.meta());
            if let Some(object) = readable(object, metrics, kind) {
                store.listed(object);
            }
        }
        Event::InitDone => {
            store.list_ends();
            metrics.watch_lists.with_label_values(&[kind]).inc();
        }
        Event::Apply(object) => {
            if let Some(object) = readable(object, metrics, kind) {
                store.take(object, Source::Watch);
            }
        }
        Event::Delete(object) => {
            let meta = object.meta().clone();
            if let Some(object) = readable(object, metrics, kind) {
                // Its last state tells an end from an edited label.
                store.take(object, Source::Watch);
            }
            store.removed(&meta);
        }
    }
    metrics.stored.with_label_values(&[kind]).set(i64::try_from(store.len()).unwrap_or(i64::MAX));
}

/// An object that cannot be read is left out, and named: it must not stop the
/// others.
fn readable<K: Kept>(object: DeserializeGuard<K>, metrics: &Metrics, kind: &str) -> Option<K> {
    let key = Key::of(&object);
    match object.0 {
        Ok(object) => Some(object),
        Err(error) => {
            metrics.malformed.with_label_values(&[kind]).inc();
            tracing::error!(%kind, object = %key, %error, "this object cannot be read and is left alone: correct it");
            None
        }
    }
}

fn report(kind: &str, error: &watcher::Error) {
    match error {
        // The API server ends watches now and then; the list that follows is
        // the whole consequence.
        watcher::Error::WatchError(status) if status.code == 410 => tracing::debug!(%kind, "watch expired: listing"),
        watcher::Error::WatchFailed(error) => tracing::debug!(%kind, %error, "watch interrupted"),
        watcher::Error::InitialListFailed(_)
        | watcher::Error::WatchStartFailed(_)
        | watcher::Error::WatchError(_)
        | watcher::Error::NoResourceVersion => tracing::warn!(%kind, %error, "watch failed: trying again"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::sync::Arc;

    use sandbox_api::{Pool, PoolSpec};

    use super::*;
    use crate::store::Arrivals;

    fn seen(name: &str, version: &str, odd: bool) -> DeserializeGuard<Pool> {
        let mut pool = serde_json::to_value(Pool::new(name, PoolSpec::default())).unwrap();
        pool["metadata"] =
            serde_json::json!({ "namespace": "ns", "name": name, "uid": name, "resourceVersion": version });
        if odd {
            pool["spec"] = serde_json::json!("no object");
        }
        let seen: DeserializeGuard<Pool> = serde_json::from_value(pool).unwrap();
        assert_eq!(seen.0.is_err(), odd);
        seen
    }

    #[test]
    fn an_object_that_cannot_be_read_is_kept_as_it_was_until_it_is_deleted() {
        let metrics = Metrics::new().unwrap();
        let store: Store<Pool> = Store::new(Arc::new(Arrivals::default()), |_| {});
        let take = |event| super::take(event, &store, &metrics, "pools");
        let version = |name| store.by_uid(name).and_then(|held| held.object.metadata.resource_version.clone());
        for name in ["odd", "gone"] {
            take(Event::Apply(seen(name, "1", false)));
        }
        take(Event::Apply(seen("odd", "2", true)));
        take(Event::Init);
        take(Event::InitApply(seen("odd", "2", true)));
        take(Event::InitDone);
        assert_eq!((version("odd").as_deref(), version("gone")), (Some("1"), None));
        take(Event::Delete(seen("odd", "3", true)));
        assert_eq!(version("odd"), None);
    }
}
