//! Custom emoji of workspaces: pictures with a name that people write between colons, in texts and in reactions.

use serde::Serialize;

use super::{ChatError, emoji};
use crate::{
    auth::{Actor, AuditAction, Role, Scope, record_audit},
    db::{Conn, DbError, dialect, now},
    files::{self, FileError, Kind},
    ids::{FileId, UserId, WorkspaceId},
    realtime::{Audience, EventData, EventType, log},
    text_enum::constant,
    time::Timestamp,
};

constant! { pub CustomEmojiObject = "emoji" }

/// Maximum number of custom emoji of a workspace.
pub const EMOJI_MAX: i64 = 2000;
/// Maximum size of a picture.
pub const PICTURE_BYTES_MAX: i64 = 256 << 10;
/// Maximum width and height of a picture in pixels, as in Mattermost: a small file can be a huge picture.
const SIDE_MAX: i64 = 1028;
/// Types of pictures. They are detected from the bytes.
const TYPES: [&str; 3] = ["image/png", "image/gif", "image/webp"];

/// A custom emoji.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct CustomEmoji {
    #[schema(inline)]
    pub object: CustomEmojiObject,
    /// Without colons.
    pub name: String,
    pub file_id: FileId,
    /// URL of the picture.
    pub url: String,
    /// Null for guests, who do not see all people.
    pub created_by: Option<UserId>,
    pub created_at: Timestamp,
}

#[derive(Serialize, utoipa::ToSchema)]
pub struct EmojiEvent<'a> {
    pub name: &'a str,
    /// Null if the emoji was deleted.
    pub emoji: Option<&'a CustomEmoji>,
}

impl EventData for EmojiEvent<'_> {
    const TYPES: &'static [EventType] = &[EventType::EmojiUpdated];
}

#[derive(sqlx::FromRow)]
struct EmojiRow {
    name: String,
    file_id: FileId,
    created_by: UserId,
    created_at: Timestamp,
}

impl From<EmojiRow> for CustomEmoji {
    fn from(row: EmojiRow) -> Self {
        Self {
            object: CustomEmojiObject,
            url: format!("/v1/files/{}", row.file_id),
            name: row.name,
            file_id: row.file_id,
            created_by: Some(row.created_by),
            created_at: row.created_at,
        }
    }
}

/// The name of an emoji.
///
/// # Errors
/// `Invalid` if texts could not name it, or if it is the name of a standard emoji.
pub fn parse_emoji_name(name: &str) -> Result<String, ChatError> {
    let invalid = |text: String| Err(ChatError::Invalid(text, "name"));
    let max = emoji::NAME_BYTES_MAX;
    if name.is_empty() || name.len() > max || !name.bytes().all(emoji::is_name_byte) {
        return invalid(format!(
            "the name of an emoji has 1 to {max} of a-z, 0-9, `_`, `+`, and `-`"
        ));
    }
    if emoji::is_standard(name) {
        return invalid(format!("`{name}` is a standard emoji: choose another name"));
    }
    Ok(name.to_owned())
}

/// Checks the picture of an emoji.
///
/// # Errors
/// A reason why it cannot be one.
pub fn check_picture(kind: &Kind, size_bytes: i64) -> Result<(), &'static str> {
    if !TYPES.contains(&kind.content_type.as_str()) {
        return Err("it is not a PNG, GIF, or WebP");
    }
    if size_bytes > PICTURE_BYTES_MAX {
        return Err("it is larger than 256 KiB");
    }
    match kind.width.max(kind.height) {
        None => Err("it is damaged"),
        Some(side) if side > SIDE_MAX => Err("a side of it has more than 1,028 pixels"),
        Some(_) => Ok(()),
    }
}

async fn find(
    c: &mut Conn,
    workspace: WorkspaceId,
    name: &str,
) -> Result<Option<CustomEmoji>, DbError> {
    let row: Option<EmojiRow> = c
        .q("select name, file_id, created_by, created_at from emoji where workspace_id = $1 and name = $2")
        .bind(workspace)
        .bind(name.to_owned())
        .opt()
        .await?;
    Ok(row.map(CustomEmoji::from))
}

