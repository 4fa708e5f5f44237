//! Functions of registered servers, as admins accepted them.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use serde_json::Value;

use crate::{
    agents::profiles::{
        Tool, ToolKind,
        tools::{McpTool, RequireApproval},
    },
    db::{Db, DbError},
    ids::ToolId,
    mcp::{AcceptedFunction, Client, Effect, Risk, offered_names},
    model::FunctionTool,
    registry::{self, FunctionRef, OfferedServer, Registry},
    tasks::actions::{ActionSource, TaintKind},
    tool_fault::{ToolErrorCode, ToolFault},
    tools::{
        function::{Reach, ServerFunction, ToolFunction},
        output::ToolOutput,
        runner::{Call, CallError, ToolRunner, ToolTask},
    },
};

/// Calls functions of registered servers over the connections of one run.
pub struct ServerTools {
    db: Db,
    registry: Arc<Registry>,
    client: Client,
}

/// A function in the form that models receive. `name` is its name for models.
fn function(
    server: &OfferedServer,
    accepted: &AcceptedFunction,
    name: String,
    require_approval: Option<RequireApproval>,
) -> ToolFunction {
    let definition = &accepted.definition;
    let description = definition["description"].as_str().map(str::to_owned);
    let least = match require_approval {
        Some(RequireApproval::Always) => Risk::Approve,
        Some(RequireApproval::Never) | None => Risk::Autonomous,
    };
    ToolFunction {
        action: format!("mcp:{}.{}", server.name, accepted.name),
        title: accepted.title.clone(),
        kind: Some(ToolKind::Mcp),
        server_function: Some(ServerFunction {
            tool: server.id,
            name: accepted.name.clone(),
        }),
        effect: accepted.effect,
        reach: Reach::Outward,
        risk: accepted.risk.max(least),
        trusts_reads: server.trusted_reads,
        is_grantable: accepted.effect != Effect::Destructive,
        source: server.title.clone(),
        definition_hash: accepted.definition_hash.clone(),
        definition: FunctionTool {
            name,
            description,
            parameters: definition.get("inputSchema").cloned(),
            strict: None,
        },
    }
}

/// Functions of a server that an agent may call.
fn functions_of(server: &OfferedServer, tool: &McpTool) -> Vec<ToolFunction> {
    // Names are assigned to all accepted functions, so that they do not depend on the agent.
    let accepted = server.functions.iter();
    let names = offered_names(&server.name, accepted.clone().map(|of| of.name.as_str()));
    let allowed = tool.allowed_tools.as_ref();
    accepted
        .zip(names)
        .filter(|(of, _)| allowed.is_none_or(|allowed| allowed.contains(&of.name)))
        .map(|(of, name)| function(server, of, name, tool.require_approval))
        .collect()
}

impl ServerTools {
    pub fn new(db: Db, registry: Arc<Registry>) -> Self {
        let client = registry.client();
        Self {
            db,
            registry,
            client,
        }
    }

    async fn list(&self, task: &ToolTask, tools: &[Tool]) -> Result<Vec<ToolFunction>, DbError> {
        let named: Vec<(ToolId, &McpTool)> = tools
            .iter()
            .filter_map(|tool| match tool {
                Tool::Mcp(tool) => {
                    let id = tool.registry_id.as_deref()?.parse::<ToolId>().ok()?;
                    Some((id, tool))
                }
                _ => None,
            })
            .collect();
        if named.is_empty() {
            return Ok(Vec::new());
        }
        let mut c = self.db.read().await?;
        let servers = registry::list_offered(&mut c, task.workspace, task.channel).await?;
        let mut functions = Vec::new();
        for (id, tool) in named {
            if let Some(server) = servers.iter().find(|server| server.id == id) {
                functions.extend(functions_of(server, tool));
            }
        }
        Ok(functions)
    }

