//! Events that a transaction has appended but not stored yet, and the sequence numbers that it has reserved.
//!
//! A batch inserts all of its events with one statement and raises the counter of its workspace once. `Conn` stores both before
//! the commit and before each statement that could read them. It checks every statement, so callers do not have to do this.

use std::{fmt::Write as _, sync::LazyLock};

use sqlx::types::Json;
use uuid::Uuid;

use super::engine::Engine;
use crate::time::Timestamp;

/// Row of `events`, with its rows of `event_recipients`.
pub struct EventRow {
    pub workspace: Uuid,
    pub seq: i64,
    pub kind: &'static str,
    pub channel: Option<Uuid>,
    pub user: Option<Uuid>,
    pub message: Option<Uuid>,
    /// The only recipients; `None` if the event is not restricted.
    pub recipients: Option<Vec<Uuid>>,
    pub includes_managers: bool,
    pub frame: String,
    pub ts: Timestamp,
    pub access: Option<Json<serde_json::Value>>,
}

/// Counter of a workspace whose row the transaction has locked.
struct Counter {
    workspace: Uuid,
    /// The last sequence number that was reserved.
    last: i64,
    /// The sequence number that is stored in the row.
    stored: i64,
}

#[derive(Default)]
pub(super) struct Pending {
    counters: Vec<Counter>,
    events: Vec<EventRow>,
}

impl Pending {
    pub(super) fn clear(&mut self) {
        self.counters.clear();
        self.events.clear();
    }

    /// Checks whether a statement could read something that has not been stored yet. Every statement that reads events or counters
    /// contains the words that are checked here.
    pub(super) fn concerns(&self, sql: &str) -> bool {
        !self.is_stored()
            && (sql.contains("event") || (sql.contains("workspaces") && sql.contains("seq")))
    }

    pub(super) fn is_stored(&self) -> bool {
        self.events.is_empty() && self.counters.iter().all(|c| c.last == c.stored)
    }

    /// Records that the transaction has locked the row of a workspace, whose counter is `seq`.
    pub(super) fn lock(&mut self, workspace: Uuid, seq: i64) {
        self.counters.push(Counter {
            workspace,
            last: seq,
            stored: seq,
        });
    }

    pub(super) fn has_locked(&self, workspace: Uuid) -> bool {
        self.counters.iter().any(|c| c.workspace == workspace)
    }

    /// Reserves the next `n` numbers and returns the first one. Returns `None` if the row has not been locked.
    pub(super) fn reserve(&mut self, workspace: Uuid, n: i64) -> Option<i64> {
        let mut counters = self.counters.iter_mut();
        let counter = counters.find(|c| c.workspace == workspace)?;
        counter.last += n;
        Some(counter.last - n + 1)
    }

    pub(super) fn append(&mut self, event: EventRow) {
        self.events.push(event);
    }

    /// Removes and returns the events, grouped by workspace. `recycle` reuses their memory.
    pub(super) fn take(&mut self) -> Vec<EventRow> {
        let mut events = std::mem::take(&mut self.events);
        events.sort_unstable_by_key(|event| (event.workspace, event.seq));
        events
    }

    pub(super) fn recycle(&mut self, mut events: Vec<EventRow>) {
        events.clear();
        self.events = events;
    }

    /// Sequence number that the counter of a workspace must have when its events are stored.
    pub(super) fn last(&self, workspace: Uuid) -> Option<i64> {
        let mut counters = self.counters.iter();
        counters.find(|c| c.workspace == workspace).map(|c| c.last)
    }

    /// Records that the counter of a workspace is stored.
    pub(super) fn note_stored(&mut self, workspace: Uuid) {
        let mut counters = self.counters.iter_mut();
        if let Some(counter) = counters.find(|c| c.workspace == workspace) {
            counter.stored = counter.last;
        }
    }

    /// Returns a counter whose row is not up to date, if there is one, and records that it is stored.
    pub(super) fn take_counter(&mut self) -> Option<(Uuid, i64)> {
        let mut counters = self.counters.iter_mut();
        let counter = counters.find(|c| c.last != c.stored)?;
        counter.stored = counter.last;
        Some((counter.workspace, counter.last))
    }
}

/// Number of events at the start of `events` that one statement inserts. They belong to one workspace, and their number is a power of
/// two, so that there are only a few different statements.
pub(super) fn group_size(events: &[EventRow]) -> usize {
    let Some(first) = events.first() else {
        return 0;
    };
    let mut same = events.iter();
    let count = same
        .position(|event| event.workspace != first.workspace)
        .unwrap_or(events.len());
    1 << count.ilog2().min(POWER_MAX)
}

