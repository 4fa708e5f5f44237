//! Citations of a reply. A mark that a model wrote becomes `[n]` if the cited message or passage supports the sentence; all
//! others are removed.
//!
//! ```text
//! text ─ marks ─► handles of the task ─► messages and files that everyone here can read now ─► support ─► `[n]`, sources
//!                                                         └── read again in the transaction that ends the reply
//! ```

mod marks;
pub mod removed;

use std::{
    borrow::Cow,
    cmp::Reverse,
    collections::{BTreeSet, HashMap, HashSet},
};

use openvibe_extract::{keywords, numbers, unknown_numbers};

use crate::{
    chat::{
        messages::{MessageKind, MessageSource, ReplyText},
        search::{
            passages::{find::FileReader, passages},
            task::{self, TaskMessage},
        },
    },
    collections,
    db::{Conn, Db, DbError, dialect::hexadecimal_ids},
    files::{
        self, Blobs, Stored,
        documents::{self, DocumentPart, DocumentRow},
    },
    ids::{FileId, MessageId, UserId, VectorStoreId},
    sql_with_ids,
    tasks::slow,
    tools::{
        builtin::files::read_part,
        handles,
        output::{Handled, PassagePlace},
        rights::{self, Rights},
        runner::ToolTask,
    },
};

use marks::Marked;
pub use marks::handles_of;

/// Minimum percentage of a sentence's content words that its sources must contain.
const SUPPORT_PERCENT_MIN: usize = 30;
/// Maximum number of distinct handles in a reply; additional ones are removed.
const HANDLES_MAX: usize = 64;
/// Maximum number of bytes read from all cited files together.
const FILE_BYTES_MAX: usize = 1024 * 1024;
/// Number of parts of a file that are read at a time.
const PARTS_AT_ONCE: i64 = 50;
/// Minimum number of words of a quotation that must occur in a cited passage.
const QUOTED_WORDS_MIN: usize = 5;
/// Maximum number of passages of a file that are compared with a sentence, those with most of its words first.
const COMPARED_MAX: usize = 20;

/// The final text of a reply, with its sources.
#[derive(Debug, Clone)]
pub(super) struct CitedText {
    pub(super) text: ReplyText,
    pub(super) sources: Vec<MessageSource>,
    /// Number of removed citations; `None` if no citation was removed.
    pub(super) removed: Option<i64>,
    /// Length of the text in UTF-16 code units.
    pub(super) length: i64,
}

/// A reply whose citations have been checked.
pub(super) struct Cited {
    /// The text with every supported citation.
    whole: CitedText,
    /// `None` if the reply has no marks.
    checked: Option<Checked>,
}

struct Checked {
    task: ToolTask,
    marked: Marked,
    /// Places that support a sentence, by sentence position and handle.
    supported: Vec<HashMap<String, CitedPlace>>,
    places: HashMap<Home, MessageSource>,
    files: HashMap<FileId, CitedFile>,
}

/// Object that gives access to a source: a message, or a vector store with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Home {
    Message(MessageId),
    Store(VectorStoreId, FileId),
}

/// Target of a citation: a message, or a passage of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CitedPlace {
    home: Home,
    passage: Option<PassageAt>,
}

/// Position of a passage in `CitedFile::passages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PassageAt {
    file: FileId,
    at: usize,
}

/// Text of a cited file.
#[derive(Debug, Default)]
struct CitedFile {
    whole: String,
    /// Empty if the text was not taken from the file yet.
    passages: Vec<FilePassage>,
}

/// Part of a file's text, short enough to be cited.
#[derive(Debug)]
struct FilePassage {
    part: i64,
    label: String,
    /// Position in the text of the part, in UTF-16 code units.
    from: i64,
    to: i64,
    text: String,
}

/// A cited message, file, or passage, prepared for the comparison with sentences.
struct Source {
    place: CitedPlace,
    /// Content words of the text, of the author's name, and of the location.
    words: BTreeSet<String>,
    names: BTreeSet<String>,
    numbers: BTreeSet<String>,
    /// Words of the passage, in which long quotations must occur; `None` if quotations are not compared.
    quotable: Option<String>,
}

impl CitedText {
    fn of(text: &str, sources: Vec<MessageSource>, removed: usize) -> Self {
        let text = ReplyText::of(text.trim_end().to_owned());
        Self::with(text, sources, removed)
    }

