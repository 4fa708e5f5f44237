//! Agents and their profiles, as they are stored and shown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    agents::personas::{NamedPersona, PipelineStatus},
    db::Json,
    ids::{AgentId, PersonaId, UserId, WorkspaceId},
    model::Provider,
    text_enum::constant,
    time::Timestamp,
};

use super::{
    adaptation::{Reflection, Sentiment},
    authors::Authors,
    parts::{
        AccessControl, Agency, AgentRole, AgentStatus, Avatar, Coding, Memory, Prompting,
        SkillList, Subject, Trust,
    },
    tools::{DelegateTool, NamedTools, Tool, ToolKind, UnavailableBecause},
};

/// Default output limit in tokens, if neither the agent nor a base sets one.
pub const MAX_OUTPUT_TOKENS_DEFAULT: u32 = 4096;

/// The versioned part of an agent, before its bases are merged in. Unset fields are inherited from the base.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    pub display_name: Option<String>,
    pub description: Option<String>,
    pub avatar: Option<Avatar>,
    pub instructions: String,
    /// The text of IDENTITY.md.
    pub identity: Option<String>,
    pub model: Option<String>,
    pub max_output_tokens: Option<u32>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub capabilities: Vec<String>,
    /// Role; never `primary`.
    pub role: Option<AgentRole>,
    pub agency: Option<Agency>,
    pub tools: Vec<Tool>,
    pub sandbox_policy_id: Option<String>,
    pub memory: Option<Memory>,
    pub prompting: Option<Prompting>,
    pub sentiment: Option<Sentiment>,
    pub reflection: Option<Reflection>,
    pub trust: Option<Trust>,
    pub persona_id: Option<PersonaId>,
    /// The persona's last approved text when the version was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persona_text: Option<String>,
    /// Skills that the agent can use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<SkillList>,
    /// Work on repositories; `None` for an agent that only chats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coding: Option<Coding>,
    pub base_profile_id: Option<AgentId>,
    pub access_control: Option<AccessControl>,
    /// People and roles that can change the agent, besides admins; not inherited. `None` allows everyone with `agents:write`.
    pub editors: Option<Vec<Subject>>,
    pub store: Option<bool>,
    pub store_required: Option<bool>,
    pub metadata: BTreeMap<String, String>,
    /// The agent's own AGENTS.md and TOOLS.md, by path. They are not inherited.
    pub files: BTreeMap<String, String>,
}

impl Profile {
    /// Display name, or the handle if none is set.
    pub fn shown_name<'a>(&'a self, name: &'a str) -> &'a str {
        self.display_name.as_deref().unwrap_or(name)
    }

    pub(super) fn has_summary(&self) -> bool {
        self.description.is_some() || !self.capabilities.is_empty()
    }

    /// Tools available in replies. An orchestrator has `delegate` even if it is not listed.
    pub fn reply_tools(&self) -> Vec<Tool> {
        let mut tools = self.tools.clone();
        let is_listed = tools.iter().any(|tool| tool.kind() == ToolKind::Delegate);
        if self.role == Some(AgentRole::Orchestrator) && !is_listed {
            tools.push(Tool::Delegate(DelegateTool::default()));
        }
        tools
    }

    /// Checks whether replies can have functions: for tools, or for skills.
    pub fn has_functions(&self) -> bool {
        self.skills.is_some() || !self.reply_tools().is_empty()
    }

    /// Checks whether replies can delegate work to other agents.
    pub fn delegates(&self) -> bool {
        let tools = self.reply_tools();
        tools.iter().any(|tool| tool.kind() == ToolKind::Delegate)
    }

