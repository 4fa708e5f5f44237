//! Reads a person's chats with models: exports of `ChatGPT`, `Open WebUI`, and `LibreChat`, as a zip file or as JSON.
//!
//! They become chats with an agent. Where a question or an answer has several versions, the chosen one is the chat, and others are its
//! variants.

use std::{
    cell::Cell,
    collections::{BTreeMap, HashMap, HashSet},
    io::{BufRead, BufReader, Read, Seek},
    ops::ControlFlow,
    rc::Rc,
};

use serde_json::Value;

use super::{
    archive::{
        Archive, ArchiveFault, Bounded, JSON_BYTES_MAX, PART_BYTES_MAX, clean, each_element,
    },
    json::{array, first, flag, string},
    key::bounded,
    record::{
        EachUnit, PlacedItem, SourceAuthor, SourceChannel, SourceFile, SourceFiles, SourceIndex,
        SourceItem, SourceMessage, SourceQuestion, SourceThread, SourceUnit, UNIT_MESSAGES,
        distinct_files, finish,
    },
    utf8::ValidUtf8,
};
use crate::hooks;

/// Bytes at the beginning of a file that are looked at.
const HEAD_BYTES: u64 = 64 * 1024;
const FOLDER: &str = "chats";
/// Maximum number of other versions of a question, and of a chat, as of variants that are made here.
const VERSIONS_MAX: usize = 10;
const VERSIONS_OF_CHAT_MAX: usize = 200;
/// Maximum size of a title; threads have titles of at most 200 characters.
const TITLE_BYTES_MAX: usize = 1024;
const ZIP: &[u8] = b"PK";
/// Larger times are in milliseconds.
const SECONDS_MAX: i64 = 100_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChatProduct {
    ChatGpt,
    OpenWebUi,
    LibreChat,
}

impl ChatProduct {
    /// The product with these first bytes of a file.
    fn of(head: &[u8]) -> Option<Self> {
        let head = String::from_utf8_lossy(head);
        let marks = [
            ("\"mapping\"", Self::ChatGpt),
            ("\"conversationId\"", Self::LibreChat),
            ("\"history\"", Self::OpenWebUi),
        ];
        let found = marks
            .into_iter()
            .filter_map(|(mark, product)| Some((head.find(mark)?, product)));
        Some(found.min_by_key(|(at, _)| *at)?.1)
    }

    /// Product in the name of the source.
    fn source(self) -> &'static str {
        match self {
            Self::ChatGpt => "chatgpt",
            Self::OpenWebUi => "openwebui",
            Self::LibreChat => "librechat",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::ChatGpt => "ChatGPT",
            Self::OpenWebUi => "Open WebUI",
            Self::LibreChat => "LibreChat",
        }
    }
}

/// Files with chats.
enum ChatFiles<R> {
    /// Indexes of entries.
    Zip(Archive<R>, Vec<usize>),
    Json(R),
}

/// An export of chats.
pub(super) struct ChatsArchive<R> {
    product: ChatProduct,
    files: ChatFiles<R>,
    /// The same archive, opened again.
    media: Option<Archive<R>>,
    /// Entries by name without folders.
    entries: BTreeMap<String, usize>,
}

fn base_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Entries with chats: those of `ChatGPT`, or all JSON.
fn candidates<R>(archive: &Archive<R>) -> Vec<usize> {
    let entries = || archive.names.iter().zip(0..);
    let of = |is_wanted: &dyn Fn(&str) -> bool| -> Vec<usize> {
        let wanted = entries().filter(|(name, _)| is_wanted(base_name(name)));
        let mut wanted: Vec<(&String, usize)> = wanted.collect();
        wanted.sort_unstable();
        wanted.into_iter().map(|(_, index)| index).collect()
    };
    let named = of(&|name| {
        let middle = name.strip_prefix("conversations");
        let middle = middle.and_then(|rest| rest.strip_suffix(".json"));
        middle.is_some_and(|middle| middle.bytes().all(|b| b == b'-' || b.is_ascii_digit()))
    });
    if named.is_empty() {
        of(&|name| name.strip_suffix(".json").is_some())
    } else {
        named
    }
}

fn unknown_chats() -> ArchiveFault {
    let text = "This has no chats. In ChatGPT: Settings, Data controls, Export data. In Open WebUI: Settings, Data Controls, Export Chats.";
    ArchiveFault::Unknown(text.to_owned())
}

