//! Code in conversations: runners, the repositories that they offer, and agents that work on them.
//!
//! ```text
//! reply ─► begin: session, turn, commands ─► link ─► runner (crates/runner)
//!                                             │
//! reply's text, steps, push ◄─ apply ◄────────┘ events, each in one transaction with its number
//! ```
//!
//! A turn is a reply task with a row in `task_keys`: it has no worker, and the runner's connection is its lease. Commands are rows until the
//! runner has acknowledged them, so either side can end at any time. `watch` ends what neither side will end.

mod apply;
mod commands;
mod delete;
mod error;
mod event;
mod finish;
mod forget;
mod link;
mod push;
mod question;
mod reads;
mod reply;
mod repositories;
mod repository;
mod review;
mod runner;
mod runners;
mod sessions;
mod texts;
mod turns;
mod uploads;
mod watch;

pub use apply::{Applied, RunnerEvent, Shown, apply};
pub use commands::{CommandFrame, has_commands_in};
pub use delete::delete_runner;
pub use error::CodeError;
pub use event::{CodeSessionEvent, RepositoryEvent};
pub use forget::{cite, forget_due};
pub use link::{
    BadHello, Connected, RunnerHello, acknowledge, connect, disconnect, renew, skip, take_frames,
};
pub use push::{change_text, start_approved};
pub use question::{AskedRepository, ask_repository, find_asked, pass_on};
pub use reads::{
    ARCHIVE_BYTES_MAX, FOLDER_WITHIN, FolderAnswer, FolderRequest, answer_folder,
    channels_of_readers, delete_expired_folders, end_folder_request, find_folder,
    list_folder_requests, request_folder,
};
pub use reply::{list_steps, text_of_reply};
pub use repositories::{
    RepositoryPatch, list_repositories, patch_repository, workspace_of_repository,
};
pub use repository::{Repository, RepositoryState, StarterGroup, Starters, TurnRepository};
pub use review::{
    ReviewComment, ReviewForm, ReviewSide, Reviewed, find_reviewed, with_comments, with_mention,
};
pub use runner::{BUILTIN, RunnerEngine, RunnerIdentity, find_by_key, workspace_of_runner};
pub use runners::{Runner, RunnerForm, RunnerObject, RunnerWithKey, create_runner, list_runners};
pub use sessions::{
    CodeSession, SessionFilter, SessionState, get_session, list_sessions, workspace_of_session,
};
pub use texts::{TextOwner, compress, find as find_text, find_pushed, restore};
pub use turns::{Choice, TurnPlace, TurnPrompt, begin, choose, end_over_budget, messages_after};
pub use uploads::{check_session, check_text, check_turn, put_text};
pub use watch::{close_session, close_unused, end_due, forget_thread};