    /// Fields that are set but have no effect. `allowed` lists the tools that the workspace allows, if it restricts them.
    pub(crate) fn not_in_force(&self, allowed: Option<&[ToolKind]>) -> Vec<&'static str> {
        let may_delegate =
            self.delegates() && allowed.is_none_or(|kinds| kinds.contains(&ToolKind::Delegate));
        let agency = self.agency.as_ref();
        let has_rules = agency.is_some_and(|agency| !agency.delegation_rules.is_empty());
        let has = |is_set: fn(&Tool) -> bool| self.tools.iter().any(is_set);
        let fields = [
            (
                "role",
                self.role
                    .is_some_and(|role| role != AgentRole::Orchestrator),
            ),
            ("agency.delegation_rules", has_rules && !may_delegate),
            // A function that needs no approval does not need to be listed.
            (
                "trust.autonomous",
                (self.trust.as_ref()).is_some_and(|trust| !trust.autonomous.is_empty()),
            ),
            // These fields of OpenAI's tools have no effect: the sandbox policy controls code, and the registry
            // describes servers.
            (
                "tools.container",
                has(|tool| matches!(tool, Tool::CodeInterpreter(code) if code.container.is_some())),
            ),
            (
                "tools.server_description",
                has(|tool| matches!(tool, Tool::Mcp(mcp) if mcp.server_description.is_some())),
            ),
        ];
        let set = fields.into_iter().filter(|(_, is_set)| *is_set);
        set.map(|(field, _)| field).collect()
    }

    /// Returns true if the agent adapts to people who allow it.
    pub fn adapts(&self) -> bool {
        self.sentiment.as_ref().is_some_and(Sentiment::is_on)
            || self.reflection.as_ref().is_some_and(Reflection::is_on)
    }

    /// Maximum length of the agent's replies in tokens.
    pub fn output_tokens_max(&self) -> u32 {
        self.output_tokens_max_for(0)
    }

    /// Maximum length of the agent's replies, to which a model adds `reasoning_tokens` if the profile sets no limit.
    pub fn output_tokens_max_for(&self, reasoning_tokens: u32) -> u32 {
        self.max_output_tokens
            .unwrap_or(MAX_OUTPUT_TOKENS_DEFAULT.saturating_add(reasoning_tokens))
    }
}

/// The part of a profile that lists and search use. It is a separate column so that lists do not load long texts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::agents) struct Brief {
    pub(super) display_name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) avatar: Option<Avatar>,
    pub(super) capabilities: Vec<String>,
    pub(super) role: Option<AgentRole>,
    pub(super) model: Option<String>,
    /// The profile's own model, or the base's if the profile does not set one.
    pub(super) resolved_model: Option<String>,
    pub(super) base_profile_id: Option<AgentId>,
    pub(super) access_control: Option<AccessControl>,
    pub(super) metadata: BTreeMap<String, String>,
    /// True if the profile, including its bases, turns on adaptation to people.
    pub(super) adapts: bool,
    /// Skills of the profile, or of its bases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) skills: Option<SkillList>,
}

impl Brief {
    pub(super) fn new(profile: &Profile, resolved: &Profile) -> Self {
        Self {
            resolved_model: resolved.model.clone(),
            display_name: profile.display_name.clone(),
            description: profile.description.clone(),
            avatar: profile.avatar.clone(),
            capabilities: profile.capabilities.clone(),
            role: profile.role,
            model: profile.model.clone(),
            base_profile_id: profile.base_profile_id,
            access_control: profile.access_control.clone(),
            metadata: profile.metadata.clone(),
            adapts: resolved.adapts(),
            skills: resolved.skills.clone(),
        }
    }
}

/// The model that replies: `model` if the server has that model, otherwise the server's default. Null if the server has no language
/// model.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct EffectiveModel(Option<String>);

constant! { pub AgentObject = "agent_profile" }

/// An agent with the fields included in lists and events.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct AgentSummary {
    pub id: AgentId,
    #[schema(inline)]
    pub object: AgentObject,
    /// The agent's handle.
    pub name: String,
    pub display_name: Option<String>,
    pub description: Option<String>,
    pub avatar: Option<Avatar>,
    pub capabilities: Vec<String>,
    /// `primary` is the workspace's default agent.
    pub role: AgentRole,
    /// Model; null uses the base's model or, if no base sets one, the server's default.
    pub model: Option<String>,
    /// The model that replies. Omitted in events, because it depends on the server's settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub effective_model: Option<EffectiveModel>,
    /// The configured model: the agent's own, or the base's if the agent does not set one.
    #[serde(skip)]
    pub wanted_model: Option<String>,
    /// False for an agent that only serves as a base.
    pub mentionable: bool,
    /// True if the agent, including its bases, is set to adapt to people who allow it. The workspace can forbid this.
    pub adapts: bool,
    pub is_default: bool,
    pub is_system: bool,
    pub status: AgentStatus,
    pub version: i64,
    /// The agent whose profile is merged in before this agent's own.
    pub base_profile_id: Option<AgentId>,
    /// Access list; null allows everyone.
    pub access_control: Option<AccessControl>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl AgentSummary {
    /// Determines the model that replies.
    pub async fn set_effective_model(&mut self, provider: &dyn Provider) {
        let wanted = self.wanted_model.as_deref();
        self.effective_model = Some(EffectiveModel(provider.effective_model(wanted).await));
    }
}

