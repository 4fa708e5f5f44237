//! Personas as they are stored and shown.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    agents::profiles::Avatar,
    cursor::PageRange,
    db::{Conn, DbError, Json},
    ids::{PersonaId, UserId, WorkspaceId},
    text_enum::{constant, text_enum},
    time::Timestamp,
};

text_enum! {
    /// Status of a persona before and after its approval.
    pub enum PipelineStatus {
        /// The persona is being written.
        Draft = "draft",
        /// The persona is ready for approval, or was edited after its approval.
        Refined = "refined",
        /// Agents receive the persona's text.
        Approved = "approved",
    }
}

/// A step of a persona.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PersonaSection {
    /// At most 4 KiB.
    pub text: String,
    /// At most 20 lines of 1 to 240 characters.
    pub items: Vec<String>,
}

impl PersonaSection {
    pub fn is_blank(&self) -> bool {
        self.text.trim().is_empty() && self.items.is_empty()
    }
}

/// Fields of a persona except for its name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PersonaContent {
    /// At most 1,024 characters; not sent to agents.
    pub description: String,
    /// Problem and audience of agents with this character.
    pub problem_space: PersonaSection,
    /// The character in a few sentences.
    pub high_level: PersonaSection,
    /// Role models.
    pub archetype: PersonaSection,
    /// Rules for its behavior.
    pub principles: PersonaSection,
    /// Tone and style.
    pub taste: PersonaSection,
    /// Text that agents receive once it is approved; at most 8 KiB.
    pub compressed: String,
    pub avatar: Option<Avatar>,
}

impl PersonaContent {
    /// The steps with their titles, in order.
    pub fn sections(&self) -> [(&'static str, &'static str, &PersonaSection); 5] {
        [
            ("problem_space", "Problem space", &self.problem_space),
            ("high_level", "High level", &self.high_level),
            ("archetype", "Archetype", &self.archetype),
            ("principles", "Principles", &self.principles),
            ("taste", "Taste", &self.taste),
        ]
    }

    /// Checks whether all texts that an approval covers are the same in both.
    pub(super) fn has_texts_of(&self, other: &Self) -> bool {
        let mut sections = self.sections().into_iter().zip(other.sections());
        self.compressed == other.compressed
            && sections.all(|((.., own), (.., others))| own == others)
    }
}

constant! { pub PersonaObject = "persona" }

/// A reusable character for agents.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Persona {
    pub id: PersonaId,
    #[schema(inline)]
    pub object: PersonaObject,
    pub name: String,
    #[serde(flatten)]
    pub content: PersonaContent,
    pub pipeline_status: PipelineStatus,
    /// Number of agents that use the persona, directly or through a base.
    pub used_by: i64,
    pub version: i64,
    pub created_by: UserId,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The text of the last approval.
    #[serde(skip)]
    pub approved_text: Option<String>,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: PersonaId,
    name: String,
    content: Json<PersonaContent>,
    pipeline_status: PipelineStatus,
    used_by: i64,
    version: i64,
    created_by: UserId,
    created_at: Timestamp,
    updated_at: Timestamp,
    approved_text: Option<String>,
}

impl From<Row> for Persona {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            object: PersonaObject,
            name: row.name,
            content: row.content.0,
            pipeline_status: row.pipeline_status,
            used_by: row.used_by,
            version: row.version,
            created_by: row.created_by,
            created_at: row.created_at,
            updated_at: row.updated_at,
            approved_text: row.approved_text,
        }
    }
}

/// Selects personas as `p`; the argument continues the query. Counts agents that use a persona directly or through at most two bases.
macro_rules! persona_sql {
    ($tail:literal) => {
        concat!(
            "select p.id, p.name, p.content, p.pipeline_status, p.version, p.created_by, p.created_at, p.updated_at, p.approved_text, \
             (select count(*) from agents a where a.persona_id = p.id) \
             + (select count(*) from agents a join agents b on b.base_id = a.id where a.persona_id = p.id and b.persona_id is null) \
             + (select count(*) from agents a join agents b on b.base_id = a.id join agents d on d.base_id = b.id \
               where a.persona_id = p.id and b.persona_id is null and d.persona_id is null) as used_by from personas p ",
            $tail
        )
    };
}

