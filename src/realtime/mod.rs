//! From a committed change to everybody's screen.
//!
//! `log` appends events in the transaction of the change. After the commit the writer hands them to `hub`, which
//! knows this process's sockets and gives each frame, encoded once, to those who may see it. A `socket` is a cursor into
//! the log: what it missed it reads there. Replies that are being written, typing and presence go beside the
//! log and may be dropped.

mod catch_up;
pub mod hub;
pub mod log;
pub mod socket;

pub use catch_up::CatchUpPlace;
pub use hub::{Close, Hub, PRESENCE_EVERY};
pub use log::{Access, Audience, Envelope, NewEvent};
