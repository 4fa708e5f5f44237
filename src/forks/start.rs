//! Starts, changes, abandons, and reopens forks.

use super::{
    ForkError,
    collaborate::{Goal, NewCollaboration, check_agents, find_started, start_collaboration},
    error::ACTIVE_FORKS_MAX,
};
use crate::{
    agents::profiles,
    auth::{Caller, Scope},
    chat::{
        ChatError,
        access::{self, ThreadAccess},
        bindings::{self, BindingPatch},
        channels,
        follows::{self, FollowCause},
        forks::{self, Fork, ForkContext, ForkStatus, title_after},
        messages::{self, Message, MessageKind},
        post, remove,
    },
    db::{Conn, DbError, now},
    ids::{AgentId, ChannelId, ForkId, MessageId, TaskId, ThreadId, UserId, WorkspaceId},
    inbox::Place,
    realtime::{Audience, EventType, Hub, hub::Conversation},
    tasks::{Task, queue},
    workflows::run,
};

const DESCRIPTION_UNITS_MAX: usize = 2000;

/// Input for a new fork.
#[derive(Debug, Clone)]
pub struct NewFork {
    pub message: MessageId,
    pub title: Option<String>,
    pub description: Option<String>,
    /// `None` selects the thread's agent, or the default agent if the thread has none; `Some(None)` selects no agent.
    pub agent: Option<Option<AgentId>>,
    pub context: ForkContext,
    /// Goal for several agents to work on, instead of `agent`.
    pub goal: Option<Goal>,
    pub client_id: Option<String>,
}

/// A fork that was started by this request, or by an earlier one with the same ID.
#[derive(Debug)]
pub struct StartedFork {
    pub fork: Fork,
    /// Message with the goal, and the task of the collaboration.
    pub collaboration: Option<(Message, Task)>,
    /// False for a resent request, which changed nothing.
    pub is_new: bool,
}

/// Trims and checks the description.
///
/// # Errors
/// `Invalid` if the description is too long.
pub fn parse_description(text: Option<&str>) -> Result<Option<String>, ForkError> {
    let text = text.map(str::trim).filter(|t| !t.is_empty());
    if text.is_some_and(|t| t.encode_utf16().count() > DESCRIPTION_UNITS_MAX) {
        return Err(ForkError::Invalid(
            format!("a description can have at most {DESCRIPTION_UNITS_MAX} characters"),
            "description".to_owned(),
        ));
    }
    Ok(text.map(str::to_owned))
}

/// Starts a fork, and a collaboration in it if there is a goal.
///
/// # Errors
/// `NotForkable`, `TooManyForks`, `NoModel`, `NoSuchCollaborator`, or `ChatError`: `ThreadNotFound`, `MessageNotFound`,
/// `NoSuchAgent`, `ClientIdReused`, `QuotaExceeded`, or any error from `writing`.
pub async fn start_fork(
    c: &mut Conn,
    caller: &Caller,
    thread: ThreadId,
    new: &NewFork,
) -> Result<StartedFork, ForkError> {
    let access = access::thread(c, caller, thread).await?;
    access.channel_access.actor.require(Scope::ChatWrite)?;
    let workspace = access.channel_access.actor.workspace;
    crate::db::dialect::lock_workspace(c, workspace.0).await?;
    let id = ForkId::new();
    let place = format!("{thread}/forks");
    let client_id = new.client_id.as_deref();
    let known =
        post::claim_client_id(c, &access.channel_access.actor, client_id, &place, id.0).await?;
    if let Some(known) = known {
        let fork = forks::get_fork(c, ForkId(known)).await?;
        return Ok(StartedFork {
            collaboration: find_started(c, &fork).await?,
            fork,
            is_new: false,
        });
    }
    let access = access.writing()?;
    let origin = origin(c, caller, workspace, thread, new.message).await?;
    if count_active(c, thread).await? >= ACTIVE_FORKS_MAX {
        return Err(ForkError::TooManyForks);
    }
    let partner = match &new.goal {
        Some(goal) => {
            if goal.is_offline {
                return Err(ForkError::NoModel);
            }
            check_agents(c, &access.channel_access.actor, &goal.plan.agents).await?;
            None
        }
        None => partner(c, &access, new.agent).await?,
    };
    if !access.channel_access.joined {
        channels::join(c, workspace, access.channel_access.channel, caller.user).await?;
    }
    let place = ForkPlace {
        workspace,
        channel: access.channel_access.channel,
        thread,
    };
    insert(c, id, place, new, &origin, caller.user).await?;
    if let Some((agent, version)) = partner {
        let conversation = Conversation::Fork(id);
        bindings::bind(c, workspace, thread, conversation, agent, version).await?;
    }
    let fork = forks::announce(
        c,
        EventType::ForkCreated,
        id,
        access.channel_access.audience(),
    )
    .await?;
    match &new.goal {
        Some(goal) => ask_agents(c, caller, &fork, goal).await,
        None => Ok(StartedFork {
            fork,
            collaboration: None,
            is_new: true,
        }),
    }
}

