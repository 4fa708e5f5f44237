//! The ID of a node, kept in its data directory.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::ids::NodeId;

const FILE: &str = "node.json";

#[derive(Serialize, Deserialize)]
struct Identity {
    id: NodeId,
}

#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("cannot read or write {path}: {cause}")]
    Io { path: String, cause: std::io::Error },
    #[error("{path} is damaged: delete it, and this node gets a new ID")]
    Damaged { path: String },
}

/// Reads the ID, or creates one at the first start. The lock on the data directory ensures that no other process uses the ID.
pub(super) fn read_or_create(data_dir: &Path) -> Result<NodeId, IdentityError> {
    let path = data_dir.join(FILE);
    let name = || path.display().to_string();
    let io = |cause| IdentityError::Io {
        path: name(),
        cause,
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let identity: Identity =
                serde_json::from_str(&text).map_err(|_| IdentityError::Damaged { path: name() })?;
            Ok(identity.id)
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let identity = Identity { id: NodeId::new() };
            let text = serde_json::to_string(&identity).unwrap_or_default();
            // After a crash, there is either a complete file or none.
            let unfinished = data_dir.join("node.json.tmp");
            std::fs::write(&unfinished, text).map_err(io)?;
            std::fs::rename(&unfinished, &path).map_err(io)?;
            Ok(identity.id)
        }
        Err(e) => Err(io(e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_keeps_its_id() {
        let dir = std::env::temp_dir().join(format!("openvibe-node-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir_all(&dir).unwrap();
        let first = read_or_create(&dir).unwrap();
        assert_eq!(read_or_create(&dir).unwrap(), first);
        std::fs::write(dir.join(FILE), "{").unwrap();
        let damaged = read_or_create(&dir).unwrap_err().to_string();
        assert!(damaged.contains("delete it"), "{damaged}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
