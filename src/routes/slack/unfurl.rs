//! Previews of links in messages of people.

use serde_json::{Value, json};

use super::{Answer, Call, Refusal, messages::found};
use crate::{
    auth::Caller,
    chat::{
        messages::Unfurl,
        unfurls::{self, UNFURL_BYTES_MAX, UNFURLS_MAX},
    },
    db::{Conn, DbError},
    hooks::{ButtonUse, Incoming},
    http::ErrorCode,
    ids::BotId,
    slack::{self, SlackFault},
    tasks::slow,
};

/// The previews of a call by link, each an attachment or an object with blocks.
fn read(bot: BotId, bot_name: &str, links: Value) -> Result<Vec<Unfurl>, SlackFault> {
    let Value::Object(links) = links else {
        return Err(SlackFault::MissingUnfurls);
    };
    if links.is_empty() || links.len() > UNFURLS_MAX {
        return Err(SlackFault::MissingUnfurls);
    }
    let unfurl = |(url, attachment): (String, Value)| {
        let message = json!({"attachments": [attachment]});
        let incoming = Incoming::slack(&message).map_err(SlackFault::from)?;
        let incoming = incoming.with_buttons(ButtonUse::Text);
        if incoming.content.len() > UNFURL_BYTES_MAX {
            return Err(SlackFault::MsgTooLong);
        }
        Ok(Unfurl {
            url,
            bot_id: bot,
            bot_name: bot_name.to_owned(),
            content: incoming.content,
            color: incoming.metadata.color,
        })
    };
    links.into_iter().map(unfurl).collect()
}

pub(super) async fn add(call: &Call<'_>) -> Answer {
    let bot = call.caller.bot().ok_or(SlackFault::RestrictedAction)?;
    let mut c = call.state.db.read().await?;
    let channel = call.channel_arg(&mut c).await?;
    let (id, _) = found(&mut c, call, channel, "ts").await?;
    let mut links = call
        .args
        .nested("unfurls")?
        .ok_or(SlackFault::MissingUnfurls)?;
    let actor = call.enter(&mut c).await?;
    slack::name_references(&mut c, &call.caller, &actor, &mut links).await?;
    drop(actor);
    drop(c);
    let name = call.caller.name.clone();
    // Blocks can be long and deeply nested.
    let new = slow::run(call.caller.user, move |_| read(bot, &name, links)).await;
    let new = new.map_err(|_| DbError::Closed)??;
    let written = call
        .write(async move |c: &mut Conn, caller: &Caller| {
            unfurls::add(c, caller, bot, id, &new).await
        })
        .await;
    match written {
        Ok(_) => Ok(json!({})),
        Err(Refusal::Api(error)) if error.code() == ErrorCode::InvalidValue => {
            Err(SlackFault::CannotUnfurlUrl.into())
        }
        Err(Refusal::Api(error)) if error.code() == ErrorCode::NotEditable => {
            Err(SlackFault::CannotUnfurlMessage.into())
        }
        Err(refusal) => Err(refusal),
    }
}
