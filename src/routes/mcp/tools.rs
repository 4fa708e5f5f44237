//! The tools: names, titles, descriptions, scopes, annotations, and schemas.

use std::sync::{Arc, LazyLock};

use rmcp::model::{JsonObject, Tool, ToolAnnotations};

use super::{read, schema, write};
use crate::{
    auth::{Scope, Scopes},
    chat::{channels::ListedChannel, post::PostedMessage, threads::MyThread},
    forks::resolution::Resolution,
    ids::{ForkId, ThreadId},
    routes::forks::{ForkForm, NewForkSeen, ResolveForm, Resolving},
    text_enum::text_enum,
};

/// Scopes of tools that only read.
const READ: &[Scope] = &[Scope::ChatRead];

text_enum! {
    /// Name of a tool.
    pub(super) enum McpTool {
        SearchMessages = "search_messages",
        ReadThread = "read_thread",
        SearchDecisions = "search_decisions",
        ListActionItems = "list_action_items",
        ReadFile = "read_file",
        ListChannels = "list_channels",
        ListThreads = "list_threads",
        PostMessage = "post_message",
        StartFork = "start_fork",
        ResolveFork = "resolve_fork",
    }
}

/// The definition of each tool, in the order of `McpTool::ALL`.
static DEFINITIONS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let tools = McpTool::ALL.iter().copied();
    tools.map(McpTool::definition).collect()
});

/// Returns the definitions of the tools that these scopes allow.
pub(super) fn offered(scopes: &Scopes) -> Vec<Tool> {
    let is_allowed = |tool: &McpTool| tool.scopes().iter().all(|scope| scopes.has(*scope));
    let tools = McpTool::ALL.iter().zip(DEFINITIONS.iter());
    tools
        .filter(|(tool, _)| is_allowed(tool))
        .map(|(_, definition)| definition.clone())
        .collect()
}