    fn with(text: ReplyText, sources: Vec<MessageSource>, removed: usize) -> Self {
        Self {
            length: i64::try_from(text.content().encode_utf16().count()).unwrap_or(i64::MAX),
            text,
            sources,
            removed: i64::try_from(removed).ok().filter(|removed| *removed > 0),
        }
    }
}

impl Cited {
    /// A reply that was not written by a model, with sources that need no check.
    ///
    /// # Errors
    /// If the server is stopping.
    pub(super) async fn ready(
        person: UserId,
        text: &str,
        sources: Vec<MessageSource>,
    ) -> Result<Self, DbError> {
        let text = ReplyText::of_long(person, text.trim_end().to_owned()).await?;
        Ok(Self {
            whole: CitedText::with(text, sources, 0),
            checked: None,
        })
    }

    /// Checks the marks in a model's reply.
    pub(super) async fn check(
        db: &Db,
        blobs: &Blobs,
        task: &ToolTask,
        text: &str,
    ) -> Result<Self, DbError> {
        // Checking a long text is slow, so it runs in a blocking thread.
        let read = text.to_owned();
        let read = slow::run(task.requester, move |_| Marked::of(read, HANDLES_MAX)).await;
        let Ok(mut marked) = read else {
            return Self::ready(task.requester, text, Vec::new()).await;
        };
        let found = if marked.is_empty() {
            Found::default()
        } else {
            let mut c = db.read().await?;
            let mut named = Vec::new();
            for handle in marked.handles() {
                let of = handles::find(&mut c, task.task, handle).await?;
                named.extend(of.map(|of| (handle.to_owned(), of)));
            }
            Found::load(&mut c, task, named).await?
        };
        if !found.has_files() {
            marked = marked.without_files();
        }
        if marked.is_empty() {
            return Self::ready(task.requester, text, Vec::new()).await;
        }
        let files = found.read_files(db, blobs).await?;
        let places = found.places();
        let task = task.clone();
        let compared = slow::run(task.requester, move |_| {
            let supported = found.support(&marked, &files);
            let checked = Checked {
                task,
                marked,
                supported,
                places,
                files,
            };
            (checked.text(|_| true), checked)
        });
        match compared.await {
            Ok((whole, checked)) => Ok(Self {
                whole,
                checked: Some(checked),
            }),
            Err(e) => {
                tracing::error!(error = %e, "the citations of a reply could not be checked");
                let none = Marked::of(text.to_owned(), 0).numbered::<CitedPlace>(|_, _| None);
                let whole = CitedText::of(&none.text, Vec::new(), none.removed);
                Ok(Self {
                    whole,
                    checked: None,
                })
            }
        }
    }

    /// Returns the text to store. If a source has been deleted or hidden in the meantime, the citations of its sentences are removed.
    pub(super) async fn at_end(&self, c: &mut Conn) -> Result<Cow<'_, CitedText>, DbError> {
        let Some(checked) = self
            .checked
            .as_ref()
            .filter(|_| !self.whole.sources.is_empty())
        else {
            return Ok(Cow::Borrowed(&self.whole));
        };
        let homes: HashSet<Home> = self.whole.sources.iter().filter_map(Home::of).collect();
        let readable = match rights::find(c, &checked.task).await? {
            Some(rights) => still_readable(c, &checked.task, &rights, &homes).await?,
            None => HashSet::new(),
        };
        if homes.iter().all(|home| readable.contains(home)) {
            return Ok(Cow::Borrowed(&self.whole));
        }
        Ok(Cow::Owned(checked.text(|home| readable.contains(&home))))
    }
}

impl Home {
    fn of(source: &MessageSource) -> Option<Self> {
        let in_store = || source.vector_store_id.zip(source.file_id);
        let message = source.message_id.map(Self::Message);
        message.or_else(|| in_store().map(|(store, file)| Self::Store(store, file)))
    }
}

