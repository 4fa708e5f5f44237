//! Creating and changing agents: each change creates a version.

use serde::Deserialize;

use super::{
    Agent, AgentPatch, AgentRole, AgentStatus, FirstVersion, MAX_OUTPUT_TOKENS_DEFAULT, NewAgent,
    Parts, Profile, Row,
    announce::announce,
    find::{get_row, get_visible_row},
    form::{check, check_names, parse_change_summary, unset_deleted},
    identity,
    parts::{Subject, can_edit, permits},
    store::{Origin, ProfileWrite, insert_agent, store},
    versions,
};
use crate::agents::AgentError;
use crate::{
    auth::{self, Actor, Scope, handles, look_alikes::Skeletons, shown_names},
    db::{Conn, DbError, Json, dialect::lock_workspace},
    files,
    ids::AgentId,
    realtime::EventType,
};

/// Maximum number of characters of a display name that a copy keeps; characters are at most two UTF-16 code units.
const COPY_STEM_CHARS_MAX: usize = 32;
/// Maximum number of levels of bases above an agent that are searched. Validation allows fewer; this only bounds the
/// search.
const BASES_MAX: usize = 8;

/// Creates an agent. Without a summary in the request, `origin` is the summary of its first version.
///
/// # Errors
/// `NameTaken`, an error about an object that the profile refers to, or an error from `Actor::require`.
pub async fn create_agent(
    c: &mut Conn,
    actor: &Actor<'_>,
    mut parts: Parts,
    origin: &str,
) -> Result<Agent, AgentError> {
    actor.require(Scope::AgentsWrite)?;
    lock_workspace(c, actor.workspace.0).await?;
    if parts.role == Some(AgentRole::Primary) {
        actor.require(Scope::AgentsAdmin)?;
    }
    let status = parts.status.unwrap_or(AgentStatus::Active);
    if status == AgentStatus::Archived {
        let text = "a new agent cannot be archived: use active or inactive";
        return Err(AgentError::Invalid(text.to_owned(), "status"));
    }
    check_names(c, actor, &mut parts.profile, None).await?;
    let summary = parts.change_summary.take();
    let summary = summary.unwrap_or_else(|| origin.to_owned());
    Box::pin(insert_new(c, actor, parts, summary)).await
}

/// Creates an agent whose profile refers only to existing objects.
async fn insert_new(
    c: &mut Conn,
    actor: &Actor<'_>,
    parts: Parts,
    summary: String,
) -> Result<Agent, AgentError> {
    let status = parts.status.unwrap_or(AgentStatus::Active);
    let mut profile = parts.profile;
    identity::reconcile(None, &mut profile);
    // The display name may come from the identity text.
    check(&profile)?;
    see_base(c, actor, &profile, None).await?;
    check_own_access(c, actor, &profile, None).await?;
    let editors = profile.editors.take();
    let editors = editors.unwrap_or_else(|| vec![Subject::Person(actor.user)]);
    profile.editors = Some(editors).filter(|editors| !editors.is_empty());
    check_own_editing(actor, &profile)?;
    share_avatar(c, actor, &profile, None).await?;
    let first = FirstVersion {
        name: parts.name,
        status,
        mentionable: parts.mentionable,
        profile,
        created_by: Some(actor.user),
        summary,
    };
    let id = insert_agent(c, actor.workspace, &first).await?;
    let row = get_row(c, actor.workspace, id).await?;
    let agent: Agent = row.clone().into();
    announce(
        c,
        EventType::AgentCreated,
        &agent,
        row.access(),
        None,
        &mut None,
    )
    .await?;
    let data = serde_json::json!({"name": agent.summary.name});
    audit(c, actor, auth::AuditAction::AgentCreated, id, data).await?;
    if parts.role == Some(AgentRole::Primary) {
        return point_default_at(c, actor, &row).await;
    }
    Ok(agent)
}

/// Makes a picture visible to everyone in the workspace.
async fn share_avatar(
    c: &mut Conn,
    actor: &Actor<'_>,
    profile: &Profile,
    before: Option<&Profile>,
) -> Result<(), AgentError> {
    let picture = |profile: &Profile| profile.avatar.as_ref().and_then(|avatar| avatar.file_id);
    match picture(profile) {
        Some(file) if before.and_then(picture) != Some(file) => {
            Ok(files::share_avatar(c, actor, file).await?)
        }
        _ => Ok(()),
    }
}

