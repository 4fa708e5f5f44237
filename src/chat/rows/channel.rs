//! Channels as they are stored and shown.

use serde::Serialize;

use crate::{
    chat::ChatError,
    db::Conn,
    ids::{AgentId, BotId, ChannelId, UserId, WorkspaceId},
    realtime::Audience,
    text_enum::text_enum,
    time::Timestamp,
};

text_enum! {
    pub enum ChannelKind {
        Public = "public",
        Private = "private",
        Direct = "direct",
    }
}

text_enum! {
    /// Messages that the agent of a channel replies to.
    pub enum ChannelAgentMode {
        /// No messages; a mention of the agent in the channel is plain text.
        Off = "off",
        /// Messages that mention the agent.
        Mentions = "mentions",
        /// Messages that mention the agent, and the first message of each thread if it mentions nobody.
        Roots = "roots",
        /// Like `roots`, plus every message without a mention in threads that were started in this mode.
        All = "all",
    }
}

/// Agent of a channel, and the messages that it replies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct ChannelAgent {
    pub agent_id: AgentId,
    pub mode: ChannelAgentMode,
    /// Maximum number of replies per day (UTC) to messages that do not mention the agent.
    pub daily_max: i64,
}

impl ChannelAgent {
    /// The agent, if its mode is `off`.
    pub fn silenced(self) -> Option<AgentId> {
        (self.mode == ChannelAgentMode::Off).then_some(self.agent_id)
    }

    /// The agent, if its mode binds new threads.
    pub fn binding(self) -> Option<AgentId> {
        (self.mode == ChannelAgentMode::All).then_some(self.agent_id)
    }
}

/// A channel as all of its members see it.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Channel {
    pub id: ChannelId,
    pub workspace_id: WorkspaceId,
    /// Kind of the channel; never changes.
    pub kind: ChannelKind,
    /// Null for direct channels.
    pub name: Option<String>,
    pub topic: Option<String>,
    /// Agent of a direct channel, which replies to every message there.
    pub agent_id: Option<AgentId>,
    /// Bot that opened a direct channel with its members; omitted for other channels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub bot_id: Option<BotId>,
    /// Agent of a public or private channel.
    pub agent: Option<ChannelAgent>,
    /// Vector stores whose passages agents read for each question here; omitted if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub vector_store_ids: Option<Vec<String>>,
    /// Members of a direct channel; omitted for other kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub member_ids: Option<Vec<UserId>>,
    pub created_by: Option<UserId>,
    pub created_at: Timestamp,
    pub archived_at: Option<Timestamp>,
}

#[derive(sqlx::FromRow)]
pub(in crate::chat) struct Row {
    pub(in crate::chat) id: ChannelId,
    pub(in crate::chat) workspace_id: WorkspaceId,
    pub(in crate::chat) kind: ChannelKind,
    pub(in crate::chat) name: Option<String>,
    pub(in crate::chat) topic: Option<String>,
    pub(in crate::chat) direct_key: Option<String>,
    pub(in crate::chat) agent_id: Option<AgentId>,
    pub(in crate::chat) set_agent_id: Option<AgentId>,
    pub(in crate::chat) mode: Option<ChannelAgentMode>,
    pub(in crate::chat) daily_max: Option<i64>,
    pub(in crate::chat) vector_store_ids: String,
    pub(in crate::chat) created_by: Option<UserId>,
    pub(in crate::chat) created_at: Timestamp,
    pub(in crate::chat) archived_at: Option<Timestamp>,
}

impl From<Row> for Channel {
    fn from(row: Row) -> Self {
        let member_ids = row.direct_key.as_deref().map(members_of_key);
        let bot_id = match row.direct_key.as_deref().and_then(partner_of_key) {
            Some(DirectPartner::Bot(id)) => Some(id),
            Some(DirectPartner::Agent(_)) | None => None,
        };
        let stores: Vec<String> = serde_json::from_str(&row.vector_store_ids).unwrap_or_default();
        let set = row.set_agent_id.zip(row.mode).zip(row.daily_max);
        Self {
            id: row.id,
            workspace_id: row.workspace_id,
            kind: row.kind,
            name: row.name,
            topic: row.topic,
            agent_id: row.agent_id,
            bot_id,
            agent: set.map(|((agent_id, mode), daily_max)| ChannelAgent {
                agent_id,
                mode,
                daily_max,
            }),
            vector_store_ids: (!stores.is_empty()).then_some(stores),
            member_ids,
            created_by: row.created_by,
            created_at: row.created_at,
            archived_at: row.archived_at,
        }
    }
}

/// Participant of a direct channel beside its people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectPartner {
    Agent(AgentId),
    Bot(BotId),
}

/// Key of a direct channel: its people in a fixed order, and its agent or bot, so that the same
/// participants always have the same key.
pub(in crate::chat) fn direct_key(members: &[UserId], partner: Option<DirectPartner>) -> String {
    let mut ids: Vec<String> = members.iter().map(ToString::to_string).collect();
    ids.sort();
    ids.dedup();
    ids.extend(partner.map(|partner| match partner {
        DirectPartner::Agent(id) => id.to_string(),
        DirectPartner::Bot(id) => id.to_string(),
    }));
    ids.join(" ")
}

pub(in crate::chat) fn members_of_key(key: &str) -> Vec<UserId> {
    key.split(' ').filter_map(|id| id.parse().ok()).collect()
}

pub(in crate::chat) fn partner_of_key(key: &str) -> Option<DirectPartner> {
    key.split(' ').find_map(|id| {
        let agent = id.parse().map(DirectPartner::Agent);
        agent.or_else(|_| id.parse().map(DirectPartner::Bot)).ok()
    })
}

macro_rules! channel_sql {
    ($extra:literal, $tail:expr) => {
        concat!(
            "select ch.id, ch.workspace_id, ch.kind, ch.name, ch.topic, ch.direct_key, ch.agent_id, ch.created_by, ch.created_at, \
             ch.archived_at, ch.vector_store_ids, ca.agent_id as set_agent_id, ca.mode, ca.daily_max",
            $extra,
            " from channels ch left join channel_agents ca on ca.channel_id = ch.id ",
            $tail
        )
    };
}

pub(in crate::chat) use channel_sql;

pub(in crate::chat) async fn get_channel(
    c: &mut Conn,
    id: ChannelId,
) -> Result<Channel, ChatError> {
    let row: Option<Row> = c
        .q(channel_sql!("", "where ch.id = $1"))
        .bind(id)
        .opt()
        .await?;
    row.map(Channel::from).ok_or(ChatError::ChannelNotFound)
}

pub(in crate::chat) fn audience(channel: &Channel) -> Audience {
    if channel.kind == ChannelKind::Public {
        Audience::Public(channel.id)
    } else {
        Audience::Members(channel.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_people_share_one_direct_channel_key() {
        let (a, b) = (UserId::new(), UserId::new());
        assert_eq!(direct_key(&[a, b], None), direct_key(&[b, a, b], None));
        let (agent, bot) = (AgentId::new(), BotId::new());
        let partners = [DirectPartner::Agent(agent), DirectPartner::Bot(bot)];
        for partner in partners.map(Some).into_iter().chain([None]) {
            let key = direct_key(&[a, b], partner);
            assert_eq!(
                (members_of_key(&key).len(), partner_of_key(&key)),
                (2, partner)
            );
            assert_eq!(key == direct_key(&[a, b], None), partner.is_none());
        }
    }
}
