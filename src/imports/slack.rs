//! Reads an export of Slack: lists of people and channels, and a folder per channel with a file per day.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io::{Read, Seek},
};

use serde_json::Value;

use super::{
    archive::{Archive, ArchiveFault, unknown},
    json::{array, first, flag, string, strings},
    record::{
        EachUnit, LISTED_MAX, PlacedItem, SourceAuthor, SourceChannel, SourceChannelKind,
        SourceFile, SourceFiles, SourceIndex, SourceItem, SourceMessage, SourceNames, SourcePerson,
        SourceReaction, SourceThread, SourceUnit, distinct_files,
    },
};
use crate::hooks;

const LISTS: [(&str, SourceChannelKind); 4] = [
    ("channels.json", SourceChannelKind::Public),
    ("groups.json", SourceChannelKind::Private),
    ("mpims.json", SourceChannelKind::Direct),
    ("dms.json", SourceChannelKind::Direct),
];
const UPLOADS: &str = "__uploads/";
const SLACKBOT: &str = "USLACKBOT";

/// An export of Slack.
pub(super) struct SlackArchive<R> {
    archive: Archive<R>,
    /// Folder in which the export is; empty, or ends with `/`.
    root: String,
    /// Entries of bytes of files, by ID of the file.
    uploads: HashMap<String, usize>,
}

/// A file of a day.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Day {
    /// `YYYY-MM-DD`.
    date: String,
    folder: String,
    index: usize,
}

/// Microseconds of a `ts`, such as `1620000000.000200`.
fn microseconds(ts: &str) -> Option<i64> {
    let (seconds, fraction) = ts.split_once('.').unwrap_or((ts, ""));
    let seconds: i64 = seconds.parse().ok().filter(|s| (0..1 << 34).contains(s))?;
    let digits: String = fraction.chars().take(6).collect();
    let micros: i64 = format!("{digits:0<6}").parse().ok()?;
    Some(seconds * 1_000_000 + micros)
}

fn person(value: &Value) -> SourcePerson {
    let profile = value.get("profile").unwrap_or(&Value::Null);
    let key = string(value, "id");
    let name = first([
        string(profile, "real_name"),
        string(value, "real_name"),
        string(profile, "display_name"),
        string(value, "name"),
        key,
    ]);
    SourcePerson {
        key: key.to_owned(),
        name: name.unwrap_or_default().to_owned(),
        email: first([string(profile, "email")]).map(str::to_lowercase),
        is_bot: flag(value, "is_bot") || key == SLACKBOT,
    }
}

fn channel(value: &Value, kind: SourceChannelKind) -> SourceChannel {
    let key = string(value, "id");
    let name = first([string(value, "name"), key]).unwrap_or_default();
    let of = |name: &str| string(value.get(name).unwrap_or(&Value::Null), "value");
    let created = value.get("created").and_then(Value::as_i64).unwrap_or(0);
    SourceChannel {
        key: key.to_owned(),
        kind,
        name: name.to_owned(),
        topic: first([of("topic"), of("purpose")]).map(str::to_owned),
        is_archived: flag(value, "is_archived"),
        created_ms: created.clamp(0, 1 << 34) * 1000,
        creator: first([string(value, "creator")]).map(str::to_owned),
        members: strings(value, "members"),
        folder: name.to_owned(),
    }
}

/// Reason why messages of a subtype are left out.
fn reason_of(subtype: &str) -> Option<&'static str> {
    let kind = subtype
        .trim_start_matches("channel_")
        .trim_start_matches("group_")
        .trim_start_matches("mpim_");
    match kind {
        "join" => Some("joined"),
        "leave" => Some("left"),
        "name" => Some("renamed"),
        "topic" | "purpose" => Some("topic changed"),
        "archive"
        | "unarchive"
        | "convert_to_private"
        | "posting_permissions"
        | "canvas_updated" => Some("channel changed"),
        "tombstone" | "message_deleted" => Some("deleted"),
        "pinned_item" | "unpinned_item" => Some("pinned"),
        "bot_add" | "bot_remove" | "bot_enable" | "bot_disable" | "app_conversation_join" => {
            Some("program added or removed")
        }
        _ => None,
    }
}

