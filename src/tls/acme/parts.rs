//! What orders and loads certificates need.

use std::sync::Arc;

use crate::{db::Db, secrets::Keyring};

/// What orders and loads certificates need.
#[derive(Clone)]
pub struct Parts {
    pub db: Db,
    pub keyring: Arc<Keyring>,
    /// Returns true on the node that runs the jobs, unless this is a quiet copy.
    pub may_order: Arc<dyn Fn() -> bool + Send + Sync>,
}
