//! Tools that read. Channels and people are identified by ID, handle, or name.

use axum::Json;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    auth::{Actor, Scope, WorkspaceCaller},
    chat::{
        ChatError, access,
        channels::ListedChannel,
        messages::{self, AuthorKind},
        search::{
            find,
            task::{self, TaskHit, TaskMessage, TaskSearch},
        },
        threads::MyThread,
    },
    cursor::PageRange,
    db::Conn,
    forks::{
        items::{self, ActionItem, OwnedBy},
        resolution::Resolution,
    },
    http::{
        ApiError, ErrorCode,
        extract::Query,
        page::{self, Limit, List, PageQuery},
    },
    ids::{ActionItemId, ChannelId, FileId, ForkId, MessageId, ThreadId, UserId},
    realtime::hub::Conversation,
    routes::{
        chat::{self, ThreadsQuery},
        files,
        forks::{self, DecisionsQuery},
    },
    server::State,
    time::Timestamp,
    tools::{
        builtin::{files::read_part, places},
        rights::Rights,
        runner::CallError,
    },
};

/// Default number of hits, decisions, or action items; `FOUND_MAX` is the maximum.
const FOUND: i64 = 8;
const FOUND_MAX: i64 = 20;
/// Maximum number of messages returned for a thread.
const MESSAGES_MAX: usize = 50;
/// Maximum total size of the texts of these messages in bytes: four messages of the maximum size, which is more than most clients
/// pass to a model.
const THREAD_BYTES_MAX: usize = 128 * 1024;

/// A message as plain text.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct McpMessage {
    id: MessageId,
    thread_id: ThreadId,
    /// The fork that contains the message.
    fork_id: Option<ForkId>,
    /// Null for a direct channel.
    channel_name: Option<String>,
    author_type: AuthorKind,
    author_name: Option<String>,
    content: String,
    files: Vec<McpFile>,
    created_at: Timestamp,
}

#[derive(Serialize, utoipa::ToSchema)]
struct McpFile {
    id: FileId,
    name: String,
}

impl McpMessage {
    fn new(message: TaskMessage, content: String) -> Self {
        let is_fork = message.conversation_id != message.thread_id.0;
        let files = message.attachments.0.into_iter();
        Self {
            id: message.id,
            thread_id: message.thread_id,
            fork_id: is_fork.then_some(ForkId(message.conversation_id)),
            channel_name: message.channel_name,
            author_type: message.author_type,
            author_name: message.author_name,
            content,
            files: files
                .map(|file| McpFile {
                    id: file.id,
                    name: file.name,
                })
                .collect(),
            created_at: message.created_at,
        }
    }

    fn whole(mut message: TaskMessage) -> Self {
        let content = std::mem::take(&mut message.content_plain);
        Self::new(message, content)
    }

    fn beginning(message: TaskMessage) -> Self {
        let content = message.beginning();
        Self::new(message, content)
    }
}

/// Enters the workspace as a reader.
///
/// # Errors
/// `ScopeMissing`, or any error from `Caller::enter`.
async fn reader<'a>(c: &mut Conn, member: &'a WorkspaceCaller) -> Result<Actor<'a>, ApiError> {
    let actor = member.enter(c).await?;
    actor.require(Scope::ChatRead)?;
    Ok(actor)
}

/// # Errors
/// `InvalidLimit`.
fn limit_of(given: Option<i64>, max: i64) -> Result<Option<Limit>, ApiError> {
    let limit = |n: i64| {
        let limit = Limit::new(n).filter(|_| n <= max);
        limit.ok_or_else(|| {
            let text = format!("limit must be a number from 1 to {max}, not {n}");
            ApiError::invalid(ErrorCode::InvalidLimit, text, "limit")
        })
    };
    given.map(limit).transpose()
}

/// Converts an error for a name that was not found, with the error code that the routes use.
fn not_found(e: CallError, code: ErrorCode, param: &'static str) -> ApiError {
    match e {
        CallError::Db(e) => e.into(),
        CallError::Fault { fault, .. } => ApiError::not_found(code, fault.message).param(param),
    }
}

/// Rights of a caller whose results nobody else reads.
fn own_rights(actor: &Actor<'_>) -> Rights {
    Rights {
        requester: actor.user,
        shared_in: None,
    }
}

