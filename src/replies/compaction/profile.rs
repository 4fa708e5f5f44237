//! Compaction strategies: limits for the part of a conversation that agents receive.

use std::time::Duration;

use uuid::Uuid;

use super::store;
use crate::{
    agents::{
        policy,
        profiles::{self, Compaction, Resolved},
        switch::SwitchLevel,
    },
    config::Config,
    db::{Conn, DbError},
    ids::{ChannelId, WorkspaceId},
    tasks::TaskTarget,
};

/// Maximum number of agents in a conversation whose strategies are compared.
const AGENTS_MAX: i64 = 20;
const WINDOW: usize = 50;
const AGGRESSIVE_WINDOW: usize = 20;

/// Compaction settings of the server.
#[derive(Debug, Clone, Copy)]
pub struct CompactionSettings {
    pub is_on: bool,
    /// Minimum time between two automatic passes over a conversation.
    pub interval: Duration,
}

impl CompactionSettings {
    pub fn of(config: &Config) -> Self {
        Self {
            is_on: config.compaction,
            interval: config.compaction_interval,
        }
    }
}

/// Returns the mode of a conversation with an agent: `thread:NAME`, `direct:NAME`, or `fork:NAME`.
pub async fn mode_of(
    c: &mut Conn,
    agent: &str,
    channel: ChannelId,
    is_fork: bool,
) -> Result<String, DbError> {
    let is_direct: bool = c
        .q("select kind = 'direct' from channels where id = $1")
        .bind(channel)
        .value()
        .await?;
    let kind = match (is_fork, is_direct) {
        (true, _) => "fork",
        (false, true) => "direct",
        (false, false) => "thread",
    };
    Ok(format!("{kind}:{agent}"))
}

/// Conversation whose strategy is looked up.
#[derive(Debug, Clone, Copy)]
pub struct StrategyPlace {
    pub workspace: WorkspaceId,
    pub channel: ChannelId,
    pub is_fork: bool,
}

impl StrategyPlace {
    pub fn of(workspace: WorkspaceId, target: &TaskTarget) -> Self {
        Self {
            workspace,
            channel: target.channel,
            is_fork: target.fork.is_some(),
        }
    }
}

/// Strategy of an agent in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strategy(pub Compaction);

impl Strategy {
    /// Returns the agent's own strategy, otherwise the workspace's strategy for the mode of the conversation. Returns `Off` if
    /// compaction is turned off for the server or summaries are turned off for the agent.
    pub async fn of(
        c: &mut Conn,
        settings: CompactionSettings,
        agent: &Resolved,
        place: StrategyPlace,
    ) -> Result<Self, DbError> {
        let (strategy, _) = Self::find(c, settings, agent, place).await?;
        Ok(strategy)
    }

    /// Like `of`, with the level at which compaction is turned off.
    pub async fn find(
        c: &mut Conn,
        settings: CompactionSettings,
        agent: &Resolved,
        place: StrategyPlace,
    ) -> Result<(Self, Option<SwitchLevel>), DbError> {
        let memory = agent.profile.memory.as_ref();
        let summaries = memory.and_then(|memory| memory.summary_enabled);
        let prompting = agent.profile.prompting.as_ref();
        let own = prompting.and_then(|prompting| prompting.compaction);
        let (compaction, level) = match (summaries, own) {
            _ if !settings.is_on => (Compaction::Off, SwitchLevel::Server),
            (Some(false), _) => (Compaction::Off, SwitchLevel::Agent),
            (_, Some(own)) => (own, SwitchLevel::Agent),
            _ => {
                let mode = mode_of(c, &agent.name, place.channel, place.is_fork).await?;
                let policy = policy::find(c, place.workspace).await?;
                (policy.compaction.of(&mode), SwitchLevel::Workspace)
            }
        };
        let is_off = compaction == Compaction::Off;
        Ok((Self(compaction), is_off.then_some(level)))
    }

    /// Returns the strongest strategy among this agent and the others that have replied in the conversation. An agent whose strategy
    /// is `Off` does not weaken the passes for the others.
    pub async fn strongest(
        self,
        c: &mut Conn,
        settings: CompactionSettings,
        conversation: Uuid,
        place: StrategyPlace,
    ) -> Result<Self, DbError> {
        let mut strongest = self;
        for (agent, version) in store::list_agents(c, conversation, AGENTS_MAX).await? {
            let agent = profiles::get_resolved(c, agent, version).await?;
            let other = Self::of(c, settings, &agent, place).await?;
            if other.strength() > strongest.strength() {
                strongest = other;
            }
        }
        Ok(strongest)
    }

    fn strength(self) -> u8 {
        match self.0 {
            Compaction::Off => 0,
            Compaction::Standard => 1,
            Compaction::Aggressive => 2,
        }
    }

    pub fn is_on(self) -> bool {
        self.0 != Compaction::Off
    }

    /// Returns the number of the most recent messages that are always included in the prompt.
    pub fn window(self) -> usize {
        match self.0 {
            Compaction::Off | Compaction::Standard => WINDOW,
            Compaction::Aggressive => AGGRESSIVE_WINDOW,
        }
    }

    /// Returns the maximum size of a summary, in tokens, for a context window of this size.
    pub fn summary_tokens_max(self, window: u64) -> u64 {
        let cap = match self.0 {
            Compaction::Off | Compaction::Standard => 900,
            Compaction::Aggressive => 600,
        };
        cap.min(window * 15 / 100)
    }

    /// Returns the size of a prompt, in tokens, above which its older messages are compacted.
    pub fn prompt_tokens_max(self) -> u64 {
        match self.0 {
            Compaction::Off => u64::MAX,
            Compaction::Standard => 100_000,
            Compaction::Aggressive => 24_000,
        }
    }
}
