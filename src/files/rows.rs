//! Files as returned to clients, and their rows.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    FileError, Kind, NewBlob, blobs,
    documents::{self, DocumentState},
    kind,
};
use crate::{
    auth::{Actor, quota},
    db::{Conn, DbError, now},
    ids::{FileId, MessageId, UserId, WorkspaceId},
    storage::Blob,
    text_enum::{constant, text_enum},
    time::Timestamp,
};

constant! { pub FileObject = "file" }

text_enum! {
    /// Purpose of an upload in the `OpenAI` API. Such an upload is kept until it is deleted.
    pub enum FilePurpose {
        Assistants = "assistants",
        UserData = "user_data",
        Vision = "vision",
    }
}

/// An uploaded file.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = UploadedFile)]
pub struct File {
    #[schema(inline)]
    pub object: FileObject,
    pub id: FileId,
    pub workspace_id: WorkspaceId,
    pub name: String,
    /// Content type, detected from the bytes; `text/plain` for all kinds of text.
    pub content_type: String,
    pub size_bytes: i64,
    /// Width in pixels, for images.
    pub width: Option<i64>,
    pub height: Option<i64>,
    pub created_by: UserId,
    /// The message to which the file is attached; null if it is not attached.
    pub message_id: Option<MessageId>,
    pub created_at: Timestamp,
    /// The uploader's description of a picture, for those who cannot see it; at most 1,000 characters.
    pub alt: Option<String>,
    /// URL of the file's bytes.
    pub url: String,
}

/// File data stored in a message's row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, sqlx::FromRow)]
pub struct Attachment {
    pub id: FileId,
    pub name: String,
    pub content_type: String,
    pub size_bytes: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<i64>,
    pub created_by: UserId,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alt: Option<String>,
}

impl Attachment {
    /// Checks whether the file is UTF-8 text, including markup.
    pub fn is_text(&self) -> bool {
        kind::is_text_type(&self.content_type)
    }

    pub fn into_file(self, workspace: WorkspaceId, message: Option<MessageId>) -> File {
        File {
            object: FileObject,
            url: format!("/v1/files/{}", self.id),
            id: self.id,
            workspace_id: workspace,
            name: self.name,
            content_type: kind::told_type(&self.content_type).to_owned(),
            size_bytes: self.size_bytes,
            width: self.width,
            height: self.height,
            created_by: self.created_by,
            message_id: message,
            created_at: self.created_at,
            alt: self.alt,
        }
    }
}

/// A file with its internal fields.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Stored {
    #[sqlx(flatten)]
    pub about: Attachment,
    pub workspace_id: WorkspaceId,
    #[sqlx(flatten)]
    pub blob: Blob,
    pub message_id: Option<MessageId>,
    pub is_avatar: bool,
    /// Set for uploads that are kept without a message.
    pub purpose: Option<FilePurpose>,
}

impl From<Stored> for File {
    fn from(stored: Stored) -> Self {
        stored
            .about
            .into_file(stored.workspace_id, stored.message_id)
    }
}

macro_rules! stored_sql {
    ($tail:literal) => {
        concat!(
            "select f.id, f.name, f.content_type, f.size_bytes, f.width, f.height, f.created_by, f.created_at, f.alt, f.workspace_id, \
             b.hash, b.upload_id, b.store, f.message_id, f.is_avatar, f.purpose from files f join blobs b on b.hash = f.hash ",
            $tail
        )
    };
}

pub async fn find(c: &mut Conn, id: FileId) -> Result<Option<Stored>, DbError> {
    c.q(stored_sql!("where f.id = $1")).bind(id).opt().await
}

/// An upload that is kept without a message.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct KeptFile {
    pub id: FileId,
    pub name: String,
    pub size_bytes: i64,
    pub created_at: Timestamp,
    pub purpose: FilePurpose,
    /// `None` for files without text, such as pictures.
    pub state: Option<DocumentState>,
}

/// Uploads of a person that are kept without a message, oldest first.
pub async fn list_kept(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    limit: i64,
) -> Result<Vec<KeptFile>, DbError> {
    c.q("select f.id, f.name, f.size_bytes, f.created_at, f.purpose, d.state from files f left join documents d on d.hash = f.hash \
         where f.workspace_id = $1 and f.created_by = $2 and f.purpose is not null order by f.created_at, f.id limit $3")
        .bind(workspace)
        .bind(user)
        .bind(limit)
        .all()
        .await
}