impl McpTool {
    /// Returns the schema of the tool's arguments.
    pub(super) fn input_schema(self) -> Option<&'static JsonObject> {
        let mut tools = McpTool::ALL.iter().zip(DEFINITIONS.iter());
        let (_, definition) = tools.find(|(tool, _)| **tool == self)?;
        Some(&*definition.input_schema)
    }

    /// Returns the scopes that the routes of the tool require.
    fn scopes(self) -> &'static [Scope] {
        match self {
            Self::SearchMessages
            | Self::ReadThread
            | Self::SearchDecisions
            | Self::ListActionItems
            | Self::ReadFile
            | Self::ListChannels
            | Self::ListThreads => READ,
            Self::PostMessage | Self::StartFork => &[Scope::ChatWrite],
            Self::ResolveFork => &[Scope::ChatWrite, Scope::AgentsUse],
        }
    }

    /// Returns true if the tool does not change anything.
    pub(super) fn is_read(self) -> bool {
        self.scopes() == READ
    }

    /// Returns true if the tool can discard people's edits.
    fn is_destructive(self) -> bool {
        self == Self::ResolveFork
    }

    fn title(self) -> &'static str {
        match self {
            Self::SearchMessages => "Search messages",
            Self::ReadThread => "Read a thread",
            Self::SearchDecisions => "Search decisions",
            Self::ListActionItems => "List action items",
            Self::ReadFile => "Read a file",
            Self::ListChannels => "List channels",
            Self::ListThreads => "List threads",
            Self::PostMessage => "Post a message",
            Self::StartFork => "Start a deep dive",
            Self::ResolveFork => "Resolve a deep dive",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::SearchMessages => {
                "Search the messages that you can see, the best first, each with the part around the words and its neighbors."
            }
            Self::ReadThread => {
                "Read up to 50 messages (128 KiB) of a thread or a deep dive, oldest first: the newest ones if `before` is left out."
            }
            Self::SearchDecisions => "Search published results of deep dives, newest first.",
            Self::ListActionItems => "List action items of published results, newest first.",
            Self::ReadFile => "Read a text file that is attached to a message, 31 KiB at a time.",
            Self::ListChannels => "List the channels that you can see, oldest first.",
            Self::ListThreads => "List the threads of a channel, latest activity first.",
            Self::PostMessage => {
                "Post a message in a thread or a deep dive, or start a thread in a channel. Agents that it mentions reply."
            }
            Self::StartFork => "Start a deep dive from a message of a thread.",
            Self::ResolveFork => {
                "Draft the result of a deep dive in the background, for people to edit and publish. `publish` publishes it at once, \
                 without people; `replace_draft` discards their edits of an earlier draft."
            }
        }
    }

    fn input(self) -> JsonObject {
        match self {
            Self::SearchMessages => schema::input::<read::MessageSearch>(),
            Self::ReadThread => schema::input::<read::ThreadPart>(),
            Self::SearchDecisions => schema::input::<read::DecisionSearch>(),
            Self::ListActionItems => schema::input::<read::ItemsFilter>(),
            Self::ReadFile => schema::input::<read::FilePart>(),
            Self::ListChannels => schema::input::<read::ChannelsPage>(),
            Self::ListThreads => schema::input::<read::ThreadsPage>(),
            Self::PostMessage => schema::input::<write::NewMessage>(),
            Self::StartFork => schema::input_with::<ForkForm, ThreadId>(write::THREAD_ID),
            Self::ResolveFork => schema::input_with::<ResolveForm, ForkId>(write::FORK_ID),
        }
    }

    fn output(self) -> JsonObject {
        match self {
            Self::SearchMessages => schema::output::<read::McpHits>(),
            Self::ReadThread => schema::output::<read::McpThread>(),
            Self::SearchDecisions => schema::output_list::<Resolution>(),
            Self::ListActionItems => schema::output::<read::McpItems>(),
            Self::ReadFile => schema::output::<read::McpFileText>(),
            Self::ListChannels => schema::output_list::<ListedChannel>(),
            Self::ListThreads => schema::output_list::<MyThread>(),
            Self::PostMessage => schema::output::<PostedMessage>(),
            Self::StartFork => schema::output::<NewForkSeen>(),
            Self::ResolveFork => schema::output::<Resolving>(),
        }
    }

    fn definition(self) -> Tool {
        let annotations = ToolAnnotations::with_title(self.title())
            .read_only(self.is_read())
            .destructive(self.is_destructive())
            .idempotent(self.is_read())
            .open_world(false);
        Tool::new(self.as_str(), self.description(), self.input())
            .with_title(self.title())
            .with_raw_output_schema(Arc::new(self.output()))
            .with_annotations(annotations)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Map, Value};

    use super::*;

    /// Collects the keywords of a schema, and the types in it.
    fn words(value: &Value, into: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                into.extend(map.keys().cloned());
                map.values().for_each(|value| words(value, into));
            }
            Value::Array(list) => list.iter().for_each(|value| words(value, into)),
            Value::String(text) => drop(into.insert(text.clone())),
            _ => {}
        }
    }

    #[test]
    fn schemas_are_small_objects_without_references_and_null_types() {
        for tool in DEFINITIONS.iter() {
            let output = tool.output_schema.as_deref().unwrap();
            for schema in [&*tool.input_schema, output] {
                let schema = Value::Object(Map::clone(schema));
                assert_eq!(schema["type"], "object", "{}", tool.name);
                let mut found = BTreeSet::new();
                words(&schema, &mut found);
                for word in ["$ref", "$defs", "null"] {
                    assert!(!found.contains(word), "{}: {word} in {schema}", tool.name);
                }
            }
            let bytes = Value::Object(output.clone()).to_string().len();
            assert!(bytes <= schema::OUTPUT_BYTES_MAX, "{}: {bytes}", tool.name);
            let properties = output["properties"].as_object().unwrap();
            assert!(!properties.is_empty(), "{}", tool.name);
        }
    }

    #[test]
    fn arguments_that_routes_take_from_their_paths_are_required() {
        for (tool, name) in [
            (McpTool::StartFork, write::THREAD_ID),
            (McpTool::ResolveFork, write::FORK_ID),
        ] {
            let schema = Value::Object(tool.input());
            assert!(schema["properties"][name].is_object(), "{tool}");
            let required = schema["required"].as_array().unwrap();
            assert!(required.contains(&name.into()), "{tool}");
            assert!(schema["properties"].as_object().unwrap().len() > 1);
        }
    }
}