/// The custom emoji of the actor's workspace, by name.
///
/// # Errors
/// An error from `Actor::require`.
pub async fn list_emoji(c: &mut Conn, actor: &Actor<'_>) -> Result<Vec<CustomEmoji>, ChatError> {
    actor.require(Scope::ChatRead)?;
    let rows: Vec<EmojiRow> = c
        .q("select name, file_id, created_by, created_at from emoji where workspace_id = $1 order by name limit $2")
        .bind(actor.workspace)
        .bind(EMOJI_MAX)
        .all()
        .await?;
    let mut all: Vec<CustomEmoji> = rows.into_iter().map(CustomEmoji::from).collect();
    if actor.role == Role::Guest {
        for emoji in &mut all {
            emoji.created_by = None;
        }
    }
    Ok(all)
}

/// Checks whether the workspace can have another emoji.
///
/// # Errors
/// Only database errors.
pub async fn has_room(c: &mut Conn, workspace: WorkspaceId) -> Result<bool, DbError> {
    let count: i64 = c
        .q("select count(*) from emoji where workspace_id = $1")
        .bind(workspace)
        .value()
        .await?;
    Ok(count < EMOJI_MAX)
}

/// Inserts an emoji, whose name and picture are possible, and appends `emoji.updated`. The workspace must be locked.
///
/// # Errors
/// `EmojiTaken`.
pub async fn insert_emoji(
    c: &mut Conn,
    workspace: WorkspaceId,
    name: &str,
    file: FileId,
    creator: UserId,
) -> Result<CustomEmoji, ChatError> {
    let new = CustomEmoji::from(EmojiRow {
        name: name.to_owned(),
        file_id: file,
        created_by: creator,
        created_at: now(),
    });
    let n = c
        .q("insert into emoji (workspace_id, name, file_id, created_by, created_at) values ($1, $2, $3, $4, $5) \
            on conflict (workspace_id, name) do nothing")
        .bind(workspace)
        .bind(new.name.clone())
        .bind(new.file_id)
        .bind(new.created_by)
        .bind(new.created_at)
        .run()
        .await?;
    if n == 0 {
        return Err(ChatError::EmojiTaken(new.name));
    }
    announce(c, workspace, name, Some(&new)).await?;
    Ok(new)
}

async fn announce(
    c: &mut Conn,
    workspace: WorkspaceId,
    name: &str,
    emoji: Option<&CustomEmoji>,
) -> Result<(), DbError> {
    let data = EmojiEvent { name, emoji };
    let (kind, audience) = (EventType::EmojiUpdated, Audience::Workspace);
    log::append_one(c, workspace, kind, audience, &data).await?;
    Ok(())
}

/// Adds an emoji, whose picture is an upload of the actor. Appends `emoji.updated`.
///
/// # Errors
/// `Invalid` for a name or a picture that is not possible, `EmojiTaken`; `NotFound` or `InUse` for the file; or an error from
/// `Actor::require`.
pub async fn add_emoji(
    c: &mut Conn,
    actor: &Actor<'_>,
    name: &str,
    file: FileId,
) -> Result<CustomEmoji, ChatError> {
    actor.require(Scope::ChatWrite)?;
    dialect::lock_workspace(c, actor.workspace.0).await?;
    let stored = files::find(c, file).await?;
    let stored = stored
        .filter(|stored| stored.workspace_id == actor.workspace)
        .filter(|stored| stored.is_avatar || stored.about.created_by == actor.user)
        .ok_or(FileError::NotFound)?;
    let name = parse_emoji_name(name)?;
    let kind = Kind {
        content_type: stored.about.content_type,
        width: stored.about.width,
        height: stored.about.height,
    };
    if let Err(reason) = check_picture(&kind, stored.about.size_bytes) {
        let text = format!("the file cannot be the picture of an emoji: {reason}");
        return Err(ChatError::Invalid(text, "file_id"));
    }
    if !has_room(c, actor.workspace).await? {
        let text = format!("a workspace can have at most {EMOJI_MAX} custom emoji: delete one");
        return Err(ChatError::Invalid(text, "name"));
    }
    files::share_avatar(c, actor, file).await?;
    insert_emoji(c, actor.workspace, &name, file, actor.user).await
}

