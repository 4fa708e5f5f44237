//! Folders of repositories that people import. A row is a request, which the repository's runner answers; the person waits for the answer.

use std::time::Duration;

use uuid::Uuid;

use super::{
    CodeError,
    runner::{RunnerIdentity, is_online},
};
use crate::{
    auth::{Actor, Scope},
    db::{
        Conn, Db, DbError, dialect::lock_workspace, is_in_visible_channel, is_visible_channel, now,
    },
    ids::{ChannelId, RepositoryId, RunnerId},
    tasks::queue::Commanded,
    time::Timestamp,
};

/// Maximum size of a zip file with a folder.
pub const ARCHIVE_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Time that a person waits for a folder: the runner fetches the repository first.
pub const FOLDER_WITHIN: Duration = Duration::from_mins(1);
/// Maximum number of folders of a repository for which people wait at the same time.
const WAITING_MAX: i64 = 4;
const PROBLEM_CHARS_MAX: usize = 300;

#[derive(sqlx::FromRow)]
struct ReadableRepository {
    name: String,
    is_allowed: bool,
    is_connected: bool,
    seen_at: Option<Timestamp>,
}

/// Channels for a text from a repository. `None` if the repository is allowed in a public channel, so that all members can see it; otherwise
/// the channels in which it is allowed and that the person can read.
///
/// # Errors
/// `Invalid` if there is no such channel, or if the repository is not allowed at all.
pub async fn channels_of_readers(
    c: &mut Conn,
    actor: &Actor<'_>,
    repository: RepositoryId,
) -> Result<Option<Vec<ChannelId>>, CodeError> {
    // An admin does not withdraw the repository meanwhile.
    lock_workspace(c, actor.workspace.0).await?;
    let is_public: bool = c
        .q("select exists (select 1 from repositories r join repository_channels k on k.repository_id = r.id \
            join channels h on h.id = k.channel_id where r.id = $1 and r.is_allowed and h.kind = 'public')")
        .bind(repository)
        .value()
        .await?;
    if is_public {
        return Ok(None);
    }
    let channels: Vec<(ChannelId,)> = c
        .q(concat!(
            "select h.id from repositories r join repository_channels k on k.repository_id = r.id join channels h on h.id = k.channel_id \
             where r.id = $1 and r.is_allowed and ",
            is_visible_channel!("h", "$2"),
            " order by h.id limit 50"
        ))
        .bind(repository)
        .bind(actor.user)
        .all()
        .await?;
    if channels.is_empty() {
        let text = "the repository is not allowed in a channel that you can read";
        return Err(CodeError::Invalid(text.to_owned(), "repository_id"));
    }
    Ok(Some(channels.into_iter().map(|(id,)| id).collect()))
}

/// Asks the runner of a repository that the person can see for a folder of its base commit; `path` is relative to its root.
///
/// # Errors
/// `RepositoryNotFound`, `Invalid` if no admin has allowed the repository, or none in a channel that the person can read, `RunnerAway`,
/// `TooManyReads`, or an error from `Actor::require`.
pub async fn request_folder(
    c: &mut Conn,
    actor: &Actor<'_>,
    repository: RepositoryId,
    path: &str,
) -> Result<Uuid, CodeError> {
    actor.require(Scope::AgentsWrite)?;
    lock_workspace(c, actor.workspace.0).await?;
    let found: Option<ReadableRepository> = c
        .q(concat!(
            "select r.name, r.is_allowed and r.is_offered as is_allowed, u.connection_id is not null as is_connected, u.seen_at \
             from repositories r join runners u on u.id = r.runner_id where r.workspace_id = $1 and r.id = $4 and ($3 or (r.is_allowed and \
             exists (select 1 from repository_channels k where k.repository_id = r.id and ",
            is_in_visible_channel!("k.channel_id", "$2"),
            ")))"
        ))
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(actor.scopes.has(Scope::AgentsAdmin))
        .bind(repository)
        .opt()
        .await?;
    let found = found.ok_or(CodeError::RepositoryNotFound)?;
    if !found.is_allowed {
        let text = "the repository is not allowed: an admin must allow it first";
        return Err(CodeError::Invalid(text.to_owned(), "repository_id"));
    }
    channels_of_readers(c, actor, repository).await?;
    if !is_online(found.is_connected, found.seen_at) {
        return Err(CodeError::RunnerAway(found.name));
    }
    c.q("delete from repository_reads where repository_id = $1 and created_at < $2")
        .bind(repository)
        .bind(now() - FOLDER_WITHIN)
        .run()
        .await?;
    let waiting: i64 = c
        .q("select count(*) from repository_reads where repository_id = $1")
        .bind(repository)
        .value()
        .await?;
    if waiting >= WAITING_MAX {
        return Err(CodeError::TooManyReads(found.name));
    }
    let id = Uuid::now_v7();
    c.q("insert into repository_reads (id, repository_id, path, created_at) values ($1, $2, $3, $4)")
        .bind(id)
        .bind(repository)
        .bind(path.to_owned())
        .bind(now())
        .run()
        .await?;
    c.notify(Box::new(Commanded));
    Ok(id)
}

