//! HTTP routes for commands and buttons of bots.

use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;

use crate::{
    auth::{AuthError, Caller},
    chat::{
        access,
        messages::{Message, MessageMetadata, Text},
        post::{BotPost, MentionLimit, post_as_bot},
    },
    db::{Conn, DbError, dialect},
    hooks::{self, CommandOwner, HookError, NewBotResponse},
    http::{
        ApiError,
        error::ErrorBody,
        extract::{Body, NoFields, Path},
        routing::routes,
    },
    ids::{ChannelId, MessageId, ThreadId, WorkspaceId},
    outgoing::{ButtonPress, CommandCall, ReplyAudience},
    server::{State, caller::Outgoing},
    tasks::slow,
};

type St = axum::extract::State<State>;

const TEXT_UNITS_MAX: usize = 4000;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(run_command))
        .routes(routes!(press_button))
}

/// A command, and the conversation in which it runs.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandForm {
    /// Required without `thread_id`.
    pub channel_id: Option<ChannelId>,
    pub thread_id: Option<ThreadId>,
    /// Text after the command; at most 4,000 characters.
    #[serde(default)]
    pub text: String,
}

/// Answer of the bot.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct CommandResult {
    /// Message that the bot posted for everyone; null if it answered only you.
    pub message: Option<Message>,
    /// Markdown that only you see; null if there is none.
    pub text: Option<String>,
}

/// Conversation of a command.
#[derive(Debug, Clone, Copy)]
struct CommandPlace {
    workspace: WorkspaceId,
    channel: ChannelId,
    thread: Option<ThreadId>,
}

/// Checks that the caller can post in the conversation.
async fn enter(
    c: &mut Conn,
    caller: &Caller,
    channel: Option<ChannelId>,
    thread: Option<ThreadId>,
) -> Result<CommandPlace, HookError> {
    let named = match channel {
        Some(id) => Some(access::channel(c, caller, id).await?.writing()?),
        None => None,
    };
    let channel = match thread {
        Some(id) => Some(
            access::thread(c, caller, id)
                .await?
                .writing()?
                .channel_access,
        ),
        None => None,
    };
    if let (Some(named), Some(channel)) = (&named, &channel)
        && named.channel != channel.channel
    {
        let problem = "the thread is in another channel: leave out `channel_id`";
        return Err(HookError::Invalid(problem.to_owned(), "channel_id"));
    }
    let Some(access) = channel.or(named) else {
        let problem = "send `channel_id` or `thread_id`";
        return Err(HookError::Invalid(problem.to_owned(), "channel_id"));
    };
    Ok(CommandPlace {
        workspace: access.actor.workspace,
        channel: access.channel,
        thread,
    })
}

/// Run a command of a bot
///
/// The bot must be in the channel. Its program gets the command at once and answers within 3 seconds.
#[utoipa::path(post, path = "/v1/commands/{name}", tag = "integrations",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("name" = String, Path, description = "Name of the command, without the slash", example = "deploy")),
    request_body(content = CommandForm,
        example = json!({"channel_id": "chan_01h455vb4pex5vsknk084sn02q", "text": "web to production"})),
    responses((status = 200, body = CommandResult),
        (status = 503, description = "The bot did not answer", body = ErrorBody)))]
async fn run_command(
    axum::extract::State(state): St,
    caller: Caller,
    _: Outgoing,
    Path(name): Path<String>,
    Body(form): Body<CommandForm>,
) -> Result<Json<CommandResult>, ApiError> {
    if form.text.encode_utf16().count() > TEXT_UNITS_MAX {
        let problem = format!("`text` can have at most {TEXT_UNITS_MAX} characters");
        return Err(HookError::Invalid(problem, "text").into());
    }
    let mut c = state.db.read().await?;
    let place = enter(&mut c, &caller, form.channel_id, form.thread_id).await?;
    let owner = hooks::find_command(&mut c, place.workspace, &name, place.channel).await?;
    let owner = owner.ok_or(HookError::CommandNotFound)?;
    drop(c);
    let new = NewBotResponse {
        workspace: place.workspace,
        bot: owner.id,
        user: caller.user,
        channel: place.channel,
        thread: place.thread,
        message: None,
    };
    let (by, channel, thread) = (caller.clone(), place.channel, place.thread);
    let token = state
        .db
        .write(place.workspace.0, async move |c: &mut Conn| {
            enter(c, &by, Some(channel), thread).await?;
            Ok::<_, HookError>(hooks::create_response(c, new).await?)
        })
        .await?;
    let call = CommandCall {
        bot: owner.id,
        bot_name: owner.name.clone(),
        command: name.clone(),
        text: form.text,
        channel: place.channel,
        thread: place.thread,
        user: caller.user,
        user_name: caller.name.clone(),
        response_url: response_url(&state, &token),
    };
    let reply = Box::pin(state.events.command(&state.db, &call)).await?;
    // Blocks can be long and deeply nested.
    let read = slow::run(caller.user, move |_| {
        let answer = reply.read()?;
        let text = Text::parse(answer.content.clone()).ok()?;
        Some((answer, text))
    });
    let Some((answer, text)) = read.await.map_err(|_| DbError::Closed)? else {
        return Ok(Json(CommandResult {
            message: None,
            text: None,
        }));
    };
    if answer.audience == ReplyAudience::Person {
        return Ok(Json(CommandResult {
            message: None,
            text: Some(answer.content),
        }));
    }
    let posted = CommandPost {
        place,
        owner,
        name,
        text,
        metadata: answer.metadata,
    };
    let message = state
        .db
        .write(place.workspace.0, async move |c: &mut Conn| {
            posted.insert(c, &caller).await
        })
        .await?;
    Ok(Json(CommandResult {
        message: Some(message),
        text: None,
    }))
}

