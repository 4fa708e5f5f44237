//! Sessions as they are stored and shown.

use openvibe_runner as runner;
use serde::{Deserialize, Serialize};

use super::{CodeError, event::CodeSessionEvent};
use crate::{
    auth::Caller,
    chat::{
        ChatError,
        access::{self, ThreadAccess},
    },
    db::{Conn, DbError, Json, is_in_visible_channel, now},
    ids::{
        ActionId, AgentId, ChannelId, CodeSessionId, ForkId, MessageId, RepositoryId, ThreadId,
        UserId, WorkspaceId,
    },
    realtime::{EventType, NewEvent, hub::Conversation, log},
    tasks::queue,
    text_enum::{constant, text_enum},
    time::Timestamp,
};

constant! { pub CodeSessionObject = "code_session" }

text_enum! {
    /// State of a session.
    pub enum SessionState {
        /// The runner prepares the copy.
        Preparing = "preparing",
        Working = "working",
        Ready = "ready",
        /// The copy was deleted; a new message begins with a new one.
        Closed = "closed",
        /// The runner has lost the copy; a new message begins with a new one.
        Lost = "lost",
    }
}

text_enum! {
    /// Change of a file.
    pub enum FileStatus {
        Added = "added",
        Modified = "modified",
        Deleted = "deleted",
        Renamed = "renamed",
    }
}

text_enum! {
    /// Result of the check after a turn.
    pub enum CodeCheckState {
        Passed = "passed",
        Failed = "failed",
        /// The repository has no check, or nothing was changed.
        None = "none",
    }
}

impl From<runner::FileStatus> for FileStatus {
    fn from(status: runner::FileStatus) -> Self {
        match status {
            runner::FileStatus::Added => Self::Added,
            runner::FileStatus::Modified => Self::Modified,
            runner::FileStatus::Deleted => Self::Deleted,
            runner::FileStatus::Renamed => Self::Renamed,
        }
    }
}

impl From<runner::CheckState> for CodeCheckState {
    fn from(state: runner::CheckState) -> Self {
        match state {
            runner::CheckState::Passed => Self::Passed,
            runner::CheckState::Failed => Self::Failed,
            runner::CheckState::None => Self::None,
        }
    }
}

/// A changed file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CodeFile {
    pub path: String,
    /// Path before the file was renamed.
    pub old_path: Option<String>,
    pub status: FileStatus,
    pub additions: i64,
    pub deletions: i64,
    pub binary: bool,
}

/// The result of the check that the runner ran after the last turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct CodeCheck {
    pub state: CodeCheckState,
    /// Duration in milliseconds.
    pub ms: i64,
}

/// The commit that was pushed last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct PushedCommit {
    pub commit: String,
    /// The pull request, or the page on which one can be opened; null if the git server named none.
    pub url: Option<String>,
    /// Tree of the commit, for its patch; null if the server does not have that.
    pub tree: Option<String>,
    /// The person who approved the push.
    pub by: Option<UserId>,
    pub at: Timestamp,
}

/// Work of an agent on a repository in a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct CodeSession {
    pub id: CodeSessionId,
    #[schema(inline)]
    pub object: CodeSessionObject,
    /// Number of the session in its repository, which is part of the name of its branch.
    pub number: i64,
    pub repository_id: RepositoryId,
    pub agent_id: AgentId,
    pub thread_id: ThreadId,
    pub fork_id: Option<ForkId>,
    pub engine: String,
    /// Commit on which the work began; null until the copy is ready.
    pub base_commit: Option<String>,
    pub state: SessionState,
    /// Number of turns on the runner that began before the turn of this session which waits for the runner; 0 if none waits.
    pub ahead: i64,
    /// Tree of the changes, as git names it; null if there are none, or if they are too large.
    pub tree: Option<String>,
    /// At most 300 files.
    pub files: Vec<CodeFile>,
    /// Number of changed files, which can be larger than that of `files`.
    pub file_count: i64,
    pub additions: i64,
    pub deletions: i64,
    /// Null before the first turn has ended.
    pub check: Option<CodeCheck>,
    /// Title of the next commit; null if there is nothing to push.
    pub title: Option<String>,
    /// Text of the next commit.
    pub body: Option<String>,
    pub branch: String,
    /// The commit that was pushed last; null if none was.
    pub pushed: Option<PushedCommit>,
    /// Notes of the runner about the last turn.
    pub notes: Vec<String>,
    /// The reply of the turn that changed the files last.
    pub reply_id: Option<MessageId>,
    /// The newest push, which people approve.
    pub action_id: Option<ActionId>,
    pub version: i64,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, sqlx::FromRow)]
