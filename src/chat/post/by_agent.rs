//! Complete messages that agents post: scheduled replies and texts of runs. They never invoke an agent.

use super::insert::{NewMessage, insert_message};
use crate::{
    chat::{
        ChatError,
        event::ThreadEvent,
        forks, inbox,
        rows::{
            message::{AuthorKind, Message, MessageKind, MessageMetadata, MessageState},
            thread::{BoundBy, ThreadMemory},
        },
        search::index::{self, ThreadRoot},
        text::ReplyText,
        threads::{self, ThreadOrigin, ThreadStart},
    },
    db::Conn,
    files::Attachment,
    ids::{AgentId, ChannelId, ForkId, MessageId, ThreadId, UserId, WorkspaceId},
    realtime::{EventType, NewEvent, log},
    tasks::queue,
};

/// A message by an agent.
#[derive(Debug, Clone)]
pub struct AgentPost<'a> {
    pub id: MessageId,
    pub workspace: WorkspaceId,
    pub channel: ChannelId,
    pub thread: ThreadId,
    /// True if the message is the first one of the thread.
    pub starts_thread: bool,
    /// The fork in which the message is posted; `None` for the main line.
    pub fork: Option<ForkId>,
    pub agent: AgentId,
    /// The person for whom the message is posted.
    pub requester: UserId,
    pub text: &'a ReplyText,
    /// Files whose rows are stored.
    pub attachments: Vec<Attachment>,
    pub metadata: MessageMetadata,
}

/// Posts a message in the main line of a thread, in a fork, or in a new thread. The caller must have checked that the requester can
/// post there.
///
/// # Errors
/// Only database errors.
pub async fn post_as_agent(c: &mut Conn, post: AgentPost<'_>) -> Result<Message, ChatError> {
    let (id, audience) = (post.id, queue::audience_of(c, post.channel).await?);
    if post.starts_thread {
        let origin = ThreadOrigin {
            workspace: post.workspace,
            channel: post.channel,
            created_by: post.requester,
        };
        let start = ThreadStart {
            id: post.thread,
            root: id,
            title: None,
            memory: ThreadMemory::On,
            base: None,
        };
        let mut thread = threads::insert(c, origin, start, None, BoundBy::Person).await?;
        let seq = log::reserve(c, post.workspace, 1).await?;
        // The workspace is locked, so the first message gets the next number.
        thread.last_seq = seq + 1;
        let body = ThreadEvent { thread: &thread };
        let event = NewEvent::new(seq, EventType::ThreadCreated, audience, &body)?
            .in_conversation(post.thread, None);
        log::append(c, post.workspace, event).await?;
    }
    let seq = log::reserve(c, post.workspace, 1).await?;
    let new = NewMessage {
        id,
        workspace: post.workspace,
        channel: post.channel,
        thread: post.thread,
        fork: post.fork,
        parent: None,
        author_type: AuthorKind::Agent,
        author: Some(post.agent.0),
        kind: MessageKind::Text,
        state: MessageState::Complete,
        content: post.text.content.clone(),
        plain: post.text.plain.clone(),
        mentions: Vec::new(),
        attachments: post.attachments,
        metadata: post.metadata,
        client_id: None,
    };
    let message = insert_message(c, seq, &new, audience).await?;
    let root = if post.starts_thread {
        ThreadRoot::Thread(None)
    } else {
        ThreadRoot::Nothing
    };
    index::add(c, &message, &post.text.search_document, root).await?;
    if post.starts_thread {
        inbox::posted::open_for_thread(c, &message).await?;
    }
    forks::on_message_posted(c, &message, audience).await?;
    Ok(message)
}
