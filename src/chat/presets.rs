//! Reply styles of conversations: the preset that a person has chosen for an agent, or that a reply has used.

use uuid::Uuid;

pub use super::rows::preset::ConversationPreset;
use super::{ChatError, access, announce, forks, rows::preset::list_presets};
use crate::{
    agents::{
        profiles,
        prompt_profiles::{ChosenBy, find_prompt_profiles},
    },
    auth::Caller,
    db::{Conn, DbError, dialect::lock_workspace},
    ids::{AgentId, ChannelId, ForkId, ThreadId, WorkspaceId},
    realtime::{Audience, hub::Conversation},
    tasks::queue,
};

/// Maximum number of conversations announced when presets are deleted. The most recently active ones are announced; clients reload
/// the others when they open them.
const ANNOUNCED_MAX: i64 = 100;

/// Preset of an agent in a conversation, with the number of the agent's replies there.
#[derive(Debug, Clone, Default, PartialEq, Eq, sqlx::FromRow)]
pub struct StoredPreset {
    pub preset: Option<String>,
    pub chosen_by: Option<ChosenBy>,
    /// Turn in which the rules and the mode default were last evaluated; `None` if the next turn evaluates them.
    pub preset_turn: Option<i64>,
    pub turns: i64,
}

pub async fn find_preset(
    c: &mut Conn,
    conversation: Uuid,
    agent: AgentId,
) -> Result<StoredPreset, DbError> {
    let row: Option<StoredPreset> = c
        .q("select preset, chosen_by, preset_turn, turns from conversation_agents where conversation_id = $1 and agent_id = $2")
        .bind(conversation)
        .bind(agent)
        .opt()
        .await?;
    Ok(row.unwrap_or_default())
}

async fn presets_of(
    c: &mut Conn,
    conversation: Conversation,
) -> Result<Vec<ConversationPreset>, DbError> {
    let id = conversation.id();
    let mut presets = list_presets(c, vec![id]).await?;
    Ok(presets.remove(&id).unwrap_or_default())
}

/// Inserts the row of a conversation in which agents take part, unless it exists.
pub async fn insert_conversation(
    c: &mut Conn,
    workspace: WorkspaceId,
    thread: ThreadId,
    fork: Option<ForkId>,
) -> Result<(), DbError> {
    c.q("insert into conversations (id, workspace_id, thread_id, fork_id) values ($1, $2, $3, $4) on conflict (id) do nothing")
        .bind(fork.map_or(thread.0, |fork| fork.0))
        .bind(workspace)
        .bind(thread)
        .bind(fork)
        .run()
        .await?;
    Ok(())
}

/// Chooses a preset for an agent in a conversation; `None` removes a person's choice. Returns all presets of the
/// conversation.
///
/// # Errors
/// `NoSuchAgent`, `Invalid` for an unknown preset, or any error from `writing`.
pub async fn choose(
    c: &mut Conn,
    caller: &Caller,
    conversation: Conversation,
    agent: AgentId,
    preset: Option<&str>,
) -> Result<Vec<ConversationPreset>, ChatError> {
    let access = access::find_conversation(c, caller, conversation)
        .await?
        .writing()?;
    let actor = &access.channel_access.actor;
    lock_workspace(c, actor.workspace.0).await?;
    if !profiles::is_visible(c, actor, agent).await? {
        return Err(ChatError::NoSuchAgent(agent.to_string()));
    }
    let before = presets_of(c, conversation).await?;
    match preset {
        Some(preset) => {
            check_known(c, actor.workspace, preset).await?;
            insert_conversation(c, actor.workspace, access.thread, access.fork_id()).await?;
            c.q("insert into conversation_agents (conversation_id, agent_id, turns, preset, chosen_by) values ($1, $2, 0, $3, $4) \
                 on conflict (conversation_id, agent_id) do update set preset = excluded.preset, chosen_by = excluded.chosen_by, \
                 preset_turn = null")
                .bind(conversation.id())
                .bind(agent)
                .bind(preset.to_owned())
                .bind(ChosenBy::Person)
                .run()
                .await?;
        }
        None => {
            c.q("update conversation_agents set preset = null, chosen_by = null, preset_turn = null \
                 where conversation_id = $1 and agent_id = $2 and chosen_by = $3")
                .bind(conversation.id())
                .bind(agent)
                .bind(ChosenBy::Person)
                .run()
                .await?;
        }
    }
    let after = presets_of(c, conversation).await?;
    if after != before {
        let audience = access.channel_access.audience();
        announced(c, actor.workspace, conversation, audience).await?;
    }
    Ok(after)
}

