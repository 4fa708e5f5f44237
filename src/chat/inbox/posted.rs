//! Items of a posted or edited message: at most one for each person, none for its author.

use crate::{
    chat::rows::{
        channel::ChannelKind,
        message::{AuthorKind, Mention, MentionKind, Message, MessageKind},
    },
    db::{Conn, DbError},
    ids::{MessageId, UserId},
    inbox::{
        InboxReason, InboxSubject, NewItem, Place, close,
        open::{open, open_for_channel, open_for_subscribers},
    },
    realtime::log,
};

/// Maximum number of people whom one message mentions with an item.
const MENTIONED_MAX: usize = 200;

/// Whom a message is addressed to.
#[derive(Debug, Clone, Copy)]
pub(in crate::chat) struct Addressed<'a> {
    pub people: &'a [UserId],
    /// True if the message mentions all members of the channel.
    pub everyone: bool,
    pub starts_thread: bool,
}

/// A message and what its items have in common.
fn item_of(message: &Message, reason: InboxReason, subject: InboxSubject) -> NewItem {
    let author = message.author.id.as_deref();
    let actor = author.and_then(|id| {
        let user = UserId::parse(id).map(|id| id.0);
        user.or_else(|_| crate::ids::AgentId::parse(id).map(|id| id.0))
            .or_else(|_| crate::ids::BotId::parse(id).map(|id| id.0))
            .ok()
    });
    NewItem {
        workspace: message.workspace_id,
        reason,
        subject,
        actor,
        place: Some(place_of(message)),
        channel: None,
        message: Some(message.id),
        seq: message.seq,
        changed_seq: message.seq,
        is_quiet: false,
    }
}

pub(in crate::chat) fn place_of(message: &Message) -> Place {
    Place {
        channel: message.channel_id,
        thread: message.thread_id,
        fork: message.fork_id,
    }
}

/// Opens the items of a new message of a person, an agent, or a bot.
pub(in crate::chat) async fn open_for_message(
    c: &mut Conn,
    message: &Message,
    kind: ChannelKind,
    to: Addressed<'_>,
) -> Result<(), DbError> {
    if message.kind == MessageKind::Notice {
        return Ok(());
    }
    let item = item_of(message, InboxReason::Mention, message.id.into());
    for user in to.people.iter().take(MENTIONED_MAX) {
        open(c, *user, &item).await?;
    }
    if kind == ChannelKind::Direct {
        if matches!(message.author.kind, AuthorKind::Human | AuthorKind::Bot) {
            open_for_others(c, message, to.people).await?;
        }
        return Ok(());
    }
    if to.everyone {
        let item = item_of(message, InboxReason::Group, message.id.into());
        return open_for_channel(c, message.channel_id, &item).await;
    }
    if to.starts_thread {
        open_for_thread(c, message).await?;
    }
    Ok(())
}

/// Opens the item of a thread that its first message has just started.
pub(in crate::chat) async fn open_for_thread(
    c: &mut Conn,
    message: &Message,
) -> Result<(), DbError> {
    let item = item_of(message, InboxReason::Thread, message.thread_id.into());
    open_for_subscribers(c, message.channel_id, &item).await
}

/// Opens the items of the other people in a direct channel, except for those whom the message mentions.
async fn open_for_others(
    c: &mut Conn,
    message: &Message,
    mentioned: &[UserId],
) -> Result<(), DbError> {
    let others: Vec<(UserId,)> = c
        .q("select user_id from channel_members where channel_id = $1 order by user_id limit 20")
        .bind(message.channel_id)
        .all()
        .await?;
    let item = item_of(message, InboxReason::Direct, message.id.into());
    for (user,) in others {
        if !mentioned.contains(&user) {
            open(c, user, &item).await?;
        }
    }
    Ok(())
}

/// Deletes the items of mentions that an edit removed, and opens those of new ones, without notifications. `before` are the former
/// mentions.
pub(in crate::chat) async fn update_mentions(
    c: &mut Conn,
    message: &Message,
    before: &[Mention],
    to: Addressed<'_>,
) -> Result<(), DbError> {
    let named = people_in(before);
    for user in named.iter().filter(|user| !to.people.contains(user)) {
        let (workspace, subject) = (message.workspace_id, message.id.0);
        close::delete_own(c, workspace, *user, InboxReason::Mention, subject).await?;
    }
    let (changed_seq, _) = log::head(c, message.workspace_id).await?;
    let item = NewItem {
        changed_seq,
        is_quiet: true,
        ..item_of(message, InboxReason::Mention, message.id.into())
    };
    let new = to.people.iter().filter(|user| !named.contains(user));
    for user in new.take(MENTIONED_MAX) {
        open(c, *user, &item).await?;
    }
    let had_everyone = before
        .iter()
        .any(|mention| mention.kind == MentionKind::Group);
    if had_everyone && !to.everyone {
        delete_group(c, message.id).await?;
    }
    if to.everyone && !had_everyone {
        let item = NewItem {
            changed_seq,
            is_quiet: true,
            ..item_of(message, InboxReason::Group, message.id.into())
        };
        open_for_channel(c, message.channel_id, &item).await?;
    }
    Ok(())
}

fn people_in(mentions: &[Mention]) -> Vec<UserId> {
    let people = mentions
        .iter()
        .filter(|mention| mention.kind == MentionKind::User);
    people
        .filter_map(|mention| mention.id.as_ref()?.parse().ok())
        .collect()
}

/// Deletes the item of a group, and the copies of its members.
async fn delete_group(c: &mut Conn, message: MessageId) -> Result<(), DbError> {
    c.q("delete from inbox_items where subject_id = $1 and reason = 'group'")
        .bind(message)
        .run()
        .await?;
    Ok(())
}
