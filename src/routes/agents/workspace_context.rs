//! HTTP route for what agents know about the workspace.

use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;

use super::St;
use crate::{
    auth::{Caller, Scope},
    chat::{ChatError, access},
    http::{
        ApiError,
        extract::{Path, Query},
        routing::routes,
    },
    ids::{ChannelId, WorkspaceId},
    model::estimate_tokens,
    replies::{
        lines::without_control_tokens,
        workspace::{self, ContextPart, ContextPlace},
    },
    server::State,
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(get_workspace_context))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct WorkspaceContextQuery {
    /// The channel in which an agent would reply; if omitted, only content that everyone can read is included.
    channel_id: Option<ChannelId>,
}

#[derive(Serialize, utoipa::ToSchema)]
struct PartSize {
    #[schema(inline)]
    name: ContextPart,
    tokens: u64,
}

/// The workspace context as agents with the default model receive it.
#[derive(Serialize, utoipa::ToSchema)]
struct SentWorkspaceContext {
    /// The text that agents receive; empty if the policy turns the workspace context off.
    text: String,
    /// Estimated number of tokens.
    tokens: u64,
    parts: Vec<PartSize>,
}

/// Get what agents know about the workspace in a channel
#[utoipa::path(get, path = "/v1/workspaces/{id}/context", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = WorkspaceId, Path), WorkspaceContextQuery), responses((status = 200, body = SentWorkspaceContext)))]
async fn get_workspace_context(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<WorkspaceId>,
    Query(query): Query<WorkspaceContextQuery>,
) -> Result<Json<SentWorkspaceContext>, ApiError> {
    let mut c = state.db.read().await?;
    caller.enter(&mut c, id).await?.require(Scope::ChatRead)?;
    drop(c);
    let mut c = state.db.scan(caller.share(id)).await?;
    let actor = caller.enter(&mut c, id).await?;
    actor.require(Scope::ChatRead)?;
    if let Some(channel) = query.channel_id {
        let found = access::channel(&mut c, &caller, channel).await?;
        if found.actor.workspace != id {
            return Err(ChatError::ChannelNotFound.into());
        }
    }
    let place = ContextPlace {
        workspace: id,
        channel: query.channel_id,
        thread: None,
        reader: actor.user,
        scopes: None,
    };
    let context = workspace::load(&mut c, &place).await?;
    drop(c);
    let provider = state.providers.of(id).await?;
    let model = provider.choose_model(None).await;
    let window = provider.window(&model).await;
    let rendered = context.and_then(|mut context| {
        context.limit(&window);
        context.render()
    });
    let (text, parts) =
        rendered.map_or_else(Default::default, |rendered| (rendered.text, rendered.parts));
    // Model requests strip control tokens from every message as well.
    let text = without_control_tokens(&text).into_owned();
    let part = |(name, tokens)| PartSize {
        name,
        tokens: window.corrected(tokens),
    };
    Ok(Json(SentWorkspaceContext {
        tokens: window.corrected(estimate_tokens(&text)),
        text,
        parts: parts.into_iter().map(part).collect(),
    }))
}
