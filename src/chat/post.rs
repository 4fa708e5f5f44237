//! Posting: one transaction stores the message, its tasks and their events.

use std::collections::HashSet;

use serde::Serialize;
use uuid::Uuid;

use super::{
    ChatError,
    access::{self, ThreadAccess},
    bindings, channels,
    event::{MessageData, ThreadData},
    forks, mentions,
    messages::{self, Mention, Message, MessageMetadata, Text},
    threads::{self, Thread},
};
use crate::{
    agents::{
        profiles::{self, Askable, HandleOwner},
        retry::{FailCode, notice_text},
    },
    auth::{Actor, Caller, Scope},
    db::{Conn, DbError, Json, now},
    ids::{AgentId, ChannelId, ForkId, MessageId, TaskId, ThreadId, UserId, WorkspaceId},
    realtime::{Audience, NewEvent, hub::Spot, log},
    tasks::{Lease, NewTask, Seat, Task, TaskError, queue},
};

/// Agents that one message may ask (PROTOCOL §1).
const AGENTS_MAX: usize = 8;
pub const CLIENT_ID_UNITS_MAX: usize = 64;
const TITLE_UNITS_MAX: usize = 200;
const GROUPS: &[&str] = &["everyone", "here", "channel"];

/// What a post led to. `created` is false for a resend, which changed nothing.
#[derive(Debug)]
pub struct Posted {
    pub message: Message,
    pub tasks: Vec<Task>,
    /// Only of a post that starts a thread.
    pub thread: Option<Thread>,
    pub created: bool,
}

/// What `POST …/messages` answers.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct PostedMessage {
    pub message: Message,
    pub tasks: Vec<Task>,
}

/// What `POST …/threads` answers.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct PostedThread {
    pub thread: Thread,
    pub message: Message,
    pub tasks: Vec<Task>,
}

/// # Errors
/// `Invalid` when it is empty or too long.
pub fn parse_client_id(text: Option<String>) -> Result<Option<String>, ChatError> {
    match text {
        Some(id)
            if id.is_empty()
                || id.encode_utf16().count() > CLIENT_ID_UNITS_MAX
                || id.contains('\0') =>
        {
            Err(ChatError::Invalid(
                format!("a client_id has 1 to {CLIENT_ID_UNITS_MAX} characters"),
                "client_id",
            ))
        }
        other => Ok(other),
    }
}

/// # Errors
/// `Invalid` when it is too long or has line breaks.
pub fn parse_title(text: Option<&str>) -> Result<Option<String>, ChatError> {
    let title = text.map(str::trim).filter(|t| !t.is_empty());
    if title.is_some_and(|t| {
        t.encode_utf16().count() > TITLE_UNITS_MAX || t.chars().any(char::is_control)
    }) {
        return Err(ChatError::Invalid(
            format!("a title is one line of at most {TITLE_UNITS_MAX} characters"),
            "title",
        ));
    }
    Ok(title.map(str::to_owned))
}

/// The mentions of a text as they count in a workspace.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub mentions: Vec<Mention>,
    /// Each once, in the order in which they are named.
    pub agents: Vec<Askable>,
    pub people: Vec<UserId>,
    pub everyone: bool,
}

/// Looks up whom the text names. Agents that the person may not use are plain text.
pub(super) async fn resolve_mentions(
    c: &mut Conn,
    actor: &Actor,
    text: &Text,
) -> Result<Found, ChatError> {
    let mut found = Found::default();
    for raw in &text.mentions {
        for handle in &raw.candidates {
            let (kind, id) = if GROUPS.contains(&handle.as_str()) {
                found.everyone = true;
                ("group", None)
            } else {
                match profiles::find_by_handle(c, actor.workspace, handle).await? {
                    Some(HandleOwner::Person(user)) => {
                        if !found.people.contains(&user) {
                            found.people.push(user);
                        }
                        ("user", Some(user.to_string()))
                    }
                    Some(HandleOwner::Agent(agent)) if agent.is_for(actor) => {
                        let id = agent.id.to_string();
                        if !found.agents.iter().any(|known| known.id == agent.id) {
                            found.agents.push(agent);
                        }
                        ("agent", Some(id))
                    }
                    _ => continue,
                }
            };
            let span = raw.span_of(handle);
            found.mentions.push(Mention {
                kind: kind.to_owned(),
                id,
                handle: handle.clone(),
                start: span.start,
                length: span.length,
            });
            break;
        }
    }
    Ok(found)
}

