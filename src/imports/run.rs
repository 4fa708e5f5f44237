//! Runs imports: reads archives for previews, and stores their records in batches, each with its position, so that an import that was
//! interrupted goes on where it was.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures::StreamExt;
use tokio::{runtime::Handle, sync::mpsc};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    agents::{SourceAgent, store_agent},
    announce::Announcer,
    archive::{ArchiveFault, PieceReader},
    discord,
    emoji::store_emoji,
    emoji_source::SourceEmoji,
    error::ImportError,
    event::announce_import,
    fetch::{FETCHED_AT_ONCE, FetchFault, SourceHosts},
    key::{Identity, Keys, RecordKind},
    message::{self, ChannelPlace, ChatPlace, NewImportedFile, Translated},
    options::{ChannelChoice, ImportFormat, ImportGroup, ImportOptions},
    people::{Known, find_known, is_active_member, store_person},
    preview::{self, ChannelFate, kind_here, would_show},
    record::{
        PlacedItem, SourceChannel, SourceChannelKind, SourceFile, SourceFiles, SourceIndex,
        SourceItem, SourceNames, SourcePerson, SourceRecord, SourceUnit,
    },
    report::{ImportCounts, ImportReport, RecordOutcome},
    row::{self, ImportPhase, ImportRow, ImportState, WantedFormat},
    source::SourceArchive,
    work::{SourceWork, store_record},
};
use crate::{
    agents::AgentError,
    auth::AuthError,
    blocking,
    chat::{
        ChatError,
        channels::{ChannelKind, ImportedChannel, insert_imported_channel, parse_name},
    },
    db::{Conn, Db, DbError, Json, dialect, now},
    failpoint,
    files::{self, Blobs, FileError},
    hooks::HookError,
    ids::{ChannelId, ImportId, UserId, WorkspaceId},
    memory::files::Paragraphs,
    realtime::Hub,
    secrets::Keyring,
    time::Timestamp,
};

/// Number of records per transaction.
const AT_ONCE: usize = 50;
/// Number of batches that are read ahead.
const AHEAD: usize = 1;
/// Time for which archives are kept that were not imported.
const KEPT_FOR: Duration = Duration::from_hours(7 * 24);
const STORAGE_FULL: &str = "The workspace's storage is full.";
const DELETED_LATE: &str = "The archive was deleted after 7 days.";
const DATABASE_FAILED: &str = "The database failed 5 times in a row.";
/// Number of errors in a row without progress after which an import fails.
const ERRORS_MAX: u32 = 5;
/// Maximum number of imports from which the next one is selected.
const SELECTED_MAX: i64 = 1000;

/// Errors of an import in a row, all at the same position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Errors {
    count: u32,
    state: ImportState,
    phase: ImportPhase,
    position: i64,
    message: i64,
}

/// Errors of imports on this node since their last progress. Imports without errors are selected first.
#[derive(Debug, Default)]
pub struct ImportErrors(HashMap<ImportId, Errors>);

impl ImportErrors {
    fn count(&self, id: ImportId) -> u32 {
        self.0.get(&id).map_or(0, |errors| errors.count)
    }

    /// Counts an error of an import that was at the position of `new`. Returns the number of errors there.
    fn add(&mut self, id: ImportId, new: Errors) -> u32 {
        let same = self.0.get(&id).copied();
        let same = same.filter(|old| Errors { count: 0, ..*old } == new);
        let count = same.map_or(0, |old| old.count).saturating_add(1);
        self.0.insert(id, Errors { count, ..new });
        count
    }
}

/// Imports that this process works on. Each loop works on another one, so that a large archive does not stop those of other workspaces.
#[derive(Debug, Clone, Default)]
pub struct ImportTurns(Arc<Mutex<HashSet<ImportId>>>);

impl ImportTurns {
    /// Number of loops of a process.
    pub const AT_ONCE: usize = 2;
    /// Stands for the merges, which are made by one loop.
    const MERGES: ImportId = ImportId(Uuid::nil());

    fn taken(&self) -> MutexGuard<'_, HashSet<ImportId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the turn of an import; `None` if another loop has it.
    fn take(&self, id: ImportId) -> Option<ImportTurn> {
        let is_free = self.taken().insert(id);
        is_free.then(|| ImportTurn {
            id,
            turns: self.clone(),
        })
    }
}

/// The turn of an import, until it is dropped.
struct ImportTurn {
    id: ImportId,
    turns: ImportTurns,
}

impl Drop for ImportTurn {
    fn drop(&mut self) {
        self.turns.taken().remove(&self.id);
    }
}

/// Dependencies of imports.
#[derive(Clone)]
pub struct Importer {
    pub db: Db,
    pub blobs: Blobs,
    pub hub: Arc<Hub>,
    pub shutdown: CancellationToken,
    pub hosts: SourceHosts,
    pub upload_bytes_max: u64,
    pub archive_bytes_max: u64,
    pub keyring: Arc<Keyring>,
    /// Directory of archives that need no upload.
    pub directory: Option<PathBuf>,
}

/// People and channels of the archive, as they are here. Channels are found by folder.
#[derive(Debug, Default)]
struct Directory {
    people: Arc<HashMap<String, Known>>,
    by_handle: Arc<HashMap<String, UserId>>,
    channels: HashMap<String, ChannelPlace>,
    /// Names of agents by their IDs in the archive.
    agents: Arc<HashMap<String, String>>,
    /// Place of a person's chats, if the archive has these.
    chat: Option<ChatPlace>,
}

/// Message from the thread that reads an archive.
enum Sent {
    Batch {
        items: Vec<PlacedItem>,
        /// Position after the batch.
        end: Position,
    },
    File {
        key: String,
        name: String,
        bytes: Vec<u8>,
    },
    Problem(String),
}

/// Position and counters of an import, as stored.
#[derive(Debug, Clone)]
struct Progress {
    import: ImportId,
    format: Option<ImportFormat>,
    keys: Keys,
    phase: ImportPhase,
    position: i64,
    message: i64,
    done: i64,
    report: ImportReport,
}

impl Progress {
    fn of(row: &ImportRow, source: String) -> Self {
        Self {
            import: row.id,
            format: row.format,
            keys: Keys {
                workspace: row.workspace_id,
                source,
            },
            phase: row.phase,
            position: row.position,
            message: row.message,
            done: row.done,
            report: row.report.0.clone(),
        }
    }

