//! Creating, changing, and deleting personas: each change creates a version.

use super::{
    Persona, PersonaContent, PersonaForm, PersonaPatch, PipelineStatus,
    form::{check_new_name, parse_name},
    persona::get_persona,
    version_rows::{find_content, insert_version, size_of, stored_bytes},
};
use crate::{
    agents::{
        AgentError,
        profiles::{batch::Batch, follow_persona},
    },
    auth::{self, Actor, AuditAction, Scope, quota},
    db::{Conn, Json, dialect::lock_workspace, now},
    files,
    ids::{AgentId, FileId, PersonaId},
};

/// Checks the scope, locks the workspace, and returns the persona if it has the `expected` version.
async fn locked(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: PersonaId,
    expected: Option<i64>,
) -> Result<Persona, AgentError> {
    actor.require(Scope::AgentsWrite)?;
    lock_workspace(c, actor.workspace.0).await?;
    let persona = get_persona(c, actor.workspace, id)
        .await?
        .ok_or(AgentError::PersonaNotFound)?;
    if expected.is_some_and(|version| version != persona.version) {
        return Err(AgentError::PersonaStale(Box::new(persona)));
    }
    Ok(persona)
}

/// # Errors
/// `Invalid`, `PersonaNameTaken`, `QuotaExceeded`, or an error from `Actor::require`.
pub async fn create_persona(
    c: &mut Conn,
    actor: &Actor<'_>,
    form: PersonaForm,
) -> Result<Persona, AgentError> {
    actor.require(Scope::AgentsWrite)?;
    lock_workspace(c, actor.workspace.0).await?;
    let (name, content) = form.into_parts()?;
    insert(c, actor, name, content, "created").await
}

/// Creates a draft with the fields of another persona.
///
/// # Errors
/// `PersonaNotFound`, or an error from `create_persona`.
pub async fn duplicate_persona(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: PersonaId,
    name: &str,
) -> Result<Persona, AgentError> {
    let original = locked(c, actor, id, None).await?;
    let name = parse_name(name)?;
    let summary = format!(
        "copied from {}, version {}",
        original.name, original.version
    );
    insert(c, actor, name, original.content, &summary).await
}

async fn insert(
    c: &mut Conn,
    actor: &Actor<'_>,
    name: String,
    content: PersonaContent,
    summary: &str,
) -> Result<Persona, AgentError> {
    let id = PersonaId::new();
    check_new_name(&name)?;
    check_name(c, actor, id, &name).await?;
    share_avatar(c, actor, &content, None).await?;
    quota::check_bytes(c, actor.workspace, size_of(&content)).await?;
    c.q("insert into personas (id, workspace_id, name, content, pipeline_status, version, created_by, created_at, updated_at) \
         values ($1, $2, $3, $4, $5, 1, $6, $7, $7)")
        .bind(id)
        .bind(actor.workspace)
        .bind(name)
        .bind(Json(content))
        .bind(PipelineStatus::Draft)
        .bind(actor.user)
        .bind(now())
        .run()
        .await?;
    let persona = stored(c, actor, id).await?;
    insert_version(c, actor.workspace, &persona, actor.user, summary).await?;
    audit(c, actor, AuditAction::PersonaCreated, &persona).await?;
    Ok(persona)
}

/// Replaces a persona except for its status: omitted fields become blank.
///
/// # Errors
/// `PersonaNotFound`, `PersonaStale`, or an error from `create_persona`.
pub async fn put_persona(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: PersonaId,
    form: PersonaForm,
    expected: Option<i64>,
) -> Result<Persona, AgentError> {
    let persona = locked(c, actor, id, expected).await?;
    let (name, content) = form.into_parts()?;
    let status = status_of_edit(&persona, &content);
    store(c, actor, &persona, name, content, status, None).await
}

