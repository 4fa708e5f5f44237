//! Cancels tasks and deletes messages.
//!
//! A deleted message leaves a tombstone. Its text is also deleted from all copies: frames of the
//! event log, task prompts, and model requests.

use super::{
    ChatError, access,
    collaboration::{CollaborationState, end_collaboration},
    event::MessageEvent,
    forks, messages, pins,
    post::{self, NoticeTarget},
    rows::message::{
        AuthorKind, Message, MessageKind, MessageMetadata, MessageState, find_message, get_message,
        update_metadata,
    },
    search::index::{self, ThreadRoot},
    text::ReplyText,
    thread_change,
};
use crate::{
    agents::{
        derived::{self, Change, DELETED, SourceId},
        profiles,
    },
    auth::{self, Caller, Scope, quota},
    db::{Conn, DbError, Json, now},
    files,
    ids::{FileId, MessageId, TaskId},
    inbox,
    realtime::{Audience, EventType, Hub, NewEvent, log},
    tasks::{
        FailCode, Task, TaskError, TaskKind, actions,
        attempts::{self, AttemptError, AttemptOutcome},
        loop_notice, notice_text, queue, steers,
    },
    text_enum::text_enum,
    workflows::run,
};

/// Ends a streaming reply as interrupted and keeps its partial text. `text`, if given, is newer than the stored text and replaces it.
/// A reply that shows nothing becomes a tombstone.
pub async fn interrupt_reply(
    c: &mut Conn,
    id: MessageId,
    text: Option<&ReplyText>,
    audience: Audience,
) -> Result<(), DbError> {
    let Some(message) = find_message(c, id).await? else {
        return Ok(());
    };
    if message.state != MessageState::Streaming || message.deleted_at.is_some() {
        return Ok(());
    }
    let stored;
    let text = if let Some(text) = text {
        text
    } else {
        stored = ReplyText::of(message.content.clone());
        &stored
    };
    if text.is_blank {
        // There is no text to keep.
        tombstone(c, &message, audience).await?;
        return Ok(());
    }
    let (content, content_plain) = (text.content.clone(), text.plain.clone());
    c.q(
        "update messages set content = $2, content_plain = $3, state = 'interrupted' where id = $1",
    )
    .bind(id)
    .bind(content.clone())
    .bind(content_plain.clone())
    .run()
    .await?;
    quota::recount_message(c, message.workspace_id, id, &content, &content_plain).await?;
    let message = Message {
        content,
        content_plain,
        state: MessageState::Interrupted,
        ..message
    };
    index::add(c, &message, &text.search_document, ThreadRoot::Nothing).await?;
    messages::announce_update(c, &message, audience).await
}

/// Cancels an unfinished task and the tasks that it started, and interrupts their replies, keeping the partial texts. Returns
/// `None` if the task has ended.
pub async fn stop(
    c: &mut Conn,
    task: &Task,
    hub: &Hub,
    audience: Audience,
) -> Result<Option<Task>, DbError> {
    let cancelled = queue::cancel(c, task.id, audience).await?;
    end_work(c, &cancelled, hub, audience).await?;
    Ok(cancelled.into_iter().next())
}

/// Ends the replies, model calls, collaborations, and runs of canceled tasks. `audience` is the audience of one of their
/// channels.
async fn end_work(
    c: &mut Conn,
    cancelled: &[Task],
    hub: &Hub,
    audience: Audience,
) -> Result<(), DbError> {
    let ids: Vec<TaskId> = cancelled.iter().map(|task| task.id).collect();
    attempts::cancel_attempts(c, &ids, now()).await?;
    for ended in cancelled {
        let fork = ended
            .fork_id
            .filter(|_| ended.kind == TaskKind::Collaborate);
        let run = ended.run_id.filter(|_| ended.kind == TaskKind::Workflow);
        let audience = if ended.channel_id == audience.channel() {
            audience
        } else if fork.is_some() || ended.reply_message_id.is_some() {
            queue::audience_in(c, ended.channel_id).await?
        } else {
            audience
        };
        if let Some(reply) = ended.reply_message_id {
            let text = hub.stream_text(ended.workspace_id, ended.id);
            let text = text.filter(|text| !text.is_empty()).map(ReplyText::of);
            interrupt_reply(c, reply, text.as_ref(), audience).await?;
        }
        if let Some(fork) = fork {
            end_collaboration(c, fork, CollaborationState::Stopped, audience).await?;
        }
        if let Some(run) = run {
            run::announce_run(c, EventType::RunUpdated, run).await?;
        }
    }
    Ok(())
}