/// Rows for the counts of unread mentions.
pub(super) async fn insert_mention_targets(
    c: &mut Conn,
    message: &Message,
    found: &Found,
) -> Result<(), DbError> {
    let everyone = found.everyone.then_some(message.channel_id.0);
    let people = found.people.iter().map(|user| user.0);
    count_as_mentioned(c, message, people.chain(everyone)).await
}

/// Lets a message count as an unread mention for people (or for a channel: for all of it).
pub async fn count_as_mentioned(
    c: &mut Conn,
    message: &Message,
    targets: impl Iterator<Item = Uuid>,
) -> Result<(), DbError> {
    let targets: HashSet<Uuid> = targets.collect();
    for target in targets {
        c.q("insert into message_mentions (channel_id, target_id, seq, thread_id, message_id) values ($1, $2, $3, $4, $5)")
            .bind(message.channel_id)
            .bind(target)
            .bind(message.seq)
            .bind(message.thread_id)
            .bind(message.id)
            .run()
            .await?;
    }
    Ok(())
}

/// A message to insert under a number from the log.
#[derive(Debug, Clone)]
pub struct NewMessage {
    pub id: MessageId,
    pub workspace: WorkspaceId,
    pub channel: ChannelId,
    pub thread: ThreadId,
    pub fork: Option<ForkId>,
    pub parent: Option<MessageId>,
    pub author_type: &'static str,
    pub author: Option<Uuid>,
    pub kind: &'static str,
    pub state: &'static str,
    pub content: String,
    pub plain: String,
    pub mentions: Vec<Mention>,
    pub metadata: MessageMetadata,
    pub client_id: Option<String>,
}

/// Inserts a message, appends `message.created` under `seq`, and moves the counters of its thread or dive.
pub async fn insert_message(
    c: &mut Conn,
    seq: i64,
    new: &NewMessage,
    audience: Audience,
) -> Result<Message, DbError> {
    let at = now();
    let (author_name, avatar_url): (Option<String>, Option<String>) = c.q("insert into messages (id, workspace_id, channel_id, thread_id, fork_id, parent_id, seq, author_type, author_id, kind, state, \
         content, content_plain, mentions, reactions, metadata, client_id, created_at) \
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18) \
         returning case messages.author_type when 'human' then (select u.name from users u where u.id = messages.author_id) \
           when 'agent' then (select coalesce(a.summary ->> 'display_name', a.name) from agents a where a.id = messages.author_id) end, \
           (select u.avatar_url from users u where messages.author_type = 'human' and u.id = messages.author_id)")
        .bind(new.id)
        .bind(new.workspace)
        .bind(new.channel)
        .bind(new.thread)
        .bind(new.fork)
        .bind(new.parent)
        .bind(seq)
        .bind(new.author_type)
        .bind(new.author)
        .bind(new.kind)
        .bind(new.state)
        .bind(new.content.clone())
        .bind(new.plain.clone())
        .bind(Json(new.mentions.clone()))
        .bind(Json(Vec::<messages::Reaction>::new()))
        .bind(Json(new.metadata.clone()))
        .bind(new.client_id.clone())
        .bind(at)
        .one()
        .await?;
    // As it would be read; reading it would take a statement more.
    let message = Message::from(messages::Row {
        id: new.id,
        workspace_id: new.workspace,
        channel_id: new.channel,
        thread_id: new.thread,
        fork_id: new.fork,
        parent_id: new.parent,
        seq,
        author_type: new.author_type.to_owned(),
        author_id: new.author,
        author_name,
        avatar_url,
        kind: new.kind.to_owned(),
        state: new.state.to_owned(),
        content: new.content.clone(),
        content_plain: new.plain.clone(),
        mentions: Json(new.mentions.clone()),
        reactions: Json(Vec::new()),
        metadata: Json(new.metadata.clone()),
        client_id: new.client_id.clone(),
        created_at: at,
        edited_at: None,
        deleted_at: None,
    });
    match new.fork {
        None => threads::count_message(c, &message).await?,
        Some(fork) => forks::count_message(c, fork, &message).await?,
    }
    let event = NewEvent::new(
        seq,
        "message.created",
        audience,
        &MessageData { message: &message },
    )?
    .in_place(message.thread_id, message.fork_id)
    .about(Some(message.id));
    log::append(c, new.workspace, event).await?;
    Ok(message)
}

