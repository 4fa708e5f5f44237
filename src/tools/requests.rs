//! Turns the calls of a round into actions. The decision on each call is made in the transaction that stores it, and checked again
//! when the call starts.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{
    convert,
    decide::{self, Decision, Question, Rules},
    function::{DELEGATE, ToolFunction},
    grants,
    hash::{self, BadArguments, HashedCall},
    output::fault_text,
    rights,
    runner::{Offer, ToolTask, Toolbox},
    schema, taint,
};
use crate::{
    agents::{
        policy,
        profiles::{self, Trust},
    },
    auth::{self, AuditAction, Role},
    chat::access,
    db::{Conn, DbError, dialect::hexadecimal_ids, is_in_visible_channel, now},
    ids::{ActionId, UserId},
    mcp::Effect,
    model::ToolCall,
    realtime::{Audience, EventType},
    registry, sql_with_ids,
    tasks::{
        actions::{
            self, Action, ActionSource, ActionState, Ending, GrantedBy, Need, NeededPerson,
            NewAction, approval, texts,
        },
        queue,
    },
    tool_fault::{ToolErrorCode, ToolFault},
};

/// Maximum number of calls in a round, and in a task.
pub const CALLS_IN_ROUND_MAX: usize = 8;
pub const CALLS_MAX: i64 = 40;
/// Maximum number of identical calls of a task that run. Additional ones fail.
pub const EQUAL_CALLS_MAX: i64 = 2;
/// Maximum length of a function's name, and of the ID of a call.
const NAME_CHARS_MAX: usize = 64;
/// Maximum number of tasks in a workspace that wait for approvals.
const PARKED_MAX: i64 = 200;
/// Maximum time between the approval of a call, or the wake-up of its task, and its start.
const STARTS_WITHIN: std::time::Duration = std::time::Duration::from_mins(10);

/// Maximum number of times that a read is started, including restarts after its worker was lost.
const READ_RUNS_MAX: i64 = 3;

/// Data for the decisions on a task's calls.
#[derive(Clone)]
pub struct Requests {
    pub toolbox: Toolbox,
    pub task: ToolTask,
    pub offer: Offer,
    /// Lists and rules of the agent.
    pub trust: Option<Trust>,
    pub audience: Audience,
}

/// Settings on which the decision about a call depends.
pub struct CallRules<'a> {
    pub toolbox: &'a Toolbox,
    pub task: &'a ToolTask,
    pub offer: &'a Offer,
    /// Lists and rules of the agent.
    pub trust: Option<&'a Trust>,
    pub policy: &'a policy::Policy,
}

impl CallRules<'_> {
    /// Decides on a call of an offered function by a task that has seen these sources.
    pub fn decide(
        &self,
        seen: &[ActionSource],
        function: &ToolFunction,
        arguments: &Map<String, Value>,
    ) -> Decision {
        let policy = self.policy;
        if function.kind.is_some_and(|kind| !policy.allows(kind)) {
            return Decision::NotOffered;
        }
        let rules = Rules {
            level: policy.trust_level,
            rules: &policy.approval_rules,
            trust: self.trust,
        };
        let target = || self.toolbox.target(self.offer, function.name(), arguments);
        let seen = taint::seen(seen, target, self.task, &policy.trusted_domains);
        decide::decide(function, &rules, seen)
    }
}

/// Initial state of a call.
struct Begin {
    state: ActionState,
    needs: Vec<Need>,
    granted_by: Option<GrantedBy>,
    is_grantable: bool,
    grant: Option<uuid::Uuid>,
    timeout_s: u32,
    host: Option<String>,
    fault: Option<ToolFault>,
}

impl Begin {
    fn granted(by: GrantedBy) -> Self {
        Self {
            state: ActionState::Approved,
            needs: Vec::new(),
            granted_by: Some(by),
            is_grantable: false,
            grant: None,
            timeout_s: decide::TIMEOUT_S_DEFAULT,
            host: None,
            fault: None,
        }
    }

    fn failed(fault: ToolFault) -> Self {
        Self {
            state: ActionState::Failed,
            granted_by: None,
            fault: Some(fault),
            ..Self::granted(GrantedBy::Policy)
        }
    }
}

/// A call with its canonical arguments, or with the model's text if that is not JSON.
pub struct ParsedCall {
    pub arguments: Result<Map<String, Value>, BadArguments>,
    pub text: String,
}

