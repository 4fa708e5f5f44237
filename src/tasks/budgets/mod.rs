//! Budgets: limits on the tokens or costs of the model calls of a workspace, a person, or an agent per day or month.
//!
//! ```text
//! reserve: one conditional update of all counters, with the row of the call ─► request ─► settle: the reservation becomes usage
//!    └─ over budget: nothing is stored, and no request is sent                               (also of lost and canceled calls)
//! ```
//!
//! A counter is a database row that belongs to a budget. It stores the amount that calls of the period have used, and the amount that
//! running calls have reserved. `list::replace` fills the counters of new budgets from the usage so far. A call counts toward the day
//! and the month in which it began.

mod amount;
mod announce;
mod budget;
mod list;
mod notices;
mod reserve;
mod version;

pub use amount::{Amount, Amounts, BudgetUnit, Price, nano_usd};
pub use budget::{BudgetEvent, BudgetPeriod, BudgetScope, NewBudget, OverBudget, UsageBudget};
pub use list::{list, list_own, list_warned, reassign, remove_past, replace};
pub use reserve::{Charge, RESERVED_EVERY, WAIT_MAX, reserve, settle};
pub use version::find_version;
