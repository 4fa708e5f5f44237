//! Reads a bulk export of Mattermost, or the output of `mmetl`: one file of lines, each an object with its type, and files in `data/`.
//!
//! Posts have no IDs. A post is identified by its channel, time, and author, and by a number if these are the same.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    io::{Read, Seek},
    ops::ControlFlow,
    path::Path,
};

use memchr::memmem;
use serde_json::Value;

use super::{
    archive::{Archive, ArchiveFault, parse_line, unknown},
    emoji_source::{EmojiList, PICTURE_READ_MAX, SourceEmoji},
    json::{array, first, flag, number, string, strings},
    lines::{Line, each_line},
    record::{
        EachUnit, Listed, PlacedItem, SourceAuthor, SourceChannel, SourceChannelKind, SourceFile,
        SourceFiles, SourceIndex, SourceItem, SourceMessage, SourceNames, SourcePerson,
        SourceReaction, SourceThread, SourceUnit, distinct_files, is_linkable,
    },
};

const PROBLEMS_MAX: usize = 100;
const LINES: &str = "import.jsonl";
const DATA: &str = "data/";

/// A bulk export of Mattermost.
pub(super) struct MattermostArchive<R> {
    lines: Archive<R>,
    files: Archive<R>,
    /// Index of the entry with the lines.
    index: usize,
    /// Entries by name.
    entries: HashMap<String, usize>,
    /// Folder of the lines; empty, or ends with `/`.
    root: String,
}

/// Index of the entry with the lines: `import.jsonl`, or the only file with this ending.
fn lines_of<R>(archive: &Archive<R>) -> Option<usize> {
    let names = archive.names.iter().enumerate();
    let lists: Vec<(usize, &String)> = names
        .filter(|(_, name)| {
            let is_list = Path::new(name.as_str())
                .extension()
                .is_some_and(|e| e == "jsonl");
            is_list && name.matches('/').count() <= 1
        })
        .collect();
    let named = lists.iter().find(|(_, name)| {
        name.strip_suffix(LINES)
            .is_some_and(|root| root.is_empty() || root.ends_with('/'))
    });
    match lists.as_slice() {
        [(index, _)] => Some(*index),
        _ => named.map(|(index, _)| *index),
    }
}

fn person(value: &Value, is_bot: bool) -> Option<SourcePerson> {
    let key = first([string(value, "username")])?;
    let whole = format!(
        "{} {}",
        string(value, "first_name"),
        string(value, "last_name")
    );
    let name = first([
        whole.as_str(),
        string(value, "display_name"),
        string(value, "nickname"),
        key,
    ]);
    Some(SourcePerson {
        key: key.to_owned(),
        name: name.unwrap_or(key).to_owned(),
        email: first([string(value, "email")]).map(str::to_lowercase),
        is_bot,
    })
}

/// Key of a channel of a team.
fn channel_key(team: &str, name: &str) -> String {
    format!("{team}/{name}")
}

/// Key of a direct channel, made from its sorted members.
fn direct_key(members: &[String]) -> String {
    let mut members = members.to_vec();
    members.sort_unstable();
    members.dedup();
    format!("direct:{}", members.join(","))
}

fn direct_members(value: &Value) -> Vec<String> {
    let members = strings(value, "members");
    if !members.is_empty() {
        return members;
    }
    let of_post = strings(value, "channel_members");
    if !of_post.is_empty() {
        return of_post;
    }
    let participants = array(value, "participants").iter();
    participants
        .filter_map(|one| first([string(one, "username")]))
        .map(str::to_owned)
        .collect()
}

fn direct_channel(value: &Value) -> Option<SourceChannel> {
    let members = direct_members(value);
    let key = direct_key(&members);
    (!members.is_empty()).then(|| SourceChannel::direct(key, members))
}

fn channel(value: &Value) -> Option<SourceChannel> {
    let name = first([string(value, "name")])?;
    let key = channel_key(string(value, "team"), name);
    Some(SourceChannel {
        kind: match string(value, "type") {
            "O" => SourceChannelKind::Public,
            _ => SourceChannelKind::Private,
        },
        name: name.to_owned(),
        topic: first([string(value, "header"), string(value, "purpose")]).map(str::to_owned),
        is_archived: number(value, "deleted_at").max(number(value, "delete_at")) > 0,
        created_ms: number(value, "create_at").max(0),
        creator: None,
        members: Vec::new(),
        folder: key.clone(),
        key,
    })
}

