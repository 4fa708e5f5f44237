//! Access checks. One query finds a conversation and the caller's rights in it.
//!
//! Conversations in other workspaces, and in private channels that the caller has not joined, are reported as not found.

use crate::time::Timestamp;

use super::ChatError;
use crate::{
    auth::{
        Actor, AuthError, Caller, CredentialState, Role, Scope, Scopes, UserKind,
        credential_is_valid, has_demands,
    },
    chat::{
        collaboration::Collaboration,
        forks::ForkStatus,
        rows::{channel::ChannelKind, thread::ThreadStatus},
    },
    db::{Conn, DbError, Json, is_visible_channel, now},
    ids::{ApiKeyId, ChannelId, ForkId, MessageId, ThreadId, UserId, WorkspaceId},
    realtime::{Audience, hub::Conversation},
    tasks::Task,
};

/// A channel and the caller's rights in it.
#[derive(Debug, Clone)]
pub struct ChannelAccess<'a> {
    pub actor: Actor<'a>,
    pub channel: ChannelId,
    pub kind: ChannelKind,
    pub archived: bool,
    /// True if the caller has joined the channel.
    pub joined: bool,
    /// True if the channel has an agent.
    pub has_agent: bool,
}

/// A thread or one of its forks, its channel, and the caller's rights there.
#[derive(Debug, Clone)]
pub struct ThreadAccess<'a> {
    pub channel_access: ChannelAccess<'a>,
    pub thread: ThreadId,
    pub archived: bool,
    /// True if an agent is bound to the conversation and no collaboration is running there.
    pub bound: bool,
    /// `None` for the main line of the thread.
    pub fork: Option<ForkAccess>,
}

/// A fork, and whether it accepts messages.
#[derive(Debug, Clone, Copy)]
pub struct ForkAccess {
    pub id: ForkId,
    pub is_active: bool,
}

macro_rules! has_agent {
    () => {
        "exists (select 1 from channel_agents ca where ca.channel_id = ch.id and ca.agent_id is not null) as has_agent"
    };
}

#[derive(sqlx::FromRow)]
struct ChannelRow {
    id: ChannelId,
    workspace_id: WorkspaceId,
    kind: ChannelKind,
    archived_at: Option<Timestamp>,
    role: Role,
    joined: Option<UserId>,
    has_agent: bool,
    is_visible: bool,
    #[sqlx(flatten)]
    credential: CredentialState,
}

impl ChannelRow {
    /// Returns `None` if the channel is hidden from the caller.
    async fn admit<'a>(
        self,
        c: &mut Conn,
        caller: &'a Caller,
    ) -> Result<Option<ChannelAccess<'a>>, AuthError> {
        if !self.is_visible || !caller.may_enter(self.workspace_id) {
            return Ok(None);
        }
        Ok(Some(ChannelAccess {
            actor: caller
                .acting(c, self.workspace_id, self.role, self.credential)
                .await?,
            channel: self.id,
            archived: self.archived_at.is_some(),
            joined: self.joined.is_some(),
            has_agent: self.has_agent,
            kind: self.kind,
        }))
    }
}

/// Joins of a channel `ch` with the bot `$2`, if the bot is active and in the channel.
macro_rules! with_bot {
    () => {
        " join bots b on b.workspace_id = ch.workspace_id and b.id = $2 and b.status = 'active' \
         join bot_channels bc on bc.channel_id = ch.id and bc.bot_id = b.id "
    };
}

/// Columns of a channel `ch` for a bot, which has the rights of its key only.
macro_rules! bot_columns {
    () => {
        concat!(
            "ch.id, ch.workspace_id, ch.kind, ch.archived_at, 'viewer' as role, b.id as joined, ",
            has_agent!(),
            ", TRUE as is_visible, ",
            credential_is_valid!("$3", "$4"),
            // Demands concern sessions.
            " as is_valid, FALSE as has_demands"
        )
    };
}