fn head_of(reader: &mut dyn Read) -> Result<Vec<u8>, String> {
    let mut head = Vec::new();
    let mut part = reader.take(HEAD_BYTES);
    part.read_to_end(&mut head).map_err(|e| e.to_string())?;
    Ok(head)
}

/// Calls `each` with the chats of a file: a list of them, or one.
fn each_chat(reader: &mut dyn Read, each: &mut dyn FnMut(Value)) -> Result<(), String> {
    let mut reader = BufReader::new(ValidUtf8::new(reader));
    let beginning = reader.fill_buf().map_err(|e| e.to_string())?;
    if beginning.trim_ascii_start().starts_with(b"[") {
        return each_element(reader, each);
    }
    let bounded = BufReader::new(Bounded {
        reader,
        left: Rc::new(Cell::new(PART_BYTES_MAX)),
    });
    let value: Value = serde_json::from_reader(bounded).map_err(|e| e.to_string())?;
    each(clean(value));
    Ok(())
}

impl<R: Read + Seek> ChatFiles<R> {
    fn count(&self) -> usize {
        match self {
            Self::Zip(_, entries) => entries.len(),
            Self::Json(_) => 1,
        }
    }

    /// Calls `each` with the chats of a file.
    fn each(&mut self, n: usize, each: &mut dyn FnMut(Value)) -> Result<(), ArchiveFault> {
        match self {
            Self::Zip(archive, entries) => {
                archive.with_entry(entries[n], JSON_BYTES_MAX, |reader| each_chat(reader, each))
            }
            Self::Json(reader) => {
                let fault = |text: String| ArchiveFault::Entry("the file".to_owned(), text);
                reader.rewind().map_err(|e| fault(e.to_string()))?;
                each_chat(&mut reader.take(JSON_BYTES_MAX), each).map_err(fault)
            }
        }
    }
}

impl<R: Read + Seek> ChatsArchive<R> {
    /// `open` returns a new reader of the archive.
    ///
    /// # Errors
    /// `Unknown` if there are no chats, or any error from `Archive::open`.
    pub(super) fn open(open: impl Fn() -> R, archive_bytes_max: u64) -> Result<Self, ArchiveFault> {
        let mut reader = open();
        let head = head_of(&mut reader).map_err(|_| unknown_chats())?;
        if !head.starts_with(ZIP) {
            return Ok(Self {
                product: ChatProduct::of(&head).ok_or_else(unknown_chats)?,
                files: ChatFiles::Json(reader),
                media: None,
                entries: BTreeMap::new(),
            });
        }
        let mut archive = Archive::open(reader, archive_bytes_max)?;
        let chats = candidates(&archive);
        let Some(index) = chats.first().copied() else {
            return Err(unknown_chats());
        };
        let head = archive.with_entry(index, u64::MAX, head_of)?;
        let media = Archive::open(open(), archive_bytes_max)?;
        let entries = media.names.iter().zip(0..);
        let entries = entries.map(|(name, index)| (base_name(name).to_owned(), index));
        Ok(Self {
            product: ChatProduct::of(&head).ok_or_else(unknown_chats)?,
            entries: entries.collect(),
            files: ChatFiles::Zip(archive, chats),
            media: Some(media),
        })
    }

    pub(super) fn index(&mut self) -> SourceIndex {
        SourceIndex {
            source: self.product.source().to_owned(),
            people: Vec::new(),
            channels: vec![SourceChannel {
                name: self.product.name().to_owned(),
                ..SourceChannel::direct(FOLDER.to_owned(), Vec::new())
            }],
            problems: Vec::new(),
        }
    }

