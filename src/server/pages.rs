//! Cache of the newest pages of threads, stored as response bodies.
//!
//! Everyone who can read a thread gets the same page. The statement that checks a reader's rights also compares the page with the
//! database (`access::thread_with_page`), so cached pages do not have to be invalidated, regardless of the node that wrote last.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{chat::access::PageVersion, http::encoding::EncodedJson, ids::ThreadId};

/// Maximum size of a generation of pages in bytes; there are two.
const GENERATION_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Approximate memory of a page in bytes, without its body.
const ENTRY_BYTES: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageKey {
    pub thread: ThreadId,
    /// True if the client accepts gzip.
    pub accepts_gzip: bool,
}

#[derive(Debug, Clone)]
pub struct CachedPage {
    pub version: PageVersion,
    pub body: EncodedJson,
}

/// The most recently used pages, in bounded memory.
#[derive(Default)]
pub struct PageCache {
    generations: Mutex<Generations>,
}

/// Two generations of pages: recently used ones, and older ones. When the recent generation has reached its limit, it becomes the
/// older one, and the previous older one is dropped.
#[derive(Default)]
struct Generations {
    newer: HashMap<PageKey, CachedPage>,
    newer_bytes: usize,
    older: HashMap<PageKey, CachedPage>,
}

impl PageCache {
    pub fn get(&self, key: PageKey) -> Option<CachedPage> {
        let mut generations = self.lock();
        if let Some(page) = generations.newer.get(&key) {
            return Some(page.clone());
        }
        let page = generations.older.remove(&key)?;
        generations.insert(key, page.clone());
        Some(page)
    }

    /// Adds or replaces a page. A page larger than a generation is not stored.
    pub fn insert(&self, key: PageKey, page: CachedPage) {
        self.lock().insert(key, page);
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        // A poisoned lock is harmless: the maps are valid after every statement.
        self.generations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn insert(&mut self, key: PageKey, page: CachedPage) {
        self.older.remove(&key);
        let size = size_of(&page);
        if size > GENERATION_BYTES_MAX {
            return;
        }
        if let Some(replaced) = self.newer.remove(&key) {
            self.newer_bytes -= size_of(&replaced);
        }
        if self.newer_bytes + size > GENERATION_BYTES_MAX {
            self.older = std::mem::take(&mut self.newer);
            self.newer_bytes = 0;
        }
        self.newer_bytes += size;
        self.newer.insert(key, page);
    }
}

fn size_of(page: &CachedPage) -> usize {
    page.body.bytes.len() + ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> PageKey {
        PageKey {
            thread: ThreadId::new(),
            accepts_gzip: false,
        }
    }

    fn page(bytes: usize) -> CachedPage {
        CachedPage {
            version: PageVersion {
                seq: 1,
                epoch: String::new(),
                names: String::new(),
            },
            body: EncodedJson {
                bytes: vec![b' '; bytes].into(),
                is_gzip: false,
            },
        }
    }

    fn bytes_of(cache: &PageCache) -> usize {
        let generations = cache.lock();
        let pages = generations.newer.values().chain(generations.older.values());
        pages.map(size_of).sum()
    }

    #[test]
    fn memory_is_bounded_and_the_pages_in_use_stay() {
        let (cache, used, unused) = (PageCache::default(), key(), key());
        cache.insert(unused, page(1));
        cache.insert(used, page(2));
        for _ in 0..200 {
            cache.insert(key(), page(GENERATION_BYTES_MAX / 20));
            assert!(cache.get(used).is_some());
            assert!(bytes_of(&cache) <= 2 * GENERATION_BYTES_MAX);
        }
        assert!(cache.get(unused).is_none());
    }

    #[test]
    fn a_page_replaces_the_previous_one_of_its_thread() {
        let (cache, key) = (PageCache::default(), key());
        for bytes in 1..=100 {
            cache.insert(key, page(bytes * 1000));
        }
        assert_eq!(
            cache.get(key).map(|page| page.body.bytes.len()),
            Some(100_000)
        );
        assert_eq!(bytes_of(&cache), 100_000 + ENTRY_BYTES);
        cache.insert(key, page(GENERATION_BYTES_MAX));
        assert!(bytes_of(&cache) <= 100_000 + ENTRY_BYTES);
    }
}
