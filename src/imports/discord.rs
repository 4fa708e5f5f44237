//! Reads exports of `DiscordChatExporter` in JSON: a file for each channel or thread, or several (`[part 2]`), and folders with media.
//!
//! There are neither addresses nor permissions. IDs contain the time.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io::{Read, Seek},
    ops::ControlFlow,
};

use serde_json::{Map, Value};

use super::{
    archive::{Archive, ArchiveFault, unknown},
    json::{array, first, flag, string},
    record::{
        EachUnit, Listed, PlacedItem, SourceAuthor, SourceChannel, SourceChannelKind, SourceFile,
        SourceFiles, SourceIndex, SourceItem, SourceMessage, SourceNames, SourcePerson,
        SourceReaction, SourceThread, SourceUnit, UNIT_MESSAGES, distinct_files, finish,
        is_linkable,
    },
};

/// Product in the name of the source.
pub(super) const PRODUCT: &str = "discord";
/// Start of the times in IDs.
const EPOCH_MS: i64 = 1_420_070_400_000;
/// Bytes at the beginning of a file that are looked at.
const HEAD_BYTES: u64 = 4096;
const MESSAGES: &str = "messages";
/// Maximum size of a text in which references are replaced, above that of a message of Discord.
const NAMED_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of mentions whose names are replaced.
const MENTIONS_MAX: usize = 100;

/// An export of `DiscordChatExporter`.
pub(super) struct DiscordArchive<R> {
    chats: Archive<R>,
    media: Archive<R>,
    /// Entries by name.
    entries: HashMap<String, usize>,
    files: Vec<ChatFile>,
}

/// A file of a channel or thread. Those of channels come first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ChatFile {
    /// ID of the thread; `None` for a channel.
    thread: Option<String>,
    name: String,
    index: usize,
    /// ID of the channel.
    channel: String,
    /// Title of the thread.
    title: String,
}

/// Microseconds of the time in an ID.
fn microseconds(id: &str) -> Option<i64> {
    let id: u64 = id.parse().ok()?;
    let ms = i64::try_from(id >> 22).ok()?;
    Some((ms + EPOCH_MS) * 1000)
}

/// Time of a message: the stated one, else that of its ID.
fn time_of(message: &Value) -> Option<i64> {
    let stated = chrono::DateTime::parse_from_rfc3339(string(message, "timestamp")).ok();
    let stated = stated.map(|at| at.timestamp_micros());
    stated.or_else(|| microseconds(string(message, "id")))
}

/// Entries that can be files of channels: JSON outside of folders with media.
fn candidates<R>(archive: &Archive<R>) -> Vec<usize> {
    let names = archive.names.iter().enumerate();
    let is_chat = |name: &str| {
        let is_media = name.contains("_Files/") || name.contains(".json/");
        name.strip_suffix(".json").is_some() && !is_media
    };
    let mut found: Vec<(&String, usize)> = names
        .filter(|(_, name)| is_chat(name))
        .map(|(index, name)| (name, index))
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, index)| index).collect()
}

fn person(author: &Value) -> Option<SourcePerson> {
    let key = first([string(author, "id")])?;
    let name = first([string(author, "nickname"), string(author, "name"), key]);
    Some(SourcePerson {
        key: key.to_owned(),
        name: name.unwrap_or(key).to_owned(),
        email: None,
        is_bot: flag(author, "isBot"),
    })
}

/// People and channels while the files are read.
#[derive(Default)]
struct Lists {
    guild: String,
    people: Listed<String, SourcePerson>,
    channels: BTreeMap<String, SourceChannel>,
    files: Vec<ChatFile>,
}

impl Lists {
    fn add_people(&mut self, message: &Value) {
        let reactions = array(message, "reactions").iter();
        let reacted = reactions.flat_map(|reaction| array(reaction, "users"));
        let author = message.get("author").into_iter();
        for one in author.chain(reacted) {
            if let Some(person) = person(one) {
                self.people.add(person.key.clone(), person);
            }
        }
    }

