//! Next content of an archive, and the position after it.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{error::ExportError, view::View};
use crate::{
    db::{Conn, FromAnyRow},
    storage::Blob,
};

/// Number of rows that are read at once.
pub(super) const PAGE: i64 = 100;

/// Layout of the rows of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// One JSON object per line. A large entry continues in another one.
    Lines,
    /// One JSON object.
    Object,
    /// A JSON array, which is never divided: its packed bytes are in memory until its end.
    Array,
}

/// Rows of an entry.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    /// Name of the entry; the rows of one name follow each other.
    pub(super) name: String,
    pub(super) shape: Shape,
    /// Kind under which the rows are counted, if they are.
    pub(super) kind: Option<&'static str>,
    pub(super) rows: Vec<String>,
}

/// A file.
#[derive(Debug, Clone)]
pub(super) struct FilePage {
    pub(super) name: String,
    pub(super) size_bytes: u64,
    pub(super) blob: Blob,
}

#[derive(Debug, Clone)]
pub(super) enum Content {
    Rows(Rows),
    File(FilePage),
    /// Nothing up to the next position.
    Nothing,
}

/// Content that is written next, and the position after it.
#[derive(Debug, Clone)]
pub(super) struct Page {
    pub(super) content: Content,
    pub(super) next: Position,
}

/// Messages of a channel: those of its threads, then those of its deep dives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    #[default]
    Threads,
    Forks,
}

/// Position in the data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Position {
    /// Number of the part.
    pub(super) part: usize,
    /// The last row that was read.
    pub(super) after: Uuid,
    /// The channel whose messages are read; nil before the first one.
    pub(super) channel: Uuid,
    pub(super) line: Line,
    /// First message of the thread, or the fork; nil before the first one.
    pub(super) root: Uuid,
    pub(super) conversation: Uuid,
    pub(super) seq: i64,
}

/// Place at which an archive goes on after its last entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Place {
    pub(super) position: Position,
    /// Name of the last entry, and how many entries have been made from it.
    pub(super) name: String,
    pub(super) number: u32,
}

/// Reads rows with the parameters `$1` workspace, `$2` last row, and `$3` number of rows.
pub(super) async fn of_workspace<T: FromAnyRow>(
    c: &mut Conn,
    view: &View,
    sql: &'static str,
    after: Uuid,
) -> Result<Vec<T>, ExportError> {
    let rows = c.q(sql).bind(view.workspace).bind(after).bind(PAGE);
    Ok(rows.all().await?)
}

/// Reads rows with the parameters `$1` workspace or another object, `$2` last row, `$3` number of rows, `$4` reader, and `$5` whether
/// everything is exported.
pub(super) async fn exported<T: FromAnyRow>(
    c: &mut Conn,
    view: &View,
    sql: &'static str,
    of: Uuid,
    after: Uuid,
) -> Result<Vec<T>, ExportError> {
    let rows = c
        .q(sql)
        .bind(of)
        .bind(after)
        .bind(PAGE)
        .bind(view.reader())
        .bind(view.is_everything());
    Ok(rows.all().await?)
}
