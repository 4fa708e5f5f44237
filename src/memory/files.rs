//! Agents' files as memory: paragraphs of logs and of MEMORY.md are entries of scope `agent` that are kept in sync with the files.
//!
//! ```text
//! write, delete, import ─► agents::files ─► paragraphs ─► memories · memory_words ─► recall
//! ```
//!
//! A prompt never contains a whole log. The beginning of MEMORY.md is part of every prompt, and the rest is searched.

use std::collections::HashSet;

use uuid::Uuid;

use crate::{
    agents::{
        AgentError, derived,
        entries::{self, MemoryAction},
        files::{self, File, FilePath, MEMORY, NOTES_TOKENS_MAX, log_date},
        profiles,
        transfer::{self, Import, Imported},
    },
    auth::Actor,
    db::{Conn, Db, DbError, dialect::lock_workspace, now},
    ids::{AgentId, MemoryId, WorkspaceId},
    memory::{
        automatic::optional,
        content::{Content, TEXT_UNITS_MAX},
        create::{self, Draft},
        entry::{MemoryKind, MemoryOrigin, MemoryScope, MemoryTrust, Visibility},
        find::EntryOwner,
        sources::Reach,
    },
    model::estimate_tokens,
    secrets::Keyring,
    time::Timestamp,
};

/// Maximum number of paragraphs of a file; the text after them is not searched.
const PARAGRAPHS_MAX: usize = 1_000;
/// Maximum number of paragraphs in all files of an import. They are stored in one transaction, and an agent cannot have more active
/// entries.
const IMPORTED_MAX: usize = 2_000;

/// Paragraphs of a searchable file, computed before the transaction.
#[derive(Debug, Clone)]
pub struct Paragraphs {
    path: String,
    /// Contents without duplicates.
    contents: Vec<Content>,
    written_at: Timestamp,
}

impl Paragraphs {
    /// Splits a file into paragraphs. Returns `None` if the file is not searched. Paragraphs that look like secrets are left out.
    pub fn of(
        path: &str,
        content: &str,
        workspace: WorkspaceId,
        keyring: &Keyring,
    ) -> Option<Self> {
        let day = log_date(path);
        if day.is_none() && path != MEMORY {
            return None;
        }
        let skipped_tokens = if day.is_some() { 0 } else { NOTES_TOKENS_MAX };
        let mut known = HashSet::new();
        let contents = texts(content, skipped_tokens)
            .into_iter()
            .filter(|text| known.insert(*text))
            .take(PARAGRAPHS_MAX)
            .filter_map(|text| Content::parse(text, workspace, keyring).ok());
        let at = now();
        // The paragraphs of a log get the date of the log.
        let day = day.and_then(|day| day.and_hms_opt(0, 0, 0));
        let day = day.and_then(|day| Timestamp::within_years(day.and_utc()));
        Some(Self {
            path: path.to_owned(),
            contents: contents.collect(),
            written_at: day.map_or(at, |day| day.min(at)),
        })
    }

    /// Paragraphs of the files of an import: first those of MEMORY.md, then those of the logs, newest log first.
    pub fn of_import(import: &Import, workspace: WorkspaceId, keyring: &Keyring) -> Vec<Self> {
        let memory = import.files.get_key_value(MEMORY);
        let logs = import
            .files
            .iter()
            .rev()
            .filter(|(path, _)| *path != MEMORY);
        let (mut all, mut left) = (Vec::new(), IMPORTED_MAX);
        for (path, content) in memory.into_iter().chain(logs) {
            if left == 0 {
                break;
            }
            if let Some(mut file) = Self::of(path, content, workspace, keyring) {
                file.contents.truncate(left);
                left -= file.contents.len();
                all.push(file);
            }
        }
        all
    }
}

/// Splits a file at blank lines into texts that fit into an entry, skipping those within the first `skipped_tokens`. A
/// heading belongs to the paragraph after it.
fn texts(content: &str, skipped_tokens: u64) -> Vec<&str> {
    let (mut texts, mut tokens, mut counted) = (Vec::new(), 0, 0);
    for (start, end) in paragraphs(content) {
        for (end, text) in pieces(content, start, end) {
            tokens += estimate_tokens(&content[counted..end]);
            counted = end;
            if tokens > skipped_tokens && !text.trim().is_empty() {
                texts.push(text.trim());
            }
        }
    }
    texts
}

/// Start and end of each paragraph in bytes.
fn paragraphs(content: &str) -> Vec<(usize, usize)> {
    let mut all: Vec<(usize, usize)> = Vec::new();
    // Start of the current paragraph, and whether it contains anything other than headings.
    let (mut start, mut has_text) = (None, false);
    let mut at = 0;
    for line in content.split_inclusive('\n') {
        let is_blank = line.trim().is_empty();
        if is_blank && has_text {
            all.extend(start.take().map(|start| (start, at)));
            has_text = false;
        } else if !is_blank {
            start.get_or_insert(at);
            has_text |= !line.starts_with('#');
        }
        at += line.len();
    }
    all.extend(start.map(|start| (start, at)));
    all
}

