//! SQL statements for segments and windows.

use uuid::Uuid;

use crate::{
    agents::segments::Segment,
    chat::presets,
    db::{Conn, DbError},
    ids::{AgentId, BEFORE_ALL_SEQS, CompactionId, ForkId, ThreadId, WorkspaceId, before_all_seqs},
    replies::history::said,
    segment_sql,
    tasks::Lease,
    time::Timestamp,
};

use super::settle::ShortenedGist;

/// Number of segments that a search for uncovered messages reads at a time.
const SEGMENTS_PER_READ: i64 = 256;

/// Lists segments that contain a message at or after this sequence number, oldest first. Blank segments are left out.
pub async fn list_since(
    c: &mut Conn,
    conversation: Uuid,
    seq: i64,
) -> Result<Vec<Segment>, DbError> {
    c.q(segment_sql!(
        "where k.conversation_id = $1 and k.to_seq >= $2 and k.state <> 'blank' order by k.from_seq limit 1000"
    ))
    .bind(conversation)
    .bind(seq)
    .all()
    .await
}

/// Lists segments that begin before a sequence number, newest first. Blank segments are left out.
pub async fn list_before(
    c: &mut Conn,
    conversation: Uuid,
    seq: i64,
    limit: i64,
) -> Result<Vec<Segment>, DbError> {
    c.q(segment_sql!(
        "where k.conversation_id = $1 and k.from_seq < $2 and k.state <> 'blank' order by k.from_seq desc limit $3"
    ))
    .bind(conversation)
    .bind(seq)
    .bind(limit)
    .all()
    .await
}

/// Lists the most recent segments of a conversation in creation order.
pub async fn list(c: &mut Conn, conversation: Uuid, limit: i64) -> Result<Vec<Segment>, DbError> {
    let mut newest: Vec<Segment> = c
        .q(segment_sql!(
            "where k.conversation_id = $1 order by k.id desc limit $2"
        ))
        .bind(conversation)
        .bind(limit)
        .all()
        .await?;
    newest.reverse();
    Ok(newest)
}

/// Lists the segments that a task has made.
pub async fn made_by(c: &mut Conn, lease: &Lease) -> Result<Vec<CompactionId>, DbError> {
    let rows: Vec<(CompactionId,)> = c
        .q("select id from compactions where conversation_id = $1 and task_id = $2 order by id")
        .bind(lease.target.conversation().id())
        .bind(lease.task)
        .all()
        .await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// Lists segments that have to be rebuilt, oldest first.
pub async fn list_outdated(
    c: &mut Conn,
    conversation: Uuid,
    limit: i64,
) -> Result<Vec<Segment>, DbError> {
    c.q(segment_sql!(
        "where k.conversation_id = $1 and k.state in ('blank', 'stale') order by k.from_seq limit $2"
    ))
    .bind(conversation)
    .bind(limit)
    .all()
    .await
}

pub async fn has_segments(c: &mut Conn, conversation: Uuid) -> Result<bool, DbError> {
    c.q("select exists (select 1 from compactions where conversation_id = $1 and state <> 'blank')")
        .bind(conversation)
        .value()
        .await
}

/// Returns the time at which the newest pass that made a segment was completed.
pub async fn last_compacted_at(
    c: &mut Conn,
    conversation: Uuid,
) -> Result<Option<Timestamp>, DbError> {
    c.q("select max(t.completed_at) from compactions k join tasks t on t.id = k.task_id where k.conversation_id = $1")
        .bind(conversation)
        .value()
        .await
}

/// Returns the sequence number of the first message that the agent receives, if it is stored.
pub async fn window_start(
    c: &mut Conn,
    conversation: Uuid,
    agent: AgentId,
) -> Result<Option<i64>, DbError> {
    let row: Option<(Option<i64>,)> = c
        .q("select window_start_seq from conversation_agents where conversation_id = $1 and agent_id = $2")
        .bind(conversation)
        .bind(agent)
        .opt()
        .await?;
    Ok(row.and_then(|row| row.0))
}

/// Key of a row in `conversations`.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub workspace: WorkspaceId,
    pub thread: ThreadId,
    pub fork: Option<ForkId>,
}

