//! Records the taint that a prompt adds to its task, in the transaction that stores the prompt.

use uuid::Uuid;

use super::{
    manifest::{Block, Manifest},
    prompt::{Author, Source},
};
use crate::{
    agents::derived::SourceId,
    db::{Conn, DbError},
    ids::{MessageId, UserId},
    tasks::{
        Task,
        actions::{ActionSource, TaintKind},
    },
    tools::{
        handles,
        output::PassagePlace,
        taint::{self, AuthoredText},
    },
};

/// Origins of a prompt's texts other than the server, the agent, and the requester.
#[derive(Default)]
struct Found {
    messages: Vec<MessageId>,
    files: Vec<MessageId>,
    /// People whose names or messages the prompt contains.
    people: Vec<UserId>,
    taints: Vec<ActionSource>,
    texts: Vec<AuthoredText>,
    /// Passages with the numbers of their handles.
    passages: Vec<(i64, PassagePlace)>,
}

impl Found {
    /// Collects the origins of the parts of a prompt, and the texts that shape the agent. The server's text, the workspace's policy, and
    /// USER.md do not taint a task.
    fn of(manifest: &Manifest, conversation: Uuid) -> Self {
        let requester = manifest.requested_by.id;
        let texts = manifest.authored.in_prompt(&manifest.prompt.parts);
        let mut found = Self {
            texts: texts.cloned().collect(),
            ..Self::default()
        };
        for part in &manifest.prompt.parts {
            match &part.source {
                Source::Message { message_id, author } => {
                    found.messages.push(*message_id);
                    if let Author::Human { id, .. } = author {
                        found.people.push(*id);
                    }
                }
                // The taint of a brief was recorded together with the brief.
                Source::Trigger { message_id, .. }
                | Source::OldMessage { message_id }
                | Source::Brief { message_id, .. } => {
                    found.messages.push(*message_id);
                }
                Source::File { message_id } | Source::Picture { message_id, .. } => {
                    found.messages.push(*message_id);
                    found.files.push(*message_id);
                }
                Source::ForkHeader { message_id } => found.messages.extend(*message_id),
                Source::Knowledge { taints, places, .. } => {
                    found.taints.extend(taints.iter().cloned());
                    found.passages.extend(places.iter().copied());
                }
                Source::Conversation { people, .. } => found.people.extend(people),
                Source::Summary { .. } => {
                    found.add(TaintKind::Memory, conversation, "earlier messages");
                }
                Source::Workspace { .. } => {
                    found.add(TaintKind::Memory, Uuid::nil(), "the workspace context");
                }
                // An entry that is shown only to the requester has only the requester's own sources.
                Source::Memory {
                    memory_id,
                    only_user_id,
                    ..
                } if *only_user_id != Some(requester)
                    && !manifest.authored.entries.contains_key(memory_id) =>
                {
                    found.add(TaintKind::Memory, memory_id.0, "memories");
                }
                Source::Memory { .. }
                | Source::Date
                | Source::Requester
                | Source::LeftOut
                | Source::Notes
                | Source::About { .. }
                | Source::Memories => {}
            }
        }
        // Messages that steer the reply.
        for part in &manifest.rounds {
            if let Some(SourceId::Message(message)) = part.source {
                found.messages.push(message);
                if part.block == Block::Files {
                    found.files.push(message);
                }
            }
        }
        found
    }

    fn add(&mut self, kind: TaintKind, source_id: Uuid, label: &str) {
        self.taints.push(ActionSource::new(kind, source_id, label));
    }
}

/// Adds the taint of a prompt to its task, and the handles of its passages.
pub async fn record(c: &mut Conn, task: &Task, manifest: &Manifest) -> Result<(), DbError> {
    let requester = task.requested_by;
    let fork = task.fork_id.map(|fork| fork.0);
    let conversation = fork.or(task.thread_id.map(|thread| thread.0));
    let mut found = Found::of(manifest, conversation.unwrap_or_default());
    add_titles(c, task, &mut found).await?;
    handles::insert_passages(c, task.id, found.passages.iter().copied()).await?;
    taint::add_messages(c, task.id, requester, found.messages).await?;
    taint::add_files(c, task.id, found.files).await?;
    taint::add(c, task.id, &found.taints).await?;
    taint::add_texts(c, task.id, &found.texts).await?;
    taint::add_people(c, task.id, requester, found.people).await
}

/// Adds the origins of the titles and of the fork's description that a prompt contains.
async fn add_titles(c: &mut Conn, task: &Task, found: &mut Found) -> Result<(), DbError> {
    let title: Option<(Uuid,)> = c
        .q("select id from threads where id = $1 and title is not null")
        .bind(task.thread_id)
        .opt()
        .await?;
    let of_thread = title.map(|(thread,)| taint::title_source(thread, "the thread's title"));
    found.taints.extend(of_thread);
    let Some(fork) = task.fork_id else {
        return Ok(());
    };
    // A title was either written by a person or taken from the beginning of a message.
    let written: Option<(Option<MessageId>, Option<String>)> = c
        .q("select title_from, description from forks where id = $1")
        .bind(fork)
        .opt()
        .await?;
    let (title_from, description) = written.unwrap_or_default();
    found.messages.extend(title_from);
    if title_from.is_none() || description.is_some() {
        let of_fork = taint::title_source(fork.0, "the deep dive's title");
        found.taints.push(of_fork);
    }
    Ok(())
}
