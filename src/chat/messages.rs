//! Messages as clients see them: reading, editing, and reacting. Posting is in `post`, deletion in
//! `remove`.

use super::{
    ChatError, access,
    channels::{self, ChannelAgent},
    custom_emoji, emoji,
    event::MessageEvent,
    event::ReactionEvent,
    inbox::{self, posted::Addressed},
    plain,
    post::{
        links::edit_links,
        mentioned::{KEY_MENTIONS, ResolvedMentions, insert_mention_targets, resolve_mentions},
    },
    search::index::{self, ThreadRoot},
};
use crate::{
    agents::derived::{self, Change, SourceId},
    auth::{Caller, quota},
    db::{Conn, DbError, Json, now},
    ids::{AgentId, BotId, MessageId, UserId},
    model::has_visible,
    realtime::{Audience, EventType, NewEvent, log},
    tasks::steers,
};

pub use super::{
    emoji::{imported_emoji, reaction_name},
    rows::message::{
        AuthorKind, ButtonStyle, Mention, MentionKind, Message, MessageAuthor, MessageButton,
        MessageCode, MessageKind, MessageMetadata, MessageReview, MessageSource, MessageState,
        Reaction, RootRange, RunStart, ShownAs, Unfurl, Window, conversation_seq, find_message,
        get_message, list, list_by_ids, list_roots, set_attachments, update_metadata,
    },
    text::{ReplyText, Text},
};

/// Maximum number of different emoji on one message.
const EMOJI_MAX: usize = 40;
const EMOJI_BYTES_MAX: usize = 64;

/// Appends `message.updated` with the current message.
pub(super) async fn announce_update(
    c: &mut Conn,
    message: &Message,
    audience: Audience,
) -> Result<(), DbError> {
    let seq = log::reserve(c, message.workspace_id, 1).await?;
    let event = NewEvent::new(
        seq,
        EventType::MessageUpdated,
        audience,
        &MessageEvent { message },
    )?
    .in_conversation(message.thread_id, message.fork_id)
    .about(Some(message.id));
    log::append(c, message.workspace_id, event).await
}

/// Edits the caller's own message. An edit never triggers an agent.
///
/// # Errors
/// `MessageNotFound`, `NotYours`, `NotEditable`, `MessageDeleted`, or any error from `writing`.
pub async fn edit(
    c: &mut Conn,
    caller: &Caller,
    id: MessageId,
    text: &Text,
) -> Result<Message, ChatError> {
    edit_with(c, caller, id, text, None).await
}

/// Edits a bot's own message, and replaces its buttons.
///
/// # Errors
/// Those of `edit`.
pub async fn edit_with_buttons(
    c: &mut Conn,
    caller: &Caller,
    id: MessageId,
    text: &Text,
    buttons: &[MessageButton],
) -> Result<Message, ChatError> {
    edit_with(c, caller, id, text, Some(buttons)).await
}

async fn edit_with(
    c: &mut Conn,
    caller: &Caller,
    id: MessageId,
    text: &Text,
    buttons: Option<&[MessageButton]>,
) -> Result<Message, ChatError> {
    let access = access::message(c, caller, id).await?.writing()?;
    crate::db::dialect::lock_workspace(c, access.channel_access.actor.workspace.0).await?;
    let message = get_message(c, id).await?;
    if message.deleted_at.is_some() {
        return Err(ChatError::MessageDeleted);
    }
    if !message.author.is(caller) {
        return Err(ChatError::NotYours);
    }
    if message.kind != MessageKind::Text || message.state == MessageState::Streaming {
        return Err(ChatError::NotEditable);
    }
    if message.attachments.is_empty() {
        text.require_words()?;
    }
    let agent = channels::find_agent(c, &access.channel_access).await?;
    let silenced = agent.and_then(ChannelAgent::silenced);
    let (actor, channel) = (&access.channel_access.actor, access.channel_access.channel);
    let mut found = resolve_mentions(c, actor, channel, text, silenced).await?;
    if caller.bot().is_some() {
        found.limit_to(KEY_MENTIONS);
    }
    let mut metadata = message.metadata.clone();
    metadata
        .unfurls
        .retain(|unfurl| unfurl.is_in(&text.content));
    if let Some(buttons) = buttons {
        metadata.buttons = buttons.to_vec();
    }
    let audience = access.channel_access.audience();
    store_edit(c, &message, text, &found, metadata, audience).await
}

