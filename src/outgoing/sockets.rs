//! Sockets that programs of bots open, as in Slack's Socket Mode. Each takes deliveries of its bot from the same queue that is sent to
//! addresses, so an event goes to one of them, on any node, and to another one if it is not acknowledged.

use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use super::{
    body,
    queue::{self, AttemptOutcome, BotSocketId},
    sender::{EventSender, count},
};
use crate::{
    auth::{hash_token, new_token},
    db::{Conn, Db, DbError, now},
    hooks::{BotDeliveryState, BotStatus, BotTransport},
    ids::{ApiKeyId, BotDeliveryId, BotId},
};

/// Maximum number of sockets of a bot, with the tickets that are still valid.
const SOCKETS_MAX: i64 = 10;
const TICKET_VALID: Duration = Duration::from_mins(1);
/// Time after which a socket is closed unless its node has renewed it.
const SEEN_WITHIN: Duration = Duration::from_secs(30);
/// Time for which closed sockets and tickets are kept.
const KEPT: Duration = Duration::from_mins(2);
/// Number of attempts without an acknowledgment after which an event is given up.
const ATTEMPTS_MAX: i64 = 8;

/// Reason why a program gets no ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TicketRefusal {
    /// The bot has no subscription for sockets.
    NoSubscription,
    TooMany,
}

/// An open socket.
#[derive(Debug, Clone, Copy)]
pub struct BotSocket {
    pub id: BotSocketId,
    pub bot: BotId,
    /// Number of open sockets of the bot, with this one.
    pub connections: i64,
}

/// An event for a socket.
#[derive(Debug, Clone)]
pub struct SocketEvent {
    pub id: BotDeliveryId,
    /// Number of attempts that were not acknowledged.
    pub attempt: i64,
    pub body: Value,
}

/// A command for a socket.
#[derive(Debug, Clone)]
pub struct SocketCall {
    pub id: BotDeliveryId,
    pub body: Value,
}

/// Creates a ticket with which a program opens a socket.
///
/// # Errors
/// Only database errors.
pub async fn issue_ticket(
    c: &mut Conn,
    bot: BotId,
    key: ApiKeyId,
) -> Result<Result<String, TicketRefusal>, DbError> {
    let is_subscribed: bool = c
        .q("select exists (select 1 from bot_subscriptions s where s.bot_id = $1 and s.transport = 'socket')")
        .bind(bot)
        .value()
        .await?;
    if !is_subscribed {
        return Ok(Err(TicketRefusal::NoSubscription));
    }
    let at = now();
    let known: i64 = c
        .q("select count(*) from bot_sockets where bot_id = $1 and ((is_open and seen_at > $2) or (is_open = FALSE and seen_at > $3))")
        .bind(bot)
        .bind(at - SEEN_WITHIN)
        .bind(at - TICKET_VALID)
        .value()
        .await?;
    if known >= SOCKETS_MAX {
        return Ok(Err(TicketRefusal::TooMany));
    }
    let ticket = new_token();
    c.q("insert into bot_sockets (id, bot_id, key_id, ticket_hash, is_open, seen_at) values ($1, $2, $3, $4, FALSE, $5)")
        .bind(BotSocketId::new())
        .bind(bot)
        .bind(key)
        .bind(hash_token(&ticket))
        .bind(at)
        .run()
        .await?;
    Ok(Ok(ticket))
}

/// Checks whether an unused ticket exists, so that a guess needs no write.
///
/// # Errors
/// Only database errors.
pub async fn is_ticket(c: &mut Conn, ticket: &str) -> Result<bool, DbError> {
    c.q("select exists (select 1 from bot_sockets where ticket_hash = $1 and is_open = FALSE)")
        .bind(hash_token(ticket))
        .value()
        .await
}

/// Opens a socket with a ticket, which becomes invalid. Returns `None` if it is not valid.
///
/// # Errors
/// Only database errors.
pub async fn open_socket(c: &mut Conn, ticket: &str) -> Result<Option<BotSocket>, DbError> {
    let at = now();
    let row: Option<(BotSocketId, BotId)> = c
        .q("update bot_sockets set is_open = TRUE, seen_at = $2 where ticket_hash = $1 and is_open = FALSE and seen_at > $3 \
            returning id, bot_id")
        .bind(hash_token(ticket))
        .bind(at)
        .bind(at - TICKET_VALID)
        .opt()
        .await?;
    let Some((id, bot)) = row else {
        return Ok(None);
    };
    let connections: i64 = c
        .q("select count(*) from bot_sockets where bot_id = $1 and is_open and seen_at > $2")
        .bind(bot)
        .bind(at - SEEN_WITHIN)
        .value()
        .await?;
    Ok(Some(BotSocket {
        id,
        bot,
        connections,
    }))
}