/// Where a notice stands, and what it is about.
#[derive(Debug, Clone, Copy)]
pub struct NoticePlace {
    pub workspace: WorkspaceId,
    pub channel: ChannelId,
    pub thread: ThreadId,
    pub fork: Option<ForkId>,
    pub agent: AgentId,
    pub task: Option<TaskId>,
}

impl NoticePlace {
    fn new(workspace: WorkspaceId, task: TaskId, seat: Seat) -> Self {
        Self {
            workspace,
            channel: seat.channel,
            thread: seat.thread,
            fork: seat.fork,
            agent: seat.agent,
            task: Some(task),
        }
    }

    /// Where a task was asked; `None` for one without a place.
    fn of(task: &Task) -> Option<Self> {
        Some(Self::new(task.workspace_id, task.id, task.seat()?))
    }
}

impl From<&Lease> for NoticePlace {
    fn from(lease: &Lease) -> Self {
        Self::new(lease.workspace, lease.task, lease.seat)
    }
}

/// Says something in a thread or dive in the name of the system.
pub async fn insert_notice(
    c: &mut Conn,
    place: NoticePlace,
    audience: Audience,
    parent: Option<MessageId>,
    text: String,
) -> Result<Message, DbError> {
    let seq = log::reserve(c, place.workspace, 1).await?;
    let new = NewMessage {
        id: MessageId::new(),
        workspace: place.workspace,
        channel: place.channel,
        thread: place.thread,
        fork: place.fork,
        parent,
        author_type: "system",
        author: None,
        kind: "notice",
        state: "complete",
        plain: text.clone(),
        content: text,
        mentions: Vec::new(),
        metadata: MessageMetadata {
            agent_id: Some(place.agent),
            task_id: place.task,
            ..MessageMetadata::default()
        },
        client_id: None,
    };
    insert_message(c, seq, &new, audience).await
}

/// What a client's id stands for; `None` when it is new and now taken for `object`.
pub async fn claim_client_id(
    c: &mut Conn,
    actor: &Actor,
    client_id: Option<&str>,
    place: &str,
    object: Uuid,
) -> Result<Option<Uuid>, ChatError> {
    let Some(client_id) = client_id else {
        return Ok(None);
    };
    let taken = c
        .q("insert into client_ids (workspace_id, user_id, client_id, place, object_id, created_at) values ($1, $2, $3, $4, $5, $6) \
            on conflict (workspace_id, user_id, client_id) do nothing")
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(client_id.to_owned())
        .bind(place.to_owned())
        .bind(object)
        .bind(now())
        .run()
        .await?;
    if taken == 1 {
        return Ok(None);
    }
    let (known_place, object): (String, Uuid) = c
        .q("select place, object_id from client_ids where workspace_id = $1 and user_id = $2 and client_id = $3")
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(client_id.to_owned())
        .one()
        .await?;
    if known_place == place {
        Ok(Some(object))
    } else {
        Err(ChatError::ClientIdReused)
    }
}

/// A resend: what was stored the first time.
async fn stored(c: &mut Conn, id: Uuid, with_thread: bool) -> Result<Posted, ChatError> {
    let message = messages::get_message(c, MessageId(id)).await?;
    let tasks = queue::tasks_of_message(c, message.id).await?;
    let thread = if with_thread {
        Some(threads::get_thread(c, message.thread_id).await?)
    } else {
        None
    };
    Ok(Posted {
        message,
        tasks,
        thread,
        created: false,
    })
}

/// An agent that a message asks, with the version that runs.
#[derive(Debug, Clone, Copy)]
struct Asked {
    agent: AgentId,
    version: i64,
}

