//! Replies without a model: the material that the built-in responder reads and searches, and the messages that
//! it cites.

use openvibe_responder::{
    Answer, Composed, Conversation, Excerpt, Line, Material, Person, Question, Source, Speaker,
    answer, asks, is_thanks,
};

use crate::{
    chat::{
        messages::{MessageMetadata, MessageSource},
        search::shared::{self, Readers},
    },
    db::{Conn, DbError, Json},
    realtime::hub::Conversation as Place,
    replies::{
        context::{self, Loaded},
        offline_passages::{self, QuotedPassage},
        prompt::{Ask, Author, HistoryMessage},
        requester::RequesterRole,
    },
    tasks::{StepOptions, Task, TaskTarget, slow::SlowTurn},
    time::Timestamp,
};

/// Maximum number of messages read, and maximum number of quotable messages from people among them.
const READ_MAX: usize = 200;
const QUOTABLE_MAX: usize = 50;
/// Maximum number of characters read from a message.
const MESSAGE_CHARS_MAX: usize = 2_000;
/// Maximum number of characters read from a title, or from the first message of an untitled conversation.
const TITLE_CHARS_MAX: usize = 200;
/// Reaction to thanks, which need no reply.
pub(super) const THANKS: &str = "👍";
/// Name of an author whose account was deleted.
const DELETED: &str = "Deleted account";
/// Beginning of the answer for a step of a run.
const WITHOUT_MODEL: &str = "Written without a model:";
/// Maximum number of characters quoted in such an answer.
const EXTRACT_CHARS_MAX: usize = 1_500;
/// Reply if the responder panics.
const UNREADABLE: &str = "I could not read this conversation. The server's log contains the cause.";

/// Response of the built-in responder.
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
    turn: &SlowTurn,
    task: &Task,
    loaded: &Loaded,
) -> Result<Offline, DbError> {
    let ask = &loaded.context.ask;
    if let Some(step) = ask.delegated.as_ref().filter(|_| task.run_id.is_some()) {
        return Ok(Offline::Reply {
            text: extract(&step.brief.message, task),
            sources: Vec::new(),
        });
    }
    let asked = task.input.0.prompt.trim();
    let Some(target) = task.target() else {
        return Ok(Offline::React);
    };
    if is_thanks(asked) {
        return Ok(Offline::React);
    }
    let conversation = target.conversation();
    let mut newest = context::newest(c, conversation, loaded.trigger_seq, READ_MAX).await?;
    // For a link of a chain, the messages include the trigger message, which must not be quoted.
    newest.retain(|message| message.message_id != ask.message_id);
    let reading = read(task, loaded, newest);
    let question = Question {
        text: asked.to_owned(),
        today: ask.asked_at.day(),
        is_admin: ask.requester.role == RequesterRole::Admin,
        workspace_path: workspace_path(c, task).await?,
        is_first: !has_replied(c, target.conversation(), task).await?,
    };
    let Reading {
        conversation,
        sources,
    } = reading;
    let read = apart(turn, move || {
        let answer = answer(&conversation, question);
        let found = (!answer.needs_search()).then(|| answer.compose(&[]));
        (answer, found)
    });
    let answer = match read.await {
        None => return Ok(unreadable()),
        Some((_, Some(found))) => {
            return Ok(reply(found, |source| sources.get(source.line).cloned()));
        }
        Some((answer, None)) => answer,
    };
    search(c, turn, task, target, ask, answer).await
}

