//! Finds passages of files.

use serde::Serialize;
use uuid::Uuid;

use super::near::{self, FoundBy, Hit, PassageRanking};
use crate::{
    auth::Actor,
    chat::{
        ChatError,
        search::{
            any,
            find::{Search, SearchOrder},
            highlight,
            rank::{self, Candidate},
            rebuild::{self, SearchIndex},
        },
    },
    cursor,
    db::{
        Conn, DbError,
        dialect::{
            hexadecimal_ids,
            search::{self as store, Match, Order, PassageScope, Phrase},
        },
        is_trusted_file, now,
    },
    http::page::ListObject,
    ids::{ChannelId, FileId, MessageId, UserId, VectorStoreId, WorkspaceId},
    meaning::{QuestionVector, VectorAnswer},
    text_enum::constant,
    time::Timestamp,
};

constant! { pub PassageObject = "passage" }

/// Maximum length of the text of a hit in characters, without the two ellipses and their spaces.
const TEXT_CHARS_MAX: usize = 396;
/// Maximum number of hits that are ranked.
const RANKED_MAX: i64 = 200;
/// Cursor kinds of this module.
const NEWEST: &str = "passages";
const OLDEST: &str = "oldest_passages";
const RANKED: &str = "ranked_passages";

/// File of a passage.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct PassageFile {
    pub id: FileId,
    pub name: String,
    pub content_type: String,
}

/// A matching passage of a file.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Passage {
    #[schema(inline)]
    pub object: PassageObject,
    pub file: PassageFile,
    /// Number of the part, such as the page.
    pub part: i64,
    /// Name of the part, such as `page 12`.
    pub label: String,
    /// Position of the passage in the text of the part, in UTF-16 code units.
    pub from: i64,
    pub to: i64,
    /// At most 400 characters of the passage around the first match.
    pub text: String,
    /// About 240 characters around the first match, escaped for HTML, with matches in `<mark>`.
    pub highlight: String,
    #[schema(inline)]
    pub found_by: FoundBy,
    /// The message to which the file is attached; null for an upload of the caller that is not attached.
    pub message_id: Option<MessageId>,
    pub channel_id: Option<ChannelId>,
    /// The vector store that was searched; in a search of all files, the oldest one with a file that is not attached to a message.
    pub vector_store_id: Option<VectorStoreId>,
    pub created_at: Timestamp,
}

/// A page of passages.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct PassagePage {
    #[schema(inline)]
    pub object: ListObject,
    pub data: Vec<Passage>,
    pub has_more: bool,
    /// Pass it as `cursor` to get the next page.
    #[schema(required)]
    pub next_cursor: Option<String>,
    /// Present with `order=relevance` or `match=any` on the first page, if a model for search by meaning is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub ranking: Option<PassageRanking>,
    /// Present while the index is being rebuilt after an upgrade or a restore.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub index: Option<SearchIndex>,
}

/// A passage with its whole text.
#[derive(Debug, Clone)]
pub struct FoundText {
    no: i64,
    pub file: FileId,
    pub name: String,
    pub content_type: String,
    pub part: i64,
    pub label: String,
    pub heading: Option<String>,
    /// Header row of a table, unless the passage contains it.
    pub header: Option<String>,
    pub from: i64,
    pub to: i64,
    pub text: String,
    pub message: Option<MessageId>,
    pub channel: Option<ChannelId>,
    pub created_by: UserId,
    pub created_at: Timestamp,
    /// True if a vector store whose texts do not taint has the file.
    pub is_trusted: bool,
    /// Share of the score of the best hit.
    pub score: f64,
    pub found_by: FoundBy,
}

/// A question to find passages for.
#[derive(Debug, Clone, Copy)]
pub struct PassageQuestion<'a> {
    pub text: &'a str,
    /// Without it, words alone are searched.
    pub vector: Option<&'a QuestionVector>,
}

impl<'a> PassageQuestion<'a> {
    /// A question with its vector, if there is one.
    pub fn of(text: &'a str, asked: &'a VectorAnswer) -> Self {
        Self {
            text,
            vector: asked.vector(),
        }
    }
}

impl<'a> From<&'a str> for PassageQuestion<'a> {
    fn from(text: &'a str) -> Self {
        Self { text, vector: None }
    }
}

/// Start and length of a page of passages.
#[derive(Debug, Clone, Copy)]
pub struct PassageStart<'a> {
    /// `next_cursor` of the previous page.
    pub cursor: Option<&'a str>,
    pub limit: i64,
    /// Vector of the question, for the first page of an order by relevance.
    pub asked: &'a VectorAnswer,
}

