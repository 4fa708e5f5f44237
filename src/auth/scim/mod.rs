//! Provisioning by identity providers (SCIM 2.0, RFC 7643 and 7644): accounts and groups that a provider sends and changes.
//!
//! `token` authenticates a provider, `fault` is an error as providers read it, `filter` and `path` parse what they ask for, `user` and
//! `group` are the resources, `change` applies a PATCH, `people` and `groups` store them and change memberships, `shown` selects
//! attributes, `effects` is what higher layers do, and `schemas` describes everything.

mod change;
mod effects;
mod fault;
mod filter;
mod group;
pub(crate) mod groups;
mod path;
pub(crate) mod people;
pub(crate) mod schemas;
mod shown;
pub(crate) mod token;
mod user;

pub(crate) use change::PatchForm;
pub(crate) use effects::{Effects, WriteMail};
pub(crate) use fault::{ScimFault, ScimType};
pub(crate) use group::GroupDoc;
pub(crate) use shown::{Location, Range, Selection};
pub(crate) use user::UserDoc;
