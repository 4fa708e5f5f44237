//! HTTP routes for schedules.

use axum::{Json, http::StatusCode, response::Response};
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;

use super::agents::tagged;
use crate::{
    auth::{AuthError, Caller, Scope, WorkspaceCaller},
    chat::post,
    cursor,
    db::{Conn, dialect::clock},
    http::{
        ApiError, ErrorCode,
        extract::{Body, IfMatch, Path, Query},
        page::{LIMIT_MAX, Limit, List, PageQuery},
        routing::routes,
    },
    ids::ScheduleId,
    schedules::{
        self, PreviewedSlot, Schedule, ScheduleError, ScheduleForm, SchedulePatch, ScheduleSlot,
        Slots,
    },
    server::State,
    tasks::Task,
    time::Timestamp,
};

type St = axum::extract::State<State>;

/// Number of slots in a preview.
const PREVIEWED: usize = 5;
/// Cursor kind of a list of slots.
const CURSOR: &str = "slots";

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_schedules, create_schedule))
        .routes(routes!(preview_schedule))
        .routes(routes!(get_schedule, patch_schedule, delete_schedule))
        .routes(routes!(list_slots))
        .routes(routes!(run_schedule))
}

/// Returns the caller as a member of the schedule's workspace.
async fn member_of(
    state: &State,
    caller: Caller,
    id: ScheduleId,
) -> Result<WorkspaceCaller, ApiError> {
    let workspace = schedules::workspace_of(&mut state.db.read().await?, id).await?;
    let workspace = workspace.ok_or(ScheduleError::NotFound)?;
    Ok(WorkspaceCaller { caller, workspace })
}

/// Reports a schedule of another workspace as absent.
fn hide(error: ScheduleError) -> ScheduleError {
    match error {
        ScheduleError::Auth(AuthError::WorkspaceNotFound) => ScheduleError::NotFound,
        other => other,
    }
}

/// List the schedules that the caller can see, oldest first
#[utoipa::path(get, path = "/v1/schedules", tag = "schedules",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(PageQuery<ScheduleId>), responses((status = 200, body = List<Schedule>)))]
async fn list_schedules(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<PageQuery<ScheduleId>>,
) -> Result<Json<List<Schedule>>, ApiError> {
    let page = query.page(LIMIT_MAX)?;
    let mut c = state.db.scan(member.share()).await?;
    let actor = member.enter(&mut c).await?;
    let rows = schedules::list(&mut c, &actor).await?;
    Ok(Json(page.cut(rows, |schedule| schedule.id)?))
}

/// Create a schedule that runs for the caller
#[utoipa::path(post, path = "/v1/schedules", tag = "schedules",
    security(("session" = ["member"]), ("key" = ["chat:write", "agents:use"])),
    request_body(content = ScheduleForm,
        example = json!({"name": "Daily news", "cron": "30 9 * * MON-FRI", "timezone": "Europe/Berlin",
            "target": {"type": "agent", "prompt": "What changed since yesterday?"},
            "deliver": {"channel_id": "chan_01h455vb4pex5vsknk084sn02q"}})),
    responses((status = 201, body = Schedule), (status = 200, body = Schedule, description = "Resend: the first schedule")))]
async fn create_schedule(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Body(form): Body<ScheduleForm>,
) -> Result<Response, ApiError> {
    let key = member.workspace.0;
    let create = async move |c: &mut Conn| schedules::create(c, &member, &form).await;
    let made = state.db.write(key, create).await?;
    let status = if made.is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok(tagged(status, made.schedule.version, &made.schedule))
}

/// Fields of `POST /v1/schedules/preview`.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct SchedulePreviewForm {
    /// Cron expression with five fields, in the local time of `timezone`.
    cron: String,
    /// IANA name of the time zone.
    timezone: String,
}

#[derive(Serialize, utoipa::ToSchema)]
struct SchedulePreview {
    /// The next five slots.
    next: Vec<PreviewedSlot>,
}

/// List the next five times of a cron expression; nothing is stored
#[utoipa::path(post, path = "/v1/schedules/preview", tag = "schedules",
    security(("session" = ["member"]), ("key" = ["agents:use"])),
    request_body(content = SchedulePreviewForm, example = json!({"cron": "30 9 * * MON-FRI", "timezone": "Europe/Berlin"})),
    responses((status = 200, body = SchedulePreview)))]
async fn preview_schedule(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Body(form): Body<SchedulePreviewForm>,
) -> Result<Json<SchedulePreview>, ApiError> {
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await?;
    actor.require(Scope::AgentsUse)?;
    let now = clock(&mut c).await?;
    drop(c);
    let slots = Slots::parse(&form.cron, &form.timezone)?;
    Ok(Json(SchedulePreview {
        next: slots.preview(now, PREVIEWED)?,
    }))
}

/// Get a schedule
#[utoipa::path(get, path = "/v1/schedules/{id}", tag = "schedules",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = ScheduleId, Path)), responses((status = 200, body = Schedule)))]
async fn get_schedule(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ScheduleId>,
) -> Result<Response, ApiError> {
    let member = member_of(&state, caller, id).await?;
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await.map_err(|e| hide(e.into()))?;
    let schedule = schedules::get(&mut c, &actor, id).await?;
    Ok(tagged(StatusCode::OK, schedule.version, &schedule))
}

