//! Resolves mentions.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use crate::{
    agents::{
        policy,
        profiles::{self, HandleOwner, InvocableAgent},
    },
    auth::{self, Actor, Role},
    chat::{
        ChatError,
        mentions::GROUPS,
        rows::message::{Mention, MentionKind, Message},
        text::Text,
    },
    db::{Conn, DbError},
    ids::{AgentId, ChannelId, UserId},
    text_enum::text_enum,
};

/// Maximum number of mentions in one message; further ones are treated as plain text.
const MENTIONS_MAX: usize = 200;
/// Maximum number of distinct handles that are looked up for one message, because the lookups run under the workspace lock.
const LOOKED_UP_MAX: usize = 200;

text_enum! {
    /// Mentions in a bot's messages that notify someone; all others are text.
    pub enum MentionLimit {
        Nobody = "nobody",
        People = "people",
        Everyone = "everyone",
    }
}

/// Mentions that notify someone in messages that are posted with a bot's key.
pub(in crate::chat) const KEY_MENTIONS: MentionLimit = MentionLimit::People;

/// The resolved mentions of a text.
#[derive(Debug, Default)]
pub(in crate::chat) struct ResolvedMentions {
    pub mentions: Vec<Mention>,
    /// Distinct agents, in the order of their mentions.
    pub agents: Vec<InvocableAgent>,
    pub people: Vec<UserId>,
    pub everyone: bool,
}

impl ResolvedMentions {
    /// Removes the mentions that a bot's message does not have.
    pub(in crate::chat) fn limit_to(&mut self, may_notify: MentionLimit) {
        if may_notify == MentionLimit::Nobody {
            *self = Self::default();
            return;
        }
        self.agents.clear();
        self.everyone &= may_notify == MentionLimit::Everyone;
        let everyone = self.everyone;
        self.mentions.retain(|mention| match mention.kind {
            MentionKind::Agent => false,
            MentionKind::User => true,
            MentionKind::Group => everyone,
        });
    }

    /// Checks whether the message mentions members or a group.
    pub(in crate::chat) fn names_people(&self) -> bool {
        self.everyone || !self.people.is_empty()
    }
}

/// Resolves the mentions of a text. Mentions of agents that the person cannot invoke, and of the `silenced` agent, are treated as
/// plain text. So are mentions of a group that the policy does not allow, or by a guest, and a guest's mentions of people whom they do
/// not see.
pub(in crate::chat) async fn resolve_mentions(
    c: &mut Conn,
    actor: &Actor<'_>,
    channel: ChannelId,
    text: &Text,
    silenced: Option<AgentId>,
) -> Result<ResolvedMentions, ChatError> {
    let mut found = ResolvedMentions::default();
    let mut known: HashMap<&str, Option<HandleOwner>> = HashMap::new();
    let mut allows_groups = None;
    for raw in &text.mentions {
        if found.mentions.len() == MENTIONS_MAX {
            break;
        }
        for handle in &raw.candidates {
            let (kind, id) = if GROUPS.contains(&handle.as_str()) {
                let is_allowed = match allows_groups {
                    Some(known) => known,
                    None => {
                        actor.role == Role::Admin
                            || actor.role != Role::Guest
                                && policy::allows_group_mention(c, actor.workspace, channel).await?
                    }
                };
                allows_groups = Some(is_allowed);
                if !is_allowed {
                    continue;
                }
                found.everyone = true;
                (MentionKind::Group, None)
            } else {
                let owner = match known.get(handle.as_str()) {
                    Some(owner) => owner,
                    None if known.len() == LOOKED_UP_MAX => continue,
                    None => {
                        let mut owner =
                            profiles::find_by_handle(c, actor.workspace, handle).await?;
                        if let Some(HandleOwner::Agent(agent)) = &owner {
                            let (id, known) = (agent.id, agent.version);
                            profiles::refresh_first(c, actor.workspace, id).await?;
                            if profiles::newest_version(c, id).await? != Some(known) {
                                owner =
                                    profiles::find_by_handle(c, actor.workspace, handle).await?;
                            }
                        }
                        if let Some(HandleOwner::Person(user)) = owner
                            && !auth::sees_person(c, actor, user).await?
                        {
                            owner = None;
                        }
                        known.entry(handle).or_insert(owner)
                    }
                };
                match owner {
                    Some(HandleOwner::Person(user)) => {
                        if !found.people.contains(user) {
                            found.people.push(*user);
                        }
                        (MentionKind::User, Some(user.to_string()))
                    }
                    Some(HandleOwner::Agent(agent))
                        if agent.can_be_invoked_by(actor) && silenced != Some(agent.id) =>
                    {
                        let id = agent.id.to_string();
                        if !found.agents.iter().any(|known| known.id == agent.id) {
                            found.agents.push(agent.clone());
                        }
                        (MentionKind::Agent, Some(id))
                    }
                    _ => continue,
                }
            };
            let span = raw.span_of(handle);
            found.mentions.push(Mention {
                kind,
                id,
                handle: handle.clone(),
                start: span.start,
                length: span.length,
            });
            break;
        }
    }
    Ok(found)
}

/// Inserts the rows that unread mentions are counted from.
pub(in crate::chat) async fn insert_mention_targets(
    c: &mut Conn,
    message: &Message,
    found: &ResolvedMentions,
) -> Result<(), DbError> {
    let everyone = found.everyone.then_some(message.channel_id.0);
    let people = found.people.iter().map(|user| user.0);
    count_as_mentioned(c, message, people.chain(everyone)).await
}

/// Counts a message as an unread mention for the targets: people, or a channel ID for all of its
/// members.
pub async fn count_as_mentioned(
    c: &mut Conn,
    message: &Message,
    targets: impl Iterator<Item = Uuid>,
) -> Result<(), DbError> {
    let targets: HashSet<Uuid> = targets.collect();
    for target in targets {
        c.q("insert into message_mentions (channel_id, target_id, seq, thread_id, message_id) values ($1, $2, $3, $4, $5)")
            .bind(message.channel_id)
            .bind(target)
            .bind(message.seq)
            .bind(message.thread_id)
            .bind(message.id)
            .run()
            .await?;
    }
    Ok(())
}
