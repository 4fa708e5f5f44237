//! The user for whom a task runs.

use serde::{Deserialize, Serialize};

use crate::{
    auth::Role,
    db::{Conn, DbError},
    ids::{UserId, WorkspaceId},
    text_enum::text_enum,
};

text_enum! {
    /// Role of the requester at the time of the prompt.
    pub enum RequesterRole {
        Admin = "admin",
        Member = "member",
        Viewer = "viewer",
        Guest = "guest",
        FormerMember = "former member",
    }
}

impl From<Option<Role>> for RequesterRole {
    fn from(role: Option<Role>) -> Self {
        match role {
            Some(Role::Admin) => Self::Admin,
            Some(Role::Member) => Self::Member,
            Some(Role::Viewer) => Self::Viewer,
            Some(Role::Guest) => Self::Guest,
            None => Self::FormerMember,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Requester {
    pub id: UserId,
    pub name: String,
    pub role: RequesterRole,
    /// Handle of the member; not stored.
    #[serde(skip)]
    pub handle: Option<String>,
}

/// Finds the name, role, and handle of a requester, who may have left the workspace.
pub async fn find_requester(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<Requester, DbError> {
    let row: Option<(String, Option<Role>, Option<String>)> = c
        .q("select u.name, m.role, m.handle from users u left join members m on m.user_id = u.id and m.workspace_id = $2 where u.id = $1")
        .bind(user)
        .bind(workspace)
        .opt()
        .await?;
    let (name, role, handle) = row.unwrap_or_else(|| ("Deleted account".to_owned(), None, None));
    Ok(Requester {
        id: user,
        name,
        role: role.into(),
        handle,
    })
}
