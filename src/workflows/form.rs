//! Request bodies that create and change workflows, and their validation.

use std::collections::HashSet;

use serde::Deserialize;
use utoipa::openapi::{Array, Ref, Schema};

use super::{
    WorkflowError,
    definition::{
        AgentStep, ApprovalStep, ConditionOp, ConditionStep, END, ForkPublisher, ForkStep, OnError,
        OnMessage, OutputStep, ParallelStep, StartedBy, Step, StepKind, StepWork, WorkflowContent,
        WorkflowStatus, is_step_id, pattern, with_paths,
    },
    template::{Variable, variables},
};
use crate::{
    agents::profiles::tools::IgnoredField,
    auth::handles,
    ids::{AgentId, ChannelId, UserId},
    patch::{nullable, present},
    tasks::{COLLABORATION_TURNS, COLLABORATORS, actions::NeededPerson},
};

const DESCRIPTION_UNITS_MAX: usize = 1_024;
const AGENTS_MAX: usize = 20;
const STEPS_MAX: usize = 30;
const TITLE_UNITS_MAX: usize = 80;
const PROMPT_BYTES_MAX: usize = 8 * 1024;
const CONTENT_BYTES_MAX: usize = 32 * 1024;
/// Maximum length of goals and approval texts.
const TEXT_UNITS_MAX: usize = 4_000;
const WITH_UNITS_MAX: usize = 500;
const BRANCHES: std::ops::RangeInclusive<usize> = 2..=5;
const BRANCH_STEPS: std::ops::RangeInclusive<usize> = 1..=6;
const WORDS_MAX: usize = 10;
const HOOKS_MAX: usize = 20;
/// Runs within 24 hours that messages of bots can start.
const DAILY_MAX: std::ops::RangeInclusive<i64> = 1..=1000;
const WORD_UNITS_MAX: usize = 60;
/// Maximum wait in seconds: one week.
const WAIT_S_MAX: u32 = 604_800;
const WAIT_S_MIN: u32 = 1;
const CLOSE_AFTER_S_MIN: u32 = 300;
/// Default timeout of an approval in seconds: one day.
const TIMEOUT_S_DEFAULT: u32 = 86_400;

/// A step in a request. In addition to the common fields, it can contain only the fields of its `kind`.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StepForm {
    /// `[a-z][a-z0-9_]{0,31}`, unique in the workflow; not `end`.
    pub id: String,
    #[schema(value_type = StepKind)]
    pub kind: String,
    /// At most 80 characters.
    #[serde(default)]
    pub title: Option<String>,
    /// `stop` by default.
    #[serde(default)]
    pub on_error: Option<OnError>,
    /// `agent`: agent that answers; null for the workflow's default agent.
    #[serde(default)]
    pub agent_id: Option<AgentId>,
    /// `agent`: prompt, at most 8 KiB.
    #[serde(default)]
    pub prompt: Option<String>,
    /// `agent`: true if the answer is posted as a reply in the run's thread.
    #[serde(default)]
    pub post: Option<bool>,
    /// `fork`: at most 4 agents; two or more collaborate.
    #[serde(default)]
    pub agent_ids: Option<Vec<AgentId>>,
    /// `fork`: goal of 1 to 4,000 characters.
    #[serde(default)]
    pub goal: Option<String>,
    /// `fork`: maximum number of turns of a collaboration, 2 to 8; 8 by default.
    #[serde(default)]
    pub turns_max: Option<i64>,
    /// `fork`: time in seconds after which the resolution is drafted, 300 to 604,800.
    #[serde(default)]
    pub close_after_s: Option<u32>,
    /// `fork`: publisher of the resolution; `person` by default.
    #[serde(default)]
    pub publish: Option<ForkPublisher>,
    /// `fork`: time in seconds after which the step fails, 1 to 604,800; 604,800 by default.
    #[serde(default)]
    pub wait_s: Option<u32>,
    /// `approval`: text of 1 to 4,000 characters.
    #[serde(default)]
    pub text: Option<String>,
    /// `approval`: kind of the approver.
    #[serde(default)]
    pub who: Option<NeededPerson>,
    /// `approval`: the approver, if `who` is `user`.
    #[serde(default)]
    pub user_id: Option<UserId>,
    /// `approval`: time in seconds for a decision, 1 to 604,800; one day by default.
    #[serde(default)]
    pub timeout_s: Option<u32>,
    /// `condition`: value to test; can contain variables.
    #[serde(default)]
    pub value: Option<String>,
    /// `condition`: test of the value.
    #[serde(default)]
    pub op: Option<ConditionOp>,
    /// `condition`: operand of the test, 1 to 500 characters.
    #[serde(default)]
    pub with: Option<String>,
    /// `condition`: next step if the condition holds: a later step, or `end`.
    #[serde(default)]
    pub then: Option<String>,
    /// `condition`, `approval`: next step if the condition does not hold, or if the approval is denied or expires: a later step, or
    /// `end`. For an `approval`, null cancels the run.
    #[serde(default, rename = "else")]
    pub otherwise: Option<String>,
    /// `parallel`: 2 to 5 lists of 1 to 6 steps of the kinds `agent`, `condition`, and `output`.
    #[serde(default)]
    #[schema(schema_with = branches)]
    pub branches: Option<Vec<Vec<StepForm>>>,
    /// `output`: text of the message, at most 32 KiB.
    #[serde(default)]
    pub content: Option<String>,
    /// `output`: channel of the message; null for the run's channel.
    #[serde(default)]
    pub channel_id: Option<ChannelId>,
}