text_enum! {
    /// Extent of a cancellation.
    pub enum CancelScope {
        /// The task, the tasks that it started, and the later links of its chain.
        Task = "task",
        /// Everything active in the tree of the task, even if the root has ended.
        Tree = "tree",
    }
}

/// Cancels a task or its tree; a task that has ended is returned unchanged. Allowed for anyone who can write in the task's
/// conversation or, to cancel a tree, in the conversation of its root task. Personal tasks can be canceled only by their requester.
///
/// # Errors
/// `TaskNotFound`, or any error from `Actor::require`.
pub async fn cancel_task(
    c: &mut Conn,
    caller: &Caller,
    id: TaskId,
    scope: CancelScope,
    hub: &Hub,
) -> Result<Task, ChatError> {
    let task = queue::find_task(c, id)
        .await?
        .ok_or(ChatError::TaskNotFound)?;
    check_cancel(c, caller, &task).await?;
    if task.channel_id.is_none() && task.run_id.is_none() {
        // An API call is recorded only after it has ended, so there is nothing to cancel.
        return Ok(task);
    }
    crate::db::dialect::lock_workspace(c, task.workspace_id.0).await?;
    match scope {
        CancelScope::Task => {
            let audience = queue::audience_in(c, task.channel_id).await?;
            stop(c, &task, hub, audience).await?;
        }
        CancelScope::Tree => cancel_tree(c, caller, &task, hub).await?,
    }
    queue::find_task(c, id)
        .await?
        .ok_or(ChatError::TaskNotFound)
}

/// Checks the right to cancel a task. A personal task can be canceled only by its requester, even after they have left its
/// channel.
async fn check_cancel(c: &mut Conn, caller: &Caller, task: &Task) -> Result<(), ChatError> {
    access::check_personal(caller, task)?;
    let place = if task.kind.is_personal() {
        None
    } else {
        access::channel_of_task(c, caller, task).await?
    };
    let actor = match place {
        Some(access) => access.actor,
        None => access::unplaced(c, caller, task).await?,
    };
    Ok(actor.require(Scope::ChatWrite)?)
}

async fn cancel_tree(
    c: &mut Conn,
    caller: &Caller,
    task: &Task,
    hub: &Hub,
) -> Result<(), ChatError> {
    let root = queue::find_task(c, task.root_task_id).await?;
    let root = root.ok_or(ChatError::TaskNotFound)?;
    check_cancel(c, caller, &root).await?;
    Ok(stop_all(c, task.root_task_id, None, hub).await?)
}

/// Stops a tree and cancels its active tasks except `kept`.
async fn stop_all(
    c: &mut Conn,
    root: TaskId,
    kept: Option<TaskId>,
    hub: &Hub,
) -> Result<(), DbError> {
    queue::stop_tree(c, root).await?;
    cancel_active(c, root, kept, hub).await
}

/// Cancels the active tasks of a tree except `kept`, newest first.
pub async fn cancel_active(
    c: &mut Conn,
    root: TaskId,
    kept: Option<TaskId>,
    hub: &Hub,
) -> Result<(), DbError> {
    loop {
        let active = queue::active_in_tree(c, root).await?;
        let active = active.into_iter().filter(|task| Some(task.id) != kept);
        let active: Vec<Task> = active.collect();
        let Some(first) = active.first() else {
            return Ok(());
        };
        let audience = queue::audience_in(c, first.channel_id).await?;
        let ids: Vec<TaskId> = active.iter().map(|task| task.id).collect();
        let cancelled = queue::cancel_all(c, &ids, audience).await?;
        end_work(c, &cancelled, hub, audience).await?;
    }
}

