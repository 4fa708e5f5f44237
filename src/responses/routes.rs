//! `/v1/responses` and `/v1/models` over HTTP. Errors have the shape of `OpenAI`'s API there: `http::error` sees to it.

use std::{convert::Infallible, time::Duration};

use axum::{
    Json,
    http::{HeaderName, HeaderValue},
    response::{
        IntoResponse, Response as HttpResponse,
        sse::{Event as SseEvent, KeepAlive, Sse},
    },
};
use futures::Stream;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Call, CreateResponse, DeletedResponse, Delivery, Model, Progress, Response, ResponseError,
    store,
};
use crate::{
    auth::{Caller, WorkspaceCaller},
    http::{
        ApiError, State,
        extract::{Body, Path, Query},
    },
};

type St = axum::extract::State<State>;

/// For so long a stream waits for the model to take the request, so that a refusal can be told by a status.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(create_response))
        .routes(routes!(get_response, delete_response))
        .routes(routes!(list_models))
        .routes(routes!(get_model))
}

/// Ask an agent, or the model, as any client of the `OpenAI` Responses API does
///
/// With `stream` the answer is an event stream: `response.created`, `response.in_progress`, then items and their pieces, and
/// `response.completed`, `response.incomplete` or `response.failed` at the end; each with a rising `sequence_number`. The model
/// is stopped when the client goes away. Nothing is kept of an answer that failed.
#[utoipa::path(post, path = "/v1/responses", tag = "responses", request_body = CreateResponse,
    responses((status = 200, description = "The answer, or a stream of events", content((Response = "application/json"), (String = "text/event-stream")))))]
async fn create_response(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Body(form): Body<CreateResponse>,
) -> Result<HttpResponse, ApiError> {
    let plan = state.responses.plan(&member, &form).await?;
    if form.wants_stream() {
        let call = state.responses.begin(plan, Delivery::Stream)?;
        return stream(call).await;
    }
    let mut call = state.responses.begin(plan, Delivery::Whole)?;
    while let Some(progress) = call.next().await {
        if let Progress::Ended(ended) = progress {
            return match ended.error {
                None => Ok(Json(ended.response).into_response()),
                Some(error) => Err(error.into()),
            };
        }
    }
    Err(ResponseError::Broken.into())
}

/// The call as an event stream; a status of its own where the model refuses at once.
async fn stream(mut call: Call) -> Result<HttpResponse, ApiError> {
    let first = tokio::time::timeout(HEAD_WITHIN, call.next()).await;
    if let Ok(Some(Progress::Ended(ended))) = first {
        // It can only have failed: the model had not taken the request yet.
        return Err(ended.error.unwrap_or(ResponseError::Broken).into());
    }
    if matches!(first, Ok(None)) {
        return Err(ResponseError::Broken.into());
    }
    let keep_alive = KeepAlive::new()
        .interval(KEEP_ALIVE_EVERY)
        .text("keep-alive");
    let mut response = Sse::new(events(call))
        .keep_alive(keep_alive)
        .into_response();
    // Proxies that collect an answer before they pass it on leave this one alone.
    response.headers_mut().insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    Ok(response)
}

/// Where a stream stands.
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
    /// The next event's name and data; `None` after the end.
    async fn next(&mut self) -> Option<(&'static str, Value)> {
        let whole = |response: &Response| json!({"response": response});
        loop {
            match self.stage {
                Stage::Begun => {
                    self.stage = Stage::Created;
                    return Some(("response.created", whole(&self.call.begun)));
                }
                Stage::Created => {
                    self.stage = Stage::Open;
                    return Some(("response.in_progress", whole(&self.call.begun)));
                }
                Stage::Ended => return None,
                Stage::Open => {}
            }
            match self.call.next().await {
                Some(Progress::Connected) => {}
                Some(Progress::Event(event)) => return Some((event.kind, event.data)),
                Some(Progress::Ended(ended)) => {
                    self.stage = Stage::Ended;
                    let kind = match (&ended.error, &ended.response.incomplete_details) {
                        (Some(_), _) => "response.failed",
                        (None, Some(_)) => "response.incomplete",
                        (None, None) => "response.completed",
                    };
                    return Some((kind, whole(&ended.response)));
                }
                None => {
                    self.stage = Stage::Ended;
                    let failed = self.call.begun.clone().failed(&ResponseError::Broken);
                    return Some(("response.failed", whole(&failed)));
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
        let (kind, mut data) = writer.next().await?;
        data["type"] = kind.into();
        data["sequence_number"] = writer.number.into();
        writer.number += 1;
        let event = SseEvent::default().event(kind).data(data.to_string());
        Some((Ok(event), writer))
    })
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ResponseQuery {
    /// False: a kept answer is not streamed again.
    stream: Option<bool>,
}

/// An answer that is kept; one's own only
#[utoipa::path(get, path = "/v1/responses/{id}", tag = "responses", params(("id" = String, Path), ResponseQuery),
    responses((status = 200, body = Response)))]
async fn get_response(
    axum::extract::State(state): St,
    caller: Caller,
    Path(reference): Path<String>,
    Query(query): Query<ResponseQuery>,
) -> Result<Json<Value>, ApiError> {
    if query.stream == Some(true) {
        let text = "a kept answer is not streamed again: leave `stream` out";
        return Err(ResponseError::unsupported("stream", text).into());
    }
    let mut c = state.db.read().await?;
    Ok(Json(store::get(&mut c, &caller, &reference).await?))
}

/// Remove an answer that is kept, with what was asked
#[utoipa::path(delete, path = "/v1/responses/{id}", tag = "responses", params(("id" = String, Path)),
    responses((status = 200, body = DeletedResponse)))]
async fn delete_response(
    axum::extract::State(state): St,
    caller: Caller,
    Path(reference): Path<String>,
) -> Result<Json<DeletedResponse>, ApiError> {
    Ok(Json(store::delete(&state.db, caller, reference).await?))
}

/// What may be named as `model`.
#[derive(Serialize, utoipa::ToSchema)]
struct Models {
    /// Always `list`.
    object: &'static str,
    data: Vec<Model>,
}

/// Agents as `agent:NAME`, and the model that runs by default
#[utoipa::path(get, path = "/v1/models", tag = "responses", responses((status = 200, body = Models)))]
async fn list_models(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
) -> Result<Json<Models>, ApiError> {
    Ok(Json(Models {
        object: "list",
        data: super::list_models(&state.responses, &member).await?,
    }))
}

/// One of them
#[utoipa::path(get, path = "/v1/models/{id}", tag = "responses", params(("id" = String, Path)), responses((status = 200, body = Model)))]
async fn get_model(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path(id): Path<String>,
) -> Result<Json<Model>, ApiError> {
    Ok(Json(
        super::find_model(&state.responses, &member, &id).await?,
    ))
}
