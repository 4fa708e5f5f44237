//! Messages that only one person sees. They are sent to the windows that the person has open, and are not stored.

use serde_json::json;

use super::{
    Answer, Call,
    messages::{Sent, sent_to_one, thread_of_arg},
    people::user_of,
};
use crate::{
    chat::{access, channels::ChannelKind},
    db::now,
    ids::{MessageId, UserId},
    realtime::LiveFrame,
    slack::{self, SlackFault},
};

pub(super) async fn post(call: &Call<'_>) -> Answer {
    let mut c = call.state.db.read().await?;
    let channel = call.channel_arg(&mut c).await?;
    let text = call.args.required("user", SlackFault::UserNotInChannel)?;
    let user = user_of(&mut c, call, &text).await?;
    let user = UserId(user.ok_or(SlackFault::UserNotInChannel)?);
    let thread = thread_of_arg(&mut c, call, channel).await?;
    let Sent { text, metadata } = sent_to_one(c, call).await?;
    let mut c = call.state.db.read().await?;
    let access = access::channel(&mut c, &call.caller, channel)
        .await?
        .writing()?;
    if access.kind == ChannelKind::Direct {
        return Err(SlackFault::MethodNotSupported.into());
    }
    if !slack::is_member_in(&mut c, channel, user).await? {
        return Err(SlackFault::UserNotInChannel.into());
    }
    drop(c);
    let at = now();
    let bot = call.caller.bot();
    let face = metadata.shown_as.unwrap_or_default();
    let frame = LiveFrame::Ephemeral {
        id: MessageId::new(),
        channel_id: channel,
        thread_id: thread,
        bot_id: bot,
        user_id: bot.is_none().then_some(call.caller.user),
        name: &call.caller.name,
        shown_as: face.name.as_deref().filter(|_| bot.is_some()),
        content: &text.content,
        created_at: at,
    };
    call.state.hub.tell_user(call.workspace, user, &frame);
    Ok(json!({"message_ts": slack::ts_at(at)}))
}
