//! Messages of bots. They never invoke an agent, and start only workflows whose owners chose that.

use super::{
    insert::{NewMessage, insert_post},
    mentioned::{
        KEY_MENTIONS, MentionLimit, ResolvedMentions, insert_mention_targets, resolve_mentions,
    },
    resend::{Posted, claim_client_id, find_client_id, parent_in, stored},
};
use crate::{
    auth::{Actor, Caller, Role, Scope, Scopes},
    chat::{
        ChatError,
        access::{self, ThreadAccess},
        channels,
        event::ThreadEvent,
        follows, forks,
        inbox::{self, posted::Addressed},
        rows::{
            channel::ChannelKind,
            message::{AuthorKind, Message, MessageKind, MessageMetadata, MessageState},
            thread::{BoundBy, ThreadMemory, get_thread},
        },
        search::index::{self, ThreadRoot},
        text::Text,
        threads::{self, ThreadOrigin, ThreadStart},
    },
    db::{Conn, dialect, now},
    files,
    ids::{BotId, ChannelId, HookId, MessageId, ThreadId, UserId, WorkspaceId},
    realtime::{EventType, NewEvent, log},
    tasks::queue,
    time::Timestamp,
    workflows::on_message::{self, MessageSender, PostedIn},
};

/// A message by a bot.
#[derive(Debug)]
pub struct BotPost<'a> {
    pub workspace: WorkspaceId,
    pub channel: ChannelId,
    /// `None` starts a thread.
    pub thread: Option<ThreadId>,
    pub parent: Option<MessageId>,
    /// Title of a new thread.
    pub title: Option<&'a str>,
    pub bot: BotId,
    /// The webhook, unless the program has a key of the bot.
    pub hook: Option<HookId>,
    /// Creator of a new thread.
    pub creator: UserId,
    pub text: &'a Text,
    pub may_notify: MentionLimit,
    pub metadata: MessageMetadata,
    pub client_id: Option<&'a str>,
}

/// Resolves the mentions that may notify someone. Mentions of agents are text.
async fn resolve(
    c: &mut Conn,
    actor: &Actor<'_>,
    post: &BotPost<'_>,
) -> Result<ResolvedMentions, ChatError> {
    if post.may_notify == MentionLimit::Nobody {
        return Ok(ResolvedMentions::default());
    }
    let mut found = resolve_mentions(c, actor, post.channel, post.text, None).await?;
    found.limit_to(post.may_notify);
    Ok(found)
}

/// A message that a program posts with a bot's key.
#[derive(Debug, Clone, Default)]
pub struct KeyPost {
    pub parent: Option<MessageId>,
    /// Title of a new thread.
    pub title: Option<String>,
    pub metadata: MessageMetadata,
    pub client_id: Option<String>,
}

/// Posts in the main line of a thread that the bot can see.
///
/// # Errors
/// `ThreadNotFound`, `ClientIdReused`, `QuotaExceeded`, `Invalid` for the parent, or any error from `writing`.
pub async fn post_with_key(
    c: &mut Conn,
    caller: &Caller,
    bot: BotId,
    thread: ThreadId,
    text: &Text,
    new: KeyPost,
) -> Result<Posted, ChatError> {
    let access = access::thread(c, caller, thread).await?.writing()?;
    dialect::lock_workspace(c, access.channel_access.actor.workspace.0).await?;
    if let Some(parent) = new.parent {
        parent_in(c, caller, &access, parent).await?;
    }
    let ThreadAccess { channel_access, .. } = access;
    insert_with_key(c, &channel_access, bot, Some(thread), text, new).await
}

/// Starts a thread in a channel that the bot is in.
///
/// # Errors
/// `ChannelNotFound`, `ClientIdReused`, `QuotaExceeded`, or any error from `writing`.
pub async fn start_with_key(
    c: &mut Conn,
    caller: &Caller,
    bot: BotId,
    channel: ChannelId,
    text: &Text,
    new: KeyPost,
) -> Result<Posted, ChatError> {
    let access = access::channel(c, caller, channel).await?.writing()?;
    dialect::lock_workspace(c, access.actor.workspace.0).await?;
    let mut posted = insert_with_key(c, &access, bot, None, text, new).await?;
    posted.thread = Some(get_thread(c, posted.message.thread_id).await?);
    Ok(posted)
}

