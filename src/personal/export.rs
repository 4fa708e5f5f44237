//! Exports all data about one user in a workspace as a JSON document, streamed while it is read.

use std::io;

use bytes::Bytes;
use futures::{Stream, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument;
use uuid::Uuid;

use crate::{
    chat::messages::Reaction,
    db::{Db, DbError, FromAnyRow, Json, Share, is_in_visible_channel, now},
    ids::{
        ActionId, ActionItemId, AgentId, ApiKeyId, AuditEntryId, BEFORE_ALL_SEQS, ChannelId,
        CodeSessionId, ExportId, FileId, ForkId, ImportId, InboxItemId, MemoryId, MessageId,
        ResolutionId, ResponseId, RunId, RunnerId, ScheduleId, SessionId, SkillId, TaskId,
        ThreadId, UserId, VectorStoreId, WorkflowId, WorkspaceId,
    },
    inbox::{InboxReason, InboxState},
    memory::{
        entry::{MemoryKind, MemoryScope, MemoryStatus, Visibility},
        user_file::UserFileVisibility,
    },
    share::Permit,
    tasks::{
        actions::ActionState,
        calls::{CallOutcome, Purpose},
        queue::is_not_personal,
    },
    time::Timestamp,
};

/// Number of rows read at once.
const PAGE: i64 = 200;
/// Maximum number of messages scanned by one statement, so that it ends well before its deadline even if most messages are
/// from others.
const SCANNED_MAX: i64 = 16_384;
/// Capacity of the queue to the client, in pieces; reading waits while the queue is full.
const PIECES_MAX: usize = 4;
/// Maximum size of a piece.
const PIECE_BYTES: usize = 64 * 1024;

type Piece = io::Result<Bytes>;

/// The user and workspace of an export.
#[derive(Debug, Clone, Copy)]
pub struct Subject {
    pub workspace: WorkspaceId,
    pub user: UserId,
    pub reader: ExportReader,
    /// Requester of the export. Its reads count against this user's share of the database's slow lane.
    pub requester: UserId,
}

/// Recipient of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportReader {
    /// The signed-in user. The export includes addresses and devices of the account's sessions, although they do not belong to a
    /// workspace; adaptation states and catch-ups, which only the user can see; and texts of actions and outputs of runs, which can
    /// quote others.
    Subject,
    /// An admin or an API client.
    Other,
}

impl Subject {
    fn share(self) -> Share {
        Share {
            person: self.requester.0,
            workspace: self.workspace.0,
        }
    }
}

/// Streams the document. No database connection is held between pages, so a slow download does not block anything.
/// The parts are read one after the other, not from a single snapshot.
pub fn export(
    db: Db,
    tracker: &TaskTracker,
    shutdown: CancellationToken,
    subject: Subject,
    turn: Permit<UserId>,
) -> impl Stream<Item = Piece> + Send + use<> {
    let (send, receive) = mpsc::channel(PIECES_MAX);
    let export = async move {
        let _turn = turn;
        let mut out = Out { send };
        let written = tokio::select! {
            () = shutdown.cancelled() => Err(Broken::Db(DbError::Closed)),
            written = write(&db, &mut out, subject) => written,
        };
        if let Err(Broken::Db(e)) = written {
            tracing::error!(error = %e, "an export failed");
            // The error shows the client that the document is incomplete. `try_send` does not wait, because the client may have
            // stopped reading.
            drop(
                out.send
                    .try_send(Err(io::Error::other("the export failed"))),
            );
        }
    };
    tracker.spawn(export.in_current_span());
    stream::unfold(receive, |mut receive| async move {
        let piece = receive.recv().await?;
        Some((piece, receive))
    })
}

/// Reason why a document is incomplete.
enum Broken {
    /// The client stopped reading.
    Gone,
    Db(DbError),
}

impl From<DbError> for Broken {
    fn from(e: DbError) -> Self {
        Self::Db(e)
    }
}

struct Out {
    send: mpsc::Sender<Piece>,
}

impl Out {
    async fn text(&mut self, text: String) -> Result<(), Broken> {
        let mut rest = Bytes::from(text);
        while !rest.is_empty() {
            let piece = rest.split_to(rest.len().min(PIECE_BYTES));
            let sent = self.send.send(Ok(piece)).await;
            sent.map_err(|_| Broken::Gone)?;
        }
        Ok(())
    }

    async fn rows(&mut self, rows: &[impl Serialize], first: &mut bool) -> Result<(), Broken> {
        let mut text = String::new();
        for row in rows {
            text.push_str(if std::mem::take(first) { "\n" } else { ",\n" });
            text.push_str(&serde_json::to_string(row).unwrap_or_default());
        }
        self.text(text).await
    }

