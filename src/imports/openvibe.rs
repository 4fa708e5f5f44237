//! Reads an export of this program (docs/export-format.md): lists of people and channels, and the messages of each channel by month.
//!
//! Agents are created if their name is free; their messages are by bots.

use std::{
    collections::{HashMap, HashSet},
    io::{BufReader, Read, Seek},
    ops::ControlFlow,
    sync::Arc,
};

use chrono::DateTime;
use serde::Deserialize;
use serde_json::Value;

use super::{
    agents::{SourceAgent, in_order},
    archive::{Archive, ArchiveFault, parse_line, unknown},
    emoji_source::{EmojiList, PICTURE_READ_MAX, SourceEmoji},
    json::{array, first, string, strings},
    key::{OPENVIBE, RecordKind},
    lines::{Line, each_line},
    record::{
        EachUnit, LISTED_MAX, PlacedItem, SourceAuthor, SourceChannel, SourceChannelKind,
        SourceFile, SourceFiles, SourceIndex, SourceItem, SourceMessage, SourcePerson,
        SourceReaction, SourceRecord, SourceThread, SourceUnit, distinct_files, too_many,
    },
    work::{ROOT_OF_SCHEDULE, SourceWork, WORK_BYTES_MAX, WORK_MAX},
};
use crate::{chat::messages::reaction_name, ids::ThreadId};

/// Maximum size of an entry with lines.
const ENTRY_BYTES_MAX: u64 = 256 << 20;
/// Number of messages of a unit, and of records of a list.
const UNIT_MAX: usize = 500;
const RECORDS_UNIT_MAX: usize = 50;
/// Maximum size of a record of a list that is kept.
const RECORD_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of messages that records name, and length of their keys.
const CITED_MAX: usize = 200_000;
const CITED_BYTES_MAX: usize = 64;
const PROBLEMS_MAX: usize = 100;
/// Version of the format.
const VERSION: i64 = 1;
const MANIFEST: &str = "manifest.json";
const CHANNELS: &str = "channels.jsonl";
const MESSAGES: &str = "messages/";
const DEEP_DIVES: &str = "deep-dives/";
const FILES: &str = "files/";
const AGENTS: &str = "agents/";
/// Maximum number of agents that are read, and size of one.
const AGENTS_MAX: usize = 1000;
const AGENT_BYTES_MAX: u64 = 4 << 20;
/// Maximum size of all agents, which are in memory at once.
const AGENTS_BYTES_MAX: usize = 64 << 20;

#[derive(Deserialize)]
struct ExportManifest {
    format: String,
    version: i64,
    workspace: ExportOrigin,
}

#[derive(Deserialize)]
struct ExportOrigin {
    id: String,
}

/// Content of an entry, in the order in which the entries are read: deep dives start from messages of threads, and results cite messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Threads,
    Forks,
    DeepDives,
    Resolutions,
    ActionItems,
}

/// Lists that are read with the messages.
const LISTS: [(Part, &str); 3] = [
    (Part::Forks, "forks"),
    (Part::Resolutions, "resolutions"),
    (Part::ActionItems, "action_items"),
];

/// An entry with messages of a channel, or with a part of a list, in the order in which the entries are read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    part: Part,
    /// `YYYY-MM`; empty for a list, like the channel.
    month: String,
    channel: String,
    /// Entries of a month or a list are numbered.
    number: u32,
    index: usize,
}

/// An export of this program.
pub(super) struct OpenVibeArchive<R> {
    lines: Archive<R>,
    files: Archive<R>,
    manifest: ExportManifest,
    entries: Vec<Entry>,
    /// Entries of files by ID.
    uploads: HashMap<String, usize>,
}

/// Month and number of an entry, such as `2026-11.2.jsonl`.
fn month_of(file: &str) -> Option<(&str, u32)> {
    let name = file.strip_suffix(".jsonl")?;
    let (month, number) = match name.split_once('.') {
        Some((month, number)) => (month, number.parse().ok()?),
        None => (name, 1),
    };
    let is_month = month.len() == 7
        && month.bytes().enumerate().all(|(n, b)| match n {
            4 => b == b'-',
            _ => b.is_ascii_digit(),
        });
    is_month.then_some((month, number))
}

/// Number of an entry of a list, such as `forks.2.jsonl`.
fn number_of(name: &str, list: &str) -> Option<u32> {
    let number = name.strip_prefix(list)?.strip_suffix(".jsonl")?;
    match number {
        "" => Some(1),
        _ => number.strip_prefix('.')?.parse().ok(),
    }
}

