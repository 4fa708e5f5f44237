//! Chains: wakes the next link, or cancels the later ones.

use super::insert::{NoticeTarget, insert_notice};
use crate::{
    agents::profiles,
    chat::access,
    db::{Conn, DbError},
    ids::AgentId,
    realtime::Audience,
    tasks::{FailCode, Task, TaskError, not_asked_text, notice_text, queue},
};

/// Wakes the link after a completed one. If the next link cannot start, it fails with a notice, and the later links are
/// canceled.
pub async fn continue_chain(
    c: &mut Conn,
    completed: &Task,
    audience: Audience,
) -> Result<(), DbError> {
    if completed.input.0.chain.is_none() {
        return Ok(());
    }
    let next = queue::next_link(c, completed.id).await?;
    let Some(next) = next.filter(Task::is_active) else {
        return Ok(());
    };
    let Some((agent, target)) = next.agent_id.zip(NoticeTarget::of(&next)) else {
        return Ok(());
    };
    let Some(code) = start_obstacle(c, &next, agent).await? else {
        return queue::wake_link(c, &next, audience).await;
    };
    let name = profiles::shown_name(c, agent).await?;
    let message = end_chain(c, &next, notice_text(&name, code), audience).await?;
    let trigger = next.trigger_message_id;
    let notice = insert_notice(c, target, audience, trigger, message.clone()).await?;
    let error = TaskError { code, message };
    queue::fail(c, next.id, error, Some(notice.id), audience).await
}

/// Cancels the links after a failed one. Returns the notice about the failure, which lists the agents that will not be
/// invoked.
pub async fn end_chain(
    c: &mut Conn,
    failed: &Task,
    notice: String,
    audience: Audience,
) -> Result<String, DbError> {
    let Some(agent) = failed.agent_id.filter(|_| failed.input.0.chain.is_some()) else {
        return Ok(notice);
    };
    let later = queue::cancel_later(c, failed.id, audience).await?;
    let agents: Vec<AgentId> = later.iter().filter_map(|link| link.agent_id).collect();
    with_later(c, notice, agent, &agents).await
}

/// Adds the agents of later links to the notice about a failed link.
pub(super) async fn with_later(
    c: &mut Conn,
    notice: String,
    failed: AgentId,
    later: &[AgentId],
) -> Result<String, DbError> {
    if later.is_empty() {
        return Ok(notice);
    }
    let mut names = Vec::with_capacity(later.len());
    for agent in later {
        names.push(profiles::shown_name(c, *agent).await?);
    }
    let failed = profiles::shown_name(c, failed).await?;
    Ok(format!("{notice} {}", not_asked_text(&failed, &names)))
}

/// Returns the reason why an agent cannot start. `of` is the link of a chain that the agent would run, or the task that delegates to
/// the agent.
pub async fn start_obstacle(
    c: &mut Conn,
    of: &Task,
    agent: AgentId,
) -> Result<Option<FailCode>, DbError> {
    let can_invoke = profiles::is_invocable_by(c, agent, of.requested_by).await?;
    if !can_invoke || !access::requester_can_post(c, of).await? {
        return Ok(Some(FailCode::NotAllowed));
    }
    let is_used_up = queue::is_used_up(c, of.root_task_id).await?;
    Ok(is_used_up.then_some(FailCode::TreeLimit))
}
