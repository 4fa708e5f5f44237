//! Cache of the most recently used entries, in bounded memory.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
};

pub struct Cache<K, V> {
    generations: Mutex<Generations<K, V>>,
    generation_max: usize,
    size_of: fn(&V) -> usize,
}

/// Two generations of entries: recently used ones, and older ones. When the recent generation has reached its limit, it becomes
/// the older one, and the previous older one is dropped.
struct Generations<K, V> {
    newer: HashMap<K, V>,
    newer_size: usize,
    older: HashMap<K, V>,
}

impl<K: Copy + Eq + Hash, V: Clone> Cache<K, V> {
    /// `generation_max` is the maximum total size of the entries in each of the two generations.
    pub fn new(generation_max: usize, size_of: fn(&V) -> usize) -> Self {
        Self {
            generations: Mutex::new(Generations {
                newer: HashMap::new(),
                newer_size: 0,
                older: HashMap::new(),
            }),
            generation_max,
            size_of,
        }
    }

    pub fn get(&self, key: K) -> Option<V> {
        let mut generations = self.lock();
        if let Some(value) = generations.newer.get(&key) {
            return Some(value.clone());
        }
        let value = generations.older.remove(&key)?;
        self.add(&mut generations, key, value.clone());
        Some(value)
    }

    /// Adds or replaces an entry. An entry larger than a generation is not stored.
    pub fn insert(&self, key: K, value: V) {
        self.add(&mut self.lock(), key, value);
    }

    fn add(&self, generations: &mut Generations<K, V>, key: K, value: V) {
        generations.older.remove(&key);
        let size = (self.size_of)(&value);
        if size > self.generation_max {
            return;
        }
        if let Some(replaced) = generations.newer.remove(&key) {
            generations.newer_size -= (self.size_of)(&replaced);
        }
        if generations.newer_size + size > self.generation_max {
            generations.older = std::mem::take(&mut generations.newer);
            generations.newer_size = 0;
        }
        generations.newer_size += size;
        generations.newer.insert(key, value);
    }

    fn lock(&self) -> MutexGuard<'_, Generations<K, V>> {
        // A poisoned lock is harmless: the maps are valid after every statement.
        self.generations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Total size of all entries.
    #[cfg(test)]
    pub fn size(&self) -> usize {
        let generations = self.lock();
        let values = generations.newer.values().chain(generations.older.values());
        values.map(self.size_of).sum()
    }
}
