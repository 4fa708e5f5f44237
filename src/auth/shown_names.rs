//! Names of the people and agents of a workspace, none of whom may look like an agent.
//!
//! The rows of people and agents contain the skeletons of their shown names, so that the transaction that stores a name compares it
//! with all others. Names that were stored before there were rules stay valid until they are changed.

use uuid::Uuid;

use super::{AuthError, DisplayName, look_alikes::Skeletons};
use crate::{
    db::{Conn, DbError, dialect},
    ids::{AgentId, UserId, WorkspaceId},
};

/// Checks that no agent of the workspace looks like this person.
///
/// # Errors
/// `Invalid` for the field `name`.
pub(super) async fn check_person(
    c: &mut Conn,
    workspace: WorkspaceId,
    name: &str,
) -> Result<(), AuthError> {
    if is_like_agent(c, workspace, None, &Skeletons::of(name)).await? {
        let problem = "the name looks like that of an agent in the workspace: choose another name";
        return Err(AuthError::Invalid(problem.to_owned(), "name"));
    }
    Ok(())
}

/// Checks that a person who joins a workspace does not look like one of its agents.
///
/// # Errors
/// Same as `check_person`.
pub(super) async fn check_new_member(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<(), AuthError> {
    // A change of the name runs in another write queue, and either waits or has already changed the name that is read here.
    dialect::lock_account(c, user.0).await?;
    let name: String = c
        .q("select name from users where id = $1")
        .bind(user)
        .value()
        .await?;
    check_person(c, workspace, &name).await
}

/// Checks the name that is shown for an agent: it must follow the rules of `DisplayName`, and not look like another agent or a person
/// in the workspace, which must be locked.
///
/// # Errors
/// `Invalid` for the field `param`.
pub async fn check_agent(
    c: &mut Conn,
    workspace: WorkspaceId,
    agent: Option<AgentId>,
    name: &str,
    param: &'static str,
) -> Result<(), AuthError> {
    DisplayName::parse(name, param)?;
    let skeletons = Skeletons::of(name);
    let whose = if is_like_agent(c, workspace, agent, &skeletons).await? {
        "another agent"
    } else if is_like_person(c, workspace, &skeletons).await? {
        "a person"
    } else {
        return Ok(());
    };
    let problem = format!(
        "the name looks like that of {whose} in the workspace: choose another `display_name`"
    );
    Err(AuthError::Invalid(problem, param))
}

/// Checks that a bot does not look like an agent or a person in the workspace, which must be locked.
///
/// # Errors
/// `Invalid` for the field `name`.
pub async fn check_bot(c: &mut Conn, workspace: WorkspaceId, name: &str) -> Result<(), AuthError> {
    let skeletons = Skeletons::of(name);
    let whose = if is_like_agent(c, workspace, None, &skeletons).await? {
        "an agent"
    } else if is_like_person(c, workspace, &skeletons).await? {
        "a person"
    } else {
        return Ok(());
    };
    let problem = format!("the name looks like that of {whose} in the workspace: choose another");
    Err(AuthError::Invalid(problem, "name"))
}

/// Checks whether an agent other than `except` looks like this.
pub async fn is_like_agent(
    c: &mut Conn,
    workspace: WorkspaceId,
    except: Option<AgentId>,
    skeletons: &Skeletons,
) -> Result<bool, DbError> {
    c.q("select exists (select 1 from agents where workspace_id = $1 and (name_skeleton = $2 or name_folded = $3) and id <> $4)")
        .bind(workspace)
        .bind(skeletons.exact.clone())
        .bind(skeletons.folded.clone())
        .bind(except.unwrap_or(AgentId(Uuid::nil())))
        .value()
        .await
}

/// Checks whether a member looks like this.
pub async fn is_like_person(
    c: &mut Conn,
    workspace: WorkspaceId,
    skeletons: &Skeletons,
) -> Result<bool, DbError> {
    c.q("select exists (select 1 from users u join members m on m.user_id = u.id and m.workspace_id = $1 \
         where u.name_skeleton = $2 or u.name_folded = $3) \
         or exists (select 1 from users u join suspended_members m on m.user_id = u.id and m.workspace_id = $1 \
         where u.name_skeleton = $2 or u.name_folded = $3)")
        .bind(workspace)
        .bind(skeletons.exact.clone())
        .bind(skeletons.folded.clone())
        .value()
        .await
}

/// Records that names of users have changed. Messages also show these names in workspaces that the user has left, where no event
/// announces the change.
pub async fn mark_names_changed(c: &mut Conn) -> Result<(), DbError> {
    c.q("insert into meta (key, value) values ('names', $1) on conflict (key) do update set value = $1")
        .bind(Uuid::now_v7().simple().to_string())
        .run()
        .await?;
    Ok(())
}
