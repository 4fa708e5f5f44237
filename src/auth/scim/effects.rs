//! Effects of changes that belong to higher layers.

use std::sync::Arc;

use futures::future::LocalBoxFuture;

use super::fault::ScimFault;
use crate::{
    auth::{SecurityChange, SecurityMail, oidc::membership::ChannelChange, users::User},
    db::Conn,
    ids::{UserId, WorkspaceId},
};

/// Writes an email about a change to an account.
pub(crate) type WriteMail = Arc<dyn Fn(&User, SecurityChange) -> SecurityMail + Send + Sync>;

/// Brings a person into the channels that rules give to them, and out of others.
pub(crate) type MoveChannels = for<'a> fn(
    &'a mut Conn,
    WorkspaceId,
    UserId,
    ChannelChange,
) -> LocalBoxFuture<'a, Result<(), ScimFault>>;

#[derive(Clone)]
pub(crate) struct Effects {
    pub write_mail: WriteMail,
    pub move_channels: MoveChannels,
}
