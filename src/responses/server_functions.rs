//! Functions of an agent that run on the server during a call. They only read, with the rights of the requester, and nothing about them
//! is stored.

use std::{
    collections::{BTreeSet, HashMap},
    time::Instant,
};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use serde_json::{Map, Value};

use super::{
    file_search::{FILE_SEARCH, FileSearch, Searched},
    marks::Handles,
};
use crate::{
    agents::{
        policy::{self, Policy},
        profiles::{self, Resolved, Tool, Trust},
    },
    chat::search::shared::NO_CHANNEL,
    collections,
    db::{Conn, Db, DbError, Share},
    ids::{ActionId, AgentId, ApiKeyId, MessageId, TaskId, ThreadId, UserId, WorkspaceId},
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

/// Function that searches all files. `file_search` takes its place if the call has vector stores.
const SEARCH_FILES: &str = "search_files";
/// Heading of the results of `file_search`.
const FILES: &str = "files";
/// Arguments of the server's own functions that can be handles.
const HANDLE_ARGUMENTS: [&str; 3] = ["thread", "before", "file"];

/// Facts about a call on which its functions depend.
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
    /// Search in the vector stores of the request.
    pub search: FileSearch,
}

/// Functions that a call can use, and the state of their use.
pub(super) struct ServerFunctions {
    db: Db,
    toolbox: Toolbox,
    task: ToolTask,
    /// `None` for a call of the model without an agent.
    agent: Option<AgentId>,
    offer: Offer,
    search: Option<FileSearch>,
    /// Searches of the current round.
    searched: Vec<Searched>,
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
    Searched(ToolOutput, Searched),
    Failed(ToolFault, FaultSource),
}

/// Origin of a fault's message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FaultSource {
    Server,
    Function,
}

/// Counts a call with this hash.
///
/// # Errors
/// `RepeatedCall` after `EQUAL_CALLS_MAX` equal calls.
fn count_equal(equal: &mut HashMap<String, i64>, hash: String) -> Result<(), ToolFault> {
    let count = equal.entry(hash).or_default();
    *count += 1;
    if *count > EQUAL_CALLS_MAX {
        return Err(ToolFault::of(ToolErrorCode::RepeatedCall));
    }
    Ok(())
}

