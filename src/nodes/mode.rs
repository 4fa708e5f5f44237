//! Ways in which nodes learn of each other's changes.

use crate::{config::Config, db::DatabaseUrl, text_enum::text_enum};

text_enum! {
    /// Way in which nodes learn of each other's changes.
    pub enum Mode {
        /// There is one node.
        Local = "local",
        /// Over LISTEN and NOTIFY of `PostgreSQL`.
        Notify = "notify",
        /// Over core NATS, or LISTEN and NOTIFY while it is unavailable.
        Nats = "nats",
    }
}

impl Mode {
    pub(super) fn of(config: &Config) -> Self {
        match (&config.database, &config.nats) {
            (DatabaseUrl::Sqlite(_), _) => Self::Local,
            (DatabaseUrl::Postgres(_), None) => Self::Notify,
            (DatabaseUrl::Postgres(_), Some(_)) => Self::Nats,
        }
    }
}
