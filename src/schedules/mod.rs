//! Schedules run prompts and workflows at set times on behalf of the people who created them.
//!
//! ```text
//! schedule ─► `slots` (of a `cron` expression in a time zone) ─► `fire`: one transaction per due schedule stores the slot, the task,
//!                                                                and the next slot ─► task of kind `schedule`, or run ─► `outcome`
//! ```
//!
//! `change` creates and changes schedules, and `list` returns them to the people who can see them. `replies` runs the task itself.

mod announce;
mod change;
mod cron;
mod error;
mod fire;
mod form;
mod imported;
mod items;
mod list;
mod outcome;
mod paused;
mod row;
mod slots;

pub use announce::ScheduleEvent;
pub use change::{CreatedSchedule, create, delete, delete_in_thread, erase_owner, patch};
pub use error::ScheduleError;
pub use fire::{StartedRun, delete_old_slots, fire_due, run_now};
pub use form::{DeliveryForm, ScheduleForm, SchedulePatch, ScheduleTargetForm, StatusForm};
pub use imported::{create_imported, delete_imported};
pub use list::{ScheduleSlot, find_name, get, list, list_slots, workspace_of};
pub use outcome::{Scheduled, is_allowed, note_completed, note_end, note_failed};
pub use paused::{PausedItem, list_paused};
pub use row::{
    Delivery, LastSlot, MissedPolicy, PausedReason, Schedule, ScheduleObject, ScheduleStatus,
    ScheduleTarget, SlotReason, SlotState,
};
pub use slots::{PreviewedSlot, Slots};
