//! Export and import of agents: all data of an agent except for data that is only meaningful in its workspace.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::openapi::{
    RefOr, Schema,
    schema::{ObjectBuilder, SchemaType, Type},
};

use super::{
    AgentError, files,
    profiles::{self, Agent, Approver, NewAgent, Tool},
    prompt_profiles::{AUTO, NONE},
};
use crate::{
    auth::{Actor, Scope},
    db::Conn,
    ids::AgentId,
    text_enum::constant,
};

/// Version of the export format that is written and read.
const FORMAT: u32 = 1;
/// Fields that are not exported, because IDs of users, sandbox policies, personas, and agents are not valid in another workspace.
const LEFT_OUT: &[&str] = &[
    "access_control",
    "editors",
    "sandbox_policy_id",
    "persona_id",
    "persona_text",
    "base_profile_id",
];

constant! { pub ExportObject = "agent_export" }

/// Response of `GET /v1/agents/{id}/export`.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Export {
    #[schema(inline)]
    pub object: ExportObject,
    /// Always 1.
    pub format: u32,
    /// Fields of `POST /v1/agents`, without those that refer to users, sandbox policies, registered tools, or other agents;
    /// `base` is the base's name. Rules that require a specific person require an admin instead, and the channels of
    /// restricted searches are removed, so that the copy finds nothing until channels are chosen.
    #[schema(value_type = PortableAgent)]
    pub agent: Map<String, Value>,
    /// File contents by path; SOUL.md and IDENTITY.md are part of `agent`.
    pub files: BTreeMap<String, String>,
}

/// Fields of `POST /v1/agents/import`: an export, or files in the same form.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Import {
    #[serde(default)]
    pub object: Option<String>,
    /// Always 1.
    #[serde(default)]
    pub format: Option<u32>,
    /// Fields as for `POST /v1/agents`, plus `base`: the name of a base, or `main` for the default agent.
    #[schema(value_type = PortableAgent)]
    pub agent: Map<String, Value>,
    /// File contents by path; SOUL.md replaces `agent.instructions` and IDENTITY.md `agent.identity`.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// An agent that was created from an export or from files.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Imported {
    #[serde(flatten)]
    pub agent: Agent,
    /// Effect of each file, by path.
    pub effects: Vec<FileEffect>,
}

/// Effect of an agent's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct FileEffect {
    pub path: String,
    /// Effect in words, such as `sent with every reply as the agent's instructions`.
    pub effect: &'static str,
}

const UNUSED: &str = "stored, but not used in replies";

impl FileEffect {
    /// Checks whether replies use the file.
    pub fn is_used(&self) -> bool {
        self.effect != UNUSED
    }

    pub fn of(path: &str) -> Self {
        let effect = match path {
            files::SOUL => "sent with every reply as the agent's instructions",
            files::IDENTITY => "sent with every reply as the agent's identity",
            files::MEMORY => "the first 2,000 tokens are sent with every reply",
            _ if files::SHARED.contains(&path) => {
                "sent with every reply instead of the workspace's file"
            }
            files::HEARTBEAT => "read by a regular check",
            _ if files::log_date(path).is_some() => "searched by paragraph",
            _ => UNUSED,
        };
        Self {
            path: path.to_owned(),
            effect,
        }
    }
}

/// Schema of an agent that is transferred between workspaces, for the API document.
struct PortableAgent;

impl utoipa::PartialSchema for PortableAgent {
    /// The fields of `NewAgent`, plus `base`. SOUL.md can replace the instructions.
    fn schema() -> RefOr<Schema> {
        let mut schema = NewAgent::schema_with_required(&["name"]);
        if let RefOr::T(Schema::AllOf(all)) = &mut schema {
            let base = ObjectBuilder::new()
                .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
                .description(Some("Name of the base; `main` for the default agent."));
            all.items
                .push(ObjectBuilder::new().property("base", base).into());
            all.description =
                Some("Fields of `POST /v1/agents`, with the base by name.".to_owned());
        }
        schema
    }
}

impl utoipa::ToSchema for PortableAgent {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        <NewAgent as utoipa::ToSchema>::schemas(schemas);
    }
}

