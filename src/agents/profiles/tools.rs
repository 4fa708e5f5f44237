//! Tools of an agent, as tool objects of the `OpenAI` Responses API.
//!
//! A `function` is run by the client of `/v1/responses`, so it is offered to the model only there. The other kinds provide the
//! functions that replies call. A server is referred to by its ID in the registry; a URL alone is stored but has no effect.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};

use crate::{
    db::{Conn, DbError},
    ids::{ChannelId, ToolId, VectorStoreId, WorkspaceId},
    registry::{self, DESCRIPTION_UNITS_MAX, PARAMETERS_BYTES_MAX, UsableTool},
    tasks::BriefContext,
    text_enum::text_enum,
};

macro_rules! tools {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
            /// The registered tool of the workspace to which this tool refers.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub registry_id: Option<String>,
            /// Set by the server; ignored in requests.
            #[serde(default, skip_serializing_if = "IgnoredField::always")]
            #[schema(value_type = Value)]
            available: IgnoredField,
            /// Set by the server; ignored in requests.
            #[serde(default, skip_serializing_if = "IgnoredField::always")]
            #[schema(value_type = Value)]
            unavailable_because: IgnoredField,
        }
    )+};
}

/// Accepts any value and discards it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct IgnoredField;

impl IgnoredField {
    /// Always true: the field is never serialized.
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn always(_: &Self) -> bool {
        true
    }
}

impl<'de> Deserialize<'de> for IgnoredField {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(d).map(|_| Self)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequireApproval {
    Always,
    Never,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RankingOptions {
    /// Always `auto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranker: Option<String>,
    /// 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_threshold: Option<f64>,
}

fn id_or_object() -> Schema {
    OneOfBuilder::new()
        .item(ObjectBuilder::new().schema_type(Type::String))
        .item(ObjectBuilder::new().schema_type(Type::Object))
        .item(ObjectBuilder::new().schema_type(Type::Null))
        .description(Some("An ID, or an object such as `{\"type\":\"auto\"}`."))
        .into()
}

tools! {
    /// A function that the client of `/v1/responses` runs.
    FunctionTool {
        /// 1 to 64 letters, digits, `_`, or `-`. With `registry_id`, the registered name by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// JSON schema of the arguments.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Object>)]
        parameters: Option<Map<String, Value>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        strict: Option<bool>,
    }
    /// A Model Context Protocol server.
    McpTool {
        /// 1 to 64 letters, digits, `_`, or `-`. With `registry_id`, the label can be omitted; if it is set, it must equal the
        /// registered name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server_label: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server_url: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server_description: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        allowed_tools: Option<Vec<String>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        require_approval: Option<RequireApproval>,
    }
    FileSearchTool {
        /// Vector stores whose passages that match a question are in its prompt: IDs, `vs_HANDLE`, or IDs of channels; at most 10.
        #[serde(default)]
        vector_store_ids: Vec<String>,
        /// Maximum number of hits of each search, including searches for decisions and action items; 1 to 50.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_num_results: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ranking_options: Option<RankingOptions>,
        /// `{"channel_ids": […]}`: only these channels are searched and read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Object>)]
        filters: Option<Map<String, Value>>,
    }
    CodeInterpreterTool {
        /// Container: an ID, or an object such as `{"type":"auto"}`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(schema_with = id_or_object)]
        container: Option<Value>,
        /// Sandbox policy that overrides the agent's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sandbox_policy_id: Option<String>,
    }
    WebFetchTool {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        allowed_domains: Option<Vec<String>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blocked_domains: Option<Vec<String>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_uses: Option<u32>,
    }
    DelegateTool {
        /// Names of the agents to which the agent can delegate; if absent, all agents that the requester can invoke.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agents: Option<Vec<String>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Context that the other agents receive; `brief` by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<BriefContext>,
        /// Maximum number of rounds in which a reply can delegate: 1 to 10, 6 by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rounds_max: Option<i64>,
        /// Maximum total costs in US dollars of all tasks below a reply; calls beyond this limit fail. Models without a known
        /// price are not limited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usd_max: Option<f64>,
    }
}

/// A tool object, tagged by its `type`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Tool {
    Function(FunctionTool),
    Mcp(McpTool),
    FileSearch(FileSearchTool),
    CodeInterpreter(CodeInterpreterTool),
    WebFetch(WebFetchTool),
    Delegate(DelegateTool),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    Function,
    Mcp,
    FileSearch,
    CodeInterpreter,
    WebFetch,
    Delegate,
}

impl ToolKind {
    /// The value of `type` for this kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Mcp => "mcp",
            Self::FileSearch => "file_search",
            Self::CodeInterpreter => "code_interpreter",
            Self::WebFetch => "web_fetch",
            Self::Delegate => "delegate",
        }
    }
}

