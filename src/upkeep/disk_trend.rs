//! Daily measurements of free space, which show when the disk will be full: a JSON value in `meta`.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    db::{Conn, DbError},
    disk::free_bytes,
    server::State,
    time::Timestamp,
};

const MEASURE_EVERY: Duration = Duration::from_hours(24);
/// Number of measurements that are kept.
const KEPT: usize = 8;
/// Minimum time between two measurements that show a trend.
const TREND_MIN: Duration = Duration::from_hours(48);
const DAY_SECONDS: f64 = 86_400.0;

/// Free space at a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskSample {
    at: Timestamp,
    free_bytes: u64,
}

/// Measurements, oldest first.
///
/// # Errors
/// Only database errors.
pub async fn read(c: &mut Conn) -> Result<Vec<DiskSample>, DbError> {
    let row = c
        .q("select value from meta where key = 'disk_samples'")
        .opt::<(String,)>()
        .await?;
    let samples = row.and_then(|(value,)| serde_json::from_str(&value).ok());
    Ok(samples.unwrap_or_default())
}

/// Days until the disk is full if it keeps filling as it did; `None` if it does not, or if that is not known yet.
pub fn days_left(samples: &[DiskSample], free_bytes: u64, now: Timestamp) -> Option<u64> {
    let oldest = samples.first()?;
    let over = now.since(oldest.at);
    let used = oldest.free_bytes.checked_sub(free_bytes)?;
    if over < TREND_MIN || used == 0 {
        return None;
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate in whole days"
    )]
    let days = (free_bytes as f64 * over.as_secs_f64() / DAY_SECONDS / used as f64) as u64;
    Some(days)
}

/// Measures the free space, unless that was done within the last day.
///
/// # Errors
/// Only database errors.
pub(super) async fn measure(state: &State) -> Result<(), DbError> {
    let now = Timestamp::now();
    let mut samples = read(&mut state.db.read().await?).await?;
    let is_due = samples
        .last()
        .is_none_or(|last| last.at + MEASURE_EVERY <= now);
    let Some(free_bytes) = free_bytes(&state.config.data_dir).ok().filter(|_| is_due) else {
        return Ok(());
    };
    samples.push(DiskSample {
        at: now,
        free_bytes,
    });
    samples.drain(..samples.len().saturating_sub(KEPT));
    let samples = serde_json::to_string(&samples).map_err(|e| DbError::Start(e.to_string()))?;
    state
        .db
        .write(Uuid::nil(), async move |c: &mut Conn| {
            c.q("insert into meta (key, value) values ('disk_samples', $1) on conflict (key) do update set value = excluded.value")
                .bind(samples.clone())
                .run()
                .await?;
            Ok(())
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_fills_has_days_left() {
        let now = Timestamp::now();
        let ago = |days: u64, free_bytes: u64| DiskSample {
            at: now - Duration::from_hours(24 * days),
            free_bytes,
        };
        assert_eq!(days_left(&[ago(4, 500), ago(1, 200)], 100, now), Some(1));
        assert_eq!(days_left(&[ago(7, 800)], 100, now), Some(1));
        assert_eq!(days_left(&[ago(2, 1_100)], 1_000, now), Some(20));
        for (samples, free) in [
            (&[][..], 100),
            (&[ago(1, 500)], 100),
            (&[ago(4, 100)], 500),
            (&[ago(4, 100)], 100),
        ] {
            assert_eq!(days_left(samples, free, now), None);
        }
    }
}
