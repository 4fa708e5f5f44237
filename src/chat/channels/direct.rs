//! Direct channels. Their participants never change, even if one of them leaves the workspace.

use super::{agent::ANNOUNCED_MAX, members::join};
use crate::{
    chat::{
        ChatError,
        access::ChannelAccess,
        rows::channel::{ChannelKind, get_channel},
    },
    db::{Conn, DbError, now},
    ids::{BotId, ChannelId, UserId, WorkspaceId},
    realtime::log,
};

/// Selects the direct channels that a person left when they left the workspace. `$1` is the person, and `$2` the workspace.
macro_rules! left_by {
    ($columns:literal) => {
        concat!(
            "select ",
            $columns,
            " from direct_members dm join channels ch on ch.id = dm.channel_id where dm.user_id = $1 and ch.workspace_id = $2 \
             and not exists (select 1 from channel_members cm where cm.channel_id = dm.channel_id and cm.user_id = $1)"
        )
    };
}

/// Condition for a channel `ch` of one person and an agent, whose threads are chats.
macro_rules! is_chat_channel {
    () => {
        "(ch.kind = 'direct' and ch.agent_id is not null \
         and (select count(*) from direct_members dm where dm.channel_id = ch.id) = 1)"
    };
}
pub(crate) use is_chat_channel;

/// Finds the direct channel with this key (`direct_key`).
pub(super) async fn find_direct(
    c: &mut Conn,
    workspace: WorkspaceId,
    key: &str,
) -> Result<Option<ChannelId>, DbError> {
    let row: Option<(ChannelId,)> = c
        .q("select id from channels where workspace_id = $1 and direct_key = $2")
        .bind(workspace)
        .bind(key.to_owned())
        .opt()
        .await?;
    Ok(row.map(|row| row.0))
}

/// Records a member of a direct channel.
pub(super) async fn insert_direct_member(
    c: &mut Conn,
    channel: ChannelId,
    user: UserId,
) -> Result<(), ChatError> {
    c.q("insert into direct_members (user_id, channel_id) values ($1, $2) on conflict do nothing")
        .bind(user)
        .bind(channel)
        .run()
        .await?;
    Ok(())
}

/// Adds the bot of a direct channel, which reads and writes there like in the other channels that it is in.
pub(super) async fn insert_direct_bot(
    c: &mut Conn,
    channel: ChannelId,
    bot: BotId,
) -> Result<(), ChatError> {
    c.q("insert into bot_channels (bot_id, channel_id, added_at) values ($1, $2, $3) on conflict do nothing")
        .bind(bot)
        .bind(channel)
        .bind(now())
        .run()
        .await?;
    Ok(())
}

/// Adds a person who has returned to a workspace to their direct channels again. Appends `channel.member_added` for at most
/// `ANNOUNCED_MAX` of them, the newest ones.
pub async fn restore_direct_channels(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<(), ChatError> {
    let newest: Vec<(ChannelId,)> = c
        .q(concat!(
            left_by!("dm.channel_id"),
            " order by dm.channel_id desc limit $3"
        ))
        .bind(user)
        .bind(workspace)
        .bind(ANNOUNCED_MAX)
        .all()
        .await?;
    for (channel,) in newest {
        join(c, workspace, channel, user).await?;
    }
    let (seq, _) = log::head(c, workspace).await?;
    c.q(concat!(
        "insert into channel_members (channel_id, user_id, joined_seq, read_seq, joined_at) ",
        left_by!("dm.channel_id, dm.user_id, $3, $3, $4")
    ))
    .bind(user)
    .bind(workspace)
    .bind(seq)
    .bind(now())
    .run()
    .await?;
    Ok(())
}

/// Checks that someone else can read what is posted in a direct channel. Other channels, notes to
/// oneself, and channels with an agent always pass. A bot reads its channels.
///
/// # Errors
/// `MemberLeft` if everyone else has left the workspace.
pub(in crate::chat) async fn check_has_reader(
    c: &mut Conn,
    channel_access: &ChannelAccess<'_>,
) -> Result<(), ChatError> {
    if channel_access.kind != ChannelKind::Direct {
        return Ok(());
    }
    let reader: Option<(UserId,)> = c
        .q(
            "select user_id from channel_members where channel_id = $1 and user_id <> $2 \
            union all select bot_id from bot_channels where channel_id = $1 and bot_id <> $2 limit 1",
        )
        .bind(channel_access.channel)
        .bind(channel_access.actor.user)
        .opt()
        .await?;
    if reader.is_some() {
        return Ok(());
    }
    let channel = get_channel(c, channel_access.channel).await?;
    let mut others = channel.member_ids.unwrap_or_default();
    others.retain(|user| *user != channel_access.actor.user);
    if others.is_empty() || channel.agent_id.is_some() {
        return Ok(());
    }
    let name: Option<String> = match others[..] {
        [other] => c
            .q("select name from users where id = $1")
            .bind(other)
            .opt::<(String,)>()
            .await?
            .map(|row| row.0),
        _ => None,
    };
    let name = name.unwrap_or_else(|| "Everyone else".to_owned());
    Err(ChatError::MemberLeft(name))
}