/// Posts the goal in a new fork, and starts the collaboration.
async fn ask_agents(
    c: &mut Conn,
    caller: &Caller,
    fork: &Fork,
    goal: &Goal,
) -> Result<StartedFork, ForkError> {
    let access = access::fork(c, caller, fork.id).await?.writing()?;
    let message = post::post_goal(c, &access, &goal.text).await?;
    let new = NewCollaboration {
        fork,
        goal: &message,
        plan: &goal.plan,
        requester: caller.user,
        api_key: access.channel_access.actor.key,
        parent: None,
    };
    let task = start_collaboration(c, &new, access.channel_access.audience()).await?;
    let task = task.ok_or(ChatError::AlreadyRetried)?;
    Ok(StartedFork {
        fork: forks::get_fork(c, fork.id).await?,
        collaboration: Some((message, task)),
        is_new: true,
    })
}

/// Thread in which a fork starts.
struct ForkPlace {
    workspace: WorkspaceId,
    channel: ChannelId,
    thread: ThreadId,
}

/// Inserts a fork of a message.
async fn insert(
    c: &mut Conn,
    id: ForkId,
    place: ForkPlace,
    new: &NewFork,
    origin: &Message,
    creator: UserId,
) -> Result<(), DbError> {
    let title = new.title.clone();
    c.q("insert into forks (id, workspace_id, channel_id, thread_id, message_id, title, title_from, description, context, \
         status, stale, message_count, last_seq, created_by, created_at) \
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'active', FALSE, 0, 0, $10, $11)")
        .bind(id)
        .bind(place.workspace)
        .bind(place.channel)
        .bind(place.thread)
        .bind(new.message)
        .bind(title.clone().unwrap_or_else(|| title_after(origin)))
        .bind(title.is_none().then_some(new.message))
        .bind(new.description.clone())
        .bind(new.context)
        .bind(creator)
        .bind(now())
        .run()
        .await?;
    let place = Place {
        channel: place.channel,
        thread: place.thread,
        fork: Some(id),
    };
    follows::follow_as_member(c, place, creator, FollowCause::Fork, 0).await
}

/// A fork that a run opens.
#[derive(Debug, Clone)]
pub struct RunFork {
    pub workspace: WorkspaceId,
    pub channel: ChannelId,
    pub thread: ThreadId,
    pub message: MessageId,
    pub title: Option<String>,
    /// The person for whom the fork is opened.
    pub creator: UserId,
    /// The fork's agent and its version.
    pub agent: Option<(AgentId, i64)>,
}

