//! Model requests for cases, and their responses.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    agents::{
        policy::{self, Policy},
        profiles::Resolved,
    },
    db::{Db, DbError},
    ids::UserId,
    model::{ChatRequest, Delta, ModelError, Provider, ToolCallPiece},
    replies::{
        labels::LabelStripper,
        retry::Failure,
        turn::{definition_tokens, limit_definitions},
    },
    tasks::{
        Task,
        budgets::{self, Price},
        calls::{CallLog, CallTask, NewCall, OpenCall, Purpose},
    },
    tools::{
        decide::Decision,
        hash::{ARGUMENTS_BYTES_MAX, parse_arguments},
        requests::CallRules,
        runner::{Offer, ToolTask, Toolbox},
    },
};

use super::{Case, CaseAnswer, WouldCall};

/// Maximum size of an answer; longer texts are cut off.
const TEXT_BYTES_MAX: usize = 256 * 1024;
/// Maximum wait for a rate limit.
const RATE_LIMIT_MAX: Duration = Duration::from_mins(1);

/// Sends cases to the model of a workspace.
#[derive(Clone)]
pub struct Replayer {
    pub db: Db,
    pub provider: Arc<dyn Provider>,
    pub calls: CallLog,
    pub tools: Toolbox,
    /// Delays before retries, as for replies.
    pub delays: Vec<Duration>,
    /// Time to wait for the first or next chunk of a response.
    pub task_timeout: Duration,
    /// Time limit for one call.
    pub attempt_max: Duration,
}

/// Estimated usage of a replay.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct ReplayEstimate {
    /// Number of replies that would be written again.
    pub cases: usize,
    /// Number of model calls, without replies whose prompts do not fit into the window.
    pub calls: usize,
    /// Estimated total size of all prompts, in tokens.
    pub input_tokens: u64,
    /// Amount in US dollars that the calls reserve in budgets: 1.5 times the size of the prompts, plus the output limits. Null if the
    /// price is unknown or the policy hides costs from the caller.
    pub cost_usd_max: Option<f64>,
}

/// A request and its size estimates.
pub(super) struct CaseRequest {
    request: ChatRequest,
    prompt_tokens: u64,
    output_tokens_max: u32,
    /// True if the prompt fits into the window of the model.
    pub(super) fits: bool,
    offer: Offer,
    policy: Policy,
    task: ToolTask,
}

impl CaseRequest {
    /// Checks whether a call with these arguments would wait for an approval.
    fn would_ask(
        &self,
        toolbox: &Toolbox,
        case: &Case,
        agent: &Resolved,
        name: &str,
        arguments: &str,
    ) -> bool {
        let rules = CallRules {
            toolbox,
            task: &self.task,
            offer: &self.offer,
            trust: agent.profile.trust.as_ref(),
            policy: &self.policy,
        };
        let function = self.offer.find(name);
        let arguments = parse_arguments(arguments).ok();
        function
            .zip(arguments)
            .is_some_and(|(function, (arguments, _))| {
                let decision = rules.decide(case.seen(), function, &arguments);
                matches!(decision, Decision::Asks(_))
            })
    }
}

/// Text and first call of a response.
#[derive(Default)]
struct Received {
    text: String,
    call: Option<(String, String)>,
}

impl Received {
    fn add(&mut self, piece: ToolCallPiece) {
        if piece.index > 0 {
            return;
        }
        if let Some(head) = piece.begins {
            self.call = Some((head.name, String::new()));
        }
        if let Some((_, arguments)) = &mut self.call
            && arguments.len() <= ARGUMENTS_BYTES_MAX
        {
            arguments.push_str(&piece.arguments);
        }
    }

    /// Converts the response into an answer, without agent labels that the model repeated.
    fn answer(
        self,
        agent: &Resolved,
        case: &Case,
        would_ask: impl FnOnce(&str, &str) -> bool,
    ) -> CaseAnswer {
        let names = [&*agent.shown_name, &*agent.name];
        let mut stripper = LabelStripper::new(case.agents().chain(names));
        let text = stripper.push(&self.text) + &stripper.finish();
        let would_call = self.call.map(|(name, arguments)| WouldCall {
            would_ask: would_ask(&name, &arguments),
            name,
            arguments: if arguments.trim().is_empty() {
                Value::Object(Map::new())
            } else {
                serde_json::from_str(&arguments).unwrap_or(Value::String(arguments))
            },
        });
        CaseAnswer {
            text: text.trim().to_owned(),
            would_call,
        }
    }
}

