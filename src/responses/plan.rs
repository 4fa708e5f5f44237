//! Plans a call from a request: agent, model, tools, conversation, and storage.

use std::time::Duration;

use super::{
    CreateResponse, ResponseError, ResponsesService,
    agent::{self, RequestedAgent},
    chain::{self, Before, Previous},
    client_calls::ClientCalls,
    conversation::{Conversation, converse, fixed_tokens, prompt_tokens_max},
    file_search::{FileSearch, Includes},
    items::{Item, Speaker},
    kept_rounds::{self, Restoring},
    marks::Handles,
    media::{self, AskedMedia, ReadMedia},
    object::{Response, ResponseObject, Status, TextConfig},
    parsed::Parsed,
    references,
    server_functions::{Asking, ServerFunctions},
    store,
    tools::{self, offer},
};
use crate::{
    agents::{
        policy::{self, Policy},
        profiles::{self, tools::ToolKind},
    },
    auth::{Actor, Caller, Scope, WorkspaceCaller, quota},
    chat::search::passages::find::PassageQuestion,
    db::{Conn, DbError, now},
    ids::{AgentId, ResponseId, WorkspaceId},
    meaning::VectorAnswer,
    model::{ChatRequest, PictureUse, RequiredFormat, ToolChoice, VendorMembers, estimate_tokens},
    replies::briefing::{ApiCall, Briefing},
    responses::form::{RESULTS, Truncation, output_tokens},
    tasks::queue::{Tenancy, find_task, tenancy},
};

/// Default retention of responses in days.
const KEPT_DAYS: u32 = 30;
/// Upper limit of the retention in days, which is effectively unlimited.
const KEPT_DAYS_MAX: u32 = 36_500;
const DAY: Duration = Duration::from_hours(24);
/// Prefix of a model name that refers to an agent.
pub(super) const AGENT_PREFIX: &str = "agent:";

/// Origin of the choice of a call's model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    /// The client named the model.
    Client,
    /// The agent's profile. Contains the model that the profile sets, or `None` for the default model. Another model can be
    /// substituted if the server no longer has this one.
    Agent(Option<String>),
}

/// The agent's side of a call.
#[derive(Default)]
struct AgentSide {
    functions: Option<ServerFunctions>,
    briefing: String,
    limits: Vec<&'static str>,
}

/// A call that is ready to start.
pub struct Plan {
    pub(super) workspace: WorkspaceId,
    pub(super) caller: Caller,
    pub(super) tenancy: Tenancy,
    pub(super) agent: Option<(AgentId, i64)>,
    /// Agent of the turn on a runner that makes the call, which counts for its budgets.
    pub(super) turn_agent: Option<AgentId>,
    pub(super) request: ChatRequest,
    pub(super) wish: Wish,
    /// Estimated number of tokens.
    pub(super) prompt_tokens: u64,
    /// Items from the request.
    pub(super) input: Vec<Item>,
    /// Retention of the response; `None` disables storage.
    pub(super) kept: Option<Duration>,
    /// The initial response object.
    pub(super) response: Response,
    pub(super) client_calls: ClientCalls,
    /// True if the request contains functions, without which the call fails.
    pub(super) needs_tools: bool,
    /// Number of tools of the response whose functions the client runs.
    pub(super) client_tools: usize,
    /// Functions of the agent that run on the server.
    pub(super) functions: Option<ServerFunctions>,
    /// Blocks that precede the conversation.
    pub(super) briefing: String,
    /// Parts of the agent that the call does not use, for the header `OpenVibe-Agent-Limits`.
    pub(super) agent_limits: Vec<&'static str>,
    /// Paths of parts of the request that are ignored.
    pub(super) ignored: Vec<String>,
    /// Fields for sampling and reasoning in the request: their names in chat completions, and their paths.
    pub(super) settings: Vec<(&'static str, &'static str)>,
}

/// Fields for sampling and reasoning that the request contains.
fn settings(form: &CreateResponse, parsed: &Parsed) -> Vec<(&'static str, &'static str)> {
    let fields = [
        ("temperature", form.temperature.is_some()),
        ("top_p", form.top_p.is_some()),
        ("frequency_penalty", form.frequency_penalty.is_some()),
        ("presence_penalty", form.presence_penalty.is_some()),
        ("seed", form.seed.is_some()),
    ];
    let effort = parsed
        .effort
        .map(|_| ("reasoning_effort", parsed.effort_path));
    let fields = fields.into_iter().filter(|(_, is_given)| *is_given);
    fields
        .map(|(field, _)| (field, field))
        .chain(effort)
        .collect()
}