/// Row to insert for stored bytes.
#[derive(Debug, Clone)]
pub struct NewFile {
    pub id: FileId,
    pub blob: NewBlob,
    pub name: String,
    pub kind: Kind,
    pub client_id: Option<String>,
    pub purpose: Option<FilePurpose>,
}

/// Inserts a file and returns the upload whose bytes it uses.
pub async fn insert(
    c: &mut Conn,
    actor: &Actor<'_>,
    new: &NewFile,
) -> Result<(File, Uuid), FileError> {
    let about = Attachment {
        id: new.id,
        name: new.name.clone(),
        content_type: new.kind.content_type.clone(),
        size_bytes: new.blob.size_bytes,
        width: new.kind.width,
        height: new.kind.height,
        created_by: actor.user,
        created_at: now(),
        alt: None,
    };
    let row = FileRow {
        blob: &new.blob,
        about: &about,
        client_id: new.client_id.clone(),
        message: None,
        purpose: new.purpose,
    };
    let upload = row.insert(c, actor.workspace).await?;
    Ok((about.into_file(actor.workspace, None), upload))
}

/// Row of a file that is not an avatar.
struct FileRow<'a> {
    blob: &'a NewBlob,
    about: &'a Attachment,
    client_id: Option<String>,
    message: Option<MessageId>,
    purpose: Option<FilePurpose>,
}

impl FileRow<'_> {
    /// Counts and inserts the file, and returns the upload whose bytes it uses.
    async fn insert(self, c: &mut Conn, workspace: WorkspaceId) -> Result<Uuid, FileError> {
        let counted_bytes = quota::file_bytes(1, self.about.size_bytes);
        quota::check_bytes(c, workspace, counted_bytes).await?;
        quota::count_file_bytes(c, workspace, counted_bytes).await?;
        let upload = blobs::name_blob(c, self.blob).await?;
        c.q("insert into files (id, workspace_id, hash, name, content_type, size_bytes, width, height, created_by, client_id, \
             message_id, is_avatar, created_at, purpose) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, FALSE, $12, $13)")
            .bind(self.about.id)
            .bind(workspace)
            .bind(self.blob.blob.hash.clone())
            .bind(self.about.name.clone())
            .bind(self.about.content_type.clone())
            .bind(self.about.size_bytes)
            .bind(self.about.width)
            .bind(self.about.height)
            .bind(self.about.created_by)
            .bind(self.client_id)
            .bind(self.message)
            .bind(self.about.created_at)
            .bind(self.purpose)
            .run()
            .await?;
        if !documents::is_media(&self.about.content_type) {
            documents::queue_document(c, workspace, self.about.id, &self.blob.blob.hash).await?;
        }
        Ok(upload)
    }
}

/// A file of a message that nobody has uploaded: of an archive, or a picture of an agent's reply.
#[derive(Debug, Clone)]
pub struct MessageFile {
    pub id: FileId,
    pub blob: NewBlob,
    pub name: String,
    pub kind: Kind,
    pub created_by: UserId,
    pub created_at: Timestamp,
    pub message: MessageId,
}

/// Inserts a file of a message and returns the upload whose bytes it uses. The caller stores the attachment with the message.
///
/// # Errors
/// `QuotaExceeded`, `Expired`.
pub async fn insert_of_message(
    c: &mut Conn,
    workspace: WorkspaceId,
    new: &MessageFile,
) -> Result<(Attachment, Uuid), FileError> {
    let about = Attachment {
        id: new.id,
        name: new.name.clone(),
        content_type: new.kind.content_type.clone(),
        size_bytes: new.blob.size_bytes,
        width: new.kind.width,
        height: new.kind.height,
        created_by: new.created_by,
        created_at: new.created_at,
        alt: None,
    };
    let row = FileRow {
        blob: &new.blob,
        about: &about,
        client_id: None,
        message: Some(new.message),
        purpose: None,
    };
    let upload = row.insert(c, workspace).await?;
    Ok((about, upload))
}

