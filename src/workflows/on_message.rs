//! Runs that messages start, in the transaction that posts the message.

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
    realtime::EventType,
};

/// Maximum number of runs that messages start in a minute.
const STARTED_MAX: i64 = 6;
const STARTED_WITHIN: Duration = Duration::from_mins(1);

/// A message in the main line of a thread that a person or a program posted.
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

/// Starts the runs of the workflows that wait for such a message, each for its owner.
///
/// # Errors
/// If the database fails.
pub async fn start_for_message(c: &mut Conn, posted: PostedIn<'_>) -> Result<(), DbError> {
    for workflow in list_triggered(c, posted.channel).await? {
        let trigger = workflow.content.on_message.as_ref();
        if !trigger.is_some_and(|trigger| matches(trigger, &posted)) {
            continue;
        }
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

fn matches(trigger: &OnMessage, posted: &PostedIn<'_>) -> bool {
    let is_author = match trigger.from {
        StartedBy::People => !posted.is_by_key,
        StartedBy::Keys => posted.is_by_key,
        StartedBy::Any => true,
    };
    let words = &trigger.words;
    is_author
        && (posted.starts_thread || !trigger.new_threads_only)
        && (words.is_empty() || words.iter().any(|word| has_word(posted.content, word)))
}

/// Checks whether a text contains a word as a whole, in any case.
fn has_word(text: &str, word: &str) -> bool {
    let (text, word) = (text.to_lowercase(), word.trim().to_lowercase());
    text.match_indices(&word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

/// Checks whether the owner can ask agents and post in the channel.
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

/// Pauses a workflow whose owner can no longer run it.
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
            ("Dringend: Größe", "GRÖSSE", false),
            ("Dringend: Größe", "größe", true),
            ("urgently", "urgent", false),
            ("not so urgent", "so urgent", true),
            ("disk-full", "full", true),
            ("full2", "full", false),
        ] {
            assert_eq!(has_word(text, word), expected, "{text} {word}");
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
        let trigger = OnMessage {
            channel_id: posted.channel,
            from: StartedBy::People,
            new_threads_only: false,
            words: Vec::new(),
        };
        assert!(matches(&trigger, &posted));
        let by_key = PostedIn {
            is_by_key: true,
            ..posted
        };
        assert!(!matches(&trigger, &by_key));
        let keys = OnMessage {
            from: StartedBy::Keys,
            ..trigger.clone()
        };
        assert!(matches(&keys, &by_key) && !matches(&keys, &posted));
        let roots = OnMessage {
            new_threads_only: true,
            ..trigger.clone()
        };
        assert!(!matches(&roots, &posted));
        let words = OnMessage {
            words: vec!["calm".to_owned()],
            ..trigger
        };
        assert!(!matches(&words, &posted));
    }
}
