//! Forgetting: removes the texts of entries everywhere.

use serde::Serialize;

use super::change::{require_deletion, require_own, require_some};
use crate::{
    agents::{
        AgentError,
        derived::{self, Change, SourceId},
        policy, profiles,
    },
    auth::{self, Actor, Caller, Scope},
    chat::{ChatError, access},
    db::{Conn, Db, DbError, dialect, now},
    ids::{AgentId, MemoryId, ThreadId, UserId, WorkspaceId},
    memory::{
        MemoryError,
        entry::{Entry, MemoryOrigin},
        find,
    },
    sql_with_ids,
    time::Timestamp,
};

/// Places that still contain the text, counted after the deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema, sqlx::FromRow)]
pub struct Remaining {
    /// Number of remaining entries, counting this one and the copies made from it.
    pub rows: i64,
    /// Number of words in the index that belong to these entries.
    pub index: i64,
    /// Number of copies of the text in records of prompts.
    pub contexts: i64,
}

/// Lists the published copies of an entry.
async fn published_copies(c: &mut Conn, id: MemoryId) -> Result<Vec<MemoryId>, DbError> {
    let copies: Vec<(MemoryId,)> = c
        .q("select p.id from citations k join memories p on p.id = k.owner_id where k.owner_type = 'memory' \
            and k.source_type = 'memory' and k.source_id = $1 and p.scope = 'organization' and p.forgotten_at is null order by p.id")
        .bind(id)
        .all()
        .await?;
    Ok(copies.into_iter().map(|(copy,)| copy).collect())
}

/// Checks that the actor can delete an entry that is published: admins, the person whom the entry is about, and the authors of its
/// source messages can.
///
/// # Errors
/// `Published`.
async fn check_published(
    c: &mut Conn,
    actor: &Actor<'_>,
    entry: &Entry,
) -> Result<(), MemoryError> {
    if actor.scopes.has(Scope::WorkspaceAdmin) || entry.about_user_id == Some(actor.user) {
        return Ok(());
    }
    let is_author: bool = c
        .q("select exists (select 1 from citations k join messages m on m.id = k.source_id where k.owner_type = 'memory' \
            and k.owner_id = $1 and k.source_type = 'message' and m.author_type = 'human' and m.author_id = $2)")
        .bind(entry.id)
        .bind(actor.user)
        .value()
        .await?;
    if is_author {
        Ok(())
    } else {
        Err(MemoryError::Published)
    }
}

/// Deletes an entry with its published copies, and their text from all records, and counts what remains.
///
/// # Errors
/// `NotFound`, `FromFile`, `Published`, `Stale`, or an error from the access checks.
pub async fn forget(
    c: &mut Conn,
    caller: &Caller,
    actor: &Actor<'_>,
    id: MemoryId,
    expected: Option<i64>,
) -> Result<Remaining, MemoryError> {
    require_some(actor)?;
    dialect::lock_workspace(c, actor.workspace.0).await?;
    let entry = find::get_to_change(c, actor, id).await?;
    require_deletion(c, caller, actor, &entry).await?;
    if entry.origin == MemoryOrigin::File {
        return Err(MemoryError::FromFile);
    }
    if expected.is_some_and(|expected| expected != entry.version) {
        return Err(MemoryError::Stale(Box::new(entry)));
    }
    let published = published_copies(c, id).await?;
    if !published.is_empty() {
        check_published(c, actor, &entry).await?;
    }
    for copy in published {
        let data = serde_json::json!({"memory_id": id});
        auth::record_audit(
            c,
            actor,
            auth::AuditAction::MemoryUnpublished,
            copy.to_string(),
            data,
        )
        .await?;
    }
    // Records and copies are found first, because the deletion removes the citations that lead to them.
    let records: Vec<(uuid::Uuid,)> = c
        .q("select owner_id from citations where source_type = 'memory' and source_id = $1 order by owner_id")
        .bind(id)
        .all()
        .await?;
    derived::changed(c, SourceId::Memory(id), Change::Deleted).await?;
    let sql = sql_with_ids!(
        c,
        "with owners (id) as",
        1,
        "select (select count(*) from memories e where e.forgotten_at is null and (e.id = $2 or e.id in (select id from owners))) as \"rows\", \
         (select count(*) from memory_words w where w.memory_id = $2 or w.memory_id in (select id from owners)) as \"index\", \
         (select count(*) from context_texts t where t.hash is not null and t.id in (select id from owners)) as contexts"
    );
    let counted = c
        .q(sql)
        .bind(dialect::hexadecimal_ids(
            records.into_iter().map(|(id,)| id),
        ))
        .bind(id)
        .one()
        .await?;
    Ok(counted)
}