pub(super) struct Row {
    pub(super) id: CodeSessionId,
    pub(super) workspace_id: WorkspaceId,
    pub(super) repository_id: RepositoryId,
    pub(super) number: i64,
    pub(super) agent_id: AgentId,
    pub(super) channel_id: ChannelId,
    pub(super) thread_id: ThreadId,
    pub(super) fork_id: Option<ForkId>,
    pub(super) engine: String,
    pub(super) state: SessionState,
    pub(super) ahead: i64,
    pub(super) base_commit: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) tree: Option<String>,
    pub(super) files: Json<Vec<CodeFile>>,
    pub(super) file_count: i64,
    pub(super) additions: i64,
    pub(super) deletions: i64,
    pub(super) check_state: CodeCheckState,
    pub(super) check_ms: i64,
    pub(super) title: Option<String>,
    pub(super) body: Option<String>,
    pub(super) reply_id: Option<MessageId>,
    pub(super) action_id: Option<ActionId>,
    /// True if the runner has to do the push.
    pub(super) push_sent: bool,
    pub(super) pushed_commit: Option<String>,
    pub(super) pushed_url: Option<String>,
    pub(super) pushed_tree: Option<String>,
    pub(super) pushed_by: Option<UserId>,
    pub(super) pushed_at: Option<Timestamp>,
    pub(super) notes: Json<Vec<String>>,
    pub(super) read_seq: i64,
    pub(super) version: i64,
    pub(super) created_at: Timestamp,
}

/// Selects sessions as `s`; the argument continues the query.
macro_rules! session_sql {
    ($tail:expr) => {
        concat!(
            "select (select count(*) from task_keys aw cross join task_keys ax cross join code_sessions ay cross join repositories az \
             where aw.session_id = s.id and aw.is_begun = FALSE and ax.created_at < aw.created_at and ay.id = ax.session_id \
             and az.id = ay.repository_id and az.runner_id = (select ar.runner_id from repositories ar where ar.id = s.repository_id)) as ahead, \
             s.id, s.workspace_id, s.repository_id, s.number, s.agent_id, s.channel_id, s.thread_id, \
             nullif(s.conversation_id, s.thread_id) as fork_id, s.engine, s.state, s.base_commit, s.parent, s.tree, s.files, s.file_count, \
             s.additions, s.deletions, s.check_state, s.check_ms, s.title, s.body, s.reply_id, s.action_id, s.push_sent, s.pushed_commit, s.pushed_url, \
             s.pushed_tree, s.pushed_by, \
             s.pushed_at, s.notes, s.read_seq, s.version, s.created_at from code_sessions s ",
            $tail
        )
    };
}

impl Row {
    pub(super) fn branch(&self) -> String {
        format!("vibe/{}", self.number)
    }

    pub(super) fn conversation(&self) -> Conversation {
        self.fork_id
            .map_or(Conversation::Thread(self.thread_id), Conversation::Fork)
    }

    /// Checks whether the session goes on with the next message.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.state, SessionState::Closed | SessionState::Lost)
    }

    pub(super) fn object(self) -> CodeSession {
        let branch = self.branch();
        let has_ended_turn = self.reply_id.is_some() || self.tree.is_some();
        CodeSession {
            id: self.id,
            object: CodeSessionObject,
            number: self.number,
            repository_id: self.repository_id,
            agent_id: self.agent_id,
            thread_id: self.thread_id,
            fork_id: self.fork_id,
            engine: self.engine,
            base_commit: self.base_commit,
            state: self.state,
            ahead: self.ahead,
            tree: self.tree,
            files: self.files.0,
            file_count: self.file_count,
            additions: self.additions,
            deletions: self.deletions,
            check: has_ended_turn.then_some(CodeCheck {
                state: self.check_state,
                ms: self.check_ms,
            }),
            title: self.title,
            body: self.body,
            branch,
            pushed: self
                .pushed_commit
                .zip(self.pushed_at)
                .map(|(commit, at)| PushedCommit {
                    commit,
                    url: self.pushed_url,
                    tree: self.pushed_tree,
                    by: self.pushed_by,
                    at,
                }),
            notes: self.notes.0,
            reply_id: self.reply_id,
            action_id: self.action_id,
            version: self.version,
            created_at: self.created_at,
        }
    }
}

pub(super) async fn find_row(c: &mut Conn, id: CodeSessionId) -> Result<Option<Row>, DbError> {
    c.q(session_sql!("where s.id = $1")).bind(id).opt().await
}

/// The session that goes on with the next message to an agent about a repository, or else the newest one, whose patch a new copy gets.
pub(super) async fn find_of(
    c: &mut Conn,
    conversation: Conversation,
    agent: AgentId,
    repository: RepositoryId,
) -> Result<Option<Row>, DbError> {
    c.q(session_sql!(
        "where s.conversation_id = $1 and s.agent_id = $2 and s.repository_id = $3 order by s.id desc limit 1"
    ))
    .bind(conversation.id())
    .bind(agent)
    .bind(repository)
    .opt()
    .await
}

