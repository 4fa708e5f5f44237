//! Actions: tool calls of tasks, as rows with states. Their texts are context texts.
//!
//! `state` defines the state machine, `texts` stores arguments and results, and `approval` requests approvals for runs. This module
//! neither approves nor runs actions.

pub mod approval;
mod items;
mod row;
mod state;
pub mod texts;

pub use row::{
    Action, ActionConstant, ActionEvent, ActionObject, ActionSource, AuthorLabel, Closing, Decider,
    Ending, Filter, Need, NewAction, Repeated, Shown, SourceAuthor, SourceLabel, announce,
    approve_again, call_count, cancel, close, count_before, count_equal, decide, delegating_rounds,
    expire, extend, failed_count, find, find_equal, forget_files, forget_person, has_left, insert,
    list, list_expired, list_open, list_orphans, of_round, of_task, release, restart, set_hits,
    set_result, settle, start, store_end, tasks_with_open, withdraw_open,
};
pub use state::{ActionKind, ActionState, GrantedBy, NeededPerson, TaintKind};
