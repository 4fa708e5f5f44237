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
    ids::{
        BotDeliveryId, BotId, ChannelId, HookId, MessageId, RunId, ThreadId, WorkflowId,
        WorkspaceId,
    },
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
/// Default for the number of runs that messages of bots start within a day.
const DAILY_MAX: i64 = 50;
const DAY: Duration = Duration::from_hours(24);
/// Time for which a bot's message may answer a run of which the bot got an event.
const ANSWERED_WITHIN: Duration = Duration::from_mins(1);

/// A message that a person, a program, or a bot posted in the main line of a thread.
#[derive(Debug, Clone, Copy)]
pub struct PostedIn<'a> {
    pub workspace: WorkspaceId,
    pub channel: ChannelId,
    pub thread: ThreadId,
    pub message: MessageId,
    pub content: &'a str,
    pub sender: MessageSender,
    pub starts_thread: bool,
}

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageSender {
    Person,
    /// A program with a person's key.
    Key,
    Bot {
        id: BotId,
        /// The webhook, unless the program has a key of the bot.
        hook: Option<HookId>,
    },
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
        let started = count_started(c, workflow.id, STARTED_WITHIN).await?;
        let is_refused = started >= STARTED_MAX
            || match posted.sender {
                MessageSender::Bot { id, .. } => {
                    let max = trigger.daily_max.unwrap_or(DAILY_MAX);
                    count_started(c, workflow.id, DAY).await? >= max
                        || is_answer(c, workflow.id, id).await?
                }
                MessageSender::Person | MessageSender::Key => false,
            };
        if is_refused {
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
    let is_author = match (trigger.from, posted.sender) {
        (StartedBy::People | StartedBy::Any, MessageSender::Person)
        | (StartedBy::Keys | StartedBy::Any, MessageSender::Key) => true,
        // Answers of a bot would start a run each.
        (StartedBy::Bots, MessageSender::Bot { hook, .. }) => {
            let hooks = &trigger.hook_ids;
            let is_of = hooks.is_empty() || hook.is_some_and(|hook| hooks.contains(&hook));
            posted.starts_thread && is_of
        }
        _ => false,
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
        role != Role::Guest && scopes.has(Scope::ChatWrite) && scopes.has(Scope::AgentsUse)
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

/// Number of runs that messages have started within a time.
async fn count_started(
    c: &mut Conn,
    workflow: WorkflowId,
    within: Duration,
) -> Result<i64, DbError> {
    c.q("select count(*) from runs where workflow_id = $1 and cause = 'message' and created_at > $2")
        .bind(workflow)
        .bind(now() - within)
        .value()
        .await
}

/// Checks whether the bot has just got a message from a thread of this workflow's runs, to which it may be answering.
async fn is_answer(c: &mut Conn, workflow: WorkflowId, bot: BotId) -> Result<bool, DbError> {
    // A week of deliveries is kept, so those of the last minute are found by their IDs.
    let since = now() - ANSWERED_WITHIN;
    c.q("select exists (select 1 from bot_deliveries d join bot_subscriptions s on s.bot_id = d.bot_id \
         join events e on e.workspace_id = s.workspace_id and e.seq = d.seq join messages m on m.id = e.message_id \
         join runs r on r.thread_id = m.thread_id where d.bot_id = $1 and d.id > $2 and r.workflow_id = $3)")
        .bind(bot)
        .bind(BotDeliveryId::first_at(since.unix_ms()))
        .bind(workflow)
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
            sender: MessageSender::Person,
            starts_thread: false,
        };
        let text = FoldedText::of(posted.content);
        let trigger = OnMessage {
            channel_id: posted.channel,
            from: StartedBy::People,
            new_threads_only: false,
            words: Vec::new(),
            hook_ids: Vec::new(),
            daily_max: None,
        };
        assert!(matches(&trigger, &posted, &text));
        let by_key = PostedIn {
            sender: MessageSender::Key,
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
            ..trigger.clone()
        };
        assert!(!matches(&words, &posted, &text));
        let hook = HookId::new();
        let by_bot = PostedIn {
            sender: MessageSender::Bot {
                id: BotId::new(),
                hook: Some(hook),
            },
            starts_thread: true,
            ..posted
        };
        let any = OnMessage {
            from: StartedBy::Any,
            ..trigger.clone()
        };
        assert!(!matches(&any, &by_bot, &text), "never bots");
        let bots = OnMessage {
            from: StartedBy::Bots,
            ..trigger
        };
        assert!(matches(&bots, &by_bot, &text) && !matches(&bots, &posted, &text));
        let answer = PostedIn {
            starts_thread: false,
            ..by_bot
        };
        assert!(!matches(&bots, &answer, &text));
        let of_hook = |hook| OnMessage {
            hook_ids: vec![hook],
            ..bots.clone()
        };
        assert!(matches(&of_hook(hook), &by_bot, &text));
        assert!(!matches(&of_hook(HookId::new()), &by_bot, &text));
    }
}
