//! Forks as conversations: their rows, counters, titles, and whether their resolution is stale.
//!
//! `crate::forks` starts and resolves forks.

use serde::Serialize;
use uuid::Uuid;

use super::{
    ChatError,
    collaboration::Collaboration,
    inbox::forks as items,
    plain,
    rows::{
        message::{AuthorKind, Message},
        preset::{ConversationPreset, list_presets},
    },
};
use crate::{
    cursor::PageRange,
    db::{Conn, DbError, Json, is_in_visible_channel},
    ids::{AgentId, ChannelId, ForkId, MessageId, ResolutionId, ThreadId, UserId, WorkspaceId},
    realtime::{Audience, EventData, EventType, NewEvent, log},
    text_enum::text_enum,
    time::Timestamp,
};

/// Maximum number of active forks in a snapshot.
const OPEN_MAX: i64 = 500;
/// Maximum length of a title derived from a message, in UTF-16 code units.
pub const TITLE_FROM_TEXT_UNITS_MAX: usize = 60;
/// Title of a fork without text to derive one from, or whose text was deleted.
pub const TITLE_WITHOUT_TEXT: &str = "Deep dive";

text_enum! {
    /// Part of the thread that the fork's agent can see.
    pub enum ForkContext {
        /// Only the beginning of the forked message.
        Message = "message",
        /// The thread up to and including the forked message.
        Thread = "thread",
    }
}

text_enum! {
    pub enum ForkStatus {
        Active = "active",
        Resolved = "resolved",
        Abandoned = "abandoned",
    }
}

/// A fork of a thread.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct Fork {
    pub id: ForkId,
    pub workspace_id: WorkspaceId,
    pub channel_id: ChannelId,
    pub thread_id: ThreadId,
    /// The message in the thread's main line from which the fork starts.
    pub message_id: MessageId,
    pub title: String,
    pub description: Option<String>,
    /// The fork's agent, which replies to messages that mention no agent.
    pub agent_id: Option<AgentId>,
    /// Pinned version of the fork's agent.
    pub agent_version: Option<i64>,
    /// True if the fork's agent replies without a mention.
    #[sqlx(default)]
    pub auto_reply: bool,
    pub context: ForkContext,
    /// Reply styles of the agents in this fork. Agents that are not listed have none.
    #[sqlx(skip)]
    pub presets: Vec<ConversationPreset>,
    pub status: ForkStatus,
    /// True if a message has been posted, edited, or deleted since the newest draft or resolution.
    pub stale: bool,
    /// Number of messages in the fork, including notices and tombstones.
    pub message_count: i64,
    pub created_by: UserId,
    pub created_at: Timestamp,
    pub resolved_at: Option<Timestamp>,
    /// The newest published resolution; kept when the fork is reopened.
    pub resolution_id: Option<ResolutionId>,
    /// The current draft.
    pub draft_id: Option<ResolutionId>,
    /// Current or past collaboration of agents on a goal in this fork; null if there was none.
    #[schema(value_type = Option<Collaboration>)]
    pub collaboration: Option<Json<Collaboration>>,
}

#[derive(Serialize, utoipa::ToSchema)]
pub struct ForkEvent<'a> {
    fork: &'a Fork,
}

impl EventData for ForkEvent<'_> {
    const TYPES: &'static [EventType] = &[EventType::ForkCreated, EventType::ForkUpdated];
}

macro_rules! fork_sql {
    ($tail:expr) => {
        concat!(
            "select f.id, f.workspace_id, f.channel_id, f.thread_id, f.message_id, f.title, f.description, b.agent_id, \
             b.agent_version, coalesce(b.auto_reply, FALSE) as auto_reply, f.context, f.status, f.stale, f.message_count, \
             f.created_by, f.created_at, f.resolved_at, f.resolution_id, \
             (select d.id from resolutions d where d.fork_id = f.id and d.status = 'draft') as draft_id, f.collaboration \
             from forks f left join bindings b on b.conversation_id = f.id and b.is_bound ",
            $tail
        )
    };
}

/// # Errors
/// `ForkNotFound`.
pub async fn get_fork(c: &mut Conn, id: ForkId) -> Result<Fork, ChatError> {
    let row: Option<Fork> = c.q(fork_sql!("where f.id = $1")).bind(id).opt().await?;
    let mut forks: Vec<Fork> = row.into_iter().collect();
    add_presets(c, &mut forks).await?;
    forks.pop().ok_or(ChatError::ForkNotFound)
}

