//! Full-text search: FTS5 on `SQLite`, `tsvector` on `PostgreSQL`.
//!
//! Both indexes contain the same words, prepared by `chat::search`; the tokenizers and rankings of the engines are not
//! used. A document is the text of a message as folded words, separated by spaces. A word that starts with `=` is not
//! part of the text but a term for a property of the message, such as `=root`, by which hits are filtered. Every
//! document contains the word `=`, so that a search can consist only of excluded terms.
//!
//! On `SQLite`, the row ID of a document is the workspace's number (`search_spaces`), shifted, plus the seq: each workspace
//! is one range of rows; imported messages, whose seqs are negative, precede the others in the range of the number below, which
//! belongs to no other workspace (`make_room`). So the index is in message order, and a page starts where the previous one ended. On `PostgreSQL`, a document
//! also has its workspace as a word, because the inverted index has no other columns.
//!
//! Word prefixes of two and three letters are also indexed, because a search runs after every keystroke: in FTS5 with
//! the `prefix` option, in a `tsvector` as words that start with `^`.

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::{
    db::{
        Conn, DbError, Engine, Json, Query, is_in_visible_channel, is_readable_store,
        is_shared_channel, now,
    },
    ids::{BEFORE_ALL_SEQS, FileId, ThreadId},
    sql_with_seqs,
    time::Timestamp,
};

/// Number of low bits of `search_index.rowid` for the message; the high bits contain the workspace.
const SPACE_BITS: u32 = 40;
/// Maximum position in a `tsvector`.
const POSITIONS_MAX: usize = 16_383;

/// One or more consecutive words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrase {
    /// Folded words without whitespace; never empty.
    pub words: Vec<String>,
    /// True if the last word also matches longer words that start with it.
    pub is_prefix: bool,
}

impl Phrase {
    pub fn word(word: impl Into<String>) -> Self {
        Self {
            words: vec![word.into()],
            is_prefix: false,
        }
    }
}

/// Condition for documents: at least one phrase of each group in `all`, at least one phrase of each of two groups in `two_of` (which
/// is empty or has at least two groups), and no phrase of `none`.
#[derive(Debug, Clone, Default)]
pub struct Match {
    pub all: Vec<Vec<Phrase>>,
    pub two_of: Vec<Vec<Phrase>>,
    pub none: Vec<Phrase>,
}

/// Operators of an engine's query language.
struct Operators {
    and: &'static str,
    or: &'static str,
    phrase: fn(&Phrase) -> String,
}

impl Operators {
    fn any<'a>(&self, phrases: impl IntoIterator<Item = &'a Phrase>) -> String {
        let list: Vec<String> = phrases.into_iter().map(self.phrase).collect();
        format!("({})", list.join(self.or))
    }

    /// Query for documents that match at least two groups: each group is combined with any of the groups after it. The engines
    /// evaluate this several times faster than the intersection of all unions that lack one group.
    fn two_of(&self, groups: &[Vec<Phrase>]) -> String {
        let mut pairs = Vec::new();
        let mut rest = groups;
        while let [one, others @ ..] = rest
            && !others.is_empty()
        {
            let (one, other) = (self.any(one), self.any(others.iter().flatten()));
            pairs.push(format!("({one}{}{other})", self.and));
            rest = others;
        }
        format!("({})", pairs.join(self.or))
    }

    /// The conditions of `all` and `two_of`.
    fn required(&self, what: &Match) -> Vec<String> {
        let groups = what.all.iter();
        let mut required: Vec<String> = groups.map(|group| self.any(group)).collect();
        if !what.two_of.is_empty() {
            required.push(self.two_of(&what.two_of));
        }
        required
    }
}

/// Quotes a word. Words contain no quotes, but the query must be safe regardless.
fn quote(word: &str, mark: char) -> String {
    let mut out = String::with_capacity(word.len() + 2);
    out.push(mark);
    for c in word.chars() {
        if c == mark || c == '\\' && mark == '\'' {
            out.push(c);
        }
        out.push(c);
    }
    out.push(mark);
    out
}

