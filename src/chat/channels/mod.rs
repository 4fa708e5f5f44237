//! Channels: public, private, and direct.

use std::collections::HashMap;

use serde::Serialize;
use uuid::Uuid;

use super::{ChatError, access, follows::FollowLevel, reads};
use crate::{
    auth::{Caller, Scope, slugify},
    cursor::PageRange,
    db::{Conn, DbError, dialect::lock_workspace, is_visible_channel},
    ids::{ChannelId, UserId, WorkspaceId},
    model::has_visible,
    realtime::log,
};

mod agent;
mod change;
mod direct;
mod imported;
mod members;
mod stores;

pub use super::rows::channel::{
    Channel, ChannelAgent, ChannelAgentMode, ChannelKind, DirectPartner,
};
use super::rows::channel::{Row, channel_sql};
pub use agent::{DAILY_REPLIES, parse_daily_max};
pub(in crate::chat) use agent::{UnaskedReply, count_unasked, find_agent};
pub use change::{ChannelUpdate, NewChannel, create, open_direct, set_archived, update};
pub(in crate::chat) use change::{forget_agent, insert};
pub(in crate::chat) use direct::check_has_reader;
pub(crate) use direct::is_chat_channel;
pub use direct::restore_direct_channels;
pub use imported::{
    ImportedChannel, announce_imported, insert_imported_channel, remove_imported_channel,
    take_over_channels,
};
pub(crate) use members::follow_rules;
pub use members::{add_member, join, join_self, keep_guest_in, leave, list_members, remove_member};
pub use stores::list_stores;

pub const NAME_CHARS_MAX: usize = 80;
const TOPIC_UNITS_MAX: usize = 250;
/// Maximum number of people in a direct channel, including its creator.
const DIRECT_MEMBERS_MAX: usize = 9;

/// A channel as one person sees it.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct MyChannel {
    #[serde(flatten)]
    pub channel: Channel,
    pub is_member: bool,
    /// Number of unread messages; at most 1,000.
    pub unread_count: i64,
    /// Number of unread mentions; at most 1,000.
    pub mention_count: i64,
    /// Every message up to this sequence number is read, except in threads with their own read
    /// marker.
    pub read_seq: i64,
    /// Notification level of the person; `mentions` for others than members.
    pub level: FollowLevel,
    /// Number of guests in the channel; omitted if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub guest_count: Option<i64>,
}

/// A channel as returned in the list of channels.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct ListedChannel {
    #[serde(flatten)]
    pub mine: MyChannel,
    pub member_count: i64,
}

#[derive(sqlx::FromRow)]
struct MyRow {
    #[sqlx(flatten)]
    row: Row,
    read_seq: Option<i64>,
    level: Option<FollowLevel>,
}

/// A channel as the person sees it, with unread counts.
///
/// # Errors
/// `ChannelNotFound`.
pub async fn get_mine(c: &mut Conn, user: UserId, id: ChannelId) -> Result<MyChannel, ChatError> {
    let row: Option<MyRow> = c
        .q(channel_sql!(
            ", cm.read_seq, cm.level",
            "left join channel_members cm on cm.channel_id = ch.id and cm.user_id = $2 where ch.id = $1"
        ))
        .bind(id)
        .bind(user)
        .opt()
        .await?;
    let row = row.ok_or(ChatError::ChannelNotFound)?;
    let counts = reads::of_channels(c, user, Some(id)).await?;
    let guests = count_guests(c, row.row.workspace_id, Some(id)).await?;
    Ok(mine(row, &counts, &guests))
}

/// Numbers of guests in the channels of a workspace, or in one of them. Channels without guests are left out, so that most workspaces
/// need only one lookup in the index of guests.
async fn count_guests(
    c: &mut Conn,
    workspace: WorkspaceId,
    only: Option<ChannelId>,
) -> Result<HashMap<ChannelId, i64>, DbError> {
    let rows: Vec<(ChannelId, i64)> = c
        .q("select x.channel_id, count(*) from members g cross join channel_members x where g.workspace_id = $1 and g.role = 'guest' \
            and x.user_id = g.user_id and ($2 is null or x.channel_id = $2) group by x.channel_id")
        .bind(workspace)
        .bind(only)
        .all()
        .await?;
    Ok(rows.into_iter().collect())
}

