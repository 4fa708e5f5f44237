//! Methods of Slack's API that programs of bots asked for and that are not offered.

use serde::Serialize;

use crate::{
    db::{Conn, DbError},
    ids::BotId,
};

/// Maximum number of methods that are counted for a bot.
const METHODS_MAX: i64 = 20;
const METHOD_BYTES_MAX: usize = 60;

/// A method of Slack's API that is not offered.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct MissingMethod {
    #[schema(example = "views.open")]
    pub method: String,
    /// Number of times that the bot's program asked for it.
    #[sqlx(rename = "asked")]
    pub count: i64,
}

/// Counts a call of a method that is not offered.
///
/// # Errors
/// Only database errors.
pub async fn count_missing_method(c: &mut Conn, bot: BotId, method: &str) -> Result<(), DbError> {
    let is_part = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_');
    if method.len() > METHOD_BYTES_MAX || !method.bytes().all(is_part) {
        return Ok(());
    }
    c.q("insert into missing_methods (bot_id, method, asked) select b.id, $2, 1 from bots b where b.id = $1 \
         and (exists (select 1 from missing_methods m where m.bot_id = $1 and m.method = $2) \
         or (select count(*) from missing_methods m where m.bot_id = $1) < $3) \
         on conflict (bot_id, method) do update set asked = missing_methods.asked + 1")
        .bind(bot)
        .bind(method.to_owned())
        .bind(METHODS_MAX)
        .run()
        .await?;
    Ok(())
}

/// Methods that a bot's program asked for in vain, most frequent first.
pub(super) async fn list_missing_methods(
    c: &mut Conn,
    bot: BotId,
) -> Result<Vec<MissingMethod>, DbError> {
    c.q("select method, asked from missing_methods where bot_id = $1 order by asked desc, method limit $2")
        .bind(bot)
        .bind(METHODS_MAX)
        .all()
        .await
}
