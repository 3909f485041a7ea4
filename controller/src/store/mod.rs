//! What is known about one kind.
//!
//! A store takes the events of the one watch of its kind **and** the answers
//! of this process's own writes and live reads; the newer resourceVersion
//! wins, so the next plan sees what the last one wrote, however late the watch
//! is. Every stored version carries the number of its arrival, counted over
//! the whole process, for the still-mine rule of the grant protocol.

mod arrivals;
mod burials;
pub mod kinds;

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use arrivals::{Arrivals, Seq};
use burials::Burials;
use kube::Resource;
use kube::api::ObjectMeta;

/// A kind that a store can hold, and how it is found again.
pub trait Kept: Resource<DynamicType = ()> + Send + Sync + 'static {
    /// Key of a secondary index.
    type Index: Eq + Hash + Clone + Send + Sync;

    /// Every index entry that this object belongs in.
    fn indexes(&self) -> Vec<Self::Index>;
}

/// Namespace (empty for cluster-scoped kinds) and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Namespace, empty when the kind has none.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Key {
    /// Key of `name` in `namespace`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Key of an object.
    pub fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() { f.write_str(&self.name) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}

/// A stored version of an object.
#[derive(Debug)]
pub struct Held<K> {
    /// The object.
    pub object: Arc<K>,
    /// When this version arrived.
    pub seq: Seq,
}

impl<K> Clone for Held<K> {
    fn clone(&self) -> Self {
        Self { object: Arc::clone(&self.object), seq: self.seq }
    }
}

/// Where a version came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The watch, or a list of it.
    Watch,
    /// The answer to a request of ours that was sent at this point.
    Answer {
        /// [`Arrivals::now`] when the request was sent.
        sent: Seq,
    },
    /// The answer to a deletion of ours. Its version is the deletion's own, so
    /// that a removal with that very version has overtaken it.
    Deletion {
        /// [`Arrivals::now`] when the request was sent.
        sent: Seq,
    },
}

/// What became of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is the newest and is stored.
    Stored,
    /// As new as the stored one or older.
    Old,
    /// Its uid was removed after this version.
    Buried,
    /// It has no name, uid or resourceVersion.
    Unidentified,
}

/// A change, told to the listener after store and indexes show it.
pub struct Change<K> {
    /// The version before, if one was stored.
    pub old: Option<Arc<K>>,
    /// The version after, unless the object was removed.
    pub new: Option<Arc<K>>,
    /// The old one's uid left this watch for certain: a DELETED event, a
    /// complete list without it, a live read, or its name under another uid.
    /// With a watch that selects nothing by label, that is proof of its end.
    pub left: bool,
}

type Listener<K> = Box<dyn Fn(&Change<K>) + Send + Sync>;

/// Objects of one kind. All methods are cheap and never wait for I/O.
pub struct Store<K: Kept> {
    inner: RwLock<Inner<K>>,
    arrivals: Arc<Arrivals>,
    listener: Listener<K>,
}

struct Entry<K> {
    held: Held<K>,
    uid: String,
    version: Option<u64>,
}

struct Relist {
    begun: Seq,
    seen: HashSet<String>,
}

struct Inner<K: Kept> {
    by_key: HashMap<Arc<Key>, Entry<K>>,
    by_uid: HashMap<String, Arc<Key>>,
    by_index: HashMap<K::Index, HashSet<Arc<Key>>>,
    burials: Burials,
    relist: Option<Relist>,
    listed: Option<Seq>,
}

impl<K: Kept> Store<K> {
    /// An empty store that tells `listener` of every change.
    pub fn new(arrivals: Arc<Arrivals>, listener: impl Fn(&Change<K>) + Send + Sync + 'static) -> Self {
        let inner = Inner {
            by_key: HashMap::new(),
            by_uid: HashMap::new(),
            by_index: HashMap::new(),
            burials: Burials::default(),
            relist: None,
            listed: None,
        };
        Self { inner: RwLock::new(inner), arrivals, listener: Box::new(listener) }
    }

