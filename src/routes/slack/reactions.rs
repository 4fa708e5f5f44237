//! Reactions.

use serde_json::{Map, Value, json};

use super::{Answer, Call, Refusal, messages::found};
use crate::{
    chat::{
        ChatError,
        custom_emoji::{self, CustomEmoji},
        messages::{self, Message, React},
    },
    db::Conn,
    http::ApiError,
    slack::{self, SlackFault, ThreadFacts},
};

/// Error of a reaction.
enum ReactionError {
    Unchanged,
    /// There is no emoji with this name.
    UnknownName,
    Api(ApiError),
}

impl From<crate::db::DbError> for ReactionError {
    fn from(error: crate::db::DbError) -> Self {
        Self::Api(error.into())
    }
}

impl From<ChatError> for ReactionError {
    fn from(error: ChatError) -> Self {
        Self::Api(error.into())
    }
}

fn has_reacted(message: &Message, emoji: &str, caller: &crate::auth::Caller) -> bool {
    let found = message
        .reactions
        .iter()
        .find(|reaction| reaction.emoji == emoji);
    found.is_some_and(|reaction| match caller.bot() {
        Some(bot) => reaction.bot_ids.contains(&bot),
        None => reaction.user_ids.contains(&caller.user),
    })
}

async fn react(call: &Call<'_>, what: React) -> Answer {
    let name = call.args.required("name", SlackFault::InvalidName)?;
    // Slack names skin tones after the emoji.
    let name = name.split("::").next().unwrap_or_default().to_owned();
    let emoji = messages::parse_emoji(&name).map_err(|_| SlackFault::InvalidName)?;
    let mut c = call.state.db.read().await?;
    let channel = call.channel_arg(&mut c).await?;
    let (id, _) = found(&mut c, call, channel, "timestamp").await?;
    drop(c);
    let caller = call.caller.clone();
    let written = call
        .state
        .db
        .write(call.workspace.0, async move |c: &mut Conn| {
            let before = messages::get_message(c, id).await?;
            let emoji = custom_emoji::spelling(c, before.workspace_id, &emoji).await?;
            // A standard emoji is a character now, and a custom one has colons.
            if what == React::Add && emoji.is_ascii() && !emoji.starts_with(':') {
                return Err(ReactionError::UnknownName);
            }
            messages::react(c, &caller, id, &emoji, what).await?;
            if has_reacted(&before, &emoji, &caller) == (what == React::Add) {
                return Err(ReactionError::Unchanged);
            }
            Ok(())
        });
    match written.await {
        Ok(()) => Ok(json!({})),
        Err(ReactionError::Unchanged) if what == React::Add => {
            Err(SlackFault::AlreadyReacted.into())
        }
        Err(ReactionError::Unchanged) => Err(SlackFault::NoReaction.into()),
        Err(ReactionError::UnknownName) => Err(SlackFault::InvalidName.into()),
        Err(ReactionError::Api(error)) => Err(Refusal::Api(error)),
    }
}

pub(super) async fn add(call: &Call<'_>) -> Answer {
    react(call, React::Add).await
}

pub(super) async fn remove(call: &Call<'_>) -> Answer {
    react(call, React::Remove).await
}

pub(super) async fn get(call: &Call<'_>) -> Answer {
    let mut c = call.state.db.read().await?;
    let text = call.args.required("channel", SlackFault::ChannelNotFound)?;
    let channel = call.channel(&mut c, &text).await?;
    let (id, _) = found(&mut c, call, channel, "timestamp").await?;
    let message = messages::get_message(&mut c, id).await?;
    Ok(json!({
        "type": "message", "channel": text, "message": slack::message(&message, &ThreadFacts::default(), &call.state.public_url),
    }))
}

/// Addresses of the custom emoji, by name.
pub(super) async fn list_emoji(call: &Call<'_>) -> Answer {
    let mut c = call.state.db.read().await?;
    let actor = call.enter(&mut c).await?;
    let all = custom_emoji::list_emoji(&mut c, &actor).await?;
    let base = call.state.public_url.trim_end_matches('/');
    let address = |emoji: CustomEmoji| {
        let url = format!("{base}{}", emoji.url);
        (emoji.name, Value::String(url))
    };
    let all: Map<String, Value> = all.into_iter().map(address).collect();
    Ok(json!({"emoji": all}))
}