/// # Errors
/// `ChannelNotFound`.
pub async fn channel<'a>(
    c: &mut Conn,
    caller: &'a Caller,
    id: ChannelId,
) -> Result<ChannelAccess<'a>, ChatError> {
    let sql = match caller.kind {
        UserKind::Bot => concat!(
            "select ",
            bot_columns!(),
            " from channels ch",
            with_bot!(),
            "where ch.id = $1"
        ),
        UserKind::Person | UserKind::Example => {
            concat!(
                "select ch.id, ch.workspace_id, ch.kind, ch.archived_at, m.role, cm.user_id as joined, ",
                has_agent!(),
                ", ",
                is_visible_channel!("ch", "$2"),
                " as is_visible, ",
                credential_is_valid!("$3", "$4"),
                " as is_valid, ",
                has_demands!("ch.workspace_id"),
                " as has_demands from channels ch join members m on m.workspace_id = ch.workspace_id and m.user_id = $2 \
                left join channel_members cm on cm.channel_id = ch.id and cm.user_id = $2 where ch.id = $1"
            )
        }
    };
    let row: Option<ChannelRow> = c
        .q(sql)
        .bind(id)
        .bind(caller.user)
        .bind(caller.credential_id())
        .bind(now())
        .opt()
        .await?;
    let access = match row {
        Some(row) => row.admit(c, caller).await?,
        None => None,
    };
    access.ok_or(ChatError::ChannelNotFound)
}

#[derive(sqlx::FromRow)]
struct ThreadRow {
    thread_id: ThreadId,
    status: ThreadStatus,
    bound: bool,
    #[sqlx(flatten)]
    channel: ChannelRow,
}

impl ThreadRow {
    async fn admit<'a>(
        self,
        c: &mut Conn,
        caller: &'a Caller,
    ) -> Result<ThreadAccess<'a>, ChatError> {
        let channel_access = self.channel.admit(c, caller).await?;
        Ok(ThreadAccess {
            channel_access: channel_access.ok_or(ChatError::ThreadNotFound)?,
            thread: self.thread_id,
            archived: self.status == ThreadStatus::Archived,
            bound: self.bound,
            fork: None,
        })
    }
}

/// Selects a thread and the caller's rights in it; the arguments add columns and joins to the statement.
macro_rules! thread_sql {
    ($columns:literal, $tables:literal) => {
        concat!("select t.id as thread_id, t.status, \
            exists (select 1 from bindings b where b.conversation_id = t.id and b.is_bound) as bound, ch.id, ch.workspace_id, ch.kind, ch.archived_at, \
            m.role, cm.user_id as joined, ", has_agent!(), ", ",
            is_visible_channel!("ch", "$2"), " as is_visible, ", credential_is_valid!("$3", "$4"),
            " as is_valid, ", has_demands!("ch.workspace_id"), " as has_demands", $columns, " from threads t join channels ch on ch.id = t.channel_id \
            join members m on m.workspace_id = ch.workspace_id and m.user_id = $2 \
            left join channel_members cm on cm.channel_id = ch.id and cm.user_id = $2", $tables, " where t.id = $1")
    };
}

/// # Errors
/// `ThreadNotFound`.
pub async fn thread<'a>(
    c: &mut Conn,
    caller: &'a Caller,
    id: ThreadId,
) -> Result<ThreadAccess<'a>, ChatError> {
    let sql = match caller.kind {
        UserKind::Bot => concat!(
            "select t.id as thread_id, t.status, FALSE as bound, ",
            bot_columns!(),
            " from threads t join channels ch on ch.id = t.channel_id",
            with_bot!(),
            "where t.id = $1"
        ),
        UserKind::Person | UserKind::Example => thread_sql!("", ""),
    };
    let row: Option<ThreadRow> = c
        .q(sql)
        .bind(id)
        .bind(caller.user)
        .bind(caller.credential_id())
        .bind(now())
        .opt()
        .await?;
    row.ok_or(ChatError::ThreadNotFound)?.admit(c, caller).await
}

