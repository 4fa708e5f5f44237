//! Messages that agents post outside of replies, such as the outputs of runs. They never invoke an agent.

use super::insert::{NewMessage, insert_message};
use crate::{
    chat::{
        ChatError,
        event::ThreadEvent,
        forks,
        rows::{
            message::{AuthorKind, Message, MessageKind, MessageMetadata, MessageState},
            thread::{Thread, ThreadMemory},
        },
        search::index::{self, ThreadRoot},
        text::ReplyText,
        threads,
    },
    db::Conn,
    ids::{AgentId, ChannelId, ForkId, MessageId, ThreadId, UserId, WorkspaceId},
    realtime::{EventType, NewEvent, log},
    tasks::queue,
};

/// A message by an agent.
#[derive(Debug, Clone)]
pub struct AgentPost {
    pub workspace: WorkspaceId,
    pub channel: ChannelId,
    /// `None` starts a thread.
    pub thread: Option<ThreadId>,
    /// Deep dive of the thread.
    pub fork: Option<ForkId>,
    pub agent: AgentId,
    /// The person for whom it is posted.
    pub requester: UserId,
    pub content: String,
    pub metadata: MessageMetadata,
}

/// Posts a message in the main line of a thread, in a deep dive, or in a new thread. The caller has checked that the requester can post there.
///
/// # Errors
/// If the database fails.
pub async fn post_as_agent(c: &mut Conn, post: &AgentPost) -> Result<Message, ChatError> {
    let text = ReplyText::of(post.content.clone());
    let (id, audience) = (MessageId::new(), queue::audience_of(c, post.channel).await?);
    let thread = post.thread.unwrap_or_default();
    let is_root = post.thread.is_none();
    if is_root {
        let place = (post.workspace, post.channel, post.requester);
        let started = threads::insert_row(c, place, thread, id, (None, ThreadMemory::On)).await?;
        let seq = log::reserve(c, post.workspace, 1).await?;
        let shown = Thread {
            // The first message has the next number.
            last_seq: seq + 1,
            ..started
        };
        let event = ThreadEvent { thread: &shown };
        let event = NewEvent::new(seq, EventType::ThreadCreated, audience, &event)?;
        log::append(c, post.workspace, event.in_conversation(thread, None)).await?;
    }
    let seq = log::reserve(c, post.workspace, 1).await?;
    let new = NewMessage {
        id,
        workspace: post.workspace,
        channel: post.channel,
        thread,
        fork: post.fork,
        parent: None,
        author_type: AuthorKind::Agent,
        author: Some(post.agent.0),
        kind: MessageKind::Text,
        state: MessageState::Complete,
        content: text.content.clone(),
        plain: text.plain.clone(),
        mentions: Vec::new(),
        attachments: Vec::new(),
        metadata: post.metadata.clone(),
        client_id: None,
    };
    let message = insert_message(c, seq, &new, audience).await?;
    let root = if is_root {
        ThreadRoot::Thread(None)
    } else {
        ThreadRoot::Nothing
    };
    index::add(c, &message, &text.search_document, root).await?;
    forks::on_message_posted(c, &message, audience).await?;
    Ok(message)
}
