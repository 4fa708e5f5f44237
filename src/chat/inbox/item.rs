//! Items as clients see them. Their texts are those of the objects that they are about, at the time of the read.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use uuid::Uuid;

use super::{
    rows::{self, Reader, Row},
    snippet::{TEXT_UNITS_MAX, TITLE_UNITS_MAX, around_handle, beginning},
    subjects::{self, SubjectTexts},
};
use crate::{
    chat::{
        follows::{FollowCause, FollowLevel},
        rows::message::{AuthorKind, MessageAuthor},
    },
    db::{Conn, DbError, dialect::hexadecimal_ids},
    ids::{
        ActionId, ActionItemId, BotId, ChannelId, ForkId, IdentityId, IdentityProviderId,
        InboxItemId, MessageId, RunId, ScheduleId, ThreadId, ToolId, UserId, WorkflowId,
    },
    inbox::{InboxReason, InboxState, InboxSubjectKind, server_alerts::ServerAlert},
    sql_with_ids,
    text_enum::constant,
    time::Timestamp,
};

/// Maximum number of messages that are counted for one item.
const COUNTED_MAX: i64 = 1000;

constant! { pub InboxItemObject = "inbox_item" }

/// Something that wants a person's attention.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct InboxItem {
    pub id: InboxItemId,
    #[schema(inline)]
    pub object: InboxItemObject,
    pub reason: InboxReason,
    pub state: InboxState,
    /// Time at which an item in the state `later` opens again; null for a saved message without a reminder.
    pub until: Option<Timestamp>,
    /// Items are sorted by this number: that of the event that the item follows.
    pub seq: i64,
    /// Number of the workspace's newest event at the last change of the item.
    pub changed_seq: i64,
    pub channel_id: Option<ChannelId>,
    pub thread_id: Option<ThreadId>,
    /// The fork whose message the item is about; null for the main line of the thread.
    pub fork_id: Option<ForkId>,
    pub message_id: Option<MessageId>,
    /// ID of the object that the item is about: a message, thread, fork, action item, action, run, schedule, workflow, tool, bot, member,
    /// identity, or identity provider; `server_` and the name of a part of the server; null for a budget.
    pub subject_id: Option<String>,
    /// The person's level in the conversation, or else in the channel.
    pub level: Option<FollowLevel>,
    /// Reason for the level in the conversation; null if it is that of the channel.
    pub cause: Option<FollowCause>,
    /// Title of the conversation, or name of the object; at most 200 characters.
    pub title: String,
    /// Author of the message, or the person or agent who caused the item.
    pub from: Option<MessageAuthor>,
    /// Part of the message, around the person's handle; at most 240 characters.
    pub text: String,
    pub is_question: bool,
    /// True if the message is not read.
    pub unread: bool,
    /// Number of messages behind the item: 1, or for `reply` the unread messages of other people, at most 1,000.
    pub count: i64,
    /// True if the person is notified when the item opens.
    pub notifies: bool,
    pub created_at: Timestamp,
}

#[derive(sqlx::FromRow)]
struct MessageRow {
    id: MessageId,
    author_type: AuthorKind,
    author_id: Option<Uuid>,
    author_name: Option<String>,
    avatar_url: Option<String>,
    content_plain: String,
}

impl MessageRow {
    fn author(&self) -> MessageAuthor {
        MessageAuthor::new(
            self.author_type,
            self.author_id,
            self.author_name.clone(),
            self.avatar_url.clone(),
        )
    }
}

/// Objects that items are about.
struct Sources {
    messages: HashMap<MessageId, MessageRow>,
    /// Titles of threads and forks.
    conversations: HashMap<Uuid, String>,
    actors: HashMap<Uuid, MessageAuthor>,
    subjects: SubjectTexts,
    handle: String,
}

/// Adds the texts to rows of an inbox, in their order.
pub(super) async fn items_of(
    c: &mut Conn,
    reader: Reader,
    rows: Vec<Row>,
) -> Result<Vec<InboxItem>, DbError> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let sources = load(c, reader, &rows).await?;
    let mut items = Vec::with_capacity(rows.len());
    for row in rows {
        let count = if row.reason == InboxReason::Reply {
            rows::count_messages(c, reader.user, &row, COUNTED_MAX).await?
        } else {
            1
        };
        items.push(item(&sources, &row, count));
    }
    Ok(items)
}