/// # Errors
/// `NotFound`, or an error from `Actor::require`.
pub async fn export_agent(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
) -> Result<Export, AgentError> {
    actor.require(Scope::AgentsRead)?;
    let agent = profiles::get_by_reference(c, actor, reference).await?;
    let version = agent.summary.version;
    let version = profiles::get_version(c, actor, reference, version).await?;
    let mut snapshot = version.snapshot;
    restrict(&mut snapshot);
    let mut fields = match serde_json::to_value(snapshot) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    fields.retain(|name, value| {
        !value.is_null() && name != "status" && !LEFT_OUT.contains(&name.as_str())
    });
    for tool in fields
        .get_mut("tools")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(tool) = tool.as_object_mut() {
            tool.remove("sandbox_policy_id");
            tool.remove("registry_id");
        }
    }
    // Other workspaces have their own presets and reject unknown ones.
    if let Some(prompting) = fields.get_mut("prompting").and_then(Value::as_object_mut)
        && let Some(Value::String(profile)) = prompting.get("profile")
        && ![AUTO, NONE].contains(&profile.as_str())
    {
        prompting.remove("profile");
    }
    if let Some(base) = agent.summary.base_profile_id {
        let base = profiles::get_agent(c, actor.workspace, base).await?;
        fields.insert("base".to_owned(), base.summary.name.into());
    }
    Ok(Export {
        object: ExportObject,
        format: FORMAT,
        agent: fields,
        files: files::own(c, &agent).await?,
    })
}

/// Replaces references to people and channels of this workspace without permitting more: an approval by a specific person
/// becomes one by an admin, and a search that is restricted to channels finds nothing until channels are chosen.
fn restrict(agent: &mut NewAgent) {
    let trust = agent.trust.iter_mut();
    for rule in trust.flat_map(|trust| trust.approval_rules.iter_mut()) {
        if rule.user_id.take().is_some() {
            rule.requires = Approver::Admin;
        }
    }
    for tool in agent.tools.iter_mut().flatten() {
        if let Tool::FileSearch(tool) = tool
            && let Some(filters) = &mut tool.filters
        {
            filters.insert("channel_ids".to_owned(), Value::Array(Vec::new()));
        }
    }
}

/// Creates an agent from an export or from files, in one transaction.
///
/// # Errors
/// `Malformed`, `NoBaseNamed`, an error from creating the agent or its files, or an error from `Actor::require`.
pub async fn import_agent(
    c: &mut Conn,
    actor: &Actor<'_>,
    import: &Import,
) -> Result<Imported, AgentError> {
    actor.require(Scope::AgentsWrite)?;
    let is_export = import.object.as_deref().is_none_or(|o| o == "agent_export");
    if !is_export || import.format.is_some_and(|format| format != FORMAT) {
        let text = format!(
            "this is not an agent export of format {FORMAT}: export the agent again with this version of OpenVibe"
        );
        return Err(AgentError::Invalid(text, "format"));
    }
    let mut fields = import.agent.clone();
    let mut kept = import.files.clone();
    for (path, field) in [(files::SOUL, "instructions"), (files::IDENTITY, "identity")] {
        let Some(text) = kept.remove(path) else {
            continue;
        };
        if fields.get(field).is_some_and(|value| !value.is_null()) {
            let text = format!("{path} and agent.{field} are the same text: send only one of them");
            return Err(AgentError::Invalid(text, "files"));
        }
        fields.insert(field.to_owned(), text.into());
    }
    if let Some(base) = fields.remove("base").filter(|base| !base.is_null()) {
        let Value::String(name) = base else {
            let text = "base must be the name of an agent".to_owned();
            return Err(AgentError::Malformed(text, "agent.base".to_owned()));
        };
        let id = find_base(c, actor, &name).await?;
        fields.insert("base_profile_id".to_owned(), id.to_string().into());
    }
    let mut parts = profiles::parse_form(Value::Object(fields))?.into_parts()?;
    parts.profile.files = files::take_instructions(&mut kept)?;
    let agent = profiles::create_agent(c, actor, parts, "imported").await?;
    files::seed(c, actor, &agent, &kept).await?;
    let paths = import.files.keys();
    let effects = paths.map(|path| FileEffect::of(path)).collect();
    Ok(Imported { agent, effects })
}

async fn find_base(c: &mut Conn, actor: &Actor<'_>, name: &str) -> Result<AgentId, AgentError> {
    if name == "main" {
        return Ok(profiles::get_by_reference(c, actor, "main")
            .await?
            .summary
            .id);
    }
    let found = profiles::find_by_name(c, actor, name).await?;
    found.ok_or_else(|| AgentError::NoBaseNamed(name.to_owned()))
}