/// Opens a fork for a run. The caller must have checked the rights of the run's requester.
///
/// # Errors
/// `TooManyForks`, or `MessageNotFound`.
pub async fn open_for_run(
    c: &mut Conn,
    new: &RunFork,
    audience: Audience,
) -> Result<Fork, ForkError> {
    if count_active(c, new.thread).await? >= ACTIVE_FORKS_MAX {
        return Err(ForkError::TooManyForks);
    }
    let origin = messages::get_message(c, new.message).await?;
    let id = ForkId::new();
    let form = NewFork {
        message: new.message,
        title: new.title.clone(),
        description: None,
        agent: None,
        context: ForkContext::Thread,
        goal: None,
        client_id: None,
    };
    let (workspace, thread) = (new.workspace, new.thread);
    let place = ForkPlace {
        workspace,
        channel: new.channel,
        thread,
    };
    insert(c, id, place, &form, &origin, new.creator).await?;
    if let Some((agent, version)) = new.agent {
        let conversation = Conversation::Fork(id);
        bindings::bind(c, workspace, thread, conversation, agent, version).await?;
    }
    Ok(forks::announce(c, EventType::ForkCreated, id, audience).await?)
}

/// The message to fork: a message of the thread's main line that is not a notice and not deleted.
async fn origin(
    c: &mut Conn,
    caller: &Caller,
    workspace: WorkspaceId,
    thread: ThreadId,
    id: MessageId,
) -> Result<Message, ForkError> {
    let standing = access::message(c, caller, id).await?;
    let message = messages::get_message(c, id).await?;
    if message.workspace_id != workspace {
        return Err(ChatError::MessageNotFound.into());
    }
    let why = if standing.fork.is_some() {
        "a message in a deep dive cannot start another one: deep dives cannot be nested"
    } else if message.thread_id != thread {
        "the message is in another thread: start the deep dive there"
    } else if message.deleted_at.is_some() {
        "the message was deleted"
    } else if message.kind == MessageKind::Notice {
        "a notice cannot start a deep dive: choose a message"
    } else {
        return Ok(message);
    };
    Err(ForkError::NotForkable(why))
}

pub(super) async fn count_active(c: &mut Conn, thread: ThreadId) -> Result<i64, DbError> {
    c.q("select count(*) from forks where thread_id = $1 and status = 'active'")
        .bind(thread)
        .value()
        .await
}

/// The agent of a new fork and its version: the agent chosen by the creator, otherwise the thread's
/// agent, otherwise the default agent.
async fn partner(
    c: &mut Conn,
    access: &ThreadAccess<'_>,
    chosen: Option<Option<AgentId>>,
) -> Result<Option<(AgentId, i64)>, ForkError> {
    let actor = &access.channel_access.actor;
    match chosen {
        Some(None) => Ok(None),
        Some(Some(id)) => {
            actor.require(Scope::AgentsUse)?;
            profiles::refresh_first(c, actor.workspace, id).await?;
            let found = profiles::find_invocable(c, actor, id).await?;
            let agent = found.ok_or_else(|| ChatError::NoSuchAgent(id.to_string()))?;
            Ok(Some((agent.id, agent.version)))
        }
        None => {
            let bound = bindings::find_binding(c, access.conversation()).await?;
            if let Some(bound) =
                bound.filter(|bound| bound.is_active() && bound.can_be_invoked_by(actor))
            {
                return Ok(Some((bound.agent, bound.version)));
            }
            let default = profiles::find_default(c, actor.workspace).await?;
            let default = default.filter(|agent| agent.can_be_invoked_by(actor));
            Ok(default.map(|agent| (agent.id, agent.version)))
        }
    }
}

/// Input of `PATCH /v1/forks/{id}`.
#[derive(Debug, Clone, Default)]
pub struct ForkPatch {
    pub title: Option<String>,
    pub description: Option<Option<String>>,
    pub binding: BindingPatch,
    pub context: Option<ForkContext>,
}

