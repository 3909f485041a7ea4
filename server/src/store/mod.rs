//! The watch cache: what the API knows of every sandbox, indexed for the questions that are asked.
//!
//! It takes watch events *and* the answers of our own writes; the newer resourceVersion wins, and a
//! tombstone keeps a deleted uid from coming back, so a read always sees the caller's last write.

mod feed;
mod shelf;
mod watch;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::watch as channel;

pub use feed::{Feed, Freshness};
pub use shelf::{Filter, Page};
pub use watch::{Watched, run as run_watch};

use crate::scope::Scope;
#[cfg(test)]
use crate::view::State;
use crate::view::{Kind, View};
use shelf::Shelf;

/// How many deleted uids are remembered. A watch event older than this many deletions is not late,
/// it is from another life.
const GRAVES: usize = 65_536;

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What a follower of one object sees.
#[derive(Clone, Debug)]
pub enum Sighting {
    /// Nothing yet.
    Nothing,
    /// The object as it is now.
    Live(Arc<View>),
    /// The object is gone.
    Gone,
}

#[derive(Default)]
struct Inner {
    shelves: HashMap<String, Shelf>,
    graves: HashSet<String>,
    burials: VecDeque<String>,
}

/// The cache.
#[derive(Default)]
pub struct Store {
    inner: RwLock<Inner>,
    followers: Mutex<HashMap<Key, channel::Sender<Sighting>>>,
    batch_sandboxes: Feed,
    sandboxes: Feed,
}

impl Store {
    /// An empty cache whose feeds have not spoken yet.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// The feed of a kind.
    #[must_use]
    pub fn feed(&self, kind: Kind) -> &Feed {
        match kind {
            Kind::BatchSandbox => &self.batch_sandboxes,
            Kind::Sandbox => &self.sandboxes,
        }
    }

    /// Takes an object from a watch or from the answer of an own write; the newer one stays.
    pub fn take(&self, view: View) {
        let view = Arc::new(view);
        let fresh = {
            let mut inner = self.write();
            if inner.graves.contains(&view.uid) {
                return;
            }
            inner.shelves.entry(view.namespace.clone()).or_default().put(&view)
        };
        if fresh {
            self.tell(&view.key());
        }
    }

    /// Takes the news that an object of this uid is gone for good.
    pub fn bury(&self, key: &Key, uid: &str) {
        {
            let mut inner = self.write();
            if inner.graves.insert(uid.to_owned()) {
                inner.burials.push_back(uid.to_owned());
            }
            while inner.burials.len() > GRAVES {
                if let Some(old) = inner.burials.pop_front() {
                    inner.graves.remove(&old);
                }
            }
            if let Some(shelf) = inner.shelves.get_mut(&key.namespace) {
                shelf.remove(key.kind, &key.name, uid);
            }
        }
        self.tell(key);
    }

    /// After a complete list at `list_version`: whatever is older and was not in it is gone.
    pub fn keep_only(&self, kind: Kind, namespace: &str, uids: &HashSet<String>, list_version: u64) {
        let gone: Vec<Arc<View>> = {
            let inner = self.read();
            let Some(shelf) = inner.shelves.get(namespace) else { return };
            let gone = shelf.of_kind(kind).filter(|v| !uids.contains(&v.uid) && v.version <= list_version);
            gone.cloned().collect()
        };
        for view in gone {
            self.bury(&view.key(), &view.uid);
        }
    }

    /// A sandbox by its id, within what the caller may see.
    #[must_use]
    pub fn find(&self, scope: &Scope, id: &str) -> Option<Arc<View>> {
        let inner = self.read();
        let shelf = inner.shelves.get(scope.namespace())?;
        shelf.find(id).filter(|view| scope.sees(view))
    }

    /// A page of sandboxes, newest first.
    #[must_use]
    pub fn list(&self, scope: &Scope, filter: &Filter, page: usize, size: usize) -> Page {
        let inner = self.read();
        let shelf = inner.shelves.get(scope.namespace());
        shelf.map(|s| s.list(filter, page, size)).unwrap_or_default()
    }

    /// How many sandboxes are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().shelves.values().map(Shelf::len).sum()
    }

    /// Whether none is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Follows one object from now on; its current state, if any, is seen first.
    #[must_use]
    pub fn follow(self: &Arc<Self>, key: Key) -> Follower {
        let receiver = {
            let mut followers = self.followers();
            let now = self.sighting(&key);
            let sender = followers.entry(key.clone()).or_insert_with(|| channel::Sender::new(Sighting::Nothing));
            let receiver = sender.subscribe();
            sender.send_replace(now);
            receiver
        };
        Follower { store: Arc::clone(self), key, receiver }
    }

    fn sighting(&self, key: &Key) -> Sighting {
        let inner = self.read();
        let view = inner.shelves.get(&key.namespace).and_then(|s| s.get(key.kind, &key.name));
        view.map_or(Sighting::Nothing, |view| Sighting::Live(Arc::clone(view)))
    }

    /// Tells followers what is so now, not what the caller has seen: two callers may get here in
    /// the other order than they changed the shelf.
    fn tell(&self, key: &Key) {
        if let Some(sender) = self.followers().get(key) {
            sender.send_replace(match self.sighting(key) {
                Sighting::Nothing => Sighting::Gone,
                seen @ (Sighting::Live(_) | Sighting::Gone) => seen,
            });
        }
    }

    fn followers(&self) -> MutexGuard<'_, HashMap<Key, channel::Sender<Sighting>>> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sees every change of one object until it is dropped.
pub struct Follower {
    store: Arc<Store>,
    key: Key,
    receiver: channel::Receiver<Sighting>,
}

impl Follower {
    /// The latest sighting; it counts as seen.
    pub fn latest(&mut self) -> Sighting {
        self.receiver.borrow_and_update().clone()
    }

    /// Waits for a sighting that was not seen yet.
    pub async fn changed(&mut self) {
        if self.receiver.changed().await.is_err() {
            // The sender lives as long as this follower; were it not so, waiting for ever is
            // right: the caller's own deadline ends it.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut followers = self.store.followers();
        if followers.get(&self.key).is_some_and(|sender| sender.receiver_count() <= 1) {
            followers.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests;