    /// Stores the next position. Fails if another node has moved on, or the import is no longer running.
    async fn store(&self, c: &mut Conn, next: &Self) -> Result<(), ImportError> {
        let n = c
            .q("update imports set phase = $2, position = $3, message = $4, done = $5, report = $6 \
                where id = $1 and state = 'running' and phase = $7 and position = $8 and message = $9")
            .bind(self.import)
            .bind(next.phase)
            .bind(next.position)
            .bind(next.message)
            .bind(next.done)
            .bind(Json(next.report.clone()))
            .bind(self.phase)
            .bind(self.position)
            .bind(self.message)
            .run()
            .await?;
        if n == 1 {
            Ok(())
        } else {
            Err(ArchiveFault::Stopped.into())
        }
    }
}

impl Importer {
    /// Works on the oldest import that waits for it and that no other loop works on, or on a merge. Returns false if there is none.
    ///
    /// # Errors
    /// Only errors after which the import can go on.
    pub async fn work(
        &self,
        errors: &mut ImportErrors,
        turns: &ImportTurns,
    ) -> Result<bool, ImportError> {
        let waiting: Vec<(ImportId,)> = self
            .db
            .read()
            .await?
            .q("select id from imports where state in ('reading', 'running', 'undoing') or (state = 'receiving' and path is not null) \
                order by id limit $1")
            .bind(SELECTED_MAX)
            .all()
            .await?;
        errors.0.retain(|id, _| waiting.contains(&(*id,)));
        let mut next: Vec<ImportId> = waiting.iter().map(|(id,)| *id).collect();
        next.sort_by_key(|id| errors.count(*id));
        let Some(turn) = next.into_iter().find_map(|id| turns.take(id)) else {
            return self.merge(turns).await;
        };
        let id = turn.id;
        if errors.count(id) > 0 {
            match self.merge(turns).await {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(e) => tracing::warn!(error = %e, "a merge was interrupted; retrying"),
            }
        }
        let Some(row) = row::find(&mut self.db.read().await?, id).await? else {
            return Ok(true);
        };
        let (workspace, state) = (row.workspace_id, row.state);
        let is_waiting = match state {
            ImportState::Reading | ImportState::Running | ImportState::Undoing => true,
            ImportState::Receiving => row.path.is_some(),
            _ => false,
        };
        // Another loop can have ended it before this one took its turn.
        if !is_waiting {
            return Ok(true);
        }
        let start = Errors {
            count: 0,
            state,
            phase: row.phase,
            position: row.position,
            message: row.message,
        };
        let worked = match state {
            ImportState::Receiving => Box::pin(self.copy(&row)).await,
            ImportState::Reading => self.read(&row).await,
            ImportState::Undoing => Box::pin(self.undo(&row)).await,
            _ => Box::pin(self.run(row)).await,
        };
        let (end, problem) = match worked {
            Ok(()) => {
                errors.0.remove(&id);
                return Ok(true);
            }
            Err(ImportError::Archive(ArchiveFault::Stopped)) => return Ok(true),
            Err(ImportError::Db(_)) if self.shutdown.is_cancelled() => return Ok(true),
            Err(e) if is_full(&e) => (ImportState::Paused, STORAGE_FULL.to_owned()),
            Err(e) if is_of_storage(&e) => {
                let count = errors.add(id, start);
                let is_lasting = count >= ERRORS_MAX && is_of_database(&e);
                // If nobody can write, the import is not the cause.
                if !is_lasting || self.db.check_writers().await.is_err() {
                    return Err(e);
                }
                tracing::warn!(error = %e, import = %id, "an import failed");
                (ImportState::Failed, DATABASE_FAILED.to_owned())
            }
            Err(e) => (ImportState::Failed, e.to_string()),
        };
        self.end(workspace, id, state, end, Some(problem)).await?;
        Ok(true)
    }

    async fn merge(&self, turns: &ImportTurns) -> Result<bool, ImportError> {
        let Some(_turn) = turns.take(ImportTurns::MERGES) else {
            return Ok(false);
        };
        match Box::pin(self.merge_next()).await {
            Err(ImportError::Archive(ArchiveFault::Stopped)) => Ok(true),
            merged => merged,
        }
    }

    /// See `row::end`.
    async fn end(
        &self,
        workspace: WorkspaceId,
        id: ImportId,
        from: ImportState,
        state: ImportState,
        problem: Option<String>,
    ) -> Result<(), ImportError> {
        self.db
            .write(workspace.0, async move |c: &mut Conn| {
                Ok::<_, ImportError>(row::end(c, id, from, state, problem.clone()).await?)
            })
            .await
    }

    /// Returns a function that opens the archive on a thread that may block.
    async fn opener(
        &self,
        id: ImportId,
        format: Option<ImportFormat>,
    ) -> Result<
        impl FnOnce() -> Result<SourceArchive<PieceReader>, ArchiveFault> + Send + 'static,
        DbError,
    > {
        let pieces = row::pieces(&mut self.db.read().await?, id).await?;
        let (handle, blobs) = (Handle::current(), self.blobs.clone());
        let bytes_max = self.archive_bytes_max;
        let reader = move || PieceReader::new(handle.clone(), blobs.clone(), pieces.clone());
        Ok(move || SourceArchive::open(reader, format, bytes_max))
    }

    /// Detects the format of a complete archive, or checks that it has the chosen one.
    ///
    /// # Errors
    /// `UnknownArchive`, `Archive`.
    async fn detect(
        &self,
        id: ImportId,
        format: Option<ImportFormat>,
    ) -> Result<ImportFormat, ImportError> {
        let open = self.opener(id, format).await?;
        let opened = blocking::blocking((), move || open().map(|archive| archive.format()));
        match opened.await.map_err(stopped)? {
            Ok(format) => Ok(format),
            Err(ArchiveFault::Unknown(text)) => Err(ImportError::UnknownArchive(text)),
            Err(fault) => Err(fault.into()),
        }
    }

