//! The example in #general of a new workspace: a thread of two people with a deep dive, from `seeds/example.yaml`. Nothing announces it,
//! and nobody is notified of it.

use std::{sync::LazyLock, time::Duration};

use serde::Deserialize;
use uuid::Uuid;

use super::imported::{ImportedFork, insert_imported_fork};
use crate::{
    auth::{UserKind, insert_without_sign_in},
    chat::{
        ChatError,
        forks::{ForkContext, ForkStatus},
        imported::{ImportedAuthorKind, ImportedMessage, ImportedPlace, insert_imported},
        messages::find_message,
        plain::to_plain,
        search::index::SearchDocument,
    },
    db::{Conn, now},
    ids::{ChannelId, ForkId, MessageId, ThreadId, UserId, WorkspaceId},
    time::Timestamp,
};

/// ID of the first author; those of the others follow. They are the same in all workspaces.
const FIRST_AUTHOR: u128 = 0x0193_7b5e_4c00_7000_8000_0000_0000_0000;
/// Age of the first message, and time between messages.
const AGE: Duration = Duration::from_mins(20);
const PAUSE: Duration = Duration::from_mins(1);

#[derive(Deserialize)]
struct Seed {
    people: Vec<String>,
    messages: Vec<SeedMessage>,
    deep_dive: SeedFork,
}

#[derive(Deserialize)]
struct SeedMessage {
    author: String,
    text: String,
}

#[derive(Deserialize)]
struct SeedFork {
    title: String,
    /// Number of the message that it starts from.
    from: usize,
    messages: Vec<SeedMessage>,
}

static SEED: LazyLock<Option<Seed>> = LazyLock::new(|| {
    serde_yaml_ng::from_str(include_str!("../../seeds/example.yaml"))
        .inspect_err(|e| {
            tracing::error!(
                error = %e,
                "seeds/example.yaml cannot be used; workspaces start without an example"
            );
        })
        .ok()
});

impl Seed {
    fn authors(&self) -> impl Iterator<Item = (UserId, &String)> {
        (FIRST_AUTHOR..)
            .map(|id| UserId(Uuid::from_u128(id)))
            .zip(&self.people)
    }

    fn author(&self, name: &str) -> Option<UserId> {
        let mut authors = self.authors();
        authors.find(|(_, known)| *known == name).map(|(id, _)| id)
    }
}

/// The example while it is inserted.
struct Writer<'a> {
    seed: &'a Seed,
    workspace: WorkspaceId,
    channel: ChannelId,
    thread: ThreadId,
    /// Time of the next message.
    next_at: Timestamp,
}

impl Writer<'_> {
    /// Inserts messages. Returns their IDs.
    async fn insert(
        &mut self,
        c: &mut Conn,
        messages: &[SeedMessage],
        fork: Option<ForkId>,
    ) -> Result<Vec<MessageId>, ChatError> {
        let mut ids = Vec::with_capacity(messages.len());
        for message in messages {
            // A unit test looks up all authors.
            let Some(author) = self.seed.author(&message.author) else {
                continue;
            };
            let plain = to_plain(&message.text);
            let new = ImportedMessage {
                id: MessageId::new(),
                import: None,
                format: None,
                channel: self.channel,
                thread: self.thread,
                title: None,
                base: None,
                place: match fork {
                    Some(fork) => ImportedPlace::Fork(fork),
                    None if ids.is_empty() => ImportedPlace::Root,
                    None => ImportedPlace::Reply,
                },
                author_type: ImportedAuthorKind::Human,
                author: author.0,
                shown_as: None,
                search_document: SearchDocument::of(&message.text, &plain),
                content: message.text.clone(),
                plain,
                mentions: Vec::new(),
                reactions: Vec::new(),
                attachments: Vec::new(),
                created_at: self.next_at,
                edited_at: None,
            };
            insert_imported(c, self.workspace, &new).await?;
            self.next_at = self.next_at + PAUSE;
            ids.push(new.id);
        }
        Ok(ids)
    }
}

/// Inserts the example into #general of a workspace that the same transaction creates.
///
/// # Errors
/// `QuotaExceeded`.
pub async fn insert_example(
    c: &mut Conn,
    workspace: WorkspaceId,
    channel: ChannelId,
) -> Result<(), ChatError> {
    let Some(seed) = &*SEED else {
        return Ok(());
    };
    for (id, name) in seed.authors() {
        insert_without_sign_in(c, id, name, UserKind::Example).await?;
    }
    let mut writer = Writer {
        seed,
        workspace,
        channel,
        thread: ThreadId::new(),
        next_at: now() - AGE,
    };
    let messages = writer.insert(c, &seed.messages, None).await?;
    let dive = &seed.deep_dive;
    let origin = match dive.from.checked_sub(1).and_then(|at| messages.get(at)) {
        Some(id) => find_message(c, *id).await?,
        None => None,
    };
    let creator = dive.messages.first().and_then(|m| seed.author(&m.author));
    let (Some(origin), Some(created_by)) = (origin, creator) else {
        return Ok(());
    };
    let fork = ImportedFork {
        id: ForkId::new(),
        title: dive.title.clone(),
        description: None,
        context: ForkContext::Thread,
        status: ForkStatus::Active,
        created_by,
        created_at: writer.next_at,
        resolved_at: None,
    };
    insert_imported_fork(c, &origin, &fork).await?;
    writer.insert(c, &dive.messages, Some(fork.id)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_has_six_messages_and_a_deep_dive_of_four_by_two_people() {
        let seed = SEED.as_ref().unwrap();
        let dive = &seed.deep_dive;
        assert_eq!((seed.messages.len(), dive.messages.len()), (6, 4));
        assert_eq!(seed.people.len(), 2);
        assert!((1..=6).contains(&dive.from));
        let mut all = seed.messages.iter().chain(&dive.messages);
        assert!(all.all(|message| seed.author(&message.author).is_some()));
    }
}
