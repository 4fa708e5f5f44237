//! Handles of a workspace: one namespace for people's handles and agents' names.

use uuid::Uuid;

use super::{AuthError, slugify};
use crate::{
    db::{Conn, DbError},
    ids::WorkspaceId,
    text_enum::text_enum,
};

pub const HANDLE_CHARS_MAX: usize = 64;
/// Handles reserved for group mentions and the default agent.
const RESERVED: &[&str] = &["main", "everyone", "here", "channel"];

text_enum! {
    pub enum OwnerType {
        Person = "user",
        Agent = "agent",
        Bot = "bot",
    }
}

/// # Errors
/// `Invalid` for the field `param`, with the rule that the handle violates.
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

/// Claims a handle. Returns false if it is taken.
pub async fn claim(
    c: &mut Conn,
    workspace: WorkspaceId,
    handle: &str,
    owner: OwnerType,
    id: Uuid,
) -> Result<bool, DbError> {
    let n = c
        .q("insert into handles (workspace_id, handle, owner_type, owner_id) values ($1, $2, $3, $4) \
            on conflict (workspace_id, handle) do nothing")
        .bind(workspace)
        .bind(handle.to_owned())
        .bind(owner)
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

/// Claims the handle that a person chose.
///
/// # Errors
/// `Invalid`, `HandleTaken`.
pub async fn claim_chosen(
    c: &mut Conn,
    workspace: WorkspaceId,
    handle: &str,
    id: Uuid,
) -> Result<(), AuthError> {
    check(handle, "handle")?;
    if claim(c, workspace, handle, OwnerType::Person, id).await? {
        Ok(())
    } else {
        Err(AuthError::HandleTaken(handle.to_owned()))
    }
}

/// Claims the handle of a new member: the chosen one, or one derived from the name or email address, with a number if it is taken.
///
/// # Errors
/// Same as `claim_chosen`.
pub async fn claim_for_member(
    c: &mut Conn,
    workspace: WorkspaceId,
    chosen: Option<&str>,
    name: &str,
    id: Uuid,
) -> Result<String, AuthError> {
    if let Some(handle) = chosen {
        claim_chosen(c, workspace, handle, id).await?;
        return Ok(handle.to_owned());
    }
    let email: Option<(String,)> = c
        .q("select email from users where id = $1")
        .bind(id)
        .opt()
        .await?;
    let (email,) = email.unwrap_or_default();
    let mut candidates = Candidates::of_person(name, &email);
    loop {
        let handle = candidates.next_handle();
        if claim(c, workspace, &handle, OwnerType::Person, id).await? {
            return Ok(handle);
        }
    }
}

/// Returns a free handle derived from `name`, or from `otherwise` if no character of the name can be part of a handle. The
/// handle is not claimed.
pub async fn find_free(
    c: &mut Conn,
    workspace: WorkspaceId,
    name: &str,
    otherwise: &str,
) -> Result<String, DbError> {
    free(c, workspace, Candidates::new(name, otherwise)).await
}

/// Returns the handle that a person with this name and email address would get now as a new member of the workspace, or in a new one. The
/// handle is not claimed.
pub async fn suggest(
    c: &mut Conn,
    workspace: Option<WorkspaceId>,
    name: &str,
    email: &str,
) -> Result<String, DbError> {
    let mut candidates = Candidates::of_person(name, email);
    match workspace {
        Some(workspace) => free(c, workspace, candidates).await,
        None => Ok(candidates.next_handle()),
    }
}

async fn free(
    c: &mut Conn,
    workspace: WorkspaceId,
    mut candidates: Candidates,
) -> Result<String, DbError> {
    loop {
        let handle = candidates.next_handle();
        let taken: Option<(String,)> = c
            .q("select handle from handles where workspace_id = $1 and handle = $2")
            .bind(workspace)
            .bind(handle.clone())
            .opt()
            .await?;
        if taken.is_none() {
            return Ok(handle);
        }
    }
}

/// The part of an email address before `+` and `@`, as a handle; can be empty.
fn from_email(email: &str) -> String {
    let local = email.split(['@', '+']).next().unwrap_or_default();
    slugify(local, HANDLE_CHARS_MAX - 8)
}

/// Handles derived from a name: the name itself, then the name with increasing numbers.
struct Candidates {
    base: String,
    n: u64,
}

impl Candidates {
    fn new(name: &str, otherwise: &str) -> Self {
        let mut base = slugify(name, HANDLE_CHARS_MAX - 8);
        if base.is_empty() {
            otherwise.clone_into(&mut base);
        }
        Self { base, n: 1 }
    }

    /// Handles derived from a person's name or, if no character of it can be part of a handle, from the email address.
    fn of_person(name: &str, email: &str) -> Self {
        let local = from_email(email);
        Self::new(name, if local.is_empty() { "member" } else { &local })
    }

    /// Returns the next handle that is not reserved.
    fn next_handle(&mut self) -> String {
        loop {
            let (base, n) = (&self.base, self.n);
            let handle = if n == 1 {
                base.clone()
            } else {
                format!("{base}-{n}")
            };
            // After a few attempts, numbers are skipped, so that thousands of identical names need only a few queries.
            self.n = if n < 20 {
                n + 1
            } else {
                n + 1 + u64::from(rand::random::<u16>())
            };
            if check(&handle, "handle").is_ok() {
                return handle;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_can_come_from_an_email_address() {
        assert_eq!(from_email("li.xiaolong+chat@x.example"), "li-xiaolong");
        assert_eq!(from_email("李@x.example"), "");
    }

    #[test]
    fn a_handle_from_a_name_is_well_formed_and_not_reserved() {
        for (name, handle) in [
            ("Release Notes", "release-notes"),
            ("@here!", "here-2"),
            ("_main_", "main-2"),
            ("日本", "agent"),
            ("", "agent"),
        ] {
            assert_eq!(Candidates::new(name, "agent").next_handle(), handle);
        }
        let mut long = Candidates::new(&"x".repeat(200), "agent");
        for _ in 0..100 {
            assert!(check(&long.next_handle(), "name").is_ok());
        }
    }
}
