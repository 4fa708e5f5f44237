//! Texts of a run: outputs of steps, and messages that they post.

use uuid::Uuid;

use crate::{
    auth::quota,
    chat::{
        ChatError, access,
        follows::{FollowCause, follow_as_member},
        messages::{Message, MessageMetadata, ReplyText, RunStart},
        post::{self, AgentPost},
    },
    db::{Conn, DbError},
    ids::{AgentId, ChannelId, MessageId, RunId, TaskId, ThreadId},
    inbox::Place,
    tasks::{
        actions::texts::{self, RUN_SOURCE},
        queue,
    },
    workflows::run::WorkflowRun,
};

/// Maximum size of an output in bytes.
const OUTPUT_BYTES_MAX: usize = 32 * 1024;

/// Output of a step, and its stored text.
#[derive(Debug, Clone)]
pub(super) struct Output {
    pub text_id: Uuid,
    pub text: String,
}

/// Shortens a text to the maximum size of an output.
pub(super) fn cut(mut text: String) -> String {
    if text.len() > OUTPUT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(OUTPUT_BYTES_MAX));
    }
    text
}

/// Stores a text of a run. The text can contain anything that the run has read, so it cites all of it: the requester's input, the
/// message that started the run, earlier outputs, and `messages`.
pub(super) async fn store(
    c: &mut Conn,
    run: &WorkflowRun,
    text: String,
    messages: impl IntoIterator<Item = MessageId>,
) -> Result<Output, DbError> {
    let text_id = texts::put_of(c, run.workspace_id, RUN_SOURCE, run.id.0, &text).await?;
    let messages = run.message_id.into_iter().chain(messages);
    let messages = messages.map(|message| ("message", message.0));
    let requester = ("user", run.requested_by.0);
    texts::cite(c, text_id, messages.chain([requester])).await?;
    c.q(
        "insert into citations (source_type, source_id, owner_type, owner_id) \
         select distinct k.source_type, k.source_id, 'context_text', $2 from run_steps s \
         join citations k on k.owner_type = 'context_text' and k.owner_id = s.output_id where s.run_id = $1 on conflict do nothing",
    )
    .bind(run.id)
    .bind(text_id)
    .run()
    .await?;
    Ok(Output { text_id, text })
}

/// Human-readable reason why a message of a run was not posted.
pub(super) enum PostFault {
    Refused(&'static str),
    Db(DbError),
}

impl From<DbError> for PostFault {
    fn from(e: DbError) -> Self {
        Self::Db(e)
    }
}

/// A message of a run.
pub(super) struct RunPost {
    pub agent: AgentId,
    pub agent_version: i64,
    pub channel: ChannelId,
    pub content: String,
    /// Set for the message that announces the start of the run.
    pub start: Option<RunStart>,
}

/// Posts a message of a run, in the run's thread or as the first message of a new thread, which the requester then follows.
pub(super) async fn post(
    c: &mut Conn,
    run: &mut WorkflowRun,
    new: RunPost,
) -> Result<Message, PostFault> {
    let (channel, content) = (new.channel, new.content);
    if content.trim().is_empty() {
        return Err(PostFault::Refused("its message is blank"));
    }
    let is_own_channel = run.channel_id == Some(channel);
    let thread = run.thread_id.filter(|_| is_own_channel);
    if !access::can_post(c, run.requested_by, channel, thread).await? {
        return Err(PostFault::Refused(
            "the person who started the run cannot post in that channel",
        ));
    }
    if quota::is_full(c, run.workspace_id).await? {
        return Err(PostFault::Refused(
            "this workspace has reached its storage limit",
        ));
    }
    let text = ReplyText::of(cut(content));
    let post = AgentPost {
        id: MessageId::new(),
        workspace: run.workspace_id,
        channel,
        thread: thread.unwrap_or_default(),
        starts_thread: thread.is_none(),
        fork: None,
        agent: new.agent,
        requester: run.requested_by,
        text: &text,
        attachments: Vec::new(),
        metadata: MessageMetadata {
            run_start: new.start,
            ..metadata(run.id, new.agent, new.agent_version)
        },
    };
    let message = post::post_as_agent(c, post).await.map_err(|e| match e {
        ChatError::Db(e) => PostFault::Db(e),
        _ => PostFault::Refused("the thread could not be started"),
    })?;
    if is_own_channel && run.thread_id.is_none() {
        let (thread, requester) = (message.thread_id, run.requested_by);
        let place = Place {
            channel,
            thread,
            fork: None,
        };
        continue_in(c, run.id, thread).await?;
        follow_as_member(c, place, requester, FollowCause::Started, message.seq).await?;
        run.thread_id = Some(thread);
    }
    Ok(message)
}

/// Returns the metadata of a message that an agent posts for a run.
pub(super) fn metadata(run: RunId, agent: AgentId, version: i64) -> MessageMetadata {
    MessageMetadata {
        agent_id: Some(agent),
        agent_version: Some(version),
        // The sources of this task taint the message.
        task_id: Some(TaskId(run.0)),
        run_id: Some(run),
        ..MessageMetadata::default()
    }
}

/// Continues a run in the thread that its first message started.
async fn continue_in(c: &mut Conn, run: RunId, thread: ThreadId) -> Result<(), DbError> {
    c.q("update runs set thread_id = $2 where id = $1")
        .bind(run)
        .bind(thread)
        .run()
        .await?;
    queue::set_thread(c, TaskId(run.0), thread).await
}