    fn add_file(
        &mut self,
        name: &str,
        index: usize,
        head: &Map<String, Value>,
        authors: BTreeSet<String>,
    ) {
        let null = Value::Null;
        let guild = head.get("guild").unwrap_or(&null);
        let channel = head.get("channel").unwrap_or(&null);
        if self.guild.is_empty() {
            string(guild, "id").clone_into(&mut self.guild);
        }
        let Some(id) = first([string(channel, "id")]) else {
            return;
        };
        let kind = string(channel, "type");
        // A private thread has other people than its channel, which may become public.
        let is_part = kind.contains("Thread") && !kind.contains("PrivateThread");
        let parent = first([string(channel, "categoryId")]).filter(|_| is_part);
        let (key, title) = match parent {
            Some(parent) => (parent, first([string(channel, "category"), parent])),
            None => (id, first([string(channel, "name"), id])),
        };
        let is_direct = kind.starts_with("Direct");
        let known = self
            .channels
            .entry(key.to_owned())
            .or_insert_with(|| SourceChannel {
                key: key.to_owned(),
                kind: if is_direct {
                    SourceChannelKind::Direct
                } else {
                    SourceChannelKind::Private
                },
                name: title.unwrap_or(key).to_owned(),
                topic: None,
                is_archived: false,
                created_ms: microseconds(key).unwrap_or(0) / 1000,
                creator: None,
                members: Vec::new(),
                folder: key.to_owned(),
            });
        if parent.is_none() && known.topic.is_none() {
            known.topic = first([string(channel, "topic")]).map(str::to_owned);
        }
        if is_direct {
            let new = authors
                .into_iter()
                .filter(|author| !known.members.contains(author));
            let new: Vec<String> = new.collect();
            known.members.extend(new);
        }
        self.files.push(ChatFile {
            thread: parent.map(|_| id.to_owned()),
            name: name.to_owned(),
            index,
            channel: key.to_owned(),
            title: string(channel, "name").to_owned(),
        });
    }
}

impl<R: Read + Seek> DiscordArchive<R> {
    /// Checks whether this is an export in JSON.
    pub(super) fn is_in(archive: &mut Archive<R>) -> bool {
        let Some(index) = candidates(archive).first().copied() else {
            return false;
        };
        let head = archive.with_entry(index, u64::MAX, |reader| {
            let mut head = Vec::new();
            reader
                .take(HEAD_BYTES)
                .read_to_end(&mut head)
                .map_err(|e| e.to_string())?;
            Ok(String::from_utf8_lossy(&head).into_owned())
        });
        head.is_ok_and(|head| head.contains("\"guild\"") && head.contains("\"channel\""))
    }

    /// `chats` and `media` are the same archive, opened twice.
    ///
    /// # Errors
    /// `Unknown` if there is no file of a channel.
    pub(super) fn open(chats: Archive<R>, media: Archive<R>) -> Result<Self, ArchiveFault> {
        if candidates(&chats).is_empty() {
            return Err(unknown(&chats));
        }
        let entries = media.names.iter().cloned().zip(0..).collect();
        Ok(Self {
            chats,
            media,
            entries,
            files: Vec::new(),
        })
    }

    pub(super) fn index(&mut self) -> SourceIndex {
        let (mut lists, mut problems) = (Lists::default(), Vec::new());
        for index in candidates(&self.chats) {
            let name = self.chats.names[index].clone();
            let mut authors = BTreeSet::new();
            let read = self.chats.object(index, MESSAGES, &mut |_, message| {
                lists.add_people(&message);
                let author = message.get("author").unwrap_or(&Value::Null);
                authors.extend(first([string(author, "id")]).map(str::to_owned));
                ControlFlow::Continue(())
            });
            match read {
                Ok(head) => lists.add_file(&name, index, &head, authors),
                Err(fault) => problems.push(fault.to_string()),
            }
        }
        lists.files.sort_unstable();
        self.files = lists.files;
        let too_many = lists.people.problem("people");
        let guild = if lists.guild.is_empty() {
            "unknown"
        } else {
            &lists.guild
        };
        SourceIndex {
            source: format!("{PRODUCT}:{guild}"),
            people: lists.people.into_values().collect(),
            channels: lists.channels.into_values().collect(),
            problems: too_many.into_iter().chain(problems).collect(),
        }
    }