/// Checks whether the same call might succeed later.
fn may_pass(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Model(
            ModelError::Unavailable(_)
                | ModelError::Broken(_)
                | ModelError::RateLimited { .. }
                | ModelError::Empty
                | ModelError::ThoughtOnly { .. }
        )
    )
}

/// Returns the delay that a server requested, up to `RATE_LIMIT_MAX`.
fn wait_of(failure: &Failure) -> Duration {
    match failure {
        Failure::Model(ModelError::RateLimited {
            retry_after: Some(wait),
        }) => (*wait).min(RATE_LIMIT_MAX),
        _ => Duration::ZERO,
    }
}

impl Replayer {
    /// Estimates the calls for these cases.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn estimate(
        &self,
        cases: &[Case],
        agent: &Resolved,
        reader: UserId,
    ) -> Result<ReplayEstimate, DbError> {
        let (mut calls, mut input_tokens) = (0, 0);
        let mut cost_usd_max = Some(0.0);
        for case in cases {
            let request = self.request(case, agent, reader).await?;
            if !request.fits {
                continue;
            }
            calls += 1;
            input_tokens += request.prompt_tokens;
            let price = Price::of(&*self.provider, &request.request.model);
            let cost =
                price.map(|p| p.cost_usd_max(request.prompt_tokens, request.output_tokens_max));
            cost_usd_max = cost_usd_max.zip(cost).map(|(sum, cost)| sum + cost);
        }
        Ok(ReplayEstimate {
            cases: cases.len(),
            calls,
            input_tokens,
            cost_usd_max,
        })
    }

    /// Builds the request of a case: the stored prompt with the system text, model, parameters, and functions of the profile.
    pub(super) async fn request(
        &self,
        case: &Case,
        agent: &Resolved,
        reader: UserId,
    ) -> Result<CaseRequest, DbError> {
        let profile = &agent.profile;
        let model = self.provider.choose_model(profile.model.as_deref()).await;
        let window = self.provider.window(&model).await;
        let mut offer = Offer::default();
        let task = case.tool_task(agent, reader);
        let policy = policy::find(&mut self.db.read().await?, task.workspace).await?;
        if profile.has_functions() {
            offer = self.tools.offer(&task, profile, &policy).await?;
            limit_definitions(&mut offer, self.provider.as_ref(), &model).await;
        }
        let prompt_tokens = window.corrected(case.tokens() + definition_tokens(&offer));
        let output_tokens_max = window.output_limit(profile.output_tokens_max(), prompt_tokens);
        let functions = offer.functions();
        Ok(CaseRequest {
            request: ChatRequest {
                model,
                system: case.system(&offer),
                turns: case.turns().to_vec(),
                tools: functions
                    .map(|function| function.definition.clone())
                    .collect(),
                tools_required: true,
                max_output_tokens: Some(output_tokens_max),
                temperature: profile.temperature,
                top_p: profile.top_p,
                ..ChatRequest::default()
            },
            prompt_tokens,
            output_tokens_max,
            fits: prompt_tokens < window.tokens,
            offer,
            policy,
            task,
        })
    }

    /// Calls the model for a case. Temporary failures are retried. The call counts toward the person's budget, not the agent's.
    pub(super) async fn ask(
        &self,
        task: &Task,
        case: &Case,
        agent: &Resolved,
        ready: CaseRequest,
    ) -> Result<Result<CaseAnswer, Failure>, DbError> {
        let mut request = ready.request.clone();
        let mut delays = self.delays.iter();
        loop {
            let new = NewCall {
                workspace: task.workspace_id,
                task: Some(CallTask {
                    id: task.id,
                    // The root is the task itself, so that the call is closed together with it if the worker is lost.
                    root: task.id,
                    attempt: task.attempt,
                    round: 1,
                }),
                purpose: Purpose::Replay,
                user: task.requested_by,
                agent: None,
                model: request.model.clone(),
                prompt_tokens: ready.prompt_tokens,
                output_tokens_max: ready.output_tokens_max,
            };
            let begun = self.calls.begin(&self.provider, new, budgets::WAIT_MAX);
            let open = match begun.await? {
                Ok(open) => open,
                Err(over) => return Ok(Err(Failure::OverBudget(over))),
            };
            let received = self.receive(&open, request.clone()).await;
            if received.is_err() {
                open.fail();
            }
            open.end().await?;
            let failure = match received {
                Ok(received) => {
                    let would_ask = |name: &str, arguments: &str| {
                        ready.would_ask(&self.tools, case, agent, name, arguments)
                    };
                    return Ok(Ok(received.answer(agent, case, would_ask)));
                }
                Err(failure) => failure,
            };
            let is_refused = matches!(failure, Failure::Model(ModelError::ToolsRefused { .. }));
            if is_refused && !request.tools.is_empty() {
                request.tools.clear();
                continue;
            }
            match delays.next().filter(|_| may_pass(&failure)) {
                Some(delay) => tokio::time::sleep((*delay).max(wait_of(&failure))).await,
                None => return Ok(Err(failure)),
            }
        }
    }

    /// Sends a request, and reads the response to its end.
    async fn receive(&self, open: &OpenCall, request: ChatRequest) -> Result<Received, Failure> {
        // Waiting for a free slot does not count toward the model's timeout.
        let place = tokio::time::timeout(self.attempt_max, self.provider.place()).await;
        let place = place.map_err(|_| Failure::Timeout)?;
        let request = ChatRequest { place, ..request };
        let reading = self.read(open, request);
        let within = tokio::time::timeout(self.attempt_max, reading).await;
        within.unwrap_or(Err(Failure::Timeout))
    }

    async fn read(&self, open: &OpenCall, request: ChatRequest) -> Result<Received, Failure> {
        let silent = |_| Failure::Timeout;
        let opened = tokio::time::timeout(self.task_timeout, open.stream(request)).await;
        let mut stream = opened.map_err(silent)?.map_err(Failure::Model)?;
        let (mut received, mut has_stopped) = (Received::default(), false);
        while let Some(delta) = tokio::time::timeout(self.task_timeout, stream.next())
            .await
            .map_err(silent)?
        {
            match delta.map_err(Failure::Model)? {
                Delta::Text(piece) => {
                    received.text.push_str(&piece);
                    if received.text.len() > TEXT_BYTES_MAX {
                        let end = received.text.floor_char_boundary(TEXT_BYTES_MAX);
                        received.text.truncate(end);
                        has_stopped = true;
                        break;
                    }
                }
                Delta::Discard => received.text.clear(),
                Delta::ToolCall(piece) => received.add(piece),
                Delta::Stop(_) => has_stopped = true,
                Delta::Alive | Delta::Usage(_) | Delta::Vendor(_) => {}
            }
        }
        if !has_stopped {
            let text = "the stream ended early".to_owned();
            return Err(Failure::Model(ModelError::Broken(text)));
        }
        if received.text.trim().is_empty() && received.call.is_none() {
            return Err(Failure::Model(ModelError::Empty));
        }
        Ok(received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CallHead;

    fn piece(index: usize, name: Option<&str>, arguments: &str) -> ToolCallPiece {
        ToolCallPiece {
            index,
            begins: name.map(|name| CallHead {
                id: format!("call_{index}"),
                name: name.to_owned(),
            }),
            arguments: arguments.to_owned(),
        }
    }

    #[test]
    fn only_the_first_call_is_kept() {
        let mut received = Received::default();
        received.add(piece(0, Some("search"), "{\"query\":"));
        received.add(piece(1, Some("read_file"), "{}"));
        received.add(piece(0, None, "\"zebra\"}"));
        let (name, arguments) = received.call.unwrap();
        assert_eq!(
            (name.as_str(), arguments.as_str()),
            ("search", "{\"query\":\"zebra\"}")
        );
    }

    #[test]
    fn a_wait_for_a_rate_limit_is_bounded() {
        let limited = |seconds| {
            let retry_after = Some(Duration::from_secs(seconds));
            Failure::Model(ModelError::RateLimited { retry_after })
        };
        assert_eq!(wait_of(&limited(7)), Duration::from_secs(7));
        assert_eq!(wait_of(&limited(7_000)), RATE_LIMIT_MAX);
        assert_eq!(wait_of(&Failure::Timeout), Duration::ZERO);
        assert!(may_pass(&limited(7)));
        assert!(!may_pass(&Failure::Timeout));
    }
}