/// Folder with the lists of an export; empty, or ends with `/`.
fn root_of<R: Read + Seek>(archive: &Archive<R>) -> Option<String> {
    let names: HashSet<&str> = archive.names.iter().map(String::as_str).collect();
    archive.names.iter().find_map(|name| {
        let root = name.strip_suffix("users.json")?;
        let root = root.strip_suffix("org_").unwrap_or(root);
        let is_root = LISTS
            .iter()
            .any(|(list, _)| names.contains(format!("{root}{list}").as_str()));
        (is_root && root.matches('/').count() <= 1).then(|| root.to_owned())
    })
}

impl<R: Read + Seek> SlackArchive<R> {
    /// Checks whether this is an export of Slack.
    pub(super) fn is_in(archive: &Archive<R>) -> bool {
        root_of(archive).is_some()
    }

    /// # Errors
    /// `Unknown` if this is not an export of Slack.
    pub(super) fn open(archive: Archive<R>) -> Result<Self, ArchiveFault> {
        let Some(root) = root_of(&archive) else {
            return Err(unknown(&archive));
        };
        let uploads = archive.names.iter().enumerate().filter_map(|(n, name)| {
            let rest = name.strip_prefix(&root)?.strip_prefix(UPLOADS)?;
            let (id, file) = rest.split_once('/')?;
            (!file.is_empty()).then(|| (id.to_owned(), n))
        });
        let uploads = uploads.collect();
        Ok(Self {
            archive,
            root,
            uploads,
        })
    }

    fn list(&mut self, name: &str, problems: &mut Vec<String>, each: &mut dyn FnMut(&Value)) {
        let Some(index) = self.archive.index_of(&format!("{}{name}", self.root)) else {
            return;
        };
        let mut n = 0;
        let mut bounded = |value: Value| {
            n += 1;
            if n <= LISTED_MAX && value.is_object() && !string(&value, "id").is_empty() {
                each(&value);
            }
        };
        if let Err(fault) = self.archive.each(index, &mut bounded) {
            problems.push(fault.to_string());
        }
        if n > LISTED_MAX {
            problems.push(format!("{name} has more than {LISTED_MAX} entries"));
        }
    }

    pub(super) fn index(&mut self) -> SourceIndex {
        let mut problems = Vec::new();
        let (people, team) = self.people(&mut problems);
        let mut channels = self.channels(&mut problems);
        let days = self.days();
        let folders: HashSet<&str> = days.iter().map(|day| day.folder.as_str()).collect();
        for channel in &mut channels {
            // Direct conversations have folders with their IDs, those of several people also with a name.
            if !folders.contains(channel.folder.as_str()) && folders.contains(channel.key.as_str())
            {
                channel.folder.clone_from(&channel.key);
            }
        }
        SourceIndex {
            source: format!("slack:{}", if team.is_empty() { "unknown" } else { &team }),
            people,
            channels,
            problems,
        }
    }

    /// Calls `each` with the files of days from number `from` on, in order over all channels.
    pub(super) fn units(&mut self, names: &SourceNames, from: i64, each: EachUnit<'_>) {
        let first = usize::try_from(from).unwrap_or(usize::MAX);
        for (n, day) in self.days().iter().enumerate().skip(first) {
            let mut problems = Vec::new();
            let items = self.day(day, names, &mut problems);
            let unit = SourceUnit {
                number: i64::try_from(n).unwrap_or(i64::MAX),
                items,
                problems,
            };
            if each(unit, self).is_break() {
                return;
            }
        }
    }

    /// The people, and the key of the team.
    fn people(&mut self, problems: &mut Vec<String>) -> (Vec<SourcePerson>, String) {
        let (mut people, mut team) = (BTreeMap::new(), String::new());
        for name in ["users.json", "org_users.json"] {
            self.list(name, problems, &mut |value| {
                if team.is_empty() {
                    string(value, "team_id").clone_into(&mut team);
                }
                let person = person(value);
                people.entry(person.key.clone()).or_insert(person);
            });
        }
        (people.into_values().collect(), team)
    }

    fn channels(&mut self, problems: &mut Vec<String>) -> Vec<SourceChannel> {
        let (mut channels, mut known) = (Vec::new(), HashSet::new());
        for (name, kind) in LISTS {
            self.list(name, problems, &mut |value| {
                let channel = channel(value, kind);
                if known.insert(channel.key.clone()) {
                    channels.push(channel);
                }
            });
        }
        channels
    }

