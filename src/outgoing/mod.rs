//! Events for bots. A subscription is a position in the event log: the job in `collect` reads the log from there, `select` chooses the
//! events that the bot gets, and one transaction stores them in `queue` and moves the position. `sender` sends them: `body` writes an
//! event from the log and the present rows, and `sign` signs it. A program that opens a socket takes its
//! events from the same queue (`sockets`). A `command` is sent at once, because a person waits for the answer.
//!
//! Nothing is lost if the process dies: a delivery that was being sent is sent again, with the same ID.

mod body;
mod collect;
mod command;
mod links;
mod queue;
mod select;
mod sender;
mod sign;
mod sockets;

pub use collect::{Collector, Round};
pub use command::{
    ButtonPress, CommandAnswer, CommandCall, CommandReply, LateEffect, ReplyAudience,
    delete_old_calls,
};
pub use queue::{BotSocketId, delete_old};
pub use sender::{EventSender, EventTestResult};
pub use sockets::{
    BotSocket, SocketCall, SocketEvent, TicketRefusal, close_socket, delete_old_sockets,
    is_permitted, is_ticket, issue_ticket, open_socket, renew_socket,
};