    /// Takes a version of an object; the newer one stays.
    pub fn take(&self, object: K, source: Source) -> Arrival {
        let (arrival, change) = self.write().take(Arc::new(object), source, &self.arrivals);
        self.tell(change);
        arrival
    }

    /// Takes a DELETED event of the watch. It proves nothing about the
    /// object: an edited label looks the same, so a newer version may return.
    pub fn removed(&self, meta: &ObjectMeta) {
        let Some(uid) = meta.uid.clone() else { return };
        let version = meta.resource_version.as_deref().and_then(|v| v.parse().ok());
        let change = self.write().remove(&uid, version.unwrap_or(0));
        self.tell(change);
    }

    /// Takes the proof (a live read) that this uid is gone for good.
    pub fn proven_gone(&self, uid: &str) {
        let change = self.write().remove(uid, u64::MAX);
        self.tell(change);
    }

    /// A consistent list of the watch begins.
    pub fn list_begins(&self) {
        let begun = self.arrivals.now();
        self.write().relist = Some(Relist { begun, seen: HashSet::new() });
    }

    /// Takes an object of the list that runs.
    pub fn listed(&self, object: K) -> Arrival {
        self.listed_unread(object.meta());
        self.take(object, Source::Watch)
    }

    /// The list that runs has an object that could not be read: it exists, and
    /// what was known of it stays.
    pub fn listed_unread(&self, meta: &ObjectMeta) {
        if let Some(uid) = meta.uid.clone()
            && let Some(relist) = self.write().relist.as_mut()
        {
            relist.seen.insert(uid);
        }
    }

    /// The list is complete: what is not in it is removed. What this process
    /// wrote while the list ran may be newer than the list or gone: it is
    /// removed too, and if it lives the watch that follows the list brings it.
    pub fn list_ends(&self) {
        let changes = self.write().end_relist(self.arrivals.now());
        for change in changes {
            self.tell(Some(change));
        }
    }

    /// Whether a complete list was taken.
    pub fn is_synced(&self) -> bool {
        self.read().listed.is_some()
    }

    /// Object by namespace and name.
    pub fn get(&self, key: &Key) -> Option<Held<K>> {
        self.read().by_key.get(key).map(|entry| entry.held.clone())
    }

    /// Object by uid.
    pub fn by_uid(&self, uid: &str) -> Option<Held<K>> {
        let inner = self.read();
        let key = inner.by_uid.get(uid)?;
        inner.by_key.get(&**key).map(|entry| entry.held.clone())
    }

    /// Objects under an index entry, in no order.
    pub fn indexed(&self, index: &K::Index) -> Vec<Held<K>> {
        let inner = self.read();
        let keys = inner.by_index.get(index);
        keys.into_iter().flatten().filter_map(|key| inner.by_key.get(&**key)).map(|entry| entry.held.clone()).collect()
    }

    /// Number of objects under an index entry.
    pub fn count(&self, index: &K::Index) -> usize {
        self.read().by_index.get(index).map_or(0, HashSet::len)
    }

    /// All objects, in no order.
    pub fn all(&self) -> Vec<Held<K>> {
        self.read().by_key.values().map(|entry| entry.held.clone()).collect()
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.read().by_key.len()
    }

