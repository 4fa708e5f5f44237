//! Addresses for files: a program asks for one with a key, and sends the file without the key.

use std::time::Duration;

use crate::{
    auth::{hash_token, new_token},
    db::{Conn, Db, DbError, now},
    ids::{ApiKeyId, FileId},
};

/// Time in which the file must be sent.
const UPLOAD_WITHIN: Duration = Duration::from_mins(10);
/// Maximum number of unused addresses of a key.
const UPLOADS_MAX: i64 = 50;

/// A file that a program has announced.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct AnnouncedFile {
    /// ID of the file, once it has been received.
    pub id: FileId,
    /// Key that announced it.
    pub credential_id: ApiKeyId,
    pub name: String,
    pub size_bytes: i64,
}

/// Stores an announced file, and returns the token of its address. Returns `None` if the key has too many unused addresses.
///
/// # Errors
/// Only database errors.
pub async fn announce_file(c: &mut Conn, file: &AnnouncedFile) -> Result<Option<String>, DbError> {
    let pending: i64 = c
        .q("select count(*) from slack_uploads where credential_id = $1 and is_used = FALSE and expires_at > $2")
        .bind(file.credential_id)
        .bind(now())
        .value()
        .await?;
    if pending >= UPLOADS_MAX {
        return Ok(None);
    }
    let token = new_token();
    c.q("insert into slack_uploads (id, token_hash, credential_id, name, size_bytes, is_used, expires_at) \
         values ($1, $2, $3, $4, $5, FALSE, $6)")
        .bind(file.id)
        .bind(hash_token(&token))
        .bind(file.credential_id)
        .bind(file.name.clone())
        .bind(file.size_bytes)
        .bind(now() + UPLOAD_WITHIN)
        .run()
        .await?;
    Ok(Some(token))
}

/// The announced file of an address that is still unused.
///
/// # Errors
/// Only database errors.
pub async fn find_announced(c: &mut Conn, token: &str) -> Result<Option<AnnouncedFile>, DbError> {
    c.q("select id, credential_id, name, size_bytes from slack_uploads where token_hash = $1 and is_used = FALSE and expires_at > $2")
        .bind(hash_token(token))
        .bind(now())
        .opt()
        .await
}

/// Marks an address as used. Returns false if another request has used it.
///
/// # Errors
/// Only database errors.
pub async fn use_announced(c: &mut Conn, id: FileId) -> Result<bool, DbError> {
    let n = c
        .q("update slack_uploads set is_used = TRUE where id = $1 and is_used = FALSE")
        .bind(id)
        .run()
        .await?;
    Ok(n == 1)
}

/// Deletes addresses that have expired.
///
/// # Errors
/// Only database errors.
pub async fn delete_old_uploads(db: &Db) -> Result<(), DbError> {
    db.delete_expired(
        now(),
        "select exists (select 1 from slack_uploads where expires_at < $1)",
        "delete from slack_uploads where id in (select id from slack_uploads where expires_at < $1 order by expires_at limit $2)",
    )
    .await?;
    Ok(())
}
