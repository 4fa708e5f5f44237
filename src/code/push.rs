//! Pushes: the action that people approve after a turn has changed files, and what follows from their decision.

use std::time::Duration;

use openvibe_runner::Command;
use serde_json::{Value, json};

use super::{
    CodeError, commands,
    repository::{is_allowed_in, may_start},
    sessions::{self, CodeSession, Row},
    texts as code_texts,
};
use crate::{
    agents::{policy, profiles},
    auth::{self, AuditAction, Caller},
    db::{Conn, DbError, dialect::lock_workspace, now},
    ids::{ActionId, CodeSessionId, UserId},
    mcp::{Effect, Risk},
    model::FunctionTool,
    realtime::{Audience, EventType},
    tasks::{
        Task,
        actions::{
            self, Action, ActionKind, ActionState, Ending,
            approval::{self, NewApproval},
            texts::{self, SourceType},
        },
        queue,
    },
    tool_fault::ToolErrorCode,
    tools::{
        decide::{self, Decision, Rules, Seen},
        function::{Reach, ToolFunction},
        hash::{self, HashedCall},
        taint,
    },
};

/// Name of the function, also for approval rules.
const PUSH: &str = "push";
/// Each of the two approval periods of a push: it waits for a week.
const PERIOD_S: u32 = 302_400;
const TITLE_CHARS_MAX: usize = 200;
const BODY_BYTES_MAX: usize = 32 * 1024;

/// Title and text of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommitText {
    pub(super) title: String,
    pub(super) body: String,
}

impl CommitText {
    /// The first line of a reply's text, and the rest of it.
    pub(super) fn of_reply(text: &str, agent: &str) -> Self {
        let text = text.trim();
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let line = first
            .trim_start_matches(['#', '*', '-', ' '])
            .trim_end_matches(['*', ' ', '\r']);
        let title: String = line.chars().take(TITLE_CHARS_MAX).collect();
        if title.is_empty() {
            return Self::without_text(agent);
        }
        // The text has a line that was cut.
        let body = if title == line { rest.trim() } else { text };
        let body = body[..body.floor_char_boundary(BODY_BYTES_MAX)].to_owned();
        Self { title, body }
    }

    /// The text for conversations that not everyone in the workspace can read.
    pub(super) fn without_text(agent: &str) -> Self {
        Self {
            title: format!("Changes by {agent}"),
            body: String::new(),
        }
    }
}

fn function() -> ToolFunction {
    let definition = FunctionTool {
        name: PUSH.to_owned(),
        description: None,
        parameters: None,
        strict: None,
    };
    ToolFunction {
        effect: Effect::Write,
        reach: Reach::Outward,
        risk: Risk::Approve,
        is_grantable: false,
        ..ToolFunction::built_in(PUSH, "Push changes", definition)
    }
}

/// Offers the changes of a session to the people who can approve a push. Nothing is offered if the runner does not push, or if the rules of
/// the workspace do not permit it.
pub(super) async fn offer(
    c: &mut Conn,
    id: CodeSessionId,
    task: &Task,
    audience: Audience,
) -> Result<(), DbError> {
    let Some(row) = sessions::find_row(c, id).await? else {
        return Ok(());
    };
    let place: Option<(String, String, bool)> = c
        .q("select name, base, can_push from repositories where id = $1")
        .bind(row.repository_id)
        .opt()
        .await?;
    let (Some((name, base, can_push)), Some(tree), Some(title)) =
        (place, row.tree.clone(), row.title.clone())
    else {
        return Ok(());
    };
    let parent = row.parent.clone().or(row.base_commit.clone());
    let (Some(parent), true) = (parent, can_push && row.file_count > 0) else {
        return Ok(());
    };
    let Some(question) = question(c, &row, task).await? else {
        return Ok(());
    };
    let arguments = json!({
        "repository": name, "branch": row.branch(), "base": base, "parent": parent, "tree": tree, "title": title,
        "body": row.body.clone().unwrap_or_default(),
    });
    let text = hash::canonical_text(&arguments);
    let action = ActionId::new();
    let round = approval::next_round(c, task.id).await?;
    let arguments_id = texts::put(c, row.workspace_id, action, &text).await?;
    // A deleted message of the prompt withdraws the push: the reply can have repeated it.
    texts::cite_prompt(c, task.id, arguments_id).await?;
    // The text of the commit is that of the reply.
    let reply = row
        .reply_id
        .map(|reply| (SourceType::Message.as_str(), reply.0));
    texts::cite(c, arguments_id, reply).await?;
    let hashed = HashedCall {
        task: task.id,
        round,
        call: 1,
        tool: None,
        function: PUSH,
        definition_hash: "",
    };
    let timeout_s = PERIOD_S;
    let new = NewApproval {
        id: action,
        kind: ActionKind::Call,
        call_id: id.to_string(),
        workspace: row.workspace_id,
        task: task.id,
        round,
        name: PUSH,
        title: format!("Push to {}", row.branch()),
        effect: Effect::Write,
        arguments_hash: hash::arguments_hash(&hashed, &text),
        call_hash: hash::call_hash(None, PUSH, &text),
        arguments_id,
        sources: taint::list(c, task.id).await?,
        needs: question.needs,
        timeout_s,
        expires_at: now() + Duration::from_secs(timeout_s.into()),
    };
    approval::ask(c, &new, audience).await?;
    c.q("update code_sessions set action_id = $2, push_sent = FALSE where id = $1")
        .bind(id)
        .bind(action)
        .run()
        .await?;
    Ok(())
}

