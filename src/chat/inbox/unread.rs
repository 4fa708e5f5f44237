//! Unread messages of a person's channels: one quoted message per thread.

use std::{collections::HashSet, time::Duration};

use serde::Serialize;

use super::{
    rows::is_open_for_member,
    snippet::{TEXT_UNITS_MAX, around_handle, beginning},
};
use crate::{
    auth::{Actor, Scope},
    chat::{
        ChatError,
        mentions::GROUPS,
        rows::message::{MessageAuthor, MessageKind, get_message},
    },
    db::{Conn, DbError, now},
    ids::{ChannelId, MessageId, ThreadId, UserId},
    realtime::log,
    text_enum::text_enum,
    time::Timestamp,
};

/// Maximum number of lines.
const LINES_MAX: usize = 40;
/// Maximum number of threads that are read, and of messages that are read in each.
const THREADS_MAX: usize = 200;
const MESSAGES_MAX: i64 = 50;
/// Number at which the count of a thread's unread messages stops.
const COUNTED_MAX: i64 = 1_000;
const READ_WITHIN: Duration = Duration::from_hours(90 * 24);
/// Minimum numbers of messages and authors in a thread that is moving.
const MOVING_MESSAGES: i64 = 5;
const MOVING_AUTHORS: usize = 2;
/// Minimum number of words of a message that states something.
const SENTENCE_WORDS_MIN: usize = 4;

text_enum! {
    /// Group of unread threads.
    pub enum UnreadGroupName {
        /// Threads with open inbox items.
        WantsYou = "wants_you",
        /// Threads with new results.
        Results = "results",
        /// Threads with 5 or more messages by 2 or more authors.
        Moving = "moving",
        Quiet = "quiet",
    }
}

/// An unread thread, and one of its unread messages.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct UnreadLine {
    pub thread_id: ThreadId,
    pub author: MessageAuthor,
    pub at: Timestamp,
    /// Part of the message, at most 240 characters.
    pub text: String,
    /// The message.
    pub sources: Vec<MessageId>,
    /// Number of unread messages in the thread; at most 1,000.
    pub unread: i64,
}

#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct UnreadGroup {
    pub name: UnreadGroupName,
    /// Latest activity first.
    pub lines: Vec<UnreadLine>,
}

/// Unread threads and messages that have no line.
#[derive(Debug, Clone, Copy, Default, Serialize, utoipa::ToSchema)]
pub struct UnreadLeftOut {
    /// Number of threads without a line; at most 200.
    pub threads: i64,
    /// Number of unread messages in them.
    pub messages: i64,
}

/// Unread messages of one person.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct UnreadSummary {
    /// Time of the oldest unread message that was read; null if there is none.
    pub from_at: Option<Timestamp>,
    /// Number of the workspace's newest event.
    pub to_seq: i64,
    /// Groups with lines, in their order; at most 40 lines together.
    pub groups: Vec<UnreadGroup>,
    /// Number of unread messages.
    pub count: i64,
    pub left_out: UnreadLeftOut,
}

#[derive(sqlx::FromRow)]
struct UnreadThread {
    id: ThreadId,
    /// Everything up to this number is read.
    mark: i64,
    wants_you: bool,
    unread: i64,
}

#[derive(sqlx::FromRow)]
struct UnreadMessage {
    id: MessageId,
    author_id: Option<uuid::Uuid>,
    kind: MessageKind,
    text: String,
    created_at: Timestamp,
}

/// Threads with unread messages that are not muted, latest activity first.
async fn unread_threads(
    c: &mut Conn,
    actor: &Actor<'_>,
    channel: Option<ChannelId>,
) -> Result<Vec<UnreadThread>, DbError> {
    let most = i64::try_from(THREADS_MAX).unwrap_or(i64::MAX);
    c.q(concat!("select u.id, u.mark, u.unread, (exists (select 1 from inbox_items i where i.recipient_id = $1 and i.thread_id = u.id \
           and i.state = 'open') or exists (select 1 from inbox_items i \
           join channel_members cm on cm.channel_id = i.recipient_id and cm.user_id = $1 \
           left join reads r on r.conversation_id = i.conversation_id and r.user_id = $1 \
           left join follows f on f.conversation_id = i.conversation_id and f.user_id = $1 \
           where i.recipient_id = u.channel_id and i.thread_id = u.id and i.state = 'open' and ", is_open_for_member!(), ")) as wants_you from (\
         select t.id, t.channel_id, t.last_seq, case when coalesce(r.seq, cm.read_seq) > cm.joined_seq then coalesce(r.seq, cm.read_seq) \
           else cm.joined_seq end as mark, (select count(*) from (select 1 from messages m where m.conversation_id = t.id \
             and m.seq > coalesce(r.seq, cm.read_seq) and m.seq > cm.joined_seq and m.kind <> 'notice' and m.deleted_at is null \
             and m.author_id <> $1 limit $6) n) as unread \
         from channel_members cm join threads t on t.channel_id = cm.channel_id \
         left join reads r on r.conversation_id = t.id and r.user_id = $1 \
         where cm.user_id = $1 and t.workspace_id = $2 and ($3 is null or t.channel_id = $3) and t.last_activity_at > $4 \
         and t.last_seq > coalesce(r.seq, cm.read_seq) and t.last_seq > cm.joined_seq \
         and not exists (select 1 from follows f where f.user_id = $1 and f.conversation_id = t.id and f.level = 'none') \
         order by t.last_seq desc limit $5) u where u.unread > 0 order by u.last_seq desc"))
        .bind(actor.user)
        .bind(actor.workspace)
        .bind(channel)
        .bind(now() - READ_WITHIN)
        .bind(most)
        .bind(COUNTED_MAX)
        .all()
        .await
}

