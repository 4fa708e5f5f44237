//! Generated approvals: no call starts unless its approvals are valid, unused, not expired, and bound to its arguments.

use std::time::Duration;

use openvibe::{
    agents::{
        policy::Policy,
        profiles::{ApprovalRule, Approver, Trust},
    },
    auth::Caller,
    db::{Conn, DbError, Engine, now},
    ids::{ActionId, TaskId, UserId},
    tasks::actions::{
        self, Action, ActionSource, ActionState, Decider, Ending, GrantedBy, Need, NeededPerson,
        TaintKind,
    },
    tools::{
        approvals::{self, Approval, ApprovalTerm, Denial},
        grants,
        requests::{Requests, Start},
        taint,
    },
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::json;
use uuid::Uuid;

use super::{Bench, bench, call, rolled_back, round};
use crate::support::Person;

/// Number of simulated decisions (button presses). There are fewer on `PostgreSQL`, where round trips take longer.
const PRESSES: u64 = 10_000;
const PRESSES_POSTGRES: u64 = 2_500;
const STEPS_MAX: u64 = 14;

/// The people of a case; Bo is the requester.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Ada,
    Bo,
    Cat,
    Vera,
}

const PEOPLE: [Who; 4] = [Who::Ada, Who::Bo, Who::Cat, Who::Vera];

#[derive(Clone)]
struct World {
    callers: Vec<Caller>,
    /// Bo's key with `chat:read` and `chat:write`.
    key: Caller,
    rules: Vec<(Requests, Requests)>,
    bo: UserId,
    cat: UserId,
}

impl World {
    fn caller(&self, who: Who) -> &Caller {
        &self.callers[who as usize]
    }

    fn user(&self, who: Who) -> UserId {
        self.caller(who).user
    }

    /// Checks whether the rules allow a person to give an approval.
    fn may_fill(&self, user: UserId, need: &Need, is_extended: bool) -> bool {
        let is = |who: Who| user == self.user(who);
        let is_asked = match need.who {
            NeededPerson::Requester => is(Who::Bo),
            NeededPerson::Admin => is(Who::Ada),
            NeededPerson::User => need.user_id == Some(user) && is(Who::Cat),
            NeededPerson::AnyMember => !is(Who::Vera),
        };
        is_asked || (is_extended && is(Who::Ada))
    }
}

/// Changes of conditions on which an approval depends.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "any of them can occur together"
)]
struct Faults {
    /// Bo left the workspace.
    left: bool,
    /// The stored arguments have been changed.
    tampered: bool,
    /// A source of the arguments was deleted.
    removed: bool,
    /// The function's definition has changed.
    redefined: bool,
    /// The agent now needs an admin's approval, too.
    tightened: bool,
    /// The approval is older than ten minutes.
    aged: bool,
}

struct Case<'a> {
    world: &'a World,
    action: ActionId,
    faults: Faults,
    token: Uuid,
    presses: u64,
    starts: i64,
    trail: Vec<String>,
    wrong: Vec<String>,
}

