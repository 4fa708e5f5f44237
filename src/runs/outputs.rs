//! Texts of a run: what steps return, and what they post.

use uuid::Uuid;

use crate::{
    chat::{
        ChatError, access,
        messages::{Message, MessageMetadata},
        post::{self, AgentPost},
    },
    db::{Conn, DbError},
    ids::{AgentId, ChannelId, MessageId, RunId, TaskId},
    tasks::actions::texts,
    workflows::run::WorkflowRun,
};

/// Maximum size of an output in bytes.
const OUTPUT_BYTES_MAX: usize = 32 * 1024;
/// Value of the columns `source_type` for texts of runs.
const RUN_SOURCE: &str = "run";

/// Cuts a text to the size of a message.
pub(super) fn cut(mut text: String) -> String {
    if text.len() > OUTPUT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(OUTPUT_BYTES_MAX));
    }
    text
}

/// Stores an output, which can contain anything that the run has read: the message that started it, and earlier outputs.
pub(super) async fn store(c: &mut Conn, run: &WorkflowRun, text: &str) -> Result<Uuid, DbError> {
    let id = texts::put_of(c, run.workspace_id, (RUN_SOURCE, run.id.0), text).await?;
    let message = run.message_id.map(|message| ("message", message.0));
    texts::cite(c, id, message).await?;
    c.q(
        "insert into citations (source_type, source_id, owner_type, owner_id) \
         select distinct k.source_type, k.source_id, 'context_text', $2 from run_steps s \
         join citations k on k.owner_type = 'context_text' and k.owner_id = s.output_id where s.run_id = $1 on conflict do nothing",
    )
    .bind(run.id)
    .bind(id)
    .run()
    .await?;
    Ok(id)
}

/// Stores the output of a task, which can contain anything that the task was sent.
pub(super) async fn store_of_task(
    c: &mut Conn,
    run: &WorkflowRun,
    task: TaskId,
    text: &str,
) -> Result<Uuid, DbError> {
    let id = store(c, run, text).await?;
    texts::cite_prompt(c, task, id).await?;
    Ok(id)
}

/// Cites a message as source of an output.
pub(super) async fn cite(c: &mut Conn, output: Uuid, message: MessageId) -> Result<(), DbError> {
    texts::cite(c, output, [("message", message.0)]).await
}

/// Reason why a message of a run was not posted, for people.
pub(super) enum PostFault {
    Refused(&'static str),
    Db(DbError),
}

impl From<DbError> for PostFault {
    fn from(e: DbError) -> Self {
        Self::Db(e)
    }
}

/// Posts a message of a run, in its thread or as the first one of a new thread.
pub(super) async fn post(
    c: &mut Conn,
    run: &mut WorkflowRun,
    agent: (AgentId, i64),
    channel: ChannelId,
    content: String,
) -> Result<Message, PostFault> {
    if content.trim().is_empty() {
        return Err(PostFault::Refused("its message is blank"));
    }
    if !access::can_post(c, run.workspace_id, channel, run.requested_by).await? {
        return Err(PostFault::Refused(
            "the person who started the run cannot post in that channel",
        ));
    }
    if crate::auth::quota::is_full(c, run.workspace_id).await? {
        return Err(PostFault::Refused(
            "this workspace has reached its storage limit",
        ));
    }
    let is_own_channel = run.channel_id == Some(channel);
    let post = AgentPost {
        workspace: run.workspace_id,
        channel,
        thread: run.thread_id.filter(|_| is_own_channel),
        fork: None,
        agent: agent.0,
        requester: run.requested_by,
        content: cut(content),
        metadata: MessageMetadata {
            agent_id: Some(agent.0),
            agent_version: Some(agent.1),
            task_id: Some(run.root()),
            run_id: Some(run.id),
            ..MessageMetadata::default()
        },
    };
    let message = post::post_as_agent(c, &post).await.map_err(|e| match e {
        ChatError::Db(e) => PostFault::Db(e),
        _ => PostFault::Refused("the thread could not be started"),
    })?;
    if is_own_channel && run.thread_id.is_none() {
        set_thread(c, run.id, &message).await?;
        run.thread_id = Some(message.thread_id);
    }
    Ok(message)
}

/// Continues a run in the thread that its first message started.
async fn set_thread(c: &mut Conn, run: RunId, message: &Message) -> Result<(), DbError> {
    for sql in [
        "update runs set thread_id = $2 where id = $1",
        "update tasks set thread_id = $2, conversation_id = $2 where id = $1",
    ] {
        c.q(sql).bind(run).bind(message.thread_id).run().await?;
    }
    Ok(())
}