async fn insert_with_key(
    c: &mut Conn,
    access: &access::ChannelAccess<'_>,
    bot: BotId,
    thread: Option<ThreadId>,
    text: &Text,
    new: KeyPost,
) -> Result<Posted, ChatError> {
    access.actor.require(Scope::ChatWrite)?;
    channels::check_has_reader(c, access).await?;
    let creator: UserId = c
        .q("select created_by from bots where id = $1")
        .bind(bot)
        .value()
        .await?;
    let client_id = new.client_id.as_deref();
    let place = access.channel.to_string();
    let known = match client_id {
        Some(client_id) => find_client_id(c, &access.actor, client_id, &place).await?,
        None => None,
    };
    let post = BotPost {
        workspace: access.actor.workspace,
        channel: access.channel,
        thread,
        parent: new.parent,
        title: new.title.as_deref(),
        bot,
        hook: None,
        creator,
        text,
        may_notify: KEY_MENTIONS,
        metadata: new.metadata,
        client_id,
    };
    let message = post_as_bot(c, post).await?;
    c.q("update bots set last_used_at = $2 where id = $1")
        .bind(bot)
        .bind(now())
        .run()
        .await?;
    Ok(Posted {
        message,
        tasks: Vec::new(),
        thread: None,
        created: known.is_none(),
    })
}

/// Announces the thread that the message starts.
async fn start_thread(
    c: &mut Conn,
    post: &BotPost<'_>,
    thread: ThreadId,
    root: MessageId,
) -> Result<(), ChatError> {
    let origin = ThreadOrigin {
        workspace: post.workspace,
        channel: post.channel,
        created_by: post.creator,
    };
    let start = ThreadStart {
        id: thread,
        root,
        title: post.title,
        memory: ThreadMemory::On,
        base: None,
    };
    let audience = queue::audience_of(c, post.channel).await?;
    let mut row = threads::insert(c, origin, start, None, BoundBy::Person).await?;
    let seq = log::reserve(c, post.workspace, 1).await?;
    // The workspace is locked, so the first message gets the next number.
    row.last_seq = seq + 1;
    let body = ThreadEvent { thread: &row };
    let event = NewEvent::new(seq, EventType::ThreadCreated, audience, &body)?
        .in_conversation(thread, None);
    Ok(log::append(c, post.workspace, event).await?)
}

/// Posts a message in the main line of a thread, or in a new thread. The workspace must be locked, and the caller must have checked
/// that the bot can post there and that the thread is open. A repeated client ID returns the first message.
///
/// # Errors
/// `ChannelNotFound`, `ChannelArchived`, `ClientIdReused`, `QuotaExceeded`.
pub async fn post_as_bot(c: &mut Conn, post: BotPost<'_>) -> Result<Message, ChatError> {
    let actor = Actor {
        user: UserId(post.bot.0),
        name: "",
        workspace: post.workspace,
        role: Role::Viewer,
        scopes: Scopes::default(),
        key: None,
    };
    let id = MessageId::new();
    let place = post.channel.to_string();
    if let Some(known) = claim_client_id(c, &actor, post.client_id, &place, id.0).await? {
        return Ok(stored(c, known, false).await?.message);
    }
    let channel: Option<(ChannelKind, Option<Timestamp>)> = c
        .q("select kind, archived_at from channels where id = $1 and workspace_id = $2")
        .bind(post.channel)
        .bind(post.workspace)
        .opt()
        .await?;
    let (kind, archived_at) = channel.ok_or(ChatError::ChannelNotFound)?;
    if archived_at.is_some() {
        return Err(ChatError::ChannelArchived);
    }
    let (starts_thread, title) = (post.thread.is_none(), post.title);
    let thread = post.thread.unwrap_or_default();
    let found = resolve(c, &actor, &post).await?;
    if starts_thread {
        start_thread(c, &post, thread, id).await?;
    }
    let audience = queue::audience_of(c, post.channel).await?;
    let seq = log::reserve(c, post.workspace, 1).await?;
    let attachments = files::attach(c, &actor, id, &post.text.files).await?;
    let new = NewMessage {
        id,
        workspace: post.workspace,
        channel: post.channel,
        thread,
        fork: None,
        parent: post.parent,
        author_type: AuthorKind::Bot,
        author: Some(post.bot.0),
        kind: MessageKind::Text,
        state: MessageState::Complete,
        content: post.text.content.clone(),
        plain: post.text.plain.clone(),
        mentions: found.mentions.clone(),
        attachments,
        metadata: post.metadata,
        client_id: post.client_id.map(str::to_owned),
    };
    let message = insert_post(c, seq, &new, audience).await?;
    let root = if starts_thread {
        ThreadRoot::Thread(title)
    } else {
        ThreadRoot::Nothing
    };
    index::add(c, &message, &post.text.search_document, root).await?;
    insert_mention_targets(c, &message, &found).await?;
    if !found.people.is_empty() {
        let place = inbox::posted::place_of(&message);
        follows::follow_as_mentioned(c, place, &found.people).await?;
    }
    let to = Addressed {
        people: &found.people,
        everyone: found.everyone,
        starts_thread,
    };
    inbox::posted::open_for_message(c, &message, kind, to).await?;
    forks::on_message_posted(c, &message, audience).await?;
    let posted = PostedIn {
        workspace: post.workspace,
        channel: post.channel,
        thread,
        message: message.id,
        content: &message.content,
        sender: MessageSender::Bot {
            id: post.bot,
            hook: post.hook,
        },
        starts_thread,
    };
    on_message::start_for_message(c, posted).await?;
    Ok(message)
}
