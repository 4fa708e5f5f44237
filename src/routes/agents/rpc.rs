//! `POST /v1/rpc/{method}`: agent management under the method names that clients of personal agent software use.
//!
//! `agent_id` is the ID or name of an agent, or `main`. Methods of `agent.identity` apply to the agent of the given thread, or to the
//! workspace's default agent if no thread is given.

use axum::{Extension, Json};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use utoipa_axum::router::OpenApiRouter;

use super::St;
use crate::{
    agents::{
        AgentError,
        files::{self, FilePath},
        profiles::{self, Agent, AgentPatch, AgentStatus, AgentSummary, NewAgent},
    },
    auth::{Actor, Scope, WorkspaceCaller},
    chat::{access, bindings},
    cursor::PageRange,
    db::Conn,
    http::{
        ApiError, ErrorCode,
        error::field_of,
        extract::{Body, Path},
        routing::routes,
        unsent::ReadOnly,
    },
    ids::{AgentId, ThreadId},
    memory::files::{self as memory_files, Paragraphs},
    realtime::hub::Conversation,
    server::State,
};

/// Methods that do not change anything.
const READ_METHODS: [&str; 5] = [
    "agents.list",
    "agents.get",
    "agents.files.list",
    "agents.files.get",
    "agent.identity.get",
];
/// Maximum number of agents returned by `agents.list`.
const AGENTS_MAX: i64 = 1000;

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(call))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentsAfter {
    /// `after` value from the previous page.
    after: Option<AgentId>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfAgent {
    agent_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    /// Name of the new agent, not its ID.
    id: String,
    label: Option<String>,
    emoji: Option<String>,
    soul: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Update {
    agent_id: String,
    label: Option<String>,
    identity: Option<String>,
    soul: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfFile {
    agent_id: String,
    path: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SetFile {
    agent_id: String,
    path: String,
    content: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfThread {
    thread_id: Option<ThreadId>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Identity {
    thread_id: Option<ThreadId>,
    identity: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Soul {
    thread_id: Option<ThreadId>,
    soul: String,
}

/// # Errors
/// 400 for a missing or invalid parameter; the error names it.
fn take<T: DeserializeOwned>(params: Map<String, Value>) -> Result<T, ApiError> {
    serde_path_to_error::deserialize(Value::Object(params)).map_err(|e| {
        let path = e.path().to_string();
        let text = e.into_inner().to_string();
        let param = field_of(&text, &path);
        ApiError::invalid(ErrorCode::InvalidParams, text, param)
    })
}

/// Returns the parameter that contains a field of a profile.
fn param_of(field: &str) -> String {
    let param = match field {
        "name" => "id",
        "display_name" => "label",
        "instructions" => "soul",
        field if field.starts_with("avatar") => "emoji",
        field => field,
    };
    param.to_owned()
}

/// Call a method by its name
///
/// `agents.list {after?}`, `agents.get {agent_id}`, `agents.create {id,label?,emoji?,soul?}`, `agents.update {agent_id,label?,identity?,soul?}`,
/// `agents.delete {agent_id}`, `agents.set_default {agent_id}`, `agents.files.list {agent_id}`, `agents.files.get {agent_id,path}`,
/// `agents.files.set {agent_id,path,content}`, `agent.identity.get {thread_id?}`, `agent.identity.update {thread_id?,identity}`,
/// `agent.identity.update_soul {thread_id?,soul}`, `agent.toggleActive {agent_id}`.
///
/// The required scope depends on the method, as for the corresponding route: `agents:read`, `agents:write`, `agents:delete`, or
/// `agents:admin`.
#[utoipa::path(post, path = "/v1/rpc/{method}", tag = "agents",
    security(("session" = ["viewer"]), ("key" = ["agents:read"])),
    params(("method" = String, Path, description = "One of the methods listed above.", example = "agents.get")),
    request_body(content = Object,
        example = json!({"agent_id": "main"})),
    responses((status = 200, body = Object)))]
async fn call(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path(method): Path<String>,
    Body(params): Body<Map<String, Value>>,
) -> Result<(Option<Extension<ReadOnly>>, Json<Value>), ApiError> {
    let read_only = READ_METHODS
        .contains(&method.as_str())
        .then_some(Extension(ReadOnly));
    let rpc = Rpc { state, member };
    let answer = match method.as_str() {
        "agents.list" => rpc.list(take::<AgentsAfter>(params)?.after).await,
        "agents.get" => rpc.get(&take::<OfAgent>(params)?.agent_id).await,
        "agents.create" => rpc.create(take(params)?).await,
        "agents.update" => {
            let Update {
                agent_id,
                label,
                identity,
                soul,
            } = take(params)?;
            let mut patch = AgentPatch::default();
            for (field, value) in [
                ("display_name", label),
                ("identity", identity),
                ("instructions", soul),
            ] {
                if let Some(value) = value {
                    patch = patch.and(field, value);
                }
            }
            rpc.patch(rpc.reference(&agent_id).await?, patch).await
        }
        "agents.delete" => rpc.delete(&take::<OfAgent>(params)?.agent_id).await,
        "agents.set_default" => rpc.set_default(&take::<OfAgent>(params)?.agent_id).await,
        "agents.files.list" => rpc.list_files(&take::<OfAgent>(params)?.agent_id).await,
        "agents.files.get" => rpc.get_file(&take(params)?).await,
        "agents.files.set" => rpc.set_file(take(params)?).await,
        "agent.identity.get" => {
            let reference = rpc.of_thread(take::<OfThread>(params)?.thread_id).await?;
            rpc.get(&reference).await
        }
        "agent.identity.update" => {
            let Identity {
                thread_id,
                identity,
            } = take(params)?;
            let reference = rpc.of_thread(thread_id).await?;
            rpc.patch(reference, AgentPatch::of("identity", identity))
                .await
        }
        "agent.identity.update_soul" => {
            let Soul { thread_id, soul } = take(params)?;
            let reference = rpc.of_thread(thread_id).await?;
            rpc.patch(reference, AgentPatch::of("instructions", soul))
                .await
        }
        "agent.toggleActive" => rpc.toggle(&take::<OfAgent>(params)?.agent_id).await,
        _ => {
            let text = "unknown method: see /docs for the list of methods";
            Err(ApiError::not_found(ErrorCode::MethodNotFound, text))
        }
    };
    match answer {
        Ok(answer) => Ok((read_only, Json(answer))),
        Err(e) => Err(e.rename_param(param_of)),
    }
}

struct Rpc {
    state: State,
    member: WorkspaceCaller,
}

fn brief(agent: &AgentSummary) -> Value {
    json!({
        "id": agent.id,
        "name": agent.name,
        "label": agent.display_name.as_ref().unwrap_or(&agent.name),
        "is_default": agent.is_default,
        "status": agent.status,
        "version": agent.version,
    })
}

impl Rpc {
    async fn write<T, F>(&self, command: F) -> Result<T, AgentError>
    where
        T: Send + 'static,
        F: AsyncFn(&mut Conn, &Actor<'_>) -> Result<T, AgentError> + Send + 'static,
    {
        self.member.clone().write(&self.state.db, command).await
    }

    /// Resolves an ID, a name, or `main` to an ID or `main`.
    async fn reference(&self, text: &str) -> Result<String, ApiError> {
        if text == "main" {
            return Ok(text.to_owned());
        }
        let mut c = self.state.db.read().await?;
        let actor = self.member.enter(&mut c).await?;
        if text.parse::<crate::ids::AgentId>().is_ok() {
            super::check_visible(&mut c, &actor, text).await?;
            return Ok(text.to_owned());
        }
        let found = profiles::find_by_name(&mut c, &actor, text).await?;
        Ok(found.ok_or(AgentError::NotFound)?.to_string())
    }

    /// Returns the agent bound to a thread, or the default agent if there is no thread or no binding.
    async fn of_thread(&self, thread: Option<ThreadId>) -> Result<String, ApiError> {
        let Some(thread) = thread else {
            return Ok("main".to_owned());
        };
        let mut c = self.state.db.read().await?;
        let found = access::thread(&mut c, &self.member.caller, thread).await?;
        if found.channel_access.actor.workspace != self.member.workspace {
            return Err(crate::chat::ChatError::ThreadNotFound.into());
        }
        let bound = bindings::find_binding(&mut c, Conversation::Thread(thread)).await?;
        Ok(bound.map_or_else(|| "main".to_owned(), |bound| bound.agent.to_string()))
    }

    async fn list(&self, after: Option<AgentId>) -> Result<Value, ApiError> {
        let mut c = self.state.db.scan(self.member.share()).await?;
        let actor = self.member.enter(&mut c).await?;
        actor.require(Scope::AgentsRead)?;
        let all = profiles::list_agents(
            &mut c,
            &actor,
            &profiles::Filter::default(),
            PageRange {
                after,
                before: None,
            },
            AGENTS_MAX + 1,
        )
        .await?;
        let limit = usize::try_from(AGENTS_MAX).unwrap_or(usize::MAX);
        let has_more = all.len() > limit;
        let all = &all[..all.len().min(limit)];
        let kept: Vec<&AgentSummary> = all
            .iter()
            .filter(|a| a.status != AgentStatus::Archived)
            .collect();
        Ok(json!({
            "default_id": kept.iter().find(|a| a.is_default).map(|a| a.id),
            "agents": kept.into_iter().map(brief).collect::<Vec<_>>(),
            "has_more": has_more,
            "after": all.last().filter(|_| has_more).map(|a| a.id),
        }))
    }

    fn whole(agent: &Agent) -> Value {
        let mut value = brief(&agent.summary);
        value["identity"] = agent.identity_text().into();
        value["soul"] = agent.instructions.clone().into();
        value
    }

    async fn get(&self, reference: &str) -> Result<Value, ApiError> {
        let reference = self.reference(reference).await?;
        let mut c = self.state.db.read().await?;
        let actor = self.member.enter(&mut c).await?;
        actor.require(Scope::AgentsRead)?;
        let agent = profiles::get_by_reference(&mut c, &actor, &reference).await?;
        Ok(Self::whole(&agent))
    }

    async fn create(&self, form: Create) -> Result<Value, ApiError> {
        let label = form.label.clone().unwrap_or_else(|| form.id.clone());
        let soul = form
            .soul
            .unwrap_or_else(|| format!("You are {label}, a colleague in this team's chat."));
        let new = NewAgent {
            name: form.id,
            display_name: form.label,
            avatar: form.emoji.map(|emoji| profiles::Avatar {
                emoji: Some(emoji),
                color: None,
                file_id: None,
            }),
            instructions: soul,
            ..NewAgent::default()
        };
        self.state.disk.check().await?;
        let parts = new.into_parts()?;
        let agent = self
            .write(async move |c, actor| {
                profiles::create_agent(c, actor, parts.clone(), "created").await
            })
            .await?;
        Ok(Self::whole(&agent))
    }

    async fn patch(&self, reference: String, patch: AgentPatch) -> Result<Value, ApiError> {
        self.state.disk.check().await?;
        let agent = self
            .write(async move |c, actor| {
                profiles::patch_agent(c, actor, &reference, &patch, None).await
            })
            .await?;
        Ok(Self::whole(&agent))
    }

    async fn delete(&self, reference: &str) -> Result<Value, ApiError> {
        let reference = self.reference(reference).await?;
        let archived = self
            .write(async move |c, actor| profiles::archive_agent(c, actor, &reference, None).await)
            .await?;
        Ok(json!(archived))
    }

    async fn set_default(&self, reference: &str) -> Result<Value, ApiError> {
        let reference = self.reference(reference).await?;
        let agent = self
            .write(async move |c, actor| profiles::make_default(c, actor, &reference).await)
            .await?;
        Ok(brief(&agent.summary))
    }

    async fn toggle(&self, reference: &str) -> Result<Value, ApiError> {
        let reference = self.reference(reference).await?;
        let mut c = self.state.db.read().await?;
        let actor = self.member.enter(&mut c).await?;
        let agent = profiles::get_by_reference(&mut c, &actor, &reference).await?;
        drop(c);
        let status = if agent.summary.status == AgentStatus::Active {
            AgentStatus::Inactive
        } else {
            AgentStatus::Active
        };
        self.patch(reference, AgentPatch::of("status", status.as_str()))
            .await
    }

    async fn list_files(&self, reference: &str) -> Result<Value, ApiError> {
        let reference = self.reference(reference).await?;
        let mut c = self.state.db.scan(self.member.share()).await?;
        let actor = self.member.enter(&mut c).await?;
        let files = files::list(&mut c, &actor, &reference).await?;
        Ok(json!({"files": files}))
    }

    async fn get_file(&self, of: &OfFile) -> Result<Value, ApiError> {
        let reference = self.reference(&of.agent_id).await?;
        let path = FilePath::parse(&of.path)?;
        let mut c = self.state.db.read().await?;
        let actor = self.member.enter(&mut c).await?;
        Ok(json!(files::read(&mut c, &actor, &reference, &path).await?))
    }

    async fn set_file(&self, set: SetFile) -> Result<Value, ApiError> {
        let reference = self.reference(&set.agent_id).await?;
        let path = FilePath::parse(&set.path)?;
        self.state.disk.check().await?;
        let (workspace, keyring) = (self.member.workspace, &self.state.keyring);
        let paragraphs = Paragraphs::of(path.as_str(), &set.content, workspace, keyring);
        let file = self
            .write(async move |c, actor| {
                let (content, paragraphs) = (&set.content, paragraphs.as_ref());
                memory_files::write(c, actor, &reference, &path, content, paragraphs, None).await
            })
            .await?;
        Ok(json!(file.summary))
    }
}
