//! Web push: notifications of inbox items on the devices of people who are not active.

mod client;
mod crypto;
mod error;
mod origins;
pub mod vapid;

pub use error::PushError;
