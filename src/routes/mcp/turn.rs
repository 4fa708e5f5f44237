//! The tools of an agent on a runner: functions that read only what the requester and every reader of the conversation can read. Their
//! results taint the turn.

use std::{sync::Arc, time::Duration};

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool as OfferedTool, ToolAnnotations};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::{
    agents::{
        policy,
        profiles::{self, Tool, ToolKind},
    },
    auth::AuthError,
    chat::messages,
    code,
    db::{Conn, DbError, dialect::lock_workspace},
    http::ApiError,
    ids::{ActionId, TaskId},
    replies::results::{FaultOrigin, fault_text, output_text},
    server::State,
    tasks::{Task, queue},
    tool_fault::{ToolErrorCode, ToolFault},
    tools::{
        builtin::BuiltIns,
        function::ToolFunction,
        handles,
        runner::{Call, CallError, ToolRunner, ToolTask},
        taint,
    },
};

const OFFERED: [&str; 4] = [
    "search_messages",
    "read_thread",
    "search_decisions",
    "list_action_items",
];
/// Maximum duration of a call.
const CALL_MAX: Duration = Duration::from_secs(30);

/// The functions of a turn.
pub(super) struct TurnTools {
    task: ToolTask,
    tools: Vec<Tool>,
    functions: Vec<ToolFunction>,
    runner: BuiltIns,
}

fn failed(fault: &ToolFault) -> CallToolResult {
    let text = fault_text(fault, FaultOrigin::Server);
    CallToolResult::error(vec![ContentBlock::text(text)])
}

impl TurnTools {
    /// The functions of a task; none if the workspace does not allow agents to search.
    ///
    /// # Errors
    /// 401 if the task has ended.
    pub(super) async fn of(state: &State, id: TaskId) -> Result<Self, ApiError> {
        let gone = || ApiError::from(AuthError::NotAuthenticated);
        let mut c = state.db.read().await?;
        let task = queue::find_task(&mut c, id).await?;
        let task = task.filter(Task::is_active).ok_or_else(gone)?;
        let target = task.target().ok_or_else(gone)?;
        let trigger = task.trigger_message_id.ok_or_else(gone)?;
        let message = messages::find_message(&mut c, trigger).await?;
        let agent = profiles::find_resolved(&mut c, target.agent, target.agent_version).await?;
        let policy = policy::find(&mut c, task.workspace_id).await?;
        drop(c);
        let of = ToolTask {
            workspace: task.workspace_id,
            task: task.id,
            agent: target.agent,
            agent_version: target.agent_version,
            requester: task.requested_by,
            api_key: message.and_then(|message| message.metadata.api_key_id),
            channel: target.channel,
            thread: target.thread,
            fork: target.fork,
            trigger,
            typed: String::new(),
            is_turn: false,
            skills: None,
        };
        let own = agent.map(|agent| agent.profile.reply_tools());
        let mut own = own.unwrap_or_default().into_iter();
        let own = own.find(|tool| tool.kind() == ToolKind::FileSearch);
        let default = || serde_json::from_value(json!({"type": "file_search"})).ok();
        let mut tools: Vec<Tool> = own.or_else(default).into_iter().collect();
        tools.retain(|tool| policy.allows(tool.kind()));
        let runner = BuiltIns {
            db: state.db.clone(),
            blobs: state.blobs.clone(),
            meaning: Arc::clone(&state.meaning),
        };
        let mut functions = runner.functions(&of, &tools).await?;
        functions.retain(|function| OFFERED.contains(&function.name()));
        Ok(Self {
            task: of,
            tools,
            functions,
            runner,
        })
    }

    /// Definitions for the client.
    pub(super) fn definitions(&self) -> Vec<OfferedTool> {
        let functions = self.functions.iter();
        functions
            .map(|function| {
                let definition = &function.definition;
                let parameters = definition.parameters.as_ref().and_then(Value::as_object);
                let description = definition.description.clone().unwrap_or_default();
                let schema: JsonObject = parameters.cloned().unwrap_or_default();
                let annotations = ToolAnnotations::with_title(function.title.clone())
                    .read_only(true)
                    .open_world(false);
                OfferedTool::new(definition.name.clone(), description, schema)
                    .with_annotations(annotations)
            })
            .collect()
    }

    /// Calls a function. The log of the turn goes with the messages in the result.
    ///
    /// # Errors
    /// Only database errors.
    pub(super) async fn call(
        &self,
        state: &State,
        name: &str,
        arguments: JsonObject,
    ) -> Result<CallToolResult, ApiError> {
        let mut functions = self.functions.iter();
        let Some(function) = functions.find(|function| function.name() == name) else {
            return Ok(failed(&ToolFault::of(ToolErrorCode::NoSuchFunction)));
        };
        let call = Call {
            action: ActionId::new(),
            task: &self.task,
            function,
            tools: &self.tools,
            arguments,
            redirects: None,
            deadline: Instant::now() + CALL_MAX,
        };
        let output = match timeout(CALL_MAX, self.runner.run(call)).await {
            Ok(Ok(output)) => output,
            Ok(Err(CallError::Fault { fault, .. })) => return Ok(failed(&fault)),
            Ok(Err(CallError::Db(e))) => return Err(e.into()),
            Err(_) => return Ok(failed(&ToolFault::of(ToolErrorCode::ToolTimeout))),
        };
        let (workspace, task, requester) =
            (self.task.workspace, self.task.task, self.task.requester);
        let source = function.source.clone();
        let text = state.db.write(workspace.0, async move |c: &mut Conn| {
            lock_workspace(c, workspace.0).await?;
            let handles = handles::assign(c, task, &output.handled()).await?;
            let handle = |of| handles.get(&of).cloned().unwrap_or_default();
            let text = output_text(&output, &source, handle);
            let messages = || output.messages.iter().copied();
            taint::add_messages(c, task, requester, messages()).await?;
            taint::add(c, task, &output.taints).await?;
            code::cite(c, task, messages()).await?;
            Ok::<_, DbError>(text)
        });
        let text = text.await?;
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
    }
}
