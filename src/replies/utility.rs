//! Calls of a small model for work around replies, such as summaries, whose text is not streamed.
//!
//! A request has at most half of the model's window. The workspace's required text comes first, as in every prompt.

use std::{sync::Arc, time::Duration};

use crate::{
    agents::policy,
    db::{Db, DbError},
    files::pictures::Picture,
    ids::{AgentId, UserId, WorkspaceId},
    model::{
        ChatMessage, ChatRequest, CollectError, Collected, JsonSchema, Limits, ModelError,
        PictureUse, Provider, Role, TurnPicture, Window, estimate_tokens, picture_tokens,
    },
    tasks::{
        Task, budgets,
        calls::{self, CallError, CallLog, CallTask, NewCall, Purpose},
    },
};

use super::budget;

const OUTPUT_TOKENS_MAX: u32 = 1_200;
const ANSWER_BYTES_MAX: usize = 256 * 1024;
const TIME_MAX: Duration = Duration::from_mins(1);
/// Maximum number of requests made to get an answer that can be parsed.
const READ_MAX: usize = 2;

/// Calls small models.
#[derive(Clone)]
pub struct Utility {
    pub db: Db,
    pub provider: Arc<dyn Provider>,
    pub calls: CallLog,
    /// Delays before retries, as for replies.
    pub delays: Vec<Duration>,
}

/// The chosen model.
#[derive(Debug, Clone)]
pub struct UtilityModel {
    pub name: String,
    pub window: Window,
    required: Option<String>,
}

impl UtilityModel {
    fn system(&self, system: &str) -> String {
        match &self.required {
            Some(required) => format!("{required}\n\n{system}"),
            None => system.to_owned(),
        }
    }

    /// Returns the maximum size of the text that can follow the instructions in `system`, in estimated tokens.
    pub fn room(&self, system: &str) -> u64 {
        let half = self.window.estimate_for(self.window.tokens / 2);
        half.saturating_sub(estimate_tokens(&self.system(system)))
    }
}

/// Urgency of a call, which determines how it is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// A reply or a person waits for the call, so it is retried only once.
    ReplyWaits,
    /// Nobody waits for the call, so it is retried as often as a reply.
    Background,
}

/// Work for a small model.
#[derive(Debug, Clone)]
pub struct UtilityCall {
    pub workspace: WorkspaceId,
    /// `None` if an HTTP request waits for the answer.
    pub task: Option<CallTask>,
    pub purpose: Purpose,
    pub user: UserId,
    pub agent: Option<AgentId>,
    pub system: String,
    pub text: String,
    pub schema: Option<JsonSchema>,
    pub patience: Patience,
}

impl UtilityCall {
    /// Creates a call for a task that runs in the background.
    pub fn for_task(task: &Task, purpose: Purpose, system: &str, text: String) -> Self {
        Self {
            workspace: task.workspace_id,
            task: Some(CallTask {
                id: task.id,
                root: task.root_task_id,
                attempt: task.attempt,
                round: task.round + 1,
            }),
            purpose,
            user: task.requested_by,
            agent: task.agent_id,
            system: system.to_owned(),
            text,
            schema: None,
            patience: Patience::Background,
        }
    }

    /// Creates a call whose answer a person is waiting for.
    pub fn for_person(workspace: WorkspaceId, user: UserId, system: &str, text: String) -> Self {
        Self {
            workspace,
            task: None,
            purpose: Purpose::Utility,
            user,
            agent: None,
            system: system.to_owned(),
            text,
            schema: None,
            patience: Patience::ReplyWaits,
        }
    }
}

/// Limits of an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AnswerLimits {
    pub output_tokens_max: u32,
    /// `None` for the provider's default.
    pub temperature: Option<f64>,
}

impl Default for AnswerLimits {
    fn default() -> Self {
        Self {
            output_tokens_max: OUTPUT_TOKENS_MAX,
            temperature: None,
        }
    }
}

/// An answer, as parsed by the caller's function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<T> {
    Read(T),
    /// No answer could be parsed. Contains the text of the last one.
    Unread(String),
    /// The end of the last answer is missing, so nothing of it may be used.
    Incomplete,
}

