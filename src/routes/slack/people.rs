//! People, bots, and the workspace.

use serde_json::json;
use uuid::Uuid;

use super::{Answer, Call, Refusal, next_page};
use crate::{
    auth::{self, Actor, Scope},
    db::{Conn, DbError},
    ids::{AgentId, BotId, UserId},
    routes::chat::list_online,
    slack::{self, Addresses, SlackFault},
};

const PEOPLE_MAX: i64 = 1000;

impl Call<'_> {
    /// People see addresses, and so do bots that an admin has allowed to.
    pub(super) async fn addresses(&self, c: &mut Conn) -> Result<Addresses, DbError> {
        Ok(match self.caller.bot() {
            Some(bot) if !slack::shows_emails(c, bot).await? => Addresses::Hidden,
            _ => Addresses::Shown,
        })
    }

    /// Enters the workspace to read.
    async fn reader(&self, c: &mut Conn) -> Result<Actor<'_>, Refusal> {
        let actor = self.enter(c).await?;
        actor.require(Scope::ChatRead)?;
        Ok(actor)
    }
}

pub(super) async fn auth_test(call: &Call<'_>) -> Answer {
    let mut c = call.state.db.read().await?;
    call.enter(&mut c).await?;
    let workspace = auth::get_workspace(&mut c, call.workspace).await?;
    let user = slack::user_id(call.caller.user.0);
    let mut answer = json!({
        "url": format!("{}/", call.state.public_url), "team": workspace.name, "user": call.caller.name,
        "team_id": slack::team_id(call.workspace), "user_id": user, "is_enterprise_install": false,
    });
    if let Some(bot) = call.caller.bot() {
        let robot = slack::find_robot(&mut c, call.workspace, bot).await?;
        answer["user"] = robot.map(|robot| robot.handle).into();
        answer["bot_id"] = slack::bot_id(bot).into();
    } else if let Some(member) = auth::find_member(&mut c, call.workspace, call.caller.user).await?
    {
        answer["user"] = member.handle.into();
    }
    Ok(answer)
}

pub(super) async fn team(call: &Call<'_>) -> Answer {
    let mut c = call.state.db.read().await?;
    call.enter(&mut c).await?;
    let workspace = auth::get_workspace(&mut c, call.workspace).await?;
    Ok(json!({"team": {
        "id": slack::team_id(call.workspace), "name": workspace.name, "domain": workspace.slug, "email_domain": "",
        "url": format!("{}/", call.state.public_url), "icon": {"image_default": true},
    }}))
}

pub(super) async fn bot(call: &Call<'_>) -> Answer {
    let mut c = call.state.db.read().await?;
    call.reader(&mut c).await?;
    let id = match call.args.text("bot") {
        Some(text) => slack::parse_bot(&text),
        None => call.caller.bot(),
    };
    let id = id.ok_or(SlackFault::BotNotFound)?;
    let found = slack::find_robot(&mut c, call.workspace, id).await?;
    let found = found.ok_or(SlackFault::BotNotFound)?;
    Ok(json!({"bot": slack::bot(&found)}))
}

pub(super) async fn list(call: &Call<'_>) -> Answer {
    let limit = call.args.limit(PEOPLE_MAX, PEOPLE_MAX)?;
    let after = match call.args.text("cursor") {
        Some(text) => Some(UserId::parse(&text).map_err(|_| SlackFault::InvalidCursor)?),
        None => None,
    };
    let mut c = call.state.db.read().await?;
    let actor = call.reader(&mut c).await?;
    let listed = auth::list_members(&mut c, &actor, after, None, limit + 1).await;
    let mut members = match listed {
        Err(auth::AuthError::MemberNotFound(_)) => return Err(SlackFault::InvalidCursor.into()),
        listed => listed?,
    };
    let page = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = members.len() > page;
    members.truncate(page);
    let addresses = call.addresses(&mut c).await?;
    let mut shown: Vec<_> = members
        .iter()
        .map(|member| slack::person(call.workspace, member, addresses))
        .collect();
    let last = members.last().map(|member| member.user_id.to_string());
    let next = last.filter(|_| has_more);
    if !has_more {
        let robots = slack::list_robots(&mut c, call.workspace).await?;
        shown.extend(
            robots
                .iter()
                .map(|robot| slack::robot(call.workspace, robot)),
        );
    }
    Ok(json!({
        "members": shown, "cache_ts": crate::db::now().unix_s(), "response_metadata": next_page(next),
    }))
}

/// The user of an argument: an ID, or `@handle`.
pub(super) async fn user_of(
    c: &mut Conn,
    call: &Call<'_>,
    text: &str,
) -> Result<Option<Uuid>, Refusal> {
    if let Some(id) = slack::parse_user(text) {
        return Ok(Some(id));
    }
    Ok(match text.strip_prefix('@') {
        Some(handle) => slack::handle_owner(c, call.workspace, handle).await?,
        None => None,
    })
}

pub(super) async fn info(call: &Call<'_>) -> Answer {
    let text = call.args.required("user", SlackFault::UserNotFound)?;
    let mut c = call.state.db.read().await?;
    call.reader(&mut c).await?;
    let id = user_of(&mut c, call, &text).await?;
    let id = id.ok_or(SlackFault::UserNotFound)?;
    if let Some(member) = auth::find_member(&mut c, call.workspace, UserId(id)).await? {
        let addresses = call.addresses(&mut c).await?;
        return Ok(json!({"user": slack::person(call.workspace, &member, addresses)}));
    }
    if let Some(robot) = slack::find_robot(&mut c, call.workspace, BotId(id)).await? {
        return Ok(json!({"user": slack::robot(call.workspace, &robot)}));
    }
    let agent = slack::find_agent(&mut c, call.workspace, AgentId(id)).await?;
    let agent = agent.ok_or(SlackFault::UserNotFound)?;
    Ok(json!({"user": slack::agent(call.workspace, &agent)}))
}

/// Bots are always there; people are if they have an open window.
pub(super) async fn presence(call: &Call<'_>) -> Answer {
    let mut c = call.state.db.read().await?;
    call.reader(&mut c).await?;
    let id = match call.args.text("user") {
        Some(text) => user_of(&mut c, call, &text).await?,
        None => Some(call.caller.user.0),
    };
    let id = id.ok_or(SlackFault::UserNotFound)?;
    let user = UserId(id);
    let is_online = if auth::find_member(&mut c, call.workspace, user)
        .await?
        .is_some()
    {
        let online = list_online(&mut c, call.state, call.workspace).await?;
        online.contains(&user)
    } else {
        let robot = slack::find_robot(&mut c, call.workspace, BotId(id)).await?;
        robot.ok_or(SlackFault::UserNotFound)?;
        true
    };
    let presence = if is_online { "active" } else { "away" };
    Ok(json!({"presence": presence, "online": is_online}))
}

pub(super) async fn with_email(call: &Call<'_>) -> Answer {
    let email = call.args.required("email", SlackFault::UsersNotFound)?;
    let mut c = call.state.db.read().await?;
    call.reader(&mut c).await?;
    // A bot that sees no addresses cannot find people by them.
    if call.addresses(&mut c).await? == Addresses::Hidden {
        return Err(SlackFault::UsersNotFound.into());
    }
    let found = slack::user_with_email(&mut c, call.workspace, &email).await?;
    let found = found.ok_or(SlackFault::UsersNotFound)?;
    let member = auth::get_member(&mut c, call.workspace, found).await?;
    Ok(json!({"user": slack::person(call.workspace, &member, Addresses::Shown)}))
}
