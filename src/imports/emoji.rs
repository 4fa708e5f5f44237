//! Custom emoji of an archive.

use uuid::Uuid;

use super::{
    error::ImportError,
    key::{Keys, RecordKind},
    message::NewImportedFile,
    report::RecordOutcome,
};
use crate::{
    chat::custom_emoji::{self, PICTURE_BYTES_MAX, check_picture, parse_emoji_name},
    db::Conn,
    files::{self, NewFile},
    ids::{FileId, UserId},
};

/// Maximum number of emoji that are read from an archive.
pub(super) const EMOJI_READ_MAX: usize = 10_000;
/// Maximum size of a picture that is read. Larger ones are left out.
pub(super) const PICTURE_READ_MAX: u64 = PICTURE_BYTES_MAX.unsigned_abs() + 1;
const NAME_CHARS_MAX: usize = 100;

/// A custom emoji of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceEmoji {
    /// Without colons, as in the archive.
    pub(super) name: String,
    /// Key of the picture.
    pub(super) file: String,
    /// Key of the person who added it.
    pub(super) creator: Option<String>,
}

impl SourceEmoji {
    /// An emoji with a name that is bounded; `None` without a name.
    pub(super) fn new(name: &str, file: &str, creator: Option<String>) -> Option<Self> {
        let name: String = name
            .trim_matches(':')
            .chars()
            .take(NAME_CHARS_MAX)
            .collect();
        (!name.is_empty()).then(|| Self {
            name,
            file: file.to_owned(),
            creator,
        })
    }
}

/// Stores an emoji. Returns the upload whose bytes it uses, if it uses those of `picture`. The workspace must be locked.
pub(super) async fn store_emoji(
    c: &mut Conn,
    keys: &Keys,
    name: &str,
    picture: Option<&NewImportedFile>,
    importer: UserId,
    creator: UserId,
) -> Result<(RecordOutcome, Option<Uuid>), ImportError> {
    let left_out = |reason| Ok((RecordOutcome::LeftOut(reason), None));
    let Ok(name) = parse_emoji_name(name) else {
        return left_out("its name is that of a standard emoji, or not possible");
    };
    // One that was deleted here stays so.
    if keys.find(c, RecordKind::Emoji, &name).await?.is_some() {
        return Ok((RecordOutcome::Existing, None));
    }
    if custom_emoji::has_emoji(c, keys.workspace, &name).await? {
        return left_out("the workspace has an emoji with its name");
    }
    let Some(picture) = picture else {
        return left_out("its picture is not in the archive");
    };
    let blob = picture.published.reference();
    if let Err(reason) = check_picture(&picture.kind, blob.size_bytes) {
        return left_out(reason);
    }
    if !custom_emoji::has_room(c, keys.workspace).await? {
        return left_out("the workspace has too many emoji");
    }
    let file = FileId(keys.id(RecordKind::Emoji, 0, &name));
    let upload = if files::find(c, file).await?.is_some() {
        files::keep_picture(c, file).await?;
        None
    } else {
        let new = NewFile {
            id: file,
            blob,
            name: name.clone(),
            kind: picture.kind.clone(),
            client_id: None,
            purpose: None,
        };
        Some(files::insert_picture(c, keys.workspace, importer, &new).await?)
    };
    custom_emoji::insert_emoji(c, keys.workspace, &name, file, creator).await?;
    keys.store(c, RecordKind::Emoji, &name, file.0).await?;
    Ok((RecordOutcome::Imported, upload))
}

/// Removes an emoji that imports of the source created. The workspace must be locked.
pub(super) async fn remove_emoji(
    c: &mut Conn,
    keys: &Keys,
    name: &str,
    file: Uuid,
) -> Result<(), ImportError> {
    if keys.is_made(RecordKind::Emoji, name, file) {
        let file = FileId(file);
        custom_emoji::remove_imported_emoji(c, keys.workspace, name, file).await?;
        files::remove_picture(c, keys.workspace, file).await?;
    }
    Ok(keys.forget(c, RecordKind::Emoji, name).await?)
}