/// Stops the tree of a running task. The topmost task that waits for this task, or the task itself if none does, fails with a notice.
/// All tasks below it and the later links of a chain are canceled. In a run, only the task of the step fails, and the run continues
/// or fails with its own notice. The caller must hold the lease.
pub async fn fail_tree(
    c: &mut Conn,
    task: &Task,
    code: FailCode,
    hub: &Hub,
    audience: Audience,
) -> Result<(), DbError> {
    let root = queue::waiting_root(c, task.id).await?;
    let root = root.as_ref().unwrap_or(task);
    let Some(agent) = root.agent_id else {
        return Ok(());
    };
    let tree = queue::find_task(c, task.root_task_id).await?;
    let is_in_run = tree.is_some_and(|tree| tree.kind == TaskKind::Workflow);
    let name = profiles::shown_name(c, agent).await?;
    let message = match code {
        FailCode::Loop if !is_in_run => loop_text(c, task.root_task_id).await?,
        code => notice_text(&name, code),
    };
    let message = post::end_chain(c, root, message, audience).await?;
    if is_in_run {
        stop_children(c, root.id, hub).await?;
    } else {
        stop_all(c, task.root_task_id, Some(root.id), hub).await?;
    }
    if let Some(reply) = root.reply_message_id {
        let text = hub.stream_text(root.workspace_id, root.id);
        let text = text.filter(|text| !text.is_empty()).map(ReplyText::of);
        interrupt_reply(c, reply, text.as_ref(), audience).await?;
    }
    if let Some(fork) = root.fork_id.filter(|_| root.kind == TaskKind::Collaborate) {
        end_collaboration(c, fork, CollaborationState::Failed, audience).await?;
    }
    // A notice about a failure must not start a thread.
    let target = NoticeTarget::of(root).filter(|_| !root.starts_thread() && root.run_id.is_none());
    let notice = match target {
        Some(target) => {
            let trigger = root.trigger_message_id;
            Some(post::insert_notice(c, target, audience, trigger, message.clone()).await?)
        }
        None => None,
    };
    let error = AttemptError {
        code,
        message: message.clone(),
    };
    attempts::end_attempt(c, root.id, AttemptOutcome::Failed, Some(error), 0, now()).await?;
    let error = TaskError { code, message };
    let notice = notice.map(|notice| notice.id);
    queue::fail(c, root.id, error, notice, audience).await
}

/// Cancels the active tasks that a task waits for.
async fn stop_children(c: &mut Conn, parent: TaskId, hub: &Hub) -> Result<(), DbError> {
    for child in queue::list_children(c, parent).await? {
        if child.is_active() {
            let audience = queue::audience_in(c, child.channel_id).await?;
            stop(c, &child, hub, audience).await?;
        }
    }
    Ok(())
}

/// Notice about a tree that the loop guard stopped. It lists the tree's agents in the order of their first tasks.
async fn loop_text(c: &mut Conn, root: TaskId) -> Result<String, DbError> {
    let mut agents = Vec::new();
    for task in queue::list_tree(c, root).await? {
        let works = matches!(
            task.kind,
            TaskKind::Reply | TaskKind::Delegate | TaskKind::Schedule
        );
        agents.extend(
            task.agent_id
                .filter(|agent| works && !agents.contains(agent)),
        );
    }
    let mut names = Vec::with_capacity(agents.len());
    for agent in agents {
        names.push(profiles::shown_name(c, agent).await?);
    }
    let used = queue::use_of(c, root).await?;
    Ok(loop_notice(&names, Some(used.calls)))
}

/// Deletes the caller's own message, or any message as an admin. Tasks that the message triggered
/// and a task that is writing it are canceled.
///
/// # Errors
/// `MessageNotFound`, `NotYoursToDelete`, or any error from `Actor::require`.
pub async fn delete_message(
    c: &mut Conn,
    caller: &Caller,
    id: MessageId,
    hub: &Hub,
) -> Result<Message, ChatError> {
    let access = access::message(c, caller, id).await?;
    let actor = &access.channel_access.actor;
    actor.require(Scope::ChatWrite)?;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    let message = get_message(c, id).await?;
    let own = message.author.is(caller);
    if !own {
        actor
            .require(Scope::WorkspaceAdmin)
            .map_err(|_| ChatError::NotYoursToDelete)?;
    }
    if message.deleted_at.is_some() {
        return Ok(message);
    }
    if !own {
        let (target, data) = (
            id.to_string(),
            serde_json::json!({"author_id": message.author.id}),
        );
        auth::record_audit(c, actor, auth::AuditAction::MessageDeleted, target, data).await?;
    }
    take_back(c, &message, hub, access.channel_access.audience()).await
}

/// Replaces a message with a tombstone. Tasks that it triggered and a task that is writing it are canceled. Tasks of runs continue,
/// because the message did not trigger them; it was only the newest message when they started.
pub async fn take_back(
    c: &mut Conn,
    message: &Message,
    hub: &Hub,
    audience: Audience,
) -> Result<Message, ChatError> {
    let id = message.id;
    // Prompts are deleted first, so that the events of the canceled tasks do not contain them.
    queue::blank_prompt(c, id).await?;
    let triggered = queue::active_of_trigger(c, id).await?;
    for task in triggered.iter().filter(|task| task.step_id.is_none()) {
        stop(c, task, hub, audience).await?;
        if message.metadata.steers.is_some() {
            // Other messages that steered the same reply were given to this task.
            post::start_unread(c, task, audience).await?;
        }
    }
    let conversation = message.fork_id.map_or(message.thread_id.0, |fork| fork.0);
    if let Some(task) = queue::active_of_reply(c, conversation, id).await? {
        queue::cancel(c, task.id, audience).await?;
    }
    Ok(tombstone(c, message, audience).await?)
}

