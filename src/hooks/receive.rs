//! Posts what a program sent.

use std::time::Duration;

use uuid::Uuid;

use super::{
    error::{HookError, HookFault},
    object::BotStatus,
    requests::{ReceivedRequest, RequestOutcome, record},
    template::HookTemplate,
    ts::{SlackTs, find_by_ts},
};
use crate::{
    auth::{Actor, Role, Scopes, hash_token},
    chat::{
        ChatError,
        messages::{Message, MessageMetadata, Text},
        post::{BotPost, MentionLimit, find_client_id, post_as_bot},
        threads::ThreadStatus,
    },
    db::{Conn, Db, DbError, Json, dialect, now},
    files::{self, NewFile},
    ids::{BotId, ChannelId, HookId, HookRequestId, ThreadId, UserId, WorkspaceId},
};

/// Time for which messages with the same key are posted in one thread.
const THREADS_FOR: Duration = Duration::from_hours(24 * 30);

/// A webhook that a secret belongs to.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct FoundHook {
    pub id: HookId,
    pub workspace_id: WorkspaceId,
    pub bot_id: BotId,
    /// Slug of the workspace.
    pub slug: String,
    pub template: Option<Json<HookTemplate>>,
    pub secret_set: bool,
    /// True if the bot's program gets presses of buttons.
    pub gets_presses: bool,
}

/// Finds the webhook with this secret.
///
/// # Errors
/// Only database errors.
pub async fn find(c: &mut Conn, secret: &str) -> Result<Option<FoundHook>, DbError> {
    c.q("select h.id, h.workspace_id, h.bot_id, h.template, h.secret_set, w.slug, \
         exists (select 1 from bot_subscriptions s where s.bot_id = h.bot_id) as gets_presses from hooks h join workspaces w on w.id = h.workspace_id where h.secret_hash = $1")
        .bind(hash_token(secret))
        .opt()
        .await
}

/// Origin of a message.
#[derive(Debug, Clone)]
pub enum PostedBy {
    /// A program with the secret of the webhook, which is checked again in the transaction.
    Program { secret: String },
    /// A person who posts a request again and whose access was checked in the same transaction.
    Person,
}

/// A message to post.
#[derive(Debug, Clone)]
pub struct Post {
    pub hook: HookId,
    pub sender: PostedBy,
    /// Request, to be stored with the message.
    pub attempt: ReceivedRequest,
    pub text: Text,
    /// Files whose bytes are stored; they are attached to the message.
    pub files: Vec<NewFile>,
    pub metadata: MessageMetadata,
    pub thread_key: Option<String>,
    /// Slack's `ts` of a message of the thread to answer.
    pub thread_ts: Option<String>,
    pub client_id: Option<String>,
    /// Name or ID of one of the webhook's channels.
    pub channel: Option<String>,
}

/// Outcome of a post.
#[derive(Debug)]
pub enum Delivered {
    Posted {
        message: Box<Message>,
        request: HookRequestId,
        notes: Vec<String>,
        /// Uploads whose bytes the files use, in their order.
        uploads: Vec<Uuid>,
    },
    Refused(HookFault),
}

#[derive(sqlx::FromRow)]
struct Row {
    id: HookId,
    workspace_id: WorkspaceId,
    bot_id: BotId,
    channel_id: ChannelId,
    other_channel_ids: Json<Vec<ChannelId>>,
    may_notify: MentionLimit,
    secret_hash: String,
    created_by: UserId,
    status: BotStatus,
}

/// The open thread of a key.
async fn thread_of(c: &mut Conn, hook: &Row, key: &str) -> Result<Option<ThreadId>, DbError> {
    let row: Option<(ThreadId,)> = c
        .q("select k.thread_id from hook_threads k join threads t on t.id = k.thread_id \
            join messages m on m.id = t.root_message_id \
            where k.hook_id = $1 and k.thread_key = $2 and k.created_at > $3 and t.channel_id = $4 and t.status = $5 \
            and m.deleted_at is null")
        .bind(hook.id)
        .bind(key.to_owned())
        .bind(now() - THREADS_FOR)
        .bind(hook.channel_id)
        .bind(ThreadStatus::Open)
        .opt()
        .await?;
    Ok(row.map(|row| row.0))
}

/// The open thread of a message in the webhook's channel.
async fn thread_at(c: &mut Conn, hook: &Row, ts: &str) -> Result<Option<ThreadId>, DbError> {
    let Some(ts) = SlackTs::parse(ts) else {
        return Ok(None);
    };
    let Some((_, thread)) = find_by_ts(c, hook.channel_id, ts).await? else {
        return Ok(None);
    };
    let is_open: bool = c
        .q(
            "select exists (select 1 from threads t join messages m on m.id = t.root_message_id \
            where t.id = $1 and t.status = $2 and m.deleted_at is null)",
        )
        .bind(thread)
        .bind(ThreadStatus::Open)
        .value()
        .await?;
    Ok(is_open.then_some(thread))
}

