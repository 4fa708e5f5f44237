//! Placeholders: people of an imported archive who have no account here. They are authors, mentions, and members of their channels, but
//! never sign in, get no items, and do not count as people.

use std::collections::HashMap;

use uuid::Uuid;

use super::{
    Actor, AuditAction, AuthError, DisplayName, Member, MemberStatus, Role, Scope, Scopes,
    UserKind, authors::insert_without_sign_in, find_member, get_member, handles,
    look_alikes::Skeletons, mark_names_changed, members::member_sql, names::parse_email,
    record_audit, shown_names,
};
use crate::{
    cursor::PageRange,
    db::{Conn, dialect, now},
    ids::{BEFORE_ALL_SEQS, UserId, WorkspaceId},
    time::Timestamp,
};

/// Maximum length of a placeholder's name, which leaves room for a number.
const NAME_CHARS_MAX: usize = 60;

/// A person of an archive.
#[derive(Debug, Clone, Copy)]
pub struct NewPlaceholder<'a> {
    /// ID made from the source's key.
    pub user: UserId,
    pub name: &'a str,
}

/// Returns a name that the workspace accepts: without characters that no name has, and with a number if it looks like that of an agent.
async fn accepted_name(
    c: &mut Conn,
    workspace: WorkspaceId,
    name: &str,
) -> Result<String, AuthError> {
    let base: String = name
        .chars()
        .filter(|c| !c.is_control())
        .take(NAME_CHARS_MAX)
        .collect();
    let base = match base.trim() {
        base if DisplayName::parse(base, "name").is_ok() => base.to_owned(),
        _ => "Unknown".to_owned(),
    };
    let mut accepted = base.clone();
    let mut n = 1;
    while shown_names::is_like_agent(c, workspace, None, &Skeletons::of(&accepted)).await? {
        n += 1;
        accepted = format!("{base} {n}");
    }
    Ok(accepted)
}

/// Inserts a placeholder with a free handle, unless it is there. The workspace must be locked.
///
/// # Errors
/// Only database errors.
pub async fn insert_placeholder(
    c: &mut Conn,
    workspace: WorkspaceId,
    new: NewPlaceholder<'_>,
) -> Result<(), AuthError> {
    let is_known: bool = c
        .q("select exists (select 1 from users where id = $1)")
        .bind(new.user)
        .value()
        .await?;
    if is_known {
        return Ok(());
    }
    let name = accepted_name(c, workspace, new.name).await?;
    insert_without_sign_in(c, new.user, &name, UserKind::Person).await?;
    let handle = handles::find_free(c, workspace, &name, "member").await?;
    handles::claim(
        c,
        workspace,
        &handle,
        handles::OwnerType::Person,
        new.user.0,
    )
    .await?;
    c.q("insert into members (workspace_id, user_id, role, handle, joined_at, status) values ($1, $2, $3, $4, $5, $6)")
        .bind(workspace)
        .bind(new.user)
        .bind(Role::Member)
        .bind(handle)
        .bind(now())
        .bind(MemberStatus::Placeholder)
        .run()
        .await?;
    Ok(())
}

/// Stores the address that a placeholder has in the archive. Does nothing for people who have an account.
///
/// # Errors
/// Only database errors.
pub async fn store_address(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    email: &str,
) -> Result<(), AuthError> {
    let Ok(email) = parse_email(email) else {
        return Ok(());
    };
    c.q("insert into placeholder_addresses (user_id, workspace_id, email) select m.user_id, m.workspace_id, $3 from members m \
         where m.workspace_id = $1 and m.user_id = $2 and m.status = 'placeholder' on conflict (user_id) do nothing")
        .bind(workspace)
        .bind(user)
        .bind(email)
        .run()
        .await?;
    Ok(())
}

/// A placeholder with its address in the archive.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct PlaceholderAddress {
    pub name: String,
    pub handle: String,
    pub email: Option<String>,
}

