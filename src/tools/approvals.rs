//! People's decisions on actions, and the consequences of a missing decision.
//!
//! ```text
//! waiting ─ approve ─► approved (all needs) ─► the task is woken when its last action is decided
//!    │ └── deny ────► denied
//!    └ timeout_s ──► admins can decide, too ─ timeout_s ─► expired
//! ```

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use uuid::Uuid;

use super::{
    ToolsError, decide,
    grants::{self, GrantObject},
    output::one_line,
    taint,
};
use crate::{
    auth::{self, Actor, AuditAction, AuthError, Caller, Scope},
    chat::{
        ChatError,
        access::{self, ThreadAccess},
        remove,
    },
    db::{Conn, Db, DbError, dialect::lock_workspace, now},
    ids::{ActionId, GrantId, TaskId, ThreadId},
    mcp::Effect,
    realtime::{Audience, EventType, Hub, hub::Conversation},
    tasks::{
        Task,
        actions::{
            self, Action, ActionKind, ActionObject, ActionState, Decider, Ending, Need,
            NeededPerson, Shown, approval, texts,
        },
        queue,
    },
    text_enum::text_enum,
    tool_fault::ToolErrorCode,
    workflows::run,
};

/// Maximum length of a note in characters.
const NOTE_CHARS_MAX: usize = 500;
/// Maximum size of an answer as JSON, in bytes.
const ANSWER_BYTES_MAX: usize = 32 * 1024;
/// Maximum number of actions in the list of those that a person can approve, deny, or settle.
const OPEN_MAX: i64 = 100;
/// Maximum number of actions or tasks of each kind that one periodic check ends.
const EXPIRED_AT_ONCE: i64 = 100;
/// Time since its start after which a running action of an ended task is ended without a result; longer than a call and its grace
/// period.
const ORPHANED_AFTER: Duration = Duration::from_secs(90);

text_enum! {
    /// Time for which an approval holds.
    pub enum ApprovalTerm {
        /// Further calls of the function in this conversation need no approval for an hour.
        Hour = "hour",
    }
}

text_enum! {
    /// Outcome that a person reports for an action if the server could not determine it.
    pub enum Settlement {
        Happened = "happened",
        DidNotHappen = "did_not_happen",
    }
}

/// A person's approval of a waiting action.
#[derive(Debug, Clone)]
pub struct Approval {
    /// `arguments_hash` of the action that the person reviewed.
    pub arguments_hash: String,
    pub term: Option<ApprovalTerm>,
}

/// A person's denial of a waiting action.
#[derive(Debug, Clone)]
pub struct Denial {
    /// `arguments_hash` of the action that the person reviewed.
    pub arguments_hash: String,
    pub note: Option<String>,
}

/// An action, and a person's rights in its conversation.
struct Access<'a> {
    action: Action,
    actor: Actor<'a>,
    audience: Audience,
    can_post: bool,
}

impl<'a> Access<'a> {
    fn of(action: Action, place: ThreadAccess<'a>) -> Self {
        let can_post = place.clone().writing().is_ok();
        let channel = place.channel_access;
        Self {
            audience: channel.audience(),
            can_post,
            actor: channel.actor,
            action,
        }
    }

    fn is_requester(&self) -> bool {
        self.action.requested_by == self.actor.user
    }

    /// Checks whether the person is an admin; an API key needs the admin scope as well.
    fn is_admin(&self) -> bool {
        self.actor.scopes.has(Scope::WorkspaceAdmin)
    }

    /// Checks whether this person can give an approval; viewers and guests cannot.
    fn fills(&self, need: &Need) -> bool {
        if !self.actor.role.approves() {
            return false;
        }
        let is_asked = match need.who {
            NeededPerson::Requester => self.is_requester(),
            NeededPerson::Admin => self.is_admin(),
            NeededPerson::User => need.user_id == Some(self.actor.user),
            NeededPerson::AnyMember => self.can_post,
        };
        // Once the first approval period has passed, admins can approve in place of anyone.
        is_asked || (self.action.is_extended && self.is_admin())
    }

