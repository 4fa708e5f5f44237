//! Documents and their parts as rows, and as clients see them.

use std::time::Duration;

use openvibe_documents::DocumentKind;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    db::{Conn, DbError, Engine, now},
    ids::{FileId, MessageId, WorkspaceId},
    text_enum::text_enum,
    time::Timestamp,
};

/// Time after which a process that reads a document counts as lost.
const READ_WITHIN: Duration = Duration::from_mins(4);
/// Shortest and longest wait after an error that is not about the content of a document.
const POSTPONED_MIN: Duration = Duration::from_mins(1);
const POSTPONED_MAX: Duration = Duration::from_mins(15);
/// Number of attempts after which a document is given up: its process and the server ended each time.
const ATTEMPTS_MAX: i64 = 3;
/// Number of documents that are queued at a time after an upgrade or a restore.
const QUEUED_AT_ONCE: i64 = 200;

text_enum! {
    /// Result of reading the text of a file.
    pub enum DocumentState {
        /// The text has not been read yet.
        Waiting = "waiting",
        /// Everything was read.
        Ready = "ready",
        /// Some of the text was read.
        Partial = "partial",
        /// Nothing was read.
        Failed = "failed",
        /// The file has no text that can be read, like pictures, sound, and archives.
        None = "none",
        /// This server does not read files, because its system cannot restrict the process that would read them.
        Off = "off",
    }
}

impl DocumentState {
    /// Checks whether there is text.
    pub fn has_text(self) -> bool {
        matches!(self, Self::Ready | Self::Partial)
    }
}

text_enum! {
    /// Reason why a file was not read as a whole.
    pub enum DocumentReason {
        /// Pages are pictures without text.
        Scanned = "scanned",
        /// A password is needed.
        Encrypted = "encrypted",
        Damaged = "damaged",
        TooLarge = "too_large",
        TooSlow = "too_slow",
        /// The characters of a font cannot be mapped to text.
        NoTextMap = "no_text_map",
        /// Word and `PowerPoint` files before 2007, and RTF.
        OldFormat = "old_format",
    }
}

/// State of the text of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct DocumentStatus {
    pub state: DocumentState,
    pub reason: Option<DocumentReason>,
    /// Number of parts: pages, slides, sheets, sections, or ranges of 200 lines.
    pub parts: i64,
}

/// The row of a document.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct DocumentRow {
    pub hash: String,
    pub state: DocumentState,
    pub reason: Option<DocumentReason>,
    pub parts: i64,
    pub chars: i64,
    unread_parts: String,
}

impl DocumentRow {
    /// Numbers of parts that were not read.
    pub fn unread_parts(&self) -> Vec<i64> {
        serde_json::from_str(&self.unread_parts).unwrap_or_default()
    }

    pub fn document(&self) -> DocumentStatus {
        DocumentStatus {
            state: self.state,
            reason: self.reason,
            parts: self.parts,
        }
    }

    /// Checks whether there is text.
    pub fn has_text(&self) -> bool {
        self.state.has_text()
    }
}

/// A part of a document.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct DocumentPart {
    pub n: i64,
    /// Empty for a text without headings, which is named after its file.
    pub label: String,
    pub heading: Option<String>,
    /// Header row of a table.
    pub header: Option<String>,
    pub text: String,
}

impl DocumentPart {
    /// Name of the part for readers.
    pub fn name<'a>(&'a self, file: &'a str) -> &'a str {
        if self.label.is_empty() {
            file
        } else {
            &self.label
        }
    }
}

/// Checks whether files of this type have no text that is read.
pub fn is_media(content_type: &str) -> bool {
    ["image/", "audio/", "video/", "font/"]
        .iter()
        .any(|kind| content_type.starts_with(kind))
}

/// Queues the text of an upload in its transaction. If the same bytes were read before, only the passages are queued.
pub async fn queue_document(
    c: &mut Conn,
    workspace: WorkspaceId,
    file: FileId,
    hash: &str,
) -> Result<(), DbError> {
    insert_waiting(c, workspace, hash).await?;
    let known = find_document(c, hash).await?;
    if known.is_some_and(|row| row.has_text()) {
        queue_passages(c, workspace, file).await?;
    }
    Ok(())
}

/// Inserts a waiting document, or locks the one that exists: its result and the files that get passages are read after one another.
async fn insert_waiting(c: &mut Conn, workspace: WorkspaceId, hash: &str) -> Result<(), DbError> {
    c.q("insert into documents (hash, version, state, reason, parts, chars, unread_parts, workspace_id, queued_at, claimed_until, attempt) \
         values ($1, 0, 'waiting', null, 0, 0, '[]', $2, $3, null, 0) \
         on conflict (hash) do update set attempt = documents.attempt")
        .bind(hash.to_owned())
        .bind(workspace)
        .bind(now())
        .run()
        .await?;
    Ok(())
}