/// A session, and the caller's rights in its conversation.
pub(super) struct SessionAccess<'a> {
    pub(super) row: Row,
    pub(super) place: ThreadAccess<'a>,
}

/// Finds a session in a conversation that the caller can see. Which scope a key needs depends on what follows.
///
/// # Errors
/// `SessionNotFound`.
pub(super) async fn enter<'a>(
    c: &mut Conn,
    caller: &'a Caller,
    id: CodeSessionId,
) -> Result<SessionAccess<'a>, CodeError> {
    let row = find_row(c, id).await?.ok_or(CodeError::SessionNotFound)?;
    match access::find_conversation(c, caller, row.conversation()).await {
        Ok(place) => Ok(SessionAccess { row, place }),
        Err(ChatError::ChannelNotFound | ChatError::ThreadNotFound | ChatError::ForkNotFound) => {
            Err(CodeError::SessionNotFound)
        }
        Err(e) => Err(e.into()),
    }
}

/// # Errors
/// `SessionNotFound`, or any error from `Actor::require`.
pub async fn get_session(
    c: &mut Conn,
    caller: &Caller,
    id: CodeSessionId,
) -> Result<CodeSession, CodeError> {
    let SessionAccess { row, place } = enter(c, caller, id).await?;
    place.reading()?;
    Ok(row.object())
}

/// A session that was just changed.
///
/// # Errors
/// `SessionNotFound`.
pub(super) async fn changed(c: &mut Conn, id: CodeSessionId) -> Result<CodeSession, CodeError> {
    let row = find_row(c, id).await?;
    Ok(row.ok_or(CodeError::SessionNotFound)?.object())
}

/// The workspace of a session; `None` if there is no such session.
///
/// # Errors
/// Only database errors.
pub async fn workspace_of_session(
    c: &mut Conn,
    id: CodeSessionId,
) -> Result<Option<WorkspaceId>, DbError> {
    let row: Option<(WorkspaceId,)> = c
        .q("select workspace_id from code_sessions where id = $1")
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(|(workspace,)| workspace))
}

/// Filter of a list of sessions.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionFilter {
    pub thread: Option<ThreadId>,
    pub state: Option<SessionState>,
}

/// Sessions in conversations that the person can read, newest first, before `before`.
///
/// # Errors
/// Only database errors.
pub async fn list_sessions(
    c: &mut Conn,
    workspace: WorkspaceId,
    reader: UserId,
    filter: SessionFilter,
    before: Option<CodeSessionId>,
    limit: i64,
) -> Result<Vec<CodeSession>, DbError> {
    let rows: Vec<Row> = c
        .q(session_sql!(concat!(
            "where s.workspace_id = $1 and s.id < $3 and (s.thread_id = $4 or $4 is null) and (s.state = $5 or $5 is null) and ",
            is_in_visible_channel!("s.channel_id", "$2"),
            " order by s.id desc limit $6"
        )))
        .bind(workspace)
        .bind(reader)
        .bind(before.unwrap_or(CodeSessionId(uuid::Uuid::max())))
        .bind(filter.thread)
        .bind(filter.state)
        .bind(limit)
        .all()
        .await?;
    Ok(rows.into_iter().map(Row::object).collect())
}

/// Raises the version of a session, and appends `code_session.updated`.
pub(super) async fn announce(c: &mut Conn, id: CodeSessionId) -> Result<(), DbError> {
    c.q("update code_sessions set version = version + 1 where id = $1")
        .bind(id)
        .run()
        .await?;
    let Some(row) = find_row(c, id).await? else {
        return Ok(());
    };
    let audience = queue::audience_in(c, Some(row.channel_id)).await?;
    let seq = log::reserve(c, row.workspace_id, 1).await?;
    let data = CodeSessionEvent {
        code_session_id: id,
        version: row.version,
    };
    let event = NewEvent::new(seq, EventType::CodeSessionUpdated, audience, &data)?
        .in_conversation(row.thread_id, row.fork_id);
    log::append(c, row.workspace_id, event).await
}

/// Sets the state of a session, and announces it if it has changed.
pub(super) async fn set_state(
    c: &mut Conn,
    id: CodeSessionId,
    state: SessionState,
) -> Result<(), DbError> {
    let changed = c
        .q("update code_sessions set state = $2 where id = $1 and state <> $2")
        .bind(id)
        .bind(state)
        .run()
        .await?;
    if changed == 1 {
        announce(c, id).await?;
    }
    Ok(())
}

/// Notes that a turn has begun or ended, which keeps the copy.
pub(super) async fn touch(c: &mut Conn, id: CodeSessionId) -> Result<(), DbError> {
    c.q("update code_sessions set turn_at = $2 where id = $1")
        .bind(id)
        .bind(now())
        .run()
        .await?;
    Ok(())
}