async fn is_known(c: &mut Conn, workspace: WorkspaceId, preset: &str) -> Result<bool, DbError> {
    let profiles = find_prompt_profiles(c, workspace).await?;
    Ok(profiles.content.preset(preset).is_some())
}

async fn check_known(c: &mut Conn, workspace: WorkspaceId, preset: &str) -> Result<(), ChatError> {
    if is_known(c, workspace, preset).await? {
        return Ok(());
    }
    let preset: String = preset.chars().take(64).collect();
    let rule = format!("the workspace has no reply style `{preset}`: choose another one");
    Err(ChatError::Invalid(rule, "preset"))
}

/// Stores the preset that a reply has used, unless a person has chosen one in the meantime. Must be called after the reply has been
/// counted.
pub async fn store_used(
    c: &mut Conn,
    workspace: WorkspaceId,
    audience: Audience,
    conversation: Conversation,
    agent: AgentId,
    used: &StoredPreset,
) -> Result<(), DbError> {
    // The preset may have been deleted while the model replied.
    if let Some(preset) = &used.preset
        && !is_known(c, workspace, preset).await?
    {
        return Ok(());
    }
    let before = presets_of(c, conversation).await?;
    c.q(
        "update conversation_agents set preset = $3, chosen_by = $4, preset_turn = $5 \
         where conversation_id = $1 and agent_id = $2 and (chosen_by is null or chosen_by <> $6)",
    )
    .bind(conversation.id())
    .bind(agent)
    .bind(used.preset.clone())
    .bind(used.chosen_by)
    .bind(used.preset_turn)
    .bind(ChosenBy::Person)
    .run()
    .await?;
    if presets_of(c, conversation).await? == before {
        return Ok(());
    }
    announced(c, workspace, conversation, audience).await
}

/// Makes the next reply evaluate the rules again after a compaction pass, if the workspace has enabled this.
pub async fn review_after_pass(
    c: &mut Conn,
    workspace: WorkspaceId,
    conversation: Uuid,
) -> Result<(), DbError> {
    let profiles = find_prompt_profiles(c, workspace).await?;
    if profiles.content.routing.force_review_on_compaction {
        c.q("update conversation_agents set preset_turn = null where conversation_id = $1")
            .bind(conversation)
            .run()
            .await?;
    }
    Ok(())
}

/// A conversation with a deleted preset.
#[derive(sqlx::FromRow)]
struct AffectedRow {
    thread_id: ThreadId,
    fork_id: Option<ForkId>,
    channel_id: ChannelId,
}

/// Removes deleted presets from all conversations of a workspace.
pub async fn forget(
    c: &mut Conn,
    workspace: WorkspaceId,
    deleted: &[String],
) -> Result<(), DbError> {
    let mut left = ANNOUNCED_MAX;
    for preset in deleted {
        let affected: Vec<AffectedRow> = c
            .q("select v.thread_id, v.fork_id, t.channel_id from conversation_agents a join conversations v on v.id = a.conversation_id \
                join threads t on t.id = v.thread_id where a.preset = $2 and v.workspace_id = $1 order by t.last_activity_at desc, v.id limit $3")
            .bind(workspace)
            .bind(preset.clone())
            .bind(left)
            .all()
            .await?;
        left -= i64::try_from(affected.len()).unwrap_or(left);
        c.q("update conversation_agents set preset = null, chosen_by = null, preset_turn = null \
             where preset = $2 and conversation_id in (select id from conversations where workspace_id = $1)")
            .bind(workspace)
            .bind(preset.clone())
            .run()
            .await?;
        for row in affected {
            let audience = queue::audience_of(c, row.channel_id).await?;
            let thread = Conversation::Thread(row.thread_id);
            let conversation = row.fork_id.map_or(thread, Conversation::Fork);
            announced(c, workspace, conversation, audience).await?;
        }
    }
    Ok(())
}

/// Appends `thread.updated` or `fork.updated`.
async fn announced(
    c: &mut Conn,
    workspace: WorkspaceId,
    conversation: Conversation,
    audience: Audience,
) -> Result<(), DbError> {
    match conversation {
        Conversation::Thread(thread) => {
            announce::existing_thread_updated(c, workspace, audience, thread).await
        }
        Conversation::Fork(fork) => forks::announced(c, fork, audience).await,
    }
}
