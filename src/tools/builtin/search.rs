//! `search_messages`.

use serde_json::{Map, Value};

use super::{options::Options, places};
use crate::{
    agents::derived::SourceId,
    chat::{
        messages::AuthorKind,
        search::task::{self, TaskHit, TaskMessage, TaskSearch},
    },
    db::Conn,
    ids::UserId,
    tool_fault::{ToolErrorCode, ToolFault},
    tools::{
        arguments::Arguments,
        output::{Handled, ToolOutput, one_line},
        rights::Rights,
        runner::{CallError, ToolTask},
    },
};

/// Maximum length of a query in characters.
const QUERY_CHARS_MAX: usize = 500;

/// # Errors
/// `bad_arguments`, `not_found` for an unknown channel or author.
pub(super) async fn messages(
    c: &mut Conn,
    of: &ToolTask,
    rights: &Rights,
    options: &Options,
    arguments: &Map<String, Value>,
) -> Result<ToolOutput, CallError> {
    let names = ["query", "channel", "author", "after", "before", "limit"];
    let arguments = Arguments::of(arguments, &names)?;
    let query = arguments.required("query")?;
    if query.chars().count() > QUERY_CHARS_MAX {
        let text = format!("`query` has more than {QUERY_CHARS_MAX} characters");
        return Err(ToolFault::new(ToolErrorCode::BadArguments, text).into());
    }
    let limit = options.limit(&arguments)?;
    let channels = options.channels(c, of, rights, &arguments).await?;
    if channels.as_ref().is_some_and(Vec::is_empty) {
        return Ok(show(&[]));
    }
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
            channels: channels.unwrap_or_default(),
            author,
            since: arguments.day("after")?,
            until: arguments.day("before")?,
            limit: usize::try_from(limit).unwrap_or(1),
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

/// Adds the names and handles of a message's files to a result.
pub(super) fn files(output: &mut ToolOutput, message: &TaskMessage) {
    for file in &message.attachments.0 {
        output.own("\n[");
        output.handle(Handled::File(file.id));
        output.own("] file ");
        output.data(one_line(&file.name));
    }
}
