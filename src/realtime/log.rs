//! The event log of a workspace, with gap-free sequence numbers in commit order.

use std::collections::HashMap;

use axum::extract::ws::Utf8Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    delivery::{Followed, Reach},
    event::{
        EventData, EventType, Frame, ends_stream, guest_types, is_type_for_guests,
        is_type_of_agent, is_type_of_traffic, traffic_types,
    },
};
use crate::{
    db::{CommitMarker, Conn, DbError, EventRow, Json, dialect, is_in_visible_channel, now},
    ids::{ChannelId, ForkId, MessageId, ThreadId, UserId, WorkspaceId},
    time::Timestamp,
};

/// Maximum number of events removed per transaction, which limits how long other writers wait.
const PRUNED_AT_ONCE: i64 = 1000;

/// Recipients of an event, determined by the memberships at the time of delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Audience {
    Workspace,
    /// A public channel: the whole workspace.
    Public(ChannelId),
    /// A private or direct channel: its members.
    Members(ChannelId),
}

impl Audience {
    pub fn channel(self) -> Option<ChannelId> {
        match self {
            Self::Workspace => None,
            Self::Public(id) | Self::Members(id) => Some(id),
        }
    }
}

/// Recipients of an event that not everyone in its audience can see, such as one about an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipients {
    pub users: Vec<UserId>,
    /// True if people who manage agents also receive the event.
    pub managers: bool,
}

/// Agents that a reader can see, of which an API key can see fewer than its owner, and the reader's part of the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentVisibility {
    /// True if the reader can see agents at all.
    pub agents: bool,
    /// True if the reader also sees agents that they cannot invoke.
    pub all_agents: bool,
    pub reach: Reach,
}

impl AgentVisibility {
    /// Checks whether the reader is one of the recipients.
    fn reaches(self, only: &Recipients, user: UserId) -> bool {
        only.users.contains(&user) || (only.managers && self.all_agents)
    }

    /// Checks whether the reader receives an event, apart from access to its channel.
    pub fn permits(self, event: &Envelope, user: UserId) -> bool {
        (self.agents || !event.is_of_agent)
            && (self.reach == Reach::Workspace
                || event.audience.channel().is_some()
                || event.is_for_guests
                || event.only.is_some()
                || event.extra_recipient == Some(user))
            && event
                .only
                .as_ref()
                .is_none_or(|only| self.reaches(only, user))
    }
}

/// Membership change that an event makes; it is applied before the event is delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MembershipChange {
    /// People were added to a private or direct channel.
    Granted {
        channel: ChannelId,
        users: Vec<UserId>,
    },
    /// A person is no longer in a private or direct channel.
    Revoked { channel: ChannelId, user: UserId },
    /// People joined a public channel.
    Joined {
        channel: ChannelId,
        users: Vec<UserId>,
    },
    /// A person left a public channel.
    Left { channel: ChannelId, user: UserId },
    /// The person is no longer in the workspace.
    Expelled { user: UserId },
}

/// An event to append; `data` is already JSON.
pub struct NewEvent {
    /// Sequence number from `reserve`.
    pub seq: i64,
    pub kind: EventType,
    pub audience: Audience,
    /// One more recipient, who does not have to be in the channel.
    pub extra_recipient: Option<UserId>,
    /// The only recipients, regardless of the audience.
    pub only: Option<Recipients>,
    /// People who receive the event even if they have not joined its public channel; the same as in `message_mentions`.
    pub mentioned: Vec<UserId>,
    pub thread: Option<ThreadId>,
    pub fork: Option<ForkId>,
    /// The message whose text `data` contains, so that deleting it can blank the frame.
    pub message: Option<MessageId>,
    pub access: Option<MembershipChange>,
    pub data: Box<RawValue>,
}

