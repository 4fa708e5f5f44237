//! Functions of an agent that run on the server during a call. They only read, with the rights of the requester, and nothing about them
//! is stored.

use std::{collections::HashMap, time::Instant};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use serde_json::{Map, Value};

use super::marks::Handles;
use crate::{
    agents::{
        policy::{self, Policy},
        profiles::{self, Resolved, Tool, Trust},
    },
    chat::search::shared::NO_CHANNEL,
    db::{Db, DbError, Share},
    ids::{ActionId, ApiKeyId, MessageId, TaskId, ThreadId, UserId, WorkspaceId},
    mcp::Effect,
    model::{FunctionTool, Provider, Refused, RefusedFunction, ToolCall, ToolResult},
    replies::{
        results::{FaultOrigin, fault_text, output_text},
        turn::{CALL_GRACE, CALL_MAX, READS_AT_ONCE, ROUNDS_MAX, RUN_MAX, limit_definitions},
    },
    tasks::actions::{ActionSource, TaintKind},
    tool_fault::{ToolErrorCode, ToolFault},
    tools::{
        decide::Decision,
        function::{DELEGATE, ToolFunction},
        hash,
        output::{Handled, ToolOutput},
        requests::{CALLS_IN_ROUND_MAX, CALLS_MAX, CallRules, EQUAL_CALLS_MAX, ParsedCall},
        rights,
        runner::{CallError, Offer, ToolRun, ToolTask, Toolbox},
        schema,
    },
};

/// Arguments of the server's own functions that can be handles.
const HANDLE_ARGUMENTS: [&str; 3] = ["thread", "before", "file"];

/// Facts about a call of an agent on which its functions depend.
pub(super) struct Asking<'a> {
    pub workspace: WorkspaceId,
    pub requester: UserId,
    pub api_key: Option<ApiKeyId>,
    /// True if the requester, or the key, can read chats.
    pub can_read: bool,
    /// True if the model can call functions, and the request allows it.
    pub takes_functions: bool,
    /// Maximum number of calls that run on the server, as in the request.
    pub calls_max: Option<u32>,
    /// Names of the client's functions, which take precedence.
    pub client_names: Vec<&'a str>,
}

/// Functions that an agent's call can use, and the state of their use.
pub(super) struct ServerFunctions {
    db: Db,
    toolbox: Toolbox,
    task: ToolTask,
    offer: Offer,
    /// Lists and rules of the agent.
    trust: Option<Trust>,
    handles: Handles,
    /// Number of equal calls, by their hash.
    equal: HashMap<String, i64>,
    calls: i64,
    calls_max: i64,
    rounds: usize,
    began: Instant,
}

/// Functions of an agent that a call does not use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Unused {
    /// True if the agent has functions that read, but none can be used.
    pub functions: bool,
    /// True if functions were left out because they write.
    pub writes: bool,
}

/// Rules and rights at the start of a round.
struct RoundFacts {
    policy: Policy,
    has_rights: bool,
}

/// A call that is allowed to run.
struct ReadyCall {
    /// Name of the function.
    name: String,
    arguments: Map<String, Value>,
}

/// End of a call.
enum Ran {
    Output(ToolOutput),
    Failed(ToolFault, FaultSource),
}

/// Origin of a fault's message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FaultSource {
    Server,
    Function,
}

impl ServerFunctions {
    /// Finds the functions that the agent can use in a call.
    pub(super) async fn find(
        db: &Db,
        toolbox: &Toolbox,
        asking: &Asking<'_>,
        agent: &Resolved,
    ) -> Result<(Self, Unused), DbError> {
        let task = ToolTask {
            workspace: asking.workspace,
            task: TaskId::new(),
            agent: agent.agent,
            agent_version: agent.version,
            requester: asking.requester,
            api_key: asking.api_key,
            channel: NO_CHANNEL,
            thread: ThreadId(NO_CHANNEL.0),
            fork: None,
            trigger: MessageId(NO_CHANNEL.0),
            // The text of a program is not typed by a person.
            typed: String::new(),
            is_turn: false,
            skills: None,
        };
        let toolbox = toolbox.for_run();
        let policy = policy::find(&mut db.read().await?, asking.workspace).await?;
        let mut offer = toolbox.offer(&task, &agent.profile, &policy).await?;
        offer.keep(|function| function.name() != DELEGATE);
        let is_read = |function: &ToolFunction| function.effect == Effect::Read;
        let writes = !offer.functions().all(is_read);
        offer.keep(|function| is_read(function) && !asking.client_names.contains(&function.name()));
        let is_usable = asking.takes_functions && asking.can_read && asking.calls_max != Some(0);
        let unused = Unused {
            functions: !is_usable && !offer.is_empty(),
            writes,
        };
        if !is_usable {
            offer.keep(|_| false);
        }
        let functions = Self {
            db: db.clone(),
            toolbox,
            task,
            offer,
            trust: agent.profile.trust.clone(),
            handles: Handles::default(),
            equal: HashMap::new(),
            calls: 0,
            calls_max: asking
                .calls_max
                .map_or(CALLS_MAX, |max| CALLS_MAX.min(max.into())),
            rounds: 0,
            began: Instant::now(),
        };
        Ok((functions, unused))
    }