/// Reason why posts of a type are left out. Posts of programs have types of their own, which start with `custom_`.
fn reason_of(kind: &str) -> Option<&'static str> {
    let event = kind.strip_prefix("system_")?;
    Some(match event {
        "join_channel" | "join_team" | "add_to_channel" | "add_to_team" | "guest_join_channel"
        | "add_guest_to_chan" => "joined",
        "leave_channel" | "leave_team" | "remove_from_channel" | "remove_from_team" => "left",
        "displayname_change" => "renamed",
        "header_change" | "purpose_change" => "topic changed",
        // `/me`, and posts of webhooks.
        "me" | "generic" => return None,
        _ => "channel changed",
    })
}

/// Lists that are read before the posts.
#[derive(Default)]
struct Lists {
    teams: Vec<String>,
    people: Listed<String, SourcePerson>,
    channels: Listed<String, SourceChannel>,
    members: HashMap<String, Vec<String>>,
}

impl Lists {
    fn read(&mut self, value: &Value) {
        let kind = string(value, "type");
        let Some(object) = value.get(kind) else {
            return;
        };
        match kind {
            "team" => self
                .teams
                .extend(first([string(object, "name")]).map(str::to_owned)),
            "user" | "bot" => self.person(object, kind == "bot"),
            "channel" => self.channel(channel(object)),
            "direct_channel" | "direct_post" => self.channel(direct_channel(object)),
            _ => {}
        }
    }

    fn channel(&mut self, channel: Option<SourceChannel>) {
        if let Some(channel) = channel {
            self.channels.add(channel.key.clone(), channel);
        }
    }

    fn person(&mut self, object: &Value, is_bot: bool) {
        let Some(person) = person(object, is_bot) else {
            return;
        };
        let person_key = person.key.clone();
        if !self.people.add(person_key.clone(), person) {
            return;
        }
        for team in array(object, "teams") {
            for channel in array(team, "channels") {
                let key = channel_key(string(team, "name"), string(channel, "name"));
                self.members
                    .entry(key)
                    .or_default()
                    .push(person_key.clone());
            }
        }
    }

    /// `problems` are those of lines.
    fn finish(self, problems: Vec<String>) -> SourceIndex {
        let of_people = self.people.problem("people").into_iter();
        let of_lists = of_people.chain(self.channels.problem("channels"));
        let problems = of_lists.chain(problems).collect();
        let mut members = self.members;
        let channels = self.channels.into_values().map(|mut channel| {
            channel
                .members
                .extend(members.remove(&channel.key).unwrap_or_default());
            channel
        });
        let team = self.teams.first().map_or("unknown", String::as_str);
        SourceIndex {
            source: format!("mattermost:{team}"),
            channels: channels.collect(),
            people: self.people.into_values().collect(),
            problems,
        }
    }
}

