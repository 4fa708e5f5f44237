//! Journal of a session: commands until they are handled, events until the session closes, and the session's state.
//!
//! Each line is one change, so that a change is stored as a whole or not at all. After a crash, an incomplete last line is removed. Lines
//! are flushed to the disk, except those that contain only text: if they are lost, the server still knows their numbers.

use std::{
    collections::VecDeque,
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::frames::{Command, Event};

/// Size from which acknowledged events are removed.
const BYTES_MAX: u64 = 16 << 20;
/// Maximum number of commands that are not handled yet.
const PENDING_MAX: usize = 256;

/// A question that waits for an answer, after its process has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) ask: String,
    pub(crate) title: String,
}

/// State of a session that survives the runner.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct State {
    pub(crate) repository: String,
    pub(crate) number: u64,
    pub(crate) engine: String,
    /// Commit on which the copy started; set as soon as the copy is ready.
    pub(crate) base: Option<String>,
    /// True if the next copy starts with the session's last patch.
    pub(crate) with_patch: bool,
    /// Session of the agent, and the engine that it belongs to.
    pub(crate) agent_session: Option<String>,
    /// Task of the turn that has started.
    pub(crate) task: Option<String>,
    pub(crate) attempts: u32,
    /// Number of questions, for their IDs.
    pub(crate) asks: u64,
    pub(crate) asked: Option<Asked>,
    /// Text for the next process, such as an answer.
    pub(crate) next: Option<String>,
    /// The tree that was reported last.
    pub(crate) tree: Option<String>,
    /// Our commits, the last one at the end.
    pub(crate) pushed: Vec<String>,
    pub(crate) closed: bool,
}

/// One line.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Line {
    /// First line of a compacted file.
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<Start>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<(u64, Command)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    handled: Vec<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    events: Vec<(u64, Event)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acked: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<State>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Start {
    received: u64,
    last_event: u64,
}

/// Result for a received command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    New,
    Known,
    /// Commands after this number are missing.
    Gap(u64),
    /// Too many commands wait.
    Full,
}

pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
    state: State,
    received: u64,
    pending: VecDeque<(u64, Command)>,
    /// Size of the commands that are not handled.
    pending_bytes: usize,
    last_event: u64,
    acked: u64,
    unacked: VecDeque<(u64, Event)>,
    /// Events up to this number are gone.
    floor: u64,
    /// Last acknowledged event that was read again, and the place of its line in the file.
    read_again: Option<(u64, u64)>,
}

