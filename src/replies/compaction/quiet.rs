//! Queues passes for conversations that have become quiet, so that their last messages can be recalled in other conversations.
//!
//! A message is checked once it is old enough: if it is still the last one of its conversation, the conversation is quiet. It is
//! checked again only if another pass delays the pass of its conversation.

use std::time::Duration;

use uuid::Uuid;

use crate::{
    agents::{
        profiles::{self, Compaction},
        segments::{CompactionTrigger, PassOptions},
    },
    db::{Conn, Db, DbError, dialect, now},
    ids::{ThreadId, WorkspaceId, before_all_seqs},
    memory,
    replies::history::said,
    tasks::{Task, asleep::is_asleep, queue},
    time::Timestamp,
};

use super::{
    profile::{CompactionSettings, Strategy, StrategyPlace},
    store::{self, is_uncovered},
    wait,
};

/// Maximum interval between checks.
pub const CHECKED_EVERY_MAX: Duration = Duration::from_mins(1);
/// Time without a message after which a conversation is quiet.
const SILENCE: Duration = Duration::from_mins(15);
/// Minimum number of messages from people, not yet part of a segment, for which a pass is queued.
const PERSON_MESSAGES_MIN: i64 = 6;
/// Maximum number of messages that are checked at once.
const MESSAGES_AT_ONCE: i64 = 5_000;

/// A conversation in which nobody has posted for a while.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
struct Quiet {
    id: Uuid,
    thread_id: ThreadId,
    /// Sequence number of the newest message.
    last_seq: i64,
    posted_at: Timestamp,
    last_compacted_at: Option<Timestamp>,
}

impl Quiet {
    /// Returns true if a pass was queued after the conversation became quiet. This prevents a failed pass from being repeated.
    fn is_done(&self) -> bool {
        let quiet_since = self.posted_at + SILENCE;
        self.last_compacted_at.is_some_and(|at| at >= quiet_since)
    }
}

/// Result of checking a quiet conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuietCheck {
    /// A pass is queued, or none is due.
    Done,
    /// Another pass is running, or the last one was too recent.
    Later,
}

/// Progress of the checks in a workspace.
#[derive(Debug, Clone, Copy)]
struct Progress {
    seq: i64,
    /// True if no message up to `seq` has to be checked again.
    is_complete: bool,
}

/// Queues the passes of conversations that have become quiet since the last check.
///
/// # Errors
/// Only database errors.
pub async fn queue_due(db: &Db, settings: CompactionSettings) -> Result<(), DbError> {
    let before = now() - SILENCE;
    let mut c = db.read().await?;
    if is_asleep(&mut c).await? {
        return Ok(());
    }
    let workspaces: Vec<(WorkspaceId, i64)> = c
        .q("select w.id, w.quiet_seq from workspaces w where (select m.created_at from messages m \
            where m.workspace_id = w.id and m.seq > w.quiet_seq order by m.seq limit 1) <= $1 order by w.id")
        .bind(before)
        .all()
        .await?;
    drop(c);
    for (workspace, seq) in workspaces {
        let mut progress = Progress {
            seq,
            is_complete: true,
        };
        while let Some(next) = check_some(db, settings, workspace, progress, before).await? {
            progress = next;
        }
    }
    Ok(())
}

