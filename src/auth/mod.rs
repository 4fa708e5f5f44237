//! Authentication and authorization: accounts, sessions, keys, workspaces, members, invites.
//!
//! `Caller` is the authenticated person of a request (by session or API key); `Actor` is that person in one workspace,
//! with role and scopes. Features check rights only through an `Actor`.

mod actor;
pub mod addresses;
mod attempts;
pub mod audit;
mod authors;
pub mod clients;
pub mod demand_changes;
pub mod demands;
pub mod doubts;
mod error;
pub mod events;
pub mod factors;
pub mod flows;
pub mod guest_ends;
pub mod guest_members;
pub mod guests;
pub mod handles;
pub mod invite_mails;
pub mod invites;
pub mod keys;
mod letters;
mod limits;
mod link_mail;
pub mod look_alikes;
pub mod members;
mod names;
pub mod oidc;
pub mod operator;
pub mod password;
pub mod placeholders;
pub mod quota;
mod readable;
pub mod revocations;
mod role;
pub mod scim;
mod security_mail;
pub mod sessions;
pub mod shown_names;
pub mod suspensions;
mod tokens;
pub mod users;
pub mod workspaces;

pub use actor::{Actor, ActorSnapshot, Caller, Credential, WorkspaceCaller};
pub(crate) use actor::{CredentialState, credential_is_valid};
pub use attempts::Attempt;
pub use audit::{
    AuditAction, AuditActorKind, AuditEntry, record as record_audit, record_of as record_audit_of,
};
pub use authors::insert_without_sign_in;
pub(crate) use demands::has_demands;
pub use error::AuthError;
pub use events::AuthEvent;
pub use guest_members::GuestTerms;
pub use guests::RouteReach;
pub use invites::Invite;
pub use keys::ApiKey;
pub use limits::{AnswerSize, Limits, RateClass, SocketPermit};
pub(crate) use link_mail::LinkMail;
pub(crate) use members::Newcomer;
pub use members::{
    Member, MemberEvent, MemberStatus, check_not_last_admin, find_member, get_listed, get_member,
    list_members, remove_member, sees_person,
};
pub use names::{DisplayName, slugify};
pub use password::Hasher;
pub use readable::readable_channels;
pub use role::{Role, Scope, Scopes, UserKind};
pub(crate) use security_mail::{SecurityChange, SecurityMail};
pub use sessions::{
    SESSION_COOKIE, Session, cleanup as cleanup_sessions, find_caller, find_key_holder, touch,
};
pub use shown_names::mark_names_changed;
pub use tokens::{TURN_KEY, Token, hash_token, new_token};
pub use users::{
    KeysAfterReset, NewAccount, SignUp, User, any_account, create_account, name_of, reset_password,
    setup_token, sign_up,
};
pub(crate) use workspaces::add_creator;
pub use workspaces::{
    MyWorkspace, Workspace, WorkspaceEvent, announce as announce_workspace,
    check_room as check_room_for_workspace, create_workspace, get_workspace,
    ids_of as workspaces_of, list_mine as list_my_workspaces, may_create as may_create_workspace,
};