impl Key {
    pub fn id(self) -> Uuid {
        self.fork.map_or(self.thread.0, |fork| fork.0)
    }
}

pub async fn insert_conversation(c: &mut Conn, key: Key) -> Result<(), DbError> {
    presets::insert_conversation(c, key.workspace, key.thread, key.fork).await
}

/// Adds a reply to the agent's counter, and stores the start of the agent's window.
pub async fn note_reply(
    c: &mut Conn,
    key: Key,
    agent: AgentId,
    start: Option<i64>,
) -> Result<(), DbError> {
    insert_conversation(c, key).await?;
    c.q("insert into conversation_agents (conversation_id, agent_id, window_start_seq, turns) values ($1, $2, $3, 1) \
         on conflict (conversation_id, agent_id) do update set turns = conversation_agents.turns + 1, \
         window_start_seq = coalesce(excluded.window_start_seq, conversation_agents.window_start_seq)")
        .bind(key.id())
        .bind(agent)
        .bind(start)
        .run()
        .await?;
    Ok(())
}

/// Lists the active agents that have replied in a conversation, with their versions.
pub async fn list_agents(
    c: &mut Conn,
    conversation: Uuid,
    limit: i64,
) -> Result<Vec<(AgentId, i64)>, DbError> {
    c.q("select a.id, a.version from conversation_agents p join agents a on a.id = p.agent_id \
         where p.conversation_id = $1 and p.turns > 0 and a.status = 'active' order by a.id limit $2")
        .bind(conversation)
        .bind(limit)
        .all()
        .await
}

/// Moves the windows of all agents past a segment, including the window of an agent that has not replied yet.
pub async fn move_starts(
    c: &mut Conn,
    key: Key,
    agent: AgentId,
    start: i64,
) -> Result<(), DbError> {
    c.q("insert into conversation_agents (conversation_id, agent_id, window_start_seq, turns) \
         select $1, a.id, $3, 0 from agents a where a.id = $2 on conflict (conversation_id, agent_id) do nothing")
        .bind(key.id())
        .bind(agent)
        .bind(start)
        .run()
        .await?;
    c.q("update conversation_agents set window_start_seq = $2 where conversation_id = $1 and (window_start_seq is null or window_start_seq < $2)")
        .bind(key.id())
        .bind(start)
        .run()
        .await?;
    Ok(())
}

/// Counts the messages before a sequence number that belong to segments.
pub async fn count_covered(c: &mut Conn, conversation: Uuid, seq: i64) -> Result<i64, DbError> {
    count(c, conversation, seq, Counted::Covered).await
}

/// Counts the messages before a sequence number that are represented by a summary of their segment in prompts.
pub async fn count_summarized(c: &mut Conn, conversation: Uuid, seq: i64) -> Result<i64, DbError> {
    count(c, conversation, seq, Counted::Summarized).await
}

/// Selects the messages to count. Messages of expanded segments are covered, but not summarized.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    Covered,
    Summarized,
}

async fn count(
    c: &mut Conn,
    conversation: Uuid,
    seq: i64,
    counted: Counted,
) -> Result<i64, DbError> {
    let whole: i64 = c
        .q("select cast(coalesce(sum(message_count), 0) as bigint) from compactions where conversation_id = $1 and to_seq < $2 and state <> 'blank' \
            and ($3 or state <> 'expanded')")
        .bind(conversation)
        .bind(seq)
        .bind(counted == Counted::Covered)
        .value()
        .await?;
    let part: i64 = c
        .q(concat!(
            // Segments do not overlap, so only the newest one that begins before the sequence number can contain it.
            "select count(*) from messages m where m.conversation_id = $1 and m.seq < $2 and m.seq >= (select case when k.to_seq >= $2 \
               and k.state <> 'blank' and ($3 or k.state <> 'expanded') then k.from_seq else $2 end from compactions k \
               where k.conversation_id = $1 and k.from_seq < $2 order by k.from_seq desc limit 1)",
            said!()
        ))
        .bind(conversation)
        .bind(seq)
        .bind(counted == Counted::Covered)
        .value()
        .await?;
    Ok(whole + part)
}