impl ParsedCall {
    /// Parses the arguments, and converts them by the schema of the function.
    pub fn of(call: &ToolCall, function: Option<&ToolFunction>) -> Self {
        let schema = function.and_then(|function| function.definition.parameters.as_ref());
        let read = hash::parse_arguments(&call.arguments).and_then(|(mut arguments, _)| {
            if let Some(schema) = schema {
                convert::convert(schema, &mut arguments);
            }
            let text = hash::canonical_arguments(&arguments)?;
            Ok((arguments, text))
        });
        match read {
            Ok((arguments, text)) => Self {
                arguments: Ok(arguments),
                text,
            },
            Err(e) => {
                let end = call
                    .arguments
                    .floor_char_boundary(hash::ARGUMENTS_BYTES_MAX);
                Self {
                    arguments: Err(e),
                    text: call.arguments[..end].replace('\0', ""),
                }
            }
        }
    }
}

/// Facts on which the decisions on all calls of a round depend.
struct RoundFacts {
    policy: policy::Policy,
    /// Sources that the task has seen.
    seen: Vec<ActionSource>,
    /// Number of calls in earlier rounds.
    before: i64,
    has_rights: bool,
}

/// A call of a round.
struct RoundCall<'a> {
    round: i64,
    /// Number of the call in the round, starting at 1.
    number: i64,
    call: &'a ToolCall,
    parsed: ParsedCall,
    /// Name in its stored form.
    name: String,
    /// The function; `None` if it was not offered.
    function: Option<&'a ToolFunction>,
    call_hash: String,
}

/// Stored form of a function name or call ID, restricted so that a model cannot store arbitrary text in it.
fn stored_name(name: &str) -> String {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let kept = name.chars().map(|c| if is_kept(c) { c } else { '_' });
    kept.take(NAME_CHARS_MAX).collect()
}

/// Result of an attempt to start an action.
pub enum Start {
    Started,
    /// The action can no longer start, and has ended.
    Ended,
    /// The action is not in the expected state and must be read again.
    Changed,
}