    /// The files of days, in order over all channels.
    fn days(&self) -> Vec<Day> {
        let days = self.archive.names.iter().enumerate();
        let days = days.filter_map(|(index, name)| {
            let (folder, file) = name.strip_prefix(&self.root)?.rsplit_once('/')?;
            let date = file.strip_suffix(".json")?;
            let is_date = date.len() == 10
                && date.bytes().enumerate().all(|(n, b)| match n {
                    4 | 7 => b == b'-',
                    _ => b.is_ascii_digit(),
                });
            is_date.then(|| Day {
                date: date.to_owned(),
                folder: folder.to_owned(),
                index,
            })
        });
        let mut days: Vec<Day> = days.collect();
        days.sort_unstable();
        days
    }

    /// The entries of a day, by time.
    fn day(
        &mut self,
        day: &Day,
        names: &SourceNames,
        problems: &mut Vec<String>,
    ) -> Vec<PlacedItem> {
        let (mut items, mut known) = (Vec::new(), HashSet::new());
        let place = format!("{}/{}.json", day.folder, day.date);
        let read = self.archive.each(day.index, &mut |value| {
            let ts = string(&value, "ts");
            let item = if !ts.is_empty() && !known.insert(ts.to_owned()) {
                SourceItem::Merged
            } else {
                item(&value, names)
            };
            items.push(PlacedItem {
                folder: day.folder.clone(),
                at_us: microseconds(ts).unwrap_or(0),
                place: format!("{place} {ts}"),
                item,
            });
        });
        if let Err(fault) = read {
            problems.push(fault.to_string());
        }
        items.sort_by_key(|item| item.at_us);
        items
    }
}

impl<R: Read + Seek> SourceFiles for SlackArchive<R> {
    fn file_bytes(&self, key: &str) -> Option<u64> {
        Some(self.archive.size_of(*self.uploads.get(key)?))
    }

    fn file(&mut self, key: &str, bytes_max: u64) -> Option<Result<Vec<u8>, ArchiveFault>> {
        let index = *self.uploads.get(key)?;
        Some(self.archive.bytes(index, bytes_max))
    }
}

fn item(value: &Value, names: &SourceNames) -> SourceItem {
    let subtype = string(value, "subtype");
    if let Some(reason) = reason_of(subtype) {
        return SourceItem::LeftOut(reason);
    }
    if subtype == "reply_broadcast" {
        return SourceItem::Merged;
    }
    if !matches!(string(value, "type"), "" | "message") {
        return SourceItem::LeftOut("no message");
    }
    let key = string(value, "ts");
    let Some(at_us) = microseconds(key) else {
        return SourceItem::LeftOut("no time");
    };
    let files: Vec<SourceFile> = match array(value, "files") {
        [] => value.get("file").map(file).into_iter().collect(),
        files => distinct_files(files.iter().map(file)),
    };
    let text = text(value, names);
    if text.trim().is_empty() && files.is_empty() {
        return SourceItem::LeftOut("empty");
    }
    let edited = value.get("edited").unwrap_or(&Value::Null);
    SourceItem::Message(Box::new(SourceMessage {
        key: key.to_owned(),
        at_us,
        edited_us: microseconds(string(edited, "ts")),
        thread: first([string(value, "thread_ts")]).and_then(|ts| {
            Some(SourceThread {
                key: ts.to_owned(),
                id: None,
                variant_of: None,
                at_us: microseconds(ts)?,
                title: None,
            })
        }),
        author: author(value),
        text,
        reactions: array(value, "reactions").iter().map(reaction).collect(),
        files,
        is_pinned: !array(value, "pinned_to").is_empty(),
        fork: None,
        is_cited: false,
    }))
}

