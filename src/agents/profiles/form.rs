//! Request bodies that create and change agents, and their validation.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::openapi::{
    RefOr, Schema,
    schema::{AdditionalProperties, ObjectBuilder, SchemaType},
};

use super::{
    AccessControl, Agency, AgentRole, Avatar, Coding, Memory, Profile, Prompting, Reflection, Row,
    Sentiment, SkillList, Subject, Tool, Trust,
    adaptation::Violation,
    parts::AgentStatus,
    stores::can_read_store,
    tools::{IgnoredField, STORES_MAX, attached_stores},
    trust::check_new_trust,
};
use crate::{
    agents::{
        AgentError, personas,
        prompt_profiles::{AUTO, NONE, find_prompt_profiles},
        skills::{find_missing, find_unreadable},
    },
    auth::{Actor, DisplayName, handles},
    db::Conn,
    ids::{AgentId, ChannelId, PersonaId, SandboxPolicyId, UserId, WorkspaceId},
    registry::{self, RegisteredToolKind},
};

/// Maximum size of the instructions in UTF-8 bytes.
pub(super) const INSTRUCTIONS_BYTES_MAX: usize = 256 * 1024;
const IDENTITY_BYTES_MAX: usize = 256 * 1024;
const OUTPUT_TOKENS_MAX: u32 = 1_000_000;
pub(super) const METADATA_KEYS_MAX: usize = 16;
const METADATA_UNITS_MAX: usize = 512;
const DESCRIPTION_UNITS_MAX: usize = 1024;
const CAPABILITIES_MAX: usize = 32;
const CAPABILITY_UNITS_MAX: usize = 64;
const MODEL_UNITS_MAX: usize = 128;
/// Maximum number of characters of a vector store's name in an error.
const STORE_NAME_CHARS_MAX: usize = 80;
const TOOLS_MAX: usize = 64;
/// Maximum number of lines in each list of an agency, and of actions in each list of trust settings.
const LINES_MAX: usize = 50;
const LINE_UNITS_MAX: usize = 1000;
const ROLE_DESCRIPTION_UNITS_MAX: usize = 4000;
const SUBJECTS_MAX: usize = 500;
const EDITORS_MAX: usize = 50;
const SKILLS_MAX: usize = 100;
const ENGINE_UNITS_MAX: usize = 64;
/// Maximum number of characters of a skill's name in an error.
const SKILL_NAME_CHARS_MAX: usize = 64;
const CHANGE_SUMMARY_UNITS_MAX: usize = 240;
const RETENTION_DAYS_MAX: u32 = 36_500;
const APPROVAL_TIMEOUT_S_MAX: u32 = 604_800;

/// Fields that only the server sets; ignored if a client sends an agent back.
const SERVER_FIELDS: &[&str] = &[
    "id",
    "object",
    "workspace_id",
    "version",
    "is_default",
    "is_system",
    "created_at",
    "updated_at",
    "created_by",
    "resolved_from",
    "sandbox",
    "adapts",
    "effective_model",
    "not_in_force",
    "persona",
    "authors",
    "missing_skills",
];

