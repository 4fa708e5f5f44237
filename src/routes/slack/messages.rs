//! Messages: posting, editing, deleting, and links.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Answer, Call, Refusal, people::user_of};
use crate::{
    auth::{self, Caller},
    chat::{
        ChatError,
        channels::{self, DirectPartner},
        messages::{self, Message, MessageMetadata, Text},
        post::{self, KeyPost, NewThread, Posted},
        threads::ThreadMemory,
    },
    db::{Conn, DbError},
    hooks::{self, ButtonUse, Incoming, SlackTs},
    ids::{AgentId, BotId, ChannelId, MessageId, ThreadId, UserId},
    realtime::hub::Conversation,
    routes::chat,
    slack::{self, SlackFault, ThreadFacts},
    tasks::slow,
};

/// The main-line message of an argument, and its thread.
pub(super) async fn found(
    c: &mut Conn,
    call: &Call<'_>,
    channel: ChannelId,
    name: &str,
) -> Result<(MessageId, ThreadId), Refusal> {
    let text = call.args.required(name, SlackFault::MessageNotFound)?;
    let ts = SlackTs::parse(&text).ok_or(SlackFault::MessageNotFound)?;
    let found = hooks::find_by_ts(c, channel, ts).await?;
    Ok(found.ok_or(SlackFault::MessageNotFound)?)
}

/// A message as a program sent it.
pub(super) struct Sent {
    pub text: Text,
    pub metadata: MessageMetadata,
}

/// Reads the text, blocks, and attachments of a call. References to people and channels get their names.
pub(super) async fn sent(c: Conn, call: &Call<'_>) -> Result<Sent, Refusal> {
    let mut c = c;
    let buttons = match call.caller.bot() {
        Some(bot) => hooks::button_use(&mut c, bot).await?,
        None => ButtonUse::Text,
    };
    read_sent(c, call, buttons).await
}

/// The same for a message that is not stored, whose buttons nobody could press.
pub(super) async fn sent_to_one(c: Conn, call: &Call<'_>) -> Result<Sent, Refusal> {
    read_sent(c, call, ButtonUse::Text).await
}

async fn read_sent(c: Conn, call: &Call<'_>, buttons: ButtonUse) -> Result<Sent, Refusal> {
    let mut c = c;
    let mut members = Map::new();
    for name in ["blocks", "attachments"] {
        if let Some(value) = call.args.nested(name)? {
            if !value.is_array() {
                return Err(SlackFault::InvalidBlocks.into());
            }
            members.insert(name.to_owned(), value);
        }
    }
    for name in ["text", "username", "icon_emoji"] {
        if let Some(text) = call.args.text(name) {
            members.insert(name.to_owned(), text.into());
        }
    }
    let is_plain = matches!(call.args.text("mrkdwn").as_deref(), Some("false" | "0"));
    if is_plain {
        members.insert("mrkdwn".to_owned(), Value::Bool(false));
    }
    let markdown = call.args.text("markdown_text");
    let mut message = Value::Object(members);
    let actor = call.enter(&mut c).await?;
    slack::name_references(&mut c, &call.caller, &actor, &mut message).await?;
    drop(actor);
    drop(c);
    // Blocks can be long and deeply nested.
    let read = slow::run(call.caller.user, move |_| {
        if let Some(markdown) = markdown {
            let text = Text::parse(markdown).map_err(|error| SlackFault::of_text(&error))?;
            return Ok(Sent {
                text,
                metadata: MessageMetadata::default(),
            });
        }
        let incoming = Incoming::slack(&message).map_err(SlackFault::from)?;
        let incoming = incoming.with_buttons(buttons);
        let text = Text::parse(incoming.content).map_err(|error| SlackFault::of_text(&error))?;
        Ok::<_, SlackFault>(Sent {
            text,
            metadata: incoming.metadata,
        })
    });
    let read = read.await.map_err(|_| DbError::Closed)?;
    Ok(read?)
}

/// The channel of a post; for a user, the direct channel.
pub(super) async fn target(call: &Call<'_>) -> Result<ChannelId, Refusal> {
    let text = call.args.required("channel", SlackFault::ChannelNotFound)?;
    let is_user = text.starts_with('@') || slack::parse_user(&text).is_some();
    let mut c = call.state.db.read().await?;
    if !is_user {
        return call.channel(&mut c, &text).await;
    }
    let user = user_of(&mut c, call, &text).await?;
    let user = user.ok_or(SlackFault::ChannelNotFound)?;
    open(c, call, &[user]).await
}

/// Opens the direct channel with people, or with people and an agent or a bot.
pub(super) async fn open(c: Conn, call: &Call<'_>, users: &[Uuid]) -> Result<ChannelId, Refusal> {
    let mut c = c;
    let workspace = call.workspace;
    let mut partner = call.caller.bot().map(DirectPartner::Bot);
    let mut people = Vec::with_capacity(users.len());
    for user in users {
        let (bot, agent) = (BotId(*user), AgentId(*user));
        let other = if slack::find_robot(&mut c, workspace, bot).await?.is_some() {
            DirectPartner::Bot(bot)
        } else if slack::find_agent(&mut c, workspace, agent).await?.is_some() {
            DirectPartner::Agent(agent)
        } else {
            people.push(UserId(*user));
            continue;
        };
        if partner.replace(other).is_some() {
            return Err(SlackFault::UserNotFound.into());
        }
    }
    drop(c);
    call.write(async move |c: &mut Conn, caller: &Caller| {
        let actor = caller.enter(c, workspace).await?;
        let (channel, _) = channels::open_direct(c, &actor, people.clone(), partner).await?;
        Ok::<_, ChatError>(channel.channel.id)
    })
    .await
}

