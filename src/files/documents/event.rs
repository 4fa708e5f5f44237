//! Files with what was read of them, and events about it.

use serde::Serialize;
use utoipa::ToSchema;

use super::rows::{DocumentState, DocumentStatus, find_document};
use crate::{
    db::{Conn, DbError},
    files::{File, Stored, rows},
    ids::{ChannelId, FileId, UserId, WorkspaceId},
    realtime::{
        Audience, EventData, EventType, NewEvent,
        log::{self, Recipients},
    },
};

/// Maximum number of files of a workspace with the same bytes for which an event is sent.
const FILES_MAX: i64 = 100;

/// A file with what was read of it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct FileWithText {
    #[serde(flatten)]
    pub file: File,
    pub document: DocumentStatus,
}

impl Stored {
    /// The file with what was read of it.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn with_text(self, c: &mut Conn) -> Result<FileWithText, DbError> {
        let document = find_document(c, &self.blob.hash).await?;
        let none = DocumentStatus {
            state: DocumentState::None,
            reason: None,
            parts: 0,
        };
        Ok(FileWithText {
            document: document.map_or(none, |row| row.document()),
            file: self.into(),
        })
    }
}

#[derive(Serialize, ToSchema)]
pub struct FileEvent<'a> {
    pub file: &'a FileWithText,
}

impl EventData for FileEvent<'_> {
    const TYPES: &'static [EventType] = &[EventType::FileUpdated];
}

/// A file, and the channel of its message.
#[derive(sqlx::FromRow)]
struct Place {
    id: FileId,
    channel_id: Option<ChannelId>,
    is_public: bool,
}

/// Appends `file.updated` for the files of a workspace with these bytes, for the people who can read them.
pub(super) async fn announce(
    c: &mut Conn,
    workspace: WorkspaceId,
    hash: &str,
) -> Result<(), DbError> {
    let places: Vec<Place> = c
        .q("select f.id, m.channel_id, coalesce(ch.kind = 'public', FALSE) as is_public from files f \
            left join messages m on m.id = f.message_id left join channels ch on ch.id = m.channel_id \
            where f.workspace_id = $1 and f.hash = $2 and f.is_avatar = FALSE order by f.created_at desc limit $3")
        .bind(workspace)
        .bind(hash.to_owned())
        .bind(FILES_MAX)
        .all()
        .await?;
    for place in places {
        let Some(stored) = rows::find(c, place.id).await? else {
            continue;
        };
        append(c, workspace, stored, &place).await?;
    }
    Ok(())
}

async fn append(
    c: &mut Conn,
    workspace: WorkspaceId,
    stored: Stored,
    place: &Place,
) -> Result<(), DbError> {
    let (uploader, message) = (stored.about.created_by, stored.message_id);
    let file = stored.with_text(c).await?;
    let data = FileEvent { file: &file };
    let (audience, only) = readers(place, uploader);
    let seq = log::reserve(c, workspace, 1).await?;
    let event = NewEvent::new(seq, EventType::FileUpdated, audience, &data)?
        .only_to(only)
        .about(message);
    log::append(c, workspace, event).await
}

/// Readers of a file: those of its message, or its uploader.
fn readers(place: &Place, uploader: UserId) -> (Audience, Option<Recipients>) {
    if let Some(channel) = place.channel_id {
        let audience = if place.is_public {
            Audience::Public(channel)
        } else {
            Audience::Members(channel)
        };
        return (audience, None);
    }
    let only = Recipients {
        users: vec![uploader],
        managers: false,
    };
    (Audience::Workspace, Some(only))
}
