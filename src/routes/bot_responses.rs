//! The addresses at which programs of bots answer later. They are not part of the API document, because they are secrets and their bodies
//! have the format of the bot's subscription.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{FromRequest, Path, Request},
    http::header,
    response::{IntoResponse, Response},
    routing::post,
};

use super::hooks::{BodyPool, PLAIN, RESERVED_BYTES, Refusal, answer};
use crate::{
    chat::{
        ChatError,
        bot_messages::{get_own_of_bot, replace_as_bot},
        messages::Text,
        post::{BotPost, MentionLimit, post_as_bot},
        remove,
        threads::ThreadStatus,
    },
    db::{Conn, DbError, dialect, now},
    hooks::{self, BotResponse, HookError, HookFault},
    http::{
        ApiError,
        bodies::{MEMBER_BYTES_MAX, read, take},
        extract::RawBody,
    },
    ids::{MessageId, ThreadId, UserId, WorkspaceId},
    outgoing::{CommandAnswer, CommandReply, LateEffect, ReplyAudience},
    realtime::LiveFrame,
    server::{State, caller::Address},
    share::Pool,
    tasks::{queue, slow},
};

type St = axum::extract::State<State>;

const BODY_WITHIN: Duration = Duration::from_secs(30);

pub fn receiver() -> Router<State> {
    Router::new().route("/hooks/response/{token}", post(respond))
}

async fn respond(
    axum::extract::State(state): St,
    Path(token): Path<String>,
    address: Address,
    axum::Extension(pool): BodyPool,
    request: Request,
) -> Response {
    answer(respond_with(&state, token, address, &pool, request).await)
}

/// An answer that was read. Nothing to show is `None`.
struct LateAnswer {
    effect: LateEffect,
    shown: Option<(CommandAnswer, Text)>,
}

impl LateAnswer {
    fn read(reply: &CommandReply) -> Result<Self, HookFault> {
        let shown = match reply.read() {
            None => None,
            Some(answer) => {
                let text = Text::parse(answer.content.clone());
                Some((answer, text.map_err(|_| HookFault::NoText)?))
            }
        };
        let effect = reply.effect();
        if shown.is_none() && effect != LateEffect::Delete {
            return Err(HookFault::NoText);
        }
        Ok(Self { effect, shown })
    }
}

async fn respond_with(
    state: &State,
    token: String,
    Address(address): Address,
    pool: &Arc<Pool<WorkspaceId>>,
    request: Request,
) -> Result<Response, Refusal> {
    // Only programs that know a secret can make the server read a body.
    let found = hooks::find_response(&mut state.db.read().await?, &token).await?;
    let Some(found) = found else {
        state.limits.anonymous(address)?;
        return Err(Refusal::Fault(HookFault::NoService));
    };
    let room = take(pool, found.workspace_id, RESERVED_BYTES)?;
    let (request, room) = read(request, room, MEMBER_BYTES_MAX, BODY_WITHIN).await?;
    let RawBody(bytes) = RawBody::from_request(request, state).await?;
    let text = String::from_utf8(bytes.to_vec());
    let text = text.map_err(|_| Refusal::Fault(HookFault::InvalidPayload))?;
    let format = found.format;
    // Blocks can be long and deeply nested.
    let read = slow::run(UserId(found.bot_id.0), move |_| {
        LateAnswer::read(&CommandReply::late(format, text))
    });
    let read = read
        .await
        .map_err(|_| Refusal::Api(ApiError::from(DbError::Closed)))?;
    drop(room);
    let read = read.map_err(Refusal::Fault)?;
    let private = read
        .shown
        .as_ref()
        .filter(|(answer, _)| answer.audience == ReplyAudience::Person)
        .map(|(answer, _)| answer.clone());
    let hub = state.hub.clone();
    let secret = token.clone();
    let done = state
        .db
        .write(found.workspace_id.0, async move |c: &mut Conn| {
            let late = Late {
                token: &secret,
                answer: &read,
            };
            late.apply(c, &hub).await
        })
        .await?;
    match done {
        Applied::Refused(fault) => Err(Refusal::Fault(fault)),
        Applied::Stored => Ok(ok()),
        Applied::ToPerson => {
            if let Some(answer) = private {
                show(state, &found, &answer);
            }
            Ok(ok())
        }
    }
}