/// Fields of `POST` and `PUT` requests for agents; omitted fields get their defaults.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NewAgent {
    /// `[a-z0-9][a-z0-9_-]{0,63}`, unique among the handles of the workspace.
    pub name: String,
    #[serde(default)]
    pub display_name: Option<String>,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub avatar: Option<Avatar>,
    /// Markdown, at most 256 KiB in total with the instructions of the bases.
    pub instructions: String,
    /// Markdown, at most 256 KiB: the text of IDENTITY.md.
    #[serde(default)]
    pub identity: Option<String>,
    /// Model; null uses the base's model or, if no base sets one, the server's default.
    #[serde(default)]
    pub model: Option<String>,
    /// Output limit in tokens, 1 to 1000000; 4096 by default.
    #[serde(default)]
    pub max_output_tokens: Option<u32>,
    /// 0 to 2; null uses the provider's default.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// 0 to 1; null uses the provider's default.
    #[serde(default)]
    pub top_p: Option<f64>,
    /// At most 32 tags of 1 to 64 characters. They are descriptive and do not grant anything.
    #[serde(default)]
    pub capabilities: Option<Vec<String>>,
    /// `specialist` by default; `primary` makes it the workspace's default agent.
    #[serde(default)]
    pub role: Option<AgentRole>,
    #[serde(default)]
    pub agency: Option<Agency>,
    /// At most 64.
    #[serde(default)]
    pub tools: Option<Vec<Tool>>,
    #[serde(default)]
    pub sandbox_policy_id: Option<String>,
    #[serde(default)]
    pub memory: Option<Memory>,
    #[serde(default)]
    pub prompting: Option<Prompting>,
    #[serde(default)]
    pub sentiment: Option<Sentiment>,
    #[serde(default)]
    pub reflection: Option<Reflection>,
    #[serde(default)]
    pub trust: Option<Trust>,
    /// The persona whose approved text the agent receives.
    #[serde(default)]
    pub persona_id: Option<PersonaId>,
    /// The persona's last approved text when the version was made. Set by the server; ignored in requests.
    #[serde(default, deserialize_with = "ignored")]
    pub persona_text: Option<String>,
    /// `all`, or at most 100 names of skills; null uses the base's.
    #[serde(default)]
    pub skills: Option<SkillList>,
    /// Work on repositories; null uses the base's.
    #[serde(default)]
    pub coding: Option<Coding>,
    /// The agent whose profile is merged in before this agent's own; at most 3 levels.
    #[serde(default)]
    pub base_profile_id: Option<AgentId>,
    /// Null or two empty lists allow everyone.
    #[serde(default)]
    pub access_control: Option<AccessControl>,
    /// At most 50 user IDs and `role:…`: only they and admins can change the agent, its versions, and its files. New agents have their
    /// creator; an empty list allows everyone with `agents:write`.
    #[serde(default)]
    pub editors: Option<Vec<String>>,
    /// Default value of `store` for `/v1/responses`.
    #[serde(default)]
    pub store: Option<bool>,
    /// True if requests cannot opt out of storing responses.
    #[serde(default)]
    pub store_required: Option<bool>,
    /// True by default; false for an agent that only serves as a base.
    #[serde(default)]
    pub mentionable: Option<bool>,
    /// At most 16 pairs; keys and values of at most 512 characters.
    #[serde(default)]
    pub metadata: Option<BTreeMap<String, String>>,
    /// Status; `active` by default. A `PUT` without this field leaves the status unchanged.
    #[serde(default)]
    pub status: Option<AgentStatus>,
    /// Summary of the change for the version history, at most 240 characters. If omitted, the changed fields are listed.
    #[serde(default, skip_serializing)]
    pub change_summary: Option<String>,
    /// Fields that only the server sets; accepted and ignored if an agent is sent back.
    #[serde(flatten)]
    pub server: ServerFields,
}

impl NewAgent {
    /// Schema of the same fields for the API document, with only some of them required.
    pub(in crate::agents) fn schema_with_required(required: &[&str]) -> RefOr<Schema> {
        let mut schema = <Self as utoipa::PartialSchema>::schema();
        if let RefOr::T(Schema::AllOf(all)) = &mut schema {
            for part in &mut all.items {
                if let RefOr::T(Schema::Object(object)) = part {
                    object
                        .required
                        .retain(|name| required.contains(&name.as_str()));
                }
            }
        }
        schema
    }
}

fn ignored<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    IgnoredField::deserialize(d).map(|_| None)
}

const INLINE_PERSONA: &str = "an agent cannot contain a persona: set `persona_id` to the ID of one";

/// Checks whether a field contains a persona without an ID, which the server cannot have returned.
fn is_inline_persona(key: &str, value: &Value) -> bool {
    key == "persona" && !value.is_null() && value.get("id").is_none()
}

/// Checks whether the server can have returned this field. No agent is a system agent.
fn is_from_server(key: &str, value: &Value) -> bool {
    SERVER_FIELDS.contains(&key) && (key != "is_system" || *value == Value::Bool(false))
}

/// Accepts the fields that only the server sets, and rejects all others.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct ServerFields {}

impl<'de> Deserialize<'de> for ServerFields {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let rest: BTreeMap<String, Value> = BTreeMap::deserialize(d)?;
        for (key, value) in &rest {
            if !is_from_server(key, value) {
                return Err(serde::de::Error::custom(format!(
                    "unknown field `{key}`: see the fields of an agent in /docs"
                )));
            }
            if is_inline_persona(key, value) {
                return Err(serde::de::Error::custom(INLINE_PERSONA));
            }
        }
        Ok(Self {})
    }
}

impl utoipa::PartialSchema for ServerFields {
    fn schema() -> RefOr<Schema> {
        let ignored = ObjectBuilder::new()
            .schema_type(SchemaType::AnyValue)
            .description(Some("Set by the server; ignored in requests."))
            .build();
        let fields = SERVER_FIELDS
            .iter()
            .fold(ObjectBuilder::new(), |object, name| {
                object.property(*name, ignored.clone())
            });
        fields
            .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(false)))
            .into()
    }
}

impl utoipa::ToSchema for ServerFields {}

