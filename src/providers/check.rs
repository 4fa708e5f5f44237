//! Tests a connection by requesting a one-word reply.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use uuid::Uuid;

use super::{
    clients::{Environment, Providers},
    connection::{Checked, ModelStatus},
    error::ProviderError,
};
use crate::{
    auth::{Scope, WorkspaceCaller},
    db::now,
    model::{
        ChatMessage, ChatRequest, CollectError, Collected, Limits, ModelError, Provider, Role,
    },
    share::Permit,
    tasks::calls::{self, NewCall, Purpose},
};

/// Time limit of a test.
const WITHIN: Duration = Duration::from_secs(30);
const REPLY_BYTES_MAX: usize = 1000;
/// Output limit, which is enough for the word and for short hidden reasoning.
const OUTPUT_TOKENS_MAX: u32 = 1_000;
/// Time for which a test result for the server configured by environment variables is used; shorter if the test failed.
const FRESH: Duration = Duration::from_mins(10);
const FAILURE_FRESH: Duration = Duration::from_secs(30);

/// Permits for a running test: one for the workspace and one for the person.
pub struct TestPermit {
    _permits: [Permit<Uuid>; 2],
}

/// A tested model and its reply.
pub struct Tested {
    /// Model that was tested.
    pub model: String,
    pub reply: Result<Collected, CollectError>,
}

impl Providers {
    /// Returns the latest test result for the server configured by environment variables; tests the server if there is no recent
    /// result.
    pub(super) async fn checked_environment(
        &self,
        environment: &Environment,
        member: &WorkspaceCaller,
    ) -> Result<Checked, ProviderError> {
        let mut latest = environment.latest.lock().await;
        match latest.as_ref() {
            Some((at, checked)) if at.elapsed() < fresh(checked.status) => Ok(checked.clone()),
            _ => {
                let checked = self.check(&environment.provider, member).await?;
                *latest = Some((Instant::now(), checked.clone()));
                Ok(checked)
            }
        }
    }

    pub(super) async fn check(
        &self,
        provider: &Arc<dyn Provider>,
        member: &WorkspaceCaller,
    ) -> Result<Checked, ProviderError> {
        let tested = self.ask(provider, member, None).await?;
        let (status, cause) = match tested.reply {
            Ok(_) => (ModelStatus::Ok, String::new()),
            Err(e) => (status_of(&e), e.to_string()),
        };
        Ok(Checked {
            status,
            cause,
            at: now(),
        })
    }

    /// Begins a test. Each workspace and each person can run only one test at a time, because a server that never responds holds one
    /// of the few permits for 30 seconds.
    ///
    /// # Errors
    /// `TestRunning`.
    pub fn begin_test(&self, member: &WorkspaceCaller) -> Result<TestPermit, ProviderError> {
        let take = |holder| {
            let taken = self.testing.take(holder, 1);
            taken.map_err(|_| ProviderError::TestRunning)
        };
        Ok(TestPermit {
            _permits: [take(member.workspace.0)?, take(member.caller.user.0)?],
        })
    }

    /// Requests a one-word reply from a model; by default, from the model of agents that do not choose one.
    ///
    /// # Errors
    /// `TestRunning`, or an error from `Actor::require`, which is checked again when the call is stored.
    pub async fn test(
        &self,
        provider: &Arc<dyn Provider>,
        member: &WorkspaceCaller,
        model: Option<&str>,
    ) -> Result<Tested, ProviderError> {
        let _running = self.begin_test(member)?;
        self.ask(provider, member, model).await
    }

    async fn ask(
        &self,
        provider: &Arc<dyn Provider>,
        member: &WorkspaceCaller,
        model: Option<&str>,
    ) -> Result<Tested, ProviderError> {
        let asked = async {
            // Fails only if the semaphore is closed, which never happens.
            let _permit = self.tests.acquire().await.ok();
            let model = match model {
                Some(model) => model.to_owned(),
                None => provider.choose_model(None).await,
            };
            let window = provider.window(&model).await;
            let limit = OUTPUT_TOKENS_MAX + window.reasoning_tokens;
            let mut reply = self.ask_model(provider, member, &model, limit).await?;
            if reply.as_ref().is_err_and(CollectError::is_thought_only) {
                reply = self.ask_model(provider, member, &model, 2 * limit).await?;
            }
            Ok::<_, ProviderError>(Tested { model, reply })
        };
        let within = tokio::time::timeout(WITHIN, asked).await;
        within.unwrap_or_else(|_| {
            Ok(Tested {
                model: model.unwrap_or_default().to_owned(),
                reply: Err(CollectError::Timeout),
            })
        })
    }
}

impl Providers {
    /// Makes one call with this output limit.
    async fn ask_model(
        &self,
        provider: &Arc<dyn Provider>,
        member: &WorkspaceCaller,
        model: &str,
        output_tokens_max: u32,
    ) -> Result<Result<Collected, CollectError>, ProviderError> {
        let request = ChatRequest {
            model: model.to_owned(),
            system: "You are the target of a connection test.".to_owned(),
            turns: vec![ChatMessage::new(Role::User, "Reply with the one word: OK")],
            max_output_tokens: Some(output_tokens_max),
            is_test: true,
            ..ChatRequest::default()
        };
        let limits = Limits {
            bytes_max: REPLY_BYTES_MAX,
            silence_max: WITHIN,
            time_max: WITHIN,
        };
        let call = NewCall {
            workspace: member.workspace,
            task: None,
            purpose: Purpose::Test,
            user: member.caller.user,
            agent: None,
            model: model.to_owned(),
            prompt_tokens: request.prompt_tokens(),
            output_tokens_max,
        };
        let call = self.calls.prepare(provider, call);
        let row = call.row();
        let stored = member
            .clone()
            .write(&self.db, async move |c, actor| {
                actor.require(Scope::WorkspaceAdmin)?;
                Ok::<_, ProviderError>(row.insert(c).await?)
            })
            .await?;
        debug_assert!(stored.is_ok(), "a test is never over budget");
        Ok(calls::collect(call, request, limits).await?)
    }
}

fn fresh(status: ModelStatus) -> Duration {
    match status {
        ModelStatus::Ok => FRESH,
        _ => FAILURE_FRESH,
    }
}

/// Status of a connection after a failed test.
pub fn status_of(error: &CollectError) -> ModelStatus {
    let CollectError::Model(error) = error else {
        return ModelStatus::Unreachable;
    };
    match error {
        ModelError::Empty => ModelStatus::Ok,
        ModelError::ThoughtOnly { .. } => ModelStatus::ThoughtOnly,
        ModelError::Auth(_) => ModelStatus::AuthFailed,
        ModelError::ContextTooLarge | ModelError::ModelMissing(_) => ModelStatus::NoModel,
        ModelError::BadRequest(text) if text.to_lowercase().contains("model") => {
            ModelStatus::NoModel
        }
        ModelError::BadRequest(_)
        | ModelError::ToolsRefused { .. }
        | ModelError::RateLimited { .. }
        | ModelError::Unavailable(_)
        | ModelError::Broken(_) => ModelStatus::Unreachable,
    }
}