/// Checks the next messages that were posted at or before a time. Returns `None` if there are none.
async fn check_some(
    db: &Db,
    settings: CompactionSettings,
    workspace: WorkspaceId,
    progress: Progress,
    before: Timestamp,
) -> Result<Option<Progress>, DbError> {
    let after_seq = progress.seq;
    let mut c = db.read().await?;
    let last: Option<i64> = c
        .q("select max(x.seq) from (select m.seq from messages m where m.workspace_id = $1 and m.seq > $2 and m.created_at <= $3 \
            order by m.seq limit $4) x")
        .bind(workspace)
        .bind(after_seq)
        .bind(before)
        .bind(MESSAGES_AT_ONCE)
        .value()
        .await?;
    let Some(last) = last else {
        return Ok(None);
    };
    let is_on = settings.is_on && memory::settings::is_quiet_on(&mut c, workspace).await?;
    let quiet = if is_on {
        list_quiet(&mut c, workspace, after_seq, last, before).await?
    } else {
        Vec::new()
    };
    drop(c);
    let mut first_later: Option<i64> = None;
    for quiet in quiet.into_iter().filter(|quiet| !quiet.is_done()) {
        let checked = db
            .write(workspace.0, async move |c: &mut Conn| {
                queue_pass(c, settings, workspace, quiet).await
            })
            .await?;
        if checked == QuietCheck::Later {
            let seq = first_later.map_or(quiet.last_seq, |first| first.min(quiet.last_seq));
            first_later = Some(seq);
        }
    }
    if progress.is_complete {
        let seq = first_later.map_or(last, |first| first - 1);
        db.write(workspace.0, async move |c: &mut Conn| {
            c.q("update workspaces set quiet_seq = $2 where id = $1 and quiet_seq < $2")
                .bind(workspace)
                .bind(seq)
                .run()
                .await
        })
        .await?;
    }
    Ok(Some(Progress {
        seq: last,
        is_complete: progress.is_complete && first_later.is_none(),
    }))
}

/// Lists the quiet conversations that end with one of these messages. In each, an agent has replied, people have posted enough
/// messages, and memory is on.
async fn list_quiet(
    c: &mut Conn,
    workspace: WorkspaceId,
    after_seq: i64,
    last_seq: i64,
    before: Timestamp,
) -> Result<Vec<Quiet>, DbError> {
    c.q(concat!(
        "select v.id, v.thread_id, n.seq as last_seq, n.created_at as posted_at, v.last_compacted_at from (select distinct m.conversation_id from messages m \
          where m.workspace_id = $1 and m.seq > $2 and m.seq <= $3) x \
         join conversations v on v.id = x.conversation_id join threads t on t.id = v.thread_id \
         join messages n on n.conversation_id = v.id and n.seq = (select max(l.seq) from messages l where l.conversation_id = v.id) \
         where t.memory = 'on' and n.seq <= $3 and n.created_at <= $4 \
         and exists (select 1 from conversation_agents p where p.conversation_id = v.id and p.turns > 0) \
         and (select count(*) from (select 1 from messages m where m.conversation_id = v.id and m.author_type = 'human' and ",
        is_uncovered!("v.id"),
        said!(),
        "order by m.seq desc limit $5) y) >= $5 order by v.id"
    ))
    .bind(workspace)
    .bind(after_seq)
    .bind(last_seq)
    .bind(before)
    .bind(PERSON_MESSAGES_MIN)
    .all()
    .await
}

/// Queues a pass over all messages of a quiet conversation, on behalf of the requester of its latest reply.
async fn queue_pass(
    c: &mut Conn,
    settings: CompactionSettings,
    workspace: WorkspaceId,
    quiet: Quiet,
) -> Result<QuietCheck, DbError> {
    dialect::lock_workspace(c, workspace.0).await?;
    let reply = queue::latest_reply(c, quiet.thread_id, quiet.id).await?;
    let target = reply.as_ref().and_then(Task::target);
    let Some((reply, target)) = reply.zip(target) else {
        return Ok(QuietCheck::Done);
    };
    let place = StrategyPlace::of(workspace, &target);
    let strongest = Strategy(Compaction::Off)
        .strongest(c, settings, quiet.id, place)
        .await?;
    let agent = profiles::find_resolved(c, target.agent, target.agent_version).await?;
    let Some(agent) = agent.filter(|_| strongest.is_on()) else {
        return Ok(QuietCheck::Done);
    };
    let at = now();
    if queue::active_compact(c, quiet.id).await?.is_some()
        || !store::claim_interval(c, quiet.id, at, at - settings.interval).await?
    {
        return Ok(QuietCheck::Later);
    }
    let options = PassOptions {
        trigger: CompactionTrigger::Quiet,
        keep: 0,
        before_seq: Some(quiet.last_seq + 1),
        max_tokens: None,
        summary_model: agent.profile.memory.and_then(|memory| memory.summary_model),
        model: None,
    };
    let audience = queue::audience_of(c, target.channel).await?;
    wait::insert(c, &reply, target, audience, &options).await?;
    Ok(QuietCheck::Done)
}