/// Fails with `NoSuchBase` if the actor cannot see the base.
pub(in crate::agents) async fn see_base(
    c: &mut Conn,
    actor: &Actor<'_>,
    profile: &Profile,
    before: Option<AgentId>,
) -> Result<(), AgentError> {
    let Some(base) = profile.base_profile_id.filter(|base| before != Some(*base)) else {
        return Ok(());
    };
    match get_visible_row(c, actor, &base.to_string()).await {
        Err(AgentError::NotFound) => Err(AgentError::NoSuchBase),
        Err(e) => Err(e),
        Ok(_) => Ok(()),
    }
}

/// Finds an agent that the actor can change.
///
/// # Errors
/// `NotFound`, `NotEditor`.
pub(super) async fn get_editable_row(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
) -> Result<Row, AgentError> {
    let row = get_visible_row(c, actor, reference).await?;
    if can_edit(row.profile.0.editors.as_deref(), actor) {
        Ok(row)
    } else {
        Err(AgentError::NotEditor)
    }
}

/// Returns true if the actor can change the agent.
///
/// # Errors
/// Only database errors.
pub async fn is_editable(c: &mut Conn, actor: &Actor<'_>, id: AgentId) -> Result<bool, DbError> {
    if !actor.scopes.has(Scope::AgentsWrite) {
        return Ok(false);
    }
    match get_editable_row(c, actor, &id.to_string()).await {
        Ok(_) => Ok(true),
        Err(AgentError::Db(e)) => Err(e),
        Err(_) => Ok(false),
    }
}

/// Like `get_editable_row`, for the agent's files.
pub(in crate::agents) async fn get_editable(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
) -> Result<Agent, AgentError> {
    Ok(get_editable_row(c, actor, reference).await?.into())
}

/// Rejects a list of editors without the actor, who could then not undo the change. Admins can change every agent.
fn check_own_editing(actor: &Actor<'_>, profile: &Profile) -> Result<(), AgentError> {
    if can_edit(profile.editors.as_deref(), actor) {
        Ok(())
    } else {
        Err(AgentError::EditorsLockYouOut)
    }
}

/// Applies a patch as a new version; does nothing if the patch changes nothing. `expected` is the version from
/// `If-Match`.
///
/// # Errors
/// `NotFound`, `NotEditor`, `Malformed`, `Invalid`, `Stale` with the current agent, `DefaultMustStay`, an error about an object
/// that the profile refers to, or an error from `Actor::require`.
pub async fn patch_agent(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    patch: &AgentPatch,
    expected: Option<i64>,
) -> Result<Agent, AgentError> {
    actor.require(Scope::AgentsWrite)?;
    lock_workspace(c, actor.workspace.0).await?;
    let row = get_editable_row(c, actor, reference).await?;
    let form = patch.over(&row)?;
    let role = form.role.filter(|_| patch.names("role"));
    let parts = Parts {
        role,
        ..form.into_parts()?
    };
    let previous = Some(&row.profile.0);
    Box::pin(apply(c, actor, &row, parts, previous, expected)).await
}

/// Replaces an agent: omitted fields are reset to their defaults, except for the status.
///
/// # Errors
/// Same as `patch_agent`.
pub async fn put_agent(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    parts: Parts,
    expected: Option<i64>,
) -> Result<Agent, AgentError> {
    actor.require(Scope::AgentsWrite)?;
    lock_workspace(c, actor.workspace.0).await?;
    let row = get_editable_row(c, actor, reference).await?;
    let mut parts = parts;
    // An agent without a role is returned as a specialist, so clients may send this role back.
    if row.profile.0.role.is_none() && parts.profile.role == Some(AgentRole::Specialist) {
        parts.profile.role = None;
    }
    Box::pin(apply(c, actor, &row, parts, None, expected)).await
}

