//! Reads an export of Zulip: `realm.json` with its tables, files with a thousand messages each, and uploads.

use std::{
    cell::Cell,
    collections::{BTreeSet, HashMap},
    io::{BufReader, Read},
    rc::Rc,
    time::Duration,
};

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::{
    archive::{ArchiveFault, Bounded, Elements, JSON_BYTES_MAX, PART_BYTES_MAX},
    emoji_source::{EmojiList, PICTURE_READ_MAX, SourceEmoji},
    json::{first, flag, number, string},
    record::{
        EachUnit, Listed, PlacedItem, SourceAuthor, SourceChannel, SourceChannelKind, SourceFile,
        SourceFiles, SourceIndex, SourceItem, SourceMessage, SourceNames, SourcePerson,
        SourceReaction, SourceThread, SourceUnit, UNIT_MESSAGES, distinct_files,
    },
    tarball::Tarball,
    utf8::ValidUtf8,
};
use crate::chat::messages::reaction_name;

const REALM: &str = "realm.json";
const UPLOADS: &str = "uploads/";
const EMOJI: &str = "emoji/";
/// Beginning of links to uploads in texts.
const UPLOAD_LINK: &str = "/user_uploads/";
/// Maximum length of a link to an upload, with its text.
const LINK_BYTES_MAX: usize = 1000;
const MESSAGE_TABLE: &str = "zerver_message";
const REALM_TABLES: [&str; 9] = [
    "zerver_realm",
    "zerver_userprofile",
    "zerver_userprofile_crossrealm",
    "zerver_userprofile_mirrordummy",
    "zerver_stream",
    "zerver_recipient",
    "zerver_subscription",
    "zerver_reaction",
    "zerver_realmemoji",
];

/// An export of Zulip. It is unpacked when it is read first.
pub(super) struct ZulipArchive<R> {
    reader: Option<R>,
    archive_bytes_max: u64,
    unpacked: Option<Unpacked>,
}

struct Unpacked {
    tarball: Tarball,
    /// Folder of `realm.json`; empty, or ends with `/`.
    root: String,
    realm: Realm,
}

/// Receives a row with the name of its table.
type EachRow<'a> = &'a mut dyn FnMut(&str, Value);

/// Reads an object of tables row by row.
struct Tables<'a> {
    wanted: &'a [&'a str],
    each: EachRow<'a>,
    /// Bytes that can be read into memory.
    left: &'a Cell<u64>,
}

impl<'de> Visitor<'de> for Tables<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object with tables")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut tables: A) -> Result<(), A::Error> {
        let Self { wanted, each, left } = self;
        while let Some(table) = tables.next_key::<String>()? {
            if wanted.contains(&table.as_str()) {
                let mut read = |row: Value| {
                    left.set(PART_BYTES_MAX);
                    each(&table, row);
                };
                tables.next_value_seed(Elements(&mut read))?;
            } else {
                left.set(u64::MAX);
                tables.next_value::<IgnoredAny>()?;
            }
            left.set(PART_BYTES_MAX);
        }
        Ok(())
    }
}

fn read_tables(reader: &mut dyn Read, wanted: &[&str], each: EachRow<'_>) -> Result<(), String> {
    let left = Rc::new(Cell::new(PART_BYTES_MAX));
    let bounded = Bounded {
        reader: ValidUtf8::new(reader),
        left: Rc::clone(&left),
    };
    let mut json = serde_json::Deserializer::from_reader(BufReader::new(bounded));
    let tables = Tables {
        wanted,
        each,
        left: &left,
    };
    json.deserialize_map(tables).map_err(|e| e.to_string())
}

/// Microseconds of a time in seconds with a fraction.
fn microseconds(value: &Value, name: &str) -> Option<i64> {
    let seconds = value.get(name)?.as_f64()?;
    let since = Duration::try_from_secs_f64(seconds).ok()?;
    i64::try_from(since.as_micros())
        .ok()
        .filter(|at| (1..1 << 54).contains(at))
}

/// Recipient of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Recipient {
    /// To one person, besides the sender.
    Person(i64),
    Stream(i64),
    Group,
}

/// Tables of the realm.
#[derive(Debug, Default)]
struct Realm {
    name: String,
    people: Listed<i64, SourcePerson>,
    /// IDs of people by their names, as in mentions.
    by_name: HashMap<String, i64>,
    streams: Listed<i64, SourceChannel>,
    recipients: HashMap<i64, Recipient>,
    /// People who are subscribed, by recipient.
    subscribers: HashMap<i64, BTreeSet<i64>>,
    /// Emoji and people, by message.
    reactions: HashMap<i64, Vec<(String, i64)>>,
    emoji: EmojiList,
}

