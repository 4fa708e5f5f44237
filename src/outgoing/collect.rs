//! The job that reads the event log for subscriptions, on one node at a time.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use uuid::Uuid;

use super::{
    queue::{self, NewBotDelivery},
    select::{self, Reader},
};
use crate::{
    db::{Conn, Db, DbError},
    failpoint,
    ids::BotId,
};

/// Maximum number of deliveries of a bot that have not ended; then its position waits.
const WAITING_MAX: i64 = 64;
/// Maximum number of subscriptions that are read at a time.
const READERS_AT_ONCE: i64 = 200;
/// Maximum number of subscriptions that one transaction moves.
const MOVED_AT_ONCE: usize = 20;
/// Maximum number of events that are read for a subscription, and of those among which they are searched, at a time.
const EVENTS_AT_ONCE: i64 = 100;
const SEARCHED_AT_ONCE: i64 = 2000;
/// Positions are stored although the bot gets nothing after this number of events, and after this time.
const STORED_AFTER: i64 = 1000;
const STORED_EVERY: Duration = Duration::from_mins(1);
/// Interval at which waiting deliveries are counted.
const COUNTED_EVERY: Duration = Duration::from_secs(10);

/// Result of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Round {
    /// No bot has a subscription.
    Unused,
    Idle,
    /// There are new deliveries.
    Inserted,
}

/// Part of the log that was read for a subscription without a result. It is lost with the process, and then read again.
#[derive(Debug, Clone, Copy)]
struct ReadThrough {
    version: i64,
    cursor: i64,
    through: i64,
    stored_at: Instant,
}

/// Move of a subscription's position, with the deliveries of the events up to there.
#[derive(Debug, Clone)]
struct Move {
    bot: BotId,
    version: i64,
    from: i64,
    to: i64,
    missed: i64,
    deliveries: Vec<NewBotDelivery>,
}

impl Move {
    /// Stores the move, unless the subscription has changed since it was read.
    async fn store(&self, c: &mut Conn) -> Result<bool, DbError> {
        let moved = c
            .q(
                "update bot_subscriptions set cursor_seq = $4, missed = missed + $5 \
                where bot_id = $1 and version = $2 and cursor_seq = $3 and status = 'active'",
            )
            .bind(self.bot)
            .bind(self.version)
            .bind(self.from)
            .bind(self.to)
            .bind(self.missed)
            .run()
            .await?;
        if moved == 0 {
            return Ok(false);
        }
        for delivery in &self.deliveries {
            queue::insert(c, self.bot, delivery).await?;
        }
        Ok(true)
    }
}

/// Reads the log for all subscriptions.
#[derive(Debug, Default)]
pub struct Collector {
    read: HashMap<BotId, ReadThrough>,
    /// Time at which the waiting deliveries were counted.
    counted_at: Option<Instant>,
}

impl Collector {
    /// Stores deliveries for the events since the last round.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn round(&mut self, db: &Db) -> Result<Round, DbError> {
        let mut after = BotId(Uuid::nil());
        let mut round = Round::Idle;
        loop {
            let readers =
                select::list_readers(&mut db.read().await?, after, READERS_AT_ONCE).await?;
            let Some(last) = readers.last() else { break };
            after = last.bot_id;
            let mut moves = Vec::new();
            for reader in &readers {
                moves.extend(self.next_move(db, reader).await?);
            }
            for some in moves.chunks(MOVED_AT_ONCE) {
                if self.store(db, some.to_vec()).await? {
                    round = Round::Inserted;
                }
            }
        }
        if after.0.is_nil() && !queue::has_subscriptions(&mut db.read().await?).await? {
            self.read.clear();
            return Ok(Round::Unused);
        }
        self.count(db).await?;
        Ok(round)
    }

    /// Sets the metric of waiting deliveries, from time to time.
    async fn count(&mut self, db: &Db) -> Result<(), DbError> {
        if self
            .counted_at
            .is_none_or(|at| at.elapsed() >= COUNTED_EVERY)
        {
            let waiting = queue::count_waiting(&mut db.read().await?).await?;
            let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
            metrics::gauge!("openvibe_hook_deliveries_waiting").set(f64::from(waiting));
            self.counted_at = Some(Instant::now());
        }
        Ok(())
    }

    /// Reads the next events for a subscription. Returns `None` if there is nothing to store.
    async fn next_move(&mut self, db: &Db, reader: &Reader) -> Result<Option<Move>, DbError> {
        if !reader.can_read() {
            return Ok(None);
        }
        let known =
            self.read.get(&reader.bot_id).copied().filter(|known| {
                known.version == reader.version && known.cursor == reader.cursor_seq
            });
        let begin = known.map_or(reader.cursor_seq, |known| known.through);
        let start = begin.max(reader.pruned_seq);
        let missed = start - begin;
        let room = usize::try_from(WAITING_MAX - reader.waiting).unwrap_or(0);
        if room == 0 || (start >= reader.head_seq && missed == 0) {
            return Ok(None);
        }
        let until = reader.head_seq.min(start + SEARCHED_AT_ONCE);
        let mut c = db.read().await?;
        let events = select::list_events(&mut c, reader, start, until, EVENTS_AT_ONCE).await?;
        let is_last = i64::try_from(events.len()).is_ok_and(|n| n < EVENTS_AT_ONCE);
        let mut deliveries: Vec<NewBotDelivery> = Vec::new();
        let (mut handled, mut is_full) = (start, false);
        for event in &events {
            let kinds = select::kinds_of(&mut c, reader, event).await?;
            if !deliveries.is_empty() && deliveries.len() + kinds.len() > room {
                is_full = true;
                break;
            }
            let new = kinds.into_iter().map(|kind| NewBotDelivery {
                seq: event.seq,
                kind,
            });
            deliveries.extend(new);
            handled = event.seq;
        }
        drop(c);
        let to = if is_last && !is_full { until } else { handled };
        let stored_at = known.map_or_else(Instant::now, |known| known.stored_at);
        let is_unchanged = deliveries.is_empty() && missed == 0;
        if is_unchanged
            && to - reader.cursor_seq < STORED_AFTER
            && stored_at.elapsed() < STORED_EVERY
        {
            let through = ReadThrough {
                version: reader.version,
                cursor: reader.cursor_seq,
                through: to,
                stored_at,
            };
            self.read.insert(reader.bot_id, through);
            return Ok(None);
        }
        Ok(Some(Move {
            bot: reader.bot_id,
            version: reader.version,
            from: reader.cursor_seq,
            to,
            missed,
            deliveries,
        }))
    }

    /// Stores moves in one transaction. Returns true if there are new deliveries.
    async fn store(&mut self, db: &Db, moves: Vec<Move>) -> Result<bool, DbError> {
        let stored = moves.clone();
        failpoint!("outgoing_store");
        let done: Vec<bool> = db
            .write(Uuid::nil(), async move |c: &mut Conn| {
                let mut done = Vec::with_capacity(stored.len());
                for one in &stored {
                    done.push(one.store(c).await?);
                }
                Ok::<_, DbError>(done)
            })
            .await?;
        failpoint!("outgoing_stored");
        let mut has_new = false;
        for (one, is_done) in moves.into_iter().zip(done) {
            if !is_done {
                self.read.remove(&one.bot);
                continue;
            }
            has_new |= !one.deliveries.is_empty();
            let through = ReadThrough {
                version: one.version,
                cursor: one.to,
                through: one.to,
                stored_at: Instant::now(),
            };
            self.read.insert(one.bot, through);
        }
        Ok(has_new)
    }
}