    /// Calls `each` with parts of the files from number `from` on.
    pub(super) fn units(&mut self, names: &SourceNames, from: i64, each: EachUnit<'_>) {
        if self.files.is_empty() {
            self.index();
        }
        let threads: HashMap<String, String> = self
            .files
            .iter()
            .filter_map(|file| Some((file.thread.clone()?, file.title.clone())))
            .collect();
        let mut files = Media {
            archive: &mut self.media,
            entries: &self.entries,
        };
        let mut unit = SourceUnit::default();
        for file in &self.files {
            let context = Context {
                file,
                names,
                threads: &threads,
                entries: &self.entries,
            };
            let mut n = 0;
            let mut flow = ControlFlow::Continue(());
            let read = self.chats.object(file.index, MESSAGES, &mut |_, message| {
                if unit.number >= from {
                    unit.items.push(context.placed(&message));
                }
                n += 1;
                if n % UNIT_MESSAGES == 0 {
                    flow = finish(&mut unit, from, &mut files, each);
                }
                flow
            });
            if let Err(fault) = read {
                unit.problems.push(fault.to_string());
            }
            if flow.is_continue() {
                flow = finish(&mut unit, from, &mut files, each);
            }
            if flow.is_break() {
                return;
            }
        }
    }
}

/// Media of an export.
struct Media<'a, R> {
    archive: &'a mut Archive<R>,
    entries: &'a HashMap<String, usize>,
}

impl<R: Read + Seek> SourceFiles for Media<'_, R> {
    fn file_bytes(&self, key: &str) -> Option<u64> {
        Some(self.archive.size_of(*self.entries.get(key)?))
    }

    fn file(&mut self, key: &str, bytes_max: u64) -> Option<Result<Vec<u8>, ArchiveFault>> {
        let index = *self.entries.get(key)?;
        Some(self.archive.bytes(index, bytes_max))
    }
}

/// Reason why messages of a type are left out.
fn reason_of(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "RecipientAdd" | "GuildMemberJoin" => "joined",
        "RecipientRemove" => "left",
        "Call" => "call",
        "ChannelNameChange" => "renamed",
        "ChannelIconChange" => "channel changed",
        "ChannelPinnedMessage" => "pinned",
        "ThreadCreated" => "thread created",
        _ => return None,
    })
}

/// A file, and the objects that its messages name.
struct Context<'a> {
    file: &'a ChatFile,
    names: &'a SourceNames,
    /// Titles of threads by ID, which is that of the message in the channel from which the thread was started.
    threads: &'a HashMap<String, String>,
    entries: &'a HashMap<String, usize>,
}

