//! Web push: notifications of inbox items on the devices of people who are not active.

mod client;
mod crypto;
pub mod device;
mod error;
mod origins;
pub mod queue;
pub mod settings;
pub mod vapid;

pub use error::PushError;