    /// Leaves out functions that the model's server has rejected, and those whose definitions do not fit.
    pub(super) async fn limit(&mut self, provider: &dyn Provider, model: &str) {
        limit_definitions(&mut self.offer, provider, model).await;
    }

    /// Leaves out the function that the model's server has rejected, or all of them. Returns the definitions that are left out.
    pub(super) fn leave_out(&mut self, named: Option<&str>, reason: &str) -> Vec<Refused> {
        let is_refused =
            |definition: &FunctionTool| named.is_none_or(|name| definition.name == name);
        let refused = self.definitions().filter(is_refused);
        let refused = refused.map(|definition| Refused {
            definition,
            reason: reason.to_owned(),
        });
        let refused: Vec<Refused> = refused.collect();
        self.offer
            .leave_out(refused.iter().map(RefusedFunction::from));
        refused
    }

    /// Sets the objects that have a handle in the conversation.
    pub(super) fn set_handles(&mut self, handles: Handles) {
        self.handles = handles;
    }

    pub(super) fn handles(&self) -> &Handles {
        &self.handles
    }

    pub(super) fn task(&self) -> &ToolTask {
        &self.task
    }

    pub(super) fn definitions(&self) -> impl Iterator<Item = FunctionTool> + '_ {
        let functions = self.offer.functions();
        functions.map(|function| function.definition.clone())
    }

    /// Returns the agent's tools of which at least one function is offered, without the IDs of registered tools.
    pub(super) fn tools(&self) -> Vec<Value> {
        let provides = |tool: &&Tool| {
            self.offer
                .functions()
                .any(|function| match function.tool() {
                    Some(id) => tool.registry_id() == Some(id.to_string().as_str()),
                    None => function.kind == Some(tool.kind()),
                })
        };
        let tools = self.offer.tools().iter().filter(provides);
        let shown = tools.filter_map(|tool| {
            let mut shown = serde_json::to_value(tool).ok()?;
            shown.as_object_mut()?.remove("registry_id");
            Some(shown)
        });
        shown.collect()
    }

    /// Returns the name of the function that a model has called; `None` if it is not one of these.
    pub(super) fn name_of(&self, called: &str) -> Option<&str> {
        self.offer.find_called(called).map(ToolFunction::name)
    }

    /// Checks whether the next model call must be the last one.
    pub(super) fn are_used_up(&self) -> bool {
        self.rounds >= ROUNDS_MAX || self.calls >= self.calls_max || self.began.elapsed() >= RUN_MAX
    }

    /// Runs the calls of a round, a few at a time. Returns their results in the same order.
    pub(super) async fn run(&mut self, calls: &[ToolCall]) -> Result<Vec<ToolResult>, DbError> {
        self.rounds += 1;
        let facts = self.facts().await?;
        let mut ready = Vec::with_capacity(calls.len());
        for (at, call) in calls.iter().enumerate() {
            ready.push(self.prepare(&facts, at, call));
        }
        let trusted = facts.policy.trusted_domains.as_slice();
        let running: Vec<BoxFuture<'_, Ran>> = (ready.into_iter())
            .map(|call| self.run_one(call, trusted))
            .collect();
        let ended: Vec<Ran> = stream::iter(running)
            .buffered(READS_AT_ONCE)
            .collect()
            .await;
        let results = calls.iter().zip(ended).map(|(call, ran)| ToolResult {
            call_id: call.id.clone(),
            content: self.text_of(&call.name, ran),
        });
        Ok(results.collect())
    }

    async fn facts(&self) -> Result<RoundFacts, DbError> {
        let share = Share {
            person: self.task.requester.0,
            workspace: self.task.workspace.0,
        };
        let mut c = self.db.scan(share).await?;
        let (agent, requester) = (self.task.agent, self.task.requester);
        Ok(RoundFacts {
            policy: policy::find(&mut c, self.task.workspace).await?,
            has_rights: rights::find(&mut c, &self.task).await?.is_some()
                && profiles::is_invocable_by(&mut c, agent, requester).await?,
        })
    }

    /// Decides on a call. `at` is its position in the round.
    fn prepare(
        &mut self,
        facts: &RoundFacts,
        at: usize,
        call: &ToolCall,
    ) -> Result<ReadyCall, ToolFault> {
        self.calls += 1;
        if at >= CALLS_IN_ROUND_MAX || self.calls > self.calls_max {
            return Err(ToolFault::of(ToolErrorCode::TooManyCalls));
        }
        if !facts.has_rights {
            return Err(rights::refusal());
        }
        let function = self.offer.find_called(&call.name);
        let function = function.ok_or_else(|| ToolFault::of(ToolErrorCode::NoSuchFunction))?;
        let parsed = ParsedCall::of(call, Some(function));
        let equal = hash::call_hash(function.tool(), function.name(), &parsed.text);
        let equal = self.equal.entry(equal).or_default();
        *equal += 1;
        if *equal > EQUAL_CALLS_MAX {
            return Err(ToolFault::of(ToolErrorCode::RepeatedCall));
        }
        let mut arguments = (parsed.arguments)
            .map_err(|e| ToolFault::new(ToolErrorCode::BadArguments, e.to_string()))?;
        let rules = CallRules {
            toolbox: &self.toolbox,
            task: &self.task,
            offer: &self.offer,
            trust: self.trust.as_ref(),
            policy: &facts.policy,
        };
        // Like a message that was posted with a key, the text of a program can come from anywhere.
        let requester = self.task.requester.0;
        let seen = ActionSource::new(TaintKind::Key, requester, "a program");
        match rules.decide(&[seen], function, &arguments) {
            Decision::Granted => {}
            Decision::NotOffered => return Err(ToolFault::of(ToolErrorCode::NotAllowed)),
            // A program cannot approve anything.
            Decision::Asks(_) => return Err(ToolFault::of(ToolErrorCode::NoApprover)),
        }
        // The server's own functions check their arguments when they run.
        if function.server_function.is_some() {
            schema::check(function, &arguments)?;
        }
        let name = function.name().to_owned();
        if function.server_function.is_none() {
            self.resolve_handles(&mut arguments);
        }
        Ok(ReadyCall { name, arguments })
    }

    /// Replaces handles in arguments with the IDs that they stand for, because the handles of a call are not stored.
    fn resolve_handles(&self, arguments: &mut Map<String, Value>) {
        for name in HANDLE_ARGUMENTS {
            let Some(value) = arguments.get_mut(name) else {
                continue;
            };
            match value.as_str().and_then(|text| self.handles.find(text)) {
                Some(Handled::Message(id)) => *value = id.to_string().into(),
                Some(Handled::File(id)) => *value = id.to_string().into(),
                Some(Handled::Passage(place)) => *value = place.file.to_string().into(),
                None => {}
            }
        }
    }

    /// Runs a call, unless it was refused.
    fn run_one<'a>(
        &'a self,
        call: Result<ReadyCall, ToolFault>,
        trusted: &'a [String],
    ) -> BoxFuture<'a, Ran> {
        async move {
            match call {
                Ok(call) => self.run_ready(call, trusted).await,
                Err(fault) => Ran::Failed(fault, FaultSource::Server),
            }
        }
        .boxed()
    }

    async fn run_ready(&self, call: ReadyCall, trusted: &[String]) -> Ran {
        let deadline = tokio::time::Instant::now() + CALL_MAX;
        let run = ToolRun {
            action: ActionId::new(),
            name: &call.name,
            arguments: call.arguments,
            redirects: Some(trusted),
            deadline,
        };
        let running = self.toolbox.run(&self.task, &self.offer, run);
        let own = |code| Ran::Failed(ToolFault::of(code), FaultSource::Server);
        match tokio::time::timeout_at(deadline + CALL_GRACE, running).await {
            Ok(Ok(output)) => Ran::Output(output),
            Ok(Err(CallError::Fault { fault, taints })) if taints.is_empty() => {
                Ran::Failed(fault, FaultSource::Server)
            }
            Ok(Err(CallError::Fault { fault, .. })) => Ran::Failed(fault, FaultSource::Function),
            Ok(Err(CallError::Db(e))) => {
                tracing::warn!(error = %e, "a tool call failed");
                own(ToolErrorCode::ToolFailed)
            }
            Err(_) => own(ToolErrorCode::ToolTimeout),
        }
    }

    /// Returns the text of a result. Its objects get handles.
    fn text_of(&mut self, called: &str, ran: Ran) -> String {
        let function = self.offer.find_called(called);
        let source = function.map_or("", |function| function.source.as_str());
        match ran {
            Ran::Failed(fault, FaultSource::Server) => fault_text(&fault, FaultOrigin::Server),
            Ran::Failed(fault, FaultSource::Function) => {
                fault_text(&fault, FaultOrigin::Source(source))
            }
            Ran::Output(output) => {
                let handled = output.handled().into_iter();
                let named: HashMap<Handled, String> =
                    handled.map(|of| (of, self.handles.assign(of))).collect();
                output_text(&output, source, |of| named[&of].clone())
            }
        }
    }
}
