//! Built-in functions. They read only what both the requester and every reader of the conversation
//! can read.

pub mod done;
pub mod files;
mod options;
mod outcomes;
mod passages;
pub mod places;
mod search;
pub mod skills;
mod threads;

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use serde_json::{Map, Value, json};

use self::options::Options;
pub use self::passages::MEANING_ONLY;
use super::{
    function::ToolFunction,
    output::ToolOutput,
    rights,
    runner::{Call, CallError, ToolRunner, ToolTask},
};
use crate::{
    agents::profiles::{ActionName, Tool, ToolKind},
    db::{Db, DbError, Share},
    files::Blobs,
    meaning::{Meaning, VectorAnswer},
    model::FunctionTool,
    text_enum::text_enum,
    tool_fault::{ToolErrorCode, ToolFault},
};

text_enum! {
    /// Name of a built-in function.
    enum BuiltIn {
        SearchMessages = "search_messages",
        ReadThread = "read_thread",
        SearchDecisions = "search_decisions",
        ListActionItems = "list_action_items",
        SearchFiles = "search_files",
        ReadFile = "read_file",
    }
}

/// Runs the built-in functions.
#[derive(Clone)]
pub struct BuiltIns {
    pub db: Db,
    pub blobs: Blobs,
    pub meaning: Arc<Meaning>,
}

impl BuiltIn {
    fn action(self) -> ActionName {
        match self {
            Self::SearchMessages
            | Self::SearchDecisions
            | Self::ListActionItems
            | Self::SearchFiles => ActionName::Search,
            Self::ReadThread | Self::ReadFile => ActionName::Read,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::SearchMessages => "Search messages",
            Self::ReadThread => "Read a thread",
            Self::SearchDecisions => "Search decisions",
            Self::ListActionItems => "List action items",
            Self::SearchFiles => "Search files",
            Self::ReadFile => "Read a file",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::SearchMessages => {
                "Search the workspace's messages. Each hit has a handle such as [S1]: cite it after a sentence that uses it."
            }
            Self::ReadThread => {
                "Read up to 50 messages of a thread, the newest first if `before` is left out."
            }
            Self::SearchDecisions => "Search published results of discussions, newest first.",
            Self::ListActionItems => "List action items of published results, newest first.",
            Self::SearchFiles => {
                "Search the text of files: PDF, Office documents, pages, mails, code. Each hit has a handle such as [P1]: cite it after a sentence that uses it."
            }
            Self::ReadFile => {
                "Read a file: text 32 KiB at a time, documents part by part (page, slide, sheet, section)."
            }
        }
    }

    fn parameters(self) -> Value {
        let text = |description: &str| json!({"type": "string", "description": description});
        let number = |max: i64| json!({"type": "integer", "minimum": 1, "maximum": max});
        let (properties, required) = match self {
            Self::SearchMessages => (
                json!({
                    "query": text("Words to search for."),
                    "channel": text("Name or ID."),
                    "author": text("Name, handle, or ID."),
                    "after": text("YYYY-MM-DD"),
                    "before": text("YYYY-MM-DD"),
                    "limit": number(20),
                }),
                json!(["query"]),
            ),
            Self::ReadThread => (
                json!({
                    "thread": text("Handle of a message, such as S1, or an ID."),
                    "before": text("Handle or ID of a message; only earlier ones are returned."),
                }),
                json!(["thread"]),
            ),
            Self::SearchDecisions => (
                json!({
                    "query": text("Words that must all occur."),
                    "channel": text("Name or ID."),
                    "limit": number(20),
                }),
                json!([]),
            ),
            Self::ListActionItems => (
                json!({
                    "owner": text("Name, handle, or ID."),
                    "done": {"type": "boolean"},
                    "limit": number(20),
                }),
                json!([]),
            ),
            Self::SearchFiles => (
                json!({
                    "query": text("Words to search for."),
                    "collection": text("ID of a vector store, or vs_HANDLE."),
                    "channel": text("Name or ID."),
                    "file": text("Handle such as F1 or P1, or an ID."),
                    "limit": number(20),
                }),
                json!(["query"]),
            ),
            Self::ReadFile => (
                json!({
                    "file": text("Handle such as F1 or P1, or an ID."),
                    "part": {"type": "integer", "minimum": 1},
                    "offset": {"type": "integer", "minimum": 0, "description": "Position in bytes."},
                }),
                json!(["file"]),
            ),
        };
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }

    fn function(self) -> ToolFunction {
        let definition = FunctionTool {
            name: self.as_str().to_owned(),
            description: Some(self.description().to_owned()),
            parameters: Some(self.parameters()),
            strict: None,
        };
        ToolFunction {
            kind: Some(ToolKind::FileSearch),
            ..ToolFunction::built_in(self.action().as_str(), self.title(), definition)
        }
    }
}

impl BuiltIns {
    async fn call(&self, call: Call<'_>) -> Result<ToolOutput, CallError> {
        let task = call.task;
        let Ok(function) = call.function.name().parse::<BuiltIn>() else {
            return Err(ToolFault::of(ToolErrorCode::NoSuchFunction).into());
        };
        let asked = self.ask(function, task, &call.arguments).await;
        let share = Share {
            person: task.requester.0,
            workspace: task.workspace.0,
        };
        let mut c = self.db.scan(share).await?;
        let Some(rights) = rights::find(&mut c, task).await? else {
            return Err(rights::refusal().into());
        };
        let arguments = &call.arguments;
        let options = Options::of(call.tools);
        match function {
            BuiltIn::SearchMessages => {
                search::messages(&mut c, task, &rights, &options, arguments).await
            }
            BuiltIn::ReadThread => threads::read(&mut c, task, &rights, &options, arguments).await,
            BuiltIn::SearchDecisions => {
                outcomes::decisions(&mut c, task, &rights, &options, arguments).await
            }
            BuiltIn::ListActionItems => {
                outcomes::items(&mut c, task, &rights, &options, arguments).await
            }
            BuiltIn::SearchFiles => {
                passages::search(&mut c, task, &rights, &options, arguments, &asked).await
            }
            BuiltIn::ReadFile => {
                let file = files::find(&mut c, task, &rights, &options, arguments).await?;
                // The connection is released first, because the bytes may be on a slow disk.
                drop(c);
                files::read(&self.blobs, &file).await
            }
        }
    }
}

impl BuiltIns {
    /// Requests the vector of a query for files, before a connection to the database is held.
    async fn ask(
        &self,
        function: BuiltIn,
        task: &ToolTask,
        arguments: &Map<String, Value>,
    ) -> VectorAnswer {
        let query = arguments.get("query").and_then(Value::as_str);
        let query = query.filter(|query| query.chars().count() <= passages::QUERY_CHARS_MAX);
        match query.filter(|_| function == BuiltIn::SearchFiles) {
            Some(query) => {
                let (workspace, user) = (task.workspace, task.requester);
                self.meaning.ask(workspace, user, query).await
            }
            None => VectorAnswer::Unused,
        }
    }
}

impl ToolRunner for BuiltIns {
    fn functions<'a>(
        &'a self,
        _task: &'a ToolTask,
        tools: &'a [Tool],
    ) -> BoxFuture<'a, Result<Vec<ToolFunction>, DbError>> {
        let has_search = tools.iter().any(|tool| tool.kind() == ToolKind::FileSearch);
        let functions = if has_search {
            BuiltIn::ALL
                .iter()
                .copied()
                .map(BuiltIn::function)
                .collect()
        } else {
            Vec::new()
        };
        std::future::ready(Ok(functions)).boxed()
    }

    fn run<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<ToolOutput, CallError>> {
        self.call(call).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_small_and_their_hashes_differ() {
        let functions: Vec<ToolFunction> = BuiltIn::ALL
            .iter()
            .copied()
            .map(BuiltIn::function)
            .collect();
        let mut hashes: Vec<&str> = functions.iter().map(|f| &*f.definition_hash).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), functions.len());
        let bytes: usize = functions
            .iter()
            .map(|f| {
                let parameters = f.definition.parameters.as_ref().map(Value::to_string);
                parameters.map_or(0, |text| text.len())
            })
            .sum();
        assert!(bytes < 3_000, "{bytes}");
    }
}