fn is_post(line: &[u8]) -> bool {
    line.starts_with(br#"{"type":"post""#) || line.starts_with(br#"{"type": "post""#)
}

/// Checks whether a line can be an emoji, before it is parsed.
fn may_be_emoji(line: &[u8]) -> bool {
    !is_post(line) && memmem::find(line, br#""emoji""#).is_some()
}

impl<R: Read + Seek> MattermostArchive<R> {
    /// Checks whether this is a bulk export.
    pub(super) fn is_in(archive: &Archive<R>) -> bool {
        lines_of(archive).is_some()
    }

    /// `lines` and `files` are the same archive, opened twice.
    ///
    /// # Errors
    /// `Unknown` if this is not a bulk export.
    pub(super) fn open(lines: Archive<R>, files: Archive<R>) -> Result<Self, ArchiveFault> {
        let Some(index) = lines_of(&lines) else {
            return Err(unknown(&lines));
        };
        let name = &lines.names[index];
        let root = name.rsplit_once('/').map_or("", |(root, _)| root);
        let root = if root.is_empty() {
            String::new()
        } else {
            format!("{root}/")
        };
        let entries = files.names.iter().cloned().zip(0..).collect();
        Ok(Self {
            lines,
            files,
            index,
            entries,
            root,
        })
    }

    pub(super) fn index(&mut self) -> SourceIndex {
        let (mut lists, mut problems) = (Lists::default(), Vec::new());
        let read = self.lines.with_entry(self.index, u64::MAX, |reader| {
            each_line(reader, &mut |n, line| {
                // Faults of posts are problems of their units.
                if let Ok(line) = line
                    && !is_post(line)
                {
                    match parse_line(line) {
                        Ok(value) => lists.read(&value),
                        Err(e) if problems.len() < PROBLEMS_MAX => {
                            problems.push(format!("line {n}: {e}"));
                        }
                        Err(_) => {}
                    }
                }
                ControlFlow::Continue(())
            })
        });
        problems.extend(read.err().map(|fault| fault.to_string()));
        lists.finish(problems)
    }

    /// The custom emoji. Lines that cannot be read are problems of the index.
    pub(super) fn emoji(&mut self) -> (Vec<SourceEmoji>, Vec<String>) {
        let mut emoji = EmojiList::default();
        let read = self.lines.with_entry(self.index, u64::MAX, |reader| {
            each_line(reader, &mut |_, line| {
                if let Ok(line) = line
                    && may_be_emoji(line)
                    && let Ok(value) = parse_line(line)
                    && string(&value, "type") == "emoji"
                    && let Some(object) = value.get("emoji")
                {
                    let (name, image) = (string(object, "name"), string(object, "image"));
                    emoji.add(name, image, None);
                }
                ControlFlow::Continue(())
            })
        });
        let problem = read.err().map(|fault| fault.to_string());
        emoji.finish(problem.into_iter().collect())
    }

    /// The bytes of the picture of an emoji.
    pub(super) fn picture(&mut self, key: &str) -> Option<Result<Vec<u8>, ArchiveFault>> {
        let mut files = DataFiles {
            archive: &mut self.files,
            entries: &self.entries,
            root: &self.root,
        };
        files.file(key, PICTURE_READ_MAX)
    }

    /// Calls `each` with the posts from line `from` on, each with its replies.
    pub(super) fn units(&mut self, names: &SourceNames, from: i64, each: EachUnit<'_>) {
        let mut keys = PostKeys::default();
        let mut files = DataFiles {
            archive: &mut self.files,
            entries: &self.entries,
            root: &self.root,
        };
        let mut last = 0;
        let read = self.lines.with_entry(self.index, u64::MAX, |reader| {
            each_line(reader, &mut |n, line| {
                last = n;
                let unit = unit(n, line, names, &mut keys);
                match unit.filter(|_| n >= from) {
                    Some(unit) => each(unit, &mut files),
                    None => ControlFlow::Continue(()),
                }
            })
        });
        if let Err(fault) = read {
            let unit = SourceUnit {
                number: last + 1,
                items: Vec::new(),
                problems: vec![fault.to_string()],
            };
            // It is the last unit.
            let _ended = each(unit, &mut files);
        }
    }
}

/// The entries of a line; `None` if it is not about posts.
fn unit(n: i64, line: Line<'_>, names: &SourceNames, keys: &mut PostKeys) -> Option<SourceUnit> {
    let mut unit = SourceUnit {
        number: n,
        ..SourceUnit::default()
    };
    let read = line.and_then(|line| parse_line(line).map_err(|e| format!("line {n}: {e}")));
    let value = match read {
        Ok(value) => value,
        Err(problem) => {
            unit.problems.push(problem);
            return Some(unit);
        }
    };
    let kind = string(&value, "type");
    let object = value.get(kind)?;
    let folder = match kind {
        "post" => channel_key(string(object, "team"), string(object, "channel")),
        "direct_post" => direct_key(&direct_members(object)),
        _ => return None,
    };
    let context = PostContext {
        team: string(object, "team"),
        names,
    };
    let replies = array(object, "replies");
    let (key, at_us) = (
        keys.key(&folder, object),
        number(object, "create_at").saturating_mul(1000),
    );
    let thread = (!replies.is_empty()).then_some(SourceThread {
        key: key.clone(),
        id: None,
        variant_of: None,
        at_us,
        title: None,
    });
    let place = |at: i64| format!("line {n} {at}");
    let mut push = |value: &Value, key: String| {
        let at_ms = number(value, "create_at");
        unit.items.push(PlacedItem {
            folder: folder.clone(),
            at_us: at_ms.saturating_mul(1000),
            place: place(at_ms),
            item: item(value, key, thread.clone(), &context),
        });
    };
    push(object, key);
    for reply in replies {
        push(reply, keys.key(&folder, reply));
    }
    Some(unit)
}

/// Files in `data/`.
struct DataFiles<'a, R> {
    archive: &'a mut Archive<R>,
    entries: &'a HashMap<String, usize>,
    root: &'a str,
}

impl<R> DataFiles<'_, R> {
    fn find(&self, path: &str) -> Option<usize> {
        let path = path.trim_start_matches('/');
        let names = [
            format!("{}{path}", self.root),
            format!("{}{DATA}{path}", self.root),
            path.to_owned(),
        ];
        names
            .iter()
            .find_map(|name| self.entries.get(name))
            .copied()
    }
}

