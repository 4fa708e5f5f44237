//! Users of a provider: their accounts, and memberships that follow them.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{
    change::PatchForm,
    effects::{Effects, MoveChannels, WriteMail},
    fault::ScimFault,
    filter::{Filter, Literal, Term},
    shown::{Location, Range, Selection, list_response},
    token::Sender,
    user::UserDoc,
};
use crate::{
    auth::{
        AuditAction, AuthError, MemberStatus, SecurityChange, audit,
        events::Device,
        members,
        names::parse_email,
        oidc::{
            SignInFault,
            account::{self, AccountChange, Linkable, NewPerson},
            membership, notices,
            provider::StoredProvider,
        },
        suspensions, users, workspaces,
    },
    db::{Conn, Db, Json, dialect, now},
    failpoint,
    ids::{IdentityProviderId, ScimGroupId, UserId, WorkspaceId},
    realtime::EventType,
    time::Timestamp,
};

/// Maximum number of users of a provider.
const USERS_MAX: i64 = 100_000;
/// Maximum number of users that a filter looks through.
const FOUND_MAX: i64 = 1000;
/// Attributes that filters can compare.
const FILTERS: &[&str] = &[
    "id",
    "username",
    "externalid",
    "emails.value",
    "displayname",
];
const SCHEMA: &str = "urn:ietf:params:scim:schemas:core:2.0:User";

