//! Agent profiles: what an agent is, as a row. It exists between calls as configuration only.
//!
//! Every change is a version: `agent_versions` keeps each state whole, as written and as resolved, and tasks name
//! the version they run with.

use std::collections::BTreeMap;

use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::AgentError;
use crate::{
    auth::{Actor, DisplayName, Scope, handles},
    db::{Conn, DbError, Json, now},
    ids::{AgentId, UserId, WorkspaceId},
    patch::{nullable, present},
    realtime::{Audience, log},
};

/// UTF-8 bytes (PROTOCOL §1).
pub const INSTRUCTIONS_BYTES_MAX: usize = 256 * 1024;
pub const MAX_OUTPUT_TOKENS_DEFAULT: u32 = 4096;
const MAX_OUTPUT_TOKENS_MAX: u32 = 1_000_000;
const METADATA_KEYS_MAX: usize = 16;
const METADATA_UNITS_MAX: usize = 512;
const DESCRIPTION_UNITS_MAX: usize = 1024;
const CAPABILITIES_MAX: usize = 32;
const CAPABILITY_UNITS_MAX: usize = 64;
const MODEL_UNITS_MAX: usize = 128;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Avatar {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emoji: Option<String>,
    /// `#rrggbb`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentRole {
    Primary,
    #[default]
    Specialist,
    Reviewer,
    Orchestrator,
}

/// The part of an agent that its versions keep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    pub display_name: Option<String>,
    pub description: Option<String>,
    pub avatar: Option<Avatar>,
    pub instructions: String,
    pub model: Option<String>,
    pub max_output_tokens: u32,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub capabilities: Vec<String>,
    pub role: AgentRole,
    pub metadata: BTreeMap<String, String>,
}

impl Profile {
    /// What people call it.
    pub fn shown_name<'a>(&'a self, name: &'a str) -> &'a str {
        self.display_name.as_deref().unwrap_or(name)
    }
}

/// An agent with the fields that lists and events show.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct AgentSummary {
    pub id: AgentId,
    /// Always `agent_profile`.
    pub object: &'static str,
    /// Its handle.
    pub name: String,
    pub display_name: Option<String>,
    pub description: Option<String>,
    pub avatar: Option<Avatar>,
    pub capabilities: Vec<String>,
    pub role: AgentRole,
    /// Null: the server's default.
    pub model: Option<String>,
    pub mentionable: bool,
    pub is_default: bool,
    pub is_system: bool,
    /// One of `active`, `inactive`, `archived`.
    pub status: String,
    pub version: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A whole agent.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Agent {
    #[serde(flatten)]
    pub summary: AgentSummary,
    pub workspace_id: WorkspaceId,
    /// Markdown; the personality as one text.
    pub instructions: String,
    pub max_output_tokens: u32,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub metadata: BTreeMap<String, String>,
    /// Null for the agents that a workspace begins with.
    pub created_by: Option<UserId>,
}

#[derive(Serialize)]
struct AgentEvent<'a> {
    agent: &'a Agent,
}

#[derive(Debug, Clone, sqlx::FromRow)]
struct Row {
    id: AgentId,
    workspace_id: WorkspaceId,
    name: String,
    status: String,
    is_system: bool,
    mentionable: bool,
    version: i64,
    profile: Json<Profile>,
    created_by: Option<UserId>,
    created_at: Timestamp,
    updated_at: Timestamp,
    default_agent_id: Option<AgentId>,
}

impl From<Row> for Agent {
    fn from(row: Row) -> Self {
        let profile = row.profile.0;
        Self {
            summary: AgentSummary {
                id: row.id,
                object: "agent_profile",
                name: row.name,
                display_name: profile.display_name,
                description: profile.description,
                avatar: profile.avatar,
                capabilities: profile.capabilities,
                role: profile.role,
                model: profile.model,
                mentionable: row.mentionable,
                is_default: row.default_agent_id == Some(row.id),
                is_system: row.is_system,
                status: row.status,
                version: row.version,
                created_at: row.created_at,
                updated_at: row.updated_at,
            },
            workspace_id: row.workspace_id,
            instructions: profile.instructions,
            max_output_tokens: profile.max_output_tokens,
            temperature: profile.temperature,
            top_p: profile.top_p,
            metadata: profile.metadata,
            created_by: row.created_by,
        }
    }
}

