//! The bus between nodes: hints about commits, and ephemeral frames.

mod deltas;
mod nats;
mod notify;
mod queue;
mod receive;
mod send;
mod wire;

pub use nats::NatsError;
pub use notify::NotifyError;
pub use queue::{Bus, QUEUE_MAX};
pub use send::{BusError, start};