/// Returns the agent to which a request refers, and the field that contains the reference.
fn named_agent(form: &CreateResponse) -> Result<Option<(&str, &'static str)>, ResponseError> {
    let by_model = form
        .model
        .as_deref()
        .and_then(|model| model.strip_prefix(AGENT_PREFIX));
    match (form.agent_id.as_deref(), by_model) {
        (Some(id), Some(name)) if id != name => Err(ResponseError::invalid(
            "model",
            "agent_id and model refer to two agents: omit one of them",
        )),
        (Some(id), _) => Ok(Some((id, "agent_id"))),
        (None, Some(name)) => Ok(Some((name, "model"))),
        (None, None) => Ok(None),
    }
}

/// Chooses the agent and version that reply: the requested agent, or the agent of the previous response if no agent is requested. The
/// version is kept if the agent is unchanged.
async fn choose_agent(
    c: &mut Conn,
    actor: &Actor<'_>,
    form: &CreateResponse,
    previous: Option<&Previous>,
    question: &str,
) -> Result<Option<RequestedAgent>, ResponseError> {
    let pinned =
        previous.and_then(|previous| previous.link.agent_id.zip(previous.link.agent_version));
    let (name, param) = match (named_agent(form)?, pinned) {
        (Some((name, param)), _) => (name.to_owned(), param),
        // A conversation can continue even if its agent has since been archived.
        (None, Some((agent, version))) => {
            let is_gone = profiles::newest_version(c, agent).await?.is_none();
            if is_gone || profiles::cannot_invoke(c, actor, agent).await? {
                return Err(ResponseError::AgentNotFound {
                    name: agent.to_string(),
                    param: "previous_response_id",
                });
            }
            let agent = agent::load(c, actor.workspace, agent, version, question).await?;
            return Ok(Some(agent));
        }
        (None, None) => return Ok(None),
    };
    let found = profiles::find_usable(c, actor, &name).await?;
    let found = found.ok_or(ResponseError::AgentNotFound { name, param })?;
    let version = pinned
        .filter(|(earlier, _)| *earlier == found.id)
        .map_or(found.version, |(_, version)| version);
    Ok(Some(
        agent::load(c, actor.workspace, found.id, version, question).await?,
    ))
}

/// Returns how long the response is kept. `None` disables storage.
fn kept(
    form: &CreateResponse,
    asked: Option<&RequestedAgent>,
) -> Result<Option<Duration>, ResponseError> {
    let days = asked
        .and_then(|asked| asked.retention_days)
        .unwrap_or(KEPT_DAYS)
        .min(KEPT_DAYS_MAX);
    if asked.is_some_and(|asked| asked.store_required) {
        if form.store == Some(false) {
            let text =
                "this agent requires its responses to be stored: omit `store`, or set it to true";
            return Err(ResponseError::StoreRequired(text.to_owned()));
        }
        if days == 0 {
            let text = "the agent requires its responses to be stored (store_required), but its retention is 0 (conversation_retention_days): change the agent";
            return Err(ResponseError::StoreRequired(text.to_owned()));
        }
        return Ok(Some(DAY * days));
    }
    let wanted = form
        .store
        .or(asked.and_then(|asked| asked.store))
        .unwrap_or(true);
    Ok((wanted && days > 0).then(|| DAY * days))
}

/// Returns the parts of searches that the client requests.
fn includes(form: &CreateResponse) -> Includes {
    let mut included = form.include.iter().flatten();
    if included.any(|name| name == RESULTS) {
        Includes::Results
    } else {
        Includes::Queries
    }
}

/// Returns the last message of the user.
fn question_of(items: &[Item]) -> &str {
    let from_user = items.iter().rev().find_map(|item| match item {
        Item::Message {
            role: Speaker::User,
            text,
        } => Some(text.as_str()),
        _ => None,
    });
    from_user.unwrap_or_default()
}