/// Base-two logarithm of the maximum number of events per statement.
const POWER_MAX: u32 = 6;
const COLUMNS: [&str; 10] = [
    "seq",
    "type",
    "channel_id",
    "user_id",
    "message_id",
    "is_restricted",
    "includes_managers",
    "frame",
    "ts",
    "access",
];

/// SQL texts by the logarithm of the number of events.
type Texts = [&'static str; POWER_MAX as usize + 1];

static SQLITE: LazyLock<Texts> = LazyLock::new(|| texts(Engine::Sqlite));
static POSTGRES: LazyLock<Texts> = LazyLock::new(|| texts(Engine::Postgres));

fn texts(engine: Engine) -> Texts {
    std::array::from_fn(|power| {
        let columns = COLUMNS.join(", ");
        // On `PostgreSQL`, the same statement also raises the counter, which saves a round trip.
        let (mut sql, first) = match engine {
            Engine::Sqlite => (String::new(), 2),
            Engine::Postgres => (
                "with counted as (update workspaces set seq = $2 where id = $1 and seq <> $2) "
                    .to_owned(),
                3,
            ),
        };
        sql.push_str("insert into events (workspace_id, ");
        sql.push_str(&columns);
        sql.push_str(") values ");
        for row in 0..1_usize << power {
            let start = first + row * COLUMNS.len();
            sql.push_str(if row == 0 { "($1" } else { ", ($1" });
            for n in start..start + COLUMNS.len() {
                // Writing to a string never fails.
                let _ = write!(sql, ", ${n}");
            }
            sql.push(')');
        }
        &*sql.leak()
    })
}

/// Statement that inserts a group of `rows` events: `$1` is the workspace and, on `PostgreSQL`, `$2` is its counter. The values of
/// each row follow, in the order of `COLUMNS`.
pub(super) fn insert_sql(engine: Engine, rows: usize) -> &'static str {
    let texts = match engine {
        Engine::Sqlite => &*SQLITE,
        Engine::Postgres => &*POSTGRES,
    };
    let power = rows.max(1).ilog2().min(POWER_MAX);
    texts[usize::try_from(power).unwrap_or_default()]
}

/// Statement that inserts recipients: `$1` is an array of workspaces, numbers, and users.
pub(super) fn recipients_sql(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => {
            "insert into event_recipients (workspace_id, seq, user_id) \
             select unhex(value ->> 0), value ->> 1, unhex(value ->> 2) from json_each($1)"
        }
        Engine::Postgres => {
            "insert into event_recipients (workspace_id, seq, user_id) \
             select cast(value ->> 0 as uuid), cast(value ->> 1 as bigint), cast(value ->> 2 as uuid) \
             from jsonb_array_elements($1)"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(workspace: u128, seq: i64) -> EventRow {
        EventRow {
            workspace: Uuid::from_u128(workspace),
            seq,
            kind: "message.created",
            channel: None,
            user: None,
            message: None,
            recipients: None,
            includes_managers: false,
            frame: "{}".to_owned(),
            ts: Timestamp::now(),
            access: None,
        }
    }

    #[test]
    fn events_are_taken_in_groups_of_one_workspace() {
        let mut pending = Pending::default();
        for seq in 1..=70 {
            pending.append(event(2, seq));
        }
        pending.append(event(1, 5));
        let events = pending.take();
        let (mut rest, mut sizes) = (events.as_slice(), Vec::new());
        while !rest.is_empty() {
            sizes.push(group_size(rest));
            rest = &rest[group_size(rest)..];
        }
        assert_eq!(sizes, [1, 64, 4, 2]);
        assert!(events[1..].is_sorted_by_key(|event| event.seq));
        assert_eq!(pending.take().len(), 0);
    }

    #[test]
    fn only_statements_about_events_and_counters_wait_for_pending_ones() {
        let mut pending = Pending::default();
        let workspace = Uuid::from_u128(1);
        pending.lock(workspace, 7);
        let head = "select seq, pruned_seq from workspaces where id = $1";
        assert!(!pending.concerns(head), "nothing is pending");
        assert_eq!(pending.reserve(workspace, 2), Some(8));
        assert!(pending.concerns(head));
        assert!(pending.concerns("select user_id from event_recipients"));
        assert!(!pending.concerns("select seq from messages where id = $1"));
        assert!(!pending.concerns("select name from workspaces where id = $1"));
        assert_eq!(pending.take_counter(), Some((workspace, 9)));
        assert!(pending.is_stored());
    }

    #[test]
    fn statements_have_a_parameter_for_each_value() {
        for engine in [Engine::Sqlite, Engine::Postgres] {
            let sql = insert_sql(engine, 64);
            let last = if engine == Engine::Sqlite { 641 } else { 642 };
            assert!(sql.ends_with(&format!(", ${last})")), "{sql}");
            assert!(!insert_sql(engine, 1).contains("), ("));
        }
    }
}
