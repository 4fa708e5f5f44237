//! Entries that people write.

use uuid::Uuid;

use crate::{
    agents::{AgentError, entries, entries::MemoryAction, profiles},
    auth::{Actor, Caller, Scope, quota},
    chat::{access, post},
    db::{Conn, DbError, dialect, now},
    ids::{AgentId, ChannelId, CompactionId, MemoryId, MessageId, ThreadId, UserId, WorkspaceId},
    memory::{
        MemoryError,
        content::Content,
        entry::{
            Entry, MemoryKind, MemoryOrigin, MemoryScope, MemoryStatus, MemoryTrust, Visibility,
        },
        find::{self, EntryOwner},
        settings,
        sources::{self, Grounds, Reach, SOURCES_MAX},
    },
};

/// Maximum number of active entries with the same key. `WORKSPACE_ENTRIES_MAX` is the maximum in a workspace.
pub const KEY_ENTRIES_MAX: i64 = 2_000;
pub const WORKSPACE_ENTRIES_MAX: i64 = 50_000;
/// Maximum number of active entries that one person wrote in a workspace. Prevents a single person from filling the
/// workspace.
pub const PERSON_ENTRIES_MAX: i64 = 10_000;

/// A new entry. `scope` defaults to `conversation` if there is a thread, and to `user` otherwise.
#[derive(Debug, Clone)]
pub struct NewEntry {
    pub content: Content,
    pub kind: MemoryKind,
    pub scope: Option<MemoryScope>,
    pub agent: Option<AgentId>,
    pub thread: Option<ThreadId>,
    pub sources: Vec<MessageId>,
    pub visibility: Option<Visibility>,
    pub client_id: Option<String>,
}

impl NewEntry {
    /// Value of the column `key`.
    fn key(&self, scope: MemoryScope, actor: &Actor<'_>) -> String {
        let owner = EntryOwner {
            user: scope.is_personal().then_some(actor.user),
            agent: self.agent,
            conversation: self.thread.map(|thread| thread.0),
        };
        owner.key(scope, actor.workspace)
    }
}

/// Result of a creation: the entry, and whether it is new.
#[derive(Debug)]
pub struct Created {
    pub entry: Entry,
    pub is_new: bool,
}

/// An entry before it is stored.
pub(super) struct Draft {
    pub(super) id: MemoryId,
    pub(super) scope: MemoryScope,
    pub(super) key: String,
    pub(super) kind: MemoryKind,
    pub(super) content: Content,
    pub(super) agent: Option<AgentId>,
    pub(super) user: Option<UserId>,
    pub(super) about: Option<UserId>,
    pub(super) thread: Option<ThreadId>,
    /// The thread, or a fork of it.
    pub(super) conversation: Option<Uuid>,
    pub(super) compaction: Option<CompactionId>,
    pub(super) reach: Reach,
    pub(super) trust: MemoryTrust,
    pub(super) origin: MemoryOrigin,
    pub(super) created_by: Option<UserId>,
}

fn wrong_key(param: &'static str, rule: &str) -> MemoryError {
    MemoryError::Invalid(rule.to_owned(), param)
}

/// Checks that the entry has exactly the IDs that its scope needs.
fn check_key(new: &NewEntry, scope: MemoryScope) -> Result<(), MemoryError> {
    let (needs_thread, needs_agent) = match scope {
        MemoryScope::Conversation => (true, false),
        MemoryScope::User => (false, false),
        MemoryScope::Persona | MemoryScope::Agent => (false, true),
        MemoryScope::Organization => {
            let rule = "memories of the workspace are published copies: use POST /v1/memories/{id}/publish";
            return Err(wrong_key("scope", rule));
        }
    };
    if new.thread.is_some() != needs_thread {
        let rule = "a memory must have a thread_id if, and only if, its scope is `conversation`";
        return Err(wrong_key("thread_id", rule));
    }
    if new.agent.is_some() != needs_agent {
        let rule =
            "a memory must have an agent_id if, and only if, its scope is `persona` or `agent`";
        return Err(wrong_key("agent_id", rule));
    }
    Ok(())
}