/// Builds the system prompt from the text that the workspace requires, the instructions of the agent and the request, and the system
/// messages in the conversation. The instructions of a request that names the agent in `agent_id` replace the agent's; otherwise, they
/// follow, because they are from a program that does not know the agent.
fn system(
    form: &CreateResponse,
    asked: Option<&RequestedAgent>,
    policy: &Policy,
    conversation: &Conversation,
) -> String {
    let required = policy.required_text.as_deref().unwrap_or_default();
    let own = form
        .instructions
        .as_deref()
        .filter(|text| !text.trim().is_empty());
    let required = asked.map_or(required, |asked| asked.required.as_str());
    let mut parts = match (own, asked) {
        (None, Some(asked)) => vec![asked.system.as_str()],
        (Some(own), Some(asked)) if form.agent_id.is_none() => vec![asked.system.as_str(), own],
        (Some(own), _) if begins_with(own, required) => vec![own],
        (own, _) => vec![required, own.unwrap_or_default()],
    };
    parts.extend(conversation.system.iter().map(String::as_str));
    parts.retain(|part| !part.trim().is_empty());
    parts.join("\n\n")
}

/// Returns true if the instructions already start with `required` as their first paragraph, as in a system text from
/// `POST /v1/agents/preview`.
fn begins_with(own: &str, required: &str) -> bool {
    let rest = own.strip_prefix(required.trim_end());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("\n\n"))
}

impl ResponsesService {
    /// Plans the call for a request.
    ///
    /// # Errors
    /// `Invalid` or `Unsupported` with the field, `ModelNotFound`, `PreviousNotFound`, `AgentNotFound`, `BareModelOff`,
    /// `StoreRequired`, `ContextTooLarge`, or an error from `Actor::require`.
    pub async fn plan(
        &self,
        member: &WorkspaceCaller,
        form: &CreateResponse,
    ) -> Result<Plan, ResponseError> {
        self.plan_parsed(member, form, Parsed::of(form)).await
    }

