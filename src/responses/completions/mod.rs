//! Chat completions: the Responses API without storage, under different names.
//!
//! `form` and `messages` convert a request to a request of the Responses API. `completion` and `chunks` convert the response and its
//! events back.

mod chunks;
mod completion;
mod form;
mod messages;

use super::{Plan, ResponseError, ResponsesService};
use crate::auth::WorkspaceCaller;

pub use chunks::Chunks;
pub use completion::ChatCompletion;
pub use form::CreateChatCompletion;

impl ResponsesService {
    /// Plans the call for a request. Errors contain the field names of the Responses API.
    ///
    /// # Errors
    /// Same as `plan`, and `UnsupportedParameter`.
    pub async fn plan_completion(
        &self,
        member: &WorkspaceCaller,
        form: &CreateChatCompletion,
    ) -> Result<Plan, ResponseError> {
        let (common, parsed) = form.read();
        let planned = self.plan_parsed(member, &common, parsed).await;
        planned.map_err(|error| match error {
            ResponseError::StoreRequired(_) => ResponseError::StoreRequired(
                "this agent requires its responses to be stored, and chat completions are not stored: use /v1/responses"
                    .to_owned(),
            ),
            other => other,
        })
    }
}