/// The approvals that a push needs; `None` if the workspace does not permit it, or nobody can give them.
async fn question(
    c: &mut Conn,
    row: &Row,
    task: &Task,
) -> Result<Option<decide::Question>, DbError> {
    let policy = policy::find(c, row.workspace_id).await?;
    let version = task.agent_version.unwrap_or_default();
    let agent = profiles::find_resolved(c, row.agent_id, version).await?;
    let rules = Rules {
        level: policy.trust_level,
        rules: &policy.approval_rules,
        trust: agent
            .as_ref()
            .and_then(|agent| agent.profile.trust.as_ref()),
    };
    let Decision::Asks(question) = decide::decide(&function(), &rules, Seen::Tainted) else {
        return Ok(None);
    };
    for need in &question.needs {
        let (workspace, requester) = (row.workspace_id, task.requested_by);
        if !approval::has_approver(c, workspace, row.channel_id, requester, need).await? {
            return Ok(None);
        }
    }
    Ok(Some(question))
}

/// Withdraws the push of a session that still waits, because its changes or its text are about to change.
pub(super) async fn withdraw(
    c: &mut Conn,
    id: CodeSessionId,
    audience: Audience,
) -> Result<(), DbError> {
    let row = sessions::find_row(c, id).await?;
    let Some(action) = row.and_then(|row| row.action_id) else {
        return Ok(());
    };
    if let Some(action) = actions::find(c, action).await?
        && action.state == ActionState::Waiting
        && actions::cancel(c, &action, ToolErrorCode::Cancelled).await?
    {
        actions::announce(c, action.id, EventType::ActionUpdated, audience).await?;
    }
    Ok(())
}

/// Fails the newest push of a session if people have approved it: the runner will not report its result.
pub(super) async fn fail_approved(
    c: &mut Conn,
    id: CodeSessionId,
    cause: &str,
) -> Result<(), DbError> {
    let row = sessions::find_row(c, id).await?;
    match row.and_then(|row| row.action_id) {
        Some(action) => finish(c, id, action, &PushEnd::Failed(cause.to_owned())).await,
        None => Ok(()),
    }
}

/// Sends a push that people have approved to the runner; it fails if the repository is no longer allowed in the session's channel. Does
/// nothing for other actions.
///
/// # Errors
/// Only database errors.
pub async fn start_approved(c: &mut Conn, id: ActionId) -> Result<(), DbError> {
    let Some(action) = actions::find(c, id).await? else {
        return Ok(());
    };
    if action.function != PUSH || action.state != ActionState::Approved {
        return Ok(());
    }
    let session = CodeSessionId::parse(&action.call_id).ok();
    let arguments = texts::find(c, action.arguments_id).await?;
    let arguments = arguments.and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let (Some(session), Some(arguments)) = (session, arguments) else {
        return Ok(());
    };
    let is_first = c
        .q("update code_sessions set push_sent = TRUE where id = $1 and action_id = $2 and push_sent = FALSE")
        .bind(session)
        .bind(id)
        .run()
        .await?;
    if is_first == 0 {
        return Ok(());
    }
    let Some(row) = sessions::find_row(c, session).await? else {
        return Ok(());
    };
    if !is_allowed_in(c, row.repository_id, row.channel_id).await? {
        let cause = "The repository is no longer allowed in this channel.";
        return finish(c, session, id, &PushEnd::Failed(cause.to_owned())).await;
    }
    let text = |field: &str| arguments[field].as_str().unwrap_or_default().to_owned();
    let command = Command::Push {
        action: id.to_string(),
        tree: text("tree"),
        parent: text("parent"),
        branch: text("branch"),
        title: text("title"),
        body: text("body"),
        // The same for each repetition, so that the commit is the same.
        at: action.created_at.to_text(),
    };
    commands::insert(c, session, None, &command).await?;
    Ok(())
}