    async fn call(&self, call: Call<'_>) -> Result<ToolOutput, CallError> {
        let Some(function) = &call.function.server_function else {
            return Err(ToolFault::of(ToolErrorCode::NoSuchFunction).into());
        };
        let named = FunctionRef {
            workspace: call.task.workspace,
            channel: call.task.channel,
            tool: function.tool,
            function: &function.name,
            definition_hash: &call.function.definition_hash,
            effect: call.function.effect,
            risk: call.function.risk,
            trusts_reads: call.function.trusts_reads,
        };
        let source = call.function.source.clone();
        let taint = ActionSource::new(TaintKind::Mcp, function.tool.0, source);
        let arguments = Value::Object(call.arguments);
        let ended = self
            .registry
            .call(&self.client, &named, &arguments, call.deadline)
            .await;
        match ended {
            Ok(returned) => {
                let mut output = ToolOutput {
                    taints: vec![taint],
                    ..ToolOutput::default()
                };
                output.data(returned.text);
                output.pictures = returned.pictures;
                Ok(output)
            }
            Err(fault) => Err(CallError::Fault {
                fault,
                taints: vec![taint],
            }),
        }
    }
}

impl ToolRunner for ServerTools {
    fn functions<'a>(
        &'a self,
        task: &'a ToolTask,
        tools: &'a [Tool],
    ) -> BoxFuture<'a, Result<Vec<ToolFunction>, DbError>> {
        self.list(task, tools).boxed()
    }

    fn run<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<ToolOutput, CallError>> {
        self.call(call).boxed()
    }

    fn for_run(&self) -> Option<Arc<dyn ToolRunner>> {
        let own = Self::new(self.db.clone(), Arc::clone(&self.registry));
        Some(Arc::new(own))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn accepted(name: &str, risk: Risk) -> AcceptedFunction {
        AcceptedFunction {
            name: name.to_owned(),
            title: "Create an issue".to_owned(),
            effect: Effect::Write,
            risk,
            definition: json!({"name": name, "description": "Creates", "inputSchema": {"type": "object"}}),
            definition_hash: "a".to_owned(),
        }
    }

    fn offered(tool: &Value) -> Vec<ToolFunction> {
        let server = OfferedServer {
            id: ToolId::new(),
            name: "jira".to_owned(),
            title: "Jira".to_owned(),
            trusted_reads: false,
            functions: vec![
                accepted("a.b", Risk::Autonomous),
                accepted("a_b", Risk::Escalate),
            ],
        };
        let Ok(Tool::Mcp(tool)) = serde_json::from_value(tool.clone()) else {
            panic!("{tool}");
        };
        functions_of(&server, &tool)
    }

    #[test]
    fn a_function_is_offered_as_it_was_accepted() {
        let functions = offered(&json!({"type": "mcp", "registry_id": ToolId::new()}));
        assert_eq!(functions.len(), 2);
        assert_eq!(functions[0].action, "mcp:jira.a.b");
        assert_eq!(functions[0].name(), "jira__a_b");
        assert_ne!(functions[1].name(), "jira__a_b");
        assert_eq!(
            functions[0].definition.description.as_deref(),
            Some("Creates")
        );
        assert_eq!(
            functions[0].definition.parameters,
            Some(json!({"type": "object"}))
        );
        assert_eq!(
            (functions[0].risk, functions[1].risk),
            (Risk::Autonomous, Risk::Escalate)
        );
    }

    #[test]
    fn an_agent_narrows_functions_and_raises_their_risk() {
        let id = ToolId::new();
        let only = json!({"type": "mcp", "registry_id": id, "allowed_tools": ["a_b"]});
        let functions = offered(&only);
        assert_eq!(functions.len(), 1);
        // The name is the same as for agents that can call all accepted functions.
        assert_ne!(functions[0].name(), "jira__a_b");
        for (require_approval, risks) in [
            ("always", [Risk::Approve, Risk::Escalate]),
            ("never", [Risk::Autonomous, Risk::Escalate]),
        ] {
            let tool =
                json!({"type": "mcp", "registry_id": id, "require_approval": require_approval});
            let found: Vec<Risk> = offered(&tool).iter().map(|of| of.risk).collect();
            assert_eq!(found, risks, "{require_approval}");
        }
    }
}
