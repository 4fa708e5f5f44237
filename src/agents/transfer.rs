//! An agent on its way to another workspace: everything but what only its own workspace knows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::openapi::{
    RefOr, Schema,
    schema::{ObjectBuilder, SchemaType, Type},
};

use super::{
    AgentError, files,
    profiles::{self, Agent, NewAgent},
};
use crate::{
    auth::{Actor, Scope},
    db::Conn,
    ids::AgentId,
};

/// The form of an export that is written and read.
const FORMAT: u32 = 1;
/// Ids of people, policies and personas mean nothing elsewhere.
const LEFT_OUT: &[&str] = &[
    "access_control",
    "sandbox_policy_id",
    "persona_id",
    "base_profile_id",
    "trust",
];

/// What `GET /v1/agents/{id}/export` answers.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Export {
    /// Always `agent_export`.
    pub object: &'static str,
    /// Always 1.
    pub format: u32,
    /// The fields of `POST /v1/agents`, without those that name people, policies or other agents; `base` is the base's name.
    #[schema(value_type = PortableAgent)]
    pub agent: Map<String, Value>,
    /// By path; SOUL.md and IDENTITY.md are in `agent`.
    pub files: BTreeMap<String, String>,
}

/// The fields of `POST /v1/agents/import`: an export, or files of that kind.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Import {
    #[serde(default)]
    pub object: Option<String>,
    /// 1.
    #[serde(default)]
    pub format: Option<u32>,
    /// As for `POST /v1/agents`, and `base`: a base's name, `main` for the default agent.
    #[schema(value_type = PortableAgent)]
    pub agent: Map<String, Value>,
    /// By path; SOUL.md is `agent.instructions` and IDENTITY.md `agent.identity`.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// The shape of an agent that goes from one workspace to another, for the API document.
struct PortableAgent;

impl utoipa::PartialSchema for PortableAgent {
    /// Those of `NewAgent`, and the base. SOUL.md may stand for the instructions.
    fn schema() -> RefOr<Schema> {
        let mut schema = NewAgent::schema_with_required(&["name"]);
        if let RefOr::T(Schema::AllOf(all)) = &mut schema {
            let base = ObjectBuilder::new()
                .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
                .description(Some("The name of its base; `main` for the default agent."));
            all.items
                .push(ObjectBuilder::new().property("base", base).into());
            all.description =
                Some("The fields of `POST /v1/agents`, and its base by name.".to_owned());
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
/// `NotFound`, or what `Actor::require` says.
pub async fn export_agent(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
) -> Result<Export, AgentError> {
    actor.require(Scope::AgentsRead)?;
    let agent = profiles::get_by_reference(c, actor, reference).await?;
    let version = agent.summary.version;
    let version = profiles::get_version(c, actor, reference, version).await?;
    let mut fields = match serde_json::to_value(version.snapshot) {
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
    if let Some(base) = agent.summary.base_profile_id {
        let base = profiles::get_agent(c, actor.workspace, base).await?;
        fields.insert("base".to_owned(), base.summary.name.into());
    }
    Ok(Export {
        object: "agent_export",
        format: FORMAT,
        agent: fields,
        files: files::own(c, &agent).await?,
    })
}

/// Makes an agent of an export or of files; all of it or nothing.
///
/// # Errors
/// `Malformed`, `NoBaseNamed`, those of making an agent and of its files, or what `Actor::require` says.
pub async fn import_agent(
    c: &mut Conn,
    actor: &Actor<'_>,
    import: &Import,
) -> Result<Agent, AgentError> {
    actor.require(Scope::AgentsWrite)?;
    let is_export = import.object.as_deref().is_none_or(|o| o == "agent_export");
    if !is_export || import.format.is_some_and(|format| format != FORMAT) {
        let text = format!(
            "this is no agent export of format {FORMAT}: export it again with this version"
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
            let text = format!("{path} and agent.{field} are the same text: send one of them");
            return Err(AgentError::Invalid(text, "files"));
        }
        fields.insert(field.to_owned(), text.into());
    }
    if let Some(base) = fields.remove("base").filter(|base| !base.is_null()) {
        let Value::String(name) = base else {
            let text = "base is the name of an agent".to_owned();
            return Err(AgentError::Malformed(text, "agent.base".to_owned()));
        };
        let id = find_base(c, actor, &name).await?;
        fields.insert("base_profile_id".to_owned(), id.to_string().into());
    }
    let parts = profiles::parse_form(Value::Object(fields))?.into_parts()?;
    let agent = profiles::create_agent(c, actor, parts, "imported".to_owned()).await?;
    files::plant(c, actor, &agent, &kept).await?;
    Ok(agent)
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
