//! Pinned messages. Bots can list them, and only people change them.

use serde_json::{Value, json};

use super::{Answer, Call, Refusal, messages::found};
use crate::{
    auth::Caller,
    chat::{messages::get_message, pins},
    db::Conn,
    ids::MessageId,
    slack::{self, SlackFault, ThreadFacts},
};

/// The message of a call, and whether it is pinned.
async fn pinned(call: &Call<'_>) -> Result<(MessageId, bool), Refusal> {
    call.require_person()?;
    let mut c = call.state.db.read().await?;
    let channel = call.channel_arg(&mut c).await?;
    let (id, _) = found(&mut c, call, channel, "timestamp").await?;
    let message = get_message(&mut c, id).await?;
    Ok((id, message.metadata.pinned_by.is_some()))
}

pub(super) async fn add(call: &Call<'_>) -> Answer {
    let (id, is_pinned) = pinned(call).await?;
    if is_pinned {
        return Err(SlackFault::AlreadyPinned.into());
    }
    call.write(async move |c: &mut Conn, caller: &Caller| pins::pin(c, caller, id).await)
        .await?;
    Ok(json!({}))
}

pub(super) async fn remove(call: &Call<'_>) -> Answer {
    let (id, is_pinned) = pinned(call).await?;
    if !is_pinned {
        return Err(SlackFault::NoPin.into());
    }
    call.write(async move |c: &mut Conn, caller: &Caller| pins::unpin(c, caller, id).await)
        .await?;
    Ok(json!({}))
}

pub(super) async fn list(call: &Call<'_>) -> Answer {
    let text = call.args.required("channel", SlackFault::ChannelNotFound)?;
    let mut c = call.state.db.read().await?;
    let channel = call.channel(&mut c, &text).await?;
    let pinned = pins::list_pins(&mut c, &call.caller, channel).await?;
    let items: Vec<Value> = pinned
        .iter()
        .map(|message| {
            let by = message.metadata.pinned_by;
            json!({
                "type": "message", "channel": text, "created": message.created_at.unix_s(),
                "created_by": by.map(|user| slack::user_id(user.0)),
                "message": slack::message(message, &ThreadFacts::default(), &call.state.public_url),
            })
        })
        .collect();
    Ok(json!({"items": items}))
}