fn entry_of(name: &str, index: usize) -> Option<Entry> {
    let Some(messages) = name.strip_prefix(MESSAGES) else {
        let (part, number) = LISTS
            .iter()
            .find_map(|(part, list)| Some((*part, number_of(name, list)?)))?;
        return Some(Entry {
            part,
            month: String::new(),
            channel: String::new(),
            number,
            index,
        });
    };
    let (channel, file) = messages.split_once('/')?;
    let (part, file) = match file.strip_prefix(DEEP_DIVES) {
        Some(file) => (Part::DeepDives, file),
        None => (Part::Threads, file),
    };
    let (month, number) = month_of(file)?;
    Some(Entry {
        part,
        month: month.to_owned(),
        channel: channel.to_owned(),
        number,
        index,
    })
}

fn entries_of<R>(archive: &Archive<R>) -> Vec<Entry> {
    let names = archive.names.iter().enumerate();
    let entries = names.filter_map(|(index, name)| entry_of(name, index));
    let mut entries: Vec<Entry> = entries.collect();
    entries.sort_unstable();
    entries
}

/// Entries of files by ID.
fn uploads_of<R>(archive: &Archive<R>) -> HashMap<String, usize> {
    let files = archive.names.iter().enumerate();
    let files = files.filter_map(|(index, name)| {
        let (id, file) = name.strip_prefix(FILES)?.split_once('/')?;
        (!file.is_empty()).then(|| (id.to_owned(), index))
    });
    files.collect()
}

pub(super) fn microseconds(text: &str) -> Option<i64> {
    let at = DateTime::parse_from_rfc3339(text).ok()?;
    Some(at.timestamp_micros())
}

/// Shortens a list of people or channels to `LISTED_MAX`. Returns false if it is not longer.
fn cut<T>(list: &mut Vec<T>) -> bool {
    let is_long = list.len() > LISTED_MAX;
    list.truncate(LISTED_MAX);
    is_long
}

fn person(value: &Value, key: &str) -> Option<SourcePerson> {
    let key = first([string(value, key)])?;
    let name = first([string(value, "name"), string(value, "handle"), key]);
    Some(SourcePerson {
        key: key.to_owned(),
        name: name.unwrap_or(key).to_owned(),
        email: first([string(value, "email")]).map(str::to_lowercase),
        is_bot: false,
    })
}

fn channel(value: &Value) -> Option<SourceChannel> {
    let key = first([string(value, "id")])?;
    let kind = string(value, "kind").parse::<SourceChannelKind>();
    let created_us = microseconds(string(value, "created_at")).unwrap_or(0);
    Some(SourceChannel {
        key: key.to_owned(),
        kind: kind.unwrap_or(SourceChannelKind::Private),
        name: first([string(value, "name"), key])
            .unwrap_or(key)
            .to_owned(),
        topic: first([string(value, "topic")]).map(str::to_owned),
        is_archived: !string(value, "archived_at").is_empty(),
        created_ms: created_us.max(0) / 1000,
        creator: first([string(value, "created_by")]).map(str::to_owned),
        members: strings(value, "member_ids"),
        folder: key.to_owned(),
    })
}

impl<R: Read + Seek> OpenVibeArchive<R> {
    /// Checks whether this is an export of this program.
    pub(super) fn is_in(archive: &Archive<R>) -> bool {
        [MANIFEST, CHANNELS]
            .iter()
            .all(|name| archive.index_of(name).is_some())
    }

    /// `lines` and `files` are the same archive, opened twice.
    ///
    /// # Errors
    /// `Unknown` if this is not an export of this program, or one of a later version.
    pub(super) fn open(mut lines: Archive<R>, files: Archive<R>) -> Result<Self, ArchiveFault> {
        let Some(index) = lines.index_of(MANIFEST) else {
            return Err(unknown(&lines));
        };
        let read = lines.with_entry(index, ENTRY_BYTES_MAX, |reader| {
            let reader = BufReader::new(reader);
            serde_json::from_reader::<_, ExportManifest>(reader).map_err(|e| e.to_string())
        });
        let Some(manifest) = read.ok().filter(|manifest| manifest.format == OPENVIBE) else {
            return Err(unknown(&lines));
        };
        if manifest.version > VERSION {
            let text = format!(
                "This export has version {} of the format, and this server reads version {VERSION}: update it.",
                manifest.version
            );
            return Err(ArchiveFault::Unknown(text));
        }
        Ok(Self {
            entries: entries_of(&lines),
            uploads: uploads_of(&files),
            lines,
            files,
            manifest,
        })
    }

