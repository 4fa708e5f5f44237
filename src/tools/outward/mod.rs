//! Functions whose calls leave this server: those of registered servers, web pages, and code.

mod code;
mod pages;
mod servers;

pub use code::CodeTool;
pub use pages::PageTool;
pub use servers::ServerTools;