impl Case<'_> {
    fn wrong(&mut self, text: &str) {
        self.wrong.push(format!("{text}: {:?}", self.trail));
    }

    async fn now(&self, c: &mut Conn) -> Result<Action, DbError> {
        Ok(actions::find(c, self.action).await?.unwrap())
    }

    async fn press(&mut self, c: &mut Conn, rng: &mut StdRng) -> Result<(), DbError> {
        self.presses += 1;
        let before = self.now(c).await?;
        let who = PEOPLE[rng.random_range(0..PEOPLE.len())];
        let is_right = rng.random_bool(0.85);
        let by_key = rng.random_bool(0.1);
        let is_for_hour = rng.random_bool(0.15);
        let approval = Approval {
            arguments_hash: if is_right {
                before.arguments_hash.clone()
            } else {
                "0".repeat(64)
            },
            term: is_for_hour.then_some(ApprovalTerm::Hour),
        };
        let caller = if by_key {
            &self.world.key
        } else {
            self.world.caller(who)
        };
        let (user, is_member) = (
            caller.user,
            !(self.faults.left && caller.user == self.world.bo),
        );
        let pressed = approvals::approve(c, caller, self.action, &approval).await;
        let after = self.now(c).await?;
        self.trail.push(format!(
            "{who:?} presses (right {is_right}, key {by_key}, hour {is_for_hour}): {:?}, {}",
            pressed.as_ref().map(|_| ()).map_err(ToString::to_string),
            after.state
        ));
        let is_due = before.expires_at.is_some_and(|at| at <= now());
        // Once the first approval period has passed, admins can approve even if the server has not processed its end yet.
        let is_extended = before.is_extended || is_due;
        let can_fill = before
            .needs
            .iter()
            .any(|need| need.by.is_none() && self.world.may_fill(user, need, is_extended));
        let is_legal = before.state == ActionState::Waiting
            && is_right
            && !by_key
            && is_member
            && can_fill
            && !(is_due && before.is_extended)
            && !self.faults.removed;
        let filled = |action: &Action| action.needs.iter().filter(|need| need.by.is_some()).count();
        match &pressed {
            Ok(_) if by_key || !is_right || !is_member => {
                self.wrong("an invalid press was accepted");
            }
            Ok(_) if !is_legal && filled(&after) > filled(&before) => {
                self.wrong("a press filled a need that was not the person's");
            }
            // Rejecting a permission for an hour also rejects the approval that comes with it.
            Err(_) if is_legal && !is_for_hour => self.wrong("a valid press was refused"),
            Err(_) if filled(&after) > filled(&before) => {
                self.wrong("a refused press filled a need");
            }
            _ => {}
        }
        Ok(())
    }

    async fn deny(&mut self, c: &mut Conn, rng: &mut StdRng) -> Result<(), DbError> {
        let before = self.now(c).await?;
        let who = PEOPLE[rng.random_range(0..PEOPLE.len())];
        let denial = Denial {
            arguments_hash: before.arguments_hash.clone(),
            note: None,
        };
        let denied = approvals::deny(c, self.world.caller(who), self.action, &denial).await;
        let after = self.now(c).await?;
        self.trail.push(format!("{who:?} denies: {}", after.state));
        let user = self.world.user(who);
        let is_due = before.expires_at.is_some_and(|at| at <= now());
        let is_extended = before.is_extended || is_due;
        let is_asked = |need: &Need| self.world.may_fill(user, need, is_extended);
        if denied.is_ok()
            && before.state == ActionState::Waiting
            && !before.needs.iter().any(is_asked)
        {
            self.wrong("somebody denied who was not asked");
        }
        Ok(())
    }

    /// Starts the action like a worker, if it can start.
    async fn start(&mut self, c: &mut Conn) -> Result<(), DbError> {
        let before = self.now(c).await?;
        let rules = &self.world.rules[usize::from(self.faults.tightened)];
        let redefined = self.faults.redefined;
        let given = if redefined { &rules.1 } else { &rules.0 };
        let started = given.start(c, &before, self.token).await?;
        let is_started = matches!(started, Start::Started);
        self.trail.push(format!(
            "start from {}: {is_started}, {:?}",
            before.state, self.faults
        ));
        let needs = &before.needs;
        let are_filled = needs.iter().all(|need| {
            need.by
                .is_some_and(|by| self.world.may_fill(by, need, before.is_extended))
        });
        let ada = self.world.user(Who::Ada);
        let stands_in = |need: &Need| before.is_extended && need.by == Some(ada);
        let has_admin = needs
            .iter()
            .any(|need| need.who == NeededPerson::Admin || stands_in(need));
        let has_fault = self.faults.left
            || self.faults.tampered
            || self.faults.removed
            || redefined
            || self.faults.aged
            || (self.faults.tightened && !has_admin);
        let is_granted = before.state == ActionState::Approved
            && before.granted_by == Some(GrantedBy::Person)
            && are_filled;
        if is_started {
            self.starts += 1;
            if self.starts > 1 {
                self.wrong("a call started twice");
            }
            if !is_granted {
                self.wrong("a call started without its approvals");
            }
            if has_fault {
                self.wrong("a call started although a condition no longer holds");
            }
        } else if is_granted && !has_fault {
            self.wrong("an approved call did not start");
        }
        Ok(())
    }

    /// Simulates that the worker is killed and the next one finds the action.
    async fn kill(&mut self, c: &mut Conn) -> Result<(), DbError> {
        let before = self.now(c).await?;
        let lost = std::mem::replace(&mut self.token, Uuid::now_v7());
        if before.state != ActionState::Running {
            return Ok(());
        }
        if actions::restart(c, &before, self.token, 3).await? {
            self.wrong("a write ran again after a crash");
        }
        actions::store_end(c, self.action, before.lease_token, Ending::unknown(None)).await?;
        // Simulates that the first worker was only paused and now stores the end of its call.
        if actions::store_end(c, self.action, Some(lost), Ending::done()).await? {
            self.wrong("a lost worker stored a result");
        }
        self.trail.push("the worker is lost".to_owned());
        Ok(())
    }

    /// Changes a condition between two decisions.
    async fn change(&mut self, c: &mut Conn, what: u32) -> Result<(), DbError> {
        let action = self.now(c).await?;
        match what {
            0 => {
                self.faults.left = true;
                c.q("delete from members where user_id = $1")
                    .bind(self.world.bo)
                    .run()
                    .await?;
            }
            1 => {
                self.faults.tampered = true;
                c.q("update context_texts set text = $2 where id = $1 and hash is not null")
                    .bind(action.arguments_id)
                    .bind(r#"{"to":"eve@example.org"}"#.to_owned())
                    .run()
                    .await?;
            }
            2 => {
                self.faults.removed = true;
                c.q("update context_texts set text = $2, hash = null where id = $1")
                    .bind(action.arguments_id)
                    .bind("(deleted)".to_owned())
                    .run()
                    .await?;
            }
            3 => self.faults.redefined = true,
            4 => self.faults.tightened = true,
            5 => {
                self.faults.aged |= action.state == ActionState::Approved;
                c.q("update actions set granted_at = $2 where id = $1 and state = 'approved'")
                    .bind(self.action)
                    .bind(now() - Duration::from_mins(11))
                    .run()
                    .await?;
            }
            _ => {
                c.q("update actions set expires_at = $2 where id = $1 and state = 'waiting'")
                    .bind(self.action)
                    .bind(now() - Duration::from_secs(1))
                    .run()
                    .await?;
            }
        }
        self.trail.push(format!("change {what}"));
        Ok(())
    }
}

