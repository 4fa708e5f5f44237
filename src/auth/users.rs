//! User accounts.

use serde::Serialize;

use super::{
    AuthError, Caller, DisplayName, Hasher,
    events::{self, AuthEventKind, Device},
    flows, handles, invites, keys,
    look_alikes::Skeletons,
    members::Newcomer,
    password::{StoredPassword, check_password},
    sessions, shown_names, workspaces,
};
use crate::{
    auth::{
        names::parse_email,
        tokens::{hash_token, new_token},
    },
    config::{Secret, Signup},
    db::{Conn, Db, DbError, dialect, now},
    ids::{UserId, WorkspaceId},
    realtime::EventType,
    time::Timestamp,
};

#[derive(Debug, Clone, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct User {
    pub id: UserId,
    pub email: String,
    pub name: String,
    pub avatar_url: Option<String>,
    pub created_at: Timestamp,
    /// True if the client suggests forks.
    pub suggestions: bool,
    /// True if the person proved that the email address is theirs.
    pub email_confirmed: bool,
}

/// Result of a sign-up.
pub struct NewAccount {
    pub user: User,
    /// Workspace of the invite.
    pub workspace: Option<WorkspaceId>,
}

pub(crate) async fn get_user(c: &mut Conn, id: UserId) -> Result<User, AuthError> {
    find_user(c, id).await?.ok_or(AuthError::NotAuthenticated)
}

pub(crate) async fn find_user(c: &mut Conn, id: UserId) -> Result<Option<User>, DbError> {
    c.q("select id, email, name, avatar_url, created_at, suggestions, email_confirmed_at is not null as email_confirmed from users where id = $1")
        .bind(id)
        .opt()
        .await
}

/// Name of a user; `None` if the account was deleted.
pub async fn name_of(c: &mut Conn, id: UserId) -> Result<Option<String>, AuthError> {
    let row: Option<(String,)> = c
        .q("select name from users where id = $1")
        .bind(id)
        .opt()
        .await?;
    Ok(row.map(|row| row.0))
}

pub async fn any_account(c: &mut Conn) -> Result<bool, AuthError> {
    Ok(c.q("select id from users limit 1")
        .opt::<(UserId,)>()
        .await?
        .is_some())
}

pub(super) async fn insert_user(
    c: &mut Conn,
    email: &str,
    name: &str,
    password_hash: &str,
) -> Result<User, AuthError> {
    insert_user_as(c, UserId::new(), email, name, password_hash).await
}

/// Inserts an account whose ID is known already.
pub(super) async fn insert_user_as(
    c: &mut Conn,
    id: UserId,
    email: &str,
    name: &str,
    password_hash: &str,
) -> Result<User, AuthError> {
    let skeletons = Skeletons::of(name);
    c.q("insert into users (id, email, name, avatar_url, password_hash, created_at, name_skeleton, name_folded) \
         values ($1, $2, $3, null, $4, $5, $6, $7) \
         on conflict (email) do nothing returning id, email, name, avatar_url, created_at, suggestions, \
         email_confirmed_at is not null as email_confirmed")
        .bind(id)
        .bind(email.to_owned())
        .bind(name.to_owned())
        .bind(password_hash.to_owned())
        .bind(now())
        .bind(skeletons.exact)
        .bind(skeletons.folded)
        .opt()
        .await?
        .ok_or(AuthError::EmailTaken)
}

/// The token for the first account: `set`, or else a stored one, which all nodes use until the account exists.
///
/// # Errors
/// Only database errors.
pub async fn setup_token(db: &Db, set: Option<&Secret>) -> Result<String, AuthError> {
    if let Some(Secret(token)) = set {
        return Ok(token.clone());
    }
    let token = new_token();
    if any_account(&mut db.read().await?).await? {
        return Ok(token);
    }
    db.write(uuid::Uuid::nil(), async move |c: &mut Conn| {
        c.q(
            "insert into meta (key, value) values ('setup_token', $1) on conflict (key) do nothing",
        )
        .bind(token.clone())
        .run()
        .await?;
        Ok(c.q("select value from meta where key = 'setup_token'")
            .value::<String>()
            .await?)
    })
    .await
}

async fn delete_setup_token(c: &mut Conn) -> Result<(), DbError> {
    c.q("delete from meta where key = 'setup_token'")
        .run()
        .await?;
    Ok(())
}

