//! Entries as they are stored, and lookups within what the caller can see.

use uuid::Uuid;

use crate::{
    agents::policy::{self, MemoryPolicy},
    auth::{Actor, Scope},
    db::{
        Conn, DbError, Json, dialect::hexadecimal_ids, is_in_visible_channel, is_visible_channel,
        now,
    },
    ids::{AgentId, ChannelId, CompactionId, ForkId, MemoryId, ThreadId, UserId, WorkspaceId},
    memory::{
        MemoryError,
        entry::{
            Entry, MemoryKind, MemoryObject, MemoryOrigin, MemoryScope, MemoryStatus, MemoryTrust,
            Visibility,
        },
        sources::sources_of,
    },
    sql_with_ids,
    time::Timestamp,
};

#[derive(sqlx::FromRow)]
pub(super) struct Row {
    pub(super) id: MemoryId,
    scope: MemoryScope,
    kind: MemoryKind,
    text: String,
    agent_id: Option<AgentId>,
    user_id: Option<UserId>,
    about_user_id: Option<UserId>,
    thread_id: Option<ThreadId>,
    fork_id: Option<ForkId>,
    compaction_id: Option<CompactionId>,
    visibility: Visibility,
    channel_id: Option<ChannelId>,
    trust: MemoryTrust,
    origin: MemoryOrigin,
    status: MemoryStatus,
    superseded_by: Option<MemoryId>,
    share_with_organization: bool,
    flagged: bool,
    uses: i64,
    last_used_at: Option<Timestamp>,
    expires_at: Option<Timestamp>,
    version: i64,
    created_by: Option<UserId>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// Owner of an entry in a workspace. The scope determines which of these fields are used.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EntryOwner {
    pub(super) user: Option<UserId>,
    pub(super) agent: Option<AgentId>,
    pub(super) conversation: Option<Uuid>,
}

impl EntryOwner {
    /// Value of the column `key` for this owner and scope.
    pub(super) fn key(self, scope: MemoryScope, workspace: WorkspaceId) -> String {
        let id = |id: Option<Uuid>| id.unwrap_or_default().simple();
        let user = id(self.user.map(|user| user.0));
        let agent = id(self.agent.map(|agent| agent.0));
        match scope {
            MemoryScope::Conversation => format!("{scope}:{}", id(self.conversation)),
            MemoryScope::User => format!("{scope}:{user}"),
            MemoryScope::Persona => format!("{scope}:{user}:{agent}"),
            MemoryScope::Agent => format!("{scope}:{agent}"),
            MemoryScope::Organization => format!("{scope}:{}", workspace.0.simple()),
        }
    }
}

/// Selects the entries `e` that the user `$2` can see and that have not expired. The other parameters are the workspace `$1`, whether
/// the caller can read chats `$3` and agents `$4`, the hidden agents `$5`, the current time `$6`, and `unused_since` of the policy
/// `$7`. Every person can see their personal entries and the entries about them. All other entries, except personal ones, are visible
/// to those who can read their sources and the channel to which they belong.
macro_rules! entry_sql {
    ($c:expr, $tail:expr) => {
        sql_with_ids!(
            $c,
            "select e.id, e.scope, e.kind, e.text, e.agent_id, e.user_id, e.about_user_id, e.thread_id, \
             nullif(e.conversation_id, e.thread_id) as fork_id, e.compaction_id, e.visibility, e.channel_id, e.trust, e.origin, e.status, \
             e.superseded_by, e.share_with_organization, e.flagged, e.uses, e.last_used_at, e.expires_at, e.version, e.created_by, \
             e.created_at, e.updated_at from memories e where e.workspace_id = $1 and e.forgotten_at is null \
             and (e.expires_at is null or e.expires_at > $6) \
             and (e.origin <> 'auto' or coalesce(e.last_used_at, e.created_at) > $7) and (($3 and (e.user_id = $2 or e.about_user_id = $2)) or (case e.scope when 'organization' then $3 \
             when 'agent' then $4 and e.agent_id not in",
            5,
            concat!(
                "when 'conversation' then $3 and exists (select 1 from threads t join channels h on h.id = t.channel_id \
                 where t.id = e.thread_id and ",
                is_visible_channel!("h", "$2"),
                ") else FALSE end and (e.channel_id is null or ",
                is_in_visible_channel!("e.channel_id", "$2"),
                ") and not exists (select 1 from citations k left join messages m on m.id = k.source_id \
                 where k.owner_type = 'memory' and k.owner_id = e.id and k.source_type = 'message' \
                 and (m.id is null or not ",
                is_in_visible_channel!("m.channel_id", "$2"),
                ")))) ",
                $tail
            )
        )
    };
}
pub(super) use entry_sql;

