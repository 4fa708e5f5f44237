//! Content of a workflow: its trigger and its steps.

use std::collections::BTreeSet;

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use utoipa::openapi::{Array, Ref, Schema};

use crate::{
    ids::{AgentId, ChannelId, HookId, UserId},
    tasks::actions::NeededPerson,
    text_enum::text_enum,
};

/// Target of a jump to the end of a list of steps.
pub const END: &str = "end";
/// Maximum size of a compiled pattern in bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;

text_enum! {
    /// Status of a workflow.
    pub enum WorkflowStatus {
        Active = "active",
        /// The workflow does not start runs.
        Paused = "paused",
        Archived = "archived",
    }
}

text_enum! {
    /// Reason why a schedule or a workflow is paused.
    pub enum PausedReason {
        /// The owner left, or can no longer post in the channel or invoke the agent. The only possible reason for
        /// workflows.
        OwnerGone = "owner_gone",
        /// Five tasks in a row failed.
        Failing = "failing",
        ByAdmin = "by_admin",
        ByOwner = "by_owner",
    }
}

text_enum! {
    /// Authors of messages that start runs.
    pub enum StartedBy {
        People = "people",
        /// Programs with an API key.
        Keys = "keys",
        /// Bots that start a thread, with a webhook or a key.
        Bots = "bots",
        /// People and programs with an API key, but no bots.
        Any = "any",
    }
}

/// Messages in a channel that start a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OnMessage {
    pub channel_id: ChannelId,
    #[serde(default = "people")]
    pub from: StartedBy,
    /// True if only the first message of a thread starts a run.
    #[serde(default)]
    pub new_threads_only: bool,
    /// At most 10 words of 1 to 60 characters. A message starts a run if it contains any of them as a whole word; if there are no
    /// words, every message does.
    #[serde(default)]
    pub words: Vec<String>,
    /// With `from: bots`, only messages of these webhooks, at most 20; without any, messages of all bots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 20)]
    pub hook_ids: Vec<HookId>,
    /// With `from: bots`, the maximum number of runs within 24 hours: 1 to 1,000; 50 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub daily_max: Option<i64>,
}

fn people() -> StartedBy {
    StartedBy::People
}

text_enum! {
    /// Kind of a step.
    pub enum StepKind {
        /// An agent answers a prompt.
        Agent = "agent",
        /// People and agents work in a fork.
        Fork = "fork",
        /// The run asks people for an approval.
        Approval = "approval",
        Condition = "condition",
        /// Several lists of steps run at the same time.
        Parallel = "parallel",
        /// A message is posted.
        Output = "output",
    }
}

impl StepKind {
    /// Display name, as in the editor.
    pub fn shown(self) -> &'static str {
        match self {
            Self::Agent => "Ask an agent",
            Self::Fork => "Deep dive",
            Self::Approval => "Ask for approval",
            Self::Condition => "Condition",
            Self::Parallel => "At the same time",
            Self::Output => "Post a message",
        }
    }
}

text_enum! {
    /// Effect of a failed step on the run.
    pub enum OnError {
        /// The run fails.
        Stop = "stop",
        Continue = "continue",
    }
}

text_enum! {
    /// Publisher of the resolution of a fork.
    pub enum ForkPublisher {
        Person = "person",
        Agent = "agent",
    }
}