/// Owner of personal entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    Me,
    User(UserId),
}

/// Entries to forget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// All entries with the scope `user` or `persona`.
    Person(Owner),
    /// All entries of a thread and its forks.
    Thread(ThreadId),
    /// All entries with the scope `agent`, except for those taken from files.
    Agent(AgentId),
}

/// Number of entries forgotten per transaction.
const FORGOTTEN_AT_ONCE: i64 = 100;

/// Forgets some entries of a subject. Returns the number of forgotten entries, which is 0 if none are left.
///
/// # Errors
/// An error from the access checks.
pub async fn forget_some(
    c: &mut Conn,
    caller: &Caller,
    actor: &Actor<'_>,
    subject: Subject,
) -> Result<i64, MemoryError> {
    const PERSONAL: &str = "select id from memories where workspace_id = $1 and user_id = $2 and forgotten_at is null order by id limit $3";
    const OF_THREAD: &str = "select id from memories where workspace_id = $1 and thread_id = $2 and scope = 'conversation' \
        and forgotten_at is null order by id limit $3";
    // Only admins delete published entries in bulk.
    const UNPUBLISHED_OF_THREAD: &str = "select o.id from memories o where o.workspace_id = $1 and o.thread_id = $2 \
        and o.scope = 'conversation' and o.forgotten_at is null and not exists (select 1 from citations k \
        join memories p on p.id = k.owner_id where k.owner_type = 'memory' and k.source_type = 'memory' and k.source_id = o.id \
        and p.scope = 'organization' and p.forgotten_at is null) order by o.id limit $3";
    const OF_AGENT: &str = "select id from memories where workspace_id = $1 and agent_id = $2 and scope = 'agent' \
        and origin <> 'file' and forgotten_at is null order by id limit $3";
    dialect::lock_workspace(c, actor.workspace.0).await?;
    let (sql, id) = match subject {
        Subject::Person(Owner::Me) => {
            require_own(actor)?;
            (PERSONAL, actor.user.0)
        }
        Subject::Person(Owner::User(user)) => {
            actor.require(Scope::WorkspaceAdmin)?;
            auth::get_listed(c, actor.workspace, user).await?;
            (PERSONAL, user.0)
        }
        Subject::Thread(thread) => {
            let access = access::thread(c, caller, thread).await?.writing()?;
            if access.channel_access.actor.workspace != actor.workspace {
                return Err(ChatError::ThreadNotFound.into());
            }
            let is_admin = actor.scopes.has(Scope::WorkspaceAdmin);
            let sql = if is_admin {
                OF_THREAD
            } else {
                UNPUBLISHED_OF_THREAD
            };
            (sql, thread.0)
        }
        Subject::Agent(agent) => {
            actor.require(Scope::AgentsWrite)?;
            if !profiles::is_visible(c, actor, agent).await? {
                return Err(AgentError::NotFound.into());
            }
            (OF_AGENT, agent.0)
        }
    };
    let some: Vec<(MemoryId,)> = c
        .q(sql)
        .bind(actor.workspace)
        .bind(id)
        .bind(FORGOTTEN_AT_ONCE)
        .all()
        .await?;
    for (id,) in &some {
        derived::changed(c, SourceId::Memory(*id), Change::Deleted).await?;
    }
    Ok(i64::try_from(some.len()).unwrap_or(i64::MAX))
}

/// Reason for forgetting entries without a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expiry {
    /// The expiration time of the entries has passed.
    Over,
    /// The entries are automatic and have not been used for the retention time.
    Unused,
}

