//! Results of the latest checks, which all nodes share: rows of `meta`.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::finding::Check;
use crate::{
    db::{Conn, Db, DbError},
    time::Timestamp,
};

/// Time after which checks whose node died count as ended.
const RUN_LEASE: Duration = Duration::from_secs(45);

/// Results of the latest checks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredChecks {
    pub at: Timestamp,
    pub checks: Vec<Check>,
}

impl StoredChecks {
    /// # Errors
    /// Only database errors.
    pub async fn read(c: &mut Conn) -> Result<Option<Self>, DbError> {
        let row = c
            .q("select value from meta where key = 'checks'")
            .opt::<(String,)>()
            .await?;
        // Results of a newer version that this one cannot read count as none.
        Ok(row.and_then(|(value,)| serde_json::from_str(&value).ok()))
    }
}

/// Begins checks. Returns false if some are running on any node.
///
/// # Errors
/// Only database errors.
pub async fn begin(c: &mut Conn) -> Result<bool, DbError> {
    let now = Timestamp::now();
    let begun = c
        .q("insert into meta (key, value) values ('checks_until', $1) \
            on conflict (key) do update set value = excluded.value where meta.value < $2")
        .bind((now + RUN_LEASE).to_text())
        .bind(now.to_text())
        .run()
        .await?;
    Ok(begun > 0)
}

/// Ends checks whose process died, if no other server uses the database.
///
/// # Errors
/// Only database errors.
pub async fn end_abandoned(c: &mut Conn) -> Result<(), DbError> {
    c.q("delete from meta where key = 'checks_until'")
        .run()
        .await?;
    Ok(())
}

/// Stores the results, and lets others begin.
///
/// # Errors
/// Only database errors.
pub async fn finish(db: &Db, checks: Vec<Check>) -> Result<(), DbError> {
    let stored = StoredChecks {
        at: Timestamp::now(),
        checks,
    };
    let stored = serde_json::to_string(&stored).map_err(|e| DbError::Start(e.to_string()))?;
    db.write(Uuid::nil(), async move |c: &mut Conn| {
        c.q("insert into meta (key, value) values ('checks', $1) on conflict (key) do update set value = excluded.value")
            .bind(stored.clone())
            .run()
            .await?;
        end_abandoned(c).await
    })
    .await
}