/// Placeholders with their addresses, oldest first.
///
/// # Errors
/// An error from `Actor::require`.
pub async fn list_addresses(
    c: &mut Conn,
    actor: &Actor<'_>,
    limit: i64,
) -> Result<Vec<PlaceholderAddress>, AuthError> {
    actor.require(Scope::WorkspaceAdmin)?;
    Ok(c.q("select u.name, m.handle, p.email from members m join users u on u.id = m.user_id \
         left join placeholder_addresses p on p.user_id = m.user_id \
         where m.workspace_id = $1 and m.status = 'placeholder' order by m.joined_at, m.user_id limit $2")
        .bind(actor.workspace)
        .bind(limit)
        .all()
        .await?)
}

async fn find_placeholder(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<Option<Member>, AuthError> {
    let found = find_member(c, workspace, user).await?;
    Ok(found.filter(|member| member.status == MemberStatus::Placeholder))
}

/// Checks that someone can be invited as a placeholder with this role.
///
/// # Errors
/// `Invalid`.
pub(super) async fn check_invited(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    role: Role,
) -> Result<(), AuthError> {
    if find_placeholder(c, workspace, user).await?.is_none() {
        let problem = format!("{user} is not a placeholder of an import");
        return Err(AuthError::Invalid(problem, "member_id"));
    }
    if role == Role::Guest {
        let problem = "a guest would see the channels of the person: choose another role";
        return Err(AuthError::Invalid(problem.to_owned(), "role"));
    }
    Ok(())
}

/// Gives a placeholder another handle, and returns its former one, which the person takes who becomes the placeholder. Does nothing if the
/// person chose another one.
pub(super) async fn give_up_handle(
    c: &mut Conn,
    workspace: WorkspaceId,
    placeholder: UserId,
    chosen: Option<&str>,
) -> Result<Option<String>, AuthError> {
    let gone = find_placeholder(c, workspace, placeholder).await?;
    let Some(gone) = gone.filter(|gone| chosen.is_none_or(|chosen| chosen == gone.handle)) else {
        return Ok(None);
    };
    let name = format!("{} imported", gone.name);
    let other = handles::find_free(c, workspace, &name, "member").await?;
    handles::release(c, workspace, placeholder.0).await?;
    handles::claim(
        c,
        workspace,
        &other,
        handles::OwnerType::Person,
        placeholder.0,
    )
    .await?;
    c.q("update members set handle = $3 where workspace_id = $1 and user_id = $2 and status = 'placeholder'")
        .bind(workspace)
        .bind(placeholder)
        .bind(other)
        .run()
        .await?;
    Ok(Some(gone.handle))
}

/// Begins to merge a placeholder into a member; a job does the rest. Returns false if the placeholder is being merged already.
///
/// # Errors
/// Only database errors.
pub async fn begin_merge(
    c: &mut Conn,
    workspace: WorkspaceId,
    placeholder: UserId,
    into: UserId,
) -> Result<bool, AuthError> {
    let n = c
        .q("insert into member_merges (placeholder_id, workspace_id, into_id, position, created_at, is_begun) values ($1, $2, $3, $4, $5, FALSE) \
            on conflict (placeholder_id) do nothing")
        .bind(placeholder)
        .bind(workspace)
        .bind(into)
        .bind(BEFORE_ALL_SEQS)
        .bind(now())
        .run()
        .await?;
    Ok(n == 1)
}

/// Makes a member the person for whom a placeholder stands. The caller has checked that they are the same.
pub(super) async fn claim(
    c: &mut Conn,
    workspace: WorkspaceId,
    placeholder: UserId,
    member: &Member,
) -> Result<(), AuthError> {
    let Some(gone) = find_placeholder(c, workspace, placeholder).await? else {
        return Ok(());
    };
    if !begin_merge(c, workspace, placeholder, member.user_id).await? {
        return Ok(());
    }
    let actor = Actor {
        user: member.user_id,
        name: &member.name,
        workspace,
        role: member.role,
        scopes: Scopes::default(),
        key: None,
    };
    let data = serde_json::json!({"name": gone.name, "into": member.user_id});
    record_audit(
        c,
        &actor,
        AuditAction::MemberMerged,
        placeholder.to_string(),
        data,
    )
    .await?;
    Ok(())
}

/// Makes a new member the placeholder with the same address, which the caller's sign-in provider confirmed.
pub(super) async fn claim_by_address(
    c: &mut Conn,
    workspace: WorkspaceId,
    member: &Member,
) -> Result<(), AuthError> {
    if member.role == Role::Guest {
        return Ok(());
    }
    let found: Option<(UserId,)> = c
        .q("select p.user_id from placeholder_addresses p where p.workspace_id = $1 and p.email = $2 order by p.user_id limit 1")
        .bind(workspace)
        .bind(member.email.to_lowercase())
        .opt()
        .await?;
    match found {
        Some((placeholder,)) => claim(c, workspace, placeholder, member).await,
        None => Ok(()),
    }
}

/// Deletes a placeholder. Returns false if the person is not one. The caller checks that nothing names them.
///
/// # Errors
/// Only database errors.
pub async fn remove_placeholder(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<bool, AuthError> {
    let removed = c
        .q("delete from members where workspace_id = $1 and user_id = $2 and status = 'placeholder'")
        .bind(workspace)
        .bind(user)
        .run()
        .await?;
    if removed == 0 {
        return Ok(false);
    }
    handles::release(c, workspace, user.0).await?;
    c.q("delete from users where id = $1")
        .bind(user)
        .run()
        .await?;
    mark_names_changed(c).await?;
    Ok(true)
}

/// Selects placeholders of workspace `$1`.
macro_rules! listed {
    ($tail:literal) => {
        member_sql!(
            "select m.status",
            "members",
            "m.status = 'placeholder' and ",
            $tail
        )
    };
}

/// Placeholders of the workspace with their addresses in the archive, blank if unknown; oldest first, after `after` or before `before`.
///
/// # Errors
/// `MemberNotFound`, or an error from `Actor::require`.
pub async fn list_placeholders(
    c: &mut Conn,
    actor: &Actor<'_>,
    page: PageRange<UserId>,
    limit: i64,
) -> Result<Vec<Member>, AuthError> {
    actor.require(Scope::WorkspaceAdmin)?;
    let mark = match page.after.or(page.before) {
        Some(user) => Some(get_member(c, actor.workspace, user).await?),
        None => None,
    };
    let (joined_at, user) = mark.map_or((Timestamp::EPOCH, UserId(Uuid::nil())), |mark| {
        (mark.joined_at, mark.user_id)
    });
    let sql = if page.before.is_some() {
        listed!(
            "(m.joined_at, m.user_id) < ($2, $3) order by m.joined_at desc, m.user_id desc limit $4"
        )
    } else {
        listed!("(m.joined_at, m.user_id) > ($2, $3) order by m.joined_at, m.user_id limit $4")
    };
    let mut rows: Vec<Member> = c
        .q(sql)
        .bind(actor.workspace)
        .bind(joined_at)
        .bind(user)
        .bind(limit)
        .all()
        .await?;
    if page.before.is_some() {
        rows.reverse();
    }
    let ids = dialect::hexadecimal_ids(rows.iter().map(|member| member.user_id.0));
    let addresses: Vec<(UserId, String)> = c
        .q(crate::sql_with_ids!(
            c,
            "select user_id, email from placeholder_addresses where user_id in",
            1,
            ""
        ))
        .bind(ids)
        .all()
        .await?;
    let mut addresses: HashMap<UserId, String> = addresses.into_iter().collect();
    for member in &mut rows {
        member.email = addresses.remove(&member.user_id).unwrap_or_default();
    }
    Ok(rows)
}