impl NewEvent {
    /// Creates an event for `audience`.
    ///
    /// # Errors
    /// If `data` cannot be encoded as JSON.
    pub fn new(
        seq: i64,
        kind: EventType,
        audience: Audience,
        data: &impl EventData,
    ) -> Result<Self, DbError> {
        if cfg!(test_hooks) {
            assert!(is_data_of(kind, data), "{kind} has other data");
        }
        Ok(Self {
            seq,
            kind,
            audience,
            extra_recipient: None,
            only: None,
            mentioned: Vec::new(),
            thread: None,
            fork: None,
            message: None,
            access: None,
            data: to_raw(data)?,
        })
    }

    #[must_use]
    pub fn in_conversation(mut self, thread: ThreadId, fork: Option<ForkId>) -> Self {
        self.thread = Some(thread);
        self.fork = fork;
        self
    }

    #[must_use]
    pub fn about(mut self, message: Option<MessageId>) -> Self {
        self.message = message;
        self
    }

    #[must_use]
    pub fn also_to(mut self, user: UserId) -> Self {
        self.extra_recipient = Some(user);
        self
    }

    /// Restricts the event to these recipients if `only` is set.
    #[must_use]
    pub fn only_to(mut self, only: Option<Recipients>) -> Self {
        self.only = only;
        if let Some(only) = &mut self.only {
            only.users.sort_unstable();
            only.users.dedup();
        }
        self
    }

    /// Also sends the event to these people, even if they have not joined its public channel.
    #[must_use]
    pub fn mentioning(mut self, mut users: Vec<UserId>) -> Self {
        users.sort_unstable();
        users.dedup();
        self.mentioned = users;
        self
    }

    /// Text that is stored and sent.
    fn frame(&self, ts: Timestamp) -> Result<String, DbError> {
        serde_json::to_string(&Frame {
            r#type: self.kind,
            seq: self.seq,
            ts: ts.to_text(),
            channel_id: self.audience.channel(),
            thread_id: self.thread,
            fork_id: self.fork,
            data: &self.data,
        })
        .map_err(|e| DbError::Sql(sqlx::Error::Encode(e.into())))
    }

    #[must_use]
    pub fn changing(mut self, access: MembershipChange) -> Self {
        self.access = Some(access);
        self
    }
}

fn is_data_of<D: EventData>(kind: EventType, _: &D) -> bool {
    D::TYPES.contains(&kind)
}

fn to_raw(data: &impl Serialize) -> Result<Box<RawValue>, DbError> {
    serde_json::value::to_raw_value(data).map_err(|e| DbError::Sql(sqlx::Error::Encode(e.into())))
}

/// A committed event on its way to the sockets of this process or of other nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    pub workspace: WorkspaceId,
    pub seq: i64,
    pub ts: Timestamp,
    pub audience: Audience,
    pub extra_recipient: Option<UserId>,
    /// The only recipients, regardless of the audience.
    pub only: Option<Recipients>,
    pub is_of_agent: bool,
    /// True if the event is part of the traffic of its channel.
    pub is_traffic: bool,
    /// True if guests receive the event although it has no channel.
    #[serde(default)]
    pub is_for_guests: bool,
    /// People who receive the event even if they have not joined its public channel.
    pub mentioned: Vec<UserId>,
    /// The message whose stream ends, because the frame contains its complete text or deletes it.
    pub ends_stream: Option<MessageId>,
    pub access: Option<MembershipChange>,
    #[serde(with = "frame_text")]
    pub frame: Utf8Bytes,
}

