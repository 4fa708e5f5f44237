//! Tools, tested without the API: generated approvals, injections, and permissions. Each case runs in a transaction that is rolled
//! back.

mod decisions;
mod injections;
mod reach;

use std::sync::{Arc, Mutex};

use openvibe::{
    agents::{policy::Policy, profiles::Profile},
    auth::{Caller, Token, find_caller},
    db::{Conn, Db, DbError},
    ids::{AgentId, ChannelId, MessageId, TaskId, ThreadId, UserId, WorkspaceId},
    model::ToolCall,
    realtime::Audience,
    registry::{Registry, RunnerPrograms},
    tasks::actions::{self, Action},
    tools::{
        outward::{CodeTool, PageTool, ServerTools},
        requests::Requests,
        runner::{ToolRunner, ToolTask, Toolbox},
    },
};
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use crate::{
    support::{McpServer, Person, Team, function, id, list, team_with, text},
    tools_calls::{KEY, registry_near},
    tools_loop::reader,
};

/// Label, function, and risk of each registered server. Cases start calls of these functions, but never send one.
const FUNCTIONS: [(&str, &str, &str); 2] =
    [("mail", "send", "approve"), ("notes", "add", "autonomous")];

/// A team, and an ended task of Bo to which cases add rounds.
pub struct Bench {
    pub t: Team,
    pub thread: String,
    pub task: ToolTask,
    pub audience: Audience,
    /// A tool server with the functions of all registered servers.
    server: McpServer,
    registry: Arc<Registry>,
    /// IDs of the registered servers, in the order of `FUNCTIONS`.
    tools: Vec<String>,
}

pub async fn bench() -> Bench {
    let t = team_with(&[("MCP_ALLOW", "127.0.0.1"), ("SECRET_KEY", KEY)]).await;
    let server = McpServer::start().await;
    let mut tools = Vec::new();
    for (label, ..) in FUNCTIONS {
        let form = json!({"kind": "mcp", "name": label, "config": {"url": server.url}});
        tools.push(id(&t.ada.post("/v1/tools", form).await.is(201)));
    }
    let registry = registry_near(t.app.db().clone(), Some(&server.url));
    let agent = reader(&t.ada, "sage", json!({})).await;
    let thread = t.bo.thread(&t.general, "Root").await;
    let task = t.bo.ask(&thread, "@sage hello").await;
    let task = t.bo.completed(&task).await;
    let channel: ChannelId = t.general.parse().unwrap();
    let task = ToolTask {
        workspace: t.ada.workspace.parse::<WorkspaceId>().unwrap(),
        task: id(&task).parse::<TaskId>().unwrap(),
        agent: id(&agent).parse::<AgentId>().unwrap(),
        agent_version: 1,
        requester: t.bo.id.parse::<UserId>().unwrap(),
        api_key: None,
        channel,
        thread: thread.parse::<ThreadId>().unwrap(),
        fork: None,
        trigger: text(&task, "/trigger_message_id")
            .parse::<MessageId>()
            .unwrap(),
        typed: "@sage hello".to_owned(),
        is_turn: false,
        skills: None,
    };
    Bench {
        t,
        thread,
        task,
        audience: Audience::Public(channel),
        server,
        registry: Arc::new(registry),
        tools,
    }
}

impl Bench {
    pub fn db(&self) -> &Db {
        self.t.app.db()
    }

    /// Makes the servers list this version of their functions, and accepts it.
    async fn define(&self, version: u32) {
        let description = format!("Version {version}.");
        let listed = FUNCTIONS.map(|(_, name, _)| function(name, &description));
        self.server.list(listed);
        let ada = &self.t.ada;
        for (tool, (_, name, risk)) in self.tools.iter().zip(FUNCTIONS) {
            let path = format!("/v1/tools/{tool}");
            let read = ada.act(&format!("{path}/refresh")).await.is(200);
            let functions = list(&read, "/functions");
            let found = functions.iter().find(|of| of["name"] == name).unwrap();
            let form = json!({"definition_hash": found["definition_hash"], "effect": "write", "risk": risk});
            let path = format!("{path}/functions/{name}");
            ada.put(&path, form).await.is(200);
        }
    }