impl<R: Read + Seek> SourceFiles for DataFiles<'_, R> {
    fn file_bytes(&self, key: &str) -> Option<u64> {
        Some(self.archive.size_of(self.find(key)?))
    }

    fn file(&mut self, key: &str, bytes_max: u64) -> Option<Result<Vec<u8>, ArchiveFault>> {
        let index = self.find(key)?;
        Some(self.archive.bytes(index, bytes_max))
    }
}

/// Makes keys of posts. Posts with the same channel, time, and author are numbered.
#[derive(Default)]
struct PostKeys {
    /// Hashes of what was seen.
    seen: HashSet<u64>,
    repeated: HashMap<u64, u32>,
}

impl PostKeys {
    fn key(&mut self, folder: &str, post: &Value) -> String {
        let key = format!("{}:{}", number(post, "create_at"), string(post, "user"));
        let mut hasher = DefaultHasher::new();
        (folder, &key).hash(&mut hasher);
        let hash = hasher.finish();
        if self.seen.insert(hash) {
            return key;
        }
        let n = self.repeated.entry(hash).or_default();
        *n += 1;
        format!("{key}:{n}")
    }
}

/// Team of a post, and the names that texts can mention.
struct PostContext<'a> {
    team: &'a str,
    names: &'a SourceNames,
}

fn item(
    value: &Value,
    key: String,
    thread: Option<SourceThread>,
    context: &PostContext<'_>,
) -> SourceItem {
    if let Some(reason) = reason_of(string(value, "type")) {
        return SourceItem::LeftOut(reason);
    }
    if number(value, "delete_at") > 0 {
        return SourceItem::LeftOut("deleted");
    }
    let at_ms = number(value, "create_at");
    if !(1..1 << 44).contains(&at_ms) {
        return SourceItem::LeftOut("no time");
    }
    let files = distinct_files(array(value, "attachments").iter().filter_map(file));
    let text = text(value, context);
    if text.trim().is_empty() && files.is_empty() {
        return SourceItem::LeftOut("empty");
    }
    let edited_ms = Some(number(value, "edit_at")).filter(|at| *at > at_ms);
    SourceItem::Message(Box::new(SourceMessage {
        key,
        at_us: at_ms * 1000,
        edited_us: edited_ms.map(|at| at.saturating_mul(1000)),
        thread,
        author: author(value, context),
        text,
        reactions: reactions(value),
        files,
        is_pinned: flag(value, "is_pinned"),
        fork: None,
        is_cited: false,
    }))
}

fn file(value: &Value) -> Option<SourceFile> {
    let path = first([string(value, "path")])?;
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    Some(SourceFile {
        key: path.to_owned(),
        name: name.to_owned(),
        url: None,
        fetch_url: None,
        left_out: None,
    })
}

fn author(value: &Value, context: &PostContext<'_>) -> Option<SourceAuthor> {
    let props = value.get("props").unwrap_or(&Value::Null);
    let is_from_webhook = string(props, "from_webhook") == "true";
    let shown = first([string(props, "override_username")]).filter(|_| is_from_webhook);
    if let Some(shown) = shown {
        return Some(SourceAuthor {
            key: format!("webhook:{}:{shown}", context.team),
            name: Some(shown.to_owned()),
            is_bot: true,
            shown_as: None,
        });
    }
    let user = first([string(value, "user")])?;
    Some(SourceAuthor {
        key: user.to_owned(),
        name: None,
        is_bot: false,
        shown_as: None,
    })
}

fn reactions(value: &Value) -> Vec<SourceReaction> {
    let mut by_name: Vec<SourceReaction> = Vec::new();
    for one in array(value, "reactions") {
        let (name, user) = (string(one, "emoji_name"), string(one, "user").to_owned());
        match by_name.iter_mut().find(|known| known.name == name) {
            Some(known) => known.people.push(user),
            None => by_name.push(SourceReaction {
                name: name.to_owned(),
                people: vec![user],
            }),
        }
    }
    by_name
}

