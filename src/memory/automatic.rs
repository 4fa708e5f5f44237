//! Automatic entries: sentences that a pass made from a segment of a conversation.

use std::collections::HashSet;

use uuid::Uuid;

use crate::{
    agents::{profiles::MemoryScopes, segments::Segment},
    chat::search::shared::{self, Readers},
    db::{Conn, DbError, dialect::hexadecimal_ids, now},
    ids::{AgentId, ChannelId, CompactionId, MemoryId, MessageId, UserId},
    memory::{
        MemoryError,
        content::Content,
        create::{self, Draft},
        entry::{MemoryKind, MemoryOrigin, MemoryScope, MemoryStatus, MemoryTrust, Visibility},
        find::EntryOwner,
        settings,
        sources::{Reach, sources_of},
    },
    sql_with_ids,
    time::Timestamp,
};

/// A sentence that a pass made.
#[derive(Debug, Clone)]
pub struct NewItem {
    pub kind: MemoryKind,
    pub content: Content,
    /// Messages of the segment, oldest first.
    pub sources: Vec<MessageId>,
    /// Time of the first source. `said_by` is its author, if that is a person.
    pub said_at: Timestamp,
    pub said_by: Option<UserId>,
    /// Person that the sentence is about.
    pub about: Option<UserId>,
    pub trust: MemoryTrust,
    /// Owner of the additional personal entry, if one is to be made.
    pub personal: Option<PersonalOwner>,
}

/// Owner of a personal entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PersonalOwner {
    pub user: UserId,
    /// The only agent that uses the entry.
    pub agent: Option<AgentId>,
}

/// Entries that a person forgot, archived, or rewrote. Similar entries are not made from the same messages again.
struct Barriers(Vec<Barrier>);

#[derive(sqlx::FromRow)]
struct BarrierRow {
    id: MemoryId,
    key: String,
    kind: MemoryKind,
}

struct Barrier {
    key: String,
    kind: MemoryKind,
    sources: HashSet<MessageId>,
}

impl Barriers {
    async fn of(c: &mut Conn, segment: CompactionId) -> Result<Self, DbError> {
        let rows: Vec<BarrierRow> = c
            .q("select id, key, kind from memories where compaction_id = $1 and (forgotten_at is not null or status = 'archived' \
                or (origin <> 'auto' and status = 'active')) order by id")
            .bind(segment)
            .all()
            .await?;
        let mut sources = sources_of(c, rows.iter().map(|row| row.id).collect()).await?;
        let barriers = rows.into_iter().map(|row| Barrier {
            sources: sources
                .remove(&row.id)
                .unwrap_or_default()
                .into_iter()
                .collect(),
            key: row.key,
            kind: row.kind,
        });
        Ok(Self(barriers.collect()))
    }

