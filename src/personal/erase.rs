//! Erases one user's data from a workspace.
//!
//! ```text
//! begin: removal from the workspace ─► messages ─► threads, forks, resolutions ─► schedules, tasks, model contexts ─► memories
//!        ─► agents ─► files of vector stores, if chosen ─► event log ─► audit log, client IDs, the account if it is not in any other workspace
//! ```
//!
//! From the first step on, an alias (an ID that does not belong to anyone) replaces the user's ID in every row, so that
//! remaining data (a tombstone, a token count) cannot be attributed to them. Their messages are deleted as if the user had
//! deleted them.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::scrub;
use crate::{
    agents::derived::{self, Change, SourceId},
    auth::{
        self, Actor, AuthError, Member, MemberStatus, Scope,
        revocations::{self, Revocation},
    },
    chat::{ChatError, forks, messages, remove, threads},
    collections,
    db::{Bind, Conn, Db, DbError, FromAnyRow, Json, Query, now},
    failpoint,
    files::{self, Blobs},
    forks::items,
    ids::{
        ActionId, AgentId, AuditEntryId, BEFORE_ALL_SEQS, ChannelId, ForkId, MessageId,
        ResolutionId, TaskId, ThreadId, UserId, WorkflowId, WorkspaceId,
    },
    imports,
    memory::forget,
    realtime::Hub,
    replies::{compaction::catch_up, manifest, replay},
    responses, schedules,
    tasks::{TaskKind, actions, budgets, queue, usage},
    text_enum::text_enum,
};

/// Maximum number of messages per transaction, because each one affects a dozen tables.
const MESSAGES_AT_ONCE: usize = 20;
/// Maximum number of other rows changed per transaction.
const ROWS_AT_ONCE: usize = 100;
/// Maximum number of rows that a statement scans.
const ROWS_SCANNED_MAX: i64 = 1000;
/// Maximum number of agents that a statement scans, because their versions have long texts.
const AGENTS_SCANNED_MAX: i64 = 10;
/// Maximum number of files whose bytes are deleted at once.
const FILES_AT_ONCE: i64 = 100;

#[derive(Debug, Clone, sqlx::FromRow)]
struct Erasure {
    id: Uuid,
    workspace_id: WorkspaceId,
    user_id: UserId,
    alias_id: UserId,
    handle: String,
    requested_by: UserId,
    messages: i64,
    files: i64,
    total: Option<i64>,
    account_deleted: bool,
    finished_at: Option<crate::time::Timestamp>,
    erases_collection_files: bool,
}

impl Erasure {
    /// SQL `like` pattern that matches text containing the user's ID.
    fn pattern(&self) -> String {
        format!("%{}%", self.user_id)
    }
}

macro_rules! erasure_sql {
    ($tail:literal) => {
        concat!(
            "select id, workspace_id, user_id, alias_id, handle, requested_by, messages, files, total, account_deleted, finished_at, \
             erases_collection_files from erasures ",
            $tail
        )
    };
}

/// Choice for the person's files in vector stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollectionFiles {
    /// They stay, without the person's name.
    Kept,
    Removed,
}

text_enum! {
    /// State of an erasure.
    pub enum ErasureState {
        Running = "running",
        Done = "done",
    }
}

/// Progress of an erasure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct ErasureProgress {
    #[schema(inline)]
    pub state: ErasureState,
    /// Messages turned into tombstones so far.
    pub done: i64,
    /// Messages of the person; null until they are counted.
    pub total: Option<i64>,
    /// Deleted uploads.
    pub files: i64,
    /// True if the account was also deleted, because it was not in any other workspace.
    pub account_deleted: bool,
}

/// Key by which an ended erasure is found.
fn hash_of(user: UserId) -> String {
    hex::encode(Sha256::digest(user.to_string()))
}