/// Stores a new text of a message, with what follows from it. The workspace must be locked.
pub(super) async fn store_edit(
    c: &mut Conn,
    message: &Message,
    text: &Text,
    found: &ResolvedMentions,
    metadata: MessageMetadata,
    audience: Audience,
) -> Result<Message, ChatError> {
    let id = message.id;
    if let Some(steered) = message.metadata.steers {
        steers::forget_notes(c, id, steered, &message.content).await?;
    }
    c.q("update messages set content = $2, content_plain = $3, mentions = $4, edited_at = $5, metadata = $6 where id = $1")
        .bind(id)
        .bind(text.content.clone())
        .bind(text.plain.clone())
        .bind(Json(found.mentions.clone()))
        .bind(now())
        .bind(Json(metadata))
        .run()
        .await?;
    quota::recount_edit(c, message.workspace_id, id, &text.content, &text.plain).await?;
    c.q("delete from message_mentions where message_id = $1")
        .bind(id)
        .run()
        .await?;
    if message.fork_id.is_none() {
        insert_mention_targets(c, message, found).await?;
    }
    let to = Addressed {
        people: &found.people,
        everyone: found.everyone,
        starts_thread: false,
    };
    inbox::posted::update_mentions(c, message, &message.mentions, to).await?;
    let message = get_message(c, id).await?;
    index::reindex(c, &message, &text.search_document).await?;
    edit_links(c, &message, text, found).await?;
    derived::changed(c, SourceId::Message(id), Change::Edited).await?;
    announce_update(c, &message, audience).await?;
    super::forks::on_source_changed(c, &message, audience).await?;
    Ok(message)
}

/// Returns the one spelling of an emoji.
///
/// # Errors
/// `Invalid` if the text is neither an emoji nor an emoji name.
pub fn parse_emoji(text: &str) -> Result<String, ChatError> {
    let fits = has_visible(text)
        && text.len() <= EMOJI_BYTES_MAX
        && !text.chars().any(|c| {
            c.is_whitespace() || c.is_control() || matches!(c, '<' | '>' | '&' | '"' | '\'')
        });
    if fits {
        Ok(emoji::one_spelling(text))
    } else {
        Err(ChatError::Invalid(
            "a reaction must be one emoji or a short name without white space".to_owned(),
            "emoji",
        ))
    }
}

/// Change to a reaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum React {
    Add,
    Remove,
}

/// Adds or removes the caller's reaction; idempotent.
///
/// # Errors
/// `MessageNotFound`, `MessageDeleted`, `Invalid` for too many emoji, or any error from `writing`.
pub async fn react(
    c: &mut Conn,
    caller: &Caller,
    id: MessageId,
    emoji: &str,
    what: React,
) -> Result<Message, ChatError> {
    let access = access::message(c, caller, id).await?.writing()?;
    crate::db::dialect::lock_workspace(c, access.channel_access.actor.workspace.0).await?;
    let mut message = get_message(c, id).await?;
    if message.deleted_at.is_some() {
        return Err(ChatError::MessageDeleted);
    }
    let emoji = custom_emoji::spelling(c, message.workspace_id, emoji).await?;
    let emoji = emoji.as_str();
    if let Some(bot) = caller.bot() {
        return react_as_bot(
            c,
            message,
            bot,
            emoji,
            what,
            access.channel_access.audience(),
        )
        .await;
    }
    let had_reactions = !message.reactions.is_empty();
    let index = message.reactions.iter().position(|r| r.emoji == emoji);
    let there = index.is_some_and(|i| message.reactions[i].user_ids.contains(&caller.user));
    if there == (what == React::Add) {
        return Ok(message);
    }
    match (index, what) {
        (Some(i), React::Add) => message.reactions[i].user_ids.push(caller.user),
        (None, React::Add) if message.reactions.len() >= EMOJI_MAX => {
            return Err(ChatError::Invalid(
                format!("a message can have at most {EMOJI_MAX} different reactions"),
                "emoji",
            ));
        }
        (None, React::Add) => {
            message.reactions.push(Reaction {
                emoji: emoji.to_owned(),
                user_ids: vec![caller.user],
                agent_ids: Vec::new(),
                bot_ids: Vec::new(),
            });
        }
        (Some(i), React::Remove) => {
            message.reactions[i]
                .user_ids
                .retain(|user| *user != caller.user);
            if message.reactions[i].is_empty() {
                message.reactions.remove(i);
            }
        }
        (None, React::Remove) => {}
    }
    c.q("update messages set reactions = $2 where id = $1")
        .bind(id)
        .bind(Json(message.reactions.clone()))
        .run()
        .await?;
    if had_reactions == message.reactions.is_empty() {
        index::reindex_unchanged(c, &message).await?;
    }
    let kind = if what == React::Add {
        EventType::ReactionAdded
    } else {
        EventType::ReactionRemoved
    };
    let seq = log::reserve(c, message.workspace_id, 1).await?;
    let data = ReactionEvent {
        message_id: id,
        emoji,
        user_id: caller.user,
        reactions: &message.reactions,
    };
    let event = NewEvent::new(seq, kind, access.channel_access.audience(), &data)?
        .in_conversation(message.thread_id, message.fork_id);
    log::append(c, message.workspace_id, event).await?;
    Ok(message)
}