/// Runs one case. Returns the number of decisions, and what went wrong.
async fn play(c: &mut Conn, world: &World, seed: u64) -> Result<(u64, Vec<String>), DbError> {
    let mut rng = StdRng::seed_from_u64(seed);
    let rules = rng.random_range(2..world.rules.len());
    let mut world = world.clone();
    // Rules of this case, and the rules after an admin has tightened them.
    world.rules = vec![world.rules[rules].clone(), world.rules[1].clone()];
    let arguments = json!({"to": "ada@example.org", "n": seed % 1_000});
    let calls = [call("mail__send", &arguments)];
    let stored = round(c, &world.rules[0].0, 1, &calls).await?;
    let mut case = Case {
        action: stored[0].id,
        world: &world,
        faults: Faults::default(),
        token: Uuid::now_v7(),
        presses: 0,
        starts: 0,
        trail: vec![format!("seed {seed}, rules {rules}")],
        wrong: Vec::new(),
    };
    if stored[0].state != ActionState::Waiting {
        case.wrong("a write outside did not ask");
    }
    for _ in 0..rng.random_range(4..STEPS_MAX) {
        match rng.random_range(0..20) {
            0 => case.deny(c, &mut rng).await?,
            1 | 2 => {
                let what = rng.random_range(0..8);
                case.change(c, what).await?;
            }
            3..=6 => case.start(c).await?,
            7 => case.kill(c).await?,
            _ => case.press(c, &mut rng).await?,
        }
    }
    case.start(c).await?;
    let spent: i64 = c
        .q("select count(*) from audit_log where action = 'action.started' and target = $1")
        .bind(case.action.to_string())
        .value()
        .await?;
    if spent != case.starts {
        case.wrong("not every call spent one approval");
    }
    Ok((case.presses, case.wrong))
}

