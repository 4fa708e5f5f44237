//! Placeholders: people of an imported archive who have no account here. They are authors, mentions, and members of their channels, but
//! never sign in, get no items, and do not count as people.

use uuid::Uuid;

use super::{
    Actor, AuthError, DisplayName, Member, MemberStatus, Role, Scope, get_member, handles,
    look_alikes::Skeletons, mark_names_changed, members::member_sql, shown_names,
};
use crate::{
    cursor::PageRange,
    db::{Conn, now},
    ids::{UserId, WorkspaceId},
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
    let skeletons = Skeletons::of(&name);
    // Neither the address nor the hash can be entered or verified.
    c.q("insert into users (id, email, name, avatar_url, password_hash, created_at, name_skeleton, name_folded) \
         values ($1, $2, $3, null, '', $4, $5, $6)")
        .bind(new.user)
        .bind(new.user.to_string())
        .bind(name.clone())
        .bind(now())
        .bind(skeletons.exact)
        .bind(skeletons.folded)
        .run()
        .await?;
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

/// Placeholders of the workspace, oldest first, after `after` or before `before`.
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
    Ok(rows)
}
