//! A person's access to their own states, and the reflections that they start. Nobody else has access.

use uuid::Uuid;

use crate::{
    agents::{
        AgentError,
        profiles::{self, TriggerType},
    },
    auth::{Actor, Caller, Scope},
    chat::{ChatError, access, bindings},
    cursor,
    db::{Conn, dialect::lock_workspace},
    ids::AgentId,
    realtime::hub::Conversation,
    tasks::{Task, TaskKind, TaskTarget, queue},
    time::Timestamp,
};

use super::{
    AdaptationError,
    note::{self, ReflectOptions, TaskOrigin},
    state::{self, AdaptationState, PromptName, StateKey, StoredState},
    switches::Allowed,
};

/// Cursor kind of a list of states.
const CURSOR: &str = "adaptation";

/// Requires the right to change the caller's own data: people have it in every role, and API keys need `chat:write`.
fn require_own(actor: &Actor<'_>) -> Result<(), AdaptationError> {
    if actor.key.is_some() {
        actor.require(Scope::ChatWrite)?;
    }
    Ok(())
}

/// Finds a conversation in the actor's workspace that the caller can read, and the key of the caller's state in it.
async fn find_place<'a>(
    c: &mut Conn,
    caller: &'a Caller,
    actor: &Actor<'_>,
    agent: AgentId,
    conversation: Conversation,
) -> Result<(access::ThreadAccess<'a>, StateKey), AdaptationError> {
    let access = access::find_conversation(c, caller, conversation).await?;
    if access.channel_access.actor.workspace != actor.workspace {
        return Err(match conversation {
            Conversation::Thread(_) => ChatError::ThreadNotFound,
            Conversation::Fork(_) => ChatError::ForkNotFound,
        }
        .into());
    }
    let key = StateKey {
        workspace: actor.workspace,
        user: actor.user,
        agent,
        thread: access.thread,
        fork: access.fork_id(),
    };
    Ok((access, key))
}

/// Finds the agent with this ID, or the main agent.
///
/// # Errors
/// `NotFound` for an agent that the actor cannot see.
async fn find_agent(
    c: &mut Conn,
    actor: &Actor<'_>,
    reference: &str,
) -> Result<AgentId, AdaptationError> {
    let agent = profiles::get_by_reference(c, actor, reference).await?;
    Ok(agent.summary.id)
}

/// Returns the caller's state, or a neutral one if there is none.
///
/// # Errors
/// An error from the access checks.
pub async fn get(
    c: &mut Conn,
    caller: &Caller,
    actor: &Actor<'_>,
    reference: &str,
    conversation: Conversation,
) -> Result<AdaptationState, AdaptationError> {
    actor.require(Scope::ChatRead)?;
    let agent = find_agent(c, actor, reference).await?;
    let (_, key) = find_place(c, caller, actor, agent, conversation).await?;
    let found = StoredState::find(c, &key).await?;
    let state = found.unwrap_or_else(|| StoredState::new(&key, Timestamp::EPOCH));
    Ok(state.into())
}

/// Deletes the caller's state, if there is one. Callers can also delete a state in a conversation that they can no longer read, or
/// with an agent that they can no longer see.
///
/// # Errors
/// An error from the access checks, but only if there is no state.
pub async fn delete(
    c: &mut Conn,
    caller: &Caller,
    actor: &Actor<'_>,
    reference: &str,
    conversation: Conversation,
) -> Result<(), AdaptationError> {
    require_own(actor)?;
    lock_workspace(c, actor.workspace.0).await?;
    let agent = match reference.parse() {
        Ok(agent) => agent,
        Err(_) => find_agent(c, actor, reference).await?,
    };
    let id = match conversation {
        Conversation::Thread(thread) => thread.0,
        Conversation::Fork(fork) => fork.0,
    };
    if !state::delete(c, actor.workspace, actor.user, agent, id).await? {
        find_agent(c, actor, reference).await?;
        find_place(c, caller, actor, agent, conversation).await?;
    }
    Ok(())
}

/// Deletes all states of the caller in the workspace, and returns their number.
///
/// # Errors
/// An error from `Actor::require`.
pub async fn delete_all(c: &mut Conn, actor: &Actor<'_>) -> Result<u64, AdaptationError> {
    require_own(actor)?;
    lock_workspace(c, actor.workspace.0).await?;
    Ok(state::delete_all(c, actor.workspace, actor.user).await?)
}

/// Returns the cursor after a state. Cursors hold 63-bit numbers, so the lower half of the ID is split in two.
fn cursor_at(id: Uuid) -> String {
    let (high, low) = id.as_u64_pair();
    let number = |part: u64| i64::try_from(part).unwrap_or_default();
    let place = [number(high), number(low >> 32), number(low & 0xffff_ffff)];
    cursor::write(CURSOR, &place)
}

