//! Versions of a persona.

use serde::Serialize;

use super::{Persona, PersonaContent, PipelineStatus};
use crate::{
    auth::quota,
    db::{Conn, DbError, Json},
    ids::{PersonaId, UserId, WorkspaceId},
    text_enum::constant,
    time::Timestamp,
};

constant! { pub PersonaVersionObject = "persona_version" }

/// Fields of a version.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct PersonaSnapshot {
    pub name: String,
    #[serde(flatten)]
    pub content: PersonaContent,
    pub pipeline_status: PipelineStatus,
}

/// A version of a persona.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct PersonaVersion {
    #[schema(inline)]
    pub object: PersonaVersionObject,
    pub persona_id: PersonaId,
    pub version: i64,
    /// Short summary of the change.
    pub change_summary: String,
    pub changed_by: UserId,
    pub changed_at: Timestamp,
    pub snapshot: PersonaSnapshot,
}

#[derive(sqlx::FromRow)]
struct Row {
    version: i64,
    name: String,
    content: Json<PersonaContent>,
    pipeline_status: PipelineStatus,
    change_summary: String,
    changed_by: UserId,
    changed_at: Timestamp,
}

/// Lists versions below `before`, newest first.
///
/// # Errors
/// Only database errors.
pub async fn list_versions(
    c: &mut Conn,
    persona: PersonaId,
    before: Option<i64>,
    limit: i64,
) -> Result<Vec<PersonaVersion>, DbError> {
    let rows: Vec<Row> = c
        .q("select version, name, content, pipeline_status, change_summary, changed_by, changed_at from persona_versions \
            where persona_id = $1 and version < $2 order by version desc limit $3")
        .bind(persona)
        .bind(before.unwrap_or(i64::MAX))
        .bind(limit)
        .all()
        .await?;
    let shown = |row: Row| PersonaVersion {
        object: PersonaVersionObject,
        persona_id: persona,
        version: row.version,
        change_summary: row.change_summary,
        changed_by: row.changed_by,
        changed_at: row.changed_at,
        snapshot: PersonaSnapshot {
            name: row.name,
            content: row.content.0,
            pipeline_status: row.pipeline_status,
        },
    };
    Ok(rows.into_iter().map(shown).collect())
}

/// Returns the fields of a version except for the name and the status; `None` if there is no such version.
pub(super) async fn find_content(
    c: &mut Conn,
    persona: PersonaId,
    version: i64,
) -> Result<Option<PersonaContent>, DbError> {
    let row: Option<(Json<PersonaContent>,)> = c
        .q("select content from persona_versions where persona_id = $1 and version = $2")
        .bind(persona)
        .bind(version)
        .opt()
        .await?;
    Ok(row.map(|(content,)| content.0))
}

/// Finds the person who approved a text of a persona; `None` if there is no record of it. Changes to other fields of an approved persona
/// are not approvals.
pub(in crate::agents) async fn find_approver(
    c: &mut Conn,
    persona: PersonaId,
    text: &str,
) -> Result<Option<UserId>, DbError> {
    let row: Option<(UserId,)> = c
        .q("select v.changed_by from persona_versions v \
            where v.persona_id = $1 and v.pipeline_status = 'approved' and v.content ->> 'compressed' = $2 \
            and not exists (select 1 from persona_versions b where b.persona_id = v.persona_id and b.version = v.version - 1 \
              and b.pipeline_status = 'approved' and b.content ->> 'compressed' = $2) order by v.version desc limit 1")
        .bind(persona)
        .bind(text.to_owned())
        .opt()
        .await?;
    Ok(row.map(|(user,)| user))
}

/// Stores the current state as a version.
pub(super) async fn insert_version(
    c: &mut Conn,
    workspace: WorkspaceId,
    persona: &Persona,
    changed_by: UserId,
    summary: &str,
) -> Result<(), DbError> {
    let bytes = size_of(&persona.content);
    c.q("insert into persona_versions (persona_id, version, name, content, pipeline_status, bytes, change_summary, changed_by, changed_at) \
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)")
        .bind(persona.id)
        .bind(persona.version)
        .bind(persona.name.clone())
        .bind(Json(persona.content.clone()))
        .bind(persona.pipeline_status)
        .bind(bytes)
        .bind(summary.to_owned())
        .bind(changed_by)
        .bind(persona.updated_at)
        .run()
        .await?;
    quota::count_agent_bytes(c, workspace, bytes).await
}

/// Stored size of a version.
pub(super) fn size_of(content: &PersonaContent) -> i64 {
    let bytes = serde_json::to_vec(content).map_or(0, |json| json.len());
    quota::ROW_BYTES.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX))
}

/// Stored size of all versions.
pub(super) async fn stored_bytes(c: &mut Conn, persona: PersonaId) -> Result<i64, DbError> {
    c.q("select cast(coalesce(sum(bytes), 0) as bigint) from persona_versions where persona_id = $1")
        .bind(persona)
        .value()
        .await
}