/// Changes a fork.
///
/// # Errors
/// `ChatError`: `ForkNotFound`, `ForkClosed`, `NoSuchAgent`, `Invalid` for `auto_reply` without an agent, or any error from
/// `writing`.
pub async fn change(
    c: &mut Conn,
    caller: &Caller,
    id: ForkId,
    patch: &ForkPatch,
) -> Result<Fork, ForkError> {
    let access = access::fork(c, caller, id).await?.writing()?;
    crate::db::dialect::lock_workspace(c, access.channel_access.actor.workspace.0).await?;
    if let Some(title) = &patch.title {
        c.q("update forks set title = $2, title_from = null where id = $1")
            .bind(id)
            .bind(title.clone())
            .run()
            .await?;
    }
    if let Some(description) = &patch.description {
        c.q("update forks set description = $2 where id = $1")
            .bind(id)
            .bind(description.clone())
            .run()
            .await?;
    }
    if let Some(context) = patch.context {
        c.q("update forks set context = $2 where id = $1")
            .bind(id)
            .bind(context)
            .run()
            .await?;
    }
    bindings::change(c, &access, &patch.binding).await?;
    Ok(forks::announce_update(c, id, access.channel_access.audience()).await?)
}

/// Closes a fork without a resolution and cancels its tasks. A fork that is already abandoned is
/// returned unchanged.
///
/// # Errors
/// `ChatError`: `ForkNotFound`, `ForkClosed` if it is resolved, or any error from `writing_closed`.
pub async fn abandon(
    c: &mut Conn,
    caller: &Caller,
    id: ForkId,
    hub: &Hub,
) -> Result<Fork, ForkError> {
    let access = access::fork(c, caller, id).await?.writing_closed()?;
    let audience = access.channel_access.audience();
    crate::db::dialect::lock_workspace(c, access.channel_access.actor.workspace.0).await?;
    let fork = forks::get_fork(c, id).await?;
    match fork.status {
        ForkStatus::Active => {}
        ForkStatus::Abandoned => return Ok(fork),
        ForkStatus::Resolved => return Err(ChatError::ForkClosed.into()),
    }
    c.q("update forks set status = 'abandoned' where id = $1")
        .bind(id)
        .run()
        .await?;
    stop_tasks(c, id, None, hub, audience).await?;
    let fork = forks::announce_update(c, id, audience).await?;
    run::wake_of_fork(c, id, audience).await?;
    Ok(fork)
}

/// Cancels the queued and running tasks of a fork that is being closed. The task that closes the fork is not canceled, nor are its
/// parent and root tasks, which wait for it.
pub(super) async fn stop_tasks(
    c: &mut Conn,
    fork: ForkId,
    but: Option<TaskId>,
    hub: &Hub,
    audience: Audience,
) -> Result<(), DbError> {
    let active: Vec<Task> = queue::active_in_fork(c, fork).await?;
    let but = active.iter().find(|task| Some(task.id) == but);
    let is_kept = |task: &Task| {
        but.is_some_and(|but| {
            [Some(but.id), but.parent_task_id, Some(but.root_task_id)].contains(&Some(task.id))
        })
    };
    for task in active.iter().filter(|task| !is_kept(task)) {
        remove::stop(c, task, hub, audience).await?;
    }
    Ok(())
}

/// Reopens a closed fork; its resolution stays until a new one replaces it. An active fork is
/// returned unchanged.
///
/// # Errors
/// `TooManyForks`, or `ChatError`: `ForkNotFound`, or any error from `writing_closed`.
pub async fn reopen(c: &mut Conn, caller: &Caller, id: ForkId) -> Result<Fork, ForkError> {
    let access = access::fork(c, caller, id).await?.writing_closed()?;
    crate::db::dialect::lock_workspace(c, access.channel_access.actor.workspace.0).await?;
    let fork = forks::get_fork(c, id).await?;
    if fork.status == ForkStatus::Active {
        return Ok(fork);
    }
    if count_active(c, fork.thread_id).await? >= ACTIVE_FORKS_MAX {
        return Err(ForkError::TooManyForks);
    }
    c.q("update forks set status = 'active', resolved_at = null where id = $1")
        .bind(id)
        .run()
        .await?;
    Ok(forks::announce_update(c, id, access.channel_access.audience()).await?)
}
