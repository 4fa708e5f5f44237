//! Accounts of authors whom nobody can sign in as: bots, people of imported archives, and those of the example.

use super::{UserKind, look_alikes::Skeletons};
use crate::{
    db::{Conn, DbError, now},
    ids::UserId,
};

/// Inserts the account of an author whom nobody can sign in as, unless it is there.
///
/// # Errors
/// Only database errors.
pub async fn insert_without_sign_in(
    c: &mut Conn,
    id: UserId,
    name: &str,
    kind: UserKind,
) -> Result<(), DbError> {
    let skeletons = Skeletons::of(name);
    // Neither the address nor the hash can be entered or verified.
    c.q("insert into users (id, email, name, avatar_url, password_hash, created_at, name_skeleton, name_folded, kind) \
         values ($1, $2, $3, null, '', $4, $5, $6, $7) on conflict do nothing")
        .bind(id)
        .bind(id.to_string())
        .bind(name.to_owned())
        .bind(now())
        .bind(skeletons.exact)
        .bind(skeletons.folded)
        .bind(kind)
        .run()
        .await?;
    Ok(())
}