/// Whom a message asks: those that it mentions, else the agent that the place is bound to. When that one is no longer
/// active, the place moves on to the workspace's default agent, and the text of a notice says so.
async fn asked(
    c: &mut Conn,
    said: &Said<'_>,
    found: &Found,
) -> Result<(Vec<Asked>, Option<String>), ChatError> {
    let actor = &said.access.place.actor;
    if found.agents.len() > AGENTS_MAX {
        return Err(ChatError::TooManyAgents(found.agents.len()));
    }
    let bound = if said.access.bound {
        bindings::find_binding(c, said.access.spot()).await?
    } else {
        None
    };
    if !found.agents.is_empty() {
        let pinned = |agent: &Askable| {
            bound
                .as_ref()
                .filter(|b| b.agent == agent.id)
                .map(|b| b.version)
        };
        let ask = |agent: &Askable| Asked {
            agent: agent.id,
            version: pinned(agent).unwrap_or(agent.version),
        };
        return Ok((found.agents.iter().map(ask).collect(), None));
    }
    let Some(bound) = bound.filter(|b| b.auto_reply && actor.scopes.has(Scope::AgentsUse)) else {
        return Ok((Vec::new(), None));
    };
    if bound.is_active && !bound.is_for(actor) {
        return Ok((Vec::new(), None));
    }
    if bound.is_active {
        return Ok((
            vec![Asked {
                agent: bound.agent,
                version: bound.version,
            }],
            None,
        ));
    }
    let default = profiles::find_default(c, actor.workspace).await?;
    let Some(default) = default.filter(|agent| agent.is_for(actor)) else {
        return Ok((Vec::new(), None));
    };
    let notice = stands_in(c, bound.agent, default.id).await?;
    tracing::warn!(thread.id = %said.access.thread, agent.id = %bound.agent, "a bound agent is not active; the default agent takes its place");
    bindings::move_on(c, said.access, &default).await?;
    Ok((
        vec![Asked {
            agent: default.id,
            version: default.version,
        }],
        Some(notice),
    ))
}

/// A text of a person, and where it goes.
#[derive(Debug, Clone)]
struct Said<'a> {
    access: &'a ThreadAccess,
    message: MessageId,
    parent: Option<MessageId>,
    text: &'a Text,
    client_id: Option<&'a str>,
}

/// Inserts the message and a task for each agent asked, and appends their events; `new_thread` is announced before.
async fn say(
    c: &mut Conn,
    said: Said<'_>,
    new_thread: Option<Thread>,
) -> Result<(Message, Vec<Task>), ChatError> {
    let actor = &said.access.place.actor;
    let audience = said.access.place.audience();
    let found = resolve_mentions(c, actor, said.text).await?;
    let (asked, moved_on) = asked(c, &said, &found).await?;
    let queued = if asked.is_empty() {
        0
    } else {
        queue::queued_count(c, actor.workspace).await?
    };

    let first = log::reserve(
        c,
        actor.workspace,
        1 + asked.len() + usize::from(new_thread.is_some()),
    )
    .await?;
    let mut seq = first;
    if let Some(thread) = &new_thread {
        let thread = Thread {
            last_seq: first + 1,
            ..thread.clone()
        };
        let event = NewEvent::new(
            seq,
            "thread.created",
            audience,
            &ThreadData { thread: &thread },
        )?
        .in_place(said.access.thread, None);
        log::append(c, actor.workspace, event).await?;
        seq += 1;
    }
    let new = NewMessage {
        id: said.message,
        workspace: actor.workspace,
        channel: said.access.place.channel,
        thread: said.access.thread,
        fork: said.access.fork_id(),
        parent: said.parent,
        author_type: "human",
        author: Some(actor.user.0),
        kind: "text",
        state: "complete",
        content: said.text.content.clone(),
        plain: said.text.plain.clone(),
        mentions: found.mentions.clone(),
        metadata: MessageMetadata {
            api_key_id: actor.key,
            ..MessageMetadata::default()
        },
        client_id: said.client_id.map(str::to_owned),
    };
    let message = insert_message(c, seq, &new, audience).await?;
    // Dives do not count as unread.
    if message.fork_id.is_none() {
        insert_mention_targets(c, &message, &found).await?;
    }

    let mut tasks = Vec::with_capacity(asked.len());
    for (n, asked) in asked.into_iter().enumerate() {
        let spans: Vec<mentions::Span> = found
            .mentions
            .iter()
            .filter(|m| m.id.as_deref() == Some(asked.agent.to_string().as_str()))
            .map(|m| mentions::Span {
                start: m.start,
                length: m.length,
            })
            .collect();
        let new = NewTask {
            workspace: actor.workspace,
            kind: "reply",
            agent: asked.agent,
            agent_version: asked.version,
            channel: said.access.place.channel,
            thread: said.access.thread,
            fork: said.access.fork_id(),
            trigger: Some(message.id),
            requested_by: actor.user,
            retry_of: None,
            prompt: mentions::without(&said.text.content, &spans),
            options: None,
        };
        let full = if queued + i64::try_from(n).unwrap_or(0) >= queue::QUEUED_MAX {
            Some(queue_full(c, asked.agent).await?)
        } else {
            None
        };
        seq += 1;
        tasks.push(
            enqueue(c, seq, &new, full, audience)
                .await?
                .ok_or(ChatError::AlreadyRetried)?,
        );
    }
    if let Some((text, place)) = moved_on.zip(tasks.first().and_then(NoticePlace::of)) {
        insert_notice(c, place, audience, Some(message.id), text).await?;
    }
    forks::note_said(c, &message, audience).await?;
    Ok((message, tasks))
}

