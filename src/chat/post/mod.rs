//! Posting: one transaction stores the message, its tasks, and their events.
//!
//! `mentioned` resolves mentions, `insert` writes messages and notices, `opening` starts threads, `variant` runs a message of a chat
//! again, `enqueue` creates and retries tasks, `steer` passes messages to running replies, and `chain` continues chains. This file contains the shared part: posting in a
//! conversation.

use serde::Serialize;

use super::{
    ChatError,
    access::{self, ThreadAccess},
    bindings::{self, Binding, BoundBy, BoundState},
    channels::{self, ChannelAgent, UnaskedReply},
    error::CHAIN_LINKS_MAX,
    event::ThreadEvent,
    follows::{self, FollowCause},
    forks,
    inbox::{self, posted::Addressed},
    mentions,
    rows::{
        message::{
            AuthorKind, Mention, MentionKind, Message, MessageKind, MessageMetadata, MessageState,
        },
        thread::Thread,
    },
    search::index::{self, ThreadRoot},
    text::Text,
};
use crate::{
    agents::profiles::{self, InvocableAgent},
    auth::{Actor, Caller, Scope},
    db::{Conn, DbError},
    files,
    ids::{AgentId, MessageId, TaskId},
    model::has_visible,
    realtime::{EventType, NewEvent, hub::Conversation, log},
    tasks::{ChainStep, NewLink, NewTask, Task, TaskKind, TaskStatus, TaskTarget, queue},
    workflows::on_message::{self, MessageSender, PostedIn},
};

mod by_agent;
mod by_bot;
mod chain;
mod enqueue;
pub(super) mod insert;
pub(super) mod links;
pub(super) mod mentioned;
mod opening;
mod resend;
mod scheduled;
mod steer;
mod variant;

pub use by_agent::{AgentPost, post_as_agent};
pub use by_bot::{BotPost, KeyPost, post_as_bot, post_with_key, start_with_key};
pub use chain::{continue_chain, end_chain, start_obstacle};
pub use enqueue::{enqueue, queue_full, retry_task};
pub use insert::{NewMessage, NoticeTarget, insert_message, insert_notice};
use links::{links, span_of};
pub use mentioned::{MentionLimit, count_as_mentioned};
use mentioned::{ResolvedMentions, insert_mention_targets, resolve_mentions};
pub use opening::{NewThread, start_thread};
pub use resend::{Posted, claim_client_id, find_client_id, forget_client_ids};
use resend::{parent_in, stored};
pub use scheduled::{ScheduledPost, post_scheduled};
pub use steer::start_unread;
pub use variant::{RunAgain, find_in_chat, run_again};

/// Maximum number of agents that one message can invoke.
const AGENTS_MAX: usize = 8;
pub const CLIENT_ID_UNITS_MAX: usize = 64;
const TITLE_UNITS_MAX: usize = 200;

/// Response of `POST …/messages`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct PostedMessage {
    pub message: Message,
    pub tasks: Vec<Task>,
}

/// Response of `POST …/threads`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct PostedThread {
    pub thread: Thread,
    pub message: Message,
    pub tasks: Vec<Task>,
}

/// # Errors
/// `Invalid` if the ID is empty or too long.
pub fn parse_client_id(text: Option<String>) -> Result<Option<String>, ChatError> {
    match text {
        Some(id)
            if id.is_empty()
                || id.encode_utf16().count() > CLIENT_ID_UNITS_MAX
                || id.contains('\0') =>
        {
            Err(ChatError::Invalid(
                format!("a client_id must have 1 to {CLIENT_ID_UNITS_MAX} characters"),
                "client_id",
            ))
        }
        other => Ok(other),
    }
}

/// # Errors
/// `Invalid` if the title is too long or contains line breaks.
pub fn parse_title(text: Option<&str>) -> Result<Option<String>, ChatError> {
    let title = text.map(str::trim).filter(|t| has_visible(t));
    if title.is_some_and(|t| {
        t.encode_utf16().count() > TITLE_UNITS_MAX || t.chars().any(char::is_control)
    }) {
        return Err(ChatError::Invalid(
            format!("a title must be one line of at most {TITLE_UNITS_MAX} characters"),
            "title",
        ));
    }
    Ok(title.map(str::to_owned))
}