    /// Checks whether this person can see the arguments and the result.
    fn sees_texts(&self) -> bool {
        let is_decider = self.action.needs.iter().any(|need| {
            need.by == Some(self.actor.user)
                || (need.who != NeededPerson::AnyMember && self.fills(need))
                || (need.who == NeededPerson::AnyMember && self.can_post)
        });
        self.is_requester() || self.is_admin() || is_decider
    }

    async fn object(&self, c: &mut Conn) -> Result<ActionObject, DbError> {
        let mut objects = objects_of(c, std::slice::from_ref(self)).await?;
        Ok(objects.swap_remove(0))
    }
}

/// Returns the objects of the given actions, in the same order, with the texts that the person may see.
async fn objects_of(c: &mut Conn, entered: &[Access<'_>]) -> Result<Vec<ActionObject>, DbError> {
    let visible = entered.iter().filter(|access| access.sees_texts());
    let ids = visible.flat_map(|access| {
        let action = &access.action;
        std::iter::once(action.arguments_id).chain(action.result_id)
    });
    let stored = texts::list(c, ids.collect()).await?;
    let text = |id: Uuid| stored.get(&id).cloned();
    let objects = entered.iter().map(|access| {
        let action = &access.action;
        let shown = access.sees_texts().then(|| Shown {
            arguments: text(action.arguments_id),
            result: action.result_id.and_then(text),
        });
        action.object(shown)
    });
    Ok(objects.collect())
}

fn conversation_of(action: &Action) -> Option<Conversation> {
    let thread = action.thread_id.map(Conversation::Thread);
    action.fork_id.map(Conversation::Fork).or(thread)
}

/// Finds the conversation of an action, if the caller can read it. The thread that a schedule's reply will start may not exist
/// yet.
async fn find_place<'a>(
    c: &mut Conn,
    caller: &'a Caller,
    action: &Action,
) -> Result<Option<ThreadAccess<'a>>, ToolsError> {
    let found = match (conversation_of(action), action.channel_id) {
        (Some(conversation), _) => access::find_conversation(c, caller, conversation).await,
        (None, Some(channel)) => {
            let thread = ThreadId(action.task_id.0);
            access::coming_thread(c, caller, channel, thread).await
        }
        (None, None) => return Ok(None),
    };
    match found {
        Ok(found) => Ok(Some(found.reading()?)),
        Err(ChatError::ChannelNotFound | ChatError::ThreadNotFound | ChatError::ForkNotFound) => {
            Ok(None)
        }
        Err(e) => Err(e.into()),
    }
}

/// Finds an action in a conversation that the caller can read.
async fn enter<'a>(
    c: &mut Conn,
    caller: &'a Caller,
    id: ActionId,
) -> Result<Access<'a>, ToolsError> {
    let action = reread(c, id).await?;
    let found = find_place(c, caller, &action).await?;
    Ok(Access::of(action, found.ok_or(ToolsError::ActionNotFound)?))
}

/// Checks access to the conversations of actions, once per conversation. Keeps the order of the actions, and skips actions in
/// conversations that the caller can no longer read.
async fn enter_all<'a>(
    c: &mut Conn,
    caller: &'a Caller,
    found: Vec<Action>,
) -> Result<Vec<Access<'a>>, ToolsError> {
    let mut known: HashMap<Uuid, Option<ThreadAccess<'a>>> = HashMap::new();
    let mut entered = Vec::with_capacity(found.len());
    for action in found {
        let key = conversation_of(&action).map_or(action.task_id.0, Conversation::id);
        let place = if let Some(place) = known.get(&key) {
            place.clone()
        } else {
            let place = find_place(c, caller, &action).await?;
            known.insert(key, place.clone());
            place
        };
        entered.extend(place.map(|place| Access::of(action, place)));
    }
    Ok(entered)
}

/// # Errors
/// `ActionNotFound`, or any error from `Actor::require`.
pub async fn get(c: &mut Conn, caller: &Caller, id: ActionId) -> Result<ActionObject, ToolsError> {
    let access = enter(c, caller, id).await?;
    Ok(access.object(c).await?)
}