    /// Calls `each` with the objects of a list.
    fn list(&mut self, name: &str, problems: &mut Vec<String>, each: &mut dyn FnMut(&Value)) {
        let names = self.lines.names.iter().enumerate();
        let entries = names.filter(|(_, entry)| {
            let rest = entry.strip_prefix(name);
            let rest = rest.and_then(|rest| rest.strip_suffix(".jsonl"));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        let entries: Vec<(usize, String)> = entries
            .map(|(index, entry)| (index, entry.clone()))
            .collect();
        for (index, entry) in entries {
            let read = self.lines.with_entry(index, ENTRY_BYTES_MAX, |reader| {
                each_line(reader, &mut |n, line| {
                    match line.and_then(parse_line) {
                        Ok(value) => each(&value),
                        Err(e) if problems.len() < PROBLEMS_MAX => {
                            problems.push(format!("{entry} line {n}: {e}"));
                        }
                        Err(_) => {}
                    }
                    ControlFlow::Continue(())
                })
            });
            problems.extend(read.err().map(|fault| fault.to_string()));
        }
    }

    pub(super) fn index(&mut self) -> SourceIndex {
        let (mut people, mut channels) = (Vec::new(), Vec::new());
        let (mut has_more_people, mut has_more_channels) = (false, false);
        let mut problems = Vec::new();
        self.list("people", &mut problems, &mut |value| {
            people.extend(person(value, "user_id"));
            has_more_people |= cut(&mut people);
        });
        self.list("bots", &mut problems, &mut |value| {
            let bot = person(value, "id");
            people.extend(bot.map(|bot| SourcePerson {
                is_bot: true,
                ..bot
            }));
            has_more_people |= cut(&mut people);
        });
        self.list("channels", &mut problems, &mut |value| {
            channels.extend(channel(value));
            has_more_channels |= cut(&mut channels);
        });
        let too_many = [
            has_more_people.then(|| too_many("people")),
            has_more_channels.then(|| too_many("channels")),
        ];
        SourceIndex {
            source: format!("{OPENVIBE}:{}", self.manifest.workspace.id),
            people,
            channels,
            problems: too_many.into_iter().flatten().chain(problems).collect(),
        }
    }

    /// The custom emoji, and the reasons why some cannot be read.
    pub(super) fn emoji(&mut self) -> (Vec<SourceEmoji>, Vec<String>) {
        let (mut emoji, mut problems) = (EmojiList::default(), Vec::new());
        self.list("emoji", &mut problems, &mut |value| {
            let creator = first([string(value, "created_by")]).map(str::to_owned);
            let (name, file) = (string(value, "name"), string(value, "file_id"));
            emoji.add(name, file, creator);
        });
        emoji.finish(problems)
    }

    /// The bytes of the picture of an emoji.
    pub(super) fn picture(&mut self, key: &str) -> Option<Result<Vec<u8>, ArchiveFault>> {
        let index = *self.uploads.get(key)?;
        Some(self.files.bytes(index, PICTURE_READ_MAX))
    }

    /// The agents, and the reasons why some cannot be read.
    pub(super) fn agents(&mut self) -> (Vec<SourceAgent>, Vec<String>) {
        let names = self.lines.names.iter().enumerate();
        let entries = names.filter(|(_, name)| {
            let file = name.strip_prefix(AGENTS);
            file.is_some_and(|file| file.strip_suffix(".json").is_some())
        });
        let mut entries: Vec<(usize, String)> = entries
            .map(|(index, name)| (index, name.clone()))
            .take(AGENTS_MAX + 1)
            .collect();
        let (mut agents, mut problems, mut total) = (Vec::new(), Vec::new(), 0_usize);
        if entries.len() > AGENTS_MAX {
            entries.truncate(AGENTS_MAX);
            problems.push(format!("the archive has more than {AGENTS_MAX} agents"));
        }
        for (index, name) in entries {
            let read = self.lines.bytes(index, AGENT_BYTES_MAX);
            let read = read.map_err(|fault| fault.to_string());
            total += read.as_ref().map_or(0, Vec::len);
            if total > AGENTS_BYTES_MAX {
                problems.push(format!("{name}: the agents have more than 64 MiB"));
                break;
            }
            match read.and_then(|bytes| SourceAgent::parse(&bytes)) {
                Ok(agent) => agents.push(agent),
                Err(e) => problems.push(format!("{name}: {e}")),
            }
        }
        (in_order(agents), problems)
    }

    /// Webhooks, then workflows, which can name them, then memories and schedules, and the reasons why some cannot be read.
    pub(super) fn work(&mut self) -> (SourceWork, Vec<String>) {
        let (mut work, mut problems) = (SourceWork::default(), Vec::new());
        let (mut count, mut bytes) = (0_usize, 0_usize);
        let mut agents = HashMap::new();
        self.list("agent_ids", &mut problems, &mut |value| {
            if agents.len() < AGENTS_MAX {
                let (id, name) = (string(value, "id"), string(value, "name"));
                agents.insert(id.to_owned(), name.to_owned());
            }
        });
        work.agents = Arc::new(agents);
        let roots = self.roots_of_schedules();
        for (list, kind) in [
            ("hooks", RecordKind::Hooks),
            ("workflows", RecordKind::Workflows),
            ("memories", RecordKind::Memories),
            ("schedules", RecordKind::Schedules),
        ] {
            let records = match kind {
                RecordKind::Schedules => &mut work.schedules,
                _ => &mut work.records,
            };
            self.list(list, &mut problems, &mut |value| {
                let Some(key) = first([string(value, "id")]) else {
                    return;
                };
                let mut value = value.clone();
                if let Some(root) = roots.get(string(&value, "thread_id"))
                    && kind == RecordKind::Schedules
                {
                    value[ROOT_OF_SCHEDULE] = root.as_str().into();
                }
                let text = value.to_string();
                count += 1;
                bytes += text.len();
                if bytes <= WORK_BYTES_MAX && count <= WORK_MAX {
                    records.push(SourceRecord {
                        kind,
                        key: key.to_owned(),
                        text,
                    });
                }
            });
        }
        if count > WORK_MAX {
            problems.push(format!(
                "the archive has more than {WORK_MAX} webhooks, workflows, memories, and schedules"
            ));
        }
        if bytes > WORK_BYTES_MAX {
            let problem = "the webhooks, workflows, memories, and schedules have more than 64 MiB";
            problems.push(problem.to_owned());
        }
        (work, problems)
    }

    /// Keys of the first messages of the threads in which schedules post, by thread.
    fn roots_of_schedules(&mut self) -> HashMap<String, String> {
        let (mut threads, mut roots, mut problems) = (HashSet::new(), HashMap::new(), Vec::new());
        // Lines that cannot be read are reported when the schedules are stored.
        self.list("schedules", &mut problems, &mut |value| {
            let thread = string(value, "thread_id");
            if (1..=CITED_BYTES_MAX).contains(&thread.len()) && threads.len() < CITED_MAX {
                threads.insert(thread.to_owned());
            }
        });
        if threads.is_empty() {
            return roots;
        }
        self.list("threads", &mut problems, &mut |value| {
            let (thread, root) = (string(value, "id"), string(value, "root_message_id"));
            if threads.contains(thread) && root.len() <= CITED_BYTES_MAX {
                roots.insert(thread.to_owned(), root.to_owned());
            }
        });
        roots
    }

    /// Keys of the messages that deep dives, results, and schedules name.
    fn cited(&mut self) -> HashSet<String> {
        let roots = self.roots_of_schedules();
        let (mut cited, mut problems) = (HashSet::new(), Vec::new());
        let mut cite = |key: &str| {
            if (1..=CITED_BYTES_MAX).contains(&key.len()) && cited.len() < CITED_MAX {
                cited.insert(key.to_owned());
            }
        };
        for root in roots.values() {
            cite(root);
        }
        // Lines that cannot be read are reported when their records are.
        self.list("forks", &mut problems, &mut |value| {
            cite(string(value, "message_id"));
        });
        self.list("resolutions", &mut problems, &mut |value| {
            cite(string(value, "message_id"));
            for list in [
                "key_points",
                "action_items",
                "open_questions",
                "deferred_items",
            ] {
                for point in array(value, list) {
                    let sources = array(point, "sources").iter();
                    sources.filter_map(Value::as_str).for_each(&mut cite);
                }
            }
        });
        cited
    }

    /// Calls `each` with the messages from unit `from` on, by month: those of threads, then deep dives, each with its messages and results.
    pub(super) fn units(&mut self, from: i64, each: EachUnit<'_>) {
        let cited = self.cited();
        let Self {
            lines,
            files,
            entries,
            uploads,
            ..
        } = self;
        let mut sender = UnitSender {
            each,
            files: ExportFiles {
                archive: files,
                uploads,
            },
            number: 0,
            from,
        };
        for entry in &*entries {
            let place = entry.place();
            let items_max = match entry.part {
                Part::Threads | Part::DeepDives => UNIT_MAX,
                Part::Forks | Part::Resolutions | Part::ActionItems => RECORDS_UNIT_MAX,
            };
            let (mut unit, mut is_over) = (SourceUnit::default(), false);
            let read = lines.with_entry(entry.index, ENTRY_BYTES_MAX, |reader| {
                each_line(reader, &mut |n, line| {
                    add(&mut unit, entry, &cited, &format!("{place} {n}"), line);
                    if unit.size() < items_max {
                        return ControlFlow::Continue(());
                    }
                    let sent = sender.send(std::mem::take(&mut unit));
                    is_over = sent.is_break();
                    sent
                })
            });
            if let Err(fault) = read {
                unit.problems.push(fault.to_string());
            }
            if is_over || sender.send(unit).is_break() {
                return;
            }
        }
    }
}

impl Entry {
    /// Name of the entry in the report.
    fn place(&self) -> String {
        let Self { channel, month, .. } = self;
        match self.part {
            Part::Threads => format!("{channel}/{month}"),
            Part::DeepDives => format!("{channel}/{DEEP_DIVES}{month}"),
            Part::Forks => "forks".to_owned(),
            Part::Resolutions => "resolutions".to_owned(),
            Part::ActionItems => "action_items".to_owned(),
        }
    }
}

/// Files of the archive.
struct ExportFiles<'a, R> {
    archive: &'a mut Archive<R>,
    uploads: &'a HashMap<String, usize>,
}

impl<R: Read + Seek> SourceFiles for ExportFiles<'_, R> {
    fn file_bytes(&self, key: &str) -> Option<u64> {
        Some(self.archive.size_of(*self.uploads.get(key)?))
    }