/// Requires `agents:admin` to change the name or access of the default agent, because the whole workspace depends on
/// it.
async fn check_default(
    c: &mut Conn,
    actor: &Actor<'_>,
    row: &Row,
    wanted: &ProfileWrite<'_>,
) -> Result<(), AgentError> {
    if actor.scopes.has(Scope::AgentsAdmin) {
        return Ok(());
    }
    let (profile, before) = (&wanted.profile, &row.profile.0);
    if !row.is_default() {
        // The default agent can inherit its access list from a base.
        let changed = profile.access_control != before.access_control
            || profile.base_profile_id != before.base_profile_id;
        return if changed && is_base_of_default(c, row).await? {
            Err(AgentError::DefaultAgent("`access_control` of a base"))
        } else {
            Ok(())
        };
    }
    if profile.base_profile_id != before.base_profile_id && profile.access_control.is_none() {
        let base = match profile.base_profile_id {
            Some(base) => super::find::find_row(c, actor.workspace, base).await?,
            None => None,
        };
        if base.as_ref().and_then(Row::access) != row.access() {
            return Err(AgentError::DefaultAgent("`access_control`"));
        }
    }
    let changes = [
        (wanted.name != row.name, "`name`"),
        (
            profile.access_control != before.access_control,
            "`access_control`",
        ),
        (wanted.mentionable != row.mentionable, "`mentionable`"),
        (wanted.status != row.status, "`status`"),
        (profile.role != before.role, "`role`"),
    ];
    match changes.into_iter().find(|(changed, _)| *changed) {
        Some((_, field)) => Err(AgentError::DefaultAgent(field)),
        None => Ok(()),
    }
}