/// # Errors
/// `PersonaNotFound`, `PersonaStale`, `Invalid` (also if a blank text is approved), or an error from `create_persona`.
pub async fn patch_persona(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: PersonaId,
    patch: PersonaPatch,
    expected: Option<i64>,
) -> Result<Persona, AgentError> {
    let persona = locked(c, actor, id, expected).await?;
    let wanted = patch.pipeline_status;
    let (name, content) = patch.over(&persona.name, &persona.content)?;
    let status = wanted.unwrap_or_else(|| status_of_edit(&persona, &content));
    store(c, actor, &persona, name, content, status, None).await
}

/// Restores an earlier version as a new one with the status `refined`; the name is unchanged.
///
/// # Errors
/// `PersonaNotFound`, `PersonaVersionNotFound`, `PersonaStale`, or an error from `create_persona`.
pub async fn rollback_persona(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: PersonaId,
    target: i64,
    expected: Option<i64>,
) -> Result<Persona, AgentError> {
    let persona = locked(c, actor, id, expected).await?;
    let content = find_content(c, id, target)
        .await?
        .ok_or(AgentError::PersonaVersionNotFound(target))?;
    let summary = format!("rolled back to version {target}");
    let name = persona.name.clone();
    let status = PipelineStatus::Refined;
    store(c, actor, &persona, name, content, status, Some(summary)).await
}

/// Deletes some of the oldest versions of a persona to prepare for `delete_persona`, because deleting many versions in one
/// transaction would delay other writes. Returns true if it has to be called again.
///
/// # Errors
/// Same as `delete_persona`.
pub async fn delete_old_versions(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: PersonaId,
    expected: Option<i64>,
) -> Result<bool, AgentError> {
    let persona = unused(c, actor, id, expected).await?;
    let mut batch = Batch::new();
    let old: Vec<(i64, i64)> = c
        .q("select version, bytes from persona_versions where persona_id = $1 and version < $2 order by version limit $3")
        .bind(id)
        .bind(persona.version)
        .bind(batch.limit())
        .all()
        .await?;
    let old = batch.take(&old);
    let Some(last) = old.next else {
        return Ok(false);
    };
    c.q("delete from persona_versions where persona_id = $1 and version <= $2")
        .bind(id)
        .bind(last)
        .run()
        .await?;
    quota::count_agent_bytes(c, actor.workspace, -old.bytes).await?;
    Ok(true)
}

/// Deletes a persona that no agent uses, with its versions. `delete_old_versions` must have returned false before.
///
/// # Errors
/// `PersonaNotFound`, `PersonaStale`, `PersonaInUse`, or an error from `Actor::require`.
pub async fn delete_persona(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: PersonaId,
    expected: Option<i64>,
) -> Result<(), AgentError> {
    let persona = unused(c, actor, id, expected).await?;
    audit(c, actor, AuditAction::PersonaDeleted, &persona).await?;
    let bytes = stored_bytes(c, id).await?;
    quota::count_agent_bytes(c, actor.workspace, -bytes).await?;
    // The versions are deleted by a cascade.
    c.q("delete from personas where id = $1")
        .bind(id)
        .run()
        .await?;
    Ok(())
}

async fn unused(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: PersonaId,
    expected: Option<i64>,
) -> Result<Persona, AgentError> {
    let persona = locked(c, actor, id, expected).await?;
    let user: Option<(AgentId,)> = c
        .q("select id from agents where persona_id = $1 limit 1")
        .bind(id)
        .opt()
        .await?;
    user.map_or(Ok(persona), |_| Err(AgentError::PersonaInUse))
}

/// Status after an edit: changing a text ends an approval.
fn status_of_edit(before: &Persona, content: &PersonaContent) -> PipelineStatus {
    match before.pipeline_status {
        PipelineStatus::Approved if !content.has_texts_of(&before.content) => {
            PipelineStatus::Refined
        }
        status => status,
    }
}