/// Checks the caller's access to the thread and the agent of an entry.
async fn check_place(
    c: &mut Conn,
    caller: &Caller,
    actor: &Actor<'_>,
    new: &NewEntry,
) -> Result<(), MemoryError> {
    if let Some(thread) = new.thread {
        let access = access::thread(c, caller, thread).await?.writing()?;
        if access.channel_access.actor.workspace != actor.workspace {
            return Err(crate::chat::ChatError::ThreadNotFound.into());
        }
    }
    if let Some(agent) = new.agent
        && !profiles::is_visible(c, actor, agent).await?
    {
        return Err(AgentError::NotFound.into());
    }
    Ok(())
}

/// Builds the draft of a new entry.
///
/// # Errors
/// `Invalid` if the sources do not fit the scope, or `NotVisibleThere`.
fn draft_of(
    actor: &Actor<'_>,
    new: &NewEntry,
    scope: MemoryScope,
    id: MemoryId,
    grounds: &Grounds,
) -> Result<Draft, MemoryError> {
    let is_personal = scope.is_personal();
    if is_personal && grounds.trust == MemoryTrust::Agent {
        let rule = "an agent's reply cannot be the source of a memory about you";
        return Err(MemoryError::Invalid(rule.to_owned(), "source_message_ids"));
    }
    let user = is_personal.then_some(actor.user);
    Ok(Draft {
        id,
        scope,
        key: new.key(scope, actor),
        kind: new.kind,
        content: new.content.clone(),
        agent: new.agent,
        user,
        about: None,
        thread: new.thread,
        conversation: new.thread.map(|thread| thread.0),
        compaction: None,
        reach: grounds.reach(scope, new.visibility)?,
        trust: grounds.trust,
        origin: MemoryOrigin::Hand,
        created_by: Some(actor.user),
    })
}

/// Stores an entry, or adds its sources to an identical one with the same key.
///
/// # Errors
/// `Invalid`, `NotVisibleThere`, `Off`, `Full`, or an error from the access checks.
pub async fn create(
    c: &mut Conn,
    caller: &Caller,
    actor: &Actor<'_>,
    new: &NewEntry,
) -> Result<Created, MemoryError> {
    let scope = new.scope.unwrap_or(match new.thread {
        Some(_) => MemoryScope::Conversation,
        None => MemoryScope::User,
    });
    check_key(new, scope)?;
    actor.require(match scope {
        MemoryScope::Agent => Scope::AgentsWrite,
        _ => Scope::ChatWrite,
    })?;
    dialect::lock_workspace(c, actor.workspace.0).await?;
    check_place(c, caller, actor, new).await?;
    settings::check_on(c, actor, scope).await?;
    if let Some(thread) = new.thread {
        settings::check_thread_on(c, thread).await?;
    }
    let id = MemoryId::new();
    let place = format!("memories {}", new.key(scope, actor));
    let client_id = new.client_id.as_deref();
    if let Some(known) = post::claim_client_id(c, actor, client_id, &place, id.0).await? {
        return Ok(Created {
            entry: find::get_to_change(c, actor, MemoryId(known)).await?,
            is_new: false,
        });
    }
    if new.sources.len() > SOURCES_MAX {
        let rule = format!("a memory can have at most {SOURCES_MAX} sources");
        return Err(MemoryError::Invalid(rule, "source_message_ids"));
    }
    let mut messages = new.sources.clone();
    messages.sort_unstable();
    messages.dedup();
    let grounds = Grounds::read(c, actor, new.thread, &messages).await?;
    let draft = draft_of(actor, new, scope, id, &grounds)?;
    let (stored, is_new) = insert(c, actor.workspace, &draft, &messages).await?;
    if stored != id && new.client_id.is_some() {
        c.q("update client_ids set object_id = $4 where workspace_id = $1 and user_id = $2 and client_id = $3")
            .bind(actor.workspace)
            .bind(actor.user)
            .bind(new.client_id.clone())
            .bind(stored)
            .run()
            .await?;
    }
    Ok(Created {
        entry: find::get_to_change(c, actor, stored).await?,
        is_new,
    })
}

/// An entry of an archive: of an agent, or of the workspace.
#[derive(Debug, Clone)]
pub struct ImportedEntry {
    /// ID of the new entry.
    pub id: MemoryId,
    pub content: Content,
    pub kind: MemoryKind,
    /// `None` for an entry of the workspace.
    pub agent: Option<AgentId>,
    /// The channel in which agents use it; `None` for all.
    pub channel: Option<ChannelId>,
}

