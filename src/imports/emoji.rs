//! Stores the custom emoji of an archive, and removes them.

use uuid::Uuid;

use super::{
    emoji_source::SourceEmoji,
    error::ImportError,
    key::{Identity, Keys, RecordKind},
    message::NewImportedFile,
    report::RecordOutcome,
};
use crate::{
    chat::custom_emoji::{self, check_picture, parse_emoji_name},
    db::Conn,
    files::{self, NewFile},
    ids::{FileId, UserId},
};

/// Stores an emoji. Returns the upload whose bytes it uses, if it uses those of `picture`. The workspace must be locked.
pub(super) async fn store_emoji(
    c: &mut Conn,
    keys: &Keys,
    emoji: &SourceEmoji,
    picture: Option<&NewImportedFile>,
    importer: UserId,
    creator: UserId,
) -> Result<(RecordOutcome, Option<Uuid>), ImportError> {
    let left_out = |reason| Ok((RecordOutcome::LeftOut(reason), None));
    let Ok(name) = parse_emoji_name(&emoji.name) else {
        return left_out("its name is that of a standard emoji, or not possible");
    };
    // An emoji that was deleted here stays deleted.
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
    let identity = Identity {
        kind: RecordKind::Emoji,
        at_ms: 0,
        key: &name,
        in_archive: FileId::parse(&emoji.file).ok().map(|id| id.0),
        owner: None,
    };
    let file = FileId(keys.id_here(c, identity).await?);
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
    let file = FileId(file);
    custom_emoji::remove_imported_emoji(c, keys.workspace, name, file).await?;
    files::remove_picture(c, keys.workspace, file).await?;
    Ok(keys.forget(c, RecordKind::Emoji, name).await?)
}
