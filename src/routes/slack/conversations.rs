//! Channels and their messages.

use serde_json::{Value, json};

use super::{
    Answer, Call, Refusal,
    messages::{found, open as open_direct},
    next_page,
    people::user_of,
};
use crate::{
    auth::Caller,
    chat::{
        channels::{self, ChannelUpdate},
        messages::{self, Message, RootRange, Window},
    },
    db::Conn,
    hooks::{SlackTs, slack_ts},
    ids::{BEFORE_ALL_SEQS, ChannelId, MessageId, UserId},
    realtime::hub::Conversation,
    slack::{self, ConversationFilter, ConversationType, Listing, SlackFault, ThreadFacts},
};

const CHANNELS_DEFAULT: i64 = 100;
const CHANNELS_MAX: i64 = 1000;
const MESSAGES_DEFAULT: i64 = 100;
const MESSAGES_MAX: i64 = 999;
/// Number of messages of one millisecond that are told apart at an end of a range.
const OF_ONE_TS_MAX: i64 = 16;
const MEMBERS_DEFAULT: i64 = 100;

/// Kinds of channels in the argument `types`.
fn types(call: &Call<'_>) -> Result<Vec<ConversationType>, SlackFault> {
    let Some(text) = call.args.text("types") else {
        return Ok(vec![ConversationType::Public]);
    };
    let read = |name: &str| {
        let found = name.trim().parse::<ConversationType>();
        found.map_err(|_| SlackFault::InvalidArguments)
    };
    text.split(',').take(10).map(read).collect()
}

pub(super) async fn list(call: &Call<'_>, listing: Listing) -> Answer {
    let limit = call.args.limit(CHANNELS_DEFAULT, CHANNELS_MAX)?;
    let after = match call.args.text("cursor") {
        Some(text) => Some(ChannelId::parse(&text).map_err(|_| SlackFault::InvalidCursor)?),
        None => None,
    };
    let filter = ConversationFilter {
        listing,
        types: types(call)?,
        includes_archived: !call.args.is_set("exclude_archived"),
        after,
        limit: limit + 1,
    };
    let mut c = call
        .state
        .db
        .scan(call.caller.share(call.workspace))
        .await?;
    let actor = call.enter(&mut c).await?;
    actor.require(crate::auth::Scope::ChatRead)?;
    let mut rows = slack::list_conversations(&mut c, &call.caller, call.workspace, &filter).await?;
    let page = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = rows.len() > page;
    rows.truncate(page);
    let last = rows.last().map(|row| row.id.to_string());
    let next = last.filter(|_| has_more);
    let shown: Vec<Value> = rows
        .iter()
        .map(|row| slack::conversation(call.workspace, row))
        .collect();
    Ok(json!({"channels": shown, "response_metadata": next_page(next)}))
}

async fn shown(c: &mut Conn, call: &Call<'_>, id: ChannelId) -> Answer {
    let row = slack::find_conversation(c, &call.caller, id).await?;
    let row = row.ok_or(SlackFault::ChannelNotFound)?;
    Ok(json!({"channel": slack::conversation(call.workspace, &row)}))
}

pub(super) async fn info(call: &Call<'_>) -> Answer {
    let mut c = call.state.db.read().await?;
    let id = call.channel_arg(&mut c).await?;
    shown(&mut c, call, id).await
}

/// A `ts` in the arguments.
fn ts_arg(call: &Call<'_>, name: &str) -> Result<Option<SlackTs>, SlackFault> {
    let Some(text) = call.args.text(name) else {
        return Ok(None);
    };
    SlackTs::parse(&text)
        .map(Some)
        .ok_or(SlackFault::InvalidArguments)
}

/// Checks whether a message is between `oldest` and `latest`, which belong to the range only if it is inclusive.
fn is_between(call: &Call<'_>, message: &Message) -> Result<bool, SlackFault> {
    let inclusive = call.args.is_set("inclusive");
    let Some(key) = SlackTs::of(message).map(SlackTs::key) else {
        return Ok(false);
    };
    let oldest = ts_arg(call, "oldest")?.map(SlackTs::key);
    let latest = ts_arg(call, "latest")?.map(SlackTs::key);
    let after = oldest.is_none_or(|oldest| key > oldest || (inclusive && key == oldest));
    let before = latest.is_none_or(|latest| key < latest || (inclusive && key == latest));
    Ok(after && before)
}

pub(super) async fn history(call: &Call<'_>) -> Answer {
    let limit = call.args.limit(MESSAGES_DEFAULT, MESSAGES_MAX)?;
    // Messages of the same millisecond are told apart by `is_between`.
    let oldest = ts_arg(call, "oldest")?;
    let latest = ts_arg(call, "latest")?;
    let first = oldest.map(|ts| ts.range().first);
    let end = latest.map(|ts| ts.range().end);
    let cursor = match call.args.text("cursor") {
        Some(text) => Some(MessageId::parse(&text).map_err(|_| SlackFault::InvalidCursor)?),
        None => None,
    };
    let max = MessageId(uuid::Uuid::max());
    let before = end.unwrap_or(max).min(cursor.unwrap_or(max));
    let mut c = call.state.db.read().await?;
    let channel = call.channel_arg(&mut c).await?;
    let of_one_ts = match (oldest, latest) {
        (None, None) => 0,
        _ => OF_ONE_TS_MAX,
    };
    let range = RootRange {
        after: first.unwrap_or(MessageId(uuid::Uuid::nil())),
        before,
        limit: limit + 1 + of_one_ts,
    };
    let mut rows = Vec::new();
    for (message, count) in messages::list_roots(&mut c, channel, range).await? {
        if is_between(call, &message)? {
            rows.push((message, count));
        }
    }
    let page = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = rows.len() > page;
    rows.truncate(page);
    let last = rows.last().map(|(message, _)| message.id.to_string());
    let next = last.filter(|_| has_more);
    let mut shown = Vec::with_capacity(rows.len());
    for (message, count) in &rows {
        let facts = ThreadFacts {
            thread_ts: None,
            reply_count: Some(*count).filter(|count| *count > 0),
        };
        shown.push(slack::message(message, &facts, &call.state.public_url));
    }
    Ok(json!({
        "messages": shown, "has_more": has_more, "pin_count": 0, "response_metadata": next_page(next),
    }))
}

