//! Workspace creation: the workspace, its agents, its first member, #general, and #random, in one
//! transaction.

use super::{
    ChatError,
    channels::{self, NewChannel},
};
use crate::{
    agents::seeds,
    auth::{self, AuthError, Caller, DisplayName, Newcomer, Workspace},
    chat::rows::channel::ChannelKind,
    config::Signup,
    db::{Conn, Db},
    ids::WorkspaceId,
};

/// A workspace to create.
pub struct NewWorkspace {
    pub name: DisplayName,
    pub slug: Option<String>,
    /// Handle of its creator.
    pub handle: Option<String>,
}

/// # Errors
/// `NotAuthenticated` if the creator's session has ended, `WorkspaceCreationClosed`, `SlugTaken`, `HandleTaken`, or
/// `Invalid` for a requested slug or handle, `TooManyWorkspaces` if the creator is already a member of `max`
/// workspaces.
pub async fn found_workspace(
    db: &Db,
    caller: Caller,
    signup: Signup,
    max: i64,
    new: NewWorkspace,
    named: Vec<String>,
) -> Result<Workspace, ChatError> {
    let id = WorkspaceId::new();
    db.write_in_turn(caller.user.0, id.0, async move |c: &mut Conn| {
        caller.check_credential(c).await?;
        let creator = caller.user;
        if signup != Signup::Open && !auth::may_create_workspace(c, creator).await? {
            return Err(AuthError::WorkspaceCreationClosed.into());
        }
        auth::check_room_for_workspace(c, creator, max).await?;
        auth::create_workspace(c, id, &new.name, new.slug.as_deref(), &named).await?;
        // Agents get their handles before people do, because a person's handle is derived from the name, with a number if it is
        // taken.
        seeds::seed(c, id).await?;
        let first = Newcomer {
            user: creator,
            name: &caller.name,
            handle: new.handle.as_deref(),
        };
        auth::add_creator(c, id, &first).await?;
        for (channel, topic) in [
            ("general", "Announcements and topics for everyone"),
            ("random", "Everything else"),
        ] {
            let new = NewChannel {
                workspace: id,
                kind: ChannelKind::Public,
                name: Some(channel.to_owned()),
                topic: Some(topic.to_owned()),
                direct_key: None,
                agent: None,
                joined_by_all: true,
                created_by: creator,
                members: vec![creator],
            };
            channels::insert(c, &new).await?;
        }
        Ok(auth::get_workspace(c, id).await?)
    })
    .await
}