/// Returns those of the messages and files that everyone here can still read.
async fn still_readable(
    c: &mut Conn,
    of: &ToolTask,
    rights: &Rights,
    homes: &HashSet<Home>,
) -> Result<HashSet<Home>, DbError> {
    let ids = homes.iter().filter_map(|home| match home {
        Home::Message(id) => Some(*id),
        Home::Store(..) => None,
    });
    let ids: Vec<MessageId> = ids.collect();
    let reader = (of.workspace, rights.requester, rights.shared_in);
    let messages = task::find_readable(c, reader, &ids).await?;
    let mut readable: HashSet<Home> = messages.iter().map(|m| Home::Message(m.id)).collect();
    for home in homes {
        if let Home::Store(store, file) = home {
            let stores = collections::stores_of(c, reader_of(of, rights), *file).await?;
            if stores.contains(store) {
                readable.insert(*home);
            }
        }
    }
    Ok(readable)
}

fn reader_of(of: &ToolTask, rights: &Rights) -> FileReader {
    FileReader {
        workspace: of.workspace,
        user: rights.requester,
        shared_in: rights.shared_in,
    }
}

impl Checked {
    /// Returns the text with the citations of those sentences whose sources all pass.
    fn text(&self, passes: impl Fn(Home) -> bool) -> CitedText {
        let numbered = self.marked.numbered(|sentence, handle| {
            let sources = self.supported.get(sentence)?;
            let passes = sources.values().all(|place| passes(place.home));
            sources.get(handle).copied().filter(|_| passes)
        });
        let cited = numbered.cited.iter().enumerate();
        let sources = cited.filter_map(|(at, place)| {
            Some(MessageSource {
                n: at + 1,
                ..source_at(&self.places, &self.files, *place)?
            })
        });
        CitedText::of(&numbered.text, sources.collect(), numbered.removed)
    }
}

/// Returns the source at a place, without its number.
fn source_at(
    places: &HashMap<Home, MessageSource>,
    files: &HashMap<FileId, CitedFile>,
    place: CitedPlace,
) -> Option<MessageSource> {
    let mut source = places.get(&place.home)?.clone();
    let passage = place.passage.and_then(|PassageAt { file, at }| {
        let passage = files.get(&file)?.passages.get(at)?;
        Some((file, passage))
    });
    if let Some((file, passage)) = passage {
        source.file_id = Some(file);
        source.part = Some(passage.part);
        source.label = Some(passage.label.clone());
        source.from = Some(passage.from);
        source.to = Some(passage.to);
    }
    Some(source)
}

/// A handle whose object everyone here can read.
struct NamedSource {
    handle: String,
    home: Home,
    file: Option<FileId>,
    /// The passage of the file that the handle stands for; `None` for the whole file.
    passage: Option<PassagePlace>,
}

/// Messages and files behind the handles of a reply.
#[derive(Default)]
struct Found {
    handles: Vec<NamedSource>,
    /// True if a handle stands for a file or a passage, even one that cannot be read.
    names_files: bool,
    messages: HashMap<MessageId, TaskMessage>,
    /// Texts of published resolutions, which the resolution messages do not contain in full.
    results: HashMap<MessageId, String>,
    files: HashMap<FileId, Stored>,
}

impl Found {
    async fn load(
        c: &mut Conn,
        task: &ToolTask,
        named: Vec<(String, Handled)>,
    ) -> Result<Self, DbError> {
        let Some(rights) = rights::find(c, task).await? else {
            return Ok(Self::default());
        };
        let mut found = Self::default();
        let mut placed = Vec::with_capacity(named.len());
        for (handle, of) in named {
            let (mut message, file, passage) = match of {
                // The question cannot be a source of its own answer.
                Handled::Message(id) => (Some(id).filter(|id| *id != task.trigger), None, None),
                Handled::File(id) => (None, Some(id), None),
                Handled::Passage(place) => (None, Some(place.file), Some(place)),
            };
            if let Some(id) = file {
                found.names_files = true;
                let stored = files::find(c, id).await?;
                let stored = stored.filter(|stored| stored.workspace_id == task.workspace);
                message = stored.as_ref().and_then(|stored| stored.message_id);
                found.files.extend(stored.map(|stored| (id, stored)));
            }
            placed.push((handle, message, file, passage));
        }
        let ids: Vec<MessageId> = placed.iter().filter_map(|(_, id, ..)| *id).collect();
        let reader = (task.workspace, rights.requester, rights.shared_in);
        let mut messages = task::find_readable(c, reader, &ids).await?;
        // Messages from agents are not sources.
        messages.retain(TaskMessage::is_source);
        let results = messages.iter();
        let results = results.filter(|message| message.kind == MessageKind::Resolution);
        let ids: Vec<MessageId> = results.map(|message| message.id).collect();
        if !ids.is_empty() {
            found.results = results_of(c, &ids).await?;
        }
        found.messages = messages.into_iter().map(|m| (m.id, m)).collect();
        for (handle, message, file, passage) in placed {
            let message = message.filter(|id| found.messages.contains_key(id));
            let home = match (message, file) {
                (Some(id), _) => Some(Home::Message(id)),
                (None, Some(file)) => {
                    let stores = collections::stores_of(c, reader_of(task, &rights), file).await?;
                    stores.first().map(|store| Home::Store(*store, file))
                }
                (None, None) => None,
            };
            found.handles.extend(home.map(|home| NamedSource {
                handle,
                home,
                file,
                passage,
            }));
        }
        Ok(found)
    }