    /// Checks a complete archive. Does nothing if it was checked.
    ///
    /// # Errors
    /// `UnknownArchive`, `Archive`.
    pub async fn end_upload(
        &self,
        workspace: WorkspaceId,
        id: ImportId,
    ) -> Result<(), ImportError> {
        let wanted = row::wanted_format(&mut self.db.read().await?, id).await?;
        let format = match wanted {
            None => return Ok(()),
            Some(WantedFormat::Detected) => None,
            Some(WantedFormat::Chosen(format)) => Some(format),
        };
        let detected = self.detect(id, format).await;
        let end = match &detected {
            Ok(format) => Ok(*format),
            Err(ImportError::Archive(ArchiveFault::Stopped)) => {
                return Err(ArchiveFault::Stopped.into());
            }
            Err(e @ (ImportError::UnknownArchive(_) | ImportError::Archive(_))) => {
                Err(e.to_string())
            }
            // The last piece is sent again.
            Err(_) => return detected.map(|_| ()),
        };
        let ended = self.db.write(workspace.0, async move |c: &mut Conn| {
            row::end_upload(c, id, end.clone()).await
        });
        ended.await?;
        detected?;
        Ok(())
    }

    async fn read(&self, row: &ImportRow) -> Result<(), ImportError> {
        let open = self.opener(row.id, row.format).await?;
        let shutdown = self.shutdown.clone();
        let (creator, options) = (row.created_by, row.options.0.clone());
        let mut c = self.db.read().await?;
        let confirmed = preview::confirmed_members(&mut c, row.workspace_id).await?;
        drop(c);
        let is_own = move |person: &SourcePerson| {
            let email = options.address_of(&person.key, person.email.clone());
            let email = email.filter(|_| !person.is_bot);
            let same = email.and_then(|email| confirmed.get(&email));
            options.people.get(&person.key).or(same) == Some(&creator)
        };
        let read = blocking::blocking((), move || {
            let mut archive = open()?;
            preview::read(&mut archive, &is_own, &|| shutdown.is_cancelled())
                .ok_or(ArchiveFault::Stopped)
        });
        let mut preview = read.await.map_err(stopped)??;
        preview.source = scoped(preview.source, row);
        let id = row.id;
        self.db
            .write(row.workspace_id.0, async move |c: &mut Conn| {
                let total = preview.counts.messages + preview.counts.left_out;
                c.q("update imports set state = 'ready', preview = $2, total = $3, source = $4 where id = $1 and state = 'reading'")
                    .bind(id)
                    .bind(Json(preview.clone()))
                    .bind(total)
                    .bind(preview.source.clone())
                    .run()
                    .await?;
                Ok::<_, ImportError>(announce_import(c, id).await?)
            })
            .await
    }

    async fn run(&self, row: ImportRow) -> Result<(), ImportError> {
        let started = Instant::now();
        let open = self.opener(row.id, row.format).await?;
        let opened = blocking::blocking((), move || {
            let mut archive = open()?;
            // Else nothing would be imported, and the import would be done.
            archive.check()?;
            let index = archive.index();
            let (emoji, mut faults) = archive.emoji();
            let (agents, others) = archive.agents();
            faults.extend(others);
            let (work, others) = archive.work();
            faults.extend(others);
            Ok::<_, ArchiveFault>((archive, index, emoji, agents, work, faults))
        });
        let (mut archive, index, emoji, agents, work, faults) = opened.await.map_err(stopped)??;
        let SourceIndex {
            source,
            people,
            channels,
            problems,
        } = index;
        let mut progress = Progress::of(&row, scoped(source, &row));
        if progress.phase == ImportPhase::People && progress.position == 0 {
            for problem in problems.into_iter().chain(faults) {
                progress.report.problem(&problem);
            }
        }
        let options = Arc::new(row.options.0.clone());
        let people = Arc::new(people);
        if progress.phase == ImportPhase::People {
            progress = self.store_people(&row, progress, &people, &options).await?;
        }
        let mut directory = self.directory(&progress.keys, &people).await?;
        directory.agents = Arc::clone(&work.agents);
        if row.is_of_person() {
            directory.chat = Some(self.chat_place(&row).await?);
        }
        if progress.phase == ImportPhase::Channels {
            progress = self
                .store_channels(&row, progress, &channels, &options, &directory)
                .await?;
        }
        if progress.phase == ImportPhase::Emoji {
            (progress, archive) = self
                .store_emoji(&row, progress, archive, &emoji, &directory)
                .await?;
        }
        if progress.phase == ImportPhase::Agents {
            progress = self.store_agents(&row, progress, &agents).await?;
        }
        let SourceWork {
            agents,
            records,
            schedules,
        } = work;
        if progress.phase == ImportPhase::Work {
            progress = self.store_work(&row, progress, &agents, &records).await?;
            progress = self.begin_phase(&progress, ImportPhase::Messages).await?;
        }
        drop(records);
        if progress.phase == ImportPhase::Messages {
            self.find_channels(&progress.keys, &channels, &options, &mut directory)
                .await?;
            let names = names_of(&directory, &channels);
            let group = options.group.unwrap_or(ImportGroup::Day);
            progress = self
                .store_messages(&row, progress, archive, names, directory, group)
                .await?;
            progress = self.begin_phase(&progress, ImportPhase::Schedules).await?;
        }
        self.store_work(&row, progress, &agents, &schedules).await?;
        let running = ImportState::Running;
        self.end(row.workspace_id, row.id, running, ImportState::Done, None)
            .await?;
        metrics::histogram!("openvibe_import_seconds").record(started.elapsed().as_secs_f64());
        Ok(())
    }

    /// The channel that a person's chats go to.
    async fn chat_place(&self, row: &ImportRow) -> Result<ChatPlace, ImportError> {
        let mut c = self.db.read().await?;
        let place = match row.options.0.channel_id {
            Some(id) => ChatPlace::find(&mut c, row.workspace_id, id, row.created_by).await?,
            None => None,
        };
        let gone = "the chat with the agent is no longer here".to_owned();
        place.ok_or(ImportError::Invalid(gone, "channel_id"))
    }