/// Fields of `PATCH` requests for agents: omitted fields are unchanged, `null` clears a field. `tools`, `memory`, and
/// `agency` are replaced as a whole; `metadata` is merged by key, and `null` removes a key.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct AgentPatch(Map<String, Value>);

impl utoipa::PartialSchema for AgentPatch {
    fn schema() -> RefOr<Schema> {
        let mut schema = NewAgent::schema_with_required(&[]);
        if let RefOr::T(Schema::AllOf(all)) = &mut schema {
            all.description = Some(
                "Omitted fields are unchanged; `null` clears a field. `metadata` is merged by key, and `null` removes a key."
                    .to_owned(),
            );
        }
        schema
    }
}

impl utoipa::ToSchema for AgentPatch {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        <NewAgent as utoipa::ToSchema>::schemas(schemas);
    }
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

fn invalid(param: &'static str, text: impl Into<String>) -> AgentError {
    AgentError::Invalid(text.into(), param)
}

/// Parses a list of editors, and removes duplicates.
fn parse_editors(texts: Vec<String>) -> Result<Vec<Subject>, AgentError> {
    let mut editors: Vec<Subject> = Vec::new();
    for text in texts {
        let editor = text
            .parse()
            .map_err(|rule: String| invalid("editors", rule))?;
        if !editors.contains(&editor) {
            editors.push(editor);
        }
    }
    if editors.len() > EDITORS_MAX {
        let rule = format!("at most {EDITORS_MAX} users and roles are allowed: use a role");
        return Err(invalid("editors", rule));
    }
    Ok(editors)
}

/// Parses the summary of a change; blank text counts as omitted.
///
/// # Errors
/// `Invalid`.
pub(super) fn parse_change_summary(text: Option<String>) -> Result<Option<String>, AgentError> {
    let text = text.map(|text| text.trim().to_owned());
    let text = text.filter(|text| !text.is_empty());
    if text
        .as_deref()
        .is_some_and(|text| units(text) > CHANGE_SUMMARY_UNITS_MAX)
    {
        let rule =
            format!("the summary is too long; the limit is {CHANGE_SUMMARY_UNITS_MAX} characters");
        return Err(invalid("change_summary", rule));
    }
    Ok(text)
}

/// Returns true if there are at most `count_max` texts of 1 to `units_max` characters each.
fn lines_fit(lines: &[String], count_max: usize, units_max: usize) -> bool {
    lines.len() <= count_max
        && lines
            .iter()
            .all(|line| !line.trim().is_empty() && units(line) <= units_max)
}

/// Checks a profile against all rules that do not depend on other objects.
pub(super) fn check(profile: &Profile) -> Result<(), AgentError> {
    if let Some(name) = &profile.display_name {
        DisplayName::parse_stored(name, "display_name")?;
    }
    if profile.instructions.trim().is_empty() {
        return Err(invalid(
            "instructions",
            "the instructions are blank: describe what the agent is for",
        ));
    }
    if profile.instructions.len() > INSTRUCTIONS_BYTES_MAX {
        return Err(AgentError::InstructionsTooLarge(profile.instructions.len()));
    }
    if let Some(identity) = &profile.identity
        && identity.len() > IDENTITY_BYTES_MAX
    {
        return Err(AgentError::FileTooLarge(identity.len()));
    }
    check_texts(profile)?;
    check_numbers(profile)?;
    check_lists(profile)?;
    check_metadata(&profile.metadata)
}

fn check_texts(profile: &Profile) -> Result<(), AgentError> {
    if profile
        .description
        .as_deref()
        .is_some_and(|text| units(text) > DESCRIPTION_UNITS_MAX)
    {
        return Err(invalid(
            "description",
            format!("the description is too long; the limit is {DESCRIPTION_UNITS_MAX} characters"),
        ));
    }
    let names_model = |text: &str| !text.trim().is_empty() && units(text) <= MODEL_UNITS_MAX;
    let model_rule = || {
        format!(
            "the model name must have 1 to {MODEL_UNITS_MAX} characters; null selects the server's default"
        )
    };
    if !profile.model.as_deref().is_none_or(names_model) {
        return Err(invalid("model", model_rule()));
    }
    if let Some(memory) = &profile.memory {
        if !memory.summary_model.as_deref().is_none_or(names_model) {
            return Err(invalid("memory.summary_model", model_rule()));
        }
        if memory.vector_store_ids.len() > STORES_MAX {
            let rule = format!("at most {STORES_MAX} vector stores can be attached");
            return Err(invalid("memory.vector_store_ids", rule));
        }
    }
    match &profile.avatar {
        Some(avatar) => check_avatar(avatar),
        None => Ok(()),
    }
}

