//! Settings of a database.

use crate::text_enum::text_enum;

/// Default number of `PostgreSQL` connections for reads.
const CONNECTIONS: u32 = 12;

text_enum! {
    /// Guarantee for a failover to a `PostgreSQL` standby.
    pub enum Failover {
        /// The standby may lack commits that were acknowledged.
        Lossy = "lossy",
        /// A promoted standby has every acknowledged commit.
        Lossless = "lossless",
    }
}

/// Settings of a `PostgreSQL` database. `SQLite` needs none.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Maximum number of connections for reads, in both lanes together; fewer if the server grants fewer.
    pub connections: u32,
    pub failover: Failover,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS,
            failover: Failover::Lossy,
        }
    }
}
