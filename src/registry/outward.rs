//! Limit on outward calls: page reads, code runs, and calls of server functions together.

use std::time::{Duration, Instant};

use crate::{
    ids::WorkspaceId,
    rate::Buckets,
    tool_fault::{ToolErrorCode, ToolFault},
};

/// Maximum number of outward calls per workspace and minute.
const PER_MINUTE: u32 = 60;

/// Counts the outward calls of each workspace.
pub struct OutwardCalls(Option<Buckets<WorkspaceId>>);

impl OutwardCalls {
    pub fn new(has_limits: bool) -> Self {
        let every = Duration::from_mins(1) / PER_MINUTE;
        Self(has_limits.then(|| Buckets::new(every, PER_MINUTE)))
    }

    /// Counts a call.
    ///
    /// # Errors
    /// `RateLimited`.
    pub fn count(&self, workspace: WorkspaceId, now: Instant) -> Result<(), ToolFault> {
        self.take(workspace, now).map_err(|_| refusal())
    }

    /// Counts a write, after waiting until the workspace has a call left, because rejecting the
    /// write would waste its approval.
    ///
    /// # Errors
    /// `RateLimited` if the wait would exceed the deadline.
    pub async fn count_in_time(
        &self,
        workspace: WorkspaceId,
        deadline: tokio::time::Instant,
    ) -> Result<(), ToolFault> {
        loop {
            let now = tokio::time::Instant::now();
            match self.take(workspace, now.into_std()) {
                Ok(()) => return Ok(()),
                Err(wait) if now + wait < deadline => tokio::time::sleep(wait).await,
                Err(_) => return Err(refusal()),
            }
        }
    }

    /// Counts a call. Returns the time to wait if there is no call left.
    fn take(&self, workspace: WorkspaceId, now: Instant) -> Result<(), Duration> {
        match &self.0 {
            Some(buckets) => buckets.take(workspace, now),
            None => Ok(()),
        }
    }
}

fn refusal() -> ToolFault {
    let text = format!(
        "this workspace has made {PER_MINUTE} calls to other servers within a minute: try again later"
    );
    ToolFault::new(ToolErrorCode::RateLimited, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_write_waits_for_the_next_call_until_its_deadline() {
        let (workspace, calls) = (WorkspaceId::new(), OutwardCalls::new(true));
        let start = tokio::time::Instant::now();
        while calls.count(workspace, start.into_std()).is_ok() {}
        let at_once = calls.count_in_time(workspace, start).await;
        assert_eq!(at_once.unwrap_err().code, ToolErrorCode::RateLimited);
        let deadline = start + Duration::from_secs(10);
        calls.count_in_time(workspace, deadline).await.unwrap();
    }

    #[test]
    fn a_workspace_has_60_calls_per_minute() {
        let (one, other) = (WorkspaceId::new(), WorkspaceId::new());
        let calls = OutwardCalls::new(true);
        let start = Instant::now();
        for _ in 0..PER_MINUTE {
            calls.count(one, start).unwrap();
        }
        let fault = calls.count(one, start).unwrap_err();
        assert_eq!(fault.code, ToolErrorCode::RateLimited);
        calls.count(other, start).unwrap();
        calls.count(one, start + Duration::from_secs(1)).unwrap();
        let unlimited = OutwardCalls::new(false);
        for _ in 0..1000 {
            unlimited.count(one, start).unwrap();
        }
    }
}