    async fn field(&mut self, name: &str, value: &Value) -> Result<(), Broken> {
        self.text(format!(",\n\"{name}\":{value}")).await
    }
}

/// One list of rows in the document.
struct Part<T> {
    name: &'static str,
    /// Parameters: `$1` workspace, `$2` user, `$3` key of the last row, `$4` page size.
    sql: &'static str,
    key: fn(&T) -> Uuid,
}

async fn part<T: FromAnyRow + Serialize>(
    db: &Db,
    out: &mut Out,
    subject: Subject,
    part: &Part<T>,
) -> Result<(), Broken> {
    out.text(format!(",\n\"{}\":[", part.name)).await?;
    let (mut after, mut first) = (Uuid::nil(), true);
    loop {
        let rows: Vec<T> = db
            .scan(subject.share())
            .await?
            .q(part.sql)
            .bind(subject.workspace)
            .bind(subject.user)
            .bind(after)
            .bind(PAGE)
            .all()
            .await?;
        let Some(last) = rows.last() else { break };
        after = (part.key)(last);
        out.rows(&rows, &mut first).await?;
    }
    out.text("]".to_owned()).await
}

#[derive(Serialize, sqlx::FromRow)]
struct ExportedMessage {
    #[serde(skip)]
    seq: i64,
    id: MessageId,
    channel_id: ChannelId,
    thread_id: ThreadId,
    fork_id: Option<ForkId>,
    parent_id: Option<MessageId>,
    kind: String,
    content: String,
    attachments: Json<Value>,
    created_at: Timestamp,
    edited_at: Option<Timestamp>,
    deleted_at: Option<Timestamp>,
}

#[derive(sqlx::FromRow)]
struct Reactions {
    seq: i64,
    id: MessageId,
    channel_id: ChannelId,
    reactions: Json<Vec<Reaction>>,
}

#[derive(Serialize)]
struct Reacted {
    message_id: MessageId,
    channel_id: ChannelId,
    emoji: Vec<String>,
}

#[derive(Serialize, sqlx::FromRow)]
struct Joined {
    #[serde(rename = "channel_id")]
    id: ChannelId,
    kind: String,
    name: Option<String>,
    joined_at: Timestamp,
}

#[derive(Serialize, sqlx::FromRow)]
struct ExportedInboxItem {
    id: InboxItemId,
    reason: InboxReason,
    state: InboxState,
    until: Option<Timestamp>,
    channel_id: Option<ChannelId>,
    thread_id: Option<ThreadId>,
    message_id: Option<MessageId>,
    created_at: Timestamp,
}

#[derive(Serialize, sqlx::FromRow)]
struct Upload {
    id: FileId,
    name: String,
    content_type: String,
    size_bytes: i64,
    message_id: Option<MessageId>,
    created_at: Timestamp,
    /// The description of a picture.
    alt: Option<String>,
}

#[derive(Serialize, sqlx::FromRow)]
struct Key {
    id: ApiKeyId,
    name: String,
    scopes: Json<Value>,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
}

#[derive(Serialize, sqlx::FromRow)]
struct Device {
    id: SessionId,
    user_agent: Option<String>,
    address: Option<String>,
    created_at: Timestamp,
    last_seen_at: Timestamp,
    expires_at: Timestamp,
}

/// A second factor, without what proves it.
#[derive(Serialize, sqlx::FromRow)]
struct ExportedFactor {
    #[serde(skip)]
    id: Uuid,
    kind: String,
    name: String,
    created_at: Timestamp,
}

/// Usage without costs, which belong to the workspace and are hidden from some people.
#[derive(Serialize, Deserialize)]
struct ExportedUsage {
    input_tokens: i64,
    output_tokens: i64,
    model: String,
    estimated: bool,
}

#[derive(Serialize, sqlx::FromRow)]
struct ExportedTask {
    id: TaskId,
    kind: String,
    status: String,
    thread_id: Option<ThreadId>,
    trigger_message_id: Option<MessageId>,
    input: Json<Value>,
    token_usage: Option<Json<ExportedUsage>>,
    queued_at: Timestamp,
    completed_at: Option<Timestamp>,
}

/// A browser that gets notifications.
#[derive(Serialize, sqlx::FromRow)]
struct ExportedPushDevice {
    id: crate::ids::DeviceId,
    label: String,
    endpoint: String,
    created_at: Timestamp,
}

#[derive(Serialize, sqlx::FromRow)]
struct ExportedNotificationSettings {
    user_id: UserId,
    push: bool,
    preview: String,
    quiet: Option<Json<Value>>,
    paused_until: Option<Timestamp>,
    timezone: String,
    mail: String,
}