    /// Plans the call for a request whose parts have already been parsed. Access errors take precedence over parse errors.
    pub(super) async fn plan_parsed(
        &self,
        member: &WorkspaceCaller,
        form: &CreateResponse,
        parsed: Result<Parsed, ResponseError>,
    ) -> Result<Plan, ResponseError> {
        if let Some((name, _)) = named_agent(form)? {
            profiles::refresh_named(&self.db, member, name).await?;
        }
        let mut c = self.db.snapshot().await?;
        let actor = &member.enter(&mut c).await?;
        actor.require(Scope::AgentsUse)?;
        let mut parsed = parsed?;
        let asked_text = question_of(&parsed.input.items).to_owned();
        references::resolve(&mut c, actor, &mut parsed.input).await?;
        let previous = match &form.previous_response_id {
            Some(reference) => Some(chain::find_previous(&mut c, actor, reference).await?),
            None => None,
        };
        let stores = match &parsed.search {
            Some(search) => {
                actor.require(Scope::ChatRead)?;
                search.find_stores(&mut c, actor.into()).await?
            }
            None => Vec::new(),
        };
        let question = question_of(&parsed.input.items);
        let can_read = actor.require(Scope::ChatRead).is_ok();
        let asked = choose_agent(&mut c, actor, form, previous.as_ref(), question).await?;
        let tenancy = tenancy(&mut c).await?;
        let policy = policy::find(&mut c, actor.workspace).await?;
        let is_turn = member.caller.turn.is_some();
        let turn = match member.caller.turn {
            Some(turn) => find_task(&mut c, turn).await?,
            None => None,
        };
        if asked.is_none() && !policy.bare_model && !is_turn {
            return Err(ResponseError::BareModelOff);
        }
        if asked.is_some() && is_turn {
            // Its reply could contain what not every reader of the turn's conversation can read.
            let text = "an agent in a repository can only call models: omit the agent";
            return Err(ResponseError::unsupported("model", text));
        }
        if previous.is_some() && is_turn {
            let text = "an agent in a repository cannot continue responses: send the items";
            return Err(ResponseError::unsupported("previous_response_id", text));
        }
        if let Some(path) = parsed.media.iter().find_map(AskedMedia::web_path)
            && is_turn
        {
            // It would be a way around the hosts that the repository allows.
            let text = "an agent in a repository cannot load web pages: send the picture itself";
            return Err(ResponseError::unsupported(path, text));
        }
        if let Some(search) = &parsed.search {
            if !policy.allows(ToolKind::FileSearch) {
                let text = "this workspace does not allow file_search: omit it, or ask an admin";
                return Err(ResponseError::unsupported(&search.path, text));
            }
            if self.provider.is_offline() {
                parsed.ignored.push(search.path.clone());
            }
        }
        if let Some(path) = parsed.media.iter().find_map(AskedMedia::web_path)
            && !policy.allows(ToolKind::WebFetch)
        {
            let text =
                "this workspace does not allow web_fetch: send the picture itself, or ask an admin";
            return Err(ResponseError::unsupported(path, text));
        }
        let kept = kept(form, asked.as_ref())?;
        if kept.is_some() {
            let bytes = store::counted_bytes(&parsed.input.items, None);
            quota::check_bytes(&mut c, actor.workspace, bytes).await?;
        }
        // The provider may need to be asked for its models, so the connection is released first.
        drop(c);
        let (model, wish) = self.choose_model(form, asked.as_ref()).await?;
        // Another model can answer for every agent and program.
        if matches!(wish, Wish::Client) && form.model.as_deref() != Some(model.as_str()) {
            parsed.ignored.push("model".to_owned());
        }
        let required_format = self.required_format(&parsed, &model)?;
        let media = std::mem::take(&mut parsed.media);
        let media = self.read_media(member, media, &model).await?;
        let previous_id = previous.as_ref().map(|previous| previous.id);
        let before = self.before(member, actor, previous, &model).await?;
        let mut conversation = converse(&before.items, &parsed.input.items)?;
        let mut request = ChatRequest {
            system: system(form, asked.as_ref(), &policy, &conversation),
            max_output_tokens: output_tokens(form.max_output_tokens)
                .or(asked.as_ref().map(|asked| asked.max_output_tokens)),
            temperature: form
                .temperature
                .or(asked.as_ref().and_then(|asked| asked.temperature)),
            top_p: form.top_p.or(asked.as_ref().and_then(|asked| asked.top_p)),
            frequency_penalty: form.frequency_penalty,
            presence_penalty: form.presence_penalty,
            seed: form.seed,
            required_format,
            stop: parsed.stop.clone(),
            reasoning_effort: parsed.effort,
            model,
            ..ChatRequest::default()
        };
        let mut response =
            self.offer_tools(&mut request, form, asked.as_ref(), &policy, &parsed)?;
        let given = before.items.iter().chain(&parsed.input.items);
        let client_calls = ClientCalls::new(&mut request.tools, given);
        client_calls.apply(&mut conversation.turns, &mut request.tool_choice);
        let restoring = Restoring {
            workspace: actor.workspace,
            user: member.caller.user,
            model: &request.model,
            has_rounds: can_read && (asked.is_some() || parsed.search.is_some()),
        };
        let mut c = self.db.read().await?;
        let handles = kept_rounds::restore(&mut c, restoring, &mut conversation.turns).await?;
        drop(c);
        let asking = Asking {
            workspace: member.workspace,
            requester: member.caller.user,
            api_key: member.caller.key(),
            can_read,
            takes_functions: self.takes_functions(&request),
            calls_max: form.max_tool_calls,
            client_names: request
                .tools
                .iter()
                .map(|tool| tool.name.as_str())
                .collect(),
            search: FileSearch::of(
                actor.into(),
                parsed.search.as_ref(),
                stores,
                includes(form),
                &self.meaning,
            ),
        };
        let side = match &asked {
            Some(asked) => {
                self.agent_side(
                    member,
                    &asking,
                    &request.model,
                    asked,
                    &conversation,
                    handles,
                )
                .await?
            }
            None if parsed.search.is_some() => {
                let (mut functions, _) =
                    ServerFunctions::find(&self.db, &self.tools, &asking, None).await?;
                functions.set_handles(handles);
                AgentSide {
                    functions: Some(functions),
                    ..AgentSide::default()
                }
            }
            None => AgentSide::default(),
        };
        let (needs_tools, client_tools) = (request.tools_required, response.tools.len());
        if let Some(functions) = &side.functions {
            request.tools.extend(functions.definitions());
            response.tools.extend(functions.tools());
            // The call is repeated with fewer of the agent's functions if the model's server rejects them.
            request.tools_required |= functions.definitions().next().is_some();
        }
        if media.iter().any(ReadMedia::is_picture) {
            request.pictures = PictureUse::Required;
        }
        media::attach(&mut conversation.turns, &asked_text, media)?;
        let prompt_tokens = self
            .fit(
                &mut request,
                conversation,
                before.is_cut,
                form,
                &side.briefing,
            )
            .await?;
        let agent = asked.map(|asked| (asked.agent, asked.version));
        Ok(Plan {
            workspace: actor.workspace,
            caller: member.caller.clone(),
            tenancy,
            agent,
            turn_agent: turn.and_then(|turn| turn.agent_id),
            wish,
            prompt_tokens,
            settings: settings(form, &parsed),
            ignored: parsed.ignored,
            input: parsed.input.items,
            kept,
            client_calls,
            needs_tools,
            client_tools,
            functions: side.functions,
            briefing: side.briefing,
            agent_limits: side.limits,
            response: Response {
                previous_response_id: previous_id,
                store: kept.is_some(),
                agent_id: agent.map(|(agent, _)| agent),
                agent_version: agent.map(|(_, version)| version),
                ..response
            },
            request,
        })
    }