/// Splits a paragraph into texts that fit into an entry, between words if possible. Returns each text with its end position.
fn pieces(content: &str, start: usize, end: usize) -> Vec<(usize, &str)> {
    let (mut pieces, mut from) = (Vec::new(), start);
    while from < end {
        let rest = &content[from..end];
        let mut units = 0;
        let beyond = rest.char_indices().find(|(_, c)| {
            units += c.len_utf16();
            units > TEXT_UNITS_MAX
        });
        let to = match beyond {
            None => rest.len(),
            Some((limit, _)) => {
                let head = &rest[..limit];
                let space = head.rfind('\n').or_else(|| head.rfind(char::is_whitespace));
                space.filter(|at| *at > 0).unwrap_or(limit)
            }
        };
        pieces.push((from + to, &rest[..to]));
        from += to;
    }
    pieces
}

/// Writes a file of an agent, and makes its paragraphs searchable. `expected` is the version from `If-Match`.
///
/// # Errors
/// As for `agents::files::write`.
pub async fn write(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    path: &FilePath,
    content: &str,
    paragraphs: Option<&Paragraphs>,
    expected: Option<i64>,
) -> Result<File, AgentError> {
    let file = files::write(c, actor, reference, path, content, expected).await?;
    if let Some(paragraphs) = paragraphs {
        let agent = profiles::get_by_reference(c, actor, reference).await?;
        follow(c, actor.workspace, agent.summary.id, paragraphs).await?;
    }
    Ok(file)
}

/// Deletes a file of an agent and the file's entries.
///
/// # Errors
/// As for `agents::files::delete`.
pub async fn delete(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
    path: &FilePath,
    expected: Option<i64>,
) -> Result<(), AgentError> {
    files::delete(c, actor, reference, path, expected).await?;
    let agent = profiles::get_by_reference(c, actor, reference).await?;
    let none = Paragraphs {
        path: path.as_str().to_owned(),
        contents: Vec::new(),
        written_at: now(),
    };
    Ok(follow(c, actor.workspace, agent.summary.id, &none).await?)
}

/// Creates an agent from an export or from files, and makes the paragraphs of its files searchable.
///
/// # Errors
/// As for `transfer::import_agent`.
pub async fn import(
    c: &mut Conn,
    actor: &Actor<'_>,
    import: &Import,
    paragraphs: &[Paragraphs],
) -> Result<Imported, AgentError> {
    let imported = transfer::import_agent(c, actor, import).await?;
    for paragraphs in paragraphs {
        let agent = imported.agent.summary.id;
        follow(c, actor.workspace, agent, paragraphs).await?;
    }
    Ok(imported)
}

/// Stores the paragraphs that are new in a file, and removes those that it no longer contains. A single event announces all of these
/// changes.
async fn follow(
    c: &mut Conn,
    workspace: WorkspaceId,
    agent: AgentId,
    file: &Paragraphs,
) -> Result<(), DbError> {
    let known: Vec<(MemoryId, String)> = c
        .q("select id, text from memories where agent_id = $1 and origin = 'file' and path = $2 and forgotten_at is null \
            order by id")
        .bind(agent)
        .bind(file.path.clone())
        .all()
        .await?;
    let wanted: HashSet<&str> = file.contents.iter().map(Content::text).collect();
    let stored: HashSet<&str> = known.iter().map(|(_, text)| text.as_str()).collect();
    let gone = known.iter().filter(|(_, text)| !wanted.contains(&**text));
    let gone: Vec<MemoryId> = gone.map(|(id, _)| *id).collect();
    let contents = file.contents.iter();
    let new: Vec<&Content> = contents
        .filter(|new| !stored.contains(new.text()))
        .collect();
    if let Some(first) = gone.first().filter(|_| new.is_empty()) {
        entries::announce(c, *first, MemoryAction::Deleted).await?;
    }
    derived::remove_paragraphs(c, &gone).await?;
    insert(c, workspace, agent, file, new.as_slice()).await
}