/// Stores an entry of an archive on behalf of an admin. It is trusted like the reply of an agent: nobody here has stated it. Returns `None`
/// if there is an equal entry, which stays as it is. The workspace must be locked.
///
/// # Errors
/// `Off`, `Full`, `NotFound` for an agent that the actor cannot see, or an error from `Actor::require`.
pub async fn insert_imported(
    c: &mut Conn,
    actor: &Actor<'_>,
    new: &ImportedEntry,
) -> Result<Option<MemoryId>, MemoryError> {
    actor.require(Scope::WorkspaceAdmin)?;
    let (scope, origin) = match new.agent {
        Some(_) => (MemoryScope::Agent, MemoryOrigin::Hand),
        None => (MemoryScope::Organization, MemoryOrigin::Published),
    };
    if let Some(agent) = new.agent
        && !profiles::is_visible(c, actor, agent).await?
    {
        return Err(AgentError::NotFound.into());
    }
    settings::check_on(c, actor, scope).await?;
    let owner = EntryOwner {
        user: None,
        agent: new.agent,
        conversation: None,
    };
    let draft = Draft {
        id: new.id,
        scope,
        key: owner.key(scope, actor.workspace),
        kind: new.kind,
        content: new.content.clone(),
        agent: new.agent,
        user: None,
        about: None,
        thread: None,
        conversation: None,
        compaction: None,
        reach: Reach {
            visibility: match new.channel {
                Some(_) => Visibility::Channel,
                None => Visibility::Workspace,
            },
            channel: new.channel,
        },
        trust: MemoryTrust::Agent,
        origin,
        created_by: Some(actor.user),
    };
    let (id, is_new) = insert(c, actor.workspace, &draft, &[]).await?;
    Ok(is_new.then_some(id))
}

/// Stores a draft, or adds its sources to an identical entry with the same key and reach. Returns the entry, and whether it is new.
pub(super) async fn insert(
    c: &mut Conn,
    workspace: WorkspaceId,
    draft: &Draft,
    messages: &[MessageId],
) -> Result<(MemoryId, bool), MemoryError> {
    if let Some(equal) = find_equal(c, workspace, draft).await? {
        merge(c, equal, messages).await?;
        return Ok((equal, false));
    }
    if draft.origin == MemoryOrigin::Hand {
        check_share(c, workspace, draft.created_by).await?;
    }
    make_room(c, workspace, &draft.key, 1).await?;
    let bytes = i64::try_from(draft.content.text.len()).unwrap_or(i64::MAX);
    quota::check_bytes(c, workspace, bytes.saturating_add(quota::ROW_BYTES)).await?;
    put(c, workspace, draft, messages).await?;
    Ok((draft.id, true))
}

/// An active entry with the same key, reach, and text. Automatic and handwritten entries are never treated as equal,
/// because an automatic entry can be made again independently.
pub(super) async fn find_equal(
    c: &mut Conn,
    workspace: WorkspaceId,
    draft: &Draft,
) -> Result<Option<MemoryId>, DbError> {
    for hash in &draft.content.hashes {
        let equal: Option<(MemoryId,)> = c
            .q("select id from memories where workspace_id = $1 and hash = $2 and key = $3 and status = 'active' \
                and forgotten_at is null and visibility = $4 and (origin = 'auto') = $5 order by id limit 1")
            .bind(workspace)
            .bind(hash.clone())
            .bind(draft.key.clone())
            .bind(draft.reach.visibility)
            .bind(draft.origin == MemoryOrigin::Auto)
            .opt()
            .await?;
        if let Some((equal,)) = equal {
            return Ok(Some(equal));
        }
    }
    Ok(None)
}

/// Stores a draft with its words and sources, and announces it.
pub(super) async fn put(
    c: &mut Conn,
    workspace: WorkspaceId,
    draft: &Draft,
    messages: &[MessageId],
) -> Result<(), DbError> {
    store(c, workspace, draft, messages).await?;
    entries::announce(c, draft.id, MemoryAction::Created).await
}

