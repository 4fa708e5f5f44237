//! Rows that only Slack's API lists: conversations, their members, and bots.

use uuid::Uuid;

use crate::{
    auth::Caller,
    chat::channels::ChannelKind,
    db::{Conn, DbError, is_visible_channel},
    ids::{AgentId, BotId, ChannelId, UserId, WorkspaceId},
    text_enum::text_enum,
    time::Timestamp,
};

/// A channel as Slack's API shows it.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct ConversationRow {
    pub id: ChannelId,
    pub kind: ChannelKind,
    pub name: Option<String>,
    pub topic: Option<String>,
    pub created_by: Option<UserId>,
    pub created_at: Timestamp,
    pub archived_at: Option<Timestamp>,
    pub is_member: bool,
    pub num_members: i64,
    /// Another member of a direct channel, or its bot.
    pub peer: Option<Uuid>,
    /// True for a direct channel of two.
    pub is_pair: bool,
}

/// Channels to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// All that the caller can see.
    Visible,
    /// Only those that the caller is in.
    Joined,
}

text_enum! {
    /// Kind of a conversation, as Slack names it.
    pub enum ConversationType {
        Public = "public_channel",
        Private = "private_channel",
        /// A direct channel of two.
        Direct = "im",
        /// A direct channel of more.
        Group = "mpim",
    }
}

#[derive(Debug, Clone)]
pub struct ConversationFilter {
    pub listing: Listing,
    pub types: Vec<ConversationType>,
    pub includes_archived: bool,
    pub after: Option<ChannelId>,
    pub limit: i64,
}

/// Condition for a direct channel `ch` of two, one of which can be a bot.
macro_rules! is_pair {
    () => {
        "(ch.kind = 'direct' and (select count(*) from channel_members x where x.channel_id = ch.id) \
         + (select count(*) from bot_channels b where b.channel_id = ch.id) <= 2)"
    };
}
pub(crate) use is_pair;

/// Condition for a channel `ch` of the workspace `$1` on a page, of the chosen types.
macro_rules! is_listed {
    () => {
        concat!(
            "ch.workspace_id = $1 and ch.id > $3 and (ch.archived_at is null or $5) \
             and ((ch.kind = 'public' and $6) or (ch.kind = 'private' and $7) or (ch.kind = 'direct' and $8 and ",
            is_pair!(),
            ") or (ch.kind = 'direct' and $9 and not ",
            is_pair!(),
            "))"
        )
    };
}

macro_rules! conversation_sql {
    ($is_member:literal, $tail:expr) => {
        concat!(
            "select ch.id, ch.kind, ch.name, ch.topic, ch.created_by, ch.created_at, ch.archived_at, ",
            $is_member,
            " as is_member, (select count(*) from channel_members x where x.channel_id = ch.id) as num_members, \
             case when ch.kind = 'direct' then coalesce((select p.user_id from channel_members p \
             where p.channel_id = ch.id and p.user_id <> $2 order by p.user_id limit 1), \
             (select b.bot_id from bot_channels b where b.channel_id = ch.id and b.bot_id <> $2 order by b.bot_id limit 1)) end as peer, ",
            is_pair!(),
            " as is_pair from channels ch ",
            $tail
        )
    };
}

/// A channel that the caller can see.
///
/// # Errors
/// Only database errors.
pub async fn find_conversation(
    c: &mut Conn,
    caller: &Caller,
    id: ChannelId,
) -> Result<Option<ConversationRow>, DbError> {
    let q = match caller.bot() {
        Some(_) => c.q(conversation_sql!(
            "TRUE",
            "join bot_channels bc on bc.channel_id = ch.id and bc.bot_id = $2 where ch.id = $1"
        )),
        None => c.q(conversation_sql!(
            "exists (select 1 from channel_members cm where cm.channel_id = ch.id and cm.user_id = $2)",
            concat!("where ch.id = $1 and ", is_visible_channel!("ch", "$2"))
        )),
    };
    q.bind(id).bind(caller.user).opt().await
}

/// Channels of the workspace that the caller can see, oldest first.
///
/// # Errors
/// Only database errors.
pub async fn list_conversations(
    c: &mut Conn,
    caller: &Caller,
    workspace: WorkspaceId,
    filter: &ConversationFilter,
) -> Result<Vec<ConversationRow>, DbError> {
    let q = match (caller.bot(), filter.listing) {
        (Some(_), _) => c.q(conversation_sql!(
            "TRUE",
            concat!(
                "join bot_channels bc on bc.channel_id = ch.id and bc.bot_id = $2 where ",
                is_listed!(),
                " order by ch.id limit $4"
            )
        )),
        (None, Listing::Joined) => c.q(conversation_sql!(
            "TRUE",
            concat!(
                "join channel_members cm on cm.channel_id = ch.id and cm.user_id = $2 where ",
                is_listed!(),
                " order by ch.id limit $4"
            )
        )),
        (None, Listing::Visible) => c.q(conversation_sql!(
            "exists (select 1 from channel_members cm where cm.channel_id = ch.id and cm.user_id = $2)",
            concat!(
                "where ",
                is_listed!(),
                " and ",
                is_visible_channel!("ch", "$2"),
                " order by ch.id limit $4"
            )
        )),
    };
    q.bind(workspace)
        .bind(caller.user)
        .bind(filter.after.unwrap_or(ChannelId(Uuid::nil())))
        .bind(filter.limit)
        .bind(filter.includes_archived)
        .bind(filter.types.contains(&ConversationType::Public))
        .bind(filter.types.contains(&ConversationType::Private))
        .bind(filter.types.contains(&ConversationType::Direct))
        .bind(filter.types.contains(&ConversationType::Group))
        .all()
        .await
}