/// # Errors
/// `ChannelNotFound`, also for a channel that the caller cannot see.
pub(super) async fn find_channel(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: Option<&str>,
) -> Result<Option<ChannelId>, ApiError> {
    let Some(named) = named else {
        return Ok(None);
    };
    let found = places::channel(c, actor.workspace, &own_rights(actor), named).await;
    found
        .map(Some)
        .map_err(|e| not_found(e, ErrorCode::ChannelNotFound, "channel"))
}

/// # Errors
/// `MemberNotFound`.
async fn find_person(
    c: &mut Conn,
    actor: &Actor<'_>,
    named: &str,
    param: &'static str,
) -> Result<Uuid, ApiError> {
    let found = places::author(c, actor.workspace, &own_rights(actor), named).await;
    found.map_err(|e| not_found(e, ErrorCode::MemberNotFound, param))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MessageSearch {
    /// Words to search for, in any of their forms.
    #[schema(max_length = 500)]
    query: String,
    /// Name or ID of a channel.
    channel: Option<String>,
    /// Name, handle, or ID of a person or an agent.
    author: Option<String>,
    /// `YYYY-MM-DD`: only messages from this day (UTC) or later.
    after: Option<String>,
    /// `YYYY-MM-DD`: only messages before this day (UTC).
    before: Option<String>,
    /// 8 by default.
    #[schema(minimum = 1, maximum = 20)]
    limit: Option<i64>,
}

/// Matching messages, best first.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct McpHits {
    hits: Vec<McpHit>,
}

#[derive(Serialize, utoipa::ToSchema)]
struct McpHit {
    /// The message, with only the part of its text around the first match.
    message: McpMessage,
    /// The preceding message in the conversation, shortened.
    before: Option<McpMessage>,
    after: Option<McpMessage>,
}

impl From<TaskHit> for McpHit {
    fn from(hit: TaskHit) -> Self {
        Self {
            message: McpMessage::new(hit.message, hit.passage),
            before: hit.before.map(McpMessage::beginning),
            after: hit.after.map(McpMessage::beginning),
        }
    }
}

/// # Errors
/// `InvalidQuery`, `InvalidLimit`, `ChannelNotFound`, `MemberNotFound`, or any error from `reader`.
pub(super) async fn search_messages(
    state: &State,
    member: &WorkspaceCaller,
    form: MessageSearch,
) -> Result<McpHits, ApiError> {
    let limit = Limit::or(limit_of(form.limit, FOUND_MAX)?, FOUND);
    let question = find::parse_question(Some(&form.query));
    let question = question.map_err(|e| ApiError::from(e).param("query"))?;
    if question.is_empty() {
        let text = "the search is empty: enter a word".to_owned();
        return Err(ApiError::invalid(ErrorCode::InvalidQuery, text, "query"));
    }
    let since = find::parse_moment(form.after.as_deref(), "after")?;
    let until = find::parse_moment(form.before.as_deref(), "before")?;
    let mut c = state.db.scan(member.share()).await?;
    let actor = reader(&mut c, member).await?;
    let channel = find_channel(&mut c, &actor, form.channel.as_deref()).await?;
    let author = match form.author.as_deref() {
        Some(named) => Some(find_person(&mut c, &actor, named, "author").await?),
        None => None,
    };
    let search = TaskSearch {
        workspace: actor.workspace,
        requester: actor.user,
        shared_in: None,
        query: &form.query,
        channels: channel.into_iter().collect(),
        author,
        since,
        until,
        limit: usize::try_from(limit).unwrap_or(1),
        score_share: 0.0,
        question: MessageId(Uuid::nil()),
    };
    let hits = task::find_messages(&mut c, &search).await?;
    Ok(McpHits {
        hits: hits.into_iter().map(McpHit::from).collect(),
    })
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ThreadPart {
    /// ID of a thread, of a fork, or of a message in a thread or fork.
    thread: String,
    /// ID of a message; only earlier messages are returned.
    before: Option<MessageId>,
}

/// Messages of a conversation, oldest first.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct McpThread {
    thread_id: ThreadId,
    fork_id: Option<ForkId>,
    messages: Vec<McpMessage>,
    /// True if there are earlier messages; pass the ID of the first message as `before`.
    has_more: bool,
}