/// # Errors
/// `Invalid`.
pub(in crate::agents) fn check_avatar(avatar: &Avatar) -> Result<(), AgentError> {
    let color_fits = avatar.color.as_deref().is_none_or(|color| {
        color.len() == 7
            && color.starts_with('#')
            && color[1..].bytes().all(|b| b.is_ascii_hexdigit())
    });
    if !color_fits {
        return Err(invalid(
            "avatar.color",
            "the color must have the form #rrggbb",
        ));
    }
    if avatar
        .emoji
        .as_deref()
        .is_some_and(|emoji| emoji.trim().is_empty() || units(emoji) > 16)
    {
        return Err(invalid("avatar.emoji", "the avatar must be a single emoji"));
    }
    Ok(())
}

fn check_numbers(profile: &Profile) -> Result<(), AgentError> {
    if profile
        .max_output_tokens
        .is_some_and(|n| !(1..=OUTPUT_TOKENS_MAX).contains(&n))
    {
        return Err(invalid(
            "max_output_tokens",
            format!("max_output_tokens must be from 1 to {OUTPUT_TOKENS_MAX}"),
        ));
    }
    if profile
        .temperature
        .is_some_and(|t| !(0.0..=2.0).contains(&t))
    {
        return Err(invalid("temperature", "temperature must be from 0 to 2"));
    }
    if profile.top_p.is_some_and(|t| !(0.0..=1.0).contains(&t)) {
        return Err(invalid("top_p", "top_p must be from 0 to 1"));
    }
    if let Some(memory) = &profile.memory
        && memory
            .conversation_retention_days
            .is_some_and(|days| days > RETENTION_DAYS_MAX)
    {
        return Err(invalid(
            "memory.conversation_retention_days",
            format!("conversation_retention_days must be from 0 to {RETENTION_DAYS_MAX}"),
        ));
    }
    check_adaptation(profile).map_err(|violation| invalid(violation.param, violation.text))
}

fn check_adaptation(profile: &Profile) -> Result<(), Violation> {
    if let Some(sentiment) = &profile.sentiment {
        sentiment.check()?;
    }
    if let Some(reflection) = &profile.reflection {
        reflection.check()?;
    }
    Ok(())
}

fn check_lists(profile: &Profile) -> Result<(), AgentError> {
    if !lines_fit(
        &profile.capabilities,
        CAPABILITIES_MAX,
        CAPABILITY_UNITS_MAX,
    ) {
        return Err(invalid(
            "capabilities",
            format!(
                "at most {CAPABILITIES_MAX} tags of 1 to {CAPABILITY_UNITS_MAX} characters are allowed"
            ),
        ));
    }
    if profile.tools.len() > TOOLS_MAX {
        return Err(invalid(
            "tools",
            format!("at most {TOOLS_MAX} tools are allowed"),
        ));
    }
    check_tools_once(&profile.tools)?;
    for tool in &profile.tools {
        if let Some(problem) = tool.problem() {
            return Err(invalid("tools", problem));
        }
    }
    if let Some(agency) = &profile.agency {
        let fits = agency
            .lists()
            .iter()
            .all(|(_, lines)| lines_fit(lines, LINES_MAX, LINE_UNITS_MAX));
        let described = agency
            .role_description
            .as_deref()
            .is_none_or(|text| units(text) <= ROLE_DESCRIPTION_UNITS_MAX);
        if !fits || !described {
            return Err(invalid(
                "agency",
                format!(
                    "role_description can have at most {ROLE_DESCRIPTION_UNITS_MAX} characters, and each list at most {LINES_MAX} lines of 1 to {LINE_UNITS_MAX} characters"
                ),
            ));
        }
    }
    if let Some(trust) = &profile.trust {
        let lists = [&trust.autonomous, &trust.approve, &trust.escalate];
        let rules_fit = trust.approval_rules.len() <= LINES_MAX
            && trust.approval_rules.iter().all(|rule| {
                (1..=CAPABILITY_UNITS_MAX).contains(&units(rule.action.trim()))
                    && rule
                        .timeout_s
                        .is_none_or(|s| (1..=APPROVAL_TIMEOUT_S_MAX).contains(&s))
                    && (rule.requires == super::parts::Approver::SpecificUser)
                        == rule.user_id.is_some()
            });
        if !rules_fit
            || !lists
                .iter()
                .all(|list| lines_fit(list, LINES_MAX, CAPABILITY_UNITS_MAX))
        {
            return Err(invalid(
                "trust",
                "each list can have at most 50 actions of 1 to 64 characters; a rule must have a user_id if, and only if, it requires specific_user, and a timeout_s from 1 to 604800",
            ));
        }
    }
    if let Some(coding) = &profile.coding {
        let is_name = |name: &String| (1..=ENGINE_UNITS_MAX).contains(&units(name.trim()));
        let is_amount = |usd: f64| usd.is_finite() && usd > 0.0;
        if !coding.engine.as_ref().is_none_or(is_name) || !coding.usd_max.is_none_or(is_amount) {
            return Err(invalid(
                "coding",
                "the engine must have 1 to 64 characters, and usd_max must be above 0",
            ));
        }
    }
    let skills = profile.skills.as_ref().map_or(&[][..], SkillList::names);
    if skills.len() > SKILLS_MAX {
        return Err(invalid(
            "skills",
            format!("at most {SKILLS_MAX} skills are allowed"),
        ));
    }
    if let Some(access) = &profile.access_control
        && access.allowed_subjects.len() + access.denied_subjects.len() > SUBJECTS_MAX
    {
        return Err(invalid(
            "access_control",
            format!("at most {SUBJECTS_MAX} users and roles are allowed"),
        ));
    }
    Ok(())
}

fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), AgentError> {
    if metadata.len() > METADATA_KEYS_MAX {
        return Err(invalid(
            "metadata",
            format!("metadata can have at most {METADATA_KEYS_MAX} keys"),
        ));
    }
    if metadata.iter().any(|(key, value)| {
        key.is_empty() || units(key) > METADATA_UNITS_MAX || units(value) > METADATA_UNITS_MAX
    }) {
        return Err(invalid(
            "metadata",
            format!("metadata keys and values can have at most {METADATA_UNITS_MAX} characters"),
        ));
    }
    Ok(())
}

/// Fails if two tools have the same kind and name, because a model could not distinguish them.
fn check_tools_once(tools: &[Tool]) -> Result<(), AgentError> {
    for (n, tool) in tools.iter().enumerate() {
        if tools[..n].iter().any(|other| other.key() == tool.key()) {
            let (kind, name) = tool.key();
            return Err(AgentError::DuplicateTool(match name {
                Some(name) => name.to_owned(),
                None => kind.as_str().to_owned(),
            }));
        }
    }
    Ok(())
}

/// Checks that the registry contains the tool that an agent's tool refers to, and copies the name of a function or the label
/// of a server.
async fn check_registered(
    c: &mut Conn,
    workspace: WorkspaceId,
    tool: &mut Tool,
) -> Result<(), AgentError> {
    let Some(id) = tool.registry_id().map(str::to_owned) else {
        return Ok(());
    };
    let found = registry::find_named(c, workspace, &id).await?;
    match (tool, found) {
        (Tool::Function(tool), Some((RegisteredToolKind::Function, name))) => {
            tool.name.get_or_insert(name);
            Ok(())
        }
        (Tool::Mcp(tool), Some((RegisteredToolKind::Mcp, name))) => {
            let label = tool.server_label.get_or_insert_with(|| name.clone());
            if *label == name {
                return Ok(());
            }
            let text = format!("the server_label of {id} is `{name}`: use it, or omit it");
            Err(invalid("tools", text))
        }
        _ => Err(AgentError::NoSuchTool(id)),
    }
}

/// Checks that the objects referenced by a profile exist in its workspace, and copies the text of its persona; the base is looked up
/// during the merge. References that `before` already had may be stale, except for those to registered tools and sandbox policies.
pub(in crate::agents) async fn check_names(
    c: &mut Conn,
    actor: &Actor<'_>,
    profile: &mut Profile,
    before: Option<&Profile>,
) -> Result<(), AgentError> {
    let workspace = actor.workspace;
    profile.persona_text = match profile.persona_id {
        Some(id) => {
            let found = personas::find_approved(c, workspace, id).await?;
            found.ok_or(AgentError::NoSuchPersona(id))?
        }
        None => None,
    };
    check_preset(c, workspace, profile, before).await?;
    let own = profile.sandbox_policy_id.iter();
    let of_tools = profile.tools.iter().filter_map(|tool| match tool {
        Tool::CodeInterpreter(tool) => tool.sandbox_policy_id.as_ref(),
        _ => None,
    });
    for id in own.chain(of_tools) {
        let unknown = || AgentError::NoSuchSandboxPolicy(id.clone());
        let parsed: SandboxPolicyId = id.parse().map_err(|_| unknown())?;
        c.q("select id from sandbox_policies where workspace_id = $1 and id = $2")
            .bind(workspace)
            .bind(parsed)
            .opt::<(SandboxPolicyId,)>()
            .await?
            .ok_or_else(unknown)?;
    }
    for tool in &mut profile.tools {
        let is_stored = before.is_some_and(|before| before.tools.contains(tool));
        if !is_stored && let Some(problem) = tool.problem_if_new() {
            return Err(invalid("tools", problem));
        }
        check_registered(c, workspace, tool).await?;
    }
    // Checked again, because names may have been copied from the registry.
    check_tools_once(&profile.tools)?;
    check_filters(c, actor, profile, before).await?;
    check_stores(c, actor, profile, before).await?;
    check_skills(c, actor, profile, before).await?;
    if let Some(trust) = &profile.trust {
        let stored = before.and_then(|before| before.trust.as_ref());
        check_new_trust(c, workspace, trust, stored).await?;
    }
    let known = before.map(listed_people).unwrap_or_default();
    let listed = listed_people(profile).into_iter();
    for (user, field) in listed.filter(|person| !known.contains(person)) {
        c.q("select user_id from members where workspace_id = $1 and user_id = $2")
            .bind(workspace)
            .bind(user)
            .opt::<(UserId,)>()
            .await?
            .ok_or_else(|| AgentError::NoSuchMember(user.to_string(), field))?;
    }
    Ok(())
}

