//! Deletes unreferenced files.

use std::time::Duration;

use uuid::Uuid;

use super::{Blobs, FileError, rows};
use crate::{
    db::{Conn, Db, DbError, now},
    ids::{FileId, WorkspaceId},
    time::Timestamp,
};

/// Maximum number of rows and blobs removed per round, so that every round ends.
const AT_ONCE: i64 = 1000;

/// Scope of a cleanup round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CleanupScope {
    /// Only files whose rows show that they are unreferenced.
    Rows,
    /// Also deletes data that was stored without a row, which requires a scan of all stored data.
    Everything,
}

/// Removes uploads older than `orphan_after` that are neither attached to a message, nor in a vector store, nor an agent's picture, and then unreferenced
/// bytes.
///
/// # Errors
/// `Io`, `Bucket`, `Db`.
pub async fn cleanup(
    db: &Db,
    blobs: &Blobs,
    orphan_after: Duration,
    how: CleanupScope,
) -> Result<(), FileError> {
    let before = now() - orphan_after;
    release_pictures(db, before).await?;
    let orphans: Vec<(FileId, WorkspaceId)> = db
        .read()
        .await?
        .q("select id, workspace_id from files where message_id is null and is_avatar = FALSE and purpose is null and created_at < $1 \
            and not exists (select 1 from vector_store_files vf where vf.file_id = files.id) \
            and not exists (select 1 from vector_store_versions vv where vv.file_id = files.id) order by created_at limit $2")
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
    if how == CleanupScope::Everything {
        blobs.measure(db).await?;
        let swept = blobs.sweep(db, before).await?;
        if swept > 0 {
            tracing::info!(swept, "removed leftovers of incomplete uploads");
        }
    }
    Ok(())
}

/// Turns pictures that no emoji, person, bot, or agent version uses any longer into ordinary uploads. As long as a version refers to
/// a picture, an agent can be rolled back to it.
async fn release_pictures(db: &Db, before: Timestamp) -> Result<(), DbError> {
    let mut after = FileId(Uuid::nil());
    loop {
        let pictures: Vec<(FileId, WorkspaceId)> = db
            .read()
            .await?
            .q("select id, workspace_id from files where is_avatar = TRUE and created_at < $1 and id > $2 order by id limit $3")
            .bind(before)
            .bind(after)
            .bind(AT_ONCE)
            .all()
            .await?;
        let Some((last, _)) = pictures.last() else {
            return Ok(());
        };
        after = *last;
        for (id, workspace) in pictures {
            if !is_named(&mut db.read().await?, id, workspace).await? {
                db.write(workspace.0, async move |c: &mut Conn| {
                    // The picture may have been assigned in the meantime.
                    if is_named(c, id, workspace).await? {
                        return Ok(());
                    }
                    rows::release_avatar(c, id).await
                })
                .await?;
            }
        }
    }
}

/// Deletes a picture, unless something uses it.
///
/// # Errors
/// `Db`.
pub async fn remove_picture(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: FileId,
) -> Result<(), DbError> {
    if !is_named(c, id, workspace).await? {
        rows::release_avatar(c, id).await?;
        rows::delete_loose(c, id).await?;
    }
    Ok(())
}

/// Returns true if an emoji, a person, a bot, or any version of an agent or a persona, uses this picture. Agents that inherit the picture from a base count as well.
async fn is_named(c: &mut Conn, id: FileId, workspace: WorkspaceId) -> Result<bool, DbError> {
    let found: Option<(i64,)> = c
        .q("select v.version from agents a join agent_versions v on v.agent_id = a.id where a.workspace_id = $1 \
            and (v.profile -> 'avatar' ->> 'file_id' = $2 or v.resolved -> 'avatar' ->> 'file_id' = $2) \
            union all select v.version from personas p join persona_versions v on v.persona_id = p.id where p.workspace_id = $1 \
            and v.content -> 'avatar' ->> 'file_id' = $2 \
            union all select cast(1 as bigint) from emoji e where e.workspace_id = $1 and e.file_id = $3 \
            union all select cast(1 as bigint) from bots b join users u on u.id = b.id \
            where b.workspace_id = $1 and u.avatar_url = '/v1/files/' || $2 \
            union all select cast(1 as bigint) from files f join users u on u.id = f.created_by \
            where f.id = $3 and u.avatar_url = '/v1/files/' || $2 limit 1")
        .bind(workspace)
        .bind(id.to_string())
        .bind(id)
        .opt()
        .await?;
    Ok(found.is_some())
}
