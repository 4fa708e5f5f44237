//! Patches of sessions and logs of turns, which are stored compressed.

use std::io::{Read, Write};

use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};
use uuid::Uuid;

use crate::{
    auth::quota,
    db::{Conn, DbError},
    ids::{CodeSessionId, RunnerId, TaskId, WorkspaceId},
};

/// Maximum size of a patch in bytes.
const PATCH_BYTES_MAX: usize = 20 << 20;
/// Maximum size of the log of a turn in bytes.
const LOG_BYTES_MAX: usize = 12 << 20;

/// Owner of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextOwner {
    /// The patch of a session.
    Patch(CodeSessionId),
    /// The log of a turn.
    Log(TaskId),
}

impl TextOwner {
    fn id(self) -> Uuid {
        match self {
            Self::Patch(session) => session.0,
            Self::Log(task) => task.0,
        }
    }

    /// Maximum size in bytes.
    pub fn bytes_max(self) -> usize {
        match self {
            Self::Patch(_) => PATCH_BYTES_MAX,
            Self::Log(_) => LOG_BYTES_MAX,
        }
    }
}

/// Compresses a text. Takes a while for a large one, so it must not run in a transaction.
///
/// # Errors
/// None in practice: the text is in memory.
pub fn compress(text: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text)?;
    encoder.finish()
}

/// Restores a compressed text.
///
/// # Errors
/// If the stored bytes are damaged, or the text is larger than permitted.
pub fn restore(content: &[u8], owner: TextOwner) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let most = u64::try_from(owner.bytes_max()).unwrap_or(u64::MAX);
    ZlibDecoder::new(content)
        .take(most)
        .read_to_end(&mut text)?;
    Ok(text)
}

/// Adds bytes to the storage use of a session's workspace.
async fn count(c: &mut Conn, session: CodeSessionId, more: i64) -> Result<(), DbError> {
    if more == 0 {
        return Ok(());
    }
    let workspace: Option<(WorkspaceId,)> = c
        .q("select workspace_id from code_sessions where id = $1")
        .bind(session)
        .opt()
        .await?;
    match workspace {
        Some((workspace,)) => quota::count_code_bytes(c, workspace, more).await,
        None => Ok(()),
    }
}

fn sum(sizes: &[(i64,)]) -> i64 {
    sizes.iter().map(|(bytes,)| bytes).sum()
}

/// Stores a compressed text, and replaces the earlier one.
///
/// # Errors
/// Only database errors.
pub(super) async fn put(
    c: &mut Conn,
    session: CodeSessionId,
    owner: TextOwner,
    content: Vec<u8>,
) -> Result<(), DbError> {
    let bytes = i64::try_from(content.len()).unwrap_or(i64::MAX);
    let earlier: Vec<(i64,)> = c
        .q("select cast(octet_length(content) as bigint) from code_texts where owner_id = $1")
        .bind(owner.id())
        .all()
        .await?;
    let stored = c
        .q("insert into code_texts (owner_id, session_id, content) values ($1, $2, $3) \
            on conflict (owner_id) do update set content = excluded.content where code_texts.session_id = excluded.session_id")
        .bind(owner.id())
        .bind(session)
        .bind(content)
        .run()
        .await?;
    if stored == 1 {
        count(c, session, bytes - sum(&earlier)).await?;
    }
    Ok(())
}

/// Keeps the patch of a session as the one that was pushed. Returns false if there is no patch.
pub(super) async fn keep_pushed(
    c: &mut Conn,
    session: CodeSessionId,
    owner: Uuid,
) -> Result<bool, DbError> {
    let kept: Vec<(i64,)> = c
        .q("insert into code_texts (owner_id, session_id, content) select $2, x.session_id, x.content from code_texts x \
            where x.owner_id = $1 on conflict do nothing returning cast(octet_length(content) as bigint)")
        .bind(session)
        .bind(owner)
        .all()
        .await?;
    count(c, session, sum(&kept)).await?;
    Ok(!kept.is_empty())
}

/// Deletes the patch that was pushed last.
pub(super) async fn delete_pushed(c: &mut Conn, session: CodeSessionId) -> Result<(), DbError> {
    let deleted: Vec<(i64,)> = c
        .q("delete from code_texts where session_id = $1 and owner_id = (select pushed_text_id from code_sessions where id = $1) \
            returning cast(octet_length(content) as bigint)")
        .bind(session)
        .all()
        .await?;
    count(c, session, -sum(&deleted)).await
}

/// The compressed patch that was pushed last; `None` if there is none.
///
/// # Errors
/// Only database errors.
pub async fn find_pushed(c: &mut Conn, session: CodeSessionId) -> Result<Option<Vec<u8>>, DbError> {
    let row: Option<(Vec<u8>,)> = c
        .q("select x.content from code_sessions s join code_texts x on x.owner_id = s.pushed_text_id where s.id = $1")
        .bind(session)
        .opt()
        .await?;
    Ok(row.map(|(content,)| content))
}

/// A compressed text; `None` if there is none, or if a message of the turn's prompt was deleted.
///
/// # Errors
/// Only database errors.
pub async fn find(
    c: &mut Conn,
    session: CodeSessionId,
    owner: TextOwner,
) -> Result<Option<Vec<u8>>, DbError> {
    let row: Option<(Vec<u8>,)> = c
        .q("select content from code_texts where owner_id = $1 and session_id = $2 and not exists (select 1 from code_turns t \
            left join context_texts x on x.id = t.text_id where t.task_id = $1 and (x.id is null or x.hash is null))")
        .bind(owner.id())
        .bind(session)
        .opt()
        .await?;
    Ok(row.map(|(content,)| content))
}

/// Deletes a text.
pub(super) async fn delete(
    c: &mut Conn,
    session: CodeSessionId,
    owner: TextOwner,
) -> Result<(), DbError> {
    let deleted: Vec<(i64,)> = c
        .q("delete from code_texts where owner_id = $1 and session_id = $2 returning cast(octet_length(content) as bigint)")
        .bind(owner.id())
        .bind(session)
        .all()
        .await?;
    count(c, session, -sum(&deleted)).await
}

/// Deletes all texts of a session.
pub(super) async fn delete_all(c: &mut Conn, session: CodeSessionId) -> Result<(), DbError> {
    let deleted: Vec<(i64,)> = c
        .q("delete from code_texts where session_id = $1 returning cast(octet_length(content) as bigint)")
        .bind(session)
        .all()
        .await?;
    count(c, session, -sum(&deleted)).await
}

/// Deletes all texts of a runner.
pub(super) async fn delete_of_runner(
    c: &mut Conn,
    workspace: WorkspaceId,
    runner: RunnerId,
) -> Result<(), DbError> {
    let deleted: Vec<(i64,)> = c
        .q("delete from code_texts where session_id in (select s.id from code_sessions s join repositories r on r.id = s.repository_id \
            where r.runner_id = $1) returning cast(octet_length(content) as bigint)")
        .bind(runner)
        .all()
        .await?;
    quota::count_code_bytes(c, workspace, -sum(&deleted)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_restored_as_it_was() {
        let text = "diff --git a/x b/x\n".repeat(10_000);
        let stored = compress(text.as_bytes()).unwrap();
        assert!(stored.len() < text.len() / 10);
        let owner = TextOwner::Patch(CodeSessionId::new());
        assert_eq!(restore(&stored, owner).unwrap(), text.as_bytes());
        assert!(restore(&stored[..10], owner).is_err());
        assert!(restore(b"no zlib", owner).is_err());
    }
}