/// Sets up the people and the agent's rules. In `rules`, 0 is not used, 1 applies after an admin has tightened the rules, and
/// each case starts with one of the others.
async fn world(b: &Bench, cat: &Person, vera: &Person) -> World {
    let rule = |requires: Approver, user_id: Option<UserId>| ApprovalRule {
        action: "mcp:mail.*".to_owned(),
        requires,
        user_id,
        timeout_s: None,
    };
    let cats: UserId = cat.id.parse().unwrap();
    let rules = |rules: Vec<ApprovalRule>| Trust {
        approval_rules: rules,
        ..Trust::default()
    };
    let escalated = Trust {
        escalate: vec!["mcp:mail.send".to_owned()],
        ..Trust::default()
    };
    let trusts = [
        Trust::default(),
        escalated.clone(),
        Trust::default(),
        escalated,
        rules(vec![rule(Approver::Admin, None)]),
        rules(vec![rule(Approver::SpecificUser, Some(cats))]),
        rules(vec![rule(Approver::AnyMember, None)]),
        rules(vec![
            rule(Approver::AnyMember, None),
            rule(Approver::SpecificUser, Some(cats)),
        ]),
    ];
    let policy = Policy::default();
    let mut all = Vec::new();
    for trust in trusts {
        let with = |requests: Requests| Requests {
            trust: Some(trust.clone()),
            ..requests
        };
        let first = with(b.requests(&policy, 1).await);
        all.push((first, with(b.requests(&policy, 2).await)));
    }
    let mut callers = Vec::new();
    for person in [&b.t.ada, &b.t.bo, cat, vera] {
        callers.push(b.caller(person).await);
    }
    let (key, _) = b.t.bo.make_key(&["chat:read", "chat:write"]).await;
    World {
        callers,
        key: b.caller(&key).await,
        rules: all,
        bo: b.t.bo.id.parse().unwrap(),
        cat: cats,
    }
}

#[tokio::test]
async fn no_generated_press_starts_a_call_without_its_approvals() {
    let b = bench().await;
    let cat = b.t.app.join(&b.t.ada, "Cat", "member").await;
    let vera = b.t.app.join(&b.t.ada, "Vera", "viewer").await;
    let world = world(&b, &cat, &vera).await;
    assert_eq!(world.user(Who::Cat), world.cat);
    let wanted = match b.db().engine() {
        Engine::Sqlite => PRESSES,
        Engine::Postgres => PRESSES_POSTGRES,
    };
    let (mut presses, mut seed) = (0, 0);
    while presses < wanted {
        let world = world.clone();
        let case = async move |c: &mut Conn| play(c, &world, seed).await;
        let (more, wrong) = rolled_back(b.db(), b.task.workspace, case).await;
        assert_eq!(wrong, Vec::<String>::new());
        presses += more;
        seed += 1;
    }
}

#[tokio::test]
async fn a_call_whose_arguments_were_removed_can_be_denied_but_not_approved() {
    let b = bench().await;
    let requests = b.requests(&Policy::default(), 1).await;
    let bo = b.caller(&b.t.bo).await;
    let case = async move |c: &mut Conn| {
        let stored = round(c, &requests, 1, &[call("mail__send", &json!({}))]).await?;
        let action = &stored[0];
        c.q("update context_texts set text = $2, hash = null where id = $1")
            .bind(action.arguments_id)
            .bind("(deleted)".to_owned())
            .run()
            .await?;
        let approval = Approval {
            arguments_hash: action.arguments_hash.clone(),
            term: None,
        };
        let approved = approvals::approve(c, &bo, action.id, &approval).await;
        let denial = Denial {
            arguments_hash: action.arguments_hash.clone(),
            note: None,
        };
        let denied = approvals::deny(c, &bo, action.id, &denial).await;
        Ok((approved.is_ok(), denied.is_ok()))
    };
    let found = rolled_back(b.db(), b.task.workspace, case).await;
    assert_eq!(found, (false, true));
}

#[tokio::test]
async fn open_actions_are_listed_only_for_those_who_are_asked() {
    let b = bench().await;
    let cat = b.t.app.join(&b.t.ada, "Cat", "member").await;
    let world = world(&b, &cat, &cat).await;
    // Indexes into `rules`: approval by the requester, also by an admin, also by Cat, and by any member.
    for (rules, expected) in [
        (2, [false, true, false]),
        (4, [true, true, false]),
        (5, [false, true, true]),
        (6, [true, true, true]),
    ] {
        let world = world.clone();
        let case = async move |c: &mut Conn| {
            let requests = &world.rules[rules].0;
            round(c, requests, 1, &[call("mail__send", &json!({}))]).await?;
            let mut found = Vec::new();
            for extended in [false, true] {
                for who in [Who::Ada, Who::Bo, Who::Cat] {
                    let decider = Decider {
                        workspace: requests.task.workspace,
                        user: world.user(who),
                        is_admin: who == Who::Ada,
                    };
                    let open = actions::list_open(c, decider, 10).await?;
                    found.push(open.len() == 1);
                }
                if !extended {
                    c.q("update actions set is_extended = TRUE where state = 'waiting'")
                        .run()
                        .await?;
                }
            }
            Ok(found)
        };
        let found = rolled_back(b.db(), b.task.workspace, case).await;
        assert_eq!(found[..3], expected, "{rules}");
        let later = [true, expected[1], expected[2]];
        assert_eq!(found[3..], later, "{rules}, once admins stand in");
    }
}

