//! Decides who must approve a call. This module is pure: the same facts lead to the same decision, regardless of the
//! model's text.

use crate::{
    agents::{
        policy::TrustLevel,
        profiles::{ApprovalRule, Approver, Trust},
    },
    mcp::{Effect, Risk},
    tasks::actions::{Need, NeededPerson},
};

use super::function::{Reach, ToolFunction};

/// Default time limit for a decision in seconds, if no rule sets another one.
pub const TIMEOUT_S_DEFAULT: u32 = 86_400;

/// Trust level and rules of the workspace, and lists and rules of the agent.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    pub level: TrustLevel,
    /// Rules of the workspace.
    pub rules: &'a [ApprovalRule],
    /// Lists and rules of the agent and its bases.
    pub trust: Option<&'a Trust>,
}

/// Taint on which the decision about a call depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Only the requester's own messages.
    Clean,
    Tainted,
    /// The task is tainted, but the requester or an admin has allowed the destination of an outward read: a URL that the
    /// requester typed, or a trusted domain.
    TaintedButAllowed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The function is not offered, and calls to it are rejected.
    NotOffered,
    /// The call runs without an approval.
    Granted,
    Asks(Question),
}

/// Approvals that a call needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub needs: Vec<Need>,
    pub timeout_s: u32,
}

impl Question {
    /// Checks whether only the requester is asked.
    pub fn is_for_requester(&self) -> bool {
        matches!(self.needs.as_slice(), [need] if need.who == NeededPerson::Requester)
    }
}

/// Checks whether a name in a rule or list, which may be `mcp:LABEL.*`, covers an action.
pub fn covers(named: &str, action: &str) -> bool {
    let named = named.trim();
    match named.strip_suffix(".*") {
        Some(tool) => action
            .strip_prefix(tool)
            .is_some_and(|rest| rest.starts_with('.')),
        None => named == action,
    }
}

/// Checks whether a function is offered at a trust level.
pub fn is_offered(function: &ToolFunction, level: TrustLevel) -> bool {
    match level {
        TrustLevel::Off => false,
        TrustLevel::ReadOnly => function.effect == Effect::Read,
        TrustLevel::PerFunction | TrustLevel::NoQuestionsInside => true,
    }
}

/// Decides whether a call is offered, granted, or needs an approval.
pub fn decide(function: &ToolFunction, rules: &Rules<'_>, seen: Seen) -> Decision {
    if !is_offered(function, rules.level) {
        return Decision::NotOffered;
    }
    let matching: Vec<&ApprovalRule> = rules
        .rules
        .iter()
        .chain(rules.trust.iter().flat_map(|trust| &trust.approval_rules))
        .filter(|rule| covers(&rule.action, &function.action))
        .collect();
    let mut risk = listed_risk(function, rules.trust);
    if function.effect == Effect::Destructive {
        risk = risk.max(Risk::Approve);
    }
    let is_inside_write = function.effect == Effect::Write && function.reach == Reach::Inside;
    if rules.level == TrustLevel::NoQuestionsInside && is_inside_write && risk == Risk::Approve {
        risk = Risk::Autonomous;
    }
    if asks_by_taint(function, seen) {
        risk = risk.max(Risk::Approve);
    }
    // A rule that names a person requires that person's approval, even if the function needs none otherwise.
    if matching
        .iter()
        .any(|rule| rule.requires != Approver::AnyMember)
    {
        risk = risk.max(Risk::Approve);
    }
    if risk == Risk::Autonomous {
        return Decision::Granted;
    }
    let timeouts = matching.iter().filter_map(|rule| rule.timeout_s);
    Decision::Asks(Question {
        needs: needs(risk, rules.level, &matching),
        timeout_s: timeouts.min().unwrap_or(TIMEOUT_S_DEFAULT),
    })
}

/// The strictest risk of the function and the lists that contain its action.
fn listed_risk(function: &ToolFunction, trust: Option<&Trust>) -> Risk {
    let is_in = |list: &[String]| list.iter().any(|named| covers(named, &function.action));
    let listed = match trust {
        Some(trust) if is_in(&trust.escalate) => Risk::Escalate,
        Some(trust) if is_in(&trust.approve) => Risk::Approve,
        _ => Risk::Autonomous,
    };
    function.risk.max(listed)
}

fn asks_by_taint(function: &ToolFunction, seen: Seen) -> bool {
    match (seen, function.effect, function.reach) {
        (Seen::Clean, ..)
        | (_, Effect::Read, Reach::Inside)
        | (Seen::TaintedButAllowed, Effect::Read, Reach::Outward) => false,
        (Seen::Tainted, Effect::Read, Reach::Outward) => !function.trusts_reads,
        (Seen::Tainted | Seen::TaintedButAllowed, Effect::Write | Effect::Destructive, _) => true,
    }
}