    fn has_files(&self) -> bool {
        self.names_files
    }

    /// Reads the texts of the files that can be read, or only the cited passages. A text is empty if the file has none.
    async fn read_files(
        &self,
        db: &Db,
        blobs: &Blobs,
    ) -> Result<HashMap<FileId, CitedFile>, DbError> {
        let mut texts = HashMap::new();
        let mut left = FILE_BYTES_MAX;
        for (id, file) in &self.files {
            let of_file = self.handles.iter().filter(|named| named.file == Some(*id));
            let cited: Vec<Option<PassagePlace>> = of_file.map(|named| named.passage).collect();
            let text = if cited.is_empty() {
                CitedFile::default()
            } else if cited.contains(&None) {
                let document = read_document(&mut db.read().await?, file, &mut left).await?;
                match document {
                    Some(text) => text,
                    None => read_bytes(blobs, file, &mut left).await,
                }
            } else {
                let places: Vec<PassagePlace> = cited.into_iter().flatten().collect();
                read_passages(&mut db.read().await?, file, &places).await?
            };
            texts.insert(*id, text);
        }
        Ok(texts)
    }

    fn places(&self) -> HashMap<Home, MessageSource> {
        let places = self.messages.iter();
        let places = places.map(|(id, message)| (Home::Message(*id), message.source()));
        let stores = self.handles.iter().filter_map(|named| match named.home {
            Home::Store(store, file) => Some((named.home, MessageSource::in_store(store, file))),
            Home::Message(_) => None,
        });
        places.chain(stores).collect()
    }

    fn source(&self, message: &TaskMessage, file: Option<&str>) -> Source {
        let result = self.results.get(&message.id).map_or("", String::as_str);
        let names = message.attachments.0.iter().map(|file| file.name.as_str());
        let names: Vec<&str> = names.collect();
        let text = format!(
            "{}\n{result}\n{}\n{}",
            message.content_plain,
            names.join("\n"),
            file.unwrap_or_default()
        );
        let mut numbers = numbers(&text);
        // A sentence may mention the date of the message.
        numbers.extend(openvibe_extract::numbers(
            &message.created_at.day().to_string(),
        ));
        Source {
            place: CitedPlace {
                home: Home::Message(message.id),
                passage: None,
            },
            words: keywords(&text),
            names: names_of(message),
            numbers,
            quotable: None,
        }
    }

    /// A file of a vector store as a whole.
    fn file_source(home: Home, file: &Stored, whole: &str) -> Source {
        let text = format!("{}\n{whole}", file.about.name);
        Source {
            place: CitedPlace {
                home,
                passage: None,
            },
            words: keywords(&text),
            names: BTreeSet::new(),
            numbers: numbers(&text),
            quotable: None,
        }
    }

