//! `run_code`.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use openvibe_runner::{Program, ProgramEnd};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    agents::{
        policy,
        profiles::{self, ActionName, Tool, ToolKind},
        sandbox::{self, Filesystem, SandboxLimits},
    },
    db::{Db, DbError},
    mcp::{Effect, Risk},
    model::FunctionTool,
    registry::{self, ProgramCall, Registry, RunnerPrograms},
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

/// Runs code on the code runner that the operator configured, or else on a runner of the workspace.
#[derive(Clone)]
pub struct CodeTool {
    pub db: Db,
    pub registry: Arc<Registry>,
    pub programs: RunnerPrograms,
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

/// The program with those limits that a runner enforces: the image is its own, and there is no network.
fn program_of(language: &str, code: &str, limits: Option<&SandboxLimits>) -> Program {
    Program {
        language: language.to_owned(),
        code: code.to_owned(),
        seconds: limits.map_or(u64::MAX, |limits| limits.timeout_s_max.into()),
        memory_mb: limits.map(|limits| limits.memory_mb_max.into()),
        cpu: limits.map(SandboxLimits::processors),
        writes: limits.is_none_or(|limits| limits.filesystem == Filesystem::ReadWrite),
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

    async fn offered(&self, task: &ToolTask, tools: &[Tool]) -> Result<Vec<ToolFunction>, DbError> {
        let is_code = |tool: &Tool| tool.kind() == ToolKind::CodeInterpreter;
        if !tools.iter().any(is_code) {
            return Ok(Vec::new());
        }
        let has_runner = self.registry.runner.is_some()
            || registry::has_program_runner(&mut self.db.read().await?, task.workspace).await?;
        Ok(has_runner.then(function).into_iter().collect())
    }

    async fn call(&self, call: Call<'_>) -> Result<ToolOutput, CallError> {
        let arguments = Arguments::of(&call.arguments, &["language", "code"])?;
        let language = arguments.required("language")?;
        let code = arguments.required("code")?;
        let limits = self.limits(call.task, call.tools).await.map_err(|e| {
            // Nothing was sent, so the outcome is known.
            tracing::warn!(error = %e, "the limits of a code runner could not be read");
            ToolFault::of(ToolErrorCode::ToolFailed)
        })?;
        let outward = &self.registry.outward;
        outward
            .count_in_time(call.task.workspace, call.deadline)
            .await?;
        let Some(runner) = &self.registry.runner else {
            let program = program_of(language, code, limits.as_ref());
            return self.run_program(&call, program).await;
        };
        let limits = serde_json::to_value(limits).unwrap_or(Value::Null);
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

    async fn run_program(
        &self,
        call: &Call<'_>,
        program: Program,
    ) -> Result<ToolOutput, CallError> {
        let ran = self.programs.run(ProgramCall {
            action: call.action,
            task: call.task.task,
            workspace: call.task.workspace,
            program,
            deadline: call.deadline,
        });
        // PostgreSQL does not store NUL.
        let shown = |text: String| text.replace('\0', "\u{fffd}");
        match ran.await? {
            ProgramEnd::Ended { output: text } => {
                let mut output = ToolOutput {
                    taints: vec![taint()],
                    ..ToolOutput::default()
                };
                output.data(shown(text));
                Ok(output)
            }
            ProgramEnd::Refused { message } => Err(CallError::Fault {
                fault: ToolFault::new(ToolErrorCode::ToolFailed, shown(message)),
                taints: vec![taint()],
            }),
        }
    }
}

impl ToolRunner for CodeTool {
    fn functions<'a>(
        &'a self,
        task: &'a ToolTask,
        tools: &'a [Tool],
    ) -> BoxFuture<'a, Result<Vec<ToolFunction>, DbError>> {
        self.offered(task, tools).boxed()
    }

    fn run<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<ToolOutput, CallError>> {
        self.call(call).boxed()
    }
}
