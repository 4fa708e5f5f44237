//! Deliveries: one row for each event that a bot gets. They are kept for a week.

use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use crate::{
    db::{Conn, Db, DbError, Json, now},
    hooks::{BotDeliveryState, BotEventKind},
    ids::{BotDeliveryId, BotId, WorkspaceId},
    time::Timestamp,
};

/// Time after which a delivery that is being sent is sent again, because its process died.
const SENT_WITHIN: Duration = Duration::from_secs(15);
/// Time in which a program acknowledges an event on its socket.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(5);
/// Delays before the next attempts.
const DELAYS: [Duration; 7] = [
    Duration::from_secs(10),
    Duration::from_mins(1),
    Duration::from_mins(5),
    Duration::from_mins(30),
    Duration::from_hours(2),
    Duration::from_hours(6),
    Duration::from_hours(12),
];
/// Time for which the outcome of a delivery is known.
const KEPT: Duration = Duration::from_hours(7 * 24);
/// Maximum number of destinations that are looked at in one round, and of those of a workspace.
const DESTINATIONS_MAX: i64 = 1000;
const DESTINATIONS_PER_WORKSPACE: i64 = 64;

/// ID of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type)]
#[sqlx(transparent)]
pub struct BotSocketId(Uuid);

impl BotSocketId {
    pub(super) fn new() -> Self {
        Self(Uuid::now_v7())
    }
}

/// An event for a bot.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewBotDelivery {
    pub(super) seq: i64,
    pub(super) kind: BotEventKind,
}

/// Inserts a delivery, unless one for the event waits. One that has ended is queued again, because the subscription was moved back.
pub(super) async fn insert(c: &mut Conn, bot: BotId, new: &NewBotDelivery) -> Result<(), DbError> {
    let at = now();
    c.q("insert into bot_deliveries (id, bot_id, seq, event, state, attempt, due_at, created_at) values ($1, $2, $3, $4, $5, 0, $6, $6) \
         on conflict (bot_id, seq, event) do update set id = excluded.id, state = excluded.state, attempt = 0, due_at = excluded.due_at, \
         status = null, answer = null, created_at = excluded.created_at where bot_deliveries.due_at is null")
        .bind(BotDeliveryId::new())
        .bind(bot)
        .bind(new.seq)
        .bind(new.kind)
        .bind(BotDeliveryState::Queued)
        .bind(at)
        .run()
        .await?;
    Ok(())
}

pub(super) async fn has_subscriptions(c: &mut Conn) -> Result<bool, DbError> {
    c.q("select exists (select 1 from bot_subscriptions)")
        .value()
        .await
}

/// Number of deliveries that have not ended.
pub(super) async fn count_waiting(c: &mut Conn) -> Result<i64, DbError> {
    c.q("select count(*) from bot_deliveries where due_at is not null")
        .value()
        .await
}

/// A delivery that is being sent.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(super) struct DueBotDelivery {
    pub(super) id: BotDeliveryId,
    pub(super) bot_id: BotId,
    pub(super) seq: i64,
    pub(super) event: BotEventKind,
    pub(super) attempt: i64,
}

/// A server to which a workspace sends events.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(super) struct Destination {
    pub(super) workspace_id: WorkspaceId,
    pub(super) origin: String,
}

/// Destinations for which deliveries are due, longest first. Of each workspace only some, so that it cannot hide those of others.
pub(super) async fn list_due_destinations(c: &mut Conn) -> Result<Vec<Destination>, DbError> {
    c.q("select o.workspace_id, o.origin from (select s.workspace_id, s.origin, min(d.due_at) as due_at, \
         row_number() over (partition by s.workspace_id order by min(d.due_at)) as n \
         from bot_deliveries d join bot_subscriptions s on s.bot_id = d.bot_id join bots b on b.id = s.bot_id \
         where d.due_at <= $1 and s.transport = 'http' and s.origin is not null and s.status = 'active' and b.status = 'active' \
         group by s.workspace_id, s.origin) o where o.n <= $2 order by o.due_at limit $3")
        .bind(now())
        .bind(DESTINATIONS_PER_WORKSPACE)
        .bind(DESTINATIONS_MAX)
        .all()
        .await
}