    /// Passages of a file as sources, in their order: all of them, or the one that a handle stands for.
    fn passages(&self, named: &NamedSource, file: &Stored, text: &CitedFile) -> Vec<Source> {
        let names = match named.home {
            Home::Message(id) => self.messages.get(&id).map(names_of).unwrap_or_default(),
            Home::Store(..) => BTreeSet::new(),
        };
        let is_cited = |passage: &FilePassage| {
            named.passage.is_none_or(|place| {
                (place.part, place.from, place.to) == (passage.part, passage.from, passage.to)
            })
        };
        let passages = text.passages.iter().enumerate();
        let passages = passages.filter(|(_, passage)| is_cited(passage));
        let sources = passages.map(|(at, passage)| {
            let text = format!("{}\n{}\n{}", file.about.name, passage.label, passage.text);
            Source {
                quotable: Some(folded_words(&passage.text)),
                place: CitedPlace {
                    home: named.home,
                    passage: Some(PassageAt {
                        file: file.about.id,
                        at,
                    }),
                },
                words: keywords(&text),
                names: names.clone(),
                numbers: numbers(&text),
            }
        });
        sources.collect()
    }

    /// Returns the places that support each sentence, by handle: for a file, the passage that supports the sentence best, or the
    /// message if only the file as a whole does.
    fn support(
        &self,
        marked: &Marked,
        files: &HashMap<FileId, CitedFile>,
    ) -> Vec<HashMap<String, CitedPlace>> {
        let (mut sources, mut passages) = (HashMap::new(), HashMap::new());
        for named in &self.handles {
            let handle = named.handle.as_str();
            let text = named.file.and_then(|id| files.get(&id));
            let stored = named.file.and_then(|id| self.files.get(&id));
            if let (Some(stored), Some(text)) = (stored, text) {
                passages.insert(handle, self.passages(named, stored, text));
            }
            // A passage is not supported by the rest of its file.
            if named.passage.is_some() {
                continue;
            }
            let whole = text.map(|text| text.whole.as_str());
            let source = match named.home {
                Home::Message(id) => self.messages.get(&id).map(|of| self.source(of, whole)),
                Home::Store(..) => stored
                    .map(|file| Self::file_source(named.home, file, whole.unwrap_or_default())),
            };
            sources.extend(source.map(|source| (handle, source)));
        }
        let sentences = marked.sentences().into_iter();
        let supported = sentences.map(|(sentence, handles)| {
            let cited = handles.iter().filter_map(|handle| {
                let of_file: &[Source] =
                    passages.get(handle).map(Vec::as_slice).unwrap_or_default();
                let best = best_passage(sentence, of_file);
                let source = best.or_else(|| sources.get(handle))?;
                Some((*handle, source))
            });
            let cited: Vec<(&str, &Source)> = cited.collect();
            supporting(sentence, &cited)
                .into_iter()
                .map(|(handle, source)| (handle.to_owned(), source.place))
                .collect()
        });
        supported.collect()
    }
}

/// Content words of the names of a message's author and channel.
fn names_of(message: &TaskMessage) -> BTreeSet<String> {
    let (author, channel) = (
        message.author_name.as_deref(),
        message.channel_name.as_deref(),
    );
    keywords(&format!(
        "{} {}",
        author.unwrap_or_default(),
        channel.unwrap_or_default()
    ))
}

/// Reads the text that was taken from a file, as far as it fits; `None` if none was taken.
async fn read_document(
    c: &mut Conn,
    file: &Stored,
    left: &mut usize,
) -> Result<Option<CitedFile>, DbError> {
    let row = documents::find_document(c, &file.blob.hash).await?;
    let Some(row) = row.filter(DocumentRow::has_text) else {
        return Ok(None);
    };
    let (mut text, mut after) = (CitedFile::default(), 0);
    loop {
        let parts = documents::list_parts(c, &row.hash, after, PARTS_AT_ONCE).await?;
        let Some(last) = parts.last() else {
            return Ok(Some(text));
        };
        after = last.n;
        for part in parts {
            if part.text.len() > *left {
                return Ok(Some(text));
            }
            *left -= part.text.len();
            text.add(&part, &file.about.name);
        }
    }
}

/// Reads passages of a file. Each part is read once.
async fn read_passages(
    c: &mut Conn,
    file: &Stored,
    places: &[PassagePlace],
) -> Result<CitedFile, DbError> {
    let mut text = CitedFile::default();
    let parts: BTreeSet<i64> = places.iter().map(|place| place.part).collect();
    for n in parts {
        let Some(part) = documents::find_part(c, &file.blob.hash, n).await? else {
            continue;
        };
        for place in places.iter().filter(|place| place.part == n) {
            let Some(passage) = units_of(&part.text, place.from, place.to) else {
                continue;
            };
            text.passages.push(FilePassage {
                part: n,
                label: part.name(&file.about.name).to_owned(),
                from: place.from,
                to: place.to,
                text: passage.to_owned(),
            });
        }
    }
    Ok(text)
}

