//! Accounts as the operator manages them on the server's machine.

use serde_json::json;

use super::{
    AuditAction, AuthError, Role, audit,
    events::{self, AuthEventKind, Device},
    factors,
    flows::{self, FlowKind, NewFlow},
    members::{self, Newcomer},
    password::StoredPassword,
    revocations::{self, Revocation},
    suspensions, users, workspaces,
};
use crate::{
    db::{Conn, Db, dialect},
    ids::{UserId, WorkspaceId},
    realtime::EventType,
};

/// An account, with one of its workspaces.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct ListedAccount {
    pub id: UserId,
    pub email: String,
    pub name: String,
    /// Slug of the workspace; `None` for an account without workspaces.
    pub workspace: Option<String>,
    pub role: Option<Role>,
}

/// Lists up to `limit` accounts after `after`, oldest first, each once for every workspace.
///
/// # Errors
/// Only database errors.
pub async fn list_accounts(
    c: &mut Conn,
    after: Option<UserId>,
    limit: i64,
) -> Result<Vec<ListedAccount>, AuthError> {
    Ok(c
        .q("select u.id, u.email, u.name, w.slug as workspace, m.role from \
            (select id, email, name from users where id > $1 and kind = 'person' order by id limit $2) u \
            left join members m on m.user_id = u.id left join workspaces w on w.id = m.workspace_id \
            order by u.id, w.slug")
        .bind(after.unwrap_or(UserId(uuid::Uuid::nil())))
        .bind(limit)
        .all()
        .await?)
}

/// Makes an account an admin of the workspace with this slug. The account joins the workspace first, if necessary.
///
/// # Errors
/// `NotFound` for an unknown account or workspace.
pub async fn make_admin(db: &Db, email: &str, slug: &str) -> Result<(), AuthError> {
    let email = super::names::parse_email(email)?;
    let workspace = find_workspace(&mut db.read().await?, slug).await?;
    db.write(workspace.0, async move |c: &mut Conn| {
        dialect::lock_workspace(c, workspace.0).await?;
        let stored = StoredPassword::find(c, &email).await?;
        let user = stored.ok_or(AuthError::NotFound("account"))?.user_id;
        let name = users::get_user(c, user).await?.name;
        let new = Newcomer {
            user,
            name: &name,
            handle: None,
        };
        suspensions::restore(c, workspace, user).await?;
        let before = members::join(c, workspace, &new, Role::Admin).await?.role;
        if before != Role::Admin {
            members::store_role(c, workspace, user, Role::Admin).await?;
            let revocation = Revocation::User {
                user,
                workspace: Some(workspace),
            };
            revocations::record(c, revocation).await?;
        }
        let data = json!({"from": before, "to": Role::Admin, "by": "operator"});
        let action = AuditAction::MemberRoleChanged;
        audit::record_operator(c, workspace, action, user.to_string(), data).await?;
        members::announce(c, workspace, user, EventType::MemberUpdated).await?;
        Ok::<_, AuthError>(())
    })
    .await
}

/// Creates the secret of a link that signs in to an account once, within ten minutes. Earlier links of the account stop working.
///
/// # Errors
/// `NotFound` for an unknown account.
pub async fn create_sign_in_link(db: &Db, email: &str) -> Result<String, AuthError> {
    let email = super::names::parse_email(email)?;
    db.write(uuid::Uuid::nil(), async move |c: &mut Conn| {
        let stored = StoredPassword::find(c, &email).await?;
        let user = stored.ok_or(AuthError::NotFound("account"))?.user_id;
        flows::end_all(c, user, FlowKind::SignInLink).await?;
        let link = NewFlow::new(FlowKind::SignInLink, Some(user));
        link.store(c).await?;
        let (kind, device) = (AuthEventKind::SignInLinkCreated, Device::OPERATOR);
        events::record(c, user, kind, None, &device).await?;
        for workspace in workspaces::ids_of(c, user).await? {
            let action = AuditAction::SignInLinkCreated;
            audit::record_operator(c, workspace, action, user.to_string(), json!({})).await?;
        }
        Ok(link.secret)
    })
    .await
}

/// Removes the second factors of an account.
///
/// # Errors
/// `NotFound` for an unknown account.
pub async fn reset_second_factor(db: &Db, email: &str) -> Result<(), AuthError> {
    let email = super::names::parse_email(email)?;
    db.write(uuid::Uuid::nil(), async move |c: &mut Conn| {
        let stored = StoredPassword::find(c, &email).await?;
        factors::reset(c, stored.ok_or(AuthError::NotFound("account"))?.user_id).await
    })
    .await
}

async fn find_workspace(c: &mut Conn, slug: &str) -> Result<WorkspaceId, AuthError> {
    let slug = workspaces::parse_slug(slug)?;
    c.q("select id from workspaces where slug = $1")
        .bind(slug)
        .opt::<(WorkspaceId,)>()
        .await?
        .map(|(id,)| id)
        .ok_or(AuthError::NotFound("workspace"))
}