/// Press a button of a bot's message
///
/// Its program gets the press at once and answers within 3 seconds; `text` is what it answers you, and `message` is null, because what it
/// answers everyone comes later. A second press within 3 seconds gets 429.
#[utoipa::path(post, path = "/v1/messages/{id}/buttons/{button_id}", tag = "integrations",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = MessageId, Path),
        ("button_id" = String, Path, description = "ID of the button in `metadata.buttons`", example = "approve")),
    responses((status = 200, body = CommandResult),
        (status = 503, description = "The bot did not answer", body = ErrorBody)))]
async fn press_button(
    axum::extract::State(state): St,
    caller: Caller,
    _: Outgoing,
    Path((id, button)): Path<(MessageId, String)>,
    Body(_): NoFields,
) -> Result<Json<CommandResult>, ApiError> {
    let mut c = state.db.read().await?;
    let found = hooks::find_button(&mut c, &caller, id, &button).await?;
    drop(c);
    let new = NewBotResponse {
        workspace: found.message.workspace_id,
        bot: found.bot,
        user: caller.user,
        channel: found.message.channel_id,
        thread: Some(found.message.thread_id),
        message: Some(id),
    };
    let by = caller.clone();
    let token = state
        .db
        .write(new.workspace.0, async move |c: &mut Conn| {
            hooks::find_button(c, &by, id, &button).await?;
            if !hooks::record_press(c, id, by.user, &button).await? {
                return Err(HookError::from(AuthError::RateLimited(
                    hooks::PRESSED_AGAIN_AFTER.as_secs(),
                )));
            }
            Ok(hooks::create_response(c, new).await?)
        })
        .await?;
    let press = ButtonPress {
        bot: found.bot,
        message: found.message,
        button: found.button,
        user: caller.user,
        user_name: caller.name.clone(),
        response_url: response_url(&state, &token),
    };
    let reply = Box::pin(state.events.press(&state.db, &press)).await?;
    let read = slow::run(caller.user, move |_| reply.read());
    let answer = read.await.map_err(|_| DbError::Closed)?;
    let text = answer.filter(|answer| answer.audience == ReplyAudience::Person);
    Ok(Json(CommandResult {
        message: None,
        text: text.map(|answer| answer.content),
    }))
}

/// Address at which a program can answer later.
fn response_url(state: &State, token: &str) -> String {
    format!("{}/hooks/response/{token}", state.public_url)
}

/// An answer for everyone in the conversation.
struct CommandPost {
    place: CommandPlace,
    owner: CommandOwner,
    name: String,
    text: Text,
    metadata: MessageMetadata,
}

impl CommandPost {
    /// Posts the answer, if the person and the bot can still post there.
    async fn insert(&self, c: &mut Conn, caller: &Caller) -> Result<Message, HookError> {
        let CommandPlace {
            workspace,
            channel,
            thread,
        } = self.place;
        dialect::lock_workspace(c, workspace.0).await?;
        enter(c, caller, Some(channel), thread).await?;
        let owner = hooks::find_command(c, workspace, &self.name, channel).await?;
        let owner = owner
            .filter(|owner| owner.id == self.owner.id)
            .ok_or(HookError::CommandNotFound)?;
        let post = BotPost {
            workspace,
            channel,
            thread,
            parent: None,
            title: None,
            bot: owner.id,
            hook: None,
            creator: owner.created_by,
            text: &self.text,
            may_notify: MentionLimit::People,
            metadata: self.metadata.clone(),
            client_id: None,
        };
        Ok(post_as_bot(c, post).await?)
    }
}