    fn file(&mut self, key: &str, bytes_max: u64) -> Option<Result<Vec<u8>, ArchiveFault>> {
        let index = *self.uploads.get(key)?;
        Some(self.archive.bytes(index, bytes_max))
    }
}

/// Numbers the units, and sends them from number `from` on.
struct UnitSender<'e, 'f, R> {
    each: EachUnit<'e>,
    files: ExportFiles<'f, R>,
    number: i64,
    from: i64,
}

impl<R: Read + Seek> UnitSender<'_, '_, R> {
    fn send(&mut self, unit: SourceUnit) -> ControlFlow<()> {
        let number = self.number;
        self.number += 1;
        if number < self.from {
            return ControlFlow::Continue(());
        }
        (self.each)(SourceUnit { number, ..unit }, &mut self.files)
    }
}

/// Adds the message or record of a line to a unit.
fn add(unit: &mut SourceUnit, entry: &Entry, cited: &HashSet<String>, place: &str, line: Line<'_>) {
    let value = match line.and_then(parse_line) {
        Ok(value) => value,
        Err(e) => {
            unit.problems.push(format!("{place}: {e}"));
            return;
        }
    };
    let listed = |kind| (string(&value, "channel_id"), record(kind, &value));
    let (folder, item) = match entry.part {
        Part::Threads => (entry.channel.as_str(), item(&value, None, cited)),
        Part::DeepDives => {
            let item = match first([string(&value, "fork_id")]) {
                Some(fork) => item(&value, Some(fork), cited),
                None => SourceItem::LeftOut("it is in no deep dive"),
            };
            (entry.channel.as_str(), item)
        }
        Part::Forks => listed(RecordKind::Forks),
        Part::Resolutions => listed(RecordKind::Resolutions),
        Part::ActionItems => listed(RecordKind::ActionItems),
    };
    unit.items.push(PlacedItem {
        folder: folder.to_owned(),
        at_us: microseconds(string(&value, "created_at")).unwrap_or(0),
        place: place.to_owned(),
        item,
    });
}

