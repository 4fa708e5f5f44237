//! Values that clients can use as `model`: agents, and the default model.

use serde::Serialize;

use super::{ResponseError, ResponsesService, plan::AGENT_PREFIX};
use crate::{
    agents::profiles::{self, AccessControl},
    auth::{Actor, Scope, WorkspaceCaller},
    db::{Conn, Json},
    ids::AgentId,
    text_enum::constant,
    time::Timestamp,
};

/// Maximum number of agents read per query.
const AGENTS_AT_ONCE: i64 = 1_000;

constant! { pub ModelObject = "model" }

/// A model of the Models API.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Model {
    /// ID: `agent:NAME`, or the provider's name for a model.
    pub id: String,
    #[schema(inline)]
    pub object: ModelObject,
    /// Creation time, in seconds since the Unix epoch; 0 for a provider's model.
    pub created: i64,
    /// `openvibe` for an agent, `provider` for a model of a server, and `builtin` without one.
    #[schema(example = "openvibe")]
    pub owned_by: String,
    /// True if every agent uses this model, regardless of its profile (`OPENVIBE_MODEL`, or the model in the
    /// workspace's settings).
    pub overrides_agents: bool,
}

fn of_agent(name: &str, created_at: Timestamp) -> Model {
    Model {
        id: format!("{AGENT_PREFIX}{name}"),
        object: ModelObject,
        created: created_at.unix_s(),
        owned_by: "openvibe".to_owned(),
        overrides_agents: false,
    }
}

impl ResponsesService {
    async fn default_model(&self) -> Model {
        Model {
            id: self.provider.choose_model(None).await,
            object: ModelObject,
            created: 0,
            // The provider's name contains the address of its server.
            owned_by: if self.provider.is_offline() {
                "builtin".to_owned()
            } else {
                "provider".to_owned()
            },
            overrides_agents: self.provider.override_model().is_some(),
        }
    }
}

/// Lists the mentionable agents that the actor can use, oldest first, and then the default model.
///
/// # Errors
/// An error from `Actor::require`.
pub async fn list_models(
    service: &ResponsesService,
    member: &WorkspaceCaller,
) -> Result<Vec<Model>, ResponseError> {
    let mut c = service.db.scan(member.share()).await?;
    let actor = member.enter(&mut c).await?;
    actor.require(Scope::AgentsUse)?;
    let mut models = Vec::new();
    let mut after = AgentId(uuid::Uuid::nil());
    loop {
        let agents: Vec<(AgentId, String, Timestamp, Option<Json<AccessControl>>)> = c
            .q("select id, name, created_at, access from agents where workspace_id = $1 and status = 'active' and mentionable \
                and not is_system and id > $2 order by id limit $3")
            .bind(actor.workspace)
            .bind(after)
            .bind(AGENTS_AT_ONCE)
            .all()
            .await?;
        let Some((last, ..)) = agents.last() else {
            break;
        };
        after = *last;
        let usable = agents.iter().filter(|(_, _, _, access)| {
            profiles::can_invoke(access.as_ref().map(|lists| &lists.0), &actor)
        });
        models.extend(usable.map(|(_, name, created_at, _)| of_agent(name, *created_at)));
    }
    drop(c);
    models.push(service.default_model().await);
    Ok(models)
}

/// Finds a model in the list.
///
/// # Errors
/// `ModelNotFound`, or an error from `Actor::require`.
pub async fn find_model(
    service: &ResponsesService,
    member: &WorkspaceCaller,
    id: &str,
) -> Result<Model, ResponseError> {
    let mut c = service.db.read().await?;
    let actor = member.enter(&mut c).await?;
    actor.require(Scope::AgentsUse)?;
    let absent = || ResponseError::ModelNotFound(id.to_owned());
    if let Some(name) = id.strip_prefix(AGENT_PREFIX) {
        let found = find_agent(&mut c, &actor, name).await?;
        return found.ok_or_else(absent);
    }
    drop(c);
    Some(service.default_model().await)
        .filter(|model| model.id == id)
        .ok_or_else(absent)
}

async fn find_agent(
    c: &mut Conn,
    actor: &Actor<'_>,
    name: &str,
) -> Result<Option<Model>, ResponseError> {
    let Some(agent) = profiles::find_usable(c, actor, name).await? else {
        return Ok(None);
    };
    let row: Option<(String, Timestamp)> = c
        .q("select name, created_at from agents where id = $1 and mentionable")
        .bind(agent.id)
        .opt()
        .await?;
    Ok(row.map(|(name, created_at)| of_agent(&name, created_at)))
}
