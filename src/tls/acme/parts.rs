//! What orders and loads certificates need.

use std::sync::Arc;

use crate::{db::Db, secrets::Keyring};

/// What orders and loads certificates need.
#[derive(Clone)]
pub struct Parts {
    pub db: Db,
    pub keyring: Arc<Keyring>,
    /// Returns true on the node that runs the jobs.
    pub runs_jobs: Arc<dyn Fn() -> bool + Send + Sync>,
}
