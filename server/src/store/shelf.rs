//! The sandboxes of one namespace and their indexes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use crate::view::{Kind, State, View};

/// Which sandboxes a list asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Any of these states; nothing = all. An empty list matches nothing.
    pub states: Option<Vec<State>>,
    /// All of these metadata pairs.
    pub metadata: BTreeMap<String, String>,
}

impl Filter {
    fn admits(&self, view: &View) -> bool {
        let state = self.states.as_ref().is_none_or(|states| states.contains(&view.standing.state));
        state && self.metadata.iter().all(|(key, value)| view.metadata.get(key) == Some(value))
    }
}

/// A page of a list.
#[derive(Debug, Default)]
pub struct Page {
    /// The sandboxes on it.
    pub items: Vec<Arc<View>>,
    /// How many there are on all pages.
    pub total: usize,
}

/// Place in a list: newest first, then by id.
type Place = (Reverse<Timestamp>, String, Kind);
type Ordered = BTreeMap<Place, Arc<View>>;

#[derive(Default)]
pub(super) struct Shelf {
    entries: HashMap<(Kind, String), Arc<View>>,
    order: Ordered,
    by_state: HashMap<State, Ordered>,
    by_metadata: HashMap<(String, String), Ordered>,
}

fn place(view: &View) -> Place {
    (Reverse(view.created), view.id.clone(), view.kind)
}

impl Shelf {
    /// Puts an object in unless a newer one is there; says whether it went in.
    pub(super) fn put(&mut self, view: &Arc<View>) -> bool {
        let slot = (view.kind, view.name.clone());
        if let Some(old) = self.entries.get(&slot).cloned() {
            if old.version >= view.version {
                return false;
            }
            self.unlist(&old);
        }
        self.enlist(view);
        self.entries.insert(slot, Arc::clone(view));
        true
    }

    pub(super) fn remove(&mut self, kind: Kind, name: &str, uid: &str) {
        let slot = (kind, name.to_owned());
        if self.entries.get(&slot).is_some_and(|view| view.uid == uid)
            && let Some(old) = self.entries.remove(&slot)
        {
            self.unlist(&old);
        }
    }

    fn enlist(&mut self, view: &Arc<View>) {
        // Objects that the API did not make have no id and are nobody's business here.
        if view.id.is_empty() {
            return;
        }
        let at = place(view);
        for pair in &view.metadata {
            let pair = (pair.0.clone(), pair.1.clone());
            self.by_metadata.entry(pair).or_default().insert(at.clone(), Arc::clone(view));
        }
        self.by_state.entry(view.standing.state).or_default().insert(at.clone(), Arc::clone(view));
        self.order.insert(at, Arc::clone(view));
    }

    fn unlist(&mut self, view: &View) {
        let at = place(view);
        for pair in &view.metadata {
            let pair = (pair.0.clone(), pair.1.clone());
            if let Some(ordered) = self.by_metadata.get_mut(&pair) {
                ordered.remove(&at);
                if ordered.is_empty() {
                    self.by_metadata.remove(&pair);
                }
            }
        }
        if let Some(ordered) = self.by_state.get_mut(&view.standing.state) {
            ordered.remove(&at);
        }
        self.order.remove(&at);
    }

    pub(super) fn get(&self, kind: Kind, name: &str) -> Option<&Arc<View>> {
        self.entries.get(&(kind, name.to_owned()))
    }

    pub(super) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Arc<View>> {
        self.entries.values().filter(move |view| view.kind == kind)
    }

    /// By id: the object of that name, or of the name that older servers gave it.
    pub(super) fn find(&self, id: &str) -> Option<Arc<View>> {
        let names = View::names(id);
        let mut found = names.iter().filter_map(|(kind, name)| self.get(*kind, name));
        found.find(|view| view.id == id).cloned()
    }

    pub(super) fn list(&self, filter: &Filter, page: usize, size: usize) -> Page {
        let skip = page.saturating_sub(1).saturating_mul(size);
        if filter.states.is_none() && filter.metadata.is_empty() {
            let items = self.order.values().skip(skip).take(size).cloned().collect();
            return Page { items, total: self.order.len() };
        }
        let Some(candidates) = self.narrowest(filter) else { return Page::default() };
        let mut total = 0;
        let mut items = Vec::with_capacity(size.min(candidates.len()));
        for view in candidates.values().filter(|view| filter.admits(view)) {
            if total >= skip && items.len() < size {
                items.push(Arc::clone(view));
            }
            total += 1;
        }
        Page { items, total }
    }

    /// The smallest index that holds every match; nothing when nothing can match.
    fn narrowest(&self, filter: &Filter) -> Option<&Ordered> {
        let mut best = &self.order;
        if let Some(states) = &filter.states {
            match states.as_slice() {
                [] => return None,
                [state] => best = self.by_state.get(state)?,
                _ => {}
            }
        }
        for pair in &filter.metadata {
            let ordered = self.by_metadata.get(&(pair.0.clone(), pair.1.clone()))?;
            if ordered.len() < best.len() {
                best = ordered;
            }
        }
        Some(best)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