/// A vector store that the user created.
#[derive(Serialize, sqlx::FromRow)]
struct ExportedVectorStore {
    id: VectorStoreId,
    name: String,
    channel_id: Option<ChannelId>,
    created_at: Timestamp,
}

/// A skill that the user created or wrote.
#[derive(Serialize, sqlx::FromRow)]
struct ExportedSkill {
    id: SkillId,
    name: String,
    description: String,
    created_at: Timestamp,
}

/// A web page that the user added to a vector store.
#[derive(Serialize, sqlx::FromRow)]
struct ExportedWebPage {
    #[serde(skip)]
    id: Uuid,
    #[sqlx(rename = "store_id")]
    vector_store_id: VectorStoreId,
    path: String,
    url: String,
    created_at: Timestamp,
}

/// A runner that the user created.
#[derive(Serialize, sqlx::FromRow)]
struct ExportedRunner {
    id: RunnerId,
    name: String,
    created_at: Timestamp,
}

/// A session on a repository that the user started. Its code is in git.
#[derive(Serialize, sqlx::FromRow)]
struct ExportedCodeSession {
    id: CodeSessionId,
    repository: String,
    number: i64,
    thread_id: ThreadId,
    created_at: Timestamp,
}

/// A webhook that the user created.
#[derive(Serialize, sqlx::FromRow)]
struct ExportedHook {
    id: crate::ids::HookId,
    bot_name: String,
    channel_id: ChannelId,
    created_at: Timestamp,
}

/// An archive of the workspace that the user asked for.
#[derive(Serialize, sqlx::FromRow)]
struct ExportedArchive {
    id: ExportId,
    scope: String,
    format: String,
    created_at: Timestamp,
    finished_at: Option<Timestamp>,
}

/// An import that the user created.
#[derive(Serialize, sqlx::FromRow)]
struct ExportedImport {
    id: ImportId,
    source: Option<String>,
    created_at: Timestamp,
    finished_at: Option<Timestamp>,
}

#[derive(Serialize, sqlx::FromRow)]
struct ExportedSchedule {
    id: ScheduleId,
    name: String,
    cron: String,
    timezone: String,
    agent_id: Option<AgentId>,
    workflow_id: Option<WorkflowId>,
    prompt: String,
    channel_id: Option<ChannelId>,
    thread_id: Option<ThreadId>,
    created_at: Timestamp,
}

/// A workflow that the user owns.
#[derive(Serialize, sqlx::FromRow)]
struct ExportedWorkflow {
    id: WorkflowId,
    name: String,
    status: String,
    content: Json<Value>,
    created_at: Timestamp,
}

/// A run that was started for the user.
#[derive(Serialize, sqlx::FromRow)]
struct ExportedRun {
    id: RunId,
    workflow_id: WorkflowId,
    cause: String,
    channel_id: Option<ChannelId>,
    thread_id: Option<ThreadId>,
    input: String,
    created_at: Timestamp,
}

/// Output of a step in a run that was started for the user.
#[derive(Serialize, sqlx::FromRow)]
struct ExportedOutput {
    #[serde(skip)]
    id: Uuid,
    run_id: RunId,
    text: String,
}

#[derive(Serialize, sqlx::FromRow)]
struct ModelCall {
    #[serde(skip)]
    id: Uuid,
    task_id: Option<TaskId>,
    purpose: Purpose,
    model: String,
    input_tokens: i64,
    output_tokens: i64,
    estimated: bool,
    outcome: CallOutcome,
    started_at: Timestamp,
    ended_at: Option<Timestamp>,
}

/// A function call in one of the user's tasks.
#[derive(Serialize, sqlx::FromRow)]
struct ExportedAction {
    id: ActionId,
    task_id: TaskId,
    round: i64,
    call: i64,
    function: String,
    title: String,
    state: ActionState,
    arguments: Option<String>,
    result: Option<String>,
    created_at: Timestamp,
    ended_at: Option<Timestamp>,
}

#[derive(Serialize, sqlx::FromRow)]
struct Item {
    #[serde(skip)]
    row_key: Uuid,
    id: ActionItemId,
    resolution_id: ResolutionId,
    text: String,
    due: Option<String>,
    done: bool,
    created_at: Timestamp,
}

#[derive(Serialize, sqlx::FromRow)]
struct Memory {
    id: MemoryId,
    scope: MemoryScope,
    kind: MemoryKind,
    text: String,
    agent_id: Option<AgentId>,
    user_id: Option<UserId>,
    about_user_id: Option<UserId>,
    thread_id: Option<ThreadId>,
    visibility: Visibility,
    status: MemoryStatus,
    uses: i64,
    created_at: Timestamp,
    updated_at: Timestamp,
}