macro_rules! agent_sql {
    ($tail:literal) => {
        concat!(
            "select a.id, a.workspace_id, a.name, a.status, a.is_system, a.mentionable, a.version, a.profile, a.created_by, \
             a.created_at, a.updated_at, w.default_agent_id from agents a join workspaces w on w.id = a.workspace_id ",
            $tail
        )
    };
}

/// What a turn runs with: an agent's version with everything merged in.
#[derive(Debug, Clone)]
pub struct Resolved {
    pub agent: AgentId,
    pub version: i64,
    pub name: String,
    pub profile: Profile,
}

/// An agent that may be asked, with the version that a loose mention runs.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Askable {
    pub id: AgentId,
    pub version: i64,
}

/// Who has a handle.
#[derive(Debug, Clone)]
pub enum HandleOwner {
    Person(UserId),
    /// Only an agent that can be asked: active, mentionable, no system agent.
    Agent(Askable),
}

/// `None` when nobody has it, or an agent that cannot be asked.
pub async fn find_by_handle(
    c: &mut Conn,
    workspace: WorkspaceId,
    handle: &str,
) -> Result<Option<HandleOwner>, DbError> {
    let row: Option<HandleRow> = c
        .q("select h.owner_type, h.owner_id, a.version, \
            coalesce(a.status = 'active' and a.mentionable and not a.is_system, FALSE) as askable \
            from handles h left join agents a on h.owner_type = 'agent' and a.id = h.owner_id \
            where h.workspace_id = $1 and h.handle = $2")
        .bind(workspace)
        .bind(handle.to_owned())
        .opt()
        .await?;
    Ok(
        row.and_then(|row| match (row.owner_type.as_str(), row.version) {
            ("user", _) => Some(HandleOwner::Person(UserId(row.owner_id))),
            (_, Some(version)) if row.askable => Some(HandleOwner::Agent(Askable {
                id: AgentId(row.owner_id),
                version,
            })),
            _ => None,
        }),
    )
}

#[derive(sqlx::FromRow)]
struct HandleRow {
    owner_type: String,
    owner_id: Uuid,
    version: Option<i64>,
    askable: bool,
}

/// An agent by id that can be asked; `None` when it is inactive, archived, or of another workspace.
pub async fn find_askable(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: AgentId,
) -> Result<Option<Askable>, DbError> {
    c.q("select id, version from agents where workspace_id = $1 and id = $2 and status = 'active' and not is_system")
        .bind(workspace)
        .bind(id)
        .opt()
        .await
}

/// The workspace's default agent, which is always active.
pub async fn find_default(
    c: &mut Conn,
    workspace: WorkspaceId,
) -> Result<Option<Askable>, DbError> {
    c.q("select a.id, a.version from workspaces w join agents a on a.id = w.default_agent_id where w.id = $1 and a.status = 'active'")
        .bind(workspace)
        .opt()
        .await
}

/// The newest version of an agent, whatever its status.
pub async fn newest_version(c: &mut Conn, id: AgentId) -> Result<i64, DbError> {
    c.q("select version from agents where id = $1")
        .bind(id)
        .value()
        .await
}

/// The text that a version's tasks run with.
pub async fn get_resolved(c: &mut Conn, id: AgentId, version: i64) -> Result<Resolved, DbError> {
    let (name, profile): (String, Json<Profile>) = c
        .q("select a.name, v.resolved from agent_versions v join agents a on a.id = v.agent_id where v.agent_id = $1 and v.version = $2")
        .bind(id)
        .bind(version)
        .one()
        .await?;
    Ok(Resolved {
        agent: id,
        version,
        name,
        profile: profile.0,
    })
}

