//! Cache of the workspaces that objects belong to, so that the next write to an object can wait for its workspace's turn without
//! looking up the workspace first. Objects never move to another workspace, so entries never become invalid.

use uuid::Uuid;

use super::cache::Cache;

/// Maximum number of objects in a generation; there are two generations of about 1 MiB each.
const GENERATION_MAX: usize = 16 * 1024;

/// Workspaces of the most recently used objects, in bounded memory.
pub type WorkspaceCache = Cache<Uuid, Uuid>;

pub fn workspace_cache() -> WorkspaceCache {
    Cache::new(GENERATION_MAX, |_| 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_the_objects_in_use_stay() {
        let cache = workspace_cache();
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
        assert!(cache.size() <= 2 * GENERATION_MAX);
    }
}
