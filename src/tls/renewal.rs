//! Renewals that admins order.

use std::time::Duration;

use super::acme;
use crate::{
    db::{Conn, DbError},
    time::Timestamp,
};

/// Maximum number of renewals that admins can order in an hour, because authorities limit orders.
pub const RENEWALS_PER_HOUR_MAX: usize = 5;
const HOUR: Duration = Duration::from_hours(1);

/// Makes the server order a certificate for these names now. Returns the time until the next permitted renewal instead if there
/// were too many.
///
/// # Errors
/// Only database errors.
pub async fn order(c: &mut Conn, names: &[String]) -> Result<Option<Duration>, DbError> {
    let now = Timestamp::now();
    let stored = c
        .q("select value from meta where key = 'certificate_renewals'")
        .opt::<(String,)>()
        .await?;
    let mut times: Vec<Timestamp> = stored
        .and_then(|(value,)| serde_json::from_str(&value).ok())
        .unwrap_or_default();
    times.retain(|at| *at + HOUR > now);
    if times.len() >= RENEWALS_PER_HOUR_MAX {
        let oldest = times.first().copied().unwrap_or(now);
        return Ok(Some((oldest + HOUR).since(now)));
    }
    times.push(now);
    let times = serde_json::to_string(&times).map_err(|e| DbError::Start(e.to_string()))?;
    c.q("insert into meta (key, value) values ('certificate_renewals', $1) on conflict (key) do update set value = excluded.value")
        .bind(times)
        .run()
        .await?;
    // Without a row, the first order is under way or about to begin.
    acme::renew_now(c, names).await?;
    Ok(None)
}