fn fts5_phrase(phrase: &Phrase) -> String {
    let star = if phrase.is_prefix { " *" } else { "" };
    format!("{}{star}", quote(&phrase.words.join(" "), '"'))
}

const FTS5: Operators = Operators {
    and: " AND ",
    or: " OR ",
    phrase: fts5_phrase,
};

fn fts5(what: &Match) -> String {
    let required = FTS5.required(what);
    let required = if required.is_empty() {
        "\"=\"".to_owned()
    } else {
        required.join(FTS5.and)
    };
    if what.none.is_empty() {
        required
    } else {
        format!("({required}) NOT {}", FTS5.any(&what.none))
    }
}

/// Lengths of indexed word prefixes (`prefix` of `search_index` on `SQLite`).
const PREFIX_LETTERS: [usize; 2] = [2, 3];

/// The first letters of a word; `None` if the word is shorter than that.
fn beginning(word: &str, letters: usize) -> Option<&str> {
    let end = word.char_indices().nth(letters - 1)?;
    word.get(..end.0 + end.1.len_utf8())
}

fn prefix_word(beginning: &str) -> String {
    format!("^{beginning}")
}

fn tsquery_phrase(phrase: &Phrase) -> String {
    if let ([word], true) = (phrase.words.as_slice(), phrase.is_prefix)
        && PREFIX_LETTERS.contains(&word.chars().count())
    {
        return format!("({})", quote(&prefix_word(word), '\''));
    }
    let last = phrase.words.len().saturating_sub(1);
    let words: Vec<String> = phrase
        .words
        .iter()
        .enumerate()
        .map(|(n, word)| {
            let star = if phrase.is_prefix && n == last {
                ":*"
            } else {
                ""
            };
            format!("{}{star}", quote(word, '\''))
        })
        .collect();
    format!("({})", words.join(" <-> "))
}

const TSQUERY: Operators = Operators {
    and: " & ",
    or: " | ",
    phrase: tsquery_phrase,
};

fn tsquery(what: &Match) -> String {
    let mut parts = TSQUERY.required(what);
    if parts.is_empty() {
        parts.push("'='".to_owned());
    }
    let none = what.none.iter();
    parts.extend(none.map(|phrase| format!("!{}", tsquery_phrase(phrase))));
    parts.join(TSQUERY.and)
}

/// Condition for documents of a workspace.
fn tsquery_in(workspace: Uuid, what: &Match) -> String {
    let workspace = quote(&workspace_word(workspace), '\'');
    format!("{workspace}{}{}", TSQUERY.and, tsquery(what))
}

fn workspace_word(workspace: Uuid) -> String {
    format!("=w{}", workspace.simple())
}

/// Builds a `tsvector` from the words of a document with their positions.
fn tsvector(workspace: Uuid, document: &str) -> String {
    let mut out = String::with_capacity(document.len() * 3 + 64);
    out.push_str(&quote(&workspace_word(workspace), '\''));
    let words = document
        .split_ascii_whitespace()
        .filter(|word| !word.starts_with('='));
    let beginnings: BTreeSet<&str> = words
        .flat_map(|word| PREFIX_LETTERS.map(|letters| beginning(word, letters)))
        .flatten()
        .collect();
    for beginning in beginnings {
        out.push(' ');
        out.push_str(&quote(&prefix_word(beginning), '\''));
    }
    for (n, word) in document.split_ascii_whitespace().enumerate() {
        out.push(' ');
        out.push_str(&quote(word, '\''));
        out.push(':');
        out.push_str(&(n + 1).min(POSITIONS_MAX).to_string());
    }
    out
}

/// Condition for a row `s` of `search_spaces` whose range below, that of imported messages, belongs to another workspace.
macro_rules! is_taken_below {
    () => {
        "exists (select 1 from search_spaces p where p.no = s.no - 1)"
    };
}