/// Chooses the channel that the message names, if the webhook can post there.
async fn choose_channel(
    c: &mut Conn,
    hook: &Row,
    wanted: &str,
) -> Result<Option<ChannelId>, DbError> {
    let name = wanted.trim_start_matches('#');
    // Slack's Web API shows an ID as `C` and its characters in capitals.
    let typed = match wanted.strip_prefix('C') {
        Some(suffix) => format!("chan_{}", suffix.to_ascii_lowercase()),
        None => wanted.to_owned(),
    };
    let mut all = vec![hook.channel_id];
    all.extend(&hook.other_channel_ids.0);
    for id in all {
        let found: Option<(String,)> = c
            .q("select name from channels where id = $1 and workspace_id = $2 and archived_at is null")
            .bind(id)
            .bind(hook.workspace_id)
            .opt()
            .await?;
        if found.is_some_and(|found| found.0 == name || id.to_string() == typed) {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// Posts a message in the webhook's channel.
///
/// # Errors
/// `ChannelArchived`, `ClientIdReused`, `QuotaExceeded`.
pub async fn post(
    c: &mut Conn,
    workspace: WorkspaceId,
    post: &Post,
) -> Result<Delivered, HookError> {
    dialect::lock_workspace(c, workspace.0).await?;
    let hook: Option<Row> = c
        .q("select h.id, h.workspace_id, h.bot_id, h.channel_id, h.other_channel_ids, h.may_notify, h.secret_hash, h.created_by, b.status \
            from hooks h join bots b on b.id = h.bot_id where h.id = $1 and h.workspace_id = $2")
        .bind(post.hook)
        .bind(workspace)
        .opt()
        .await?;
    let mut hook = hook.filter(|hook| match &post.sender {
        PostedBy::Program { secret } => hash_token(secret) == hook.secret_hash,
        PostedBy::Person => true,
    });
    let Some(hook) = hook.as_mut() else {
        return Ok(Delivered::Refused(HookFault::NoService));
    };
    if hook.status == BotStatus::Paused {
        return Ok(Delivered::Refused(HookFault::ActionProhibited));
    }
    let mut attempt = post.attempt.clone();
    if let Some(wanted) = &post.channel {
        if let Some(channel) = choose_channel(c, hook, wanted).await? {
            hook.channel_id = channel;
        } else {
            let own: String = c
                .q("select name from channels where id = $1")
                .bind(hook.channel_id)
                .value()
                .await?;
            attempt.note_channel(wanted, &own);
        }
    }
    let thread = match (&post.thread_key, &post.thread_ts) {
        (Some(key), _) => thread_of(c, hook, key).await?,
        (None, Some(ts)) => {
            let found = thread_at(c, hook, ts).await?;
            if found.is_none() {
                attempt.note_thread(ts);
            }
            found
        }
        (None, None) => None,
    };
    let (mut text, mut uploads) = (post.text.clone(), Vec::new());
    let actor = Actor {
        user: UserId(hook.bot_id.0),
        name: "",
        workspace: hook.workspace_id,
        role: Role::Viewer,
        scopes: Scopes::default(),
        key: None,
    };
    let place = hook.channel_id.to_string();
    let known = match &post.client_id {
        Some(client_id) => find_client_id(c, &actor, client_id, &place).await?,
        None => None,
    };
    // A message that is sent again has its files already.
    for file in post.files.iter().filter(|_| known.is_none()) {
        let inserted = files::insert(c, &actor, file).await;
        let (stored, upload) = inserted.map_err(ChatError::from)?;
        text.files.push(stored.id);
        uploads.push(upload);
    }
    let new = BotPost {
        workspace: hook.workspace_id,
        channel: hook.channel_id,
        thread,
        parent: None,
        title: None,
        bot: hook.bot_id,
        hook: Some(hook.id),
        creator: hook.created_by,
        text: &text,
        may_notify: hook.may_notify,
        metadata: post.metadata.clone(),
        client_id: post.client_id.as_deref(),
    };
    let message = post_as_bot(c, new).await?;
    let at = now();
    if let Some(key) = post.thread_key.as_ref().filter(|_| thread.is_none()) {
        c.q("insert into hook_threads (hook_id, thread_key, thread_id, created_at) values ($1, $2, $3, $4) \
             on conflict (hook_id, thread_key) do update set thread_id = excluded.thread_id, created_at = excluded.created_at")
            .bind(hook.id)
            .bind(key.clone())
            .bind(message.thread_id)
            .bind(at)
            .run()
            .await?;
    }
    for (sql, id) in [
        (
            "update hooks set last_used_at = $2 where id = $1",
            hook.id.0,
        ),
        (
            "update bots set last_used_at = $2 where id = $1",
            hook.bot_id.0,
        ),
    ] {
        c.q(sql).bind(id).bind(at).run().await?;
    }
    let request = record(c, hook.id, &attempt, RequestOutcome::Posted(message.id)).await?;
    Ok(Delivered::Posted {
        message: Box::new(message),
        request,
        notes: attempt.notes,
        uploads,
    })
}

/// Deletes keys whose threads are too old to be answered.
///
/// # Errors
/// Only database errors.
pub async fn delete_old_threads(db: &Db) -> Result<(), DbError> {
    db.delete_expired(
        now() - THREADS_FOR,
        "select exists (select 1 from hook_threads where created_at < $1)",
        "delete from hook_threads where (hook_id, thread_key) in \
         (select hook_id, thread_key from hook_threads where created_at < $1 order by created_at limit $2)",
    )
    .await?;
    Ok(())
}