/// The newest unread messages of a thread, newest first. Long texts are cut.
async fn unread_messages(
    c: &mut Conn,
    user: UserId,
    thread: &UnreadThread,
) -> Result<Vec<UnreadMessage>, DbError> {
    c.q("select m.id, m.author_id, m.kind, substr(m.content_plain, 1, 2000) as text, m.created_at from messages m \
         where m.conversation_id = $1 and m.seq > $2 and m.kind <> 'notice' and m.deleted_at is null and m.author_id <> $3 \
         order by m.seq desc limit $4")
        .bind(thread.id)
        .bind(thread.mark)
        .bind(user)
        .bind(MESSAGES_MAX)
        .all()
        .await
}

/// Checks whether a text mentions a handle.
fn names(text: &str, handle: &str) -> bool {
    let text = text.to_lowercase();
    let name = format!("@{handle}");
    let continues = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let mut found = text.match_indices(&name);
    !handle.is_empty() && found.any(|(at, _)| !text[at + name.len()..].starts_with(continues))
}

/// False for thanks and the like.
fn is_sentence(text: &str) -> bool {
    text.split_whitespace().count() >= SENTENCE_WORDS_MIN
}

/// Position of the message to quote, of messages that are sorted from new to old: the newest result, else the newest one that mentions
/// the person, else one that mentions the whole channel, else the newest question without an answer, else the newest sentence, else
/// the newest message.
fn quoted(messages: &[UnreadMessage], handle: &str) -> usize {
    let rank = |at: usize, message: &UnreadMessage| {
        let is_answer = |later: &UnreadMessage| {
            later.author_id != message.author_id && is_sentence(&later.text)
        };
        if message.kind == MessageKind::Resolution {
            0
        } else if names(&message.text, handle) {
            1
        } else if GROUPS.iter().any(|group| names(&message.text, group)) {
            2
        } else if openvibe_responder::is_question(&message.text)
            && !messages.iter().take(at).any(is_answer)
        {
            3
        } else if is_sentence(&message.text) {
            4
        } else {
            5
        }
    };
    let best = messages.iter().enumerate();
    best.min_by_key(|(at, message)| (rank(*at, message), *at))
        .map_or(0, |(at, _)| at)
}

/// Unread messages of a channel, or of all channels of the caller.
///
/// # Errors
/// Any error from `Actor::require`.
pub async fn summary(
    c: &mut Conn,
    actor: &Actor<'_>,
    channel: Option<ChannelId>,
) -> Result<UnreadSummary, ChatError> {
    actor.require(Scope::ChatRead)?;
    let (to_seq, _) = log::head(c, actor.workspace).await?;
    let handle: Option<(String,)> = c
        .q("select handle from members where workspace_id = $1 and user_id = $2")
        .bind(actor.workspace)
        .bind(actor.user)
        .opt()
        .await?;
    let handle = handle.map(|(handle,)| handle).unwrap_or_default();
    let mut summary = UnreadSummary {
        from_at: None,
        to_seq,
        groups: Vec::new(),
        count: 0,
        left_out: UnreadLeftOut::default(),
    };
    let mut sorted: Vec<(UnreadGroupName, UnreadThread, UnreadMessage)> = Vec::new();
    for thread in unread_threads(c, actor, channel).await? {
        summary.count += thread.unread;
        let mut messages = unread_messages(c, actor.user, &thread).await?;
        let oldest = messages.last().map(|message| message.created_at);
        summary.from_at = match (summary.from_at, oldest) {
            (Some(known), Some(oldest)) => Some(known.min(oldest)),
            (known, oldest) => known.or(oldest),
        };
        if messages.is_empty() {
            continue;
        }
        let authors: HashSet<_> = messages.iter().map(|message| message.author_id).collect();
        let has_result = messages
            .iter()
            .any(|message| message.kind == MessageKind::Resolution);
        let group = if thread.wants_you {
            UnreadGroupName::WantsYou
        } else if has_result {
            UnreadGroupName::Results
        } else if thread.unread >= MOVING_MESSAGES && authors.len() >= MOVING_AUTHORS {
            UnreadGroupName::Moving
        } else {
            UnreadGroupName::Quiet
        };
        let quoted = messages.swap_remove(quoted(&messages, &handle));
        sorted.push((group, thread, quoted));
    }
    // Stable, so that the latest activity comes first in each group.
    sorted.sort_by_key(|(group, _, _)| *group);
    for (_, thread, _) in sorted.iter().skip(LINES_MAX) {
        summary.left_out.threads += 1;
        summary.left_out.messages += thread.unread;
    }
    for (group, thread, message) in sorted.into_iter().take(LINES_MAX) {
        let author = get_message(c, message.id).await?.author;
        let line = UnreadLine {
            thread_id: thread.id,
            author,
            at: message.created_at,
            text: if names(&message.text, &handle) {
                around_handle(&message.text, &handle)
            } else {
                beginning(&message.text, TEXT_UNITS_MAX)
            },
            sources: vec![message.id],
            unread: thread.unread,
        };
        match summary.groups.last_mut() {
            Some(last) if last.name == group => last.lines.push(line),
            _ => summary.groups.push(UnreadGroup {
                name: group,
                lines: vec![line],
            }),
        }
    }
    Ok(summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_handle_is_another_one() {
        for text in ["@bo?", "Hi @Bo, can you", "@bobby and @bo", "(@bo)"] {
            assert!(names(text, "bo"), "{text}");
        }
        for text in ["@bobby", "@bo-2", "@bo_", "bo", "@ bo"] {
            assert!(!names(text, "bo"), "{text}");
        }
        assert!(!names("a@", ""));
    }
}