impl Realm {
    fn add(&mut self, table: &str, row: &Value) {
        let id = number(row, "id");
        match table {
            "zerver_realm" => {
                let name = first([string(row, "string_id"), string(row, "name")]);
                name.unwrap_or_default().clone_into(&mut self.name);
            }
            "zerver_stream" => {
                let key = format!("stream:{id}");
                let created = microseconds(row, "date_created").unwrap_or(0) / 1000;
                self.streams.add(
                    id,
                    SourceChannel {
                        kind: if flag(row, "invite_only") {
                            SourceChannelKind::Private
                        } else {
                            SourceChannelKind::Public
                        },
                        name: string(row, "name").to_owned(),
                        topic: first([string(row, "description")]).map(str::to_owned),
                        is_archived: flag(row, "deactivated"),
                        created_ms: created,
                        creator: None,
                        members: Vec::new(),
                        folder: key.clone(),
                        key,
                    },
                );
            }
            "zerver_recipient" => {
                let recipient = match (number(row, "type"), number(row, "type_id")) {
                    (1, person) => Recipient::Person(person),
                    (2, stream) => Recipient::Stream(stream),
                    _ => Recipient::Group,
                };
                self.recipients.insert(id, recipient);
            }
            "zerver_subscription" if row.get("active").and_then(Value::as_bool) != Some(false) => {
                let of = self.subscribers.entry(number(row, "recipient"));
                of.or_default().insert(number(row, "user_profile"));
            }
            "zerver_reaction" => {
                let of = self.reactions.entry(number(row, "message"));
                of.or_default()
                    .push((emoji_of(row), number(row, "user_profile")));
            }
            "zerver_realmemoji" if !flag(row, "deactivated") => {
                let author = number(row, "author");
                let author = (author > 0).then(|| author.to_string());
                let (name, file) = (string(row, "name"), string(row, "file_name"));
                self.emoji.add(name, file, author);
            }
            _ if table.starts_with("zerver_userprofile") => {
                let of_server = table.ends_with("crossrealm");
                let email = first([string(row, "delivery_email"), string(row, "email")]);
                let key = id.to_string();
                let name = first([
                    string(row, "full_name"),
                    email.unwrap_or_default(),
                    key.as_str(),
                ]);
                let name = name.unwrap_or(&key).to_owned();
                let is_bot = of_server || flag(row, "is_bot");
                let person = SourcePerson {
                    name: name.clone(),
                    email: email.filter(|_| !is_bot).map(str::to_lowercase),
                    is_bot,
                    key,
                };
                if self.people.add(id, person) {
                    self.by_name.entry(name).or_insert(id);
                }
            }
            _ => {}
        }
    }

    /// The channel of a message, and the people of a direct one.
    fn place(&self, row: &Value) -> Option<(String, Option<BTreeSet<i64>>)> {
        let recipient = number(row, "recipient");
        let people = match self.recipients.get(&recipient)? {
            Recipient::Stream(stream) => return Some((format!("stream:{stream}"), None)),
            Recipient::Person(person) => BTreeSet::from([*person, number(row, "sender")]),
            Recipient::Group => {
                let mut people = self
                    .subscribers
                    .get(&recipient)
                    .cloned()
                    .unwrap_or_default();
                people.insert(number(row, "sender"));
                people
            }
        };
        let ids: Vec<String> = people.iter().map(i64::to_string).collect();
        Some((format!("direct:{}", ids.join(",")), Some(people)))
    }
}

impl<R: Read> ZulipArchive<R> {
    /// `reader` reads a compressed tar file.
    pub(super) fn new(reader: R, archive_bytes_max: u64) -> Self {
        Self {
            reader: Some(reader),
            archive_bytes_max,
            unpacked: None,
        }
    }