    /// Calls `each` with chats from unit `from` on.
    pub(super) fn units(&mut self, from: i64, each: EachUnit<'_>) {
        let product = self.product;
        let mut media = ChatMedia {
            archive: self.media.as_mut(),
            entries: &self.entries,
        };
        let mut unit = SourceUnit::default();
        let mut flow = ControlFlow::Continue(());
        for n in 0..self.files.count() {
            let mut number = 0;
            let read = self.files.each(n, &mut |value| {
                number += 1;
                if flow.is_break() {
                    return;
                }
                match Chat::of(product, &value) {
                    Some(chat) => unit.items.extend(chat.items(product)),
                    None => unit
                        .problems
                        .push(format!("chat {number} of file {} cannot be read", n + 1)),
                }
                // A longer chat makes a larger unit.
                if unit.size() >= UNIT_MESSAGES {
                    flow = finish(&mut unit, from, &mut media, each);
                }
            });
            if let Err(fault) = read {
                unit.problems.push(fault.to_string());
            }
            if flow.is_continue() {
                flow = finish(&mut unit, from, &mut media, each);
            }
            if flow.is_break() {
                return;
            }
        }
    }
}

/// Pictures and documents of chats.
struct ChatMedia<'a, R> {
    archive: Option<&'a mut Archive<R>>,
    entries: &'a BTreeMap<String, usize>,
}

impl<R> ChatMedia<'_, R> {
    /// The entry of a file, whose name begins with its ID.
    fn index_of(&self, key: &str) -> Option<usize> {
        let (name, index) = self.entries.range(key.to_owned()..).next()?;
        name.starts_with(key).then_some(*index)
    }
}

impl<R: Read + Seek> SourceFiles for ChatMedia<'_, R> {
    fn file_bytes(&self, key: &str) -> Option<u64> {
        let archive = self.archive.as_ref()?;
        Some(archive.size_of(self.index_of(key)?))
    }

    fn file(&mut self, key: &str, bytes_max: u64) -> Option<Result<Vec<u8>, ArchiveFault>> {
        let index = self.index_of(key)?;
        let archive = self.archive.as_mut()?;
        Some(archive.bytes(index, bytes_max))
    }
}

