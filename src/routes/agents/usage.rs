//! HTTP route for the usage of agents and models.

use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;

use super::St;
use crate::{
    agents::profiles,
    auth::{
        self, Actor, Scope, WorkspaceCaller,
        quota::{self, Storage},
    },
    chat::{ChatError, access},
    db::Conn,
    http::{ApiError, ErrorCode, extract::Query, page::ListObject, routing::routes},
    ids::{ForkId, TaskId, ThreadId, UserId},
    routes::chat::{reader_of, visible_task},
    server::State,
    tasks::{
        costs,
        usage::{self, Filter, GroupBy, Key, Month, Sums, TaskSet, TaskUsage},
    },
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
    /// `YYYY-MM`, inclusive; this month by default, or `from` if that is later.
    #[param(inline)]
    to: Option<Month>,
    /// `person` by default.
    #[param(inline)]
    group_by: Option<GroupBy>,
    /// Only the usage of this user; `me` for your own, which does not require the admin role.
    user_id: Option<String>,
    /// Only this task and the tasks that it started. Available to everyone in the conversation; covers all months by default.
    task_id: Option<TaskId>,
    /// Only the tasks of this thread and of its forks. Available to everyone who can read the thread; covers all months by default.
    thread_id: Option<ThreadId>,
    /// Only the tasks of this fork. Available to everyone who can read the fork; covers all months by default.
    fork_id: Option<ForkId>,
}

/// Usage of one person, agent, month, or model.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct Used {
    /// ID of the person (`user_…`) or agent (`agent_…`, or `none` if only a model was used), the month (`YYYY-MM`), or the name of
    /// the model (`none` if the task failed before a model replied).
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
    /// At most 1,000 entries: months in chronological order, all others by total tokens, highest first.
    data: Vec<Used>,
    /// Total over all entries.
    total: Sums,
    /// Storage used by the workspace, for admins.
    storage: Option<Storage>,
}

const NONE: &str = "none";

/// Get the usage of agents and models by person, agent, month, or model
///
/// The usage of other people requires the admin role; keys need `workspace:admin`. Costs are null if the policy hides them from the
/// caller.
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
    if let Some(set) = find_tasks(&mut c, &member, &query).await? {
        return usage_of_tasks(&mut c, &actor, &query, set).await;
    }
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
        return Err(swapped_months());
    }
    let filter = Filter { from, to, user };
    if let Some(user) = user
        && !usage::knows(&mut c, actor.workspace, user).await?
    {
        auth::get_listed(&mut c, actor.workspace, user).await?;
    }
    let rows = usage::list(&mut c, actor.workspace, &filter, group_by).await?;
    let total = usage::total(&mut c, actor.workspace, &filter).await?;
    let storage = if actor.scopes.has(Scope::WorkspaceAdmin) {
        Some(quota::get_storage(&mut c, actor.workspace).await?)
    } else {
        None
    };
    let (data, total) = if is_own && !sees_costs(&mut c, &actor).await? {
        (
            named(&mut c, without_costs(rows)).await?,
            total.without_cost(),
        )
    } else {
        (named(&mut c, rows).await?, total)
    };
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

async fn sees_costs(c: &mut Conn, actor: &Actor<'_>) -> Result<bool, ApiError> {
    // Admins always see the costs of the whole workspace.
    if actor.scopes.has(Scope::WorkspaceAdmin) {
        return Ok(true);
    }
    Ok(costs::are_visible(c, actor.workspace, reader_of(actor)).await?)
}

fn without_costs(rows: Vec<(Key, Sums)>) -> Vec<(Key, Sums)> {
    let rows = rows.into_iter();
    rows.map(|(key, sums)| (key, sums.without_cost())).collect()
}

/// Finds the tasks that a query names. Returns `None` if the query does not name any.
///
/// # Errors
/// 404 for a task or conversation that the caller cannot see; 400 if the query names more than one.
async fn find_tasks(
    c: &mut Conn,
    member: &WorkspaceCaller,
    query: &UsageQuery,
) -> Result<Option<TaskSet>, ApiError> {
    let (caller, workspace) = (&member.caller, member.workspace);
    Ok(match (query.task_id, query.thread_id, query.fork_id) {
        (None, None, None) => None,
        (Some(task), None, None) => {
            let task = visible_task(c, caller, task).await?;
            if task.workspace_id != workspace {
                return Err(ChatError::TaskNotFound.into());
            }
            Some(TaskSet::Tree(task.id))
        }
        (None, Some(thread), None) => {
            let access = access::thread(c, caller, thread).await?;
            access.within(workspace)?.reading()?;
            Some(TaskSet::Thread(thread))
        }
        (None, None, Some(fork)) => {
            let access = access::fork(c, caller, fork).await?;
            let access = access.within(workspace)?.reading()?;
            let thread = access.thread;
            Some(TaskSet::Fork { thread, fork })
        }
        _ => {
            let text = "send only one of task_id, thread_id, and fork_id".to_owned();
            return Err(ApiError::invalid(ErrorCode::InvalidQuery, text, "query"));
        }
    })
}

async fn usage_of_tasks(
    c: &mut Conn,
    actor: &Actor<'_>,
    query: &UsageQuery,
    set: TaskSet,
) -> Result<Json<UsageAnswer>, ApiError> {
    let group_by = query.group_by.unwrap_or(GroupBy::Person);
    let user = match query.user_id.as_deref().filter(|text| !text.is_empty()) {
        None => None,
        Some("me") => Some(actor.user),
        Some(id) => Some(id.parse::<UserId>()?),
    };
    let tasks = usage::of_tasks(c, actor.user, set).await?;
    let from = query.from.unwrap_or_else(|| TaskUsage::first_month(&tasks));
    let to = query.to.unwrap_or_else(|| from.max(Month::present()));
    if from > to {
        return Err(swapped_months());
    }
    let filter = Filter { from, to, user };
    let (mut rows, mut total) = usage::sum_tasks(&tasks, &filter, group_by);
    if !costs::are_visible(c, actor.workspace, reader_of(actor)).await? {
        rows = without_costs(rows);
        total = total.without_cost();
    }
    Ok(Json(UsageAnswer {
        object: ListObject,
        from: from.text(),
        to: to.text(),
        group_by,
        data: named(c, rows).await?,
        total,
        storage: None,
    }))
}

fn swapped_months() -> ApiError {
    ApiError::invalid(
        ErrorCode::InvalidMonth,
        "`from` is after `to`: swap them".to_owned(),
        "from",
    )
}

/// Adds display names to the keys of people and agents.
async fn named(c: &mut Conn, rows: Vec<(Key, Sums)>) -> Result<Vec<Used>, ApiError> {
    let mut data = Vec::with_capacity(rows.len());
    for (key, sums) in rows {
        let (key, name) = match key {
            Key::Person(user) => {
                let name = auth::name_of(c, user).await?;
                (
                    user.to_string(),
                    name.unwrap_or_else(|| "Deleted account".to_owned()),
                )
            }
            Key::Agent(Some(agent)) => (agent.to_string(), profiles::shown_name(c, agent).await?),
            Key::Agent(None) => (NONE.to_owned(), "No agent".to_owned()),
            Key::Text(text) if text.is_empty() => (NONE.to_owned(), "No model".to_owned()),
            Key::Text(text) => (text.clone(), text),
        };
        data.push(Used { key, name, sums });
    }
    Ok(data)
}