/// Filters of a search of passages.
#[derive(Debug, Clone, Copy, Default)]
pub struct PassageFilter {
    pub channel: Option<ChannelId>,
    pub file: Option<FileId>,
    /// A vector store that the reader can read.
    pub store: Option<VectorStoreId>,
}

/// Reader of files, and a channel whose readers must be able to read them, too.
#[derive(Debug, Clone, Copy)]
pub struct FileReader {
    pub workspace: WorkspaceId,
    pub user: UserId,
    pub shared_in: Option<Uuid>,
}

impl From<&Actor<'_>> for FileReader {
    fn from(actor: &Actor<'_>) -> Self {
        Self {
            workspace: actor.workspace,
            user: actor.user,
            shared_in: None,
        }
    }
}

impl FileReader {
    fn scope(self, filter: PassageFilter) -> PassageScope<'static> {
        PassageScope {
            workspace: self.workspace.0,
            user: self.user.0,
            shared_in: self.shared_in,
            channel: filter.channel.map(|id| id.0),
            file: filter.file.map(|id| id.0),
            store: filter.store.map(|id| id.0),
            files: None,
            above: -1,
            below: i64::MAX,
            order: Order::Newest,
        }
    }
}

fn condition(filter: PassageFilter) -> Match {
    let file = filter.file.map(super::index::file_term);
    Match {
        all: file
            .map(|term| vec![Phrase::word(term)])
            .into_iter()
            .collect(),
        ..Match::default()
    }
}

/// Finds the passages with any of the words of a question, and those that are near to it by meaning, best first.
///
/// # Errors
/// Only database errors.
pub async fn find_any(
    c: &mut Conn,
    reader: FileReader,
    filter: PassageFilter,
    question: PassageQuestion<'_>,
    limit: usize,
) -> Result<Vec<FoundText>, DbError> {
    find_in(c, &reader.scope(filter), filter, question, limit).await
}

/// Like `find_any`, among these files only.
///
/// # Errors
/// Only database errors.
pub async fn find_any_among(
    c: &mut Conn,
    reader: FileReader,
    filter: PassageFilter,
    files: &[FileId],
    question: PassageQuestion<'_>,
    limit: usize,
) -> Result<Vec<FoundText>, DbError> {
    let files = hexadecimal_ids(files.iter().map(|file| file.0));
    let scope = PassageScope {
        files: Some(&files),
        ..reader.scope(filter)
    };
    find_in(c, &scope, filter, question, limit).await
}

async fn find_in(
    c: &mut Conn,
    scope: &PassageScope<'_>,
    filter: PassageFilter,
    question: PassageQuestion<'_>,
    limit: usize,
) -> Result<Vec<FoundText>, DbError> {
    let PassageQuestion { text, vector } = question;
    let ranking = any::rank_passages(c, scope, &condition(filter), text, now()).await?;
    let best = match vector {
        Some(vector) => {
            let words: Vec<(i64, f64)> = ranking.scores().collect();
            let found = near::find(c, scope, vector).await?;
            near::merge(&words, &found, limit, limit)
        }
        None => near::by_words(ranking.scores().take(limit)),
    };
    load(c, WorkspaceId(scope.workspace), &best).await
}

/// Shortens a list from which hits were removed to `limit` hits: a quarter of the places stays with hits that only meaning found.
pub fn shorten(found: Vec<FoundText>, limit: usize) -> Vec<FoundText> {
    let is_meant = |hit: &FoundText| hit.found_by == FoundBy::Meaning;
    let (meant, mut kept): (Vec<FoundText>, Vec<FoundText>) = found.into_iter().partition(is_meant);
    kept.truncate(limit - (limit / near::SHARE).min(meant.len()));
    kept.extend(meant);
    kept.truncate(limit);
    kept
}

/// The row of a passage with its file and its part, but without the text.
#[derive(sqlx::FromRow)]
struct Row {
    no: i64,
    part: i64,
    from_byte: i64,
    to_byte: i64,
    file_id: FileId,
    name: String,
    content_type: String,
    created_by: UserId,
    created_at: Timestamp,
    message_id: Option<MessageId>,
    channel_id: Option<ChannelId>,
    label: String,
    heading: Option<String>,
    header: Option<String>,
    is_trusted: bool,
}