/// Makes room for documents of imported messages: a workspace from before imports, whose number is directly above another one, gets
/// a new number, and its documents move with it. Must be called before messages with negative numbers are inserted.
pub async fn make_room(c: &mut Conn, workspace: Uuid) -> Result<(), DbError> {
    if c.engine() == Engine::Postgres {
        return Ok(());
    }
    let moved: Option<(i64, i64)> = c
        .q(concat!(
            "select s.no, (select max(a.no) from search_spaces a) + 2 from search_spaces s where s.workspace_id = $1 and ",
            is_taken_below!()
        ))
        .bind(workspace)
        .opt()
        .await?;
    let Some((from, to)) = moved else {
        return Ok(());
    };
    c.q("insert into search_index (rowid, words) select f.rowid + (($2 - $1) << 40), f.words from search_index f \
         where f.rowid >= $1 << 40 and f.rowid < ($1 + 1) << 40 order by f.rowid")
        .bind(from)
        .bind(to)
        .run()
        .await?;
    c.q("delete from search_index where rowid >= $1 << 40 and rowid < ($1 + 1) << 40")
        .bind(from)
        .run()
        .await?;
    c.q("insert into search_passages (rowid, words) select f.rowid + (($2 - $1) << 40), f.words from search_passages f \
         where f.rowid >= $1 << 40 and f.rowid < ($1 + 1) << 40 order by f.rowid")
        .bind(from)
        .bind(to)
        .run()
        .await?;
    c.q("delete from search_passages where rowid >= $1 << 40 and rowid < ($1 + 1) << 40")
        .bind(from)
        .run()
        .await?;
    c.q("update search_spaces set no = $2 where no = $1")
        .bind(from)
        .bind(to)
        .run()
        .await?;
    Ok(())
}

/// Inserts or replaces the document of a message.
pub async fn put_document(
    c: &mut Conn,
    workspace: Uuid,
    seq: i64,
    document: &str,
) -> Result<(), DbError> {
    match c.engine() {
        Engine::Sqlite => {
            // Without room below the workspace's range, an imported message is not found, rather than in another workspace.
            c.q(concat!(
                "insert or replace into search_index (rowid, words) select (s.no << 40) + $2, $3 from search_spaces s \
                 where s.workspace_id = $1 and ($2 >= 0 or not ",
                is_taken_below!(),
                ")"
            ))
                .bind(workspace)
                .bind(seq)
                .bind(document.to_owned())
                .run()
                .await?;
        }
        Engine::Postgres => {
            c.q("insert into search_index (workspace_id, seq, words) values ($1, $2, cast($3 as tsvector)) \
                 on conflict (workspace_id, seq) do update set words = excluded.words")
                .bind(workspace)
                .bind(seq)
                .bind(tsvector(workspace, document))
                .run()
                .await?;
        }
    }
    Ok(())
}

/// Deletes the document of a message, if any. On `SQLite`, its words are immediately overwritten in the index
/// (`secure-delete`).
pub async fn remove_document(c: &mut Conn, workspace: Uuid, seq: i64) -> Result<(), DbError> {
    let q = match c.engine() {
        Engine::Sqlite => c.q(concat!(
            "delete from search_index where rowid = (select (s.no << 40) + $2 from search_spaces s \
                 where s.workspace_id = $1 and ($2 >= 0 or not ",
            is_taken_below!(),
            "))"
        )),
        Engine::Postgres => c.q("delete from search_index where workspace_id = $1 and seq = $2"),
    };
    q.bind(workspace).bind(seq).run().await?;
    Ok(())
}

/// Scope of a search.
#[derive(Debug, Clone, Copy)]
pub struct Scope {
    pub workspace: Uuid,
    /// Person whose channels are searched.
    pub user: Uuid,
    /// Only messages that everyone who can read this channel can read: those of public channels and of the channel
    /// itself.
    pub shared_in: Option<Uuid>,
    pub texts: Texts,
    /// A message that is excluded from the hits.
    pub except: Option<Uuid>,
    /// A conversation of which only the beginning is searched.
    pub part: Option<ConversationPart>,
    /// Exclusive lower bound of message numbers.
    pub above: i64,
    /// Exclusive upper bound of message numbers.
    pub below: i64,
    /// Only messages from this time or later.
    pub since: Option<Timestamp>,
    /// Only messages before this time.
    pub until: Option<Timestamp>,
    pub order: Order,
}

