//! Work that is done once a day.

use std::time::Duration;

use super::{alerts, disk_trend, updates};
use crate::server::State;

/// Interval between checks whether work is due. None is done at the start, when much else is written.
pub const CHECK_EVERY: Duration = Duration::from_mins(20);

/// Measures the free space, looks for new versions, and opens notices about problems.
pub async fn look(state: &State) {
    if let Err(e) = disk_trend::measure(state).await {
        tracing::warn!(error = %e, "the free space could not be recorded; retrying");
    }
    if let Err(e) = updates::look(state).await {
        tracing::warn!(error = %e, "the search for a new version could not be recorded; retrying");
    }
    if let Err(e) = alerts::look(state).await {
        tracing::warn!(error = %e, "notices about the server could not be stored; retrying");
    }
}