/// Version of the database when a page was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageVersion {
    /// Number of the newest event of the workspace.
    pub seq: i64,
    /// The epoch of the database; after a failover or a restore, the same `seq` can refer to another event.
    pub epoch: String,
    /// Value that changes whenever any user is renamed; see `auth::mark_names_changed`.
    pub names: String,
}

/// Access to a thread, and the state of its newest page.
#[derive(Debug)]
pub struct PageAccess<'a> {
    pub thread_access: ThreadAccess<'a>,
    pub version: PageVersion,
    /// True if nothing that the page shows has changed since the version that the caller already has.
    pub is_current: bool,
}

#[derive(sqlx::FromRow)]
struct PageRow {
    #[sqlx(flatten)]
    thread: ThreadRow,
    seq: i64,
    epoch: String,
    names: String,
    is_quiet: bool,
}

/// Like `thread`, and also checks whether the thread's newest page, as it was read at the version `known`, is still current.
/// Everything on a page changes only with an event of its channel or of the whole workspace, except for people's names, which `names`
/// covers, and the text of a streaming reply. A page far behind the log counts as outdated, which limits the number of events to
/// read.
///
/// # Errors
/// `ThreadNotFound`.
pub async fn thread_with_page<'a>(
    c: &mut Conn,
    caller: &'a Caller,
    id: ThreadId,
    known: Option<&PageVersion>,
) -> Result<PageAccess<'a>, ChatError> {
    let row: Option<PageRow> = c
        .q(thread_sql!(
            ", w.seq, coalesce((select value from meta where key = 'epoch'), '') as epoch, \
             coalesce((select value from meta where key = 'names'), '') as names, \
             (w.seq = $5 or (w.seq > $5 and w.seq <= $5 + 100 and w.pruned_seq <= $5 and not exists (select 1 from events e \
             where e.workspace_id = w.id and e.seq > $5 and (e.channel_id is null or e.channel_id = ch.id)))) as is_quiet",
            " join workspaces w on w.id = ch.workspace_id"
        ))
        .bind(id)
        .bind(caller.user)
        .bind(caller.credential_id())
        .bind(now())
        .bind(known.map_or(-1, |known| known.seq))
        .opt()
        .await?;
    let row = row.ok_or(ChatError::ThreadNotFound)?;
    let is_current = row.is_quiet
        && known.is_some_and(|known| known.epoch == row.epoch && known.names == row.names);
    Ok(PageAccess {
        thread_access: row.thread.admit(c, caller).await?,
        version: PageVersion {
            seq: row.seq,
            epoch: row.epoch,
            names: row.names,
        },
        is_current,
    })
}

/// Checks access to a fork. Bots do not see forks.
///
/// # Errors
/// `ForkNotFound`.
pub async fn fork<'a>(
    c: &mut Conn,
    caller: &'a Caller,
    id: ForkId,
) -> Result<ThreadAccess<'a>, ChatError> {
    if caller.bot().is_some() {
        return Err(ChatError::ForkNotFound);
    }
    let row: Option<(ThreadId, ForkStatus, bool, Option<Json<Collaboration>>)> = c
        .q("select f.thread_id, f.status, exists (select 1 from bindings b where b.conversation_id = f.id and b.is_bound), \
            f.collaboration from forks f where f.id = $1")
        .bind(id)
        .opt()
        .await?;
    let (thread_id, status, bound, collaboration) = row.ok_or(ChatError::ForkNotFound)?;
    let is_collaborating = collaboration.is_some_and(|found| found.0.is_running());
    let access = thread(c, caller, thread_id).await.map_err(|e| match e {
        ChatError::ThreadNotFound => ChatError::ForkNotFound,
        other => other,
    })?;
    Ok(ThreadAccess {
        bound: bound && !is_collaborating,
        fork: Some(ForkAccess {
            id,
            is_active: status == ForkStatus::Active,
        }),
        ..access
    })
}

