//! Web push: notifications of inbox items on the devices of people who are not active.
//!
//! `device` stores subscriptions of browsers, and `settings` their owners' preferences. The job in `notify` finds items
//! that opened, and inserts a row of `queue` for each device; `sender` checks each again, and sends it through `client`. `payload`
//! writes the notification, `crypto` encrypts it for the browser, and `vapid` identifies the server to push services. `missed` writes an email
//! about items that the person has not read, and `answers` counts what push services answered.

pub mod answers;
mod client;
mod crypto;
pub mod device;
mod error;
mod missed;
pub mod notify;
mod origins;
mod payload;
mod pusher;
pub mod queue;
mod sender;
pub mod settings;
pub mod vapid;

pub use error::PushError;
pub use pusher::{PushStatus, PushUnavailable, Pusher};
pub use sender::PushTestResult;
