//! Tickets for sockets of bots' programs (Slack's Socket Mode).

use serde_json::json;

use super::{Answer, Call, Refusal};
use crate::{
    auth::{AuthError, Caller, Credential, Scope},
    db::Conn,
    outgoing::{self, TicketRefusal},
    slack::SlackFault,
    tasks::asleep,
};

pub(super) async fn open(call: &Call<'_>) -> Answer {
    let bot = call.caller.bot().ok_or(SlackFault::NotAllowedTokenType)?;
    let Credential::Key {
        id: key, scopes, ..
    } = &call.caller.credential
    else {
        return Err(SlackFault::InvalidAuth.into());
    };
    if !scopes.has(Scope::ChatRead) {
        return Err(SlackFault::MissingScope.into());
    }
    let is_asleep = asleep::is_asleep(&mut call.state.db.read().await?).await?;
    if call.state.config.is_quiet || is_asleep {
        return Err(SlackFault::ServiceUnavailable.into());
    }
    let (key, workspace) = (*key, call.workspace);
    let issued = call
        .write(async move |c: &mut Conn, caller: &Caller| {
            // The key may have been deleted in the meantime.
            caller.enter(c, workspace).await?;
            Ok::<_, AuthError>(outgoing::issue_ticket(c, bot, key).await?)
        })
        .await?;
    let ticket = issued.map_err(|refusal| {
        Refusal::Fault(match refusal {
            TicketRefusal::NoSubscription => SlackFault::NotAllowedTokenType,
            TicketRefusal::TooMany => SlackFault::TooManyWebsockets,
        })
    })?;
    let base = call.state.public_url.replacen("http", "ws", 1);
    Ok(json!({"url": format!("{base}/api/socket?ticket={ticket}")}))
}