/// The beginning of a conversation.
#[derive(Debug, Clone, Copy)]
pub struct ConversationPart {
    pub conversation: Uuid,
    /// Exclusive upper bound of message numbers.
    pub below: i64,
}

/// Messages that are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Texts {
    All,
    /// Messages that an agent can cite: messages by people, and resolution messages. Other messages by agents are not sources.
    Sources,
}

/// Order of hits by message number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Newest,
    Oldest,
}

/// A matching message.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
pub struct Found {
    pub seq: i64,
    pub thread_id: ThreadId,
    pub created_at: Timestamp,
}

/// Condition for messages that an agent can cite: messages by people, and resolution messages.
macro_rules! is_source {
    ($message:literal) => {
        concat!(
            "(",
            $message,
            ".author_type <> 'agent' or ",
            $message,
            ".kind = 'resolution')"
        )
    };
}
pub(crate) use is_source;

/// Conditions for messages that the person can see. Access is checked against the tables, not against the index.
macro_rules! visible_sql {
    () => {
        concat!(
            "and m.deleted_at is null and m.kind <> 'notice' and m.state <> 'streaming' \
             and (m.created_at >= $6 or $6 is null) and (m.created_at < $7 or $7 is null) and ",
            is_shared_channel!("m.channel_id", "$5", "$9"),
            " and ($10 or ",
            is_source!("m"),
            ") and (m.id <> $11 or $11 is null) and (m.conversation_id <> $12 or m.seq < $13 or $12 is null) "
        )
    };
}

/// Query for hits on `SQLite`. The `cross join` makes the index the outer loop, so that hits come in index order.
macro_rules! sqlite_sql {
    ($order:literal) => {
        concat!(
            "select m.seq, m.thread_id, m.created_at from search_index f cross join messages m \
             where f.words match $2 and f.rowid > $3 and f.rowid < $4 and m.workspace_id = $1 \
             and m.seq = f.rowid - (select s.no << 40 from search_spaces s where s.workspace_id = $1) ",
            visible_sql!(),
            "order by f.rowid ",
            $order,
            " limit $8"
        )
    };
}

macro_rules! postgres_sql {
    ($order:literal) => {
        concat!(
            "select m.seq, m.thread_id, m.created_at from search_index f join messages m on m.workspace_id = f.workspace_id and m.seq = f.seq \
             where f.workspace_id = $1 and f.words @@ cast($2 as tsquery) and f.seq > $3 and f.seq < $4 ",
            visible_sql!(),
            "order by f.seq ",
            $order,
            " limit $8"
        )
    };
}

/// Exclusive bounds of the rows of the index.
struct IndexRange {
    above: i64,
    below: i64,
}

/// Index rows of the documents of a workspace between two exclusive bounds; `None` if the workspace has none.
async fn rows_between(
    c: &mut Conn,
    workspace: Uuid,
    above: i64,
    below: i64,
) -> Result<Option<IndexRange>, DbError> {
    if c.engine() == Engine::Postgres {
        return Ok(Some(IndexRange { above, below }));
    }
    let space: Option<(i64, bool)> = c
        .q(concat!(
            "select s.no, ",
            is_taken_below!(),
            " from search_spaces s where s.workspace_id = $1"
        ))
        .bind(workspace)
        .opt()
        .await?;
    Ok(space.map(|(space, is_taken_below)| {
        let first = if is_taken_below { 0 } else { BEFORE_ALL_SEQS };
        let row = |seq: i64| (space << SPACE_BITS) + seq.clamp(first, (1 << SPACE_BITS) - 1);
        IndexRange {
            above: row(above),
            below: row(below),
        }
    }))
}