impl Expiry {
    /// Lists some entries of a workspace that have expired by its current rules, oldest first.
    async fn list(
        self,
        c: &mut Conn,
        workspace: WorkspaceId,
        now: Timestamp,
    ) -> Result<Vec<(MemoryId,)>, DbError> {
        let at = match self {
            Self::Over => now,
            Self::Unused => policy::find(c, workspace).await?.memory.unused_since(now),
        };
        let sql = match self {
            Self::Over => {
                "select id from memories where workspace_id = $1 and expires_at <= $2 and forgotten_at is null \
                 order by expires_at limit $3"
            }
            Self::Unused => {
                "select id from memories where workspace_id = $1 and coalesce(last_used_at, created_at) <= $2 \
                 and origin = 'auto' and forgotten_at is null order by coalesce(last_used_at, created_at) limit $3"
            }
        };
        c.q(sql)
            .bind(workspace)
            .bind(at)
            .bind(FORGOTTEN_AT_ONCE)
            .all()
            .await
    }

    async fn forget(self, c: &mut Conn, id: MemoryId) -> Result<(), DbError> {
        if self == Self::Unused {
            // A published copy is kept, because it has its own time of last use.
            c.q("delete from citations where source_type = 'memory' and source_id = $1 and owner_type = 'memory'")
                .bind(id)
                .run()
                .await?;
        }
        derived::changed(c, SourceId::Memory(id), Change::Deleted).await
    }

    /// Forgets all of these entries, a few per transaction. Returns true if there were any.
    async fn forget_all(
        self,
        db: &Db,
        workspace: WorkspaceId,
        now: Timestamp,
    ) -> Result<bool, DbError> {
        let mut has_some = false;
        while !self
            .list(&mut db.read().await?, workspace, now)
            .await?
            .is_empty()
        {
            has_some = true;
            db.write(workspace.0, async move |c: &mut Conn| {
                for (id,) in self.list(c, workspace, now).await? {
                    self.forget(c, id).await?;
                }
                Ok::<_, DbError>(())
            })
            .await?;
        }
        Ok(has_some)
    }
}

/// Forgets entries that have expired.
///
/// # Errors
/// Only database errors.
pub async fn forget_expired(db: &Db) -> Result<(), DbError> {
    let at = now();
    let mut c = db.read().await?;
    let over: Vec<(WorkspaceId,)> = c
        .q("select distinct workspace_id from memories where expires_at <= $1 and forgotten_at is null")
        .bind(at)
        .all()
        .await?;
    let retentions = policy::list_retentions(&mut c).await?;
    drop(c);
    let over = over.into_iter().map(|(id,)| (Expiry::Over, id));
    let unused = retentions.into_iter().map(|(id,)| (Expiry::Unused, id));
    let mut has_some = false;
    for (expiry, workspace) in over.chain(unused) {
        has_some |= expiry.forget_all(db, workspace, at).await?;
    }
    if has_some {
        db.scrub().await?;
    }
    Ok(())
}

/// Records that an admin forgot the entries about a person.
///
/// # Errors
/// Only database errors.
pub async fn record(
    c: &mut Conn,
    actor: &Actor<'_>,
    user: UserId,
    count: i64,
) -> Result<(), MemoryError> {
    let data = serde_json::json!({"deleted": count});
    Ok(auth::record_audit(
        c,
        actor,
        auth::AuditAction::MemoryDeleted,
        user.to_string(),
        data,
    )
    .await?)
}

/// Deletes up to `FORGOTTEN_AT_ONCE` entries by, for, or about a person, including their rows, when the person is erased. Returns the
/// number of deleted entries.
///
/// # Errors
/// Only database errors.
pub async fn erase_some(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<usize, DbError> {
    let some: Vec<(MemoryId,)> = c
        .q("select id from memories where workspace_id = $1 and (user_id = $2 or about_user_id = $2 or created_by = $2) order by id limit $3")
        .bind(workspace)
        .bind(user)
        .bind(FORGOTTEN_AT_ONCE)
        .all()
        .await?;
    for (id,) in &some {
        derived::changed(c, SourceId::Memory(*id), Change::Deleted).await?;
        for sql in [
            "delete from citations where owner_type = 'memory' and owner_id = $1",
            "delete from memories where id = $1",
        ] {
            c.q(sql).bind(*id).run().await?;
        }
    }
    Ok(some.len())
}