/// Creates an account as `OPENVIBE_SIGNUP` allows; an invite is always sufficient.
///
/// `setup_token` is the token that is needed for the first account, if the server requires one.
///
/// # Errors
/// `Invalid`, `EmailTaken`, `HandleTaken`, `SignupClosed`, `SetupToken`, `InviteNotFound`, `InviteForAnother`.
pub async fn sign_up(
    db: &Db,
    hasher: &Hasher,
    mode: Signup,
    setup_token: Option<String>,
    form: SignUp,
) -> Result<NewAccount, AuthError> {
    let email = parse_email(&form.email)?;
    let name = DisplayName::parse(&form.name, "name")?;
    check_password(&form.password, &name.0, &email)?;
    if let Some(handle) = &form.handle {
        handles::check(handle, "handle")?;
        if form.invite.is_none() {
            let text = "a handle belongs to a workspace: send it with an invite, or to create the workspace";
            return Err(AuthError::Invalid(text.to_owned(), "handle"));
        }
    }
    // Reject early, before the expensive hash.
    let invite = may_sign_up(
        &mut db.read().await?,
        mode,
        setup_token.as_deref(),
        &form,
        &email,
    )
    .await?;
    // Sign-ups without an invite run one after the other, so that only one can be the first.
    let key = invite
        .map(|invite| invite.workspace_id.0)
        .unwrap_or_default();
    let hash = hasher.hash(form.password.clone()).await?;
    db.write(key, async move |c: &mut Conn| {
        if form.invite.is_none() {
            dialect::lock_sign_ups(c).await?;
        }
        let invite = may_sign_up(c, mode, setup_token.as_deref(), &form, &email).await?;
        let user = insert_user(c, &email, &name.0, &hash).await?;
        delete_setup_token(c).await?;
        let workspace = match invite {
            Some(invite) => {
                let new = Newcomer {
                    user: user.id,
                    name: &user.name,
                    handle: form.handle.as_deref(),
                };
                Some(invites::accept(c, &invite, &new).await?.0)
            }
            None => None,
        };
        Ok(NewAccount { user, workspace })
    })
    .await
}

#[derive(Clone)]
pub struct SignUp {
    pub email: String,
    pub name: String,
    pub password: String,
    pub invite: Option<String>,
    /// Handle in the workspace of the invite.
    pub handle: Option<String>,
    pub setup_token: Option<String>,
}

async fn may_sign_up(
    c: &mut Conn,
    mode: Signup,
    setup_token: Option<&str>,
    form: &SignUp,
    email: &str,
) -> Result<Option<invites::Invite>, AuthError> {
    if let Some(token) = &form.invite {
        return invites::find_open(c, token, Some(email)).await.map(Some);
    }
    if any_account(c).await? {
        match mode {
            Signup::Open => {}
            Signup::First => {
                return Err(AuthError::SignupClosed(
                    "this server already has its first account, and others need an invite link: ask an admin for one",
                ));
            }
            Signup::Invite => {
                return Err(AuthError::SignupClosed(
                    "sign-up requires an invite link on this server: ask an admin for one",
                ));
            }
        }
    } else if let Some(wanted) = setup_token {
        let given = form.setup_token.as_deref().unwrap_or_default();
        if hash_token(given) != hash_token(wanted) {
            return Err(AuthError::SetupToken);
        }
    }
    Ok(None)
}

/// Creates an account regardless of `OPENVIBE_SIGNUP`, for the operator's command line.
///
/// # Errors
/// `Invalid`, `EmailTaken`.
pub async fn create_account(
    db: &Db,
    hasher: &Hasher,
    email: &str,
    name: &str,
    password: String,
) -> Result<User, AuthError> {
    let email = parse_email(email)?;
    let name = DisplayName::parse(name, "name")?;
    check_password(&password, &name.0, &email)?;
    let hash = hasher.hash(password).await?;
    db.write(uuid::Uuid::nil(), async move |c: &mut Conn| {
        let user = insert_user(c, &email, &name.0, &hash).await?;
        delete_setup_token(c).await?;
        Ok(user)
    })
    .await
}

/// Finds the account with an email address.
pub(super) async fn find_user_by_email(
    c: &mut Conn,
    email: &str,
) -> Result<Option<User>, AuthError> {
    Ok(c.q(
        "select id, email, name, avatar_url, created_at, suggestions, email_confirmed_at is not null as email_confirmed from users where email = $1",
    )
    .bind(email.to_owned())
    .opt()
    .await?)
}

async fn find_by_email(c: &mut Conn, email: &str) -> Result<UserId, AuthError> {
    let stored = StoredPassword::find(c, email).await?;
    Ok(stored.ok_or(AuthError::NotFound("account"))?.user_id)
}

