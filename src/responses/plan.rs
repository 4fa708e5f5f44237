//! Plans a call from a request: agent, model, tools, conversation, and storage.

use std::time::Duration;

use super::{
    CreateResponse, ResponseError, ResponsesService,
    agent::{self, RequestedAgent},
    chain::{self, Before, Previous},
    client_calls::ClientCalls,
    conversation::{Conversation, converse, fixed_tokens, prompt_tokens_max},
    items::Item,
    object::{Response, ResponseObject, Status, TextConfig},
    parsed::Parsed,
    references, store,
    tools::{self, Tool, offer},
    vendor,
};
use crate::{
    agents::{
        policy::{self, Policy},
        profiles::{self, tools::ToolKind},
    },
    auth::{Actor, Caller, Scope, WorkspaceCaller, quota},
    db::{Conn, now},
    ids::{AgentId, ResponseId, WorkspaceId},
    model::{ChatRequest, RequiredFormat, VendorMembers},
    responses::form::{Truncation, output_tokens},
    tasks::queue::{Tenancy, tenancy},
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

/// A call that is ready to start.
pub struct Plan {
    pub(super) workspace: WorkspaceId,
    pub(super) caller: Caller,
    pub(super) tenancy: Tenancy,
    pub(super) agent: Option<(AgentId, i64)>,
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
            return Ok(Some(agent::load(c, actor.workspace, agent, version).await?));
        }
        (None, None) => return Ok(None),
    };
    let found = profiles::find_usable(c, actor, &name).await?;
    let found = found.ok_or(ResponseError::AgentNotFound { name, param })?;
    let version = pinned
        .filter(|(earlier, _)| *earlier == found.id)
        .map_or(found.version, |(_, version)| version);
    Ok(Some(
        agent::load(c, actor.workspace, found.id, version).await?,
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

/// Builds the system prompt from the text that the workspace requires, the instructions of the agent or the request, and the system
/// messages in the conversation.
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
        references::resolve(&mut c, actor, &mut parsed.input).await?;
        let previous = match &form.previous_response_id {
            Some(reference) => Some(chain::find_previous(&mut c, actor, reference).await?),
            None => None,
        };
        let asked = choose_agent(&mut c, actor, form, previous.as_ref()).await?;
        let tenancy = tenancy(&mut c).await?;
        let policy = policy::find(&mut c, actor.workspace).await?;
        if asked.is_none() && !policy.bare_model {
            return Err(ResponseError::BareModelOff);
        }
        let kept = kept(form, asked.as_ref())?;
        if kept.is_some() {
            let bytes = store::counted_bytes(&parsed.input.items, None);
            quota::check_bytes(&mut c, actor.workspace, bytes).await?;
        }
        // The provider may need to be asked for its models, so the connection is released first.
        drop(c);
        let (model, wish) = self.choose_model(form, asked.as_ref()).await?;
        let required_format = self.required_format(&parsed, &model)?;
        let previous_id = previous.as_ref().map(|previous| previous.id);
        let before = self.before(member, actor, previous, &model).await?;
        let mut conversation = converse(&before.items, &parsed.input.items)?;
        let (workspace, user) = (actor.workspace, member.caller.user);
        let mut c = self.db.read().await?;
        vendor::add(&mut c, workspace, user, &model, &mut conversation.turns).await?;
        drop(c);
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
        let response = self.offer_tools(&mut request, form, asked.as_ref(), &policy, &parsed)?;
        let given = before.items.iter().chain(&parsed.input.items);
        let client_calls = ClientCalls::new(&mut request.tools, given);
        client_calls.apply(&mut conversation.turns, &mut request.tool_choice);
        let prompt_tokens = self
            .fit(&mut request, conversation, before.is_cut, form)
            .await?;
        let agent = asked.map(|asked| (asked.agent, asked.version));
        Ok(Plan {
            workspace: actor.workspace,
            caller: member.caller.clone(),
            tenancy,
            agent,
            wish,
            prompt_tokens,
            settings: settings(form, &parsed),
            ignored: parsed.ignored,
            input: parsed.input.items,
            kept,
            client_calls,
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
            if own.iter().any(Tool::is_function) {
                let text = format!(
                    "the model `{}` does not support tools: choose another model, or omit `tools`",
                    request.model
                );
                return Err(ResponseError::unsupported("tools", text));
            }
            // The agent's own functions are dropped, so that the request is not rejected because of them.
            offered = offer(&[], own, may_call);
        }
        let (choice, shown_choice) =
            tools::read_choice(form.tool_choice.as_ref(), &offered.functions)?;
        request.tool_choice = choice;
        request.parallel_tool_calls = form.parallel_tool_calls.filter(|parallel| !parallel);
        request.tools_required = own.iter().any(Tool::is_function);
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

    /// Adds as much of the conversation to the request as fits into the model's window. Returns the estimated number of tokens of the
    /// whole prompt.
    async fn fit(
        &self,
        request: &mut ChatRequest,
        mut conversation: Conversation,
        is_cut: bool,
        form: &CreateResponse,
    ) -> Result<u64, ResponseError> {
        let window = self.provider.window(&request.model).await;
        let fixed = fixed_tokens(request);
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
