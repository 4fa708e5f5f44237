//! Bytes of uploads whose rows are not committed yet. They are reserved as an upload grows, so that uploads that are never completed
//! cannot fill the disk, and uploads to a workspace never exceed its remaining storage.

use std::sync::Arc;

use super::FileError;
use crate::{
    auth::quota,
    db::Db,
    ids::{UserId, WorkspaceId},
    share::{Permit, Pool, PoolBounds},
};

/// Amount by which a reservation grows. `STEP_FRACTION` limits it to a fraction of the workspace's remaining storage, so that small
/// uploads do not keep each other from using the rest.
const STEP_BYTES: u64 = 1024 * 1024;
const STEP_FRACTION: u64 = 64;

/// Bytes of all uploads that this process is receiving or storing.
#[derive(Clone)]
pub struct UploadBytes {
    people: Arc<Pool<UserId>>,
    workspaces: Arc<Pool<WorkspaceId>>,
}

impl UploadBytes {
    /// Creates the pools; `bounds` apply to people. A person can always send one upload of `upload_bytes_max`.
    pub fn new(bounds: PoolBounds, upload_bytes_max: u64) -> Self {
        let share = bounds.share.max(upload_bytes_max);
        let total = bounds.total.max(share);
        Self {
            people: Pool::new(PoolBounds { total, share }),
            // The share of a workspace is limited by its remaining storage instead.
            workspaces: Pool::new(PoolBounds {
                total: u64::MAX,
                share: u64::MAX,
            }),
        }
    }

    /// A permit for an upload that has no bytes yet.
    pub fn permit(&self, db: &Db, user: UserId, workspace: WorkspaceId) -> UploadPermit {
        UploadPermit {
            db: db.clone(),
            workspace_id: workspace,
            of_person: self.people.force(user, 0),
            of_workspace: self.workspaces.force(workspace, 0),
        }
    }
}

/// Bytes reserved for one upload, until its row is committed or its data is removed.
pub struct UploadPermit {
    db: Db,
    workspace_id: WorkspaceId,
    of_person: Permit<UserId>,
    of_workspace: Permit<WorkspaceId>,
}

impl UploadPermit {
    /// Reserves enough for an upload of this size.
    ///
    /// # Errors
    /// `WorkspaceFull`; `InProgress` if other uploads have reserved the share of the person or the total for all people; `Db`.
    pub(super) async fn cover(&mut self, size_bytes: u64) -> Result<(), FileError> {
        let reserved = self.of_person.amount();
        if size_bytes <= reserved {
            return Ok(());
        }
        let mut c = self.db.read().await?;
        let left = quota::file_bytes_left(&mut c, self.workspace_id).await?;
        drop(c);
        if size_bytes > left {
            return Err(FileError::WorkspaceFull);
        }
        let step = STEP_BYTES.min(left / STEP_FRACTION);
        let mut more = size_bytes.max(left.min(reserved + step)) - reserved;
        if self.of_person.grow(more).is_err() {
            more = size_bytes - reserved;
            let of_person = self.of_person.grow(more);
            of_person.map_err(|_| FileError::InProgress)?;
        }
        let of_workspace = self.of_workspace.grow_within(more, left);
        of_workspace.map_err(|_| FileError::WorkspaceFull)
    }
}
