//! HTTP routes for actions of agents and their approvals.

use axum::{Json, http::StatusCode};
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;

use crate::{
    auth::{Caller, Scope, WorkspaceCaller},
    chat::{ChatError, access},
    code, cursor,
    db::Conn,
    forks::resolution::{self, Resolution},
    http::{
        ApiError, ErrorCode,
        extract::{Body, Path, Query},
        page::{Limit, List},
        routing::routes,
    },
    ids::{ActionId, GrantId, TaskId, ThreadId},
    registry::{self, ChangedTool},
    routes::chat::{WhichObject, visible_task, write_for},
    schedules::{self, PausedItem},
    server::State,
    tasks::{
        actions::{self, ActionObject, ActionState, Filter},
        budgets::{self, UsageBudget},
    },
    tools::{
        ToolsError,
        approvals::{self, Approval, ApprovalTerm, Denial, Settlement},
        grants::GrantObject,
    },
};

type St = axum::extract::State<State>;

const PAGE: i64 = 20;
/// Cursor kind of the list of actions.
const CURSOR: &str = "actions";

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_actions))
        .routes(routes!(get_action))
        .routes(routes!(approve_action))
        .routes(routes!(deny_action))
        .routes(routes!(answer_action))
        .routes(routes!(settle_action))
        .routes(routes!(get_waiting))
        .routes(routes!(delete_grant))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ActionsQuery {
    /// Only actions of this task.
    task_id: Option<TaskId>,
    /// Only actions in this thread and its forks.
    thread_id: Option<ThreadId>,
    /// Only actions in this state.
    #[param(inline)]
    state: Option<ActionState>,
    /// `true` returns only actions of tasks that the caller requested.
    mine: Option<bool>,
    /// 1 to 100; 20 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ApproveForm {
    /// `arguments_hash` of the action that the caller reviewed.
    arguments_hash: String,
    /// `hour` allows further calls of the function in this conversation for an hour without approval.
    #[serde(default, rename = "for")]
    term: Option<ApprovalTerm>,
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct DenyForm {
    /// `arguments_hash` of the action that the caller reviewed.
    arguments_hash: String,
    /// Note for the agent; truncated to 500 characters.
    #[serde(default)]
    note: Option<String>,
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct AnswerForm {
    /// ID of an option, or the object of the question's form; at most 32 KiB.
    #[schema(value_type = serde_json::Value)]
    value: serde_json::Value,
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct SettleForm {
    outcome: Settlement,
}

/// Items that wait for the caller, and the caller's active permissions.
#[derive(Serialize, utoipa::ToSchema)]
struct WaitingSeen {
    /// Actions that the caller can approve, deny, or settle, oldest first.
    actions: Vec<ActionObject>,
    /// The caller's own permissions that have not expired.
    grants: Vec<GrantObject>,
    /// Resolutions that agents drafted for the caller to review and publish, oldest first.
    drafts: Vec<Resolution>,
    /// For people who manage agents: servers whose changed functions must be accepted again.
    tools: Vec<ChangedTool>,
    /// For admins: budgets that have reached their warning threshold.
    budgets: Vec<UsageBudget>,
    /// Paused schedules and workflows: the caller's own if they failed, and, for admins, those whose owner has left.
    paused: Vec<PausedItem>,
    /// Number of actions and drafts that wait for the caller.
    count: usize,
}

/// List the actions in conversations that the caller can see, newest first
///
/// Arguments and results are null unless the caller is the requester, can approve or reject the action, or is an admin.
#[utoipa::path(get, path = "/v1/actions", tag = "actions",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(ActionsQuery), responses((status = 200, body = List<ActionObject>)))]
async fn list_actions(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<ActionsQuery>,
) -> Result<Json<List<ActionObject>>, ApiError> {
    let caller = &member.caller;
    let mut c = state.db.scan(member.share()).await?;
    let actor = member.enter(&mut c).await?;
    actor.require(Scope::ChatRead)?;
    let limit = Limit::or(query.limit, PAGE);
    let before = query.cursor.as_deref().filter(|text| !text.is_empty());
    let before = before
        .map(|text| {
            cursor::read_id(CURSOR, text).map(ActionId).ok_or_else(|| {
                let text = "the cursor does not belong to a list of actions: use `next_cursor` of the previous page".to_owned();
                ApiError::invalid(ErrorCode::InvalidCursor, text, "cursor")
            })
        })
        .transpose()?;
    let filter = Filter {
        task: query.task_id,
        thread: query.thread_id,
        state: query.state,
        requested_by: query.mine.unwrap_or(false).then_some(actor.user),
    };
    if let Some(task) = query.task_id {
        let task = visible_task(&mut c, caller, task).await?;
        if task.workspace_id != actor.workspace {
            return Err(ChatError::TaskNotFound.into());
        }
    }
    if let Some(thread) = query.thread_id {
        let found = access::thread(&mut c, caller, thread).await?;
        found.within(actor.workspace)?;
    }
    let (workspace, user) = (actor.workspace, actor.user);
    let found = actions::list(&mut c, workspace, user, filter, before, limit + 1).await?;
    let shown = usize::try_from(limit).unwrap_or(usize::MAX);
    let next = (found.len() > shown)
        .then(|| found.get(shown - 1).map(|action| action.id))
        .flatten();
    let objects = approvals::objects(&mut c, caller, found).await?;
    let list = List::new(objects, limit, false, |action: &ActionObject| {
        action.id.to_string()
    });
    let next = next.map(|id| cursor::write_id(CURSOR, id.0));
    Ok(Json(list.continued_at(next)))
}

/// Get an action
#[utoipa::path(get, path = "/v1/actions/{id}", tag = "actions",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = ActionId, Path)), responses((status = 200, body = ActionObject)))]
async fn get_action(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ActionId>,
) -> Result<Json<ActionObject>, ApiError> {
    let mut c = state.db.read().await?;
    Ok(Json(approvals::get(&mut c, &caller, id).await?))
}

/// Approve an action
///
/// Gives every approval that the caller can give. The action starts once it has all required approvals.
#[utoipa::path(post, path = "/v1/actions/{id}/approve", tag = "actions",
    security(("session" = ["member"])),
    params(("id" = ActionId, Path)),
    request_body(content = ApproveForm), responses((status = 200, body = ActionObject)))]
async fn approve_action(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ActionId>,
    Body(form): Body<ApproveForm>,
) -> Result<Json<ActionObject>, ApiError> {
    let approval = Approval {
        arguments_hash: form.arguments_hash,
        term: form.term,
    };
    let approve = async move |c: &mut Conn| {
        let object = approvals::approve(c, &caller, id, &approval).await?;
        code::start_approved(c, id).await?;
        Ok::<_, ToolsError>(object)
    };
    Ok(Json(
        write_for(&state, WhichObject::Action(id), approve).await?,
    ))
}

/// Deny an action
///
/// Everyone who can approve an action can deny it. The agent continues without the action.
#[utoipa::path(post, path = "/v1/actions/{id}/deny", tag = "actions",
    security(("session" = ["member"])),
    params(("id" = ActionId, Path)),
    request_body(content = DenyForm), responses((status = 200, body = ActionObject)))]