fn mine(row: MyRow, counts: &reads::ByChannel, guests: &HashMap<ChannelId, i64>) -> MyChannel {
    let found = counts.get(&row.row.id).copied().unwrap_or_default();
    MyChannel {
        is_member: row.read_seq.is_some(),
        unread_count: found.unread_count,
        mention_count: found.mention_count,
        read_seq: row.read_seq.unwrap_or(0),
        level: row.level.unwrap_or(FollowLevel::Mentions),
        guest_count: guests.get(&row.row.id).copied(),
        channel: row.row.into(),
    }
}

/// Channels that the person can see, oldest first.
pub async fn list_mine(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    PageRange { after, before }: PageRange<ChannelId>,
    limit: i64,
) -> Result<Vec<MyChannel>, ChatError> {
    if let Some(id) = after.or(before) {
        c.q(concat!(
            "select ch.id from channels ch where ch.id = $1 and ch.workspace_id = $2 and ",
            is_visible_channel!("ch", "$3")
        ))
        .bind(id)
        .bind(workspace)
        .bind(user)
        .opt::<(ChannelId,)>()
        .await?
        .ok_or(ChatError::ChannelNotFound)?;
    }
    let q = if before.is_some() {
        c.q(channel_sql!(
            ", cm.read_seq, cm.level",
            concat!(
                "left join channel_members cm on cm.channel_id = ch.id and cm.user_id = $2 \
                 where ch.workspace_id = $1 and ch.id > $3 and ch.id < $4 and ",
                is_visible_channel!("ch", "$2"),
                " order by ch.id desc limit $5"
            )
        ))
    } else {
        c.q(channel_sql!(
            ", cm.read_seq, cm.level",
            concat!(
                "left join channel_members cm on cm.channel_id = ch.id and cm.user_id = $2 \
                 where ch.workspace_id = $1 and ch.id > $3 and ch.id < $4 and ",
                is_visible_channel!("ch", "$2"),
                " order by ch.id limit $5"
            )
        ))
    };
    let mut rows: Vec<MyRow> = q
        .bind(workspace)
        .bind(user)
        .bind(after.unwrap_or(ChannelId(Uuid::nil())))
        .bind(before.unwrap_or(ChannelId(Uuid::max())))
        .bind(limit)
        .all()
        .await?;
    if before.is_some() {
        rows.reverse();
    }
    let counts = reads::of_channels(c, user, None).await?;
    let guests = count_guests(c, workspace, None).await?;
    let shown = |row| mine(row, &counts, &guests);
    Ok(rows.into_iter().map(shown).collect())
}

/// Adds member counts to one page of `list_mine`, which must contain consecutive channels, oldest first.
pub async fn with_member_counts(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    page: Vec<MyChannel>,
) -> Result<Vec<ListedChannel>, ChatError> {
    let (Some(first), Some(last)) = (page.first(), page.last()) else {
        return Ok(Vec::new());
    };
    let counts: HashMap<ChannelId, i64> = c
        .q(concat!(
            "select ch.id, (select count(*) from channel_members x where x.channel_id = ch.id \
               and not exists (select 1 from members p where p.workspace_id = $1 and p.user_id = x.user_id and p.status = 'placeholder')) from channels ch \
             where ch.workspace_id = $1 and ch.id >= $3 and ch.id <= $4 and ",
            is_visible_channel!("ch", "$2"),
            " order by ch.id limit $5"
        ))
        .bind(workspace)
        .bind(user)
        .bind(first.channel.id)
        .bind(last.channel.id)
        .bind(i64::try_from(page.len()).unwrap_or(i64::MAX))
        .all::<(ChannelId, i64)>()
        .await?
        .into_iter()
        .collect();
    let listed = |mine: MyChannel| ListedChannel {
        member_count: counts.get(&mine.channel.id).copied().unwrap_or(0),
        mine,
    };
    Ok(page.into_iter().map(listed).collect())
}