/// Returns the newest erasure of this user and its progress.
///
/// # Errors
/// `MemberNotFound` if no erasure of this user was started.
pub async fn progress(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<(Uuid, ErasureProgress), ChatError> {
    let found: Option<Erasure> = c
        .q(erasure_sql!(
            "where workspace_id = $1 and user_hash = $2 order by started_at desc, id desc limit 1"
        ))
        .bind(workspace)
        .bind(hash_of(user))
        .opt()
        .await?;
    let found = found.ok_or_else(|| AuthError::MemberNotFound(user.to_string()))?;
    let progress = ErasureProgress {
        state: match found.finished_at {
            Some(_) => ErasureState::Done,
            None => ErasureState::Running,
        },
        done: found.messages,
        total: found.total,
        files: found.files,
        account_deleted: found.account_deleted,
    };
    Ok((found.id, progress))
}

async fn get(c: &mut Conn, id: Uuid) -> Result<Erasure, DbError> {
    c.q(erasure_sql!("where id = $1")).bind(id).one().await
}

/// Removes the user from the workspace and records that their data will be erased. Returns the existing erasure if an
/// interrupted request or another admin has already started one.
///
/// # Errors
/// `MemberNotFound`, `HandleMismatch`, `LastAdmin`, or an error from `Actor::require`.
pub async fn begin(
    c: &mut Conn,
    actor: &Actor<'_>,
    user: UserId,
    handle: &str,
    collection_files: CollectionFiles,
) -> Result<Uuid, ChatError> {
    actor.require(Scope::WorkspaceAdmin)?;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    let known: Option<Erasure> = c
        .q(erasure_sql!(
            "where workspace_id = $1 and user_id = $2 and finished_at is null"
        ))
        .bind(actor.workspace)
        .bind(user)
        .opt()
        .await?;
    if let Some(known) = known {
        if known.handle != handle {
            return Err(AuthError::HandleMismatch.into());
        }
        return Ok(known.id);
    }
    let member = auth::get_listed(c, actor.workspace, user).await?;
    if member.handle != handle {
        return Err(AuthError::HandleMismatch.into());
    }
    if member.status == MemberStatus::Active {
        auth::check_not_last_admin(c, &member, actor.workspace).await?;
    }
    files::remove_picture_in(c, actor.workspace, user).await?;
    let files: i64 = c
        .q("select count(*) from files where workspace_id = $1 and created_by = $2 and is_avatar = FALSE")
        .bind(actor.workspace)
        .bind(user)
        .value()
        .await?;
    let nameless = Member {
        name: scrub::NOBODY.to_owned(),
        handle: String::new(),
        email: String::new(),
        avatar_url: None,
        ..member.clone()
    };
    // The keys, by which these are found, are deleted with the membership.
    c.q("delete from slack_uploads where credential_id in (select id from api_keys where workspace_id = $1 and user_id = $2)")
        .bind(actor.workspace)
        .bind(user)
        .run()
        .await?;
    auth::remove_member(c, actor.workspace, &member, &nameless).await?;
    let (id, alias) = (Uuid::now_v7(), UserId::new());
    c.q("insert into erasures (id, workspace_id, user_id, alias_id, handle, requested_by, messages, files, account_deleted, \
         started_at, finished_at, user_hash, erases_collection_files) values ($1, $2, $3, $4, $5, $6, 0, $7, FALSE, $8, null, $9, $10)")
        .bind(id)
        .bind(actor.workspace)
        .bind(user)
        .bind(alias)
        .bind(handle.to_owned())
        .bind(actor.user)
        .bind(files)
        .bind(now())
        .bind(hash_of(user))
        .bind(collection_files == CollectionFiles::Removed)
        .run()
        .await?;
    imports::forget_person(c, actor.workspace, user, alias).await?;
    delete_exports(c, actor.workspace).await?;
    let action = auth::AuditAction::MemberErasureStarted;
    let none = serde_json::json!({});
    auth::record_audit(c, actor, action, user.to_string(), none).await?;
    Ok(id)
}

/// Deletes the archives of the workspace, which contain what people have written.
async fn delete_exports(c: &mut Conn, workspace: WorkspaceId) -> Result<(), DbError> {
    c.q("delete from exports where workspace_id = $1")
        .bind(workspace)
        .run()
        .await?;
    Ok(())
}

/// Erasures that were started by a process that died before finishing them.
async fn unfinished(c: &mut Conn) -> Result<Vec<Uuid>, DbError> {
    let rows: Vec<(Uuid,)> = c
        .q("select id from erasures where finished_at is null order by started_at limit 1000")
        .all()
        .await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// Finishes erasures that a process left unfinished when it died.
pub async fn finish_begun(eraser: Eraser) {
    let begun = async { unfinished(&mut eraser.db.read().await?).await };
    match begun.await {
        Ok(begun) => {
            for id in begun {
                if let Err(e) = eraser.run(id).await {
                    tracing::warn!(error = %e, "could not finish an erasure; request it again");
                }
            }
        }
        Err(e) => tracing::warn!(error = %e, "could not look up unfinished erasures"),
    }
}

/// Dependencies of an erasure.
#[derive(Clone)]
pub struct Eraser {
    pub db: Db,
    pub hub: Arc<Hub>,
    pub blobs: Blobs,
    pub shutdown: CancellationToken,
}

impl Eraser {
    /// Runs all remaining steps of an erasure.
    ///
    /// # Errors
    /// If the database fails or the server is stopping; running it again resumes the erasure.
    pub async fn run(&self, id: Uuid) -> Result<(), ChatError> {
        let erasure = get(&mut self.db.read().await?, id).await?;
        if erasure.finished_at.is_none() {
            self.count_messages(&erasure).await?;
            self.take_messages(&erasure).await?;
            self.erase_threads(&erasure).await?;
            self.erase_forks(&erasure).await?;
            self.erase_resolutions(&erasure).await?;
            self.erase_schedules(&erasure).await?;
            self.erase_tasks(&erasure).await?;
            self.erase_calls(&erasure).await?;
            self.erase_actions(&erasure).await?;
            self.erase_memories(&erasure).await?;
            self.erase_agents(&erasure).await?;
            self.erase_collection_files(&erasure).await?;
            self.erase_log(&erasure).await?;
            self.erase_records(&erasure).await?;
            let e = erasure.clone();
            self.db
                .write(erasure.workspace_id.0, async move |c: &mut Conn| {
                    finish(c, &e).await
                })
                .await?;
        }
        self.delete_bytes().await;
        Ok(())
    }

    /// Removes the user's files and web pages from vector stores, if the admin chose this.
    async fn erase_collection_files(&self, e: &Erasure) -> Result<(), ChatError> {
        if !e.erases_collection_files {
            return Ok(());
        }
        loop {
            let (workspace, user) = (e.workspace_id, e.user_id);
            let removed = self.step(e, async move |c: &mut Conn| {
                Ok(collections::remove_files_of(c, workspace, user).await?)
            });
            if removed.await? == 0 {
                return Ok(());
            }
        }
    }

    /// Deletes the bytes of removed files, and removed texts from the write-ahead log.
    pub(super) async fn delete_bytes(&self) {
        // The file rows are gone, so delete their bytes now instead of waiting for the next cleanup.
        loop {
            match self.blobs.remove_unused(&self.db, FILES_AT_ONCE).await {
                Ok(0) => break,
                Ok(_) => {}
                Err(e) => {
                    tracing::warn!(error = %e, "bytes of erased files remain until the next cleanup");
                    break;
                }
            }
        }
        if let Err(e) = self.db.scrub().await {
            tracing::warn!(error = %e, "erased texts may remain in the write-ahead log until the next checkpoint");
        }
    }

    /// Stores the number of the user's messages, unless an interrupted erasure has already done so.
    async fn count_messages(&self, e: &Erasure) -> Result<(), ChatError> {
        if e.total.is_some() {
            return Ok(());
        }
        let total: i64 = self
            .db
            .read()
            .await?
            .q("select count(*) from messages where workspace_id = $1 and author_id = $2")
            .bind(e.workspace_id)
            .bind(e.user_id)
            .value()
            .await?;
        let id = e.id;
        self.step(e, async move |c: &mut Conn| {
            c.q("update erasures set total = $2 where id = $1")
                .bind(id)
                .bind(total)
                .run()
                .await?;
            Ok(())
        })
        .await
    }

    /// Runs a step in the workspace's write order, unless the server is stopping.
    async fn step<T, F>(&self, erasure: &Erasure, command: F) -> Result<T, ChatError>
    where
        T: Send + 'static,
        F: AsyncFn(&mut Conn) -> Result<T, ChatError> + Send + 'static,
    {
        if self.shutdown.is_cancelled() {
            return Err(DbError::Closed.into());
        }
        self.db.write(erasure.workspace_id.0, command).await
    }

    /// Turns all of the user's messages, and those that announce the user's runs, into anonymous tombstones, and removes the user's reactions.
    async fn take_messages(&self, e: &Erasure) -> Result<(), ChatError> {
        let search = Search {
            sql: "select seq, id, coalesce(author_id = $4 or CAST(reactions AS TEXT) like $5 or CAST(metadata AS TEXT) like $5 \
                  or CAST(attachments AS TEXT) like $5, FALSE) \
                from messages where workspace_id = $1 and seq > $2 order by seq limit $3",
            after: BEFORE_ALL_SEQS,
            rows_max: ROWS_SCANNED_MAX,
            at_once: MESSAGES_AT_ONCE,
        };
        self.each(
            e,
            search,
            |q| q.bind(e.user_id).bind(e.pattern()),
            take_message,
        )
        .await
    }

    /// Removes the user from the participants of threads, and deletes the titles of threads that the user created.
    async fn erase_threads(&self, e: &Erasure) -> Result<(), ChatError> {
        let search = Search {
            sql: "select id, channel_id, created_by = $4 or CAST(participants AS TEXT) like $5 \
                from threads where workspace_id = $1 and id > $2 order by id limit $3",
            after: ThreadId(Uuid::nil()),
            rows_max: ROWS_SCANNED_MAX,
            at_once: ROWS_AT_ONCE,
        };
        self.each(
            e,
            search,
            |q| q.bind(e.user_id).bind(e.pattern()),
            erase_thread,
        )
        .await
    }

    /// Erases titles and descriptions of forks that the user created.
    async fn erase_forks(&self, e: &Erasure) -> Result<(), ChatError> {
        let search = Search {
            // Forks have no index by workspace.
            sql: "select id, channel_id, workspace_id = $1 and created_by = $4 from forks where id > $2 order by id limit $3",
            after: ForkId(Uuid::nil()),
            rows_max: ROWS_SCANNED_MAX,
            at_once: ROWS_AT_ONCE,
        };
        self.each(e, search, |q| q.bind(e.user_id), erase_fork)
            .await
    }

    /// Replaces the user as editor and publisher of resolutions and as owner of action items, including in resolution messages.
    async fn erase_resolutions(&self, e: &Erasure) -> Result<(), ChatError> {
        let search = Search {
            // Resolutions have no index by workspace, either.
            sql: "select id, channel_id, workspace_id = $1 and (coalesce(publisher_id = $4, FALSE) \
                or CAST(edited_by AS TEXT) like $5 or exists (select 1 from action_items i \
                  where i.resolution_id = r.id and (i.owner_id = $4 or i.done_by = $4))) \
                from resolutions r where id > $2 order by id limit $3",
            after: ResolutionId(Uuid::nil()),
            rows_max: ROWS_SCANNED_MAX,
            at_once: ROWS_AT_ONCE,
        };
        self.each(
            e,
            search,
            |q| q.bind(e.user_id).bind(e.pattern()),
            erase_resolution,
        )
        .await
    }

    /// Deletes the user's schedules.
    async fn erase_schedules(&self, e: &Erasure) -> Result<(), ChatError> {
        let (workspace, user) = (e.workspace_id, e.user_id);
        self.step(e, async move |c: &mut Conn| {
            Ok(schedules::erase_owner(c, workspace, user).await?)
        })
        .await
    }

    /// Stops tasks that the user requested, and erases their inputs, such as guidance for drafts. Erases the user's data in model
    /// contexts, and deletes the user's catch-ups, replays, and stored responses.
    async fn erase_tasks(&self, e: &Erasure) -> Result<(), ChatError> {
        let search = Search {
            sql: "select id, id, requested_by = $4 from tasks where workspace_id = $1 and id > $2 order by id limit $3",
            after: TaskId(Uuid::nil()),
            rows_max: ROWS_SCANNED_MAX,
            at_once: ROWS_AT_ONCE,
        };
        self.each(e, search, |q| q.bind(e.user_id), take_task)
            .await?;
        let (workspace, user) = (e.workspace_id, e.user_id);
        self.step(e, async move |c: &mut Conn| {
            catch_up::store::forget_person(c, workspace, user).await?;
            replay::store::forget_person(c, workspace, user).await?;
            responses::forget_person(c, workspace, user).await?;
            Ok(derived::changed(c, SourceId::User(user), Change::Deleted).await?)
        })
        .await
    }

    /// Reassigns the model calls made for the user to the alias.
    async fn erase_calls(&self, e: &Erasure) -> Result<(), ChatError> {
        let search = Search {
            sql: "select id, id, TRUE from model_calls where workspace_id = $1 and user_id = $4 and id > $2 order by id limit $3",
            after: Uuid::nil(),
            rows_max: ROWS_SCANNED_MAX,
            at_once: ROWS_AT_ONCE,
        };
        let take = async |c: &mut Conn, e: &Erasure, _: &Hub, id: Uuid, _: Uuid| {
            c.q("update model_calls set user_id = $2 where id = $1")
                .bind(id)
                .bind(e.alias_id)
                .run()
                .await?;
            Ok(())
        };
        self.each(e, search, |q| q.bind(e.user_id), take).await
    }

    /// Replaces the user as approver and source of actions, and in approval rules. Deletes grants for the user's tasks.
    async fn erase_actions(&self, e: &Erasure) -> Result<(), ChatError> {
        let search = Search {
            sql: "select a.id, a.id, CAST(a.sources AS TEXT) like $5 or CAST(a.sources AS TEXT) like $6 \
                or exists (select 1 from action_needs n where n.action_id = a.id and $4 in (n.user_id, n.decided_by)) \
                from actions a where a.workspace_id = $1 and a.id > $2 order by a.id limit $3",
            after: ActionId(Uuid::nil()),
            rows_max: ROWS_SCANNED_MAX,
            at_once: ROWS_AT_ONCE,
        };
        let take = async |c: &mut Conn, e: &Erasure, _: &Hub, id: ActionId, _: ActionId| {
            actions::forget_person(c, id, e.user_id, e.alias_id, scrub::NOBODY).await?;
            Ok(())
        };
        // People are sources by their UUID, and authors by their ID.
        let source = format!("%{}%", e.user_id.0);
        let author = format!("%{}%", e.user_id);
        self.each(
            e,
            search,
            |q| q.bind(e.user_id).bind(source.clone()).bind(author.clone()),
            take,
        )
        .await?;
        let (workspace, user, alias) = (e.workspace_id, e.user_id, e.alias_id);
        self.step(e, async move |c: &mut Conn| {
            c.q(
                "update task_taints set source_id = $3, label = $4 where source_id = $2 \
                 and task_id in (select id from tasks where workspace_id = $1)",
            )
            .bind(workspace)
            .bind(user)
            .bind(alias)
            .bind(scrub::NOBODY.to_owned())
            .run()
            .await?;
            c.q(
                "update task_taints set author_id = null, label = part || ', by ' || $3 where author_id = $2 \
                 and task_id in (select id from tasks where workspace_id = $1)",
            )
            .bind(workspace)
            .bind(user)
            .bind(scrub::NOBODY.to_owned())
            .run()
            .await?;
            c.q("delete from grants where workspace_id = $1 and requested_by = $2")
                .bind(workspace)
                .bind(user)
                .run()
                .await?;
            let rules: Option<(Json<Value>,)> = c
                .q("select approval_rules from workspace_policies where workspace_id = $1")
                .bind(workspace)
                .opt()
                .await?;
            if let Some((Json(mut rules),)) = rules {
                scrub::rename(&mut rules, user, alias);
                c.q("update workspace_policies set approval_rules = $2 where workspace_id = $1")
                    .bind(workspace)
                    .bind(Json(rules))
                    .run()
                    .await?;
            }
            Ok(())
        })
        .await
    }

    /// Deletes memories by and about the user.
    async fn erase_memories(&self, e: &Erasure) -> Result<(), ChatError> {
        let (workspace, user) = (e.workspace_id, e.user_id);
        loop {
            let some = self
                .step(e, async move |c: &mut Conn| {
                    Ok(forget::erase_some(c, workspace, user).await?)
                })
                .await?;
            if some == 0 {
                return Ok(());
            }
        }
    }

    /// Replaces the user with the alias in agents, their versions, and their access lists. If the only user were removed from an
    /// access list instead, the agent would be open to everyone.
    async fn erase_agents(&self, e: &Erasure) -> Result<(), ChatError> {
        let search = Search {
            sql: "select id, id, coalesce(created_by = $4, FALSE) or CAST(profile AS TEXT) like $5 \
                or coalesce(CAST(access AS TEXT) like $5, FALSE) \
                or exists (select 1 from agent_versions v where v.agent_id = a.id and (v.changed_by = $4 \
                  or CAST(v.profile AS TEXT) like $5 or CAST(v.resolved AS TEXT) like $5)) \
                from agents a where workspace_id = $1 and id > $2 order by id limit $3",
            after: AgentId(Uuid::nil()),
            rows_max: AGENTS_SCANNED_MAX,
            at_once: 1,
        };
        self.each(
            e,
            search,
            |q| q.bind(e.user_id).bind(e.pattern()),
            rename_in_agent,
        )
        .await
    }

    /// Erases the user's name and texts from retained events.
    async fn erase_log(&self, e: &Erasure) -> Result<(), ChatError> {
        let search = Search {
            sql: "select seq, seq, frame like $4 from events where workspace_id = $1 and seq > $2 order by seq limit $3",
            after: 0_i64,
            rows_max: ROWS_SCANNED_MAX,
            at_once: ROWS_AT_ONCE,
        };
        self.each(e, search, |q| q.bind(e.pattern()), scrub_frame)
            .await
    }

    /// Anonymizes audit entries by or about the user.
    async fn erase_records(&self, e: &Erasure) -> Result<(), ChatError> {
        let account: Option<(String, String)> = self
            .db
            .read()
            .await?
            .q("select name, email from users where id = $1")
            .bind(e.user_id)
            .opt()
            .await?;
        let (name, email) = account.unwrap_or_default();
        let search = Search {
            sql: "select id, id, coalesce(actor_id = $4, FALSE) or coalesce(target = $5, FALSE) or CAST(data AS TEXT) like $6 \
                or (CAST(data AS TEXT) like $7 and $8 <> '') \
                from audit_log where workspace_id = $1 and id > $2 order by id limit $3",
            after: AuditEntryId(Uuid::nil()),
            rows_max: ROWS_SCANNED_MAX,
            at_once: ROWS_AT_ONCE,
        };
        let words = [&name, &email, &e.handle].into_iter();
        let words: Arc<[String]> = words.filter(|word| !word.is_empty()).cloned().collect();
        let scrub =
            async move |c: &mut Conn,
                        e: &Erasure,
                        _: &Hub,
                        entry: AuditEntryId,
                        _: AuditEntryId| { scrub_record(c, e, entry, &words).await };
        self.each(
            e,
            search,
            |q| {
                q.bind(e.user_id)
                    .bind(e.user_id.to_string())
                    .bind(e.pattern())
                    .bind(format!("%{email}%"))
                    .bind(email.clone())
            },
            scrub,
        )
        .await
    }

    /// Runs `erase` on the rows that a search finds, in batches.
    async fn each<K, I>(
        &self,
        erasure: &Erasure,
        search: Search<K>,
        bind: impl Fn(Query<'_>) -> Query<'_>,
        erase: impl AsyncFn(&mut Conn, &Erasure, &Hub, K, I) -> Result<(), ChatError>
        + Clone
        + Send
        + 'static,
    ) -> Result<(), ChatError>
    where
        K: Bind + Copy + Send + 'static,
        I: Copy + Send + 'static,
        (K, I, bool): FromAnyRow,
    {
        let mut after = search.after;
        loop {
            let mut c = self.db.read().await?;
            let query = c.q(search.sql).bind(erasure.workspace_id).bind(after);
            let scanned: Vec<(K, I, bool)> = bind(query.bind(search.rows_max)).all().await?;
            drop(c);
            let Some((last, ..)) = scanned.last() else {
                return Ok(());
            };
            after = *last;
            let theirs = scanned.iter().filter(|(.., is_theirs)| *is_theirs);
            let rows: Vec<(K, I)> = theirs.map(|(key, id, _)| (*key, *id)).collect();
            for batch in rows.chunks(search.at_once) {
                let (e, hub, batch) = (erasure.clone(), Arc::clone(&self.hub), batch.to_vec());
                let erase = erase.clone();
                self.step(erasure, async move |c: &mut Conn| {
                    for (key, id) in &batch {
                        erase(c, &e, &hub, *key, *id).await?;
                    }
                    Ok(())
                })
                .await?;
                failpoint!("erasing");
            }
        }
    }
}

/// Bounded search of a table for rows that concern the user. Reads every row, but only a few per statement, because most tables have
/// no index by user.
struct Search<K> {
    /// Selects the key, an ID, and whether the row concerns the user, for at most `$3` rows of workspace `$1` after key
    /// `$2`.
    sql: &'static str,
    /// Key after which the search starts.
    after: K,
    rows_max: i64,
    /// Maximum number of rows changed per transaction.
    at_once: usize,
}

async fn erase_thread(
    c: &mut Conn,
    e: &Erasure,
    _: &Hub,
    id: ThreadId,
    channel: ChannelId,
) -> Result<(), ChatError> {
    let audience = queue::audience_of(c, channel).await?;
    threads::erase_person(c, id, e.user_id, e.alias_id, audience).await
}

async fn erase_fork(
    c: &mut Conn,
    e: &Erasure,
    _: &Hub,
    id: ForkId,
    channel: ChannelId,
) -> Result<(), ChatError> {
    let audience = queue::audience_of(c, channel).await?;
    forks::erase_person(c, id, e.alias_id, audience).await
}

async fn erase_resolution(
    c: &mut Conn,
    e: &Erasure,
    _: &Hub,
    id: ResolutionId,
    channel: ChannelId,
) -> Result<(), ChatError> {
    let audience = queue::audience_of(c, channel).await?;
    let (user, alias) = (e.user_id, e.alias_id);
    let erased = items::erase_person(c, id, user, alias, scrub::NOBODY, audience).await;
    erased.map_err(|e| match e {
        crate::forks::ForkError::Chat(e) => e,
        crate::forks::ForkError::Db(e) => e.into(),
        _ => ChatError::Db(sqlx::Error::RowNotFound.into()),
    })
}

/// Replaces the user as the one for whom an agent attached files to its reply.
async fn rename_in_attachments(
    c: &mut Conn,
    e: &Erasure,
    message: MessageId,
) -> Result<(), ChatError> {
    let (Json(mut attachments),): (Json<Value>,) = c
        .q("select attachments from messages where id = $1")
        .bind(message)
        .one()
        .await?;
    scrub::rename(&mut attachments, e.user_id, e.alias_id);
    c.q("update messages set attachments = $2 where id = $1")
        .bind(message)
        .bind(Json(attachments))
        .run()
        .await?;
    Ok(())
}

async fn take_message(
    c: &mut Conn,
    e: &Erasure,
    hub: &Hub,
    _: i64,
    id: MessageId,
) -> Result<(), ChatError> {
    let mut message = messages::get_message(c, id).await?;
    let audience = queue::audience_of(c, message.channel_id).await?;
    messages::erase_reactions(c, &message, e.user_id, audience).await?;
    if message.metadata.pinned_by == Some(e.user_id) {
        message.metadata.pinned_by = Some(e.alias_id);
        messages::update_metadata(c, id, message.metadata.clone()).await?;
    }
    let start = message.metadata.run_start.as_ref();
    // The message that announces a run contains the name of its requester, and the input.
    let is_run_of_user = start.is_some_and(|start| start.requested_by == e.user_id);
    if is_run_of_user {
        let mut metadata = message.metadata.clone();
        metadata.run_start = None;
        messages::update_metadata(c, id, metadata).await?;
    } else if message.author.id.as_deref() == Some(e.user_id.to_string().as_str()) {
        c.q("update messages set author_id = $2, client_id = null where id = $1")
            .bind(id)
            .bind(e.alias_id)
            .run()
            .await?;
    } else {
        return rename_in_attachments(c, e, id).await;
    }
    if message.deleted_at.is_some() {
        // No event announces the new author of a tombstone.
        auth::mark_names_changed(c).await?;
        return Ok(());
    }
    let message = messages::get_message(c, id).await?;
    remove::take_back(c, &message, hub, audience).await?;
    c.q("update erasures set messages = messages + 1 where id = $1")
        .bind(e.id)
        .run()
        .await?;
    Ok(())
}

async fn take_task(
    c: &mut Conn,
    e: &Erasure,
    hub: &Hub,
    id: TaskId,
    _: TaskId,
) -> Result<(), ChatError> {
    let Some(task) = queue::find_task(c, id).await? else {
        return Ok(());
    };
    if task.is_active() {
        let audience = queue::audience_in(c, task.channel_id).await?;
        remove::stop(c, &task, hub, audience).await?;
    }
    // A task to which a schedule's task delegated has a prompt and no trigger message.
    let has_own_input = matches!(
        task.kind,
        TaskKind::Resolve | TaskKind::Schedule | TaskKind::Delegate
    );
    if has_own_input || task.run_id.is_some() {
        queue::blank_input(c, id).await?;
    }
    c.q("update tasks set requested_by = $2 where id = $1")
        .bind(id)
        .bind(e.alias_id)
        .run()
        .await?;
    // The run's input may quote the user.
    c.q("update runs set requested_by = $2, input = '' where id = $1")
        .bind(id)
        .bind(e.alias_id)
        .run()
        .await?;
    manifest::forget_requester(c, id, e.user_id, e.alias_id, scrub::NOBODY).await?;
    Ok(())
}

async fn rename_in_agent(
    c: &mut Conn,
    e: &Erasure,
    _: &Hub,
    agent: AgentId,
    _: AgentId,
) -> Result<(), ChatError> {
    let (mut profile, summary, access): (Json<Value>, Option<Json<Value>>, Option<Json<Value>>) = c
        .q("select profile, summary, access from agents where id = $1")
        .bind(agent)
        .one()
        .await?;
    let renamed = |value: Option<Json<Value>>| {
        value.map(|Json(mut value)| {
            scrub::rename(&mut value, e.user_id, e.alias_id);
            Json(value)
        })
    };
    scrub::rename(&mut profile.0, e.user_id, e.alias_id);
    c.q("update agents set profile = $2, summary = $3, access = $4 where id = $1")
        .bind(agent)
        .bind(profile)
        .bind(renamed(summary))
        .bind(renamed(access))
        .run()
        .await?;
    let versions: Vec<(i64, Json<Value>, Json<Value>)> = c
        .q(
            "select version, profile, resolved from agent_versions where agent_id = $1 \
            and (CAST(profile AS TEXT) like $2 or CAST(resolved AS TEXT) like $2) order by version",
        )
        .bind(agent)
        .bind(e.pattern())
        .all()
        .await?;
    for (version, profile, resolved) in versions {
        c.q("update agent_versions set profile = $3, resolved = $4 where agent_id = $1 and version = $2")
            .bind(agent)
            .bind(version)
            .bind(renamed(Some(profile)))
            .bind(renamed(Some(resolved)))
            .run()
            .await?;
    }
    c.q("update agent_versions set change_summary = $3 where agent_id = $1 and changed_by = $2 and change_summary like 'accepted by %'")
        .bind(agent)
        .bind(e.user_id)
        .bind("accepted".to_owned())
        .run()
        .await?;
    for sql in [
        "update agents set created_by = $3 where id = $1 and created_by = $2",
        "update agent_versions set changed_by = $3 where agent_id = $1 and changed_by = $2",
        "update agent_files set updated_by = $3 where owner_id = $1 and updated_by = $2",
        "update agent_file_versions set changed_by = $3 where owner_id = $1 and changed_by = $2",
    ] {
        c.q(sql)
            .bind(agent)
            .bind(e.user_id)
            .bind(e.alias_id)
            .run()
            .await?;
    }
    Ok(())
}

/// Replaces the user with the alias in workflow approvals.
async fn rename_in_workflows(c: &mut Conn, e: &Erasure) -> Result<(), DbError> {
    let workflows: Vec<(WorkflowId, Json<Value>)> = c
        .q("select id, content from workflows where workspace_id = $1 and CAST(content AS TEXT) like $2 order by id limit 10000")
        .bind(e.workspace_id)
        .bind(e.pattern())
        .all()
        .await?;
    for (id, Json(mut content)) in workflows {
        scrub::rename(&mut content, e.user_id, e.alias_id);
        c.q("update workflows set content = $2 where id = $1")
            .bind(id)
            .bind(Json(content))
            .run()
            .await?;
        c.q("update workflows set on_message = content -> 'on_message' where id = $1 and on_message is not null")
            .bind(id)
            .run()
            .await?;
    }
    let versions: Vec<(WorkflowId, i64, Json<Value>)> = c
        .q("select v.workflow_id, v.version, v.content from workflow_versions v join workflows w on w.id = v.workflow_id \
            where w.workspace_id = $1 and CAST(v.content AS TEXT) like $2 order by v.workflow_id, v.version limit 10000")
        .bind(e.workspace_id)
        .bind(e.pattern())
        .all()
        .await?;
    for (id, version, Json(mut content)) in versions {
        scrub::rename(&mut content, e.user_id, e.alias_id);
        c.q("update workflow_versions set content = $3 where workflow_id = $1 and version = $2")
            .bind(id)
            .bind(version)
            .bind(Json(content))
            .run()
            .await?;
    }
    Ok(())
}

async fn scrub_frame(
    c: &mut Conn,
    e: &Erasure,
    _: &Hub,
    seq: i64,
    _: i64,
) -> Result<(), ChatError> {
    let row: Option<(String,)> = c
        .q("select frame from events where workspace_id = $1 and seq = $2")
        .bind(e.workspace_id)
        .bind(seq)
        .opt()
        .await?;
    let Some(mut value) = row.and_then(|(text,)| serde_json::from_str::<Value>(&text).ok()) else {
        return Ok(());
    };
    scrub::frame(&mut value, &e.user_id.to_string());
    c.q("update events set frame = $3 where workspace_id = $1 and seq = $2")
        .bind(e.workspace_id)
        .bind(seq)
        .bind(value.to_string())
        .run()
        .await?;
    Ok(())
}

async fn scrub_record(
    c: &mut Conn,
    e: &Erasure,
    id: AuditEntryId,
    words: &[String],
) -> Result<(), ChatError> {
    let (actor, action, target, Json(mut data)): (
        Option<UserId>,
        auth::AuditAction,
        Option<String>,
        Json<Value>,
    ) = c
        .q("select actor_id, action, target, data from audit_log where id = $1")
        .bind(id)
        .one()
        .await?;
    let (user, alias) = (e.user_id.to_string(), e.alias_id.to_string());
    let is_theirs = actor == Some(e.user_id);
    let is_about = target.as_ref() == Some(&user);
    if (is_theirs
        && matches!(
            action,
            auth::AuditAction::KeyCreated | auth::AuditAction::KeyDeleted
        ))
        || (is_about && action == auth::AuditAction::MemberHandleChanged)
    {
        data = serde_json::json!({});
    }
    scrub::forget(&mut data, words);
    scrub::rename(&mut data, e.user_id, e.alias_id);
    c.q("update audit_log set actor_id = $2, target = $3, data = $4 where id = $1")
        .bind(id)
        .bind(if is_theirs { Some(e.alias_id) } else { actor })
        .bind(if is_about { Some(alias) } else { target })
        .bind(Json(data))
        .run()
        .await?;
    Ok(())
}

/// Statements that delete rows of user `$2` in workspace `$1`, or the user from them, at the end.
const DELETED_AT_END: [&str; 14] = [
    "delete from deliveries where workspace_id = $1 and user_id = $2",
    "delete from inbox_items where workspace_id = $1 and recipient_id = $2",
    "delete from message_mentions where target_id = $2 and channel_id in (select id from channels where workspace_id = $1)",
    "delete from reads where user_id = $2 and channel_id in (select id from channels where workspace_id = $1)",
    "delete from direct_members where user_id = $2 and channel_id in (select id from channels where workspace_id = $1)",
    "delete from event_recipients where workspace_id = $1 and user_id = $2",
    "delete from memory_settings where workspace_id = $1 and user_id = $2",
    "delete from adaptation_states where workspace_id = $1 and user_id = $2",
    "delete from user_files where workspace_id = $1 and user_id = $2",
    "delete from client_ids where workspace_id = $1 and user_id = $2",
    "delete from placeholder_addresses where workspace_id = $1 and user_id = $2",
    "delete from invites where workspace_id = $1 and (created_by = $2 or email = (select email from users where id = $2))",
    "delete from repository_starters where user_id = $2 and repository_id in (select id from repositories where workspace_id = $1)",
    // The alias has no account, to which this refers.
    "update guests set invited_by = null where workspace_id = $1 and invited_by = $2",
];
/// Statements that reassign rows of user `$2` in workspace `$1` to the alias `$3` at the end.
const RENAMED_AT_END: [&str; 32] = [
    "update imports set created_by = $3 where workspace_id = $1 and created_by = $2",
    "update imported set id = $3 where workspace_id = $1 and id = $2",
    "update inbox_items set actor_id = $3 where workspace_id = $1 and actor_id = $2",
    "update files set created_by = $3, client_id = null where workspace_id = $1 and created_by = $2",
    "update emoji set created_by = $3 where workspace_id = $1 and created_by = $2",
    "update vector_stores set created_by = $3 where workspace_id = $1 and created_by = $2",
    "update vector_store_urls set created_by = $3 where created_by = $2 and store_id in (select id from vector_stores where workspace_id = $1)",
    "update skills set created_by = $3 where workspace_id = $1 and created_by = $2",
    "update skills set written_by = $3 where workspace_id = $1 and written_by = $2",
    "update runners set created_by = $3 where workspace_id = $1 and created_by = $2",
    "update code_sessions set started_by = $3 where workspace_id = $1 and started_by = $2",
    "update code_sessions set pushed_by = $3 where workspace_id = $1 and pushed_by = $2",
    "update bots set created_by = $3 where workspace_id = $1 and created_by = $2",
    "update hooks set created_by = $3 where workspace_id = $1 and created_by = $2",
    "update bot_keys set created_by = $3 where created_by = $2 and bot_id in (select id from bots where workspace_id = $1)",
    "update channels set created_by = $3 where workspace_id = $1 and created_by = $2",
    "update compactions set created_by = $3 where workspace_id = $1 and created_by = $2",
    "update bindings set handed_over_by = $3 where workspace_id = $1 and handed_over_by = $2",
    "update sandbox_policies set created_by = $3 where workspace_id = $1 and created_by = $2",
    "update tools set created_by = $3 where workspace_id = $1 and created_by = $2",
    "update tool_functions set accepted_by = $3 where accepted_by = $2 and tool_id in (select id from tools where workspace_id = $1)",
    "update personas set created_by = $3 where workspace_id = $1 and created_by = $2",
    "update persona_versions set changed_by = $3 where changed_by = $2 and persona_id in (select id from personas where workspace_id = $1)",
    "update workflows set owner_id = $3 where workspace_id = $1 and owner_id = $2",
    "update workflow_versions set changed_by = $3 where changed_by = $2 and workflow_id in (select id from workflows where workspace_id = $1)",
    "update persona_refreshes set requested_by = $3 where workspace_id = $1 and requested_by = $2",
    "update agent_refreshes set requested_by = $3 where workspace_id = $1 and requested_by = $2",
    "update preset_removals set requested_by = $3 where workspace_id = $1 and requested_by = $2",
    "update prompt_profiles set updated_by = $3 where workspace_id = $1 and updated_by = $2",
    "update workspace_policies set updated_by = $3 where workspace_id = $1 and updated_by = $2",
    "update agent_files set updated_by = $3 where workspace_id = $1 and updated_by = $2",
    "update agent_file_versions set changed_by = $3 where owner_id = $1 and changed_by = $2",
];

/// Deletes the account if it is not in any other workspace. Returns true if it was deleted.
async fn delete_account(c: &mut Conn, user: UserId) -> Result<bool, ChatError> {
    let elsewhere: i64 = c
        .q("select (select count(*) from members where user_id = $1) + (select count(*) from suspended_members where user_id = $1)")
        .bind(user)
        .value()
        .await?;
    let account_deleted = elsewhere == 0;
    if account_deleted {
        for sql in [
            "delete from invites where created_by = $1",
            "delete from users where id = $1",
        ] {
            c.q(sql).bind(user).run().await?;
        }
        auth::factors::delete_secrets(c, user).await?;
        // On `PostgreSQL`, the revocation row keeps the user's ID for 10 minutes.
        let revocation = Revocation::User {
            user,
            workspace: None,
        };
        revocations::record(c, revocation).await?;
        auth::mark_names_changed(c).await?;
    }
    Ok(account_deleted)
}

/// Updates the remaining rows, deletes the account if it is not in any other workspace, and records the result.
/// Idempotent.
async fn finish(c: &mut Conn, e: &Erasure) -> Result<(), ChatError> {
    crate::db::dialect::lock_workspace(c, e.workspace_id.0).await?;
    if get(c, e.id).await?.finished_at.is_some() {
        return Ok(());
    }
    let (workspace, user, alias) = (e.workspace_id, e.user_id, e.alias_id);
    files::erase_unattached(c, workspace, user).await?;
    usage::reassign(c, workspace, user, alias).await?;
    budgets::reassign(c, workspace, user, alias).await?;
    for sql in DELETED_AT_END {
        c.q(sql).bind(workspace).bind(user).run().await?;
    }
    for sql in RENAMED_AT_END {
        c.q(sql)
            .bind(workspace)
            .bind(user)
            .bind(alias)
            .run()
            .await?;
    }
    rename_in_workflows(c, e).await?;
    // Those that were written in the meantime contain parts of the person's data.
    delete_exports(c, workspace).await?;
    c.q("update channels set direct_key = replace(direct_key, $2, $3) where workspace_id = $1 and direct_key like $4")
        .bind(workspace)
        .bind(user.to_string())
        .bind(alias.to_string())
        .bind(format!("%{user}%"))
        .run()
        .await?;
    let account_deleted = delete_account(c, user).await?;
    c.q("update erasures set user_id = $2, handle = '', account_deleted = $3, finished_at = $4 where id = $1")
        .bind(e.id)
        .bind(alias)
        .bind(account_deleted)
        .bind(now())
        .run()
        .await?;
    let done = get(c, e.id).await?;
    let data = serde_json::json!({"messages": done.messages, "files": done.files, "account_deleted": account_deleted});
    auth::record_audit_of(
        c,
        workspace,
        e.requested_by,
        auth::AuditAction::MemberErased,
        alias.to_string(),
        data,
    )
    .await?;
    Ok(())
}