/// What people call the agent.
pub async fn shown_name(c: &mut Conn, id: AgentId) -> Result<String, DbError> {
    c.q("select coalesce(profile ->> 'display_name', name) from agents where id = $1")
        .bind(id)
        .value()
        .await
}

/// # Errors
/// `NotFound` also for an agent of another workspace.
pub async fn get_agent(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: AgentId,
) -> Result<Agent, AgentError> {
    let row: Option<Row> = c
        .q(agent_sql!("where a.workspace_id = $1 and a.id = $2"))
        .bind(workspace)
        .bind(id)
        .opt()
        .await?;
    row.map(Agent::from).ok_or(AgentError::NotFound)
}

/// `agent_…`, or `main` for the workspace's default.
///
/// # Errors
/// `NotFound`, or `BadId` when it is neither.
pub async fn get_by_reference(
    c: &mut Conn,
    workspace: WorkspaceId,
    reference: &str,
) -> Result<Agent, AgentError> {
    if reference == "main" {
        let id: Option<AgentId> = c
            .q("select default_agent_id from workspaces where id = $1")
            .bind(workspace)
            .value()
            .await?;
        return get_agent(c, workspace, id.ok_or(AgentError::NotFound)?).await;
    }
    get_agent(c, workspace, reference.parse()?).await
}

/// Which agents to list.
#[derive(Debug, Default)]
pub struct Filter {
    pub status: Option<String>,
    pub name: Option<String>,
    /// Every pair has to be there.
    pub metadata: BTreeMap<String, String>,
}

/// In the order in which they were made, after or before an agent.
///
/// # Errors
/// `NotFound` when that is no agent of this workspace.
pub async fn list_agents(
    c: &mut Conn,
    workspace: WorkspaceId,
    filter: &Filter,
    (after, before): (Option<AgentId>, Option<AgentId>),
    limit: i64,
) -> Result<Vec<AgentSummary>, AgentError> {
    if let Some(id) = after.or(before) {
        get_agent(c, workspace, id).await?;
    }
    let (mut low, mut high) = (
        after.unwrap_or(AgentId(Uuid::nil())),
        before.unwrap_or(AgentId(Uuid::max())),
    );
    let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut found: Vec<AgentSummary> = Vec::new();
    // Metadata is compared here, the same way for both engines; without it one round is enough.
    loop {
        let q = if before.is_some() {
            c.q(agent_sql!(
                "where a.workspace_id = $1 and a.id > $2 and a.id < $3 and (a.status = $4 or $4 is null) and (a.name = $5 or $5 is null) \
                 order by a.id desc limit $6"
            ))
        } else {
            c.q(agent_sql!(
                "where a.workspace_id = $1 and a.id > $2 and a.id < $3 and (a.status = $4 or $4 is null) and (a.name = $5 or $5 is null) \
                 order by a.id limit $6"
            ))
        };
        let rows: Vec<Row> = q
            .bind(workspace)
            .bind(low)
            .bind(high)
            .bind(filter.status.clone())
            .bind(filter.name.clone())
            .bind(limit)
            .all()
            .await?;
        let Some(last) = rows.last().map(|row| row.id) else {
            break;
        };
        let full = rows.len() == wanted;
        let has = |row: &Row, key: &String, value: &String| {
            row.profile.0.metadata.get(key) == Some(value)
        };
        let fits = |row: &Row| {
            filter
                .metadata
                .iter()
                .all(|(key, value)| has(row, key, value))
        };
        found.extend(
            rows.into_iter()
                .filter(fits)
                .map(|row| Agent::from(row).summary),
        );
        if !full || found.len() >= wanted {
            break;
        }
        *(if before.is_some() {
            &mut high
        } else {
            &mut low
        }) = last;
    }
    found.truncate(wanted);
    if before.is_some() {
        found.reverse();
    }
    Ok(found)
}

