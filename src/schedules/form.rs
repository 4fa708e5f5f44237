//! Requests that create and change schedules.

use serde::Deserialize;
use serde_json::Value;

use super::{
    error::ScheduleError,
    row::{Delivery, MissedPolicy, TargetType},
};
use crate::{
    ids::{AgentId, ChannelId, ThreadId, WorkflowId},
    patch::present,
    text_enum::text_enum,
    workflows::run::INPUT_BYTES_MAX,
};

const NAME_CHARS_MAX: usize = 80;
const PROMPT_BYTES_MAX: usize = 8 * 1024;

text_enum! {
    /// Status that a request can set.
    pub enum StatusForm {
        Active = "active",
        Paused = "paused",
    }
}

#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ScheduleTargetForm {
    Agent {
        /// Agent that runs; the workspace's default agent if omitted.
        #[serde(default)]
        agent_id: Option<AgentId>,
        /// Prompt, at most 8 KiB.
        prompt: String,
    },
    Workflow {
        workflow_id: WorkflowId,
        /// Input of the run, at most 8 KiB.
        #[serde(default)]
        input: String,
    },
    /// Runs an agent with its HEARTBEAT.md as the prompt; without this file, slots are skipped.
    Heartbeat { agent_id: AgentId },
}

impl ScheduleTargetForm {
    /// # Errors
    /// `Malformed`; or `Invalid` for an unknown type, or for a prompt that is blank or too long.
    pub(super) fn parse(value: &Value) -> Result<Self, ScheduleError> {
        let kind = value.get("type").and_then(Value::as_str);
        if let Some(kind) = kind.filter(|kind| kind.parse::<TargetType>().is_err()) {
            let kind: String = kind.chars().take(32).collect();
            let known = TargetType::ALL.iter().map(|known| known.as_str());
            let known = known.collect::<Vec<_>>().join("`, `");
            let text = format!("the target type `{kind}` is unknown: use one of `{known}`");
            return Err(ScheduleError::Invalid(text, "target.type"));
        }
        let form = Self::deserialize(value);
        let form = form.map_err(|e| ScheduleError::Malformed(e.to_string(), "target"))?;
        match &form {
            Self::Agent { prompt, .. }
                if prompt.trim().is_empty() || prompt.len() > PROMPT_BYTES_MAX =>
            {
                let text = format!("a prompt must have 1 to {PROMPT_BYTES_MAX} bytes");
                Err(ScheduleError::Invalid(text, "target.prompt"))
            }
            Self::Workflow { input, .. } if input.len() > INPUT_BYTES_MAX => {
                let text = format!("the input can have at most {INPUT_BYTES_MAX} bytes");
                Err(ScheduleError::Invalid(text, "target.input"))
            }
            _ => Ok(form),
        }
    }
}

/// Location of the replies; exactly one of the IDs is required.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeliveryForm {
    #[serde(default)]
    #[schema(nullable = false)]
    channel_id: Option<ChannelId>,
    #[serde(default)]
    #[schema(nullable = false)]
    thread_id: Option<ThreadId>,
}

/// Error for a schedule that posts messages but has no channel or thread.
pub(super) fn no_place() -> ScheduleError {
    let text = "specify where replies are posted: either a channel_id or a thread_id";
    ScheduleError::Invalid(text.to_owned(), "deliver")
}

/// # Errors
/// `Invalid`.
pub(super) fn parse_deliver(form: Option<DeliveryForm>) -> Result<Option<Delivery>, ScheduleError> {
    let ids = form.map(|form| (form.channel_id, form.thread_id));
    match ids {
        None => Ok(None),
        Some((Some(channel_id), None)) => Ok(Some(Delivery::Channel { channel_id })),
        Some((None, Some(thread_id))) => Ok(Some(Delivery::Thread { thread_id })),
        Some(_) => Err(no_place()),
    }
}

/// # Errors
/// `Invalid`.
pub(super) fn parse_name(text: &str) -> Result<String, ScheduleError> {
    let name = text.trim();
    let count = name.chars().count();
    if !(1..=NAME_CHARS_MAX).contains(&count) || name.chars().any(char::is_control) {
        return Err(ScheduleError::Invalid(
            format!("a name must be one line of 1 to {NAME_CHARS_MAX} characters"),
            "name",
        ));
    }
    Ok(name.to_owned())
}