text_enum! {
    /// Reason why replies of an agent cannot use a tool.
    pub enum UnavailableBecause {
        /// Only clients of `/v1/responses` run the tool.
        ClientOnly = "client_only",
        /// The operator has not configured a code runner.
        NoRunner = "no_runner",
        /// The tool does not refer to a server in the registry.
        NotRegistered = "not_registered",
        /// The workspace does not allow this type.
        NotAllowed = "not_allowed",
        /// None of the server's functions that the agent may use is accepted.
        NotAccepted = "not_accepted",
        /// An admin turned the tool off.
        Disabled = "disabled",
        /// A vector store that is attached to the agent was deleted.
        NotFound = "not_found",
    }
}

/// Objects to which an agent's tools refer.
#[derive(Debug, Clone, Default)]
pub struct NamedTools {
    registered: HashMap<ToolId, UsableTool>,
    /// Names of attached vector stores that no longer exist.
    missing_stores: HashSet<String>,
}

impl NamedTools {
    pub(super) async fn read(
        c: &mut Conn,
        workspace: WorkspaceId,
        tools: &[Tool],
    ) -> Result<Self, DbError> {
        let mut named = Self::default();
        if tools.iter().any(|tool| tool.registry_id().is_some()) {
            named.registered = registry::list_usable(c, workspace).await?;
        }
        for name in attached_stores(tools) {
            if !has_store(c, workspace, name).await? {
                named.missing_stores.insert(name.to_owned());
            }
        }
        Ok(named)
    }

    fn find(&self, id: Option<&str>) -> Option<&UsableTool> {
        let id: ToolId = id?.parse().ok()?;
        self.registered.get(&id)
    }

    fn problem_of_function(&self, tool: &FunctionTool) -> UnavailableBecause {
        let id = tool.registry_id.as_deref();
        match self.find(id) {
            None if id.is_some() => UnavailableBecause::NotRegistered,
            Some(registered) if !registered.is_enabled => UnavailableBecause::Disabled,
            _ => UnavailableBecause::ClientOnly,
        }
    }

    fn problem_of_server(&self, tool: &McpTool) -> Option<UnavailableBecause> {
        let Some(server) = self.find(tool.registry_id.as_deref()) else {
            return Some(UnavailableBecause::NotRegistered);
        };
        if !server.is_enabled {
            return Some(UnavailableBecause::Disabled);
        }
        let is_allowed = |name: &String| {
            let allowed = tool.allowed_tools.as_ref();
            allowed.is_none_or(|names| names.contains(name))
        };
        let has_function = server.accepted.iter().any(is_allowed);
        (!has_function).then_some(UnavailableBecause::NotAccepted)
    }
}

/// Names of the vector stores that tools attach to their agent.
pub fn attached_stores(tools: &[Tool]) -> Vec<&str> {
    let named = tools.iter().filter_map(|tool| match tool {
        Tool::FileSearch(tool) => Some(&tool.vector_store_ids),
        _ => None,
    });
    named.flatten().map(String::as_str).collect()
}

/// Checks whether a workspace has a vector store, or a channel, with this name.
async fn has_store(c: &mut Conn, workspace: WorkspaceId, name: &str) -> Result<bool, DbError> {
    c.q("select exists (select 1 from vector_stores v where v.workspace_id = $1 and v.deleted_at is null and (v.id = $2 or v.handle = $3)) \
         or exists (select 1 from channels ch where ch.workspace_id = $1 and ch.id = $4)")
        .bind(workspace)
        .bind(VectorStoreId::parse(name).ok())
        .bind(name.strip_prefix("vs_").map(str::to_owned))
        .bind(ChannelId::parse(name).ok())
        .value()
        .await
}

