//! Periodically checks the access of all sockets, many sockets per statement.

use std::{sync::Arc, time::Duration};

use super::connection::HEARTBEAT_MS;
use crate::{auth::doubts, db::DbError, realtime::hub::Socket, server::State};

/// Maximum number of sockets in one statement.
const CHECKED_AT_ONCE: usize = 500;

/// Checks the access of each socket once per heartbeat until shutdown, evenly spread over that time. A socket whose access
/// may have changed then checks its access itself.
pub async fn check_access_forever(state: State) {
    let interval = Duration::from_millis(HEARTBEAT_MS);
    loop {
        let sockets = state.hub.sockets();
        let groups = u32::try_from(sockets.len().div_ceil(CHECKED_AT_ONCE)).unwrap_or(u32::MAX);
        let pause = || {
            let pause = tokio::time::sleep(interval / groups.max(1));
            state.shutdown.run_until_cancelled(pause)
        };
        if groups == 0 && pause().await.is_none() {
            return;
        }
        for group in sockets.chunks(CHECKED_AT_ONCE) {
            if pause().await.is_none() {
                return;
            }
            if let Err(e) = check(&state, group).await {
                tracing::warn!(error = %e, "could not check the access of sockets");
            }
        }
    }
}

async fn check(state: &State, sockets: &[Arc<Socket>]) -> Result<(), DbError> {
    let mut c = state.db.read().await?;
    for socket in doubts::find(&mut c, sockets).await? {
        socket.doubt();
    }
    Ok(())
}
