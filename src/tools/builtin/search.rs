//! `search_messages`.

use serde_json::{Map, Value};

use super::places;
use crate::{
    agents::{derived::SourceId, profiles::tools::FileSearchTool},
    chat::{
        messages::AuthorKind,
        search::task::{self, TaskHit, TaskMessage, TaskSearch},
    },
    db::Conn,
    ids::{ChannelId, UserId},
    tool_fault::{ToolErrorCode, ToolFault},
    tools::{
        arguments::Arguments,
        output::{Handled, ToolOutput, one_line},
        rights::Rights,
        runner::{CallError, ToolTask},
    },
};

const LIMIT_DEFAULT: i64 = 8;
const LIMIT_MAX: i64 = 20;
/// In characters.
const QUERY_CHARS_MAX: usize = 500;

/// Limits that the profile sets.
struct Options {
    limit_max: i64,
    score_share: f64,
    /// Only these channels; `None` for all. A filter that names none finds nothing.
    channels: Option<Vec<ChannelId>>,
}

impl Options {
    fn of(tool: Option<&FileSearchTool>) -> Self {
        let ranking = tool.and_then(|tool| tool.ranking_options.as_ref());
        let filters = tool.and_then(|tool| tool.filters.as_ref());
        let channels = filters.map(|filters| {
            let named = filters.get("channel_ids").and_then(Value::as_array);
            let ids = named.into_iter().flatten().filter_map(Value::as_str);
            ids.filter_map(|id| ChannelId::parse(id).ok()).collect()
        });
        Self {
            limit_max: tool
                .and_then(|tool| tool.max_num_results)
                .map_or(LIMIT_MAX, |max| i64::from(max).min(LIMIT_MAX)),
            score_share: ranking
                .and_then(|ranking| ranking.score_threshold)
                .unwrap_or(0.0),
            channels,
        }
    }
}

/// # Errors
/// `bad_arguments`, `not_found` for an unknown channel or author.
pub(super) async fn messages(
    c: &mut Conn,
    of: &ToolTask,
    rights: &Rights,
    tool: Option<&FileSearchTool>,
    arguments: &Map<String, Value>,
) -> Result<ToolOutput, CallError> {
    let names = ["query", "channel", "author", "after", "before", "limit"];
    let arguments = Arguments::of(arguments, &names)?;
    let query = arguments.required("query")?;
    if query.chars().count() > QUERY_CHARS_MAX {
        let text = format!("`query` has more than {QUERY_CHARS_MAX} characters");
        return Err(ToolFault::new(ToolErrorCode::BadArguments, text).into());
    }
    let options = Options::of(tool);
    let limit = arguments
        .number("limit", (1, LIMIT_MAX))?
        .unwrap_or(LIMIT_DEFAULT);
    let named = match arguments.text("channel")? {
        Some(named) => Some(places::channel(c, of.workspace, rights, named).await?),
        None => None,
    };
    let channels = match (options.channels, named) {
        (Some(allowed), Some(channel)) if !allowed.contains(&channel) => {
            return Err(places::missing("this agent does not search that channel"));
        }
        (_, Some(channel)) => vec![channel],
        (Some(allowed), None) if allowed.is_empty() => return Ok(show(&[])),
        (Some(allowed), None) => allowed,
        (None, None) => Vec::new(),
    };
    let author = match arguments.text("author")? {
        Some(named) => Some(places::author(c, of.workspace, named).await?),
        None => None,
    };
    let found = task::find_messages(
        c,
        &TaskSearch {
            workspace: of.workspace,
            requester: of.requester,
            shared_in: rights.shared_in,
            query,
            channels,
            author,
            since: arguments.day("after")?,
            until: arguments.day("before")?,
            limit: usize::try_from(limit.min(options.limit_max)).unwrap_or(1),
            score_share: options.score_share,
            question: of.trigger,
        },
    )
    .await?;
    Ok(show(&found))
}

fn show(hits: &[TaskHit]) -> ToolOutput {
    let mut output = ToolOutput {
        count: Some(hits.len()),
        ..ToolOutput::default()
    };
    if hits.is_empty() {
        output.own("No messages found.");
    }
    for (n, hit) in hits.iter().enumerate() {
        if n > 0 {
            output.own("\n\n");
        }
        let message = &hit.message;
        output.own("[");
        output.handle(Handled::Message(message.id));
        output.own("] ");
        note_source(&mut output, message);
        output.data(one_line(
            message.author_name.as_deref().unwrap_or("somebody"),
        ));
        output.own(format!(
            " in {}, {}:\n",
            places::place(message.channel_name.as_deref()),
            places::day(message.created_at)
        ));
        if let Some(before) = &hit.before {
            neighbor(&mut output, "before", before);
        }
        output.data(hit.passage.clone());
        files(&mut output, message);
        if let Some(after) = &hit.after {
            output.own("\n");
            neighbor(&mut output, "after", after);
        }
    }
    output
}

/// Adds a message to the sources of a result.
pub(super) fn note_source(output: &mut ToolOutput, message: &TaskMessage) {
    output.messages.push(message.id);
    if message.author_type == AuthorKind::Human {
        let person = message.author_id.map(UserId);
        output.cites.extend(person.map(SourceId::User));
    }
}

fn neighbor(output: &mut ToolOutput, side: &str, message: &TaskMessage) {
    note_source(output, message);
    output.own("[");
    output.handle(Handled::Message(message.id));
    output.own(format!("] ({side}) "));
    output.data(format!(
        "{}: {}",
        one_line(message.author_name.as_deref().unwrap_or("somebody")),
        one_line(&message.beginning())
    ));
    output.own("\n");
}

/// Adds the names of a message's files with their handles.
pub(super) fn files(output: &mut ToolOutput, message: &TaskMessage) {
    for file in &message.attachments.0 {
        output.own("\n[");
        output.handle(Handled::File(file.id));
        output.own("] file ");
        output.data(one_line(&file.name));
    }
}