/// Effect of a password reset on the API keys of the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeysAfterReset {
    Revoked,
    Kept,
}

/// Sets a password and ends all sessions of the account, for the operator's command line.
///
/// # Errors
/// `Invalid`, or `NotFound` for an unknown account.
pub async fn reset_password(
    db: &Db,
    hasher: &Hasher,
    email: &str,
    password: String,
    keys_after: KeysAfterReset,
) -> Result<(), AuthError> {
    let email = parse_email(email)?;
    let mut c = db.read().await?;
    let user = find_by_email(&mut c, &email).await?;
    let name = get_user(&mut c, user).await?.name;
    drop(c);
    check_password(&password, &name, &email)?;
    let hash = hasher.hash(password).await?;
    db.write(uuid::Uuid::nil(), async move |c: &mut Conn| {
        let user = find_by_email(c, &email).await?;
        set_password(c, user, &hash).await?;
        let device = Device::OPERATOR;
        events::record(c, user, AuthEventKind::PasswordChanged, None, &device).await?;
        if keys_after == KeysAfterReset::Revoked {
            keys::revoke_all(c, user).await?;
        }
        sessions::end_all(c, user, None).await
    })
    .await
}

/// Changes the password. Sign-ins to the account that are not finished end.
pub(crate) async fn set_password(c: &mut Conn, user: UserId, hash: &str) -> Result<(), AuthError> {
    flows::end_of(c, user).await?;
    c.q("update users set password_hash = $2 where id = $1")
        .bind(user)
        .bind(hash.to_owned())
        .run()
        .await?;
    Ok(())
}

/// Parts of the client that a person turns on or off; omitted ones stay as they are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientParts {
    /// Suggestions of forks.
    pub suggestions: Option<bool>,
    /// First steps of new members.
    pub checklist: Option<bool>,
}

/// Turns parts of the client on or off.
pub(crate) async fn set_client_parts(
    db: &Db,
    caller: &Caller,
    parts: ClientParts,
) -> Result<(), AuthError> {
    let user = caller.user;
    caller
        .write(db, async move |c: &mut Conn| {
            c.q("update users set suggestions = coalesce($2, suggestions), checklist = coalesce($3, checklist) where id = $1")
                .bind(user)
                .bind(parts.suggestions)
                .bind(parts.checklist)
                .run()
                .await?;
            Ok::<_, AuthError>(())
        })
        .await
}

/// Renames a person and notifies all of their workspaces.
///
/// # Errors
/// `Invalid`, also for a name that looks like that of an agent in one of these workspaces.
pub(crate) async fn rename(db: &Db, caller: &Caller, name: String) -> Result<(), AuthError> {
    let user = caller.user;
    caller
        .write(db, async move |c: &mut Conn| set_name(c, user, &name).await)
        .await?;
    announce(db, user).await
}

/// Appends `member.updated` with the current data of a person in all of their workspaces.
pub(crate) async fn announce(db: &Db, user: UserId) -> Result<(), AuthError> {
    // Events go through the writer of their workspace, which keeps their order.
    let workspaces = workspaces::ids_of(&mut db.read().await?, user).await?;
    for workspace in workspaces {
        db.write(workspace.0, async move |c: &mut Conn| {
            super::members::announce(c, workspace, user, EventType::MemberUpdated).await
        })
        .await?;
    }
    Ok(())
}

async fn set_name(c: &mut Conn, user: UserId, name: &str) -> Result<(), AuthError> {
    let current = get_user(c, user).await?.name;
    let DisplayName(name) = DisplayName::parse_change(name, &current, "name")?;
    if name == current {
        return Ok(());
    }
    for workspace in workspaces::ids_of(c, user).await? {
        dialect::lock_workspace(c, workspace.0).await?;
    }
    let skeletons = Skeletons::of(&name);
    c.q("update users set name = $2, name_skeleton = $3, name_folded = $4 where id = $1")
        .bind(user)
        .bind(name.clone())
        .bind(skeletons.exact)
        .bind(skeletons.folded)
        .run()
        .await?;
    // People who join a workspace lock their account. So this includes the workspaces that the person has joined since, and whoever
    // joins one later checks the new name.
    for workspace in workspaces::ids_of(c, user).await? {
        dialect::lock_workspace(c, workspace.0).await?;
        shown_names::check_person(c, workspace, &name).await?;
    }
    shown_names::mark_names_changed(c).await?;
    Ok(())
}