/// Result of a push, as the runner reports it.
#[derive(Debug, Clone)]
pub(super) enum PushEnd {
    Pushed {
        commit: String,
        url: Option<String>,
        note: Option<String>,
    },
    Failed(String),
}

/// Stores the result of a push.
pub(super) async fn finish(
    c: &mut Conn,
    session: CodeSessionId,
    id: ActionId,
    end: &PushEnd,
) -> Result<(), DbError> {
    let action = actions::find(c, id).await?;
    let Some(action) =
        action.filter(|action| action.function == PUSH && action.call_id == session.to_string())
    else {
        return Ok(());
    };
    if let (ActionState::Failed, PushEnd::Pushed { commit, url, note }) = (action.state, end) {
        // Its reply was deleted when the runner had it already. The next push builds on this commit.
        store_pushed(c, session, &action, commit, url.as_deref(), note.as_deref()).await?;
        return sessions::announce(c, session).await;
    }
    if action.state != ActionState::Approved {
        return Ok(());
    }
    let audience = queue::audience_in(c, action.channel_id).await?;
    let (ending, label, result) = match end {
        PushEnd::Pushed { commit, url, note } => {
            store_pushed(c, session, &action, commit, url.as_deref(), note.as_deref()).await?;
            let result = json!({"commit": commit, "url": url, "note": note});
            (Ending::done(), "pushed", result.to_string())
        }
        PushEnd::Failed(cause) => {
            add_note(c, session, &format!("The push failed: {cause}")).await?;
            let ending = Ending::failed(ToolErrorCode::ToolFailed);
            (ending, "failed", cause.clone())
        }
    };
    let text = texts::put(c, action.workspace_id, id, &result).await?;
    approval::end(c, id, ending, text, audience).await?;
    sessions::announce(c, session).await?;
    metrics::counter!("openvibe_code_pushes_total", "result" => label).increment(1);
    Ok(())
}

async fn store_pushed(
    c: &mut Conn,
    session: CodeSessionId,
    action: &Action,
    commit: &str,
    url: Option<&str>,
    note: Option<&str>,
) -> Result<(), DbError> {
    let by: Option<UserId> = action.needs.iter().find_map(|need| need.by);
    let arguments = texts::find(c, action.arguments_id).await?;
    let arguments = arguments.and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let tree = arguments.and_then(|arguments| arguments["tree"].as_str().map(str::to_owned));
    let row = sessions::find_row(c, session).await?;
    code_texts::delete_pushed(c, session).await?;
    let is_current = tree.is_some() && row.is_some_and(|row| row.tree == tree);
    let is_kept = is_current && code_texts::keep_pushed(c, session, action.id.0).await?;
    c.q("update code_sessions set parent = $2, pushed_commit = $2, pushed_url = $3, pushed_by = $4, pushed_at = $5, pushed_tree = $6, \
         pushed_text_id = $7 where id = $1")
        .bind(session)
        .bind(commit.to_owned())
        .bind(url.map(str::to_owned))
        .bind(by)
        .bind(now())
        .bind(tree.filter(|_| is_kept))
        .bind(is_kept.then_some(action.id))
        .run()
        .await?;
    if let Some(note) = note {
        add_note(c, session, note).await?;
    }
    let data = json!({"code_session_id": session, "commit": commit, "url": url});
    let by = by.unwrap_or(action.requested_by);
    let (workspace, target) = (action.workspace_id, action.id.to_string());
    auth::record_audit_of(c, workspace, by, AuditAction::CodePushed, target, data).await
}

async fn add_note(c: &mut Conn, session: CodeSessionId, note: &str) -> Result<(), DbError> {
    let Some(row) = sessions::find_row(c, session).await? else {
        return Ok(());
    };
    let mut notes = row.notes;
    notes.0.push(note.to_owned());
    c.q("update code_sessions set notes = $2 where id = $1")
        .bind(session)
        .bind(notes)
        .run()
        .await?;
    Ok(())
}

