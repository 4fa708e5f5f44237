//! Copies of entries for the whole workspace.

use crate::{
    auth::{self, Actor, Scope},
    db::{Conn, dialect},
    ids::MemoryId,
    memory::{
        MemoryError,
        content::Content,
        create::{self, Draft},
        entry::{
            Entry, MemoryKind, MemoryOrigin, MemoryScope, MemoryStatus, MemoryTrust, Visibility,
        },
        find::{self, key_of},
        settings,
        sources::Grounds,
    },
    secrets::Keyring,
};

/// Copies an entry to the scope `organization`; returns the copy.
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
        key: key_of(
            MemoryScope::Organization,
            actor.workspace,
            (None, None),
            None,
        ),
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
        // The copy is forgotten with the entry.
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