    /// Settings for decisions; each version has different definitions.
    pub async fn requests(&self, policy: &Policy, version: u32) -> Requests {
        self.define(version).await;
        let (db, registry) = (self.db().clone(), Arc::clone(&self.registry));
        let runners: [Arc<dyn ToolRunner>; 3] = [
            Arc::new(PageTool {
                db: db.clone(),
                registry: Arc::clone(&registry),
            }),
            Arc::new(CodeTool {
                db: db.clone(),
                registry: Arc::clone(&registry),
                programs: RunnerPrograms {
                    db: db.clone(),
                    queue: Arc::default(),
                    tracker: TaskTracker::new(),
                },
            }),
            Arc::new(ServerTools::new(db, registry)),
        ];
        let toolbox = Toolbox {
            runners: Arc::from(runners),
        };
        let servers = self.tools.iter().zip(FUNCTIONS).map(|(tool, (_, name, _))| {
            json!({"type": "mcp", "registry_id": tool, "allowed_tools": [name]})
        });
        let others = ["web_fetch", "code_interpreter"].map(|kind| json!({"type": kind}));
        let tools = servers.chain(others);
        let profile = Profile {
            tools: tools
                .map(|tool| serde_json::from_value(tool).unwrap())
                .collect(),
            ..Profile::default()
        };
        let offer = toolbox.offer(&self.task, &profile, policy).await.unwrap();
        assert_eq!(offer.functions().count(), 4);
        Requests {
            toolbox,
            task: self.task.clone(),
            offer,
            trust: None,
            audience: self.audience,
        }
    }

    /// Looks up the person as a caller, by browser session or API key.
    pub async fn caller(&self, person: &Person) -> Caller {
        let cookie = person.cookie.as_deref();
        let session = cookie.and_then(|cookie| cookie.split_once('='));
        let token = session.map_or_else(
            || Token::Key(person.key.clone().unwrap()),
            |(_, token)| Token::Session(token.to_owned()),
        );
        let mut c = self.db().read().await.unwrap();
        find_caller(&mut c, &token).await.unwrap().caller
    }
}

/// Error that ends a case, so that its transaction is rolled back.
enum Over {
    Case,
    Db(DbError),
}

impl From<DbError> for Over {
    fn from(e: DbError) -> Self {
        Self::Db(e)
    }
}

/// Runs a case in a transaction and rolls it back. Returns the case's result.
pub async fn rolled_back<T, F>(db: &Db, workspace: WorkspaceId, case: F) -> T
where
    T: Send + 'static,
    F: AsyncFn(&mut Conn) -> Result<T, DbError> + Send + 'static,
{
    let reported: Arc<Mutex<Option<T>>> = Arc::default();
    let report = Arc::clone(&reported);
    let ended = db
        .write(workspace.0, async move |c: &mut Conn| {
            let found = case(c).await?;
            *report.lock().unwrap() = Some(found);
            Err::<(), Over>(Over::Case)
        })
        .await;
    if let Err(Over::Db(e)) = ended {
        panic!("{e}");
    }
    let found = reported.lock().unwrap().take();
    found.expect("a case reports something")
}

pub fn call(name: &str, arguments: &Value) -> ToolCall {
    ToolCall {
        id: "call_1".to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_string(),
    }
}

/// Stores a round with these calls. Returns their actions.
pub async fn round(
    c: &mut Conn,
    requests: &Requests,
    number: i64,
    calls: &[ToolCall],
) -> Result<Vec<Action>, DbError> {
    requests.store(c, number, calls).await?;
    actions::of_round(c, requests.task.task, number).await
}
