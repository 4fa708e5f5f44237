//! Cache of the newest pages of threads, stored as response bodies.
//!
//! Everyone who can read a thread gets the same page. The statement that checks a reader's rights also compares the page with the
//! database (`access::thread_with_page`), so cached pages do not have to be invalidated, regardless of which node wrote last.

use super::cache::Cache;
use crate::{chat::access::PageVersion, http::encoding::EncodedJson, ids::ThreadId};

/// Maximum size of a cache generation in bytes; there are two generations.
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
pub type PageCache = Cache<PageKey, CachedPage>;

pub fn page_cache() -> PageCache {
    Cache::new(GENERATION_BYTES_MAX, size_of)
}

fn size_of(page: &CachedPage) -> usize {
    page.body.bytes.len() + ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::encoding::BuiltBytes;

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
                built: BuiltBytes(bytes as u64),
            },
        }
    }

    #[test]
    fn memory_is_bounded_and_the_pages_in_use_stay() {
        let (cache, used, unused) = (page_cache(), key(), key());
        cache.insert(unused, page(1));
        cache.insert(used, page(2));
        for _ in 0..200 {
            cache.insert(key(), page(GENERATION_BYTES_MAX / 20));
            assert!(cache.get(used).is_some());
            assert!(cache.size() <= 2 * GENERATION_BYTES_MAX);
        }
        assert!(cache.get(unused).is_none());
    }

    #[test]
    fn a_page_replaces_the_previous_one_of_its_thread() {
        let (cache, key) = (page_cache(), key());
        for bytes in 1..=100 {
            cache.insert(key, page(bytes * 1000));
        }
        assert_eq!(
            cache.get(key).map(|page| page.body.bytes.len()),
            Some(100_000)
        );
        assert_eq!(cache.size(), 100_000 + ENTRY_BYTES);
        cache.insert(key, page(GENERATION_BYTES_MAX));
        assert!(cache.size() <= 100_000 + ENTRY_BYTES);
    }
}
