//! The parts of an archive in our format, in a fixed order. A position is all that is needed to continue.

use super::{
    error::ExportError,
    lists::{self, List},
    messages,
    page::{Content, FilePage, Page, Position},
    view::{FileBytes, View, is_exported},
};
use crate::{
    db::{Conn, is_example},
    files::clean_name,
    ids::FileId,
    storage::Blob,
};

/// Parts of an archive, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    List(List),
    Messages,
    Files,
    /// Pictures of custom emoji.
    Pictures,
}

/// Later parts are added at the end: an export that is being written has the number of its part.
const PARTS: [Part; 17] = [
    Part::List(List::People),
    Part::List(List::Bots),
    Part::List(List::Hooks),
    Part::List(List::Channels),
    Part::List(List::Threads),
    Part::List(List::Forks),
    Part::List(List::Resolutions),
    Part::List(List::ActionItems),
    Part::List(List::Memories),
    Part::List(List::Workflows),
    Part::List(List::Schedules),
    Part::List(List::Agents),
    Part::Messages,
    Part::Files,
    Part::List(List::Emoji),
    Part::Pictures,
    Part::List(List::AgentIds),
];

/// The page after a position; `None` at the end.
///
/// # Errors
/// `Db`, `Agent`.
pub(super) async fn next(
    c: &mut Conn,
    view: &View,
    position: &Position,
) -> Result<Option<Page>, ExportError> {
    let mut at = position.clone();
    while let Some(part) = PARTS.get(at.part) {
        let page = match part {
            Part::List(list) => lists::next(c, view, *list, &at).await?,
            Part::Messages => messages::next(c, view, &at).await?,
            Part::Files => {
                let named = |id: FileId, name: &str| format!("files/{id}/{name}");
                next_file(c, view, &at, named).await?
            }
            Part::Pictures => next_picture(c, view, &at).await?,
        };
        if page.is_some() {
            return Ok(page);
        }
        at = Position {
            part: at.part + 1,
            ..Position::default()
        };
    }
    Ok(None)
}

#[derive(sqlx::FromRow)]
struct FileRow {
    id: FileId,
    name: String,
    size_bytes: i64,
    #[sqlx(flatten)]
    blob: Blob,
}

/// The next file of a message that is not deleted. `named` returns the name of its entry.
pub(super) async fn next_file(
    c: &mut Conn,
    view: &View,
    at: &Position,
    named: impl Fn(FileId, &str) -> String,
) -> Result<Option<Page>, ExportError> {
    const SQL: &str = concat!(
        "select f.id, f.name, f.size_bytes, b.hash, b.upload_id, b.store from files f join blobs b on b.hash = f.hash \
         join messages m on m.id = f.message_id join channels ch on ch.id = m.channel_id \
         where f.workspace_id = $1 and f.id > $2 and m.deleted_at is null and ",
        is_exported!("ch"),
        " and not ",
        is_example!("m.thread_id"),
        " order by f.id limit $3"
    );
    if view.files == FileBytes::LeftOut {
        return Ok(None);
    }
    let row: Option<FileRow> = c
        .q(SQL)
        .bind(view.workspace)
        .bind(at.after)
        .bind(1_i64)
        .bind(view.reader())
        .bind(view.is_everything())
        .opt()
        .await?;
    Ok(row.map(|row| {
        let name = named(row.id, &clean_name(&row.name));
        file_page(row, name, at)
    }))
}

fn file_page(row: FileRow, name: String, at: &Position) -> Page {
    Page {
        content: Content::File(FilePage {
            name,
            size_bytes: row.size_bytes.unsigned_abs(),
            blob: row.blob,
        }),
        next: Position {
            after: row.id.0,
            ..at.clone()
        },
    }
}

/// The next picture of a custom emoji.
async fn next_picture(
    c: &mut Conn,
    view: &View,
    at: &Position,
) -> Result<Option<Page>, ExportError> {
    if view.files == FileBytes::LeftOut {
        return Ok(None);
    }
    let row: Option<FileRow> = c
        .q("select f.id, f.name, f.size_bytes, b.hash, b.upload_id, b.store from files f join blobs b on b.hash = f.hash \
            where f.workspace_id = $1 and f.id > $2 and exists (select 1 from emoji e where e.workspace_id = $1 and e.file_id = f.id) \
            order by f.id limit 1")
        .bind(view.workspace)
        .bind(at.after)
        .opt()
        .await?;
    Ok(row.map(|row| {
        let name = format!("files/{}/{}", row.id, clean_name(&row.name));
        file_page(row, name, at)
    }))
}