#[tokio::test]
async fn an_approval_does_not_outlive_the_rights_of_its_person_or_the_agent() {
    let b = bench().await;
    let eve = b.t.app.join(&b.t.ada, "Eve", "admin").await;
    let requests = Requests {
        trust: Some(Trust {
            escalate: vec!["mcp:mail.send".to_owned()],
            ..Trust::default()
        }),
        ..b.requests(&Policy::default(), 1).await
    };
    let people = [b.caller(&b.t.bo).await, b.caller(&eve).await];
    let eve: UserId = eve.id.parse().unwrap();
    for (change, of, expected) in [
        (
            "update members set role = role where user_id = $1",
            eve.0,
            ActionState::Running,
        ),
        (
            "update members set role = 'member' where user_id = $1",
            eve.0,
            ActionState::Cancelled,
        ),
        (
            "delete from members where user_id = $1",
            eve.0,
            ActionState::Cancelled,
        ),
        (
            "update agents set status = 'archived' where id = $1",
            b.task.agent.0,
            ActionState::Cancelled,
        ),
    ] {
        let (requests, people) = (requests.clone(), people.clone());
        let case = async move |c: &mut Conn| {
            let stored = round(c, &requests, 1, &[call("mail__send", &json!({}))]).await?;
            let approval = Approval {
                arguments_hash: stored[0].arguments_hash.clone(),
                term: None,
            };
            for person in &people {
                let pressed = approvals::approve(c, person, stored[0].id, &approval).await;
                assert!(pressed.is_ok(), "{pressed:?}");
            }
            c.q(change).bind(of).run().await?;
            let action = actions::find(c, stored[0].id).await?.unwrap();
            requests.start(c, &action, Uuid::now_v7()).await?;
            Ok(actions::find(c, stored[0].id).await?.unwrap().state)
        };
        let state = rolled_back(b.db(), b.task.workspace, case).await;
        assert_eq!(state, expected, "{change}");
    }
}

#[tokio::test]
async fn a_permission_for_an_hour_is_spent_once_for_each_call() {
    let b = bench().await;
    let requests = b.requests(&Policy::default(), 1).await;
    let bo = b.caller(&b.t.bo).await;
    let case = async move |c: &mut Conn| {
        let first = round(c, &requests, 1, &[call("mail__send", &json!({"n": 0}))]).await?;
        let approval = Approval {
            arguments_hash: first[0].arguments_hash.clone(),
            term: Some(ApprovalTerm::Hour),
        };
        let pressed = approvals::approve(c, &bo, first[0].id, &approval).await;
        let (mut granted, mut started) = (vec![pressed.is_ok()], Vec::new());
        let mut waiting = 0;
        for number in 2..5 {
            let calls: Vec<_> = (0..8)
                .map(|n| call("mail__send", &json!({"n": number * 10 + n})))
                .collect();
            for action in round(c, &requests, number, &calls).await? {
                granted.push(action.granted_by == Some(GrantedBy::Grant));
                waiting += usize::from(action.state == ActionState::Waiting);
                let start = requests.start(c, &action, Uuid::now_v7()).await?;
                started.push(matches!(start, Start::Started));
            }
        }
        let (workspace, user) = (requests.task.workspace, requests.task.requester);
        let left = grants::list(c, workspace, user).await?.len();
        Ok((granted, started, waiting, left))
    };
    let (granted, started, waiting, left) = rolled_back(b.db(), b.task.workspace, case).await;
    // With the call on the approval card, for which the permission was given, these are 20 calls. The rest of the third round asks.
    let expected: Vec<bool> = (0..25).map(|n| n < 20).collect();
    assert_eq!(granted, expected);
    assert_eq!(started, expected[1..]);
    assert_eq!(waiting, 5);
    assert_eq!(left, 0, "a permission without calls is over");
}

