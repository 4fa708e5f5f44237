//! `POST /v1/chat/completions`: the Responses API without storage, in the format of the Chat Completions API.

use std::{collections::VecDeque, convert::Infallible};

use axum::{
    Extension, Json,
    response::{IntoResponse, Response as HttpResponse, sse::Event as SseEvent},
};
use futures::Stream;
use serde_json::json;
use utoipa_axum::router::OpenApiRouter;

use super::responses::{CallNotes, accepted, ended, event_stream};
use crate::{
    auth::WorkspaceCaller,
    http::{ApiError, extract::Body, routing::routes},
    responses::{
        Call, ChatCompletion, Chunks, CreateChatCompletion, Delivery, Progress, ResponseError,
    },
    server::{State, caller::Outgoing, intake::PersonTurns, origin::LinkBase},
};

type St = axum::extract::State<State>;

/// Data of the event that ends the stream.
const DONE: &str = "[DONE]";

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(create_chat_completion))
}

/// Create a chat completion from an agent or the model, compatible with clients of the `OpenAI` Chat Completions API
///
/// Like `/v1/responses`, but stores nothing. With `stream`, the response is an event stream of `chat.completion.chunk` objects that
/// ends with `[DONE]`, or with an object that has an `error`. If the client disconnects, the model call is canceled. Fields that are
/// not listed here are ignored and named in the header `OpenVibe-Ignored`, unless the answer would be wrong without them (`n: 2`,
/// `logprobs`, `logit_bias`, `functions`, audio output), which is rejected with `unsupported_parameter`.
#[utoipa::path(post, path = "/v1/chat/completions", tag = "responses",
    security(("session" = ["member"]), ("key" = ["agents:use"])),
    request_body(content = CreateChatCompletion,
        example = json!({"model": "agent:vibe", "messages": [{"role": "user", "content": "What speaks for Monday?"}]})),
    responses((status = 200, description = "The completion, or a stream of chunks", content((ChatCompletion = "application/json"), (String = "text/event-stream")))))]
async fn create_chat_completion(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    _: Outgoing,
    base: LinkBase,
    Extension(turns): Extension<PersonTurns>,
    Body(mut form): Body<CreateChatCompletion>,
) -> Result<HttpResponse, ApiError> {
    let turn = turns.write(member.caller.user).await?;
    let service = state.responses(member.workspace).await?.linking_to(base.0);
    let plan = service.plan_completion(&member, &form).await;
    let plan = plan.map_err(|e| form.error(e))?;
    let delivery = if form.wants_stream() {
        Delivery::Stream
    } else {
        Delivery::Whole
    };
    // Messages with pictures could be megabytes, and a stream can last for minutes.
    form.messages = None;
    let call = service.begin(plan, delivery);
    // The call acquires its own permit, so the turn can end.
    drop(turn);
    let notes = CallNotes::of(&call);
    let response = match delivery {
        Delivery::Stream => {
            let call = accepted(call).await.map_err(|e| form.error(e))?;
            event_stream(chunks(call, form))
        }
        Delivery::Whole => {
            let response = ended(call).await.map_err(|e| form.error(e))?;
            Json(ChatCompletion::from(response)).into_response()
        }
    };
    Ok(notes.add_to(response))
}

/// Formats the progress of a call as event data.
struct ChunkWriter {
    call: Call,
    form: CreateChatCompletion,
    chunks: Chunks,
    ready: VecDeque<String>,
    has_ended: bool,
}

impl ChunkWriter {
    /// Returns the data of the next event, or `None` after the end.
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(data) = self.ready.pop_front() {
                return Some(data);
            }
            if self.has_ended {
                return None;
            }
            match self.call.next().await {
                Some(Progress::Connected) => {}
                Some(Progress::Event(event)) => {
                    let chunk = self.chunks.event(&event);
                    self.ready.extend(chunk.map(|chunk| chunk.to_string()));
                }
                Some(Progress::Ended(ended)) => {
                    if let Some(error) = ended.error {
                        self.fail(error);
                        continue;
                    }
                    let last = self.chunks.end(&ended.response);
                    self.ready.extend(last.iter().map(ToString::to_string));
                    self.ready.push_back(DONE.to_owned());
                    self.has_ended = true;
                }
                None => self.fail(ResponseError::Broken),
            }
        }
    }

    fn fail(&mut self, error: ResponseError) {
        let body = self.form.error(error).openai_body();
        self.ready.push_back(json!(body).to_string());
        self.has_ended = true;
    }
}

fn chunks(
    call: Call,
    form: CreateChatCompletion,
) -> impl Stream<Item = Result<SseEvent, Infallible>> + Send {
    let chunks = Chunks::new(&call.begun, form.wants_usage());
    let writer = ChunkWriter {
        ready: VecDeque::from([chunks.begin().to_string()]),
        call,
        form,
        chunks,
        has_ended: false,
    };
    futures::stream::unfold(writer, |mut writer| async move {
        let data = writer.next().await?;
        Some((Ok(SseEvent::default().data(data)), writer))
    })
}