/// Checks access to a conversation.
///
/// # Errors
/// `ThreadNotFound` or `ForkNotFound`.
pub async fn find_conversation<'a>(
    c: &mut Conn,
    caller: &'a Caller,
    conversation: Conversation,
) -> Result<ThreadAccess<'a>, ChatError> {
    match conversation {
        Conversation::Thread(id) => thread(c, caller, id).await,
        Conversation::Fork(id) => fork(c, caller, id).await,
    }
}

/// Checks access to a task without a conversation: only its requester and admins can see it.
///
/// # Errors
/// `TaskNotFound`.
pub async fn unplaced<'a>(
    c: &mut Conn,
    caller: &'a Caller,
    task: &Task,
) -> Result<Actor<'a>, ChatError> {
    let actor = caller.enter(c, task.workspace_id).await;
    let actor = actor.map_err(|e| match e {
        AuthError::WorkspaceNotFound => ChatError::TaskNotFound,
        other => other.into(),
    })?;
    if task.requested_by == actor.user || actor.role == Role::Admin {
        Ok(actor)
    } else {
        Err(ChatError::TaskNotFound)
    }
}

/// The channel of a task's conversation; `None` for a task without a conversation.
///
/// # Errors
/// `TaskNotFound`.
pub async fn channel_of_task<'a>(
    c: &mut Conn,
    caller: &'a Caller,
    task: &Task,
) -> Result<Option<ChannelAccess<'a>>, ChatError> {
    let found = match (task.thread_id, task.channel_id) {
        (Some(id), _) => thread(c, caller, id)
            .await
            .map(|access| access.channel_access),
        // The scheduled reply will start the thread, so only the channel exists now.
        (None, Some(id)) => channel(c, caller, id).await,
        (None, None) => return Ok(None),
    };
    found.map(Some).map_err(|_| ChatError::TaskNotFound)
}

/// Checks access to the thread that a schedule's reply will start, which is access to its channel.
///
/// # Errors
/// `ChannelNotFound`.
pub async fn coming_thread<'a>(
    c: &mut Conn,
    caller: &'a Caller,
    channel: ChannelId,
    thread: ThreadId,
) -> Result<ThreadAccess<'a>, ChatError> {
    Ok(ThreadAccess {
        channel_access: self::channel(c, caller, channel).await?,
        thread,
        archived: false,
        bound: false,
        fork: None,
    })
}

/// Checks whether a person can currently post in a channel, or in one of its threads.
pub async fn can_post(
    c: &mut Conn,
    user: UserId,
    channel: ChannelId,
    thread: Option<ThreadId>,
) -> Result<bool, DbError> {
    let role: Option<(Role,)> = c
        .q(concat!(
            "select m.role from channels ch join members m on m.workspace_id = ch.workspace_id and m.user_id = $2 \
             left join threads t on t.id = $3 where ch.id = $1 and ch.archived_at is null \
             and (t.id is null or t.status <> 'archived') and ",
            is_visible_channel!("ch", "$2")
        ))
        .bind(channel)
        .bind(user)
        .bind(thread)
        .opt()
        .await?;
    Ok(role.is_some_and(|(role,)| role.scopes().has(Scope::ChatWrite)))
}

/// Checks whether the requester of a task can currently post in its conversation and, if an API key started its chain, whether
/// that key can still post and invoke agents.
pub async fn requester_can_post(c: &mut Conn, task: &Task) -> Result<bool, DbError> {
    let role: Option<(Role,)> = c
        .q(concat!(
            "select m.role from tasks k join channels ch on ch.id = k.channel_id left join threads t on t.id = k.thread_id \
             join members m on m.workspace_id = k.workspace_id and m.user_id = k.requested_by \
             left join forks f on f.id = k.conversation_id where k.id = $1 and ch.archived_at is null \
             and (t.id is null or t.status <> 'archived') and (f.id is null or f.status = 'active') and ",
            is_visible_channel!("ch", "k.requested_by")
        ))
        .bind(task.id)
        .opt()
        .await?;
    let can_write = role.is_some_and(|(role,)| role.scopes().has(Scope::ChatWrite));
    if !can_write {
        return Ok(false);
    }
    let key: Option<ApiKeyId> = c
        .q("select api_key_id from tasks where id = $1")
        .bind(task.id)
        .value()
        .await?;
    match key {
        Some(key) => key_can_invoke(c, key, task.workspace_id).await,
        None => Ok(true),
    }
}

