//! Processes that share a database: who they are, and how they hear of each other's changes.
//!
//! ```text
//! commit ─► hub ─► sockets of this node
//!        └► bus ─► NOTIFY or NATS ─► bus of another node ─► hub ─► its sockets
//!                                    poll, every second ──► hub: reads what is missing from the log
//! ```
//!
//! The database has everything; messages of the bus are hints. `identity` names this process, `row` has the rows of all nodes,
//! `lease` keeps this one alive, `follow` reads events that the bus did not bring, and `poll` notices everything that it lost.

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
pub use row::LiveNode;