text_enum! {
    /// Test of a condition.
    pub enum ConditionOp {
        /// The value contains `with`, ignoring case.
        Contains = "contains",
        /// The value equals `with`, ignoring case and surrounding white space.
        Equals = "equals",
        /// The regular expression `with` matches a part of the value.
        Matches = "matches",
        /// A model answers the yes-or-no question `with` about the value.
        ModelSays = "model_says",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AgentStep {
    /// Agent that answers; null for the workflow's default agent.
    pub agent_id: Option<AgentId>,
    pub prompt: String,
    /// True if the answer is posted as a reply in the run's thread.
    pub post: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ForkStep {
    /// Agents of the fork; two or more collaborate.
    pub agent_ids: Vec<AgentId>,
    pub goal: String,
    /// Maximum number of turns of a collaboration.
    pub turns_max: Option<i64>,
    /// Time in seconds after which the resolution is drafted.
    pub close_after_s: Option<u32>,
    pub publish: ForkPublisher,
    /// Time in seconds after which the step fails.
    pub wait_s: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ApprovalStep {
    pub text: String,
    pub who: NeededPerson,
    /// The approver, if `who` is `user`.
    pub user_id: Option<UserId>,
    pub timeout_s: u32,
    /// A later step, or `end`, to which the run jumps if the approval is denied or expires; null cancels the run.
    #[serde(rename = "else")]
    pub otherwise: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ConditionStep {
    pub value: String,
    pub op: ConditionOp,
    pub with: String,
    /// Next step if the condition holds: a later step, or `end`.
    pub then: String,
    /// Next step if the condition does not hold: a later step, or `end`.
    #[serde(rename = "else")]
    pub otherwise: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ParallelStep {
    #[schema(schema_with = branches)]
    pub branches: Vec<Vec<Step>>,
}

/// Schema of branches. Their steps are references, because a step can contain steps.
fn branches() -> Array {
    Array::new(Schema::Array(Array::new(Ref::from_schema_name("Step"))))
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OutputStep {
    pub content: String,
    /// Channel in which the message is posted; null for the run's channel, and for readers who can neither change the workflow nor read the
    /// channel.
    pub channel_id: Option<ChannelId>,
}

/// Work of a step, tagged by its `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StepWork {
    Agent(AgentStep),
    Fork(ForkStep),
    Approval(ApprovalStep),
    Condition(ConditionStep),
    Parallel(ParallelStep),
    Output(OutputStep),
}

/// A step of a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Step {
    pub id: String,
    #[serde(flatten)]
    pub work: StepWork,
    pub title: Option<String>,
    pub on_error: OnError,
}

impl Step {
    pub fn kind(&self) -> StepKind {
        match &self.work {
            StepWork::Agent(_) => StepKind::Agent,
            StepWork::Fork(_) => StepKind::Fork,
            StepWork::Approval(_) => StepKind::Approval,
            StepWork::Condition(_) => StepKind::Condition,
            StepWork::Parallel(_) => StepKind::Parallel,
            StepWork::Output(_) => StepKind::Output,
        }
    }

    /// The lists of steps inside this one.
    pub fn branches(&self) -> &[Vec<Self>] {
        match &self.work {
            StepWork::Parallel(parallel) => &parallel.branches,
            _ => &[],
        }
    }

    /// Agents to which the step refers.
    pub fn agents(&self) -> Vec<AgentId> {
        match &self.work {
            StepWork::Agent(step) => step.agent_id.into_iter().collect(),
            StepWork::Fork(step) => step.agent_ids.clone(),
            _ => Vec::new(),
        }
    }

    /// Returns true if the step needs the run's conversation, to post there or to ask for an approval before it posts
    /// elsewhere.
    pub fn posts(&self) -> bool {
        match &self.work {
            StepWork::Agent(step) => step.post,
            StepWork::Output(_) | StepWork::Fork(_) | StepWork::Approval(_) => true,
            StepWork::Condition(_) => false,
            StepWork::Parallel(step) => step.branches.iter().flatten().any(Self::posts),
        }
    }
}

/// All steps in the workflow's order; steps of branches follow their `parallel` step.
pub fn flat(steps: &[Step]) -> Vec<&Step> {
    let all = with_paths(steps).into_iter();
    all.map(|(_, step)| step).collect()
}

/// All steps in the workflow's order, with their paths, such as `steps[3].branches[0][1]`.
pub(super) fn with_paths(steps: &[Step]) -> Vec<(String, &Step)> {
    fn add<'a>(steps: &'a [Step], path: &str, all: &mut Vec<(String, &'a Step)>) {
        for (n, step) in steps.iter().enumerate() {
            let path = format!("{path}[{n}]");
            all.push((path.clone(), step));
            for (n, branch) in step.branches().iter().enumerate() {
                add(branch, &format!("{path}.branches[{n}]"), all);
            }
        }
    }
    let mut all = Vec::new();
    add(steps, "steps", &mut all);
    all
}

/// Fields of a workflow except for its name and state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WorkflowContent {
    /// At most 1,024 characters.
    pub description: String,
    /// Agent that posts the workflow's messages, and runs the steps that do not set an agent.
    pub default_agent_id: AgentId,
    /// Agents that steps can use, in addition to the default agent.
    pub agents: Vec<AgentId>,
    /// Also null for readers who can neither change the workflow nor read the channel.
    pub on_message: Option<OnMessage>,
    pub steps: Vec<Step>,
}

impl WorkflowContent {
    /// Returns true if a step needs the run's conversation.
    pub fn posts(&self) -> bool {
        self.steps.iter().any(Step::posts)
    }

    /// Channel whose messages start runs.
    pub fn channel(&self) -> Option<ChannelId> {
        let trigger = self.on_message.as_ref();
        trigger.map(|trigger| trigger.channel_id)
    }

    /// All channels that the content names.
    pub(super) fn channels(&self) -> Vec<ChannelId> {
        let steps = flat(&self.steps).into_iter();
        let of_steps = steps.filter_map(|step| match &step.work {
            StepWork::Output(output) => output.channel_id,
            _ => None,
        });
        self.channel().into_iter().chain(of_steps).collect()
    }

    /// Removes the channels that are not among these, and a trigger in such a channel.
    pub(super) fn retain_channels(&mut self, channels: &BTreeSet<ChannelId>) {
        fn retain(steps: &mut [Step], channels: &BTreeSet<ChannelId>) {
            for step in steps {
                match &mut step.work {
                    StepWork::Output(output) => {
                        let kept = |channel: &ChannelId| channels.contains(channel);
                        output.channel_id = output.channel_id.filter(kept);
                    }
                    StepWork::Parallel(parallel) => {
                        for branch in &mut parallel.branches {
                            retain(branch, channels);
                        }
                    }
                    _ => {}
                }
            }
        }
        let trigger = self.on_message.take();
        self.on_message = trigger.filter(|trigger| channels.contains(&trigger.channel_id));
        retain(&mut self.steps, channels);
    }
}

/// Checks the format of a step ID: `[a-z][a-z0-9_]{0,31}`.
pub fn is_step_id(text: &str) -> bool {
    text.len() <= 32
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Compiles the pattern of a condition, which runs in linear time.
///
/// # Errors
/// Returns an error if the pattern is invalid or too large.
pub fn pattern(with: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(with)
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX)
        .build()
}

/// Result of a condition; `None` if only a model can decide.
pub fn holds(op: ConditionOp, value: &str, with: &str) -> Option<bool> {
    match op {
        ConditionOp::Contains => Some(value.to_lowercase().contains(&with.to_lowercase())),
        ConditionOp::Equals => Some(value.trim().to_lowercase() == with.trim().to_lowercase()),
        ConditionOp::Matches => Some(pattern(with).is_ok_and(|pattern| pattern.is_match(value))),
        ConditionOp::ModelSays => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_compares_texts_in_any_case() {
        use ConditionOp::{Contains, Equals, Matches, ModelSays};
        for (op, value, with, expected) in [
            (Contains, "This is URGENT.", "urgent", Some(true)),
            (Contains, "calm", "urgent", Some(false)),
            (Equals, " Yes\n", "yes", Some(true)),
            (Equals, "Yes.", "yes", Some(false)),
            (Matches, "severity: 1", r"severity:\s*[12]\b", Some(true)),
            (Matches, "severity: 12", r"severity:\s*[12]\b", Some(false)),
            (ModelSays, "anything", "Is it urgent?", None),
        ] {
            assert_eq!(holds(op, value, with), expected, "{op} {value}");
        }
    }

    #[test]
    fn a_pattern_has_a_size_limit() {
        assert!(pattern("[a-z]+").is_ok());
        assert!(pattern("(").is_err());
        assert!(pattern(r"(\w{1000}){1000}").is_err());
    }

    #[test]
    fn an_id_of_a_step_is_a_short_name() {
        for (id, expected) in [
            ("draft", true),
            ("a", true),
            ("step_2", true),
            ("", false),
            ("2nd", false),
            ("_a", false),
            ("Draft", false),
            ("a-b", false),
            ("a.b", false),
        ] {
            assert_eq!(is_step_id(id), expected, "{id}");
        }
        assert!(is_step_id(&"a".repeat(32)) && !is_step_id(&"a".repeat(33)));
    }
}