/// Checks whether the requester of a task can currently read its conversation.
pub async fn requester_can_read(c: &mut Conn, task: &Task) -> Result<bool, DbError> {
    let role: Option<(Role,)> = c
        .q(concat!(
            "select m.role from tasks k join channels ch on ch.id = k.channel_id \
             join members m on m.workspace_id = k.workspace_id and m.user_id = k.requested_by where k.id = $1 and ",
            is_visible_channel!("ch", "k.requested_by")
        ))
        .bind(task.id)
        .opt()
        .await?;
    Ok(role.is_some_and(|(role,)| role.scopes().has(Scope::ChatRead)))
}

/// Checks whether the requester of a run, and the API key that started it, are currently allowed to act. If the run has a channel,
/// they must be allowed to act there. `task` is the run's root or a task of one of its steps.
pub async fn requester_can_run(c: &mut Conn, task: &Task) -> Result<bool, DbError> {
    let row: Option<(Role, Option<ApiKeyId>)> = c
        .q(concat!(
            "select m.role, k.api_key_id from tasks k \
             join members m on m.workspace_id = k.workspace_id and m.user_id = k.requested_by \
             left join channels ch on ch.id = k.channel_id left join threads t on t.id = k.thread_id \
             where k.id = $1 and (t.id is null or t.status <> 'archived') and (k.channel_id is null or (ch.archived_at is null and ",
            is_visible_channel!("ch", "k.requested_by"),
            "))"
        ))
        .bind(task.id)
        .opt()
        .await?;
    // Guests run no workflows.
    let Some((role, key)) = row.filter(|(role, _)| *role != Role::Guest) else {
        return Ok(false);
    };
    let scopes = role.scopes();
    if !scopes.has(Scope::ChatWrite) || !scopes.has(Scope::AgentsUse) {
        return Ok(false);
    }
    match key {
        Some(key) => key_can_invoke(c, key, task.workspace_id).await,
        None => Ok(true),
    }
}

/// Checks whether the requester of a task currently has a scope and, if an API key started the task, whether that key still has
/// it.
pub async fn requester_has(c: &mut Conn, task: &Task, scope: Scope) -> Result<bool, DbError> {
    let row: Option<(Role, Option<ApiKeyId>)> = c
        .q("select m.role, k.api_key_id from tasks k \
            join members m on m.workspace_id = k.workspace_id and m.user_id = k.requested_by where k.id = $1")
        .bind(task.id)
        .opt()
        .await?;
    let Some((_, key)) = row.filter(|(role, _)| role.scopes().has(scope)) else {
        return Ok(false);
    };
    match key {
        Some(key) => key_has(c, key, task.workspace_id, &[scope]).await,
        None => Ok(true),
    }
}

/// Checks whether an API key can currently post and invoke agents.
pub async fn key_can_invoke(
    c: &mut Conn,
    key: ApiKeyId,
    workspace: WorkspaceId,
) -> Result<bool, DbError> {
    key_has(c, key, workspace, &[Scope::ChatWrite, Scope::AgentsUse]).await
}

/// Checks whether an API key is neither revoked nor expired and has these scopes.
async fn key_has(
    c: &mut Conn,
    key: ApiKeyId,
    workspace: WorkspaceId,
    needed: &[Scope],
) -> Result<bool, DbError> {
    let scopes: Option<(Json<Scopes>,)> = c
        .q("select scopes from api_keys where id = $1 and workspace_id = $2 and (expires_at is null or expires_at > $3)")
        .bind(key)
        .bind(workspace)
        .bind(now())
        .opt()
        .await?;
    Ok(scopes.is_some_and(|(Json(scopes),)| needed.iter().all(|scope| scopes.has(*scope))))
}