fn ok() -> Response {
    ([(header::CONTENT_TYPE, PLAIN)], "ok").into_response()
}

/// Shows an answer in the windows of the person.
fn show(state: &State, found: &BotResponse, answer: &CommandAnswer) {
    let face = answer.metadata.shown_as.as_ref();
    let frame = LiveFrame::Ephemeral {
        id: MessageId::new(),
        channel_id: found.channel_id,
        thread_id: found.thread_id,
        bot_id: Some(found.bot_id),
        user_id: None,
        name: &found.bot_name,
        shown_as: face.and_then(|face| face.name.as_deref()),
        content: &answer.content,
        created_at: now(),
    };
    state
        .hub
        .tell_user(found.workspace_id, found.user_id, &frame);
}

/// Outcome of an answer.
enum Applied {
    Stored,
    ToPerson,
    Refused(HookFault),
}

/// An answer to an address.
struct Late<'a> {
    token: &'a str,
    answer: &'a LateAnswer,
}

/// Checks whether neither a thread nor its channel is archived.
async fn is_open(c: &mut Conn, thread: ThreadId) -> Result<bool, DbError> {
    c.q("select exists (select 1 from threads t join channels ch on ch.id = t.channel_id where t.id = $1 and t.status = $2 \
         and ch.archived_at is null)")
        .bind(thread)
        .bind(ThreadStatus::Open)
        .value()
        .await
}

impl Late<'_> {
    /// Counts the answer, and changes, deletes, or posts a message. An error counts nothing.
    async fn apply(&self, c: &mut Conn, hub: &crate::realtime::Hub) -> Result<Applied, HookError> {
        let found = hooks::find_response(c, self.token).await?;
        let Some(found) = found else {
            return Ok(Applied::Refused(HookFault::NoService));
        };
        dialect::lock_workspace(c, found.workspace_id.0).await?;
        if !hooks::count_response(c, self.token).await? {
            return Ok(Applied::Refused(HookFault::NoService));
        }
        let original = found.message_id;
        match (self.answer.effect, original, &self.answer.shown) {
            (LateEffect::Delete, Some(id), _) => {
                let message = get_own_of_bot(c, found.bot_id, id).await?;
                let audience = queue::audience_of(c, message.channel_id).await?;
                remove::take_back(c, &message, hub, audience).await?;
                Ok(Applied::Stored)
            }
            (LateEffect::Replace, Some(id), Some((answer, text))) => {
                let message = get_own_of_bot(c, found.bot_id, id).await?;
                if !is_open(c, message.thread_id).await? {
                    return Ok(Applied::Refused(HookFault::ChannelIsArchived));
                }
                replace_as_bot(c, found.bot_id, id, text, answer.metadata.clone()).await?;
                Ok(Applied::Stored)
            }
            (_, _, Some((answer, _))) if answer.audience == ReplyAudience::Person => {
                Ok(Applied::ToPerson)
            }
            (_, _, Some((answer, text))) => self.post(c, &found, answer, text).await,
            // Nothing was posted that could be deleted.
            (_, _, None) => Ok(Applied::Stored),
        }
    }

    async fn post(
        &self,
        c: &mut Conn,
        found: &BotResponse,
        answer: &CommandAnswer,
        text: &Text,
    ) -> Result<Applied, HookError> {
        if let Some(thread) = found.thread_id
            && !is_open(c, thread).await?
        {
            return Ok(Applied::Refused(HookFault::ChannelIsArchived));
        }
        let post = BotPost {
            workspace: found.workspace_id,
            channel: found.channel_id,
            thread: found.thread_id,
            parent: None,
            title: None,
            bot: found.bot_id,
            hook: None,
            creator: found.created_by,
            text,
            may_notify: MentionLimit::People,
            metadata: answer.metadata.clone(),
            client_id: None,
        };
        match post_as_bot(c, post).await {
            Ok(message) => {
                if found.message_id.is_none() {
                    hooks::store_response_message(c, self.token, message.id).await?;
                }
                Ok(Applied::Stored)
            }
            Err(ChatError::ChannelArchived) => Ok(Applied::Refused(HookFault::ChannelIsArchived)),
            Err(error) => Err(error.into()),
        }
    }
}