/// Normalizes the name of a channel.
///
/// # Errors
/// `Invalid` if the name is too long, or contains neither a visible letter nor a digit.
pub fn parse_name(text: &str) -> Result<String, ChatError> {
    if text.trim().chars().count() > NAME_CHARS_MAX {
        return Err(ChatError::Invalid(
            format!("a channel name can have at most {NAME_CHARS_MAX} characters"),
            "name",
        ));
    }
    let trimmed = text.trim().trim_start_matches('#');
    let mut name = slugify(trimmed, NAME_CHARS_MAX);
    if name.is_empty() {
        // Names in scripts without a Latin transliteration keep their letters.
        let kept = |c: char| if c.is_alphanumeric() { c } else { '-' };
        let parts: String = trimmed.to_lowercase().chars().map(kept).collect();
        name = parts
            .split('-')
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("-");
    }
    if !has_visible(&name) {
        return Err(ChatError::Invalid(
            "the channel name is blank: use at least one letter or digit".to_owned(),
            "name",
        ));
    }
    Ok(name)
}

/// # Errors
/// `Invalid` if the topic is too long.
pub fn parse_topic(text: Option<&str>) -> Result<Option<String>, ChatError> {
    let topic = text.map(str::trim).filter(|t| has_visible(t));
    if topic.is_some_and(|t| t.encode_utf16().count() > TOPIC_UNITS_MAX) {
        return Err(ChatError::Invalid(
            format!("a topic can have at most {TOPIC_UNITS_MAX} characters"),
            "topic",
        ));
    }
    Ok(topic.map(str::to_owned))
}

/// Marks a whole channel as read.
///
/// # Errors
/// `ChannelNotFound`, or any error from `Actor::require`.
pub async fn read_all(
    c: &mut Conn,
    caller: &Caller,
    id: ChannelId,
) -> Result<MyChannel, ChatError> {
    let access = access::channel(c, caller, id).await?.reading()?;
    reads::mark_channel(c, access.actor.workspace, caller.user, id).await?;
    get_mine(c, caller.user, id).await
}

/// Sets the caller's notification level in a channel.
///
/// # Errors
/// `ChannelNotFound` if the caller is not a member, or any error from `Actor::require`.
pub async fn set_level(
    c: &mut Conn,
    caller: &Caller,
    id: ChannelId,
    level: FollowLevel,
) -> Result<MyChannel, ChatError> {
    let access = access::channel(c, caller, id).await?;
    let actor = &access.actor;
    // The level is personal, so viewers can change it; an API key needs the scope for writing.
    actor.require(if actor.key.is_some() {
        Scope::ChatWrite
    } else {
        Scope::ChatRead
    })?;
    let workspace = actor.workspace;
    lock_workspace(c, workspace.0).await?;
    let changed = c
        .q("update channel_members set level = $3 where channel_id = $1 and user_id = $2")
        .bind(id)
        .bind(caller.user)
        .bind(level)
        .run()
        .await?;
    if changed == 0 {
        return Err(ChatError::ChannelNotFound);
    }
    // Replies in the channel can open or close.
    let (seq, _) = log::head(c, workspace).await?;
    c.q("update follows set changed_seq = $3 where channel_id = $1 and user_id = $2 and level = 'all'")
        .bind(id)
        .bind(caller.user)
        .bind(seq)
        .run()
        .await?;
    get_mine(c, caller.user, id).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_name_is_normalized() {
        assert_eq!(parse_name(" #Launch Plan! ").unwrap(), "launch-plan");
        assert_eq!(parse_name("設計").unwrap(), "設計");
        assert!(parse_name("  ").is_err());
        assert!(parse_name("!!!").is_err());
        assert!(parse_name("\u{3164}").is_err());
        assert!(parse_name(&"x".repeat(81)).is_err());
    }
}