/// Adds or removes a bot's reaction; idempotent. Appends `message.updated`.
async fn react_as_bot(
    c: &mut Conn,
    mut message: Message,
    bot: BotId,
    emoji: &str,
    what: React,
    audience: Audience,
) -> Result<Message, ChatError> {
    let had_reactions = !message.reactions.is_empty();
    let index = message.reactions.iter().position(|r| r.emoji == emoji);
    let there = index.is_some_and(|i| message.reactions[i].bot_ids.contains(&bot));
    if there == (what == React::Add) {
        return Ok(message);
    }
    match (index, what) {
        (Some(i), React::Add) => message.reactions[i].bot_ids.push(bot),
        (None, React::Add) if message.reactions.len() >= EMOJI_MAX => {
            return Err(ChatError::Invalid(
                format!("a message can have at most {EMOJI_MAX} different reactions"),
                "emoji",
            ));
        }
        (None, React::Add) => message.reactions.push(Reaction {
            emoji: emoji.to_owned(),
            user_ids: Vec::new(),
            agent_ids: Vec::new(),
            bot_ids: vec![bot],
        }),
        (Some(i), React::Remove) => {
            message.reactions[i].bot_ids.retain(|other| *other != bot);
            message.reactions.retain(|reaction| !reaction.is_empty());
        }
        (None, React::Remove) => {}
    }
    c.q("update messages set reactions = $2 where id = $1")
        .bind(message.id)
        .bind(Json(message.reactions.clone()))
        .run()
        .await?;
    if had_reactions == message.reactions.is_empty() {
        index::reindex_unchanged(c, &message).await?;
    }
    announce_update(c, &message, audience).await?;
    Ok(message)
}

/// Adds an agent's reaction; idempotent, and without effect on a deleted message. Appends `message.updated`.
pub async fn react_as_agent(
    c: &mut Conn,
    id: MessageId,
    agent: AgentId,
    emoji: &str,
    audience: Audience,
) -> Result<(), DbError> {
    let Some(mut message) = find_message(c, id).await? else {
        return Ok(());
    };
    if message.deleted_at.is_some() {
        return Ok(());
    }
    let had_reactions = !message.reactions.is_empty();
    let is_full = message.reactions.len() >= EMOJI_MAX;
    match message
        .reactions
        .iter_mut()
        .find(|reaction| reaction.emoji == emoji)
    {
        Some(reaction) if reaction.agent_ids.contains(&agent) => return Ok(()),
        Some(reaction) => reaction.agent_ids.push(agent),
        None if is_full => return Ok(()),
        None => message.reactions.push(Reaction {
            emoji: emoji.to_owned(),
            user_ids: Vec::new(),
            agent_ids: vec![agent],
            bot_ids: Vec::new(),
        }),
    }
    c.q("update messages set reactions = $2 where id = $1")
        .bind(id)
        .bind(Json(message.reactions.clone()))
        .run()
        .await?;
    if !had_reactions {
        index::reindex_unchanged(c, &message).await?;
    }
    announce_update(c, &message, audience).await
}