/// An agent that a message invokes, its version, and its prompt.
#[derive(Debug, Clone)]
struct Invocation {
    agent: AgentId,
    version: i64,
    prompt: String,
}

/// Order in which the agents of a message reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ReplyOrder {
    #[default]
    Together,
    /// Each agent replies after the previous one has completed.
    Chain,
}

/// Agents invoked by a message, and the notice to post with it.
#[derive(Debug, Default)]
struct Invoked {
    agents: Vec<Invocation>,
    order: ReplyOrder,
    notice: Option<AgentNotice>,
}

/// A notice about the fallback agent or its absence.
#[derive(Debug)]
struct AgentNotice {
    text: String,
    /// Subject of the notice.
    agent: AgentId,
}

/// Selects the agents that a message invokes: the mentioned agents if there are any, otherwise the bound agent, or the root agent of
/// the draft if none is bound. A message in a thread that mentions only people invokes nobody. If the bound agent is turned off, the
/// default agent replies, and a single notice announces this. If the bound agent was archived or deleted, the conversation is rebound
/// to the default agent, and a notice announces this as well. An agent that the channel has bound is not replaced.
async fn asked(
    c: &mut Conn,
    draft: &PostDraft<'_>,
    found: &ResolvedMentions,
) -> Result<Invoked, ChatError> {
    let links = links(draft.text, found);
    if links.len() > CHAIN_LINKS_MAX {
        return Err(ChatError::ChainTooLong(links.len()));
    }
    if links.is_empty() && found.agents.len() > AGENTS_MAX {
        return Err(ChatError::TooManyAgents(found.agents.len()));
    }
    let bound = if draft.access.bound {
        bindings::find_binding(c, draft.access.conversation()).await?
    } else {
        None
    };
    if !found.agents.is_empty() {
        return Ok(invoke_mentioned(draft, found, links, bound.as_ref()));
    }
    if found.names_people() && draft.access.is_shared_thread() {
        return Ok(Invoked::default());
    }
    let Some(bound) = bound else {
        return match &draft.root_agent {
            Some(agent) => Ok(invoke_unasked(c, draft, agent.id, agent.version).await?),
            None => Ok(Invoked::default()),
        };
    };
    invoke_bound(c, draft, &bound).await
}

/// Invokes the mentioned agents, as a chain if arrows link the mentions.
fn invoke_mentioned(
    draft: &PostDraft<'_>,
    found: &ResolvedMentions,
    links: Vec<(&InvocableAgent, String)>,
    bound: Option<&Binding>,
) -> Invoked {
    let pinned = |agent: &InvocableAgent| bound.filter(|b| b.agent == agent.id).map(|b| b.version);
    let ask = |agent: &InvocableAgent, prompt| Invocation {
        agent: agent.id,
        version: pinned(agent).unwrap_or(agent.version),
        prompt,
    };
    if links.is_empty() {
        let each = found.agents.iter();
        return Invoked {
            agents: each
                .map(|agent| ask(agent, prompt_for(draft.text, found, agent.id)))
                .collect(),
            ..Invoked::default()
        };
    }
    let each = links.into_iter();
    Invoked {
        agents: each.map(|(agent, text)| ask(agent, text)).collect(),
        order: ReplyOrder::Chain,
        notice: None,
    }
}

/// Invokes the bound agent, or the fallback agent in its place.
async fn invoke_bound(
    c: &mut Conn,
    draft: &PostDraft<'_>,
    bound: &Binding,
) -> Result<Invoked, ChatError> {
    let actor = &draft.access.channel_access.actor;
    if !bound.auto_reply || !actor.scopes.has(Scope::AgentsUse) || draft.is_silenced(bound.agent) {
        return Ok(Invoked::default());
    }
    if bound.state != BoundState::Gone && !bound.can_be_invoked_by(actor) {
        return Ok(Invoked::default());
    }
    let conversation = draft.access.conversation();
    if bound.bound_by == BoundBy::Channel {
        if !bound.is_active() {
            return Ok(Invoked::default());
        }
        return Ok(invoke_unasked(c, draft, bound.agent, bound.version).await?);
    }
    if bound.is_active() {
        if bound.stood_in {
            bindings::set_stood_in(c, conversation, bound.agent, false).await?;
        }
        return Ok(Invoked {
            agents: vec![Invocation {
                agent: bound.agent,
                version: bound.version,
                prompt: mentions::without(&draft.text.content, &[]),
            }],
            ..Invoked::default()
        });
    }
    invoke_fallback(c, draft, bound).await
}

