//! Replies in a repository: a runner gets the prompt, and its agent writes the reply.

use std::collections::HashSet;

use crate::{
    agents::profiles::{Coding, Resolved},
    chat::{collaboration::Turn, messages::MessageCode},
    code::{self, AskedRepository, Choice, TurnPlace, TurnPrompt},
    db::{Conn, DbError, now},
    ids::MessageId,
    model::{Role, Window, WindowSource},
    replies::{
        budget::Budget,
        context::Loaded,
        fitted::Fitted,
        manifest::{self, Manifest},
        prompt::{Part, Prompt, Source},
        taint,
    },
    tasks::{
        FailCode, Lease, LeaseLost, Task, TaskKind,
        attempts::{AttemptOutcome, AttemptRecord},
        queue,
        worker::Abort,
    },
};

use super::handler::ReplyHandler;

/// Window into which the prompt is fitted, in tokens: the rest of an agent's window is for the code.
const WINDOW_TOKENS: u64 = 32_000;
const RESERVED_TOKENS: u32 = 8_000;
/// Maximum sizes of the parts of a frame as JSON, in bytes; a frame has at most 256 KiB.
const SYSTEM_BYTES_MAX: usize = 60 * 1024;
const CONVERSATION_BYTES_MAX: usize = 100 * 1024;
const NEW_BYTES_MAX: usize = 60 * 1024;

/// Size of a text as JSON.
fn json_bytes(text: &str) -> usize {
    serde_json::to_string(text).map_or(usize::MAX, |json| json.len())
}

/// The beginning of a text that fits into a frame.
fn beginning_of(text: &str, bytes_max: usize) -> &str {
    let mut kept = text;
    while json_bytes(kept) > bytes_max {
        kept = &kept[..kept.floor_char_boundary(kept.len() * 9 / 10)];
    }
    kept
}

/// The end of a text that fits into a frame: what was asked comes last.
fn end_of(text: &str, bytes_max: usize) -> &str {
    let mut kept = text;
    while json_bytes(kept) > bytes_max {
        kept = &kept[kept.ceil_char_boundary(kept.len().div_ceil(10))..];
    }
    kept
}

/// Instructions, conversation, and trigger as one text, because the protocol of agents has no roles.
fn full_text(prompt: &Prompt) -> String {
    let turns = prompt.turns().into_iter().map(|turn| match turn.role {
        Role::User => turn.content,
        Role::Assistant => format!("[You]\n{}", turn.content),
    });
    let turns: Vec<String> = turns.collect();
    let system = prompt.system.text();
    let system = beginning_of(&system, SYSTEM_BYTES_MAX);
    let conversation = turns.join("\n\n");
    let conversation = end_of(&conversation, CONVERSATION_BYTES_MAX);
    format!("{system}\n\n{conversation}")
}

/// News for an agent that has received everything else: instructions that have changed, messages of others, and what was asked.
fn new_text(prompt: &Prompt, instructions: &[&str], new: &HashSet<MessageId>) -> String {
    let is_new = |part: &&Part| match &part.source {
        Source::Trigger { .. } | Source::File { .. } | Source::Picture { .. } => true,
        Source::Message { message_id, .. } => part.role == Role::User && new.contains(message_id),
        _ => false,
    };
    let parts = prompt.parts.iter().filter(is_new);
    let parts: Vec<&str> = parts.map(|part| part.text.as_str()).collect();
    let new = parts.join("\n\n");
    if instructions.is_empty() || new.is_empty() {
        return end_of(&new, NEW_BYTES_MAX).to_owned();
    }
    let instructions = instructions.join("\n\n");
    let instructions = beginning_of(&instructions, NEW_BYTES_MAX / 2);
    let new = end_of(&new, NEW_BYTES_MAX / 2);
    format!("Your instructions have changed:\n\n{instructions}\n\n{new}")
}

/// Checks whether a task is a reply to a person, which can be work in a repository.
fn can_work(task: &Task) -> bool {
    task.kind == TaskKind::Reply && task.run_id.is_none() && Turn::of(task).is_none()
}

/// Data of a reply that was written without a repository, because its requester must not start work on it.
pub(super) async fn without_repository(
    c: &mut Conn,
    task: &Task,
    coding: Option<&Coding>,
) -> Result<Option<MessageCode>, DbError> {
    let Some(coding) = coding.filter(|_| can_work(task)) else {
        return Ok(None);
    };
    Ok(match code::choose(c, task, coding).await? {
        Choice::Without(name) => Some(MessageCode {
            session_id: None,
            without: Some(name),
        }),
        Choice::Chat | Choice::Ask(_) | Choice::Work(_) => None,
    })
}

