//! HTTP route for the usage of agents and models.

use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::St;
use crate::{
    agents::profiles,
    auth::{
        self, Scope, WorkspaceCaller,
        quota::{self, Storage},
    },
    http::{ApiError, ErrorCode, extract::Query, page::ListObject},
    ids::UserId,
    server::State,
    tasks::usage::{self, Filter, GroupBy, Key, Month, Sums},
};

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(get_usage))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct UsageQuery {
    /// `YYYY-MM`, in UTC; this month by default.
    #[param(inline)]
    from: Option<Month>,
    /// `YYYY-MM`, inclusive; the same as `from` by default, or this month.
    #[param(inline)]
    to: Option<Month>,
    /// `person` by default.
    #[param(inline)]
    group_by: Option<GroupBy>,
    /// Only the usage of this user; `me` for your own, which does not require an admin.
    user_id: Option<String>,
}

/// Usage of one person, agent, month, or model.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct Used {
    /// `user_…`; `agent_…`, or `none` if only a model was used; `YYYY-MM`; or the name of a model, or `none` if the
    /// task failed before a model replied.
    key: String,
    /// Display name.
    name: String,
    #[serde(flatten)]
    sums: Sums,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
struct UsageAnswer {
    #[schema(inline)]
    object: ListObject,
    from: String,
    to: String,
    group_by: GroupBy,
    /// Months in chronological order; everything else by total tokens, descending, at most 1,000.
    data: Vec<Used>,
    /// Total over all entries.
    total: Sums,
    /// Storage used by the workspace, for admins.
    storage: Option<Storage>,
}

const NONE: &str = "none";

/// Get the usage of agents and models by person, agent, month, or model
///
/// For other people, or for everyone: an admin, `workspace:admin`.
#[utoipa::path(get, path = "/v1/usage", tag = "admin",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(UsageQuery), responses((status = 200, body = UsageAnswer)))]
async fn get_usage(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<UsageQuery>,
) -> Result<Json<UsageAnswer>, ApiError> {
    let (from, to) = (query.from, query.to);
    let group_by = query.group_by.unwrap_or(GroupBy::Person);
    let mut c = state.db.scan(member.share()).await?;
    let actor = member.enter(&mut c).await?;
    let user = match query.user_id.as_deref().filter(|text| !text.is_empty()) {
        None => None,
        Some("me") => Some(actor.user),
        Some(id) => Some(id.parse::<UserId>()?),
    };
    let is_own = user == Some(actor.user);
    if is_own && !actor.scopes.has(Scope::WorkspaceAdmin) {
        actor.require(Scope::ChatRead)?;
    } else {
        actor.require(Scope::WorkspaceAdmin)?;
    }
    let present = Month::present();
    let from = from.unwrap_or_else(|| to.map_or(present, |to| to.min(present)));
    let to = to.unwrap_or_else(|| from.max(present));
    if from > to {
        return Err(ApiError::invalid(
            ErrorCode::InvalidMonth,
            "`from` is after `to`: swap them".to_owned(),
            "from",
        ));
    }
    let filter = Filter { from, to, user };
    if let Some(user) = user
        && !usage::knows(&mut c, actor.workspace, user).await?
    {
        auth::get_member(&mut c, actor.workspace, user).await?;
    }
    let rows = usage::list(&mut c, actor.workspace, &filter, group_by).await?;
    let total = usage::total(&mut c, actor.workspace, &filter).await?;
    let storage = if actor.scopes.has(Scope::WorkspaceAdmin) {
        Some(quota::get_storage(&mut c, actor.workspace).await?)
    } else {
        None
    };
    let mut data = Vec::with_capacity(rows.len());
    for (key, sums) in rows {
        let (key, name) = match key {
            Key::Person(user) => {
                let name = auth::name_of(&mut c, user).await?;
                (
                    user.to_string(),
                    name.unwrap_or_else(|| "Deleted account".to_owned()),
                )
            }
            Key::Agent(Some(agent)) => (
                agent.to_string(),
                profiles::shown_name(&mut c, agent).await?,
            ),
            Key::Agent(None) => (NONE.to_owned(), "No agent".to_owned()),
            Key::Text(text) if text.is_empty() => (NONE.to_owned(), "No model".to_owned()),
            Key::Text(text) => (text.clone(), text),
        };
        data.push(Used { key, name, sums });
    }
    Ok(Json(UsageAnswer {
        object: ListObject,
        from: from.text(),
        to: to.text(),
        group_by,
        data,
        total,
        storage,
    }))
}