#[derive(Serialize, sqlx::FromRow)]
struct OwnFile {
    #[serde(skip)]
    user_id: Uuid,
    path: String,
    content: String,
    visibility: UserFileVisibility,
    updated_at: Timestamp,
}

/// A reply in a replay that the user started.
#[derive(Serialize, sqlx::FromRow)]
struct ExportedReplay {
    #[serde(skip)]
    case_id: TaskId,
    agent_id: AgentId,
    /// Text and call as JSON.
    text: String,
    created_at: Timestamp,
}

/// A catch-up that a model wrote for the user.
#[derive(Serialize, sqlx::FromRow)]
struct ExportedCatchUp {
    thread_id: ThreadId,
    /// Lines as JSON.
    text: String,
    model: String,
    created_at: Timestamp,
}

#[derive(Serialize, sqlx::FromRow)]
struct Adaptation {
    #[serde(skip)]
    id: Uuid,
    agent_id: AgentId,
    thread_id: ThreadId,
    fork_id: Option<ForkId>,
    mood: String,
    user_skill: String,
    task_complexity: String,
    last_event: Option<Json<Value>>,
    scores: Json<Value>,
    turns: i64,
    last_message_at: Timestamp,
    created_at: Timestamp,
}

#[derive(Serialize, sqlx::FromRow)]
struct Answer {
    id: ResponseId,
    input: Json<Value>,
    response: Json<Value>,
    created_at: Timestamp,
    expires_at: Timestamp,
}

#[derive(Serialize, sqlx::FromRow)]
struct Entry {
    id: AuditEntryId,
    action: String,
    target: Option<String>,
    data: Json<Value>,
    created_at: Timestamp,
}

async fn write(db: &Db, out: &mut Out, who: Subject) -> Result<(), Broken> {
    out.text(format!(
        "{{\"object\":\"export\",\n\"exported_at\":{}",
        json!(now())
    ))
    .await?;
    head(db, out, who).await?;
    account(db, out, who).await?;
    work(db, out, who).await?;
    actions(db, out, who).await?;
    memory(db, out, who).await?;
    if who.reader == ExportReader::Subject {
        written_for_subject(db, out, who).await?;
    }
    records(db, out, who).await?;
    out.text("}\n".to_owned()).await
}

/// Channels, messages, files, keys, and sessions of the user.
async fn account(db: &Db, out: &mut Out, who: Subject) -> Result<(), Broken> {
    let channels = Part::<Joined> {
        name: "channels",
        sql: "select ch.id, ch.kind, ch.name, cm.joined_at from channel_members cm join channels ch on ch.id = cm.channel_id \
              where ch.workspace_id = $1 and cm.user_id = $2 and ch.id > $3 order by ch.id limit $4",
        key: |row| row.id.0,
    };
    part(db, out, who, &channels).await?;
    messages(db, out, who).await?;
    let inbox = Part::<ExportedInboxItem> {
        name: "inbox",
        sql: "select id, reason, state, until, channel_id, thread_id, message_id, created_at from inbox_items \
              where workspace_id = $1 and recipient_id = $2 and id > $3 order by id limit $4",
        key: |row| row.id.0,
    };
    part(db, out, who, &inbox).await?;
    let files = Part::<Upload> {
        name: "files",
        sql: "select id, name, content_type, size_bytes, message_id, created_at, alt from files \
              where workspace_id = $1 and created_by = $2 and id > $3 order by id limit $4",
        key: |row| row.id.0,
    };
    part(db, out, who, &files).await?;
    let keys = Part::<Key> {
        name: "api_keys",
        sql: "select id, name, scopes, created_at, expires_at, last_used_at from api_keys \
              where workspace_id = $1 and user_id = $2 and id > $3 order by id limit $4",
        key: |row| row.id.0,
    };
    part(db, out, who, &keys).await?;
    let sessions = Part::<Device> {
        name: "sessions",
        sql: "select s.id, s.user_agent, s.address, s.created_at, s.last_seen_at, s.expires_at from sessions s \
              join members m on m.user_id = s.user_id and m.workspace_id = $1 \
              where s.user_id = $2 and s.id > $3 order by s.id limit $4",
        key: |row| row.id.0,
    };
    let factors = Part::<ExportedFactor> {
        name: "second_factors",
        sql: "select f.id, f.kind, f.name, f.created_at from \
              (select id, user_id, 'passkey' as kind, name, created_at from passkeys where user_id = $2 union all \
               select user_id, user_id, 'app', '', confirmed_at from totp_apps where user_id = $2 and confirmed_at is not null union all \
               select i.id, i.user_id, 'identity_provider', p.name, i.linked_at from identities i \
               join identity_providers p on p.id = i.provider_id where i.user_id = $2) f \
              join members m on m.user_id = f.user_id and m.workspace_id = $1 where f.id > $3 order by f.id limit $4",
        key: |row| row.id,
    };
    let devices = Part::<ExportedPushDevice> {
        name: "push_devices",
        sql: "select d.id, d.label, d.endpoint, d.created_at from push_devices d \
              join members m on m.user_id = d.user_id and m.workspace_id = $1 \
              where d.user_id = $2 and d.id > $3 order by d.id limit $4",
        key: |row| row.id.0,
    };
    let settings = Part::<ExportedNotificationSettings> {
        name: "notification_settings",
        sql: "select n.user_id, n.push, n.preview, n.quiet, n.paused_until, n.timezone, n.mail from notification_settings n \
              join members m on m.user_id = n.user_id and m.workspace_id = $1 \
              where n.user_id = $2 and n.user_id > $3 order by n.user_id limit $4",
        key: |row| row.user_id.0,
    };
    if who.reader == ExportReader::Subject {
        part(db, out, who, &sessions).await?;
        part(db, out, who, &factors).await?;
        part(db, out, who, &devices).await?;
        part(db, out, who, &settings).await?;
    }
    Ok(())
}