/// A time in seconds, also with a fraction, in milliseconds, or as text.
fn microseconds(value: Option<&Value>) -> Option<i64> {
    let text = match value? {
        Value::Number(number) => number.to_string(),
        Value::String(text) => match chrono::DateTime::parse_from_rfc3339(text) {
            Ok(at) => return Some(at.timestamp_micros()),
            Err(_) => text.clone(),
        },
        _ => return None,
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let whole = whole.parse::<i64>().ok().filter(|whole| *whole > 0)?;
    if whole > SECONDS_MAX {
        return whole.checked_mul(1000);
    }
    let digits: String = fraction.chars().chain("000000".chars()).take(6).collect();
    whole
        .checked_mul(1_000_000)?
        .checked_add(digits.parse::<i64>().ok()?)
}

fn text_of(value: &Value, name: &str) -> Option<String> {
    first([string(value, name)]).map(str::to_owned)
}

/// Key of a chat or message. All messages of a chat name it, so it is short.
fn key_of(value: &Value, name: &str) -> Option<String> {
    first([string(value, name)]).map(bounded)
}

/// Title of a chat, which its messages name, too; `None` if it is longer than those of threads.
fn title_of(value: &Value) -> Option<String> {
    text_of(value, "title").filter(|title| title.len() <= TITLE_BYTES_MAX)
}

/// Kind of a node in a chat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum NodeKind {
    /// Only a point from which the chat begins.
    #[default]
    Start,
    Message,
    LeftOut(&'static str),
}

/// A question or an answer, and what it follows.
#[derive(Debug, Default)]
struct Node {
    kind: NodeKind,
    parent: Option<String>,
    is_user: bool,
    at_us: Option<i64>,
    text: String,
    model: Option<String>,
    files: Vec<SourceFile>,
}

/// A chat, whose nodes are a tree.
#[derive(Debug)]
struct Chat {
    key: String,
    title: Option<String>,
    at_us: Option<i64>,
    nodes: Vec<(String, Node)>,
    /// The last node of the chosen version.
    current: Option<String>,
}

/// A version of a chat other than the chosen one.
#[derive(Debug)]
struct Version {
    /// Question of the chosen version that it asks again, or replaces.
    question: usize,
    /// Its own questions and answers.
    nodes: Vec<usize>,
}

fn source_file(key: &str, name: &str, left_out: Option<&'static str>) -> SourceFile {
    SourceFile {
        key: key.to_owned(),
        name: name.to_owned(),
        url: None,
        fetch_url: None,
        left_out,
    }
}

impl Chat {
    fn of(product: ChatProduct, value: &Value) -> Option<Self> {
        match product {
            ChatProduct::ChatGpt => Self::of_chat_gpt(value),
            ChatProduct::OpenWebUi => Self::of_open_web_ui(value),
            ChatProduct::LibreChat => Self::of_libre_chat(value),
        }
    }

    fn of_chat_gpt(value: &Value) -> Option<Self> {
        let nodes = value.get("mapping")?.as_object()?;
        Some(Self {
            key: key_of(value, "conversation_id").or_else(|| key_of(value, "id"))?,
            title: title_of(value),
            at_us: microseconds(value.get("create_time")),
            nodes: nodes
                .iter()
                .map(|(key, node)| (bounded(key), chat_gpt_node(node)))
                .collect(),
            current: key_of(value, "current_node"),
        })
    }

    fn of_open_web_ui(value: &Value) -> Option<Self> {
        let chat = value.get("chat").filter(|chat| chat.is_object());
        let chat = chat.unwrap_or(value);
        let history = chat.get("history")?;
        let nodes = history.get("messages")?.as_object()?;
        let key = key_of(value, "id").or_else(|| key_of(chat, "id"));
        let at = value.get("created_at").or_else(|| chat.get("timestamp"));
        Some(Self {
            key: key.or_else(|| nodes.keys().next().map(|key| bounded(key)))?,
            title: title_of(value).or_else(|| title_of(chat)),
            at_us: microseconds(at),
            nodes: nodes
                .iter()
                .map(|(key, node)| (bounded(key), open_web_ui_node(node)))
                .collect(),
            current: key_of(history, "currentId"),
        })
    }

    fn of_libre_chat(value: &Value) -> Option<Self> {
        let key = key_of(value, "conversationId")?;
        let mut nodes = Vec::new();
        let mut waiting: Vec<(&Value, Option<String>)> = Vec::new();
        let tree = array(value, "messagesTree");
        let roots = if tree.is_empty() {
            array(value, "messages")
        } else {
            tree
        };
        waiting.extend(roots.iter().rev().map(|root| (root, None)));
        while let Some((message, parent)) = waiting.pop() {
            let key = key_of(message, "messageId");
            let children = array(message, "children").iter().rev();
            waiting.extend(children.map(|child| (child, key.clone())));
            if let Some(key) = key {
                let mut node = libre_chat_node(message);
                node.parent = node.parent.or(parent);
                nodes.push((key, node));
            }
        }
        Some(Self {
            key,
            title: title_of(value),
            at_us: microseconds(value.get("createdAt").or_else(|| value.get("exportAt"))),
            nodes,
            current: None,
        })
    }

    /// Positions of the nodes of the chosen version, else of the newest one.
    fn path(&self) -> Vec<usize> {
        let keys = self.nodes.iter().map(|(key, _)| key.as_str());
        let positions: HashMap<&str, usize> = keys.zip(0..).collect();
        let current = self.current.as_deref();
        let chosen = current.and_then(|key| positions.get(key).copied());
        let newest = || (0..self.nodes.len()).max_by_key(|n| (self.nodes[*n].1.at_us, *n));
        let (mut path, mut next) = (Vec::new(), chosen.or_else(newest));
        // Nodes can name each other in a cycle.
        let mut seen = HashSet::new();
        while let Some(n) = next.filter(|n| seen.insert(*n)) {
            path.push(n);
            let parent = self.nodes[n].1.parent.as_deref();
            next = parent.and_then(|key| positions.get(key).copied());
        }
        path.reverse();
        path
    }

    /// Versions that leave the chosen one, newest first. What leaves one of these is not among them.
    fn versions(&self, path: &[usize]) -> Vec<Version> {
        let keys = self.nodes.iter().map(|(key, _)| key.as_str());
        let positions: HashMap<&str, usize> = keys.zip(0..).collect();
        let parent_of = |n: usize| {
            let parent = self.nodes[n].1.parent.as_deref();
            parent.and_then(|key| positions.get(key).copied())
        };
        let question = |n: usize| {
            let node = &self.nodes[n].1;
            (node.is_user && matches!(node.kind, NodeKind::Message)).then_some(n)
        };
        // The last question before each position of the path, and the first one from there on.
        let mut before = vec![None; path.len() + 1];
        let mut after = before.clone();
        for (at, n) in path.iter().enumerate() {
            before[at + 1] = question(*n).or(before[at]);
        }
        for (at, n) in path.iter().enumerate().rev() {
            after[at] = question(*n).or(after[at + 1]);
        }
        // Number of nodes of the path up to each of them.
        let lengths: HashMap<usize, usize> = path.iter().copied().zip(1..).collect();
        let others = (0..self.nodes.len()).filter(|n| !lengths.contains_key(n));
        let mut leaves: Vec<usize> = others.collect();
        let parents: HashSet<usize> = leaves.iter().filter_map(|n| parent_of(*n)).collect();
        leaves.retain(|n| !parents.contains(n));
        leaves.sort_by_key(|n| std::cmp::Reverse((self.nodes[*n].1.at_us, *n)));
        let (mut used, mut versions) = (HashSet::new(), Vec::new());
        let mut counts: HashMap<usize, usize> = HashMap::new();
        for leaf in leaves {
            let (mut nodes, mut next) = (Vec::new(), Some(leaf));
            while let Some(n) = next.filter(|n| !lengths.contains_key(n) && used.insert(*n)) {
                nodes.push(n);
                next = parent_of(n);
            }
            let start = match next.map(|n| lengths.get(&n)) {
                None => 0,
                Some(Some(length)) => *length,
                Some(None) => continue,
            };
            nodes.reverse();
            nodes.retain(|n| matches!(self.nodes[*n].1.kind, NodeKind::Message));
            let Some(first) = nodes.first() else {
                continue;
            };
            let question = if self.nodes[*first].1.is_user {
                after[start]
            } else {
                before[start]
            };
            let Some(question) = question else {
                continue;
            };
            let count = counts.entry(question).or_default();
            *count += 1;
            if *count <= VERSIONS_MAX && versions.len() < VERSIONS_OF_CHAT_MAX {
                versions.push(Version { question, nodes });
            }
        }
        versions
    }

    /// The messages of the chosen version, then those of others, and then what is left out.
    fn items(self, product: ChatProduct) -> Vec<PlacedItem> {
        let path = self.path();
        let versions = self.versions(&path);
        let mut root: Option<SourceThread> = None;
        let mut at_us = self.at_us.unwrap_or(0);
        let mut items = Vec::new();
        let Self {
            key: chat,
            title,
            nodes,
            ..
        } = self;
        let place = |key: &str, at_us: i64, item: SourceItem| PlacedItem {
            folder: FOLDER.to_owned(),
            at_us,
            place: format!("{chat} {key}"),
            item,
        };
        let mut questions: HashMap<usize, SourceQuestion> = HashMap::new();
        for n in &path {
            let (key, node) = &nodes[*n];
            let is_early = root.is_none() && !node.is_user;
            let reason = match node.kind {
                NodeKind::Start => continue,
                NodeKind::LeftOut(reason) => Some(reason),
                NodeKind::Message if is_early => Some("before the first question"),
                NodeKind::Message => None,
            };
            // An answer without a time, or an earlier one, follows its question.
            at_us = node.at_us.unwrap_or(at_us).max(at_us);
            if let Some(reason) = reason {
                items.push(place(key, at_us, SourceItem::LeftOut(reason)));
                continue;
            }
            let unique = format!("{chat}/{key}");
            let thread = root.get_or_insert_with(|| SourceThread {
                key: unique.clone(),
                id: None,
                variant_of: None,
                at_us,
                title: title.clone(),
            });
            let question = SourceQuestion {
                key: unique.clone(),
                at_us,
            };
            questions.insert(*n, question);
            items.push(place(
                key,
                at_us,
                message(unique, at_us, thread, node, product),
            ));
        }
        let mut placed: HashSet<usize> = path.into_iter().collect();
        for version in versions {
            let Some(question) = questions.get(&version.question) else {
                continue;
            };
            let (mut root, mut at_us) = (None, question.at_us);
            let first = version.nodes.first().map(|n| &nodes[*n]);
            // An answer follows its question, which the version asks again.
            let again = first.filter(|(_, node)| !node.is_user);
            let again = again.map(|(key, _)| (version.question, format!("@{key}")));
            let own = version.nodes.iter().map(|n| (*n, String::new()));
            for (n, mark) in again.into_iter().chain(own) {
                let (key, node) = &nodes[n];
                at_us = node.at_us.unwrap_or(at_us).max(at_us);
                let unique = format!("{chat}/{key}{mark}");
                let thread = root.get_or_insert_with(|| SourceThread {
                    key: unique.clone(),
                    id: None,
                    variant_of: Some(question.clone()),
                    at_us,
                    title: None,
                });
                items.push(place(
                    key,
                    at_us,
                    message(unique, at_us, thread, node, product),
                ));
                placed.insert(n);
            }
        }
        let others = nodes.iter().enumerate();
        for (_, (key, node)) in others.filter(|(n, _)| !placed.contains(n)) {
            let reason = match node.kind {
                NodeKind::Start => continue,
                NodeKind::LeftOut(reason) => reason,
                NodeKind::Message => "another version of a message",
            };
            items.push(place(key, at_us, SourceItem::LeftOut(reason)));
        }
        items
    }
}

fn message(
    key: String,
    at_us: i64,
    thread: &SourceThread,
    node: &Node,
    product: ChatProduct,
) -> SourceItem {
    SourceItem::Message(Box::new(SourceMessage {
        key,
        at_us,
        edited_us: None,
        thread: Some(thread.clone()),
        author: Some(author(node, product)),
        text: node.text.clone(),
        reactions: Vec::new(),
        files: distinct_files(node.files.iter().cloned()),
        is_pinned: false,
        fork: None,
        is_cited: false,
    }))
}

fn author(node: &Node, product: ChatProduct) -> SourceAuthor {
    let shown_as = match &node.model {
        Some(model) => format!("{model} · {}", product.name()),
        None => product.name().to_owned(),
    };
    SourceAuthor {
        key: if node.is_user { "user" } else { "assistant" }.to_owned(),
        name: None,
        is_bot: !node.is_user,
        shown_as: (!node.is_user).then_some(shown_as),
    }
}

/// Kind of a node with this content.
fn kind_of(reason: Option<&'static str>, text: &str, files: &[SourceFile]) -> NodeKind {
    match reason {
        Some(reason) => NodeKind::LeftOut(reason),
        None if text.trim().is_empty() && files.iter().all(|file| file.left_out.is_some()) => {
            NodeKind::LeftOut("empty")
        }
        None => NodeKind::Message,
    }
}

fn chat_gpt_node(node: &Value) -> Node {
    let parent = key_of(node, "parent");
    let null = Value::Null;
    let Some(message) = node.get("message").filter(|message| message.is_object()) else {
        return Node {
            parent,
            ..Node::default()
        };
    };
    let role = string(message.get("author").unwrap_or(&null), "role");
    let content = message.get("content").unwrap_or(&null);
    let metadata = message.get("metadata").unwrap_or(&null);
    // Names are those of the attachments.
    let attached = array(metadata, "attachments").iter().filter_map(|file| {
        let id = first([string(file, "id")])?;
        Some(source_file(id, first([string(file, "name"), id])?, None))
    });
    let mut files: Vec<SourceFile> = attached.collect();
    let mut texts = Vec::new();
    for part in array(content, "parts") {
        if let Value::String(text) = part {
            texts.push(text.clone());
            continue;
        }
        texts.extend(text_of(part, "text"));
        let pointer = string(part, "asset_pointer");
        let id = pointer.split_once("://").map_or("", |(_, id)| id);
        if let Some(id) = first([id]) {
            files.push(source_file(id, "picture.png", None));
        }
    }
    let content_type = string(content, "content_type");
    if let Some(text) = first([string(content, "text")]) {
        texts.push(if content_type == "code" {
            hooks::fenced(text, string(content, "language"))
        } else {
            text.to_owned()
        });
    }
    let reason = match (role, content_type) {
        _ if flag(metadata, "is_visually_hidden_from_conversation") => Some("hidden"),
        ("system", _) | (_, "user_editable_context" | "model_editable_context") => {
            Some("instructions")
        }
        ("tool", _) if files.is_empty() => Some("output of a tool"),
        (_, "thoughts" | "reasoning_recap") => Some("thoughts"),
        ("assistant", _) if !matches!(string(message, "recipient"), "" | "all") => {
            Some("call of a tool")
        }
        _ => None,
    };
    // A tool's text is about the picture that it made.
    let text = if role == "tool" {
        String::new()
    } else {
        texts.retain(|text| !text.trim().is_empty());
        texts.join("\n\n")
    };
    Node {
        kind: kind_of(reason, &text, &files),
        parent,
        is_user: role == "user",
        at_us: microseconds(message.get("create_time")),
        text,
        model: text_of(metadata, "model_slug"),
        files,
    }
}

fn open_web_ui_node(message: &Value) -> Node {
    let role = string(message, "role");
    let text = string(message, "content").to_owned();
    let files: Vec<SourceFile> = array(message, "files")
        .iter()
        .zip(0..)
        .map(|(file, n): (&Value, usize)| {
            let name = first([string(file, "name")]).unwrap_or("picture.png");
            source_file(&format!("file {n}"), name, Some("not in the archive"))
        })
        .collect();
    let reason = (role == "system").then_some("instructions");
    Node {
        kind: kind_of(reason, &text, &files),
        parent: key_of(message, "parentId"),
        is_user: role == "user",
        at_us: microseconds(message.get("timestamp")),
        text,
        model: text_of(message, "modelName").or_else(|| text_of(message, "model")),
        files,
    }
}

fn libre_chat_node(message: &Value) -> Node {
    let mut texts: Vec<String> = text_of(message, "text").into_iter().collect();
    if texts.is_empty() {
        let parts = array(message, "content").iter();
        texts.extend(parts.filter_map(|part| {
            let text = part.get("text")?;
            // Some versions have an object with the text.
            text.as_str()
                .map(str::to_owned)
                .or_else(|| text_of(text, "value"))
        }));
    }
    let text = texts.join("\n\n");
    let is_user = flag(message, "isCreatedByUser");
    Node {
        kind: kind_of(None, &text, &[]),
        parent: key_of(message, "parentMessageId"),
        is_user,
        at_us: microseconds(message.get("createdAt")),
        text,
        model: text_of(message, "model").or_else(|| text_of(message, "sender")),
        files: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(product: ChatProduct, value: &Value) -> (Vec<String>, Vec<&'static str>) {
        let (mut texts, mut left_out) = (Vec::new(), Vec::new());
        for placed in Chat::of(product, value).unwrap().items(product) {
            match placed.item {
                SourceItem::Message(message) => {
                    let author = message.author.unwrap();
                    let name = author.shown_as.unwrap_or_else(|| "me".to_owned());
                    texts.push(format!("{name}: {}", message.text));
                }
                SourceItem::LeftOut(reason) => left_out.push(reason),
                SourceItem::Merged | SourceItem::Record(_) => panic!("no message"),
            }
        }
        (texts, left_out)
    }

    #[test]
    fn times_are_seconds_milliseconds_or_texts() {
        for (value, expected) in [
            (json!(1_700_000_000), Some(1_700_000_000_000_000)),
            (json!(1_700_000_000.25), Some(1_700_000_000_250_000)),
            (json!(1_700_000_000_250_i64), Some(1_700_000_000_250_000)),
            (
                json!("2023-11-14T22:13:20.000Z"),
                Some(1_700_000_000_000_000),
            ),
            (json!(null), None),
            (json!(-1), None),
            (json!("soon"), None),
        ] {
            assert_eq!(microseconds(Some(&value)), expected, "{value}");
        }
    }

    #[test]
    fn the_chosen_version_of_a_chat_is_kept() {
        let said = |role: &str, text: &str| {
            json!({"author": {"role": role}, "content": {"content_type": "text", "parts": [text]},
            "metadata": {"model_slug": "gpt-4o"}, "recipient": "all"})
        };
        let chat = json!({"id": "c1", "title": null, "create_time": 1_700_000_000, "current_node": "e", "mapping": {
            "root": {"message": null, "parent": null},
            "a": {"message": said("system", ""), "parent": "root"},
            "b": {"message": said("user", "Hello"), "parent": "a"},
            "c": {"message": said("assistant", "An old answer"), "parent": "b"},
            "d": {"message": {"author": {"role": "assistant"}, "content": {"content_type": "code", "text": "search()"}, "recipient": "browser"},
                "parent": "b"},
            "e": {"message": said("assistant", "Hi"), "parent": "d"}}});
        assert_eq!(
            messages(ChatProduct::ChatGpt, &chat),
            (
                [
                    "me: Hello",
                    "gpt-4o · ChatGPT: Hi",
                    "me: Hello",
                    "gpt-4o · ChatGPT: An old answer"
                ]
                .map(str::to_owned)
                .to_vec(),
                vec!["instructions", "call of a tool"]
            )
        );
    }

    #[test]
    fn chats_that_cannot_be_read_fill_units_too() {
        let unreadable = ", 0".repeat(2 * UNIT_MESSAGES + 1);
        let chats =
            format!(r#"[{{"title": "a", "mapping": {{}}, "conversation_id": "x"}}{unreadable}]"#);
        let open = || std::io::Cursor::new(chats.as_bytes());
        let mut archive = ChatsArchive::open(open, 1 << 20).unwrap();
        let mut counts = Vec::new();
        archive.units(0, &mut |unit, _| {
            counts.push(unit.problems.len());
            ControlFlow::Continue(())
        });
        assert_eq!(counts, [UNIT_MESSAGES, UNIT_MESSAGES, 1]);
    }

    #[test]
    fn a_cycle_ends() {
        let node = |parent: &str| json!({"role": "user", "content": "x", "parentId": parent});
        let chat = json!({"id": "c", "history": {"currentId": "a", "messages": {"a": node("b"), "b": node("a")}}});
        assert_eq!(messages(ChatProduct::OpenWebUi, &chat).0.len(), 2);
        // Nobody can make one message many by it.
        let mut chat = json!({"id": "c", "history": {"currentId": "c", "messages": {"a": node("b"), "b": node("a"), "c": node("a")}}});
        for n in 0..10 {
            chat["history"]["messages"][format!("other {n}")] = json!({});
        }
        assert_eq!(messages(ChatProduct::OpenWebUi, &chat).0.len(), 3);
    }

    #[test]
    fn long_keys_and_titles_are_not_repeated_by_each_message() {
        let long = "k".repeat(5000);
        let chat = json!({"conversationId": long, "title": long, "messagesTree": [{"messageId": long, "text": "Hello", "isCreatedByUser": true,
            "children": [{"messageId": "2", "text": "Hi", "isCreatedByUser": false}, {"messageId": "3", "text": "Bye", "isCreatedByUser": false}]}]});
        let items = Chat::of(ChatProduct::LibreChat, &chat)
            .unwrap()
            .items(ChatProduct::LibreChat);
        assert_eq!(items.len(), 4);
        for placed in items {
            assert!(!format!("{placed:?}").contains(&long));
        }
    }

    #[test]
    fn lists_and_trees_of_messages_are_read() {
        let message = |key: &str, parent: &str, is_user: bool, text: &str| {
            json!({"messageId": key, "parentMessageId": parent, "text": text,
            "isCreatedByUser": is_user, "sender": "Claude", "createdAt": "2023-11-14T22:13:20.000Z"})
        };
        let list = json!({"conversationId": "c", "title": "T", "messages": [
            message("1", "0", true, "Hello"), message("2", "1", false, "Hi")]});
        let mut root = message("1", "0", true, "Hello");
        root["children"] = json!([message("2", "1", false, "Hi")]);
        let tree = json!({"conversationId": "c", "title": "T", "messagesTree": [root]});
        // Nested messages need not name what they follow.
        let nested = json!({"conversationId": "c", "messagesTree": [{"messageId": "1", "text": "Hello", "isCreatedByUser": true,
            "children": [{"messageId": "2", "text": "Hi", "isCreatedByUser": false, "sender": "Claude"}]}]});
        let expected = ["me: Hello", "Claude · LibreChat: Hi"];
        for chat in [list, tree, nested] {
            assert_eq!(messages(ChatProduct::LibreChat, &chat).0, expected);
        }
    }

    #[test]
    fn the_first_member_names_the_product() {
        for (head, expected) in [
            (
                r#"[{"title": "a", "mapping": {}, "conversation_id": "x"}]"#,
                Some(ChatProduct::ChatGpt),
            ),
            (
                r#"{"conversationId": "x", "messages": [{"text": "the \"mapping\" is"}]}"#,
                Some(ChatProduct::LibreChat),
            ),
            (
                r#"[{"id": "x", "chat": {"history": {}}}]"#,
                Some(ChatProduct::OpenWebUi),
            ),
            ("[]", None),
        ] {
            assert_eq!(ChatProduct::of(head.as_bytes()), expected);
        }
    }
}