/// Answers from the requester's other conversations.
async fn search(
    c: &mut Conn,
    turn: &SlowTurn,
    task: &Task,
    target: TaskTarget,
    ask: &Ask,
    answer: Answer,
) -> Result<Offline, DbError> {
    let asked = task.input.0.prompt.trim();
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
    let found = shared::find_shared(c, &readers, asked).await?;
    let passages = offline_passages::find(c, &readers, asked).await?;
    let excerpts: Vec<Excerpt> = found.iter().map(excerpt).collect();
    let composed = apart(turn, move || answer.compose(&excerpts)).await;
    let source = |source: Source| {
        let excerpt = found.get(source.place)?;
        Some(MessageSource::of(
            excerpt.messages.get(source.line)?.message_id,
            excerpt.thread_id,
            excerpt.fork_id,
            excerpt.channel_id,
        ))
    };
    Ok(composed.map_or_else(unreadable, |composed| {
        with_passages(reply(composed, source), passages)
    }))
}

/// Adds quoted passages to a reply. They replace the first paragraph of a reply that quotes nothing.
fn with_passages(reply: Offline, passages: Vec<QuotedPassage>) -> Offline {
    match reply {
        Offline::Reply { text, mut sources } if !passages.is_empty() => {
            let is_quoting = !sources.is_empty();
            let mut lines = Vec::with_capacity(passages.len());
            for QuotedPassage { line, source } in passages {
                let n = sources.len() + 1;
                lines.push(format!("- {line} [{n}]"));
                sources.push(MessageSource { n, ..source });
            }
            let lines = lines.join("\n");
            let text = if is_quoting {
                format!("{text}\n\n{lines}")
            } else {
                let notes = text.split_once("\n\n").map(|(_, notes)| notes);
                notes.map_or_else(|| lines.clone(), |notes| format!("{lines}\n\n{notes}"))
            };
            Offline::Reply { text, sources }
        }
        other => other,
    }
}

/// Quotes the values that were inserted into a step's prompt, but not the prompt's instructions.
fn extract(prompt: &str, task: &Task) -> String {
    let options = task.input.0.options.clone();
    let options = options.and_then(|options| serde_json::from_value::<StepOptions>(options).ok());
    let ranges = options.unwrap_or_default().contents.into_iter();
    let values: Vec<&str> = ranges
        .filter_map(|range| prompt.get(range))
        .map(str::trim)
        .filter(|value| !value.is_empty())
        .collect();
    if values.is_empty() {
        return format!("{WITHOUT_MODEL} the step has nothing to quote.");
    }
    let text = values.join("\n\n");
    let text: String = text.chars().take(EXTRACT_CHARS_MAX).collect();
    let lines: Vec<String> = text.lines().map(|line| format!("> {line}")).collect();
    format!("{WITHOUT_MODEL}\n\n{}", lines.join("\n"))
}

async fn workspace_path(c: &mut Conn, task: &Task) -> Result<String, DbError> {
    let (slug,): (String,) = c
        .q("select slug from workspaces where id = $1")
        .bind(task.workspace_id)
        .one()
        .await?;
    Ok(format!("/{slug}"))
}

/// Runs slow work on a blocking thread. Returns `None` if the work panics.
async fn apart<T: Send + 'static>(
    turn: &SlowTurn,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let done = turn.run(|_| work()).await;
    done.inspect_err(|e| tracing::error!(error = %e, "the built-in responder panicked"))
        .ok()
}

fn unreadable() -> Offline {
    Offline::Reply {
        text: UNREADABLE.to_owned(),
        sources: Vec::new(),
    }
}

fn excerpt(found: &shared::Excerpt) -> Excerpt {
    let mut material = Material::default();
    for message in &found.messages {
        let name = message.author_name.as_deref().unwrap_or(DELETED);
        let handle = message.author_handle.as_deref().unwrap_or_default();
        let author = person_of(&mut material, name, handle);
        add(&mut material, author, &message.content, message.created_at);
    }
    Excerpt {
        channel: found.channel_name.clone(),
        title: found.title.clone(),
        material,
    }
}

/// Returns the position of a person in `material`, and adds the person if they are new.
fn person_of(material: &mut Material, name: &str, handle: &str) -> usize {
    let mut known = material.people.iter();
    let known = known.position(|person| person.name == name && person.handle == handle);
    known.unwrap_or_else(|| {
        material.people.push(Person {
            name: name.to_owned(),
            handle: handle.to_owned(),
        });
        material.people.len() - 1
    })
}