/// Maximum number of rounds in which a reply can delegate, if the tool sets no limit.
const DELEGATING_ROUNDS_DEFAULT: i64 = 6;

impl DelegateTool {
    pub fn rounds_max(&self) -> i64 {
        self.rounds_max.unwrap_or(DELEGATING_ROUNDS_DEFAULT)
    }
}

impl Default for DelegateTool {
    /// Allows delegation to every agent that the requester can invoke.
    fn default() -> Self {
        Self {
            agents: None,
            description: None,
            context: None,
            rounds_max: None,
            usd_max: None,
            registry_id: None,
            available: IgnoredField,
            unavailable_because: IgnoredField,
        }
    }
}

const NAME_BYTES_MAX: usize = 64;
const NAMES_MAX: usize = 128;
/// Maximum number of vector stores in a list that attaches them to an agent or a channel.
pub const STORES_MAX: usize = 10;

fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn is_long(description: Option<&str>) -> bool {
    description.is_some_and(|text| text.encode_utf16().count() > DESCRIPTION_UNITS_MAX)
}

/// Checks whether a list has too many names, or an empty one.
fn has_bad_names(names: Option<&[String]>) -> bool {
    names.is_some_and(|names| names.len() > NAMES_MAX || names.iter().any(String::is_empty))
}

impl FunctionTool {
    fn problem(&self) -> Option<&'static str> {
        let is_large =
            |schema| serde_json::to_vec(schema).is_ok_and(|text| text.len() > PARAMETERS_BYTES_MAX);
        if self.name.is_none() && self.registry_id.is_none() {
            Some("a function needs a name or a registry_id")
        } else if self.name.as_deref().is_some_and(|name| !is_name(name)) {
            Some("a function name must have 1 to 64 letters, digits, `_`, or `-`")
        } else if is_long(self.description.as_deref()) {
            Some("a function description can have at most 4096 characters")
        } else if self.parameters.as_ref().is_some_and(is_large) {
            Some("the parameters of a function can be at most 32 KiB")
        } else {
            None
        }
    }
}

impl McpTool {
    fn problem(&self) -> Option<&'static str> {
        let is_url = |url: &str| {
            (url.starts_with("https://") || url.starts_with("http://")) && url.len() <= 2048
        };
        if self.server_label.is_none() && self.registry_id.is_none() {
            Some("an MCP tool needs a registry_id or a server_label")
        } else if !self.server_label.as_deref().is_none_or(is_name) {
            Some("a server_label must have 1 to 64 letters, digits, `_`, or `-`")
        } else if !self.server_url.as_deref().is_none_or(is_url) {
            Some("a server_url must be an http or https URL")
        } else if is_long(self.server_description.as_deref())
            || has_bad_names(self.allowed_tools.as_deref())
        {
            Some(
                "an MCP tool can have a description of at most 4096 characters and at most 128 allowed_tools",
            )
        } else {
            None
        }
    }
}

impl FileSearchTool {
    fn problem(&self) -> Option<&'static str> {
        let ranking = self.ranking_options.as_ref();
        let threshold = ranking.and_then(|options| options.score_threshold);
        let ranker = ranking.and_then(|options| options.ranker.as_deref());
        if self.max_num_results.is_some_and(|n| !(1..=50).contains(&n)) {
            Some("max_num_results must be from 1 to 50")
        } else if threshold.is_some_and(|score| !(0.0..=1.0).contains(&score)) {
            Some("score_threshold must be from 0 to 1")
        } else if self.vector_store_ids.len() > STORES_MAX {
            Some("vector_store_ids can have at most 10 vector stores")
        } else if ranker.is_some_and(|ranker| ranker != "auto") {
            Some("the ranker must be auto")
        } else if !self.filters.as_ref().is_none_or(names_channels) {
            Some("filters must be {\"channel_ids\": […]} with IDs of channels")
        } else {
            None
        }
    }
}

impl WebFetchTool {
    fn problem(&self) -> Option<&'static str> {
        let is_bad = has_bad_names(self.allowed_domains.as_deref())
            || has_bad_names(self.blocked_domains.as_deref());
        is_bad.then_some("at most 128 domains are allowed, and none can be empty")
    }
}

