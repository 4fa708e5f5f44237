//! Runs functions. Built-in functions, registered servers, web pages, and code are each a `ToolRunner`.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::{decide::is_offered, function::ToolFunction, output::ToolOutput};
use crate::{
    agents::{
        policy::Policy,
        profiles::{Profile, SkillList, Tool, ToolKind},
    },
    db::DbError,
    ids::{
        ActionId, AgentId, ApiKeyId, ChannelId, ForkId, MessageId, TaskId, ThreadId, UserId,
        WorkspaceId,
    },
    model::RefusedFunction,
    tasks::actions::ActionSource,
    tool_fault::{ToolErrorCode, ToolFault},
};

/// The task that calls functions, with its conversation and requester.
#[derive(Debug, Clone)]
pub struct ToolTask {
    pub workspace: WorkspaceId,
    pub task: TaskId,
    pub agent: AgentId,
    pub agent_version: i64,
    pub requester: UserId,
    /// API key that posted the trigger message.
    pub api_key: Option<ApiKeyId>,
    pub channel: ChannelId,
    pub thread: ThreadId,
    pub fork: Option<ForkId>,
    pub trigger: MessageId,
    /// Text that the requester wrote in a browser and that started the task: the trigger message, or the prompt of a schedule. Empty
    /// if the task was started by another person's text, or with an API key.
    pub typed: String,
    /// True if the task is a turn of a collaboration.
    pub is_turn: bool,
    /// Skills in the agent's profile.
    pub skills: Option<SkillList>,
}

/// A call that was allowed to start.
#[derive(Debug)]
pub struct Call<'a> {
    /// ID of the action. It stays the same if the call runs again after a crash.
    pub action: ActionId,
    pub task: &'a ToolTask,
    pub function: &'a ToolFunction,
    /// Tools of the agent's profile.
    pub tools: &'a [Tool],
    pub arguments: Map<String, Value>,
    /// Domains to which redirects may lead, in addition to the host that is called; `None` if redirects may
    /// lead anywhere.
    pub redirects: Option<&'a [String]>,
    /// Time by which the call must end.
    pub deadline: Instant,
}

/// A call of a function by its name, for `Toolbox::run`.
#[derive(Debug)]
pub struct ToolRun<'a> {
    pub action: ActionId,
    pub name: &'a str,
    pub arguments: Map<String, Value>,
    /// Same as in `Call`.
    pub redirects: Option<&'a [String]>,
    pub deadline: Instant,
}

/// Destination of an outward call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub url: String,
    /// Host in lowercase.
    pub host: String,
}

/// Reason why a call has no output.
#[derive(Debug)]
pub enum CallError {
    /// The call failed, and the model receives the reason as the result.
    Fault {
        fault: ToolFault,
        /// Origins of an error message that is not from this server; they taint the task.
        taints: Vec<ActionSource>,
    },
    /// The database failed. For a read, the call has failed; for a write, the result is unknown.
    Db(DbError),
}

impl From<ToolFault> for CallError {
    fn from(fault: ToolFault) -> Self {
        Self::Fault {
            fault,
            taints: Vec::new(),
        }
    }
}

impl From<DbError> for CallError {
    fn from(e: DbError) -> Self {
        Self::Db(e)
    }
}

/// A source of functions.
pub trait ToolRunner: Send + Sync {
    /// Functions that these tools provide, regardless of the policy.
    fn functions<'a>(
        &'a self,
        task: &'a ToolTask,
        tools: &'a [Tool],
    ) -> BoxFuture<'a, Result<Vec<ToolFunction>, DbError>>;

    /// Destination of a call, if it depends on the arguments.
    fn target(&self, _function: &ToolFunction, _arguments: &Map<String, Value>) -> Option<Target> {
        None
    }

    /// Runs a call once. Dropping the future of a read aborts the read.
    fn run<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<ToolOutput, CallError>>;

    /// A runner for one run of a task, with its own connections; `None` if all runs share this runner.
    fn for_run(&self) -> Option<Arc<dyn ToolRunner>> {
        None
    }
}

/// Functions that are offered to a model, with the runner of each.
#[derive(Clone, Default)]
pub struct Offer {
    functions: Vec<(usize, ToolFunction)>,
    /// Tools of the agent's profile.
    tools: Vec<Tool>,
    not_offered: Option<NotOffered>,
    /// Functions that are not offered, because the model's server has rejected them.
    left_out: Vec<RefusedFunction>,
}

/// Reason why functions of an agent's tools are not offered to its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotOffered {
    /// The model does not take functions.
    ByModel,
    /// No runner for code is configured or connected.
    ByServer,
    /// The workspace's policy allows none of them.
    ByPolicy,
    /// No admin has accepted a function of the agent's servers.
    NotAccepted,
    /// The definitions exceed their share of the window.
    NoRoom,
}