/// Inserts a picture of an archive that all members can see, and returns the upload whose bytes it uses.
///
/// # Errors
/// `QuotaExceeded`, `Expired`.
pub async fn insert_picture(
    c: &mut Conn,
    workspace: WorkspaceId,
    creator: UserId,
    new: &NewFile,
) -> Result<Uuid, FileError> {
    let about = Attachment {
        id: new.id,
        name: new.name.clone(),
        content_type: new.kind.content_type.clone(),
        size_bytes: new.blob.size_bytes,
        width: new.kind.width,
        height: new.kind.height,
        alt: None,
        created_by: creator,
        created_at: now(),
    };
    let row = FileRow {
        blob: &new.blob,
        about: &about,
        client_id: None,
        message: None,
        purpose: None,
    };
    let upload = row.insert(c, workspace).await?;
    keep_picture(c, new.id).await?;
    Ok(upload)
}

/// Makes an unattached upload a picture that all members can see.
pub async fn keep_picture(c: &mut Conn, id: FileId) -> Result<(), DbError> {
    c.q("update files set is_avatar = TRUE where id = $1 and message_id is null")
        .bind(id)
        .run()
        .await?;
    Ok(())
}

/// Attaches a user's uploads to a message, in the given order.
///
/// # Errors
/// `TooMany`, `Twice`, `NotFound` for files of other users, `InUse`.
pub async fn attach(
    c: &mut Conn,
    actor: &Actor<'_>,
    message: MessageId,
    files: &[FileId],
) -> Result<Vec<Attachment>, FileError> {
    if files.len() > super::ATTACHMENTS_MAX {
        return Err(FileError::TooMany(files.len()));
    }
    let mut attached: Vec<Attachment> = Vec::with_capacity(files.len());
    for file in files {
        if attached.iter().any(|known| known.id == *file) {
            return Err(FileError::Twice);
        }
        let taken: Option<Attachment> = c
            .q("update files set message_id = $4 where id = $1 and workspace_id = $2 and created_by = $3 and message_id is null \
                and is_avatar = FALSE \
                returning id, name, content_type, size_bytes, width, height, created_by, created_at, alt")
            .bind(*file)
            .bind(actor.workspace)
            .bind(actor.user)
            .bind(message)
            .opt()
            .await?;
        let Some(taken) = taken else {
            let own = find(c, *file).await?.is_some_and(|stored| {
                stored.workspace_id == actor.workspace && stored.about.created_by == actor.user
            });
            return Err(if own {
                FileError::InUse
            } else {
                FileError::NotFound
            });
        };
        attached.push(taken);
    }
    Ok(attached)
}

/// Sets or removes the description of a file.
pub async fn set_alt(c: &mut Conn, id: FileId, alt: Option<&str>) -> Result<(), DbError> {
    c.q("update files set alt = $2 where id = $1")
        .bind(id)
        .bind(alt.map(str::to_owned))
        .run()
        .await?;
    Ok(())
}

/// Copies the actor's files as uploads that are not attached yet, in the given order. The copies use the same bytes. Files that were
/// deleted are left out.
///
/// # Errors
/// `QuotaExceeded`.
pub async fn copy(
    c: &mut Conn,
    actor: &Actor<'_>,
    files: &[FileId],
) -> Result<Vec<FileId>, FileError> {
    let mut copies = Vec::with_capacity(files.len());
    for file in files {
        let copy = FileId::new();
        let size_bytes: Option<(i64,)> = c
            .q("insert into files (id, workspace_id, hash, name, content_type, size_bytes, width, height, created_by, is_avatar, created_at, alt) \
                select $1, f.workspace_id, f.hash, f.name, f.content_type, f.size_bytes, f.width, f.height, f.created_by, FALSE, $5, f.alt \
                from files f where f.id = $2 and f.workspace_id = $3 and f.created_by = $4 returning size_bytes")
            .bind(copy)
            .bind(*file)
            .bind(actor.workspace)
            .bind(actor.user)
            .bind(now())
            .opt()
            .await?;
        let Some((size_bytes,)) = size_bytes else {
            continue;
        };
        let counted_bytes = quota::file_bytes(1, size_bytes);
        quota::check_bytes(c, actor.workspace, counted_bytes).await?;
        quota::count_file_bytes(c, actor.workspace, counted_bytes).await?;
        copies.push(copy);
    }
    Ok(copies)
}

