//! `read_thread`.

use serde_json::{Map, Value};
use uuid::Uuid;

use super::{options::Options, places, search};
use crate::{
    chat::search::task::{self, TaskMessage},
    db::{Conn, is_shared_channel},
    ids::{ChannelId, ForkId, MessageId, ThreadId},
    tools::{
        arguments::Arguments,
        handles,
        output::{Handled, ToolOutput, one_line},
        rights::Rights,
        runner::{CallError, ToolTask},
        taint,
    },
};

const MESSAGES_MAX: i64 = 50;
/// Maximum length of a message in the result.
const MESSAGE_CHARS_MAX: usize = 4_000;
/// Maximum size of all messages in a result, which leaves room for added escapes. Older messages are on the next
/// page.
const MESSAGES_BYTES_MAX: usize = 24 * 1024;
/// Assumed size of the line above a message, and of the line for each file.
const LINE_BYTES: usize = 300;

/// A conversation, and a message in it.
#[derive(sqlx::FromRow)]
struct Place {
    conversation_id: Uuid,
    channel_id: ChannelId,
    seq: i64,
    title: Option<String>,
    channel_name: Option<String>,
}

macro_rules! place_sql {
    ($where:literal) => {
        concat!(
            "select m.conversation_id, m.channel_id, m.seq, coalesce(f.title, t.title) as title, \
             case when ch.kind = 'direct' then null else ch.name end as channel_name from messages m \
             join threads t on t.id = m.thread_id join channels ch on ch.id = m.channel_id \
             left join forks f on f.id = m.conversation_id where m.workspace_id = $1 and ",
            is_shared_channel!("m.channel_id", "$3", "$4"),
            " and ",
            $where,
            " order by m.seq limit 1"
        )
    };
}

/// Finds the conversation to which a handle or an ID refers. A deleted message still refers to its conversation.
async fn find(
    c: &mut Conn,
    of: &ToolTask,
    rights: &Rights,
    options: &Options,
    named: &str,
) -> Result<Place, CallError> {
    let message = message_named(c, of, named).await?;
    let (sql, id) = if let Some(id) = message {
        (place_sql!("m.id = $2"), id.0)
    } else if let Ok(id) = ThreadId::parse(named) {
        (place_sql!("m.conversation_id = $2"), id.0)
    } else if let Ok(id) = ForkId::parse(named) {
        (place_sql!("m.conversation_id = $2"), id.0)
    } else {
        return Err(places::missing("no such thread"));
    };
    let place: Option<Place> = c
        .q(sql)
        .bind(of.workspace)
        .bind(id)
        .bind(rights.requester)
        .bind(rights.shared_in)
        .opt()
        .await?;
    place
        .filter(|place| options.permit(place.channel_id))
        .ok_or_else(|| places::missing("no such thread"))
}

/// The message to which a handle or an ID refers; `None` if the text is neither the handle nor the ID of a message.
async fn message_named(
    c: &mut Conn,
    of: &ToolTask,
    named: &str,
) -> Result<Option<MessageId>, CallError> {
    if let Ok(id) = MessageId::parse(named) {
        return Ok(Some(id));
    }
    Ok(match handles::find(c, of.task, named).await? {
        Some(Handled::Message(id)) => Some(id),
        _ => None,
    })
}

fn beginning(message: &TaskMessage) -> String {
    let text = message.content_plain.chars();
    text.take(MESSAGE_CHARS_MAX).collect()
}

/// # Errors
/// `bad_arguments`, `not_found`.
pub(super) async fn read(
    c: &mut Conn,
    of: &ToolTask,
    rights: &Rights,
    options: &Options,
    arguments: &Map<String, Value>,
) -> Result<ToolOutput, CallError> {
    let arguments = Arguments::of(arguments, &["thread", "before"])?;
    let place = find(c, of, rights, options, arguments.required("thread")?).await?;
    let below = match arguments.text("before")? {
        Some(named) => {
            let before = find(c, of, rights, options, named).await?;
            if before.conversation_id != place.conversation_id {
                return Err(places::missing("`before` is not in that thread"));
            }
            before.seq
        }
        None => i64::MAX,
    };
    let rows = task::list_messages(c, place.conversation_id, below, MESSAGES_MAX).await?;
    let mut room = MESSAGES_BYTES_MAX;
    let mut shown: Vec<(&TaskMessage, String)> = (rows.iter().rev())
        .map(|message| (message, beginning(message)))
        .take_while(|(message, text)| {
            let size = text.len() + LINE_BYTES * (1 + message.attachments.0.len());
            let fits = size <= room;
            room = room.saturating_sub(size);
            fits
        })
        .collect();
    shown.reverse();
    let mut output = ToolOutput::default();
    output.own(format!(
        "{} messages in {}",
        shown.len(),
        places::place(place.channel_name.as_deref())
    ));
    if let Some(title) = &place.title {
        output.own(", thread ");
        output.data(one_line(title));
        let source = taint::title_source(place.conversation_id, "the title of a thread");
        output.taints.push(source);
    }
    output.own(", oldest first:");
    for (message, text) in shown {
        output.own("\n\n[");
        output.handle(Handled::Message(message.id));
        output.own("] ");
        search::note_source(&mut output, message);
        output.data(one_line(
            message.author_name.as_deref().unwrap_or("somebody"),
        ));
        output.own(format!(", {}:\n", places::minute(message.created_at)));
        output.data(text);
        search::files(&mut output, message);
    }
    Ok(output)
}