impl Requests {
    /// Stores the calls of a round, with a decision on each. The caller must hold the lease and have stored the prompt.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn store(&self, c: &mut Conn, round: i64, calls: &[ToolCall]) -> Result<(), DbError> {
        let facts = RoundFacts {
            policy: policy::find(c, self.task.workspace).await?,
            seen: taint::list(c, self.task.task).await?,
            before: actions::call_count(c, self.task.task).await?,
            has_rights: rights::find(c, &self.task).await?.is_some(),
        };
        for (at, call) in calls.iter().enumerate() {
            let function = self.offer.find_called(&call.name);
            let name = function.map_or_else(|| stored_name(&call.name), |f| f.name().to_owned());
            let parsed = ParsedCall::of(call, function);
            let tool = function.and_then(ToolFunction::tool);
            let call = RoundCall {
                round,
                number: i64::try_from(at + 1).unwrap_or(i64::MAX),
                call,
                call_hash: hash::call_hash(tool, &name, &parsed.text),
                parsed,
                name,
                function,
            };
            let begin = self.first_decision(c, &facts, &call).await?;
            self.store_call(c, &facts, call, begin).await?;
        }
        Ok(())
    }

    /// Makes the first decision on a call. The call fails if it exceeds a limit or the task has no rights.
    async fn first_decision(
        &self,
        c: &mut Conn,
        facts: &RoundFacts,
        call: &RoundCall<'_>,
    ) -> Result<Begin, DbError> {
        let is_one_too_many = usize::try_from(call.number).is_ok_and(|n| n > CALLS_IN_ROUND_MAX)
            || facts.before + call.number > CALLS_MAX;
        if is_one_too_many {
            return Ok(Begin::failed(ToolFault::of(ToolErrorCode::TooManyCalls)));
        }
        if call.name != DELEGATE
            && actions::count_equal(c, self.task.task, &call.call_hash).await? >= EQUAL_CALLS_MAX
        {
            return Ok(Begin::failed(ToolFault::of(ToolErrorCode::RepeatedCall)));
        }
        if !facts.has_rights {
            return Ok(Begin::failed(rights::refusal()));
        }
        self.begin(c, facts, call).await
    }

    /// Inserts the action of a call, with its arguments, and with the reason if it has failed.
    async fn store_call(
        &self,
        c: &mut Conn,
        facts: &RoundFacts,
        call: RoundCall<'_>,
        begin: Begin,
    ) -> Result<(), DbError> {
        let RoundCall {
            round,
            number,
            call,
            parsed,
            name,
            function,
            call_hash,
        } = call;
        let (workspace, task) = (self.task.workspace, self.task.task);
        let tool = function.and_then(ToolFunction::tool);
        let definition_hash = function.map_or("", |function| function.definition_hash.as_str());
        let hashed = HashedCall {
            task,
            round,
            call: number,
            tool,
            function: &name,
            definition_hash,
        };
        let arguments_hash = hash::arguments_hash(&hashed, &parsed.text);
        let id = ActionId::new();
        let arguments_id = texts::put(c, workspace, id, &parsed.text).await?;
        texts::cite_prompt(c, task, arguments_id).await?;
        let is_waiting = begin.state == ActionState::Waiting;
        let repeats = match begin.state {
            ActionState::Waiting => actions::find_equal(c, task, &call_hash).await?,
            _ => None,
        };
        let timeout = std::time::Duration::from_secs(begin.timeout_s.into());
        let new = NewAction {
            id,
            workspace,
            task,
            round,
            call: number,
            call_id: stored_name(&call.id),
            name: function.map_or_else(|| name.clone(), |f| f.action.clone()),
            title: function.map_or_else(|| name.clone(), |f| f.title.clone()),
            tool,
            host: begin.host,
            effect: function.map_or(Effect::Read, |function| function.effect),
            state: begin.state,
            definition_hash: definition_hash.to_owned(),
            arguments_hash,
            function: name,
            call_hash,
            arguments_id,
            sources: facts.seen.clone(),
            needs: begin.needs,
            granted_by: begin.granted_by,
            is_grantable: begin.is_grantable,
            grant: begin.grant,
            error: begin.fault.as_ref().map(|fault| fault.code),
            timeout_s: i64::from(begin.timeout_s),
            expires_at: is_waiting.then(|| now() + timeout),
            repeats,
        };
        actions::insert(c, &new).await?;
        self.store_fault(c, id, begin.fault).await?;
        actions::announce(c, id, EventType::ActionRequested, self.audience).await
    }

    /// Stores the message of a failed call as its result, unless the message is empty.
    async fn store_fault(
        &self,
        c: &mut Conn,
        id: ActionId,
        fault: Option<ToolFault>,
    ) -> Result<(), DbError> {
        if let Some(fault) = fault.filter(|fault| !fault.message.is_empty()) {
            let text = texts::put(c, self.task.workspace, id, &fault_text(&fault)).await?;
            actions::set_result(c, id, text).await?;
        }
        Ok(())
    }

    /// Starts the first `count` reads of a round that the policy permits. Must run in the transaction that made the decisions on
    /// them, so that the policy and the definitions are unchanged. The caller must hold the lease.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn start_reads(
        &self,
        c: &mut Conn,
        round: &mut [Action],
        count: usize,
        lease_token: uuid::Uuid,
    ) -> Result<(), DbError> {
        let is_granted = |action: &Action| {
            action.state == ActionState::Approved
                && action.effect == Effect::Read
                && action.granted_by == Some(GrantedBy::Policy)
                && action.function != DELEGATE
        };
        let (agent, requester) = (self.task.agent, self.task.requester);
        if !round.iter().any(is_granted) || !profiles::is_invocable_by(c, agent, requester).await? {
            return Ok(());
        }
        let granted = round.iter_mut().filter(|action| is_granted(action));
        for action in granted.take(count) {
            let definition_hash = action.definition_hash.clone();
            if actions::start(c, action, lease_token, &definition_hash).await? {
                action.state = ActionState::Running;
                action.lease_token = Some(lease_token);
            }
        }
        Ok(())
    }

    /// Makes the decision on a call that has not been repeated too often and is within the limits.
    async fn begin(
        &self,
        c: &mut Conn,
        facts: &RoundFacts,
        call: &RoundCall<'_>,
    ) -> Result<Begin, DbError> {
        let Some(function) = call.function else {
            return Ok(Begin::failed(ToolFault::of(ToolErrorCode::NoSuchFunction)));
        };
        let arguments = match &call.parsed.arguments {
            Ok(arguments) => arguments,
            Err(e) => {
                let fault = ToolFault::new(ToolErrorCode::BadArguments, e.to_string());
                return Ok(Begin::failed(fault));
            }
        };
        let checked = schema::check(function, arguments);
        let decision = self
            .rules(&facts.policy)
            .decide(&facts.seen, function, arguments);
        let question = match decision {
            Decision::NotOffered => {
                return Ok(Begin::failed(ToolFault::of(ToolErrorCode::NotAllowed)));
            }
            // The server's own functions check their arguments when they run.
            Decision::Granted if checked.is_ok() || function.server_function.is_none() => {
                return Ok(Begin::granted(GrantedBy::Policy));
            }
            Decision::Granted => None,
            Decision::Asks(question) => Some(question),
        };
        let question = match (checked, question) {
            (Ok(()), Some(question)) => question,
            // People are not asked to approve a call that cannot run.
            (Err(fault), _) => return Ok(Begin::failed(fault)),
            (Ok(()), None) => return Ok(Begin::granted(GrantedBy::Policy)),
        };
        let target = self.toolbox.target(&self.offer, &call.name, arguments);
        let host = target.map(|target| target.host);
        if question.is_for_requester() {
            let task = &self.task;
            let seen = &facts.seen;
            let grant = grants::take_use(c, task, function, host.as_deref(), seen).await?;
            if let Some(grant) = grant {
                return Ok(Begin {
                    grant: Some(grant.0),
                    host,
                    ..Begin::granted(GrantedBy::Grant)
                });
            }
        }
        if !self.has_approvers(c, &question).await? {
            return Ok(Begin::failed(ToolFault::of(ToolErrorCode::NoApprover)));
        }
        if queue::count_parked(c, self.task.workspace).await? >= PARKED_MAX {
            return Ok(Begin::failed(ToolFault::of(ToolErrorCode::RateLimited)));
        }
        Ok(Begin {
            state: ActionState::Waiting,
            is_grantable: function.is_grantable && question.is_for_requester(),
            needs: question.needs,
            host,
            granted_by: None,
            timeout_s: question.timeout_s,
            ..Begin::granted(GrantedBy::Person)
        })
    }

    fn rules<'a>(&'a self, policy: &'a policy::Policy) -> CallRules<'a> {
        CallRules {
            toolbox: &self.toolbox,
            task: &self.task,
            offer: &self.offer,
            trust: self.trust.as_ref(),
            policy,
        }
    }

    /// Checks whether every approval can be given by someone who can read the conversation and is not a viewer.
    async fn has_approvers(&self, c: &mut Conn, question: &Question) -> Result<bool, DbError> {
        let ToolTask {
            workspace,
            channel,
            requester,
            ..
        } = self.task;
        for need in &question.needs {
            if !approval::has_approver(c, workspace, channel, requester, need).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn approvers(&self, c: &mut Conn, action: &Action) -> Result<Approvers, DbError> {
        let sql = sql_with_ids!(
            c,
            "select m.user_id, m.role from members m where m.workspace_id = $1 and m.user_id in",
            2,
            concat!(
                "and ",
                is_in_visible_channel!("$3", "m.user_id"),
                " order by m.user_id"
            )
        );
        let people = action.needs.iter().filter_map(|need| need.by);
        let roles: Vec<(UserId, Role)> = c
            .q(sql)
            .bind(self.task.workspace)
            .bind(hexadecimal_ids(people.map(|person| person.0)))
            .bind(self.task.channel)
            .all()
            .await?;
        Ok(Approvers {
            requester: self.task.requester,
            roles: roles.into_iter().collect(),
            is_extended: action.is_extended,
        })
    }

    /// Starts an approved action in one conditional update, after checking again everything on which its approval depends. The caller
    /// must hold the lease.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn start(
        &self,
        c: &mut Conn,
        action: &Action,
        lease_token: uuid::Uuid,
    ) -> Result<Start, DbError> {
        if action.state != ActionState::Approved {
            return Ok(Start::Changed);
        }
        if let Some(cause) = self.obstacle(c, action).await? {
            let is_ended = if cause == ToolErrorCode::Expired {
                actions::expire(c, action).await?
            } else {
                actions::cancel(c, action, cause).await?
            };
            if is_ended {
                actions::announce(c, action.id, EventType::ActionUpdated, self.audience).await?;
            }
            return Ok(Start::Ended);
        }
        let definition_hash = self.offer.find(&action.function);
        let definition_hash =
            definition_hash.map_or("", |function| function.definition_hash.as_str());
        if !actions::start(c, action, lease_token, definition_hash).await? {
            return Ok(Start::Changed);
        }
        if action.granted_by != Some(GrantedBy::Policy) {
            let (workspace, requester) = (self.task.workspace, self.task.requester);
            let data = serde_json::json!({"function": action.function, "task_id": action.task_id, "granted_by": action.granted_by});
            let target = action.id.to_string();
            let action = AuditAction::ActionStarted;
            auth::record_audit_of(c, workspace, requester, action, target, data).await?;
        }
        Ok(Start::Started)
    }

    /// Takes over a running action of a lost worker. A read that the policy permits runs again, unless it has already been started
    /// `READ_RUNS_MAX` times, after everything on which the decision depends is checked again. A write gets the state `unknown`. The
    /// caller must hold the lease.
    ///
    /// # Errors
    /// Only database errors.
    pub async fn take_over(
        &self,
        c: &mut Conn,
        action: &Action,
        lease_token: uuid::Uuid,
    ) -> Result<(), DbError> {
        let is_read = action.effect == Effect::Read;
        let cause = if is_read && action.granted_by == Some(GrantedBy::Policy) {
            self.obstacle(c, action).await?
        } else {
            None
        };
        if cause.is_none() && actions::restart(c, action, lease_token, READ_RUNS_MAX).await? {
            return Ok(());
        }
        let ending = if is_read {
            Ending::failed(cause.unwrap_or(ToolErrorCode::ToolFailed))
        } else {
            Ending::unknown(None)
        };
        if actions::store_end(c, action.id, action.lease_token, ending).await? {
            actions::announce(c, action.id, EventType::ActionUpdated, self.audience).await?;
        }
        Ok(())
    }

    /// Reason why an approved action must not start; `None` if it can start.
    async fn obstacle(
        &self,
        c: &mut Conn,
        action: &Action,
    ) -> Result<Option<ToolErrorCode>, DbError> {
        let Some(function) = self.offer.find(&action.function) else {
            let is_changed = match action.tool_id {
                Some(tool) => registry::is_changed(c, tool, &action.definition_hash).await?,
                None => false,
            };
            return Ok(Some(if is_changed {
                ToolErrorCode::DefinitionChanged
            } else {
                ToolErrorCode::NotAllowed
            }));
        };
        if function.definition_hash != action.definition_hash {
            return Ok(Some(ToolErrorCode::DefinitionChanged));
        }
        // If the arguments were removed, the approval does not apply.
        let Some(text) = texts::find(c, action.arguments_id).await? else {
            return Ok(Some(ToolErrorCode::NotFound));
        };
        let Some(arguments) = approved_arguments(action, &text) else {
            return Ok(Some(ToolErrorCode::BadArguments));
        };
        let (agent, requester) = (self.task.agent, self.task.requester);
        let is_allowed = profiles::is_invocable_by(c, agent, requester).await?
            && rights::find(c, &self.task).await?.is_some()
            && (action.granted_by == Some(GrantedBy::Policy) || self.can_post(c).await?);
        if !is_allowed {
            return Ok(Some(ToolErrorCode::NotAllowed));
        }
        if !self.is_covered(c, action, function, &arguments).await? {
            return Ok(Some(ToolErrorCode::NotAllowed));
        }
        let is_over = is_too_late(action) || !has_grant(c, action).await?;
        Ok(is_over.then_some(ToolErrorCode::Expired))
    }

    /// Checks whether the requester can post in the conversation, which approved calls require: not if it is archived, for example.
    async fn can_post(&self, c: &mut Conn) -> Result<bool, DbError> {
        match queue::find_task(c, self.task.task).await? {
            Some(task) => access::requester_can_post(c, &task).await,
            None => Ok(false),
        }
    }

    /// Checks whether the approval of an action covers the approvals that its call needs now.
    async fn is_covered(
        &self,
        c: &mut Conn,
        action: &Action,
        function: &ToolFunction,
        arguments: &Map<String, Value>,
    ) -> Result<bool, DbError> {
        let policy = policy::find(c, self.task.workspace).await?;
        // Texts that the task read after it wrote the call cannot have changed the arguments.
        let (workspace, requester) = (self.task.workspace, self.task.requester);
        let known = action.sources.0.clone();
        let seen = taint::with_current_trust(c, workspace, requester, known).await?;
        // An author who has lost the role of an admin was not named when the call was approved.
        let mut counted = action.sources.0.iter().zip(&seen);
        let is_named = counted.all(|(before, now)| before.counts() || !now.counts());
        let decision = self.rules(&policy).decide(&seen, function, arguments);
        Ok(match (&decision, action.granted_by) {
            (Decision::NotOffered, _)
            | (_, None)
            | (Decision::Asks(_), Some(GrantedBy::Policy)) => false,
            (Decision::Granted, _) => true,
            (Decision::Asks(question), Some(GrantedBy::Grant)) => {
                is_named && question.is_for_requester()
            }
            (Decision::Asks(question), Some(GrantedBy::Person)) => {
                let approvers = self.approvers(c, action).await?;
                is_named && approvers.cover(&action.needs, &question.needs)
            }
        })
    }
}