fn add(material: &mut Material, author: usize, text: &str, posted_at: Timestamp) {
    material.lines.push(Line {
        speaker: Speaker::Person(author),
        text: text.chars().take(MESSAGE_CHARS_MAX).collect(),
        files: Vec::new(),
        day: posted_at.day(),
    });
}

/// Builds the reply, with its sources numbered from 1.
fn reply(found: Composed, source: impl Fn(Source) -> Option<MessageSource>) -> Offline {
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

/// Checks whether an agent has already replied to another message in the conversation; if so, the reply needs no introduction.
async fn has_replied(c: &mut Conn, place: Place, task: &Task) -> Result<bool, DbError> {
    c.q("select exists (select 1 from messages where conversation_id = $1 and author_type = 'agent' and state = 'complete' \
         and deleted_at is null and kind = 'text' and parent_id <> $2)")
        .bind(place.id())
        .bind(task.trigger_message_id)
        .value()
        .await
}

/// Collects quotable messages from people, but not messages addressed to agents. `newest` is sorted from newest to oldest.
fn read(task: &Task, loaded: &Loaded, newest: Vec<HistoryMessage>) -> Reading {
    let context = &loaded.context;
    let mut material = Material::default();
    let mut sources = Vec::new();
    let named = |author: &Author| match author {
        Author::Human { name, .. } => Some(name.clone()),
        Author::Agent { .. } => None,
    };
    for participant in &context.setting.participants {
        if let Some(name) = named(&participant.author) {
            let handle = participant.handle.as_deref().unwrap_or_default();
            person_of(&mut material, &name, handle);
        }
    }
    let is_own =
        |message: &HistoryMessage| is_quotable(message) && named(&message.author).is_some();
    let oldest = newest
        .iter()
        .enumerate()
        .filter(|(_, message)| is_own(message));
    let oldest = oldest.map(|(at, _)| at + 1).nth(QUOTABLE_MAX - 1);
    let read = oldest.unwrap_or(newest.len());
    let is_all = read == newest.len() && read < READ_MAX;
    let all = context.history.len() + usize::try_from(context.left_out).unwrap_or_default();
    let total = if is_all { read } else { all };
    let own: Vec<HistoryMessage> = newest.into_iter().take(read).collect();
    let root = context.root.iter();
    let root = root.filter(|root| {
        own.iter()
            .all(|message| message.message_id != root.message_id)
    });
    let thread = root.chain(&context.background);
    let first = thread.clone().chain(own.iter().rev()).next();
    let setting = &context.setting;
    let title = setting
        .fork_title
        .as_ref()
        .or(setting.thread_title.as_ref());
    let title = title.or(first.map(|first| &first.content));
    let title = title.map(|title| title.chars().take(TITLE_CHARS_MAX).collect());
    let thread = thread.map(|message| (message, None));
    let own = own.iter().rev().map(|message| (message, task.fork_id));
    for (message, fork_id) in thread.chain(own) {
        let Some(name) = named(&message.author).filter(|_| is_quotable(message)) else {
            continue;
        };
        let handle = message.handle.as_deref().unwrap_or_default();
        let author = person_of(&mut material, &name, handle);
        add(&mut material, author, &message.content, message.posted_at);
        if let Some(target) = task.target() {
            sources.push(MessageSource::of(
                message.message_id,
                target.thread,
                fork_id,
                target.channel,
            ));
        }
    }
    Reading {
        conversation: Conversation {
            title: title.unwrap_or_default(),
            material,
            read: u64::try_from(read).unwrap_or_default(),
            total: u64::try_from(total).unwrap_or_default(),
        },
        sources,
    }
}

fn is_quotable(message: &HistoryMessage) -> bool {
    let is_question = message.asks_agent && asks(&message.content);
    !(message.mentions_agent || is_question || message.content.trim().is_empty())
}
