//! Replies of agents: context, prompt, model calls, and retries.

pub mod adaptation;
pub mod agent_draft;
pub mod attached;
pub mod authored;
pub mod budget;
mod citations;
pub mod compaction;
pub mod context;
pub mod delegation;
pub mod dry_run;
pub mod facts;
pub mod fitted;
mod history;
mod labels;
pub mod lines;
pub mod manifest;
mod offline;
pub mod persona;
pub mod preset;
pub mod prompt;
pub mod replay;
pub mod requester;
pub mod retry;
pub mod taint;
pub mod turn;
pub mod utility;
pub mod workspace;