/// Replaces a message with a tombstone, deletes its text from all copies, and appends
/// `message.deleted`.
pub async fn tombstone(
    c: &mut Conn,
    message: &Message,
    audience: Audience,
) -> Result<Message, DbError> {
    let id = message.id;
    if let Some(steered) = message.metadata.steers {
        steers::forget_notes(c, id, steered, &message.content).await?;
    }
    c.q("update messages set content = '', content_plain = '', mentions = $2, reactions = $2, attachments = $2, state = $3, deleted_at = $4 where id = $1")
        .bind(id)
        .bind(Json(Vec::<()>::new()))
        .bind(if message.state == MessageState::Streaming { MessageState::Interrupted } else { message.state })
        .bind(now())
        .run()
        .await?;
    if message.author.kind == AuthorKind::Bot {
        // The name under which a bot posted the message is part of its text.
        update_metadata(c, id, MessageMetadata::default()).await?;
        c.q("update hook_requests set body = null where message_id = $1")
            .bind(id)
            .run()
            .await?;
    } else if !message.metadata.unfurls.is_empty() || message.metadata.pinned_by.is_some() {
        // Previews of links quote the linked pages.
        let metadata = MessageMetadata {
            unfurls: Vec::new(),
            pinned_by: None,
            ..message.metadata.clone()
        };
        update_metadata(c, id, metadata).await?;
    }
    pins::delete(c, id).await?;
    quota::recount_message(c, message.workspace_id, id, "", "").await?;
    c.q("delete from message_mentions where message_id = $1")
        .bind(id)
        .run()
        .await?;
    inbox::close::delete_of_message(c, id).await?;
    files::remove_of_message(c, id).await?;
    let attached: Vec<FileId> = message.attachments.iter().map(|file| file.id).collect();
    actions::forget_files(c, &attached, DELETED).await?;
    if message.kind != MessageKind::Notice && message.fork_id.is_none() {
        c.q("update threads set reply_count = reply_count - 1 where id = $1 and root_message_id <> $2 and reply_count > 0")
            .bind(message.thread_id)
            .bind(id)
            .run()
            .await?;
    }
    index::remove(c, message).await?;
    queue::blank_prompt(c, id).await?;
    derived::changed(c, SourceId::Message(id), Change::Deleted).await?;
    log::blank_message(c, message.workspace_id, id, blank).await?;
    let tombstone = find_message(c, id).await?.ok_or(sqlx::Error::RowNotFound)?;
    let seq = log::reserve(c, message.workspace_id, 1).await?;
    let event = NewEvent::new(
        seq,
        EventType::MessageDeleted,
        audience,
        &MessageEvent {
            message: &tombstone,
        },
    )?
    .in_conversation(message.thread_id, message.fork_id)
    .about(Some(id));
    log::append(c, message.workspace_id, event).await?;
    if message.kind == MessageKind::Resolution {
        forks::erase_resolution(c, message, audience).await?;
    }
    if message.kind != MessageKind::Notice {
        thread_change::erase_made_title(c, message, audience).await?;
        forks::erase_title(c, message, audience).await?;
        forks::on_source_changed(c, message, audience).await?;
    }
    Ok(tombstone)
}

/// Deletes the text of a message from a frame.
pub(super) fn blank(frame: &mut serde_json::Value) {
    if let Some(message) = frame
        .pointer_mut("/data/message")
        .and_then(serde_json::Value::as_object_mut)
    {
        message.insert("content".to_owned(), "".into());
        message.insert("content_plain".to_owned(), "".into());
        message.insert("mentions".to_owned(), serde_json::json!([]));
        message.insert("attachments".to_owned(), serde_json::json!([]));
        let metadata = message.get_mut("metadata");
        if let Some(metadata) = metadata.and_then(serde_json::Value::as_object_mut) {
            metadata.remove("shown_as");
            metadata.remove("buttons");
            metadata.remove("unfurls");
        }
    }
    // A file of the message that was read.
    if let Some(name) = frame.pointer_mut("/data/file/name") {
        *name = "".into();
    }
    if let Some(alt) = frame.pointer_mut("/data/file/alt") {
        *alt = serde_json::Value::Null;
    }
    // A title that a model made from the message.
    if let Some(title) = frame.pointer_mut("/data/thread/title") {
        *title = serde_json::Value::Null;
    }
    if let Some(prompt) = frame.pointer_mut("/data/task/input/prompt") {
        *prompt = "".into();
    }
}
