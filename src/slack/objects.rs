//! Messages, people, bots, and channels as Slack shows them.

use serde_json::{Value, json};

use super::{
    ids::{app_id, bot_id, channel_id, file_id, team_id, ts_at, user_id},
    mrkdwn::to_mrkdwn,
    rows::{AgentRow, ConversationRow, RobotRow},
};
use crate::{
    auth::{Member, Role},
    chat::{
        channels::ChannelKind,
        messages::{AuthorKind, Message, Reaction, reaction_name},
    },
    files::File,
    hooks::slack_ts,
    ids::{AgentId, BotId, UserId, WorkspaceId},
};

/// Fields of a message that come from its thread.
#[derive(Debug, Clone, Default)]
pub struct ThreadFacts {
    /// `ts` of the first message.
    pub thread_ts: Option<String>,
    /// Number of replies, for the first message.
    pub reply_count: Option<i64>,
}

/// Visibility of people's email addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addresses {
    Shown,
    Hidden,
}

fn author_user(message: &Message) -> Option<String> {
    let id = message.author.id.as_deref()?;
    match message.author.kind {
        AuthorKind::Human => UserId::parse(id).ok().map(|id| user_id(id.0)),
        AuthorKind::Agent => AgentId::parse(id).ok().map(|id| user_id(id.0)),
        AuthorKind::Bot => BotId::parse(id).ok().map(|id| user_id(id.0)),
        AuthorKind::System => None,
    }
}

/// A file. `public_url` is that of the server.
pub fn file(file: &File, public_url: &str) -> Value {
    let url = format!("{public_url}{}", file.url);
    let extension = file.name.rsplit_once('.').map_or("", |(_, end)| end);
    let created = file.created_at.unix_s();
    json!({
        "id": file_id(file.id), "created": created, "timestamp": created, "name": file.name, "title": file.name,
        "mimetype": file.content_type, "filetype": extension.to_lowercase(), "size": file.size_bytes,
        "user": user_id(file.created_by.0), "mode": "hosted", "is_external": false, "is_public": false,
        "url_private": url, "url_private_download": format!("{url}?download=1"), "permalink": url,
    })
}

/// A message. `public_url` is that of the server.
pub fn message(message: &Message, facts: &ThreadFacts, public_url: &str) -> Value {
    let mut shown = json!({
        "type": "message",
        "text": to_mrkdwn(&message.content, &message.mentions),
        "ts": slack_ts(message),
        "team": team_id(message.workspace_id),
    });
    if let Some(user) = author_user(message) {
        shown["user"] = user.into();
    }
    if message.author.kind == AuthorKind::Bot {
        let id = message
            .author
            .id
            .as_deref()
            .and_then(|id| BotId::parse(id).ok());
        shown["bot_id"] = id.map(bot_id).into();
        let face = message
            .metadata
            .shown_as
            .as_ref()
            .and_then(|face| face.name.clone());
        if let Some(name) = face {
            shown["subtype"] = "bot_message".into();
            shown["username"] = name.into();
        }
    }
    if message.author.kind == AuthorKind::System {
        shown["subtype"] = "system_message".into();
    }
    if message.deleted_at.is_some() {
        shown["subtype"] = "tombstone".into();
        shown["text"] = "This message was deleted.".into();
    }
    if let Some(thread_ts) = &facts.thread_ts {
        shown["thread_ts"] = thread_ts.as_str().into();
    }
    if let Some(count) = facts.reply_count {
        shown["reply_count"] = count.into();
        if count > 0 {
            shown["thread_ts"] = shown["ts"].clone();
        }
    }
    if let Some(at) = message.edited_at {
        shown["edited"] = json!({"user": shown["user"], "ts": ts_at(at)});
    }
    if !message.reactions.is_empty() {
        shown["reactions"] = reactions(&message.reactions);
    }
    if !message.attachments.is_empty() {
        let files = message.attachments.iter();
        shown["files"] = files.map(|attached| file(attached, public_url)).collect();
    }
    if let Some(id) = &message.client_id {
        shown["client_msg_id"] = id.as_str().into();
    }
    shown
}