/// People in the lists of a profile, with the field of each.
fn listed_people(profile: &Profile) -> Vec<(UserId, &'static str)> {
    let access = profile
        .access_control
        .iter()
        .flat_map(AccessControl::people);
    let editors = profile
        .editors
        .iter()
        .flatten()
        .filter_map(|subject| subject.person());
    access
        .map(|user| (user, "access_control"))
        .chain(editors.map(|user| (user, "editors")))
        .collect()
}

/// Checks that the actor can read the channels to which searches are newly restricted.
async fn check_filters(
    c: &mut Conn,
    actor: &Actor<'_>,
    profile: &Profile,
    before: Option<&Profile>,
) -> Result<(), AgentError> {
    let stored = before.map(searched_channels).unwrap_or_default();
    let mut named = searched_channels(profile);
    named.retain(|channel| !stored.contains(channel));
    match registry::find_hidden_channel(c, actor, &named).await? {
        Some(channel) => Err(AgentError::NoSuchChannel(channel, "tools")),
        None => Ok(()),
    }
}

/// Checks that the actor can read the vector stores that are newly attached.
async fn check_stores(
    c: &mut Conn,
    actor: &Actor<'_>,
    profile: &Profile,
    before: Option<&Profile>,
) -> Result<(), AgentError> {
    let stored = before.map_or_else(Vec::new, Profile::vector_stores);
    let of_tools = attached_stores(&profile.tools);
    for name in profile.vector_stores() {
        if stored.contains(&name) || can_read_store(c, actor, name, None).await? {
            continue;
        }
        let param = if of_tools.contains(&name) {
            "tools"
        } else {
            "memory.vector_store_ids"
        };
        let name = name.chars().take(STORE_NAME_CHARS_MAX).collect();
        return Err(AgentError::NoSuchVectorStore(name, param));
    }
    Ok(())
}

/// Checks that the actor can read the skills that are newly named. Names of skills that were deleted later stay valid.
async fn check_skills(
    c: &mut Conn,
    actor: &Actor<'_>,
    profile: &Profile,
    before: Option<&Profile>,
) -> Result<(), AgentError> {
    let named = |profile: &Profile| {
        profile
            .skills
            .as_ref()
            .map_or(Vec::new(), |list| list.names().to_vec())
    };
    let stored = before.map(named).unwrap_or_default();
    let mut new = named(profile);
    new.retain(|name| !stored.contains(name));
    match find_unreadable(c, actor, &new).await? {
        Some(name) => Err(AgentError::NoSuchSkill(
            name.chars().take(SKILL_NAME_CHARS_MAX).collect(),
        )),
        None => Ok(()),
    }
}

fn searched_channels(profile: &Profile) -> Vec<ChannelId> {
    let filters = profile.tools.iter().filter_map(|tool| match tool {
        Tool::FileSearch(tool) => tool.channels(),
        _ => None,
    });
    filters.flatten().collect()
}

fn preset_of(profile: &Profile) -> Option<&str> {
    profile.prompting.as_ref()?.profile.as_deref()
}

/// Checks that `prompting.profile` is a preset of the workspace, or a reserved word.
async fn check_preset(
    c: &mut Conn,
    workspace: WorkspaceId,
    profile: &Profile,
    before: Option<&Profile>,
) -> Result<(), AgentError> {
    let Some(preset) = preset_of(profile) else {
        return Ok(());
    };
    if before.and_then(preset_of) == Some(preset) || is_known(c, workspace, preset).await? {
        return Ok(());
    }
    let preset: String = preset.chars().take(64).collect();
    let rule = format!(
        "the workspace has no reply style `{preset}`: choose another one, `{AUTO}`, or `{NONE}`"
    );
    Err(invalid("prompting.profile", rule))
}