/// Completes a streaming reply with its full text. Appends `message.updated`.
pub async fn finish_reply(
    c: &mut Conn,
    id: MessageId,
    text: &ReplyText,
    metadata: &MessageMetadata,
    audience: Audience,
) -> Result<(), DbError> {
    c.q("update messages set content = $2, content_plain = $3, metadata = $4, state = 'complete' where id = $1 and deleted_at is null")
        .bind(id)
        .bind(text.content.clone())
        .bind(text.plain.clone())
        .bind(Json(metadata.clone()))
        .run()
        .await?;
    if let Some(message) = find_message(c, id).await? {
        quota::recount_message(
            c,
            message.workspace_id,
            id,
            &message.content,
            &message.content_plain,
        )
        .await?;
        index::add(c, &message, &text.search_document, ThreadRoot::Nothing).await?;
        announce_update(c, &message, audience).await?;
    }
    Ok(())
}

/// Stores the partial text of a streaming reply without appending an event.
pub async fn checkpoint_reply(c: &mut Conn, id: MessageId, content: &str) -> Result<(), DbError> {
    c.q("update messages set content = $2 where id = $1 and state = 'streaming' and deleted_at is null")
        .bind(id)
        .bind(content.to_owned())
        .run()
        .await?;
    Ok(())
}

/// Removes all of a person's reactions to a message. Appends `reaction.removed` for each.
pub async fn erase_reactions(
    c: &mut Conn,
    message: &Message,
    user: UserId,
    audience: Audience,
) -> Result<(), DbError> {
    let mut reactions = message.reactions.clone();
    let gone: Vec<String> = reactions
        .iter()
        .filter(|reaction| reaction.user_ids.contains(&user))
        .map(|reaction| reaction.emoji.clone())
        .collect();
    for emoji in &gone {
        for reaction in reactions.iter_mut().filter(|r| r.emoji == *emoji) {
            reaction.user_ids.retain(|by| *by != user);
        }
        reactions.retain(|reaction| !reaction.is_empty());
        c.q("update messages set reactions = $2 where id = $1")
            .bind(message.id)
            .bind(Json(reactions.clone()))
            .run()
            .await?;
        let seq = log::reserve(c, message.workspace_id, 1).await?;
        let data = ReactionEvent {
            message_id: message.id,
            emoji,
            user_id: user,
            reactions: &reactions,
        };
        let event = NewEvent::new(seq, EventType::ReactionRemoved, audience, &data)?
            .in_conversation(message.thread_id, message.fork_id);
        log::append(c, message.workspace_id, event).await?;
    }
    Ok(())
}

/// Replaces the text and the agent of a notice. Appends `message.updated`.
pub async fn rewrite_notice(
    c: &mut Conn,
    notice: &Message,
    agent: crate::ids::AgentId,
    content: String,
    audience: Audience,
) -> Result<(), DbError> {
    let mut notice = notice.clone();
    notice.metadata.agent_id = Some(agent);
    update_metadata(c, notice.id, notice.metadata.clone()).await?;
    rewrite(c, &notice, content, audience).await
}

/// Replaces the text of a message, including in the event log and in context records, so that the old text can no longer be read.
/// Appends `message.updated`.
pub async fn rewrite(
    c: &mut Conn,
    message: &Message,
    content: String,
    audience: Audience,
) -> Result<(), DbError> {
    let content_plain = plain::to_plain(&content);
    c.q("update messages set content = $2, content_plain = $3 where id = $1")
        .bind(message.id)
        .bind(content.clone())
        .bind(content_plain.clone())
        .run()
        .await?;
    quota::recount_message(
        c,
        message.workspace_id,
        message.id,
        &content,
        &content_plain,
    )
    .await?;
    log::blank_message(c, message.workspace_id, message.id, |frame| {
        let Some(shown) = frame.pointer_mut("/data/message") else {
            return;
        };
        shown["content"] = content.as_str().into();
        shown["content_plain"] = content_plain.as_str().into();
    })
    .await?;
    super::search::index::reindex_stored(c, message.id).await?;
    derived::changed(c, SourceId::Message(message.id), Change::Rewritten).await?;
    let message = Message {
        content,
        content_plain,
        ..message.clone()
    };
    announce_update(c, &message, audience).await
}