impl Row {
    /// The passage in the text of its part; `None` if the text has changed since it was cut.
    fn found(self, part: &str, hit: Hit) -> Option<FoundText> {
        let from = usize::try_from(self.from_byte).ok()?;
        let to = usize::try_from(self.to_byte).ok()?;
        let text = part.get(from..to)?;
        let units = |text: &str| i64::try_from(text.encode_utf16().count()).unwrap_or(0);
        let start = units(&part[..from]);
        Some(FoundText {
            no: self.no,
            from: start,
            to: start + units(text),
            header: self.header.filter(|header| !text.contains(header.as_str())),
            label: if self.label.is_empty() {
                self.name.clone()
            } else {
                self.label
            },
            text: text.to_owned(),
            file: self.file_id,
            name: self.name,
            content_type: self.content_type,
            part: self.part,
            heading: self.heading,
            message: self.message_id,
            channel: self.channel_id,
            created_by: self.created_by,
            created_at: self.created_at,
            is_trusted: self.is_trusted,
            score: hit.score,
            found_by: hit.found_by,
        })
    }
}

/// Loads passages by number, in this order, with their scores. The text of each part, which can have several MiB, is read once.
async fn load(
    c: &mut Conn,
    workspace: WorkspaceId,
    hits: &[Hit],
) -> Result<Vec<FoundText>, DbError> {
    let best = hits
        .first()
        .map_or(1.0, |hit| hit.score.max(f64::MIN_POSITIVE));
    let mut rows: Vec<(Hit, usize, Row)> = Vec::with_capacity(hits.len());
    for (at, hit) in hits.iter().enumerate() {
        let row: Option<Row> = c
            .q(concat!(
                "select p.no, p.part, p.from_byte, p.to_byte, f.id as file_id, f.name, f.content_type, f.created_by, f.created_at, \
                 f.message_id, m.channel_id, d.label, d.heading, d.header, ",
                is_trusted_file!("f.id"),
                " as is_trusted from passages p join passage_sets s on s.id = p.set_id join files f on f.id = s.file_id \
                 join document_parts d on d.hash = f.hash and d.n = p.part left join messages m on m.id = f.message_id \
                 where p.workspace_id = $1 and p.no = $2"
            ))
            .bind(workspace)
            .bind(hit.no)
            .opt()
            .await?;
        let hit = Hit {
            score: hit.score / best,
            ..*hit
        };
        rows.extend(row.map(|row| (hit, at, row)));
    }
    rows.sort_by_key(|(_, _, row)| (row.file_id, row.part));
    let mut found: Vec<(usize, FoundText)> = Vec::with_capacity(rows.len());
    let mut read: Option<((FileId, i64), String)> = None;
    for (hit, at, row) in rows {
        let of = (row.file_id, row.part);
        if read.as_ref().is_none_or(|(known, _)| *known != of) {
            // The text before is dropped first.
            drop(read.take());
            let text: Option<(String,)> = c
                .q("select d.text from document_parts d join files f on f.hash = d.hash where f.id = $1 and d.n = $2")
                .bind(row.file_id)
                .bind(row.part)
                .opt()
                .await?;
            read = text.map(|(text,)| (of, text));
        }
        let text = read.as_ref().map_or("", |(_, text)| text.as_str());
        found.extend(row.found(text, hit).map(|found| (at, found)));
    }
    found.sort_by_key(|(at, _)| *at);
    Ok(found.into_iter().map(|(_, found)| found).collect())
}

fn passage(found: FoundText, filter: PassageFilter, phrases: &[Phrase], query: &str) -> Passage {
    Passage {
        object: PassageObject,
        highlight: highlight::excerpt(&found.text, phrases),
        text: highlight::passage(&found.text, query, TEXT_CHARS_MAX),
        found_by: found.found_by,
        file: PassageFile {
            id: found.file,
            name: found.name,
            content_type: found.content_type,
        },
        part: found.part,
        label: found.label,
        from: found.from,
        to: found.to,
        message_id: found.message,
        channel_id: found.channel,
        vector_store_id: filter.store,
        created_at: found.created_at,
    }
}