async fn deny_action(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ActionId>,
    Body(form): Body<DenyForm>,
) -> Result<Json<ActionObject>, ApiError> {
    let denial = Denial {
        arguments_hash: form.arguments_hash,
        note: form.note,
    };
    let deny = async move |c: &mut Conn| {
        let object = approvals::deny(c, &caller, id, &denial).await?;
        code::pass_on(c, id).await?;
        Ok::<_, ToolsError>(object)
    };
    Ok(Json(
        write_for(&state, WhichObject::Action(id), deny).await?,
    ))
}

/// Answer a question of an agent
///
/// Only the requester can answer. A question is declined with `deny`.
#[utoipa::path(post, path = "/v1/actions/{id}/answer", tag = "actions",
    security(("session" = ["member"])),
    params(("id" = ActionId, Path)),
    request_body(content = AnswerForm, example = json!({"value": "yes"})),
    responses((status = 200, body = ActionObject)))]
async fn answer_action(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ActionId>,
    Body(form): Body<AnswerForm>,
) -> Result<Json<ActionObject>, ApiError> {
    let value = form.value;
    let answer = async move |c: &mut Conn| {
        let object = approvals::answer(c, &caller, id, &value).await?;
        code::pass_on(c, id).await?;
        Ok::<_, ToolsError>(object)
    };
    Ok(Json(
        write_for(&state, WhichObject::Action(id), answer).await?,
    ))
}

/// Report whether an action happened
///
/// Allowed for the requester, and for admins if the requester can no longer read the conversation. The agent continues with this
/// result.
#[utoipa::path(post, path = "/v1/actions/{id}/settle", tag = "actions",
    security(("session" = ["viewer"])),
    params(("id" = ActionId, Path)),
    request_body(content = SettleForm, example = json!({"outcome": "happened"})),
    responses((status = 200, body = ActionObject)))]
async fn settle_action(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ActionId>,
    Body(form): Body<SettleForm>,
) -> Result<Json<ActionObject>, ApiError> {
    let outcome = form.outcome;
    let settle = async move |c: &mut Conn| approvals::settle(c, &caller, id, outcome).await;
    Ok(Json(
        write_for(&state, WhichObject::Action(id), settle).await?,
    ))
}

/// List the items that wait for the caller: actions to approve or settle, drafts to review, active permissions, and warnings for
/// admins
#[utoipa::path(get, path = "/v1/waiting", tag = "actions",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    responses((status = 200, body = WaitingSeen)))]
async fn get_waiting(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
) -> Result<Json<WaitingSeen>, ApiError> {
    let mut c = state.db.scan(member.share()).await?;
    let actor = member.enter(&mut c).await?;
    actor.require(Scope::ChatRead)?;
    let workspace = actor.workspace;
    let is_admin = actor.scopes.has(Scope::WorkspaceAdmin);
    let manages_agents = actor.scopes.has(Scope::AgentsAdmin);
    let waiting = approvals::waiting(&mut c, &member.caller, &actor).await?;
    let budgets = if is_admin {
        budgets::list_warned(&mut c, workspace).await?
    } else {
        Vec::new()
    };
    let tools = if manages_agents {
        registry::list_changed(&mut c, workspace).await?
    } else {
        Vec::new()
    };
    let paused = schedules::list_paused(&mut c, &actor).await?;
    let drafts = resolution::list_waiting(&mut c, workspace, actor.user).await?;
    Ok(Json(WaitingSeen {
        paused,
        tools,
        budgets,
        count: waiting.actions.len() + drafts.len(),
        drafts,
        actions: waiting.actions,
        grants: waiting.grants,
    }))
}

/// Revoke one of your own permissions
#[utoipa::path(delete, path = "/v1/grants/{id}", tag = "actions",
    security(("session" = ["viewer"])),
    params(("id" = GrantId, Path)), responses((status = 204)))]
async fn delete_grant(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<GrantId>,
) -> Result<StatusCode, ApiError> {
    let revoke = async move |c: &mut Conn| approvals::revoke(c, &caller, id).await;
    write_for(&state, WhichObject::Grant(id), revoke).await?;
    Ok(StatusCode::NO_CONTENT)
}