/// Matching messages that the person can currently see.
pub async fn find_documents(
    c: &mut Conn,
    scope: &Scope,
    what: &Match,
    limit: i64,
) -> Result<Vec<Found>, DbError> {
    let range = rows_between(c, scope.workspace, scope.above, scope.below).await?;
    let Some(range) = range else {
        return Ok(Vec::new());
    };
    let words = match c.engine() {
        Engine::Sqlite => fts5(what),
        Engine::Postgres => tsquery_in(scope.workspace, what),
    };
    let q = match (c.engine(), scope.order) {
        (Engine::Sqlite, Order::Newest) => c.q(sqlite_sql!("desc")),
        (Engine::Sqlite, Order::Oldest) => c.q(sqlite_sql!("asc")),
        // Planned for each query, because the better plan (a scan from the newest message, or a collection of hits)
        // depends on word frequency.
        (Engine::Postgres, Order::Newest) => c.q(postgres_sql!("desc")).planned_anew(),
        (Engine::Postgres, Order::Oldest) => c.q(postgres_sql!("asc")).planned_anew(),
    };
    q.bind(scope.workspace)
        .bind(words)
        .bind(range.above)
        .bind(range.below)
        .bind(scope.user)
        .bind(scope.since)
        .bind(scope.until)
        .bind(limit)
        .bind(scope.shared_in)
        .bind(scope.texts == Texts::All)
        .bind(scope.except)
        .bind(scope.part.map(|part| part.conversation))
        .bind(scope.part.map_or(i64::MAX, |part| part.below))
        .all()
        .await
}

/// Inserts the document of a passage.
pub async fn put_passage(
    c: &mut Conn,
    workspace: Uuid,
    no: i64,
    document: &str,
) -> Result<(), DbError> {
    let (q, words) = match c.engine() {
        Engine::Sqlite => (
            c.q("insert or replace into search_passages (rowid, words) select (s.no << 40) + $2, $3 from search_spaces s where s.workspace_id = $1"),
            document.to_owned(),
        ),
        Engine::Postgres => (
            c.q("insert into search_passages (workspace_id, no, words) values ($1, $2, cast($3 as tsvector)) \
                 on conflict (workspace_id, no) do update set words = excluded.words"),
            tsvector(workspace, document),
        ),
    };
    q.bind(workspace).bind(no).bind(words).run().await?;
    Ok(())
}

/// Deletes the document of a passage.
pub async fn remove_passage(c: &mut Conn, workspace: Uuid, no: i64) -> Result<(), DbError> {
    let q = match c.engine() {
        Engine::Sqlite => c.q(
            "delete from search_passages where rowid = (select (s.no << 40) + $2 from search_spaces s where s.workspace_id = $1)",
        ),
        Engine::Postgres => c.q("delete from search_passages where workspace_id = $1 and no = $2"),
    };
    q.bind(workspace).bind(no).run().await?;
    Ok(())
}

/// Number of the newest passage of a workspace; 0 if there are none.
pub async fn newest_passage(c: &mut Conn, workspace: Uuid) -> Result<i64, DbError> {
    let newest: Option<i64> = c
        .q("select max(no) from passages where workspace_id = $1")
        .bind(workspace)
        .value()
        .await?;
    Ok(newest.unwrap_or(0))
}

/// Number of passages of a workspace, counted up to a maximum.
pub async fn count_passages(c: &mut Conn, workspace: Uuid, max: i64) -> Result<i64, DbError> {
    c.q("select count(*) from (select 1 from passages where workspace_id = $1 limit $2) x")
        .bind(workspace)
        .bind(max)
        .value()
        .await
}

/// Scope of a search of passages.
#[derive(Debug, Clone, Copy)]
pub struct PassageScope<'a> {
    pub workspace: Uuid,
    /// Person whose files are searched.
    pub user: Uuid,
    /// Only files that everyone who can read this channel can read.
    pub shared_in: Option<Uuid>,
    /// Only files of messages in this channel.
    pub channel: Option<Uuid>,
    pub file: Option<Uuid>,
    /// Only files of this vector store.
    pub store: Option<Uuid>,
    /// Only these files, as from `hexadecimal_ids`.
    pub files: Option<&'a Json<Vec<String>>>,
    /// Exclusive lower bound of passage numbers.
    pub above: i64,
    /// Exclusive upper bound of passage numbers.
    pub below: i64,
    pub order: Order,
}

/// A matching passage.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
pub struct FoundPassage {
    pub no: i64,
    pub file_id: FileId,
    pub created_at: Timestamp,
}

