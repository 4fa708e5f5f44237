//! Whose account a person's identity signs in to.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    SignInFault,
    answer::{Vouched, VouchedAddress},
    membership,
    provider::{ProviderJoin, StoredProvider},
    step::{Begun, StepPurpose},
};
use crate::{
    auth::{
        AuditAction, AuthError, Caller, Credential, DisplayName, RouteReach, UserKind, audit,
        events::{self, AuthEventKind, Device},
        factors,
        flows::{self, FlowKind, NewFlow},
        invites, keys,
        members::{self, Newcomer},
        names::parse_email,
        password::NOBODY,
        placeholders,
        sessions::{self, SignInProof},
        shown_names,
        users::{self, User},
        workspaces,
    },
    db::{Conn, now},
    ids::{IdentityId, IdentityProviderId, InviteId, SessionId, UserId, WorkspaceId},
    realtime::EventType,
};

/// Maximum number of invites that a new person accepts at once.
const INVITES_MAX: i64 = 20;
/// Maximum number of numbers that are tried after a name.
const NUMBERS_MAX: u32 = 50;

/// An identity that is not connected to an account yet. It waits in the row of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Pending {
    pub provider: IdentityProviderId,
    pub subject: String,
    pub email: String,
    pub session: Option<String>,
    pub proof: SignInProof,
}

/// Change that the account's owner has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccountChange {
    None,
    Connected,
    NewAddress,
    /// Another account has the provider's new address, so the old one stays. Admins have to know.
    AddressKept,
}

/// An account that a person can enter.
#[derive(Debug)]
pub(crate) struct Entered {
    /// The account as it was before.
    pub owner: User,
    pub identity: IdentityId,
    pub change: AccountChange,
}

/// Result of a sign-in with a provider.
#[derive(Debug)]
pub(crate) enum Whose {
    Account(Entered),
    /// The account has the address, but nobody confirmed it. Its password decides.
    Unconfirmed(UserId, Pending),
}

#[derive(sqlx::FromRow)]
struct KnownIdentity {
    id: IdentityId,
    user_id: UserId,
}

async fn find_identity(
    c: &mut Conn,
    provider: IdentityProviderId,
    subject: &str,
) -> Result<Option<KnownIdentity>, AuthError> {
    Ok(
        c.q("select id, user_id from identities where provider_id = $1 and subject = $2")
            .bind(provider)
            .bind(subject.to_owned())
            .opt()
            .await?,
    )
}

async fn has_identity(c: &mut Conn, user: UserId) -> Result<bool, AuthError> {
    Ok(
        c.q("select exists (select 1 from identities where user_id = $1)")
            .bind(user)
            .value()
            .await?,
    )
}

fn in_use(email: Option<&str>) -> SignInFault {
    SignInFault::AddressInUse(email.map(str::to_owned))
}

/// Stores an identity. Fails if another request was faster.
async fn insert_identity(
    c: &mut Conn,
    provider: IdentityProviderId,
    new: &NewIdentity<'_>,
) -> Result<IdentityId, SignInFault> {
    let row: Option<(IdentityId,)> = c
        .q("insert into identities (id, provider_id, subject, user_id, email, linked_at, used_at) values ($1, $2, $3, $4, $5, $6, $6) \
            on conflict do nothing returning id")
        .bind(IdentityId::new())
        .bind(provider)
        .bind(new.subject.to_owned())
        .bind(new.user)
        .bind(new.email.map(str::to_owned))
        .bind(now())
        .opt()
        .await?;
    row.map(|(id,)| id).ok_or_else(|| in_use(new.email))
}

async fn confirm_email(c: &mut Conn, user: UserId) -> Result<(), AuthError> {
    c.q("update users set email_confirmed_at = $2 where id = $1 and email_confirmed_at is null")
        .bind(user)
        .bind(now())
        .run()
        .await?;
    Ok(())
}

/// Change to the connections of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdentityChange {
    Added,
    Removed,
}

/// An account, and the identity that it gets.
struct NewIdentity<'a> {
    user: UserId,
    subject: &'a str,
    email: Option<&'a str>,
}

/// Records a new or removed connection for the person and for admins.
pub(super) async fn record_identity(
    c: &mut Conn,
    user: UserId,
    provider_name: &str,
    change: IdentityChange,
    device: &Device,
) -> Result<(), AuthError> {
    let (kind, action) = match change {
        IdentityChange::Added => (AuthEventKind::IdentityAdded, AuditAction::IdentityLinked),
        IdentityChange::Removed => (AuthEventKind::IdentityRemoved, AuditAction::IdentityRemoved),
    };
    events::record(c, user, kind, Some(provider_name), device).await?;
    for workspace in workspaces::ids_of(c, user).await? {
        let data = json!({"provider": provider_name});
        audit::record_of(c, workspace, user, action, user.to_string(), data).await?;
    }
    Ok(())
}

