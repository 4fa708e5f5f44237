//! Full-text search: FTS5 on `SQLite`, `tsvector` on `PostgreSQL`.
//!
//! Both indexes contain the same words, prepared by `chat::search`; the tokenizers and rankings of the engines are not
//! used. A document is the text of a message as folded words, separated by spaces. A word that starts with `=` is not
//! part of the text but a term for a property of the message, such as `=root`, by which hits are filtered. Every
//! document contains the word `=`, so that a search can consist only of excluded terms.
//!
//! On `SQLite`, the row ID of a document consists of workspace and seq (`search_spaces`): each workspace is one range
//! of rows, the index is in message order, and a page starts where the previous one ended. On `PostgreSQL`, a document
//! also has its workspace as a word, because the inverted index has no other columns.
//!
//! Word prefixes of two and three letters are also indexed, because a search runs after every keystroke: in FTS5 with
//! the `prefix` option, in a `tsvector` as words that start with `^`.

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::{
    db::{Conn, DbError, Engine, is_shared_channel},
    ids::ThreadId,
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

/// Condition for documents: at least one phrase of each group in `all`, and no phrase of `none`.
#[derive(Debug, Clone, Default)]
pub struct Match {
    pub all: Vec<Vec<Phrase>>,
    pub none: Vec<Phrase>,
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

fn fts5(what: &Match) -> String {
    let any = |phrases: &[Phrase]| {
        let list: Vec<String> = phrases.iter().map(fts5_phrase).collect();
        format!("({})", list.join(" OR "))
    };
    let all: Vec<String> = what.all.iter().map(|group| any(group)).collect();
    let all = if all.is_empty() {
        "\"=\"".to_owned()
    } else {
        all.join(" AND ")
    };
    if what.none.is_empty() {
        all
    } else {
        format!("({all}) NOT {}", any(&what.none))
    }
}

/// Lengths of indexed word prefixes (`prefix` of `search_index` on `SQLite`).
const PREFIX_LETTERS: [usize; 2] = [2, 3];

/// The first letters of a word; `None` if it is shorter.
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

fn tsquery(workspace: Uuid, what: &Match) -> String {
    let mut parts = vec![quote(&workspace_word(workspace), '\'')];
    for group in &what.all {
        let list: Vec<String> = group.iter().map(tsquery_phrase).collect();
        parts.push(format!("({})", list.join(" | ")));
    }
    for phrase in &what.none {
        parts.push(format!("!{}", tsquery_phrase(phrase)));
    }
    if what.all.is_empty() {
        parts.push("'='".to_owned());
    }
    parts.join(" & ")
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

/// Inserts or replaces the document of a message.
pub async fn put_document(
    c: &mut Conn,
    workspace: Uuid,
    seq: i64,
    document: &str,
) -> Result<(), DbError> {
    match c.engine() {
        Engine::Sqlite => {
            c.q("insert or replace into search_index (rowid, words) select (s.no << 40) + $2, $3 from search_spaces s where s.workspace_id = $1")
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
        Engine::Sqlite => c.q(
            "delete from search_index where rowid = (select (s.no << 40) + $2 from search_spaces s where s.workspace_id = $1)",
        ),
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

/// Messages that are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Texts {
    All,
    /// Messages that an agent can cite: those by people, and resolution messages. Other texts by agents are not
    /// sources.
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

/// Access is checked against the tables, not against the index.
macro_rules! visible_sql {
    () => {
        concat!(
            "and m.deleted_at is null and m.kind <> 'notice' and m.state <> 'streaming' \
             and (m.created_at >= $6 or $6 is null) and (m.created_at < $7 or $7 is null) and ",
            is_shared_channel!("m.channel_id", "$5", "$9"),
            " and ($10 or ",
            is_source!("m"),
            ") and (m.id <> $11 or $11 is null) "
        )
    };
}

/// The `cross join` makes the index the outer loop, so that hits come in index order.
macro_rules! sqlite_sql {
    ($order:literal) => {
        concat!(
            "select m.seq, m.thread_id, m.created_at from search_index f cross join messages m \
             where f.words match $2 and f.rowid > $3 and f.rowid < $4 and m.workspace_id = $1 and m.seq = (f.rowid & 1099511627775) ",
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

/// Rows of the messages in the scope; `None` if the workspace has none.
async fn index_range(c: &mut Conn, scope: &Scope) -> Result<Option<IndexRange>, DbError> {
    if c.engine() == Engine::Postgres {
        return Ok(Some(IndexRange {
            above: scope.above,
            below: scope.below,
        }));
    }
    let space: Option<(i64,)> = c
        .q("select no from search_spaces where workspace_id = $1")
        .bind(scope.workspace)
        .opt()
        .await?;
    Ok(space.map(|(space,)| {
        let row = |seq: i64| (space << SPACE_BITS) + seq.clamp(0, (1 << SPACE_BITS) - 1);
        IndexRange {
            above: row(scope.above),
            below: row(scope.below),
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
    let Some(range) = index_range(c, scope).await? else {
        return Ok(Vec::new());
    };
    let words = match c.engine() {
        Engine::Sqlite => fts5(what),
        Engine::Postgres => tsquery(scope.workspace, what),
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
        };
        assert_eq!(
            fts5(&what),
            r#"(("red apple") AND ("=ca" OR "=cb") AND ("pi" *)) NOT ("x" OR "y")"#
        );
        let workspace = Uuid::nil();
        let word = "=w00000000000000000000000000000000";
        assert_eq!(
            tsquery(workspace, &what),
            format!(
                "'{word}' & (('red' <-> 'apple')) & (('=ca') | ('=cb')) & (('^pi')) & !('x') & !('y')"
            )
        );
        let all = Match::default();
        assert_eq!(fts5(&all), "\"=\"");
        assert_eq!(tsquery(workspace, &all), format!("'{word}' & '='"));
        assert_eq!(
            tsvector(workspace, "a = bär =root"),
            format!("'{word}' '^bä' '^bär' 'a':1 '=':2 'bär':3 '=root':4")
        );
        let longer = phrase(&["pine"], true);
        assert_eq!(tsquery_phrase(&longer), "('pine':*)");
    }

    #[test]
    fn a_quote_in_a_word_is_escaped() {
        assert_eq!(quote("a\"b", '"'), "\"a\"\"b\"");
        assert_eq!(quote("a'b\\", '\''), "'a''b\\\\'");
    }
}