/// A frame as a JSON string.
mod frame_text {
    use axum::extract::ws::Utf8Bytes;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(frame: &Utf8Bytes, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(frame)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Utf8Bytes, D::Error> {
        String::deserialize(d).map(Utf8Bytes::from)
    }
}

/// Reserves the next `n` sequence numbers of the workspace and returns the first. The workspace row stays locked until the commit.
pub async fn reserve(c: &mut Conn, workspace: WorkspaceId, n: usize) -> Result<i64, DbError> {
    let n = i64::try_from(n).unwrap_or(1);
    c.reserve_seq(workspace.0, n).await
}

/// Appends an event under a reserved sequence number; it is stored together with the other events of the transaction, and
/// delivered after the commit.
#[expect(
    clippy::unused_async,
    reason = "a statement to its callers, although the transaction runs it later"
)]
pub async fn append(c: &mut Conn, workspace: WorkspaceId, event: NewEvent) -> Result<(), DbError> {
    let ts = now();
    let frame = event.frame(ts)?;
    let access = event.access.as_ref().map(serde_json::to_value).transpose();
    let access = access.map_err(|e| DbError::Sql(sqlx::Error::Encode(e.into())))?;
    let recipients = |only: &Recipients| only.users.iter().map(|user| user.0).collect();
    c.append_event(EventRow {
        workspace: workspace.0,
        seq: event.seq,
        kind: event.kind.as_str(),
        channel: event.audience.channel().map(|channel| channel.0),
        user: event.extra_recipient.map(|user| user.0),
        message: event.message.map(|message| message.0),
        recipients: event.only.as_ref().map(recipients),
        includes_managers: event.only.as_ref().is_some_and(|only| only.managers),
        frame: frame.clone(),
        ts,
        access: access.map(Json),
    });
    c.mark_commit(CommitMarker {
        workspace: workspace.0,
        seq: event.seq,
        ts,
    });
    c.notify(Box::new(Envelope {
        workspace,
        seq: event.seq,
        ts,
        audience: event.audience,
        extra_recipient: event.extra_recipient,
        only: event.only,
        is_of_agent: event.kind.is_of_agent(),
        is_traffic: is_type_of_traffic(event.kind.as_str()),
        is_for_guests: is_type_for_guests(event.kind.as_str()),
        mentioned: event.mentioned,
        ends_stream: event.message.filter(|_| ends_stream(event.kind.as_str())),
        access: event.access,
        frame: frame.into(),
    }));
    Ok(())
}

/// Reserves one sequence number and appends one event.
pub async fn append_one(
    c: &mut Conn,
    workspace: WorkspaceId,
    kind: EventType,
    audience: Audience,
    data: &impl EventData,
) -> Result<i64, DbError> {
    let seq = reserve(c, workspace, 1).await?;
    append(c, workspace, NewEvent::new(seq, kind, audience, data)?).await?;
    Ok(seq)
}

/// Returns the newest sequence number and the newest pruned one.
pub async fn head(c: &mut Conn, workspace: WorkspaceId) -> Result<(i64, i64), DbError> {
    c.q("select seq, pruned_seq from workspaces where id = $1")
        .bind(workspace)
        .one()
        .await
}

/// Returns the newest sequence number of each workspace.
pub async fn heads(
    c: &mut Conn,
    workspaces: &[WorkspaceId],
) -> Result<Vec<(WorkspaceId, i64)>, DbError> {
    let ids = workspaces.iter().map(|id| id.0);
    c.q(crate::sql_with_ids!(
        c,
        "select id, seq from workspaces where id in",
        1,
        "order by id"
    ))
    .bind(dialect::hexadecimal_ids(ids))
    .all()
    .await
}

/// Position in the log up to which a room has delivered events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub seq: i64,
    /// Time of the event at this position; `None` if the event was pruned.
    pub ts: Option<Timestamp>,
}

/// Returns the newest position of each workspace.
pub async fn positions(
    c: &mut Conn,
    workspaces: &[WorkspaceId],
) -> Result<Vec<(WorkspaceId, Position)>, DbError> {
    let ids = workspaces.iter().map(|id| id.0);
    let rows: Vec<(WorkspaceId, i64, Option<Timestamp>)> = c
        .q(crate::sql_with_ids!(
            c,
            "select w.id, w.seq, e.ts from workspaces w left join events e on e.workspace_id = w.id and e.seq = w.seq where w.id in",
            1,
            "order by w.id"
        ))
        .bind(dialect::hexadecimal_ids(ids))
        .all()
        .await?;
    let positions = rows.into_iter();
    Ok(positions
        .map(|(id, seq, ts)| (id, Position { seq, ts }))
        .collect())
}