/// Takes deliveries for a destination. They are due again if this process dies before it stores the outcome.
pub(super) async fn take_due(
    c: &mut Conn,
    to: &Destination,
    max: i64,
) -> Result<Vec<DueBotDelivery>, DbError> {
    let at = now();
    c.q("update bot_deliveries set state = $5, due_at = $4 where id in (select d.id from bot_deliveries d \
         join bot_subscriptions s on s.bot_id = d.bot_id join bots b on b.id = s.bot_id \
         where d.due_at <= $2 and s.transport = 'http' and s.origin = $1 and s.workspace_id = $6 and s.status = 'active' and b.status = 'active' \
         order by d.due_at, d.id limit $3) and due_at <= $2 returning id, bot_id, seq, event, attempt")
        .bind(to.origin.clone())
        .bind(at)
        .bind(max)
        .bind(at + SENT_WITHIN)
        .bind(BotDeliveryState::Sending)
        .bind(to.workspace_id)
        .all()
        .await
}

/// Checks whether a bot has deliveries for a socket that are due.
pub(super) async fn is_due_for(c: &mut Conn, bot: BotId) -> Result<bool, DbError> {
    c.q("select exists (select 1 from bot_deliveries d join bot_subscriptions s on s.bot_id = d.bot_id \
         where d.bot_id = $1 and d.due_at <= $2 and s.transport = 'socket' and s.status = 'active')")
        .bind(bot)
        .bind(now())
        .value()
        .await
}

/// Takes deliveries for a socket that is still open. One that was taken before and is due was not acknowledged, which counts as a
/// failure.
pub(super) async fn take_for_socket(
    c: &mut Conn,
    socket: BotSocketId,
    max: i64,
) -> Result<Vec<DueBotDelivery>, DbError> {
    let at = now();
    c.q("update bot_deliveries set attempt = attempt + case when state = $5 then 1 else 0 end, state = $5, due_at = $4 \
         where id in (select d.id from bot_deliveries d join bot_subscriptions s on s.bot_id = d.bot_id join bots b on b.id = s.bot_id \
         join bot_sockets k on k.bot_id = d.bot_id where k.id = $1 and k.is_open and d.due_at <= $2 and s.transport = 'socket' \
         and s.status = 'active' and b.status = 'active' order by d.due_at, d.id limit $3) and due_at <= $2 \
         returning id, bot_id, seq, event, attempt")
        .bind(socket)
        .bind(at)
        .bind(max)
        .bind(at + ACKNOWLEDGED_WITHIN)
        .bind(BotDeliveryState::Sending)
        .all()
        .await
}

/// Ends a delivery of a bot that was acknowledged. Returns 0 if it has ended.
pub(super) async fn acknowledge(
    c: &mut Conn,
    bot: BotId,
    id: BotDeliveryId,
) -> Result<u64, DbError> {
    c.q("update bot_deliveries set state = $3, due_at = null where id = $1 and bot_id = $2 and due_at is not null")
        .bind(id)
        .bind(bot)
        .bind(BotDeliveryState::Sent)
        .run()
        .await
}

/// Stores a command for the sockets of a bot.
pub(super) async fn insert_call(
    c: &mut Conn,
    id: BotDeliveryId,
    bot: BotId,
    body: &Value,
) -> Result<(), DbError> {
    c.q("insert into bot_calls (id, bot_id, body, is_taken, created_at) values ($1, $2, $3, FALSE, $4)")
        .bind(id)
        .bind(bot)
        .bind(Json(body.clone()))
        .bind(now())
        .run()
        .await?;
    Ok(())
}

pub(super) async fn has_calls(c: &mut Conn, bot: BotId, since: Timestamp) -> Result<bool, DbError> {
    c.q("select exists (select 1 from bot_calls where bot_id = $1 and is_taken = FALSE and created_at > $2)")
        .bind(bot)
        .bind(since)
        .value()
        .await
}

