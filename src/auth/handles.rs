//! Handles of a workspace: one namespace for people's handles and agents' names.

use uuid::Uuid;

use super::{AuthError, slugify};
use crate::{
    db::{Conn, DbError},
    ids::WorkspaceId,
};

pub const HANDLE_CHARS_MAX: usize = 64;
/// Reserved for group mentions and the default agent.
const RESERVED: &[&str] = &["main", "everyone", "here", "channel"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    Person,
    Agent,
}

impl Owner {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Person => "user",
            Self::Agent => "agent",
        }
    }
}

/// # Errors
/// `Invalid` for the field `param`, with the rule.
pub fn check(handle: &str, param: &'static str) -> Result<(), AuthError> {
    let mut chars = handle.chars();
    let well_formed = chars
        .next()
        .is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-')
        && handle.len() <= HANDLE_CHARS_MAX;
    if !well_formed {
        let text = "a handle must be 1 to 64 characters of a-z, 0-9, `-`, and `_`, and start with a letter or digit";
        return Err(AuthError::Invalid(text.to_owned(), param));
    }
    if RESERVED.contains(&handle) {
        return Err(AuthError::Invalid(
            format!("`{handle}` is reserved: choose another"),
            param,
        ));
    }
    Ok(())
}

/// Claims a handle; false if it is taken.
pub async fn claim(
    c: &mut Conn,
    workspace: WorkspaceId,
    handle: &str,
    owner: Owner,
    id: Uuid,
) -> Result<bool, DbError> {
    let n = c
        .q("insert into handles (workspace_id, handle, owner_type, owner_id) values ($1, $2, $3, $4) \
            on conflict (workspace_id, handle) do nothing")
        .bind(workspace)
        .bind(handle.to_owned())
        .bind(owner.as_str())
        .bind(id)
        .run()
        .await?;
    Ok(n == 1)
}

pub async fn release(c: &mut Conn, workspace: WorkspaceId, owner_id: Uuid) -> Result<(), DbError> {
    c.q("delete from handles where workspace_id = $1 and owner_id = $2")
        .bind(workspace)
        .bind(owner_id)
        .run()
        .await?;
    Ok(())
}

/// Claims a handle derived from `name`, with a number if it is taken.
pub async fn claim_from_name(
    c: &mut Conn,
    workspace: WorkspaceId,
    name: &str,
    id: Uuid,
) -> Result<String, DbError> {
    let mut base = slugify(name, HANDLE_CHARS_MAX - 8);
    if base.is_empty() {
        "member".clone_into(&mut base);
    }
    let mut n = 1_u64;
    loop {
        let handle = if n == 1 {
            base.clone()
        } else {
            format!("{base}-{n}")
        };
        if check(&handle, "handle").is_ok()
            && claim(c, workspace, &handle, Owner::Person, id).await?
        {
            return Ok(handle);
        }
        // After a few attempts, numbers are skipped, so that thousands of equal names stay cheap.
        n = if n < 20 {
            n + 1
        } else {
            n + 1 + u64::from(rand::random::<u16>())
        };
    }
}