/// Deletes an emoji, whose name in texts and reactions is text from then on. Appends `emoji.updated`.
///
/// # Errors
/// `EmojiNotFound`, `NotYourEmoji`, or an error from `Actor::require`.
pub async fn delete_emoji(c: &mut Conn, actor: &Actor<'_>, name: &str) -> Result<(), ChatError> {
    actor.require(Scope::ChatWrite)?;
    dialect::lock_workspace(c, actor.workspace.0).await?;
    let found = find(c, actor.workspace, name).await?;
    let found = found.ok_or(ChatError::EmojiNotFound)?;
    let is_own = found.created_by == Some(actor.user);
    if !is_own && actor.role != Role::Admin {
        return Err(ChatError::NotYourEmoji);
    }
    remove(c, actor.workspace, &found).await?;
    if !is_own {
        let data = serde_json::json!({"name": found.name});
        let target = found.file_id.to_string();
        record_audit(c, actor, AuditAction::EmojiDeleted, target, data).await?;
    }
    Ok(())
}

/// Deletes the row. The picture is deleted by the cleanup of files, unless something else uses it.
async fn remove(
    c: &mut Conn,
    workspace: WorkspaceId,
    emoji: &CustomEmoji,
) -> Result<(), ChatError> {
    c.q("delete from emoji where workspace_id = $1 and name = $2")
        .bind(workspace)
        .bind(emoji.name.clone())
        .run()
        .await?;
    announce(c, workspace, &emoji.name, None).await?;
    Ok(())
}

/// The spelling of a reaction: `:name:` if the text is the name of a custom emoji.
///
/// # Errors
/// Only database errors.
pub async fn spelling(c: &mut Conn, workspace: WorkspaceId, text: &str) -> Result<String, DbError> {
    let is_custom =
        text.bytes().all(emoji::is_name_byte) && find(c, workspace, text).await?.is_some();
    Ok(if is_custom {
        format!(":{text}:")
    } else {
        text.to_owned()
    })
}

/// Checks whether there is an emoji with this name.
///
/// # Errors
/// Only database errors.
pub async fn has_emoji(c: &mut Conn, workspace: WorkspaceId, name: &str) -> Result<bool, DbError> {
    Ok(find(c, workspace, name).await?.is_some())
}

/// Removes the emoji of an archive that has this picture, if it is here. The workspace must be locked.
///
/// # Errors
/// Only database errors.
pub async fn remove_imported_emoji(
    c: &mut Conn,
    workspace: WorkspaceId,
    name: &str,
    file: FileId,
) -> Result<(), ChatError> {
    let found = find(c, workspace, name).await?;
    if let Some(found) = found.filter(|found| found.file_id == file) {
        remove(c, workspace, &found).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_texts_can_have_and_that_is_not_taken() {
        for name in ["party-parrot", "a", "c++", "100_percent"] {
            assert_eq!(parse_emoji_name(name).ok().as_deref(), Some(name));
        }
        let long = "x".repeat(41);
        for name in ["", "wave", "Parrot", "a b", "ü", ":a:", "a/b", &long] {
            assert!(parse_emoji_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_picture_is_small_and_of_a_known_type() {
        let kind = |content_type: &str, side| Kind {
            content_type: content_type.to_owned(),
            width: side,
            height: side,
        };
        assert_eq!(check_picture(&kind("image/gif", Some(64)), 900), Ok(()));
        assert!(check_picture(&kind("image/gif", None), 900).is_err());
        assert!(check_picture(&kind("image/png", Some(30_000)), 900).is_err());
        assert!(check_picture(&kind("image/webp", Some(64)), 300 << 10).is_err());
        for other in ["image/jpeg", "image/avif", "text/plain", "image/svg+xml"] {
            assert!(
                check_picture(&kind(other, Some(64)), 900).is_err(),
                "{other}"
            );
        }
    }
}