/// A new schedule.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleForm {
    /// 1 to 80 characters.
    pub name: String,
    /// Cron expression with five fields in local time: minute, hour, day of the month, month, day of the
    /// week.
    pub cron: String,
    /// IANA name of the time zone.
    pub timezone: String,
    #[schema(value_type = ScheduleTargetForm)]
    pub target: Value,
    /// Location of the replies; null only for a workflow that posts nothing.
    #[serde(default)]
    pub deliver: Option<DeliveryForm>,
    /// Handling of missed slots; `run_once` by default.
    #[serde(default)]
    pub missed: Option<MissedPolicy>,
    /// ID chosen by the client. If it was used before, the response has status 200 and contains the schedule that was created first.
    #[serde(default)]
    pub client_id: Option<String>,
}

/// Changes to a schedule. People other than its owner can only set `status`.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SchedulePatch {
    /// 1 to 80 characters.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub name: Option<String>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub cron: Option<String>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub timezone: Option<String>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, value_type = Option<ScheduleTargetForm>)]
    pub target: Option<Value>,
    /// Location of the replies; null only for a workflow that posts nothing.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<DeliveryForm>)]
    pub deliver: Option<Option<DeliveryForm>>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub missed: Option<MissedPolicy>,
    /// The owner and admins can set `paused`. The owner can set `active`; if an admin paused the schedule, only an admin can.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub status: Option<StatusForm>,
}

impl SchedulePatch {
    /// Checks whether the patch sets nothing but the status.
    pub(super) fn is_status_only(&self) -> bool {
        let Self {
            name,
            cron,
            timezone,
            target,
            deliver,
            missed,
            status: _,
        } = self;
        name.is_none()
            && cron.is_none()
            && timezone.is_none()
            && target.is_none()
            && deliver.is_none()
            && missed.is_none()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_types_of_targets_are_those_of_the_form() {
        let (agent, flow) = (AgentId::new(), WorkflowId::new());
        for (target, is_known) in [
            (json!({"type": "agent", "prompt": "News?"}), true),
            (json!({"type": "heartbeat", "agent_id": agent}), true),
            (json!({"type": "workflow", "workflow_id": flow}), true),
            (
                json!({"type": "workflow", "workflow_id": flow, "input": "x".repeat(INPUT_BYTES_MAX + 1)}),
                false,
            ),
            (json!({"type": "workflow", "workflow_id": "flow_1"}), false),
            (json!({"type": "webhook", "url": "x"}), false),
            (json!({"type": "agent", "prompt": " "}), false),
            (
                json!({"type": "agent", "prompt": "x".repeat(PROMPT_BYTES_MAX + 1)}),
                false,
            ),
            (json!({"type": "agent", "prompt": "x", "goal": "y"}), false),
            (json!({"type": "heartbeat"}), false),
            (json!({"prompt": "x"}), false),
            (json!(null), false),
        ] {
            assert_eq!(
                ScheduleTargetForm::parse(&target).is_ok(),
                is_known,
                "{target}"
            );
        }
        let other = ScheduleTargetForm::parse(&json!({"type": "webhook"})).unwrap_err();
        assert!(
            other
                .to_string()
                .contains("`agent`, `workflow`, `heartbeat`"),
            "{other}"
        );
    }

    #[test]
    fn replies_go_to_one_place() {
        let (channel, thread) = (ChannelId::new(), ThreadId::new());
        for (form, is_valid) in [
            (json!({"channel_id": channel}), true),
            (json!({"thread_id": thread}), true),
            (json!({"channel_id": channel, "thread_id": thread}), false),
            (json!({}), false),
            (json!(null), true),
        ] {
            let parsed: Option<DeliveryForm> = serde_json::from_value(form.clone()).unwrap();
            assert_eq!(parse_deliver(parsed).is_ok(), is_valid, "{form}");
        }
    }
}
