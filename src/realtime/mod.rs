//! Delivers committed changes to clients.
//!
//! `log` appends events in the transaction of the change. After the commit, the writer passes them to `hub`,
//! which holds the sockets of this process and sends each frame, encoded once, to its recipients. A socket
//! (`crate::socket`) is a cursor into the log, from which it reads missed events. Streamed replies, typing, and
//! presence bypass the log and can be dropped.

mod bus_message;
mod catch_up;
mod conversation;
mod delivery;
mod event;
mod frame;
pub mod hub;
pub mod log;
mod node_state;

pub use bus_message::{BusMessage, Received, RemoteDelta};
pub use catch_up::CatchUpPermit;
pub use delivery::{Delivery, DeltaFormat, EventScope, Followed, Reach};
pub use event::{EventData, EventType, add_schema};
pub use frame::{
    CodePlanEntry, CodeStep, CodeStepState, CompactDelta, LiveFrame, PresenceStatus, StreamStart,
    encode_frame,
};
pub use hub::{ACTIVITY_EVERY, Close, Hub, PRESENCE_EVERY, Shared};
pub use log::{Audience, Envelope, MembershipChange, NewEvent};
pub use node_state::NodeState;