pub async fn queue_full(c: &mut Conn, agent: AgentId) -> Result<TaskError, DbError> {
    let name = profiles::shown_name(c, agent).await?;
    Ok(TaskError {
        code: "queue_full".to_owned(),
        message: notice_text(&name, FailCode::QueueFull),
    })
}

/// Inserts a task, announces it under `seq`, and says in the thread when the queue is full. `None`: retried already.
pub async fn enqueue(
    c: &mut Conn,
    seq: i64,
    new: &NewTask,
    full: Option<TaskError>,
    audience: Audience,
) -> Result<Option<Task>, DbError> {
    let Some(task) = queue::insert(c, new, full.as_ref()).await? else {
        return Ok(None);
    };
    queue::announce_as(c, seq, &task, audience).await?;
    if let Some((error, place)) = full.zip(NoticePlace::of(&task)) {
        let notice = insert_notice(c, place, audience, new.trigger, error.message).await?;
        queue::set_notice(c, task.id, notice.id).await?;
    }
    Ok(Some(task))
}

/// Says something in a thread or a dive.
///
/// # Errors
/// `ThreadNotFound`, `ForkNotFound`, `MessageNotFound` for the parent, `ClientIdReused`, `TooManyAgents`, or what `writing` says.
pub async fn post_message(
    c: &mut Conn,
    caller: &Caller,
    place: Spot,
    text: &Text,
    parent: Option<MessageId>,
    client_id: Option<&str>,
) -> Result<Posted, ChatError> {
    let access = access::spot(c, caller, place).await?;
    access.place.actor.require(Scope::ChatWrite)?;
    crate::db::dialect::lock_workspace(c, access.place.actor.workspace.0).await?;
    let id = MessageId::new();
    let name = match place {
        Spot::Thread(id) => id.to_string(),
        Spot::Fork(id) => id.to_string(),
    };
    if let Some(known) = claim_client_id(c, &access.place.actor, client_id, &name, id.0).await? {
        return stored(c, known, false).await;
    }
    let access = access.writing()?;
    if let Some(parent) = parent {
        parent_in(c, &access, parent).await?;
    }
    if !access.place.joined {
        channels::join(
            c,
            access.place.actor.workspace,
            access.place.channel,
            caller.user,
        )
        .await?;
    }
    let said = Said {
        access: &access,
        message: id,
        parent,
        text,
        client_id,
    };
    let (message, tasks) = say(c, said, None).await?;
    Ok(Posted {
        message,
        tasks,
        thread: None,
        created: true,
    })
}