    /// Chooses the model for the call. Also returns the source of the choice, which determines whether another model can be
    /// substituted later.
    async fn choose_model(
        &self,
        form: &CreateResponse,
        asked: Option<&RequestedAgent>,
    ) -> Result<(String, Wish), ResponseError> {
        let own_model = form
            .model
            .as_deref()
            .filter(|model| !model.starts_with(AGENT_PREFIX));
        let agents_model = asked.and_then(|asked| asked.model.as_deref());
        let wish = match own_model {
            Some(model) if !self.provider.has_model(model).await => {
                return Err(ResponseError::ModelNotFound(model.to_owned()));
            }
            Some(_) => Wish::Client,
            None => Wish::Agent(agents_model.map(str::to_owned)),
        };
        let model = self.provider.choose_model(own_model.or(agents_model)).await;
        Ok((model, wish))
    }

    /// # Errors
    /// `Unsupported` if the model cannot write the format.
    fn required_format(
        &self,
        parsed: &Parsed,
        model: &str,
    ) -> Result<Option<RequiredFormat>, ResponseError> {
        let required_format = parsed.format.required();
        if required_format.is_some() && !self.provider.takes_json(model) {
            let text = format!(
                "the model `{model}` does not support JSON formats: choose another model, or ask for JSON in the instructions"
            );
            return Err(ResponseError::unsupported("text.format", text));
        }
        Ok(required_format)
    }

    async fn before(
        &self,
        member: &WorkspaceCaller,
        actor: &Actor<'_>,
        previous: Option<Previous>,
        model: &str,
    ) -> Result<Before, ResponseError> {
        let Some(previous) = previous else {
            return Ok(Before {
                items: Vec::new(),
                is_cut: false,
            });
        };
        // A token is estimated as 4 characters of at most 4 bytes each; anything longer cannot fit.
        let window = self.provider.window(model).await;
        let estimate_max = window.estimate_for(window.tokens);
        let bytes_max = usize::try_from(estimate_max.saturating_mul(16)).unwrap_or(usize::MAX);
        let mut c = self.db.scan(member.share()).await?;
        chain::read_before(&mut c, actor, previous, bytes_max).await
    }

    /// Adds the tools to the request and returns the initial response object.
    fn offer_tools(
        &self,
        request: &mut ChatRequest,
        form: &CreateResponse,
        asked: Option<&RequestedAgent>,
        policy: &Policy,
        parsed: &Parsed,
    ) -> Result<Response, ResponseError> {
        let own = parsed.tools.as_slice();
        let agents = asked
            .map(|asked| asked.tools.as_slice())
            .unwrap_or_default();
        let may_call = match asked {
            Some(asked) => asked.may_call_functions,
            None => policy.allows(ToolKind::Function),
        };
        let mut offered = offer(agents, own, may_call);
        if !offered.functions.is_empty() && !self.provider.takes_tools(&request.model) {
            if !own.is_empty() {
                let text = format!(
                    "the model `{}` does not support tools: choose another model, or omit `tools`",
                    request.model
                );
                return Err(ResponseError::unsupported("tools", text));
            }
            // The agent's own functions are dropped, so that the request is not rejected because of them.
            offered = offer(&[], own, may_call);
        }
        let mut choices = offered.functions.clone();
        if let Some(search) = &parsed.search {
            if !self.provider.takes_tools(&request.model) && !self.provider.is_offline() {
                let text = format!(
                    "the model `{}` does not support tools: choose another model, or omit file_search",
                    request.model
                );
                return Err(ResponseError::unsupported(&search.path, text));
            }
            choices.push(FileSearch::definition());
        }
        let (choice, shown_choice) = tools::read_choice(form.tool_choice.as_ref(), &choices)?;
        request.tool_choice = choice;
        request.parallel_tool_calls = form.parallel_tool_calls.filter(|parallel| !parallel);
        request.tools_required = !own.is_empty();
        request.tools = offered.functions;
        Ok(Response {
            id: ResponseId::new(),
            object: ResponseObject,
            created_at: now().unix_s(),
            completed_at: None,
            status: Status::InProgress,
            background: false,
            error: None,
            incomplete_details: None,
            instructions: form.instructions.clone(),
            max_output_tokens: request.max_output_tokens,
            metadata: form.metadata.clone().unwrap_or_default(),
            model: request.model.clone(),
            output: Vec::new(),
            parallel_tool_calls: form.parallel_tool_calls.unwrap_or(true),
            previous_response_id: None,
            store: false,
            temperature: request.temperature,
            text: TextConfig {
                format: parsed.format.clone(),
            },
            tool_choice: shown_choice,
            tools: offered.shown,
            top_p: request.top_p,
            truncation: form.truncation(),
            usage: None,
            user: form.user(),
            agent_id: None,
            agent_version: None,
            vendor: VendorMembers::default(),
        })
    }

