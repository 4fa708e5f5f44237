//! HTTP routes for `/v1/responses` and `/v1/models`. Their errors have the shape of the `OpenAI` API; see `http::error`.

use std::{convert::Infallible, time::Duration};

use axum::{
    Extension, Json,
    http::{HeaderName, HeaderValue},
    response::{
        IntoResponse, Response as HttpResponse,
        sse::{Event as SseEvent, KeepAlive, Sse},
    },
};
use futures::Stream;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;

use crate::{
    auth::{Caller, WorkspaceCaller},
    http::{
        ApiError,
        extract::{Body, Path, Query},
        page::{Limit, List, ListObject},
        routing::routes,
    },
    responses::{
        self, Call, CreateResponse, DeletedResponse, Delivery, IgnoredPaths, InputItem, ItemOrder,
        ItemPage, Model, Progress, Response, ResponseError, store,
    },
    server::{State, caller::Outgoing, intake::PersonTurns, origin::LinkBase},
};

type St = axum::extract::State<State>;

/// Maximum time that a stream waits for the model to accept the request, so that a rejection can become an HTTP
/// status.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
/// Response header with the paths of ignored parts of the request.
const IGNORED: HeaderName = HeaderName::from_static("openvibe-ignored");
/// Response header with the parts of the agent that the call does not use.
const AGENT_LIMITS: HeaderName = HeaderName::from_static("openvibe-agent-limits");
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(create_response))
        .routes(routes!(get_response, delete_response))
        .routes(routes!(list_input_items))
        .routes(routes!(list_models))
        .routes(routes!(get_model))
}

/// Create a response from an agent or the model, compatible with clients of the `OpenAI` Responses API
///
/// With `stream`, the response is an event stream: `response.created`, `response.in_progress`, then items and their
/// deltas, and finally `response.completed`, `response.incomplete`, or `response.failed`; each with an increasing
/// `sequence_number`. If the client disconnects, the model call is canceled. Failed responses are not stored. The header
/// `OpenVibe-Ignored` lists the parts of the request that were ignored, such as `top_k, tools[2]`.
#[utoipa::path(post, path = "/v1/responses", tag = "responses",
    security(("session" = ["member"]), ("key" = ["agents:use"])),
    request_body(content = CreateResponse,
        example = json!({"model": "agent:vibe", "input": "What speaks for Monday?", "store": false})),
    responses((status = 200, description = "The response, or a stream of events", content((Response = "application/json"), (String = "text/event-stream")))))]
async fn create_response(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    _: Outgoing,
    base: LinkBase,
    Extension(turns): Extension<PersonTurns>,
    Body(form): Body<CreateResponse>,
) -> Result<HttpResponse, ApiError> {
    let turn = turns.write(member.caller.user).await?;
    let service = state.responses(member.workspace).await?.linking_to(base.0);
    let plan = service.plan(&member, &form).await?;
    let delivery = if form.wants_stream() {
        Delivery::Stream
    } else {
        Delivery::Whole
    };
    let call = service.begin(plan, delivery);
    // The call acquires its own permit, so the turn can end. The form could have megabytes of pictures.
    drop((turn, form));
    let notes = CallNotes::of(&call);
    let response = match delivery {
        Delivery::Stream => event_stream(events(accepted(call).await?)),
        Delivery::Whole => Json(ended(call).await?).into_response(),
    };
    Ok(notes.add_to(response))
}

/// Headers about parts of the request and of the agent that a call does not use.
pub(super) struct CallNotes {
    ignored: IgnoredPaths,
    agent_limits: Vec<&'static str>,
}

impl CallNotes {
    pub(super) fn of(call: &Call) -> Self {
        Self {
            ignored: call.ignored.clone(),
            agent_limits: call.agent_limits.clone(),
        }
    }