/// A parent stands where its answer is said.
async fn parent_in(
    c: &mut Conn,
    access: &ThreadAccess,
    parent: MessageId,
) -> Result<(), ChatError> {
    let row: Option<(ThreadId, Option<ForkId>, WorkspaceId)> = c
        .q("select thread_id, fork_id, workspace_id from messages where id = $1")
        .bind(parent)
        .opt()
        .await?;
    match row {
        Some((thread, fork, _)) if thread == access.thread && fork == access.fork_id() => Ok(()),
        Some((_, _, workspace)) if workspace == access.place.actor.workspace => {
            Err(ChatError::Invalid(
                "the parent stands in another place: reply there".to_owned(),
                "parent_id",
            ))
        }
        _ => Err(ChatError::MessageNotFound),
    }
}

/// What a thread begins with.
#[derive(Debug, Clone)]
pub struct NewThread {
    pub title: Option<String>,
    /// Who answers what mentions no agent: `Some(None)` is nobody; `None` is left to where the thread is opened.
    pub agent: Option<Option<AgentId>>,
    /// The thread from which it is opened, whose agent it begins with.
    pub from: Option<ThreadId>,
    pub client_id: Option<String>,
}

/// Who answers in a new thread.
struct Opening {
    agent: Option<Askable>,
    /// Says that somebody else was to.
    notice: Option<String>,
}

/// Whom the thread's maker chose; else the agent of the thread from which it is opened, else that of a direct channel. One that
/// is no longer active gives way to the default agent, and a notice says so.
async fn opening_agent(
    c: &mut Conn,
    caller: &Caller,
    place: &access::ChannelAccess,
    new: &NewThread,
) -> Result<Opening, ChatError> {
    let actor = &place.actor;
    let of = |agent| Opening {
        agent,
        notice: None,
    };
    if let Some(chosen) = new.agent {
        let Some(id) = chosen else {
            return Ok(of(None));
        };
        actor.require(Scope::AgentsUse)?;
        let found = profiles::find_askable(c, actor, id).await?;
        let agent = found.ok_or_else(|| ChatError::NoSuchAgent(id.to_string()))?;
        return Ok(of(Some(agent)));
    }
    let mut inherited = None;
    if let Some(from) = new.from {
        let source = access::thread(c, caller, from).await?;
        if source.place.actor.workspace != actor.workspace {
            return Err(ChatError::ThreadNotFound);
        }
        let bound = bindings::find_binding(c, Spot::Thread(from)).await?;
        inherited = bound.map(|bound| bound.agent);
    }
    if inherited.is_none() {
        inherited = c
            .q("select agent_id from channels where id = $1")
            .bind(place.channel)
            .value()
            .await?;
    }
    let Some(id) = inherited else {
        return Ok(of(None));
    };
    let found = profiles::find_askable(c, actor, id).await?;
    // One that is only not for this person stays unseen.
    if found.is_some() || profiles::is_active(c, id).await? {
        return Ok(of(found));
    }
    let default = profiles::find_default(c, actor.workspace).await?;
    let Some(default) = default.filter(|agent| agent.is_for(actor)) else {
        return Ok(of(None));
    };
    let notice = stands_in(c, id, default.id).await?;
    tracing::warn!(channel.id = %place.channel, agent.id = %id, "the agent of a new thread is not active; the default agent takes its place");
    Ok(Opening {
        agent: Some(default),
        notice: Some(notice),
    })
}

/// What a notice says when an agent takes the place of one that is gone.
async fn stands_in(c: &mut Conn, gone: AgentId, now: AgentId) -> Result<String, DbError> {
    let gone = profiles::shown_name(c, gone).await?;
    let now = profiles::shown_name(c, now).await?;
    Ok(format!(
        "{gone} is no longer available, so {now} answers here from now on."
    ))
}