/// Tasks, schedules, runs, and model calls of the user.
async fn work(db: &Db, out: &mut Out, who: Subject) -> Result<(), Broken> {
    let tasks = Part::<ExportedTask> {
        name: "tasks",
        sql: match who.reader {
            ExportReader::Subject => {
                "select id, kind, status, thread_id, trigger_message_id, input, token_usage, queued_at, completed_at from tasks \
                 where workspace_id = $1 and requested_by = $2 and id > $3 order by id limit $4"
            }
            ExportReader::Other => concat!(
                "select id, kind, status, thread_id, trigger_message_id, input, token_usage, queued_at, completed_at from tasks \
                 where workspace_id = $1 and requested_by = $2 and id > $3 and ",
                is_not_personal!(),
                " order by id limit $4"
            ),
        },
        key: |row| row.id.0,
    };
    part(db, out, who, &tasks).await?;
    let schedules = Part::<ExportedSchedule> {
        name: "schedules",
        sql: "select id, name, cron, timezone, case when target_type <> 'workflow' then target_id end as agent_id, \
              case when target_type = 'workflow' then target_id end as workflow_id, prompt, channel_id, thread_id, created_at from schedules \
              where workspace_id = $1 and owner_id = $2 and id > $3 order by id limit $4",
        key: |row| row.id.0,
    };
    part(db, out, who, &schedules).await?;
    let hooks = Part::<ExportedHook> {
        name: "hooks",
        sql: "select h.id, u.name as bot_name, h.channel_id, h.created_at from hooks h join users u on u.id = h.bot_id \
              where h.workspace_id = $1 and h.created_by = $2 and h.id > $3 order by h.id limit $4",
        key: |row| row.id.0,
    };
    part(db, out, who, &hooks).await?;
    let imports = Part::<ExportedImport> {
        name: "imports",
        sql: "select id, source, created_at, finished_at from imports \
              where workspace_id = $1 and created_by = $2 and id > $3 order by id limit $4",
        key: |row| row.id.0,
    };
    part(db, out, who, &imports).await?;
    let exports = Part::<ExportedArchive> {
        name: "exports",
        sql: "select id, scope, format, created_at, finished_at from exports \
              where workspace_id = $1 and created_by = $2 and id > $3 order by id limit $4",
        key: |row| row.id.0,
    };
    part(db, out, who, &exports).await?;
    let stores = Part::<ExportedVectorStore> {
        name: "vector_stores",
        sql: "select id, name, channel_id, created_at from vector_stores \
              where workspace_id = $1 and created_by = $2 and deleted_at is null and id > $3 order by id limit $4",
        key: |row| row.id.0,
    };
    part(db, out, who, &stores).await?;
    let skills = Part::<ExportedSkill> {
        name: "skills",
        sql: "select id, name, description, created_at from skills \
              where workspace_id = $1 and (created_by = $2 or written_by = $2) and id > $3 order by id limit $4",
        key: |row| row.id.0,
    };
    part(db, out, who, &skills).await?;
    let runners = Part::<ExportedRunner> {
        name: "runners",
        sql: "select id, name, created_at from runners where workspace_id = $1 and created_by = $2 and id > $3 order by id limit $4",
        key: |row| row.id.0,
    };
    part(db, out, who, &runners).await?;
    let sessions = Part::<ExportedCodeSession> {
        name: "code_sessions",
        sql: "select s.id, r.name as repository, s.number, s.thread_id, s.created_at from code_sessions s \
              join repositories r on r.id = s.repository_id \
              where s.workspace_id = $1 and s.started_by = $2 and s.id > $3 order by s.id limit $4",
        key: |row| row.id.0,
    };
    part(db, out, who, &sessions).await?;
    let pages = Part::<ExportedWebPage> {
        name: "web_pages",
        sql: "select u.id, u.store_id, u.path, u.url, u.created_at from vector_store_urls u join vector_stores v on v.id = u.store_id \
              where v.workspace_id = $1 and u.created_by = $2 and u.id > $3 order by u.id limit $4",
        key: |row| row.id,
    };
    part(db, out, who, &pages).await?;
    runs(db, out, who).await?;
    let calls = Part::<ModelCall> {
        name: "model_calls",
        sql: match who.reader {
            ExportReader::Subject => {
                "select id, task_id, purpose, model, input as input_tokens, output as output_tokens, estimated, outcome, \
                 started_at, ended_at from model_calls \
                 where workspace_id = $1 and user_id = $2 and id > $3 order by id limit $4"
            }
            ExportReader::Other => concat!(
                "select id, task_id, purpose, model, input as input_tokens, output as output_tokens, estimated, outcome, \
                 started_at, ended_at from model_calls \
                 where workspace_id = $1 and user_id = $2 and id > $3 and (task_id is null or exists \
                 (select 1 from tasks t where t.id = model_calls.task_id and t.",
                is_not_personal!(),
                ")) order by id limit $4"
            ),
        },
        key: |row| row.id,
    };
    part(db, out, who, &calls).await
}

