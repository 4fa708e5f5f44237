//! Pinned messages. Bots can list them, and only people change them.

use serde_json::{Value, json};

use super::{Answer, Call, messages::found};
use crate::{
    auth::Caller,
    chat::pins,
    db::Conn,
    slack::{self, SlackFault, ThreadFacts},
};

pub(super) async fn add(call: &Call<'_>) -> Answer {
    call.require_person()?;
    let mut c = call.state.db.read().await?;
    let channel = call.channel_arg(&mut c).await?;
    let (id, _) = found(&mut c, call, channel, "timestamp").await?;
    drop(c);
    call.write(async move |c: &mut Conn, caller: &Caller| pins::pin(c, caller, id).await)
        .await?;
    Ok(json!({}))
}

pub(super) async fn remove(call: &Call<'_>) -> Answer {
    call.require_person()?;
    let mut c = call.state.db.read().await?;
    let channel = call.channel_arg(&mut c).await?;
    let (id, _) = found(&mut c, call, channel, "timestamp").await?;
    drop(c);
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