    async fn store_people(
        &self,
        row: &ImportRow,
        mut progress: Progress,
        people: &Arc<Vec<SourcePerson>>,
        options: &Arc<ImportOptions>,
    ) -> Result<Progress, ImportError> {
        let (workspace, creator) = (row.workspace_id, row.created_by);
        loop {
            let from = usize::try_from(progress.position).unwrap_or(usize::MAX);
            if from >= people.len() {
                break;
            }
            let (people, options, before) =
                (Arc::clone(people), Arc::clone(options), progress.clone());
            progress = self
                .db
                .write(workspace.0, async move |c: &mut Conn| {
                    dialect::lock_workspace(c, workspace.0).await?;
                    let known = preview::confirmed_members(c, workspace).await?;
                    let mut next = before.clone();
                    for person in people.iter().skip(from).take(AT_ONCE) {
                        let mut person = person.clone();
                        person.email = options.address_of(&person.key, person.email);
                        let mut same = options.people.get(&person.key).copied();
                        if let Some(chosen) = same
                            && !is_active_member(c, workspace, chosen).await?
                        {
                            same = None;
                        }
                        let email = person.email.as_ref().filter(|_| !person.is_bot);
                        let same = same.or_else(|| known.get(email?).copied());
                        let outcome = store_person(c, &before.keys, &person, same, creator).await?;
                        next.report.count(RecordKind::People, outcome, &person.key);
                        next.position += 1;
                    }
                    before.store(c, &next).await?;
                    Ok::<_, ImportError>(next)
                })
                .await?;
        }
        self.begin_phase(&progress, ImportPhase::Channels).await
    }

    async fn move_on(&self, from: &Progress, to: &Progress) -> Result<(), ImportError> {
        let (from, to) = (from.clone(), to.clone());
        self.db
            .write(from.keys.workspace.0, async move |c: &mut Conn| {
                from.store(c, &to).await
            })
            .await
    }

    /// Stores the end of a phase. Returns the progress at the beginning of the next one.
    async fn begin_phase(
        &self,
        progress: &Progress,
        phase: ImportPhase,
    ) -> Result<Progress, ImportError> {
        let next = Progress {
            phase,
            position: 0,
            ..progress.clone()
        };
        self.move_on(progress, &next).await?;
        Ok(next)
    }

    /// Finds the people of the archive here, as stored by this import and earlier ones.
    async fn directory(
        &self,
        keys: &Keys,
        people: &[SourcePerson],
    ) -> Result<Directory, ImportError> {
        let (mut known, mut by_handle) = (HashMap::new(), HashMap::new());
        let mut c = self.db.read().await?;
        for person in people {
            let Some(found) = find_known(&mut c, keys, &person.key).await? else {
                continue;
            };
            if let Known::Person { id, handle } = &found
                && !handle.is_empty()
            {
                by_handle.insert(handle.clone(), *id);
            }
            known.insert(person.key.clone(), found);
        }
        Ok(Directory {
            people: Arc::new(known),
            by_handle: Arc::new(by_handle),
            channels: HashMap::new(),
            agents: Arc::default(),
            chat: None,
        })
    }

    async fn store_channels(
        &self,
        row: &ImportRow,
        mut progress: Progress,
        channels: &[SourceChannel],
        options: &Arc<ImportOptions>,
        directory: &Directory,
    ) -> Result<Progress, ImportError> {
        let workspace = row.workspace_id;
        let from = usize::try_from(progress.position).unwrap_or(usize::MAX);
        for channel in channels.iter().skip(from) {
            let people = channel
                .members
                .iter()
                .filter_map(|key| match directory.people.get(key) {
                    Some(Known::Person { id, .. }) => Some(*id),
                    _ => None,
                });
            let mut members: Vec<UserId> = people.collect();
            if progress.keys.product() == discord::PRODUCT
                && channel.kind == SourceChannelKind::Private
            {
                // The archive has no permissions: only the importer can be trusted with it.
                members.push(row.created_by);
            }
            members.sort_unstable();
            members.dedup();
            let creator = channel
                .creator
                .as_ref()
                .and_then(|key| directory.people.get(key));
            let creator = match creator {
                Some(Known::Person { id, .. }) => Some(*id),
                _ => None,
            };
            let choice = options.channels.get(&channel.key).copied();
            let is_here = directory.chat.is_some();
            let (channel, before) = (channel.clone(), progress.clone());
            progress = self
                .db
                .write(workspace.0, async move |c: &mut Conn| {
                    dialect::lock_workspace(c, workspace.0).await?;
                    let mut next = before.clone();
                    let outcome = if is_here {
                        RecordOutcome::Existing
                    } else {
                        store_channel(c, &before.keys, &channel, choice, &members, creator).await?
                    };
                    next.report
                        .count(RecordKind::Channels, outcome, &channel.key);
                    next.position += 1;
                    before.store(c, &next).await?;
                    Ok::<_, ImportError>(next)
                })
                .await?;
        }
        self.begin_phase(&progress, ImportPhase::Emoji).await
    }

    /// Stores the custom emoji. Returns the archive, which is read on a thread that may block.
    async fn store_emoji(
        &self,
        row: &ImportRow,
        mut progress: Progress,
        mut archive: SourceArchive<PieceReader>,
        all: &[SourceEmoji],
        directory: &Directory,
    ) -> Result<(Progress, SourceArchive<PieceReader>), ImportError> {
        let from = usize::try_from(progress.position).unwrap_or(usize::MAX);
        for emoji in all.iter().skip(from) {
            if self.shutdown.is_cancelled() {
                return Err(ArchiveFault::Stopped.into());
            }
            let key = emoji.file.clone();
            let read = blocking::blocking((), move || {
                let bytes = archive.picture(&key);
                (archive, bytes)
            });
            let (returned, bytes) = read.await.map_err(stopped)?;
            archive = returned;
            let picture = match bytes {
                None => None,
                Some(Ok(bytes)) => message::store_bytes(&self.blobs, &emoji.name, &bytes).await?,
                Some(Err(fault)) => {
                    progress.report.problem(&fault.to_string());
                    None
                }
            };
            let creator = match emoji
                .creator
                .as_ref()
                .and_then(|key| directory.people.get(key))
            {
                Some(Known::Person { id, .. }) => *id,
                _ => row.created_by,
            };
            let (workspace, importer) = (row.workspace_id, row.created_by);
            let (emoji, before) = (emoji.clone(), progress.clone());
            let picture = Arc::new(picture);
            let shared = Arc::clone(&picture);
            let (next, upload) = self
                .db
                .write(workspace.0, async move |c: &mut Conn| {
                    dialect::lock_workspace(c, workspace.0).await?;
                    let mut next = before.clone();
                    let picture = (*shared).as_ref();
                    let (outcome, upload) =
                        store_emoji(c, &before.keys, &emoji, picture, importer, creator).await?;
                    next.report.count(RecordKind::Emoji, outcome, &emoji.name);
                    next.position += 1;
                    before.store(c, &next).await?;
                    Ok::<_, ImportError>((next, upload))
                })
                .await?;
            progress = next;
            if let Some(picture) = Arc::into_inner(picture).flatten() {
                picture.published.settle(upload);
            }
        }
        let next = self.begin_phase(&progress, ImportPhase::Agents).await?;
        Ok((next, archive))
    }