/// Content of the log after a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continuation {
    /// The log has no later events.
    Current,
    /// The log has later events, up to this sequence number.
    Through(i64),
    /// Events after the position were pruned.
    Pruned,
    /// The log does not contain the event at this position, because the database was replaced with an older or different one.
    Lost,
}

/// Compares a position with the log.
pub async fn continuation(
    c: &mut Conn,
    workspace: WorkspaceId,
    position: Position,
) -> Result<Continuation, DbError> {
    let found: Option<(i64, i64, Option<Timestamp>)> = c
        .q("select w.seq, w.pruned_seq, e.ts from workspaces w \
            left join events e on e.workspace_id = w.id and e.seq = $2 where w.id = $1")
        .bind(workspace)
        .bind(position.seq)
        .opt()
        .await?;
    let Some((head, pruned, ts)) = found else {
        return Ok(Continuation::Lost);
    };
    // Times on the bus and in frames have millisecond precision.
    let is_other = position.seq > pruned
        && position
            .ts
            .is_some_and(|own| ts.map(Timestamp::unix_ms) != Some(own.unix_ms()));
    Ok(if head < position.seq || is_other {
        Continuation::Lost
    } else if pruned > position.seq {
        Continuation::Pruned
    } else if head > position.seq {
        Continuation::Through(head)
    } else {
        Continuation::Current
    })
}

/// Maximum size of a page of events.
#[derive(Debug, Clone, Copy)]
pub struct PageMax {
    pub events: i64,
    /// Maximum total size of the events' frames in bytes. A larger single event is still returned.
    pub bytes: i64,
}

/// A reader of the log, and which of the visible events the reader receives.
#[derive(Debug, Clone, Copy)]
pub struct LogReader<'a> {
    pub user: UserId,
    pub visibility: AgentVisibility,
    pub followed: Followed<'a>,
}

/// Returns the events after `after` and up to `until` that a reader can currently see, oldest first, as pairs of sequence number and
/// frame. Returns at least one event if there is any. For events beyond the page, only the size of the frame is read.
pub async fn visible_after(
    c: &mut Conn,
    workspace: WorkspaceId,
    reader: LogReader<'_>,
    after: i64,
    until: i64,
    max: PageMax,
) -> Result<Vec<(i64, String)>, DbError> {
    let (follows_all, open) = match reader.followed {
        Followed::All => (true, [].as_slice()),
        Followed::JoinedAnd(open) => (false, open),
    };
    c.q(crate::sql_with_ids!(
        c,
        concat!(
            "select e.seq, e.frame from (\
               select seq, size, sum(size) over (order by seq) as size_through from (\
                 select e.seq, octet_length(e.frame) as size from events e \
                 where e.workspace_id = $1 and e.seq > $2 and e.seq <= $3 \
                   and (e.channel_id is null or e.user_id = $4 or ",
            is_in_visible_channel!("e.channel_id", "$4"),
            ") \
                   and (not e.is_restricted or (e.includes_managers and $6) or exists (select 1 from event_recipients r \
                     where r.workspace_id = e.workspace_id and r.seq = e.seq and r.user_id = $4)) \
                   and ($7 or (e.type not like 'agent.%' and e.type not like 'skill.%' and e.type not like 'workflow.%')) \
                   and ($11 or e.channel_id is not null or e.user_id = $4 or e.is_restricted or e.type in (",
            guest_types!(),
            ")) \
                   and ($9 or e.is_restricted or e.channel_id is null or e.user_id = $4 or e.type not in (",
            traffic_types!(),
            ") or exists (select 1 from channel_members cm where cm.channel_id = e.channel_id and cm.user_id = $4) \
                     or exists (select 1 from message_mentions mm \
                       where mm.channel_id = e.channel_id and mm.target_id = $4 and mm.seq = e.seq) \
                     or e.channel_id in"
        ),
        10,
        ") \
                 order by e.seq limit $5) sized) page \
             join events e on e.workspace_id = $1 and e.seq = page.seq \
             where page.size_through <= $8 or page.size_through = page.size \
             order by page.seq limit $5"
    ))
    .bind(workspace)
    .bind(after)
    .bind(until)
    .bind(reader.user)
    .bind(max.events)
    .bind(reader.visibility.all_agents)
    .bind(reader.visibility.agents)
    .bind(max.bytes)
    .bind(follows_all)
    .bind(dialect::hexadecimal_ids(open.iter().map(|id| id.0)))
    .bind(reader.visibility.reach == Reach::Workspace)
    .all()
    .await
}

