//! Copies of entries for the whole workspace.

use uuid::Uuid;

use crate::{
    agents::policy,
    auth::{self, Actor, Scope},
    db::{
        Conn, DbError,
        dialect::{
            self,
            memory::{self as store, Use},
        },
        now,
    },
    ids::{ChannelId, MemoryId, UserId, WorkspaceId},
    memory::{
        MemoryError,
        content::Content,
        create::{self, Draft},
        entry::{
            Entry, MemoryKind, MemoryOrigin, MemoryScope, MemoryStatus, MemoryTrust, Visibility,
        },
        find::{self, EntryOwner},
        settings,
        sources::Grounds,
    },
    secrets::Keyring,
    time::Timestamp,
};

/// Maximum number of published entries for a prompt.
const LISTED_MAX: i64 = 200;

/// A published entry.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct PublishedEntry {
    pub id: MemoryId,
    pub text: String,
    pub created_at: Timestamp,
}

/// Lists the published entries that everyone in the channel can read, most frequently used first. Without a channel, lists the
/// entries that everyone in the workspace can read. Returns an empty list if memory is off.
pub async fn list_published(
    c: &mut Conn,
    workspace: WorkspaceId,
    reader: UserId,
    channel: Option<ChannelId>,
) -> Result<Vec<PublishedEntry>, DbError> {
    let (nobody, at) = (Uuid::nil(), now());
    let place = Use {
        workspace: workspace.0,
        channel: channel.map_or(nobody, |channel| channel.0),
        conversation: nobody,
        requester: reader.0,
        agent: nobody,
        is_alone: false,
        now: at,
        unused_since: policy::find(c, workspace).await?.memory.unused_since(at),
        scopes: settings::scopes_on(c, workspace, reader).await?,
    };
    let key = EntryOwner::default().key(MemoryScope::Organization, workspace);
    store::published_entries(c, &place, key, LISTED_MAX).await
}

/// Copies an entry to the scope `organization`, and returns the copy.
///
/// # Errors
/// `NotFound`, `NotShared`, `KindNotAllowed`, `NotVisibleThere`, `Off`, or an error from `Actor::require`.
pub async fn publish(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: MemoryId,
    keyring: &Keyring,
) -> Result<Entry, MemoryError> {
    actor.require(Scope::ChatRead)?;
    dialect::lock_workspace(c, actor.workspace.0).await?;
    let entry = find::get(c, actor, id).await?;
    actor.require(Scope::WorkspaceAdmin)?;
    settings::check_on(c, actor, MemoryScope::Organization).await?;
    if !entry.share_with_organization {
        return Err(MemoryError::NotShared);
    }
    let is_allowed = matches!(
        entry.kind,
        MemoryKind::Fact | MemoryKind::Person | MemoryKind::Project | MemoryKind::Decision
    );
    let is_current = entry.status == MemoryStatus::Active;
    if !is_allowed || !is_current || entry.trust != MemoryTrust::Person {
        return Err(MemoryError::KindNotAllowed);
    }
    let sources = &entry.source_message_ids;
    let grounds = Grounds::read(c, actor, entry.thread_id, sources).await?;
    let reach = grounds.reach(MemoryScope::Organization, Some(Visibility::Workspace))?;
    let draft = Draft {
        id: MemoryId::new(),
        scope: MemoryScope::Organization,
        key: EntryOwner::default().key(MemoryScope::Organization, actor.workspace),
        kind: entry.kind,
        content: Content::parse(&entry.text, actor.workspace, keyring)?,
        agent: None,
        user: None,
        about: entry.about_user_id,
        thread: None,
        conversation: None,
        compaction: None,
        reach,
        trust: entry.trust,
        origin: MemoryOrigin::Published,
        created_by: Some(actor.user),
    };
    let (copy, is_new) = create::insert(c, actor.workspace, &draft, sources).await?;
    if is_new {
        // Because of this citation, the copy is forgotten together with the entry.
        c.q("insert into citations (source_type, source_id, owner_type, owner_id) values ('memory', $1, 'memory', $2) on conflict do nothing")
            .bind(id)
            .bind(copy)
            .run()
            .await?;
    }
    let data = serde_json::json!({"memory_id": id});
    auth::record_audit(
        c,
        actor,
        auth::AuditAction::MemoryPublished,
        copy.to_string(),
        data,
    )
    .await?;
    find::get(c, actor, copy).await
}