/// The document of these bytes; `None` if they have no text that is read.
pub async fn find_document(c: &mut Conn, hash: &str) -> Result<Option<DocumentRow>, DbError> {
    c.q("select hash, state, reason, parts, chars, unread_parts from documents where hash = $1")
        .bind(hash.to_owned())
        .opt()
        .await
}

pub async fn find_part(c: &mut Conn, hash: &str, n: i64) -> Result<Option<DocumentPart>, DbError> {
    c.q("select n, label, heading, header, text from document_parts where hash = $1 and n = $2")
        .bind(hash.to_owned())
        .bind(n)
        .opt()
        .await
}

/// Parts after a number, in order.
pub async fn list_parts(
    c: &mut Conn,
    hash: &str,
    after: i64,
    limit: i64,
) -> Result<Vec<DocumentPart>, DbError> {
    c.q("select n, label, heading, header, text from document_parts where hash = $1 and n > $2 order by n limit $3")
        .bind(hash.to_owned())
        .bind(after)
        .bind(limit)
        .all()
        .await
}

/// Checks whether a file of the message has not been read yet. Text files count only if they have more than `text_bytes_max` bytes
/// together. If all texts together are longer than that, files whose passages are not in the index yet count, too.
pub async fn is_any_waiting(
    c: &mut Conn,
    message: MessageId,
    text_bytes_max: i64,
) -> Result<bool, DbError> {
    c.q("select exists (select 1 from files f join documents d on d.hash = f.hash where f.message_id = $1 and (d.state = 'waiting' \
         and (f.content_type not like 'text/plain%' or (select cast(coalesce(sum(t.size_bytes), 0) as bigint) from files t \
         where t.message_id = $1 and t.content_type like 'text/plain%') > $2) \
         or exists (select 1 from passage_sets s where s.file_id = f.id and s.is_complete = FALSE) \
         and (select cast(coalesce(sum(r.chars), 0) as bigint) from files a join documents r on r.hash = a.hash \
         where a.message_id = $1) > $2))")
        .bind(message)
        .bind(text_bytes_max)
        .value()
        .await
}

/// A document that is about to be read.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(super) struct Claimed {
    pub(super) hash: String,
    pub(super) workspace_id: WorkspaceId,
    pub(super) attempt: i64,
    pub(super) claimed_until: Timestamp,
    pub(super) queued_at: Timestamp,
}

impl Claimed {
    /// Checks whether the processes that read the document were lost too often.
    pub(super) fn is_given_up(&self) -> bool {
        self.attempt > ATTEMPTS_MAX
    }
}

/// Checks whether a document can be claimed, without a writer.
pub(super) async fn is_any_due(c: &mut Conn) -> Result<bool, DbError> {
    c.q("select exists (select 1 from documents where state = 'waiting' and (claimed_until is null or claimed_until <= $1))")
        .bind(now())
        .value()
        .await
}

/// Takes the newest document that waits, of a workspace of which no other document is being read.
pub(super) async fn claim(c: &mut Conn) -> Result<Option<Claimed>, DbError> {
    let now = now();
    c.q("update documents set claimed_until = $2, attempt = attempt + 1 where hash = (select d.hash from documents d \
         where d.state = 'waiting' and (d.claimed_until is null or d.claimed_until <= $1) and not exists (select 1 from documents o \
         where o.workspace_id = d.workspace_id and o.state = 'waiting' and o.claimed_until > $1 and o.attempt > 0) \
         order by d.queued_at desc limit 1) \
         and state = 'waiting' and (claimed_until is null or claimed_until <= $1) \
         returning hash, workspace_id, attempt, claimed_until, queued_at")
        .bind(now)
        .bind(now + READ_WITHIN)
        .opt()
        .await
}

/// Returns a document to the queue.
pub(super) async fn release(c: &mut Conn, claimed: &Claimed) -> Result<(), DbError> {
    c.q("update documents set claimed_until = null, attempt = attempt - 1 where hash = $1 and claimed_until = $2")
        .bind(claimed.hash.clone())
        .bind(claimed.claimed_until)
        .run()
        .await?;
    Ok(())
}

