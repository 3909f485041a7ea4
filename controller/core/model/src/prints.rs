//! Fingerprints of states, and the sets of them.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, PoisonError};

use crate::label::Label;
use crate::state::State;

/// A quick hash of 64 bits: each word is folded into a product.
#[derive(Clone, Debug, Default)]
pub struct Mix(u64);

/// Builds [`Mix`].
pub type Fast = BuildHasherDefault<Mix>;

impl Mix {
    fn word(&mut self, word: u64) {
        let product =
            u128::from(self.0 ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_a5a5_a5a5_a5a5_a5a5_u128;
        self.0 = (product >> 64) as u64 ^ (product as u64).rotate_left(23);
    }
}

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.word(word);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The fingerprint of a state. With 10^8 states two of them share one with a probability of 3 in 10^4.
#[must_use]
pub fn fingerprint(state: &State) -> u64 {
    let mut mix = Mix::default();
    for word in state.words() {
        mix.word(word);
    }
    mix.finish()
}

/// Fingerprints are hashes already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Shard = HashSet<u64, BuildHasherDefault<AsIs>>;
type Parents = HashMap<u64, (u64, Option<Label>), BuildHasherDefault<AsIs>>;

const SHARDS: usize = 256;

/// A set of fingerprints that threads share.
pub struct Prints(Vec<Mutex<Shard>>);

impl Default for Prints {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| Mutex::default()).collect())
    }
}

impl Prints {
    /// True if it is new.
    pub fn insert(&self, print: u64) -> bool {
        lock(&self.0[shard(print)]).insert(print)
    }

    /// Whether it is there.
    #[must_use]
    pub fn contains(&self, print: u64) -> bool {
        lock(&self.0[shard(print)]).contains(&print)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.iter().map(|shard| lock(shard).len() as u64).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

const fn shard(print: u64) -> usize {
    (print >> 56) as usize
}

/// Which states were reached, and, if asked for, how.
pub struct Reached {
    prints: Prints,
    parents: Option<Vec<Mutex<Parents>>>,
}

impl Reached {
    /// None yet.
    #[must_use]
    pub fn new(traced: bool) -> Self {
        let parents = traced.then(|| (0..SHARDS).map(|_| Mutex::default()).collect());
        Self { prints: Prints::default(), parents }
    }

    /// True if it is new.
    pub fn insert(&self, print: u64, parent: u64, label: Option<Label>) -> bool {
        let new = self.prints.insert(print);
        if let Some(parents) = self.parents.as_ref().filter(|_| new) {
            lock(&parents[shard(print)]).insert(print, (parent, label));
        }
        new
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.prints.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The labels that lead to a state.
    #[must_use]
    pub fn way(&self, mut print: u64) -> Vec<Label> {
        let mut way = Vec::new();
        while let Some((parent, Some(label))) =
            self.parents.as_ref().and_then(|parents| lock(&parents[shard(print)]).get(&print).copied())
        {
            way.push(label);
            print = parent;
        }
        way.reverse();
        way
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