/// Returns a range in UTF-16 code units of a text; `None` if it does not lie between characters of the text.
fn units_of(text: &str, from: i64, to: i64) -> Option<&str> {
    let (mut at, mut start) = (0, None);
    let chars = text.char_indices().map(|(byte, c)| (byte, c.len_utf16()));
    for (byte, units) in chars.chain([(text.len(), 0)]) {
        if at == from {
            start = start.or(Some(byte));
        }
        if at == to {
            return text.get(start?..byte);
        }
        at += i64::try_from(units).ok()?;
    }
    None
}

/// Words of a text in lowercase, separated by single spaces.
fn folded_words(text: &str) -> String {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let words: Vec<String> = words
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    format!(" {} ", words.join(" "))
}

/// Checks that each quotation of at least `QUOTED_WORDS_MIN` words in a sentence occurs in `words`, which `folded_words` returned.
fn quotes_only(sentence: &str, words: &str) -> bool {
    let mut quotations = sentence
        .split(['"', '“', '”', '„', '«', '»'])
        .skip(1)
        .step_by(2);
    quotations.all(|quotation| {
        let quotation = folded_words(quotation);
        quotation.split_whitespace().count() < QUOTED_WORDS_MIN || words.contains(&quotation)
    })
}

/// Reads the bytes of a text file, as far as they fit.
async fn read_bytes(blobs: &Blobs, file: &Stored, left: &mut usize) -> CitedFile {
    let (mut text, mut next) = (CitedFile::default(), Some(0));
    while let Some(offset) = next {
        let part = read_part(blobs, file, offset).await.ok();
        let Some(part) = part.filter(|part| part.text.len() <= *left) else {
            break;
        };
        *left -= part.text.len();
        text.whole.push_str(&part.text);
        next = part.next_offset();
    }
    text
}

impl CitedFile {
    fn add(&mut self, part: &DocumentPart, file: &str) {
        let units = |text: &str| i64::try_from(text.encode_utf16().count()).unwrap_or(0);
        let (mut end, mut at) = (0, 0);
        for range in passages(&part.text) {
            let from = at + units(&part.text[end..range.start]);
            let text = &part.text[range.clone()];
            at = from + units(text);
            end = range.end;
            self.passages.push(FilePassage {
                part: part.n,
                label: part.name(file).to_owned(),
                from,
                to: at,
                text: text.to_owned(),
            });
        }
        self.whole.push_str(&part.text);
        self.whole.push('\n');
    }
}

/// Returns the passage that supports a sentence alone and contains most of its words; the first one of several.
fn best_passage<'s>(sentence: &str, passages: &'s [Source]) -> Option<&'s Source> {
    let words = keywords(sentence);
    let shared = passages
        .iter()
        .map(|source| (words.intersection(&source.words).count(), source));
    let mut shared: Vec<(usize, &Source)> = shared.filter(|(count, _)| *count > 0).collect();
    shared.sort_by_key(|(count, _)| Reverse(*count));
    let mut best = shared.into_iter().take(COMPARED_MAX);
    let (_, source) =
        best.find(|(_, source)| !supporting(sentence, &[("", *source)]).is_empty())?;
    Some(source)
}

/// Returns the sources that together support a sentence, which means that they contain enough of its words and all of its numbers.
/// Sources that contribute nothing are left out. Returns none if the sentence is not supported.
fn supporting<'s>(sentence: &str, cited: &[(&'s str, &'s Source)]) -> Vec<(&'s str, &'s Source)> {
    let mut words = keywords(sentence);
    let is_named = |word: &String| cited.iter().any(|(_, source)| source.names.contains(word));
    let has_name = words.iter().any(is_named);
    words.retain(|word| !is_named(word));
    let mut known = BTreeSet::new();
    let mut said = BTreeSet::new();
    let mut supporting = Vec::new();
    for (handle, source) in cited {
        let own: Vec<&String> = words.intersection(&source.words).collect();
        // The author's name alone can be the answer.
        let is_quoted = |quotable: &String| quotes_only(sentence, quotable);
        if !source.quotable.as_ref().is_none_or(is_quoted) {
            continue;
        }
        if !own.is_empty() || words.is_empty() && has_name {
            said.extend(own);
            known.extend(source.numbers.iter().cloned());
            supporting.push((*handle, *source));
        }
    }
    let is_supported = said.len() * 100 >= words.len() * SUPPORT_PERCENT_MIN
        && unknown_numbers(sentence, &known).is_empty();
    if is_supported { supporting } else { Vec::new() }
}