/// Returns a document to the queue after an error that is not about its content. It waits for as long as it has been queued, and without an
/// attempt, so that the others of its workspace are read meanwhile.
pub(super) async fn postpone(c: &mut Conn, claimed: &Claimed) -> Result<(), DbError> {
    let now = now();
    let wait = now.since(claimed.queued_at);
    c.q("update documents set claimed_until = $3, attempt = 0 where hash = $1 and claimed_until = $2")
        .bind(claimed.hash.clone())
        .bind(claimed.claimed_until)
        .bind(now + wait.clamp(POSTPONED_MIN, POSTPONED_MAX))
        .run()
        .await?;
    Ok(())
}

/// Deletes a claimed document whose files were deleted.
pub(super) async fn delete_unused(c: &mut Conn, claimed: &Claimed) -> Result<(), DbError> {
    // This locks the row, as does an upload of the same bytes.
    if is_still_claimed(c, claimed).await? {
        c.q("delete from documents where hash = $1 and not exists (select 1 from files f where f.hash = $1)")
            .bind(claimed.hash.clone())
            .run()
            .await?;
    }
    Ok(())
}

/// Checks in a transaction that the document is still claimed by this process.
pub(super) async fn is_still_claimed(c: &mut Conn, claimed: &Claimed) -> Result<bool, DbError> {
    let known: Option<(i64,)> = c
        .q("update documents set attempt = attempt where hash = $1 and claimed_until = $2 and state = 'waiting' returning attempt")
        .bind(claimed.hash.clone())
        .bind(claimed.claimed_until)
        .opt()
        .await?;
    Ok(known.is_some())
}

/// Deletes the parts that an earlier attempt or version stored.
pub(super) async fn delete_parts(c: &mut Conn, hash: &str) -> Result<(), DbError> {
    c.q("delete from document_parts where hash = $1")
        .bind(hash.to_owned())
        .run()
        .await?;
    Ok(())
}

pub(super) async fn insert_parts(
    c: &mut Conn,
    hash: &str,
    parts: &[openvibe_documents::Part],
) -> Result<(), DbError> {
    for part in parts {
        c.q("insert into document_parts (hash, n, label, heading, header, text) values ($1, $2, $3, $4, $5, $6)")
            .bind(hash.to_owned())
            .bind(i64::from(part.part))
            .bind(part.label.clone())
            .bind(part.heading.clone())
            .bind(part.header.clone())
            .bind(part.text.clone())
            .run()
            .await?;
    }
    Ok(())
}

/// Result of a document.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) state: DocumentState,
    pub(super) reason: Option<DocumentReason>,
    pub(super) parts: i64,
    pub(super) chars: i64,
    pub(super) unread_parts: Vec<u32>,
    pub(super) kind: DocumentKind,
}

impl Outcome {
    pub(super) fn failed(reason: DocumentReason) -> Self {
        Self {
            state: DocumentState::Failed,
            reason: Some(reason),
            parts: 0,
            chars: 0,
            unread_parts: Vec::new(),
            kind: DocumentKind::Other,
        }
    }
}

pub(super) async fn finish(
    c: &mut Conn,
    claimed: &Claimed,
    outcome: &Outcome,
) -> Result<(), DbError> {
    let unread = serde_json::to_string(&outcome.unread_parts).unwrap_or_else(|_| "[]".to_owned());
    c.q("update documents set version = $2, state = $3, reason = $4, parts = $5, chars = $6, unread_parts = $7, claimed_until = null \
         where hash = $1")
        .bind(claimed.hash.clone())
        .bind(openvibe_documents::VERSION)
        .bind(outcome.state)
        .bind(outcome.reason)
        .bind(outcome.parts)
        .bind(outcome.chars)
        .bind(unread)
        .run()
        .await?;
    // Passages of an earlier version leave the index.
    c.q("update passage_sets set file_id = null where file_id in (select f.id from files f where f.hash = $1)")
        .bind(claimed.hash.clone())
        .run()
        .await?;
    if !outcome.state.has_text() {
        return Ok(());
    }
    // Files that were replaced in their vector stores, and are nowhere else, are not found anymore.
    let files: Vec<(FileId, WorkspaceId)> = c
        .q("select id, workspace_id from files where hash = $1 and (message_id is not null \
            or exists (select 1 from vector_store_files vf where vf.file_id = files.id) \
            or exists (select 1 from vector_store_versions w where w.file_id = files.id and w.replaced_at is null) \
            or not exists (select 1 from vector_store_versions r where r.file_id = files.id)) order by id")
        .bind(claimed.hash.clone())
        .all()
        .await?;
    for (file, workspace) in files {
        queue_passages(c, workspace, file).await?;
    }
    Ok(())
}