/// # Errors
/// `ThreadNotFound`, `ForkNotFound`, `MessageNotFound`, `InvalidField`, or any error from `reading`.
pub(super) async fn read_thread(
    state: &State,
    member: &WorkspaceCaller,
    form: ThreadPart,
) -> Result<McpThread, ApiError> {
    let mut c = state.db.snapshot().await?;
    let (caller, named) = (&member.caller, form.thread.as_str());
    let found = if let Ok(id) = MessageId::parse(named) {
        access::message(&mut c, caller, id).await
    } else if let Ok(id) = ForkId::parse(named) {
        access::fork(&mut c, caller, id).await
    } else {
        let id = ThreadId::parse(named)
            .map_err(|e| ApiError::malformed_field(e.to_string(), "thread"))?;
        access::thread(&mut c, caller, id).await
    };
    let found = found?.reading()?;
    let conversation = found.conversation();
    let (thread_id, fork_id) = (found.thread, found.fork_id());
    let below = match form.before {
        Some(message) => messages::conversation_seq(&mut c, conversation, message)
            .await?
            .ok_or(ChatError::MessageNotFound)?,
        None => i64::MAX,
    };
    let id = match conversation {
        Conversation::Thread(id) => id.0,
        Conversation::Fork(id) => id.0,
    };
    let one_more = i64::try_from(MESSAGES_MAX + 1).unwrap_or(i64::MAX);
    let mut rows = task::list_messages(&mut c, id, below, one_more).await?;
    let left_out = left_out(rows.iter().map(|row| row.content_plain.len()));
    Ok(McpThread {
        thread_id,
        fork_id,
        messages: rows.drain(left_out..).map(McpMessage::whole).collect(),
        has_more: left_out > 0,
    })
}