/// Reactions, by name where an emoji has one.
pub fn reactions(reactions: &[Reaction]) -> Value {
    let shown = reactions.iter().map(|reaction| {
        let people = reaction.user_ids.iter().map(|id| user_id(id.0));
        let agents = reaction.agent_ids.iter().map(|id| user_id(id.0));
        let bots = reaction.bot_ids.iter().map(|id| user_id(id.0));
        let users: Vec<String> = people.chain(agents).chain(bots).collect();
        json!({"name": reaction_name(&reaction.emoji), "count": users.len(), "users": users})
    });
    shown.collect()
}

/// A member of the workspace.
pub fn person(workspace: WorkspaceId, member: &Member, addresses: Addresses) -> Value {
    let mut profile = json!({
        "real_name": member.name, "real_name_normalized": member.name,
        "display_name": member.handle, "display_name_normalized": member.handle,
        "team": team_id(workspace),
    });
    if addresses == Addresses::Shown {
        profile["email"] = member.email.as_str().into();
    }
    json!({
        "id": user_id(member.user_id.0), "team_id": team_id(workspace), "name": member.handle, "real_name": member.name,
        "deleted": false, "is_admin": member.role == Role::Admin, "is_owner": false, "is_primary_owner": false,
        "is_restricted": matches!(member.role, Role::Viewer | Role::Guest), "is_ultra_restricted": false, "is_bot": false, "is_app_user": false,
        "updated": member.joined_at.unix_s(), "profile": profile,
    })
}

/// A bot as a user.
pub fn robot(workspace: WorkspaceId, bot: &RobotRow) -> Value {
    json!({
        "id": user_id(bot.id.0), "team_id": team_id(workspace), "name": bot.handle, "real_name": bot.name, "deleted": false,
        "is_admin": false, "is_owner": false, "is_bot": true, "is_app_user": false, "updated": bot.created_at.unix_s(),
        "profile": {"real_name": bot.name, "display_name": bot.handle, "bot_id": bot_id(bot.id), "team": team_id(workspace)},
    })
}

/// An agent as a user.
pub fn agent(workspace: WorkspaceId, agent: &AgentRow) -> Value {
    let team = team_id(workspace);
    json!({
        "id": user_id(agent.id.0), "team_id": team, "name": agent.name, "real_name": agent.shown, "deleted": false,
        "is_admin": false, "is_owner": false, "is_bot": true, "is_app_user": false, "updated": agent.created_at.unix_s(),
        "profile": {"real_name": agent.shown, "display_name": agent.name, "team": team},
    })
}

/// A bot.
pub fn bot(bot: &RobotRow) -> Value {
    json!({
        "id": bot_id(bot.id), "app_id": app_id(bot.id), "user_id": user_id(bot.id.0), "name": bot.name,
        "deleted": false, "updated": bot.created_at.unix_s(), "icons": {},
    })
}

/// A channel.
pub fn conversation(workspace: WorkspaceId, row: &ConversationRow) -> Value {
    let is_direct = row.kind == ChannelKind::Direct;
    let is_group = is_direct && !row.is_pair;
    let id = channel_id(row.id, row.kind);
    let creator = row.created_by.map(|id| user_id(id.0)).unwrap_or_default();
    let created = row.created_at.unix_s();
    let topic = row.topic.clone().unwrap_or_default();
    let mut shown = json!({
        "id": id, "created": created, "creator": creator, "is_archived": row.archived_at.is_some(),
        "is_channel": row.kind == ChannelKind::Public, "is_group": row.kind == ChannelKind::Private, "is_im": is_direct && !is_group,
        "is_mpim": is_group, "is_private": row.kind != ChannelKind::Public, "is_general": false, "is_shared": false,
        "is_org_shared": false, "is_ext_shared": false, "is_member": row.is_member, "context_team_id": team_id(workspace),
        "num_members": row.num_members,
        "topic": {"value": topic, "creator": "", "last_set": 0}, "purpose": {"value": "", "creator": "", "last_set": 0},
    });
    if let Some(name) = &row.name {
        shown["name"] = name.as_str().into();
        shown["name_normalized"] = name.as_str().into();
    }
    if is_direct && !is_group {
        // A person's notes to themselves have no other member.
        let peer = row.peer.or(row.created_by.map(|id| id.0));
        shown["user"] = peer.map(user_id).into();
    }
    shown
}
