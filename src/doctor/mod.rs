//! Checks of a server and its surroundings, for the people who operate it. Each states one fact and, if something is wrong, what to do.
//!
//! The server runs them for its admins, and `openvibe doctor` runs the same ones beside it, or without a server those that need none.
//! Nothing is changed: only files and objects for measurements are written, and deleted at once. The module of a group has its checks;
//! `outside` reaches the server as people do, through its public URL.

mod clock;
mod data;
mod database;
mod finding;
mod http;
pub mod probe;
mod settings;
pub mod stored;
mod subject;

pub use finding::{Check, CheckName, CheckState, Finding};
pub use subject::{CheckedServer, Program};