/// Schema of branches. Their steps are references, because a step can contain steps.
fn branches() -> Array {
    Array::new(Schema::Array(Array::new(Ref::from_schema_name("StepForm"))))
}

/// Fields of `POST` and `PUT` requests for workflows; omitted fields get their defaults.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkflowForm {
    /// A handle, unique among the workflows of the workspace.
    pub name: String,
    /// At most 1,024 characters.
    #[serde(default)]
    pub description: String,
    /// Default agent; null for the workspace's default agent.
    #[serde(default)]
    pub default_agent_id: Option<AgentId>,
    /// At most 20 agents. Steps can use these and the default agent.
    #[serde(default)]
    pub agents: Vec<AgentId>,
    #[serde(default)]
    pub on_message: Option<OnMessage>,
    /// 1 to 30 steps, including those of branches.
    pub steps: Vec<StepForm>,
    /// Set by the server. This field and the following ones are ignored in requests.
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub id: IgnoredField,
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub object: IgnoredField,
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub owner_id: IgnoredField,
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub status: IgnoredField,
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub paused_reason: IgnoredField,
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub dropped: IgnoredField,
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub version: IgnoredField,
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub created_at: IgnoredField,
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub updated_at: IgnoredField,
    /// Of a recipe.
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub needs_model: IgnoredField,
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub asks_for: IgnoredField,
}

/// Fields of `PATCH` requests for workflows: omitted fields are unchanged; `steps` is replaced as a whole.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkflowPatch {
    /// A handle, unique among the workflows of the workspace.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub name: Option<String>,
    /// At most 1,024 characters.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub description: Option<String>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub default_agent_id: Option<AgentId>,
    /// At most 20 agents.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub agents: Option<Vec<AgentId>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<OnMessage>)]
    pub on_message: Option<Option<OnMessage>>,
    /// 1 to 30 steps, including those of branches.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub steps: Option<Vec<StepForm>>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub status: Option<WorkflowStatus>,
    /// The caller's own ID. An admin sends it to take over the workflow.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub owner_id: Option<UserId>,
}

impl WorkflowForm {
    /// Returns the name and the content.
    ///
    /// # Errors
    /// `Invalid` with the field.
    pub(super) fn into_parts(
        self,
        main: AgentId,
    ) -> Result<(String, WorkflowContent), WorkflowError> {
        let content = WorkflowContent {
            description: self.description,
            default_agent_id: self.default_agent_id.unwrap_or(main),
            agents: self.agents,
            on_message: self.on_message,
            steps: parse_steps(&self.steps)?,
        };
        check(&content)?;
        check_name(&self.name)?;
        Ok((self.name, content))
    }
}

