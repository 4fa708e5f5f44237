//! Files with the state of their text, and events about it.

use serde::Serialize;
use utoipa::ToSchema;

use super::rows::{DocumentState, DocumentStatus, find_document};
use crate::{
    db::{Conn, DbError},
    files::{File, Stored, rows},
    ids::{ChannelId, FileId, ForkId, ThreadId, UserId, WorkspaceId},
    realtime::{
        Audience, EventData, EventType, NewEvent,
        log::{self, Recipients},
    },
};

/// Maximum number of files of a workspace with the same bytes for which an event is sent.
const FILES_MAX: i64 = 100;

/// A file with the state of its text.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct FileWithText {
    #[serde(flatten)]
    pub file: File,
    pub document: DocumentStatus,
}

impl Stored {
    /// The file with the state of its text.
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
    thread_id: Option<ThreadId>,
    fork_id: Option<ForkId>,
    is_public: bool,
}

/// Appends `file.updated` for the files of a workspace with these bytes, for the people who can read them.
pub(super) async fn announce(
    c: &mut Conn,
    workspace: WorkspaceId,
    hash: &str,
) -> Result<(), DbError> {
    let places: Vec<Place> = c
        .q("select f.id, m.channel_id, m.thread_id, nullif(m.conversation_id, m.thread_id) as fork_id, coalesce(ch.kind = 'public', FALSE) as is_public from files f \
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
    let mut file = stored.with_text(c).await?;
    if message.is_none() {
        // Deletions of messages do not find the event, so they would not remove the name from it.
        file.file.name.clear();
        file.file.alt = None;
    }
    let data = FileEvent { file: &file };
    for (audience, only) in readers(c, place, uploader).await? {
        let seq = log::reserve(c, workspace, 1).await?;
        let mut event = NewEvent::new(seq, EventType::FileUpdated, audience, &data)?
            .only_to(only)
            .about(message);
        if let Some(thread) = place.thread_id {
            event = event.in_conversation(thread, place.fork_id);
        }
        log::append(c, workspace, event).await?;
    }
    Ok(())
}

/// Readers of a file: those of its message, or its uploader and the readers of vector stores with the file.
async fn readers(
    c: &mut Conn,
    place: &Place,
    uploader: UserId,
) -> Result<Vec<(Audience, Option<Recipients>)>, DbError> {
    let of_channel = |channel: ChannelId, is_public: bool| {
        let audience = if is_public {
            Audience::Public(channel)
        } else {
            Audience::Members(channel)
        };
        (audience, None)
    };
    if let Some(channel) = place.channel_id {
        return Ok(vec![of_channel(channel, place.is_public)]);
    }
    let stores: Vec<(Option<ChannelId>, bool)> = c
        .q("select distinct v.channel_id, coalesce(ch.kind = 'public', FALSE) from vector_store_files vf \
            join vector_stores v on v.id = vf.store_id left join channels ch on ch.id = v.channel_id \
            where vf.file_id = $1 and v.deleted_at is null order by v.channel_id limit $2")
        .bind(place.id)
        .bind(FILES_MAX)
        .all()
        .await?;
    if stores.iter().any(|(channel, _)| channel.is_none()) {
        return Ok(vec![(Audience::Workspace, None)]);
    }
    let only = Recipients {
        users: vec![uploader],
        managers: false,
    };
    let mut all = vec![(Audience::Workspace, Some(only))];
    let channels = stores
        .into_iter()
        .filter_map(|(channel, is_public)| Some(of_channel(channel?, is_public)));
    all.extend(channels);
    Ok(all)
}