/// Condition for files `f` that the person `$2` can see, with the channel `$3` whose readers can see them too: those who can read a
/// file's message `m` or a vector store with the file, or its uploader. Access is checked against the tables, not against the index.
/// `$among` selects the IDs in the list `$7`, and `$fresh` is true for a vector store `v` that has not expired at the time `$8`.
/// `bound` binds the parameters.
macro_rules! is_visible_file {
    ($among:literal, $fresh:literal) => {
        concat!(
            "((f.message_id is not null and m.deleted_at is null and m.state <> 'streaming' and ",
            is_shared_channel!("m.channel_id", "$2", "$3"),
            ") or (f.message_id is null and f.created_by = $2 and $3 is null) \
             or exists (select 1 from vector_store_files vf join vector_stores v on v.id = vf.store_id where vf.file_id = f.id and ",
            is_readable_store!("$2", "$3"),
            " and ",
            $fresh,
            ")) and (f.id = $4 or $4 is null) and (m.channel_id = $5 or $5 is null) \
             and (exists (select 1 from vector_store_files sf where sf.file_id = f.id and sf.store_id = $6) or $6 is null) and ($7 is null or f.id in (",
            $among,
            ")) "
        )
    };
}

/// `is_visible_file!` on `SQLite`.
macro_rules! is_visible_file_on_sqlite {
    () => {
        is_visible_file!(
            "select unhex(value) from json_each($7)",
            "(v.expires_after_days is null or julianday(v.last_active_at) + v.expires_after_days > julianday($8))"
        )
    };
}

/// `is_visible_file!` on `PostgreSQL`.
macro_rules! is_visible_file_on_postgres {
    () => {
        is_visible_file!(
            "select cast(e.value as uuid) from jsonb_array_elements_text($7) e (value)",
            "(v.expires_after_days is null or v.last_active_at + v.expires_after_days * interval '1 day' > $8)"
        )
    };
}

/// Binds `$1` to `$9`: the scope, the time, and the limit.
fn bound<'c>(q: Query<'c>, scope: &PassageScope<'_>, limit: i64) -> Query<'c> {
    q.bind(scope.workspace)
        .bind(scope.user)
        .bind(scope.shared_in)
        .bind(scope.file)
        .bind(scope.channel)
        .bind(scope.store)
        .bind(scope.files.cloned())
        .bind(now())
        .bind(limit)
}

macro_rules! sqlite_passages_sql {
    ($order:literal) => {
        concat!(
            "select p.no, f.id as file_id, f.created_at from search_passages x cross join passages p join passage_sets s on s.id = p.set_id \
             join files f on f.id = s.file_id left join messages m on m.id = f.message_id \
             where x.words match $10 and x.rowid > $11 and x.rowid < $12 and p.workspace_id = $1 and p.no = (x.rowid & 1099511627775) and ",
            is_visible_file_on_sqlite!(),
            "order by x.rowid ",
            $order,
            " limit $9"
        )
    };
}

macro_rules! postgres_passages_sql {
    ($order:literal) => {
        concat!(
            "select p.no, f.id as file_id, f.created_at from search_passages x join passages p on p.workspace_id = x.workspace_id \
             and p.no = x.no join passage_sets s on s.id = p.set_id \
             join files f on f.id = s.file_id left join messages m on m.id = f.message_id \
             where x.workspace_id = $1 and x.words @@ cast($10 as tsquery) and x.no > $11 and x.no < $12 and ",
            is_visible_file_on_postgres!(),
            "order by x.no ",
            $order,
            " limit $9"
        )
    };
}

/// Matching passages of files that the person can currently see.
pub async fn find_passages(
    c: &mut Conn,
    scope: &PassageScope<'_>,
    what: &Match,
    limit: i64,
) -> Result<Vec<FoundPassage>, DbError> {
    let Some(range) = rows_between(c, scope.workspace, scope.above, scope.below).await? else {
        return Ok(Vec::new());
    };
    let words = match c.engine() {
        Engine::Sqlite => fts5(what),
        Engine::Postgres => tsquery_in(scope.workspace, what),
    };
    let q = match (c.engine(), scope.order) {
        (Engine::Sqlite, Order::Newest) => c.q(sqlite_passages_sql!("desc")),
        (Engine::Sqlite, Order::Oldest) => c.q(sqlite_passages_sql!("asc")),
        (Engine::Postgres, Order::Newest) => c.q(postgres_passages_sql!("desc")).planned_anew(),
        (Engine::Postgres, Order::Oldest) => c.q(postgres_passages_sql!("asc")).planned_anew(),
    };
    bound(q, scope, limit)
        .bind(words)
        .bind(range.above)
        .bind(range.below)
        .all()
        .await
}