/// Returns the sequence number of the `n`th newest eligible message before a sequence number; `None` if there are fewer than `n`.
pub async fn nth_newest(
    c: &mut Conn,
    conversation: Uuid,
    before_seq: i64,
    n: i64,
) -> Result<Option<i64>, DbError> {
    let row: Option<(i64,)> = c
        .q(concat!(
            "select m.seq from messages m where m.conversation_id = $1 and m.seq < $2",
            said!(),
            "order by m.seq desc limit 1 offset $3"
        ))
        .bind(conversation)
        .bind(before_seq)
        .bind(n - 1)
        .opt()
        .await?;
    Ok(row.map(|row| row.0))
}

/// Condition for messages `m` of the conversation with this ID that do not belong to a segment. Segments do not overlap, so only the
/// newest one that begins at or before a message can contain it.
macro_rules! is_uncovered {
    ($id:literal) => {
        concat!(
            "m.seq > coalesce((select o.covered_to_seq from conversations o where o.id = ",
            $id,
            "), ",
            before_all_seqs!(),
            ") and m.seq > coalesce((select k.to_seq from compactions k where k.conversation_id = ",
            $id,
            " and k.from_seq <= m.seq order by k.from_seq desc limit 1), ",
            before_all_seqs!(),
            ")"
        )
    };
}
pub(super) use is_uncovered;

/// Lists the newest eligible messages before a sequence number that do not belong to a segment, newest first. Skips segments without
/// reading their messages, because a long conversation has many of them.
pub async fn uncovered(
    c: &mut Conn,
    conversation: Uuid,
    before_seq: i64,
    limit: i64,
) -> Result<Vec<i64>, DbError> {
    let covered_to: Option<(Option<i64>,)> = c
        .q("select covered_to_seq from conversations where id = $1")
        .bind(conversation)
        .opt()
        .await?;
    let covered_to = covered_to.and_then(|row| row.0).unwrap_or(BEFORE_ALL_SEQS);
    let (mut found, mut before) = (Vec::new(), before_seq);
    loop {
        let segments: Vec<(i64, i64)> = c
            .q(concat!(
                "select from_seq, to_seq from compactions where conversation_id = $1 and from_seq < $2 \
                 and from_seq >= coalesce((select max(p.from_seq) from compactions p where p.conversation_id = $1 and p.from_seq <= $3), ",
                before_all_seqs!(),
                ") order by from_seq desc limit $4"
            ))
            .bind(conversation)
            .bind(before)
            .bind(covered_to)
            .bind(SEGMENTS_PER_READ)
            .all()
            .await?;
        let is_last = i64::try_from(segments.len()).unwrap_or(i64::MAX) < SEGMENTS_PER_READ;
        // The messages before the oldest segment.
        let end = is_last.then_some((covered_to, covered_to));
        for (from, to) in segments.into_iter().chain(end) {
            let after = to.max(covered_to);
            let missing = limit - i64::try_from(found.len()).unwrap_or(limit);
            if after.saturating_add(1) < before && missing > 0 {
                found.extend(newest_between(c, conversation, after, before, missing).await?);
            }
            before = from;
        }
        if is_last || i64::try_from(found.len()).unwrap_or(limit) >= limit {
            return Ok(found);
        }
    }
}