/// Makes a file usable as the picture of an agent or a person. The file must be an upload of the actor that is not attached to a
/// message, or an existing picture.
///
/// # Errors
/// `NotFound` for any other file, `InUse` if it is attached to a message, `NoImage`.
pub async fn share_avatar(c: &mut Conn, actor: &Actor<'_>, id: FileId) -> Result<(), FileError> {
    let stored = find(c, id)
        .await?
        .filter(|stored| stored.workspace_id == actor.workspace)
        .filter(|stored| stored.is_avatar || stored.about.created_by == actor.user)
        .ok_or(FileError::NotFound)?;
    if stored.is_avatar {
        return Ok(());
    }
    if !kind::is_image(&stored.about.content_type) {
        return Err(FileError::NoImage);
    }
    let lent = c
        .q("update files set is_avatar = TRUE where id = $1 and message_id is null")
        .bind(id)
        .run()
        .await?;
    if lent == 1 {
        Ok(())
    } else {
        Err(FileError::InUse)
    }
}

/// Turns a picture that is no longer used back into an unattached upload.
pub(super) async fn release_avatar(c: &mut Conn, id: FileId) -> Result<(), DbError> {
    c.q("update files set is_avatar = FALSE where id = $1")
        .bind(id)
        .run()
        .await?;
    Ok(())
}

/// Removes the files of a message that is being deleted; their bytes are deleted in the next cleanup round.
pub async fn remove_of_message(c: &mut Conn, message: MessageId) -> Result<(), DbError> {
    c.q(
        "delete from client_ids where (workspace_id, user_id, client_id) in \
         (select f.workspace_id, f.created_by, f.client_id from files f where f.message_id = $1)",
    )
    .bind(message)
    .run()
    .await?;
    let removed: Vec<(WorkspaceId, i64)> = c
        .q("delete from files where message_id = $1 returning workspace_id, size_bytes")
        .bind(message)
        .all()
        .await?;
    for (workspace, size_bytes) in removed {
        quota::count_file_bytes(c, workspace, -quota::file_bytes(1, size_bytes)).await?;
    }
    Ok(())
}

/// Removes a file that is neither attached to a message nor a picture. Returns false if the file is either of
/// these or does not exist.
pub async fn delete_loose(c: &mut Conn, id: FileId) -> Result<bool, DbError> {
    let gone: Option<(WorkspaceId, UserId, Option<String>, i64)> = c
        .q(
            "delete from files where id = $1 and message_id is null and is_avatar = FALSE \
            returning workspace_id, created_by, client_id, size_bytes",
        )
        .bind(id)
        .opt()
        .await?;
    let Some((workspace, user, client_id, size_bytes)) = gone else {
        return Ok(false);
    };
    quota::count_file_bytes(c, workspace, -quota::file_bytes(1, size_bytes)).await?;
    if let Some(client_id) = client_id {
        c.q("delete from client_ids where workspace_id = $1 and user_id = $2 and client_id = $3")
            .bind(workspace)
            .bind(user)
            .bind(client_id)
            .run()
            .await?;
    }
    Ok(true)
}

/// Removes a user's unattached uploads from a workspace, except those in vector stores, and returns the number of removed files.
pub async fn erase_unattached(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<u64, DbError> {
    let (files, content_bytes): (i64, i64) = c
        .q("select count(*), cast(coalesce(sum(size_bytes), 0) as bigint) from files \
            where workspace_id = $1 and created_by = $2 and message_id is null and is_avatar = FALSE \
            and not exists (select 1 from vector_store_files vf where vf.file_id = files.id) \
            and not exists (select 1 from vector_store_versions vv where vv.file_id = files.id)")
        .bind(workspace)
        .bind(user)
        .one()
        .await?;
    let counted_bytes = quota::file_bytes(files, content_bytes);
    quota::count_file_bytes(c, workspace, -counted_bytes).await?;
    c.q("delete from files where workspace_id = $1 and created_by = $2 and message_id is null and is_avatar = FALSE \
         and not exists (select 1 from vector_store_files vf where vf.file_id = files.id) \
         and not exists (select 1 from vector_store_versions vv where vv.file_id = files.id)")
        .bind(workspace)
        .bind(user)
        .run()
        .await
}

/// Number of a user's files in a workspace.
pub async fn count_of_person(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<i64, DbError> {
    c.q("select count(*) from files where created_by = $2 and workspace_id = $1")
        .bind(workspace)
        .bind(user)
        .value()
        .await
}

impl Stored {
    /// Value of the `Content-Type` header.
    pub fn served_type(&self) -> &str {
        kind::served_type(&self.about.content_type)
    }

    pub fn delivery(&self) -> super::Delivery {
        kind::delivery(&self.about.content_type)
    }
}