/// The fields of `POST /v1/agents`.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAgent {
    /// `[a-z0-9][a-z0-9_-]{0,63}`, unique among the handles of the workspace.
    pub name: String,
    pub display_name: Option<String>,
    pub description: Option<String>,
    pub avatar: Option<Avatar>,
    /// Markdown, at most 256 KiB.
    pub instructions: String,
    pub model: Option<String>,
    /// 4096 by default.
    pub max_output_tokens: Option<u32>,
    /// 0 to 2.
    pub temperature: Option<f64>,
    /// 0 to 1.
    pub top_p: Option<f64>,
    #[serde(default)]
    pub capabilities: Vec<String>,
    #[serde(default)]
    pub role: AgentRole,
    pub mentionable: Option<bool>,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

/// The fields of `PATCH /v1/agents/{id}`: what is left out stays, `null` empties.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentPatch {
    #[serde(default, deserialize_with = "present")]
    pub name: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    pub display_name: Option<Option<String>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    pub description: Option<Option<String>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Avatar>)]
    pub avatar: Option<Option<Avatar>>,
    #[serde(default, deserialize_with = "present")]
    pub instructions: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    pub model: Option<Option<String>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<u32>)]
    pub max_output_tokens: Option<Option<u32>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<f64>)]
    pub temperature: Option<Option<f64>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<f64>)]
    pub top_p: Option<Option<f64>>,
    #[serde(default, deserialize_with = "present")]
    pub capabilities: Option<Vec<String>>,
    #[serde(default, deserialize_with = "present")]
    pub role: Option<AgentRole>,
    #[serde(default, deserialize_with = "present")]
    pub mentionable: Option<bool>,
    /// Merged by key; `null` removes one.
    #[serde(default, deserialize_with = "present")]
    pub metadata: Option<BTreeMap<String, Option<String>>>,
    #[serde(default, deserialize_with = "present")]
    pub status: Option<SettableStatus>,
}

/// What an admin can switch an agent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettableStatus {
    Active,
    Inactive,
    Archived,
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

fn invalid(param: &'static str, text: impl Into<String>) -> AgentError {
    AgentError::Invalid(text.into(), param)
}

