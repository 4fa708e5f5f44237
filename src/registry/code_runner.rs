//! The code runner: an MCP server that the operator configured. It enforces the limits; this program does not
//! include a runner.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    ids::{ToolId, WorkspaceId},
    mcp::{AcceptedFunction, CallOutput, Effect, Endpoint, HttpAuth, Risk, ServerConfig, Servers},
    outbound::{Exemption, OwnServer, Url},
    tool_fault::ToolFault,
};

/// Name of the function that a code runner must have.
const FUNCTION: &str = "run_code";

pub struct CodeRunner {
    servers: Arc<Servers>,
    server: ServerConfig,
    function: AcceptedFunction,
}

impl CodeRunner {
    /// Creates a code runner. The operator configured its address, so the address can be local and use `http`.
    pub fn new(
        url: Url,
        own: OwnServer,
        tracker: TaskTracker,
        shutdown: CancellationToken,
    ) -> Self {
        let exempt = Exemption::of(&url).into_iter().collect();
        Self {
            servers: Servers::new(exempt, own, tracker, shutdown),
            server: ServerConfig {
                id: ToolId::new(),
                workspace: WorkspaceId(uuid::Uuid::nil()),
                version: 1,
                title: "The code runner".to_owned(),
                endpoint: Endpoint::Http {
                    url,
                    auth: HttpAuth::None,
                },
            },
            function: AcceptedFunction {
                name: FUNCTION.to_owned(),
                title: "Run code".to_owned(),
                effect: Effect::Write,
                risk: Risk::Approve,
                definition: Value::Null,
                definition_hash: String::new(),
            },
        }
    }

    /// Runs code once. `limits` is the resolved sandbox policy.
    ///
    /// # Errors
    /// Same as `Client::call`.
    pub async fn run(
        &self,
        language: &str,
        code: &str,
        limits: &Value,
        deadline: Instant,
    ) -> Result<CallOutput, ToolFault> {
        let arguments = json!({"language": language, "code": code, "limits": limits});
        let client = self.servers.client();
        client
            .call(&self.server, &self.function, &arguments, deadline)
            .await
    }
}
