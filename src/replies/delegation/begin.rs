//! Starts the delegated task of a call, or rejects the call, in the transaction that stores the call.

use std::collections::HashMap;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::{
    call::Delegation,
    child_key,
    function::{permits, tool_of},
    options::DelegateOptions,
};
use crate::{
    agents::{
        derived::SourceId,
        profiles::{self, HandleOwner, InvocableAgent, tools::DelegateTool},
    },
    chat::{access, search::task::find_readable},
    db::{Conn, Db, DbError},
    ids::{MessageId, TaskId, UserId},
    realtime::EventType,
    replies::{compaction::support::sources_of, history},
    tasks::{
        BriefContext, BriefFact, DELEGATIONS_IN_ROUND_MAX, Lease, NewTask, TREE_DEPTH_MAX,
        TREE_TASKS_MAX, Task, TaskBrief, TaskKind, TaskTarget,
        actions::{self, Action, Ending, texts},
        briefs, queue, slow,
    },
    tool_fault::{ToolErrorCode, ToolFault},
    tools::{
        function::DELEGATE, guard, handles, output::fault_text, requests::Requests, rights,
        runner::CallError, taint,
    },
};

/// A call of `delegate`, with the sources of its facts among the messages that the calling task has read.
#[derive(Debug, Clone)]
pub(in crate::replies) struct Prepared {
    delegation: Result<Delegation, ToolFault>,
    /// Messages that state each fact.
    sources: Vec<Vec<MessageId>>,
}

/// Parses the arguments of a call, and finds the sources of its facts.
pub(in crate::replies) async fn prepare(
    db: &Db,
    person: UserId,
    task: TaskId,
    arguments: &Map<String, Value>,
) -> Result<Prepared, DbError> {
    let delegation = Delegation::parse(arguments);
    let facts = match &delegation {
        Ok(delegation) => delegation.facts.clone(),
        Err(_) => Vec::new(),
    };
    let mut sources = Vec::new();
    if !facts.is_empty() {
        let rows = history::cited_by_prompt(&mut db.read().await?, task).await?;
        let found = slow::run(person, move |_| sources_of(&rows, &facts)).await;
        // Without sources, the facts are passed on as unverified.
        sources = found.unwrap_or_default();
    }
    Ok(Prepared {
        delegation,
        sources,
    })
}

/// Finds the numbers in a round's calls that already occurred in the tree's work.
pub(in crate::replies) async fn known_numbers(
    db: &Db,
    person: UserId,
    task: TaskId,
    calls: &HashMap<i64, Prepared>,
) -> Result<guard::KnownNumbers, DbError> {
    let delegations = calls
        .values()
        .filter_map(|call| call.delegation.as_ref().ok());
    let texts: Vec<String> = delegations.map(Delegation::text).collect();
    guard::known_numbers(db, person, task, &texts.join("\n")).await
}

/// Returns a call in the form that the loop guard compares; `None` if its arguments cannot be parsed.
pub(in crate::replies) async fn noted(
    c: &mut Conn,
    caller: &Task,
    action: &Action,
    prepared: &Prepared,
) -> Result<Option<guard::Delegation>, DbError> {
    let Ok(delegation) = &prepared.delegation else {
        return Ok(None);
    };
    let handle = delegation.agent.as_str();
    let is_on_path = match profiles::find_by_handle(c, caller.workspace_id, handle).await? {
        Some(HandleOwner::Agent(agent)) => queue::agents_on_path(c, caller.id)
            .await?
            .contains(&agent.id),
        _ => false,
    };
    Ok(Some(guard::Delegation {
        key: child_key(action),
        target: delegation.agent.clone(),
        text: delegation.text(),
        is_on_path,
    }))
}

fn refusal(code: ToolErrorCode, text: impl Into<String>) -> CallError {
    ToolFault::new(code, text).into()
}

