//! Validation of actions and approvers in `trust` and in the rules of the workspace. Only new values are checked: a stored rule
//! remains valid after the person whom it names has left, so that the agent can still be changed.

use super::{ApprovalRule, Trust};
use crate::{
    agents::AgentError, auth::Role, db::Conn, ids::WorkspaceId, registry, text_enum::text_enum,
};

text_enum! {
    /// Action that lists and rules can contain, in addition to functions of MCP servers.
    pub enum ActionName {
        /// Messages, decisions, and action items.
        Search = "search",
        /// Threads and files.
        Read = "read",
        /// Replies in the conversation, which need no approval.
        Respond = "respond",
        Remember = "remember",
        WebFetch = "web_fetch",
        Code = "code",
        Delegate = "delegate",
        PostElsewhere = "post_elsewhere",
    }
}

/// Actions that can need an approval.
fn asking() -> Vec<ActionName> {
    let all = ActionName::ALL.iter().copied();
    all.filter(|action| *action != ActionName::Respond)
        .collect()
}

/// Checks the form `mcp:LABEL.NAME` or `mcp:LABEL.*`. The server may be registered later.
fn is_server_action(action: &str) -> bool {
    let named = action
        .strip_prefix("mcp:")
        .and_then(|named| named.split_once('.'));
    named.is_some_and(|(label, function)| registry::is_tool_name(label) && !function.is_empty())
}

/// Fails for a name that matches neither a `known` action nor a function of a server.
fn check_action(action: &str, known: &[ActionName], param: &'static str) -> Result<(), AgentError> {
    let action = action.trim();
    let own = action.parse::<ActionName>();
    if own.is_ok_and(|action| known.contains(&action)) || is_server_action(action) {
        return Ok(());
    }
    let known: Vec<&str> = known.iter().map(|action| action.as_str()).collect();
    let known = known.join("`, `");
    let text = format!(
        "`{action}` is not a valid action: use `{known}`, `mcp:LABEL.NAME`, or `mcp:LABEL.*`"
    );
    Err(AgentError::Invalid(text, param))
}

/// Checks the actions and approvers that are not in `before`.
///
/// # Errors
/// `Invalid` or `NoSuchMember`.
pub(super) async fn check_new_trust(
    c: &mut Conn,
    workspace: WorkspaceId,
    trust: &Trust,
    before: Option<&Trust>,
) -> Result<(), AgentError> {
    let none = Trust::default();
    let before = before.unwrap_or(&none);
    let asking = asking();
    for (list, stored, known) in [
        (&trust.autonomous, &before.autonomous, ActionName::ALL),
        (&trust.approve, &before.approve, asking.as_slice()),
        (&trust.escalate, &before.escalate, asking.as_slice()),
    ] {
        for action in list.iter().filter(|action| !stored.contains(action)) {
            check_action(action, known, "trust")?;
        }
    }
    let stored = &before.approval_rules;
    check_new_rules(c, workspace, &trust.approval_rules, stored, "trust").await
}

/// Checks the actions and approvers of the rules that are not in `stored`.
///
/// # Errors
/// `Invalid` or `NoSuchMember`.
pub(in crate::agents) async fn check_new_rules(
    c: &mut Conn,
    workspace: WorkspaceId,
    rules: &[ApprovalRule],
    stored: &[ApprovalRule],
    param: &'static str,
) -> Result<(), AgentError> {
    for rule in rules.iter().filter(|rule| !stored.contains(rule)) {
        check_action(&rule.action, &asking(), param)?;
        let Some(user) = rule.user_id else { continue };
        let role: Option<(Role,)> = c
            .q("select role from members where workspace_id = $1 and user_id = $2")
            .bind(workspace)
            .bind(user)
            .opt()
            .await?;
        match role {
            Some((role,)) if !role.approves() => {
                let text = format!("{user} is a {role}, who cannot approve: choose someone else");
                return Err(AgentError::Invalid(text, param));
            }
            Some(_) => {}
            None => return Err(AgentError::NoSuchMember(user.to_string(), param)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_have_known_names_or_the_form_of_a_server_function() {
        for (action, expected) in [
            ("search", true),
            (" web_fetch ", true),
            ("mcp:jira.create_issue", true),
            ("mcp:jira.drop.all", true),
            ("mcp:jira.*", true),
            ("serach", false),
            ("Search", false),
            ("search_messages", false),
            ("respond", false),
            ("mcp:jira", false),
            ("mcp:jira.", false),
            ("mcp:.create", false),
            ("mcp:Jira.create", false),
            ("mcp:*", false),
            ("*", false),
            ("", false),
        ] {
            let found = check_action(action, &asking(), "trust");
            assert_eq!(found.is_ok(), expected, "{action}");
        }
        assert!(check_action("respond", ActionName::ALL, "trust").is_ok());
    }
}