/// Checks every rule of AGENT-PLATFORM §1 on a whole profile.
fn check(profile: &Profile) -> Result<(), AgentError> {
    if let Some(name) = &profile.display_name {
        DisplayName::parse(name, "display_name")?;
    }
    if profile.instructions.trim().is_empty() {
        return Err(invalid(
            "instructions",
            "the instructions are blank: say what the agent is for",
        ));
    }
    if profile.instructions.len() > INSTRUCTIONS_BYTES_MAX {
        return Err(AgentError::InstructionsTooLarge(profile.instructions.len()));
    }
    if profile
        .description
        .as_deref()
        .is_some_and(|text| units(text) > DESCRIPTION_UNITS_MAX)
    {
        return Err(invalid(
            "description",
            format!("the description has at most {DESCRIPTION_UNITS_MAX} characters"),
        ));
    }
    if profile
        .model
        .as_deref()
        .is_some_and(|text| text.trim().is_empty() || units(text) > MODEL_UNITS_MAX)
    {
        return Err(invalid(
            "model",
            format!(
                "a model's name has 1 to {MODEL_UNITS_MAX} characters; null means the server's default"
            ),
        ));
    }
    if !(1..=MAX_OUTPUT_TOKENS_MAX).contains(&profile.max_output_tokens) {
        return Err(invalid(
            "max_output_tokens",
            format!("max_output_tokens is from 1 to {MAX_OUTPUT_TOKENS_MAX}"),
        ));
    }
    if profile
        .temperature
        .is_some_and(|t| !(0.0..=2.0).contains(&t))
    {
        return Err(invalid("temperature", "temperature is from 0 to 2"));
    }
    if profile.top_p.is_some_and(|t| !(0.0..=1.0).contains(&t)) {
        return Err(invalid("top_p", "top_p is from 0 to 1"));
    }
    if profile.capabilities.len() > CAPABILITIES_MAX
        || profile
            .capabilities
            .iter()
            .any(|tag| tag.trim().is_empty() || units(tag) > CAPABILITY_UNITS_MAX)
    {
        return Err(invalid(
            "capabilities",
            format!("at most {CAPABILITIES_MAX} tags of 1 to {CAPABILITY_UNITS_MAX} characters"),
        ));
    }
    if profile.metadata.len() > METADATA_KEYS_MAX {
        return Err(invalid(
            "metadata",
            format!("metadata has at most {METADATA_KEYS_MAX} keys"),
        ));
    }
    if profile.metadata.iter().any(|(key, value)| {
        key.is_empty() || units(key) > METADATA_UNITS_MAX || units(value) > METADATA_UNITS_MAX
    }) {
        return Err(invalid(
            "metadata",
            format!("keys and values of metadata have at most {METADATA_UNITS_MAX} characters"),
        ));
    }
    if let Some(avatar) = &profile.avatar {
        let color_fits = avatar.color.as_deref().is_none_or(|color| {
            color.len() == 7
                && color.starts_with('#')
                && color[1..].bytes().all(|b| b.is_ascii_hexdigit())
        });
        if !color_fits {
            return Err(invalid("avatar.color", "a colour is written #rrggbb"));
        }
        if avatar
            .emoji
            .as_deref()
            .is_some_and(|emoji| emoji.trim().is_empty() || units(emoji) > 16)
        {
            return Err(invalid("avatar.emoji", "an avatar takes one emoji"));
        }
    }
    Ok(())
}

impl NewAgent {
    /// The first version, checked.
    ///
    /// # Errors
    /// `Invalid` with the field, `InstructionsTooLarge`, or a bad name.
    pub fn into_profile(self) -> Result<(String, bool, Profile), AgentError> {
        handles::check(&self.name, "name")?;
        let profile = Profile {
            display_name: self.display_name,
            description: self.description,
            avatar: self.avatar,
            instructions: self.instructions,
            model: self.model,
            max_output_tokens: self.max_output_tokens.unwrap_or(MAX_OUTPUT_TOKENS_DEFAULT),
            temperature: self.temperature,
            top_p: self.top_p,
            capabilities: self.capabilities,
            role: self.role,
            metadata: self.metadata,
        };
        check(&profile)?;
        Ok((self.name, self.mentionable.unwrap_or(true), profile))
    }
}

impl AgentPatch {
    fn apply(&self, profile: &Profile) -> Profile {
        let mut new = profile.clone();
        let set = |old: &mut Option<String>, given: &Option<Option<String>>| {
            if let Some(value) = given {
                old.clone_from(value);
            }
        };
        set(&mut new.display_name, &self.display_name);
        set(&mut new.description, &self.description);
        set(&mut new.model, &self.model);
        if let Some(value) = &self.avatar {
            new.avatar.clone_from(value);
        }
        if let Some(value) = &self.instructions {
            new.instructions.clone_from(value);
        }
        if let Some(value) = self.max_output_tokens {
            new.max_output_tokens = value.unwrap_or(MAX_OUTPUT_TOKENS_DEFAULT);
        }
        if let Some(value) = self.temperature {
            new.temperature = value;
        }
        if let Some(value) = self.top_p {
            new.top_p = value;
        }
        if let Some(value) = &self.capabilities {
            new.capabilities.clone_from(value);
        }
        if let Some(value) = self.role {
            new.role = value;
        }
        for (key, value) in self.metadata.iter().flatten() {
            match value {
                Some(value) => new.metadata.insert(key.clone(), value.clone()),
                None => new.metadata.remove(key),
            };
        }
        new
    }
}