/// Maximum number of files that are searched by meaning.
const SETS_MAX: i64 = 1_000_000;

macro_rules! visible_sets_sql {
    ($is_visible:expr) => {
        concat!(
            "select s.id from passage_sets s join files f on f.id = s.file_id left join messages m on m.id = f.message_id \
             where s.workspace_id = $1 and ",
            $is_visible,
            "order by s.id limit $9"
        )
    };
}

/// Sets of passages of the files that the person can currently see.
pub async fn list_visible_sets(
    c: &mut Conn,
    scope: &PassageScope<'_>,
) -> Result<Vec<(Uuid,)>, DbError> {
    let q = match c.engine() {
        Engine::Sqlite => c.q(visible_sets_sql!(is_visible_file_on_sqlite!())),
        Engine::Postgres => c
            .q(visible_sets_sql!(is_visible_file_on_postgres!()))
            .planned_anew(),
    };
    bound(q, scope, SETS_MAX).all().await
}

/// A conversation whose older messages are searched.
#[derive(Debug, Clone)]
pub struct ConversationScope {
    pub workspace: Uuid,
    pub conversation: Uuid,
    /// Person who reads the conversation.
    pub user: Uuid,
    /// The conversation's term in its documents.
    pub term: Phrase,
    /// Exclusive upper bound of message numbers.
    pub below: i64,
    /// Result of `has_most`.
    pub has_most: bool,
}

/// A conversation that has at least this many of the newest `MOST_OF` sequence numbers probably contains most of the workspace's
/// messages. Not every sequence number belongs to a message, because events also use them.
const MOST: i64 = 1_000;
const MOST_OF: i64 = 4_000;

/// Checks whether a conversation probably contains most of the messages before `below`. For each word, FTS5 reads the list of all
/// documents in the conversation. If the list is long, this takes longer than looking up the conversation of each message that
/// contains the word. Returns false on `PostgreSQL`, which looks up each document anyway.
pub async fn has_most(c: &mut Conn, conversation: Uuid, below: i64) -> Result<bool, DbError> {
    if c.engine() == Engine::Postgres {
        return Ok(false);
    }
    let seq: Option<(i64,)> = c
        .q("select seq from messages where conversation_id = $1 and seq < $2 order by seq desc limit 1 offset $3")
        .bind(conversation)
        .bind(below)
        .bind(MOST - 1)
        .opt()
        .await?;
    Ok(seq.is_some_and(|(seq,)| below - seq <= MOST_OF))
}

macro_rules! older_sql {
    ($condition:literal) => {
        concat!(
            "select f.rowid - (select s.no << 40 from search_spaces s where s.workspace_id = $2) from search_index f where f.words match $1 \
             and f.rowid > (select case when ",
            is_taken_below!(),
            " then s.no else s.no - 1 end << 40 from search_spaces s where s.workspace_id = $2) \
             and f.rowid < (select (s.no << 40) + $3 from search_spaces s where s.workspace_id = $2) ",
            $condition,
            " order by f.rowid desc limit $4"
        )
    };
}

