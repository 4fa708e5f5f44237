//! Deep dives: starting one, resolving it into a draft, editing and publishing that, and what becomes of it.
//!
//! ```text
//! start ─► (chat: people and the partner talk) ─► resolve: a task ─► draft ─► edit ─► publish ─► card in the thread
//!   ▲                                               │  brief ► model ► parse ► check ► repair ► trim       │
//!   └────────────── reopen ◄────────────────────────┤  or the offline extractor                            ▼
//!                                                   └──────────────────────────────► decisions, action items
//! ```
//! The place itself (who sees it, who answers there, its messages) is `chat`'s.

mod calls;
mod card;
mod content;
pub mod decisions;
pub mod draft;
mod drafting;
pub mod drafts;
pub mod edit;
mod error;
mod event;
pub mod form;
pub mod items;
pub mod material;
pub mod publish;
pub mod resolution;
pub mod resolve;
pub mod resolver;
pub mod routes;
pub mod start;

pub use error::ForkError;
