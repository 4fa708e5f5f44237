//! Replies without a model: what the responder reads and searches, and the messages that it cites.

use openvibe_responder::{
    Composed, Conversation, Hit, Line, Material, Person, Question, Speaker, answer, asks, is_thanks,
};

use crate::{
    chat::{
        messages::{MessageMetadata, MessageSource},
        search::shared::{self, Readers, SharedHit},
    },
    db::{Conn, DbError, Json},
    realtime::hub::Conversation as Place,
    replies::{
        context::Loaded,
        prompt::{Author, HistoryMessage},
    },
    tasks::Task,
};

/// Maximum number of characters read of a message.
const MESSAGE_CHARS_MAX: usize = 4_000;
/// Reaction to a message that needs no reply.
pub(super) const THANKS: &str = "👍";
/// Reply after a panic of the responder.
const UNREADABLE: &str = "I could not read this conversation. The server's log contains the cause.";

/// Response of the agent.
#[derive(Debug, Clone)]
pub(super) enum Offline {
    React,
    Reply {
        text: String,
        sources: Vec<MessageSource>,
    },
}

/// A conversation, and the source of each of its lines.
struct Reading {
    conversation: Conversation,
    sources: Vec<MessageSource>,
}

/// Prepares the reply. `c` must be a snapshot of the database.
pub(super) async fn prepare(
    c: &mut Conn,
    task: &Task,
    loaded: &Loaded,
) -> Result<Offline, DbError> {
    let ask = &loaded.context.ask;
    let typed = task.input.0.prompt.trim();
    let question = if typed.is_empty() {
        &ask.content
    } else {
        typed
    };
    let Some(target) = task.target() else {
        return Ok(Offline::React);
    };
    if is_thanks(question) {
        return Ok(Offline::React);
    }
    let reading = read(task, loaded);
    let question = Question {
        text: question.to_owned(),
        today: ask.asked_at.day(),
        is_admin: ask.requester_role == "admin",
        settings_url: settings_url(c, task).await?,
        is_first: !has_replied(c, target.conversation(), task).await?,
    };
    let Reading {
        conversation,
        sources,
    } = reading;
    let read = apart(move || {
        let answer = answer(&conversation, question);
        let found = answer.search().is_empty().then(|| answer.compose(&[]));
        (answer, found)
    });
    let (answer, words) = match read.await {
        None => return Ok(unreadable()),
        Some((_, Some(found))) => return Ok(reply(found, |at| sources.get(at).cloned())),
        Some((answer, None)) => {
            let words = answer.search();
            (answer, words)
        }
    };
    let trigger: Option<(Json<MessageMetadata>,)> = c
        .q("select metadata from messages where id = $1")
        .bind(ask.message_id)
        .opt()
        .await?;
    let readers = Readers {
        workspace: task.workspace_id,
        requester: task.requested_by,
        api_key: trigger.and_then(|(metadata,)| metadata.0.api_key_id),
        channel: target.channel,
        question: ask.message_id,
    };
    let hits = shared::find_shared(c, &readers, &words).await?;
    let quotable: Vec<Hit> = hits.iter().map(hit).collect();
    let found = apart(move || answer.compose(&quotable)).await;
    Ok(found.map_or_else(unreadable, |found| {
        reply(found, |at| hits.get(at).map(source))
    }))
}

async fn settings_url(c: &mut Conn, task: &Task) -> Result<String, DbError> {
    let (slug,): (String,) = c
        .q("select slug from workspaces where id = $1")
        .bind(task.workspace_id)
        .one()
        .await?;
    Ok(format!("/{slug}/settings/model"))
}

/// Runs slow work in a blocking thread; `None` if it panics.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.inspect_err(|e| tracing::error!(error = %e, "the built-in responder panicked"))
        .ok()
}

fn unreadable() -> Offline {
    Offline::Reply {
        text: UNREADABLE.to_owned(),
        sources: Vec::new(),
    }
}

fn hit(hit: &SharedHit) -> Hit {
    Hit {
        author: hit
            .author_name
            .clone()
            .unwrap_or_else(|| "Deleted account".to_owned()),
        channel: hit.channel_name.clone(),
        day: hit.created_at.day(),
        text: shortened(&hit.content),
        replies_to: hit.replies_to,
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(MESSAGE_CHARS_MAX).collect()
}

fn source(hit: &SharedHit) -> MessageSource {
    MessageSource {
        n: 0,
        message_id: hit.message_id,
        thread_id: hit.thread_id,
        fork_id: hit.fork_id,
        channel_id: hit.channel_id,
    }
}

/// The reply with its sources numbered from 1.
fn reply(found: Composed, source: impl Fn(usize) -> Option<MessageSource>) -> Offline {
    let cited = found.sources.iter().enumerate();
    let sources = cited.filter_map(|(n, at)| {
        Some(MessageSource {
            n: n + 1,
            ..source(*at)?
        })
    });
    Offline::Reply {
        sources: sources.collect(),
        text: found.text,
    }
}

/// Checks whether an agent has replied in the conversation, so that no further introduction is needed.
async fn has_replied(c: &mut Conn, place: Place, task: &Task) -> Result<bool, DbError> {
    c.q("select exists (select 1 from messages where conversation_id = $1 and author_type = 'agent' and state = 'complete' \
         and deleted_at is null and kind = 'text' and parent_id <> $2)")
        .bind(place.id())
        .bind(task.trigger_message_id)
        .value()
        .await
}

/// The people's messages that can be quoted: not those that address an agent.
fn read(task: &Task, loaded: &Loaded) -> Reading {
    let context = &loaded.context;
    let mut material = Material::default();
    let mut sources = Vec::new();
    let person = |material: &mut Material, author: &Author, handle: Option<&str>| {
        let Author::Human { name, .. } = author else {
            return None;
        };
        let handle = handle.unwrap_or_default();
        let known = material
            .people
            .iter()
            .position(|person| person.name == *name && person.handle == handle);
        Some(known.unwrap_or_else(|| {
            material.people.push(Person {
                name: name.clone(),
                handle: handle.to_owned(),
            });
            material.people.len() - 1
        }))
    };
    for participant in &context.setting.participants {
        person(
            &mut material,
            &participant.author,
            participant.handle.as_deref(),
        );
    }
    let thread = context
        .root
        .iter()
        .chain(&context.background)
        .map(|message| (message, None));
    let own = context
        .history
        .iter()
        .map(|message| (message, task.fork_id));
    let (root, own): (Vec<_>, Vec<_>) = (thread.collect(), own.collect());
    for (message, fork_id) in root.into_iter().chain(own) {
        if !is_quotable(message) {
            continue;
        }
        let Some(speaker) = person(&mut material, &message.author, message.handle.as_deref())
        else {
            continue;
        };
        material.lines.push(Line {
            speaker: Speaker::Person(speaker),
            text: shortened(&message.content),
            files: Vec::new(),
            day: message.posted_at.day(),
        });
        if let Some(target) = task.target() {
            sources.push(MessageSource {
                n: 0,
                message_id: message.message_id,
                thread_id: target.thread,
                fork_id,
                channel_id: target.channel,
            });
        }
    }
    let read = u64::try_from(context.history.len()).unwrap_or_default();
    Reading {
        conversation: Conversation {
            material,
            read,
            total: read + context.left_out,
        },
        sources,
    }
}

fn is_quotable(message: &HistoryMessage) -> bool {
    let is_question = message.asks_agent && asks(&message.content);
    !(message.mentions_agent || is_question || message.content.trim().is_empty())
}