/// Starts the delegated task of a call, or ends the call with the reason for its rejection. The holder of the lease must have started
/// the call.
pub(in crate::replies) async fn begin(
    c: &mut Conn,
    lease: &Lease,
    requests: &Requests,
    action: &Action,
    prepared: &Prepared,
) -> Result<(), DbError> {
    actions::release(c, action.id).await?;
    let fault = match start(c, lease, requests, action, prepared).await {
        Ok(()) => None,
        Err(CallError::Fault { fault, .. }) => Some(fault),
        Err(CallError::Db(e)) => return Err(e),
    };
    if let Some(fault) = fault {
        actions::store_end(c, action.id, None, Ending::failed(fault.code)).await?;
        let text = texts::put(c, lease.workspace, action.id, &fault_text(&fault)).await?;
        // The text can contain the agent's name as the model wrote it, so it has the same sources as the arguments.
        texts::cite_as(c, action.arguments_id, text).await?;
        actions::set_result(c, action.id, text).await?;
    }
    actions::announce(c, action.id, EventType::ActionUpdated, lease.audience).await
}

async fn start(
    c: &mut Conn,
    lease: &Lease,
    requests: &Requests,
    action: &Action,
    prepared: &Prepared,
) -> Result<(), CallError> {
    let delegation = prepared.delegation.as_ref().map_err(Clone::clone)?;
    let caller = queue::find_task(c, lease.task).await?;
    let tool = tool_of(requests.offer.tools());
    let Some((caller, tool)) = caller.zip(tool) else {
        return Err(ToolFault::of(ToolErrorCode::NotAllowed).into());
    };
    check_limits(c, &caller, action, tool).await?;
    let target = target_of(c, &caller, tool, &delegation.agent).await?;
    let (brief, cites) = brief_of(c, requests, delegation, &prepared.sources).await?;
    let options = DelegateOptions {
        context: tool.context.unwrap_or(BriefContext::Brief),
        usd_max: tool.usd_max,
    };
    let new = NewTask {
        trigger: caller.trigger_message_id,
        parent: Some(caller.id),
        child_key: Some(child_key(action)),
        before_seq: queue::before_seq(c, caller.id).await?,
        api_key: requests.task.api_key,
        prompt: caller.input.0.prompt.clone(),
        options: serde_json::to_value(options).ok(),
        ..NewTask::new(
            lease.workspace,
            TaskKind::Delegate,
            caller.requested_by,
            TaskTarget {
                agent: target.id,
                agent_version: target.version,
                ..lease.target
            },
        )
    };
    let Some(child) = queue::insert(c, &new, None).await? else {
        let stopped = "the work was stopped";
        return Err(refusal(ToolErrorCode::Cancelled, stopped));
    };
    let brief = with_handles(c, caller.id, child.id, brief).await?;
    briefs::put_brief(c, &child, caller.id, action.id, &brief, cites).await?;
    taint::pass_on(c, caller.id, child.id).await?;
    queue::announce(c, &child, lease.audience).await?;
    Ok(())
}

/// Checks the limits on delegations.
///
/// # Errors
/// `too_many_calls` if a limit of the round, the task, or the tree is reached; `rate_limited` if the queue is full.
async fn check_limits(
    c: &mut Conn,
    caller: &Task,
    action: &Action,
    tool: &DelegateTool,
) -> Result<(), CallError> {
    let limit = |text: String| Err(refusal(ToolErrorCode::TooManyCalls, text));
    if queue::count_children(c, caller.id, action.round).await? >= DELEGATIONS_IN_ROUND_MAX {
        return limit(format!(
            "the limit is {DELEGATIONS_IN_ROUND_MAX} delegations in a round"
        ));
    }
    let rounds_max = tool.rounds_max();
    let rounds = actions::delegating_rounds(c, caller.id, action.round, DELEGATE).await?;
    if rounds >= rounds_max {
        return limit(format!(
            "the limit is {rounds_max} rounds with delegations in a task"
        ));
    }
    if caller.depth >= TREE_DEPTH_MAX {
        return limit(format!(
            "the limit is {TREE_DEPTH_MAX} levels of delegation"
        ));
    }
    if queue::count_work(c, caller.root_task_id).await? >= TREE_TASKS_MAX {
        return limit(format!("the limit is {TREE_TASKS_MAX} tasks for a request"));
    }
    if queue::free_slots(c, caller.workspace_id).await? <= 0 {
        let text = "too many requests are waiting in this workspace";
        return Err(refusal(ToolErrorCode::RateLimited, text));
    }
    Ok(())
}