async fn load(c: &mut Conn, reader: Reader, rows: &[Row]) -> Result<Sources, DbError> {
    let handle: Option<(String,)> = c
        .q("select handle from members where workspace_id = $1 and user_id = $2")
        .bind(reader.workspace)
        .bind(reader.user)
        .opt()
        .await?;
    let unique = |ids: Vec<Uuid>| hexadecimal_ids(ids.into_iter().collect::<HashSet<_>>());
    let messages = rows.iter().filter_map(|row| row.message_id);
    let messages: Vec<MessageRow> = c
        .q(sql_with_ids!(
            c,
            "select m.id, m.author_type, m.author_id, coalesce(u.name, a.summary ->> 'display_name', a.name, \
             (select n.name from agent_names n where n.agent_id = m.author_id)) as author_name, \
             coalesce(u.avatar_url, '/v1/files/' || (a.summary -> 'avatar' ->> 'file_id')) as avatar_url, m.content_plain \
             from messages m left join users u on m.author_type in ('human', 'bot') and u.id = m.author_id \
             left join agents a on m.author_type = 'agent' and a.id = m.author_id where m.id in",
            1,
            ""
        ))
        .bind(unique(messages.map(|id| id.0).collect()))
        .all()
        .await?;
    let conversations = rows.iter().filter_map(|row| row.conversation_id);
    let conversations = unique(conversations.collect());
    let titles: Vec<(Uuid, String)> = c
        .q(sql_with_ids!(
            c,
            "select t.id, coalesce(t.title, substr(m.content_plain, 1, 400), '') from threads t \
             left join messages m on m.id = t.root_message_id where t.id in",
            1,
            ""
        ))
        .bind(conversations.clone())
        .all()
        .await?;
    let forks: Vec<(Uuid, String)> = c
        .q(sql_with_ids!(
            c,
            "select f.id, f.title from forks f where f.id in",
            1,
            ""
        ))
        .bind(conversations)
        .all()
        .await?;
    let actors = rows.iter().filter_map(|row| row.actor_id);
    let actors: Vec<(Uuid, AuthorKind, String, Option<String>)> = c
        .q(sql_with_ids!(
            c,
            "select x.id, x.kind, x.name, x.avatar_url from (select u.id, case u.kind when 'bot' then 'bot' else 'human' end as kind, u.name, u.avatar_url from users u union all \
             select a.id, 'agent' as kind, coalesce(a.summary ->> 'display_name', a.name), \
             '/v1/files/' || (a.summary -> 'avatar' ->> 'file_id') from agents a) x where x.id in",
            1,
            ""
        ))
        .bind(unique(actors.collect()))
        .all()
        .await?;
    Ok(Sources {
        messages: messages.into_iter().map(|row| (row.id, row)).collect(),
        conversations: titles.into_iter().chain(forks).collect(),
        actors: actors
            .into_iter()
            .map(|(id, kind, name, avatar_url)| {
                let author = MessageAuthor::new(kind, Some(id), Some(name), avatar_url);
                (id, author)
            })
            .collect(),
        subjects: subjects::load(c, rows).await?,
        handle: handle.map(|(handle,)| handle).unwrap_or_default(),
    })
}

fn item(sources: &Sources, row: &Row, count: i64) -> InboxItem {
    let message = row.message_id.and_then(|id| sources.messages.get(&id));
    let plain = message.map(|message| message.content_plain.as_str());
    let text = plain.map(|text| {
        if row.reason == InboxReason::Mention {
            around_handle(text, &sources.handle)
        } else {
            beginning(text, TEXT_UNITS_MAX)
        }
    });
    let subject = sources.subjects.get(&(row.reason, row.subject_id));
    let text = subject
        .map(|subject| beginning(&subject.text, TEXT_UNITS_MAX))
        .or(text);
    let title = subject
        .and_then(|subject| subject.title.as_ref())
        .or_else(|| {
            row.conversation_id
                .and_then(|id| sources.conversations.get(&id))
        })
        .map(|title| beginning(title, TITLE_UNITS_MAX));
    let actor = row.actor_id.and_then(|id| sources.actors.get(&id)).cloned();
    let thread = row.thread_id.map(|id| id.0);
    let fork = row.conversation_id.filter(|id| Some(*id) != thread);
    let by_hand = row.cause == Some(FollowCause::Manual);
    let is_muted = if by_hand {
        row.level == Some(FollowLevel::None)
    } else {
        row.channel_level == Some(FollowLevel::None) || row.level == Some(FollowLevel::None)
    };
    InboxItem {
        id: row.id,
        object: InboxItemObject,
        reason: row.reason,
        state: row.state,
        until: row.until,
        seq: row.seq,
        changed_seq: row.changed_seq,
        channel_id: row.channel_id,
        thread_id: row.thread_id,
        fork_id: fork.map(ForkId),
        message_id: row.message_id,
        subject_id: subject_text(row.subject_type, row.subject_id),
        level: row.level.or(row.channel_level),
        cause: row.cause,
        title: title.unwrap_or_default(),
        from: message.map(MessageRow::author).or(actor),
        is_question: plain.is_some_and(openvibe_responder::is_question),
        text: text.unwrap_or_default(),
        unread: row.message_id.is_some() && row.seq > row.read_seq,
        count,
        notifies: !row.is_quiet && !is_muted && notifies(row.reason, row.cause),
        created_at: row.created_at,
    }
}

/// Checks whether an item with this reason notifies its person; a reply does if they chose to follow the conversation.
fn notifies(reason: InboxReason, cause: Option<FollowCause>) -> bool {
    match reason {
        InboxReason::Notice => false,
        InboxReason::Reply => cause == Some(FollowCause::Manual),
        _ => true,
    }
}

fn subject_text(kind: InboxSubjectKind, id: Uuid) -> Option<String> {
    Some(match kind {
        InboxSubjectKind::Message => MessageId(id).to_string(),
        InboxSubjectKind::Thread => ThreadId(id).to_string(),
        InboxSubjectKind::Fork => ForkId(id).to_string(),
        InboxSubjectKind::ActionItem => ActionItemId(id).to_string(),
        InboxSubjectKind::Action => ActionId(id).to_string(),
        InboxSubjectKind::Run => RunId(id).to_string(),
        InboxSubjectKind::Schedule => ScheduleId(id).to_string(),
        InboxSubjectKind::Workflow => WorkflowId(id).to_string(),
        InboxSubjectKind::Tool => ToolId(id).to_string(),
        InboxSubjectKind::Bot => BotId(id).to_string(),
        InboxSubjectKind::Budget => return None,
        InboxSubjectKind::Member | InboxSubjectKind::Merge | InboxSubjectKind::Role => {
            UserId(id).to_string()
        }
        InboxSubjectKind::Server => format!("server_{}", ServerAlert::of_subject(id)?),
        InboxSubjectKind::Identity => IdentityId(id).to_string(),
        InboxSubjectKind::IdentityProvider => IdentityProviderId(id).to_string(),
    })
}