/// Returns the texts of published resolutions, with the owners and due dates of their action items, by resolution message.
async fn results_of(
    c: &mut Conn,
    messages: &[MessageId],
) -> Result<HashMap<MessageId, String>, DbError> {
    let sql = sql_with_ids!(
        c,
        "select r.message_id, r.search_text, i.due, coalesce(u.name, i.owner_name) as owner from resolutions r \
         left join action_items i on i.resolution_id = r.id left join users u on u.id = i.owner_id \
         where r.status = 'published' and r.message_id in",
        1,
        ""
    );
    let rows: Vec<(MessageId, String, Option<String>, Option<String>)> = c
        .q(sql)
        .bind(hexadecimal_ids(messages.iter().map(|id| id.0)))
        .all()
        .await?;
    let mut texts = HashMap::new();
    for (message, text, due, owner) in rows {
        let text = texts.entry(message).or_insert(text);
        for part in [due, owner].into_iter().flatten() {
            text.push('\n');
            text.push_str(&part);
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str, text: &str) -> Source {
        Source {
            place: CitedPlace {
                home: Home::Message(MessageId::new()),
                passage: None,
            },
            words: keywords(text),
            names: keywords(name),
            numbers: numbers(text),
            quotable: None,
        }
    }

    fn supports(sentence: &str, sources: &[&Source]) -> usize {
        let cited: Vec<(&str, &Source)> = sources.iter().map(|source| ("S1", *source)).collect();
        supporting(sentence, &cited).len()
    }

    #[test]
    fn a_source_supports_what_it_says() {
        let ada = source(
            "Ada Moss ops",
            "We ship the pear release on 3 June, after the audit.",
        );
        for sentence in [
            "The pear release ships on 3 June.",
            "The release follows the audit [see notes].",
            "Ada: after the audit.",
            "Ada.",
        ] {
            assert_eq!(supports(sentence, &[&ada]), 1, "{sentence}");
        }
        for sentence in [
            "The pear release ships on 4 June.",
            "Plums are cheaper than figs in winter, said the gardener.",
            "Bo.",
            "Ada likes plums.",
            "",
        ] {
            assert_eq!(supports(sentence, &[&ada]), 0, "{sentence}");
        }
    }

    #[test]
    fn a_long_quotation_must_occur_in_the_cited_passage() {
        let text = "The okapi house opens on 3 June, and closes in October.";
        let handbook = Source {
            quotable: Some(folded_words(text)),
            ..source("", text)
        };
        for (sentence, count) in [
            ("It says “the okapi house opens on 3 June”.", 1),
            ("The okapi \"house\" opens on 3 June.", 1),
            ("It says “the okapi house never opens on 3 June”.", 0),
        ] {
            assert_eq!(supports(sentence, &[&handbook]), count, "{sentence}");
        }
    }

    #[test]
    fn a_range_of_units_lies_between_characters() {
        let text = "a😀é";
        assert_eq!(units_of(text, 1, 3), Some("😀"));
        assert_eq!(units_of(text, 3, 4), Some("é"));
        assert_eq!(units_of(text, 0, 4), Some(text));
        for (from, to) in [(2, 3), (1, 2), (0, 5), (3, 1), (-1, 1)] {
            assert_eq!(units_of(text, from, to), None, "{from} {to}");
        }
    }

    #[test]
    fn sources_support_a_sentence_together() {
        let ada = source("Ada", "The pear release is on 3 June.");
        let bo = source("Bo", "The budget is 400 euros.");
        let cy = source("Cy", "Lunch?");
        let sentence = "The release on 3 June has a budget of 400 euros.";
        assert_eq!(supports(sentence, &[&ada]), 0);
        assert_eq!(supports(sentence, &[&ada, &bo, &cy]), 2);
    }
}