impl DelegateTool {
    fn problem(&self) -> Option<&'static str> {
        if is_long(self.description.as_deref()) || has_bad_names(self.agents.as_deref()) {
            Some("at most 128 agents and a description of at most 4096 characters are allowed")
        } else if self
            .rounds_max
            .is_some_and(|rounds| !(1..=10).contains(&rounds))
        {
            Some("rounds_max must be from 1 to 10")
        } else if self
            .usd_max
            .is_some_and(|usd| usd <= 0.0 || !usd.is_finite())
        {
            Some("usd_max must be above 0")
        } else {
            None
        }
    }
}

impl Tool {
    pub fn kind(&self) -> ToolKind {
        match self {
            Self::Function(_) => ToolKind::Function,
            Self::Mcp(_) => ToolKind::Mcp,
            Self::FileSearch(_) => ToolKind::FileSearch,
            Self::CodeInterpreter(_) => ToolKind::CodeInterpreter,
            Self::WebFetch(_) => ToolKind::WebFetch,
            Self::Delegate(_) => ToolKind::Delegate,
        }
    }

    /// Reason why replies cannot use the tool; `None` if they can. `allowed` lists the kinds that the workspace permits; `None`
    /// permits all. Does not consider whether this server can run code; see `Agent::permit_code`.
    pub fn unavailable_because(
        &self,
        allowed: Option<&[ToolKind]>,
        registered: &NamedTools,
    ) -> Option<UnavailableBecause> {
        if allowed.is_some_and(|kinds| !kinds.contains(&self.kind())) {
            return Some(UnavailableBecause::NotAllowed);
        }
        match self {
            Self::Function(tool) => Some(registered.problem_of_function(tool)),
            Self::Mcp(tool) => registered.problem_of_server(tool),
            Self::CodeInterpreter(_) => Some(UnavailableBecause::NoRunner),
            Self::FileSearch(tool) => {
                let mut stores = tool.vector_store_ids.iter();
                let is_missing = stores.any(|name| registered.missing_stores.contains(name));
                is_missing.then_some(UnavailableBecause::NotFound)
            }
            Self::WebFetch(_) | Self::Delegate(_) => None,
        }
    }

    /// Identity of a tool: its kind, and its name or label if the kind has one.
    pub fn key(&self) -> (ToolKind, Option<&str>) {
        let name = match self {
            Self::Function(tool) => tool.name.as_deref().or(tool.registry_id.as_deref()),
            Self::Mcp(tool) => tool.registry_id.as_deref().or(tool.server_label.as_deref()),
            _ => None,
        };
        (self.kind(), name)
    }

    pub fn registry_id(&self) -> Option<&str> {
        match self {
            Self::Function(tool) => tool.registry_id.as_deref(),
            Self::Mcp(tool) => tool.registry_id.as_deref(),
            Self::FileSearch(tool) => tool.registry_id.as_deref(),
            Self::CodeInterpreter(tool) => tool.registry_id.as_deref(),
            Self::WebFetch(tool) => tool.registry_id.as_deref(),
            Self::Delegate(tool) => tool.registry_id.as_deref(),
        }
    }

    /// Describes an invalid value, if there is one; the structure was checked during deserialization.
    pub fn problem(&self) -> Option<String> {
        let problem = match self {
            Self::Function(tool) => tool.problem(),
            Self::Mcp(tool) => tool.problem(),
            Self::FileSearch(tool) => tool.problem(),
            Self::WebFetch(tool) => tool.problem(),
            Self::Delegate(tool) => tool.problem(),
            Self::CodeInterpreter(_) => None,
        };
        problem.map(str::to_owned)
    }

    /// Describes a value that is rejected only in new tools, because existing agents may contain it.
    pub fn problem_if_new(&self) -> Option<&'static str> {
        match self {
            Self::Mcp(tool) if tool.registry_id.is_some() && tool.server_url.is_some() => {
                Some("a registered server has its address in the registry: omit server_url")
            }
            _ => None,
        }
    }
}

impl FileSearchTool {
    /// Channels to which searches are restricted; `None` for all. A filter with an empty list finds nothing.
    pub fn channels(&self) -> Option<Vec<ChannelId>> {
        let named = self.filters.as_ref()?.get("channel_ids");
        let ids = named.and_then(Value::as_array).into_iter().flatten();
        let ids = ids.filter_map(Value::as_str);
        Some(ids.filter_map(|id| ChannelId::parse(id).ok()).collect())
    }
}

