//! Starts runs for a message, in the transaction that posts the message.

use std::time::Duration;

use super::{
    Workflow, WorkflowError,
    definition::{OnMessage, PausedReason, StartedBy, WorkflowStatus},
    run::{CauseType, NewRun, RunCause, start_run},
    version_rows::insert_version,
    workflow::{announce, find_workflow, list_triggered},
};
use crate::{
    auth::{Role, Scope},
    db::{Conn, DbError, is_visible_channel, now},
    ids::{ChannelId, MessageId, RunId, ThreadId, WorkflowId, WorkspaceId},
    inbox::{
        InboxSubject, InboxSubjectKind,
        notice::{Notice, open_for_admins},
    },
    realtime::EventType,
    tasks::asleep::is_asleep,
};

/// Maximum number of runs per minute that messages start for a workflow.
const STARTED_MAX: i64 = 6;
const STARTED_WITHIN: Duration = Duration::from_mins(1);

/// A message that a person or a program posted in the main line of a thread.
#[derive(Debug, Clone, Copy)]
pub struct PostedIn<'a> {
    pub workspace: WorkspaceId,
    pub channel: ChannelId,
    pub thread: ThreadId,
    pub message: MessageId,
    pub content: &'a str,
    pub is_by_key: bool,
    pub starts_thread: bool,
}

/// Starts a run of each workflow that the message triggers, on behalf of the workflow's owner.
///
/// # Errors
/// Only database errors.
pub async fn start_for_message(c: &mut Conn, posted: PostedIn<'_>) -> Result<(), DbError> {
    let triggered = list_triggered(c, posted.channel).await?;
    if triggered.is_empty() || is_asleep(c).await? {
        return Ok(());
    }
    let text = FoldedText::of(posted.content);
    for (id, trigger) in triggered {
        if !matches(&trigger, &posted, &text) {
            continue;
        }
        let Some(workflow) = find_workflow(c, posted.workspace, id).await? else {
            continue;
        };
        if !owner_can_run(c, &workflow, posted.channel).await? {
            pause(c, &workflow).await?;
            continue;
        }
        if count_started(c, workflow.id).await? >= STARTED_MAX {
            drop_message(c, workflow.id).await?;
            continue;
        }
        let new = NewRun {
            cause: RunCause {
                kind: CauseType::Message,
                id: Some(posted.message.to_string()),
            },
            requester: workflow.owner_id,
            api_key: None,
            channel: Some(posted.channel),
            thread: Some(posted.thread),
            message: Some(posted.message),
            input: String::new(),
            day: now().day(),
        };
        match start_run(c, &workflow, RunId::new(), &new).await {
            Ok(_) => {}
            Err(WorkflowError::Db(e)) => return Err(e),
            Err(_) => drop_message(c, workflow.id).await?,
        }
    }
    Ok(())
}

fn matches(trigger: &OnMessage, posted: &PostedIn<'_>, text: &FoldedText) -> bool {
    let is_author = match trigger.from {
        StartedBy::People => !posted.is_by_key,
        StartedBy::Keys => posted.is_by_key,
        StartedBy::Any => true,
    };
    let words = &trigger.words;
    is_author
        && (posted.starts_thread || !trigger.new_threads_only)
        && (words.is_empty() || words.iter().any(|word| text.has_word(word)))
}

/// A case-folded text, and the positions at which a word can start.
struct FoldedText {
    text: String,
    starts: Vec<usize>,
}

impl FoldedText {
    fn of(text: &str) -> Self {
        let text = folded(text);
        let mut is_inside = false;
        let mut starts = Vec::new();
        for (at, c) in text.char_indices() {
            if !is_inside {
                starts.push(at);
            }
            is_inside = c.is_alphanumeric();
        }
        Self { text, starts }
    }

    /// Checks whether the text contains a string as a whole word.
    fn has_word(&self, word: &str) -> bool {
        let word = folded(word.trim());
        let is_end = |rest: &str| !rest.starts_with(char::is_alphanumeric);
        let mut rests = self.starts.iter().map(|at| &self.text[*at..]);
        rests.any(|rest| rest.strip_prefix(word.as_str()).is_some_and(is_end))
    }
}