/// Starts a thread with its first message.
///
/// # Errors
/// `ChannelNotFound`, `NoSuchAgent`, `ClientIdReused`, `TooManyAgents`, or what `writing` says.
pub async fn start_thread(
    c: &mut Conn,
    caller: &Caller,
    channel: ChannelId,
    text: &Text,
    new: &NewThread,
) -> Result<Posted, ChatError> {
    let place = access::channel(c, caller, channel).await?;
    place.actor.require(Scope::ChatWrite)?;
    crate::db::dialect::lock_workspace(c, place.actor.workspace.0).await?;
    let (message, thread) = (MessageId::new(), ThreadId::new());
    if let Some(known) = claim_client_id(
        c,
        &place.actor,
        new.client_id.as_deref(),
        &channel.to_string(),
        message.0,
    )
    .await?
    {
        return stored(c, known, true).await;
    }
    let place = place.writing()?;
    if !place.joined {
        channels::join(c, place.actor.workspace, channel, caller.user).await?;
    }
    let opening = opening_agent(c, caller, &place, new).await?;
    let agent = opening.agent;
    let row = threads::insert(
        c,
        &place,
        thread,
        message,
        new.title.as_deref(),
        agent.as_ref(),
    )
    .await?;
    let access = ThreadAccess {
        place,
        thread,
        archived: false,
        bound: agent.is_some(),
        fork: None,
    };
    let said = Said {
        access: &access,
        message,
        parent: None,
        text,
        client_id: new.client_id.as_deref(),
    };
    let (message, tasks) = say(c, said, Some(row)).await?;
    if let (Some(text), Some(agent)) = (opening.notice, &agent) {
        let notice = NoticePlace {
            workspace: access.place.actor.workspace,
            channel,
            thread,
            fork: None,
            agent: agent.id,
            task: tasks.first().map(|task| task.id),
        };
        insert_notice(c, notice, access.place.audience(), Some(message.id), text).await?;
    }
    let thread = threads::get_thread(c, thread).await?;
    Ok(Posted {
        message,
        tasks,
        thread: Some(thread),
        created: true,
    })
}

/// Tries a failed or cancelled task again, on the agent's newest version.
///
/// # Errors
/// `TaskNotFound`, `NotRetryable`, `AlreadyRetried`, `NotYoursToRetry`, `TriggerDeleted`, or what `writing` says.
pub async fn retry_task(
    c: &mut Conn,
    caller: &Caller,
    id: crate::ids::TaskId,
) -> Result<Task, ChatError> {
    let task = queue::find_task(c, id)
        .await?
        .ok_or(ChatError::TaskNotFound)?;
    // What has no place was asked over the API: whoever asked asks again there.
    let seat = task.seat().ok_or(ChatError::NotRetryable)?;
    let access = access::spot(c, caller, seat.place())
        .await
        .map_err(|_| ChatError::TaskNotFound)?
        .writing()?;
    let actor = &access.place.actor;
    crate::db::dialect::lock_workspace(c, actor.workspace.0).await?;
    let task = queue::find_task(c, id)
        .await?
        .ok_or(ChatError::TaskNotFound)?;
    if task.requested_by != actor.user {
        actor
            .require(Scope::WorkspaceAdmin)
            .map_err(|_| ChatError::NotYoursToRetry)?;
    }
    actor.require(Scope::AgentsUse)?;
    if profiles::is_barred(c, actor, seat.agent).await? {
        return Err(ChatError::NoSuchAgent(seat.agent.to_string()));
    }
    if !matches!(task.status.as_str(), "failed" | "cancelled") {
        return Err(ChatError::NotRetryable);
    }
    let kind = match (task.kind.as_str(), task.trigger_message_id) {
        ("resolve", _) => "resolve",
        (_, None) => return Err(ChatError::NotRetryable),
        (_, Some(trigger)) => {
            let trigger = messages::get_message(c, trigger).await?;
            if trigger.deleted_at.is_some() {
                return Err(ChatError::TriggerDeleted);
            }
            "reply"
        }
    };
    let new = NewTask {
        workspace: task.workspace_id,
        kind,
        agent: seat.agent,
        agent_version: profiles::newest_version(c, seat.agent)
            .await?
            .ok_or(ChatError::NotRetryable)?,
        channel: seat.channel,
        thread: seat.thread,
        fork: seat.fork,
        trigger: task.trigger_message_id,
        requested_by: task.requested_by,
        retry_of: Some(task.id),
        prompt: task.input.0.prompt.clone(),
        options: task.input.0.options.clone(),
    };
    let audience = access.place.audience();
    let full = if queue::queued_count(c, actor.workspace).await? >= queue::QUEUED_MAX {
        Some(queue_full(c, seat.agent).await?)
    } else {
        None
    };
    let seq = log::reserve(c, actor.workspace, 1).await?;
    enqueue(c, seq, &new, full, audience)
        .await?
        .ok_or(ChatError::AlreadyRetried)
}
