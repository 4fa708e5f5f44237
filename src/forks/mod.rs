//! Forks ("deep dives" on screen): starts forks, drafts and publishes their resolutions, and lists decisions and action
//! items.
//!
//! ```text
//! start ─► (chat: people and agents talk; collaborate: agents in turns) ─► resolve: a task ─► draft ─► edit ─► publish ─► message in the thread
//!   ▲                                             │  brief ► model ► parse ► check ► repair ► trim      │
//!   └────────────── reopen ◄──────────────────────┤  or the offline extractor                           ▼
//!                                                 └─────────────────────────────► decisions, action items
//! ```
//!
//! The conversation of a fork (access, agent, messages) belongs to `chat`.

mod calls;
mod card;
pub mod collaborate;
pub mod collaborator;
mod content;
pub mod decisions;
pub mod draft;
mod drafting;
pub mod drafts;
pub mod edit;
mod error;
pub mod event;
pub mod example;
pub mod form;
pub mod imported;
mod inbox;
pub mod items;
pub mod material;
pub mod publish;
pub mod resolution;
pub mod resolve;
pub mod resolver;
pub mod start;

pub use error::ForkError;
