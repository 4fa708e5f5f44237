//! The bus between nodes: hints about commits, and ephemeral frames.

mod address;
mod deltas;
mod nats;
mod notify;
mod queue;
mod receive;
mod reject;
mod seal;
mod send;
mod wire;

pub use address::NatsError;
pub use notify::NotifyError;
pub use queue::{Bus, QUEUE_MAX};
pub use send::{BusError, start};