/// Function calls in the user's tasks.
async fn actions(db: &Db, out: &mut Out, who: Subject) -> Result<(), Broken> {
    let actions = Part::<ExportedAction> {
        name: "actions",
        sql: match who.reader {
            // Results may quote others, so the user must still be able to read the conversation.
            ExportReader::Subject => concat!(
                "select a.id, a.task_id, a.round, a.call, a.function, a.title, a.state, x.text as arguments, y.text as result, a.created_at, \
                 a.ended_at from actions a join tasks t on t.id = a.task_id \
                 left join context_texts x on x.id = a.arguments_id and x.hash is not null and ",
                is_in_visible_channel!("t.channel_id", "$2"),
                " left join context_texts y on y.id = a.result_id and y.hash is not null and ",
                is_in_visible_channel!("t.channel_id", "$2"),
                " where a.workspace_id = $1 and t.requested_by = $2 and a.id > $3 order by a.id limit $4"
            ),
            ExportReader::Other => {
                "select a.id, a.task_id, a.round, a.call, a.function, a.title, a.state, cast(null as text) as arguments, \
                 cast(null as text) as result, a.created_at, a.ended_at from actions a join tasks t on t.id = a.task_id \
                 where a.workspace_id = $1 and t.requested_by = $2 and a.id > $3 order by a.id limit $4"
            }
        },
        key: |row| row.id.0,
    };
    part(db, out, who, &actions).await
}

/// Action items, memories, and the user's `USER.md`.
async fn memory(db: &Db, out: &mut Out, who: Subject) -> Result<(), Broken> {
    let items = Part::<Item> {
        name: "action_items",
        sql: "select i.id as row_key, i.id, i.resolution_id, i.text, i.due, i.done, i.created_at from action_items i \
              join resolutions r on r.id = i.resolution_id and r.status = 'published' \
              where i.workspace_id = $1 and i.owner_id = $2 and i.id > $3 order by i.id limit $4",
        key: |row| row.row_key,
    };
    part(db, out, who, &items).await?;
    let memories = Part::<Memory> {
        name: "memories",
        sql: "select id, scope, kind, text, agent_id, user_id, about_user_id, thread_id, visibility, status, uses, created_at, updated_at \
              from memories where workspace_id = $1 and (user_id = $2 or about_user_id = $2 or created_by = $2) and forgotten_at is null \
              and id > $3 order by id limit $4",
        key: |row| row.id.0,
    };
    part(db, out, who, &memories).await?;
    let user_files = Part::<OwnFile> {
        name: "user_files",
        sql: "select user_id, 'USER.md' as path, content, visibility, updated_at from user_files \
              where workspace_id = $1 and user_id = $2 and content is not null and user_id > $3 order by user_id limit $4",
        key: |row| row.user_id,
    };
    part(db, out, who, &user_files).await
}