/// Invokes the channel's agent without a mention, unless its daily limit is reached.
async fn invoke_unasked(
    c: &mut Conn,
    draft: &PostDraft<'_>,
    agent: AgentId,
    version: i64,
) -> Result<Invoked, DbError> {
    let channel = draft.access.channel_access.channel;
    let mut invoked = Invoked::default();
    match channels::count_unasked(c, channel, agent).await? {
        UnaskedReply::Counted => invoked.agents.push(Invocation {
            agent,
            version,
            prompt: mentions::without(&draft.text.content, &[]),
        }),
        UnaskedReply::LimitReached { notice } => {
            invoked.notice = notice.map(|text| AgentNotice { text, agent });
        }
    }
    Ok(invoked)
}

/// The text without the mentions of this agent.
fn prompt_for(text: &Text, found: &ResolvedMentions, agent: AgentId) -> String {
    let agent = agent.to_string();
    let mentions = found.mentions.iter();
    let own = mentions.filter(|mention| mention.id.as_ref() == Some(&agent));
    let spans: Vec<mentions::Span> = own.map(span_of).collect();
    mentions::without(&text.content, &spans)
}

/// Invokes the default agent in place of a bound agent that is turned off or no longer exists.
async fn invoke_fallback(
    c: &mut Conn,
    draft: &PostDraft<'_>,
    bound: &Binding,
) -> Result<Invoked, ChatError> {
    let actor = &draft.access.channel_access.actor;
    let conversation = draft.access.conversation();
    let default = find_fallback(c, actor).await?;
    let default = default.filter(|agent| !draft.is_silenced(agent.id));
    let notice = if bound.state == BoundState::Off {
        let text = turned_off(c, bound.agent, default.as_ref()).await?;
        if !bound.stood_in {
            bindings::set_stood_in(c, conversation, bound.agent, true).await?;
        }
        (!bound.stood_in).then_some(text)
    } else if let Some(default) = &default {
        let text = is_fallback(c, bound.agent, default.id).await?;
        tracing::warn!(thread.id = %draft.access.thread, agent.id = %bound.agent, "bound agent no longer exists; rebinding to the default agent");
        bindings::rebind(c, draft.access, default).await?;
        Some(text)
    } else {
        None
    };
    let about = default.as_ref().map_or(bound.agent, |agent| agent.id);
    Ok(Invoked {
        agents: default
            .iter()
            .map(|agent| Invocation {
                agent: agent.id,
                version: agent.version,
                prompt: mentions::without(&draft.text.content, &[]),
            })
            .collect(),
        order: ReplyOrder::Together,
        notice: notice.map(|text| AgentNotice { text, agent: about }),
    })
}

/// Returns the newest version of the default agent if this person can invoke it.
async fn find_fallback(c: &mut Conn, actor: &Actor<'_>) -> Result<Option<InvocableAgent>, DbError> {
    let Some(default) = profiles::find_default(c, actor.workspace).await? else {
        return Ok(None);
    };
    profiles::refresh_first(c, actor.workspace, default.id).await?;
    let default = profiles::find_default(c, actor.workspace).await?;
    Ok(default.filter(|agent| agent.can_be_invoked_by(actor)))
}

/// Notice text for an agent that is turned off, naming the fallback agent if there is one.
async fn turned_off(
    c: &mut Conn,
    off: AgentId,
    fallback: Option<&InvocableAgent>,
) -> Result<String, DbError> {
    let off = profiles::shown_name(c, off).await?;
    let Some(fallback) = fallback else {
        return Ok(format!("{off} is turned off. Mention another agent."));
    };
    let fallback = profiles::shown_name(c, fallback.id).await?;
    Ok(format!(
        "{off} is turned off, so {fallback} replies here until it is back."
    ))
}

/// Notice text for the replacement of an agent that no longer exists.
async fn is_fallback(c: &mut Conn, gone: AgentId, now: AgentId) -> Result<String, DbError> {
    let gone = profiles::shown_name(c, gone).await?;
    let now = profiles::shown_name(c, now).await?;
    Ok(format!(
        "{gone} is no longer available, so {now} replies here from now on."
    ))
}

