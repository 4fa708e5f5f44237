//! Messages of bots. They never invoke an agent and start no workflow.

use super::{
    claim_client_id,
    insert::{NewMessage, insert_post},
    mentioned::{ResolvedMentions, insert_mention_targets, resolve_mentions},
    stored,
};
use crate::{
    auth::{Actor, Role, Scopes},
    chat::{
        ChatError,
        event::ThreadEvent,
        follows, forks,
        inbox::{self, posted::Addressed},
        rows::{
            channel::ChannelKind,
            message::{
                AuthorKind, MentionKind, Message, MessageKind, MessageMetadata, MessageState,
            },
            thread::{BoundBy, ThreadMemory},
        },
        search::index::{self, ThreadRoot},
        text::Text,
        threads::{self, ThreadOrigin, ThreadStart},
    },
    db::Conn,
    ids::{BotId, ChannelId, MessageId, ThreadId, UserId, WorkspaceId},
    realtime::{EventType, NewEvent, log},
    tasks::queue,
    text_enum::text_enum,
    time::Timestamp,
};

text_enum! {
    /// Mentions in a bot's messages that notify someone; all others are text.
    pub enum MentionLimit {
        Nobody = "nobody",
        People = "people",
        Everyone = "everyone",
    }
}

/// A message by a bot.
#[derive(Debug)]
pub struct BotPost<'a> {
    pub workspace: WorkspaceId,
    pub channel: ChannelId,
    /// `None` starts a thread.
    pub thread: Option<ThreadId>,
    pub bot: BotId,
    /// Creator of a new thread.
    pub creator: UserId,
    pub text: &'a Text,
    pub may_notify: MentionLimit,
    pub metadata: MessageMetadata,
    pub client_id: Option<&'a str>,
}

/// Resolves the mentions that may notify someone. Mentions of agents are text.
async fn resolve(
    c: &mut Conn,
    actor: &Actor<'_>,
    post: &BotPost<'_>,
) -> Result<ResolvedMentions, ChatError> {
    if post.may_notify == MentionLimit::Nobody {
        return Ok(ResolvedMentions::default());
    }
    let mut found = resolve_mentions(c, actor, post.channel, post.text, None).await?;
    found.agents.clear();
    found.everyone &= post.may_notify == MentionLimit::Everyone;
    let everyone = found.everyone;
    found.mentions.retain(|mention| match mention.kind {
        MentionKind::Agent => false,
        MentionKind::User => true,
        MentionKind::Group => everyone,
    });
    Ok(found)
}

/// Announces the thread that the message starts.
async fn start_thread(
    c: &mut Conn,
    post: &BotPost<'_>,
    thread: ThreadId,
    root: MessageId,
) -> Result<(), ChatError> {
    let origin = ThreadOrigin {
        workspace: post.workspace,
        channel: post.channel,
        created_by: post.creator,
    };
    let start = ThreadStart {
        id: thread,
        root,
        title: None,
        memory: ThreadMemory::On,
    };
    let audience = queue::audience_of(c, post.channel).await?;
    let mut row = threads::insert(c, origin, start, None, BoundBy::Person).await?;
    let seq = log::reserve(c, post.workspace, 1).await?;
    // The workspace is locked, so the first message gets the next number.
    row.last_seq = seq + 1;
    let body = ThreadEvent { thread: &row };
    let event = NewEvent::new(seq, EventType::ThreadCreated, audience, &body)?
        .in_conversation(thread, None);
    Ok(log::append(c, post.workspace, event).await?)
}

/// Posts a message in the main line of a thread, or in a new thread. The workspace must be locked, and the caller must have checked
/// that the bot can post there and that the thread is open. A repeated client ID returns the first message.
///
/// # Errors
/// `ChannelNotFound`, `ChannelArchived`, `ClientIdReused`, `QuotaExceeded`.
pub async fn post_as_bot(c: &mut Conn, post: BotPost<'_>) -> Result<Message, ChatError> {
    let actor = Actor {
        user: UserId(post.bot.0),
        name: "",
        workspace: post.workspace,
        role: Role::Viewer,
        scopes: Scopes::default(),
        key: None,
    };
    let id = MessageId::new();
    let place = post.channel.to_string();
    if let Some(known) = claim_client_id(c, &actor, post.client_id, &place, id.0).await? {
        return Ok(stored(c, known, false).await?.message);
    }
    let channel: Option<(ChannelKind, Option<Timestamp>)> = c
        .q("select kind, archived_at from channels where id = $1 and workspace_id = $2")
        .bind(post.channel)
        .bind(post.workspace)
        .opt()
        .await?;
    let (kind, archived_at) = channel.ok_or(ChatError::ChannelNotFound)?;
    if archived_at.is_some() {
        return Err(ChatError::ChannelArchived);
    }
    let starts_thread = post.thread.is_none();
    let thread = post.thread.unwrap_or_default();
    let found = resolve(c, &actor, &post).await?;
    if starts_thread {
        start_thread(c, &post, thread, id).await?;
    }
    let audience = queue::audience_of(c, post.channel).await?;
    let seq = log::reserve(c, post.workspace, 1).await?;
    let new = NewMessage {
        id,
        workspace: post.workspace,
        channel: post.channel,
        thread,
        fork: None,
        parent: None,
        author_type: AuthorKind::Bot,
        author: Some(post.bot.0),
        kind: MessageKind::Text,
        state: MessageState::Complete,
        content: post.text.content.clone(),
        plain: post.text.plain.clone(),
        mentions: found.mentions.clone(),
        attachments: Vec::new(),
        metadata: post.metadata,
        client_id: post.client_id.map(str::to_owned),
    };
    let message = insert_post(c, seq, &new, audience).await?;
    let root = if starts_thread {
        ThreadRoot::Thread(None)
    } else {
        ThreadRoot::Nothing
    };
    index::add(c, &message, &post.text.search_document, root).await?;
    insert_mention_targets(c, &message, &found).await?;
    if !found.people.is_empty() {
        let place = inbox::posted::place_of(&message);
        follows::follow_as_mentioned(c, place, &found.people).await?;
    }
    let to = Addressed {
        people: &found.people,
        everyone: found.everyone,
        starts_thread,
    };
    inbox::posted::open_for_message(c, &message, kind, to).await?;
    forks::on_message_posted(c, &message, audience).await?;
    Ok(message)
}