impl Journal {
    /// Opens the journal in a directory, which is created if needed.
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(directory)?;
        let path = directory.join("journal");
        let file = create(&path, false)?;
        let mut journal = Self {
            path,
            file,
            bytes: 0,
            bytes_max: BYTES_MAX,
            state: State::default(),
            received: 0,
            pending: VecDeque::new(),
            pending_bytes: 0,
            last_event: 0,
            acked: 0,
            unacked: VecDeque::new(),
            floor: 0,
            read_again: None,
        };
        let mut reader = BufReader::new(File::open(&journal.path)?);
        let mut text = Vec::new();
        while reader.read_until(b'\n', &mut text)? > 0 {
            let Some(line) = text.strip_suffix(b"\n") else { break };
            let Ok(line) = serde_json::from_slice(line) else { break };
            journal.bytes += text.len() as u64;
            journal.apply(line);
            text.clear();
        }
        journal.file.set_len(journal.bytes)?;
        journal.file.seek(SeekFrom::End(0))?;
        Ok(journal)
    }

    fn apply(&mut self, line: Line) {
        if let Some(start) = line.start {
            self.received = start.received;
            self.last_event = start.last_event;
            self.acked = start.last_event;
            self.floor = start.last_event;
        }
        if let Some((n, command)) = line.command {
            self.received = self.received.max(n);
            self.pending_bytes += bytes_of(&command);
            self.pending.push_back((n, command));
        }
        if !line.handled.is_empty() {
            self.pending.retain(|(n, command)| {
                let is_handled = line.handled.contains(n);
                if is_handled {
                    self.pending_bytes -= bytes_of(command);
                }
                !is_handled
            });
        }
        for (n, event) in line.events {
            self.last_event = n;
            self.unacked.push_back((n, event));
        }
        if let Some(n) = line.acked {
            self.acked = n;
            self.last_event = self.last_event.max(n);
            while self.unacked.front().is_some_and(|(first, _)| *first <= n) {
                self.unacked.pop_front();
            }
        }
        if let Some(state) = line.state {
            self.state = state;
        }
    }

    fn write(&mut self, line: Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        let is_text = !line.events.is_empty()
            && line.events.iter().all(|(_, event)| matches!(event, Event::Text { .. }))
            && line.handled.is_empty()
            && line.state.is_none();
        let mut written = self.file.write_all(&text);
        if !is_text {
            written = written.and_then(|()| self.file.sync_data());
        }
        if written.is_err() {
            // A part of the line would spoil the next one, and a whole one would be written twice.
            self.file.set_len(self.bytes)?;
            self.file.seek(SeekFrom::End(0))?;
        }
        written?;
        self.bytes += text.len() as u64;
        self.apply(line);
        Ok(())
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Number of the last received command.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Size of the commands that are not handled.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    pub(crate) fn acked(&self) -> u64 {
        self.acked
    }

    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    pub(crate) fn unacked_count(&self) -> usize {
        self.unacked.len()
    }

    /// True if the session is closed, and nothing is left to do or to send.
    pub(crate) fn is_over(&self) -> bool {
        self.state.closed && self.unacked.is_empty() && self.pending.is_empty()
    }

    /// Commands that are not handled, in order.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &(u64, Command)> {
        self.pending.iter()
    }

    /// Stores a command, if it is the next one.
    pub(crate) fn receive(&mut self, n: u64, command: Command) -> io::Result<Received> {
        if n <= self.received {
            return Ok(Received::Known);
        }
        // A new journal continues where the server is.
        if n > self.received + 1 && self.received > 0 {
            return Ok(Received::Gap(self.received));
        }
        if self.pending.len() >= PENDING_MAX {
            return Ok(Received::Full);
        }
        self.write(Line { command: Some((n, command)), ..Line::default() })?;
        Ok(Received::New)
    }

    /// Stores events, a changed state, and the end of commands, together.
    pub(crate) fn commit(
        &mut self,
        mut events: Vec<Event>,
        state: Option<State>,
        handled: Vec<u64>,
    ) -> io::Result<()> {
        let first = self.last_event + 1;
        let state = state.filter(|state| *state != self.state);
        if events.is_empty() && state.is_none() && handled.is_empty() {
            return Ok(());
        }
        for event in &mut events {
            self.complete(event);
        }
        let events = (first..).zip(events).collect();
        self.write(Line { handled, events, state, ..Line::default() })
    }

    /// Adds the steers that were not read to the end of a turn. They can come until that is stored, and are dropped after it.
    fn complete(&self, event: &mut Event) {
        let Event::Done { task: ended, unread_steers, received, .. } = event else { return };
        let is_unread =
            |command: &Command| matches!(command, Command::Steer { task, .. } if *task == *ended);
        let unread = self.pending.iter().filter(|(_, command)| is_unread(command));
        *unread_steers = unread.map(|(n, _)| *n).collect();
        *received = Some(self.received);
    }

    /// Stores that the server has all events up to number `n`.
    pub(crate) fn acknowledge(&mut self, n: u64) -> io::Result<()> {
        if n <= self.acked || n > self.last_event {
            return Ok(());
        }
        self.write(Line { acked: Some(n), ..Line::default() })?;
        let is_over = self.state.closed && self.unacked.is_empty();
        if is_over || self.bytes > self.bytes_max { self.compact() } else { Ok(()) }
    }

    /// Continues after the server's last event, which this journal may have lost.
    pub(crate) fn resume(&mut self, n: u64) -> io::Result<()> {
        if n > self.acked {
            self.write(Line { acked: Some(n), ..Line::default() })?;
        }
        Ok(())
    }

    /// Events after number `n`, in order.
    pub(crate) fn events_after(
        &mut self,
        n: u64,
        count_max: usize,
    ) -> io::Result<Vec<(u64, Event)>> {
        if n >= self.acked {
            let events = self.unacked.iter().filter(|(event, _)| *event > n);
            return Ok(events.take(count_max).cloned().collect());
        }
        // A server that was restored from a backup reads again what it had acknowledged, window by window.
        let known = self.read_again.filter(|(last, _)| *last == n);
        let mut at = known.map_or(0, |(_, at)| at);
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(at))?;
        let mut reader = BufReader::new(file.take(self.bytes.saturating_sub(at)));
        let mut events = Vec::new();
        let mut text = Vec::new();
        while events.len() < count_max && reader.read_until(b'\n', &mut text)? > 0 {
            let line: Line = serde_json::from_slice(&text)?;
            let left = count_max - events.len();
            let new = line.events.into_iter().filter(|(event, _)| *event > n).take(left);
            events.extend(new);
            if let Some((last, _)) = events.last() {
                self.read_again = Some((*last, at));
            }
            at += text.len() as u64;
            text.clear();
        }
        Ok(events)
    }

    /// Rewrites the file without what is handled and acknowledged.
    pub(crate) fn compact(&mut self) -> io::Result<()> {
        let temporary = self.path.with_extension("new");
        let mut file = create(&temporary, true)?;
        let start = Start { received: self.received, last_event: self.acked };
        let state = Some(self.state.clone());
        let mut lines = vec![Line { start: Some(start), state, ..Line::default() }];
        for command in &self.pending {
            lines.push(Line { command: Some(command.clone()), ..Line::default() });
        }
        for event in &self.unacked {
            lines.push(Line { events: vec![event.clone()], ..Line::default() });
        }
        let mut text = Vec::new();
        for line in &lines {
            serde_json::to_writer(&mut text, line)?;
            text.push(b'\n');
        }
        file.write_all(&text)?;
        file.sync_all()?;
        std::fs::rename(&temporary, &self.path)?;
        if let Some(directory) = self.path.parent() {
            File::open(directory)?.sync_all()?;
        }
        self.file = file;
        self.bytes = text.len() as u64;
        // Many events can wait for the server: they are not written again for each acknowledgment.
        self.bytes_max = BYTES_MAX.max(2 * self.bytes);
        self.floor = self.acked;
        self.read_again = None;
        Ok(())
    }
}

