//! Nodes, which are processes that share a database, and how they learn of each other's changes.
//!
//! ```text
//! commit ─► hub ─► sockets of this node
//!        └► bus ─► NOTIFY or NATS ─► bus of another node ─► hub ─► its sockets
//!                                    poll, every second ──► hub: reads missing events from the log
//! ```
//!
//! The database contains everything; messages on the bus are only hints. `identity` provides the ID of this process, `row` contains
//! the SQL for the rows of all nodes, `lease` keeps this node alive, `follow` reads events that the bus did not deliver, and `poll`
//! detects everything else that the bus lost.

pub mod bus;
mod figures;
mod follow;
mod identity;
mod lease;
mod links;
mod list;
mod mode;
mod node;
mod poll;
mod presence;
mod row;
mod settings;

pub use follow::follow;
pub use identity::IdentityError;
pub use lease::{JoinError, Lease, LeaseEnd, find_peers, join, leave};
pub use links::Links;
pub use list::{ListedNode, list, list_stored};
pub use mode::Mode;
pub use node::Node;
pub use poll::{POLL_EVERY, poll};
pub use presence::{list_online, write_presence};
pub use row::cluster;