fn author(value: &Value) -> Option<SourceAuthor> {
    let comment = value.get("comment").unwrap_or(&Value::Null);
    let user = first([
        string(value, "user"),
        string(comment, "user"),
        string(value, "user_id"),
    ]);
    let profile = value.get("user_profile").unwrap_or(&Value::Null);
    if let Some(user) = user {
        let name = first([
            string(profile, "real_name"),
            string(profile, "display_name"),
            string(profile, "name"),
        ]);
        return Some(SourceAuthor {
            key: user.to_owned(),
            name: name.map(str::to_owned),
            is_bot: user == SLACKBOT,
            shown_as: None,
        });
    }
    let bot = first([string(value, "bot_id")])?;
    let profile = value.get("bot_profile").unwrap_or(&Value::Null);
    let shown = first([string(value, "username")]);
    let name = first([string(profile, "name")]).or(shown);
    Some(SourceAuthor {
        key: bot.to_owned(),
        name: name.map(str::to_owned),
        is_bot: true,
        shown_as: shown
            .filter(|shown| Some(*shown) != name)
            .map(str::to_owned),
    })
}

fn reaction(value: &Value) -> SourceReaction {
    SourceReaction {
        name: string(value, "name").to_owned(),
        people: strings(value, "users"),
    }
}

fn file(value: &Value) -> SourceFile {
    let left_out = match (string(value, "mode"), string(value, "file_access")) {
        ("tombstone", _) => Some("deleted"),
        ("hidden_by_limit", _) => Some("hidden by the source's plan"),
        (_, "access_denied" | "file_not_found") => Some("no access"),
        _ => None,
    };
    let fetch_url = first([
        string(value, "url_private_download"),
        string(value, "url_private"),
    ]);
    // The query contains a token of the export.
    let url = first([string(value, "url_private"), string(value, "permalink")]);
    let url = url.and_then(|url| url.split(['?', '#']).next());
    let mut name = first([
        string(value, "name"),
        string(value, "title"),
        string(value, "id"),
    ])
    .unwrap_or("file")
    .to_owned();
    // A file without an ID is known by its address.
    let address = fetch_url.and_then(|url| url.split(['?', '#']).next());
    let key = first([
        string(value, "id"),
        url.unwrap_or_default(),
        address.unwrap_or_default(),
    ]);
    let key = key.unwrap_or(name.as_str()).to_owned();
    if string(value, "mode") == "quip" && !name.to_lowercase().ends_with(".html") {
        name.push_str(".html");
    }
    SourceFile {
        key,
        name,
        url: url.map(str::to_owned),
        fetch_url: fetch_url.map(str::to_owned),
        left_out,
    }
}

/// The text as Markdown. A rich text repeats `text`, so it counts only without one.
fn text(value: &Value, names: &SourceNames) -> String {
    let comment = value.get("comment").unwrap_or(&Value::Null);
    let text = first([string(value, "text"), string(comment, "comment")]).unwrap_or_default();
    let mut message = serde_json::Map::new();
    message.insert("text".to_owned(), named(text, names).into());
    let blocks = array(value, "blocks").iter().filter(|block| {
        let kind = string(block, "type");
        kind != "actions" && (kind != "rich_text" || text.is_empty())
    });
    let mut blocks: Vec<Value> = blocks.cloned().collect();
    name_elements(&mut blocks, names);
    let attachments = array(value, "attachments").iter().filter(|attachment| {
        let is_preview = !string(attachment, "from_url").is_empty();
        !is_preview || flag(attachment, "is_share") || flag(attachment, "is_msg_unfurl")
    });
    let attachments = attachments.cloned().map(|mut attachment| {
        if let Some(members) = attachment.as_object_mut() {
            members.remove("actions");
            if let Some(Value::String(text)) = members.get_mut("text") {
                *text = named(text, names);
            }
        }
        attachment
    });
    message.insert("attachments".to_owned(), attachments.collect());
    message.insert("blocks".to_owned(), blocks.into());
    hooks::archived_text(&Value::Object(message))
}

/// Adds names to mentions that have only keys: `<@U1>` becomes `<@U1|ada>`.
fn named(text: &str, names: &SourceNames) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find("<@").into_iter().chain(rest.find("<#")).min() {
        let (before, inside) = rest.split_at(open + 2);
        out.push_str(before);
        let end = inside.find(['>', '<']).unwrap_or(inside.len());
        let key = inside[..end].split('|').next().unwrap_or_default();
        match names.0.get(key) {
            Some(name) if inside[end..].starts_with('>') => {
                out.push_str(key);
                out.push('|');
                out.push_str(name);
            }
            _ => out.push_str(&inside[..end]),
        }
        rest = &inside[end..];
    }
    out.push_str(rest);
    out
}