/// Takes commands for a socket that is still open.
pub(super) async fn take_calls(
    c: &mut Conn,
    socket: BotSocketId,
    since: Timestamp,
) -> Result<Vec<(BotDeliveryId, Json<Value>)>, DbError> {
    c.q("update bot_calls set is_taken = TRUE where id in (select k.id from bot_calls k join bot_sockets o on o.bot_id = k.bot_id \
         where o.id = $1 and o.is_open and k.is_taken = FALSE and k.created_at > $2 order by k.created_at, k.id limit 10) \
         and is_taken = FALSE returning id, body")
        .bind(socket)
        .bind(since)
        .all()
        .await
}

/// Stores the answer to a command of a bot.
pub(super) async fn answer_call(
    c: &mut Conn,
    bot: BotId,
    id: BotDeliveryId,
    answer: &str,
) -> Result<(), DbError> {
    c.q("update bot_calls set answer = $3 where id = $1 and bot_id = $2")
        .bind(id)
        .bind(bot)
        .bind(answer.to_owned())
        .run()
        .await?;
    Ok(())
}

/// The answer to a command, once there is one.
pub(super) async fn answer_of_call(
    c: &mut Conn,
    id: BotDeliveryId,
) -> Result<Option<String>, DbError> {
    let row: Option<(Option<String>,)> = c
        .q("select answer from bot_calls where id = $1")
        .bind(id)
        .opt()
        .await?;
    Ok(row.and_then(|row| row.0))
}

pub(super) async fn delete_call(c: &mut Conn, id: BotDeliveryId) -> Result<(), DbError> {
    c.q("delete from bot_calls where id = $1")
        .bind(id)
        .run()
        .await?;
    Ok(())
}

/// Outcome of an attempt.
#[derive(Debug, Clone)]
pub(super) struct AttemptOutcome {
    pub(super) state: BotDeliveryState,
    /// Time of the next attempt.
    pub(super) due_at: Option<Timestamp>,
    pub(super) status: Option<u16>,
    pub(super) answer: Option<String>,
    pub(super) failures: i64,
}

impl AttemptOutcome {
    /// End of a delivery without a request.
    pub(super) fn ended(state: BotDeliveryState) -> Self {
        Self {
            state,
            due_at: None,
            status: None,
            answer: None,
            failures: 0,
        }
    }
}

/// Stores the outcome of an attempt. Does nothing if the delivery was started again or deleted in the meantime.
pub(super) async fn settle(
    c: &mut Conn,
    delivery: BotDeliveryId,
    outcome: &AttemptOutcome,
) -> Result<(), DbError> {
    c.q("update bot_deliveries set state = $2, status = $3, answer = $4, due_at = $5, attempt = attempt + $6 where id = $1 and state = $7")
        .bind(delivery)
        .bind(outcome.state)
        .bind(outcome.status.map(i64::from))
        .bind(outcome.answer.clone())
        .bind(outcome.due_at)
        .bind(outcome.failures)
        .bind(BotDeliveryState::Sending)
        .run()
        .await?;
    Ok(())
}

impl DueBotDelivery {
    /// Time of the next attempt after a failed one, at the earliest after `wait`; `None` if it was the last.
    pub(super) fn next_attempt(&self, wait: Duration) -> Option<Timestamp> {
        let failures = usize::try_from(self.attempt).unwrap_or(usize::MAX);
        DELAYS.get(failures).map(|delay| now() + wait.max(*delay))
    }
}

/// Deletes deliveries from more than a week ago.
///
/// # Errors
/// Only database errors.
pub async fn delete_old(db: &Db) -> Result<(), DbError> {
    db.delete_expired(
        now() - KEPT,
        "select exists (select 1 from bot_deliveries where created_at < $1 and due_at is null)",
        "delete from bot_deliveries where id in (select id from bot_deliveries where created_at < $1 and due_at is null \
         order by created_at, id limit $2)",
    )
    .await?;
    Ok(())
}