    /// Checks whether the model can be offered functions that run on the server.
    fn takes_functions(&self, request: &ChatRequest) -> bool {
        !self.provider.is_offline()
            && self.provider.takes_tools(&request.model)
            && request.tool_choice != ToolChoice::None
    }

    /// Loads the blocks of an agent's call and the functions that run on the server.
    async fn agent_side(
        &self,
        member: &WorkspaceCaller,
        asking: &Asking<'_>,
        model: &str,
        asked: &RequestedAgent,
        conversation: &Conversation,
        handles: Handles,
    ) -> Result<AgentSide, DbError> {
        let window = self.provider.window(model).await;
        let (caller, can_read) = (&member.caller, asking.can_read);
        let mut limits = Vec::new();
        let mut briefing = Briefing::default();
        let is_offline = self.provider.is_offline();
        // The built-in responder replies without the prompt.
        if can_read && !is_offline {
            let question = conversation.last_question();
            let near = if asked.resolved.profile.vector_stores().is_empty() {
                VectorAnswer::Unused
            } else {
                let (workspace, user) = (member.workspace, caller.user);
                self.meaning.ask(workspace, user, &question).await
            };
            let call = ApiCall {
                workspace: member.workspace,
                requester: caller.user,
                name: &caller.name,
                api_key: caller.key(),
                agent: &asked.resolved,
                question: PassageQuestion::of(&question, &near),
            };
            let mut c = self.db.scan(member.share()).await?;
            briefing = Briefing::load(&mut c, &call, &window).await?;
        }
        if !can_read {
            limits.push("memory");
        }
        let (mut functions, unused) =
            ServerFunctions::find(&self.db, &self.tools, asking, Some(&asked.resolved)).await?;
        functions.limit(self.provider.as_ref(), model).await;
        functions.set_handles(handles);
        limits.extend(unused.functions.then_some("functions"));
        limits.extend(unused.writes.then_some("writes"));
        limits.extend(asked.resolved.profile.delegates().then_some("delegation"));
        Ok(AgentSide {
            functions: Some(functions),
            briefing: briefing.text,
            limits,
        })
    }

    /// Adds as much of the conversation to the request as fits into the model's window. Returns the estimated number of tokens of the
    /// whole prompt.
    async fn fit(
        &self,
        request: &mut ChatRequest,
        mut conversation: Conversation,
        is_cut: bool,
        form: &CreateResponse,
        briefing: &str,
    ) -> Result<u64, ResponseError> {
        let window = self.provider.window(&request.model).await;
        let fixed = fixed_tokens(request) + estimate_tokens(briefing);
        let mut estimate = fixed + conversation.tokens();
        // Estimates are rough, so only a prompt larger than the whole window is rejected before the model is called.
        let exceeds = |estimate| {
            window
                .known_tokens()
                .is_some_and(|tokens| window.corrected(estimate) > tokens)
        };
        let too_large = || ResponseError::ContextTooLarge {
            window: window.known_tokens(),
        };
        if form.truncation() == Truncation::Auto {
            let room = prompt_tokens_max(window.tokens, request.max_output_tokens);
            let room = window.estimate_for(room).saturating_sub(fixed);
            if is_cut || conversation.tokens() > room {
                conversation.shorten(room);
                estimate = fixed + conversation.tokens();
            }
        } else if is_cut {
            return Err(too_large());
        }
        if exceeds(estimate) {
            return Err(too_large());
        }
        request.turns = conversation.turns;
        let tokens = window.corrected(estimate);
        // If the window is not known, the output limit is not reduced to the estimated remaining space.
        if window.known_tokens().is_some() {
            request.max_output_tokens = request
                .max_output_tokens
                .map(|limit| window.output_limit(limit, tokens));
        }
        Ok(tokens)
    }
}