/// Notes that a socket is open. Returns false if it has to be closed: its key was deleted, the bot is paused, or it no longer has a
/// subscription for sockets.
///
/// # Errors
/// Only database errors.
pub async fn renew_socket(c: &mut Conn, id: BotSocketId) -> Result<bool, DbError> {
    let renewed = c
        .q("update bot_sockets set seen_at = $2 where id = $1 and exists (select 1 from bots b join bot_subscriptions s on s.bot_id = b.id \
            where b.id = bot_sockets.bot_id and b.status = 'active' and s.transport = 'socket')")
        .bind(id)
        .bind(now())
        .run()
        .await?;
    Ok(renewed == 1)
}

/// Checks whether a socket may stay open, without a write; see `renew_socket`.
///
/// # Errors
/// Only database errors.
pub async fn is_permitted(c: &mut Conn, id: BotSocketId) -> Result<bool, DbError> {
    c.q("select exists (select 1 from bot_sockets k join bots b on b.id = k.bot_id join bot_subscriptions s on s.bot_id = b.id \
         where k.id = $1 and b.status = $2 and s.transport = $3)")
        .bind(id)
        .bind(BotStatus::Active)
        .bind(BotTransport::Socket)
        .value()
        .await
}

/// Removes a socket that was closed.
///
/// # Errors
/// Only database errors.
pub async fn close_socket(c: &mut Conn, id: BotSocketId) -> Result<(), DbError> {
    c.q("delete from bot_sockets where id = $1")
        .bind(id)
        .run()
        .await?;
    Ok(())
}

/// Deletes unused tickets, and sockets of nodes that died.
///
/// # Errors
/// Only database errors.
pub async fn delete_old_sockets(db: &Db) -> Result<(), DbError> {
    db.delete_expired(
        now() - KEPT,
        "select exists (select 1 from bot_sockets where seen_at < $1)",
        "delete from bot_sockets where id in (select id from bot_sockets where seen_at < $1 order by seen_at, id limit $2)",
    )
    .await?;
    Ok(())
}

impl EventSender {
    /// Takes events for a socket. Those that are not acknowledged within 5 seconds are taken again.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn take_for_socket(
        &self,
        db: &Db,
        socket: &BotSocket,
        max: i64,
    ) -> Result<Vec<SocketEvent>, DbError> {
        let BotSocket { id, bot, .. } = *socket;
        if !queue::is_due_for(&mut db.read().await?, bot).await? {
            return Ok(Vec::new());
        }
        let taken = db
            .write(Uuid::nil(), async move |c: &mut Conn| {
                queue::take_for_socket(c, id, max).await
            })
            .await?;
        let mut c = db.read().await?;
        let Some(subscriber) = body::find_subscriber(&mut c, bot).await? else {
            return Ok(Vec::new());
        };
        let (mut events, mut ended) = (Vec::new(), Vec::new());
        for delivery in taken {
            if delivery.attempt >= ATTEMPTS_MAX {
                ended.push((delivery.id, BotDeliveryState::Dead));
                count("dead");
                continue;
            }
            let body = body::build(&mut c, &self.public_url, &subscriber, &delivery).await?;
            let Some(body) = body else {
                ended.push((delivery.id, BotDeliveryState::Skipped));
                count("skipped");
                continue;
            };
            events.push(SocketEvent {
                id: delivery.id,
                attempt: delivery.attempt,
                body,
            });
        }
        drop(c);
        if !ended.is_empty() {
            db.write(Uuid::nil(), async move |c: &mut Conn| {
                for (id, state) in &ended {
                    queue::settle(c, *id, &AttemptOutcome::ended(*state)).await?;
                }
                Ok::<_, DbError>(())
            })
            .await?;
        }
        Ok(events)
    }

    /// Ends a delivery that a program acknowledged.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn acknowledge(&self, db: &Db, bot: BotId, id: BotDeliveryId) -> Result<(), DbError> {
        let ended = db
            .write(Uuid::nil(), async move |c: &mut Conn| {
                queue::acknowledge(c, bot, id).await
            })
            .await?;
        if ended > 0 {
            count("sent");
        }
        Ok(())
    }
}