/// Stores a change as a new version; does nothing if there are no changes and no summary was given. Agents that use the
/// persona receive a newly approved text. The workspace must be locked.
async fn store(
    c: &mut Conn,
    actor: &Actor<'_>,
    before: &Persona,
    name: String,
    content: PersonaContent,
    status: PipelineStatus,
    summary: Option<String>,
) -> Result<Persona, AgentError> {
    let is_approved = status == PipelineStatus::Approved;
    if is_approved && content.compressed.trim().is_empty() {
        let rule = "the compressed text is blank: write it, then approve the persona";
        return Err(AgentError::Invalid(rule.to_owned(), "compressed"));
    }
    let changes = changes(before, &name, &content, status);
    if changes.is_empty() && summary.is_none() {
        return Ok(before.clone());
    }
    if name != before.name {
        check_new_name(&name)?;
        check_name(c, actor, before.id, &name).await?;
    }
    share_avatar(c, actor, &content, Some(&before.content)).await?;
    quota::check_bytes(c, actor.workspace, size_of(&content)).await?;
    let approved_text = if is_approved {
        Some(content.compressed.clone())
    } else {
        before.approved_text.clone()
    };
    c.q("update personas set name = $2, content = $3, pipeline_status = $4, approved_text = $5, version = version + 1, updated_at = $6 \
         where id = $1")
        .bind(before.id)
        .bind(name)
        .bind(Json(content))
        .bind(status)
        .bind(approved_text.clone())
        .bind(now())
        .run()
        .await?;
    let persona = stored(c, actor, before.id).await?;
    let summary = summary.unwrap_or_else(|| format!("changed {}", changes.join(", ")));
    insert_version(c, actor.workspace, &persona, actor.user, &summary).await?;
    audit(c, actor, AuditAction::PersonaUpdated, &persona).await?;
    if approved_text != before.approved_text {
        Box::pin(follow_persona(c, actor.user, actor.workspace, persona.id)).await?;
    }
    Ok(persona)
}

/// Names of the changed fields.
fn changes(
    before: &Persona,
    name: &str,
    content: &PersonaContent,
    status: PipelineStatus,
) -> Vec<String> {
    let old = &before.content;
    let mut changed = Vec::new();
    let mut note = |is_changed: bool, field: &str| {
        if is_changed {
            changed.push(field.to_owned());
        }
    };
    note(content.description != old.description, "description");
    for ((field, _, now), (.., was)) in content.sections().into_iter().zip(old.sections()) {
        note(now != was, field);
    }
    note(content.compressed != old.compressed, "compressed");
    note(content.avatar != old.avatar, "avatar");
    note(name != before.name, &format!("name: {name}"));
    note(
        status != before.pipeline_status,
        &format!("pipeline_status: {status}"),
    );
    changed
}

async fn stored(c: &mut Conn, actor: &Actor<'_>, id: PersonaId) -> Result<Persona, AgentError> {
    get_persona(c, actor.workspace, id)
        .await?
        .ok_or(AgentError::PersonaNotFound)
}

async fn check_name(
    c: &mut Conn,
    actor: &Actor<'_>,
    id: PersonaId,
    name: &str,
) -> Result<(), AgentError> {
    let other: Option<(PersonaId,)> = c
        .q("select id from personas where workspace_id = $1 and name = $2 and id <> $3")
        .bind(actor.workspace)
        .bind(name.to_owned())
        .bind(id)
        .opt()
        .await?;
    match other {
        Some(_) => Err(AgentError::PersonaNameTaken(name.to_owned())),
        None => Ok(()),
    }
}

/// Makes a new picture visible to everyone in the workspace.
async fn share_avatar(
    c: &mut Conn,
    actor: &Actor<'_>,
    content: &PersonaContent,
    before: Option<&PersonaContent>,
) -> Result<(), AgentError> {
    let picture = |content: &PersonaContent| -> Option<FileId> {
        content.avatar.as_ref().and_then(|avatar| avatar.file_id)
    };
    match picture(content) {
        Some(file) if before.and_then(picture) != Some(file) => {
            Ok(files::share_avatar(c, actor, file).await?)
        }
        _ => Ok(()),
    }
}

async fn audit(
    c: &mut Conn,
    actor: &Actor<'_>,
    action: AuditAction,
    persona: &Persona,
) -> Result<(), AgentError> {
    let data = serde_json::json!({
        "name": persona.name, "version": persona.version, "pipeline_status": persona.pipeline_status,
    });
    Ok(auth::record_audit(c, actor, action, persona.id.to_string(), data).await?)
}