    async fn stop(
        &self,
        c: &mut Conn,
        segment: &Segment,
        key: &str,
        item: &NewItem,
    ) -> Result<bool, DbError> {
        let is_same = |barrier: &Barrier| {
            barrier.key == key
                && barrier.kind == item.kind
                && item.sources.iter().all(|id| barrier.sources.contains(id))
        };
        if self.0.iter().any(is_same) {
            return Ok(true);
        }
        // The same words in a later message count as a new statement.
        for hash in &item.content.hashes {
            let is_forgotten: bool = c
                .q("select exists (select 1 from memories where workspace_id = $1 and hash = $2 and key = $3 and forgotten_at >= $4)")
                .bind(segment.workspace_id)
                .bind(hash.clone())
                .bind(key.to_owned())
                .bind(item.said_at)
                .value()
                .await?;
            if is_forgotten {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[derive(sqlx::FromRow)]
struct Place {
    channel_id: ChannelId,
    is_public: bool,
    is_remembered: bool,
}

/// Stores the entries of a segment, and also the personal entries if memory is on for the thread. `agent` contains the scope settings
/// of the pass's agent. Returns the kinds of entries that were not stored, either because a limit was reached or because a person had
/// forgotten, archived, or rewritten a similar entry.
///
/// # Errors
/// Only database errors.
pub async fn insert_all(
    c: &mut Conn,
    segment: &Segment,
    items: &[NewItem],
    agent: Option<&MemoryScopes>,
) -> Result<Vec<MemoryKind>, DbError> {
    let place: Place = c
        .q("select h.id as channel_id, h.kind = 'public' as is_public, t.memory = 'on' as is_remembered \
            from threads t join channels h on h.id = t.channel_id where t.id = $1")
        .bind(segment.thread_id)
        .one()
        .await?;
    let barriers = Barriers::of(c, segment.id).await?;
    let workspace = segment.workspace_id;
    let of = EntryOwner {
        conversation: Some(segment.conversation_id),
        ..EntryOwner::default()
    };
    let key = of.key(MemoryScope::Conversation, workspace);
    let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let has_room = optional(create::make_room(c, workspace, &key, count).await)?.is_some();
    let mut dropped = Vec::new();
    for item in items {
        if !has_room || barriers.stop(c, segment, &key, item).await? {
            dropped.push(item.kind);
            continue;
        }
        let draft = Draft {
            scope: MemoryScope::Conversation,
            key: key.clone(),
            thread: Some(segment.thread_id),
            conversation: Some(segment.conversation_id),
            about: item.about,
            ..draft_of(segment, item, &place)
        };
        if let Some(equal) = create::find_equal(c, workspace, &draft).await? {
            create::merge(c, equal, &item.sources).await?;
        } else {
            create::put(c, workspace, &draft, &item.sources).await?;
        }
    }
    for item in items.iter().filter(|_| place.is_remembered) {
        if let Some(owner) = item.personal {
            insert_personal(c, segment, item, owner, &place, &barriers, agent).await?;
        }
    }
    Ok(dropped)
}

/// Turns errors other than database errors, such as a reached limit, into `None`.
pub(super) fn optional<T>(result: Result<T, MemoryError>) -> Result<Option<T>, DbError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(MemoryError::Db(e)) => Err(e),
        Err(_) => Ok(None),
    }
}

fn draft_of(segment: &Segment, item: &NewItem, place: &Place) -> Draft {
    let (visibility, channel) = if place.is_public {
        (Visibility::Workspace, None)
    } else {
        (Visibility::Channel, Some(place.channel_id))
    };
    Draft {
        id: MemoryId::new(),
        scope: MemoryScope::User,
        key: String::new(),
        kind: item.kind,
        content: item.content.clone(),
        agent: None,
        user: None,
        about: None,
        thread: None,
        conversation: None,
        compaction: Some(segment.id),
        reach: Reach {
            visibility,
            channel,
        },
        trust: item.trust,
        origin: MemoryOrigin::Auto,
        created_by: item.said_by,
    }
}

/// Stores the personal form of an item if the person, the workspace, and the agent allow it.
async fn insert_personal(
    c: &mut Conn,
    segment: &Segment,
    item: &NewItem,
    owner: PersonalOwner,
    place: &Place,
    barriers: &Barriers,
    agent: Option<&MemoryScopes>,
) -> Result<(), DbError> {
    let workspace = segment.workspace_id;
    let Some(first) = item.sources.first() else {
        return Ok(());
    };
    let readers = Readers {
        workspace,
        requester: owner.user,
        api_key: None,
        channel: place.channel_id,
        question: *first,
    };
    // Former members of the channel or the workspace get no entry.
    let Some(is_alone) = shared::is_alone(c, &readers).await? else {
        return Ok(());
    };
    let on = settings::scopes_on(c, workspace, owner.user).await?;
    let (scope, is_on) = if owner.agent.is_some() {
        let is_on = agent.and_then(|scopes| scopes.persona) != Some(false);
        (MemoryScope::Persona, on.persona && is_on)
    } else {
        let is_on = agent.and_then(|scopes| scopes.user) != Some(false);
        (MemoryScope::User, on.user && is_on)
    };
    let of = EntryOwner {
        user: Some(owner.user),
        agent: owner.agent,
        conversation: None,
    };
    let key = of.key(scope, workspace);
    if !is_on || barriers.stop(c, segment, &key, item).await? {
        return Ok(());
    }
    let draft = draft_of(segment, item, place);
    let draft = Draft {
        scope,
        key,
        user: Some(owner.user),
        agent: owner.agent,
        reach: if is_alone {
            Reach {
                visibility: Visibility::Direct,
                channel: None,
            }
        } else {
            draft.reach
        },
        ..draft
    };
    optional(create::insert(c, workspace, &draft, &item.sources).await)?;
    Ok(())
}

/// An active entry of a segment.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct SegmentEntry {
    pub id: MemoryId,
    pub compaction_id: CompactionId,
    pub kind: MemoryKind,
    pub text: String,
    /// Author of the first source.
    pub author_id: Option<Uuid>,
    pub author_name: Option<String>,
    pub said_at: Option<Timestamp>,
    pub said_seq: Option<i64>,
}

/// Lists the newest active entries of segments, oldest first.
pub async fn list(
    c: &mut Conn,
    segments: impl IntoIterator<Item = CompactionId>,
    limit: i64,
) -> Result<Vec<SegmentEntry>, DbError> {
    let sql = sql_with_ids!(
        c,
        "select e.id, e.compaction_id, e.kind, e.text, m.author_id, \
         coalesce(u.name, a.summary ->> 'display_name', a.name) as author_name, m.created_at as said_at, m.seq as said_seq \
         from memories e left join messages m on m.id = (select x.source_id from citations x join messages s on s.id = x.source_id \
           where x.owner_type = 'memory' and x.owner_id = e.id and x.source_type = 'message' order by s.seq limit 1) \
         left join users u on m.author_type = 'human' and u.id = m.author_id \
         left join agents a on m.author_type = 'agent' and a.id = m.author_id \
         where e.scope = 'conversation' and e.status = 'active' and e.forgotten_at is null and e.compaction_id in",
        1,
        "order by m.seq desc, e.id desc limit $2"
    );
    let mut entries: Vec<SegmentEntry> = c
        .q(sql)
        .bind(hexadecimal_ids(segments.into_iter().map(|id| id.0)))
        .bind(limit)
        .all()
        .await?;
    entries.reverse();
    Ok(entries)
}

/// Marks an automatic entry and its personal form as replaced by a newer one.
pub async fn supersede(c: &mut Conn, old: MemoryId, new: MemoryId) -> Result<(), DbError> {
    retire(c, old, MemoryStatus::Superseded, Some(new)).await
}

/// Archives an automatic entry and its personal form.
pub async fn archive(c: &mut Conn, entry: MemoryId) -> Result<(), DbError> {
    retire(c, entry, MemoryStatus::Archived, None).await
}

/// Changes the status of an automatic entry that is no longer current, and of its personal form. Does nothing if the entry that
/// replaces it was forgotten.
async fn retire(
    c: &mut Conn,
    entry: MemoryId,
    status: MemoryStatus,
    by: Option<MemoryId>,
) -> Result<(), DbError> {
    let retired: Vec<(MemoryId,)> = c
        .q("update memories set status = $2, superseded_by = $3, version = version + 1, updated_at = $4 \
            where status = 'active' and origin = 'auto' and compaction_id = (select o.compaction_id from memories o where o.id = $1) \
            and text = (select o.text from memories o where o.id = $1) and forgotten_at is null \
            and ($3 is null or exists (select 1 from memories n where n.id = $3 and n.forgotten_at is null)) returning id")
        .bind(entry)
        .bind(status)
        .bind(by)
        .bind(now())
        .all()
        .await?;
    for (id,) in retired {
        crate::agents::entries::announce(c, id, crate::agents::entries::MemoryAction::Updated)
            .await?;
    }
    Ok(())
}
