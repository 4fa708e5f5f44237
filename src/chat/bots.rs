//! Bots as the clients of a workspace know them.

use std::collections::HashMap;

use serde::Serialize;

use crate::{
    db::{Conn, DbError},
    ids::{BotId, UserId, WorkspaceId},
    realtime::{Audience, EventData, EventType, NewEvent, log},
};

/// A bot, so that clients can name it.
#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct BotSummary {
    pub id: BotId,
    pub handle: String,
    pub name: String,
    /// Omitted if the bot has no picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub avatar_url: Option<String>,
    /// Names of its commands, without the slash.
    #[sqlx(skip)]
    pub commands: Vec<String>,
}

#[derive(Serialize, utoipa::ToSchema)]
pub struct BotEvent<'a> {
    pub bot: &'a BotSummary,
}

impl EventData for BotEvent<'_> {
    const TYPES: &'static [EventType] = &[EventType::BotUpdated];
}

/// Maximum number of names of commands that clients learn at once.
const COMMANDS_MAX: i64 = 4000;

/// Sets the names of the commands of bots of a workspace.
async fn add_commands(
    c: &mut Conn,
    workspace: WorkspaceId,
    bots: &mut [BotSummary],
) -> Result<(), DbError> {
    let rows: Vec<(BotId, String)> = c
        .q("select bot_id, name from bot_commands where workspace_id = $1 order by name limit $2")
        .bind(workspace)
        .bind(COMMANDS_MAX)
        .all()
        .await?;
    let mut by_bot: HashMap<BotId, Vec<String>> = HashMap::new();
    for (bot, name) in rows {
        by_bot.entry(bot).or_default().push(name);
    }
    for bot in bots {
        bot.commands = by_bot.remove(&bot.id).unwrap_or_default();
    }
    Ok(())
}

/// Bots of a workspace that a person can see, oldest first: for guests, those in their channels.
///
/// # Errors
/// Only database errors.
pub async fn list_bots(
    c: &mut Conn,
    workspace: WorkspaceId,
    reader: UserId,
    limit: i64,
) -> Result<Vec<BotSummary>, DbError> {
    let mut found: Vec<BotSummary> = c
        .q("select b.id, b.handle, u.name, u.avatar_url from bots b join users u on u.id = b.id where b.workspace_id = $1 \
         and (not exists (select 1 from members m where m.workspace_id = $1 and m.user_id = $3 and m.role = 'guest') \
         or exists (select 1 from bot_channels bc join channel_members cm on cm.channel_id = bc.channel_id \
         where bc.bot_id = b.id and cm.user_id = $3)) order by b.id limit $2")
        .bind(workspace)
        .bind(limit)
        .bind(reader)
        .all()
        .await?;
    add_commands(c, workspace, &mut found).await?;
    Ok(found)
}

/// Appends `bot.updated` for a new or renamed bot, a new picture, and new commands. The workspace must be locked.
///
/// # Errors
/// Only database errors.
pub async fn announce_bot(c: &mut Conn, workspace: WorkspaceId, id: BotId) -> Result<(), DbError> {
    let mut bot: BotSummary = c
        .q("select b.id, b.handle, u.name, u.avatar_url from bots b join users u on u.id = b.id where b.id = $1")
        .bind(id)
        .one()
        .await?;
    add_commands(c, workspace, std::slice::from_mut(&mut bot)).await?;
    let seq = log::reserve(c, workspace, 1).await?;
    let data = BotEvent { bot: &bot };
    let event = NewEvent::new(seq, EventType::BotUpdated, Audience::Workspace, &data)?;
    log::append(c, workspace, event).await
}