    async fn store_agents(
        &self,
        row: &ImportRow,
        mut progress: Progress,
        agents: &[SourceAgent],
    ) -> Result<Progress, ImportError> {
        let from = usize::try_from(progress.position).unwrap_or(usize::MAX);
        for agent in agents.iter().skip(from) {
            progress = match self.store_agent(row, &progress, agent).await {
                Err(ImportError::Agent(AgentError::Db(e) | AgentError::Auth(AuthError::Db(e)))) => {
                    return Err(e.into());
                }
                // The name, or something else in it, is not possible here.
                Err(ImportError::Agent(e)) => {
                    let mut next = progress.clone();
                    let outcome = RecordOutcome::LeftOut("it cannot be created here");
                    next.report.count(RecordKind::Agents, outcome, &agent.name);
                    next.report.problem(&format!("agent {}: {e}", agent.name));
                    next.position += 1;
                    self.move_on(&progress, &next).await?;
                    next
                }
                stored => stored?,
            };
        }
        self.begin_phase(&progress, ImportPhase::Work).await
    }

    async fn store_work(
        &self,
        row: &ImportRow,
        mut progress: Progress,
        agents: &Arc<HashMap<String, String>>,
        records: &[SourceRecord],
    ) -> Result<Progress, ImportError> {
        let (workspace, importer) = (row.workspace_id, row.created_by);
        let from = usize::try_from(progress.position).unwrap_or(usize::MAX);
        for record in records.iter().skip(from) {
            if self.shutdown.is_cancelled() {
                return Err(ArchiveFault::Stopped.into());
            }
            let (shared, before) = (record.clone(), progress.clone());
            let agents = Arc::clone(agents);
            let keyring = Arc::clone(&self.keyring);
            let stored = self.db.write(workspace.0, async move |c: &mut Conn| {
                dialect::lock_workspace(c, workspace.0).await?;
                let mut next = before.clone();
                let keys = &before.keys;
                let stored = store_record(c, keys, importer, &agents, &shared, &keyring);
                let outcome = Box::pin(stored).await?;
                next.report.count(shared.kind, outcome, &shared.key);
                next.position += 1;
                before.store(c, &next).await?;
                Ok::<_, ImportError>(next)
            });
            progress = match stored.await {
                Err(ImportError::Refused(problem)) => {
                    let mut next = progress.clone();
                    let outcome = RecordOutcome::LeftOut("it cannot be created here");
                    next.report.count(record.kind, outcome, &record.key);
                    next.report.problem(&format!("{}: {problem}", record.key));
                    next.position += 1;
                    self.move_on(&progress, &next).await?;
                    next
                }
                stored => stored?,
            };
        }
        Ok(progress)
    }

    async fn store_agent(
        &self,
        row: &ImportRow,
        before: &Progress,
        agent: &SourceAgent,
    ) -> Result<Progress, ImportError> {
        let (workspace, creator) = (row.workspace_id, row.created_by);
        let paragraphs = Paragraphs::of_import(&agent.import, workspace, &self.keyring);
        let (agent, before) = (agent.clone(), before.clone());
        self.db
            .write(workspace.0, async move |c: &mut Conn| {
                dialect::lock_workspace(c, workspace.0).await?;
                let mut next = before.clone();
                let stored = store_agent(c, workspace, creator, &agent, &paragraphs);
                let outcome = Box::pin(stored).await?;
                next.report.count(RecordKind::Agents, outcome, &agent.name);
                next.position += 1;
                before.store(c, &next).await?;
                Ok::<_, ImportError>(next)
            })
            .await
    }

    /// Finds the channels of the archive here, by folder. Channels that were left out have none.
    async fn find_channels(
        &self,
        keys: &Keys,
        channels: &[SourceChannel],
        options: &ImportOptions,
        directory: &mut Directory,
    ) -> Result<(), ImportError> {
        if let Some(chat) = directory.chat {
            let places = channels.iter().map(|channel| {
                let place = ChannelPlace {
                    key: channel.key.clone(),
                    id: chat.channel,
                    groups_by_day: false,
                };
                (channel.folder.clone(), place)
            });
            directory.channels = places.collect();
            return Ok(());
        }
        let mut c = self.db.read().await?;
        for channel in channels {
            if options.channels.get(&channel.key) == Some(&ChannelChoice::LeaveOut) {
                continue;
            }
            let found = keys
                .find(&mut c, RecordKind::Channels, &channel.key)
                .await?;
            let Some(id) = found else {
                continue;
            };
            let kind = kind_here(&mut c, keys.workspace, id).await?;
            let choice = options.channels.get(&channel.key).copied();
            let source_kind = ChannelChoice::kind_of(choice, channel.kind, keys.product());
            if kind.is_some_and(|kind| !would_show(source_kind, kind)) {
                let place = ChannelPlace {
                    key: channel.key.clone(),
                    id: ChannelId(id),
                    groups_by_day: channel.kind == SourceChannelKind::Direct
                        || keys.product() == discord::PRODUCT,
                };
                directory.channels.insert(channel.folder.clone(), place);
            }
        }
        Ok(())
    }

