//! The switches of the workspace, the agent, and the person. Turning one off stops adaptation immediately, including for replies
//! that run with an earlier version of the agent.

use crate::{
    agents::{
        policy::Policy,
        profiles::{Profile, Reflection, Sentiment, SentimentSettings},
        switch::SwitchLevel,
    },
    db::{Conn, DbError, Json, is_in_visible_channel},
    ids::{ChannelId, UserId, WorkspaceId},
};

use super::state::StateKey;

/// `sentiment` and `reflection` of the current version, including its bases.
type CurrentRow = (
    Option<Json<Option<Sentiment>>>,
    Option<Json<Option<Reflection>>>,
);

/// Returns the first level that stops an agent's adaptation to a person, for a reply that is not adapted.
pub async fn stopped_by(
    c: &mut Conn,
    policy: &Policy,
    workspace: WorkspaceId,
    user: UserId,
    profile: &Profile,
) -> Result<SwitchLevel, DbError> {
    if !policy.adaptation_allowed {
        return Ok(SwitchLevel::Workspace);
    }
    if Allowed::of(profile).is_none() {
        return Ok(SwitchLevel::Agent);
    }
    let is_allowed: bool = c
        .q("select exists (select 1 from memory_settings where workspace_id = $1 and user_id = $2 and adapt)")
        .bind(workspace)
        .bind(user)
        .value()
        .await?;
    // Otherwise, the current version does not adapt, or the agent is archived.
    Ok(if is_allowed {
        SwitchLevel::Agent
    } else {
        SwitchLevel::Person
    })
}

/// Settings of an agent for people who allow adaptation.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Allowed {
    /// `None` if the agent does not score messages.
    pub(super) sentiment: Option<SentimentSettings>,
    /// `None` if the agent has no reflections.
    pub(super) reflection: Option<Reflection>,
}

impl Allowed {
    /// Returns the settings of an agent's version; `None` if that version does not adapt.
    pub(super) fn of(profile: &Profile) -> Option<Self> {
        let own = Self {
            sentiment: profile.sentiment.as_ref().and_then(Sentiment::settings),
            reflection: profile.reflection.clone().filter(Reflection::is_on),
        };
        (own != Self::default()).then_some(own)
    }

    /// Returns the features that are still allowed, or `None` if none is. The workspace and the person must allow adaptation, the
    /// agent must be active and its current version must have the feature turned on, and the person must be a member who can read the
    /// channel.
    pub(super) async fn current(
        self,
        c: &mut Conn,
        key: &StateKey,
        channel: ChannelId,
    ) -> Result<Option<Self>, DbError> {
        let row: Option<CurrentRow> = c
            .q(concat!(
                "select v.resolved -> 'sentiment', v.resolved -> 'reflection' from agents a \
                 join agent_versions v on v.agent_id = a.id and v.version = a.version \
                 join members m on m.workspace_id = a.workspace_id and m.user_id = $2 \
                 join workspace_policies p on p.workspace_id = a.workspace_id and p.adaptation_allowed \
                 join memory_settings s on s.workspace_id = a.workspace_id and s.user_id = m.user_id and s.adapt \
                 where a.workspace_id = $1 and a.id = $3 and a.status = 'active' and ",
                is_in_visible_channel!("$4", "$2")
            ))
            .bind(key.workspace)
            .bind(key.user)
            .bind(key.agent)
            .bind(channel)
            .opt()
            .await?;
        let Some((sentiment, reflection)) = row else {
            return Ok(None);
        };
        let is_scored = sentiment
            .and_then(|Json(sentiment)| sentiment)
            .is_some_and(|sentiment| sentiment.is_on());
        let reflects = reflection
            .and_then(|Json(reflection)| reflection)
            .is_some_and(|reflection| reflection.is_on());
        let allowed = Self {
            sentiment: self.sentiment.filter(|_| is_scored),
            reflection: self.reflection.filter(|_| reflects),
        };
        Ok((allowed != Self::default()).then_some(allowed))
    }
}
