//! HTTP: the router, and everything that handlers share: error mapping, extractors, pagination, and the `OpenAPI`
//! document.

pub mod assets;
pub mod bodies;
mod connection;
pub mod encoding;
pub mod error;
pub mod extract;
pub mod health;
pub mod meter;
pub mod openapi;
pub mod origin;
pub mod page;
pub mod requests;
pub mod router;
pub mod serve;
pub mod state;
pub mod unsent;

pub use error::ApiError;
pub use state::State;
