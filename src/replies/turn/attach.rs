//! Attaches the pictures of results to the reply.

use uuid::Uuid;

use crate::{
    auth::AuthError,
    db::{Conn, DbError, now},
    files::{
        self, Attachment, Blobs, FileError, Kind, MessageFile, NewBlob, Published,
        pictures::Picture,
    },
    ids::{FileId, MessageId},
    tasks::Task,
};

/// A picture whose bytes are stored, but not its row.
#[derive(Clone)]
pub(super) struct ReplyPicture {
    id: FileId,
    name: String,
    kind: Kind,
    blob: NewBlob,
}

/// Stores the bytes of pictures. Those that cannot be stored are left out.
pub(super) async fn publish(blobs: &Blobs, pictures: &[Picture]) -> Vec<(Published, ReplyPicture)> {
    let mut stored = Vec::with_capacity(pictures.len());
    for (n, picture) in (1..).zip(pictures) {
        match publish_one(blobs, picture, n).await {
            Ok(published) => stored.extend(published),
            Err(e) => tracing::warn!(error = %e, "a picture of a result could not be attached"),
        }
    }
    stored
}

async fn publish_one(
    blobs: &Blobs,
    picture: &Picture,
    n: usize,
) -> Result<Option<(Published, ReplyPicture)>, FileError> {
    let Some(bytes) = picture.bytes() else {
        return Ok(None);
    };
    let mut incoming = blobs.begin(None).await?;
    incoming.write(&bytes).await?;
    let whole = incoming.finish().await?;
    let kind = Kind::of(&whole.head, "");
    let ending = match kind.content_type.as_str() {
        "image/png" => "png",
        _ => "jpg",
    };
    let published = blobs.publish(whole).await?;
    let picture = ReplyPicture {
        id: FileId::new(),
        name: format!("picture-{n}.{ending}"),
        kind,
        blob: published.reference(),
    };
    Ok(Some((published, picture)))
}

/// Pictures whose rows are stored, and the uploads whose bytes they use.
#[derive(Default)]
pub(super) struct Attached {
    pub(super) files: Vec<Attachment>,
    pub(super) uploads: Vec<Uuid>,
}

/// Stores the rows of pictures of a reply that is about to end, as files of the requester, until the workspace is full. The caller stores
/// the attachments with the reply.
pub(super) async fn attach(
    c: &mut Conn,
    task: &Task,
    reply: MessageId,
    pictures: &[ReplyPicture],
) -> Result<Attached, DbError> {
    let mut attached = Attached::default();
    for picture in pictures {
        let file = MessageFile {
            id: picture.id,
            blob: picture.blob.clone(),
            name: picture.name.clone(),
            kind: picture.kind.clone(),
            created_by: task.requested_by,
            created_at: now(),
            message: reply,
        };
        match files::insert_of_message(c, task.workspace_id, &file).await {
            Ok((file, upload)) => {
                attached.files.push(file);
                attached.uploads.push(upload);
            }
            Err(FileError::Auth(AuthError::QuotaExceeded(_))) => break,
            Err(FileError::Db(e) | FileError::Auth(AuthError::Db(e))) => return Err(e),
            Err(_) => return Err(sqlx::Error::RowNotFound.into()),
        }
    }
    Ok(attached)
}