/// Queues the passages of a file that left the index, and returns to it.
pub async fn restore_passages(
    c: &mut Conn,
    workspace: WorkspaceId,
    file: FileId,
    hash: &str,
) -> Result<(), DbError> {
    let has_left: bool = c
        .q(
            "select exists (select 1 from documents where hash = $1 and state in ($3, $4)) \
            and not exists (select 1 from passage_sets where file_id = $2)",
        )
        .bind(hash.to_owned())
        .bind(file)
        .bind(DocumentState::Ready)
        .bind(DocumentState::Partial)
        .value()
        .await?;
    if has_left {
        queue_passages(c, workspace, file).await?;
    }
    Ok(())
}

/// Queues a file's passages for the index.
async fn queue_passages(c: &mut Conn, workspace: WorkspaceId, file: FileId) -> Result<(), DbError> {
    c.q("insert into passage_sets (id, workspace_id, file_id, parts_done, is_complete, created_at) values ($1, $2, $3, 0, FALSE, $4)")
        .bind(Uuid::now_v7())
        .bind(workspace)
        .bind(file)
        .bind(now())
        .run()
        .await?;
    Ok(())
}

/// Queues files without a document, as after a restore, and documents that an older version read. Returns the number of queued ones.
pub(super) async fn queue_missing(c: &mut Conn) -> Result<u64, DbError> {
    let missing: Vec<(String, WorkspaceId, Timestamp)> = c
        .q("select f.hash, f.workspace_id, f.created_at from files f \
            where not exists (select 1 from documents d where d.hash = f.hash) \
            and f.content_type not like 'image/%' and f.content_type not like 'audio/%' and f.content_type not like 'video/%' \
            and f.content_type not like 'font/%' order by f.created_at desc limit $1")
        .bind(QUEUED_AT_ONCE)
        .all()
        .await?;
    for (hash, workspace, created_at) in &missing {
        insert_waiting(c, *workspace, hash).await?;
        c.q("update documents set queued_at = $2 where hash = $1 and state = 'waiting'")
            .bind(hash.clone())
            .bind(*created_at)
            .run()
            .await?;
    }
    let outdated = c
        .q("update documents set state = 'waiting', claimed_until = null, attempt = 0 where hash in (select d.hash from documents d \
            where d.version < $1 and d.state <> 'waiting' order by d.queued_at desc limit $2)")
        .bind(openvibe_documents::VERSION)
        .bind(QUEUED_AT_ONCE)
        .run()
        .await?;
    Ok(missing.len() as u64 + outdated)
}

/// Releases the documents of a server that ended while it read them. With `SQLite`, there is no other server.
pub(super) async fn release_lost(c: &mut Conn) -> Result<(), DbError> {
    if c.engine() == Engine::Sqlite {
        c.q("update documents set claimed_until = null where state = 'waiting' and claimed_until is not null")
            .run()
            .await?;
    }
    Ok(())
}

/// Queues documents that were not read because the system could not restrict the process. Returns the number of queued ones.
pub(super) async fn queue_off(c: &mut Conn) -> Result<u64, DbError> {
    c.q("update documents set state = 'waiting', claimed_until = null, attempt = 0 where hash in (select d.hash from documents d \
         where d.state = 'off' order by d.queued_at desc limit $1)")
        .bind(QUEUED_AT_ONCE)
        .run()
        .await
}

/// Name of the newest file with these bytes, and the file's blob.
pub(super) async fn find_source(
    c: &mut Conn,
    hash: &str,
) -> Result<Option<(String, i64, crate::storage::Blob)>, DbError> {
    #[derive(sqlx::FromRow)]
    struct Source {
        name: String,
        size_bytes: i64,
        #[sqlx(flatten)]
        blob: crate::storage::Blob,
    }
    let source: Option<Source> = c
        .q("select f.name, f.size_bytes, b.hash, b.upload_id, b.store from files f join blobs b on b.hash = f.hash where f.hash = $1 \
            order by f.created_at desc, f.id desc limit 1")
        .bind(hash.to_owned())
        .opt()
        .await?;
    Ok(source.map(|source| (source.name, source.size_bytes, source.blob)))
}

/// Workspaces that have files with these bytes.
pub(super) async fn list_workspaces(c: &mut Conn, hash: &str) -> Result<Vec<Uuid>, DbError> {
    let found: Vec<(Uuid,)> = c
        .q("select distinct workspace_id from files where hash = $1 order by workspace_id")
        .bind(hash.to_owned())
        .all()
        .await?;
    Ok(found.into_iter().map(|(id,)| id).collect())
}