    fn unpack(&mut self) -> Result<&mut Unpacked, ArchiveFault> {
        if let Some(reader) = self.reader.take() {
            let wants = |name: &str| {
                let is_of_messages = name.contains("messages-");
                let has_bytes = name.contains(UPLOADS) || name.contains(EMOJI);
                name.ends_with(REALM) || is_of_messages || has_bytes
            };
            let mut tarball = Tarball::unpack(reader, self.archive_bytes_max, &wants)?;
            let root = tarball
                .names()
                .find_map(|name| name.strip_suffix(REALM))
                .filter(|root| root.matches('/').count() <= 1)
                .map(str::to_owned);
            let Some(root) = root else {
                let text = "This is not an export of Zulip: it has no realm.json.";
                return Err(ArchiveFault::Unknown(text.to_owned()));
            };
            let mut realm = Realm::default();
            tarball.with_entry(&format!("{root}{REALM}"), JSON_BYTES_MAX, |reader| {
                read_tables(reader, &REALM_TABLES, &mut |table, row| {
                    realm.add(table, &row);
                })
            })?;
            self.unpacked = Some(Unpacked {
                tarball,
                root,
                realm,
            });
        }
        self.unpacked.as_mut().ok_or(ArchiveFault::Stopped)
    }

    /// Unpacks the archive, if it is not.
    ///
    /// # Errors
    /// The reason why it cannot be read.
    pub(super) fn check(&mut self) -> Result<(), ArchiveFault> {
        self.unpack().map(|_| ())
    }

    pub(super) fn index(&mut self) -> SourceIndex {
        let unpacked = match self.unpack() {
            Ok(unpacked) => unpacked,
            Err(fault) => {
                return SourceIndex {
                    source: "zulip:unknown".to_owned(),
                    problems: vec![fault.to_string()],
                    ..SourceIndex::default()
                };
            }
        };
        unpacked.index()
    }

    /// The custom emoji, and a problem if there are too many.
    pub(super) fn emoji(&mut self) -> (Vec<SourceEmoji>, Vec<String>) {
        // The fault of an archive that cannot be read is in the index.
        let unpacked = self.unpack().ok();
        let emoji = unpacked.map(|unpacked| unpacked.realm.emoji.clone());
        emoji.unwrap_or_default().finish(Vec::new())
    }

    /// The bytes of the picture of an emoji.
    pub(super) fn picture(&mut self, key: &str) -> Option<Result<Vec<u8>, ArchiveFault>> {
        let Unpacked { tarball, root, .. } = self.unpack().ok()?;
        let end = format!("/emoji/images/{key}");
        let name = tarball
            .names()
            .find(|name| {
                let place = name.strip_prefix(root.as_str());
                place.is_some_and(|place| place.starts_with(EMOJI) && place.ends_with(&end))
            })
            .map(str::to_owned)?;
        Some(tarball.bytes(&name, PICTURE_READ_MAX))
    }

    /// Calls `each` with parts of the files of messages from number `from` on.
    pub(super) fn units(&mut self, names: &SourceNames, from: i64, each: EachUnit<'_>) {
        // The problem is in the index.
        if let Ok(unpacked) = self.unpack() {
            unpacked.units(names, from, each);
        }
    }
}

impl Unpacked {
    /// Files of messages, in the order of their numbers.
    fn message_files(&self) -> Vec<String> {
        let names = self.tarball.names();
        let is_of_messages = |name: &&str| {
            let file = name.strip_prefix(&self.root).unwrap_or_default();
            file.starts_with("messages-") && !file.contains('/')
        };
        names.filter(is_of_messages).map(str::to_owned).collect()
    }

    fn index(&mut self) -> SourceIndex {
        let (mut problems, mut direct) = (Vec::<String>::new(), Listed::default());
        for name in self.message_files() {
            let realm = &self.realm;
            let read = self.tarball.with_entry(&name, JSON_BYTES_MAX, |reader| {
                read_tables(reader, &[MESSAGE_TABLE], &mut |_, row| {
                    if let Some((key, Some(people))) = realm.place(&row) {
                        direct.add(key, people);
                    }
                })
            });
            problems.extend(read.err().map(|fault| fault.to_string()));
        }
        let realm = &self.realm;
        let too_many = [
            realm.people.problem("people"),
            realm.streams.problem("channels"),
            direct.problem("direct conversations"),
        ];
        let streams: HashMap<i64, &BTreeSet<i64>> = realm
            .recipients
            .iter()
            .filter_map(|(id, recipient)| match recipient {
                Recipient::Stream(stream) => Some((*stream, realm.subscribers.get(id)?)),
                _ => None,
            })
            .collect();
        let keys =
            |people: &BTreeSet<i64>| -> Vec<String> { people.iter().map(i64::to_string).collect() };
        let mut channels: Vec<SourceChannel> = Vec::new();
        for (id, channel) in realm.streams.entries() {
            channels.push(SourceChannel {
                members: streams
                    .get(id)
                    .map(|people| keys(people))
                    .unwrap_or_default(),
                ..channel.clone()
            });
        }
        channels.extend(
            direct
                .entries()
                .iter()
                .map(|(key, people)| SourceChannel::direct(key.clone(), keys(people))),
        );
        let name = first([realm.name.as_str()]).unwrap_or("unknown");
        SourceIndex {
            source: format!("zulip:{name}"),
            people: realm.people.entries().values().cloned().collect(),
            channels,
            problems: too_many.into_iter().flatten().chain(problems).collect(),
        }
    }

