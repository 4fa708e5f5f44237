//! Ways in which nodes learn of each other's changes.

use crate::{config::Config, db::DatabaseUrl, text_enum::text_enum};

text_enum! {
    /// Way in which nodes learn of each other's changes.
    pub enum Mode {
        /// There is one node.
        Local = "local",
        /// Over `PostgreSQL`'s LISTEN and NOTIFY.
        Notify = "notify",
        /// Over core NATS, or over LISTEN and NOTIFY while NATS is unavailable.
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