/// Returns a page of the passages that `actor` can see. `order` is that of `find::order_of`. A vector of the question adds passages to the
/// first page of an order by relevance; the pages after it continue with those that words find.
///
/// # Errors
/// `Invalid` for a cursor of another list or order.
pub async fn find(
    c: &mut Conn,
    actor: &Actor<'_>,
    search: &Search,
    filter: PassageFilter,
    order: Option<SearchOrder>,
    start: PassageStart<'_>,
) -> Result<PassagePage, ChatError> {
    let PassageStart {
        cursor,
        limit,
        asked,
    } = start;
    let mut what = condition(filter);
    if !search.is_any {
        what.all.extend(search.question.with.iter().cloned());
        // A single content word is found in all of its forms.
        if let [group] = search.question.with.as_slice()
            && let Some(last) = what.all.last_mut()
        {
            let forms = any::shown_phrases(&search.question.text);
            last.extend(forms.into_iter().filter(|form| !group.contains(form)));
        }
    }
    what.none.extend(search.question.without.iter().cloned());
    let phrases = if search.is_any {
        any::shown_phrases(&search.question.text)
    } else {
        search.question.with.concat()
    };
    let shown = usize::try_from(limit).unwrap_or(usize::MAX);
    let foreign = || {
        ChatError::Invalid(
            "the cursor does not belong to a search in this order: use `next_cursor` of the previous page".to_owned(),
            "cursor",
        )
    };
    let scope = FileReader::from(actor).scope(filter);
    let (hits, next_cursor) = match order.unwrap_or(SearchOrder::Newest) {
        SearchOrder::Relevance => {
            let [below, skip] = match cursor {
                Some(cursor) => cursor::read(RANKED, cursor).ok_or_else(foreign)?,
                None => [i64::MAX, 0],
            };
            let scope = PassageScope { below, ..scope };
            let (ranked, head) = ranked(c, &scope, &what, search).await?;
            let first = usize::try_from(skip).unwrap_or(usize::MAX);
            let rest = ranked.get(first..).unwrap_or_default();
            let hits = match asked.vector().filter(|_| cursor.is_none()) {
                Some(vector) => {
                    let found = near::find(c, &scope, vector).await?;
                    // The pages after this one have all other hits of words.
                    near::merge(rest, &found, shown, rest.len())
                }
                None => near::by_words(rest.iter().take(shown).copied()),
            };
            let of_words = hits.iter().filter(|hit| hit.found_by != FoundBy::Meaning);
            let taken = of_words.count();
            let after = skip.saturating_add(i64::try_from(taken).unwrap_or(limit));
            let next = (rest.len() > taken).then(|| cursor::write(RANKED, &[head, after]));
            (hits, next)
        }
        order @ (SearchOrder::Newest | SearchOrder::Oldest) => {
            let is_newest = order == SearchOrder::Newest;
            let kind = if is_newest { NEWEST } else { OLDEST };
            let bound = match cursor {
                Some(cursor) => {
                    let [bound] = cursor::read(kind, cursor).ok_or_else(foreign)?;
                    Some(bound)
                }
                None => None,
            };
            let scope = PassageScope {
                below: bound.filter(|_| is_newest).unwrap_or(i64::MAX),
                above: bound.filter(|_| !is_newest).unwrap_or(-1),
                order: if is_newest {
                    Order::Newest
                } else {
                    Order::Oldest
                },
                ..scope
            };
            let found = store::find_passages(c, &scope, &what, limit + 1).await?;
            let has_more = found.len() > shown;
            let found = found.into_iter().take(shown);
            let hits = near::by_words(found.map(|found| (found.no, 1.0)));
            let last = hits.last().filter(|_| has_more);
            let next = last.map(|hit| cursor::write(kind, &[hit.no]));
            (hits, next)
        }
    };
    let ranking = match asked {
        VectorAnswer::Unused => None,
        VectorAnswer::Words => Some(PassageRanking::Words),
        VectorAnswer::Vector(_) => Some(PassageRanking::Both),
    };
    let found = load(c, actor.workspace, &hits).await?.into_iter();
    let text = &search.question.text;
    Ok(PassagePage {
        object: ListObject,
        data: found
            .map(|found| passage(found, filter, &phrases, text))
            .collect(),
        has_more: next_cursor.is_some(),
        next_cursor,
        ranking,
        index: rebuild::find_state(c).await?,
    })
}

/// Ranked passages, best first, and the upper bound of their numbers.
async fn ranked(
    c: &mut Conn,
    scope: &PassageScope<'_>,
    what: &Match,
    search: &Search,
) -> Result<(Vec<(i64, f64)>, i64), DbError> {
    if search.is_any {
        let ranking = any::rank_passages(c, scope, what, &search.question.text, now()).await?;
        let below = ranking.below;
        return Ok((ranking.scores().collect(), below));
    }
    let found = store::find_passages(c, scope, what, RANKED_MAX).await?;
    let head = found.first().map_or(0, |found| found.no + 1);
    let hits = near::by_words(found.iter().map(|found| (found.no, 1.0)));
    let texts = load(c, WorkspaceId(scope.workspace), &hits).await?;
    let scored = texts.iter().map(|found| {
        let candidate = Candidate {
            text: &found.text,
            title: found.heading.as_deref(),
            is_result: false,
        };
        (found.no, rank::score(&candidate, &search.question.with))
    });
    let mut scored: Vec<(i64, f64)> = scored.collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
    Ok((scored, head))
}