/// Rights of a caller to see entries.
pub(super) struct EntryVisibility {
    pub(super) workspace: WorkspaceId,
    pub(super) user: UserId,
    pub(super) chats: bool,
    pub(super) agents: bool,
    pub(super) hidden_agents: Json<Vec<String>>,
    /// Rules of the workspace.
    pub(super) policy: MemoryPolicy,
}

impl EntryVisibility {
    /// Rights to read entries.
    pub(super) async fn of(c: &mut Conn, actor: &Actor<'_>) -> Result<Self, DbError> {
        let hidden = crate::agents::profiles::list_hidden(c, actor).await?;
        Ok(Self {
            workspace: actor.workspace,
            user: actor.user,
            chats: actor.scopes.has(Scope::ChatRead),
            agents: actor.scopes.has(Scope::AgentsRead),
            hidden_agents: hexadecimal_ids(hidden.into_iter().map(|agent| agent.0)),
            policy: policy::find(c, actor.workspace).await?.memory,
        })
    }

    /// Rights to read or change entries. They cover both, because an API key that can write may not be able to read.
    async fn to_change(c: &mut Conn, actor: &Actor<'_>) -> Result<Self, DbError> {
        let visibility = Self::of(c, actor).await?;
        Ok(Self {
            chats: visibility.chats || actor.scopes.has(Scope::ChatWrite),
            agents: visibility.agents || actor.scopes.has(Scope::AgentsWrite),
            ..visibility
        })
    }
}

impl Row {
    /// Time at which the entry will be forgotten, unless it is used before then.
    fn expires_at(&self, policy: MemoryPolicy) -> Option<Timestamp> {
        let retention = policy.retention();
        let retention = retention.filter(|_| self.origin == MemoryOrigin::Auto);
        let unused = retention.map(|time| self.last_used_at.unwrap_or(self.created_at) + time);
        self.expires_at.into_iter().chain(unused).min()
    }
}

/// Adds the sources to all rows with one statement.
pub(super) async fn with_sources(
    c: &mut Conn,
    rows: Vec<Row>,
    policy: MemoryPolicy,
) -> Result<Vec<Entry>, DbError> {
    let mut sources = sources_of(c, rows.iter().map(|row| row.id).collect()).await?;
    let entries = rows.into_iter().map(|row| Entry {
        object: MemoryObject,
        expires_at: row.expires_at(policy),
        source_message_ids: sources.remove(&row.id).unwrap_or_default(),
        compaction_id: row.compaction_id,
        id: row.id,
        scope: row.scope,
        kind: row.kind,
        text: row.text,
        agent_id: row.agent_id,
        user_id: row.user_id,
        about_user_id: row.about_user_id,
        thread_id: row.thread_id,
        fork_id: row.fork_id,
        visibility: row.visibility,
        channel_id: row.channel_id,
        trust: row.trust,
        origin: row.origin,
        status: row.status,
        superseded_by: row.superseded_by,
        share_with_organization: row.share_with_organization,
        flagged: row.flagged,
        uses: row.uses,
        last_used_at: row.last_used_at,
        version: row.version,
        created_by: row.created_by,
        created_at: row.created_at,
        updated_at: row.updated_at,
    });
    Ok(entries.collect())
}

/// An entry that the actor can see.
///
/// # Errors
/// `NotFound`.
pub async fn get(c: &mut Conn, actor: &Actor<'_>, id: MemoryId) -> Result<Entry, MemoryError> {
    let visibility = EntryVisibility::of(c, actor).await?;
    find(c, visibility, id).await
}

/// An entry that the actor can see, or could see if its API key with write access also had read access.
///
/// # Errors
/// `NotFound`.
pub(super) async fn get_to_change(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: MemoryId,
) -> Result<Entry, MemoryError> {
    let visibility = EntryVisibility::to_change(c, actor).await?;
    find(c, visibility, id).await
}

async fn find(
    c: &mut Conn,
    visibility: EntryVisibility,
    id: MemoryId,
) -> Result<Entry, MemoryError> {
    let at = now();
    let sql = entry_sql!(c, "and e.id = $8");
    let rows: Vec<Row> = c
        .q(sql)
        .bind(visibility.workspace)
        .bind(visibility.user)
        .bind(visibility.chats)
        .bind(visibility.agents)
        .bind(visibility.hidden_agents)
        .bind(at)
        .bind(visibility.policy.unused_since(at))
        .bind(id)
        .all()
        .await?;
    let mut found = with_sources(c, rows, visibility.policy).await?;
    found.pop().ok_or(MemoryError::NotFound)
}

/// Workspace of an entry, for its write queue.
///
/// # Errors
/// `NotFound`.
pub async fn workspace_of(c: &mut Conn, id: MemoryId) -> Result<WorkspaceId, MemoryError> {
    let row: Option<(WorkspaceId,)> = c
        .q("select workspace_id from memories where id = $1 and forgotten_at is null")
        .bind(id)
        .opt()
        .await?;
    row.map(|(workspace,)| workspace)
        .ok_or(MemoryError::NotFound)
}