    pub(super) fn add_to(&self, mut response: HttpResponse) -> HttpResponse {
        let limits = self.agent_limits.join(", ");
        let limits = Some(limits).filter(|limits| !limits.is_empty());
        for (name, value) in [(IGNORED, self.ignored.header()), (AGENT_LIMITS, limits)] {
            let value = value.and_then(|value| HeaderValue::try_from(value).ok());
            if let Some(value) = value {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

/// Waits for the end of a call.
pub(super) async fn ended(mut call: Call) -> Result<Response, ResponseError> {
    while let Some(progress) = call.next().await {
        if let Progress::Ended(ended) = progress {
            return match ended.error {
                None => Ok(ended.response),
                Some(error) => Err(error),
            };
        }
    }
    Err(ResponseError::Broken)
}

/// Waits for at most `HEAD_WITHIN` until the model accepts the request, so that a rejection becomes an HTTP error status.
pub(super) async fn accepted(mut call: Call) -> Result<Call, ResponseError> {
    match tokio::time::timeout(HEAD_WITHIN, call.next()).await {
        // The call ended before the model accepted the request, so it must have failed.
        Ok(Some(Progress::Ended(ended))) => Err(ended.error.unwrap_or(ResponseError::Broken)),
        Ok(None) => Err(ResponseError::Broken),
        Ok(Some(_)) | Err(_) => Ok(call),
    }
}

pub(super) fn event_stream(
    events: impl Stream<Item = Result<SseEvent, Infallible>> + Send + 'static,
) -> HttpResponse {
    let keep_alive = KeepAlive::new()
        .interval(KEEP_ALIVE_EVERY)
        .text("keep-alive");
    let mut response = Sse::new(events).keep_alive(keep_alive).into_response();
    // Disables response buffering in proxies.
    response.headers_mut().insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    response
}

/// Stage of a stream.
enum Stage {
    Begun,
    Created,
    Open,
    Ended,
}

struct Writer {
    call: Call,
    stage: Stage,
    number: u64,
}

impl Writer {
    /// Returns the next event, without its number. Returns `None` after the end.
    async fn next(&mut self) -> Option<Value> {
        let whole = |kind, response: &Response| json!({"type": kind, "response": response});
        loop {
            match self.stage {
                Stage::Begun => {
                    self.stage = Stage::Created;
                    return Some(whole("response.created", &self.call.begun));
                }
                Stage::Created => {
                    self.stage = Stage::Open;
                    return Some(whole("response.in_progress", &self.call.begun));
                }
                Stage::Ended => return None,
                Stage::Open => {}
            }
            match self.call.next().await {
                Some(Progress::Connected) => {}
                Some(Progress::Event(event)) => return Some(json!(event)),
                Some(Progress::Ended(ended)) => {
                    self.stage = Stage::Ended;
                    let kind = match (&ended.error, &ended.response.incomplete_details) {
                        (Some(_), _) => "response.failed",
                        (None, Some(_)) => "response.incomplete",
                        (None, None) => "response.completed",
                    };
                    return Some(whole(kind, &ended.response));
                }
                None => {
                    self.stage = Stage::Ended;
                    let failed = self.call.begun.clone().failed(&ResponseError::Broken);
                    return Some(whole("response.failed", &failed));
                }
            }
        }
    }
}

fn events(call: Call) -> impl Stream<Item = Result<SseEvent, Infallible>> + Send {
    let writer = Writer {
        call,
        stage: Stage::Begun,
        number: 0,
    };
    futures::stream::unfold(writer, |mut writer| async move {
        let mut data = writer.next().await?;
        data["sequence_number"] = writer.number.into();
        writer.number += 1;
        let kind = data["type"].as_str().unwrap_or_default();
        let event = SseEvent::default().event(kind).data(data.to_string());
        Some((Ok(event), writer))
    })
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ResponseQuery {
    /// Must be false: a stored response cannot be streamed again.
    stream: Option<bool>,
}

/// Get a stored response of your own
///
/// Responses of other people are not found.
#[utoipa::path(get, path = "/v1/responses/{id}", tag = "responses",
    security(("session" = ["member"]), ("key" = ["agents:use"])),
    params(("id" = String, Path, description = "ID of a response: `resp_…`"), ResponseQuery),
    responses((status = 200, body = Response)))]
async fn get_response(
    axum::extract::State(state): St,
    caller: Caller,
    Path(reference): Path<String>,
    Query(query): Query<ResponseQuery>,
) -> Result<Json<Value>, ApiError> {
    if query.stream == Some(true) {
        let text = "a stored response cannot be streamed: omit `stream`";
        return Err(ResponseError::unsupported("stream", text).into());
    }
    let mut c = state.db.read().await?;
    Ok(Json(store::get(&mut c, &caller, &reference).await?))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ItemQuery {
    /// 1 to 100; 20 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// Only items after the one with this ID, in the requested order.
    after: Option<String>,
    /// `desc` (the last item first) by default.
    #[param(inline)]
    order: Option<ItemOrder>,
}

/// List the input of a stored response of your own
///
/// Contains the items of the response's own request, not the items of responses that it continues.
#[utoipa::path(get, path = "/v1/responses/{id}/input_items", tag = "responses",
    security(("session" = ["member"]), ("key" = ["agents:use"])),
    params(("id" = String, Path, description = "ID of a response: `resp_…`"), ItemQuery),
    responses((status = 200, body = List<InputItem>)))]
async fn list_input_items(
    axum::extract::State(state): St,
    caller: Caller,
    Path(reference): Path<String>,
    Query(query): Query<ItemQuery>,
) -> Result<Json<List<InputItem>>, ApiError> {
    let page = ItemPage {
        limit: Limit::or(query.limit, 20),
        after: query.after,
        order: query.order.unwrap_or(ItemOrder::Newest),
    };
    let mut c = state.db.read().await?;
    Ok(Json(
        responses::list_input_items(&mut c, &caller, &reference, &page).await?,
    ))
}

/// Delete a stored response and its input
///
/// Responses of other people are not found.
#[utoipa::path(delete, path = "/v1/responses/{id}", tag = "responses",
    security(("session" = ["member"]), ("key" = ["agents:use"])),
    params(("id" = String, Path, description = "ID of a response: `resp_…`")),
    responses((status = 200, body = DeletedResponse)))]
async fn delete_response(
    axum::extract::State(state): St,
    caller: Caller,
    Path(reference): Path<String>,
) -> Result<Json<DeletedResponse>, ApiError> {
    Ok(Json(store::delete(&state.db, caller, reference).await?))
}

/// Values that can be used as `model`.
#[derive(Serialize, utoipa::ToSchema)]
struct Models {
    #[schema(inline)]
    object: ListObject,
    data: Vec<Model>,
}

/// List the agents as `agent:NAME`, and the default model
#[utoipa::path(get, path = "/v1/models", tag = "responses",
    security(("session" = ["member"]), ("key" = ["agents:use"])),
    responses((status = 200, body = Models)))]
async fn list_models(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
) -> Result<Json<Models>, ApiError> {
    Ok(Json(Models {
        object: ListObject,
        data: responses::list_models(&*state.responses(member.workspace).await?, &member).await?,
    }))
}

/// Get a model
#[utoipa::path(get, path = "/v1/models/{id}", tag = "responses",
    security(("session" = ["member"]), ("key" = ["agents:use"])),
    params(("id" = String, Path, description = "Name of a model, or `agent:NAME`")), responses((status = 200, body = Model)))]
async fn get_model(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path(id): Path<String>,
) -> Result<Json<Model>, ApiError> {
    Ok(Json(
        responses::find_model(&*state.responses(member.workspace).await?, &member, &id).await?,
    ))
}