/// Returns true for the presets of the workspace and the reserved words.
async fn is_known(c: &mut Conn, workspace: WorkspaceId, preset: &str) -> Result<bool, AgentError> {
    if [AUTO, NONE].contains(&preset) {
        return Ok(true);
    }
    let profiles = find_prompt_profiles(c, workspace).await?;
    Ok(profiles.content.preset(preset).is_some())
}

/// Unsets the persona and `prompting.profile`, and removes registered tools and skills, if they were deleted after the profile was stored.
pub(super) async fn unset_deleted(
    c: &mut Conn,
    workspace: WorkspaceId,
    profile: &mut Profile,
) -> Result<(), AgentError> {
    if let Some(id) = profile.persona_id
        && personas::find_approved(c, workspace, id).await?.is_none()
    {
        profile.persona_id = None;
    }
    let missing = find_missing(c, workspace, profile.skills.as_ref()).await?;
    if let Some(SkillList::Named(names)) = &mut profile.skills {
        names.retain(|name| !missing.contains(name));
    }
    let mut kept = Vec::with_capacity(profile.tools.len());
    for tool in std::mem::take(&mut profile.tools) {
        let is_deleted = match tool.registry_id() {
            Some(id) => registry::find_named(c, workspace, id).await?.is_none(),
            None => false,
        };
        if !is_deleted {
            kept.push(tool);
        }
    }
    profile.tools = kept;
    let Some(prompting) = &mut profile.prompting else {
        return Ok(());
    };
    let Some(preset) = &prompting.profile else {
        return Ok(());
    };
    if !is_known(c, workspace, preset).await? {
        prompting.profile = None;
    }
    Ok(())
}

/// The parts of a form: fields stored in the version, fields stored in the row, and additional actions.
#[derive(Debug, Clone)]
pub struct Parts {
    pub name: String,
    pub mentionable: bool,
    pub profile: Profile,
    /// `None` leaves the status unchanged.
    pub status: Option<AgentStatus>,
    /// The requested role, if any.
    pub role: Option<AgentRole>,
    /// Summary of the change, as written by the requester.
    pub change_summary: Option<String>,
}

impl NewAgent {
    /// # Errors
    /// `Invalid` with the field, `InstructionsTooLarge`, `FileTooLarge` for the identity, or an error about the name.
    pub fn into_parts(self) -> Result<Parts, AgentError> {
        handles::check(&self.name, "name")?;
        let role = self.role;
        let filled = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        let profile = Profile {
            display_name: self.display_name,
            description: filled(self.description),
            avatar: self.avatar,
            instructions: self.instructions,
            identity: filled(self.identity),
            model: self.model,
            max_output_tokens: self.max_output_tokens,
            temperature: self.temperature,
            top_p: self.top_p,
            capabilities: self.capabilities.unwrap_or_default(),
            role: role.filter(|role| *role != AgentRole::Primary),
            agency: self.agency.filter(|agency| *agency != Agency::default()),
            tools: self.tools.unwrap_or_default(),
            sandbox_policy_id: self.sandbox_policy_id,
            memory: self.memory,
            prompting: self.prompting,
            sentiment: self.sentiment,
            reflection: self.reflection,
            trust: self.trust,
            persona_id: self.persona_id,
            // Filled in later from the persona.
            persona_text: None,
            skills: self.skills,
            coding: self.coding,
            base_profile_id: self.base_profile_id,
            access_control: self.access_control.filter(|access| !access.is_open()),
            editors: self.editors.map(parse_editors).transpose()?,
            store: self.store,
            store_required: self.store_required,
            metadata: self.metadata.unwrap_or_default(),
            files: BTreeMap::new(),
        };
        check(&profile)?;
        Ok(Parts {
            name: self.name,
            mentionable: self.mentionable.unwrap_or(true),
            profile,
            status: self.status,
            role,
            change_summary: parse_change_summary(self.change_summary)?,
        })
    }

    /// The form that would create this agent.
    pub(super) fn of(row: &Row) -> Self {
        let profile = row.profile.0.clone();
        Self {
            name: row.name.clone(),
            mentionable: Some(row.mentionable),
            ..Self::of_profile(profile)
        }
    }