/// The case-folded form of a text.
fn folded(text: &str) -> String {
    let upper = text.chars().flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).collect()
}

/// Checks whether the owner can invoke agents and post in the channel.
async fn owner_can_run(
    c: &mut Conn,
    workflow: &Workflow,
    channel: ChannelId,
) -> Result<bool, DbError> {
    let role: Option<(Role,)> = c
        .q(concat!(
            "select m.role from channels ch join members m on m.workspace_id = ch.workspace_id and m.user_id = $2 \
             where ch.id = $1 and ch.archived_at is null and ",
            is_visible_channel!("ch", "$2")
        ))
        .bind(channel)
        .bind(workflow.owner_id)
        .opt()
        .await?;
    Ok(role.is_some_and(|(role,)| {
        let scopes = role.scopes();
        scopes.has(Scope::ChatWrite) && scopes.has(Scope::AgentsUse)
    }))
}

/// Pauses a workflow whose owner can no longer run it, and opens a notice for admins.
async fn pause(c: &mut Conn, workflow: &Workflow) -> Result<(), DbError> {
    c.q("update workflows set status = $2, paused_reason = $3, version = version + 1, updated_at = $4 where id = $1")
        .bind(workflow.id)
        .bind(WorkflowStatus::Paused)
        .bind(PausedReason::OwnerGone)
        .bind(now())
        .run()
        .await?;
    if let Some(paused) = find_workflow(c, workflow.workspace_id, workflow.id).await? {
        let summary = "paused: its owner cannot post in its channel";
        insert_version(c, &paused, paused.owner_id, summary).await?;
        announce(c, EventType::WorkflowUpdated, &paused).await?;
        let notice = Notice {
            workspace: paused.workspace_id,
            subject: InboxSubject::new(InboxSubjectKind::Workflow, paused.id.0),
            actor: None,
            channel: None,
        };
        open_for_admins(c, &notice).await?;
    }
    Ok(())
}

async fn count_started(c: &mut Conn, workflow: WorkflowId) -> Result<i64, DbError> {
    c.q("select count(*) from runs where workflow_id = $1 and cause = 'message' and created_at > $2")
        .bind(workflow)
        .bind(now() - STARTED_WITHIN)
        .value()
        .await
}

async fn drop_message(c: &mut Conn, workflow: WorkflowId) -> Result<(), DbError> {
    c.q("update workflows set dropped = dropped + 1 where id = $1")
        .bind(workflow)
        .run()
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_whole_and_in_any_case() {
        for (text, word, expected) in [
            ("The disk is URGENT!", "urgent", true),
            ("Dringend: Größe", "GRÖSSE", true),
            ("Dringend: Größe", "größe", true),
            ("ΟΔΟΣ 7", "οδος", true),
            ("xa a a", "a a", true),
            ("urgently", "urgent", false),
            ("not so urgent", "so urgent", true),
            ("disk-full", "full", true),
            ("full2", "full", false),
        ] {
            let found = FoldedText::of(text).has_word(word);
            assert_eq!(found, expected, "{text} {word}");
        }
    }

    #[test]
    fn a_message_matches_by_author_and_place() {
        let posted = PostedIn {
            workspace: WorkspaceId::new(),
            channel: ChannelId::new(),
            thread: ThreadId::new(),
            message: MessageId::new(),
            content: "urgent",
            is_by_key: false,
            starts_thread: false,
        };
        let text = FoldedText::of(posted.content);
        let trigger = OnMessage {
            channel_id: posted.channel,
            from: StartedBy::People,
            new_threads_only: false,
            words: Vec::new(),
        };
        assert!(matches(&trigger, &posted, &text));
        let by_key = PostedIn {
            is_by_key: true,
            ..posted
        };
        assert!(!matches(&trigger, &by_key, &text));
        let keys = OnMessage {
            from: StartedBy::Keys,
            ..trigger.clone()
        };
        assert!(matches(&keys, &by_key, &text) && !matches(&keys, &posted, &text));
        let roots = OnMessage {
            new_threads_only: true,
            ..trigger.clone()
        };
        assert!(!matches(&roots, &posted, &text));
        let words = OnMessage {
            words: vec!["calm".to_owned()],
            ..trigger
        };
        assert!(!matches(&words, &posted, &text));
    }
}