/// A tool, and whether replies can use it.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct ShownTool {
    #[serde(flatten)]
    pub tool: Tool,
    /// True if replies can use the tool.
    pub available: bool,
    /// Null for an available tool. In events, `code_interpreter` is always reported as `no_runner`.
    pub unavailable_because: Option<UnavailableBecause>,
}

impl ShownTool {
    fn new(tool: Tool, unavailable_because: Option<UnavailableBecause>) -> Self {
        Self {
            tool,
            available: unavailable_because.is_none(),
            unavailable_because,
        }
    }
}

/// A complete agent.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Agent {
    #[serde(flatten)]
    pub summary: AgentSummary,
    pub workspace_id: WorkspaceId,
    /// Markdown; the agent's personality as one text.
    pub instructions: String,
    /// Markdown; the text of IDENTITY.md.
    pub identity: Option<String>,
    /// Output limit in tokens; 4096 if unset, null if inherited from a base.
    pub max_output_tokens: Option<u32>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub agency: Option<Agency>,
    pub tools: Vec<ShownTool>,
    pub sandbox_policy_id: Option<String>,
    pub memory: Option<Memory>,
    pub prompting: Option<Prompting>,
    pub sentiment: Option<Sentiment>,
    pub reflection: Option<Reflection>,
    pub trust: Option<Trust>,
    pub persona_id: Option<PersonaId>,
    /// The persona with the ID in `persona_id`.
    pub persona: Option<NamedPersona>,
    /// Skills that the agent can use where everyone who reads the reply can read them; null uses the base's.
    pub skills: Option<SkillList>,
    /// Names in `skills` that no skill of the workspace has.
    pub missing_skills: Vec<String>,
    /// Work on repositories, where one is allowed in the channel; null for an agent that only chats.
    pub coding: Option<Coding>,
    /// People (`user_…`) and roles (`role:…`) that can change the agent, besides admins. Empty allows everyone with `agents:write`.
    #[schema(value_type = Vec<String>)]
    pub editors: Vec<Subject>,
    pub authors: Authors,
    pub store: Option<bool>,
    pub store_required: Option<bool>,
    pub metadata: BTreeMap<String, String>,
    /// Fields that are stored but have no effect yet.
    pub not_in_force: Vec<&'static str>,
    /// Null for a workspace's initial agents.
    pub created_by: Option<UserId>,
    /// The agent's own AGENTS.md and TOOLS.md, by path.
    #[serde(skip)]
    pub files: BTreeMap<String, String>,
}

#[derive(Debug, Clone, sqlx::FromRow)]
pub(in crate::agents) struct Row {
    pub(super) id: AgentId,
    pub(super) workspace_id: WorkspaceId,
    pub(super) name: String,
    pub(super) status: AgentStatus,
    pub(super) is_system: bool,
    pub(super) mentionable: bool,
    pub(super) version: i64,
    pub(super) profile: Json<Profile>,
    pub(super) summary: Json<Brief>,
    /// The profile's own access lists, or the base's if the profile does not set any.
    pub(super) access: Option<Json<AccessControl>>,
    pub(super) created_by: Option<UserId>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) default_agent_id: Option<AgentId>,
    pub(super) allowed_tools: Option<Json<Vec<ToolKind>>>,
    /// Name and status of the persona that the agent itself sets.
    pub(super) persona_name: Option<String>,
    pub(super) persona_status: Option<PipelineStatus>,
    /// Registered tools; loaded separately, and only for complete agents.
    #[sqlx(skip)]
    pub(super) servers: NamedTools,
    /// Authors of the parts; loaded like `servers`.
    #[sqlx(skip)]
    pub(super) authors: Authors,
    /// Names of skills that do not exist; loaded like `servers`.
    #[sqlx(skip)]
    pub(super) missing_skills: Vec<String>,
}

impl Row {
    pub(super) fn is_default(&self) -> bool {
        self.default_agent_id == Some(self.id)
    }

