//! The reply of a turn.

use crate::{
    chat::{
        forks,
        messages::{AuthorKind, MessageCode, MessageKind, MessageMetadata, MessageState},
        post::{self, NewMessage},
    },
    db::{Conn, DbError},
    ids::{CodeSessionId, MessageId, TaskId},
    realtime::{CodeStep, log},
    tasks::{Lease, Task, queue},
};

/// Checks whether a text is a git object name.
pub(super) fn is_commit(text: &str) -> bool {
    (40..=64).contains(&text.len()) && text.chars().all(|c| c.is_ascii_hexdigit())
}

/// A turn whose task runs.
pub(super) struct ActiveTurn {
    pub(super) task: Task,
    pub(super) lease: Lease,
}

/// Data of a reply about the session.
pub(super) fn metadata_of(session: CodeSessionId, turn: &ActiveTurn) -> MessageMetadata {
    let target = turn.lease.target;
    MessageMetadata {
        agent_id: Some(target.agent),
        agent_version: Some(target.agent_version),
        task_id: Some(turn.task.id),
        code: Some(MessageCode {
            session_id: Some(session),
            without: None,
        }),
        ..MessageMetadata::default()
    }
}

/// Creates the reply of a turn.
pub(super) async fn open_reply(
    c: &mut Conn,
    session: CodeSessionId,
    turn: &ActiveTurn,
) -> Result<MessageId, DbError> {
    let (task, target) = (&turn.task, turn.lease.target);
    let id = MessageId::new();
    let seq = log::reserve(c, task.workspace_id, 1).await?;
    let new = NewMessage {
        id,
        workspace: task.workspace_id,
        channel: target.channel,
        thread: target.thread,
        fork: target.fork,
        parent: task.trigger_message_id,
        author_type: AuthorKind::Agent,
        author: Some(target.agent.0),
        kind: MessageKind::Text,
        state: MessageState::Streaming,
        content: String::new(),
        plain: String::new(),
        mentions: Vec::new(),
        attachments: Vec::new(),
        metadata: metadata_of(session, turn),
        client_id: None,
    };
    let message = post::insert_message(c, seq, &new, turn.lease.audience).await?;
    queue::set_reply(c, task.id, id).await?;
    forks::on_message_posted(c, &message, turn.lease.audience).await?;
    Ok(id)
}

/// The text of a reply that is being written; `None` if it has ended.
///
/// # Errors
/// Only database errors.
pub async fn text_of_reply(c: &mut Conn, message: MessageId) -> Result<Option<String>, DbError> {
    let row: Option<(String,)> = c
        .q("select content from messages where id = $1 and state = $2")
        .bind(message)
        .bind(MessageState::Streaming)
        .opt()
        .await?;
    Ok(row.map(|(content,)| content))
}

/// Steps of a turn, in order; none if a message of the turn's prompt was deleted.
///
/// # Errors
/// Only database errors.
pub async fn list_steps(c: &mut Conn, task: TaskId) -> Result<Vec<CodeStep>, DbError> {
    c.q("select s.n, s.title, s.kind, s.state, s.ms from code_steps s join code_turns t on t.task_id = s.task_id \
         join context_texts x on x.id = t.text_id where s.task_id = $1 and x.hash is not null order by s.n")
        .bind(task)
        .all()
        .await
}