impl WorkflowPatch {
    /// Applies the patch and returns the new name and content.
    ///
    /// # Errors
    /// `Invalid` with the field.
    pub(super) fn over(
        self,
        name: &str,
        content: &WorkflowContent,
    ) -> Result<(String, WorkflowContent), WorkflowError> {
        let old = content.clone();
        let steps = match self.steps {
            Some(steps) => parse_steps(&steps)?,
            None => old.steps,
        };
        let content = WorkflowContent {
            description: self.description.unwrap_or(old.description),
            default_agent_id: self.default_agent_id.unwrap_or(old.default_agent_id),
            agents: self.agents.unwrap_or(old.agents),
            on_message: self.on_message.unwrap_or(old.on_message),
            steps,
        };
        check(&content)?;
        let name = self.name.unwrap_or_else(|| name.to_owned());
        check_name(&name)?;
        Ok((name, content))
    }
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

fn invalid(param: impl Into<String>, text: impl Into<String>) -> WorkflowError {
    WorkflowError::Invalid(text.into(), param.into())
}

fn check_name(name: &str) -> Result<(), WorkflowError> {
    Ok(handles::check(name, "name")?)
}

/// Checks the description, the agents, and the trigger words, and that steps use only the workflow's agents. `parse_steps` checks
/// everything else about steps.
fn check(content: &WorkflowContent) -> Result<(), WorkflowError> {
    if units(&content.description) > DESCRIPTION_UNITS_MAX {
        let rule = format!("the description can have at most {DESCRIPTION_UNITS_MAX} characters");
        return Err(invalid("description", rule));
    }
    if content.agents.len() > AGENTS_MAX {
        let rule = format!("a workflow can use at most {AGENTS_MAX} agents: remove some");
        return Err(invalid("agents", rule));
    }
    let words: &[String] = (content.on_message.as_ref()).map_or(&[], |trigger| &trigger.words);
    let fits = |word: &String| !word.trim().is_empty() && units(word) <= WORD_UNITS_MAX;
    if words.len() > WORDS_MAX || !words.iter().all(fits) {
        let rule =
            format!("at most {WORDS_MAX} words of 1 to {WORD_UNITS_MAX} characters are allowed");
        return Err(invalid("on_message.words", rule));
    }
    check_bots(content.on_message.as_ref())?;
    for (path, step) in with_paths(&content.steps) {
        let is_known =
            |agent: &AgentId| *agent == content.default_agent_id || content.agents.contains(agent);
        if !step.agents().iter().all(is_known) {
            let field = match step.work {
                StepWork::Fork(_) => "agent_ids",
                _ => "agent_id",
            };
            let rule = "steps can only use agents of the workflow: add the agent to `agents` first";
            return Err(invalid(format!("{path}.{field}"), rule));
        }
    }
    Ok(())
}

/// Checks the fields of a trigger that only messages of bots use.
fn check_bots(trigger: Option<&OnMessage>) -> Result<(), WorkflowError> {
    let Some(trigger) = trigger else {
        return Ok(());
    };
    if trigger.hook_ids.len() > HOOKS_MAX {
        let rule = format!("at most {HOOKS_MAX} webhooks are allowed");
        return Err(invalid("on_message.hook_ids", rule));
    }
    if trigger
        .daily_max
        .is_some_and(|max| !DAILY_MAX.contains(&max))
    {
        let rule = format!("a number from 1 to {} is allowed", DAILY_MAX.end());
        return Err(invalid("on_message.daily_max", rule));
    }
    let has_bots_rules = !trigger.hook_ids.is_empty() || trigger.daily_max.is_some();
    if has_bots_rules && trigger.from != StartedBy::Bots {
        let rule = "`hook_ids` and `daily_max` need `from: bots`";
        return Err(invalid("on_message.from", rule));
    }
    Ok(())
}

/// IDs of all steps of a request, in order.
fn ids_of(forms: &[StepForm]) -> Vec<String> {
    let mut ids = Vec::new();
    for form in forms {
        ids.push(form.id.clone());
        for branch in form.branches.iter().flatten() {
            ids.extend(ids_of(branch));
        }
    }
    ids
}

/// Parses the steps of a request.
///
/// # Errors
/// `Invalid` with the field, such as `steps[3].prompt`.
pub(super) fn parse_steps(forms: &[StepForm]) -> Result<Vec<Step>, WorkflowError> {
    let count = ids_of(forms).len();
    if !(1..=STEPS_MAX).contains(&count) {
        let rule = format!(
            "a workflow must have 1 to {STEPS_MAX} steps, including those of branches, not {count}"
        );
        return Err(invalid("steps", rule));
    }
    let mut seen = HashSet::new();
    parse_list(forms, "steps", &HashSet::new(), &mut seen, None)
}

/// Parses a list of steps. `earlier` are the steps before the list, `seen` all IDs so far, and `parent` the step that contains
/// the list.
fn parse_list(
    forms: &[StepForm],
    path: &str,
    earlier: &HashSet<String>,
    seen: &mut HashSet<String>,
    parent: Option<StepKind>,
) -> Result<Vec<Step>, WorkflowError> {
    let mut earlier = earlier.clone();
    let mut steps = Vec::with_capacity(forms.len());
    for (n, form) in forms.iter().enumerate() {
        let later: Vec<&str> = forms[n + 1..].iter().map(|form| form.id.as_str()).collect();
        let parser = StepParser {
            form,
            path: format!("{path}[{n}]"),
            earlier: &earlier,
            later: &later,
        };
        steps.push(parser.parse(seen, parent)?);
        earlier.extend(ids_of(std::slice::from_ref(form)));
    }
    Ok(steps)
}

/// Fields of a kind, in addition to `id`, `kind`, `title`, and `on_error`.
fn fields_of(kind: StepKind) -> &'static [&'static str] {
    match kind {
        StepKind::Agent => &["agent_id", "prompt", "post"],
        StepKind::Fork => &[
            "agent_ids",
            "goal",
            "turns_max",
            "close_after_s",
            "publish",
            "wait_s",
        ],
        StepKind::Approval => &["text", "who", "user_id", "timeout_s", "else"],
        StepKind::Condition => &["value", "op", "with", "then", "else"],
        StepKind::Parallel => &["branches"],
        StepKind::Output => &["content", "channel_id"],
    }
}

