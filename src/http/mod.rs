//! HTTP layer that does not depend on features: connections, bodies, errors, extractors, and
//! pagination.

pub mod address;
pub mod assets;
pub mod bodies;
mod connection;
pub mod encoding;
pub mod error;
mod error_code;
pub mod extract;
pub mod meter;
pub mod page;
pub mod requests;
pub mod routing;
pub mod serve;
pub mod tls;
pub mod unsent;

pub use error::ApiError;
pub use error_code::ErrorCode;
