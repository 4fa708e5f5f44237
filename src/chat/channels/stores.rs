//! Vector stores whose passages agents read for each question in a channel.

use crate::{
    agents::{
        AgentError,
        profiles::{STORES_MAX, can_read_store},
    },
    chat::{ChatError, access::ChannelAccess},
    db::{Conn, DbError},
    ids::ChannelId,
};

/// Maximum number of characters of a vector store's name in an error.
const NAME_CHARS_MAX: usize = 80;

/// Names of the vector stores of a channel.
pub async fn list_stores(c: &mut Conn, channel: ChannelId) -> Result<Vec<String>, DbError> {
    let row: Option<(String,)> = c
        .q("select vector_store_ids from channels where id = $1")
        .bind(channel)
        .opt()
        .await?;
    let names = row.map(|(names,)| serde_json::from_str(&names).unwrap_or_default());
    Ok(names.unwrap_or_default())
}

/// Sets the vector stores of a channel; the caller must announce the channel. Everyone who can read the channel must be able to read
/// those that are new, because their names are shown to them.
///
/// # Errors
/// `Invalid` for too many, `AgentError::NoSuchVectorStore`.
pub(super) async fn set_stores(
    c: &mut Conn,
    access: &ChannelAccess<'_>,
    names: &[String],
) -> Result<(), ChatError> {
    const PARAM: &str = "vector_store_ids";
    if names.len() > STORES_MAX {
        let text = format!("a channel can have at most {STORES_MAX} vector stores");
        return Err(ChatError::Invalid(text, PARAM));
    }
    let stored = list_stores(c, access.channel).await?;
    let mut distinct: Vec<&String> = Vec::with_capacity(names.len());
    for name in names {
        if distinct.contains(&name) {
            continue;
        }
        if !stored.contains(name)
            && !can_read_store(c, &access.actor, name, Some(access.channel)).await?
        {
            let name = name.chars().take(NAME_CHARS_MAX).collect();
            return Err(AgentError::NoSuchVectorStore(name, PARAM).into());
        }
        distinct.push(name);
    }
    let text = serde_json::to_string(&distinct).unwrap_or_else(|_| "[]".to_owned());
    c.q("update channels set vector_store_ids = $2 where id = $1")
        .bind(access.channel)
        .bind(text)
        .run()
        .await?;
    Ok(())
}
