//! Events about the progress of imports, for those who can see them.

use serde::Serialize;
use utoipa::ToSchema;

use super::{options::ImportFormat, state::ImportState};
use crate::{
    db::{Conn, DbError},
    ids::{ImportId, UserId, WorkspaceId},
    realtime::{
        Audience, EventData, EventType, NewEvent,
        log::{self, Recipients},
    },
};

/// Maximum number of admins who receive an event.
const ADMINS_MAX: i64 = 1000;

/// The state of an import; `GET /v1/imports/{id}` has more.
#[derive(Serialize, ToSchema)]
pub struct ImportEvent {
    pub import_id: ImportId,
    #[schema(inline)]
    pub state: ImportState,
    /// Messages that were read, and all of them.
    pub done: i64,
    pub total: i64,
}

impl EventData for ImportEvent {
    const TYPES: &'static [EventType] = &[EventType::ImportUpdated];
}

/// Columns of an import for its event.
#[derive(sqlx::FromRow)]
struct ImportHead {
    workspace_id: WorkspaceId,
    created_by: UserId,
    format: Option<ImportFormat>,
    state: ImportState,
    done: i64,
    total: i64,
}

/// Appends `import.updated` for the admins, or for the person whose chats are imported. Does nothing if the import was deleted.
///
/// # Errors
/// Only database errors.
pub(super) async fn announce_import(c: &mut Conn, id: ImportId) -> Result<(), DbError> {
    let row: Option<ImportHead> = c
        .q("select workspace_id, created_by, format, state, done, total from imports where id = $1")
        .bind(id)
        .opt()
        .await?;
    let Some(row) = row else {
        return Ok(());
    };
    let users = if row.format == Some(ImportFormat::Chats) {
        vec![row.created_by]
    } else {
        let admins: Vec<(UserId,)> = c
            .q("select user_id from members where workspace_id = $1 and role = 'admin' and status = 'active' order by user_id limit $2")
            .bind(row.workspace_id)
            .bind(ADMINS_MAX)
            .all()
            .await?;
        admins.into_iter().map(|row| row.0).collect()
    };
    let data = ImportEvent {
        import_id: id,
        state: row.state,
        done: row.done,
        total: row.total,
    };
    let seq = log::reserve(c, row.workspace_id, 1).await?;
    let event = NewEvent::new(seq, EventType::ImportUpdated, Audience::Workspace, &data)?.only_to(
        Some(Recipients {
            users,
            managers: false,
        }),
    );
    log::append(c, row.workspace_id, event).await
}