/// Objects of actions that the caller can read, with the texts that the caller may see.
///
/// # Errors
/// Only database errors.
pub async fn objects(
    c: &mut Conn,
    caller: &Caller,
    found: Vec<Action>,
) -> Result<Vec<ActionObject>, ToolsError> {
    let entered = enter_all(c, caller, found).await?;
    Ok(objects_of(c, &entered).await?)
}

/// IDs of a task's actions whose texts the caller may see.
///
/// # Errors
/// Only database errors.
pub async fn list_readable(
    c: &mut Conn,
    caller: &Caller,
    task: TaskId,
) -> Result<HashSet<ActionId>, ToolsError> {
    let found = actions::of_task(c, task).await?;
    let entered = enter_all(c, caller, found).await?;
    let readable = entered.iter().filter(|access| access.sees_texts());
    Ok(readable.map(|access| access.action.id).collect())
}

/// Approves an action by giving every approval that this person can give.
///
/// # Errors
/// `SessionRequired` for an API key, `ActionNotFound`, `AlreadyDecided`, `ActionExpired`, `ArgumentsChanged`, `NotYourApproval`,
/// `NotGrantable`.
pub async fn approve(
    c: &mut Conn,
    caller: &Caller,
    id: ActionId,
    approval: &Approval,
) -> Result<ActionObject, ToolsError> {
    let access = enter_to_decide(c, caller, id, &approval.arguments_hash).await?;
    let action = &access.action;
    if action.kind == ActionKind::Question {
        return Err(ToolsError::NeedsAnswer);
    }
    let by_this_person = |need: &Need| need.by == Some(access.actor.user);
    if action.state != ActionState::Waiting {
        // The same person clicked twice.
        let is_repeated = action.needs.iter().any(by_this_person);
        return match action.state {
            ActionState::Denied | ActionState::Expired | ActionState::Cancelled => {
                Err(decided(action.state))
            }
            _ if is_repeated => Ok(access.object(c).await?),
            state => Err(decided(state)),
        };
    }
    if texts::find(c, action.arguments_id).await?.is_none() {
        // A source of the arguments was deleted.
        return Err(ToolsError::ArgumentsChanged);
    }
    let mut needs = action.needs.clone();
    let at = now();
    let mut filled = 0;
    for need in &mut needs {
        if need.by.is_none() && access.fills(need) {
            (need.by, need.at) = (Some(access.actor.user), Some(at));
            filled += 1;
        }
    }
    if filled == 0 {
        if needs.iter().any(by_this_person) {
            return Ok(access.object(c).await?);
        }
        return Err(ToolsError::NotYourApproval);
    }
    if approval.term.is_some() {
        if !action.is_grantable || !access.is_requester() {
            return Err(ToolsError::NotGrantable);
        }
        grants::insert(c, action).await?;
    }
    let to = if needs.iter().all(|need| need.by.is_some()) {
        ActionState::Approved
    } else {
        ActionState::Waiting
    };
    if !actions::decide(c, action, to, &needs, None).await? {
        return Err(ToolsError::ArgumentsChanged);
    }
    let data = serde_json::json!({"function": action.function, "task_id": action.task_id, "for": approval.term});
    record(c, &access, AuditAction::ActionApproved, data).await?;
    conclude(c, caller, &access).await
}