/// Returns the number of older messages to leave out so that the rest fit into a result. `sizes` contains the sizes of all texts in
/// bytes, oldest first. The newest message is always returned.
fn left_out(sizes: impl DoubleEndedIterator<Item = usize> + ExactSizeIterator) -> usize {
    let total = sizes.len();
    let newest = sizes.rev().scan(0, |sum, size| {
        *sum += size;
        Some(*sum)
    });
    let returned = newest
        .take(MESSAGES_MAX)
        .take_while(|sum| *sum <= THREAD_BYTES_MAX)
        .count();
    total.saturating_sub(returned.max(1))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DecisionSearch {
    /// Only decisions that contain all of these words.
    query: Option<String>,
    /// Name or ID of a channel.
    channel: Option<String>,
    /// 8 by default.
    #[schema(minimum = 1, maximum = 20)]
    limit: Option<i64>,
}

/// # Errors
/// Same as for `GET /v1/decisions`.
pub(super) async fn search_decisions(
    state: &State,
    member: &WorkspaceCaller,
    form: DecisionSearch,
) -> Result<List<Resolution>, ApiError> {
    let limit = limit_of(form.limit.or(Some(FOUND)), FOUND_MAX)?;
    let mut c = state.db.read().await?;
    let actor = reader(&mut c, member).await?;
    let channel_id = find_channel(&mut c, &actor, form.channel.as_deref()).await?;
    drop(c);
    let query = DecisionsQuery {
        q: form.query,
        channel_id,
        limit,
        cursor: None,
    };
    let state = axum::extract::State(state.clone());
    let listed = forks::list_decisions(state, member.clone(), Query(query)).await;
    let Json(list) = listed.map_err(|e| e.rename_param(argument_of))?;
    Ok(list)
}

/// Returns the name of the tool argument for a parameter of the route.
fn argument_of(parameter: &str) -> String {
    let name = match parameter {
        "q" => "query",
        same => same,
    };
    name.to_owned()
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ItemsFilter {
    /// `me`, `none`, or the name, handle, or ID of a member; all owners if omitted.
    owner: Option<String>,
    /// `true` for done items, `false` for open ones; both if omitted.
    done: Option<bool>,
    /// 8 by default.
    #[schema(minimum = 1, maximum = 20)]
    limit: Option<i64>,
}

/// Action items, newest first.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct McpItems {
    action_items: Vec<ActionItem>,
}

/// # Errors
/// `InvalidLimit`, `MemberNotFound`, or any error from `reader`.
pub(super) async fn list_action_items(
    state: &State,
    member: &WorkspaceCaller,
    form: ItemsFilter,
) -> Result<McpItems, ApiError> {
    let limit = Limit::or(limit_of(form.limit, FOUND_MAX)?, FOUND);
    let mut c = state.db.scan(member.share()).await?;
    let actor = reader(&mut c, member).await?;
    let owner = match form.owner.as_deref() {
        None => OwnedBy::Anyone,
        Some("me") => OwnedBy::Member(actor.user),
        Some("none") => OwnedBy::Nobody,
        Some(named) => {
            let person = find_person(&mut c, &actor, named, "owner").await?;
            OwnedBy::Member(UserId(person))
        }
    };
    let filter = items::Filter {
        owner,
        done: form.done,
        channel: None,
    };
    // The last items before the greatest possible ID are the newest ones.
    let newest = PageRange {
        after: None,
        before: Some(ActionItemId(Uuid::max())),
    };
    let (workspace, user) = (actor.workspace, actor.user);
    let mut action_items = items::list(&mut c, workspace, user, &filter, newest, limit).await?;
    action_items.reverse();
    Ok(McpItems { action_items })
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FilePart {
    /// ID of a file.
    file: FileId,
    /// Position in bytes; 0 by default.
    #[serde(default)]
    offset: u64,
}

/// Part of a text file.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct McpFileText {
    id: FileId,
    name: String,
    size_bytes: u64,
    /// Position of the first byte.
    offset: u64,
    text: String,
    /// The `offset` of the next part; null at the end of the file.
    next_offset: Option<u64>,
}

/// # Errors
/// `FileNotFound`, or any error from `Actor::require`; `Unreadable` for a file that is not UTF-8 text.
pub(super) async fn read_file(
    state: &State,
    member: &WorkspaceCaller,
    form: FilePart,
) -> Result<McpFileText, ApiError> {
    let stored = files::readable(state, &member.caller, form.file).await?;
    let part = read_part(&state.blobs, &stored, form.offset).await;
    let part = part.map_err(|_| {
        let text = "the file is not UTF-8 text, or its bytes are missing".to_owned();
        ApiError::unprocessable(ErrorCode::Unreadable, text).param("file")
    })?;
    Ok(McpFileText {
        id: stored.about.id,
        name: stored.about.name,
        size_bytes: part.size,
        next_offset: part.next_offset(),
        offset: part.from,
        text: part.text,
    })
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ChannelsPage {
    /// 20 by default.
    #[schema(minimum = 1, maximum = 100)]
    limit: Option<i64>,
    /// ID of a channel; only channels created after it are returned.
    after: Option<ChannelId>,
}

/// # Errors
/// Same as for `GET /v1/channels`.
pub(super) async fn list_channels(
    state: &State,
    member: &WorkspaceCaller,
    form: ChannelsPage,
) -> Result<List<ListedChannel>, ApiError> {
    let query = PageQuery {
        limit: limit_of(form.limit, page::LIMIT_MAX)?,
        after: form.after,
        before: None,
    };
    let state = axum::extract::State(state.clone());
    let Json(list) = chat::list_channels(state, member.clone(), Query(query)).await?;
    Ok(list)
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ThreadsPage {
    /// Name or ID of a channel.
    channel: String,
    /// 20 by default.
    #[schema(minimum = 1, maximum = 100)]
    limit: Option<i64>,
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
}

/// # Errors
/// Same as for `GET /v1/channels/{id}/threads`.
pub(super) async fn list_threads(
    state: &State,
    member: &WorkspaceCaller,
    form: ThreadsPage,
) -> Result<List<MyThread>, ApiError> {
    let query = ThreadsQuery {
        limit: limit_of(form.limit, page::LIMIT_MAX)?,
        cursor: form.cursor,
        filter: None,
    };
    let mut c = state.db.read().await?;
    let actor = reader(&mut c, member).await?;
    let channel = find_channel(&mut c, &actor, Some(&form.channel)).await?;
    drop(c);
    let channel = channel.ok_or(ChatError::ChannelNotFound)?;
    let (state, caller) = (axum::extract::State(state.clone()), member.caller.clone());
    let path = crate::http::extract::Path(channel);
    let Json(list) = chat::list_threads(state, caller, path, Query(query)).await?;
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_has_the_newest_messages_up_to_a_number_and_a_size() {
        let left_out_of = |sizes: &[usize]| left_out(sizes.iter().copied());
        assert_eq!(left_out_of(&[]), 0);
        assert_eq!(left_out_of(&[1; MESSAGES_MAX]), 0);
        assert_eq!(left_out_of(&[1; MESSAGES_MAX + 1]), 1);
        assert_eq!(left_out_of(&[THREAD_BYTES_MAX + 1]), 0);
        assert_eq!(left_out_of(&[1, THREAD_BYTES_MAX - 1, 1]), 1);
        assert_eq!(left_out_of(&[THREAD_BYTES_MAX - 2, 1, 1]), 0);
    }
}