    fn units(&mut self, names: &SourceNames, from: i64, each: EachUnit<'_>) {
        let mut topics: HashMap<(String, String), SourceThread> = HashMap::new();
        let mut number = 0;
        for name in self.message_files() {
            let (mut items, mut problems) = (Vec::new(), Vec::new());
            let context = Context {
                realm: &self.realm,
                names,
            };
            let read = self.tarball.with_entry(&name, JSON_BYTES_MAX, |reader| {
                read_tables(reader, &[MESSAGE_TABLE], &mut |_, row| {
                    items.push(context.placed(&name, &row, &mut topics));
                })
            });
            problems.extend(read.err().map(|fault| fault.to_string()));
            let mut files = Uploads {
                tarball: &mut self.tarball,
                root: &self.root,
            };
            // The first part of a file has its problems, also if it has no messages.
            let mut rest = items.into_iter().peekable();
            loop {
                let unit = SourceUnit {
                    number,
                    items: rest.by_ref().take(UNIT_MESSAGES).collect(),
                    problems: std::mem::take(&mut problems),
                };
                number += 1;
                if unit.number >= from && each(unit, &mut files).is_break() {
                    return;
                }
                if rest.peek().is_none() {
                    break;
                }
            }
        }
    }
}

/// Uploads of an export.
struct Uploads<'a> {
    tarball: &'a mut Tarball,
    root: &'a str,
}

impl Uploads<'_> {
    fn name(&self, key: &str) -> String {
        format!("{}{UPLOADS}{key}", self.root)
    }
}

impl SourceFiles for Uploads<'_> {
    fn file_bytes(&self, key: &str) -> Option<u64> {
        self.tarball.size_of(&self.name(key))
    }

    fn file(&mut self, key: &str, bytes_max: u64) -> Option<Result<Vec<u8>, ArchiveFault>> {
        let name = self.name(key);
        self.tarball
            .has(&name)
            .then(|| self.tarball.bytes(&name, bytes_max))
    }
}

/// Name of the emoji of a reaction: ours for a standard emoji that is in our table, because Zulip has other names.
fn emoji_of(row: &Value) -> String {
    let code = string(row, "emoji_code").split('-');
    let code = code.map(|part| char::from_u32(u32::from_str_radix(part, 16).ok()?));
    let emoji: Option<String> = code.collect();
    let emoji = emoji.filter(|_| string(row, "reaction_type") == "unicode_emoji");
    let name = emoji.map(|emoji| reaction_name(&emoji));
    let known = name.filter(|name| name.is_ascii());
    known.unwrap_or_else(|| string(row, "emoji_name").to_owned())
}

/// Objects that messages name.
struct Context<'a> {
    realm: &'a Realm,
    names: &'a SourceNames,
}