/// Denies an action. Everyone who can approve an action can deny it.
///
/// # Errors
/// Same as `approve`, except `NotGrantable`.
pub async fn deny(
    c: &mut Conn,
    caller: &Caller,
    id: ActionId,
    denial: &Denial,
) -> Result<ActionObject, ToolsError> {
    let access = enter_to_decide(c, caller, id, &denial.arguments_hash).await?;
    let action = &access.action;
    if action.state != ActionState::Waiting {
        let is_repeated = action.state == ActionState::Denied && access.sees_texts();
        return if is_repeated {
            Ok(access.object(c).await?)
        } else {
            Err(decided(action.state))
        };
    }
    let at = now();
    let mut needs = action.needs.clone();
    if !needs.iter().any(|need| access.fills(need)) {
        return Err(ToolsError::NotYourApproval);
    }
    // Approvals that others have given are kept.
    for need in &mut needs {
        if need.by.is_none() && access.fills(need) {
            (need.by, need.at) = (Some(access.actor.user), Some(at));
        }
    }
    let note: Option<String> = denial
        .note
        .as_deref()
        .map(|note| one_line(note).chars().take(NOTE_CHARS_MAX).collect());
    let note = note.filter(|note: &String| !note.is_empty());
    if !actions::decide(c, action, ActionState::Denied, &needs, note.as_deref()).await? {
        return Err(ToolsError::ArgumentsChanged);
    }
    if note.is_some() {
        // The note taints the task, because the model will read it.
        let decider = [access.actor.user];
        taint::add_people(c, action.task_id, action.requested_by, decider).await?;
    }
    let data = serde_json::json!({"function": action.function, "task_id": action.task_id});
    record(c, &access, AuditAction::ActionDenied, data).await?;
    conclude(c, caller, &access).await
}

/// Answers a question of an agent: with the ID of an option, or with the object of its form.
///
/// # Errors
/// `SessionRequired` for an API key, `ActionNotFound`, `AlreadyDecided`, `ActionExpired`. `NotYourApproval` unless the caller is the
/// requester; `BadAnswer` for an answer that does not fit, or for another kind of action.
pub async fn answer(
    c: &mut Conn,
    caller: &Caller,
    id: ActionId,
    value: &Value,
) -> Result<ActionObject, ToolsError> {
    caller.require_session()?;
    let access = enter(c, caller, id).await?;
    lock_workspace(c, access.actor.workspace.0).await?;
    expire_one(c, id, access.audience).await?;
    let access = Access {
        action: reread(c, id).await?,
        ..access
    };
    let action = &access.action;
    if !access.is_requester() || !access.actor.role.approves() {
        return Err(ToolsError::NotYourApproval);
    }
    if action.kind != ActionKind::Question {
        return Err(ToolsError::BadAnswer("this action is not a question"));
    }
    let text = value.to_string();
    if action.state != ActionState::Waiting {
        // The person clicked twice.
        let object = access.object(c).await?;
        let is_repeated = object.result.as_ref() == Some(&text);
        return if is_repeated {
            Ok(object)
        } else {
            Err(decided(action.state))
        };
    }
    let question = texts::find(c, action.arguments_id).await?;
    let question = question.ok_or(ToolsError::ArgumentsChanged)?;
    check_answer(&question, value)?;
    let at = now();
    let mut needs = action.needs.clone();
    for need in &mut needs {
        (need.by, need.at) = (Some(access.actor.user), Some(at));
    }
    if !actions::decide(c, action, ActionState::Approved, &needs, None).await? {
        return Err(ToolsError::ArgumentsChanged);
    }
    let result = texts::put(c, access.actor.workspace, id, &text).await?;
    approval::end(c, id, Ending::done(), result, access.audience).await?;
    wake(c, &access.action, access.audience).await?;
    get(c, caller, id).await
}