/// Finds the agent to which the call delegates, in its newest version.
///
/// # Errors
/// `not_found` for an agent that the requester cannot invoke, `not_allowed` for an agent that the profile does not permit here,
/// or for a requester without rights.
async fn target_of(
    c: &mut Conn,
    caller: &Task,
    tool: &DelegateTool,
    handle: &str,
) -> Result<InvocableAgent, CallError> {
    let unknown = || {
        let text = format!("there is no agent `{handle}` to ask: use a handle from the list");
        refusal(ToolErrorCode::NotFound, text)
    };
    let (workspace, requester) = (caller.workspace_id, caller.requested_by);
    let Some(HandleOwner::Agent(named)) = profiles::find_by_handle(c, workspace, handle).await?
    else {
        return Err(unknown());
    };
    if !profiles::is_invocable_by(c, named.id, requester).await? {
        return Err(unknown());
    }
    if !permits(tool, handle) {
        let listed = tool.agents.as_deref().unwrap_or_default().join(", ");
        let text = format!("`{handle}` cannot be asked; these can: {listed}");
        return Err(refusal(ToolErrorCode::NotAllowed, text));
    }
    if caller.agent_id == Some(named.id) {
        let text = "an agent cannot ask itself";
        return Err(refusal(ToolErrorCode::NotAllowed, text));
    }
    if queue::agents_on_path(c, caller.id)
        .await?
        .contains(&named.id)
    {
        let text = format!("`{handle}` is already waiting for this task");
        return Err(refusal(ToolErrorCode::NotAllowed, text));
    }
    if !access::requester_can_post(c, caller).await? {
        let text = "the person who asked can no longer post here";
        return Err(refusal(ToolErrorCode::NotAllowed, text));
    }
    profiles::refresh_first(c, workspace, named.id).await?;
    match profiles::find_by_handle(c, workspace, handle).await? {
        Some(HandleOwner::Agent(newest)) => Ok(newest),
        _ => Err(unknown()),
    }
}

/// Returns the brief, and the sources that it cites in addition to the caller's prompt. A fact is left out if the readers of the
/// conversation can read none of its sources.
async fn brief_of(
    c: &mut Conn,
    requests: &Requests,
    delegation: &Delegation,
    sources: &[Vec<MessageId>],
) -> Result<(TaskBrief, Vec<(&'static str, Uuid)>), CallError> {
    let task = &requests.task;
    let rights = rights::find(c, task).await?.ok_or_else(rights::refusal)?;
    let reader = (task.workspace, rights.requester, rights.shared_in);
    let is_incomplete = texts::has_lost_parts(c, task.task).await?;
    let mut brief = TaskBrief {
        message: delegation.message.clone(),
        constraints: delegation.constraints.clone(),
        output: delegation.output.clone(),
        ..TaskBrief::default()
    };
    let mut cites = Vec::new();
    for (n, text) in delegation.facts.iter().enumerate() {
        let found = sources.get(n).map_or(&[][..], Vec::as_slice);
        let readable = find_readable(c, reader, found).await?;
        let mut sources = found.to_vec();
        sources.retain(|id| readable.iter().any(|message| message.id == *id));
        // A fact without a source may come from a message that was deleted after the caller read it.
        let is_lost = sources.is_empty() && (!found.is_empty() || is_incomplete);
        if is_lost {
            brief.left_out += 1;
            continue;
        }
        let of_fact = sources.iter().copied().map(SourceId::Message);
        cites.extend(of_fact.map(|source| (source.kind(), source.uuid())));
        brief.facts.push(BriefFact {
            text: text.clone(),
            sources,
        });
    }
    Ok((brief, cites))
}

/// Replaces the caller's source handles in the brief with those of the delegated task.
async fn with_handles(
    c: &mut Conn,
    caller: TaskId,
    child: TaskId,
    mut brief: TaskBrief,
) -> Result<TaskBrief, DbError> {
    let facts = brief.facts.iter_mut().map(|fact| &mut fact.text);
    let texts = std::iter::once(&mut brief.message).chain(facts);
    let texts = texts.chain(&mut brief.constraints);
    for text in texts.chain(&mut brief.output) {
        *text = handles::translate(c, caller, child, text).await?;
    }
    Ok(brief)
}