async fn connect(
    c: &mut Conn,
    provider: &StoredProvider,
    new: &NewIdentity<'_>,
    device: &Device,
) -> Result<Entered, SignInFault> {
    let owner = users::get_user(c, new.user).await?;
    let identity = insert_identity(c, provider.id, new).await?;
    record_identity(c, new.user, &provider.name, IdentityChange::Added, device).await?;
    Ok(Entered {
        owner,
        identity,
        change: AccountChange::Connected,
    })
}

/// Finds the account of a person, or creates it. The first rule that applies decides.
///
/// # Errors
/// `EmailNotVerified`, `AddressInUse`, `NotInvited`, and those of the session that connects a provider.
pub(crate) async fn find_or_create(
    c: &mut Conn,
    provider: &StoredProvider,
    begun: &Begun,
    vouched: &Vouched,
    device: &Device,
) -> Result<Whose, SignInFault> {
    let trusted = match &vouched.address {
        VouchedAddress::Trusted(email) => Some(email.as_str()),
        _ => None,
    };
    let known = find_identity(c, provider.id, &vouched.subject).await?;
    if begun.step.purpose == StepPurpose::Connect {
        let user = check_session(c, begun).await?;
        return match known {
            Some(known) if known.user_id == user => Ok(Whose::Account(Entered {
                owner: users::get_user(c, user).await?,
                identity: known.id,
                change: AccountChange::None,
            })),
            Some(_) => Err(in_use(trusted)),
            None => {
                let new = NewIdentity {
                    user,
                    subject: &vouched.subject,
                    email: trusted,
                };
                connect(c, provider, &new, device).await.map(Whose::Account)
            }
        };
    }
    if let Some(known) = known {
        return enter(c, known, trusted, device).await.map(Whose::Account);
    }
    let Some(email) = trusted else {
        return Err(match vouched.address {
            VouchedAddress::NotCovered => SignInFault::NotInvited,
            _ => SignInFault::EmailNotVerified,
        });
    };
    if let Some(owner) = users::find_user_by_email(c, email).await? {
        if has_identity(c, owner.id).await? || workspaces::is_server_admin(c, owner.id).await? {
            return Err(in_use(trusted));
        }
        if !owner.email_confirmed {
            let pending = Pending {
                provider: provider.id,
                subject: vouched.subject.clone(),
                email: email.to_owned(),
                session: vouched.session.clone(),
                proof: vouched.proof,
            };
            return Ok(Whose::Unconfirmed(owner.id, pending));
        }
        let new = NewIdentity {
            user: owner.id,
            subject: &vouched.subject,
            email: Some(email),
        };
        return connect(c, provider, &new, device).await.map(Whose::Account);
    }
    create(c, provider, begun.invite, vouched, email)
        .await
        .map(Whose::Account)
}

/// Checks that the session that began a step still exists, and returns its account. The step began only after a confirmation.
pub(crate) async fn check_session(c: &mut Conn, begun: &Begun) -> Result<UserId, AuthError> {
    let (user, session) = begun
        .user
        .zip(begun.step.session)
        .ok_or(AuthError::FlowExpired)?;
    caller(user, session).check_credential(c).await?;
    Ok(user)
}

fn caller(user: UserId, session: SessionId) -> Caller {
    Caller {
        user,
        kind: UserKind::Person,
        name: String::new(),
        credential: Credential::Session(session),
        reach: RouteReach::Members,
        turn: None,
    }
}

/// Confirms a session whose person has just signed in to the provider again.
///
/// # Errors
/// `Refused` if another person did.
pub(crate) async fn confirm(
    c: &mut Conn,
    provider: &StoredProvider,
    begun: &Begun,
    vouched: &Vouched,
) -> Result<(), SignInFault> {
    let (user, session) = begun
        .user
        .zip(begun.step.session)
        .ok_or(SignInFault::Expired)?;
    caller(user, session).check_credential(c).await?;
    let known = find_identity(c, provider.id, &vouched.subject).await?;
    if known.is_none_or(|known| known.user_id != user) {
        return Err(SignInFault::Refused("another_person".to_owned()));
    }
    Ok(sessions::confirm(c, session).await?)
}

