//! What the parts of a runner share.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::{
    Owner,
    config::Config,
    failure::is_full,
    frames::{Command, Event, is_id},
    git::{self, Mirror},
    journal::{Journal, Received, State},
    machine,
};

/// Maximum number of sessions that are not closed: each has an open file.
const SESSIONS_MAX: usize = 500;

pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) client: reqwest::Client,
    pub(crate) mirrors: BTreeMap<String, Mirror>,
    pub(crate) sessions: Mutex<BTreeMap<String, Arc<Session>>>,
    /// Number of the server's last event by session, as of the last connection.
    pub(crate) known: Mutex<BTreeMap<String, u64>>,
    /// Permits of turns.
    pub(crate) turns: Semaphore,
    /// Permits of programs, which are apart from turns, so that neither waits for the other.
    pub(crate) programs: Semaphore,
    /// Permits of folders that the server imports.
    pub(crate) reads: Semaphore,
    /// Permits of requests for folders, also of those that are only refused.
    pub(crate) answers: Arc<Semaphore>,
    /// Wakes the connection: there are new events.
    pub(crate) changed: Notify,
    pub(crate) owner: Owner,
    pub(crate) stop: CancellationToken,
    /// Executes the commands of a session until it ends.
    pub(crate) serve: fn(Arc<Self>, Arc<Session>) -> BoxFuture<'static, ()>,
}

/// Maximum size of the commands of all sessions that are not handled: they are kept in memory.
const PENDING_BYTES_MAX: usize = 128 << 20;

/// Size of the file that keeps space for journals.
const RESERVE_BYTES: usize = 4 << 20;

/// Writes to a journal. If the disk is full, the space that was kept for this is used, so that people learn why their turns fail.
fn write_with_reserve<T>(
    reserve: &Path,
    mut write: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    match write() {
        Err(error) if is_full(&error) && std::fs::remove_file(reserve).is_ok() => write(),
        written => written,
    }
}

/// A session with its journal.
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) directory: PathBuf,
    journal: Mutex<Journal>,
    /// Wakes the session: there are new commands.
    pub(crate) woken: Notify,
    /// Ends its task.
    pub(crate) ended: CancellationToken,
}

impl Session {
    pub(crate) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> State {
        self.journal().state().clone()
    }

    /// The first command that is not handled.
    pub(crate) fn next_command(&self) -> Option<(u64, Command)> {
        self.journal().pending().next().cloned()
    }

    /// The first waiting command that `choose` takes.
    pub(crate) fn find_command<T>(
        &self,
        choose: impl Fn(&Command) -> Option<T>,
    ) -> Option<(u64, T)> {
        self.journal().pending().find_map(|(n, command)| choose(command).map(|found| (*n, found)))
    }

    /// True if a task is canceled, or the session will be closed. Without a task: true if any waiting task is canceled.
    pub(crate) fn is_canceled(&self, task: Option<&str>) -> bool {
        let ends = |command: &Command| match command {
            Command::Cancel { task: canceled } => task.is_none_or(|task| task == canceled),
            Command::Close => true,
            _ => false,
        };
        self.find_command(|command| ends(command).then_some(())).is_some()
    }

    /// Waits until a task is canceled. Nothing else may wait for commands meanwhile.
    pub(crate) async fn canceled(&self, task: Option<&str>) {
        while !self.is_canceled(task) {
            self.woken.notified().await;
        }
    }
}

