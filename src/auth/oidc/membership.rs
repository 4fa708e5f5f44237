//! Roles that providers set.

use serde_json::json;

use super::{
    notices,
    provider::{ProviderJoin, ProviderWorkspace, StoredProvider},
};
use crate::{
    auth::{
        AuditAction, AuthError, Role, audit,
        members::{self, Newcomer},
        revocations::{self, Revocation},
        users, workspaces,
    },
    db::{Conn, dialect},
    ids::{IdentityProviderId, UserId, WorkspaceId},
    realtime::EventType,
};

/// The role of a person with these groups: the strongest one of the rules that apply, or else that of the workspace.
pub(super) fn role_of(entry: &ProviderWorkspace, groups: Option<&[String]>) -> Role {
    let groups = groups.unwrap_or_default();
    let of_rules = entry
        .rules
        .iter()
        .filter(|rule| groups.contains(&rule.group))
        .map(|rule| rule.role);
    of_rules
        .min_by_key(|role| weakness(*role))
        .unwrap_or(entry.role)
}

/// Orders roles, the strongest one first.
fn weakness(role: Role) -> u8 {
    match role {
        Role::Admin => 0,
        Role::Member => 1,
        Role::Viewer => 2,
        Role::Guest => 3,
    }
}

/// Lets a provider set the role of a membership.
pub(super) async fn manage(
    c: &mut Conn,
    provider: IdentityProviderId,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<(), AuthError> {
    c.q("update members set managed_by = $3 where workspace_id = $1 and user_id = $2")
        .bind(workspace)
        .bind(user)
        .bind(provider)
        .run()
        .await?;
    Ok(())
}

/// Checks whether the provider has deactivated an account.
async fn is_deactivated(
    c: &mut Conn,
    provider: IdentityProviderId,
    user: UserId,
) -> Result<bool, AuthError> {
    Ok(
        c.q("select exists (select 1 from scim_users where provider_id = $1 and user_id = $2 and active = FALSE)")
            .bind(provider)
            .bind(user)
            .value()
            .await?,
    )
}

/// Brings a person's membership in a workspace up to date, in the write queue of the workspace. The person joins it if it is open to
/// everyone. Only a membership that the provider made gets another role, and only if the provider names the groups. Guests stay guests:
/// an admin decided what they see.
///
/// # Errors
/// Errors of joining a workspace.
pub(crate) async fn update(
    c: &mut Conn,
    provider: &StoredProvider,
    entry: &ProviderWorkspace,
    user: UserId,
    groups: Option<&[String]>,
) -> Result<(), AuthError> {
    let workspace = entry.workspace_id;
    if !workspaces::exists(c, workspace).await? {
        return Ok(());
    }
    dialect::lock_workspace(c, workspace.0).await?;
    if is_deactivated(c, provider.id, user).await? {
        return Ok(());
    }
    let role = role_of(entry, groups);
    let Some(member) = members::find_member(c, workspace, user).await? else {
        let is_suspended = members::find_suspended(c, workspace, user).await?.is_some();
        if entry.join == ProviderJoin::Everyone && !is_suspended {
            let name = users::get_user(c, user).await?.name;
            let new = Newcomer {
                user,
                name: &name,
                handle: None,
            };
            members::join(c, workspace, &new, role).await?;
            manage(c, provider.id, workspace, user).await?;
        }
        return Ok(());
    };
    let managed: Option<IdentityProviderId> = c
        .q("select managed_by from members where workspace_id = $1 and user_id = $2")
        .bind(workspace)
        .bind(user)
        .value()
        .await?;
    if managed != Some(provider.id) || member.role == Role::Guest {
        return Ok(());
    }
    if member.role == role {
        return notices::role_settled(c, workspace, user).await;
    }
    if groups.is_none() {
        tracing::warn!(provider.id = %provider.id, user.id = %user, "the provider names no groups, so the role stays");
        return Ok(());
    }
    let is_weaker = weakness(role) > weakness(member.role);
    let may_not = workspaces::is_server_admin(c, user).await?
        || members::check_not_last_admin(c, &member, workspace)
            .await
            .is_err();
    let data = json!({"from": member.role, "to": role, "provider": provider.name});
    if is_weaker && may_not {
        let action = AuditAction::MemberRoleKept;
        audit::record_provider(c, workspace, action, user.to_string(), data).await?;
        return notices::role_kept(c, workspace, user).await;
    }
    notices::role_settled(c, workspace, user).await?;
    members::store_role(c, workspace, user, role).await?;
    let action = AuditAction::MemberRoleChanged;
    audit::record_provider(c, workspace, action, user.to_string(), data).await?;
    let revocation = Revocation::User {
        user,
        workspace: Some(workspace),
    };
    revocations::record(c, revocation).await?;
    members::announce(c, workspace, user, EventType::MemberUpdated).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{super::provider::GroupRule, *};

    #[test]
    fn the_strongest_rule_that_applies_sets_the_role() {
        let rule = |group: &str, role| GroupRule {
            group: group.to_owned(),
            role,
        };
        let entry = ProviderWorkspace {
            workspace_id: WorkspaceId::new(),
            join: ProviderJoin::Everyone,
            role: Role::Viewer,
            rules: vec![rule("staff", Role::Member), rule("ops", Role::Admin)],
        };
        let role = |groups: &[&str]| {
            let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
            role_of(&entry, Some(&groups))
        };
        assert_eq!(role(&[]), Role::Viewer);
        assert_eq!(role(&["Staff"]), Role::Viewer);
        assert_eq!(role(&["staff", "other"]), Role::Member);
        assert_eq!(role(&["staff", "ops"]), Role::Admin);
        assert_eq!(role_of(&entry, None), Role::Viewer);
    }
}