/// Checks that an answer fits its question.
fn check_answer(question: &str, value: &Value) -> Result<(), ToolsError> {
    let question: Value = serde_json::from_str(question).unwrap_or_default();
    if value.to_string().len() > ANSWER_BYTES_MAX {
        return Err(ToolsError::BadAnswer("the answer can have at most 32 KiB"));
    }
    let Some(properties) = question["schema"]["properties"].as_object() else {
        let options = question["options"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        let is_option = value.is_string() && options.iter().any(|option| option["id"] == *value);
        let text = "the value must be the ID of an option";
        return if is_option {
            Ok(())
        } else {
            Err(ToolsError::BadAnswer(text))
        };
    };
    let Some(form) = value.as_object() else {
        return Err(ToolsError::BadAnswer("the value must be an object"));
    };
    let required = question["schema"]["required"].as_array();
    let required = required.map_or(&[][..], Vec::as_slice);
    let is_missing = |name: &Value| name.as_str().is_none_or(|name| !form.contains_key(name));
    if required.iter().any(is_missing) {
        return Err(ToolsError::BadAnswer("a required field is missing"));
    }
    let fits = |(name, given): (&String, &Value)| {
        properties
            .get(name)
            .is_some_and(|field| has_type(field, given))
    };
    if form.iter().all(fits) {
        Ok(())
    } else {
        Err(ToolsError::BadAnswer("a field does not fit the form"))
    }
}

/// Checks whether a value has the type of a field, and is one of its choices if it has any.
fn has_type(field: &Value, value: &Value) -> bool {
    let fits = match field["type"].as_str() {
        Some("string") => value.is_string(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        _ => !value.is_null(),
    };
    let named = |list: &Value, key: &str| {
        let mut all = list.as_array().into_iter().flatten();
        all.any(|one| one[key] == *value)
    };
    let choices = field["enum"].as_array();
    fits && choices.is_none_or(|all| all.contains(value))
        && (!field["oneOf"].is_array() || named(&field["oneOf"], "const"))
}

/// Settles an action whose outcome the server could not determine.
///
/// # Errors
/// `SessionRequired`, `ActionNotFound`, `AlreadyDecided`. `NotYourApproval` unless the caller is the requester, or an admin after the
/// requester has lost access to the conversation.
pub async fn settle(
    c: &mut Conn,
    caller: &Caller,
    id: ActionId,
    settlement: Settlement,
) -> Result<ActionObject, ToolsError> {
    caller.require_session()?;
    let access = enter(c, caller, id).await?;
    lock_workspace(c, access.actor.workspace.0).await?;
    let access = Access {
        action: reread(c, id).await?,
        ..access
    };
    let may_settle =
        access.is_requester() || (access.is_admin() && actions::has_left(c, id).await?);
    if !may_settle {
        return Err(ToolsError::NotYourApproval);
    }
    let to = match settlement {
        Settlement::Happened => ActionState::Done,
        Settlement::DidNotHappen => ActionState::Failed,
    };
    if !actions::settle(c, id, to).await? {
        // The person clicked twice: functions never return this text, so it was stored after the first click.
        let object = access.object(c).await?;
        let is_repeated =
            object.state == to && object.result.as_deref() == Some(settlement.as_str());
        return if is_repeated {
            Ok(object)
        } else {
            Err(decided(access.action.state))
        };
    }
    let text = texts::put(c, access.actor.workspace, id, settlement.as_str()).await?;
    actions::set_result(c, id, text).await?;
    let data = serde_json::json!({"function": access.action.function, "outcome": settlement});
    record(c, &access, AuditAction::ActionSettled, data).await?;
    conclude(c, caller, &access).await
}

fn decided(state: ActionState) -> ToolsError {
    if state == ActionState::Expired {
        ToolsError::ActionExpired
    } else {
        ToolsError::AlreadyDecided(state.as_str())
    }
}

async fn reread(c: &mut Conn, id: ActionId) -> Result<Action, ToolsError> {
    let action = actions::find(c, id).await?;
    action.ok_or(ToolsError::ActionNotFound)
}

/// Locks the workspace, and finds an action on which a person wants to decide. If its approval period has passed, that takes effect
/// even if the periodic check has not processed the action yet.
async fn enter_to_decide<'a>(
    c: &mut Conn,
    caller: &'a Caller,
    id: ActionId,
    arguments_hash: &str,
) -> Result<Access<'a>, ToolsError> {
    caller.require_session()?;
    let access = enter(c, caller, id).await?;
    lock_workspace(c, access.actor.workspace.0).await?;
    expire_one(c, id, access.audience).await?;
    let access = Access {
        action: reread(c, id).await?,
        ..access
    };
    if access.action.arguments_hash != arguments_hash {
        return Err(ToolsError::ArgumentsChanged);
    }
    Ok(access)
}

async fn record(
    c: &mut Conn,
    access: &Access<'_>,
    action: AuditAction,
    data: serde_json::Value,
) -> Result<(), DbError> {
    let target = access.action.id.to_string();
    auth::record_audit(c, &access.actor, action, target, data).await
}

