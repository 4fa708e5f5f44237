//! Previews that bots add to links in messages of people. The server loads nothing from the linked pages.

use super::{
    ChatError, access,
    messages::announce_update,
    rows::message::{AuthorKind, Message, MessageKind, Unfurl, get_message, update_metadata},
};
use crate::{
    auth::Caller,
    db::{Conn, Json, dialect},
    ids::{BotId, MessageId},
    outbound::{Url, is_in_domain},
};

/// Maximum number of previews of a message.
pub const UNFURLS_MAX: usize = 5;
/// Maximum size of a preview's text in UTF-8 bytes.
pub const UNFURL_BYTES_MAX: usize = 4 * 1024;

/// The host of an `http` or `https` link.
fn host_of(url: &str) -> Option<String> {
    let parsed = Url::parse(url).ok()?;
    let is_web = matches!(parsed.scheme(), "http" | "https");
    parsed
        .host_str()
        .filter(|_| is_web)
        .map(str::to_ascii_lowercase)
}

/// Adds previews to links in a person's message; a preview replaces that of the same link. Appends `message.updated`.
///
/// # Errors
/// `MessageNotFound`, `MessageDeleted`, `NotEditable` for messages of others than people, `Invalid` for a link that is not in the message
/// or not of the bot's domains and for too many previews, or any error from `writing`.
pub async fn add(
    c: &mut Conn,
    caller: &Caller,
    bot: BotId,
    id: MessageId,
    new: &[Unfurl],
) -> Result<Message, ChatError> {
    let access = access::message(c, caller, id).await?.writing()?;
    dialect::lock_workspace(c, access.channel_access.actor.workspace.0).await?;
    let mut message = get_message(c, id).await?;
    if message.deleted_at.is_some() {
        return Err(ChatError::MessageDeleted);
    }
    if message.author.kind != AuthorKind::Human || message.kind != MessageKind::Text {
        return Err(ChatError::NotEditable);
    }
    let (Json(domains),): (Json<Vec<String>>,) = c
        .q("select link_domains from bots where id = $1")
        .bind(bot)
        .one()
        .await?;
    for unfurl in new {
        let host = host_of(&unfurl.url);
        let may = host.is_some_and(|host| {
            let mut domains = domains.iter();
            domains.any(|domain| is_in_domain(&host, domain))
        });
        if !may || !unfurl.is_in(&message.content) {
            let text = format!(
                "the message has no link `{}` for which the bot adds previews",
                unfurl.url
            );
            return Err(ChatError::Invalid(text, "unfurls"));
        }
        let shown = &mut message.metadata.unfurls;
        match shown.iter_mut().find(|known| known.url == unfurl.url) {
            Some(known) => known.clone_from(unfurl),
            None => shown.push(unfurl.clone()),
        }
    }
    if message.metadata.unfurls.len() > UNFURLS_MAX {
        let text = format!("a message can have at most {UNFURLS_MAX} previews");
        return Err(ChatError::Invalid(text, "unfurls"));
    }
    update_metadata(c, id, message.metadata.clone()).await?;
    announce_update(c, &message, access.channel_access.audience()).await?;
    Ok(message)
}

/// Removes all previews from the caller's own message. Appends `message.updated`, unless there were none.
///
/// # Errors
/// `MessageNotFound`, `NotYours`, or any error from `writing`.
pub async fn remove(c: &mut Conn, caller: &Caller, id: MessageId) -> Result<Message, ChatError> {
    let access = access::message(c, caller, id).await?.writing()?;
    dialect::lock_workspace(c, access.channel_access.actor.workspace.0).await?;
    let mut message = get_message(c, id).await?;
    if !message.author.is(caller) {
        return Err(ChatError::NotYours);
    }
    if !message.metadata.unfurls.is_empty() {
        message.metadata.unfurls.clear();
        update_metadata(c, id, message.metadata.clone()).await?;
        announce_update(c, &message, access.channel_access.audience()).await?;
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_of_the_web_have_a_host() {
        assert_eq!(host_of("https://A.example/1").as_deref(), Some("a.example"));
        assert_eq!(host_of("javascript://a.example/1"), None);
    }
}
