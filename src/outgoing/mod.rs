//! Events for bots. A subscription is a position in the event log: the job in `collect` reads the log from there, `select` chooses the
//! events that the bot gets, and one transaction stores them in `queue` and moves the position. `sender` sends them: `body` writes an
//! event from the log and the present rows, `sign` signs it, and `client` makes the request.
//!
//! Nothing is lost if the process dies: a delivery that was being sent is sent again, with the same ID.

mod body;
mod client;
mod collect;
mod links;
mod queue;
mod select;
mod sender;
mod sign;

pub use collect::{Collector, Round};
pub use queue::delete_old;
pub use sender::{EventSender, EventTestResult};
