//! What nobody refers to goes.

use std::time::Duration;

use super::{Blobs, FileError, rows};
use crate::{
    db::{Conn, Db, now},
    ids::{FileId, WorkspaceId},
};

/// Rows and blobs removed in one round, so that a round ends.
const AT_ONCE: i64 = 1000;

/// How thorough a round is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tidying {
    /// What rows say.
    Rows,
    /// Also what is stored without a row: looks at everything there is.
    Whole,
}

/// Removes uploads that are in no message since `orphan_after`, then the bytes that nothing refers to.
///
/// # Errors
/// `Io`, `Db`.
pub async fn tidy(
    db: &Db,
    blobs: &Blobs,
    orphan_after: Duration,
    how: Tidying,
) -> Result<(), FileError> {
    let before = now() - orphan_after;
    let orphans: Vec<(FileId, WorkspaceId)> = db
        .read()
        .await?
        .q("select id, workspace_id from files where message_id is null and is_avatar = FALSE and created_at < $1 \
            order by created_at limit $2")
        .bind(before)
        .bind(AT_ONCE)
        .all()
        .await?;
    for (id, workspace) in orphans {
        db.write(workspace.0, async move |c: &mut Conn| {
            rows::delete_loose(c, id).await
        })
        .await?;
    }
    blobs.remove_unused(db, AT_ONCE).await?;
    if how == Tidying::Whole {
        let swept = blobs.sweep(db, before).await?;
        if swept > 0 {
            tracing::info!(swept, "removed what broken uploads had left");
        }
        blobs.measure(db).await?;
    }
    Ok(())
}
