//! Entries that agents make with the tool `remember`, which are automatic entries without a segment.

use uuid::Uuid;

use crate::{
    agents::profiles::MemoryScopes,
    db::{
        Conn, DbError,
        dialect::{hexadecimal_ids, lock_workspace},
    },
    ids::{ChannelId, MemoryId, MessageId, ThreadId, UserId, WorkspaceId},
    memory::{
        automatic::optional,
        content::Content,
        create::{self, Draft},
        entry::{MemoryKind, MemoryOrigin, MemoryScope, MemoryTrust, Visibility},
        find::EntryOwner,
        settings,
        sources::Reach,
    },
    sql_with_ids,
    time::Timestamp,
};

/// A sentence that an agent remembers.
#[derive(Debug, Clone)]
pub struct Remembered {
    /// ID of the entry. If the call runs again with this ID, no second entry is created.
    pub id: MemoryId,
    pub workspace: WorkspaceId,
    pub thread: ThreadId,
    /// The thread, or a fork of it.
    pub conversation: Uuid,
    pub kind: MemoryKind,
    pub content: Content,
    /// People's messages in the conversation.
    pub sources: Vec<MessageId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remembering {
    Stored,
    /// An identical entry exists.
    Known,
    /// A person forgot the sentence after the messages were posted.
    Forgotten,
    /// A source no longer exists.
    SourceGone,
    /// A limit was reached.
    Full,
}

/// Checks whether an agent can make entries in a conversation for this person.
pub async fn is_on(
    c: &mut Conn,
    workspace: WorkspaceId,
    requester: UserId,
    thread: ThreadId,
    agent: Option<&MemoryScopes>,
) -> Result<bool, DbError> {
    if agent.and_then(|scopes| scopes.conversation) == Some(false) {
        return Ok(false);
    }
    // The thread that a schedule's reply will start may not exist yet.
    let is_remembered: Option<(bool,)> = c
        .q("select memory = 'on' from threads where id = $1")
        .bind(thread)
        .opt()
        .await?;
    let scopes = settings::scopes_on(c, workspace, requester).await?;
    Ok(is_remembered.is_some_and(|(is_on,)| is_on) && scopes.conversation)
}

#[derive(sqlx::FromRow)]
struct Source {
    author_id: Option<UserId>,
    created_at: Timestamp,
}

/// Stores an entry of the conversation.
pub async fn store(c: &mut Conn, new: &Remembered) -> Result<Remembering, DbError> {
    lock_workspace(c, new.workspace.0).await?;
    let is_repeated: bool = c
        .q("select exists (select 1 from memories where id = $1)")
        .bind(new.id)
        .value()
        .await?;
    if is_repeated {
        return Ok(Remembering::Stored);
    }
    let sql = sql_with_ids!(
        c,
        "select m.author_id, m.created_at from messages m where m.conversation_id = $2 and m.author_type = 'human' \
         and m.deleted_at is null and m.state = 'complete' and m.id in",
        1,
        "order by m.seq"
    );
    let sources: Vec<Source> = c
        .q(sql)
        .bind(hexadecimal_ids(new.sources.iter().map(|id| id.0)))
        .bind(new.conversation)
        .all()
        .await?;
    let Some(first) = sources
        .first()
        .filter(|_| sources.len() == new.sources.len())
    else {
        return Ok(Remembering::SourceGone);
    };
    let of = EntryOwner {
        conversation: Some(new.conversation),
        ..EntryOwner::default()
    };
    let key = of.key(MemoryScope::Conversation, new.workspace);
    if is_forgotten(c, new, &key, first.created_at).await? {
        return Ok(Remembering::Forgotten);
    }
    let draft = Draft {
        id: new.id,
        scope: MemoryScope::Conversation,
        key,
        kind: new.kind,
        content: new.content.clone(),
        agent: None,
        user: None,
        about: None,
        thread: Some(new.thread),
        conversation: Some(new.conversation),
        compaction: None,
        reach: reach_in(c, new.thread).await?,
        trust: MemoryTrust::Person,
        origin: MemoryOrigin::Auto,
        created_by: first.author_id,
    };
    if create::find_equal(c, new.workspace, &draft)
        .await?
        .is_some()
    {
        return Ok(Remembering::Known);
    }
    let stored = create::insert(c, new.workspace, &draft, &new.sources).await;
    Ok(match optional(stored)? {
        Some(_) => Remembering::Stored,
        None => Remembering::Full,
    })
}

/// Checks whether a person forgot the sentence after its first source was posted. The same words in a later message count as new.
async fn is_forgotten(
    c: &mut Conn,
    new: &Remembered,
    key: &str,
    since: Timestamp,
) -> Result<bool, DbError> {
    for hash in &new.content.hashes {
        let is_forgotten: bool = c
            .q("select exists (select 1 from memories where workspace_id = $1 and hash = $2 and key = $3 and forgotten_at >= $4)")
            .bind(new.workspace)
            .bind(hash.clone())
            .bind(key.to_owned())
            .bind(since)
            .value()
            .await?;
        if is_forgotten {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reach of the entry: all conversations whose readers can read the channel of the sources.
async fn reach_in(c: &mut Conn, thread: ThreadId) -> Result<Reach, DbError> {
    let (channel, is_public): (ChannelId, bool) = c
        .q("select h.id, h.kind = 'public' from threads t join channels h on h.id = t.channel_id where t.id = $1")
        .bind(thread)
        .one()
        .await?;
    Ok(if is_public {
        Reach {
            visibility: Visibility::Workspace,
            channel: None,
        }
    } else {
        Reach {
            visibility: Visibility::Channel,
            channel: Some(channel),
        }
    })
}
