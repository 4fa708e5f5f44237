//! Posts the complete reply of a scheduled task.

use super::by_agent::{AgentPost, post_as_agent};
use crate::{
    chat::{
        ChatError,
        rows::message::{Message, MessageMetadata},
        text::ReplyText,
    },
    db::Conn,
    files::Attachment,
    ids::{AgentId, MessageId},
    tasks::{Lease, Task, queue},
};

/// A complete reply of a scheduled task.
#[derive(Debug)]
pub struct ScheduledPost<'a> {
    pub id: MessageId,
    pub agent: AgentId,
    pub text: &'a ReplyText,
    /// Files whose rows are stored.
    pub attachments: Vec<Attachment>,
    pub metadata: MessageMetadata,
}

/// Posts a reply for the requester in the main line of its task's thread, or starts the thread with the
/// reply.
///
/// # Errors
/// Only database errors.
pub async fn post_scheduled(
    c: &mut Conn,
    task: &Task,
    lease: &Lease,
    post: ScheduledPost<'_>,
) -> Result<Message, ChatError> {
    let target = lease.target;
    let new = AgentPost {
        id: post.id,
        workspace: task.workspace_id,
        channel: target.channel,
        thread: target.thread,
        starts_thread: task.starts_thread(),
        fork: None,
        agent: post.agent,
        requester: task.requested_by,
        text: post.text,
        attachments: post.attachments,
        metadata: post.metadata,
    };
    let message = post_as_agent(c, new).await?;
    if task.starts_thread() {
        queue::set_thread(c, task.id, target.thread).await?;
    }
    queue::set_reply(c, task.id, message.id).await?;
    Ok(message)
}
