//! Channels of a list that a person can read, such as those in settings that several admins change.

use std::collections::BTreeSet;

use crate::{
    db::{Conn, DbError, dialect::hexadecimal_ids, is_visible_channel},
    ids::{ChannelId, UserId},
    sql_with_ids,
};

/// Those of the channels that a person can read.
///
/// # Errors
/// Only database errors.
pub async fn readable_channels(
    c: &mut Conn,
    user: UserId,
    channels: &[ChannelId],
) -> Result<BTreeSet<ChannelId>, DbError> {
    if channels.is_empty() {
        return Ok(BTreeSet::new());
    }
    let sql = sql_with_ids!(
        c,
        "select ch.id from channels ch where ch.id in",
        1,
        concat!("and ", is_visible_channel!("ch", "$2"), " order by ch.id")
    );
    let found: Vec<(ChannelId,)> = c
        .q(sql)
        .bind(hexadecimal_ids(channels.iter().map(|channel| channel.0)))
        .bind(user)
        .all()
        .await?;
    Ok(found.into_iter().map(|(id,)| id).collect())
}