/// Parses a cursor; `None` if there is none.
///
/// # Errors
/// `InvalidCursor`.
pub fn parse_cursor(text: Option<&str>) -> Result<Option<Uuid>, AdaptationError> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let parts = cursor::read::<3>(CURSOR, text).and_then(|[high, upper, lower]| {
        let (upper, lower) = (u32::try_from(upper).ok()?, u32::try_from(lower).ok()?);
        let low = (u64::from(upper) << 32) | u64::from(lower);
        Some(Uuid::from_u64_pair(u64::try_from(high).ok()?, low))
    });
    parts.map(Some).ok_or(AdaptationError::InvalidCursor)
}

/// Returns the caller's states in the workspace, newest first, and the cursor of the next page.
///
/// # Errors
/// An error from `Actor::require`.
pub async fn list(
    c: &mut Conn,
    actor: &Actor<'_>,
    before: Option<Uuid>,
    limit: i64,
) -> Result<(Vec<AdaptationState>, Option<String>), AdaptationError> {
    actor.require(Scope::ChatRead)?;
    let mut states = state::list(c, actor.workspace, actor.user, before, limit + 1).await?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = states.len() > limit;
    states.truncate(limit);
    let next = states.last().map(|state| cursor_at(state.id));
    let shown = states.into_iter().map(AdaptationState::from);
    Ok((shown.collect(), next.filter(|_| has_more)))
}

/// A reflection that the caller starts.
#[derive(Debug, Clone)]
pub struct ReflectRequest {
    /// ID of the agent, or `main`.
    pub agent: String,
    pub conversation: Conversation,
    pub metaprompt: String,
    /// False if the workspace has no language model.
    pub has_model: bool,
}

/// Queues a reflection with a manual metaprompt. If the same reflection is already queued or running, returns its task.
///
/// # Errors
/// `Off`, `Invalid` for a metaprompt that is not manual, `NoModel`, or an error from the access checks.
pub async fn reflect(
    c: &mut Conn,
    caller: &Caller,
    actor: &Actor<'_>,
    request: &ReflectRequest,
) -> Result<Task, AdaptationError> {
    let agent = find_agent(c, actor, &request.agent).await?;
    let (access, key) = find_place(c, caller, actor, agent, request.conversation).await?;
    let access = access.writing()?;
    actor.require(Scope::AgentsUse)?;
    if profiles::find_invocable(c, actor, agent).await?.is_none() {
        return Err(AgentError::NotFound.into());
    }
    lock_workspace(c, actor.workspace.0).await?;
    let binding = bindings::find_binding(c, request.conversation).await?;
    let bound = binding.filter(|binding| binding.agent == agent);
    let version = match bound {
        Some(bound) => Some(bound.version),
        None => profiles::newest_version(c, agent).await?,
    };
    let agent_version = version.ok_or(AgentError::NotFound)?;
    let target = TaskTarget {
        agent,
        agent_version,
        channel: access.channel_access.channel,
        thread: access.thread,
        fork: access.fork_id(),
    };
    let resolved = profiles::get_resolved(c, agent, agent_version).await?;
    let allowed = match Allowed::of(&resolved.profile) {
        Some(own) => own.current(c, &key, target.channel).await?,
        None => None,
    };
    let allowed = allowed.ok_or(AdaptationError::Off)?;
    let reflection = allowed.reflection.as_ref();
    let metaprompt = reflection.and_then(|reflection| reflection.metaprompt(&request.metaprompt));
    let is_manual = metaprompt.is_some_and(|found| found.trigger.kind == TriggerType::Manual);
    if !is_manual {
        let id: String = request.metaprompt.chars().take(64).collect();
        let text = format!("the agent has no metaprompt `{id}` with the trigger `manual`");
        return Err(AdaptationError::Invalid(text, "metaprompt_id"));
    }
    if !request.has_model {
        return Err(AdaptationError::NoModel);
    }
    let state = StoredState::open(c, &key).await?;
    let options = ReflectOptions {
        state_id: state.id,
        prompt: PromptName::Metaprompt(request.metaprompt.clone()),
    };
    let wanted = serde_json::to_value(&options).ok();
    let active = queue::active_reflections(c, key.conversation(), agent, key.user).await?;
    let same = |task: &Task| task.input.0.options == wanted;
    if let Some(task) = active.into_iter().find(same) {
        return Ok(task);
    }
    let origin = TaskOrigin {
        target,
        audience: access.channel_access.audience(),
        parent: None,
    };
    let queued = note::insert_task(c, TaskKind::Reflect, &key, &origin, &options).await?;
    queued.ok_or_else(|| AdaptationError::Db(sqlx::Error::RowNotFound.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_names_a_state() {
        let id = Uuid::now_v7();
        assert_eq!(parse_cursor(Some(&cursor_at(id))).unwrap(), Some(id));
        assert_eq!(parse_cursor(Some("")).unwrap(), None);
        assert_eq!(parse_cursor(None).unwrap(), None);
        assert!(parse_cursor(Some("x")).is_err());
    }
}