async fn add_presets(c: &mut Conn, forks: &mut [Fork]) -> Result<(), DbError> {
    let mut presets = list_presets(c, forks.iter().map(|fork| fork.id.0).collect()).await?;
    for fork in forks {
        fork.presets = presets.remove(&fork.id.0).unwrap_or_default();
    }
    Ok(())
}

/// Forks of a thread, oldest first. With `before`, returns the forks that directly precede that one.
pub async fn list(
    c: &mut Conn,
    thread: ThreadId,
    PageRange { after, before }: PageRange<ForkId>,
    limit: i64,
) -> Result<Vec<Fork>, DbError> {
    let q = if before.is_some() {
        c.q(fork_sql!(
            "where f.thread_id = $1 and f.id > $2 and f.id < $3 order by f.id desc limit $4"
        ))
    } else {
        c.q(fork_sql!(
            "where f.thread_id = $1 and f.id > $2 and f.id < $3 order by f.id limit $4"
        ))
    };
    let mut forks: Vec<Fork> = q
        .bind(thread)
        .bind(after.unwrap_or(ForkId(Uuid::nil())))
        .bind(before.unwrap_or(ForkId(Uuid::max())))
        .bind(limit)
        .all()
        .await?;
    if before.is_some() {
        forks.reverse();
    }
    add_presets(c, &mut forks).await?;
    Ok(forks)
}

