//! Events for bots. A subscription is a position in the event log: the job in `collect` reads the log from there, `select` chooses the
//! events that the bot gets, and one transaction stores them in `queue` and moves the position.

mod collect;
mod links;
mod queue;
mod select;

pub use collect::{Collector, Round};
pub use queue::delete_old;
