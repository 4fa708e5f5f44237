//! Pictures of people and bots.

use super::{FileError, cleanup::remove_picture, rows};
use crate::{
    auth::{Actor, AuthError, Caller},
    db::{Conn, DbError},
    ids::{BotId, FileId, UserId, WorkspaceId},
};

/// Maximum size in bytes.
const BYTES_MAX: i64 = 1 << 20;
/// Maximum width and height in pixels.
const SIDE_MAX: i64 = 1024;
const TYPES: [&str; 3] = ["image/png", "image/jpeg", "image/webp"];
/// Maximum number of workspaces that are searched for one that a reader shares.
const SHARED_MAX: i64 = 100;
const URL_PREFIX: &str = "/v1/files/";

fn url_of(id: FileId) -> String {
    format!("{URL_PREFIX}{id}")
}

/// Checks whether a file can be the picture of a person or a bot.
///
/// # Errors
/// A reason why it cannot be one.
fn check(about: &rows::Attachment) -> Result<(), &'static str> {
    if !TYPES.contains(&about.content_type.as_str()) {
        return Err("it is not a PNG, JPEG, or WebP");
    }
    if about.size_bytes > BYTES_MAX {
        return Err("it is larger than 1 MiB");
    }
    match about.width.max(about.height) {
        None => Err("it is damaged"),
        Some(side) if side > SIDE_MAX => Err("a side of it has more than 1,024 pixels"),
        Some(_) => Ok(()),
    }
}

/// Makes an upload of the caller their picture, which members of all their workspaces can read. The earlier picture is deleted.
///
/// # Errors
/// `NotFound` for a file that is not an upload of the caller, `InUse` if it is attached to a message, `UnfitPicture`.
pub async fn set_own_picture(c: &mut Conn, caller: &Caller, id: FileId) -> Result<(), FileError> {
    let stored = rows::find(c, id)
        .await?
        .filter(|stored| stored.about.created_by == caller.user)
        .ok_or(FileError::NotFound)?;
    let actor = match caller.enter(c, stored.workspace_id).await {
        Err(AuthError::WorkspaceNotFound) => return Err(FileError::NotFound),
        other => other?,
    };
    check(&stored.about).map_err(FileError::UnfitPicture)?;
    let earlier = find_own(c, caller.user).await?;
    rows::share_avatar(c, &actor, id).await?;
    set_url(c, caller.user, Some(url_of(id))).await?;
    match earlier.filter(|(earlier, _)| *earlier != id) {
        Some((earlier, workspace)) => Ok(remove_picture(c, workspace, earlier).await?),
        None => Ok(()),
    }
}

/// Makes an upload of the actor, or a picture of the workspace, the picture of a bot; `None` removes it. The earlier picture is deleted.
///
/// # Errors
/// `NotFound` for any other file, `InUse` if it is attached to a message, `NoImage`, `UnfitPicture`.
pub async fn set_bot_picture(
    c: &mut Conn,
    actor: &Actor<'_>,
    bot: BotId,
    new: Option<FileId>,
) -> Result<(), FileError> {
    if let Some(id) = new {
        rows::share_avatar(c, actor, id).await?;
        let stored = rows::find(c, id).await?.ok_or(FileError::NotFound)?;
        check(&stored.about).map_err(FileError::UnfitPicture)?;
    }
    let user = UserId(bot.0);
    let earlier = find_picture(c, user).await?;
    set_url(c, user, new.map(url_of)).await?;
    match earlier.filter(|earlier| Some(*earlier) != new) {
        Some(earlier) => Ok(remove_picture(c, actor.workspace, earlier).await?),
        None => Ok(()),
    }
}

/// Deletes the picture of a person. Does nothing if there is none.
///
/// # Errors
/// Only database errors.
pub async fn remove_own_picture(c: &mut Conn, user: UserId) -> Result<(), DbError> {
    let earlier = find_own(c, user).await?;
    set_url(c, user, None).await?;
    match earlier {
        Some((id, workspace)) => remove_picture(c, workspace, id).await,
        None => Ok(()),
    }
}

/// Deletes the picture of a person if it was uploaded in this workspace.
///
/// # Errors
/// Only database errors.
pub async fn remove_picture_in(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<(), DbError> {
    match find_own(c, user).await? {
        Some((_, place)) if place == workspace => remove_own_picture(c, user).await,
        _ => Ok(()),
    }
}

async fn set_url(c: &mut Conn, user: UserId, url: Option<String>) -> Result<(), DbError> {
    c.q("update users set avatar_url = $2 where id = $1")
        .bind(user)
        .bind(url)
        .run()
        .await?;
    Ok(())
}

/// The picture of a person or a bot.
async fn find_picture(c: &mut Conn, user: UserId) -> Result<Option<FileId>, DbError> {
    let url: Option<(Option<String>,)> = c
        .q("select avatar_url from users where id = $1")
        .bind(user)
        .opt()
        .await?;
    let url = url.and_then(|(url,)| url);
    Ok(url.and_then(|url| FileId::parse(url.strip_prefix(URL_PREFIX)?).ok()))
}

/// The picture of a person, and its workspace.
async fn find_own(c: &mut Conn, user: UserId) -> Result<Option<(FileId, WorkspaceId)>, DbError> {
    let Some(id) = find_picture(c, user).await? else {
        return Ok(None);
    };
    let stored = rows::find(c, id).await?;
    Ok(stored
        .filter(|stored| stored.about.created_by == user)
        .map(|stored| (id, stored.workspace_id)))
}

/// A workspace that the caller shares with the person whose picture this is; `None` if it is not the picture of a person.
///
/// # Errors
/// Only database errors.
pub async fn find_shared_workspace(
    c: &mut Conn,
    reader: &Caller,
    stored: &rows::Stored,
) -> Result<Option<WorkspaceId>, DbError> {
    let shared: Vec<(WorkspaceId,)> = c
        .q("select mine.workspace_id from users u join members theirs on theirs.user_id = u.id \
             join members mine on mine.workspace_id = theirs.workspace_id \
             where u.id = $1 and u.avatar_url = $2 and mine.user_id = $3 order by mine.workspace_id limit $4")
        .bind(stored.about.created_by)
        .bind(url_of(stored.about.id))
        .bind(reader.user)
        .bind(SHARED_MAX)
        .all()
        .await?;
    let mut ids = shared.into_iter().map(|(id,)| id);
    Ok(ids.find(|id| reader.may_enter(*id)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::now;

    #[test]
    fn a_picture_of_a_person_is_a_small_png_jpeg_or_webp() {
        let about = |content_type: &str, size_bytes, side| rows::Attachment {
            id: FileId::new(),
            name: "me".to_owned(),
            content_type: content_type.to_owned(),
            size_bytes,
            width: side,
            height: side,
            created_by: UserId::new(),
            created_at: now(),
            alt: None,
        };
        for kind in TYPES {
            assert_eq!(check(&about(kind, 900, Some(256))), Ok(()));
        }
        for kind in ["image/gif", "image/svg+xml", "image/avif", "text/plain"] {
            assert!(check(&about(kind, 900, Some(256))).is_err(), "{kind}");
        }
        assert!(check(&about("image/png", BYTES_MAX, Some(SIDE_MAX))).is_ok());
        assert!(check(&about("image/png", BYTES_MAX + 1, Some(256))).is_err());
        assert!(check(&about("image/png", 900, Some(SIDE_MAX + 1))).is_err());
        assert!(check(&about("image/png", 900, None)).is_err());
    }
}
