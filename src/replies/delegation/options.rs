//! Options of a delegated task.

use serde::{Deserialize, Serialize};

use crate::tasks::{BriefContext, Task};

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DelegateOptions {
    pub context: BriefContext,
    /// Maximum total costs, in US dollars, of all tasks below the caller; read by
    /// `queue::delegation_room`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd_max: Option<f64>,
}

impl Default for DelegateOptions {
    fn default() -> Self {
        Self {
            context: BriefContext::Brief,
            usd_max: None,
        }
    }
}

impl DelegateOptions {
    pub fn of(task: &Task) -> Self {
        let options = task.input.0.options.clone();
        let options = options.and_then(|options| serde_json::from_value(options).ok());
        options.unwrap_or_default()
    }
}