/// The text, and that of attachments of programs.
fn text(value: &Value, context: &PostContext<'_>) -> String {
    let props = value.get("props").unwrap_or(&Value::Null);
    let mut parts = vec![named(string(value, "message"), context)];
    for attachment in array(props, "attachments") {
        let title = string(attachment, "title");
        let link = string(attachment, "title_link");
        let texts = [
            string(attachment, "pretext").to_owned(),
            if is_linkable(link) && !title.contains(['[', ']']) {
                format!("[{title}](<{link}>)")
            } else {
                title.to_owned()
            },
            string(attachment, "text").to_owned(),
        ];
        let fields = array(attachment, "fields").iter().map(|field| {
            let value = field.get("value").unwrap_or(&Value::Null);
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            format!("**{}**: {value}", string(field, "title"))
        });
        let mut shown: Vec<String> = texts.into_iter().chain(fields).collect();
        shown.retain(|text| !text.trim().is_empty());
        if shown.is_empty() {
            shown.push(string(attachment, "fallback").to_owned());
        }
        parts.extend(shown);
    }
    parts.retain(|part| !part.trim().is_empty());
    parts.join("\n\n")
}

/// Replaces user names by handles (`@ada`), and names of channels (`~town-square`).
fn named(text: &str, context: &PostContext<'_>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['@', '~']) {
        let (before, found) = rest.split_at(at);
        out.push_str(before);
        let (sign, after) = found.split_at(1);
        let is_start = !before.ends_with(|c: char| c.is_alphanumeric() || sign.starts_with(c));
        let end = after
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')))
            .unwrap_or(after.len());
        let word = after[..end].trim_end_matches(['.', '-', '_']);
        let lower = word.to_lowercase();
        let names = &context.names.0;
        let (sign_here, name) = if sign == "@" {
            ("@", names.get(&lower))
        } else {
            ("#", names.get(&channel_key(context.team, &lower)))
        };
        if let Some(name) = name.filter(|_| is_start && !word.is_empty()) {
            out.push_str(sign_here);
            out.push_str(name);
            rest = &after[word.len()..];
        } else {
            out.push_str(sign);
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::imports::record::LISTED_MAX;

    fn names() -> SourceNames {
        let names = [("ada.l", "ada"), ("acme/dev", "development")];
        SourceNames(
            names
                .map(|(key, name)| (key.to_owned(), name.to_owned()))
                .into(),
        )
    }

    #[test]
    fn names_in_texts_become_those_here() {
        let names = names();
        let context = PostContext {
            team: "acme",
            names: &names,
        };
        for (text, expected) in [
            ("hi @ada.l, see ~dev.", "hi @ada, see #development."),
            ("@Ada.L.", "@ada."),
            ("a@ada.l @bo ~~gone~~ ~none", "a@ada.l @bo ~~gone~~ ~none"),
        ] {
            assert_eq!(named(text, &context), expected);
        }
    }

    #[test]
    fn people_and_channels_beyond_the_limit_are_problems() {
        let mut lists = Lists::default();
        for n in 0..=LISTED_MAX {
            lists.read(&json!({"type": "user", "user": {"username": format!("u{n}")}}));
            let channel = json!({"team": "acme", "name": format!("c{n}"), "type": "O"});
            lists.read(&json!({"type": "channel", "channel": channel}));
        }
        let index = lists.finish(vec!["line 1: no JSON".to_owned()]);
        assert_eq!(
            index.problems,
            [
                "the archive has more than 100000 people",
                "the archive has more than 100000 channels",
                "line 1: no JSON"
            ]
        );
        assert_eq!(
            (index.people.len(), index.channels.len()),
            (LISTED_MAX, LISTED_MAX)
        );
    }

    #[test]
    fn posts_of_the_same_moment_have_different_keys() {
        let mut keys = PostKeys::default();
        let post = json!({"create_at": 5, "user": "ada"});
        let all: Vec<String> = (0..3).map(|_| keys.key("acme/dev", &post)).collect();
        assert_eq!(all, ["5:ada", "5:ada:1", "5:ada:2"]);
        assert_eq!(keys.key("acme/qa", &post), "5:ada");
    }

    #[test]
    fn what_is_no_message_is_left_out_with_a_reason() {
        let names = names();
        let context = PostContext {
            team: "acme",
            names: &names,
        };
        for (value, reason) in [
            (
                json!({"type": "system_join_channel", "create_at": 1, "message": "x"}),
                "joined",
            ),
            (
                json!({"type": "system_header_change", "create_at": 1, "message": "x"}),
                "topic changed",
            ),
            (
                json!({"create_at": 1, "delete_at": 2, "message": "x"}),
                "deleted",
            ),
            (json!({"create_at": 1, "message": " "}), "empty"),
            (json!({"message": "x"}), "no time"),
        ] {
            let left_out = SourceItem::LeftOut(reason);
            assert_eq!(
                item(&value, String::new(), None, &context),
                left_out,
                "{value}"
            );
        }
    }
}