    /// All fields except those stored in the row: name, mentionable, and status.
    pub(super) fn of_profile(profile: Profile) -> Self {
        Self {
            display_name: profile.display_name,
            description: profile.description,
            avatar: profile.avatar,
            instructions: profile.instructions,
            identity: profile.identity,
            model: profile.model,
            max_output_tokens: profile.max_output_tokens,
            temperature: profile.temperature,
            top_p: profile.top_p,
            capabilities: Some(profile.capabilities),
            role: profile.role.filter(|role| *role != AgentRole::Primary),
            agency: profile.agency,
            tools: Some(profile.tools),
            sandbox_policy_id: profile.sandbox_policy_id,
            memory: profile.memory,
            prompting: profile.prompting,
            sentiment: profile.sentiment,
            reflection: profile.reflection,
            trust: profile.trust,
            persona_id: profile.persona_id,
            persona_text: profile.persona_text,
            skills: profile.skills,
            coding: profile.coding,
            base_profile_id: profile.base_profile_id,
            access_control: profile.access_control,
            editors: profile
                .editors
                .map(|editors| editors.iter().map(ToString::to_string).collect()),
            store: profile.store,
            store_required: profile.store_required,
            metadata: Some(profile.metadata),
            ..Self::default()
        }
    }
}

impl AgentPatch {
    /// Creates a patch of one field.
    pub fn of(field: &str, value: impl Into<Value>) -> Self {
        Self(Map::from_iter([(field.to_owned(), value.into())]))
    }

    /// Returns true if the patch contains this field, even as `null`.
    pub(super) fn names(&self, field: &str) -> bool {
        self.0.contains_key(field)
    }

    #[must_use]
    pub fn and(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.0.insert(field.to_owned(), value.into());
        self
    }

    /// Applies this patch to the current state and returns the complete form.
    ///
    /// # Errors
    /// `Malformed` with the field's path.
    pub(super) fn over(&self, row: &Row) -> Result<NewAgent, AgentError> {
        let mut form = match serde_json::to_value(NewAgent::of(row)) {
            Ok(Value::Object(form)) => form,
            _ => Map::new(),
        };
        for (key, value) in &self.0 {
            if is_inline_persona(key, value) {
                return Err(AgentError::Malformed(
                    INLINE_PERSONA.to_owned(),
                    key.clone(),
                ));
            }
            if is_from_server(key, value) {
                continue;
            }
            if key == "metadata"
                && let (Value::Object(pairs), Some(Value::Object(kept))) =
                    (value, form.get_mut("metadata"))
            {
                for (key, value) in pairs {
                    if value.is_null() {
                        kept.remove(key);
                    } else {
                        kept.insert(key.clone(), value.clone());
                    }
                }
            } else if value.is_null() && ["name", "instructions"].contains(&key.as_str()) {
                return Err(AgentError::Malformed(
                    format!("{key} cannot be null: omit it to leave it unchanged"),
                    key.clone(),
                ));
            } else {
                form.insert(key.clone(), value.clone());
            }
        }
        parse_form(Value::Object(form))
    }
}

/// # Errors
/// `Malformed` with the field's path.
pub(in crate::agents) fn parse_form(form: Value) -> Result<NewAgent, AgentError> {
    serde_path_to_error::deserialize(form).map_err(|e| {
        let path = e.path().to_string();
        AgentError::Malformed(e.into_inner().to_string(), path)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn new_agent() -> NewAgent {
        serde_json::from_value(json!({"name": "ops", "instructions": "Keep the lights on."}))
            .unwrap()
    }

    #[test]
    fn limits_are_counted_in_their_own_units() {
        let mut agent = new_agent();
        agent.instructions = "ü".repeat(INSTRUCTIONS_BYTES_MAX / 2);
        assert!(agent.clone().into_parts().is_ok());
        agent.instructions.push('x');
        assert!(matches!(
            agent.into_parts(),
            Err(AgentError::InstructionsTooLarge(_))
        ));
        let mut agent = new_agent();
        let pairs = |n: usize| (0..n).map(|n| (n.to_string(), String::new())).collect();
        agent.metadata = Some(pairs(16));
        assert!(agent.clone().into_parts().is_ok());
        agent.metadata = Some(pairs(17));
        assert!(agent.into_parts().is_err());
    }

    #[test]
    fn server_set_fields_are_ignored_and_unknown_fields_are_rejected() {
        let mut sent = json!({"name": "ops", "instructions": "Keep.", "version": 7, "created_at": null, "is_default": true});
        assert!(parse_form(sent.clone()).is_ok());
        sent["colour"] = json!("red");
        let Err(AgentError::Malformed(text, _)) = parse_form(sent) else {
            panic!("an unknown field was accepted");
        };
        assert!(text.contains("colour"), "{text}");
    }

    #[test]
    fn a_wrong_type_names_its_field() {
        let sent = json!({"name": "ops", "instructions": "Keep.", "metadata": {"a": 1}});
        let Err(AgentError::Malformed(_, path)) = parse_form(sent) else {
            panic!("a number was accepted as a string");
        };
        assert!(path.starts_with("metadata"), "{path}");
    }
}