impl Shared {
    pub(crate) fn sessions(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn known(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn sessions_directory(&self) -> PathBuf {
        self.config.data_dir.join("sessions")
    }

    /// Opens the journals of an earlier process; those of closed sessions go.
    pub(crate) async fn load(self: &Arc<Self>) -> io::Result<()> {
        std::fs::create_dir_all(self.sessions_directory())?;
        for entry in std::fs::read_dir(self.sessions_directory())? {
            if let Some(id) = entry?.file_name().to_str().filter(|id| is_id(id)) {
                let directory = self.sessions_directory().join(id);
                if !Journal::open(&directory)?.is_over() {
                    self.session(id)?;
                } else if let Err(error) = git::remove(&directory).await {
                    // The next start tries again.
                    tracing::error!(id, %error, "a closed session could not be deleted");
                }
            }
        }
        Ok(())
    }

    /// The session with this ID, which starts if it is new. `None` if there are too many.
    fn session(self: &Arc<Self>, id: &str) -> io::Result<Option<Arc<Session>>> {
        let mut sessions = self.sessions();
        if let Some(session) = sessions.get(id) {
            return Ok(Some(session.clone()));
        }
        if sessions.len() >= SESSIONS_MAX {
            self.evict(&mut sessions);
        }
        if sessions.len() >= SESSIONS_MAX {
            return Ok(None);
        }
        let directory = self.sessions_directory().join(id);
        let mut journal = Journal::open(&directory)?;
        if let Some(n) = self.known().get(id) {
            journal.resume(*n)?;
        }
        let journal = Mutex::new(journal);
        let (woken, ended) = (Notify::new(), self.stop.child_token());
        let session = Arc::new(Session { id: id.to_owned(), directory, journal, woken, ended });
        sessions.insert(id.to_owned(), session.clone());
        self.owner.spawn((self.serve)(self.clone(), session.clone()));
        Ok(Some(session))
    }

    /// Removes closed sessions, whose numbers are kept.
    fn evict(&self, sessions: &mut BTreeMap<String, Arc<Session>>) {
        sessions.retain(|id, session| {
            let journal = session.journal();
            if journal.is_over() {
                self.known().insert(id.clone(), journal.acked());
                session.ended.cancel();
                // A directory that stays is removed with the next start.
                let _ = std::fs::remove_dir_all(&session.directory);
            }
            !journal.is_over()
        });
    }

    fn pending_bytes(&self) -> usize {
        self.sessions().values().map(|session| session.journal().pending_bytes()).sum()
    }

    fn reserve(&self) -> PathBuf {
        self.config.data_dir.join("reserve")
    }

    /// Keeps space for journals, as soon as there is some.
    pub(crate) fn keep_reserve(&self) {
        let path = self.reserve();
        let is_kept = std::fs::metadata(&path).is_ok_and(|file| file.len() >= RESERVE_BYTES as u64);
        if !is_kept && !machine::is_disk_full(&self.config.data_dir) {
            // The next command tries again.
            let _ = std::fs::write(path, vec![0; RESERVE_BYTES]);
        }
    }

    /// Stores a command for its session.
    pub(crate) fn receive(
        self: &Arc<Self>,
        id: &str,
        n: u64,
        command: &Command,
    ) -> io::Result<Received> {
        write_with_reserve(&self.reserve(), || self.store(id, n, command.clone()))
    }

    fn store(self: &Arc<Self>, id: &str, n: u64, command: Command) -> io::Result<Received> {
        let Some(session) = self.session(id)? else { return Ok(Received::Full) };
        if n > session.journal().received() && self.pending_bytes() > PENDING_BYTES_MAX {
            return Ok(Received::Full);
        }
        if let Command::Open { last_event, .. } = &command {
            session.journal().resume(*last_event)?;
        }
        let received = session.journal().receive(n, command)?;
        session.woken.notify_one();
        Ok(received)
    }

    /// Stores events, a changed state, and the end of a command, together. The disk may be full for a while: then this waits.
    pub(crate) async fn commit(
        &self,
        session: &Session,
        events: Vec<Event>,
        state: Option<State>,
        handled: Vec<u64>,
    ) {
        loop {
            let stored = write_with_reserve(&self.reserve(), || {
                session.journal().commit(events.clone(), state.clone(), handled.clone())
            });
            match stored {
                Ok(()) => return self.changed.notify_one(),
                Err(error) => tracing::error!(session.id, %error, "cannot write the journal"),
            }
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_written_on_a_full_disk_with_the_space_that_was_kept() {
        let directory = tempfile::tempdir().unwrap();
        let reserve = directory.path().join("reserve");
        std::fs::write(&reserve, "space").unwrap();
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let write = || if reserve.exists() { Err(full()) } else { Ok(7) };
        assert_eq!(write_with_reserve(&reserve, write).unwrap(), 7);
        let mut tries = 0;
        let failed = write_with_reserve(&reserve, || {
            tries += 1;
            Err::<(), _>(full())
        });
        assert_eq!((failed.unwrap_err().kind(), tries), (io::ErrorKind::StorageFull, 1));
    }
}
