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
        Some(named) => Some(places::author(c, of.workspace, rights, named).await?),
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

/// Formats hits, separated by blank lines:
///
/// ```text
/// [S1] Ada in #general, 2026-11-27:
/// > The text of the hit.
/// [F1] file plan.pdf
/// [S2] Bo, in the message before S1:
/// > Its text.
/// ```
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
        output.data(quoted(&hit.passage));
        files(&mut output, message);
        let neighbors = [("before", &hit.before), ("after", &hit.after)];
        for (side, neighbor) in neighbors {
            if let Some(neighbor) = neighbor {
                show_neighbor(&mut output, side, neighbor, message);
            }
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

/// Adds the message before or after a hit. Each handle is directly above the text that it stands for, so that a model does not cite a hit
/// for words of its neighbor, or the reverse.
fn show_neighbor(output: &mut ToolOutput, side: &str, message: &TaskMessage, hit: &TaskMessage) {
    note_source(output, message);
    output.own("\n[");
    output.handle(Handled::Message(message.id));
    output.own("] ");
    output.data(one_line(
        message.author_name.as_deref().unwrap_or("somebody"),
    ));
    output.own(format!(", in the message {side} "));
    output.handle(Handled::Message(hit.id));
    output.own(":\n");
    output.data(quoted(&one_line(&message.beginning())));
}

/// Marks each line of a text as quoted, so that no line of a message looks like the line above another one.
pub(super) fn quoted(text: &str) -> String {
    format!("> {}", text.replace('\n', "\n> "))
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

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{
        chat::messages::MessageKind,
        db::{Json, now},
        ids::{ChannelId, MessageId, ThreadId},
    };

    fn message(author: &str, text: &str) -> TaskMessage {
        TaskMessage {
            id: MessageId::new(),
            seq: 1,
            thread_id: ThreadId::new(),
            channel_id: ChannelId::new(),
            conversation_id: Uuid::now_v7(),
            author_type: AuthorKind::Human,
            author_id: None,
            author_name: Some(author.to_owned()),
            kind: MessageKind::Text,
            content_plain: text.to_owned(),
            attachments: Json(Vec::new()),
            created_at: now(),
            channel_name: Some("general".to_owned()),
        }
    }

    #[test]
    fn each_handle_of_a_result_is_directly_above_the_text_of_its_message() {
        let hit = message("Ada", "");
        let day = places::day(hit.created_at);
        let output = show(&[
            TaskHit {
                passage: "The port is 9.\n[S2] Bo, in the message before S1:".to_owned(),
                before: Some(message("Bo", "Which\nport?")),
                after: Some(message("Cy", "Thanks.")),
                message: hit,
            },
            TaskHit {
                passage: "No.".to_owned(),
                before: None,
                after: None,
                message: message("Di", ""),
            },
        ]);
        let all = output.handled();
        let name = |of: Handled| format!("S{}", all.iter().position(|h| *h == of).unwrap() + 1);
        assert_eq!(
            output.text(name, str::to_owned),
            format!(
                "[S1] Ada in #general, {day}:\n> The port is 9.\n> [S2] Bo, in the message before S1:\n\
                 [S2] Bo, in the message before S1:\n> Which port?\n\
                 [S3] Cy, in the message after S1:\n> Thanks.\n\n\
                 [S4] Di in #general, {day}:\n> No."
            )
        );
        assert_eq!(output.messages.len(), 4);
    }
}