/// Parses one step.
struct StepParser<'a> {
    form: &'a StepForm,
    path: String,
    /// Steps whose output the step can use.
    earlier: &'a HashSet<String>,
    /// Steps to which the step can jump.
    later: &'a [&'a str],
}

impl StepParser<'_> {
    fn invalid(&self, field: &str, text: impl Into<String>) -> WorkflowError {
        invalid(format!("{}.{field}", self.path), text)
    }

    fn parse(
        &self,
        seen: &mut HashSet<String>,
        parent: Option<StepKind>,
    ) -> Result<Step, WorkflowError> {
        let form = self.form;
        if !is_step_id(&form.id) || form.id == END {
            let rule = "the id of a step must be 1 to 32 characters of a-z, 0-9, and `_`, start with a letter, and not be `end`";
            return Err(self.invalid("id", rule));
        }
        if !seen.insert(form.id.clone()) {
            return Err(self.invalid("id", format!("two steps have the id `{}`", form.id)));
        }
        let kind = self.kind(parent)?;
        let title = form.title.as_deref().map(str::trim);
        let title = title.filter(|title| !title.is_empty()).map(str::to_owned);
        if title.as_deref().is_some_and(|title| {
            units(title) > TITLE_UNITS_MAX || title.chars().any(char::is_control)
        }) {
            let rule = format!("a title must be one line of at most {TITLE_UNITS_MAX} characters");
            return Err(self.invalid("title", rule));
        }
        Ok(Step {
            id: form.id.clone(),
            work: self.work(kind, seen)?,
            title,
            on_error: form.on_error.unwrap_or(OnError::Stop),
        })
    }

    fn kind(&self, parent: Option<StepKind>) -> Result<StepKind, WorkflowError> {
        let mut known = StepKind::ALL.iter().copied();
        let kind = known.find(|kind| kind.as_str() == self.form.kind);
        let kind = kind.ok_or_else(|| {
            let rule = format!("`{}` is not a kind of step", self.form.kind);
            self.invalid("kind", rule)
        })?;
        let fits_branch = matches!(
            kind,
            StepKind::Agent | StepKind::Condition | StepKind::Output
        );
        if parent.is_some() && !fits_branch {
            let rule = "a branch can only have steps of the kinds agent, condition, and output";
            return Err(self.invalid("kind", rule));
        }
        let fields = fields_of(kind);
        match self.given().find(|field| !fields.contains(field)) {
            Some(other) => {
                let rule = format!("`{other}` is not a field of a step of the kind {kind}");
                Err(self.invalid(other, rule))
            }
            None => Ok(kind),
        }
    }

    /// Names of the fields that the request contains.
    fn given(&self) -> impl Iterator<Item = &'static str> {
        let form = self.form;
        [
            ("agent_id", form.agent_id.is_some()),
            ("prompt", form.prompt.is_some()),
            ("post", form.post.is_some()),
            ("agent_ids", form.agent_ids.is_some()),
            ("goal", form.goal.is_some()),
            ("turns_max", form.turns_max.is_some()),
            ("close_after_s", form.close_after_s.is_some()),
            ("publish", form.publish.is_some()),
            ("wait_s", form.wait_s.is_some()),
            ("text", form.text.is_some()),
            ("who", form.who.is_some()),
            ("user_id", form.user_id.is_some()),
            ("timeout_s", form.timeout_s.is_some()),
            ("value", form.value.is_some()),
            ("op", form.op.is_some()),
            ("with", form.with.is_some()),
            ("then", form.then.is_some()),
            ("else", form.otherwise.is_some()),
            ("branches", form.branches.is_some()),
            ("content", form.content.is_some()),
            ("channel_id", form.channel_id.is_some()),
        ]
        .into_iter()
        .filter_map(|(field, is_given)| is_given.then_some(field))
    }

    fn work(&self, kind: StepKind, seen: &mut HashSet<String>) -> Result<StepWork, WorkflowError> {
        let form = self.form;
        Ok(match kind {
            StepKind::Agent => StepWork::Agent(AgentStep {
                agent_id: form.agent_id,
                prompt: self.template("prompt", form.prompt.as_deref(), PROMPT_BYTES_MAX)?,
                post: form.post.unwrap_or(false),
            }),
            StepKind::Output => StepWork::Output(OutputStep {
                content: self.template("content", form.content.as_deref(), CONTENT_BYTES_MAX)?,
                channel_id: form.channel_id,
            }),
            StepKind::Condition => StepWork::Condition(self.condition()?),
            StepKind::Fork => StepWork::Fork(self.fork()?),
            StepKind::Approval => StepWork::Approval(self.approval()?),
            StepKind::Parallel => StepWork::Parallel(self.parallel(seen)?),
        })
    }

    fn condition(&self) -> Result<ConditionStep, WorkflowError> {
        let form = self.form;
        let op = form.op.ok_or_else(|| self.missing("op"))?;
        let with = form.with.clone().ok_or_else(|| self.missing("with"))?;
        if !(1..=WITH_UNITS_MAX).contains(&units(&with)) {
            let rule = format!("`with` must have 1 to {WITH_UNITS_MAX} characters");
            return Err(self.invalid("with", rule));
        }
        if op == ConditionOp::Matches
            && let Err(e) = pattern(&with)
        {
            return Err(self.invalid("with", format!("the regular expression is invalid: {e}")));
        }
        Ok(ConditionStep {
            value: self.template("value", form.value.as_deref(), PROMPT_BYTES_MAX)?,
            op,
            with,
            then: self.jump("then", form.then.as_deref())?,
            otherwise: self.jump("else", form.otherwise.as_deref())?,
        })
    }

    fn fork(&self) -> Result<ForkStep, WorkflowError> {
        let form = self.form;
        let agent_ids = form.agent_ids.clone().unwrap_or_default();
        let distinct: HashSet<AgentId> = agent_ids.iter().copied().collect();
        let (_, agents_max) = COLLABORATORS.into_inner();
        if distinct.len() != agent_ids.len() || agent_ids.len() > agents_max {
            let rule = format!("a deep dive can have at most {agents_max} different agents");
            return Err(self.invalid("agent_ids", rule));
        }
        let collaborate = COLLABORATORS.contains(&agent_ids.len());
        let fits = |turns: i64| collaborate && COLLABORATION_TURNS.contains(&turns);
        if form.turns_max.is_some_and(|turns| !fits(turns)) {
            let (min, max) = COLLABORATION_TURNS.into_inner();
            let rule =
                format!("turns_max must be from {min} to {max}, and needs at least two agents");
            return Err(self.invalid("turns_max", rule));
        }
        let goal = self.template("goal", form.goal.as_deref(), PROMPT_BYTES_MAX)?;
        Ok(ForkStep {
            agent_ids,
            goal: self.short("goal", goal)?,
            turns_max: form.turns_max,
            close_after_s: form
                .close_after_s
                .map(|s| self.seconds("close_after_s", s, CLOSE_AFTER_S_MIN))
                .transpose()?,
            publish: form.publish.unwrap_or(ForkPublisher::Person),
            wait_s: self.seconds("wait_s", form.wait_s.unwrap_or(WAIT_S_MAX), WAIT_S_MIN)?,
        })
    }

    fn approval(&self) -> Result<ApprovalStep, WorkflowError> {
        let form = self.form;
        let who = form.who.ok_or_else(|| self.missing("who"))?;
        if (who == NeededPerson::User) != form.user_id.is_some() {
            let rule = "`user_id` is required if `who` is `user`, and not allowed otherwise";
            return Err(self.invalid("user_id", rule));
        }
        let text = self.template("text", form.text.as_deref(), PROMPT_BYTES_MAX)?;
        let timeout_s = form.timeout_s.unwrap_or(TIMEOUT_S_DEFAULT);
        let otherwise = form.otherwise.as_deref();
        Ok(ApprovalStep {
            text: self.short("text", text)?,
            who,
            user_id: form.user_id,
            timeout_s: self.seconds("timeout_s", timeout_s, WAIT_S_MIN)?,
            otherwise: otherwise
                .map(|jump| self.jump("else", Some(jump)))
                .transpose()?,
        })
    }

    fn parallel(&self, seen: &mut HashSet<String>) -> Result<ParallelStep, WorkflowError> {
        let forms = self.form.branches.as_deref().unwrap_or_default();
        let fits = |branch: &Vec<StepForm>| BRANCH_STEPS.contains(&branch.len());
        if !BRANCHES.contains(&forms.len()) || !forms.iter().all(fits) {
            let rule = format!(
                "a parallel step must have {} to {} branches of {} to {} steps",
                BRANCHES.start(),
                BRANCHES.end(),
                BRANCH_STEPS.start(),
                BRANCH_STEPS.end()
            );
            return Err(self.invalid("branches", rule));
        }
        let mut branches = Vec::with_capacity(forms.len());
        for (n, branch) in forms.iter().enumerate() {
            let path = format!("{}.branches[{n}]", self.path);
            let parent = Some(StepKind::Parallel);
            branches.push(parse_list(branch, &path, self.earlier, seen, parent)?);
        }
        Ok(ParallelStep { branches })
    }

    fn missing(&self, field: &str) -> WorkflowError {
        self.invalid(field, format!("`{field}` is missing"))
    }

    /// Checks a text. Its variables must be available to the step.
    fn template(
        &self,
        field: &str,
        text: Option<&str>,
        bytes_max: usize,
    ) -> Result<String, WorkflowError> {
        let text = text.ok_or_else(|| self.missing(field))?;
        if text.trim().is_empty() || text.len() > bytes_max {
            let rule = format!("`{field}` must have 1 to {bytes_max} bytes and not be blank");
            return Err(self.invalid(field, rule));
        }
        let found = variables(text).map_err(|name| {
            let rule = format!("`{{{{{name}}}}}` is not a variable");
            self.invalid(field, rule)
        })?;
        for variable in found {
            if let Variable::Output(id) = variable
                && !self.earlier.contains(id)
            {
                let rule = format!("`{id}` is not an earlier step: its output is not known here");
                return Err(self.invalid(field, rule));
            }
        }
        Ok(text.to_owned())
    }

    fn short(&self, field: &str, text: String) -> Result<String, WorkflowError> {
        if units(&text) > TEXT_UNITS_MAX {
            let rule = format!("`{field}` can have at most {TEXT_UNITS_MAX} characters");
            return Err(self.invalid(field, rule));
        }
        Ok(text)
    }

    fn seconds(&self, field: &str, seconds: u32, min: u32) -> Result<u32, WorkflowError> {
        if !(min..=WAIT_S_MAX).contains(&seconds) {
            let rule = format!("`{field}` must be {min} to {WAIT_S_MAX} seconds");
            return Err(self.invalid(field, rule));
        }
        Ok(seconds)
    }

    /// Checks a jump, which must go forward within its list.
    fn jump(&self, field: &str, target: Option<&str>) -> Result<String, WorkflowError> {
        let target = target.ok_or_else(|| self.missing(field))?;
        if target != END && !self.later.contains(&target) {
            let rule = format!("`{field}` must be `end` or a later step of the same list");
            return Err(self.invalid(field, rule));
        }
        Ok(target.to_owned())
    }
}