impl Context<'_> {
    fn placed(&self, message: &Value) -> PlacedItem {
        let id = string(message, "id");
        PlacedItem {
            folder: self.file.channel.clone(),
            at_us: time_of(message).unwrap_or(0),
            place: format!("{} {id}", self.file.name),
            item: self.item(message),
        }
    }

    fn item(&self, value: &Value) -> SourceItem {
        if let Some(reason) = reason_of(string(value, "type")) {
            return SourceItem::LeftOut(reason);
        }
        let key = string(value, "id");
        let Some(at_us) = time_of(value).filter(|_| !key.is_empty()) else {
            return SourceItem::LeftOut("no time");
        };
        let attachments = array(value, "attachments").iter();
        let files = distinct_files(attachments.filter_map(|file| self.attachment(file)));
        let text = self.text(value);
        if text.trim().is_empty() && files.is_empty() {
            return SourceItem::LeftOut("empty");
        }
        let edited = string(value, "timestampEdited");
        let edited = chrono::DateTime::parse_from_rfc3339(edited).ok();
        let author = value.get("author").unwrap_or(&Value::Null);
        SourceItem::Message(Box::new(SourceMessage {
            key: key.to_owned(),
            at_us,
            edited_us: edited.map(|at| at.timestamp_micros()),
            thread: self.thread(key),
            author: person(author).map(|person| SourceAuthor {
                key: person.key,
                name: Some(person.name),
                is_bot: person.is_bot,
                shown_as: None,
            }),
            text,
            reactions: reactions(value),
            files,
            is_pinned: flag(value, "isPinned"),
            fork: None,
            is_cited: false,
        }))
    }

    fn thread(&self, key: &str) -> Option<SourceThread> {
        let thread = match &self.file.thread {
            Some(thread) => thread,
            // The thread of this message is another file.
            None => self.threads.get_key_value(key)?.0,
        };
        Some(SourceThread {
            key: thread.clone(),
            id: None,
            variant_of: None,
            at_us: microseconds(thread)?,
            title: self.threads.get(thread).cloned(),
        })
    }

    /// A file: in the archive, where the address is a path relative to the file of the channel, or only a link.
    fn attachment(&self, value: &Value) -> Option<SourceFile> {
        let url = first([string(value, "url")])?;
        let name = first([string(value, "fileName"), string(value, "id")])?;
        let is_web = url.starts_with("https://") || url.starts_with("http://");
        let path = url.replace('\\', "/");
        let path = path.trim_start_matches("./").to_owned();
        let folder = self
            .file
            .name
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        let beside = format!("{folder}/{path}");
        let key = match (is_web, self.entries.contains_key(&path)) {
            (true, _) => format!("web:{}", first([string(value, "id"), url])?),
            (false, false) if !folder.is_empty() => beside,
            (false, _) => path,
        };
        let shown = url.split(['?', '#']).next().unwrap_or(url);
        Some(SourceFile {
            key,
            name: name.to_owned(),
            url: is_web.then(|| shown.to_owned()),
            fetch_url: None,
            left_out: None,
        })
    }

    /// The text, and that of embeds and stickers.
    fn text(&self, value: &Value) -> String {
        let content = string(value, "content");
        let content = if content.len() <= NAMED_BYTES_MAX {
            self.mentioned(&self.named(content), value)
        } else {
            content.to_owned()
        };
        let mut parts = vec![content];
        for embed in array(value, "embeds") {
            let (title, url) = (string(embed, "title"), string(embed, "url"));
            if is_linkable(url) && !title.is_empty() && !title.contains(['[', ']']) {
                parts.push(format!("[{title}](<{url}>)"));
            } else {
                parts.push(title.to_owned());
            }
            parts.push(string(embed, "description").to_owned());
            for field in array(embed, "fields") {
                parts.push(format!(
                    "**{}** {}",
                    string(field, "name"),
                    string(field, "value")
                ));
            }
        }
        for sticker in array(value, "stickers") {
            parts.push(format!("(sticker {})", string(sticker, "name")));
        }
        parts.retain(|part| !part.trim().is_empty());
        parts.join("\n\n")
    }

    /// Replaces names of mentioned people by their handles here. The longest come first, because a name can begin with another one.
    fn mentioned(&self, text: &str, value: &Value) -> String {
        let mut known: Vec<(&str, &str)> = Vec::new();
        for mention in array(value, "mentions").iter().take(MENTIONS_MAX) {
            let Some(handle) = self.names.0.get(string(mention, "id")) else {
                continue;
            };
            let handle = handle.as_str();
            for name in [string(mention, "nickname"), string(mention, "name"), handle] {
                if !name.trim().is_empty() {
                    known.push((name, handle));
                }
            }
        }
        known.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('@') {
            let (before, found) = rest.split_at(at + 1);
            out.push_str(before);
            rest = found;
            if let Some((name, handle)) = known.iter().find(|(name, _)| found.starts_with(*name)) {
                out.push_str(handle);
                rest = &found[name.len()..];
            }
        }
        out.push_str(rest);
        out
    }

    /// Replaces references: `<@1>`, `<#1>`, `<:name:1>`, and `<t:1>`.
    fn named(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('<') {
            let (before, found) = rest.split_at(at);
            out.push_str(before);
            let end = found.find('>').filter(|end| *end < 100);
            let replaced = end.and_then(|end| Some((self.reference(&found[1..end])?, end)));
            if let Some((text, end)) = replaced {
                out.push_str(&text);
                rest = &found[end + 1..];
            } else {
                out.push('<');
                rest = &found[1..];
            }
        }
        out.push_str(rest);
        out
    }

    fn reference(&self, inner: &str) -> Option<String> {
        let is_id = |id: &str| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit());
        if let Some(role) = inner.strip_prefix("@&") {
            return is_id(role).then(|| "@role".to_owned());
        }
        let person = inner.strip_prefix("@!").or_else(|| inner.strip_prefix('@'));
        for (id, sign) in [(person, '@'), (inner.strip_prefix('#'), '#')] {
            if let Some(id) = id.filter(|id| is_id(id)) {
                let name = self.names.0.get(id).map_or(id, String::as_str);
                return Some(format!("{sign}{name}"));
            }
        }
        let mut parts = inner.split(':');
        match (parts.next()?, parts.next()?, parts.next()) {
            ("" | "a", name, Some(id)) if is_id(id) => Some(format!(":{name}:")),
            ("t", seconds, _) => {
                let at = chrono::DateTime::from_timestamp(seconds.parse().ok()?, 0)?;
                Some(at.format("%Y-%m-%d %H:%M UTC").to_string())
            }
            _ => None,
        }
    }
}

