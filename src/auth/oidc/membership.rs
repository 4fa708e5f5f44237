//! Roles that providers set.

use std::collections::BTreeSet;

use serde_json::json;

use super::{
    notices,
    provider::{ProviderJoin, ProviderWorkspace, StoredProvider},
};
use crate::{
    auth::{
        AuditAction, AuthError, Role, audit, guest_members,
        members::{self, Newcomer},
        placeholders,
        revocations::{self, Revocation},
        users, workspaces,
    },
    db::{Conn, dialect},
    ids::{ChannelId, IdentityProviderId, UserId, WorkspaceId},
    realtime::EventType,
};

/// The role of a person with these groups: the strongest one of the rules that apply, or else that of the workspace.
pub(super) fn role_of(entry: &ProviderWorkspace, groups: Option<&[String]>) -> Role {
    let groups = groups.unwrap_or_default();
    let of_rules = entry
        .rules
        .iter()
        .filter(|rule| groups.contains(&rule.group))
        .filter_map(|rule| rule.role);
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

/// Channels that rules give to a person, and those that they give only to others. The caller brings the person in and out, because
/// channels belong to a higher layer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ChannelChange {
    pub join: Vec<ChannelId>,
    pub leave: Vec<ChannelId>,
    /// True for a guest, who also leaves all channels that no rule names.
    pub is_guest: bool,
}

impl ChannelChange {
    fn of(entry: &ProviderWorkspace, groups: &[String]) -> Self {
        let named = |applies: bool| {
            let rules = entry.rules.iter();
            let rules = rules.filter(move |rule| groups.contains(&rule.group) == applies);
            rules.flat_map(|rule| rule.channel_ids.iter().copied())
        };
        let join: BTreeSet<ChannelId> = named(true).collect();
        let leave: BTreeSet<ChannelId> = named(false).collect();
        Self {
            leave: leave.difference(&join).copied().collect(),
            join: join.into_iter().collect(),
            is_guest: false,
        }
    }

    /// The change for a person who has this role now.
    fn with_role(self, role: Role) -> Self {
        Self {
            is_guest: role == Role::Guest,
            ..self
        }
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
/// everyone. Only a membership that the provider made gets another role and channels, and only if the provider names the groups, and rules
/// name roles. Guests about whom an admin decided stay as they are. Returns the channels.
///
/// # Errors
/// Errors of joining a workspace.
pub(crate) async fn update(
    c: &mut Conn,
    provider: &StoredProvider,
    entry: &ProviderWorkspace,
    user: UserId,
    groups: Option<&[String]>,
) -> Result<ChannelChange, AuthError> {
    let workspace = entry.workspace_id;
    let unchanged = ChannelChange::default();
    if !workspaces::exists(c, workspace).await? {
        return Ok(unchanged);
    }
    dialect::lock_workspace(c, workspace.0).await?;
    if is_deactivated(c, provider.id, user).await? {
        return Ok(unchanged);
    }
    let channels = groups.map_or(unchanged, |groups| ChannelChange::of(entry, groups));
    let mut role = role_of(entry, groups);
    let Some(member) = members::find_member(c, workspace, user).await? else {
        let is_suspended = members::find_suspended(c, workspace, user).await?.is_some();
        if entry.join == ProviderJoin::Everyone && !is_suspended {
            let name = users::get_user(c, user).await?.name;
            let new = Newcomer {
                user,
                name: &name,
                handle: None,
            };
            let joined = members::join(c, workspace, &new, role).await?;
            if users::get_user(c, user).await?.email_confirmed {
                placeholders::claim_by_address(c, workspace, &joined).await?;
            }
            manage(c, provider.id, workspace, user).await?;
            // Without groups, a new guest is in no channel anyway.
            return Ok(channels.with_role(role));
        }
        return Ok(ChannelChange::default());
    };
    let managed: Option<IdentityProviderId> = c
        .q("select managed_by from members where workspace_id = $1 and user_id = $2")
        .bind(workspace)
        .bind(user)
        .value()
        .await?;
    let is_kept =
        member.role == Role::Guest && guest_members::has_terms(c, workspace, user).await?;
    if managed != Some(provider.id) || is_kept {
        return Ok(ChannelChange::default());
    }
    if !entry.rules.iter().any(|rule| rule.role.is_some()) {
        // Without such rules, a role is that of the invite, or an admin's choice.
        role = member.role;
    }
    if member.role == role {
        notices::role_settled(c, workspace, user).await?;
        return Ok(match groups {
            Some(_) => channels.with_role(role),
            None => channels,
        });
    }
    if groups.is_none() {
        tracing::warn!(provider.id = %provider.id, user.id = %user, "the provider names no groups, so the role stays");
        return Ok(channels);
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
        notices::role_kept(c, workspace, user).await?;
        return Ok(channels);
    }
    notices::role_settled(c, workspace, user).await?;
    members::store_role(c, workspace, user, role).await?;
    if role == Role::Guest {
        members::delete_keys(c, workspace, user).await?;
        members::withdraw_invites(c, workspace, user).await?;
    }
    if member.role == Role::Guest {
        members::join_common_channels(c, workspace, user).await?;
    }
    let action = AuditAction::MemberRoleChanged;
    audit::record_provider(c, workspace, action, user.to_string(), data).await?;
    let revocation = Revocation::User {
        user,
        workspace: Some(workspace),
    };
    revocations::record(c, revocation).await?;
    members::announce(c, workspace, user, EventType::MemberUpdated).await?;
    Ok(channels.with_role(role))
}

#[cfg(test)]
mod tests {
    use super::{super::provider::GroupRule, *};

    #[test]
    fn the_strongest_rule_that_applies_sets_the_role() {
        let rule = |group: &str, role| GroupRule {
            group: group.to_owned(),
            role: Some(role),
            channel_ids: Vec::new(),
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

    #[test]
    fn channels_of_rules_that_apply_are_joined_and_others_left() {
        let (one, two, three) = (ChannelId::new(), ChannelId::new(), ChannelId::new());
        let rule = |group: &str, channels: &[ChannelId]| GroupRule {
            group: group.to_owned(),
            role: None,
            channel_ids: channels.to_vec(),
        };
        let entry = ProviderWorkspace {
            workspace_id: WorkspaceId::new(),
            join: ProviderJoin::Everyone,
            role: Role::Member,
            rules: vec![rule("staff", &[one, two]), rule("ops", &[two, three])],
        };
        let set = |channels: &[ChannelId]| channels.iter().copied().collect::<BTreeSet<_>>();
        let change = |groups: &[&str]| {
            let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
            let change = ChannelChange::of(&entry, &groups);
            assert!(!change.is_guest);
            (set(&change.join), set(&change.leave))
        };
        assert_eq!(change(&[]), (set(&[]), set(&[one, two, three])));
        assert_eq!(change(&["staff"]), (set(&[one, two]), set(&[three])));
        assert_eq!(
            change(&["ops", "staff"]),
            (set(&[one, two, three]), set(&[]))
        );
        assert_eq!(role_of(&entry, Some(&["ops".to_owned()])), Role::Member);
    }
}