/// Announces a decision, and wakes the task if it was the last pending one.
async fn conclude(
    c: &mut Conn,
    caller: &Caller,
    access: &Access<'_>,
) -> Result<ActionObject, ToolsError> {
    let id = access.action.id;
    actions::announce(c, id, EventType::ActionUpdated, access.audience).await?;
    wake(c, &access.action, access.audience).await?;
    get(c, caller, id).await
}

/// Actions that wait for a person, and that person's active permissions.
#[derive(Debug)]
pub struct Waiting {
    /// Actions that the person can approve, deny, or settle, oldest first.
    pub actions: Vec<ActionObject>,
    /// The person's own permissions that have not expired.
    pub grants: Vec<GrantObject>,
}

/// Actions that the caller can approve, deny, or settle, and the caller's active permissions.
///
/// # Errors
/// Only database errors.
pub async fn waiting(
    c: &mut Conn,
    caller: &Caller,
    actor: &Actor<'_>,
) -> Result<Waiting, ToolsError> {
    let decider = Decider {
        workspace: actor.workspace,
        user: actor.user,
        is_admin: actor.scopes.has(Scope::WorkspaceAdmin),
    };
    let open = actions::list_open(c, decider, OPEN_MAX).await?;
    let mut own = enter_all(c, caller, open).await?;
    own.retain(|access| {
        let mut needs = access.action.needs.iter();
        access.action.state == ActionState::Unknown
            || needs.any(|need| need.by.is_none() && access.fills(need))
    });
    Ok(Waiting {
        actions: objects_of(c, &own).await?,
        grants: grants::list(c, actor.workspace, actor.user).await?,
    })
}

/// Revokes one of the caller's permissions.
///
/// # Errors
/// `SessionRequired`, `GrantNotFound`.
pub async fn revoke(c: &mut Conn, caller: &Caller, id: GrantId) -> Result<(), ToolsError> {
    caller.require_session()?;
    let owner = grants::find_owner(c, id).await?;
    let (workspace, user) = owner.ok_or(ToolsError::GrantNotFound)?;
    let actor = caller.enter(c, workspace).await.map_err(|e| match e {
        AuthError::WorkspaceNotFound => ToolsError::GrantNotFound,
        other => other.into(),
    })?;
    if user != actor.user || !grants::delete(c, id).await? {
        return Err(ToolsError::GrantNotFound);
    }
    let data = serde_json::json!({});
    auth::record_audit(c, &actor, AuditAction::GrantDeleted, id.to_string(), data).await?;
    Ok(())
}

/// Ends the approval period of a waiting action if it has passed. After the first period, a second one begins in which admins can
/// decide as well; after the second one, the action expires.
async fn expire_one(c: &mut Conn, id: ActionId, audience: Audience) -> Result<(), DbError> {
    let Some(action) = actions::find(c, id).await? else {
        return Ok(());
    };
    let is_due = action.expires_at.is_some_and(|at| at <= now());
    if action.state != ActionState::Waiting || !is_due {
        return Ok(());
    }
    let default = u64::from(decide::TIMEOUT_S_DEFAULT);
    let term = Duration::from_secs(u64::try_from(action.timeout_s).unwrap_or(default));
    let is_changed = if action.is_extended {
        actions::expire(c, &action).await?
    } else {
        actions::extend(c, &action, now() + term).await?
    };
    if is_changed {
        actions::announce(c, id, EventType::ActionUpdated, audience).await?;
        wake(c, &action, audience).await?;
    }
    Ok(())
}

/// Wakes the task of an action whose state has changed, and announces the run that the task belongs to.
async fn wake(c: &mut Conn, action: &Action, audience: Audience) -> Result<(), DbError> {
    queue::wake(c, action.task_id, audience).await?;
    run::announce_run_of(c, action.task_id).await
}

