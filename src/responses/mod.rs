//! `/v1/responses`: the agents of a workspace, and its model, for any client of the `OpenAI` Responses API.
//!
//! ```text
//! form ─► items ─┐
//! stored chain ──┴► plan: agent, model, tools, conversation ─► call ─► draft: items and events ─► store
//! ```
//!
//! A call is no task of the queue: who asked waits for it, and nobody tries it again when the process dies. Its row and the
//! task that records its usage are written together at its end, so a crash in the middle leaves nothing behind. It ends
//! when who asked goes away.

mod agent;
mod call;
mod chain;
mod conversation;
mod draft;
mod error;
mod form;
mod items;
mod models;
mod object;
mod places;
mod plan;
pub mod routes;
mod store;
mod tools;

use std::{sync::Arc, time::Duration};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{db::Db, model::Provider};

pub use call::{Call, Delivery, Progress};
pub use error::ResponseError;
pub use form::CreateResponse;
pub use models::{Model, find_model, list_models};
pub use object::{Fault, Response};
pub use places::Places;
pub use plan::Plan;
pub use store::{DeletedResponse, delete, get, tidy};

/// What calls run with.
pub struct Desk {
    pub db: Db,
    pub provider: Arc<dyn Provider>,
    /// One for each call at once in this process.
    pub places: Arc<Places>,
    /// Waits before another try of a model that is unavailable (`OPENVIBE_RETRY_DELAYS`); long ones are not waited here.
    pub retry_delays: Vec<Duration>,
    /// Without a first or next piece of the answer.
    pub task_timeout: Duration,
    /// For one attempt.
    pub attempt_max: Duration,
    pub tracker: TaskTracker,
    pub shutdown: CancellationToken,
}
