//! Reading, writing, and deleting the caller's USER.md.

use super::{
    MemoryError,
    change::require_own,
    user_file::{USER_FILE_BYTES_MAX, UserFile, UserFileForm, UserFileVisibility, find, shown},
};
use crate::{
    agents::derived,
    auth::{Actor, Scope},
    db::{Conn, dialect, now},
};

/// The caller's USER.md.
///
/// # Errors
/// An error from `Actor::require`.
pub async fn get(c: &mut Conn, actor: &Actor<'_>) -> Result<UserFile, MemoryError> {
    actor.require(Scope::ChatRead)?;
    Ok(shown(find(c, actor.workspace, actor.user).await?))
}

/// Writes the caller's USER.md. `expected` is the version from `If-Match`.
///
/// # Errors
/// `UserFileTooLarge`, `UserFileStale`, or an error from `Actor::require`.
pub async fn write(
    c: &mut Conn,
    actor: &Actor<'_>,
    form: &UserFileForm,
    expected: Option<i64>,
) -> Result<UserFile, MemoryError> {
    require_own(actor)?;
    if form.content.len() > USER_FILE_BYTES_MAX {
        return Err(MemoryError::UserFileTooLarge(form.content.len()));
    }
    let visibility = form.visibility.unwrap_or(UserFileVisibility::Direct);
    put(c, actor, Some((&form.content, visibility)), expected).await
}

/// Deletes the caller's USER.md, and its text in records of prompts.
///
/// # Errors
/// `NoUserFile`, `UserFileStale`, or an error from `Actor::require`.
pub async fn delete(
    c: &mut Conn,
    actor: &Actor<'_>,
    expected: Option<i64>,
) -> Result<(), MemoryError> {
    require_own(actor)?;
    put(c, actor, None, expected).await?;
    Ok(derived::forget_user_file(c, actor.workspace, actor.user).await?)
}

async fn put(
    c: &mut Conn,
    actor: &Actor<'_>,
    file: Option<(&str, UserFileVisibility)>,
    expected: Option<i64>,
) -> Result<UserFile, MemoryError> {
    dialect::lock_workspace(c, actor.workspace.0).await?;
    let known = find(c, actor.workspace, actor.user).await?;
    let has_content = known.as_ref().is_some_and(|row| row.content.is_some());
    if file.is_none() && !has_content {
        return Err(MemoryError::NoUserFile);
    }
    let known = shown(known);
    if expected.is_some_and(|expected| expected != known.version) {
        return Err(MemoryError::UserFileStale(Box::new(known)));
    }
    if has_content && file == Some((&*known.content, known.visibility)) {
        return Ok(known);
    }
    c.q("insert into user_files (workspace_id, user_id, content, visibility, version, updated_at) values ($1, $2, $3, $4, $5, $6) \
         on conflict (workspace_id, user_id) do update set content = excluded.content, visibility = excluded.visibility, \
         version = excluded.version, updated_at = excluded.updated_at")
        .bind(actor.workspace)
        .bind(actor.user)
        .bind(file.map(|(content, _)| content.to_owned()))
        .bind(file.map_or(UserFileVisibility::Direct, |(_, visibility)| visibility))
        .bind(known.version + 1)
        .bind(now())
        .run()
        .await?;
    Ok(shown(find(c, actor.workspace, actor.user).await?))
}