/// Parses the arguments of an action; `None` if they are not the approved ones.
fn approved_arguments(action: &Action, text: &str) -> Option<Map<String, Value>> {
    let hashed = HashedCall {
        task: action.task_id,
        round: action.round,
        call: action.call,
        tool: action.tool_id,
        function: &action.function,
        definition_hash: &action.definition_hash,
    };
    let (arguments, _) = hash::parse_arguments(text).ok()?;
    (hash::arguments_hash(&hashed, text) == action.arguments_hash).then_some(arguments)
}

/// Checks whether the approval by a person or a grant is too old for the action to start.
fn is_too_late(action: &Action) -> bool {
    let is_fresh = || {
        action
            .granted_at
            .is_some_and(|at| at + STARTS_WITHIN >= now())
    };
    action.granted_by != Some(GrantedBy::Policy) && !is_fresh()
}

/// Checks whether the grant that permits an action, if there is one, is still valid.
async fn has_grant(c: &mut Conn, action: &Action) -> Result<bool, DbError> {
    if action.granted_by != Some(GrantedBy::Grant) {
        return Ok(true);
    }
    match action.grant_id {
        Some(id) => grants::is_valid(c, id).await,
        None => Ok(false),
    }
}

/// Current rights of the people who approved an action.
struct Approvers {
    requester: UserId,
    /// Roles of the approvers who can still read the conversation.
    roles: HashMap<UserId, Role>,
    /// True if admins can approve in place of anyone.
    is_extended: bool,
}

