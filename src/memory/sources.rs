//! Source messages of an entry, and the visibility that they allow.

use std::collections::{BTreeSet, HashMap};

use crate::{
    auth::Actor,
    chat::{ChatError, messages::AuthorKind},
    db::{Conn, DbError, dialect::hexadecimal_ids, is_in_visible_channel},
    ids::{ChannelId, MemoryId, MessageId, ThreadId},
    memory::{
        MemoryError,
        entry::{MemoryScope, MemoryTrust, Visibility},
    },
    sql_with_ids,
};

/// Maximum number of source messages of an entry.
pub(super) const SOURCES_MAX: usize = 20;

/// Channels and trust of an entry's sources and of the thread to which it belongs.
#[derive(Debug, Clone)]
pub(super) struct Grounds {
    /// Channels of the sources and of the thread.
    channels: BTreeSet<ChannelId>,
    /// The channels in `channels` that not everyone can read.
    closed: BTreeSet<ChannelId>,
    /// Channel of the thread.
    home: Option<ChannelId>,
    pub(super) trust: MemoryTrust,
}

/// Conversations in which an entry can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reach {
    pub(super) visibility: Visibility,
    pub(super) channel: Option<ChannelId>,
}

#[derive(sqlx::FromRow)]
struct Source {
    channel_id: ChannelId,
    is_public: bool,
    author_type: AuthorKind,
    is_eligible: bool,
}

impl Grounds {
    /// Reads the messages, all of which must be visible to the actor.
    ///
    /// # Errors
    /// `MessageNotFound`, or `Invalid` for a message that cannot be a source.
    pub(super) async fn read(
        c: &mut Conn,
        actor: &Actor<'_>,
        thread: Option<ThreadId>,
        messages: &[MessageId],
    ) -> Result<Self, MemoryError> {
        let sql = sql_with_ids!(
            c,
            concat!(
                "select m.channel_id, h.kind = 'public' as is_public, m.author_type, m.deleted_at is null and m.kind <> 'notice' \
                 and m.state = 'complete' and not exists (select 1 from resolutions r where r.message_id = m.id \
                 and r.status = 'superseded') as is_eligible from messages m join channels h on h.id = m.channel_id \
                 where m.workspace_id = $2 and ",
                is_in_visible_channel!("m.channel_id", "$3"),
                " and m.id in"
            ),
            1,
            ""
        );
        let sources: Vec<Source> = c
            .q(sql)
            .bind(hexadecimal_ids(messages.iter().map(|id| id.0)))
            .bind(actor.workspace)
            .bind(actor.user)
            .all()
            .await?;
        if sources.len() < messages.len() {
            return Err(ChatError::MessageNotFound.into());
        }
        if !sources.iter().all(|source| source.is_eligible) {
            let rule =
                "deleted messages, notices, unfinished replies, and old results cannot be sources";
            return Err(MemoryError::Invalid(rule.to_owned(), "source_message_ids"));
        }
        let home: Option<(ChannelId, bool)> = match thread {
            Some(thread) => {
                c.q("select h.id, h.kind = 'public' from threads t join channels h on h.id = t.channel_id where t.id = $1")
                    .bind(thread)
                    .opt()
                    .await?
            }
            None => None,
        };
        let all = sources
            .iter()
            .map(|source| (source.channel_id, source.is_public))
            .chain(home);
        let is_of_person = |source: &Source| source.author_type == AuthorKind::Human;
        Ok(Self {
            channels: all.clone().map(|(channel, _)| channel).collect(),
            closed: all
                .filter(|(_, is_public)| !is_public)
                .map(|(channel, _)| channel)
                .collect(),
            home: home.map(|(channel, _)| channel),
            trust: if sources.iter().all(is_of_person) {
                MemoryTrust::Person
            } else {
                MemoryTrust::Agent
            },
        })
    }

    /// Checks whether everyone in the workspace can read all sources.
    pub(super) fn is_public(&self) -> bool {
        self.closed.is_empty()
    }

    /// The reach of an entry with the requested visibility. By default, an entry of a conversation is used only in its channel, and
    /// all other entries as widely as their sources allow.
    ///
    /// # Errors
    /// `NotVisibleThere` if not everyone in these conversations could read the sources.
    pub(super) fn reach(
        &self,
        scope: MemoryScope,
        wanted: Option<Visibility>,
    ) -> Result<Reach, MemoryError> {
        let only = match (self.home, self.channels.len()) {
            (Some(home), _) => Some(home),
            (None, 1) => self.channels.first().copied(),
            _ => self.closed.first().copied(),
        };
        let is_personal = scope.is_personal();
        let wanted = wanted.unwrap_or(match scope {
            MemoryScope::Conversation => Visibility::Channel,
            _ if self.is_public() => Visibility::Workspace,
            _ => Visibility::Channel,
        });
        let reach = |channel| Reach {
            visibility: wanted,
            channel,
        };
        match (wanted, only) {
            (Visibility::Workspace, _) if self.is_public() => Ok(reach(None)),
            (Visibility::Channel, Some(only))
                if self.closed.iter().all(|channel| *channel == only) =>
            {
                Ok(reach(Some(only)))
            }
            // Recalling entries checks that the person can read the sources.
            (Visibility::Direct, _) if is_personal => Ok(reach(None)),
            _ => Err(MemoryError::NotVisibleThere),
        }
    }
}

/// Source messages of entries.
pub async fn sources_of(
    c: &mut Conn,
    entries: Vec<MemoryId>,
) -> Result<HashMap<MemoryId, Vec<MessageId>>, DbError> {
    let sql = sql_with_ids!(
        c,
        "select owner_id, source_id from citations where owner_type = 'memory' and source_type = 'message' and owner_id in",
        1,
        "order by source_id"
    );
    let pairs: Vec<(MemoryId, MessageId)> = c
        .q(sql)
        .bind(hexadecimal_ids(entries.into_iter().map(|id| id.0)))
        .all()
        .await?;
    let mut sources: HashMap<MemoryId, Vec<MessageId>> = HashMap::new();
    for (entry, source) in pairs {
        sources.entry(entry).or_default().push(source);
    }
    Ok(sources)
}

/// Adds sources to an entry, up to the limit.
pub(super) async fn cite(
    c: &mut Conn,
    entry: MemoryId,
    messages: &[MessageId],
) -> Result<(), DbError> {
    let known: i64 = c
        .q("select count(*) from citations where owner_type = 'memory' and owner_id = $1 and source_type = 'message'")
        .bind(entry)
        .value()
        .await?;
    let room = SOURCES_MAX.saturating_sub(usize::try_from(known).unwrap_or_default());
    for message in messages.iter().take(room) {
        c.q("insert into citations (source_type, source_id, owner_type, owner_id) values ('message', $1, 'memory', $2) on conflict do nothing")
            .bind(*message)
            .bind(entry)
            .run()
            .await?;
    }
    Ok(())
}