    async fn store_messages(
        &self,
        row: &ImportRow,
        mut progress: Progress,
        archive: SourceArchive<PieceReader>,
        names: SourceNames,
        mut directory: Directory,
        group: ImportGroup,
    ) -> Result<Progress, ImportError> {
        let (send, mut sent) = mpsc::channel(AHEAD);
        let start = Position {
            unit: progress.position,
            item: progress.message,
        };
        let channels = Arc::new(std::mem::take(&mut directory.channels));
        let wanted: HashSet<String> = channels.keys().cloned().collect();
        let bytes_max = self.upload_bytes_max;
        let fetch_from = row.options.0.fetch.then(|| archive.format());
        let reading = blocking::blocking((), move || {
            stream(archive, &names, &wanted, start, bytes_max, &send);
        });
        let mut files: HashMap<String, NewImportedFile> = HashMap::new();
        let mut announcer = Announcer::default();
        if start.unit > 0 || start.item > 0 {
            // Those that were announced before an interruption are not known.
            announcer.touch(channels.values().map(|place| place.id));
        }
        while let Some(next) = self.shutdown.run_until_cancelled(sent.recv()).await {
            match next {
                None => {
                    reading.await.map_err(stopped)?;
                    // Stores the problems of the last units.
                    self.move_on(&progress, &progress).await?;
                    let due = announcer.all();
                    self.db
                        .write(row.workspace_id.0, async move |c: &mut Conn| {
                            Ok::<_, ImportError>(Announcer::announce(c, &due).await?)
                        })
                        .await?;
                    return Ok(progress);
                }
                Some(Sent::Problem(text)) => progress.report.problem(&text),
                Some(Sent::File { key, name, bytes }) => {
                    if let Some(file) = message::store_bytes(&self.blobs, &name, &bytes).await? {
                        files.insert(key, file);
                    }
                }
                Some(Sent::Batch { items, end }) => {
                    let next = Progress {
                        position: end.unit,
                        message: end.item,
                        ..progress.clone()
                    };
                    let places = items.iter().filter_map(|item| channels.get(&item.folder));
                    announcer.touch(places.map(|place| place.id));
                    let batch = Batch {
                        creator: row.created_by,
                        channels: Arc::clone(&channels),
                        group,
                        chat: directory.chat,
                        files: std::mem::take(&mut files),
                        announced: announcer.due(),
                        shows_progress: announcer.is_progress_due(),
                        fetch_from,
                        failed: HashMap::new(),
                    };
                    progress = self
                        .store_batch(progress, next, items, batch, &mut directory)
                        .await?;
                }
            }
        }
        Err(ArchiveFault::Stopped.into())
    }

    async fn store_batch(
        &self,
        before: Progress,
        next: Progress,
        items: Vec<PlacedItem>,
        mut batch: Batch,
        directory: &mut Directory,
    ) -> Result<Progress, ImportError> {
        let stored = self
            .stored_files(&before.keys, &items, &batch.channels)
            .await?;
        if let Some(format) = batch.fetch_from {
            self.fetch_files(format, &items, &stored, &mut batch)
                .await?;
        }
        let mut translated = Vec::with_capacity(items.len());
        for (item, stored) in items.iter().zip(&stored) {
            let SourceItem::Message(source) = &item.item else {
                translated.push(None);
                continue;
            };
            batch
                .files
                .extend(message::long_text(&self.blobs, source).await?);
            let files = &batch.files;
            let is_here = |key: &str| files.contains_key(key) || stored.contains(key);
            translated.push(Some(Translated::of(source, &is_here)));
        }
        let before_messages = before.report.counts_of(RecordKind::Messages);
        let people = Arc::clone(&directory.people);
        let by_handle = Arc::clone(&directory.by_handle);
        let agents = Arc::clone(&directory.agents);
        let keys = before.keys.clone();
        let batch = Arc::new(batch);
        let (shared, items, translated) =
            (Arc::clone(&batch), Arc::new(items), Arc::new(translated));
        let (next, strangers, used) = self
            .db
            .write(keys.workspace.0, async move |c: &mut Conn| {
                dialect::lock_workspace(c, keys.workspace.0).await?;
                dialect::search::make_room(c, keys.workspace.0).await?;
                let mut next = next.clone();
                let mut storing = message::Storing {
                    import: before.import,
                    format: before.format,
                    keys: &keys,
                    creator: shared.creator,
                    people: &people,
                    by_handle: &by_handle,
                    agents: &agents,
                    strangers: HashMap::new(),
                    group: shared.group,
                    chat: shared.chat,
                    files: &shared.files,
                    failed: &shared.failed,
                    used: Vec::new(),
                };
                for (item, translated) in items.iter().zip(translated.iter()) {
                    let kind = item.item.kind();
                    next.done += i64::from(kind == RecordKind::Messages);
                    let place = shared.channels.get(&item.folder);
                    let outcome = match (&item.item, translated, place) {
                        (SourceItem::LeftOut(reason), ..) => RecordOutcome::LeftOut(reason),
                        (SourceItem::Merged, ..) => RecordOutcome::Merged,
                        (_, _, None) => RecordOutcome::LeftOut("the channel is left out"),
                        (SourceItem::Record(record), _, Some(place)) => {
                            Box::pin(storing.store_record(c, place, record)).await?
                        }
                        (SourceItem::Message(_), None, _) => RecordOutcome::LeftOut("no message"),
                        (SourceItem::Message(source), Some(translated), Some(place)) => {
                            storing
                                .store(c, place, source, translated, &item.place, &mut next.report)
                                .await?
                        }
                    };
                    next.report.count(kind, outcome, &item.place);
                }
                Announcer::announce(c, &shared.announced).await?;
                before.store(c, &next).await?;
                if shared.shows_progress {
                    announce_import(c, before.import).await?;
                }
                let message::Storing {
                    strangers, used, ..
                } = storing;
                Ok::<_, ImportError>((next, strangers, used))
            })
            .await?;
        failpoint!("importing");
        count_records(before_messages, next.report.counts_of(RecordKind::Messages));
        if !strangers.is_empty() {
            Arc::make_mut(&mut directory.people).extend(strangers);
        }
        if let Some(batch) = Arc::into_inner(batch) {
            for (key, file) in batch.files {
                let upload = used
                    .iter()
                    .find(|(known, _)| *known == key)
                    .map(|used| used.1);
                file.published.settle(upload);
            }
        }
        Ok(next)
    }

    /// Keys of the files of each entry that earlier runs stored.
    async fn stored_files(
        &self,
        keys: &Keys,
        items: &[PlacedItem],
        channels: &HashMap<String, ChannelPlace>,
    ) -> Result<Vec<HashSet<String>>, ImportError> {
        let mut c = self.db.read().await?;
        let mut all = Vec::with_capacity(items.len());
        for item in items {
            let mut stored = HashSet::new();
            if let SourceItem::Message(source) = &item.item
                && !source.files.is_empty()
                && let Some(place) = channels.get(&item.folder)
                && let Some(at) = message::timestamp(source.at_us)
            {
                let id = message::message_id(&mut c, keys, place, &source.key, at).await?;
                for file in message::attachable(source) {
                    let id = message::file_id(&mut c, keys, id, source.at_us, &file.key).await?;
                    if files::find(&mut c, id).await?.is_some() {
                        stored.insert(file.key.clone());
                    }
                }
            }
            all.push(stored);
        }
        Ok(all)
    }