/// A record of a list. One that is too large has no text, and is left out.
fn record(kind: RecordKind, value: &Value) -> SourceItem {
    let text = value.to_string();
    SourceItem::Record(SourceRecord {
        kind,
        key: string(value, "id").to_owned(),
        text: if text.len() <= RECORD_BYTES_MAX {
            text
        } else {
            String::new()
        },
    })
}

/// A message of a thread, or of the deep dive `fork`.
fn item(value: &Value, fork: Option<&str>, cited: &HashSet<String>) -> SourceItem {
    if !string(value, "deleted_at").is_empty() {
        return SourceItem::LeftOut("deleted");
    }
    if string(value, "kind") == "notice" {
        return SourceItem::LeftOut("notice of the server");
    }
    let (key, at) = (string(value, "id"), string(value, "created_at"));
    let Some(at_us) = microseconds(at).filter(|_| !key.is_empty()) else {
        return SourceItem::LeftOut("no time");
    };
    let files = distinct_files(array(value, "attachments").iter().filter_map(file));
    let text = string(value, "content").to_owned();
    if text.trim().is_empty() && files.is_empty() {
        return SourceItem::LeftOut("empty");
    }
    let root = value.get("root").filter(|_| fork.is_none());
    let root = root.unwrap_or(&Value::Null);
    let thread = microseconds(string(root, "created_at")).map(|at_us| SourceThread {
        key: string(root, "id").to_owned(),
        id: ThreadId::parse(string(value, "thread_id")).ok(),
        variant_of: None,
        at_us,
        title: first([string(root, "title")]).map(str::to_owned),
    });
    SourceItem::Message(Box::new(SourceMessage {
        key: key.to_owned(),
        at_us,
        edited_us: microseconds(string(value, "edited_at")),
        thread: thread.filter(|thread| !thread.key.is_empty()),
        author: author(value),
        text,
        reactions: array(value, "reactions").iter().map(reaction).collect(),
        files,
        is_pinned: value
            .pointer("/metadata/pinned_by")
            .is_some_and(Value::is_string),
        fork: fork.map(str::to_owned),
        is_cited: cited.contains(key),
    }))
}