    pub(super) fn access(&self) -> Option<&AccessControl> {
        self.access.as_ref().map(|access| &access.0)
    }

    /// The persona that the agent itself sets.
    fn persona(&self, profile: &Profile) -> Option<NamedPersona> {
        let is_own = profile.persona_id == self.profile.0.persona_id;
        Some(NamedPersona {
            id: profile.persona_id.filter(|_| is_own)?,
            name: self.persona_name.clone()?,
            pipeline_status: self.persona_status?,
            is_sent: profile.persona_text.is_some(),
        })
    }

    /// Builds the agent with a profile other than its own, without the persona of a base.
    pub(super) fn with_profile(&self, profile: Profile) -> Agent {
        let allowed = self.allowed_tools.as_ref().map(|kinds| kinds.0.as_slice());
        let has_base = profile.base_profile_id.is_some();
        let not_in_force = profile.not_in_force(allowed);
        let persona = self.persona(&profile);
        Agent {
            summary: AgentSummary {
                id: self.id,
                object: AgentObject,
                name: self.name.clone(),
                display_name: profile.display_name,
                description: profile.description,
                avatar: profile.avatar,
                capabilities: profile.capabilities,
                role: shown_role(self.is_default(), profile.role),
                effective_model: None,
                wanted_model: profile
                    .model
                    .clone()
                    .or(self.summary.0.resolved_model.clone()),
                model: profile.model,
                mentionable: self.mentionable,
                adapts: self.summary.0.adapts,
                is_default: self.is_default(),
                is_system: self.is_system,
                status: self.status,
                version: self.version,
                base_profile_id: profile.base_profile_id,
                access_control: profile.access_control,
                created_at: self.created_at,
                updated_at: self.updated_at,
            },
            workspace_id: self.workspace_id,
            instructions: profile.instructions,
            identity: profile.identity,
            max_output_tokens: profile
                .max_output_tokens
                .or((!has_base).then_some(MAX_OUTPUT_TOKENS_DEFAULT)),
            temperature: profile.temperature,
            top_p: profile.top_p,
            agency: profile.agency,
            tools: profile
                .tools
                .into_iter()
                .map(|tool| {
                    let problem = tool.unavailable_because(allowed, &self.servers);
                    ShownTool::new(tool, problem)
                })
                .collect(),
            sandbox_policy_id: profile.sandbox_policy_id,
            memory: profile.memory,
            prompting: profile.prompting,
            sentiment: profile.sentiment,
            reflection: profile.reflection,
            trust: profile.trust,
            persona_id: profile.persona_id,
            persona,
            skills: profile.skills,
            missing_skills: self.missing_skills.clone(),
            coding: profile.coding,
            editors: profile.editors.unwrap_or_default(),
            authors: self.authors.clone(),
            store: profile.store,
            store_required: profile.store_required,
            metadata: profile.metadata,
            not_in_force,
            created_by: self.created_by,
            files: profile.files,
        }
    }
}

/// The default agent is always `primary`, whatever its profile contains.
pub(in crate::agents) fn shown_role(is_default: bool, stored: Option<AgentRole>) -> AgentRole {
    match stored {
        _ if is_default => AgentRole::Primary,
        None | Some(AgentRole::Primary) => AgentRole::Specialist,
        Some(role) => role,
    }
}

impl Agent {
    /// Marks the agent's model as having no effect, because the server uses another one for all agents.
    pub fn override_model(&mut self, model: &str) {
        let own = self.summary.wanted_model.as_deref();
        if own.is_some_and(|own| own != model) {
            self.not_in_force.insert(0, "model");
        }
    }

    /// Checks whether a tool of the agent needs a runner for code.
    pub fn needs_code_runner(&self) -> bool {
        let is_without =
            |shown: &ShownTool| shown.unavailable_because == Some(UnavailableBecause::NoRunner);
        self.tools.iter().any(is_without)
    }

    /// Marks tools that run code as available. The database does not record whether the operator configured a runner.
    pub fn permit_code(&mut self) {
        for shown in &mut self.tools {
            if shown.unavailable_because == Some(UnavailableBecause::NoRunner) {
                *shown = ShownTool::new(shown.tool.clone(), None);
            }
        }
    }
}

impl From<Row> for Agent {
    fn from(row: Row) -> Self {
        row.with_profile(row.profile.0.clone())
    }
}
