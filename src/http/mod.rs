//! HTTP: the router, and what every handler shares: one error mapping, extractors, pages, the `OpenAPI` document.

pub mod assets;
pub mod error;
pub mod extract;
pub mod health;
pub mod openapi;
pub mod origin;
pub mod page;
pub mod requests;
pub mod router;
pub mod serve;
pub mod state;

pub use error::ApiError;
pub use state::State;
