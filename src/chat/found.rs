//! Workspace creation: the workspace, its agents, its first member, #general, and #random.

use super::{
    ChatError,
    channels::{self, NewChannel},
};
use crate::{
    agents::seeds,
    auth::{self, AuthError, Caller, DisplayName, Newcomer, Workspace},
    chat::rows::channel::ChannelKind,
    config::Signup,
    db::Conn,
    ids::{ChannelId, WorkspaceId},
};

/// A workspace to create.
pub struct NewWorkspace {
    pub id: WorkspaceId,
    pub name: DisplayName,
    pub slug: Option<String>,
    /// Handle of its creator.
    pub handle: Option<String>,
}

/// Settings of the server for new workspaces.
pub struct FoundingLimits {
    pub signup: Signup,
    /// Maximum number of workspaces of a person.
    pub per_user: i64,
    /// Slugs that only the first workspace can have.
    pub named: Vec<String>,
}

/// A new workspace.
pub struct FoundedWorkspace {
    pub workspace: Workspace,
    /// #general.
    pub general: Option<ChannelId>,
}

/// Creates a workspace. Appends no event.
///
/// # Errors
/// `NotAuthenticated` if the creator's session has ended, `WorkspaceCreationClosed`, `SlugTaken`, `HandleTaken`, or
/// `Invalid` for a requested slug or handle, `TooManyWorkspaces` if the creator is already a member of the maximum number of
/// workspaces.
pub async fn found_workspace(
    c: &mut Conn,
    caller: &Caller,
    limits: &FoundingLimits,
    new: &NewWorkspace,
) -> Result<FoundedWorkspace, ChatError> {
    let id = new.id;
    caller.check_credential(c).await?;
    let creator = caller.user;
    if limits.signup != Signup::Open && !auth::may_create_workspace(c, creator).await? {
        return Err(AuthError::WorkspaceCreationClosed.into());
    }
    auth::check_room_for_workspace(c, creator, limits.per_user).await?;
    auth::create_workspace(c, id, &new.name, new.slug.as_deref(), &limits.named).await?;
    // Agents get their handles before people do, because a person's handle is derived from the name, with a number if it is
    // taken.
    seeds::seed(c, id).await?;
    let first = Newcomer {
        user: creator,
        name: &caller.name,
        handle: new.handle.as_deref(),
    };
    auth::add_creator(c, id, &first).await?;
    let general = insert_channel(
        c,
        id,
        caller,
        "general",
        "Announcements and topics for everyone",
    )
    .await?;
    insert_channel(c, id, caller, "random", "Everything else").await?;
    Ok(FoundedWorkspace {
        workspace: auth::get_workspace(c, id).await?,
        general,
    })
}

async fn insert_channel(
    c: &mut Conn,
    workspace: WorkspaceId,
    creator: &Caller,
    name: &str,
    topic: &str,
) -> Result<Option<ChannelId>, ChatError> {
    let new = NewChannel {
        workspace,
        kind: ChannelKind::Public,
        name: Some(name.to_owned()),
        topic: Some(topic.to_owned()),
        direct_key: None,
        agent: None,
        joined_by_all: true,
        created_by: Some(creator.user),
        members: vec![creator.user],
    };
    channels::insert(c, &new).await
}