/// Sequence numbers of matching messages of a conversation before `below`, newest first. They come from the index, so the caller must
/// check access with `list_readable`.
pub async fn find_in_conversation(
    c: &mut Conn,
    scope: &ConversationScope,
    what: &Match,
    below: i64,
    limit: i64,
) -> Result<Vec<(i64,)>, DbError> {
    let mut in_conversation = what.clone();
    in_conversation.all.push(vec![scope.term.clone()]);
    let has_most = scope.has_most && c.engine() == Engine::Sqlite;
    let q = match (c.engine(), has_most) {
        (Engine::Sqlite, true) => c
            .q(older_sql!(
                "and exists (select 1 from messages m where m.conversation_id = $5 \
                 and m.seq = f.rowid - (select s.no << 40 from search_spaces s where s.workspace_id = $2))"
            ))
            .bind(fts5(what)),
        (Engine::Sqlite, false) => c.q(older_sql!("")).bind(fts5(&in_conversation)),
        (Engine::Postgres, _) => c
            .q("select f.seq from search_index f where f.words @@ cast($1 as tsquery) and f.workspace_id = $2 and f.seq < $3 \
                order by f.seq desc limit $4")
            .planned_anew()
            .bind(tsquery(&in_conversation)),
    };
    let q = q.bind(scope.workspace).bind(below).bind(limit);
    if has_most {
        q.bind(scope.conversation).all().await
    } else {
        q.all().await
    }
}

/// Messages of a conversation with these sequence numbers that the person can read, in no particular order.
pub async fn list_readable(
    c: &mut Conn,
    scope: &ConversationScope,
    seqs: Vec<i64>,
) -> Result<Vec<Found>, DbError> {
    let sql = sql_with_seqs!(
        c,
        concat!(
            "select m.seq, m.thread_id, m.created_at from messages m where m.deleted_at is null and m.kind <> 'notice' \
             and m.state <> 'streaming' and ",
            is_in_visible_channel!("m.channel_id", "$2"),
            " and"
        ),
        "conversation_id" = 1,
        3,
        ""
    );
    c.q(sql)
        .bind(scope.conversation)
        .bind(scope.user)
        .bind(Json(seqs))
        .all()
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phrase(words: &[&str], is_prefix: bool) -> Phrase {
        Phrase {
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            is_prefix,
        }
    }

    #[test]
    fn match_expressions_are_built_for_each_engine() {
        let what = Match {
            all: vec![
                vec![phrase(&["red", "apple"], false)],
                vec![phrase(&["=ca"], false), phrase(&["=cb"], false)],
                vec![phrase(&["pi"], true)],
            ],
            none: vec![phrase(&["x"], false), phrase(&["y"], false)],
            ..Match::default()
        };
        assert_eq!(
            fts5(&what),
            r#"(("red apple") AND ("=ca" OR "=cb") AND ("pi" *)) NOT ("x" OR "y")"#
        );
        let workspace = Uuid::nil();
        let word = "=w00000000000000000000000000000000";
        assert_eq!(
            tsquery_in(workspace, &what),
            format!(
                "'{word}' & (('red' <-> 'apple')) & (('=ca') | ('=cb')) & (('^pi')) & !('x') & !('y')"
            )
        );
        let all = Match::default();
        assert_eq!(fts5(&all), "\"=\"");
        assert_eq!(tsquery_in(workspace, &all), format!("'{word}' & '='"));
        assert_eq!(
            tsvector(workspace, "a = bär =root"),
            format!("'{word}' '^bä' '^bär' 'a':1 '=':2 'bär':3 '=root':4")
        );
        let longer = phrase(&["pine"], true);
        assert_eq!(tsquery_phrase(&longer), "('pine':*)");
    }

    #[test]
    fn two_of_some_groups_are_a_condition() {
        let [a, b, c] = ["a", "b", "c"].map(|word| phrase(&[word], false));
        let what = Match {
            all: vec![vec![phrase(&["x"], false)]],
            two_of: vec![vec![a], vec![b], vec![c]],
            ..Match::default()
        };
        assert_eq!(
            fts5(&what),
            r#"("x") AND ((("a") AND ("b" OR "c")) OR (("b") AND ("c")))"#
        );
        assert_eq!(
            tsquery(&what),
            "(('x')) & (((('a')) & (('b') | ('c'))) | ((('b')) & (('c'))))"
        );
    }

    #[test]
    fn a_quote_in_a_word_is_escaped() {
        assert_eq!(quote("a\"b", '"'), "\"a\"\"b\"");
        assert_eq!(quote("a'b\\", '\''), "'a''b\\\\'");
    }
}
