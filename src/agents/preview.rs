//! System text of a profile that is not stored. The editor uses it, also to try out an agent before it is saved.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::openapi::{RefOr, Schema};

use super::{
    AgentError,
    profiles::{self, Base, NewAgent, Resolved},
    system::{self, SystemPart},
};
use crate::{
    auth::{Actor, Scope},
    db::Conn,
    ids::{AgentId, ChannelId},
    model::Provider,
};

/// Placeholder name for a draft without a name.
const UNNAMED: &str = "draft";

/// Fields of `POST /v1/agents/preview`.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewForm {
    /// The agent that the draft would change; its files are included.
    #[serde(default)]
    pub agent_id: Option<AgentId>,
    /// Channel for whose new threads `sources` are listed; without it, they contain nothing from a conversation.
    #[serde(default)]
    pub channel_id: Option<ChannelId>,
    /// Fields as for `POST /v1/agents`; the name is optional.
    pub agent: UnnamedAgent,
}

/// Fields of an agent that may have no name yet.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub struct UnnamedAgent(Map<String, Value>);

impl utoipa::PartialSchema for UnnamedAgent {
    fn schema() -> RefOr<Schema> {
        NewAgent::schema_with_required(&["instructions"])
    }
}

impl utoipa::ToSchema for UnnamedAgent {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        <NewAgent as utoipa::ToSchema>::schemas(schemas);
    }
}

/// The resulting system text and model settings of a draft.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Preview {
    /// The full system text.
    pub system: String,
    /// Estimated number of tokens.
    pub tokens: u64,
    /// Sources of the system text, in order.
    pub segments: Vec<SystemPart>,
    /// The model that the draft or its base sets; null for the server's default.
    pub model: Option<String>,
    /// The model that would reply; null if the server has no language model.
    pub effective_model: Option<String>,
    pub max_output_tokens: u32,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    /// Bases whose profiles are merged in before the draft's own, most distant first.
    pub resolved_from: Vec<Base>,
}

impl Preview {
    /// Determines which model would reply.
    pub async fn set_effective_model(&mut self, provider: &dyn Provider) {
        self.effective_model = provider.effective_model(self.model.as_deref()).await;
    }
}

/// Previews a draft, without determining the model that would reply. Also returns the draft as a version that could reply.
///
/// # Errors
/// Any error that creating such an agent returns, except those about its name, or an error from `Actor::require`.
pub async fn preview(
    c: &mut Conn,
    actor: &Actor<'_>,
    form: PreviewForm,
) -> Result<(Preview, Resolved), AgentError> {
    actor.require(Scope::AgentsRead)?;
    let before = match form.agent_id {
        Some(id) => Some(profiles::get_visible_profile(c, actor, id).await?),
        None => None,
    };
    let version = match form.agent_id {
        Some(id) => profiles::newest_version(c, id).await?,
        None => None,
    };
    let UnnamedAgent(mut fields) = form.agent;
    fields.entry("name").or_insert_with(|| Value::from(UNNAMED));
    if fields.get("name").is_some_and(|name| name == "") {
        fields.insert("name".to_owned(), Value::from(UNNAMED));
    }
    let mut parts = profiles::parse_form(Value::Object(fields))?.into_parts()?;
    if let Some(before) = &before {
        parts.profile.files.clone_from(&before.files);
    }
    profiles::check_names(c, actor, &mut parts.profile, before.as_ref()).await?;
    let own = parts.profile.instructions.clone();
    profiles::see_base(c, actor, &parts.profile, None).await?;
    let (merged, resolved_from) =
        profiles::resolve_draft(c, actor.workspace, form.agent_id, &parts.profile).await?;
    let system = system::build(c, actor.workspace, Some(&own), &merged).await?;
    let draft = Resolved {
        agent: form.agent_id.unwrap_or_default(),
        version: version.unwrap_or_default(),
        shown_name: merged.shown_name(&parts.name).to_owned(),
        name: parts.name,
        own_instructions: (!resolved_from.is_empty()).then_some(own),
        profile: merged.clone(),
    };
    let preview = Preview {
        system: system.text(),
        tokens: system.tokens(),
        max_output_tokens: merged.output_tokens_max(),
        model: merged.model,
        effective_model: None,
        temperature: merged.temperature,
        top_p: merged.top_p,
        segments: system.parts,
        resolved_from,
    };
    Ok((preview, draft))
}
