//! Questions to people who have not answered.

use std::time::Duration;

use serde::Serialize;

use super::list::InboxListObject;
use crate::{
    auth::{Actor, Scope},
    chat::{
        ChatError,
        rows::message::{Message, get_message},
    },
    db::{Conn, is_in_visible_channel, now},
    ids::MessageId,
};

/// Maximum number of messages in the list.
const ASKED_MAX: usize = 20;
/// Maximum number of messages with mentions that are searched for questions.
const SEARCHED_MAX: i64 = 200;
const ASKED_WITHIN: Duration = Duration::from_hours(14 * 24);

/// Messages in which the caller asks people who have not written there since.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct AskedMessages {
    #[schema(inline)]
    pub object: InboxListObject,
    /// At most 20 messages of the last 14 days, newest first.
    pub data: Vec<Message>,
}

/// The caller's questions that somebody has not answered.
///
/// # Errors
/// Any error from `Actor::require`.
pub async fn asked(c: &mut Conn, actor: &Actor<'_>) -> Result<AskedMessages, ChatError> {
    actor.require(Scope::ChatRead)?;
    let found: Vec<(MessageId, String, i64)> = c
        .q(concat!(
            "select m.id, m.content_plain, m.seq from messages m where m.deleted_at is null and m.id in \
             (select i.subject_id from inbox_items i join messages n on n.id = i.subject_id where i.actor_id = $1 and i.workspace_id = $2 \
               and i.reason = 'mention' and i.created_at > $3 and not exists (select 1 from messages a \
                 where a.conversation_id = n.conversation_id and a.seq > n.seq and a.author_id = i.recipient_id and a.kind <> 'notice')) and ",
            is_in_visible_channel!("m.channel_id", "$1"),
            " order by m.seq desc limit $4"
        ))
        .bind(actor.user)
        .bind(actor.workspace)
        .bind(now() - ASKED_WITHIN)
        .bind(SEARCHED_MAX)
        .all()
        .await?;
    let questions = found
        .into_iter()
        .filter(|(_, text, _)| openvibe_responder::is_question(text));
    let mut data = Vec::new();
    for (id, _, _) in questions.take(ASKED_MAX) {
        data.push(get_message(c, id).await?);
    }
    Ok(AskedMessages {
        object: InboxListObject,
        data,
    })
}