/// Adaptation states, catch-ups, and replays, which only the user can see.
async fn written_for_subject(db: &Db, out: &mut Out, who: Subject) -> Result<(), Broken> {
    let adaptation = Part::<Adaptation> {
        name: "adaptation",
        sql: "select id, agent_id, thread_id, nullif(conversation_id, thread_id) as fork_id, mood, user_skill, task_complexity, \
              last_event, scores, turns, last_message_at, created_at from adaptation_states \
              where workspace_id = $1 and user_id = $2 and id > $3 order by id limit $4",
        key: |row| row.id,
    };
    part(db, out, who, &adaptation).await?;
    // Catch-ups may quote others, so the user must still be able to read the thread.
    let catch_ups = Part::<ExportedCatchUp> {
        name: "catch_ups",
        sql: concat!(
            "select k.thread_id, x.text, k.model, k.created_at from catch_ups k \
             join context_texts x on x.id = k.text_id and x.hash is not null join threads t on t.id = k.thread_id \
             where k.workspace_id = $1 and k.user_id = $2 and k.thread_id > $3 and ",
            is_in_visible_channel!("t.channel_id", "$2"),
            " order by k.thread_id limit $4"
        ),
        key: |row| row.thread_id.0,
    };
    part(db, out, who, &catch_ups).await?;
    // Replies in replays may quote others, so the user must still be able to read the conversation.
    let replays = Part::<ExportedReplay> {
        name: "replays",
        sql: concat!(
            "select k.task_id as case_id, p.agent_id, x.text, p.created_at from replay_cases k \
             join replays p on p.task_id = k.replay_id join tasks t on t.id = k.task_id \
             join context_texts x on x.id = k.text_id and x.hash is not null \
             where p.workspace_id = $1 and p.user_id = $2 and k.task_id > $3 and ",
            is_in_visible_channel!("t.channel_id", "$2"),
            " order by k.task_id limit $4"
        ),
        key: |row| row.case_id.0,
    };
    part(db, out, who, &replays).await
}

/// The user's responses from `/v1/responses`, and the user's entries in the audit log.
async fn records(db: &Db, out: &mut Out, who: Subject) -> Result<(), Broken> {
    let answers = Part::<Answer> {
        name: "responses",
        // Each row can be as large as 1 MiB, so a page has fewer rows.
        sql: "select id, input, response, created_at, expires_at from responses \
              where workspace_id = $1 and user_id = $2 and id > $3 order by id limit $4 / 20",
        key: |row| row.id.0,
    };
    part(db, out, who, &answers).await?;
    let entries = Part::<Entry> {
        name: "audit_log",
        sql: "select id, action, target, data, created_at from audit_log \
              where workspace_id = $1 and actor_id = $2 and id > $3 order by id limit $4",
        key: |row| row.id.0,
    };
    part(db, out, who, &entries).await
}

/// Workflows that the user owns, and runs that were started for the user.
async fn runs(db: &Db, out: &mut Out, who: Subject) -> Result<(), Broken> {
    let workflows = Part::<ExportedWorkflow> {
        name: "workflows",
        sql: "select id, name, status, content, created_at from workflows \
              where workspace_id = $1 and owner_id = $2 and id > $3 order by id limit $4",
        key: |row| row.id.0,
    };
    part(db, out, who, &workflows).await?;
    let runs = Part::<ExportedRun> {
        name: "runs",
        sql: "select id, workflow_id, cause, channel_id, thread_id, input, created_at from runs \
              where workspace_id = $1 and requested_by = $2 and id > $3 order by id limit $4",
        key: |row| row.id.0,
    };
    part(db, out, who, &runs).await?;
    // Outputs may quote others, so the user must still be able to read the channel.
    let outputs = Part::<ExportedOutput> {
        name: "run_outputs",
        sql: concat!(
            "select distinct s.output_id as id, s.run_id, x.text from run_steps s join runs r on r.id = s.run_id \
             join context_texts x on x.id = s.output_id and x.hash is not null \
             where r.workspace_id = $1 and r.requested_by = $2 and s.output_id > $3 and (r.channel_id is null or ",
            is_in_visible_channel!("r.channel_id", "$2"),
            ") order by s.output_id limit $4"
        ),
        key: |row| row.id,
    };
    if who.reader == ExportReader::Subject {
        part(db, out, who, &outputs).await?;
    }
    Ok(())
}