/// A person's post before it is stored.
#[derive(Debug, Clone)]
struct PostDraft<'a> {
    access: &'a ThreadAccess<'a>,
    message: MessageId,
    parent: Option<MessageId>,
    text: &'a Text,
    client_id: Option<&'a str>,
    channel_agent: Option<ChannelAgent>,
    /// Agent that replies to the root message without being bound.
    root_agent: Option<InvocableAgent>,
    /// Running reply that the message steers; it then invokes nobody.
    steers: Option<TaskId>,
}

impl PostDraft<'_> {
    /// Checks whether the mode of the channel agent prevents an agent from replying to this post. The mode does not apply in forks.
    fn is_silenced(&self, agent: AgentId) -> bool {
        let silenced = self.channel_agent.and_then(ChannelAgent::silenced);
        self.access.fork.is_none() && silenced == Some(agent)
    }
}

async fn announce_thread(
    c: &mut Conn,
    draft: &PostDraft<'_>,
    seq: i64,
    thread: &Thread,
) -> Result<(), ChatError> {
    let access = &draft.access.channel_access;
    // The first message gets the next number.
    let thread = Thread {
        last_seq: seq + 1,
        ..thread.clone()
    };
    let body = ThreadEvent { thread: &thread };
    let event = NewEvent::new(seq, EventType::ThreadCreated, access.audience(), &body)?
        .in_conversation(draft.access.thread, None);
    Ok(log::append(c, access.actor.workspace, event).await?)
}

/// Makes the author and the mentioned people follow the conversation, and opens inbox items.
async fn notify(
    c: &mut Conn,
    draft: &PostDraft<'_>,
    message: &Message,
    starts_thread: bool,
    found: &ResolvedMentions,
) -> Result<(), ChatError> {
    let access = &draft.access.channel_access;
    let place = inbox::posted::place_of(message);
    let cause = if starts_thread {
        FollowCause::Started
    } else {
        FollowCause::Wrote
    };
    follows::follow_as_member(c, place, access.actor.user, cause, message.seq).await?;
    if !found.people.is_empty() {
        follows::follow_as_mentioned(c, place, &found.people).await?;
    }
    let to = Addressed {
        people: &found.people,
        everyone: found.everyone && draft.text.notifies_group,
        starts_thread,
    };
    Ok(inbox::posted::open_for_message(c, message, access.kind, to).await?)
}

/// The chain data of the link at position `n`; `None` outside a chain.
fn link_at(chain: &[TaskId], n: usize) -> Option<NewLink> {
    let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    Some(NewLink {
        id: *chain.get(n)?,
        after: n
            .checked_sub(1)
            .and_then(|before| chain.get(before))
            .copied(),
        step: ChainStep {
            step: number(n + 1),
            steps: number(chain.len()),
        },
    })
}

/// Inserts a task for each invoked agent, and appends their events after the message's `seq`. `chain` contains the IDs for the
/// tasks of a chain.
async fn enqueue_invoked(
    c: &mut Conn,
    draft: &PostDraft<'_>,
    seq: i64,
    invoked: &[Invocation],
    chain: &[TaskId],
) -> Result<Vec<Task>, ChatError> {
    let access = &draft.access.channel_access;
    let mut free = if invoked.is_empty() {
        0
    } else {
        queue::free_slots(c, access.actor.workspace).await?
    };
    let mut tasks = Vec::with_capacity(invoked.len());
    for (n, invocation) in invoked.iter().enumerate() {
        let link = link_at(chain, n);
        let is_parked = link.is_some_and(|link| link.after.is_some());
        let new = NewTask {
            trigger: Some(draft.message),
            parent: chain.first().copied().filter(|_| is_parked),
            link,
            // The first link reads everything up to the message.
            before_seq: link.filter(|link| link.after.is_none()).map(|_| seq + 1),
            api_key: access.actor.key.filter(|_| link.is_some()),
            prompt: invocation.prompt.clone(),
            ..NewTask::new(
                access.actor.workspace,
                TaskKind::Reply,
                access.actor.user,
                TaskTarget {
                    agent: invocation.agent,
                    agent_version: invocation.version,
                    channel: access.channel,
                    thread: draft.access.thread,
                    fork: draft.access.fork_id(),
                },
            )
        };
        free -= i64::from(!is_parked);
        let full = if free < 0 && !is_parked {
            let later = chain.len().min(n + 1)..chain.len();
            let later: Vec<AgentId> = invoked[later].iter().map(|later| later.agent).collect();
            Some(queue_full(c, invocation.agent, &later).await?)
        } else {
            None
        };
        let number = seq + 1 + i64::try_from(n).unwrap_or_default();
        let task = enqueue(c, number, &new, full, access.audience()).await?;
        tasks.push(task.ok_or(ChatError::AlreadyRetried)?);
    }
    if let Some(first) = tasks.first()
        && first.status == TaskStatus::Failed
        && !chain.is_empty()
    {
        queue::cancel_later(c, first.id, access.audience()).await?;
        return Ok(queue::tasks_of_message(c, draft.message).await?);
    }
    Ok(tasks)
}

