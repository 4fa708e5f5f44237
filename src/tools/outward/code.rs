//! `run_code`.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    agents::{
        policy,
        profiles::{self, ActionName, Tool, ToolKind},
        sandbox::{self, SandboxLimits},
    },
    db::{Db, DbError},
    mcp::{Effect, Risk},
    model::FunctionTool,
    registry::Registry,
    tasks::actions::{ActionSource, TaintKind},
    tool_fault::{ToolErrorCode, ToolFault},
    tools::{
        arguments::Arguments,
        function::{Reach, ToolFunction},
        output::ToolOutput,
        runner::{Call, CallError, ToolRunner, ToolTask},
    },
};

const NAME: &str = "run_code";
const TITLE: &str = "Run code";
const SOURCE: &str = "the code runner";

/// Runs code on the code runner that the operator configured.
#[derive(Clone)]
pub struct CodeTool {
    pub db: Db,
    pub registry: Arc<Registry>,
}

fn function() -> ToolFunction {
    let definition = FunctionTool {
        name: NAME.to_owned(),
        description: Some("Run a program, and get its output.".to_owned()),
        parameters: Some(json!({
            "type": "object",
            "properties": {
                "language": {"type": "string", "description": "Such as python."},
                "code": {"type": "string"},
            },
            "required": ["language", "code"],
            "additionalProperties": false,
        })),
        strict: None,
    };
    ToolFunction {
        kind: Some(ToolKind::CodeInterpreter),
        effect: Effect::Write,
        reach: Reach::Outward,
        risk: Risk::Approve,
        is_grantable: false,
        source: SOURCE.to_owned(),
        ..ToolFunction::built_in(ActionName::Code.as_str(), TITLE, definition)
    }
}

fn taint() -> ActionSource {
    ActionSource::new(TaintKind::Code, Uuid::nil(), SOURCE)
}

impl CodeTool {
    /// Returns the limits for code. For each field, the stricter of the workspace's and the tool's limit applies. A tool without
    /// limits uses those of the agent.
    async fn limits(
        &self,
        task: &ToolTask,
        tools: &[Tool],
    ) -> Result<Option<SandboxLimits>, DbError> {
        let of_tool = tools.iter().find_map(|tool| match tool {
            Tool::CodeInterpreter(tool) => tool.sandbox_policy_id.clone(),
            _ => None,
        });
        let mut c = self.db.read().await?;
        let own = if of_tool.is_some() {
            of_tool
        } else {
            let agent = profiles::get_resolved(&mut c, task.agent, task.agent_version).await?;
            agent.profile.sandbox_policy_id
        };
        let required = policy::find(&mut c, task.workspace)
            .await?
            .sandbox_policy_id;
        sandbox::effective(&mut c, task.workspace, own.as_deref(), required).await
    }

    async fn call(&self, call: Call<'_>) -> Result<ToolOutput, CallError> {
        let Some(runner) = &self.registry.runner else {
            return Err(ToolFault::of(ToolErrorCode::NoSuchFunction).into());
        };
        let arguments = Arguments::of(&call.arguments, &["language", "code"])?;
        let language = arguments.required("language")?;
        let code = arguments.required("code")?;
        let limits = self.limits(call.task, call.tools).await.map_err(|e| {
            // Nothing was sent, so the outcome is known.
            tracing::warn!(error = %e, "the limits of a code runner could not be read");
            ToolFault::of(ToolErrorCode::ToolFailed)
        })?;
        let limits = serde_json::to_value(limits).unwrap_or(Value::Null);
        let outward = &self.registry.outward;
        outward
            .count_in_time(call.task.workspace, call.deadline)
            .await?;
        match runner.run(language, code, &limits, call.deadline).await {
            Ok(returned) => {
                let mut output = ToolOutput {
                    taints: vec![taint()],
                    ..ToolOutput::default()
                };
                output.data(returned.text);
                output.pictures = returned.pictures;
                Ok(output)
            }
            Err(fault) => Err(CallError::Fault {
                fault,
                taints: vec![taint()],
            }),
        }
    }
}

impl ToolRunner for CodeTool {
    fn functions<'a>(
        &'a self,
        _task: &'a ToolTask,
        tools: &'a [Tool],
    ) -> BoxFuture<'a, Result<Vec<ToolFunction>, DbError>> {
        let has_runner = self.registry.runner.is_some();
        let runs_code = has_runner
            && tools
                .iter()
                .any(|tool| tool.kind() == ToolKind::CodeInterpreter);
        let functions: Vec<ToolFunction> = runs_code.then(function).into_iter().collect();
        std::future::ready(Ok(functions)).boxed()
    }

    fn run<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<ToolOutput, CallError>> {
        self.call(call).boxed()
    }
}
