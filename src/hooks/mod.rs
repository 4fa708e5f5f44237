//! Incoming webhooks: programs post messages as bots.
//!
//! `body` reads what a program sends, with `slack` for the format of Slack, whose markup `mrkdwn` translates. `row` stores bots and
//! webhooks (`object`), and `receive` posts the message.

mod body;
mod error;
mod mrkdwn;
mod object;
mod receive;
mod rendered;
mod row;
mod slack;

pub use body::{HookQuery, Incoming};
pub use error::{HookError, HookFault};
pub use object::{
    Bot, BotObject, BotPatch, BotStatus, Hook, HookForm, HookObject, HookPatch, NewHook,
};
pub use receive::{Delivered, FoundHook, Post, delete_old_threads, find, post, slack_ts};
pub use row::{
    create, delete, list_bots, list_hooks, patch, patch_bot, rotate, workspace_of_bot,
    workspace_of_hook,
};
