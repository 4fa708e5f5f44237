//! State of the backups, which all nodes share: a JSON value in `meta`.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    db::{Conn, Db, DbError, now},
    time::Timestamp,
};

/// Time after which a run whose node does not report anymore counts as ended.
pub(super) const RUN_LEASE: Duration = Duration::from_mins(2);

/// A complete backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LastBackup {
    pub name: String,
    pub at: Timestamp,
    pub bytes: u64,
}

/// Result of restoring a backup into a scratch directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DrillResult {
    /// Name of the backup.
    pub name: String,
    pub at: Timestamp,
    /// What was wrong; null if everything was restored.
    pub fault: Option<String>,
    /// Reason why the backup was not restored, such as too little free space.
    pub skipped: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackupState {
    /// A run of a node that died ends at this time.
    pub running_until: Option<Timestamp>,
    /// Start of the newest attempt.
    pub tried_at: Option<Timestamp>,
    /// Failed attempts since the newest success.
    pub failures: u32,
    pub error: Option<String>,
    pub last: Option<LastBackup>,
    pub drill: Option<DrillResult>,
}

impl BackupState {
    pub fn is_running(&self, now: Timestamp) -> bool {
        self.running_until.is_some_and(|until| until > now)
    }

    /// Reads the state; the default one if nothing was stored yet.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn read(c: &mut Conn) -> Result<Self, DbError> {
        let text = read_text(c).await?;
        Ok(text.map(|text| parse(&text)).unwrap_or_default())
    }
}

async fn read_text(c: &mut Conn) -> Result<Option<String>, DbError> {
    let row = c
        .q("select value from meta where key = 'backups'")
        .opt::<(String,)>()
        .await?;
    Ok(row.map(|(value,)| value))
}

/// A value of a newer version that this one cannot read counts as none.
fn parse(text: &str) -> BackupState {
    serde_json::from_str(text).unwrap_or_default()
}

/// Changes the state and returns it, or returns `None` if `change` declines.
pub(super) async fn change(
    db: &Db,
    change: impl Fn(&mut BackupState) -> bool + Clone + Send + Sync + 'static,
) -> Result<Option<BackupState>, DbError> {
    db.write(Uuid::nil(), async move |c: &mut Conn| {
        c.q("insert into meta (key, value) values ('backups', '{}') on conflict (key) do nothing")
            .run()
            .await?;
        loop {
            let old = read_text(c).await?.unwrap_or_default();
            let mut state = parse(&old);
            if !change(&mut state) {
                return Ok(None);
            }
            let new = serde_json::to_string(&state).map_err(|e| DbError::Start(e.to_string()))?;
            let changed = c
                .q("update meta set value = $1 where key = 'backups' and value = $2")
                .bind(new)
                .bind(old)
                .run()
                .await?;
            // Another node may have changed it in the meantime.
            if changed > 0 {
                return Ok(Some(state));
            }
        }
    })
    .await
}

/// Begins a run, unless one is running on any node.
pub(super) async fn begin(db: &Db) -> Result<bool, DbError> {
    let at = now();
    let begun = change(db, move |state| {
        if state.is_running(at) {
            return false;
        }
        state.running_until = Some(at + RUN_LEASE);
        true
    });
    Ok(begun.await?.is_some())
}

/// Ends a run whose process died, if no other server uses the database.
///
/// # Errors
/// Only database errors.
pub async fn end_abandoned(db: &Db) -> Result<(), DbError> {
    let stored = BackupState::read(&mut db.read().await?).await?;
    if stored.running_until.is_some() {
        change(db, |state| state.running_until.take().is_some()).await?;
    }
    Ok(())
}

/// Reports that a run continues.
pub(super) async fn renew(db: &Db) -> Result<(), DbError> {
    let until = now() + RUN_LEASE;
    change(db, move |state| {
        state.running_until = Some(until);
        true
    })
    .await?;
    Ok(())
}