#[derive(sqlx::FromRow)]
struct LogRow {
    seq: i64,
    ts: Timestamp,
    r#type: String,
    channel_id: Option<ChannelId>,
    is_public: bool,
    user_id: Option<UserId>,
    message_id: Option<MessageId>,
    is_restricted: bool,
    includes_managers: bool,
    access: Option<Json<MembershipChange>>,
    frame: String,
}

impl LogRow {
    fn audience(&self) -> Audience {
        match self.channel_id {
            None => Audience::Workspace,
            Some(channel) if self.is_public => Audience::Public(channel),
            Some(channel) => Audience::Members(channel),
        }
    }
}

/// Recipients of restricted events, by sequence number.
async fn recipients_of(
    c: &mut Conn,
    workspace: WorkspaceId,
    rows: &[LogRow],
) -> Result<HashMap<i64, Vec<UserId>>, DbError> {
    let mut restricted = rows.iter().filter(|row| row.is_restricted);
    let range = restricted.next().map(|first| {
        let last = restricted.next_back().unwrap_or(first);
        (first.seq, last.seq)
    });
    let mut recipients: HashMap<i64, Vec<UserId>> = HashMap::new();
    if let Some((first, last)) = range {
        let found: Vec<(i64, UserId)> = c
            .q("select seq, user_id from event_recipients where workspace_id = $1 and seq between $2 and $3 order by seq, user_id")
            .bind(workspace)
            .bind(first)
            .bind(last)
            .all()
            .await?;
        for (seq, user) in found {
            recipients.entry(seq).or_default().push(user);
        }
    }
    Ok(recipients)
}

/// People mentioned in new messages in public channels, by sequence number.
async fn mentioned_in(
    c: &mut Conn,
    workspace: WorkspaceId,
    rows: &[LogRow],
) -> Result<HashMap<i64, Vec<UserId>>, DbError> {
    let mut mentioned: HashMap<i64, Vec<UserId>> = HashMap::new();
    let is_created =
        |row: &&LogRow| row.is_public && row.r#type == EventType::MessageCreated.as_str();
    let mut created = rows.iter().filter(is_created);
    if let Some(first) = created.next() {
        let last = created.next_back().unwrap_or(first);
        // For a group mention, the target ID is the channel's ID.
        let found: Vec<(i64, UserId)> = c
            .q("select e.seq, mm.target_id from events e join message_mentions mm on mm.message_id = e.message_id and mm.seq = e.seq \
                where e.workspace_id = $1 and e.seq between $2 and $3 and mm.target_id <> e.channel_id order by e.seq, mm.target_id")
            .bind(workspace)
            .bind(first.seq)
            .bind(last.seq)
            .all()
            .await?;
        for (seq, user) in found {
            mentioned.entry(seq).or_default().push(user);
        }
    }
    Ok(mentioned)
}