/// Filter for a list of personas.
#[derive(Debug, Default)]
pub struct Filter {
    /// Exact name.
    pub name: Option<String>,
    pub status: Option<PipelineStatus>,
}

/// Lists personas between two IDs, in order of creation. With `before`, returns the personas that directly precede that ID.
///
/// # Errors
/// Only database errors.
pub async fn list_personas(
    c: &mut Conn,
    workspace: WorkspaceId,
    filter: &Filter,
    PageRange { after, before }: PageRange<PersonaId>,
    limit: i64,
) -> Result<Vec<Persona>, DbError> {
    let q = if before.is_some() {
        c.q(persona_sql!(
            "where p.workspace_id = $1 and p.id > $2 and p.id < $3 and (p.name = $5 or $5 is null) \
             and (p.pipeline_status = $6 or $6 is null) order by p.id desc limit $4"
        ))
    } else {
        c.q(persona_sql!(
            "where p.workspace_id = $1 and p.id > $2 and p.id < $3 and (p.name = $5 or $5 is null) \
             and (p.pipeline_status = $6 or $6 is null) order by p.id limit $4"
        ))
    };
    let rows: Vec<Row> = q
        .bind(workspace)
        .bind(after.unwrap_or(PersonaId(Uuid::nil())))
        .bind(before.unwrap_or(PersonaId(Uuid::max())))
        .bind(limit)
        .bind(filter.name.clone())
        .bind(filter.status.map(|status| status.to_string()))
        .all()
        .await?;
    let mut personas: Vec<Persona> = rows.into_iter().map(Persona::from).collect();
    if before.is_some() {
        personas.reverse();
    }
    Ok(personas)
}

/// Returns a persona, or `None` if the workspace does not have it.
///
/// # Errors
/// Only database errors.
pub async fn get_persona(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: PersonaId,
) -> Result<Option<Persona>, DbError> {
    let row: Option<Row> = c
        .q(persona_sql!("where p.workspace_id = $1 and p.id = $2"))
        .bind(workspace)
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(Persona::from))
}

/// # Errors
/// Only database errors.
pub async fn workspace_of(c: &mut Conn, id: PersonaId) -> Result<Option<WorkspaceId>, DbError> {
    let row: Option<(WorkspaceId,)> = c
        .q("select workspace_id from personas where id = $1")
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(|(workspace,)| workspace))
}

/// Returns the text of the last approval: `Some(None)` if there was none, and `None` if the workspace does not have the persona.
///
/// # Errors
/// Only database errors.
pub async fn find_approved(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: PersonaId,
) -> Result<Option<Option<String>>, DbError> {
    let row: Option<(Option<String>,)> = c
        .q("select approved_text from personas where workspace_id = $1 and id = $2")
        .bind(workspace)
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(|(text,)| text))
}

/// The persona that an agent uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct NamedPersona {
    pub id: PersonaId,
    pub name: String,
    pub pipeline_status: PipelineStatus,
    /// True if the agent receives an approved text of the persona. After an edit, this is the last approved
    /// text.
    pub is_sent: bool,
}

/// Returns the persona as it appears in an agent's response.
///
/// # Errors
/// Only database errors.
pub async fn find_named(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: PersonaId,
    is_sent: bool,
) -> Result<Option<NamedPersona>, DbError> {
    let row: Option<(String, PipelineStatus)> = c
        .q("select name, pipeline_status from personas where workspace_id = $1 and id = $2")
        .bind(workspace)
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(|(name, pipeline_status)| NamedPersona {
        id,
        name,
        pipeline_status,
        is_sent,
    }))
}
