//! Commands of bots. A person who runs one in a conversation sends a request to the bot's program, and sees its answer.

use std::collections::{HashMap, HashSet};

use super::{
    error::HookError,
    object::{Bot, BotCommand},
};
use crate::{
    db::{Conn, DbError},
    ids::{BotId, ChannelId, UserId, WorkspaceId},
};

/// Maximum number of commands of a bot.
const COMMANDS_MAX: usize = 20;
const NAME_BYTES_MAX: usize = 32;
const DESCRIPTION_UNITS_MAX: usize = 200;
const USAGE_UNITS_MAX: usize = 100;

/// # Errors
/// `Invalid`.
pub(super) fn check_commands(commands: &[BotCommand]) -> Result<(), HookError> {
    let invalid = |problem: String| Err(HookError::Invalid(problem, "commands"));
    if commands.len() > COMMANDS_MAX {
        return invalid(format!("a bot can have at most {COMMANDS_MAX} commands"));
    }
    let names: HashSet<&str> = commands
        .iter()
        .map(|command| command.name.as_str())
        .collect();
    if names.len() < commands.len() {
        return invalid("two commands have the same name: rename one".to_owned());
    }
    for command in commands {
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
        let name = &command.name;
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_part) {
            return invalid(format!(
                "a command's name must have 1 to {NAME_BYTES_MAX} lowercase letters, digits, - or _, without a slash"
            ));
        }
        let units = |text: &str| text.encode_utf16().count();
        let texts = [&command.description, &command.usage];
        if units(&command.description) > DESCRIPTION_UNITS_MAX
            || units(&command.usage) > USAGE_UNITS_MAX
            || texts.iter().any(|text| text.contains('\0'))
        {
            return invalid(format!(
                "a description can have at most {DESCRIPTION_UNITS_MAX} characters, and a usage {USAGE_UNITS_MAX}"
            ));
        }
    }
    Ok(())
}

/// Replaces the commands of a bot. The workspace must be locked.
///
/// # Errors
/// `Invalid`, or `CommandTaken` for a name of another bot's command.
pub(super) async fn set_commands(
    c: &mut Conn,
    workspace: WorkspaceId,
    bot: BotId,
    commands: &[BotCommand],
) -> Result<(), HookError> {
    check_commands(commands)?;
    c.q("delete from bot_commands where bot_id = $1")
        .bind(bot)
        .run()
        .await?;
    for command in commands {
        let inserted = c
            .q("insert into bot_commands (workspace_id, name, bot_id, description, usage) values ($1, $2, $3, $4, $5) \
                on conflict (workspace_id, name) do nothing")
            .bind(workspace)
            .bind(command.name.clone())
            .bind(bot)
            .bind(command.description.clone())
            .bind(command.usage.clone())
            .run()
            .await?;
        if inserted == 0 {
            return Err(HookError::CommandTaken(command.name.clone()));
        }
    }
    Ok(())
}

/// Sets the commands of bots of a workspace.
pub(super) async fn add_commands(
    c: &mut Conn,
    workspace: WorkspaceId,
    bots: &mut [Bot],
) -> Result<(), DbError> {
    let rows: Vec<(BotId, String, String, String)> = c
        .q("select bot_id, name, description, usage from bot_commands where workspace_id = $1 order by name limit 20000")
        .bind(workspace)
        .all()
        .await?;
    let mut by_bot: HashMap<BotId, Vec<BotCommand>> = HashMap::new();
    for (bot, name, description, usage) in rows {
        by_bot.entry(bot).or_default().push(BotCommand {
            name,
            description,
            usage,
        });
    }
    for bot in bots {
        bot.commands = by_bot.remove(&bot.id).unwrap_or_default();
    }
    Ok(())
}

/// A bot with a command.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct CommandOwner {
    pub id: BotId,
    pub name: String,
    pub created_by: UserId,
}

/// The active bot in a channel that has a command.
///
/// # Errors
/// Only database errors.
pub async fn find_command(
    c: &mut Conn,
    workspace: WorkspaceId,
    name: &str,
    channel: ChannelId,
) -> Result<Option<CommandOwner>, DbError> {
    c.q("select b.id, u.name, b.created_by from bot_commands k join bots b on b.id = k.bot_id join users u on u.id = b.id \
         join bot_channels bc on bc.bot_id = b.id and bc.channel_id = $3 \
         where k.workspace_id = $1 and k.name = $2 and b.status = 'active'")
        .bind(workspace)
        .bind(name.to_owned())
        .bind(channel)
        .opt()
        .await
}
