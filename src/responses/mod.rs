//! `/v1/responses` and `/v1/chat/completions`: access to the agents of a workspace, and to its model, for any client of the `OpenAI`
//! API.
//!
//! ```text
//! form, completions ─► parsed ─┐
//! stored chain ────────────────┴► plan: agent, model, tools, conversation ─► call ─► draft: items and events ─► store
//!                                                                                      └─► completions: chunks
//! ```
//!
//! Calls bypass the task queue: the client waits for the response, and a call is not retried if the process dies. The response and
//! the task of a call are stored together at the end, so a crash before that leaves only the rows of its model calls. A call ends if
//! its client disconnects.

mod agent;
mod call;
mod chain;
mod citations;
mod client_calls;
mod completions;
mod conversation;
mod draft;
mod error;
mod file_search;
mod form;
mod format;
mod ignored;
mod input_items;
mod items;
mod kept_rounds;
mod marks;
mod media;
mod models;
mod object;
mod parsed;
mod plan;
mod readers;
mod references;
mod server_functions;
mod slots;
pub mod store;
mod tools;

use std::{sync::Arc, time::Duration};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    db::Db, files::Blobs, meaning::Meaning, model::Provider, tasks::calls::CallLog,
    tools::runner::Toolbox,
};

pub use call::{Call, Delivery, IgnoredPaths, Progress};
pub use completions::{ChatCompletion, Chunks, CreateChatCompletion};
pub use error::ResponseError;
pub use form::CreateResponse;
pub use input_items::{InputItem, ItemOrder, ItemPage, list_input_items};
pub use models::{Model, find_model, list_models};
pub use object::{Fault, Response};
pub use plan::Plan;
pub use readers::MediaReader;
pub use slots::{CallPermit, CallSlots};
pub use store::{DeletedResponse, cleanup, delete, forget_person, get};

/// Dependencies and settings of calls.
#[derive(Clone)]
pub struct ResponsesService {
    pub db: Db,
    pub provider: Arc<dyn Provider>,
    pub calls: CallLog,
    /// Functions of agents that run on the server.
    pub tools: Toolbox,
    /// Search by meaning, for `file_search`.
    pub meaning: Arc<Meaning>,
    pub blobs: Blobs,
    /// Pictures and files of requests.
    pub media: MediaReader,
    /// Base of links to messages.
    pub public_url: String,
    /// Permits for concurrent calls in this process.
    pub slots: Arc<CallSlots>,
    /// Delays before retrying an unavailable model (`OPENVIBE_RETRY_DELAYS`). Delays that are too long for a waiting client are not
    /// used.
    pub retry_delays: Vec<Duration>,
    /// Time to wait for the first or next chunk of a reply.
    pub task_timeout: Duration,
    /// Time limit for one attempt.
    pub attempt_max: Duration,
    pub tracker: TaskTracker,
    pub shutdown: CancellationToken,
}

impl ResponsesService {
    /// Returns the same service with another provider. Both share the limit of concurrent calls.
    #[must_use]
    pub fn with_provider(&self, provider: Arc<dyn Provider>) -> Arc<Self> {
        Arc::new(Self {
            provider,
            ..self.clone()
        })
    }

    /// Returns the same service with another base of links, without a trailing slash.
    #[must_use]
    pub fn linking_to(&self, public_url: String) -> Arc<Self> {
        Arc::new(Self {
            public_url,
            ..self.clone()
        })
    }
}