/// Ends everything that can no longer be decided or completed: approval periods that have passed, actions whose arguments were
/// removed, running actions of ended tasks whose worker was lost, and parked tasks whose requester has lost access to the
/// conversation.
///
/// # Errors
/// Returns an error if the database cannot be read. Other failures are logged, and retried in the next check.
pub async fn end_due(db: &Db, hub: &Arc<Hub>) -> Result<(), DbError> {
    let mut c = db.read().await?;
    let due = actions::list_expired(&mut c, EXPIRED_AT_ONCE).await?;
    let orphans = actions::list_orphans(&mut c, now() - ORPHANED_AFTER, EXPIRED_AT_ONCE).await?;
    let left = queue::list_left(&mut c, EXPIRED_AT_ONCE).await?;
    drop(c);
    for action in due.into_iter().chain(orphans) {
        let id = action.id;
        if let Err(e) = end_action(db, action).await {
            tracing::warn!(error = %e, action.id = %id, "could not end an action; retrying");
        }
    }
    for task in left {
        let id = task.id;
        if let Err(e) = stop_left(db, hub, task).await {
            tracing::warn!(error = %e, task.id = %id, "could not stop a parked task; retrying");
        }
    }
    Ok(())
}

async fn end_action(db: &Db, action: Action) -> Result<(), DbError> {
    let Some(channel) = action.channel_id else {
        return Ok(());
    };
    db.write(action.workspace_id.0, async move |c: &mut Conn| {
        lock_workspace(c, action.workspace_id.0).await?;
        let audience = queue::audience_of(c, channel).await?;
        if action.state == ActionState::Waiting {
            let is_removed = texts::find(c, action.arguments_id).await?.is_none();
            if !is_removed || !actions::cancel(c, &action, ToolErrorCode::NotFound).await? {
                return expire_one(c, action.id, audience).await;
            }
            actions::announce(c, action.id, EventType::ActionUpdated, audience).await?;
            return wake(c, &action, audience).await;
        }
        let ending = if action.effect == Effect::Read {
            Ending::failed(ToolErrorCode::Cancelled)
        } else {
            Ending::unknown(None)
        };
        if actions::store_end(c, action.id, action.lease_token, ending).await? {
            actions::announce(c, action.id, EventType::ActionUpdated, audience).await?;
        }
        Ok::<_, DbError>(())
    })
    .await
}

async fn stop_left(db: &Db, hub: &Arc<Hub>, task: Task) -> Result<(), DbError> {
    let Some(channel) = task.channel_id else {
        return Ok(());
    };
    let hub = Arc::clone(hub);
    db.write(task.workspace_id.0, async move |c: &mut Conn| {
        lock_workspace(c, task.workspace_id.0).await?;
        let audience = queue::audience_of(c, channel).await?;
        remove::stop(c, &task, &hub, audience).await?;
        Ok::<_, DbError>(())
    })
    .await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_an_option_or_fits_the_form() {
        let options = json!({"options": [{"id": "a"}, {"id": "b"}], "schema": null});
        let form = json!({"options": [], "schema": {
            "properties": {
                "name": {"type": "string"}, "count": {"type": "integer"}, "color": {"type": "string", "enum": ["red", "blue"]},
                "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}]},
            },
            "required": ["name"],
        }});
        for (question, value, expected) in [
            (&options, json!("a"), true),
            (&options, json!("c"), false),
            (&options, json!(null), false),
            (&options, json!({"id": "a"}), false),
            (&form, json!({"name": "x"}), true),
            (
                &form,
                json!({"name": "x", "count": 3, "color": "red", "size": "s"}),
                true,
            ),
            (&form, json!({"count": 3}), false),
            (&form, json!({"name": "x", "count": "3"}), false),
            (&form, json!({"name": "x", "color": "green"}), false),
            (&form, json!({"name": "x", "size": "l"}), false),
            (&form, json!({"name": "x", "other": 1}), false),
            (&form, json!({"name": "x".repeat(40_000)}), false),
            (&form, json!("a"), false),
        ] {
            let checked = check_answer(&question.to_string(), &value);
            assert_eq!(checked.is_ok(), expected, "{value}");
        }
    }
}
