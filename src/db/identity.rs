//! The epoch of a database, and the identity of its server.
//!
//! Before a new connection is used, its server is compared with the one recorded in `meta`. After a failover of `PostgreSQL`, their
//! timelines differ, and a new epoch starts unless the failover cannot have lost commits.

use sqlx::{Connection, Executor, PgConnection};
use tokio::sync::watch;
use uuid::Uuid;

use super::options::Failover;

/// Selects the recorded epoch, identity of the server, and names of synchronous standbys.
macro_rules! server_sql {
    ($system:literal, $timeline:literal, $from:literal) => {
        concat!(
            "select pg_is_in_recovery() as is_standby, ",
            $system,
            " as system, ",
            $timeline,
            " as timeline, \
             (select value from meta where key = 'epoch') as epoch, \
             (select value from meta where key = 'epoch_server') as recorded, \
             coalesce((select value from meta where key = 'synchronous_standbys'), '') as standbys ",
            $from
        )
    };
}

/// The timeline is taken from the current position in the log, because `pg_control_checkpoint` lags behind.
const IDENTIFIED: &str = server_sql!(
    "cast(control.system_identifier as text)",
    "case when pg_is_in_recovery() then null else left(pg_walfile_name(pg_current_wal_lsn()), 8) end",
    "from pg_control_system() control"
);
const ANONYMOUS: &str = server_sql!("cast(null as text)", "cast(null as text)", "");

/// An epoch of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Epoch {
    /// ID of the epoch. A later epoch has a higher ID.
    pub id: String,
    /// Identity of the server; `None` on `SQLite`, and if the server does not reveal it.
    pub server: Option<ServerIdentity>,
}

/// Identity of a `PostgreSQL` server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerIdentity {
    /// System identifier, which a server and its standbys share.
    pub system: String,
    /// Timeline, as eight hexadecimal digits. Each promotion starts a later one.
    pub timeline: String,
}

impl ServerIdentity {
    fn to_text(&self) -> String {
        format!("{} {}", self.system, self.timeline)
    }

    fn parse(text: &str) -> Option<Self> {
        let (system, timeline) = text.split_once(' ')?;
        Some(Self {
            system: system.to_owned(),
            timeline: timeline.to_owned(),
        })
    }
}

impl Epoch {
    /// Checks whether the server of `other` is a standby that was promoted in place of this epoch's server.
    fn is_replaced_by(&self, other: &Self) -> bool {
        match (&self.server, &other.server) {
            (Some(own), Some(other)) => own.system == other.system && own.timeline < other.timeline,
            _ => false,
        }
    }
}

/// The current epoch, shared by all connections of this process.
pub(super) struct Epochs {
    pub(super) failover: Failover,
    current: watch::Sender<Epoch>,
}

impl Epochs {
    pub(super) fn new(failover: Failover, current: Epoch) -> Self {
        Self {
            failover,
            current: watch::Sender::new(current),
        }
    }

    pub(super) fn current(&self) -> Epoch {
        self.current.borrow().clone()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Epoch> {
        self.current.subscribe()
    }

    /// Checks the server of a new connection. Returns true if it has a new epoch.
    ///
    /// # Errors
    /// If the server is in recovery, or another server was promoted in its place.
    pub(super) async fn check(&self, c: &mut PgConnection) -> Result<bool, sqlx::Error> {
        let found = read_server(c, self.failover).await?;
        if found.is_replaced_by(&self.current.borrow()) {
            let text = "another server was promoted in place of this one";
            return Err(sqlx::Error::Protocol(text.to_owned()));
        }
        Ok(self.observe(found))
    }

    /// Sets the current epoch to `found`, and returns true if its ID is new. Ignores an earlier epoch, which a slower connection may
    /// have read.
    pub(super) fn observe(&self, found: Epoch) -> bool {
        self.current.send_if_modified(|current| {
            if found.id < current.id || found.is_replaced_by(current) {
                return false;
            }
            let is_new = found.id > current.id;
            if is_new {
                tracing::info!(epoch = found.id, "the database has a new epoch");
            }
            *current = found;
            is_new
        })
    }
}

#[derive(sqlx::FromRow)]
struct ServerRow {
    is_standby: bool,
    system: Option<String>,
    timeline: Option<String>,
    epoch: String,
    recorded: Option<String>,
    standbys: String,
}

/// Checks whether an error means that the server lacks these functions (`undefined_function`, `feature_not_supported`), or that the
/// role cannot call them (`insufficient_privilege`).
fn is_unsupported(error: &sqlx::Error) -> bool {
    let code = error
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code);
    matches!(code.as_deref(), Some("42883" | "42501" | "0A000"))
}