    /// Fetches the files of a batch that are neither in the archive nor in `stored`, the keys by entry.
    async fn fetch_files(
        &self,
        format: ImportFormat,
        items: &[PlacedItem],
        stored: &[HashSet<String>],
        batch: &mut Batch,
    ) -> Result<(), ImportError> {
        let mut wanted: HashMap<String, SourceFile> = HashMap::new();
        for (item, stored) in items.iter().zip(stored) {
            let SourceItem::Message(source) = &item.item else {
                continue;
            };
            if !batch.channels.contains_key(&item.folder) {
                continue;
            }
            let missing = message::attachable(source)
                .filter(|file| !stored.contains(&file.key) && !batch.files.contains_key(&file.key));
            wanted.extend(missing.map(|file| (file.key.clone(), file.clone())));
        }
        let this = self;
        let fetched = futures::stream::iter(wanted.into_values()).map(|file| async move {
            let bytes_max = this.upload_bytes_max;
            let fetched = this
                .hosts
                .fetch(format, &file, &this.blobs, bytes_max, &this.shutdown);
            let fetched = fetched.await;
            (file.key, fetched)
        });
        let mut fetched = std::pin::pin!(fetched.buffer_unordered(FETCHED_AT_ONCE));
        while let Some((key, result)) = fetched.next().await {
            match result {
                Ok(file) => {
                    batch.files.insert(key, file);
                }
                Err(FetchFault::Stopped) => return Err(ArchiveFault::Stopped.into()),
                Err(fault) => {
                    batch.failed.insert(key, fault.reason());
                }
            }
        }
        Ok(())
    }

    /// Deletes imports that were not started in time, and the archives of those that were not resumed in time.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn delete_old(db: &Db) -> Result<(), DbError> {
        db.delete_expired(
            now() - KEPT_FOR,
            "select exists (select 1 from imports where started_at is null and created_at < $1)",
            "delete from imports where id in \
             (select id from imports where started_at is null and created_at < $1 order by created_at limit $2)",
        )
        .await?;
        let paused: Vec<(ImportId, WorkspaceId)> = db
            .read()
            .await?
            .q("select id, workspace_id from imports where state = 'paused' and created_at < $1 order by id limit 1000")
            .bind(now() - KEPT_FOR)
            .all()
            .await?;
        for (id, workspace) in paused {
            db.write(workspace.0, async move |c: &mut Conn| {
                let problem = Some(DELETED_LATE.to_owned());
                row::end(c, id, ImportState::Paused, ImportState::Failed, problem).await
            })
            .await?;
        }
        Ok(())
    }
}

/// Data that the messages of a batch share.
struct Batch {
    creator: UserId,
    channels: Arc<HashMap<String, ChannelPlace>>,
    group: ImportGroup,
    chat: Option<ChatPlace>,
    files: HashMap<String, NewImportedFile>,
    /// Channels to announce with the batch.
    announced: Vec<ChannelId>,
    /// True if the progress is announced with the batch.
    shows_progress: bool,
    /// Source from which missing files are fetched, if they are.
    fetch_from: Option<ImportFormat>,
    /// Reasons why files were not fetched, by key.
    failed: HashMap<String, &'static str>,
}

/// Counts messages that were stored.
fn count_records(before: ImportCounts, after: ImportCounts) {
    for (result, n) in [
        ("imported", after.imported - before.imported),
        ("existing", after.existing - before.existing),
        ("merged", after.merged - before.merged),
        ("left_out", after.left_out - before.left_out),
    ] {
        metrics::counter!("openvibe_import_records_total", "result" => result)
            .increment(n.unsigned_abs());
    }
}

fn stopped(_: tokio::task::JoinError) -> ImportError {
    ArchiveFault::Stopped.into()
}

fn is_full(e: &ImportError) -> bool {
    matches!(
        e,
        ImportError::Auth(AuthError::QuotaExceeded(_))
            | ImportError::Chat(ChatError::Auth(AuthError::QuotaExceeded(_)))
            | ImportError::File(FileError::Auth(AuthError::QuotaExceeded(_)))
    )
}

/// Checks for errors of the database, which can last, unlike those of a store of files that is not reachable.
fn is_of_database(e: &ImportError) -> bool {
    let is_of_files = matches!(
        e,
        ImportError::File(FileError::Io(_) | FileError::Bucket(_) | FileError::Expired)
    );
    is_of_storage(e) && !is_of_files
}

/// Checks for errors after which the import can go on.
fn is_of_storage(e: &ImportError) -> bool {
    matches!(
        e,
        ImportError::Db(_)
            | ImportError::Auth(AuthError::Db(_))
            | ImportError::Chat(ChatError::Db(_) | ChatError::Auth(AuthError::Db(_)))
            | ImportError::Hook(HookError::Db(_) | HookError::Auth(AuthError::Db(_)))
            | ImportError::File(
                FileError::Db(_)
                    | FileError::Auth(AuthError::Db(_))
                    | FileError::Io(_)
                    | FileError::Bucket(_)
                    | FileError::Expired
            )
    )
}

/// Number of a unit, and of an item in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    unit: i64,
    item: i64,
}

/// Reads all entries from a position on, and sends them in batches, each after its files.
fn stream(
    mut archive: SourceArchive<PieceReader>,
    names: &SourceNames,
    wanted: &HashSet<String>,
    start: Position,
    bytes_max: u64,
    send: &mpsc::Sender<Sent>,
) {
    let mut sender = BatchSender {
        wanted,
        bytes_max,
        send,
        items: Vec::new(),
        end: start,
    };
    archive.units(names, start.unit, &mut |unit, files| {
        let skipped = if unit.number == start.unit {
            start.item
        } else {
            0
        };
        match sender.unit(unit, skipped, files) {
            Some(()) => ControlFlow::Continue(()),
            None => ControlFlow::Break(()),
        }
    });
    sender.flush();
}

/// Collects entries to batches. Its methods return `None` if nobody receives them any longer.
struct BatchSender<'a> {
    wanted: &'a HashSet<String>,
    bytes_max: u64,
    send: &'a mpsc::Sender<Sent>,
    items: Vec<PlacedItem>,
    /// Position after `items`.
    end: Position,
}