/// Change, pause, or resume a schedule
///
/// Allowed for the owner. Admins can pause any schedule, and can resume a schedule that an admin has paused.
#[utoipa::path(patch, path = "/v1/schedules/{id}", tag = "schedules",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ScheduleId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = SchedulePatch, example = json!({"status": "paused"})),
    responses((status = 200, body = Schedule)))]
async fn patch_schedule(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ScheduleId>,
    IfMatch(expected): IfMatch,
    Body(patch): Body<SchedulePatch>,
) -> Result<Response, ApiError> {
    let member = member_of(&state, caller, id).await?;
    let key = member.workspace.0;
    let change = async move |c: &mut Conn| schedules::patch(c, &member, id, &patch, expected).await;
    let changed = state.db.write(key, change).await.map_err(hide)?;
    Ok(tagged(StatusCode::OK, changed.version, &changed))
}

/// Delete a schedule with its slots
///
/// Allowed for the owner and for admins.
#[utoipa::path(delete, path = "/v1/schedules/{id}", tag = "schedules",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ScheduleId, Path), ("If-Match" = inline(Option<IfMatch>), Header)),
    responses((status = 204)))]
async fn delete_schedule(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ScheduleId>,
    IfMatch(expected): IfMatch,
) -> Result<StatusCode, ApiError> {
    let member = member_of(&state, caller, id).await?;
    let key = member.workspace.0;
    let delete = async move |c: &mut Conn| schedules::delete(c, &member, id, expected).await;
    state.db.write(key, delete).await.map_err(hide)?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct SlotsQuery {
    /// 1 to 100; 20 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
}

/// # Errors
/// 400 for a cursor of another list.
fn parse_cursor(text: &str) -> Result<Timestamp, ApiError> {
    let at = cursor::read::<1>(CURSOR, text)
        .and_then(|[seconds]| chrono::DateTime::from_timestamp(seconds, 0))
        .and_then(Timestamp::within_years);
    at.ok_or_else(|| {
        let text =
            "the cursor does not belong to a list of slots: use `next_cursor` of the previous page"
                .to_owned();
        ApiError::invalid(ErrorCode::InvalidCursor, text, "cursor")
    })
}

/// List the past slots of a schedule, newest first
#[utoipa::path(get, path = "/v1/schedules/{id}/slots", tag = "schedules",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("id" = ScheduleId, Path), SlotsQuery),
    responses((status = 200, body = List<ScheduleSlot>)))]
async fn list_slots(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ScheduleId>,
    Query(query): Query<SlotsQuery>,
) -> Result<Json<List<ScheduleSlot>>, ApiError> {
    let limit = Limit::or(query.limit, 20);
    let before = query.cursor.as_deref().filter(|text| !text.is_empty());
    let before = before.map(parse_cursor).transpose()?;
    let member = member_of(&state, caller, id).await?;
    let mut c = state.db.scan(member.share()).await?;
    let actor = member.enter(&mut c).await.map_err(|e| hide(e.into()))?;
    let rows = schedules::list_slots(&mut c, &actor, id, before, limit + 1).await?;
    let mut list = List::new(rows, limit, false, |slot: &ScheduleSlot| {
        cursor::write(CURSOR, &[slot.slot_at.unix_s()])
    });
    let next = list.last_id.take().filter(|_| list.has_more);
    // Slots have no IDs.
    list.first_id = None;
    Ok(Json(list.continued_at(next)))
}

#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ScheduleRunForm {
    /// ID chosen by the client. A request that repeats an ID returns the first task with status 200.
    #[serde(default)]
    client_id: Option<String>,
}

/// Run a schedule now
///
/// Allowed only for the owner.
#[utoipa::path(post, path = "/v1/schedules/{id}/run", tag = "schedules",
    security(("session" = ["member"]), ("key" = ["chat:write", "agents:use"])),
    params(("id" = ScheduleId, Path)),
    request_body(content = Option<ScheduleRunForm>, example = json!({"client_id": "5f0c2b1e"})),
    responses((status = 202, body = ScheduleRun), (status = 200, body = ScheduleRun, description = "Resend: the first task")))]
async fn run_schedule(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ScheduleId>,
    Body(form): Body<ScheduleRunForm>,
) -> Result<(StatusCode, Json<ScheduleRun>), ApiError> {
    let member = member_of(&state, caller, id).await?;
    let key = member.workspace.0;
    let client_id = post::parse_client_id(form.client_id)?;
    let run =
        async move |c: &mut Conn| schedules::run_now(c, &member, id, client_id.as_deref()).await;
    let run = state.db.write(key, run).await.map_err(hide)?;
    let status = if run.is_new {
        StatusCode::ACCEPTED
    } else {
        StatusCode::OK
    };
    Ok((status, Json(ScheduleRun { task: run.task })))
}

/// The task that was started when a person ran a schedule manually.
#[derive(Serialize, utoipa::ToSchema)]
struct ScheduleRun {
    task: Task,
}