/// A row to insert: a new agent in its first version.
pub struct FirstVersion {
    pub name: String,
    pub status: &'static str,
    pub mentionable: bool,
    pub profile: Profile,
    pub created_by: Option<UserId>,
}

/// Inserts an agent, its first version and its handle. `None` when the name is taken. Appends no event.
pub async fn insert_agent(
    c: &mut Conn,
    workspace: WorkspaceId,
    first: &FirstVersion,
) -> Result<Option<AgentId>, DbError> {
    let id = AgentId::new();
    if !handles::claim(c, workspace, &first.name, handles::Owner::Agent, id.0).await? {
        return Ok(None);
    }
    c.q("insert into agents (id, workspace_id, name, status, is_system, mentionable, version, profile, created_by, created_at, updated_at) \
         values ($1, $2, $3, $4, FALSE, $5, 1, $6, $7, $8, $8)")
        .bind(id)
        .bind(workspace)
        .bind(first.name.clone())
        .bind(first.status)
        .bind(first.mentionable)
        .bind(Json(first.profile.clone()))
        .bind(first.created_by)
        .bind(now())
        .run()
        .await?;
    insert_version(c, id, 1, &first.profile, first.created_by, "created").await?;
    Ok(Some(id))
}

async fn insert_version(
    c: &mut Conn,
    id: AgentId,
    version: i64,
    profile: &Profile,
    changed_by: Option<UserId>,
    summary: &str,
) -> Result<(), DbError> {
    c.q("insert into agent_versions (agent_id, version, profile, resolved, change_summary, changed_by, changed_at) \
         values ($1, $2, $3, $3, $4, $5, $6)")
        .bind(id)
        .bind(version)
        .bind(Json(profile.clone()))
        .bind(summary.to_owned())
        .bind(changed_by)
        .bind(now())
        .run()
        .await?;
    Ok(())
}

/// # Errors
/// `NameTaken`, or what `Actor::require` says.
pub async fn create_agent(
    c: &mut Conn,
    actor: &Actor,
    first: &FirstVersion,
) -> Result<Agent, AgentError> {
    actor.require(Scope::AgentsWrite)?;
    let id = insert_agent(c, actor.workspace, first)
        .await?
        .ok_or_else(|| AgentError::NameTaken(first.name.clone()))?;
    let agent = get_agent(c, actor.workspace, id).await?;
    log::append_one(
        c,
        actor.workspace,
        "agent.created",
        Audience::Workspace,
        &AgentEvent { agent: &agent },
    )
    .await?;
    Ok(agent)
}