/// Returns true if this agent is a base of the workspace's default agent.
async fn is_base_of_default(c: &mut Conn, row: &Row) -> Result<bool, AgentError> {
    let mut next = row.default_agent_id;
    for _ in 0..=BASES_MAX {
        let Some(id) = next else { break };
        next = c
            .q("select base_id from agents where id = $1")
            .bind(id)
            .opt::<(Option<AgentId>,)>()
            .await?
            .and_then(|(base,)| base);
        if next == Some(row.id) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Rejects an access list that excludes the actor, who could then not undo the change. Actors who manage agents are exempt.
/// An agent without its own list uses that of its base.
async fn check_own_access(
    c: &mut Conn,
    actor: &Actor<'_>,
    profile: &Profile,
    before: Option<&Row>,
) -> Result<(), AgentError> {
    if actor.scopes.has(Scope::AgentsAdmin) {
        return Ok(());
    }
    let base = match (&profile.access_control, profile.base_profile_id) {
        (None, Some(base)) => super::find::find_row(c, actor.workspace, base).await?,
        _ => None,
    };
    let inherited = base.as_ref().and_then(Row::access);
    let access = profile.access_control.as_ref().or(inherited);
    if before.and_then(Row::access) == access || permits(access, actor.user, actor.role) {
        return Ok(());
    }
    Err(AgentError::LocksYouOut)
}

/// Checks a change of role and status; returns whether the agent becomes the default agent.
///
/// # Errors
/// `DefaultAgent`, `DefaultMustStay`, `NotActive`, or an error from `Actor::require`.
fn check_role(
    actor: &Actor<'_>,
    row: &Row,
    role: Option<AgentRole>,
    status: AgentStatus,
) -> Result<bool, AgentError> {
    let steps_down = role.is_some_and(|role| role != AgentRole::Primary);
    if row.is_default() && steps_down && !actor.scopes.has(Scope::AgentsAdmin) {
        return Err(AgentError::DefaultAgent("`role`"));
    }
    if row.is_default() && status != row.status && !actor.scopes.has(Scope::AgentsAdmin) {
        return Err(AgentError::DefaultAgent("`status`"));
    }
    if status != row.status {
        actor.require(if status == AgentStatus::Archived {
            Scope::AgentsDelete
        } else {
            Scope::AgentsAdmin
        })?;
    }
    if row.is_default() && (status != AgentStatus::Active || steps_down) {
        return Err(AgentError::DefaultMustStay);
    }
    let becomes_default = role == Some(AgentRole::Primary) && !row.is_default();
    if becomes_default {
        actor.require(Scope::AgentsAdmin)?;
        if status != AgentStatus::Active {
            return Err(AgentError::NotActive);
        }
    }
    Ok(becomes_default)
}

/// Records a new version, a changed status, or both in the audit log.
async fn audit_change(
    c: &mut Conn,
    actor: &Actor<'_>,
    row: &Row,
    agent: &Agent,
) -> Result<(), AgentError> {
    if agent.summary.version != row.version {
        let data =
            serde_json::json!({"name": agent.summary.name, "version": agent.summary.version});
        audit(c, actor, auth::AuditAction::AgentUpdated, row.id, data).await?;
    }
    if agent.summary.status != row.status {
        let data = serde_json::json!({"name": agent.summary.name, "status": agent.summary.status});
        audit(
            c,
            actor,
            auth::AuditAction::AgentStatusChanged,
            row.id,
            data,
        )
        .await?;
    }
    Ok(())
}

/// Applies the parts of a form to an agent. `previous` is the profile used to detect whether the identity text or the fields have
/// changed; `None` for an entirely new profile.
async fn apply(
    c: &mut Conn,
    actor: &Actor<'_>,
    row: &Row,
    parts: Parts,
    previous: Option<&Profile>,
    expected: Option<i64>,
) -> Result<Agent, AgentError> {
    let status = parts.status.unwrap_or(row.status);
    let becomes_default = check_role(actor, row, parts.role, status)?;
    let mut profile = parts.profile;
    let before = &row.profile.0;
    profile.files.clone_from(&before.files);
    profile.editors = profile.editors.filter(|editors| !editors.is_empty());
    // Treats the default value that responses show for an unset field as unset.
    if profile.base_profile_id.is_none()
        && before.max_output_tokens.is_none()
        && profile.max_output_tokens == Some(MAX_OUTPUT_TOKENS_DEFAULT)
    {
        profile.max_output_tokens = None;
    }
    identity::reconcile(previous, &mut profile);
    check(&profile)?;
    check_names(c, actor, &mut profile, Some(before)).await?;
    see_base(c, actor, &profile, before.base_profile_id).await?;
    share_avatar(c, actor, &profile, Some(before)).await?;
    let wanted = ProfileWrite {
        name: &parts.name,
        status,
        mentionable: parts.mentionable,
        profile,
        summary: None,
        comment: parts.change_summary,
        expected,
        origin: Origin::Edit,
    };
    check_default(c, actor, row, &wanted).await?;
    check_own_access(c, actor, &wanted.profile, Some(row)).await?;
    check_own_editing(actor, &wanted.profile)?;
    let agent = Box::pin(store(c, actor.user, row, wanted)).await?;
    audit_change(c, actor, row, &agent).await?;
    if becomes_default {
        let row = get_row(c, actor.workspace, row.id).await?;
        return point_default_at(c, actor, &row).await;
    }
    Ok(agent)
}

/// Writes or removes the agent's own AGENTS.md or TOOLS.md as a new version; does nothing if the content is unchanged.
/// `expected` is the agent's version from `If-Match`.
///
/// # Errors
/// `NotFound`, `NotEditor`, `Stale` with the current agent, or an error from `Actor::require`.
pub(in crate::agents) async fn put_file(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    path: &str,
    content: Option<&str>,
    expected: Option<i64>,
) -> Result<Agent, AgentError> {
    actor.require(Scope::AgentsWrite)?;
    lock_workspace(c, actor.workspace.0).await?;
    let row = get_editable_row(c, actor, reference).await?;
    let mut profile = row.profile.0.clone();
    match content {
        Some(content) => profile.files.insert(path.to_owned(), content.to_owned()),
        None => profile.files.remove(path),
    };
    let wanted = ProfileWrite {
        name: &row.name,
        status: row.status,
        mentionable: row.mentionable,
        profile,
        summary: None,
        comment: None,
        expected,
        origin: Origin::Edit,
    };
    let agent = Box::pin(store(c, actor.user, &row, wanted)).await?;
    audit_change(c, actor, &row, &agent).await?;
    Ok(agent)
}

pub(super) async fn audit(
    c: &mut Conn,
    actor: &Actor<'_>,
    action: auth::AuditAction,
    agent: AgentId,
    data: serde_json::Value,
) -> Result<(), AgentError> {
    Ok(auth::record_audit(c, actor, action, agent.to_string(), data).await?)
}

/// Makes an agent the workspace's default, whose role is `primary`.
///
/// # Errors
/// `NotFound`, `NotActive`, or an error from `Actor::require`.
pub async fn make_default(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
) -> Result<Agent, AgentError> {
    actor.require(Scope::AgentsAdmin)?;
    lock_workspace(c, actor.workspace.0).await?;
    let row = get_visible_row(c, actor, reference).await?;
    if row.status != AgentStatus::Active {
        return Err(AgentError::NotActive);
    }
    if row.is_default() {
        return Ok(row.into());
    }
    point_default_at(c, actor, &row).await
}

/// Moves the workspace's default pointer. Does not create a version: neither agent's profile changes.
async fn point_default_at(c: &mut Conn, actor: &Actor<'_>, row: &Row) -> Result<Agent, AgentError> {
    c.q("update workspaces set default_agent_id = $2 where id = $1")
        .bind(actor.workspace)
        .bind(row.id)
        .run()
        .await?;
    let workspace = auth::get_workspace(c, actor.workspace).await?;
    let mut people = None;
    if let Some(before) = row.default_agent_id.filter(|before| *before != row.id)
        && let Some(other) = super::find::find_row(c, actor.workspace, before).await?
    {
        let access = other.access().cloned();
        let other: Agent = other.into();
        announce(
            c,
            EventType::AgentUpdated,
            &other,
            access.as_ref(),
            None,
            &mut people,
        )
        .await?;
    }
    let row = get_row(c, actor.workspace, row.id).await?;
    let agent: Agent = row.clone().into();
    announce(
        c,
        EventType::AgentUpdated,
        &agent,
        row.access(),
        None,
        &mut people,
    )
    .await?;
    auth::announce_workspace(c, &workspace).await?;
    let data = serde_json::json!({"name": row.name});
    audit(c, actor, auth::AuditAction::AgentMadeDefault, row.id, data).await?;
    Ok(agent)
}

/// Fields of `POST /v1/agents/{id}/duplicate`.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CopyForm {
    /// Name of the copy; `NAME-copy` by default, with a number if that is taken.
    pub name: Option<String>,
    /// Display name of the copy; `DISPLAY_NAME copy` by default, with a number if that is taken.
    pub display_name: Option<String>,
}

/// Creates an agent with the current profile of another agent.
///
/// # Errors
/// `NotFound`, `NameTaken` if the requested name is taken, or an error from `Actor::require`.
pub async fn duplicate_agent(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    form: &CopyForm,
) -> Result<Agent, AgentError> {
    actor.require(Scope::AgentsWrite)?;
    lock_workspace(c, actor.workspace.0).await?;
    let row = get_visible_row(c, actor, reference).await?;
    let name = if let Some(name) = &form.name {
        name.clone()
    } else {
        // The stem leaves room for `-copy` and a number.
        let stem: String = row
            .name
            .chars()
            .take(handles::HANDLE_CHARS_MAX - 13)
            .collect();
        handles::find_free(c, actor.workspace, &format!("{stem}-copy"), "agent").await?
    };
    let mut copy = NewAgent {
        name,
        mentionable: Some(row.mentionable),
        editors: None,
        ..NewAgent::of_profile(row.profile.0.clone())
    };
    copy.display_name = match (&form.display_name, &row.profile.0.display_name) {
        (Some(given), _) => Some(given.clone()),
        (None, Some(original)) => Some(name_of_copy(c, actor, original).await?),
        (None, None) => None,
    };
    let summary = format!("copied from {}, version {}", row.name, row.version);
    let mut parts = copy.into_parts()?;
    parts.profile.files.clone_from(&row.profile.0.files);
    // Members to whom the original refers may have left the workspace since.
    let before = Some(&row.profile.0);
    check_names(c, actor, &mut parts.profile, before).await?;
    Box::pin(insert_new(c, actor, parts, summary)).await
}

/// `ORIGINAL copy`, with a number if an agent or a person looks like that.
async fn name_of_copy(
    c: &mut Conn,
    actor: &Actor<'_>,
    original: &str,
) -> Result<String, AgentError> {
    // The stem leaves room for ` copy` and a number.
    let stem: String = original.chars().take(COPY_STEM_CHARS_MAX).collect();
    let stem = stem.trim_end_matches(|c: char| c.is_whitespace() || c == '\u{200d}');
    let mut n = 1_u64;
    loop {
        let name = match n {
            1 => format!("{stem} copy"),
            n => format!("{stem} copy {n}"),
        };
        let skeletons = Skeletons::of(&name);
        let is_taken = shown_names::is_like_agent(c, actor.workspace, None, &skeletons).await?
            || shown_names::is_like_person(c, actor.workspace, &skeletons).await?;
        if !is_taken {
            return Ok(name);
        }
        n += if n < 20 {
            1
        } else {
            1 + u64::from(rand::random::<u16>())
        };
    }
}

/// Restores the profile of an earlier version as a new version, without any persona, preset, or registered tool that has been deleted
/// since; the name and status are unchanged. A deleted sandbox policy is an error: without it, code would have no limits.
///
/// # Errors
/// `NotFound`, `NotEditor`, `VersionNotFound`, `Stale`, `EditorsLockYouOut`, an error about an object that the old profile refers to,
/// or an error from `Actor::require`.
pub async fn rollback_agent(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    target: i64,
    comment: Option<String>,
    expected: Option<i64>,
) -> Result<Agent, AgentError> {
    actor.require(Scope::AgentsWrite)?;
    lock_workspace(c, actor.workspace.0).await?;
    let row = get_editable_row(c, actor, reference).await?;
    let old = versions::stored(c, &row, target).await?;
    let Json(mut profile) = old.profile;
    unset_deleted(c, actor.workspace, &mut profile).await?;
    let stored = profile.clone();
    check_names(c, actor, &mut profile, Some(&stored)).await?;
    see_base(c, actor, &profile, row.profile.0.base_profile_id).await?;
    let wanted = ProfileWrite {
        name: &row.name,
        status: row.status,
        mentionable: old.mentionable.unwrap_or(row.mentionable),
        profile,
        summary: Some(format!("rolled back to version {target}")),
        comment: parse_change_summary(comment)?,
        expected,
        origin: Origin::Edit,
    };
    check_default(c, actor, &row, &wanted).await?;
    check_own_access(c, actor, &wanted.profile, Some(&row)).await?;
    check_own_editing(actor, &wanted.profile)?;
    let agent = Box::pin(store(c, actor.user, &row, wanted)).await?;
    audit_change(c, actor, &row, &agent).await?;
    Ok(agent)
}

/// Makes the actor the author of all parts of an agent and of its files, as a new version. `expected` is the version from `If-Match`.
///
/// # Errors
/// `NotFound`, `VersionRequired`, `Stale` with the current agent, or an error from `Actor::require`.
pub async fn accept_agent(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    expected: Option<i64>,
) -> Result<Agent, AgentError> {
    actor.require(Scope::AgentsAdmin)?;
    lock_workspace(c, actor.workspace.0).await?;
    let row = get_editable_row(c, actor, reference).await?;
    let expected = expected.ok_or(AgentError::VersionRequired)?;
    let name = auth::get_member(c, actor.workspace, actor.user).await?.name;
    let wanted = ProfileWrite {
        name: &row.name,
        status: row.status,
        mentionable: row.mentionable,
        profile: row.profile.0.clone(),
        summary: Some(format!("accepted by {name}")),
        comment: None,
        expected: Some(expected),
        origin: Origin::Acceptance,
    };
    let agent = Box::pin(store(c, actor.user, &row, wanted)).await?;
    c.q("update agent_files set updated_by = $2 where owner_id = $1")
        .bind(row.id)
        .bind(actor.user)
        .run()
        .await?;
    let data = serde_json::json!({"name": agent.summary.name, "version": agent.summary.version});
    audit(c, actor, auth::AuditAction::AgentAccepted, row.id, data).await?;
    Ok(agent)
}
