//! What a profile that is stored nowhere would be told: for the editor, and for trying it before it is saved.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    AgentError,
    profiles::{self, Base, NewAgent},
    system::{self, SystemPart},
};
use crate::{
    auth::{Actor, Scope},
    db::Conn,
    ids::AgentId,
    model::Provider,
};

/// Stands for the name of a draft that has none yet.
const UNNAMED: &str = "draft";

/// The fields of `POST /v1/agents/preview`.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewForm {
    /// The agent that the draft would change; its files count.
    #[serde(default)]
    pub agent_id: Option<AgentId>,
    /// As for `POST /v1/agents`; the name may be left out.
    #[schema(value_type = NewAgent)]
    pub agent: Map<String, Value>,
}

/// What a draft comes to.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Preview {
    /// The whole system text.
    pub system: String,
    /// Estimated.
    pub tokens: u64,
    /// Where the system text comes from, in its order.
    pub segments: Vec<SystemPart>,
    /// The model that the draft or its base asks for; null for the server's default.
    pub model: Option<String>,
    /// The model that would reply; null without one.
    pub effective_model: Option<String>,
    pub max_output_tokens: u32,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    /// Whose profiles are merged in before the draft's own, the farthest first.
    pub resolved_from: Vec<Base>,
}

impl Preview {
    /// Finds out which model would reply.
    pub async fn set_effective_model(&mut self, provider: &dyn Provider) {
        self.effective_model = provider.effective_model(self.model.as_deref()).await;
    }
}

/// The model that would reply is not looked up here.
///
/// # Errors
/// Those of making such an agent but for its name, or what `Actor::require` says.
pub async fn preview(
    c: &mut Conn,
    actor: &Actor<'_>,
    form: PreviewForm,
) -> Result<Preview, AgentError> {
    actor.require(Scope::AgentsRead)?;
    if let Some(id) = form.agent_id {
        profiles::get_visible(c, actor, id).await?;
    }
    let mut fields = form.agent;
    fields.entry("name").or_insert_with(|| Value::from(UNNAMED));
    if fields.get("name").is_some_and(|name| name == "") {
        fields.insert("name".to_owned(), Value::from(UNNAMED));
    }
    let parts = profiles::parse_form(Value::Object(fields))?.into_parts()?;
    profiles::check_names(c, actor.workspace, &parts.profile, None).await?;
    let own = parts.profile.instructions.clone();
    profiles::see_base(c, actor, &parts.profile, None).await?;
    let (merged, resolved_from) =
        profiles::resolve_draft(c, actor.workspace, form.agent_id, &parts.profile).await?;
    let system = system::build(c, actor.workspace, form.agent_id, Some(&own), &merged).await?;
    Ok(Preview {
        system: system.text(),
        tokens: system.tokens(),
        max_output_tokens: merged.output_tokens_max(),
        model: merged.model,
        effective_model: None,
        temperature: merged.temperature,
        top_p: merged.top_p,
        segments: system.parts,
        resolved_from,
    })
}
