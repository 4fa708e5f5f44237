//! Workspaces of objects, so that the next write to an object needs no read to find its turn. Objects stay in their workspace.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use uuid::Uuid;

/// Maximum number of objects of a generation; there are two, of about 1 MiB each.
const GENERATION_MAX: usize = 16 * 1024;

/// The most recently used objects, in bounded memory.
#[derive(Default)]
pub struct WorkspaceCache {
    generations: Mutex<Generations>,
}

/// Objects that were used since the last turn, and those before. When there are enough newer ones, they become the older ones, which
/// are dropped.
#[derive(Default)]
struct Generations {
    newer: HashMap<Uuid, Uuid>,
    older: HashMap<Uuid, Uuid>,
}

impl WorkspaceCache {
    pub fn get(&self, object: Uuid) -> Option<Uuid> {
        let mut generations = self.lock();
        if let Some(workspace) = generations.newer.get(&object) {
            return Some(*workspace);
        }
        let workspace = generations.older.remove(&object)?;
        generations.insert(object, workspace);
        Some(workspace)
    }

    pub fn insert(&self, object: Uuid, workspace: Uuid) {
        self.lock().insert(object, workspace);
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        // Maps are valid after every statement.
        self.generations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn insert(&mut self, object: Uuid, workspace: Uuid) {
        if self.newer.len() == GENERATION_MAX {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(object, workspace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_the_objects_in_use_stay() {
        let cache = WorkspaceCache::default();
        let (used, unused, workspace) = (Uuid::from_u128(1), Uuid::from_u128(2), Uuid::now_v7());
        cache.insert(used, workspace);
        cache.insert(unused, workspace);
        for n in 0..3 * GENERATION_MAX {
            cache.insert(Uuid::now_v7(), workspace);
            if n % 1000 == 0 {
                assert_eq!(cache.get(used), Some(workspace));
            }
        }
        assert_eq!(cache.get(unused), None);
        let generations = cache.lock();
        assert!(generations.newer.len() <= GENERATION_MAX);
        assert!(generations.older.len() <= GENERATION_MAX);
    }
}
