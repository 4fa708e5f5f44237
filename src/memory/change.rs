//! Changes to entries by people.

use crate::{
    agents::{entries, entries::MemoryAction},
    auth::{Actor, Caller, Scope},
    chat::access,
    db::{Conn, dialect, now},
    ids::MemoryId,
    memory::{
        MemoryError,
        content::Content,
        entry::{Entry, MemoryKind, MemoryOrigin, MemoryScope, MemoryStatus, Visibility},
        find,
        sources::{Grounds, Reach},
    },
    secrets::Keyring,
};

/// Fields to change; omitted fields are unchanged.
#[derive(Debug, Clone, Default)]
pub struct EntryPatch {
    pub text: Option<String>,
    pub kind: Option<MemoryKind>,
    pub visibility: Option<Visibility>,
    pub share_with_organization: Option<bool>,
    pub flagged: Option<bool>,
    pub status: Option<MemoryStatus>,
}

/// Requires the right to change the caller's own data: people have it in every role, and API keys need `chat:write`.
pub(super) fn require_own(actor: &Actor<'_>) -> Result<(), MemoryError> {
    if actor.key.is_some() {
        actor.require(Scope::ChatWrite)?;
    }
    Ok(())
}

/// Requires an API key to have a scope for changing entries: `chat:write` or `agents:write`. The kind of entry determines which of
/// them is needed.
///
/// # Errors
/// An error from `Actor::require`.
pub(super) fn require_some(actor: &Actor<'_>) -> Result<(), MemoryError> {
    // A person's own entries can be changed in any role.
    if actor.key.is_some() && !actor.scopes.has(Scope::AgentsWrite) {
        actor.require(Scope::ChatWrite)?;
    }
    Ok(())
}

/// Requires the right to change an entry that the actor can see.
///
/// # Errors
/// `NotFound` for the personal entry of another person, or an error from the access checks.
pub(super) async fn require_change(
    c: &mut Conn,
    caller: &Caller,
    actor: &Actor<'_>,
    entry: &Entry,
) -> Result<(), MemoryError> {
    match entry.scope {
        MemoryScope::Conversation => {
            let thread = entry.thread_id.ok_or(MemoryError::NotFound)?;
            access::thread(c, caller, thread).await?.writing()?;
        }
        MemoryScope::User | MemoryScope::Persona => {
            if entry.user_id != Some(actor.user) {
                return Err(MemoryError::NotFound);
            }
            require_own(actor)?;
        }
        MemoryScope::Agent => actor.require(Scope::AgentsWrite)?,
        MemoryScope::Organization => actor.require(Scope::WorkspaceAdmin)?,
    }
    Ok(())
}

/// Requires the right to delete an entry: the actor can change the entry, or is the person whom it is about.
///
/// # Errors
/// As for `require_change`.
pub(super) async fn require_deletion(
    c: &mut Conn,
    caller: &Caller,
    actor: &Actor<'_>,
    entry: &Entry,
) -> Result<(), MemoryError> {
    if entry.about_user_id == Some(actor.user) {
        return require_own(actor);
    }
    require_change(c, caller, actor, entry).await
}

/// The reach of an entry after a change.
async fn reach_after(
    c: &mut Conn,
    actor: &Actor<'_>,
    entry: &Entry,
    patch: &EntryPatch,
) -> Result<Reach, MemoryError> {
    let mut reach = Reach {
        visibility: entry.visibility,
        channel: entry.channel_id,
    };
    if let Some(wanted) = patch
        .visibility
        .filter(|wanted| *wanted != entry.visibility)
    {
        let sources = &entry.source_message_ids;
        let grounds = Grounds::read(c, actor, entry.thread_id, sources).await?;
        reach = grounds.reach(entry.scope, Some(wanted))?;
    }
    Ok(reach)
}

/// Changes an entry.
///
/// # Errors
/// `NotFound`, `Stale`, `FromFile`, `Invalid`, `LooksLikeSecret`, `NotVisibleThere`, or an error from the access checks.
pub async fn change(
    c: &mut Conn,
    caller: &Caller,
    actor: &Actor<'_>,
    id: MemoryId,
    expected: Option<i64>,
    patch: &EntryPatch,
    keyring: &Keyring,
) -> Result<Entry, MemoryError> {
    require_some(actor)?;
    dialect::lock_workspace(c, actor.workspace.0).await?;
    let entry = find::get_to_change(c, actor, id).await?;
    require_change(c, caller, actor, &entry).await?;
    if expected.is_some_and(|expected| expected != entry.version) {
        return Err(MemoryError::Stale(Box::new(entry)));
    }
    let text = patch.text.as_deref();
    let content = text
        .map(|text| Content::parse(text, actor.workspace, keyring))
        .transpose()?;
    let is_content = content.is_some() || patch.kind.is_some() || patch.visibility.is_some();
    if entry.origin == MemoryOrigin::File && is_content {
        return Err(MemoryError::FromFile);
    }
    if !matches!(
        patch.status,
        None | Some(MemoryStatus::Active | MemoryStatus::Archived)
    ) {
        let rule = "status can only be set to `active` or `archived`";
        return Err(MemoryError::Invalid(rule.to_owned(), "status"));
    }
    let reach = reach_after(c, actor, &entry, patch).await?;
    // Changing the text confirms a stale entry.
    let is_confirmed = entry.status == MemoryStatus::Stale && content.is_some();
    let confirmed = is_confirmed.then_some(MemoryStatus::Active);
    let status = patch.status.or(confirmed).unwrap_or(entry.status);
    if let Some(content) = &content {
        // An agent's entry shapes the agent, so it has the author of its current text.
        c.q(
            "update memories set text = $2, hash = $3, words = $4, origin = $5, \
             created_by = case when scope = 'agent' then $6 else created_by end where id = $1",
        )
        .bind(id)
        .bind(content.text.clone())
        .bind(content.hashes.first().cloned())
        .bind(content.word_count())
        .bind(MemoryOrigin::Hand)
        .bind(actor.user)
        .run()
        .await?;
        content.index(c, actor.workspace, id).await?;
    }
    c.q("update memories set kind = $2, visibility = $3, channel_id = $4, share_with_organization = $5, flagged = $6, status = $7, \
         superseded_by = case when $7 = 'active' then null else superseded_by end, version = version + 1, updated_at = $8 where id = $1")
        .bind(id)
        .bind(patch.kind.unwrap_or(entry.kind))
        .bind(reach.visibility)
        .bind(reach.channel)
        .bind(patch.share_with_organization.unwrap_or(entry.share_with_organization))
        .bind(patch.flagged.unwrap_or(entry.flagged))
        .bind(status)
        .bind(now())
        .run()
        .await?;
    entries::announce(c, id, MemoryAction::Updated).await?;
    find::get_to_change(c, actor, id).await
}
