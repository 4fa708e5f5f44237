//! Pictures in a prompt: those of the trigger message, and the newest ones of the other messages.

use std::{collections::HashSet, time::Duration};

use tokio::time::{Instant, timeout_at};

use super::prompt::{Context, PromptPicture};
use crate::{
    db::{Conn, DbError, dialect::hexadecimal_ids},
    files::pictures::{PICTURE_TYPES, PictureReader},
    ids::{FileId, MessageId},
    sql_with_ids,
    storage::Blob,
};

/// Maximum number of pictures of the trigger message.
const OF_TRIGGER_MAX: usize = 8;
/// Maximum number of pictures of the other messages.
const OF_OTHERS_MAX: usize = 4;
/// Maximum total size of the pictures in a request, in bytes.
pub const PICTURES_BYTES_MAX: usize = 6 << 20;
/// Maximum number of files of the messages that are looked at.
const FILES_MAX: i64 = 500;

/// Time limit for all pictures of a prompt. Meanwhile, messages of the loaded context can be deleted, and other replies wait for a worker.
const READ_WITHIN: Duration = Duration::from_secs(30);

/// A picture that a prompt can contain.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct PictureFile {
    file_id: FileId,
    message_id: MessageId,
    name: String,
    content_type: String,
    alt: Option<String>,
    size_bytes: i64,
    width: Option<i64>,
    height: Option<i64>,
    #[sqlx(flatten)]
    blob: Blob,
}

/// Finds the pictures for a prompt: those of the trigger message in order, then the newest ones of the other messages. Readers of the
/// answer can read these messages, because all of them are in the prompt.
pub async fn find_pictures(c: &mut Conn, context: &Context) -> Result<Vec<PictureFile>, DbError> {
    let trigger = context.ask.message_id;
    let others = context.background.iter().chain(&context.history);
    let others = others.chain(&context.root);
    let others = others.filter(|message| !message.attachments.is_empty());
    let mut ids: HashSet<MessageId> = others.map(|message| message.message_id).collect();
    if !context.ask.attachments.is_empty() {
        ids.insert(trigger);
    }
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let sql = sql_with_ids!(
        c,
        "select f.id as file_id, f.message_id, f.name, f.content_type, f.alt, f.size_bytes, f.width, f.height, \
         b.hash, b.upload_id, b.store from files f join blobs b on b.hash = f.hash join messages m on m.id = f.message_id \
         where m.deleted_at is null and f.message_id in",
        1,
        "order by m.created_at desc, m.id, f.created_at, f.id limit $2"
    );
    let mut files: Vec<PictureFile> = c
        .q(sql)
        .bind(hexadecimal_ids(ids.iter().map(|id| id.0)))
        .bind(FILES_MAX)
        .all()
        .await?;
    files.retain(|file| PICTURE_TYPES.contains(&&*file.content_type));
    let (mut of_trigger, mut of_others): (Vec<_>, Vec<_>) = files
        .into_iter()
        .partition(|file| file.message_id == trigger);
    of_trigger.truncate(OF_TRIGGER_MAX);
    of_others.truncate(OF_OTHERS_MAX);
    of_trigger.append(&mut of_others);
    Ok(of_trigger)
}

/// Scales the pictures. Those that cannot be read in time or do not fit are named only, and so are all of them if the model cannot see.
pub async fn read_pictures(
    reader: &PictureReader,
    files: &[PictureFile],
    can_see: bool,
) -> Vec<PromptPicture> {
    let until = Instant::now() + READ_WITHIN;
    let mut room = PICTURES_BYTES_MAX;
    let mut pictures = Vec::with_capacity(files.len());
    for file in files {
        let read = if can_see {
            let read = timeout_at(until, reader.read(&file.blob, file.size_bytes));
            match read.await {
                Ok(Ok(picture)) => picture,
                Ok(Err(e)) => {
                    tracing::warn!(file.id = %file.file_id, error = %e, "a picture could not be read for a prompt");
                    None
                }
                Err(_) => None,
            }
        } else {
            None
        };
        let picture = read.filter(|picture| picture.size_bytes <= room);
        room -= picture.as_ref().map_or(0, |picture| picture.size_bytes);
        pictures.push(PromptPicture {
            message_id: file.message_id,
            file_id: file.file_id,
            name: file.name.clone(),
            alt: file.alt.clone(),
            size: file.width.zip(file.height),
            picture,
        });
    }
    pictures
}