/// Enters the account of a known identity. A new trusted address becomes the account's if it is free.
async fn enter(
    c: &mut Conn,
    known: KnownIdentity,
    trusted: Option<&str>,
    device: &Device,
) -> Result<Entered, SignInFault> {
    c.q("update identities set used_at = $2, email = coalesce($3, email) where id = $1")
        .bind(known.id)
        .bind(now())
        .bind(trusted.map(str::to_owned))
        .run()
        .await?;
    let user = users::get_user(c, known.user_id).await?;
    let mut change = AccountChange::None;
    if let Some(email) = trusted {
        if email == user.email {
            confirm_email(c, user.id).await?;
            // Those of other providers still have another address.
            c.q("update identities set noticed_email = null where id = $1 and noticed_email is not null")
                .bind(known.id)
                .run()
                .await?;
        } else {
            change = take_address(c, user.id, email, device).await?;
            if change == AccountChange::None && note_kept_address(c, known.id, email).await? {
                change = AccountChange::AddressKept;
            }
        }
    }
    Ok(Entered {
        owner: user,
        identity: known.id,
        change,
    })
}

/// Creates the account of a person with an identity.
async fn create(
    c: &mut Conn,
    provider: &StoredProvider,
    invite: Option<InviteId>,
    vouched: &Vouched,
    email: &str,
) -> Result<Entered, SignInFault> {
    let new = NewPerson {
        email,
        name: vouched.name.as_deref(),
        invite,
    };
    let user = create_account(c, provider, &new).await?;
    let connected = NewIdentity {
        user: user.id,
        subject: &vouched.subject,
        email: Some(email),
    };
    let identity = insert_identity(c, provider.id, &connected).await?;
    Ok(Entered {
        owner: user,
        identity,
        change: AccountChange::None,
    })
}

/// A person without an account, and the invite that they hold.
pub(crate) struct NewPerson<'a> {
    pub email: &'a str,
    pub name: Option<&'a str>,
    pub invite: Option<InviteId>,
}

/// Creates an account for a person whom an invite or a workspace that is open to everyone lets in, and accepts the invites.
///
/// # Errors
/// `NotInvited`.
pub(crate) async fn create_account(
    c: &mut Conn,
    provider: &StoredProvider,
    person: &NewPerson<'_>,
) -> Result<User, SignInFault> {
    let email = person.email;
    let invites = invites::open_for(c, email, person.invite, INVITES_MAX).await?;
    let entries = &provider.settings.0.workspaces;
    let open: Vec<_> = entries
        .iter()
        .filter(|entry| entry.join == ProviderJoin::Everyone)
        .collect();
    if invites.is_empty() && open.is_empty() {
        return Err(SignInFault::NotInvited);
    }
    let mut workspaces: Vec<_> = invites.iter().map(|invite| invite.workspace_id).collect();
    workspaces.extend(open.iter().map(|entry| entry.workspace_id));
    let name = free_name(c, &workspaces, person.name, email).await?;
    let user = users::insert_user(c, email, &name, NOBODY).await?;
    confirm_email(c, user.id).await?;
    let new = Newcomer {
        user: user.id,
        name: &name,
        handle: None,
    };
    for invite in &invites {
        let (workspace, member) = invites::accept(c, invite, &new).await?;
        placeholders::claim_by_address(c, workspace, &member).await?;
        if entries
            .iter()
            .any(|e| e.workspace_id == invite.workspace_id)
        {
            membership::manage(c, provider.id, invite.workspace_id, user.id).await?;
        }
    }
    Ok(user)
}

/// Account that a provider may manage by its address.
pub(crate) enum Linkable {
    Nobody,
    /// The account is connected to the provider.
    Connected(UserId),
    /// The account is not connected to a provider, and its address is confirmed.
    Account(UserId),
    /// The address is not confirmed, or the account is that of a server admin, or of another identity.
    No,
}

/// Finds the account with a trusted address. It can be linked if it is connected to the provider, or else by the rules of a sign-in.
///
/// # Errors
/// Only database errors.
pub(crate) async fn find_linkable(
    c: &mut Conn,
    provider: IdentityProviderId,
    email: &str,
) -> Result<Linkable, AuthError> {
    let Some(owner) = users::find_user_by_email(c, email).await? else {
        return Ok(Linkable::Nobody);
    };
    let is_connected: bool = c
        .q("select exists (select 1 from identities where user_id = $1 and provider_id = $2)")
        .bind(owner.id)
        .bind(provider)
        .value()
        .await?;
    if is_connected {
        return Ok(Linkable::Connected(owner.id));
    }
    let is_linkable = owner.email_confirmed
        && !has_identity(c, owner.id).await?
        && !workspaces::is_server_admin(c, owner.id).await?;
    Ok(if is_linkable {
        Linkable::Account(owner.id)
    } else {
        Linkable::No
    })
}