/// Replaces the keys of people and channels in a rich text by their names.
fn name_elements(values: &mut [Value], names: &SourceNames) {
    for value in values {
        let Some(members) = value.as_object_mut() else {
            continue;
        };
        for key in ["user_id", "channel_id"] {
            if let Some(Value::String(id)) = members.get_mut(key)
                && let Some(name) = names.0.get(id.as_str())
            {
                name.clone_into(id);
            }
        }
        if let Some(Value::Array(elements)) = members.get_mut("elements") {
            name_elements(elements, names);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(value: &Value) -> SourceMessage {
        match item(
            value,
            &SourceNames(HashMap::from([("U1".to_owned(), "ada".to_owned())])),
        ) {
            SourceItem::Message(message) => *message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_time_has_microseconds() {
        assert_eq!(
            microseconds("1620000000.000200"),
            Some(1_620_000_000_000_200)
        );
        assert_eq!(microseconds("1620000000"), Some(1_620_000_000_000_000));
        for bad in ["", "x", "-1.5", "1e9", "99999999999999999999"] {
            assert_eq!(microseconds(bad), None, "{bad}");
        }
    }

    #[test]
    fn texts_are_translated_and_named() {
        for (value, text) in [
            (
                json!({"ts": "1.0", "text": "hi <@U1> in <#C9|dev>"}),
                "hi @ada in #dev",
            ),
            (json!({"ts": "1.0", "text": "who is <@U2>"}), "who is @U2"),
            (
                json!({"ts": "1.0", "text": "", "blocks": [{"type": "rich_text", "elements": [
                    {"type": "rich_text_section", "elements": [{"type": "user", "user_id": "U1"}]}]}]}),
                "@ada",
            ),
            (
                json!({"ts": "1.0", "text": "*bold*", "blocks": [{"type": "rich_text", "elements": []}]}),
                "**bold**",
            ),
            (
                json!({"ts": "1.0", "text": "see", "attachments": [{"from_url": "https://x.org", "title": "X"}]}),
                "see",
            ),
        ] {
            assert_eq!(message(&value).text, text, "{value}");
        }
    }

    #[test]
    fn what_is_no_message_is_left_out_with_a_reason() {
        let names = SourceNames::default();
        for (value, reason) in [
            (
                json!({"ts": "1.0", "subtype": "channel_join", "text": "x"}),
                "joined",
            ),
            (
                json!({"ts": "1.0", "subtype": "group_topic", "text": "x"}),
                "topic changed",
            ),
            (
                json!({"ts": "1.0", "subtype": "tombstone", "text": "x"}),
                "deleted",
            ),
            (json!({"ts": "1.0", "text": " "}), "empty"),
            (json!({"ts": "soon", "text": "x"}), "no time"),
            (
                json!({"ts": "1.0", "type": "event", "text": "x"}),
                "no message",
            ),
            (json!(7), "no time"),
        ] {
            assert_eq!(item(&value, &names), SourceItem::LeftOut(reason), "{value}");
        }
        let odd =
            message(&json!({"ts": "1.0", "subtype": "of_next_year", "text": "x", "user": "U1"}));
        assert_eq!(odd.text, "x");
    }

    #[test]
    fn a_token_is_cut_from_the_address_of_a_file() {
        let file = file(
            &json!({"id": "F1", "name": "a.png", "url_private": "https://files.slack.com/a.png?t=xoxe-1"}),
        );
        assert_eq!(file.url.as_deref(), Some("https://files.slack.com/a.png"));
        let canvas = super::file(&json!({"id": "F1", "name": "Plan", "mode": "quip"}));
        assert_eq!(canvas.name, "Plan.html");
    }

    #[test]
    fn a_message_has_each_file_once() {
        let odd = message(&json!({"ts": "1.0", "user": "U1", "text": "x", "files": [
            {"id": "F1", "name": "a"}, {"id": "F1", "name": "a"},
            {"name": "b", "url_private": "https://files.slack.com/1/b?t=xoxe-1"},
            {"name": "b", "url_private": "https://files.slack.com/2/b?t=xoxe-1"}]}));
        let keys: Vec<&str> = odd.files.iter().map(|file| file.key.as_str()).collect();
        assert_eq!(
            keys,
            [
                "F1",
                "https://files.slack.com/1/b",
                "https://files.slack.com/2/b"
            ]
        );
    }
}