fn author(value: &Value) -> Option<SourceAuthor> {
    let author = value.get("author")?;
    let shown = value.pointer("/metadata/shown_as/name");
    Some(SourceAuthor {
        key: first([string(author, "id")])?.to_owned(),
        name: first([string(author, "name")]).map(str::to_owned),
        is_bot: string(author, "type") != "human",
        shown_as: shown.and_then(Value::as_str).map(str::to_owned),
    })
}

fn file(value: &Value) -> Option<SourceFile> {
    let key = first([string(value, "id")])?;
    Some(SourceFile {
        key: key.to_owned(),
        name: first([string(value, "name")]).unwrap_or("file").to_owned(),
        url: None,
        fetch_url: None,
        left_out: None,
    })
}

/// Reactions of people and bots. Agents are bots here only if they wrote something.
fn reaction(value: &Value) -> SourceReaction {
    let mut people = strings(value, "user_ids");
    people.extend(strings(value, "bot_ids"));
    SourceReaction {
        name: reaction_name(string(value, "emoji")),
        people,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_a_month_and_a_number() {
        assert_eq!(month_of("2026-11.jsonl"), Some(("2026-11", 1)));
        assert_eq!(month_of("2026-11.12.jsonl"), Some(("2026-11", 12)));
        for other in [
            "2026-11.json",
            "2026.jsonl",
            "2026-11.x.jsonl",
            "deep-dives/2026-11.jsonl",
        ] {
            assert_eq!(month_of(other), None, "{other}");
        }
    }

    #[test]
    fn named_entries_are_read_before_those_that_name_them() {
        let names = [
            "resolutions.jsonl",
            "messages/c/deep-dives/2026-11.jsonl",
            "forks.2.jsonl",
            "messages/c/2026-12.jsonl",
            "forks.jsonl",
            "forksome.jsonl",
            "messages/c/other/2026-11.jsonl",
        ];
        let entries = names.iter().enumerate();
        let mut entries: Vec<Entry> = entries.filter_map(|(n, name)| entry_of(name, n)).collect();
        entries.sort_unstable();
        let order: Vec<usize> = entries.iter().map(|entry| entry.index).collect();
        assert_eq!(order, [3, 4, 2, 1, 0]);
    }

    #[test]
    fn only_a_longer_list_is_cut() {
        let mut list = vec![0; LISTED_MAX];
        assert!(!cut(&mut list));
        list.push(1);
        assert!(cut(&mut list));
        assert_eq!((list.len(), list.last()), (LISTED_MAX, Some(&0)));
    }
}