fn bytes_of(command: &Command) -> usize {
    serde_json::to_vec(command).map_or(0, |text| text.len())
}

/// Opens a file that only this user can read, since commands hold keys of turns.
fn create(path: &Path, truncate: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(truncate).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::{Changes, Check, CheckState, StopReason};

    fn text(text: &str) -> Event {
        Event::Text { task: "task_1".to_owned(), text: text.to_owned() }
    }

    fn numbers(journal: &mut Journal, n: u64) -> Vec<u64> {
        journal.events_after(n, 100).unwrap().into_iter().map(|(n, _)| n).collect()
    }

    fn cancel() -> Command {
        Command::Cancel { task: "task_1".to_owned() }
    }

    #[test]
    fn a_journal_survives_its_process() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(directory.path()).unwrap();
        assert_eq!(journal.receive(1, cancel()).unwrap(), Received::New);
        assert_eq!(journal.receive(2, Command::Close).unwrap(), Received::New);
        let state = State { attempts: 2, ..State::default() };
        journal.commit(vec![text("a"), text("b")], Some(state.clone()), vec![1]).unwrap();
        journal.acknowledge(1).unwrap();
        let mut journal = Journal::open(directory.path()).unwrap();
        assert_eq!(journal.pending().collect::<Vec<_>>(), [&(2, Command::Close)]);
        assert_eq!((journal.received(), journal.acked()), (2, 1));
        assert_eq!(numbers(&mut journal, 1), [2]);
        assert_eq!(*journal.state(), state);
    }

    #[test]
    fn the_end_of_a_turn_names_the_steers_that_came_until_it_was_stored() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(directory.path()).unwrap();
        for (n, task) in [(1, "task_1"), (2, "task_1"), (3, "task_2"), (4, "task_1")] {
            let steer = Command::Steer { task: task.to_owned(), text: "Other way".to_owned() };
            journal.receive(n, steer).unwrap();
        }
        let done = Event::Done {
            task: "task_1".to_owned(),
            stop: StopReason::Complete,
            changes: Changes::default(),
            check: Check { state: CheckState::None, ms: 0 },
            unread_steers: Vec::new(),
            received: None,
            last_text_bytes: 0,
        };
        journal.commit(Vec::new(), None, vec![1]).unwrap();
        journal.commit(vec![done], None, Vec::new()).unwrap();
        let events = journal.events_after(0, 9).unwrap();
        let [(1, Event::Done { unread_steers, received, .. })] = &events[..] else {
            panic!("{events:?}")
        };
        assert_eq!((&unread_steers[..], *received), (&[2, 4][..], Some(4)));
    }

    #[test]
    fn a_line_cut_at_any_byte_is_removed_and_the_journal_continues() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(directory.path()).unwrap();
        journal.commit(vec![text("a")], None, Vec::new()).unwrap();
        let kept = journal.bytes;
        journal.commit(vec![text("b"), text("c")], None, Vec::new()).unwrap();
        let whole = std::fs::read(&journal.path).unwrap();
        for length in usize::try_from(kept).unwrap()..whole.len() {
            std::fs::write(&journal.path, &whole[..length]).unwrap();
            let mut cut = Journal::open(directory.path()).unwrap();
            assert_eq!(numbers(&mut cut, 0), [1], "{length}");
            cut.commit(vec![text("d")], None, Vec::new()).unwrap();
            let mut again = Journal::open(directory.path()).unwrap();
            assert_eq!(again.events_after(1, 9).unwrap(), [(2, text("d"))]);
        }
    }

    #[test]
    fn a_command_is_stored_once_and_gaps_are_reported() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(directory.path()).unwrap();
        assert_eq!(journal.receive(4, cancel()).unwrap(), Received::New);
        assert_eq!(journal.receive(4, cancel()).unwrap(), Received::Known);
        assert_eq!(journal.receive(6, cancel()).unwrap(), Received::Gap(4));
        for n in 5..4 + PENDING_MAX as u64 {
            assert_eq!(journal.receive(n, cancel()).unwrap(), Received::New);
        }
        assert_eq!(journal.receive(4 + PENDING_MAX as u64, cancel()).unwrap(), Received::Full);
        let bytes = bytes_of(&cancel());
        assert_eq!(journal.pending_bytes(), PENDING_MAX * bytes);
        journal.commit(Vec::new(), None, (4..4 + PENDING_MAX as u64 - 2).collect()).unwrap();
        assert_eq!(journal.pending_bytes(), 2 * bytes);
        assert_eq!(Journal::open(directory.path()).unwrap().pending_bytes(), 2 * bytes);
    }

    #[test]
    fn acknowledged_events_are_sent_again_to_a_restored_server() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(directory.path()).unwrap();
        journal.commit(vec![text("a"), text("b"), text("c")], None, Vec::new()).unwrap();
        journal.acknowledge(3).unwrap();
        assert_eq!(journal.unacked_count(), 0);
        assert_eq!(numbers(&mut journal, 1), [2, 3]);
    }

    #[test]
    fn a_restored_server_reads_the_journal_once() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(directory.path()).unwrap();
        for _ in 0..10 {
            journal.commit(vec![text("a"), text("b"), text("c")], None, Vec::new()).unwrap();
        }
        journal.acknowledge(29).unwrap();
        let (mut read, mut places) = (Vec::new(), Vec::new());
        while let Some(last) = journal.events_after(read.len() as u64, 4).unwrap().last() {
            read.extend(read.len() as u64 + 1..=last.0);
            places.extend(journal.read_again.map(|(_, at)| at));
        }
        assert_eq!(read, (1..=30).collect::<Vec<_>>());
        assert!(places.is_sorted() && places[0] > 0, "{places:?}");
        // What was read is not read again.
        let start = usize::try_from(places[0]).unwrap();
        let mut file = std::fs::read(&journal.path).unwrap();
        file[..start].fill(b'x');
        std::fs::write(&journal.path, file).unwrap();
        assert!(journal.events_after(0, 4).is_err());
        journal.read_again = Some((4, places[0]));
        assert_eq!(numbers(&mut journal, 4).first(), Some(&5));
        // Another place in the file is found from its start.
        assert!(journal.events_after(7, 4).is_err());
    }

    #[test]
    fn a_lost_tail_does_not_repeat_numbers() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(directory.path()).unwrap();
        journal.commit(vec![text("a")], None, Vec::new()).unwrap();
        journal.resume(5).unwrap();
        journal.commit(vec![text("b")], None, Vec::new()).unwrap();
        assert_eq!(numbers(&mut journal, 5), [6]);
    }

    #[test]
    fn compaction_keeps_what_is_open() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(directory.path()).unwrap();
        journal.bytes_max = 2000;
        journal.receive(1, cancel()).unwrap();
        for _ in 0..40 {
            journal.commit(vec![text("some text of the agent")], None, Vec::new()).unwrap();
        }
        journal.acknowledge(39).unwrap();
        assert_eq!((journal.floor(), numbers(&mut journal, 39)), (39, vec![40]));
        assert_eq!(journal.bytes_max, BYTES_MAX);
        journal.commit(vec![text("more")], None, Vec::new()).unwrap();
        let mut journal = Journal::open(directory.path()).unwrap();
        assert!(journal.bytes < 2000);
        assert_eq!((journal.received(), journal.pending().count()), (1, 1));
        assert_eq!((journal.floor(), numbers(&mut journal, 39)), (39, vec![40, 41]));
    }
}