fn reactions(value: &Value) -> Vec<SourceReaction> {
    let all = array(value, "reactions").iter();
    all.filter_map(|reaction| {
        let emoji = reaction.get("emoji")?;
        let is_custom = !string(emoji, "id").is_empty();
        let name = if is_custom {
            string(emoji, "name")
        } else {
            first([string(emoji, "code"), string(emoji, "name")])?
        };
        let people = array(reaction, "users").iter();
        Some(SourceReaction {
            name: name.to_owned(),
            people: people.map(|user| string(user, "id").to_owned()).collect(),
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn in_context<T>(act: impl FnOnce(&Context<'_>) -> T) -> T {
        let file = ChatFile {
            thread: None,
            name: "export/general.json".to_owned(),
            index: 0,
            channel: "1".to_owned(),
            title: "general".to_owned(),
        };
        let names = [("7", "ada"), ("9", "plans")];
        let names = names.map(|(key, name)| (key.to_owned(), name.to_owned()));
        let names = SourceNames(names.into());
        let entries = HashMap::from([("export/general_Files/a b.png".to_owned(), 3)]);
        let threads = HashMap::from([("846417138278400000".to_owned(), "Fair".to_owned())]);
        act(&Context {
            file: &file,
            names: &names,
            threads: &threads,
            entries: &entries,
        })
    }

    #[test]
    fn an_id_has_its_time() {
        assert_eq!(
            microseconds("175928847299117063"),
            Some(1_462_015_105_796_000)
        );
        assert_eq!(microseconds("x"), None);
    }

    #[test]
    fn references_in_texts_become_names() {
        for (text, expected) in [
            ("<@7> <@!7> in <#9>", "@ada @ada in #plans"),
            (
                "<@5> <@&8> <:party:12> <a:wave:13>",
                "@5 @role :party: :wave:",
            ),
            (
                "a < b <3 <https://x.example>",
                "a < b <3 <https://x.example>",
            ),
            ("at <t:1620000000:F>", "at 2021-05-03 00:00 UTC"),
        ] {
            assert_eq!(in_context(|context| context.named(text)), expected);
        }
        let message = json!({"content": "@Ada L. look", "mentions": [{"id": "7", "name": "ada", "nickname": "Ada L."}]});
        assert_eq!(in_context(|context| context.text(&message)), "@ada look");
        let message = json!({"content": "@ad, @ada", "mentions": [{"id": "7", "name": "ad", "nickname": "ad"}]});
        assert_eq!(in_context(|context| context.text(&message)), "@ada, @ada");
    }

    #[test]
    fn media_are_found_beside_the_file_and_others_are_links() {
        let key = |url: &str| {
            let file = json!({"id": "5", "url": url, "fileName": "a b.png"});
            in_context(|context| context.attachment(&file)).unwrap()
        };
        assert_eq!(
            key("general_Files\\a b.png").key,
            "export/general_Files/a b.png"
        );
        let linked = key("https://cdn.discordapp.com/5/a.png?ex=1&hm=2");
        assert_eq!(
            linked.url.as_deref(),
            Some("https://cdn.discordapp.com/5/a.png")
        );
        assert_eq!(linked.key, "web:5");
    }

    #[test]
    fn a_private_thread_is_a_channel_of_its_own() {
        let mut lists = Lists::default();
        for (id, kind) in [("2", "GuildPublicThread"), ("3", "GuildPrivateThread")] {
            let channel = json!({"id": id, "type": kind, "categoryId": "1", "category": "plans", "name": "fair"});
            let head = Map::from_iter([("channel".to_owned(), channel)]);
            lists.add_file("fair.json", 0, &head, BTreeSet::new());
        }
        let channels: Vec<&str> = lists
            .files
            .iter()
            .map(|file| file.channel.as_str())
            .collect();
        assert_eq!(channels, ["1", "3"]);
    }

    #[test]
    fn a_message_with_a_thread_is_its_first_message() {
        let thread = in_context(|context| context.thread("846417138278400000"));
        assert_eq!(thread.unwrap().title.as_deref(), Some("Fair"));
        assert_eq!(
            in_context(|context| context.thread("846417138278400001")),
            None
        );
    }
}