impl Context<'_> {
    /// An entry. The first message of a topic becomes the first message of its thread.
    fn placed(
        &self,
        file: &str,
        row: &Value,
        topics: &mut HashMap<(String, String), SourceThread>,
    ) -> PlacedItem {
        let place = self.realm.place(row);
        let id = number(row, "id");
        let mut item = match &place {
            Some(_) => self.item(row),
            None => SourceItem::LeftOut("it is in no channel of the export"),
        };
        let (folder, people) = place.unwrap_or_default();
        if let SourceItem::Message(message) = &mut item
            && people.is_none()
        {
            let subject = string(row, "subject");
            let topic = (folder.clone(), subject.to_lowercase());
            let thread = topics.entry(topic).or_insert_with(|| SourceThread {
                key: message.key.clone(),
                id: None,
                variant_of: None,
                at_us: message.at_us,
                title: first([subject]).map(str::to_owned),
            });
            message.thread = Some(thread.clone());
        }
        PlacedItem {
            folder,
            at_us: microseconds(row, "date_sent").unwrap_or(0),
            place: format!("{file} {id}"),
            item,
        }
    }

    fn item(&self, row: &Value) -> SourceItem {
        let id = number(row, "id");
        let Some(at_us) = microseconds(row, "date_sent") else {
            return SourceItem::LeftOut("no time");
        };
        let (text, files) = self.text(string(row, "content"));
        if text.trim().is_empty() && files.is_empty() {
            return SourceItem::LeftOut("empty");
        }
        if text.trim() == "(deleted)" {
            return SourceItem::LeftOut("deleted");
        }
        let sender = number(row, "sender");
        let mut reactions: Vec<SourceReaction> = Vec::new();
        for (name, person) in self.realm.reactions.get(&id).into_iter().flatten() {
            let person = person.to_string();
            match reactions.iter_mut().find(|known| known.name == *name) {
                Some(known) => known.people.push(person),
                None => reactions.push(SourceReaction {
                    name: name.clone(),
                    people: vec![person],
                }),
            }
        }
        SourceItem::Message(Box::new(SourceMessage {
            key: id.to_string(),
            at_us,
            edited_us: microseconds(row, "last_edit_time"),
            thread: None,
            author: Some(SourceAuthor {
                key: sender.to_string(),
                name: None,
                is_bot: self
                    .realm
                    .people
                    .entries()
                    .get(&sender)
                    .is_some_and(|person| person.is_bot),
                shown_as: None,
            }),
            text,
            reactions,
            files,
            is_pinned: false,
            fork: None,
            is_cited: false,
        }))
    }

    /// The text with names of here, and the uploads to which it links.
    fn text(&self, content: &str) -> (String, Vec<SourceFile>) {
        let (mut out, mut files) = (String::with_capacity(content.len()), Vec::new());
        let mut rest = content;
        while let Some(at) = rest.find(['@', '#', '[']) {
            let (before, found) = rest.split_at(at);
            out.push_str(before);
            let replaced = if found.starts_with('[') {
                upload(found, &mut files)
            } else {
                self.reference(found)
            };
            let (text, len) = replaced.unwrap_or_else(|| (found[..1].to_owned(), 1));
            out.push_str(&text);
            rest = &found[len..];
        }
        out.push_str(rest);
        (out, distinct_files(files.into_iter()))
    }

    /// `@**Ada**`, `@**Ada|7**`, `@_**Ada**`, `#**plans**`, or `#**plans>topic**` at the beginning of a text, and its length.
    fn reference(&self, text: &str) -> Option<(String, usize)> {
        let (mark, inner) = ["@**", "@_**", "#**"]
            .iter()
            .find_map(|mark| Some((*mark, text.strip_prefix(*mark)?)))?;
        let end = inner.find("**").filter(|end| (1..200).contains(end))?;
        let (name, len) = (&inner[..end], mark.len() + end + 2);
        if mark.starts_with('#') {
            let (stream, topic) = name.split_once('>').unwrap_or((name, ""));
            let streams = self.realm.streams.entries().values();
            let mut known = streams.filter(|known| known.name == stream);
            let here = known.find_map(|known| self.names.0.get(&known.key));
            let stream = here.map_or(stream, String::as_str);
            let topic = if topic.is_empty() {
                String::new()
            } else {
                format!(" > {topic}")
            };
            return Some((format!("#{stream}{topic}"), len));
        }
        let (name, id) = name.rsplit_once('|').unwrap_or((name, ""));
        if matches!(name, "all" | "everyone" | "stream" | "channel" | "topic") {
            return Some((format!("@{name}"), len));
        }
        let id: Option<i64> = id
            .parse()
            .ok()
            .or_else(|| self.realm.by_name.get(name).copied());
        let handle = id.and_then(|id| self.names.0.get(&id.to_string()));
        Some((format!("@{}", handle.map_or(name, String::as_str)), len))
    }
}