    /// Whether the store holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn tell(&self, change: Option<Change<K>>) {
        if let Some(change) = change {
            (self.listener)(&change);
        }
    }

    // A panic ends the process, so a poisoned lock is never seen half-written.
    fn read(&self) -> RwLockReadGuard<'_, Inner<K>> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner<K>> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Kept> Inner<K> {
    fn take(&mut self, object: Arc<K>, source: Source, arrivals: &Arrivals) -> (Arrival, Option<Change<K>>) {
        let meta = object.meta();
        let (Some(uid), Some(version), Some(_)) = (meta.uid.clone(), &meta.resource_version, &meta.name) else {
            return (Arrival::Unidentified, None);
        };
        let version = version.parse::<u64>().ok();
        let key = Key::of(&*object);
        if self.burials.covers(&uid, version, source) || self.is_overtaken(&uid, source) {
            return (Arrival::Buried, None);
        }
        if let Some(entry) = self.by_key.get(&key)
            && !is_newer(version, entry.version)
        {
            return (Arrival::Old, None);
        }
        let held = Held { object: Arc::clone(&object), seq: arrivals.next() };
        let old = self.unlink(&key);
        let left = old.as_ref().is_some_and(|old| old.uid != uid);
        if let Some(old) = old.as_ref().filter(|_| left) {
            self.burials.bury(&old.uid, u64::MAX);
        }
        self.link(Arc::new(key), Entry { held, uid, version });
        (Arrival::Stored, Some(Change { old: old.map(|entry| entry.held.object), new: Some(object), left }))
    }

    /// An answer to a request sent before the last list ended, about an
    /// object that is not here: the object may be gone with no event left to
    /// say so. If it lives, the watch brings it.
    fn is_overtaken(&self, uid: &str, source: Source) -> bool {
        match source {
            Source::Watch => false,
            Source::Answer { sent } | Source::Deletion { sent } => {
                !self.by_uid.contains_key(uid) && self.listed.is_some_and(|listed| sent < listed)
            }
        }
    }

    fn remove(&mut self, uid: &str, version: u64) -> Option<Change<K>> {
        let key = self.by_uid.get(uid).cloned();
        let newest = key.as_ref().and_then(|key| self.by_key.get(&**key)).and_then(|entry| entry.version);
        if newest.is_some_and(|newest| newest > version && version > 0) {
            return None;
        }
        // A list tells no version: none that was known returns.
        self.burials.bury(uid, version.max(newest.map_or(0, |newest| newest.saturating_add(u64::from(version == 0)))));
        let old = self.unlink(&*key?)?;
        Some(Change { old: Some(old.held.object), new: None, left: true })
    }

    fn end_relist(&mut self, now: Seq) -> Vec<Change<K>> {
        let Some(relist) = self.relist.take() else { return Vec::new() };
        self.listed = Some(now);
        let missing = |entry: &&Entry<K>| !relist.seen.contains(&entry.uid);
        let (before, meanwhile): (Vec<_>, Vec<_>) =
            self.by_key.iter().filter(|(_, entry)| missing(entry)).partition(|(_, e)| e.held.seq <= relist.begun);
        let before: Vec<String> = before.into_iter().map(|(_, entry)| entry.uid.clone()).collect();
        let meanwhile: Vec<Arc<Key>> = meanwhile.into_iter().map(|(key, _)| Arc::clone(key)).collect();
        let mut changes: Vec<_> = before.iter().filter_map(|uid| self.remove(uid, 0)).collect();
        let unconfirmed = meanwhile.iter().filter_map(|key| self.unlink(key));
        changes.extend(unconfirmed.map(|entry| Change { old: Some(entry.held.object), new: None, left: false }));
        changes
    }

    fn link(&mut self, key: Arc<Key>, entry: Entry<K>) {
        for index in entry.held.object.indexes() {
            self.by_index.entry(index).or_default().insert(Arc::clone(&key));
        }
        self.by_uid.insert(entry.uid.clone(), Arc::clone(&key));
        self.by_key.insert(key, entry);
    }

    fn unlink(&mut self, key: &Key) -> Option<Entry<K>> {
        let entry = self.by_key.remove(key)?;
        self.by_uid.remove(&entry.uid);
        for index in entry.held.object.indexes() {
            if let Some(keys) = self.by_index.get_mut(&index) {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_index.remove(&index);
                }
            }
        }
        Some(entry)
    }
}

/// resourceVersions are compared as numbers; where one is none, the later
/// arrival wins.
fn is_newer(version: Option<u64>, than: Option<u64>) -> bool {
    match (version, than) {
        (Some(version), Some(than)) => version > than,
        (None, _) | (_, None) => true,
    }
}

#[cfg(test)]
mod tests;