/// Active forks that `user` can see, oldest first, at most 500.
pub async fn list_open(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<Vec<Fork>, DbError> {
    let mut forks: Vec<Fork> = c
        .q(fork_sql!(concat!(
            "where f.workspace_id = $1 and f.status = 'active' and ",
            is_in_visible_channel!("f.channel_id", "$2"),
            " order by f.id limit $3"
        )))
        .bind(workspace)
        .bind(user)
        .bind(OPEN_MAX)
        .all()
        .await?;
    add_presets(c, &mut forks).await?;
    Ok(forks)
}

/// Appends `fork.updated` with the current fork.
pub async fn announce_update(
    c: &mut Conn,
    id: ForkId,
    audience: Audience,
) -> Result<Fork, ChatError> {
    announce(c, EventType::ForkUpdated, id, audience).await
}

/// Appends an event with the current fork. Also closes the inbox items of a fork that is closed or has a draft.
pub async fn announce(
    c: &mut Conn,
    kind: EventType,
    id: ForkId,
    audience: Audience,
) -> Result<Fork, ChatError> {
    let fork = get_fork(c, id).await?;
    let seq = log::reserve(c, fork.workspace_id, 1).await?;
    // Indexed by the forked message, so that a title derived from a deleted text can be removed from this event.
    let event = NewEvent::new(seq, kind, audience, &ForkEvent { fork: &fork })?
        .in_conversation(fork.thread_id, Some(id))
        .about(Some(fork.message_id));
    log::append(c, fork.workspace_id, event).await?;
    let is_closed = fork.status != ForkStatus::Active;
    if is_closed || fork.draft_id.is_some() {
        items::close_resolve(c, fork.workspace_id, id).await?;
    }
    if is_closed {
        items::close_draft(c, fork.workspace_id, id).await?;
    }
    Ok(fork)
}

/// Updates a fork's counters for a message that was just inserted into it.
pub(super) async fn count_message(
    c: &mut Conn,
    fork: ForkId,
    message: &Message,
) -> Result<(), DbError> {
    c.q("update forks set message_count = message_count + 1, last_seq = $2 where id = $1")
        .bind(fork)
        .bind(message.seq)
        .run()
        .await?;
    Ok(())
}

/// Like `count_message`, for an imported message, which belongs wherever its time is. A title that is the beginning of a person's message is
/// taken to be from it, so that it is deleted with the message.
pub(super) async fn count_imported(
    c: &mut Conn,
    fork: ForkId,
    message: &Message,
) -> Result<(), DbError> {
    let is_human = message.author.kind == AuthorKind::Human;
    c.q("update forks set message_count = message_count + 1, last_seq = case when last_seq < $2 then $2 else last_seq end, \
         title_from = case when title_from is null and title = $3 then $4 else title_from end where id = $1")
        .bind(fork)
        .bind(message.seq)
        .bind(is_human.then(|| title_after(message)))
        .bind(message.id)
        .run()
        .await?;
    Ok(())
}

/// Derives a title from the beginning of a text's first line.
fn title_of(text: &str) -> String {
    let line = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or(TITLE_WITHOUT_TEXT);
    let clean: String = line
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let mut units = 0;
    let cut: String = clean
        .chars()
        .take_while(|c| {
            units += c.len_utf16();
            units <= TITLE_FROM_TEXT_UNITS_MAX
        })
        .collect();
    if cut.len() == clean.len() {
        return cut;
    }
    // Avoid a partial word at the end, unless the word is very long.
    let whole = cut
        .rfind(char::is_whitespace)
        .filter(|at| *at > cut.len() / 2);
    cut[..whole.unwrap_or(cut.len())].trim_end().to_owned()
}

/// Marks the draft or resolution of a fork as stale after a message has been posted in it. Appends `fork.updated` if it was not stale.
///
/// Must be called after all other events of the transaction have been appended, because sequence numbers follow the order of events.
pub async fn on_message_posted(
    c: &mut Conn,
    message: &Message,
    audience: Audience,
) -> Result<(), DbError> {
    let Some(fork) = message.fork_id else {
        return Ok(());
    };
    if mark_stale(c, fork).await? {
        announced(c, fork, audience).await?;
    }
    Ok(())
}

/// The title derived from a message: its first line that is not a quote.
pub fn title_after(message: &Message) -> String {
    let own = message
        .content
        .lines()
        .find(|line| !line.trim().is_empty() && !line.trim_start().starts_with('>'));
    match own.map(plain::to_plain).filter(|line| !line.is_empty()) {
        Some(line) => title_of(&line),
        None => title_of(&message.content_plain),
    }
}

/// Marks a fork's draft or resolution as stale; returns `false` if there is none or it is already
/// stale.
async fn mark_stale(c: &mut Conn, fork: ForkId) -> Result<bool, DbError> {
    let n = c
        .q("update forks set stale = TRUE where id = $1 and stale = FALSE \
            and exists (select 1 from resolutions r where r.fork_id = forks.id and r.status in ('draft', 'published'))")
        .bind(fork)
        .run()
        .await?;
    Ok(n == 1)
}

/// Like `announce_update`, but returns only database errors, because the fork must exist.
pub(super) async fn announced(
    c: &mut Conn,
    fork: ForkId,
    audience: Audience,
) -> Result<(), DbError> {
    match announce_update(c, fork, audience).await {
        Ok(_) => Ok(()),
        Err(ChatError::Db(e)) => Err(e),
        Err(_) => Err(sqlx::Error::RowNotFound.into()),
    }
}

/// Marks drafts and resolutions as stale if they were made from a message that was edited or
/// deleted.
pub(super) async fn on_source_changed(
    c: &mut Conn,
    message: &Message,
    audience: Audience,
) -> Result<(), DbError> {
    let touched: Vec<(ForkId,)> = match message.fork_id {
        Some(fork) => vec![(fork,)],
        None => {
            c.q("select id from forks where message_id = $1 order by id limit 1000")
                .bind(message.id)
                .all()
                .await?
        }
    };
    for (fork,) in touched {
        if mark_stale(c, fork).await? {
            announced(c, fork, audience).await?;
        }
    }
    Ok(())
}

/// Resets the titles of forks that are named after a deleted message, and removes all titles derived
/// from that message from the event log.
pub(super) async fn erase_title(
    c: &mut Conn,
    message: &Message,
    audience: Audience,
) -> Result<(), DbError> {
    let touched: Vec<(ForkId, MessageId, String, Option<MessageId>)> = c
        .q("select id, message_id, title, title_from from forks where message_id = $1 or id = $2 order by id limit 1000")
        .bind(message.id)
        .bind(message.fork_id)
        .all()
        .await?;
    for (fork, origin, title, title_from) in touched {
        let mut titles = vec![title_after(message)];
        let is_named_after = title_from == Some(message.id);
        if is_named_after {
            c.q("update forks set title = $2, title_from = null where id = $1")
                .bind(fork)
                .bind(TITLE_WITHOUT_TEXT)
                .run()
                .await?;
            titles.push(title);
        }
        let id = fork.to_string();
        log::blank_message(c, message.workspace_id, origin, |frame| {
            blank_titles(frame, &id, &titles);
        })
        .await?;
        if is_named_after {
            announced(c, fork, audience).await?;
        }
    }
    Ok(())
}

/// Blanks the given titles of a fork in a frame.
fn blank_titles(frame: &mut serde_json::Value, fork: &str, titles: &[String]) {
    for (owner, title) in [
        ("/data/fork/id", "/data/fork/title"),
        ("/data/resolution/fork_id", "/data/resolution/fork_title"),
    ] {
        if frame.pointer(owner).and_then(|v| v.as_str()) == Some(fork)
            && let Some(title) = frame.pointer_mut(title)
            && titles.iter().any(|made| title == made)
        {
            *title = TITLE_WITHOUT_TEXT.into();
        }
    }
}

/// Deletes the resolution of a deleted resolution message, with its text and action items, and removes
/// them from the event log.
pub(super) async fn erase_resolution(
    c: &mut Conn,
    card: &Message,
    audience: Audience,
) -> Result<(), DbError> {
    let row: Option<(ResolutionId, ForkId, MessageId)> = c
        .q("select r.id, r.fork_id, f.message_id from resolutions r join forks f on f.id = r.fork_id where r.message_id = $1")
        .bind(card.id)
        .opt()
        .await?;
    let Some((resolution, fork, origin)) = row else {
        return Ok(());
    };
    c.q("update resolutions set status = 'superseded', headline = '', conclusion = '', key_points = $2, open_questions = $2, \
         deferred_items = $2, search_text = '' where id = $1")
        .bind(resolution)
        .bind(Json(Vec::<()>::new()))
        .run()
        .await?;
    c.q("delete from action_items where resolution_id = $1")
        .bind(resolution)
        .run()
        .await?;
    let gone = resolution.to_string();
    log::blank_message(c, card.workspace_id, origin, |frame| {
        blank_result(frame, &gone);
    })
    .await?;
    let had = c
        .q("update forks set resolution_id = null where id = $1 and resolution_id = $2")
        .bind(fork)
        .bind(resolution)
        .run()
        .await?;
    if had == 1 {
        announced(c, fork, audience).await?;
    }
    Ok(())
}

/// Blanks the text of a resolution in a frame.
fn blank_result(frame: &mut serde_json::Value, id: &str) {
    if frame
        .pointer("/data/resolution/id")
        .and_then(|v| v.as_str())
        == Some(id)
        && let Some(result) = frame
            .pointer_mut("/data/resolution")
            .and_then(|v| v.as_object_mut())
    {
        for text in ["headline", "conclusion"] {
            result.insert(text.to_owned(), "".into());
        }
        for list in [
            "key_points",
            "action_items",
            "open_questions",
            "deferred_items",
        ] {
            result.insert(list.to_owned(), serde_json::json!([]));
        }
    }
    if frame
        .pointer("/data/action_item/resolution_id")
        .and_then(|v| v.as_str())
        == Some(id)
        && let Some(item) = frame
            .pointer_mut("/data/action_item")
            .and_then(|v| v.as_object_mut())
    {
        for text in ["text", "headline"] {
            item.insert(text.to_owned(), "".into());
        }
    }
}

/// Removes the title and the description that a fork's creator wrote, and replaces the creator with
/// an alias. Appends `fork.updated`.
pub async fn erase_person(
    c: &mut Conn,
    id: ForkId,
    alias: UserId,
    audience: Audience,
) -> Result<(), ChatError> {
    let before = get_fork(c, id).await?;
    let (title_from,): (Option<MessageId>,) = c
        .q("select title_from from forks where id = $1")
        .bind(id)
        .one()
        .await?;
    // A title derived from a message is deleted with the message.
    let title = match title_from {
        Some(_) => before.title.clone(),
        None => TITLE_WITHOUT_TEXT.to_owned(),
    };
    c.q("update forks set title = $2, description = null, created_by = $3 where id = $1")
        .bind(id)
        .bind(title.clone())
        .bind(alias)
        .run()
        .await?;
    if title != before.title {
        let (fork, titles) = (id.to_string(), [before.title]);
        log::blank_message(c, before.workspace_id, before.message_id, |frame| {
            blank_titles(frame, &fork, &titles);
        })
        .await?;
    }
    announce_update(c, id, audience).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::title_of;

    #[test]
    fn a_title_is_the_first_line_truncated_at_a_word() {
        assert_eq!(title_of("\n  Which day?\nMonday"), "Which day?");
        let long =
            "We should look at the queue again because it grew over night and nobody knows why";
        assert_eq!(
            title_of(long),
            "We should look at the queue again because it grew over"
        );
        assert_eq!(title_of(&"x".repeat(90)), "x".repeat(60));
        assert_eq!(title_of(" "), "Deep dive");
    }
}
