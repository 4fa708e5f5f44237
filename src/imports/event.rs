//! Events about the progress of imports, for those who can see them.

use serde::Serialize;
use utoipa::ToSchema;

use super::row::{self, ImportState};
use crate::{
    db::{Conn, DbError},
    ids::{ImportId, UserId},
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

/// Appends `import.updated` for the admins, or for the person whose chats are imported. Does nothing if the import was deleted.
///
/// # Errors
/// Only database errors.
pub(super) async fn announce_import(c: &mut Conn, id: ImportId) -> Result<(), DbError> {
    let Some(row) = row::find(c, id).await? else {
        return Ok(());
    };
    let users = if row.is_of_person() {
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