/// Lists the newest eligible messages between two sequence numbers, newest first.
pub async fn newest_between(
    c: &mut Conn,
    conversation: Uuid,
    after_seq: i64,
    before_seq: i64,
    limit: i64,
) -> Result<Vec<i64>, DbError> {
    let rows: Vec<(i64,)> = c
        .q(concat!(
            "select m.seq from messages m where m.conversation_id = $1 and m.seq > $2 and m.seq < $3",
            said!(),
            "order by m.seq desc limit $4"
        ))
        .bind(conversation)
        .bind(after_seq)
        .bind(before_seq)
        .bind(limit)
        .all()
        .await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// Records that all messages before a sequence number belong to segments, so that they are not searched again. Changes nothing if any
/// of them does not belong to a segment.
pub async fn set_covered(c: &mut Conn, conversation: Uuid, before_seq: i64) -> Result<(), DbError> {
    if !uncovered(c, conversation, before_seq, 1).await?.is_empty() {
        return Ok(());
    }
    c.q("update conversations set covered_to_seq = $2 where id = $1 and coalesce(covered_to_seq, -1) < $2")
        .bind(conversation)
        .bind(before_seq - 1)
        .run()
        .await?;
    Ok(())
}

/// Records the start of an automatic pass. Returns false without recording it if another one started after `before`.
pub async fn claim_interval(
    c: &mut Conn,
    conversation: Uuid,
    at: Timestamp,
    before: Timestamp,
) -> Result<bool, DbError> {
    let claimed = c
        .q("update conversations set last_compacted_at = $2 where id = $1 and (last_compacted_at is null or last_compacted_at <= $3)")
        .bind(conversation)
        .bind(at)
        .bind(before)
        .run()
        .await?;
    Ok(claimed == 1)
}

/// Inserts a segment, or replaces the one with its ID.
pub async fn put(c: &mut Conn, segment: &Segment) -> Result<(), DbError> {
    c.q("insert into compactions (id, workspace_id, conversation_id, thread_id, fork_id, trigger, state, from_seq, to_seq, \
         from_message_id, to_message_id, message_count, tokens_before, tokens_after, agents, gist, left_out, model, task_id, \
         created_by, created_at, version) \
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22) \
         on conflict (id) do update set state = excluded.state, from_message_id = excluded.from_message_id, \
         to_message_id = excluded.to_message_id, message_count = excluded.message_count, tokens_before = excluded.tokens_before, \
         tokens_after = excluded.tokens_after, agents = excluded.agents, gist = excluded.gist, left_out = excluded.left_out, \
         model = excluded.model, task_id = excluded.task_id, created_by = excluded.created_by, expanded_at = null, \
         version = excluded.version")
        .bind(segment.id)
        .bind(segment.workspace_id)
        .bind(segment.conversation_id)
        .bind(segment.thread_id)
        .bind(segment.fork_id)
        .bind(segment.trigger)
        .bind(segment.state)
        .bind(segment.from_seq)
        .bind(segment.to_seq)
        .bind(segment.from_message_id)
        .bind(segment.to_message_id)
        .bind(segment.message_count)
        .bind(segment.tokens_before)
        .bind(segment.tokens_after)
        .bind(segment.agents.clone())
        .bind(segment.gist.clone())
        .bind(segment.left_out.clone())
        .bind(segment.model.clone())
        .bind(segment.task_id)
        .bind(segment.created_by)
        .bind(segment.created_at)
        .bind(segment.version)
        .run()
        .await?;
    Ok(())
}

/// Shortens the gist of a segment, unless the gist has changed since it was read.
pub(super) async fn shorten_gist(c: &mut Conn, gist: &ShortenedGist) -> Result<(), DbError> {
    c.q("update compactions set gist = $3, version = version + 1 where id = $1 and gist = $2")
        .bind(gist.segment)
        .bind(gist.before.clone())
        .bind(gist.after.clone())
        .run()
        .await?;
    Ok(())
}

pub async fn delete(c: &mut Conn, segment: &Segment) -> Result<(), DbError> {
    c.q("delete from compactions where id = $1")
        .bind(segment.id)
        .run()
        .await?;
    uncover(c, segment.conversation_id).await
}

/// Removes the record that all messages before a sequence number belong to segments.
async fn uncover(c: &mut Conn, conversation: Uuid) -> Result<(), DbError> {
    c.q("update conversations set covered_to_seq = null where id = $1")
        .bind(conversation)
        .run()
        .await?;
    Ok(())
}