#[derive(Debug, sqlx::FromRow)]
pub(super) struct UserRow {
    user_id: UserId,
    data: Json<UserDoc>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

macro_rules! users {
    ($tail:literal) => {
        concat!(
            "select user_id, data, created_at, updated_at from scim_users where provider_id = $1 ",
            $tail
        )
    };
}

async fn find(
    c: &mut Conn,
    provider: IdentityProviderId,
    user: UserId,
) -> Result<UserRow, ScimFault> {
    c.q(users!("and user_id = $2"))
        .bind(provider)
        .bind(user)
        .opt()
        .await?
        .ok_or(ScimFault::NotFound("user"))
}

fn matches(row: &UserRow, term: &Term) -> bool {
    let Literal::Text(wanted) = &term.value else {
        return false;
    };
    let doc = &row.data.0;
    let is_same = |text: &str| text.to_lowercase() == wanted.to_lowercase();
    match term.attribute.as_str() {
        "id" => row.user_id.to_string() == *wanted,
        "username" => is_same(&doc.user_name),
        "externalid" => doc.external_id.as_ref() == Some(wanted),
        "emails.value" => doc.emails.iter().any(|email| {
            let elements = term.elements.as_ref();
            is_same(&email.value) && elements.is_none_or(|elements| elements.selects(&json!(email)))
        }),
        "displayname" => doc.display_name.as_deref().is_some_and(is_same),
        _ => false,
    }
}

/// Users that a filter selects, in the order of their IDs.
async fn search(
    c: &mut Conn,
    provider: IdentityProviderId,
    filter: &Filter,
) -> Result<Vec<UserRow>, ScimFault> {
    let lower = |attribute| filter.text_of(attribute).map(str::to_lowercase);
    let mut rows: Vec<UserRow> = if let Some(id) = filter.text_of("id") {
        let Ok(user) = id.parse::<UserId>() else {
            return Ok(Vec::new());
        };
        c.q(users!("and user_id = $2 order by user_id limit $3"))
            .bind(provider)
            .bind(user)
            .bind(FOUND_MAX)
            .all()
            .await?
    } else {
        let (sql, key) = if let Some(name) = lower("username") {
            (users!("and user_key = $2 order by user_id limit $3"), name)
        } else if let Some(id) = filter.text_of("externalid") {
            (
                users!("and external_id = $2 order by user_id limit $3"),
                id.to_owned(),
            )
        } else if let Some(email) = lower("emails.value") {
            (
                users!(
                    "and user_id in (select user_id from scim_emails where provider_id = $1 and email_key = $2) order by user_id limit $3"
                ),
                email,
            )
        } else if let Some(name) = lower("displayname") {
            (
                users!("and display_key = $2 order by user_id limit $3"),
                name,
            )
        } else {
            return Ok(Vec::new());
        };
        c.q(sql)
            .bind(provider)
            .bind(key)
            .bind(FOUND_MAX)
            .all()
            .await?
    };
    rows.retain(|row| filter.0.iter().all(|term| matches(row, term)));
    Ok(rows)
}

#[derive(sqlx::FromRow)]
struct GroupOfUser {
    user_id: UserId,
    id: ScimGroupId,
    display_name: String,
}

async fn groups_of(
    c: &mut Conn,
    provider: IdentityProviderId,
    rows: &[UserRow],
) -> Result<Vec<GroupOfUser>, ScimFault> {
    let ids = dialect::hexadecimal_ids(rows.iter().map(|row| row.user_id.0));
    Ok(c
        .q(crate::sql_with_ids!(
            c,
            "select m.user_id, g.id, g.display_name from scim_group_members m join scim_groups g on g.id = m.group_id \
             where m.provider_id = $1 and m.user_id in",
            2,
            "order by g.id"
        ))
        .bind(provider)
        .bind(ids)
        .all()
        .await?)
}

fn shown(row: &UserRow, groups: &[GroupOfUser], at: &Location, selection: &Selection) -> Value {
    let mut resource = match serde_json::to_value(&row.data.0) {
        Ok(Value::Object(resource)) => resource,
        _ => Map::new(),
    };
    let id = row.user_id.to_string();
    let mine = groups.iter().filter(|group| group.user_id == row.user_id);
    let mine: Vec<Value> = mine
        .map(|group| {
            let id = group.id.to_string();
            json!({"value": id, "display": group.display_name, "$ref": at.of("Groups", &id), "type": "direct"})
        })
        .collect();
    if !mine.is_empty() {
        resource.insert("groups".to_owned(), Value::Array(mine));
    }
    resource.insert("schemas".to_owned(), json!([SCHEMA]));
    resource.insert(
        "meta".to_owned(),
        json!({"resourceType": "User", "created": row.created_at, "lastModified": row.updated_at, "location": at.of("Users", &id)}),
    );
    resource.insert("id".to_owned(), json!(id));
    selection.apply(resource)
}

async fn all_shown(
    c: &mut Conn,
    provider: IdentityProviderId,
    rows: &[UserRow],
    at: &Location,
    selection: &Selection,
) -> Result<Vec<Value>, ScimFault> {
    let groups = if selection.wants("groups") && !rows.is_empty() {
        groups_of(c, provider, rows).await?
    } else {
        Vec::new()
    };
    let all = rows.iter().map(|row| shown(row, &groups, at, selection));
    Ok(all.collect())
}

/// # Errors
/// `NotFound`, `NotAuthenticated`.
pub(crate) async fn get(
    c: &mut Conn,
    sender: &Sender,
    user: UserId,
    at: &Location,
    selection: &Selection,
) -> Result<Value, ScimFault> {
    sender.enter(c).await?;
    let row = find(c, sender.provider, user).await?;
    let mut all = all_shown(c, sender.provider, &[row], at, selection).await?;
    all.pop().ok_or(ScimFault::NotFound("user"))
}

/// Lists users in the order of their IDs.
///
/// # Errors
/// `invalidFilter`, `NotAuthenticated`.
pub(crate) async fn list(
    c: &mut Conn,
    sender: &Sender,
    filter: Option<&str>,
    range: Range,
    at: &Location,
    selection: &Selection,
) -> Result<Value, ScimFault> {
    sender.enter(c).await?;
    let provider = sender.provider;
    let (total, rows) = if let Some(filter) = filter {
        let found = search(c, provider, &Filter::parse(filter, FILTERS)?).await?;
        (found.len(), range.cut(found))
    } else {
        let total: i64 = c
            .q("select count(*) from scim_users where provider_id = $1")
            .bind(provider)
            .value()
            .await?;
        let rows: Vec<UserRow> = c
            .q(users!("order by user_id limit $2 offset $3"))
            .bind(provider)
            .bind(range.count)
            .bind(range.offset())
            .all()
            .await?;
        (usize::try_from(total).unwrap_or(0), rows)
    };
    let resources = all_shown(c, provider, &rows, at, selection).await?;
    Ok(list_response(total, range, &resources))
}

/// Names of the groups of a user.
pub(super) async fn group_names(
    c: &mut Conn,
    provider: IdentityProviderId,
    user: UserId,
) -> Result<Vec<String>, ScimFault> {
    let rows: Vec<(String,)> = c
        .q("select g.display_name from scim_group_members m join scim_groups g on g.id = m.group_id \
            where m.provider_id = $1 and m.user_id = $2 order by g.id")
        .bind(provider)
        .bind(user)
        .all()
        .await?;
    Ok(rows.into_iter().map(|(name,)| name).collect())
}

/// Brings the memberships of a person up to date, in the order of the workspaces, which prevents deadlocks.
async fn follow(
    c: &mut Conn,
    provider: &StoredProvider,
    user: UserId,
    move_channels: MoveChannels,
) -> Result<(), ScimFault> {
    let sends_groups: bool = c
        .q("select exists (select 1 from scim_groups where provider_id = $1)")
        .bind(provider.id)
        .value()
        .await?;
    let groups = if sends_groups {
        Some(group_names(c, provider.id, user).await?)
    } else {
        None
    };
    let mut entries: Vec<_> = provider.settings.0.workspaces.iter().collect();
    entries.sort_unstable_by_key(|entry| entry.workspace_id);
    for entry in entries {
        let change = membership::update(c, provider, entry, user, groups.as_deref()).await?;
        move_channels(c, entry.workspace_id, user, change).await?;
    }
    Ok(())
}

/// Parses the address of a user, for which the provider has to vouch.
fn address_of(provider: &StoredProvider, doc: &UserDoc) -> Result<String, ScimFault> {
    let email = parse_email(&doc.user_name).map_err(|_| {
        ScimFault::value("`userName` must be an email address, such as ada@example.org")
    })?;
    if provider.settings.0.covers(&email) {
        Ok(email)
    } else {
        Err(ScimFault::value(
            "the domain of `userName` is not one of the provider's domains",
        ))
    }
}

fn taken() -> ScimFault {
    ScimFault::Conflict("this `userName` belongs to another user".to_owned())
}

/// Stores the addresses of a user, for filters.
async fn store_emails(
    c: &mut Conn,
    provider: IdentityProviderId,
    user: UserId,
    doc: &UserDoc,
) -> Result<(), ScimFault> {
    for key in doc.email_keys() {
        c.q("insert into scim_emails (provider_id, user_id, email_key) values ($1, $2, $3)")
            .bind(provider)
            .bind(user)
            .bind(key)
            .run()
            .await?;
    }
    Ok(())
}

async fn create_in(
    c: &mut Conn,
    sender: &Sender,
    doc: &UserDoc,
    effects: &Effects,
) -> Result<UserId, ScimFault> {
    let provider = sender.enter(c).await?;
    let email = address_of(&provider, doc)?;
    let (is_known, count): (bool, i64) = c
        .q(
            "select exists (select 1 from scim_users where provider_id = $1 and user_key = $2), \
            (select count(*) from scim_users where provider_id = $1)",
        )
        .bind(provider.id)
        .bind(email.clone())
        .one()
        .await?;
    if is_known {
        return Err(taken());
    }
    if count >= USERS_MAX {
        let problem = format!("a provider can have at most {USERS_MAX} users");
        return Err(ScimFault::Refused(problem));
    }
    let (user, linked) = match account::find_linkable(c, provider.id, &email).await? {
        Linkable::No => {
            let problem = "this address belongs to an account that the provider cannot manage: its owner signs in and connects the provider first";
            return Err(ScimFault::Conflict(problem.to_owned()));
        }
        Linkable::Connected(user) => (user, false),
        Linkable::Account(user) => (user, true),
        Linkable::Nobody => {
            let name = doc.shown_name();
            let person = NewPerson {
                email: &email,
                name: name.as_deref(),
                invite: None,
            };
            let created = account::create_account(c, &provider, &person).await;
            let user = created.map_err(|fault| match fault {
                SignInFault::NotInvited => ScimFault::Refused(
                    "nobody invited this person, and no workspace of the provider is open to everyone".to_owned(),
                ),
                SignInFault::AddressInUse(_) | SignInFault::Auth(AuthError::EmailTaken) => taken(),
                SignInFault::Auth(error) => ScimFault::Auth(error),
                other => ScimFault::Refused(other.to_string()),
            })?;
            (user.id, false)
        }
    };
    let inserted = c
        .q("insert into scim_users (provider_id, user_id, user_key, external_id, display_key, active, data, created_at, updated_at) \
            values ($1, $2, $3, $4, $5, $6, $7, $8, $8) on conflict do nothing")
        .bind(provider.id)
        .bind(user)
        .bind(email)
        .bind(doc.external_id.clone())
        .bind(doc.display_name.as_deref().map(str::to_lowercase))
        .bind(doc.is_active())
        .bind(Json(doc.clone()))
        .bind(now())
        .run()
        .await?;
    if inserted == 0 {
        return Err(taken());
    }
    store_emails(c, provider.id, user, doc).await?;
    if linked {
        let owner = users::get_user(c, user).await?;
        let change = SecurityChange::IdentityAdded;
        (effects.write_mail)(&owner, change).queue(c).await?;
        let data = json!({"provider": provider.name});
        for workspace in workspaces::ids_of(c, user).await? {
            let action = AuditAction::ScimUserLinked;
            audit::record_provider(c, workspace, action, user.to_string(), data.clone()).await?;
        }
    }
    if doc.is_active() {
        restore(c, &provider, user, effects.move_channels).await?;
    } else {
        suspend(c, &provider, user).await?;
    }
    Ok(user)
}

/// Creates a user: an account, or a link to the account with the address.
///
/// # Errors
/// `invalidValue` for an address for which the provider does not vouch, `uniqueness`, `Refused`, `NotAuthenticated`.
pub(crate) async fn create(
    db: &Db,
    sender: Sender,
    doc: UserDoc,
    effects: Effects,
) -> Result<UserId, ScimFault> {
    let doc = UserDoc {
        active: Some(doc.is_active()),
        ..doc
    };
    db.write_in_turn(sender.provider.0, Uuid::nil(), async move |c: &mut Conn| {
        create_in(c, &sender, &doc, &effects).await
    })
    .await
}

/// Suspends the memberships that the provider made, except for those of the last admin and of server admins.
async fn suspend(c: &mut Conn, provider: &StoredProvider, user: UserId) -> Result<(), ScimFault> {
    let is_server_admin = workspaces::is_server_admin(c, user).await?;
    for workspace in managed(c, MemberStatus::Active, provider.id, user).await? {
        dialect::lock_workspace(c, workspace.0).await?;
        let Some(member) = members::find_member(c, workspace, user).await? else {
            continue;
        };
        let is_last = members::check_not_last_admin(c, &member, workspace).await;
        let is_last = match is_last {
            Ok(()) => false,
            Err(AuthError::LastAdmin) => true,
            Err(error) => return Err(error.into()),
        };
        let data = json!({"provider": provider.name});
        let action = if is_server_admin || is_last {
            notices::role_kept(c, workspace, user).await?;
            AuditAction::MemberNotSuspended
        } else {
            suspensions::suspend(c, workspace, user).await?;
            AuditAction::MemberSuspended
        };
        audit::record_provider(c, workspace, action, user.to_string(), data).await?;
    }
    Ok(())
}

/// Restores the suspended memberships that the provider made, and brings all of them up to date.
async fn restore(
    c: &mut Conn,
    provider: &StoredProvider,
    user: UserId,
    move_channels: MoveChannels,
) -> Result<(), ScimFault> {
    for workspace in managed(c, MemberStatus::Suspended, provider.id, user).await? {
        if suspensions::restore(c, workspace, user).await? {
            let data = json!({"provider": provider.name});
            let action = AuditAction::MemberRestored;
            audit::record_provider(c, workspace, action, user.to_string(), data).await?;
        }
    }
    follow(c, provider, user, move_channels).await
}

/// Workspaces of which the provider made the membership.
async fn managed(
    c: &mut Conn,
    status: MemberStatus,
    provider: IdentityProviderId,
    user: UserId,
) -> Result<Vec<WorkspaceId>, ScimFault> {
    let sql = match status {
        MemberStatus::Active => {
            "select workspace_id from members where user_id = $1 and managed_by = $2 order by workspace_id"
        }
        MemberStatus::Suspended => {
            "select workspace_id from suspended_members where user_id = $1 and managed_by = $2 order by workspace_id"
        }
        MemberStatus::Placeholder => return Ok(Vec::new()),
    };
    let rows: Vec<(WorkspaceId,)> = c.q(sql).bind(user).bind(provider).all().await?;
    Ok(rows.into_iter().map(|(workspace,)| workspace).collect())
}

/// Change to a user.
#[derive(Debug, Clone)]
enum UserChange {
    Replace(UserDoc),
    Patch(PatchForm),
}

impl UserChange {
    /// The user after the change.
    fn next(&self, row: &UserRow) -> Result<UserDoc, ScimFault> {
        match self {
            // Nobody returns because a client left `active` out.
            Self::Replace(doc) => Ok(UserDoc {
                active: doc.active.or(row.data.active),
                ..doc.clone()
            }),
            Self::Patch(form) => form.apply(&row.data.0),
        }
    }
}

async fn store(
    c: &mut Conn,
    provider: &StoredProvider,
    row: &UserRow,
    doc: &UserDoc,
    effects: &Effects,
) -> Result<(), ScimFault> {
    let before = &row.data.0;
    if before == doc {
        return Ok(());
    }
    let user = row.user_id;
    let is_renamed = before.user_name.to_lowercase() != doc.user_name.to_lowercase();
    let email = if is_renamed {
        address_of(provider, doc)?
    } else {
        before.user_name.trim().to_lowercase()
    };
    let is_taken: bool = c
        .q("select exists (select 1 from scim_users where provider_id = $1 and user_key = $2 and user_id <> $3)")
        .bind(provider.id)
        .bind(email.clone())
        .bind(user)
        .value()
        .await?;
    if is_taken {
        return Err(taken());
    }
    c.q("update scim_users set user_key = $3, external_id = $4, display_key = $5, active = $6, data = $7, updated_at = $8 \
         where provider_id = $1 and user_id = $2")
        .bind(provider.id)
        .bind(user)
        .bind(email.clone())
        .bind(doc.external_id.clone())
        .bind(doc.display_name.as_deref().map(str::to_lowercase))
        .bind(doc.is_active())
        .bind(Json(doc.clone()))
        .bind(now())
        .run()
        .await?;
    if before.emails != doc.emails {
        c.q("delete from scim_emails where provider_id = $1 and user_id = $2")
            .bind(provider.id)
            .bind(user)
            .run()
            .await?;
        store_emails(c, provider.id, user, doc).await?;
    }
    if is_renamed {
        move_address(c, provider, user, &email, &effects.write_mail).await?;
    }
    match (before.is_active(), doc.is_active()) {
        (true, false) => suspend(c, provider, user).await,
        (false, true) => restore(c, provider, user, effects.move_channels).await,
        _ => Ok(()),
    }
}

/// Gives the account the new address if it is free, and tells the old one. Otherwise the admins of its workspaces get a notice.
async fn move_address(
    c: &mut Conn,
    provider: &StoredProvider,
    user: UserId,
    email: &str,
    write_mail: &WriteMail,
) -> Result<(), ScimFault> {
    let owner = users::get_user(c, user).await?;
    let device = Device {
        user_agent: Some("SCIM".to_owned()),
        address: None,
    };
    if account::take_address(c, user, email, &device).await? != AccountChange::NewAddress {
        if owner.email != email
            && let Some(identity) =
                account::note_kept_address_of(c, provider.id, user, email).await?
        {
            for workspace in workspaces::ids_of(c, user).await? {
                notices::address_kept(c, workspace, identity).await?;
            }
        }
        return Ok(());
    }
    let change = SecurityChange::Address;
    write_mail(&owner, change).queue(c).await?;
    for workspace in workspaces::ids_of(c, user).await? {
        dialect::lock_workspace(c, workspace.0).await?;
        members::announce(c, workspace, user, EventType::MemberUpdated).await?;
    }
    Ok(())
}

async fn change(
    db: &Db,
    sender: Sender,
    user: UserId,
    change: UserChange,
    effects: Effects,
) -> Result<(), ScimFault> {
    let mut c = db.read().await?;
    let row = find(&mut c, sender.provider, user).await?;
    if change.next(&row)? == row.data.0 {
        sender.enter(&mut c).await?;
        return Ok(());
    }
    drop(c);
    db.write_in_turn(sender.provider.0, Uuid::nil(), async move |c: &mut Conn| {
        let provider = sender.enter(c).await?;
        let row = find(c, provider.id, user).await?;
        let doc = change.next(&row)?;
        store(c, &provider, &row, &doc, &effects).await
    })
    .await
}

/// # Errors
/// Same as `create`, or `NotFound`.
pub(crate) async fn replace(
    db: &Db,
    sender: Sender,
    user: UserId,
    doc: UserDoc,
    effects: Effects,
) -> Result<(), ScimFault> {
    change(db, sender, user, UserChange::Replace(doc), effects).await
}

/// # Errors
/// Same as `create`, or `NotFound`, or those of the operations.
pub(crate) async fn patch(
    db: &Db,
    sender: Sender,
    user: UserId,
    form: PatchForm,
    effects: Effects,
) -> Result<(), ScimFault> {
    change(db, sender, user, UserChange::Patch(form), effects).await
}

/// Suspends the memberships of a user, and forgets that the provider manages the account. Nothing else is deleted.
///
/// # Errors
/// `NotFound`, `NotAuthenticated`.
pub(crate) async fn delete(db: &Db, sender: Sender, user: UserId) -> Result<(), ScimFault> {
    db.write_in_turn(sender.provider.0, Uuid::nil(), async move |c: &mut Conn| {
        let provider = sender.enter(c).await?;
        find(c, provider.id, user).await?;
        suspend(c, &provider, user).await?;
        c.q("delete from scim_users where provider_id = $1 and user_id = $2")
            .bind(provider.id)
            .bind(user)
            .run()
            .await?;
        Ok::<_, ScimFault>(())
    })
    .await?;
    failpoint!("deactivated");
    Ok(())
}