impl Approvers {
    /// Checks whether the given approvals that are still valid cover those that are needed now.
    fn cover(&self, given: &[Need], needed: &[Need]) -> bool {
        needed
            .iter()
            .all(|need| given.iter().any(|given| self.covers(given, need)))
    }

    fn covers(&self, given: &Need, needed: &Need) -> bool {
        let Some(by) = given.by else { return false };
        let Some(role) = self.roles.get(&by) else {
            return false;
        };
        if self.is_extended && *role == Role::Admin {
            return true;
        }
        if !role.approves() {
            return false;
        }
        let is_asked = match given.who {
            NeededPerson::Requester => by == self.requester,
            NeededPerson::Admin => *role == Role::Admin,
            NeededPerson::User => given.user_id == Some(by),
            NeededPerson::AnyMember => true,
        };
        is_asked && given.who == needed.who && given.user_id == needed.user_id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invented_function_or_id_cannot_carry_a_text() {
        assert_eq!(stored_name("jira__create_issue-2"), "jira__create_issue-2");
        assert_eq!(stored_name("Ada's salary: 9\0"), "Ada_s_salary__9_");
        assert_eq!(stored_name(&"x".repeat(100)).len(), NAME_CHARS_MAX);
    }

    #[test]
    fn approvals_cover_what_is_needed_now_only_if_each_was_given_and_holds() {
        use NeededPerson::{Admin, AnyMember, Requester};
        let (bo, ada, former) = (UserId::new(), UserId::new(), UserId::new());
        let given = |who: NeededPerson, by: UserId| Need {
            by: Some(by),
            ..Need::of(who)
        };
        let in_term = |is_extended| Approvers {
            requester: bo,
            roles: HashMap::from([(bo, Role::Member), (ada, Role::Admin)]),
            is_extended,
        };
        let needed = [Need::of(Requester), Need::of(Admin)];
        for (first, second, expected) in [
            (given(Requester, bo), given(Admin, ada), [true, true]),
            (given(Admin, ada), given(Requester, bo), [true, true]),
            (given(Requester, bo), Need::of(Admin), [false, false]),
            (given(Requester, bo), given(Admin, bo), [false, false]),
            (given(Requester, bo), given(Admin, former), [false, false]),
            (given(Requester, former), given(Admin, ada), [false, true]),
            (given(AnyMember, bo), given(Admin, ada), [false, true]),
        ] {
            let given = [first, second];
            let found = [false, true].map(|term| in_term(term).cover(&given, &needed));
            assert_eq!(found, expected, "{given:?}");
        }
        assert!(in_term(false).cover(&[given(Requester, bo)], &needed[..1]));
        assert!(!in_term(true).cover(&[given(AnyMember, bo)], &needed[..1]));
    }
}
