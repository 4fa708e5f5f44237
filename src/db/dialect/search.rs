//! Full-text search: FTS5 on `SQLite`, `tsvector` on `PostgreSQL`.
//!
//! Both hold the same words, made by `chat::search`; neither engine's own tokeniser or ranking decides anything. A document is the
//! text of one message as folded words with a space between them; a word that begins with `=` is no word of the text but a fact
//! about the message (`=root`), by which hits are narrowed down. Every document has the word `=`, so that a search may ask for
//! facts alone.
//!
//! On `SQLite` the row of a document is numbered by workspace and seq (`search_spaces`), so that one range of rows is one
//! workspace, newest first is the order of the index, and the next page begins where this one ended. On `PostgreSQL` a document
//! has its workspace as a word too, because the inverted index knows no other column.
//!
//! Beginnings of words with two or three letters are indexed as well, since a search runs with every letter that is typed: in FTS5 by
//! its `prefix` option, in a `tsvector` as words that begin with `^`.

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::{
    db::{Conn, DbError, Engine},
    time::Timestamp,
};

/// Numbers of messages lie below this in `search_index.rowid`, the workspace's number above.
const SPACE_BITS: u32 = 40;
/// Positions that a `tsvector` can tell apart.
const POSITIONS_MAX: usize = 16_383;

/// Words that stand one after another; one word is a phrase too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrase {
    /// Folded, without white space; never empty.
    pub words: Vec<String>,
    /// The last word may be the beginning of a longer one.
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

/// What a document has to hold: one phrase of each of `all`, and none of `none`.
#[derive(Debug, Clone, Default)]
pub struct Match {
    pub all: Vec<Vec<Phrase>>,
    pub none: Vec<Phrase>,
}

/// Words go between quotes; they hold none, but a search must not hang on that.
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

/// Letters of the beginnings of words that have an index of their own (`prefix` of `search_index` on `SQLite`).
const PREFIX_LETTERS: [usize; 2] = [2, 3];

/// The first letters of a word, or `None` if it is shorter.
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

/// A `tsvector` with these words at their places.
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

/// Stores the document of a message in place of the one that it may have.
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

/// Removes the document of a message, if it has one. On `SQLite` its words are overwritten in the index at once
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

/// Where and when to look.
#[derive(Debug, Clone, Copy)]
pub struct Scope {
    pub workspace: Uuid,
    /// Whose channels.
    pub user: Uuid,
    /// Only numbers above this one…
    pub above: i64,
    /// …and below this one.
    pub below: i64,
    /// Only what was said then or later.
    pub since: Option<Timestamp>,
    /// Only what was said earlier.
    pub until: Option<Timestamp>,
    pub order: Order,
}

/// Order of hits by their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Newest,
    Oldest,
}

/// Numbers of messages that match and that the person may see now.
pub async fn find_documents(
    c: &mut Conn,
    scope: &Scope,
    what: &Match,
    limit: i64,
) -> Result<Vec<i64>, DbError> {
    /// Rights are asked of the rows, not of the index.
    macro_rules! visible {
        () => {
            "and m.deleted_at is null and m.kind <> 'notice' and m.state <> 'streaming' \
             and (m.created_at >= $6 or $6 is null) and (m.created_at < $7 or $7 is null) \
             and exists (select 1 from channels ch where ch.id = m.channel_id and (ch.kind = 'public' \
               or exists (select 1 from channel_members cm where cm.channel_id = ch.id and cm.user_id = $5))) "
        };
    }
    let rows: Vec<(i64,)> = match c.engine() {
        Engine::Sqlite => {
            let space: Option<(i64,)> = c
                .q("select no from search_spaces where workspace_id = $1")
                .bind(scope.workspace)
                .opt()
                .await?;
            let Some((space,)) = space else {
                return Ok(Vec::new());
            };
            let row = |seq: i64| (space << SPACE_BITS) + seq.clamp(0, (1 << SPACE_BITS) - 1);
            /// `cross join` keeps the index in front: its order is the answer's.
            macro_rules! find {
                ($order:literal) => {
                    concat!(
                        "select m.seq from search_index f cross join messages m \
                         where f.words match $2 and f.rowid > $3 and f.rowid < $4 and m.workspace_id = $1 and m.seq = (f.rowid & 1099511627775) ",
                        visible!(),
                        "order by f.rowid ",
                        $order,
                        " limit $8"
                    )
                };
            }
            c.q(match scope.order {
                Order::Newest => find!("desc"),
                Order::Oldest => find!("asc"),
            })
            .bind(scope.workspace)
            .bind(fts5(what))
            .bind(row(scope.above))
            .bind(row(scope.below))
            .bind(scope.user)
            .bind(scope.since)
            .bind(scope.until)
            .bind(limit)
            .all()
            .await?
        }
        // Planned each time: whether to walk back from the newest or to collect hits depends on how rare the words are.
        Engine::Postgres => {
            macro_rules! find {
                ($order:literal) => {
                    concat!(
                        "select m.seq from search_index f join messages m on m.workspace_id = f.workspace_id and m.seq = f.seq \
                         where f.workspace_id = $1 and f.words @@ cast($2 as tsquery) and f.seq > $3 and f.seq < $4 ",
                        visible!(),
                        "order by f.seq ",
                        $order,
                        " limit $8"
                    )
                };
            }
            c.q(match scope.order {
                Order::Newest => find!("desc"),
                Order::Oldest => find!("asc"),
            })
            .planned_anew()
            .bind(scope.workspace)
            .bind(tsquery(scope.workspace, what))
            .bind(scope.above)
            .bind(scope.below)
            .bind(scope.user)
            .bind(scope.since)
            .bind(scope.until)
            .bind(limit)
            .all()
            .await?
        }
    };
    Ok(rows.into_iter().map(|row| row.0).collect())
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
    fn a_match_in_the_language_of_each_engine() {
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
    fn a_quote_in_a_word_ends_nothing() {
        assert_eq!(quote("a\"b", '"'), "\"a\"\"b\"");
        assert_eq!(quote("a'b\\", '\''), "'a''b\\\\'");
    }
}