impl Offer {
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    pub fn functions(&self) -> impl Iterator<Item = &ToolFunction> + '_ {
        self.functions.iter().map(|(_, function)| function)
    }

    /// An offer without functions.
    pub fn without(reason: NotOffered) -> Self {
        Self {
            not_offered: Some(reason),
            ..Self::default()
        }
    }

    /// Reason why functions are missing; `None` if all are offered, or if the agent has no tools.
    pub fn not_offered(&self) -> Option<NotOffered> {
        self.not_offered
    }

    /// Tools of the agent's profile that the workspace allows.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    pub fn find(&self, name: &str) -> Option<&ToolFunction> {
        self.functions().find(|function| function.name() == name)
    }

    /// Finds the function that a model has called. Some models put `functions.` before its name.
    pub fn find_called(&self, name: &str) -> Option<&ToolFunction> {
        let bare = name.strip_prefix("functions.").unwrap_or(name);
        self.find(name).or_else(|| self.find(bare))
    }

    /// Keeps the functions for which `is_kept` returns true.
    pub fn keep(&mut self, is_kept: impl Fn(&ToolFunction) -> bool) {
        self.functions.retain(|(_, function)| is_kept(function));
    }

    pub fn left_out(&self) -> &[RefusedFunction] {
        &self.left_out
    }

    /// Leaves out functions that the model's server has rejected.
    pub fn leave_out(&mut self, refused: impl IntoIterator<Item = RefusedFunction>) {
        for refused in refused {
            if self.find(&refused.name).is_some() {
                self.keep(|function| function.name() != refused.name);
                self.left_out.push(refused);
                if self.is_empty() {
                    self.withhold(NotOffered::ByModel);
                }
            }
        }
    }

    /// Removes all functions for a reason.
    pub fn withhold(&mut self, reason: NotOffered) {
        self.functions.clear();
        self.not_offered = Some(reason);
    }

    /// Keeps the first functions whose definitions together have at most `tokens_max` tokens.
    pub fn limit(&mut self, tokens_max: u64, size: impl Fn(&ToolFunction) -> u64) {
        let (mut tokens, count) = (0, self.functions.len());
        self.functions.retain(|(_, function)| {
            tokens += size(function);
            tokens <= tokens_max
        });
        if self.functions.len() < count {
            self.not_offered = Some(NotOffered::NoRoom);
        }
    }
}

/// All runners of the server.
#[derive(Clone)]
pub struct Toolbox {
    pub runners: Arc<[Arc<dyn ToolRunner>]>,
}

impl Toolbox {
    /// Runners for one run of a task.
    #[must_use]
    pub fn for_run(&self) -> Self {
        let own =
            |runner: &Arc<dyn ToolRunner>| runner.for_run().unwrap_or_else(|| Arc::clone(runner));
        Self {
            runners: self.runners.iter().map(own).collect(),
        }
    }

    /// Functions that an agent can call in a task. If several functions have the same name, the first one is used.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn offer(
        &self,
        task: &ToolTask,
        profile: &Profile,
        policy: &Policy,
    ) -> Result<Offer, DbError> {
        let mut tools = profile.reply_tools();
        let has_tools = !tools.is_empty();
        tools.retain(|tool| policy.allows(tool.kind()));
        let (mut offer, mut is_withheld) = (Offer::default(), has_tools && tools.is_empty());
        for (at, runner) in self.runners.iter().enumerate() {
            for function in runner.functions(task, &tools).await? {
                let is_allowed = is_offered(&function, policy.trust_level);
                is_withheld |= !is_allowed;
                if is_allowed && offer.find(function.name()).is_none() {
                    offer.functions.push((at, function));
                }
            }
        }
        if offer.functions.is_empty() {
            let has = |kind| tools.iter().any(|tool| tool.kind() == kind);
            offer.not_offered = match () {
                () if is_withheld => Some(NotOffered::ByPolicy),
                () if has(ToolKind::Mcp) => Some(NotOffered::NotAccepted),
                () if has(ToolKind::CodeInterpreter) => Some(NotOffered::ByServer),
                () => None,
            };
        }
        offer.tools = tools;
        Ok(offer)
    }

    /// Destination of a call.
    pub fn target(
        &self,
        offer: &Offer,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Option<Target> {
        let (runner, function) = self.runner(offer, name)?;
        runner.target(function, arguments)
    }

    /// Runs a call of an offered function once.
    ///
    /// # Errors
    /// Same as `ToolRunner::run`.
    pub async fn run(
        &self,
        task: &ToolTask,
        offer: &Offer,
        run: ToolRun<'_>,
    ) -> Result<ToolOutput, CallError> {
        let Some((runner, function)) = self.runner(offer, run.name) else {
            return Err(ToolFault::of(ToolErrorCode::NoSuchFunction).into());
        };
        let call = Call {
            action: run.action,
            task,
            function,
            tools: &offer.tools,
            arguments: run.arguments,
            redirects: run.redirects,
            deadline: run.deadline,
        };
        runner.run(call).await
    }

    fn runner<'a>(
        &'a self,
        offer: &'a Offer,
        name: &str,
    ) -> Option<(&'a Arc<dyn ToolRunner>, &'a ToolFunction)> {
        let (at, function) = offer
            .functions
            .iter()
            .find(|(_, function)| function.name() == name)?;
        Some((self.runners.get(*at)?, function))
    }
}