fn needs(risk: Risk, level: TrustLevel, matching: &[&ApprovalRule]) -> Vec<Need> {
    let mut needs = vec![Need::of(NeededPerson::Requester)];
    if risk == Risk::Escalate {
        needs.push(Need::of(NeededPerson::Admin));
    }
    for rule in matching {
        let need = match rule.requires {
            Approver::AnyMember if risk == Risk::Approve && level >= TrustLevel::PerFunction => {
                for need in &mut needs {
                    if need.who == NeededPerson::Requester {
                        need.who = NeededPerson::AnyMember;
                    }
                }
                continue;
            }
            Approver::AnyMember => continue,
            Approver::Admin => Need::of(NeededPerson::Admin),
            Approver::SpecificUser => Need {
                user_id: rule.user_id,
                ..Need::of(NeededPerson::User)
            },
        };
        if !needs.contains(&need) {
            needs.push(need);
        }
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ids::UserId, model::FunctionTool};

    fn function(effect: Effect, reach: Reach, risk: Risk) -> ToolFunction {
        ToolFunction {
            action: "mcp:jira.create".to_owned(),
            title: "Create an issue".to_owned(),
            kind: None,
            server_function: None,
            effect,
            reach,
            risk,
            trusts_reads: false,
            is_grantable: true,
            source: "Jira".to_owned(),
            definition_hash: String::new(),
            definition: FunctionTool {
                name: "jira__create".to_owned(),
                description: None,
                parameters: None,
                strict: None,
            },
        }
    }

    fn rules(level: TrustLevel) -> Rules<'static> {
        Rules {
            level,
            rules: &[],
            trust: None,
        }
    }

    fn rule(action: &str, requires: Approver) -> ApprovalRule {
        ApprovalRule {
            action: action.to_owned(),
            requires,
            user_id: None,
            timeout_s: None,
        }
    }

    /// Short form of a decision: `-`, `ok`, or the people who must approve.
    fn short(decision: &Decision) -> String {
        match decision {
            Decision::NotOffered => "-".to_owned(),
            Decision::Granted => "ok".to_owned(),
            Decision::Asks(question) => {
                let people = question.needs.iter().map(|need| need.who.as_str());
                people.collect::<Vec<_>>().join("+")
            }
        }
    }

    #[test]
    fn the_trust_level_limits_effects() {
        use Effect::{Destructive, Read, Write};
        use Reach::{Inside, Outward};
        use Risk::{Approve, Autonomous, Escalate};
        use TrustLevel::{NoQuestionsInside, Off, PerFunction, ReadOnly};
        let levels = [Off, ReadOnly, PerFunction, NoQuestionsInside];
        let table = [
            (Read, Inside, Autonomous, ["-", "ok", "ok", "ok"]),
            (Read, Outward, Autonomous, ["-", "ok", "ok", "ok"]),
            (
                Read,
                Outward,
                Approve,
                ["-", "requester", "requester", "requester"],
            ),
            (Write, Inside, Autonomous, ["-", "-", "ok", "ok"]),
            (Write, Inside, Approve, ["-", "-", "requester", "ok"]),
            (
                Write,
                Inside,
                Escalate,
                ["-", "-", "requester+admin", "requester+admin"],
            ),
            (
                Write,
                Outward,
                Approve,
                ["-", "-", "requester", "requester"],
            ),
            (
                Destructive,
                Inside,
                Autonomous,
                ["-", "-", "requester", "requester"],
            ),
            (
                Destructive,
                Outward,
                Approve,
                ["-", "-", "requester", "requester"],
            ),
        ];
        for (effect, reach, risk, expected) in table {
            for (level, expected) in levels.into_iter().zip(expected) {
                let found = decide(&function(effect, reach, risk), &rules(level), Seen::Clean);
                assert_eq!(
                    short(&found),
                    expected,
                    "{effect} {reach:?} {risk:?} {level:?}"
                );
            }
        }
    }

    #[test]
    fn a_tainted_task_asks_before_writes_and_outward_reads() {
        use Effect::{Destructive, Read, Write};
        use Reach::{Inside, Outward};
        let table = [
            (Read, Inside, "ok", "ok"),
            (Read, Outward, "requester", "ok"),
            (Write, Inside, "requester", "requester"),
            (Write, Outward, "requester", "requester"),
            (Destructive, Outward, "requester", "requester"),
        ];
        for (effect, reach, tainted, allowed) in table {
            for level in [TrustLevel::PerFunction, TrustLevel::NoQuestionsInside] {
                let function = function(effect, reach, Risk::Autonomous);
                let found = |seen| short(&decide(&function, &rules(level), seen));
                assert_eq!(found(Seen::Tainted), tainted, "{effect} {reach:?}");
                assert_eq!(
                    found(Seen::TaintedButAllowed),
                    allowed,
                    "{effect} {reach:?}"
                );
            }
        }
        let trusted = ToolFunction {
            trusts_reads: true,
            ..function(Read, Outward, Risk::Autonomous)
        };
        let found = decide(&trusted, &rules(TrustLevel::PerFunction), Seen::Tainted);
        assert_eq!(found, Decision::Granted);
    }

    #[test]
    fn the_strictest_list_counts() {
        let action = "mcp:jira.create".to_owned();
        let list = |is_in: bool| {
            if is_in {
                vec![action.clone()]
            } else {
                Vec::new()
            }
        };
        for (autonomous, approve, escalate, expected) in [
            (false, false, false, "ok"),
            (true, false, false, "ok"),
            (true, true, false, "requester"),
            (true, true, true, "requester+admin"),
            (false, false, true, "requester+admin"),
        ] {
            let trust = Trust {
                autonomous: list(autonomous),
                approve: list(approve),
                escalate: list(escalate),
                approval_rules: Vec::new(),
            };
            let rules = Rules {
                trust: Some(&trust),
                ..rules(TrustLevel::PerFunction)
            };
            let function = function(Effect::Read, Reach::Outward, Risk::Autonomous);
            assert_eq!(short(&decide(&function, &rules, Seen::Clean)), expected);
        }
        let trust = Trust {
            autonomous: list(true),
            ..Trust::default()
        };
        let rules = Rules {
            trust: Some(&trust),
            ..rules(TrustLevel::PerFunction)
        };
        let function = function(Effect::Write, Reach::Outward, Risk::Approve);
        assert_eq!(short(&decide(&function, &rules, Seen::Clean)), "requester");
    }

    #[test]
    fn rules_add_people_and_any_member_replaces_the_requester() {
        use Approver::{Admin, AnyMember, SpecificUser};
        let user = UserId::new();
        let named = ApprovalRule {
            user_id: Some(user),
            timeout_s: Some(60),
            ..rule("mcp:jira.*", SpecificUser)
        };
        let cases: [(Vec<ApprovalRule>, Risk, &str); 9] = [
            (
                vec![rule("mcp:jira.create", Admin)],
                Risk::Autonomous,
                "requester+admin",
            ),
            (
                vec![rule("mcp:jira.*", Admin)],
                Risk::Approve,
                "requester+admin",
            ),
            (
                vec![rule("mcp:jira.*", Admin)],
                Risk::Escalate,
                "requester+admin",
            ),
            (vec![rule("mcp:other.*", Admin)], Risk::Approve, "requester"),
            (vec![rule("search", Admin)], Risk::Autonomous, "ok"),
            (vec![rule("mcp:jira.*", AnyMember)], Risk::Autonomous, "ok"),
            (
                vec![rule("mcp:jira.*", AnyMember)],
                Risk::Approve,
                "any_member",
            ),
            (
                vec![rule("mcp:jira.*", AnyMember)],
                Risk::Escalate,
                "requester+admin",
            ),
            (
                vec![rule("mcp:jira.*", AnyMember), named.clone()],
                Risk::Approve,
                "any_member+user",
            ),
        ];
        for (list, risk, expected) in cases {
            let rules = Rules {
                rules: &list,
                ..rules(TrustLevel::PerFunction)
            };
            let function = function(Effect::Read, Reach::Outward, risk);
            let found = decide(&function, &rules, Seen::Clean);
            assert_eq!(short(&found), expected, "{list:?} {risk:?}");
        }
        let list = [named];
        let rules = Rules {
            rules: &list,
            ..rules(TrustLevel::PerFunction)
        };
        let function = function(Effect::Write, Reach::Outward, Risk::Approve);
        let Decision::Asks(question) = decide(&function, &rules, Seen::Clean) else {
            panic!("nobody is asked");
        };
        assert_eq!(question.timeout_s, 60);
        assert_eq!(question.needs[1].user_id, Some(user));
        assert!(!question.is_for_requester());
    }

    #[test]
    fn any_member_replaces_the_requester_from_level_2_on() {
        let list = [rule("mcp:jira.*", Approver::AnyMember)];
        for (level, expected) in [
            (TrustLevel::Off, "-"),
            (TrustLevel::ReadOnly, "requester"),
            (TrustLevel::PerFunction, "any_member"),
            (TrustLevel::NoQuestionsInside, "any_member"),
        ] {
            let rules = Rules {
                rules: &list,
                ..rules(level)
            };
            let function = function(Effect::Read, Reach::Outward, Risk::Approve);
            let found = decide(&function, &rules, Seen::Clean);
            assert_eq!(short(&found), expected, "{level:?}");
        }
    }

    #[test]
    fn a_star_covers_the_functions_of_one_tool() {
        for (named, action, expected) in [
            ("search", "search", true),
            (" search ", "search", true),
            ("search", "searching", false),
            ("mcp:jira.*", "mcp:jira.create", true),
            ("mcp:jira.*", "mcp:jira", false),
            ("mcp:jira.*", "mcp:jira2.create", false),
            ("mcp:jira.create", "mcp:jira.create_all", false),
            ("*", "search", false),
        ] {
            assert_eq!(covers(named, action), expected, "{named} {action}");
        }
    }
}