impl ServerFunctions {
    /// Finds the functions that the agent can use in a call, and the search of the request.
    pub(super) async fn find(
        db: &Db,
        toolbox: &Toolbox,
        asking: &Asking<'_>,
        agent: Option<&Resolved>,
    ) -> Result<(Self, Unused), DbError> {
        let task = ToolTask {
            workspace: asking.workspace,
            task: TaskId::new(),
            agent: agent.map_or(AgentId(NO_CHANNEL.0), |agent| agent.agent),
            agent_version: agent.map_or(0, |agent| agent.version),
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
        let mut offer = match agent {
            Some(agent) => toolbox.offer(&task, &agent.profile, &policy).await?,
            None => Offer::default(),
        };
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
        let mut search = asking.search.clone();
        if let Some(agent) = agent
            && offer.find_called(SEARCH_FILES).is_some()
        {
            search.add_stores(&agent.profile.vector_stores());
        }
        let is_named = asking.client_names.contains(&FILE_SEARCH);
        let search = Some(search).filter(|search| is_usable && !is_named && !search.is_empty());
        let functions = Self {
            db: db.clone(),
            toolbox,
            task,
            agent: agent.map(|agent| agent.agent),
            offer,
            search,
            searched: Vec::new(),
            trust: agent.and_then(|agent| agent.profile.trust.clone()),
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
        if refused.iter().any(|of| of.definition.name == FILE_SEARCH) {
            self.search = None;
        }
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
        let functions = functions.filter(move |function| !self.is_replaced(function));
        let search = self.search.as_ref().map(|_| FileSearch::definition());
        functions
            .map(|function| function.definition.clone())
            .chain(search)
    }

    /// Checks whether `file_search` takes the place of a function.
    fn is_replaced(&self, function: &ToolFunction) -> bool {
        self.search.is_some() && function.name() == SEARCH_FILES
    }

    fn is_search(&self, called: &str) -> bool {
        let bare = called.strip_prefix("functions.").unwrap_or(called);
        self.search.is_some() && bare == FILE_SEARCH
    }

    /// Returns the searches since the last call.
    pub(super) fn take_searched(&mut self) -> Vec<Searched> {
        std::mem::take(&mut self.searched)
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
        let of_request = self.search.as_ref().and_then(FileSearch::shown);
        let is_other = |tool: &Value| of_request.is_none() || tool["type"] != FILE_SEARCH;
        shown.filter(is_other).chain(of_request.cloned()).collect()
    }

    /// Returns the name of the function that a model has called; `None` if it is not one of these.
    pub(super) fn name_of(&self, called: &str) -> Option<&str> {
        if self.is_search(called) {
            return Some(FILE_SEARCH);
        }
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
        let mut results = Vec::with_capacity(calls.len());
        for (call, ran) in calls.iter().zip(ended) {
            if let Ran::Searched(_, searched) = &ran {
                self.searched.push(searched.clone());
            }
            results.push(ToolResult {
                call_id: call.id.clone(),
                content: self.text_of(&call.name, ran),
            });
        }
        Ok(results)
    }

    async fn facts(&self) -> Result<RoundFacts, DbError> {
        let share = Share {
            person: self.task.requester.0,
            workspace: self.task.workspace.0,
        };
        let mut c = self.db.scan(share).await?;
        let can_call = match self.agent {
            Some(agent) => profiles::is_invocable_by(&mut c, agent, self.task.requester).await?,
            None => true,
        };
        Ok(RoundFacts {
            policy: policy::find(&mut c, self.task.workspace).await?,
            has_rights: can_call && rights::find(&mut c, &self.task).await?.is_some(),
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
        if self.is_search(&call.name) {
            return self.prepare_search(facts, call);
        }
        let function = self.offer.find_called(&call.name);
        let function = function.filter(|function| !self.is_replaced(function));
        let function = function.ok_or_else(|| ToolFault::of(ToolErrorCode::NoSuchFunction))?;
        let parsed = ParsedCall::of(call, Some(function));
        let equal = hash::call_hash(function.tool(), function.name(), &parsed.text);
        count_equal(&mut self.equal, equal)?;
        let mut arguments = (parsed.arguments)
            .map_err(|e| ToolFault::new(ToolErrorCode::BadArguments, e.to_string()))?;
        self.check_rules(facts, function, &arguments)?;
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

    /// Decides on a call of `file_search`. The rules of an agent for its search apply.
    fn prepare_search(
        &mut self,
        facts: &RoundFacts,
        call: &ToolCall,
    ) -> Result<ReadyCall, ToolFault> {
        let parsed = ParsedCall::of(call, None);
        let equal = hash::call_hash(None, FILE_SEARCH, &parsed.text);
        count_equal(&mut self.equal, equal)?;
        let arguments = (parsed.arguments)
            .map_err(|e| ToolFault::new(ToolErrorCode::BadArguments, e.to_string()))?;
        if let Some(function) = self.offer.find_called(SEARCH_FILES) {
            self.check_rules(facts, function, &arguments)?;
        }
        Ok(ReadyCall {
            name: FILE_SEARCH.to_owned(),
            arguments,
        })
    }

    /// Checks whether a call needs no approval, which a program cannot give.
    fn check_rules(
        &self,
        facts: &RoundFacts,
        function: &ToolFunction,
        arguments: &Map<String, Value>,
    ) -> Result<(), ToolFault> {
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
        match rules.decide(&[seen], function, arguments) {
            Decision::Granted => Ok(()),
            Decision::NotOffered => Err(ToolFault::of(ToolErrorCode::NotAllowed)),
            Decision::Asks(_) => Err(ToolFault::of(ToolErrorCode::NoApprover)),
        }
    }

    async fn run_search(
        &self,
        search: &FileSearch,
        arguments: &Map<String, Value>,
    ) -> Result<(ToolOutput, Searched), CallError> {
        let asked = search.ask(arguments).await?;
        let share = Share {
            person: self.task.requester.0,
            workspace: self.task.workspace.0,
        };
        let mut c = self.db.scan(share).await?;
        let found = search.run(&mut c, arguments, &asked).await?;
        let mut files = BTreeSet::new();
        for of in found.0.handled() {
            if let Handled::Passage(place) = of {
                files.insert(place.file);
            }
        }
        let mut uses = Vec::new();
        for file in files {
            uses.extend(collections::list_uses(&mut c, file).await?);
        }
        drop(c);
        if !uses.is_empty() {
            let note = async move |c: &mut Conn| {
                for last in &uses {
                    collections::note_use(c, *last).await?;
                }
                Ok::<_, DbError>(())
            };
            self.db.write(self.task.workspace.0, note).await?;
        }
        Ok(found)
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
        let own = |code| Ran::Failed(ToolFault::of(code), FaultSource::Server);
        if let Some(search) = self.search.as_ref().filter(|_| call.name == FILE_SEARCH) {
            let running = self.run_search(search, &call.arguments);
            return match tokio::time::timeout_at(deadline, running).await {
                Ok(Ok((output, searched))) => Ran::Searched(output, searched),
                Ok(Err(CallError::Fault { fault, .. })) => Ran::Failed(fault, FaultSource::Server),
                Ok(Err(CallError::Db(e))) => {
                    tracing::warn!(error = %e, "a search in vector stores failed");
                    own(ToolErrorCode::ToolFailed)
                }
                Err(_) => own(ToolErrorCode::ToolTimeout),
            };
        }
        let run = ToolRun {
            action: ActionId::new(),
            name: &call.name,
            arguments: call.arguments,
            redirects: Some(trusted),
            deadline,
        };
        let running = self.toolbox.run(&self.task, &self.offer, run);
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
        let source = if self.is_search(called) {
            FILES
        } else {
            source
        };
        match ran {
            Ran::Failed(fault, FaultSource::Server) => fault_text(&fault, FaultOrigin::Server),
            Ran::Failed(fault, FaultSource::Function) => {
                fault_text(&fault, FaultOrigin::Source(source))
            }
            Ran::Output(output) | Ran::Searched(output, _) => {
                let handled = output.handled().into_iter();
                let named: HashMap<Handled, String> =
                    handled.map(|of| (of, self.handles.assign(of))).collect();
                output_text(&output, source, |of| named[&of].clone())
            }
        }
    }
}
