//! Placeholders: people of an imported archive who have no account here. They are authors, mentions, and members of their channels, but
//! never sign in, get no items, and do not count as people.

use super::{
    AuthError, DisplayName, MemberStatus, Role, handles, look_alikes::Skeletons, shown_names,
};
use crate::{
    db::{Conn, now},
    ids::{UserId, WorkspaceId},
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