/// A channel by its name. Whether the caller can see it is checked when it is used.
///
/// # Errors
/// Only database errors.
pub async fn channel_named(
    c: &mut Conn,
    workspace: WorkspaceId,
    name: &str,
) -> Result<Option<ChannelId>, DbError> {
    let row: Option<(ChannelId,)> = c
        .q("select id from channels where workspace_id = $1 and name = $2")
        .bind(workspace)
        .bind(name.to_owned())
        .opt()
        .await?;
    Ok(row.map(|row| row.0))
}

/// People in a channel after `after`.
///
/// # Errors
/// Only database errors.
pub async fn list_members_in(
    c: &mut Conn,
    channel: ChannelId,
    after: Option<UserId>,
    limit: i64,
) -> Result<Vec<UserId>, DbError> {
    let rows: Vec<(UserId,)> = c
        .q("select user_id from channel_members where channel_id = $1 and user_id > $2 order by user_id limit $3")
        .bind(channel)
        .bind(after.unwrap_or(UserId(Uuid::nil())))
        .bind(limit)
        .all()
        .await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// Checks whether a person is in a channel.
///
/// # Errors
/// Only database errors.
pub async fn is_member_in(c: &mut Conn, channel: ChannelId, user: UserId) -> Result<bool, DbError> {
    c.q("select exists (select 1 from channel_members where channel_id = $1 and user_id = $2)")
        .bind(channel)
        .bind(user)
        .value()
        .await
}

/// Checks whether the keys of a bot see email addresses.
///
/// # Errors
/// Only database errors.
pub async fn shows_emails(c: &mut Conn, id: BotId) -> Result<bool, DbError> {
    let row: Option<(bool,)> = c
        .q("select show_emails from bots where id = $1")
        .bind(id)
        .opt()
        .await?;
    Ok(row.is_some_and(|row| row.0))
}

/// Bots in a channel.
///
/// # Errors
/// Only database errors.
pub async fn list_bots_in(c: &mut Conn, channel: ChannelId) -> Result<Vec<BotId>, DbError> {
    let rows: Vec<(BotId,)> = c
        .q("select bot_id from bot_channels where channel_id = $1 order by bot_id limit 1000")
        .bind(channel)
        .all()
        .await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// A bot as Slack's API shows it.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct RobotRow {
    pub id: BotId,
    pub name: String,
    pub handle: String,
    pub created_at: Timestamp,
}

/// A bot of the workspace.
///
/// # Errors
/// Only database errors.
pub async fn find_robot(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: BotId,
) -> Result<Option<RobotRow>, DbError> {
    c.q("select b.id, u.name, b.handle, b.created_at from bots b join users u on u.id = b.id where b.workspace_id = $1 and b.id = $2")
        .bind(workspace)
        .bind(id)
        .opt()
        .await
}

/// An agent as Slack's API shows it: as a user.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct AgentRow {
    pub id: AgentId,
    /// Its handle.
    pub name: String,
    pub shown: String,
    pub created_at: Timestamp,
}

/// Query for agents of the workspace `$1`.
macro_rules! agent_sql {
    ($tail:literal) => {
        concat!(
            "select a.id, a.name, coalesce(a.summary ->> 'display_name', a.name) as shown, a.created_at from agents a \
             where a.workspace_id = $1 ",
            $tail
        )
    };
}
pub(crate) use agent_sql;

/// An agent of the workspace.
///
/// # Errors
/// Only database errors.
pub async fn find_agent(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: AgentId,
) -> Result<Option<AgentRow>, DbError> {
    c.q(agent_sql!("and a.id = $2"))
        .bind(workspace)
        .bind(id)
        .opt()
        .await
}

/// Bots of the workspace, oldest first.
///
/// # Errors
/// Only database errors.
pub async fn list_robots(c: &mut Conn, workspace: WorkspaceId) -> Result<Vec<RobotRow>, DbError> {
    c.q("select b.id, u.name, b.handle, b.created_at from bots b join users u on u.id = b.id where b.workspace_id = $1 order by b.id limit 1000")
        .bind(workspace)
        .all()
        .await
}

/// The handle of a person, an agent, or a bot.
///
/// # Errors
/// Only database errors.
pub(super) async fn handle_of(
    c: &mut Conn,
    workspace: WorkspaceId,
    id: Uuid,
) -> Result<Option<String>, DbError> {
    let row: Option<(String,)> = c
        .q("select handle from handles where workspace_id = $1 and owner_id = $2")
        .bind(workspace)
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(|row| row.0))
}

/// The person, agent, or bot with a handle.
///
/// # Errors
/// Only database errors.
pub async fn handle_owner(
    c: &mut Conn,
    workspace: WorkspaceId,
    handle: &str,
) -> Result<Option<Uuid>, DbError> {
    let row: Option<(Uuid,)> = c
        .q("select owner_id from handles where workspace_id = $1 and handle = $2")
        .bind(workspace)
        .bind(handle.to_lowercase())
        .opt()
        .await?;
    Ok(row.map(|row| row.0))
}

/// The member with an email address.
///
/// # Errors
/// Only database errors.
pub async fn user_with_email(
    c: &mut Conn,
    workspace: WorkspaceId,
    email: &str,
) -> Result<Option<UserId>, DbError> {
    let row: Option<(UserId,)> = c
        .q("select u.id from users u join members m on m.user_id = u.id and m.workspace_id = $1 where u.email = $2")
        .bind(workspace)
        .bind(email.trim().to_lowercase())
        .opt()
        .await?;
    Ok(row.map(|row| row.0))
}