impl ReplyHandler {
    /// Gives the reply to the runner of a repository, or asks the requester which repository is meant. Returns false if the agent replies
    /// without a repository.
    pub(super) async fn work_in_repository(
        &self,
        task: &Task,
        lease: Lease,
        agent: &Resolved,
        loaded: &Loaded,
    ) -> Result<bool, Abort> {
        let Some(coding) = agent.profile.coding.as_ref().filter(|_| can_work(task)) else {
            return Ok(false);
        };
        let mut c = self.db.read().await?;
        let choice = code::choose(&mut c, task, coding).await?;
        let asked = code::find_asked(&mut c, task.id).await?;
        drop(c);
        let place = match choice {
            Choice::Work(place) => place,
            Choice::Chat | Choice::Without(_) if asked == AskedRepository::No => return Ok(false),
            Choice::Ask(repositories) if asked == AskedRepository::No => {
                self.db
                    .write(lease.workspace.0, async move |c: &mut Conn| {
                        code::ask_repository(c, &lease, &repositories).await
                    })
                    .await?;
                return Ok(true);
            }
            // The chosen repository is gone, or nobody has chosen one.
            Choice::Chat | Choice::Without(_) | Choice::Ask(_) => {
                self.fail(lease, FailCode::NotAllowed, None).await?;
                return Ok(true);
            }
        };
        if self.provider.is_offline() && place.engine == code::BUILTIN {
            return Ok(false);
        }
        self.begin_turn(task, lease, loaded, *place).await?;
        Ok(true)
    }

    async fn begin_turn(
        &self,
        task: &Task,
        lease: Lease,
        loaded: &Loaded,
        place: TurnPlace,
    ) -> Result<(), Abort> {
        let budget = Budget {
            window: Window {
                tokens: WINDOW_TOKENS,
                source: WindowSource::Assumed,
                reasoning_tokens: 0,
                correction: 1.0,
            },
            output_tokens_max: RESERVED_TOKENS,
            taken: 0,
        };
        let mut context = loaded.context.clone();
        context.system.mention_skill_folders();
        let fitted = Fitted::of(loaded, context, loaded.left_out.clone(), budget);
        let fitted = match fitted {
            Ok(fitted) => fitted,
            Err(too_large) => {
                let code = FailCode::ContextTooLarge;
                return Ok(self.fail_with(lease, code, None, Some(too_large)).await?);
            }
        };
        let manifest: Manifest = fitted.manifest(loaded, &place.engine, task.attempt);
        let new = if place.read_seq > 0 {
            let (conversation, agent) = (lease.target.conversation(), lease.target.agent);
            let mut c = self.db.read().await?;
            let new = code::messages_after(&mut c, conversation, agent, place.read_seq).await?;
            let system = &manifest.prompt.system;
            let changed = manifest::changed_parts(&mut c, place.last_task, system).await?;
            Some(new_text(
                &manifest.prompt,
                &changed,
                &new.into_iter().collect(),
            ))
        } else {
            None
        };
        let prompt = TurnPrompt {
            full: full_text(&manifest.prompt),
            new: new.filter(|new| !new.is_empty()),
        };
        let record = AttemptRecord {
            attempt: task.attempt,
            started_at: now(),
            ended_at: None,
            outcome: AttemptOutcome::Running,
            error: None,
            waited_ms: 0,
        };
        self.db
            .write(lease.workspace.0, async move |c: &mut Conn| {
                let task = queue::lock_lease(c, &lease).await?;
                manifest::save(c, lease.workspace, lease.task, &manifest, &record).await?;
                taint::record(c, &task, &manifest).await?;
                code::begin(c, &lease, &place, &prompt).await?;
                Ok::<_, LeaseLost>(())
            })
            .await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters_until_they_fit_as_json() {
        let text = "\"ä\n".repeat(1000);
        for cut in [beginning_of(&text, 500), end_of(&text, 500)] {
            assert!(json_bytes(cut) <= 500 && cut.len() > 100, "{}", cut.len());
        }
        assert!(text.ends_with(end_of(&text, 500)));
        assert!(text.starts_with(beginning_of(&text, 500)));
        assert_eq!(end_of("short", 100), "short");
    }
}