pub(super) async fn thread_of_arg(
    c: &mut Conn,
    call: &Call<'_>,
    channel: ChannelId,
) -> Result<Option<ThreadId>, Refusal> {
    let Some(text) = call.args.text("thread_ts") else {
        return Ok(None);
    };
    let ts = SlackTs::parse(&text).ok_or(SlackFault::ThreadNotFound)?;
    let found = hooks::find_by_ts(c, channel, ts).await?;
    let (_, thread) = found.ok_or(SlackFault::ThreadNotFound)?;
    Ok(Some(thread))
}

/// Posts in a thread, or starts one.
async fn post_in(
    c: &mut Conn,
    caller: &Caller,
    channel: ChannelId,
    thread: Option<ThreadId>,
    text: &Text,
    new: KeyPost,
) -> Result<Posted, ChatError> {
    let client_id = new.client_id.clone();
    match (caller.bot(), thread) {
        (Some(bot), Some(thread)) => post::post_with_key(c, caller, bot, thread, text, new).await,
        (Some(bot), None) => post::start_with_key(c, caller, bot, channel, text, new).await,
        (None, Some(thread)) => {
            let conversation = Conversation::Thread(thread);
            post::post_message(
                c,
                caller,
                conversation,
                text,
                None,
                client_id.as_deref(),
                None,
            )
            .await
        }
        (None, None) => {
            let new = NewThread {
                title: None,
                agent: None,
                from: None,
                memory: ThreadMemory::On,
                client_id,
            };
            post::start_thread(c, caller, channel, text, &new).await
        }
    }
}

pub(super) async fn post(call: &Call<'_>) -> Answer {
    let channel = target(call).await?;
    let mut c = call.state.db.read().await?;
    let thread = thread_of_arg(&mut c, call, channel).await?;
    let sent = sent(c, call).await?;
    let posted = publish(call, channel, thread, sent).await?;
    let thread_ts = call.args.text("thread_ts");
    shown(call, channel, &posted.message, thread_ts).await
}

/// Posts a message in a thread of a channel, or starts one.
pub(super) async fn publish(
    call: &Call<'_>,
    channel: ChannelId,
    thread: Option<ThreadId>,
    sent: Sent,
) -> Result<Posted, Refusal> {
    let Sent { text, metadata } = sent;
    let client_id = post::parse_client_id(call.args.text("client_msg_id"))?;
    let new = KeyPost {
        metadata,
        client_id,
        ..KeyPost::default()
    };
    call.write(async move |c: &mut Conn, caller: &Caller| {
        post_in(c, caller, channel, thread, &text, new.clone()).await
    })
    .await
}

async fn shown(
    call: &Call<'_>,
    channel: ChannelId,
    message: &Message,
    thread_ts: Option<String>,
) -> Answer {
    let facts = ThreadFacts {
        thread_ts,
        reply_count: None,
    };
    let body = slack::message(message, &facts, &call.state.public_url);
    let mut c = call.state.db.read().await?;
    let row = slack::find_conversation(&mut c, &call.caller, channel).await?;
    let row = row.ok_or(SlackFault::ChannelNotFound)?;
    let shown = slack::conversation(call.workspace, &row);
    Ok(json!({
        "channel": shown["id"], "ts": hooks::slack_ts(message), "text": body["text"], "message": body,
    }))
}

pub(super) async fn update(call: &Call<'_>) -> Answer {
    let mut c = call.state.db.read().await?;
    let channel = call.channel_arg(&mut c).await?;
    let (id, _) = found(&mut c, call, channel, "ts").await?;
    let Sent { text, metadata } = sent(c, call).await?;
    let changed = call
        .write(async move |c: &mut Conn, caller: &Caller| {
            if caller.bot().is_none() {
                return messages::edit(c, caller, id, &text).await;
            }
            messages::edit_with_buttons(c, caller, id, &text, &metadata.buttons).await
        })
        .await?;
    shown(call, channel, &changed, None).await
}

pub(super) async fn delete(call: &Call<'_>) -> Answer {
    let mut c = call.state.db.read().await?;
    let channel = call.channel_arg(&mut c).await?;
    let (id, _) = found(&mut c, call, channel, "ts").await?;
    drop(c);
    let deleted = chat::delete(call.state, call.caller.clone(), id).await;
    match deleted.map_err(|error| (SlackFault::of(&error), error)) {
        Ok(_) => Ok(json!({"channel": call.args.text("channel"), "ts": call.args.text("ts")})),
        Err((SlackFault::CantUpdateMessage, _)) => Err(SlackFault::CantDeleteMessage.into()),
        Err((_, error)) => Err(Refusal::Api(error)),
    }
}

pub(super) async fn permalink(call: &Call<'_>) -> Answer {
    let mut c = call.state.db.read().await?;
    let channel = call.channel_arg(&mut c).await?;
    let (id, thread) = found(&mut c, call, channel, "message_ts").await?;
    let workspace = auth::get_workspace(&mut c, call.workspace).await?;
    let url = &call.state.public_url;
    let slug = workspace.slug;
    Ok(json!({
        "channel": call.args.text("channel"), "permalink": format!("{url}/{slug}/c/{channel}/t/{thread}#m-{id}"),
    }))
}
