//! Posts the complete reply of a schedule's task.

use super::insert::{NewMessage, insert_message};
use crate::{
    chat::{
        ChatError,
        event::ThreadEvent,
        rows::{
            message::{AuthorKind, Message, MessageKind, MessageMetadata, MessageState},
            thread::{BoundBy, ThreadMemory},
        },
        search::index::{self, ThreadRoot},
        text::ReplyText,
        threads::{self, ThreadOrigin},
    },
    db::Conn,
    ids::{AgentId, MessageId},
    realtime::{EventType, NewEvent, log},
    tasks::{Lease, Task, queue},
};

/// A complete reply of a schedule's task.
#[derive(Debug)]
pub struct ScheduledPost<'a> {
    pub agent: AgentId,
    pub text: &'a ReplyText,
    pub metadata: MessageMetadata,
}

/// Posts a reply in the main line of its task's thread, or starts the thread with it, for the requester.
///
/// # Errors
/// If the database fails.
pub async fn post_scheduled(
    c: &mut Conn,
    (task, lease): (&Task, &Lease),
    post: ScheduledPost<'_>,
) -> Result<Message, ChatError> {
    let target = lease.target;
    let id = MessageId::new();
    let starts_thread = task.starts_thread();
    if starts_thread {
        let origin = ThreadOrigin {
            workspace: task.workspace_id,
            channel: target.channel,
            created_by: task.requested_by,
        };
        let how = (None, ThreadMemory::On);
        let by = BoundBy::Person;
        let mut thread = threads::insert(c, origin, target.thread, id, how, None, by).await?;
        let seq = log::reserve(c, task.workspace_id, 1).await?;
        // The first message has the next number: the workspace is locked.
        thread.last_seq = seq + 1;
        let body = ThreadEvent { thread: &thread };
        let event = NewEvent::new(seq, EventType::ThreadCreated, lease.audience, &body)?
            .in_conversation(target.thread, None);
        log::append(c, task.workspace_id, event).await?;
        queue::set_thread(c, task.id, target.thread).await?;
    }
    let seq = log::reserve(c, task.workspace_id, 1).await?;
    let new = NewMessage {
        id,
        workspace: task.workspace_id,
        channel: target.channel,
        thread: target.thread,
        fork: None,
        parent: None,
        author_type: AuthorKind::Agent,
        author: Some(post.agent.0),
        kind: MessageKind::Text,
        state: MessageState::Complete,
        content: post.text.content.clone(),
        plain: post.text.plain.clone(),
        mentions: Vec::new(),
        attachments: Vec::new(),
        metadata: post.metadata,
        client_id: None,
    };
    let message = insert_message(c, seq, &new, lease.audience).await?;
    let root = if starts_thread {
        ThreadRoot::Thread(None)
    } else {
        ThreadRoot::Nothing
    };
    index::add(c, &message, &post.text.search_document, root).await?;
    queue::set_reply(c, task.id, id).await?;
    Ok(message)
}