/// Events after `after` with their recipients, oldest first, as they were sent after their commits, except for the texts of messages
/// that have been deleted since then. Returns at least one event if there is any.
///
/// `c` must be a snapshot or a transaction; otherwise, cleanup could delete the recipients between the queries.
pub async fn envelopes_after(
    c: &mut Conn,
    workspace: WorkspaceId,
    after: i64,
    max: PageMax,
) -> Result<Vec<Envelope>, DbError> {
    let rows: Vec<LogRow> = c
        .q("select e.seq, e.ts, e.type, e.channel_id, coalesce(ch.kind = 'public', false) as is_public, e.user_id, e.message_id, e.is_restricted, \
                   e.includes_managers, e.access, e.frame from (\
             select seq, size, sum(size) over (order by seq) as size_through from (\
               select seq, octet_length(frame) as size from events where workspace_id = $1 and seq > $2 \
               order by seq limit $3) sized) page \
           join events e on e.workspace_id = $1 and e.seq = page.seq \
           left join channels ch on ch.id = e.channel_id \
           where page.size_through <= $4 or page.size_through = page.size \
           order by page.seq limit $3")
        .bind(workspace)
        .bind(after)
        .bind(max.events)
        .bind(max.bytes)
        .all()
        .await?;
    let mut recipients = recipients_of(c, workspace, &rows).await?;
    let mut mentioned = mentioned_in(c, workspace, &rows).await?;
    let envelopes = rows.into_iter().map(|row| Envelope {
        workspace,
        seq: row.seq,
        ts: row.ts,
        audience: row.audience(),
        extra_recipient: row.user_id,
        only: row.is_restricted.then(|| Recipients {
            users: recipients.remove(&row.seq).unwrap_or_default(),
            managers: row.includes_managers,
        }),
        is_of_agent: is_type_of_agent(&row.r#type),
        is_traffic: is_type_of_traffic(&row.r#type),
        is_for_guests: is_type_for_guests(&row.r#type),
        mentioned: mentioned.remove(&row.seq).unwrap_or_default(),
        ends_stream: row.message_id.filter(|_| ends_stream(&row.r#type)),
        access: row.access.map(|Json(change)| change),
        frame: row.frame.into(),
    });
    Ok(envelopes.collect())
}

/// Removes the text of a deleted message from all stored frames. `blank` changes the JSON of one
/// frame.
pub async fn blank_message(
    c: &mut Conn,
    workspace: WorkspaceId,
    message: MessageId,
    blank: impl Fn(&mut serde_json::Value),
) -> Result<(), DbError> {
    let rows: Vec<(i64, String)> = c
        .q("select seq, frame from events where message_id = $1 and workspace_id = $2")
        .bind(message)
        .bind(workspace)
        .all()
        .await?;
    for (seq, frame) in rows {
        let Ok(mut value) = serde_json::from_str::<serde_json::Value>(&frame) else {
            continue;
        };
        blank(&mut value);
        c.q("update events set frame = $3 where workspace_id = $1 and seq = $2")
            .bind(workspace)
            .bind(seq)
            .bind(value.to_string())
            .run()
            .await?;
    }
    Ok(())
}

/// Replaces a stored event by another one with its number and its recipients.
pub async fn replace(c: &mut Conn, workspace: WorkspaceId, event: NewEvent) -> Result<(), DbError> {
    let stored: Option<(Timestamp,)> = c
        .q("select ts from events where workspace_id = $1 and seq = $2")
        .bind(workspace)
        .bind(event.seq)
        .opt()
        .await?;
    let Some((ts,)) = stored else {
        return Ok(());
    };
    let frame = event.frame(ts)?;
    c.q("update events set type = $3, frame = $4, message_id = null where workspace_id = $1 and seq = $2")
        .bind(workspace)
        .bind(event.seq)
        .bind(event.kind)
        .bind(frame)
        .run()
        .await?;
    Ok(())
}

/// Removes up to `PRUNED_AT_ONCE` events older than `before`, oldest first, and returns the number of removed events.
pub async fn prune(
    c: &mut Conn,
    workspace: WorkspaceId,
    before: Timestamp,
) -> Result<u64, DbError> {
    let newest: Option<i64> = c
        .q("select max(seq) from (select seq from events where workspace_id = $1 and ts < $2 order by seq limit $3) old")
        .bind(workspace)
        .bind(before)
        .bind(PRUNED_AT_ONCE)
        .value()
        .await?;
    let Some(newest) = newest else { return Ok(0) };
    c.q("update workspaces set pruned_seq = $2 where id = $1 and pruned_seq < $2")
        .bind(workspace)
        .bind(newest)
        .run()
        .await?;
    c.q("delete from events where workspace_id = $1 and seq <= $2")
        .bind(workspace)
        .bind(newest)
        .run()
        .await
}