/// Inserts the message of a draft, and appends its event under `seq`.
async fn insert_draft(
    c: &mut Conn,
    draft: &PostDraft<'_>,
    seq: i64,
    mentions: Vec<Mention>,
    chain: &[TaskId],
) -> Result<Message, ChatError> {
    let access = &draft.access.channel_access;
    let actor = &access.actor;
    let attachments = files::attach(c, actor, draft.message, &draft.text.files).await?;
    let new = NewMessage {
        id: draft.message,
        workspace: actor.workspace,
        channel: access.channel,
        thread: draft.access.thread,
        fork: draft.access.fork_id(),
        parent: draft.parent,
        author_type: AuthorKind::Human,
        author: Some(actor.user.0),
        kind: MessageKind::Text,
        state: MessageState::Complete,
        content: draft.text.content.clone(),
        plain: draft.text.plain.clone(),
        mentions,
        attachments,
        metadata: MessageMetadata {
            chain: chain.to_vec(),
            api_key_id: actor.key,
            steers: draft.steers,
            review: draft.text.review.clone(),
            ..MessageMetadata::default()
        },
        client_id: draft.client_id.map(str::to_owned),
    };
    insert::insert_post(c, seq, &new, access.audience()).await
}

/// Posts the goal of a collaboration in a new fork. Mentions of agents in the goal are treated as plain text, and no task is started.
///
/// # Errors
/// `QuotaExceeded`.
pub async fn post_goal(
    c: &mut Conn,
    access: &ThreadAccess<'_>,
    text: &Text,
) -> Result<Message, ChatError> {
    let draft = PostDraft {
        access,
        message: MessageId::new(),
        parent: None,
        text,
        client_id: None,
        channel_agent: None,
        root_agent: None,
        steers: None,
    };
    let actor = &access.channel_access.actor;
    let channel = access.channel_access.channel;
    let mut mentions = resolve_mentions(c, actor, channel, text, None)
        .await?
        .mentions;
    mentions.retain(|mention| mention.kind != MentionKind::Agent);
    let seq = log::reserve(c, actor.workspace, 1).await?;
    let message = insert_draft(c, &draft, seq, mentions, &[]).await?;
    let document = &text.search_document;
    index::add(c, &message, document, ThreadRoot::Nothing).await?;
    forks::on_message_posted(c, &message, access.channel_access.audience()).await?;
    Ok(message)
}