/// A link to an upload at the beginning of a text, and its length. The upload becomes a file, and the link its name.
fn upload(text: &str, files: &mut Vec<SourceFile>) -> Option<(String, usize)> {
    // Only the beginning is searched: there can be such a bracket at every byte of a long text.
    let near = &text[..text.floor_char_boundary(LINK_BYTES_MAX)];
    let (label, after) = near.strip_prefix('[')?.split_once("](")?;
    if label.contains(['[', ']', '\n']) {
        return None;
    }
    let path = after.strip_prefix(UPLOAD_LINK)?;
    let end = path.find(')')?;
    let key = &path[..end];
    let name = key.rsplit('/').next().unwrap_or(key);
    files.push(SourceFile {
        key: key.to_owned(),
        name: first([label, name]).unwrap_or(name).to_owned(),
        url: None,
        fetch_url: None,
        left_out: None,
    });
    let len = 1 + label.len() + 2 + UPLOAD_LINK.len() + end + 1;
    Some((label.to_owned(), len))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn realm() -> Realm {
        let mut realm = Realm::default();
        for (table, row) in [
            ("zerver_realm", json!({"id": 2, "string_id": "acme"})),
            (
                "zerver_userprofile",
                json!({"id": 7, "full_name": "Ada", "delivery_email": "Ada@Example.com"}),
            ),
            (
                "zerver_userprofile_crossrealm",
                json!({"id": 1, "full_name": "Notification Bot", "email": "n@zulip.com"}),
            ),
            (
                "zerver_stream",
                json!({"id": 3, "name": "plans", "invite_only": true}),
            ),
            (
                "zerver_recipient",
                json!({"id": 30, "type": 2, "type_id": 3}),
            ),
            (
                "zerver_recipient",
                json!({"id": 70, "type": 1, "type_id": 7}),
            ),
            (
                "zerver_recipient",
                json!({"id": 90, "type": 3, "type_id": 5}),
            ),
            (
                "zerver_subscription",
                json!({"recipient": 90, "user_profile": 8, "active": true}),
            ),
            (
                "zerver_subscription",
                json!({"recipient": 90, "user_profile": 9, "active": false}),
            ),
        ] {
            realm.add(table, &row);
        }
        realm
    }

    #[test]
    fn tables_of_the_realm_are_people_and_channels() {
        let realm = realm();
        assert_eq!(
            realm.people.entries()[&7].email.as_deref(),
            Some("ada@example.com")
        );
        assert!(realm.people.entries()[&1].is_bot);
        let place = |recipient: i64| realm.place(&json!({"recipient": recipient, "sender": 6}));
        assert_eq!(place(30), Some(("stream:3".to_owned(), None)));
        let direct = |ids: &[i64]| Some(ids.iter().copied().collect::<BTreeSet<i64>>());
        assert_eq!(place(70), Some(("direct:6,7".to_owned(), direct(&[6, 7]))));
        assert_eq!(place(90), Some(("direct:6,8".to_owned(), direct(&[6, 8]))));
        assert_eq!(place(99), None);
    }

    #[test]
    fn references_become_names_and_uploads_become_files() {
        let realm = realm();
        let names = [("7", "ada"), ("stream:3", "plans-2")];
        let names = names.map(|(key, name)| (key.to_owned(), name.to_owned()));
        let names = SourceNames(names.into());
        let context = Context {
            realm: &realm,
            names: &names,
        };
        for (text, expected) in [
            (
                "@**Ada** and @_**Ada|7**: a@b, @**Bo|8**",
                "@ada and @ada: a@b, @Bo",
            ),
            (
                "see #**plans>The fair** and #1, @**all**",
                "see #plans-2 > The fair and #1, @all",
            ),
            (
                "[a](https://x.example) [ ] **b**",
                "[a](https://x.example) [ ] **b**",
            ),
        ] {
            assert_eq!(context.text(text), (expected.to_owned(), Vec::new()));
        }
        let brackets = "[".repeat(1 << 17);
        assert_eq!(context.text(&brackets).0, brackets);
        let (text, files) = context.text("The [plan.pdf](/user_uploads/2/ab/plan.pdf).");
        assert_eq!(text, "The plan.pdf.");
        assert_eq!(
            (files[0].key.as_str(), files[0].name.as_str()),
            ("2/ab/plan.pdf", "plan.pdf")
        );
    }

    #[test]
    fn the_first_message_of_a_topic_starts_its_thread() {
        let realm = realm();
        let names = SourceNames::default();
        let context = Context {
            realm: &realm,
            names: &names,
        };
        let mut topics = HashMap::new();
        let mut thread = |id: i64, subject: &str| {
            let row = json!({"id": id, "sender": 7, "recipient": 30, "subject": subject, "content": "x", "date_sent": 1_620_000_000.5});
            let placed = context.placed("messages-000001.json", &row, &mut topics);
            let SourceItem::Message(message) = placed.item else {
                panic!("no message");
            };
            assert_eq!(message.at_us, 1_620_000_000_500_000);
            let thread = message.thread.unwrap();
            (thread.key, thread.title.unwrap())
        };
        let fair = ("5".to_owned(), "The fair".to_owned());
        assert_eq!(thread(5, "The fair"), fair);
        assert_eq!(thread(6, "the Fair"), fair);
        assert_eq!(thread(7, "Other").0, "7");
    }
}