async fn read_row(c: &mut PgConnection) -> Result<ServerRow, sqlx::Error> {
    let row = match sqlx::query_as(IDENTIFIED).fetch_one(&mut *c).await {
        Err(e) if is_unsupported(&e) => sqlx::query_as(ANONYMOUS).fetch_one(&mut *c).await,
        row => row,
    };
    let row: ServerRow = row?;
    if row.is_standby {
        return Err(sqlx::Error::Protocol("this server is a standby".to_owned()));
    }
    Ok(row)
}

/// Reads the epoch from a server. If the server is not the recorded one, it is recorded first, which can start a new epoch.
///
/// # Errors
/// If the server is in recovery.
pub(super) async fn read_server(
    c: &mut PgConnection,
    failover: Failover,
) -> Result<Epoch, sqlx::Error> {
    let mut row = read_row(c).await?;
    let server = row.system.zip(row.timeline);
    let server = server.map(|(system, timeline)| ServerIdentity { system, timeline });
    let identity = server.as_ref().map(ServerIdentity::to_text);
    let recorded = row.recorded.as_deref();
    if let Some(identity) = identity.filter(|own| recorded != Some(own)) {
        let is_kept = failover == Failover::Lossless
            && !row.standbys.is_empty()
            && is_same_system(recorded, server.as_ref());
        record(c, &row.epoch, recorded, &identity, is_kept).await?;
        row.epoch = read_row(c).await?.epoch;
    }
    Ok(Epoch {
        id: row.epoch,
        server,
    })
}

fn is_same_system(recorded: Option<&str>, server: Option<&ServerIdentity>) -> bool {
    let recorded = recorded.and_then(ServerIdentity::parse);
    recorded.is_some_and(|recorded| server.is_some_and(|own| own.system == recorded.system))
}

/// Records the server, and starts a new epoch unless this is the first server or `is_kept` is true. Does nothing if another process
/// has already recorded a server.
async fn record(
    c: &mut PgConnection,
    epoch: &str,
    recorded: Option<&str>,
    identity: &str,
    is_kept: bool,
) -> Result<(), sqlx::Error> {
    let mut tx = c.begin().await?;
    // A promoted server may not have a standby yet that could confirm the commit. If this server and the commit are lost, the next
    // server starts a new epoch as well.
    tx.execute("set local synchronous_commit = local").await?;
    let stored = sqlx::query(
        "insert into meta (key, value) values ('epoch_server', $1) on conflict (key) do update set value = excluded.value \
         where meta.value = $2",
    )
    .bind(identity)
    .bind(recorded)
    .execute(&mut *tx)
    .await?;
    if stored.rows_affected() == 1 && recorded.is_some() && !is_kept {
        tracing::warn!(
            recorded,
            identity,
            "the database is on another server or timeline and may have lost writes: a new epoch begins"
        );
        sqlx::query("update meta set value = $1 where key = 'epoch' and value = $2")
            .bind(next_id(Some(epoch)))
            .bind(epoch)
            .execute(&mut *tx)
            .await?;
    }
    tx.commit().await
}

/// ID of a new epoch, which sorts after the old one even if the clocks of two machines differ.
pub(super) fn next_id(old: Option<&str>) -> String {
    /// The upper 48 bits of a version 7 UUID are its time in milliseconds.
    const MS: u128 = 1 << 80;
    let new = Uuid::now_v7();
    let old = old.and_then(|old| Uuid::parse_str(old).ok());
    let after = old.map_or(new, |old| {
        new.max(Uuid::from_u128(old.as_u128().saturating_add(MS)))
    });
    after.simple().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_epochs_increase_even_if_a_clock_is_behind() {
        let ahead = Uuid::from_u128(Uuid::now_v7().as_u128() + (1 << 100));
        let old = ahead.simple().to_string();
        let new = next_id(Some(&old));
        assert!(new > old, "{new} {old}");
        assert!(next_id(Some(&new)) > new);
    }

    #[test]
    fn an_earlier_epoch_and_a_replaced_server_change_nothing() {
        let epoch = |id: &str, timeline: &str| Epoch {
            id: id.to_owned(),
            server: Some(ServerIdentity {
                system: "1".to_owned(),
                timeline: timeline.to_owned(),
            }),
        };
        let epochs = Epochs::new(Failover::Lossy, epoch("b", "00000002"));
        let watched = epochs.subscribe();
        assert!(!epochs.observe(epoch("a", "00000002")));
        assert!(!epochs.observe(epoch("c", "00000001")));
        assert_eq!(*watched.borrow(), epoch("b", "00000002"));
        // A failover that lost no commits does not start a new epoch.
        assert!(!epochs.observe(epoch("b", "00000003")));
        assert!(!watched.has_changed().unwrap());
        assert!(epochs.observe(epoch("c", "00000003")));
        assert!(watched.has_changed().unwrap());
    }
}