/// Changes what the patch names, as a new version; nothing when it changes nothing. `expected` is the version of `If-Match`.
///
/// # Errors
/// `NotFound`, `Stale` with the agent as it is, `Invalid`, `DefaultMustStay`, or what `Actor::require` says.
pub async fn patch_agent(
    c: &mut Conn,
    actor: &Actor,
    reference: &str,
    patch: &AgentPatch,
    expected: Option<i64>,
) -> Result<Agent, AgentError> {
    actor.require(Scope::AgentsWrite)?;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    let agent = get_by_reference(c, actor.workspace, reference).await?;
    let id = agent.summary.id;
    let row: Row = c
        .q(agent_sql!("where a.workspace_id = $1 and a.id = $2"))
        .bind(actor.workspace)
        .bind(id)
        .one()
        .await?;
    let profile = patch.apply(&row.profile.0);
    check(&profile)?;
    let mentionable = patch.mentionable.unwrap_or(row.mentionable);
    let status = match patch.status {
        None => row.status.as_str(),
        Some(SettableStatus::Active) => "active",
        Some(SettableStatus::Inactive) => "inactive",
        Some(SettableStatus::Archived) => "archived",
    };
    if status != row.status {
        actor.require(Scope::AgentsAdmin)?;
        if status != "active" && agent.summary.is_default {
            return Err(AgentError::DefaultMustStay);
        }
    }
    let name = patch.name.as_deref().unwrap_or(&row.name);
    if name != row.name {
        handles::check(name, "name")?;
        handles::release(c, actor.workspace, id.0).await?;
        if !handles::claim(c, actor.workspace, name, handles::Owner::Agent, id.0).await? {
            return Err(AgentError::NameTaken(name.to_owned()));
        }
    }
    let unchanged = name == row.name
        && profile == row.profile.0
        && mentionable == row.mentionable
        && status == row.status;
    if unchanged && expected.is_none_or(|version| version == row.version) {
        return Ok(agent);
    }
    // The version is decided inside the update, so that of any number of parallel editors of one version one wins.
    let updated: Option<(i64,)> = c
        .q("update agents set profile = $3, mentionable = $4, status = $5, name = $8, version = version + 1, updated_at = $6 \
            where workspace_id = $1 and id = $2 and version = $7 returning version")
        .bind(actor.workspace)
        .bind(id)
        .bind(Json(profile.clone()))
        .bind(mentionable)
        .bind(status.to_owned())
        .bind(now())
        .bind(expected.unwrap_or(row.version))
        .bind(name.to_owned())
        .opt()
        .await?;
    let Some((version,)) = updated else {
        return Err(AgentError::Stale(Box::new(agent)));
    };
    let summary = change_summary(&row, &profile, name, mentionable, status);
    insert_version(c, id, version, &profile, Some(actor.user), &summary).await?;
    let agent = get_agent(c, actor.workspace, id).await?;
    let kind = if status == "archived" && row.status != "archived" {
        "agent.archived"
    } else {
        "agent.updated"
    };
    log::append_one(
        c,
        actor.workspace,
        kind,
        Audience::Workspace,
        &AgentEvent { agent: &agent },
    )
    .await?;
    Ok(agent)
}

/// Names the fields that differ.
fn change_summary(old: &Row, new: &Profile, name: &str, mentionable: bool, status: &str) -> String {
    let before = serde_json::to_value(&old.profile.0).unwrap_or_default();
    let after = serde_json::to_value(new).unwrap_or_default();
    let mut changed: Vec<String> = after
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, value)| before.get(key.as_str()) != Some(value))
        .map(|(key, _)| key.clone())
        .collect();
    if name != old.name {
        changed.push(format!("name: {name}"));
    }
    if mentionable != old.mentionable {
        changed.push("mentionable".to_owned());
    }
    if status != old.status {
        changed.push(format!("status: {status}"));
    }
    format!("changed {}", changed.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_agent() -> NewAgent {
        serde_json::from_value(
            serde_json::json!({"name": "ops", "instructions": "Keep the lights on."}),
        )
        .unwrap()
    }

    #[test]
    fn limits_are_counted_in_their_own_units() {
        let mut agent = new_agent();
        agent.instructions = "ü".repeat(INSTRUCTIONS_BYTES_MAX / 2);
        assert!(agent.clone().into_profile().is_ok());
        agent.instructions.push('x');
        assert!(matches!(
            agent.into_profile(),
            Err(AgentError::InstructionsTooLarge(_))
        ));
        let mut agent = new_agent();
        agent.metadata = (0..17).map(|n| (n.to_string(), String::new())).collect();
        assert!(agent.into_profile().is_err());
    }

    #[test]
    fn a_patch_merges_metadata_and_empties_with_null() {
        let (_, _, mut profile) = new_agent().into_profile().unwrap();
        profile.model = Some("m".to_owned());
        profile.metadata = [("a", "1"), ("b", "2")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
        let patch: AgentPatch = serde_json::from_value(
            serde_json::json!({"model": null, "metadata": {"a": null, "c": "3"}}),
        )
        .unwrap();
        let patched = patch.apply(&profile);
        assert_eq!(patched.model, None);
        assert_eq!(
            patched.metadata.into_iter().collect::<Vec<_>>(),
            [("b".into(), "2".into()), ("c".into(), "3".into())]
        );
        assert_eq!(patched.instructions, profile.instructions);
    }
}