impl Utility {
    /// Returns the first available model among the caller's choice, the operator's or the workspace's utility model, the provider's
    /// small model, and `main`.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn model(
        &self,
        workspace: WorkspaceId,
        choice: Option<&str>,
        main: &str,
    ) -> Result<UtilityModel, DbError> {
        let name = match choice {
            // `OPENVIBE_MODEL` replaces only the models of replies.
            Some(choice) if self.provider.lists_model(choice).await => choice.to_owned(),
            _ => self.provider.utility_model(main).await,
        };
        let mut c = self.db.read().await?;
        Ok(UtilityModel {
            window: self.provider.window(&name).await,
            name,
            required: policy::find(&mut c, workspace).await?.required_text,
        })
    }

    /// Calls the model until `read` accepts its answer, at most twice. After an answer whose end is missing, or that contains only
    /// reasoning, the output limit is doubled. Temporary failures are retried.
    ///
    /// # Errors
    /// `Ok(Err(_))` if the model fails or a budget does not allow the call; `Err` if the database fails.
    pub async fn ask<T>(
        &self,
        model: &UtilityModel,
        call: &UtilityCall,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Result<Answer<T>, CallError>, DbError> {
        let limits = AnswerLimits::default();
        self.ask_within(model, call, limits, read).await
    }

    /// Like `ask`, with other limits.
    ///
    /// # Errors
    /// Same as `ask`.
    pub async fn ask_within<T>(
        &self,
        model: &UtilityModel,
        call: &UtilityCall,
        limits: AnswerLimits,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Result<Answer<T>, CallError>, DbError> {
        self.ask_about(model, call, &[], limits, read).await
    }

    /// Like `ask_within`, about pictures at the end of the text, without which the call fails.
    ///
    /// # Errors
    /// Same as `ask`.
    pub async fn ask_about<T>(
        &self,
        model: &UtilityModel,
        call: &UtilityCall,
        pictures: &[Picture],
        limits: AnswerLimits,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Result<Answer<T>, CallError>, DbError> {
        let system = model.system(&call.system);
        let room = model.room(&call.system);
        let text = budget::without_middle(&call.text, room).unwrap_or_else(|| call.text.clone());
        let pictures: Vec<TurnPicture> = pictures
            .iter()
            .map(|picture| TurnPicture {
                at: text.len(),
                url: Arc::clone(&picture.url),
                tokens: picture_tokens(picture.width, picture.height),
                unsent: String::new(),
                unsent_at: text.len(),
            })
            .collect();
        let of_pictures: u64 = pictures.iter().map(|picture| picture.tokens).sum();
        let tokens = estimate_tokens(&system) + estimate_tokens(&text) + of_pictures;
        let tokens = model.window.corrected(tokens);
        let output_limit = |tokens_max| Some(model.window.output_limit(tokens_max, tokens));
        let output_tokens_max = limits.output_tokens_max + model.window.reasoning_tokens;
        let mut request = ChatRequest {
            model: model.name.clone(),
            max_output_tokens: output_limit(output_tokens_max),
            temperature: limits.temperature,
            system,
            pictures: PictureUse::Required,
            turns: vec![ChatMessage {
                pictures,
                ..ChatMessage::new(Role::User, text)
            }],
            json_schema: call.schema.clone(),
            ..ChatRequest::default()
        };
        let mut unread = None;
        for attempt in 1..=READ_MAX {
            let answer = match (
                self.call(model, call, &request, tokens).await?,
                unread.take(),
            ) {
                (Ok(answer), _) => answer,
                (Err(CallError::Collect(e)), None) if e.is_thought_only() && attempt < READ_MAX => {
                    request.max_output_tokens = output_limit(2 * output_tokens_max);
                    continue;
                }
                (Err(_), Some(unread)) => return Ok(Ok(unread)),
                (Err(e), None) => return Ok(Err(e)),
            };
            if answer.is_incomplete() {
                request.max_output_tokens = output_limit(2 * output_tokens_max);
                unread = Some(Answer::Incomplete);
                continue;
            }
            match read(&answer.text) {
                Some(value) => return Ok(Ok(Answer::Read(value))),
                None => unread = Some(Answer::Unread(answer.text)),
            }
        }
        Ok(Ok(unread.unwrap_or(Answer::Incomplete)))
    }

    async fn call(
        &self,
        model: &UtilityModel,
        call: &UtilityCall,
        request: &ChatRequest,
        prompt_tokens: u64,
    ) -> Result<Result<Collected, CallError>, DbError> {
        let (retries, wait_max) = match call.patience {
            Patience::ReplyWaits => (self.delays.len().min(1), Duration::ZERO),
            Patience::Background => (self.delays.len(), budgets::WAIT_MAX),
        };
        let limits = Limits {
            bytes_max: ANSWER_BYTES_MAX,
            silence_max: TIME_MAX,
            time_max: TIME_MAX,
        };
        let mut delays = self.delays[..retries].iter();
        loop {
            let new = NewCall {
                workspace: call.workspace,
                task: call.task,
                purpose: call.purpose,
                user: call.user,
                agent: call.agent,
                model: model.name.clone(),
                prompt_tokens,
                output_tokens_max: request.max_output_tokens.unwrap_or(OUTPUT_TOKENS_MAX),
            };
            let open = match self.calls.begin(&self.provider, new, wait_max).await? {
                Ok(open) => open,
                Err(over) => return Ok(Err(CallError::OverBudget(over))),
            };
            let error = match calls::collect(open, request.clone(), limits).await? {
                Ok(answer) => return Ok(Ok(answer)),
                Err(e) => e,
            };
            match delays.next().filter(|_| may_pass(&error)) {
                Some(delay) => tokio::time::sleep(*delay).await,
                None => return Ok(Err(error.into())),
            }
        }
    }
}

fn may_pass(error: &CollectError) -> bool {
    matches!(
        error,
        CollectError::Model(
            ModelError::Unavailable(_)
                | ModelError::Broken(_)
                | ModelError::RateLimited { .. }
                | ModelError::Empty
        )
    )
}