/// Stores a draft with its words and sources.
pub(super) async fn store(
    c: &mut Conn,
    workspace: WorkspaceId,
    draft: &Draft,
    messages: &[MessageId],
) -> Result<(), DbError> {
    let at = now();
    c.q("insert into memories (id, workspace_id, scope, key, kind, text, hash, words, agent_id, user_id, about_user_id, thread_id, \
         conversation_id, compaction_id, channel_id, visibility, trust, origin, status, superseded_by, share_with_organization, flagged, \
         uses, last_used_at, expires_at, version, created_by, created_at, updated_at, forgotten_at) \
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $20, $21, $13, $14, $15, $16, $17, null, FALSE, FALSE, 0, null, null, \
         1, $18, $19, $19, null)")
        .bind(draft.id)
        .bind(workspace)
        .bind(draft.scope)
        .bind(draft.key.clone())
        .bind(draft.kind)
        .bind(draft.content.text.clone())
        .bind(draft.content.hashes.first().cloned())
        .bind(draft.content.word_count())
        .bind(draft.agent)
        .bind(draft.user)
        .bind(draft.about)
        .bind(draft.thread)
        .bind(draft.reach.channel)
        .bind(draft.reach.visibility)
        .bind(draft.trust)
        .bind(draft.origin)
        .bind(MemoryStatus::Active)
        .bind(draft.created_by)
        .bind(at)
        .bind(draft.conversation)
        .bind(draft.compaction)
        .run()
        .await?;
    draft.content.index(c, workspace, draft.id).await?;
    sources::cite(c, draft.id, messages).await
}

/// Adds sources to an entry that already has some. An entry without sources stays without them, because it must not be
/// removed together with a message.
pub(super) async fn merge(
    c: &mut Conn,
    id: MemoryId,
    messages: &[MessageId],
) -> Result<(), DbError> {
    let has_sources: bool = c
        .q("select exists (select 1 from citations where owner_type = 'memory' and owner_id = $1 and source_type = 'message')")
        .bind(id)
        .value()
        .await?;
    if has_sources && !messages.is_empty() {
        sources::cite(c, id, messages).await?;
        touch(c, id).await?;
        entries::announce(c, id, MemoryAction::Updated).await?;
    }
    Ok(())
}

async fn touch(c: &mut Conn, id: MemoryId) -> Result<(), DbError> {
    c.q("update memories set version = version + 1, updated_at = $2 where id = $1")
        .bind(id)
        .bind(now())
        .run()
        .await?;
    Ok(())
}

/// Checks the limit on the entries that one person writes.
///
/// # Errors
/// `Full` if the person has written too many entries in the workspace.
async fn check_share(
    c: &mut Conn,
    workspace: WorkspaceId,
    person: Option<UserId>,
) -> Result<(), MemoryError> {
    let count: i64 = c
        .q("select count(*) from memories where workspace_id = $1 and created_by = $2 and origin = 'hand' and status = 'active' and forgotten_at is null")
        .bind(workspace)
        .bind(person)
        .value()
        .await?;
    if count >= PERSON_ENTRIES_MAX {
        return Err(MemoryError::Full(PERSON_ENTRIES_MAX));
    }
    Ok(())
}

/// Archives the least used entries with an origin other than `hand` if `more` new entries would exceed a limit.
///
/// # Errors
/// `Full` if too few of these entries exist.
pub(super) async fn make_room(
    c: &mut Conn,
    workspace: WorkspaceId,
    key: &str,
    more: i64,
) -> Result<(), MemoryError> {
    for (key, limit) in [
        (Some(key.to_owned()), KEY_ENTRIES_MAX),
        (None, WORKSPACE_ENTRIES_MAX),
    ] {
        let count: i64 = c
            .q("select count(*) from memories where workspace_id = $1 and (key = $2 or $2 is null) and status = 'active' and forgotten_at is null")
            .bind(workspace)
            .bind(key.clone())
            .value()
            .await?;
        if count + more <= limit {
            continue;
        }
        let archived: Vec<(MemoryId,)> = c
            .q("update memories set status = 'archived', version = version + 1, updated_at = $3 where id in (select id from memories \
                where workspace_id = $1 and (key = $2 or $2 is null) and status = 'active' and forgotten_at is null and origin <> 'hand' \
                order by uses, coalesce(last_used_at, created_at), id limit $4) returning id")
            .bind(workspace)
            .bind(key)
            .bind(now())
            .bind(count + more - limit)
            .all()
            .await?;
        if i64::try_from(archived.len()).unwrap_or(i64::MAX) < count + more - limit {
            return Err(MemoryError::Full(limit));
        }
        for (id,) in archived {
            entries::announce(c, id, MemoryAction::Updated).await?;
        }
    }
    Ok(())
}