async fn insert(
    c: &mut Conn,
    workspace: WorkspaceId,
    agent: AgentId,
    file: &Paragraphs,
    new: &[&Content],
) -> Result<(), DbError> {
    if new.is_empty() {
        return Ok(());
    }
    let of = EntryOwner {
        agent: Some(agent),
        ..EntryOwner::default()
    };
    let key = of.key(MemoryScope::Agent, workspace);
    let count = i64::try_from(new.len()).unwrap_or(i64::MAX);
    let room = create::make_room(c, workspace, &key, count).await;
    if optional(room)?.is_none() {
        return Ok(());
    }
    let mut last = None;
    for content in new {
        let draft = Draft {
            id: MemoryId::new(),
            scope: MemoryScope::Agent,
            key: key.clone(),
            kind: MemoryKind::Note,
            content: (*content).clone(),
            agent: Some(agent),
            user: None,
            about: None,
            thread: None,
            conversation: None,
            compaction: None,
            reach: Reach {
                visibility: Visibility::Workspace,
                channel: None,
            },
            trust: MemoryTrust::Person,
            origin: MemoryOrigin::File,
            // No author is stored, because the file outlives the erasure of its author.
            created_by: None,
        };
        create::store(c, workspace, &draft, &[]).await?;
        last = Some(draft.id);
    }
    c.q("update memories set path = $2, created_at = $3 where agent_id = $1 and origin = 'file' and path is null")
        .bind(agent)
        .bind(file.path.clone())
        .bind(file.written_at)
        .run()
        .await?;
    match last {
        Some(last) => entries::announce(c, last, MemoryAction::Created).await,
        None => Ok(()),
    }
}

/// Key in `meta` that records that the files stored by earlier server versions have been read.
const STORED_READ: &str = "file_paragraphs";
/// Maximum number of files that are read at once.
const FILES_AT_ONCE: i64 = 20;

#[derive(sqlx::FromRow)]
struct StoredFile {
    workspace_id: WorkspaceId,
    owner_id: Uuid,
    path: String,
    content: String,
}

/// Makes files that were stored by earlier server versions searchable, once.
///
/// # Errors
/// Only database errors, after which this can be called again.
pub async fn follow_stored(db: &Db, keyring: &Keyring) -> Result<(), DbError> {
    let done: Option<(String,)> = db
        .read()
        .await?
        .q("select value from meta where key = $1")
        .bind(STORED_READ)
        .opt()
        .await?;
    if done.is_some() {
        return Ok(());
    }
    let (mut owner, mut path) = (Uuid::nil(), String::new());
    loop {
        let found: Vec<StoredFile> = db
            .read()
            .await?
            .q("select workspace_id, owner_id, path, content from agent_files where content is not null \
                and (path = 'MEMORY.md' or path like 'memory/%') and (owner_id > $1 or (owner_id = $1 and path > $2)) \
                order by owner_id, path limit $3")
            .bind(owner)
            .bind(path.clone())
            .bind(FILES_AT_ONCE)
            .all()
            .await?;
        let Some(last) = found.last() else { break };
        (owner, path) = (last.owner_id, last.path.clone());
        for file in found {
            let workspace = file.workspace_id;
            let paragraphs = Paragraphs::of(&file.path, &file.content, workspace, keyring);
            let Some(paragraphs) = paragraphs else {
                continue;
            };
            db.write(workspace.0, async move |c: &mut Conn| {
                // Another node may also have read or written the file.
                lock_workspace(c, workspace.0).await?;
                let content: Option<(Option<String>,)> = c
                    .q("select content from agent_files where owner_id = $1 and path = $2")
                    .bind(file.owner_id)
                    .bind(file.path.clone())
                    .opt()
                    .await?;
                if content.is_none_or(|(content,)| content.as_ref() != Some(&file.content)) {
                    return Ok(());
                }
                follow(c, workspace, AgentId(file.owner_id), &paragraphs).await
            })
            .await?;
        }
    }
    db.write(Uuid::nil(), async |c: &mut Conn| {
        c.q("insert into meta (key, value) values ($1, '1') on conflict (key) do nothing")
            .bind(STORED_READ)
            .run()
            .await
    })
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_end_at_blank_lines_and_headings_belong_to_the_next_one() {
        let content = "# Notes\n\n## Harbor\n\nThe ferry\nis green.\n \n- One\n- Two\n\n\n# End";
        let wanted = [
            "# Notes\n\n## Harbor\n\nThe ferry\nis green.",
            "- One\n- Two",
            "# End",
        ];
        assert_eq!(texts(content, 0), wanted);
        assert_eq!(texts(" \n\n", 0), Vec::<&str>::new());
    }

    #[test]
    fn long_paragraphs_are_split_between_words() {
        let content = "word ".repeat(500);
        let found = texts(&content, 0);
        assert_eq!(found.len(), 3);
        assert!(
            found
                .iter()
                .all(|text| text.encode_utf16().count() <= TEXT_UNITS_MAX)
        );
        assert_eq!(found.join(" "), content.trim());
        for unbroken in ["ü".repeat(2_500), "😀".repeat(2_500)] {
            let found = texts(&unbroken, 0);
            assert!(
                found
                    .iter()
                    .all(|text| text.encode_utf16().count() <= TEXT_UNITS_MAX)
            );
            assert_eq!(found.concat(), unbroken);
        }
    }

    #[test]
    fn only_the_text_behind_the_first_tokens_is_searched() {
        let content = format!("{}\n\n{}", "a".repeat(400), "b".repeat(400));
        assert_eq!(texts(&content, 101), ["b".repeat(400)]);
        assert_eq!(texts(&content, 300), Vec::<&str>::new());
        assert_eq!(texts(&content, 100).len(), 2);
    }
}