impl BatchSender<'_> {
    fn send(&self, sent: Sent) -> Option<()> {
        self.send.blocking_send(sent).ok()
    }

    fn unit(&mut self, unit: SourceUnit, skipped: i64, files: &mut dyn SourceFiles) -> Option<()> {
        if skipped == 0 {
            for problem in unit.problems {
                self.send(Sent::Problem(problem))?;
            }
        }
        let items = unit.items.into_iter().zip(1..);
        for (item, n) in items.skip(usize::try_from(skipped).unwrap_or(0)) {
            self.send_files(&item, files)?;
            self.items.push(item);
            self.end = Position {
                unit: unit.number,
                item: n,
            };
            if self.items.len() >= AT_ONCE {
                self.flush()?;
            }
        }
        Some(())
    }

    fn flush(&mut self) -> Option<()> {
        let items = std::mem::take(&mut self.items);
        if items.is_empty() {
            return Some(());
        }
        self.send(Sent::Batch {
            items,
            end: self.end,
        })
    }

    /// Sends the files of an entry.
    fn send_files(&self, item: &PlacedItem, files: &mut dyn SourceFiles) -> Option<()> {
        let SourceItem::Message(message) = &item.item else {
            return Some(());
        };
        if !self.wanted.contains(&item.folder) {
            return Some(());
        }
        for file in message::attachable(message) {
            match files.file(&file.key, self.bytes_max) {
                None => {}
                Some(Ok(bytes)) => self.send(Sent::File {
                    key: file.key.clone(),
                    name: file.name.clone(),
                    bytes,
                })?,
                Some(Err(fault)) => self.send(Sent::Problem(fault.to_string()))?,
            }
        }
        Some(())
    }
}

/// The source of an import. Chats of two people with the same product are not the same.
fn scoped(source: String, row: &ImportRow) -> String {
    if row.is_of_person() {
        format!("{source}:{}", row.created_by)
    } else {
        source
    }
}

fn names_of(directory: &Directory, channels: &[SourceChannel]) -> SourceNames {
    let people = directory
        .people
        .iter()
        .filter_map(|(key, known)| match known {
            Known::Person { handle, .. } => Some((key.clone(), handle.clone())),
            _ => None,
        });
    let channels = channels
        .iter()
        .filter(|channel| channel.kind != SourceChannelKind::Direct);
    let channels = channels.map(|channel| (channel.key.clone(), channel.name.clone()));
    SourceNames(people.chain(channels).collect())
}

async fn store_channel(
    c: &mut Conn,
    keys: &Keys,
    channel: &SourceChannel,
    choice: Option<ChannelChoice>,
    members: &[UserId],
    creator: Option<UserId>,
) -> Result<RecordOutcome, ImportError> {
    if choice == Some(ChannelChoice::LeaveOut) {
        return Ok(RecordOutcome::LeftOut("left out by choice"));
    }
    let source_kind = ChannelChoice::kind_of(choice, channel.kind, keys.product());
    if let Some(id) = keys.find(c, RecordKind::Channels, &channel.key).await? {
        match kind_here(c, keys.workspace, id).await? {
            Some(kind) if would_show(source_kind, kind) => {
                return Ok(RecordOutcome::LeftOut(
                    "private in the archive, but public here",
                ));
            }
            Some(_) => return Ok(RecordOutcome::Existing),
            None => {}
        }
    }
    let fate = preview::fate_of(c, keys.workspace, source_kind, &channel.name, choice).await?;
    if let (ChannelFate::Joins, Some(id)) = fate {
        keys.store(c, RecordKind::Channels, &channel.key, id.0)
            .await?;
        return Ok(RecordOutcome::Existing);
    }
    if channel.kind == SourceChannelKind::Direct && members.is_empty() {
        return Ok(RecordOutcome::LeftOut("it has no people"));
    }
    let kind = match source_kind {
        SourceChannelKind::Public => ChannelKind::Public,
        SourceChannelKind::Private => ChannelKind::Private,
        SourceChannelKind::Direct => ChannelKind::Direct,
    };
    let created_at = chrono::DateTime::from_timestamp_millis(channel.created_ms);
    let created_at = created_at
        .and_then(Timestamp::within_years)
        .unwrap_or_else(now);
    let name = parse_name(&channel.name).or_else(|_| parse_name(&channel.key));
    let name = name.unwrap_or_else(|_| "imported".to_owned());
    let topic = channel
        .topic
        .as_ref()
        .map(|topic| topic.chars().take(120).collect());
    let in_archive = ChannelId::parse(&channel.key).ok().map(|id| id.0);
    let identity = Identity {
        kind: RecordKind::Channels,
        at_ms: channel.created_ms,
        key: &channel.key,
        in_archive,
        owner: None,
    };
    let new = ImportedChannel {
        id: ChannelId(keys.id_here(c, identity).await?),
        kind,
        name: (kind != ChannelKind::Direct).then_some(name),
        topic,
        created_by: creator,
        created_at,
        archived_at: channel.is_archived.then_some(created_at),
        members: members.to_vec(),
    };
    let id = insert_imported_channel(c, keys.workspace, &new).await?;
    keys.store(c, RecordKind::Channels, &channel.key, id.0)
        .await?;
    if id != new.id {
        return Ok(RecordOutcome::Existing);
    }
    if in_archive == Some(id.0) {
        keys.store(c, RecordKind::KeptChannels, &channel.key, id.0)
            .await?;
    }
    Ok(RecordOutcome::Imported)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_is_the_turn_of_one_loop() {
        let (turns, id) = (ImportTurns::default(), ImportId::new());
        let turn = turns.take(id);
        assert!(turn.is_some());
        assert!(turns.clone().take(id).is_none());
        assert!(turns.take(ImportId::new()).is_some());
        drop(turn);
        assert!(turns.take(id).is_some());
    }

    #[test]
    fn errors_are_counted_until_an_import_makes_progress() {
        let mut errors = ImportErrors::default();
        let id = ImportId::new();
        let mut at = Errors {
            count: 0,
            state: ImportState::Running,
            phase: ImportPhase::Messages,
            position: 1,
            message: 0,
        };
        assert_eq!(errors.count(id), 0);
        assert_eq!((errors.add(id, at), errors.add(id, at)), (1, 2));
        at.position = 2;
        assert_eq!(errors.add(id, at), 1);
        assert_eq!(errors.count(id), 1);
    }
}