pub(super) async fn replies(call: &Call<'_>) -> Answer {
    let limit = call.args.limit(MESSAGES_DEFAULT, MESSAGES_MAX)?;
    let after = match call.args.text("cursor") {
        Some(text) => text.parse::<i64>().map_err(|_| SlackFault::InvalidCursor)?,
        None => BEFORE_ALL_SEQS,
    };
    let mut c = call.state.db.read().await?;
    let channel = call.channel_arg(&mut c).await?;
    let (_, thread) =
        found(&mut c, call, channel, "ts")
            .await
            .map_err(|refusal| match refusal {
                Refusal::Fault(SlackFault::MessageNotFound) => SlackFault::ThreadNotFound.into(),
                other => other,
            })?;
    let conversation = Conversation::Thread(thread);
    let root = messages::list(&mut c, conversation, Window::After(BEFORE_ALL_SEQS), 1).await?;
    let root_ts = root.first().map(slack_ts);
    let mut rows = messages::list(&mut c, conversation, Window::After(after), limit).await?;
    let page = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = rows.len() > page;
    rows.truncate(page);
    let last = rows.last().map(|message| message.seq.to_string());
    let next = last.filter(|_| has_more);
    let mut shown = Vec::with_capacity(rows.len());
    for message in &rows {
        if is_between(call, message)? {
            let facts = ThreadFacts {
                thread_ts: root_ts.clone(),
                reply_count: None,
            };
            shown.push(slack::message(message, &facts, &call.state.public_url));
        }
    }
    Ok(json!({"messages": shown, "has_more": has_more, "response_metadata": next_page(next)}))
}

pub(super) async fn members(call: &Call<'_>) -> Answer {
    let limit = call.args.limit(MEMBERS_DEFAULT, CHANNELS_MAX)?;
    let after = match call.args.text("cursor") {
        Some(text) => Some(UserId::parse(&text).map_err(|_| SlackFault::InvalidCursor)?),
        None => None,
    };
    let mut c = call.state.db.read().await?;
    let channel = call.channel_arg(&mut c).await?;
    let mut people = slack::list_members_in(&mut c, channel, after, limit + 1).await?;
    let page = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = people.len() > page;
    people.truncate(page);
    let mut ids: Vec<String> = people.iter().map(|id| slack::user_id(id.0)).collect();
    if !has_more {
        let bots = slack::list_bots_in(&mut c, channel).await?;
        ids.extend(bots.iter().map(|id| slack::user_id(id.0)));
    }
    let last = people.last().map(ToString::to_string);
    let next = last.filter(|_| has_more);
    Ok(json!({"members": ids, "response_metadata": next_page(next)}))
}

pub(super) async fn open(call: &Call<'_>) -> Answer {
    const PEOPLE_MAX: usize = 8;
    let mut c = call.state.db.read().await?;
    if call.args.text("channel").is_some() {
        let id = call.channel_arg(&mut c).await?;
        return shown(&mut c, call, id).await;
    }
    let users = call.args.required("users", SlackFault::UsersNotFound)?;
    let mut others = Vec::new();
    for text in users.split(',') {
        let user = user_of(&mut c, call, text.trim()).await?;
        others.push(user.ok_or(SlackFault::UserNotFound)?);
        if others.len() > PEOPLE_MAX {
            return Err(SlackFault::InvalidArguments.into());
        }
    }
    let id = open_direct(c, call, &others).await?;
    shown(&mut call.state.db.read().await?, call, id).await
}

pub(super) async fn join(call: &Call<'_>) -> Answer {
    call.require_person()?;
    let mut c = call.state.db.read().await?;
    let id = call.channel_arg(&mut c).await?;
    drop(c);
    call.write(async move |c: &mut Conn, caller: &Caller| channels::join_self(c, caller, id).await)
        .await?;
    shown(&mut call.state.db.read().await?, call, id).await
}

/// Sets the topic, which is the only description that a channel has.
pub(super) async fn set_topic(call: &Call<'_>) -> Answer {
    call.require_person()?;
    let mut c = call.state.db.read().await?;
    let id = call.channel_arg(&mut c).await?;
    drop(c);
    let topic = channels::parse_topic(call.args.text("topic").as_deref())?;
    call.write(async move |c: &mut Conn, caller: &Caller| {
        let change = ChannelUpdate {
            topic: Some(topic.as_deref()),
            ..ChannelUpdate::default()
        };
        channels::update(c, caller, id, change).await
    })
    .await?;
    shown(&mut call.state.db.read().await?, call, id).await
}

pub(super) async fn leave(call: &Call<'_>) -> Answer {
    call.require_person()?;
    let mut c = call.state.db.read().await?;
    let id = call.channel_arg(&mut c).await?;
    drop(c);
    call.write(async move |c: &mut Conn, caller: &Caller| channels::leave(c, caller, id).await)
        .await?;
    Ok(json!({}))
}
