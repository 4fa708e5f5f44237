//! Accounts of invited people that begin with a passkey instead of a password.

use super::{
    passkeys::{self, NewAccountPasskey},
    webauthn::Registration,
};
use crate::{
    auth::{
        AuthError, DisplayName, events::Device, handles, invites, members::Newcomer,
        names::parse_email, password::NOBODY, users,
    },
    db::{Conn, Db},
    ids::UserId,
};

/// A person whom an invite lets in.
#[derive(Debug, Clone)]
pub(crate) struct Invited {
    pub email: String,
    pub name: String,
    /// Token of the invite.
    pub invite: String,
}

/// Begins to create an account: its passkey is still missing.
///
/// # Errors
/// `Invalid`, `InviteNotFound`, `InviteForAnother`.
pub(crate) async fn begin(db: &Db, invited: Invited) -> Result<NewAccountPasskey, AuthError> {
    let email = parse_email(&invited.email)?;
    DisplayName::parse(&invited.name, "name")?;
    invites::find_open(&mut db.read().await?, &invited.invite, Some(&email)).await?;
    let new = NewAccountPasskey::new();
    let flow = new.flow.clone();
    db.write(uuid::Uuid::nil(), async move |c: &mut Conn| {
        flow.store(c).await
    })
    .await?;
    Ok(new)
}

/// Creates an account with its passkey, and lets it join the workspace of the invite. Returns the account and its recovery codes.
///
/// # Errors
/// `Invalid`, `EmailTaken`, `HandleTaken`, `InviteNotFound`, `InviteForAnother`, or `FlowExpired` if the challenge is not one for a new
/// account.
pub(crate) async fn finish(
    db: &Db,
    invited: Invited,
    handle: Option<String>,
    passkey: Registration,
    device: Device,
) -> Result<(UserId, Vec<String>), AuthError> {
    let email = parse_email(&invited.email)?;
    let name = DisplayName::parse(&invited.name, "name")?;
    if let Some(handle) = &handle {
        handles::check(handle, "handle")?;
    }
    let invite = invites::find_open(&mut db.read().await?, &invited.invite, Some(&email)).await?;
    db.write(invite.workspace_id.0, async move |c: &mut Conn| {
        let invite = invites::find_open(c, &invited.invite, Some(&email)).await?;
        let id = passkeys::take_new_account(c, &passkey).await?;
        users::insert_user_as(c, id, &email, &name.0, NOBODY).await?;
        let new = Newcomer {
            user: id,
            name: &name.0,
            handle: handle.as_deref(),
        };
        invites::accept(c, &invite, &new).await?;
        let codes = passkeys::add_first(c, id, &passkey, &device).await?;
        Ok((id, codes))
    })
    .await
}