/// Inserts the message and a task for each invoked agent, and appends their events. If the post starts a thread, announces
/// `new_thread` first.
async fn commit_post(
    c: &mut Conn,
    draft: PostDraft<'_>,
    new_thread: Option<Thread>,
) -> Result<(Message, Vec<Task>), ChatError> {
    let actor = &draft.access.channel_access.actor;
    let audience = draft.access.channel_access.audience();
    let silenced = draft.channel_agent.and_then(ChannelAgent::silenced);
    let channel = draft.access.channel_access.channel;
    let found = resolve_mentions(c, actor, channel, draft.text, silenced).await?;
    let Invoked {
        agents: asked,
        order,
        notice,
    } = match draft.steers {
        Some(_) => Invoked::default(),
        None => asked(c, &draft, &found).await?,
    };
    let chain: Vec<TaskId> = match order {
        ReplyOrder::Together => Vec::new(),
        ReplyOrder::Chain => asked.iter().map(|_| TaskId::new()).collect(),
    };
    let first = log::reserve(
        c,
        actor.workspace,
        1 + asked.len() + usize::from(new_thread.is_some()),
    )
    .await?;
    let mut seq = first;
    if let Some(thread) = &new_thread {
        announce_thread(c, &draft, seq, thread).await?;
        seq += 1;
    }
    let message = insert_draft(c, &draft, seq, found.mentions.clone(), &chain).await?;
    let root = new_thread.as_ref().map_or(ThreadRoot::Nothing, |thread| {
        ThreadRoot::Thread(thread.title.as_deref())
    });
    index::add(c, &message, &draft.text.search_document, root).await?;
    // Mentions in forks do not count in their channel.
    if message.fork_id.is_none() {
        insert_mention_targets(c, &message, &found).await?;
    }
    notify(c, &draft, &message, new_thread.is_some(), &found).await?;
    let tasks = enqueue_invoked(c, &draft, seq, &asked, &chain).await?;
    if let Some(notice) = notice {
        let target = NoticeTarget {
            workspace: actor.workspace,
            channel: draft.access.channel_access.channel,
            thread: draft.access.thread,
            fork: draft.access.fork_id(),
            agent: notice.agent,
            task: tasks.first().map(|task| task.id),
        };
        insert_notice(c, target, audience, Some(message.id), notice.text).await?;
    }
    forks::on_message_posted(c, &message, audience).await?;
    if message.fork_id.is_none() {
        let posted = PostedIn {
            workspace: actor.workspace,
            channel: message.channel_id,
            thread: message.thread_id,
            message: message.id,
            content: &message.content,
            sender: if actor.key.is_some() {
                MessageSender::Key
            } else {
                MessageSender::Person
            },
            starts_thread: new_thread.is_some(),
        };
        on_message::start_for_message(c, posted).await?;
    }
    Ok((message, tasks))
}

/// Posts a message in a thread or a fork. If it steers a running reply, it starts no tasks.
///
/// # Errors
/// `ThreadNotFound`, `ForkNotFound`, `MessageNotFound` for the parent, `ClientIdReused`,
/// `TooManyAgents`, `ChainTooLong`, `QuotaExceeded`, or any error from `find_steered` or `writing`.
pub async fn post_message(
    c: &mut Conn,
    caller: &Caller,
    conversation: Conversation,
    text: &Text,
    parent: Option<MessageId>,
    client_id: Option<&str>,
    steers: Option<TaskId>,
) -> Result<Posted, ChatError> {
    if let Some(bot) = caller.bot() {
        if steers.is_some() {
            // Bots request no replies.
            return Err(ChatError::NoSuchReply);
        }
        let Conversation::Thread(thread) = conversation else {
            return Err(ChatError::ForkNotFound);
        };
        let new = KeyPost {
            parent,
            client_id: client_id.map(str::to_owned),
            ..KeyPost::default()
        };
        return post_with_key(c, caller, bot, thread, text, new).await;
    }
    let access = access::find_conversation(c, caller, conversation).await?;
    access.channel_access.actor.require(Scope::ChatWrite)?;
    crate::db::dialect::lock_workspace(c, access.channel_access.actor.workspace.0).await?;
    let id = MessageId::new();
    let name = match conversation {
        Conversation::Thread(id) => id.to_string(),
        Conversation::Fork(id) => id.to_string(),
    };
    if let Some(known) =
        claim_client_id(c, &access.channel_access.actor, client_id, &name, id.0).await?
    {
        return stored(c, known, false).await;
    }
    let access = access.writing()?;
    channels::check_has_reader(c, &access.channel_access).await?;
    if let Some(parent) = parent {
        parent_in(c, caller, &access, parent).await?;
    }
    let steered = match steers {
        Some(task) => Some(steer::find_steered(c, &access, task).await?),
        None => None,
    };
    if !access.channel_access.joined {
        channels::join(
            c,
            access.channel_access.actor.workspace,
            access.channel_access.channel,
            caller.user,
        )
        .await?;
    }
    let draft = PostDraft {
        access: &access,
        message: id,
        parent,
        text,
        client_id,
        channel_agent: channels::find_agent(c, &access.channel_access).await?,
        root_agent: None,
        steers,
    };
    let (message, tasks) = commit_post(c, draft, None).await?;
    if let Some(task) = steered {
        steer::steer(c, &access, &task, &message).await?;
    }
    Ok(Posted {
        message,
        tasks,
        thread: None,
        created: true,
    })
}