/// Checks that a task is the caller's own if its kind is personal.
///
/// # Errors
/// `TaskNotFound`.
pub fn check_personal(caller: &Caller, task: &Task) -> Result<(), ChatError> {
    if task.kind.is_personal() && task.requested_by != caller.user {
        return Err(ChatError::TaskNotFound);
    }
    Ok(())
}

/// Checks access to the conversation that contains a message.
///
/// # Errors
/// `MessageNotFound`.
pub async fn message<'a>(
    c: &mut Conn,
    caller: &'a Caller,
    id: MessageId,
) -> Result<ThreadAccess<'a>, ChatError> {
    let row: Option<(ThreadId, Option<ForkId>)> = c
        .q("select thread_id, nullif(conversation_id, thread_id) from messages where id = $1")
        .bind(id)
        .opt()
        .await?;
    let (thread, fork) = row.ok_or(ChatError::MessageNotFound)?;
    let conversation = fork.map_or(Conversation::Thread(thread), Conversation::Fork);
    find_conversation(c, caller, conversation)
        .await
        .map_err(|e| match e {
            ChatError::ThreadNotFound | ChatError::ForkNotFound => ChatError::MessageNotFound,
            other => other,
        })
}

impl ChannelAccess<'_> {
    /// Recipients of the channel's events.
    pub fn audience(&self) -> Audience {
        if self.kind == ChannelKind::Public {
            Audience::Public(self.channel)
        } else {
            Audience::Members(self.channel)
        }
    }

    /// # Errors
    /// Any error from `Actor::require`.
    pub fn reading(self) -> Result<Self, ChatError> {
        self.actor.require(Scope::ChatRead)?;
        Ok(self)
    }

    /// # Errors
    /// `ChannelArchived`, or any error from `Actor::require`.
    pub fn writing(self) -> Result<Self, ChatError> {
        self.actor.require(Scope::ChatWrite)?;
        if self.archived {
            return Err(ChatError::ChannelArchived);
        }
        Ok(self)
    }
}

impl ThreadAccess<'_> {
    pub fn conversation(&self) -> Conversation {
        self.fork.map_or(Conversation::Thread(self.thread), |fork| {
            Conversation::Fork(fork.id)
        })
    }

    /// Checks whether this is the main line of a thread in a public or private channel.
    pub fn is_shared_thread(&self) -> bool {
        self.fork.is_none() && self.channel_access.kind != ChannelKind::Direct
    }

    pub fn fork_id(&self) -> Option<ForkId> {
        self.fork.map(|fork| fork.id)
    }

    /// Requires the conversation to be in this workspace, because its members may belong to others, too.
    ///
    /// # Errors
    /// `ThreadNotFound` or `ForkNotFound`.
    pub fn within(self, workspace: WorkspaceId) -> Result<Self, ChatError> {
        if self.channel_access.actor.workspace == workspace {
            return Ok(self);
        }
        Err(match self.fork {
            None => ChatError::ThreadNotFound,
            Some(_) => ChatError::ForkNotFound,
        })
    }

    /// # Errors
    /// Any error from `Actor::require`.
    pub fn reading(self) -> Result<Self, ChatError> {
        self.channel_access.actor.require(Scope::ChatRead)?;
        Ok(self)
    }

    /// # Errors
    /// `ThreadArchived`, `ChannelArchived`, `ForkClosed`, or any error from `Actor::require`.
    pub fn writing(self) -> Result<Self, ChatError> {
        let access = self.writing_closed()?;
        if access.fork.is_some_and(|fork| !fork.is_active) {
            return Err(ChatError::ForkClosed);
        }
        Ok(access)
    }

    /// Like `writing`, but also allowed in a resolved or abandoned fork.
    ///
    /// # Errors
    /// `ThreadArchived`, `ChannelArchived`, or any error from `Actor::require`.
    pub fn writing_closed(self) -> Result<Self, ChatError> {
        let channel_access = self.channel_access.writing()?;
        if self.archived {
            return Err(ChatError::ThreadArchived);
        }
        Ok(Self {
            channel_access,
            ..self
        })
    }
}
