//! Handles of people whom a message in Slack's format names by their IDs: `<@U…>`.

use crate::{
    db::{Conn, DbError},
    ids::{UserId, WorkspaceId},
};

/// Length of an ID in Slack's form: a letter, and the characters of a `TypeID` in capitals.
const ID_LEN: usize = 27;
/// Maximum number of IDs of a message that are looked up.
const PEOPLE_MAX: usize = 100;

/// IDs that a text names as `@U…`.
fn ids_in(content: &str) -> Vec<(&str, UserId)> {
    let named = content.match_indices("@U").filter_map(|(at, _)| {
        let id = content.get(at + 1..at + 1 + ID_LEN)?;
        let typed = format!("user_{}", id[1..].to_ascii_lowercase());
        Some((id, UserId::parse(&typed).ok()?))
    });
    named.take(PEOPLE_MAX).collect()
}

/// Replaces the IDs of people, agents, and bots in a text with their handles. Returns `None` if nothing changes.
///
/// # Errors
/// Only database errors.
pub async fn with_handles(
    c: &mut Conn,
    workspace: WorkspaceId,
    content: &str,
) -> Result<Option<String>, DbError> {
    let mut named = content.to_owned();
    for (id, owner) in ids_in(content) {
        let handle: Option<(String,)> = c
            .q("select handle from handles where workspace_id = $1 and owner_id = $2")
            .bind(workspace)
            .bind(owner)
            .opt()
            .await?;
        if let Some((handle,)) = handle {
            named = named.replace(&format!("@{id}"), &format!("@{handle}"));
        }
    }
    Ok((named != content).then_some(named))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_ids_are_found() {
        let user = UserId::new();
        let suffix = user.to_string()["user_".len()..].to_uppercase();
        let found = format!("é@U{suffix}, @U{suffix}");
        assert_eq!(ids_in(&found).len(), 2);
        assert_eq!(ids_in(&found)[0].1, user);
        for other in [
            "@U".to_owned(),
            format!("@U{}", &suffix[1..]),
            format!("@U{}é", &suffix[1..]),
            format!("@U{}", "!".repeat(26)),
            "@Una".to_owned(),
        ] {
            assert!(ids_in(&other).is_empty(), "{other}");
        }
    }
}