/// The user's profile and membership.
async fn head(db: &Db, out: &mut Out, who: Subject) -> Result<(), Broken> {
    type Row = (
        String,
        String,
        Option<String>,
        Timestamp,
        String,
        String,
        Timestamp,
        Option<Timestamp>,
        String,
        String,
    );
    let mut c = db.read().await?;
    let row: Option<Row> = c
        .q("select coalesce((select p.email from placeholder_addresses p where p.user_id = u.id and p.workspace_id = m.workspace_id), u.email) \
            as email, u.name, u.avatar_url, u.created_at, m.role, m.handle, m.joined_at, g.expires_at, w.name, w.slug from \
            (select workspace_id, user_id, role, handle, joined_at from members union all \
             select workspace_id, user_id, role, handle, joined_at from suspended_members) m \
            join users u on u.id = m.user_id join workspaces w on w.id = m.workspace_id \
            left join guests g on g.workspace_id = m.workspace_id and g.user_id = m.user_id \
            where m.workspace_id = $1 and m.user_id = $2")
        .bind(who.workspace)
        .bind(who.user)
        .opt()
        .await?;
    drop(c);
    let Some((
        email,
        name,
        avatar_url,
        created_at,
        role,
        handle,
        joined_at,
        expires_at,
        workspace,
        slug,
    )) = row
    else {
        return Ok(());
    };
    let profile = json!({"id": who.user, "email": email, "name": name, "avatar_url": avatar_url, "created_at": created_at});
    out.field("profile", &profile).await?;
    let mut membership = json!({
        "workspace": {"id": who.workspace, "name": workspace, "slug": slug},
        "role": role, "handle": handle, "joined_at": joined_at,
    });
    if let Some(end) = expires_at {
        membership["expires_at"] = json!(end);
    }
    out.field("membership", &membership).await
}

/// Sequence number of the last message that the next statement scans; `None` if there are no more messages.
async fn scanned_until(
    db: &Db,
    who: Subject,
    after: i64,
    head: i64,
) -> Result<Option<i64>, DbError> {
    db.scan(who.share())
        .await?
        .q("select max(x.seq) from (select seq from messages where workspace_id = $1 and seq > $2 and seq <= $3 order by seq limit $4) x")
        .bind(who.workspace)
        .bind(after)
        .bind(head)
        .bind(SCANNED_MAX)
        .value()
        .await
}

/// Start of the next page: after the last row if the page is full, otherwise after the scanned range.
fn next_after(rows: usize, last: Option<i64>, until: i64) -> i64 {
    let is_full = i64::try_from(rows).is_ok_and(|rows| rows >= PAGE);
    last.filter(|_| is_full).unwrap_or(until)
}

/// Messages and reactions are not indexed by user, so they are searched in log order.
async fn messages(db: &Db, out: &mut Out, who: Subject) -> Result<(), Broken> {
    out.text(",\n\"messages\":[".to_owned()).await?;
    let head: i64 = db
        .read()
        .await?
        .q("select seq from workspaces where id = $1")
        .bind(who.workspace)
        .value()
        .await?;
    let (mut after, mut first) = (BEFORE_ALL_SEQS, true);
    while let Some(until) = scanned_until(db, who, after, head).await? {
        let rows: Vec<ExportedMessage> = db
            .scan(who.share())
            .await?
            .q("select seq, id, channel_id, thread_id, nullif(conversation_id, thread_id) as fork_id, parent_id, kind, content, attachments, created_at, edited_at, deleted_at \
                from messages where workspace_id = $1 and seq > $2 and seq <= $5 and author_type = 'human' and author_id = $3 order by seq limit $4")
            .bind(who.workspace)
            .bind(after)
            .bind(who.user)
            .bind(PAGE)
            .bind(until)
            .all()
            .await?;
        after = next_after(rows.len(), rows.last().map(|row| row.seq), until);
        out.rows(&rows, &mut first).await?;
    }
    out.text("],\n\"reactions\":[".to_owned()).await?;
    (after, first) = (BEFORE_ALL_SEQS, true);
    while let Some(until) = scanned_until(db, who, after, head).await? {
        let rows: Vec<Reactions> = db
            .scan(who.share())
            .await?
            .q("select seq, id, channel_id, reactions from messages \
                where workspace_id = $1 and seq > $2 and seq <= $4 and CAST(reactions AS TEXT) <> '[]' order by seq limit $3")
            .bind(who.workspace)
            .bind(after)
            .bind(PAGE)
            .bind(until)
            .all()
            .await?;
        after = next_after(rows.len(), rows.last().map(|row| row.seq), until);
        let own = |row: Reactions| Reacted {
            message_id: row.id,
            channel_id: row.channel_id,
            emoji: row
                .reactions
                .0
                .into_iter()
                .filter(|reaction| reaction.user_ids.contains(&who.user))
                .map(|reaction| reaction.emoji)
                .collect(),
        };
        let rows = rows.into_iter().map(own);
        let rows: Vec<Reacted> = rows.filter(|own| !own.emoji.is_empty()).collect();
        out.rows(&rows, &mut first).await?;
    }
    out.text("]".to_owned()).await
}