/// Changes the title and the text of the next commit. The push that waits is withdrawn, and another one with the new text takes its place,
/// as it does if the last push failed, or nobody decided in time.
///
/// # Errors
/// `SessionNotFound`, `NotStarter`, `SessionStale`, `Invalid`, or any error from `Actor::require`.
pub async fn change_text(
    c: &mut Conn,
    caller: &Caller,
    id: CodeSessionId,
    title: Option<String>,
    body: Option<String>,
    expected: Option<i64>,
) -> Result<CodeSession, CodeError> {
    let (row, audience) = enter_as_starter(c, caller, id).await?;
    if expected.is_some_and(|version| version != row.version) {
        let current = serde_json::to_value(row.object()).unwrap_or_default();
        return Err(CodeError::SessionStale(current));
    }
    let invalid = |text: &str, field| Err(CodeError::Invalid(text.to_owned(), field));
    let title = title.map(|title| title.trim().to_owned());
    if let Some(title) = &title
        && (title.is_empty()
            || title.chars().count() > TITLE_CHARS_MAX
            || title.chars().any(char::is_control))
    {
        return invalid("a title must be one line of 1 to 200 characters", "title");
    }
    if body
        .as_ref()
        .is_some_and(|body| body.len() > BODY_BYTES_MAX)
    {
        return invalid("the text can have at most 32 KiB", "body");
    }
    if row.title.is_none() {
        return invalid("there is nothing to push", "title");
    }
    c.q("update code_sessions set title = coalesce($2, title), body = coalesce($3, body) where id = $1")
        .bind(id)
        .bind(title)
        .bind(body)
        .run()
        .await?;
    if let Some(task) = pushing_task(c, &row).await? {
        withdraw(c, id, audience).await?;
        offer(c, id, &task, audience).await?;
    }
    sessions::announce(c, id).await?;
    sessions::changed(c, id).await
}

/// The task whose push waits for approval, or is offered again because it failed or nobody decided in time; `None` if there is none, or if a
/// turn works that can change the files.
async fn pushing_task(c: &mut Conn, row: &Row) -> Result<Option<Task>, DbError> {
    let Some(action) = row.action_id else {
        return Ok(None);
    };
    let is_working: bool = c
        .q("select exists (select 1 from task_keys where session_id = $1)")
        .bind(row.id)
        .value()
        .await?;
    if is_working {
        return Ok(None);
    }
    let Some(action) = actions::find(c, action).await? else {
        return Ok(None);
    };
    if texts::find(c, action.arguments_id).await?.is_none() {
        // The reply or a message of the prompt was deleted, and the text can repeat it.
        return Ok(None);
    }
    let is_offered = match action.state {
        ActionState::Waiting => true,
        ActionState::Failed | ActionState::Expired => {
            row.is_open() && !texts::has_lost_parts(c, action.task_id).await?
        }
        _ => false,
    };
    if is_offered {
        queue::find_task(c, action.task_id).await
    } else {
        Ok(None)
    }
}

/// Finds a session that the caller may change: whoever can start work on its repository, and write in its conversation.
///
/// # Errors
/// `SessionNotFound`, `NotStarter`, or any error from `Actor::require`.
pub(super) async fn enter_as_starter(
    c: &mut Conn,
    caller: &Caller,
    id: CodeSessionId,
) -> Result<(Row, Audience), CodeError> {
    let access = sessions::enter(c, caller, id).await?;
    let place = access.place.writing()?;
    let audience = place.channel_access.audience();
    let (workspace, user) = (access.row.workspace_id, caller.user);
    lock_workspace(c, workspace.0).await?;
    let row = sessions::find_row(c, id).await?;
    let row = row.ok_or(CodeError::SessionNotFound)?;
    let (starters,): (String,) = c
        .q("select starters from repositories where id = $1")
        .bind(row.repository_id)
        .one()
        .await?;
    if may_start(c, workspace, user, row.repository_id, &starters).await? {
        Ok((row, audience))
    } else {
        Err(CodeError::NotStarter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_has_the_first_line_and_the_rest_of_a_reply() {
        let long = format!("{} end\n\nMore.", "x".repeat(TITLE_CHARS_MAX));
        for (text, title, body) in [
            (
                "\n## **Fix the login**\n\nThe cookie was missing.\n",
                "Fix the login",
                "The cookie was missing.",
            ),
            ("Fix the login", "Fix the login", ""),
            (&long, &long[..TITLE_CHARS_MAX], &long),
        ] {
            let commit = CommitText::of_reply(text, "Coder");
            assert_eq!((commit.title.as_str(), commit.body.as_str()), (title, body));
        }
        let blank = CommitText::of_reply(" \n", "Coder");
        assert_eq!(blank, CommitText::without_text("Coder"));
        assert_eq!(blank.title, "Changes by Coder");
    }

    #[test]
    fn a_push_always_asks_and_never_for_an_hour() {
        let function = function();
        assert!(!function.is_grantable);
        for level in [
            policy::TrustLevel::PerFunction,
            policy::TrustLevel::NoQuestionsInside,
        ] {
            let rules = Rules {
                level,
                rules: &[],
                trust: None,
            };
            for seen in [Seen::Clean, Seen::Tainted] {
                let decision = decide::decide(&function, &rules, seen);
                assert!(matches!(decision, Decision::Asks(_)), "{decision:?}");
            }
        }
    }
}
