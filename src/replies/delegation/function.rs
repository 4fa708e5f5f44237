//! The function `delegate`, whose description lists the agents to which the caller can delegate.

use std::collections::BTreeSet;

use futures::{FutureExt, future::BoxFuture};

use super::call::parameters;
use crate::{
    agents::profiles::{
        self, ListedAgent, TextAuthor, Tool, ToolKind, tools::DelegateTool as ProfileTool,
    },
    db::{Db, DbError},
    ids::AgentId,
    model::FunctionTool,
    tasks::slow,
    tool_fault::{ToolErrorCode, ToolFault},
    tools::{
        announced::announced,
        function::{DELEGATE, ToolFunction, definition_hash},
        output::{ToolOutput, one_line},
        runner::{Call, CallError, ToolRunner, ToolTask},
        taint::trusted_authors,
    },
};

const TITLE: &str = "Ask an agent";
/// Maximum number of agents in the function's description.
const LISTED_MAX: usize = 20;
/// Maximum length of an agent's description in the list.
const DESCRIPTION_CHARS_MAX: usize = 200;

/// Offers `delegate`.
#[derive(Clone)]
pub struct DelegationTool {
    pub db: Db,
}

/// Finds the `delegate` tool of a profile.
pub(super) fn tool_of(tools: &[Tool]) -> Option<&ProfileTool> {
    tools.iter().find_map(|tool| match tool {
        Tool::Delegate(tool) => Some(tool),
        _ => None,
    })
}

/// Checks whether the tool permits an agent.
pub(super) fn permits(tool: &ProfileTool, handle: &str) -> bool {
    let listed = tool.agents.as_deref();
    listed.is_none_or(|agents| agents.iter().any(|agent| is_handle(agent, handle)))
}

fn is_handle(listed: &str, handle: &str) -> bool {
    listed
        .trim()
        .trim_start_matches('@')
        .eq_ignore_ascii_case(handle)
}

/// Formats a list entry: `- @HANDLE: DESCRIPTION (TAGS)`.
fn line_of(agent: &ListedAgent) -> String {
    let description = agent.description.as_deref().unwrap_or_default();
    let description: String = one_line(description)
        .chars()
        .take(DESCRIPTION_CHARS_MAX)
        .collect();
    let mut line = format!("- @{}", agent.handle);
    if !description.is_empty() {
        line.push_str(": ");
        line.push_str(&description);
    }
    if !agent.tags.is_empty() {
        line = format!("{line} ({})", one_line(&agent.tags.join(", ")));
    }
    line
}

fn description(tool: &ProfileTool, agents: &[ListedAgent]) -> String {
    let own = tool
        .description
        .as_deref()
        .map(one_line)
        .unwrap_or_default();
    let lines: Vec<String> = agents.iter().map(line_of).collect();
    let intro = "Give another agent a task and get its answer. Independent tasks belong in one round, so that they run in parallel. \
                 People see only your reply.";
    let parts = [
        intro.to_owned(),
        own,
        format!("Agents:\n{}", lines.join("\n")),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

/// Lists the agents to which a task can delegate; those named in the profile come first.
async fn list_askable(
    db: &Db,
    task: &ToolTask,
    tool: &ProfileTool,
) -> Result<Vec<ListedAgent>, DbError> {
    let mut c = db.read().await?;
    let mut agents = profiles::list_invocable_by(&mut c, task.workspace, task.requester).await?;
    agents.retain(|agent| agent.id != task.agent && permits(tool, &agent.handle));
    let listed = tool.agents.as_deref().unwrap_or_default();
    agents.sort_by_key(|agent| {
        let at = listed
            .iter()
            .position(|listed| is_handle(listed, &agent.handle));
        at.unwrap_or(listed.len())
    });
    Ok(agents)
}

/// Removes descriptions and tags that neither the server, the requester, nor an admin wrote: nobody has checked them, and the agent
/// would read them as part of its own instructions.
async fn keep_trusted_descriptions(
    db: &Db,
    task: &ToolTask,
    agents: &mut [ListedAgent],
) -> Result<(), DbError> {
    let mut c = db.read().await?;
    let mut described = Vec::new();
    for agent in agents.iter_mut().filter(|agent| agent.is_described()) {
        let author = profiles::summary_author(&mut c, agent.id, agent.version).await?;
        described.push((agent, author));
    }
    let people: BTreeSet<_> = (described.iter())
        .filter_map(|(_, author)| match author {
            TextAuthor::Person(person) => Some(*person),
            TextAuthor::Server | TextAuthor::Unknown => None,
        })
        .collect();
    let trusted = trusted_authors(&mut c, task.workspace, task.requester, &people).await?;
    for (agent, author) in described {
        let is_trusted = match author {
            TextAuthor::Server => true,
            TextAuthor::Person(person) => trusted.contains(&person),
            TextAuthor::Unknown => false,
        };
        if !is_trusted {
            agent.description = None;
            agent.tags.clear();
        }
    }
    Ok(())
}

/// Finds the agent to which `text` announces a delegation.
pub(in crate::replies) async fn announced_agent(
    db: &Db,
    task: &ToolTask,
    tools: &[Tool],
    text: &str,
) -> Result<Option<AgentId>, DbError> {
    let Some(tool) = tool_of(tools) else {
        return Ok(None);
    };
    let agents = list_askable(db, task, tool).await?;
    let text = text.to_owned();
    let found = slow::run(task.requester, move |_| {
        let names: Vec<(&str, &str)> = agents
            .iter()
            .map(|agent| (agent.handle.as_str(), agent.name.as_str()))
            .collect();
        announced(&text, &names).map(|at| agents[at].id)
    });
    found.await.map_err(|_| DbError::Closed)
}

impl DelegationTool {
    async fn offered(
        &self,
        task: &ToolTask,
        tool: &ProfileTool,
    ) -> Result<Option<ToolFunction>, DbError> {
        let mut agents = list_askable(&self.db, task, tool).await?;
        agents.truncate(LISTED_MAX);
        if agents.is_empty() {
            return Ok(None);
        }
        keep_trusted_descriptions(&self.db, task, &mut agents).await?;
        let definition = FunctionTool {
            name: DELEGATE.to_owned(),
            description: Some(description(tool, &agents)),
            parameters: Some(parameters()),
            strict: None,
        };
        // The hash excludes the list of agents, which can change while a call waits for approval.
        let hashed = FunctionTool {
            description: None,
            ..definition.clone()
        };
        Ok(Some(ToolFunction {
            kind: Some(ToolKind::Delegate),
            source: "the asked agent".to_owned(),
            definition_hash: definition_hash(&hashed, TITLE),
            ..ToolFunction::built_in(DELEGATE, TITLE, definition)
        }))
    }
}

impl ToolRunner for DelegationTool {
    fn functions<'a>(
        &'a self,
        task: &'a ToolTask,
        tools: &'a [Tool],
    ) -> BoxFuture<'a, Result<Vec<ToolFunction>, DbError>> {
        async move {
            let function = match tool_of(tools) {
                Some(tool) => self.offered(task, tool).await?,
                None => None,
            };
            Ok(function.into_iter().collect())
        }
        .boxed()
    }

    /// Always fails, because a delegation continues as a separate task.
    fn run<'a>(&'a self, _call: Call<'a>) -> BoxFuture<'a, Result<ToolOutput, CallError>> {
        let fault = ToolFault::of(ToolErrorCode::NotAllowed);
        std::future::ready(Err(fault.into())).boxed()
    }
}