#[tokio::test]
async fn a_permission_for_an_hour_covers_sources_and_not_equal_labels() {
    let b = bench().await;
    let requests = b.requests(&Policy::default(), 1).await;
    let bo = b.caller(&b.t.bo).await;
    let case = async move |c: &mut Conn| {
        let plan = || ActionSource::new(TaintKind::File, Uuid::now_v7(), "plan.txt");
        let task = requests.task.task;
        taint::add(c, task, &[plan()]).await?;
        let send = |n: i64| [call("mail__send", &json!({"n": n}))];
        let first = round(c, &requests, 1, &send(1)).await?;
        let approval = Approval {
            arguments_hash: first[0].arguments_hash.clone(),
            term: Some(ApprovalTerm::Hour),
        };
        let pressed = approvals::approve(c, &bo, first[0].id, &approval).await;
        assert!(pressed.is_ok(), "{pressed:?}");
        let second = round(c, &requests, 2, &send(2)).await?;
        taint::add(c, task, &[plan()]).await?;
        let third = round(c, &requests, 3, &send(3)).await?;
        Ok([second[0].state, third[0].state])
    };
    let states = rolled_back(b.db(), b.task.workspace, case).await;
    assert_eq!(states, [ActionState::Approved, ActionState::Waiting]);
}

#[tokio::test]
async fn a_retry_of_a_retry_names_the_earlier_call_also_of_delegated_work() {
    let b = bench().await;
    let mut tasks = Vec::new();
    for _ in 0..5 {
        let task = b.t.bo.ask(&b.thread, "@sage hello").await;
        b.t.bo.completed(&task).await;
        tasks.push(task.parse::<TaskId>().unwrap());
    }
    let requests = b.requests(&Policy::default(), 1).await;
    let case = async move |c: &mut Conn| {
        let &[first, second, third, below_first, below_third] = &tasks[..] else {
            panic!("{tasks:?}")
        };
        for (task, earlier) in [(second, first), (third, second)] {
            c.q("update tasks set retry_of = $2 where id = $1")
                .bind(task)
                .bind(earlier)
                .run()
                .await?;
        }
        for (task, parent) in [(below_first, first), (below_third, third)] {
            c.q("update tasks set parent_task_id = $2 where id = $1")
                .bind(task)
                .bind(parent)
                .run()
                .await?;
        }
        let of = |task| {
            let mut requests = requests.clone();
            requests.task.task = task;
            requests
        };
        let calls = [call("mail__send", &json!({}))];
        let done = round(c, &of(below_first), 1, &calls).await?[0].id;
        c.q("update actions set state = 'done' where id = $1")
            .bind(done)
            .run()
            .await?;
        let mut repeats = Vec::new();
        for task in [below_first, second, third, below_third] {
            let stored = round(c, &of(task), 2, &calls).await?;
            let repeated = stored[0].repeats.clone();
            repeats.push(repeated.map(|repeated| repeated.0.action_id));
        }
        Ok((repeats, done))
    };
    let (repeats, done) = rolled_back(b.db(), b.task.workspace, case).await;
    assert_eq!(repeats, [None, Some(done), Some(done), Some(done)]);
}

#[tokio::test]
async fn code_is_never_allowed_for_an_hour() {
    let b = bench().await;
    let requests = b.requests(&Policy::default(), 1).await;
    let bo = b.caller(&b.t.bo).await;
    let case = async move |c: &mut Conn| {
        let stored = round(
            c,
            &requests,
            1,
            &[call(
                "run_code",
                &json!({"language": "python", "code": "1"}),
            )],
        )
        .await?;
        let approval = Approval {
            arguments_hash: stored[0].arguments_hash.clone(),
            term: Some(ApprovalTerm::Hour),
        };
        let pressed = approvals::approve(c, &bo, stored[0].id, &approval).await;
        let after = actions::find(c, stored[0].id).await?.unwrap();
        Ok((pressed.is_ok(), after.state))
    };
    let found = rolled_back(b.db(), b.task.workspace, case).await;
    assert_eq!(found, (false, ActionState::Waiting));
}