/// Checks that the filters of a search consist of a list of channel IDs.
fn names_channels(filters: &Map<String, Value>) -> bool {
    let ids = filters.get("channel_ids").and_then(Value::as_array);
    let is_id = |id: &Value| id.as_str().is_some_and(|id| ChannelId::parse(id).is_ok());
    filters.len() == 1 && ids.is_some_and(|ids| ids.len() <= NAMES_MAX && ids.iter().all(is_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(value: serde_json::Value) -> Result<Tool, serde_json::Error> {
        serde_json::from_value(value)
    }

    #[test]
    fn known_tool_kinds_are_parsed_and_unknown_ones_rejected() {
        for kind in ["file_search", "code_interpreter", "web_fetch", "delegate"] {
            assert!(tool(serde_json::json!({"type": kind})).is_ok(), "{kind}");
        }
        assert!(tool(serde_json::json!({"type": "time_machine"})).is_err());
        assert!(tool(serde_json::json!({"name": "f"})).is_err());
        assert!(tool(serde_json::json!({"type": "function", "name": "f", "colour": 1})).is_err());
    }

    #[test]
    fn server_set_fields_of_a_tool_may_be_sent_back() {
        let sent = serde_json::json!({"type": "function", "name": "f", "available": false, "unavailable_because": "client_only"});
        let read = tool(sent).unwrap();
        assert_eq!(
            serde_json::to_value(&read).unwrap(),
            serde_json::json!({"type": "function", "name": "f"})
        );
    }

    #[test]
    fn an_unavailable_tool_has_its_first_reason() {
        use UnavailableBecause::{
            ClientOnly, Disabled, NoRunner, NotAccepted, NotAllowed, NotFound, NotRegistered,
        };
        let (jira, off, empty, gone) = (ToolId::new(), ToolId::new(), ToolId::new(), ToolId::new());
        let server = |is_enabled, accepted: &[&str]| UsableTool {
            is_enabled,
            accepted: accepted.iter().map(|name| (*name).to_owned()).collect(),
        };
        let servers = NamedTools {
            registered: HashMap::from([
                (jira, server(true, &["search", "create"])),
                (off, server(false, &["search"])),
                (empty, server(true, &[])),
            ]),
            missing_stores: HashSet::from(["vs_gone".to_owned()]),
        };
        let stores =
            |names: &[&str]| serde_json::json!({"type": "file_search", "vector_store_ids": names});
        let mcp = |id: ToolId| serde_json::json!({"type": "mcp", "registry_id": id});
        let function =
            |id: ToolId| serde_json::json!({"type": "function", "name": "f", "registry_id": id});
        let only = |name: &str| serde_json::json!({"type": "mcp", "registry_id": jira, "allowed_tools": [name]});
        let by_address = serde_json::json!({"type": "mcp", "server_label": "jira", "server_url": "https://jira.example"});
        for (value, reason) in [
            (
                serde_json::json!({"type": "function", "name": "f"}),
                Some(ClientOnly),
            ),
            (function(empty), Some(ClientOnly)),
            (function(off), Some(Disabled)),
            (function(gone), Some(NotRegistered)),
            (serde_json::json!({"type": "web_fetch"}), None),
            (serde_json::json!({"type": "file_search"}), None),
            (stores(&["vs_here"]), None),
            (stores(&["vs_here", "vs_gone"]), Some(NotFound)),
            (
                serde_json::json!({"type": "code_interpreter"}),
                Some(NoRunner),
            ),
            (serde_json::json!({"type": "delegate"}), None),
            (mcp(jira), None),
            (only("create"), None),
            (only("wipe"), Some(NotAccepted)),
            (mcp(off), Some(Disabled)),
            (mcp(empty), Some(NotAccepted)),
            (mcp(gone), Some(NotRegistered)),
            (by_address, Some(NotRegistered)),
        ] {
            let tool = tool(value.clone()).unwrap();
            assert_eq!(tool.unavailable_because(None, &servers), reason, "{value}");
            let none: &[ToolKind] = &[];
            assert_eq!(
                tool.unavailable_because(Some(none), &servers),
                Some(NotAllowed)
            );
        }
    }
}