/// A folder that a runner has to send.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct FolderRequest {
    pub id: Uuid,
    /// Name of the repository.
    pub repository: String,
    pub path: String,
}

/// Lists the folders that a runner has to send, oldest first.
///
/// # Errors
/// Only database errors.
pub async fn list_folder_requests(
    c: &mut Conn,
    runner: RunnerId,
) -> Result<Vec<FolderRequest>, DbError> {
    c.q("select x.id, r.name as repository, x.path from repository_reads x join repositories r on r.id = x.repository_id \
         where r.runner_id = $1 and x.archive is null and x.problem is null and x.created_at > $2 order by x.id limit 20")
        .bind(runner)
        .bind(now() - FOLDER_WITHIN)
        .all()
        .await
}

/// What a runner sends for a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FolderAnswer {
    /// A zip file.
    Archive(Vec<u8>),
    /// The reason why there is none.
    Problem(String),
}

/// Stores the answer of a runner to a request that is still open.
///
/// # Errors
/// `RepositoryNotFound`.
pub async fn answer_folder(
    c: &mut Conn,
    runner: RunnerIdentity,
    id: Uuid,
    answer: FolderAnswer,
) -> Result<(), CodeError> {
    let (archive, problem) = match answer {
        FolderAnswer::Archive(archive) => (Some(archive), None),
        FolderAnswer::Problem(text) => {
            let plain = text.chars().filter(|c| !c.is_control());
            (
                None,
                Some(plain.take(PROBLEM_CHARS_MAX).collect::<String>()),
            )
        }
    };
    let answered = c
        .q("update repository_reads set archive = $3, problem = $4 where id = $1 and archive is null and problem is null \
            and repository_id in (select id from repositories where runner_id = $2)")
        .bind(id)
        .bind(runner.id)
        .bind(archive)
        .bind(problem)
        .run()
        .await?;
    if answered == 0 {
        return Err(CodeError::RepositoryNotFound);
    }
    Ok(())
}

/// Returns the answer to a request; `None` if the runner has not answered.
///
/// # Errors
/// `RepositoryNotFound` if the repository was deleted with its runner.
pub async fn find_folder(c: &mut Conn, id: Uuid) -> Result<Option<FolderAnswer>, CodeError> {
    let row: Option<(Option<Vec<u8>>, Option<String>)> = c
        .q("select archive, problem from repository_reads where id = $1")
        .bind(id)
        .opt()
        .await?;
    let (archive, problem) = row.ok_or(CodeError::RepositoryNotFound)?;
    let archive = archive.map(FolderAnswer::Archive);
    Ok(archive.or(problem.map(FolderAnswer::Problem)))
}

/// Deletes requests that were left, with their answers.
///
/// # Errors
/// Only database errors.
pub async fn delete_expired_folders(db: &Db) -> Result<(), DbError> {
    db.delete_expired(
        now() - FOLDER_WITHIN,
        "select exists (select 1 from repository_reads where created_at < $1)",
        "delete from repository_reads where id in \
         (select id from repository_reads where created_at < $1 order by id limit $2)",
    )
    .await?;
    Ok(())
}

/// Deletes a request for which nobody waits anymore.
///
/// # Errors
/// Only database errors.
pub async fn end_folder_request(c: &mut Conn, id: Uuid) -> Result<(), DbError> {
    c.q("delete from repository_reads where id = $1")
        .bind(id)
        .run()
        .await?;
    Ok(())
}