/// Gives an account a new trusted address, if no other account has it.
///
/// # Errors
/// Only database errors.
pub(crate) async fn take_address(
    c: &mut Conn,
    user: UserId,
    email: &str,
    device: &Device,
) -> Result<AccountChange, AuthError> {
    if users::find_user_by_email(c, email).await?.is_some() {
        return Ok(AccountChange::None);
    }
    c.q(
        "update users set email = $2, email_confirmed_at = $3 where id = $1 \
         and not exists (select 1 from users o where o.email = $2)",
    )
    .bind(user)
    .bind(email.to_owned())
    .bind(now())
    .run()
    .await?;
    forget_kept_address(c, user).await?;
    let changed = AuthEventKind::AddressChanged;
    events::record(c, user, changed, None, device).await?;
    Ok(AccountChange::NewAddress)
}

/// Stores that an account keeps its address, because another one has the provider's new address. Returns true if this is news.
async fn note_kept_address(
    c: &mut Conn,
    identity: IdentityId,
    email: &str,
) -> Result<bool, AuthError> {
    let noted = c
        .q("update identities set noticed_email = $2, email = $2 where id = $1 and coalesce(noticed_email, '') <> $2")
        .bind(identity)
        .bind(email.to_owned())
        .run()
        .await?;
    Ok(noted > 0)
}

/// Forgets the address that an account did not get, so that the next one is news.
async fn forget_kept_address(c: &mut Conn, user: UserId) -> Result<(), AuthError> {
    c.q("update identities set noticed_email = null where user_id = $1 and noticed_email is not null")
        .bind(user)
        .run()
        .await?;
    Ok(())
}

/// Like `note_kept_address`, for the identity of a person whose address a provider changes. Returns the identity if this is news.
///
/// # Errors
/// Only database errors.
pub(crate) async fn note_kept_address_of(
    c: &mut Conn,
    provider: IdentityProviderId,
    user: UserId,
    email: &str,
) -> Result<Option<IdentityId>, AuthError> {
    let row: Option<(IdentityId,)> = c
        .q("select id from identities where provider_id = $1 and user_id = $2")
        .bind(provider)
        .bind(user)
        .opt()
        .await?;
    match row {
        Some((identity,)) if note_kept_address(c, identity, email).await? => Ok(Some(identity)),
        _ => Ok(None),
    }
}

/// A name for a new person, with a number if it would look like another one.
async fn free_name(
    c: &mut Conn,
    workspaces: &[WorkspaceId],
    given: Option<&str>,
    email: &str,
) -> Result<String, AuthError> {
    let local = email.split_once('@').map_or(email, |(local, _)| local);
    let given = given.unwrap_or(local);
    let short: String = given.chars().take(70).collect();
    let texts = [short.as_str(), local, "Member"];
    let parsed = texts
        .iter()
        .find_map(|text| DisplayName::parse(text, "name").ok());
    let base = parsed.map_or_else(|| "Member".to_owned(), |name| name.0);
    for number in 1..=NUMBERS_MAX {
        let name = if number == 1 {
            base.clone()
        } else {
            format!("{base} {number}")
        };
        if is_free(c, workspaces, &name).await? {
            return Ok(name);
        }
    }
    Ok(base)
}

async fn is_free(c: &mut Conn, workspaces: &[WorkspaceId], name: &str) -> Result<bool, AuthError> {
    for workspace in workspaces {
        match shown_names::check_person(c, *workspace, name).await {
            Ok(()) => {}
            Err(AuthError::Invalid(..)) => return Ok(false),
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}

/// Stores an identity that waits for the password of an account; returns the secret for the browser.
///
/// # Errors
/// Only database errors.
pub(crate) async fn store_pending(
    c: &mut Conn,
    user: UserId,
    pending: &Pending,
) -> Result<String, AuthError> {
    let flow = NewFlow {
        data: serde_json::to_value(pending).ok(),
        ..NewFlow::new(FlowKind::IdentityLink, Some(user))
    };
    let flow = NewFlow {
        browser: Some(flow.secret.clone()),
        ..flow
    };
    flow.store(c).await?;
    Ok(flow.secret)
}

fn pending_of(flow: flows::BrowserFlow) -> Result<(UserId, Pending), AuthError> {
    let pending = flow.data.map(|data| serde_json::from_value(data.0));
    let pending = pending.and_then(Result::ok);
    flow.user_id.zip(pending).ok_or(AuthError::FlowExpired)
}

/// Finds an identity that waits.
///
/// # Errors
/// `FlowExpired`.
pub(crate) async fn find_pending(
    c: &mut Conn,
    secret: &str,
) -> Result<(UserId, Pending), AuthError> {
    let kind = FlowKind::IdentityLink;
    pending_of(flows::find_in_browser(c, secret, secret, kind).await?)
}

/// Finds an identity that waits, and ends the wait.
///
/// # Errors
/// `FlowExpired`.
pub(crate) async fn take_pending(
    c: &mut Conn,
    secret: &str,
) -> Result<(UserId, Pending), AuthError> {
    let kind = FlowKind::IdentityLink;
    pending_of(flows::take_in_browser(c, secret, secret, kind).await?)
}

/// Connects a waiting identity to the account that has its address, once its password was entered, or after everything with which
/// somebody else could enter the account was removed.
///
/// # Errors
/// `AddressInUse` if the account has changed in the meantime.
pub(crate) async fn connect_pending(
    c: &mut Conn,
    provider: &StoredProvider,
    user: UserId,
    pending: &Pending,
    proof: LinkProof,
    device: &Device,
) -> Result<Entered, SignInFault> {
    let owner = users::get_user(c, user).await?;
    let is_same = parse_email(&pending.email).is_ok_and(|email| email == owner.email);
    if !is_same || has_identity(c, user).await? || workspaces::is_server_admin(c, user).await? {
        return Err(in_use(Some(&pending.email)));
    }
    if proof == LinkProof::Unknown {
        factors::delete_all(c, user).await?;
        let removed = AuthEventKind::FactorRemoved;
        events::record(c, user, removed, None, device).await?;
        users::set_password(c, user, NOBODY).await?;
        events::record(c, user, AuthEventKind::PasswordChanged, None, device).await?;
        keys::revoke_all(c, user).await?;
        sessions::end_all(c, user, None).await?;
    }
    confirm_email(c, user).await?;
    let new = NewIdentity {
        user,
        subject: &pending.subject,
        email: Some(&pending.email),
    };
    connect(c, provider, &new, device).await
}

/// Proof with which a waiting identity is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkProof {
    /// The password of the account.
    Password,
    /// None: whoever registered the account loses it.
    Unknown,
}

/// Announces a new address in the person's workspaces.
///
/// # Errors
/// Only database errors.
pub(crate) async fn announce_address(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<(), AuthError> {
    members::announce(c, workspace, user, EventType::MemberUpdated).await?;
    Ok(())
}

/// Outcome that a sign-in would have, without signing in: the account, or the reason why there is none.
///
/// # Errors
/// Only database errors.
pub(crate) async fn foresee(
    c: &mut Conn,
    provider: &StoredProvider,
    vouched: &Vouched,
) -> Result<serde_json::Value, AuthError> {
    let known = find_identity(c, provider.id, &vouched.subject).await?;
    let email = match &vouched.address {
        VouchedAddress::Trusted(email) => Some(email.clone()),
        _ => None,
    };
    let owner = match (&known, &email) {
        (Some(known), _) => Some(users::get_user(c, known.user_id).await?),
        (None, Some(email)) => users::find_user_by_email(c, email).await?,
        (None, None) => None,
    };
    let account = match (&known, &owner, &vouched.address) {
        (Some(_), _, _) => "known",
        (None, Some(owner), _)
            if has_identity(c, owner.id).await?
                || workspaces::is_server_admin(c, owner.id).await? =>
        {
            "address_in_use"
        }
        (None, Some(owner), _) if !owner.email_confirmed => "password_needed",
        (None, Some(_), _) => "linked",
        (None, None, VouchedAddress::Trusted(_)) => "new",
        (None, None, VouchedAddress::NotCovered) => "not_invited",
        (None, None, VouchedAddress::NotConfirmed) => "email_not_verified",
    };
    let entries = provider.settings.0.workspaces.iter();
    let roles: Vec<_> = entries
        .map(|entry| {
            let role = membership::role_of(entry, vouched.groups.as_deref());
            json!({"workspace_id": entry.workspace_id, "role": role})
        })
        .collect();
    Ok(
        json!({"at": now(), "claims": vouched.claims, "account": account,
        "email": owner.map(|owner| owner.email).or(email), "groups": vouched.groups.is_some(), "roles": roles}),
    )
}
