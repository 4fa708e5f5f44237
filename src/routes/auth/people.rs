//! HTTP routes for members, invites, and the audit log.

use std::{collections::HashMap, time::Duration};

use axum::{
    Json,
    http::{HeaderMap, StatusCode},
};
use futures::FutureExt;
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;

use super::{St, caller_at};
use crate::{
    auth::{
        AuditEntry, AuthError, Caller, GuestTerms, Invite, LinkMail, Member, Newcomer, Role, Scope,
        Workspace, WorkspaceCaller, audit,
        invite_mails::{self, InviteLetters, Invited},
        invites::{self, InviteDelivery},
        members::{self, MemberChange},
        users, workspaces,
    },
    chat::{ChatError, channels},
    db::Conn,
    http::{
        ApiError,
        error::ErrorBody,
        extract::{Body, NoFields, Path, Query},
        page::{Limit, List, ListObject, PageQuery},
        routing::routes,
    },
    ids::{AuditEntryId, ChannelId, InviteId, UserId, WorkspaceId},
    patch::{nullable, present},
    server::{State, caller::Outgoing, origin::LinkBase},
    time::Timestamp,
};

/// Maximum number of addresses, and of placeholders, that are invited at once.
const INVITED_MAX: usize = 100;

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_members))
        .routes(routes!(get_member, update_member, remove_member))
        .routes(routes!(list_invites, create_invite))
        .routes(routes!(get_invite, withdraw_invite))
        .routes(routes!(accept_invite))
        .routes(routes!(send_invite))
        .routes(routes!(list_audit_log))
}

/// List members in the order in which they joined
#[utoipa::path(get, path = "/v1/members", tag = "people",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(PageQuery<UserId>), responses((status = 200, body = List<Member>)))]
async fn list_members(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<PageQuery<UserId>>,
) -> Result<Json<List<Member>>, ApiError> {
    let page = query.page(20)?;
    let read = state.db.scan(member.share()).await?.run(move |c| {
        async move {
            let actor = member.enter(c).await?;
            actor.require(Scope::ChatRead)?;
            let rows =
                members::list_members(c, &actor, page.after, page.before, page.limit + 1).await?;
            Ok::<_, ApiError>(List::new(
                rows,
                page.limit,
                page.before.is_some(),
                |m: &Member| m.user_id.to_string(),
            ))
        }
        .boxed()
    });
    Ok(Json(read.await?))
}

/// Get a member
#[utoipa::path(get, path = "/v1/members/{user_id}", tag = "people",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(("user_id" = UserId, Path)), responses((status = 200, body = Member)))]
async fn get_member(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Path(user): Path<UserId>,
) -> Result<Json<Member>, ApiError> {
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await?;
    actor.require(Scope::ChatRead)?;
    if !members::sees_person(&mut c, &actor, user).await? {
        return Err(AuthError::MemberNotFound(user.to_string()).into());
    }
    let found = members::get_listed(&mut c, actor.workspace, user).await?;
    Ok(Json(found))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct MemberPatch {
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    role: Option<Role>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    handle: Option<String>,
    /// 1 to 50 channels of a guest, required to make someone a guest: they leave all other channels except for direct ones.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    channel_ids: Option<Vec<ChannelId>>,
    /// End of a guest's membership; null for never, as for a new guest by default. Needs `channel_ids`.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Timestamp>)]
    expires_at: Option<Option<Timestamp>>,
}

/// Change a member's role or handle, or a guest's channels
///
/// Changing a role, or another person's handle, requires the admin role; keys need `workspace:admin`. In a session, making someone an admin
/// needs a confirmation.
#[utoipa::path(patch, path = "/v1/members/{user_id}", tag = "people",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("user_id" = UserId, Path)),
    request_body(content = MemberPatch,
        example = json!({"role": "member"})),
    responses((status = 200, body = Member)))]
async fn update_member(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    Path(user): Path<UserId>,
    Body(patch): Body<MemberPatch>,
) -> Result<Json<Member>, ApiError> {
    let change = MemberChange {
        role: patch.role,
        handle: patch.handle,
        terms: GuestTerms::of_request(patch.channel_ids, patch.expires_at, "expires_at")?,
    };
    let person = caller.caller.clone();
    let member = caller
        .write(&state.db, async move |c, actor| {
            let member = members::update(c, actor, user, &change).await?;
            if change.role == Some(Role::Admin) {
                person.require_confirmed_session(c).await?;
            }
            if let Some(terms) = &change.terms {
                channels::keep_guest_in(c, actor.workspace, user, &terms.channels).await?;
            }
            Ok::<_, ChatError>(member)
        })
        .await?;
    Ok(Json(member))
}

/// Remove a member from the workspace, or leave it
///
/// Removing another person requires the admin role.
#[utoipa::path(delete, path = "/v1/members/{user_id}", tag = "people",
    security(("session" = ["viewer"]), ("key" = ["workspace:admin"])),
    params(("user_id" = UserId, Path)), responses((status = 204)))]
async fn remove_member(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    Path(user): Path<UserId>,
) -> Result<StatusCode, ApiError> {
    caller
        .write(&state.db, async move |c, actor| {
            members::remove(c, actor, user).await
        })
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List invites, oldest first
#[utoipa::path(get, path = "/v1/invites", tag = "people",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(PageQuery<InviteId>), responses((status = 200, body = List<Invite>)))]
async fn list_invites(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<PageQuery<InviteId>>,
) -> Result<Json<List<Invite>>, ApiError> {
    let page = query.page(20)?;
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await?;
    let rows = invites::list(&mut c, &actor, page.after, page.before, page.limit + 1).await?;
    Ok(Json(List::new(
        rows,
        page.limit,
        page.before.is_some(),
        |invite: &Invite| invite.id.to_string(),
    )))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct InviteForm {
    /// If set, only this email address can use the invite. If the server sends email, it sends the link there.
    email: Option<String>,
    /// Several addresses, 1 to 100: each gets an invite of its own.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    emails: Option<Vec<String>>,
    /// Placeholder of an import: whoever uses the invite becomes this person, and gets the channels and messages.
    member_id: Option<UserId>,
    /// Several placeholders, 1 to 100: each gets an invite of its own.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    member_ids: Option<Vec<UserId>>,
    /// `member` by default.
    role: Option<Role>,
    /// For a guest, 1 to 50 channels.
    channel_ids: Option<Vec<ChannelId>>,
    /// End of a guest's membership; never by default. Also accepted as `expires_at`, its name in `PATCH /v1/members/{user_id}`.
    #[serde(alias = "expires_at")]
    guest_expires_at: Option<Timestamp>,
    /// Maximum number of uses; unlimited by default.
    max_uses: Option<i64>,
    /// Lifetime in seconds; a week by default.
    expires_in_s: Option<i64>,
}

/// An invite with its link, which is shown only once.
#[derive(Serialize, utoipa::ToSchema)]
struct NewInviteAnswer {
    #[serde(flatten)]
    invite: Invite,
    token: String,
    url: String,
    /// True if the link works only on the server's own machine, although others can connect to it.
    is_local_only: bool,
}

/// Invites with their links, in the order of the addresses or placeholders.
#[derive(Serialize, utoipa::ToSchema)]
struct NewInvites {
    #[schema(inline)]
    object: ListObject,
    data: Vec<NewInviteAnswer>,
}

/// One invite, or those for `emails` or `member_ids`.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(untagged)]
enum NewInviteAnswers {
    One(Box<NewInviteAnswer>),
    Several(NewInvites),
}

/// Person for whom an invite is.
#[derive(Debug, Default)]
struct Invitee {
    email: Option<String>,
    member: Option<UserId>,
}

impl InviteForm {
    /// # Errors
    /// `Invalid` for several kinds of lists, and for a list that is empty or too long.
    fn invitees(&mut self) -> Result<Vec<Invitee>, AuthError> {
        let (emails, members) = (self.emails.take(), self.member_ids.take());
        let is_one = self.email.is_some() || self.member_id.is_some();
        if let Some(members) = members {
            if is_one || emails.is_some() || !(1..=INVITED_MAX).contains(&members.len()) {
                let text = format!(
                    "member_ids must have 1 to {INVITED_MAX} people, and email, emails, and member_id must be omitted"
                );
                return Err(AuthError::Invalid(text, "member_ids"));
            }
            let invitees = members.into_iter().map(|member| Invitee {
                member: Some(member),
                ..Invitee::default()
            });
            return Ok(invitees.collect());
        }
        if let Some(emails) = emails {
            if is_one || !(1..=INVITED_MAX).contains(&emails.len()) {
                let text = format!(
                    "emails must have 1 to {INVITED_MAX} addresses, and email and member_id must be omitted"
                );
                return Err(AuthError::Invalid(text, "emails"));
            }
            let invitees = emails.into_iter().map(|email| Invitee {
                email: Some(email),
                ..Invitee::default()
            });
            return Ok(invitees.collect());
        }
        Ok(vec![Invitee {
            email: self.email.take(),
            member: self.member_id,
        }])
    }
}

/// Create an invite link, or one for each of several addresses or placeholders
///
/// In a session, an invite for an admin needs a confirmation.
#[utoipa::path(post, path = "/v1/invites", tag = "people",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    request_body(content = InviteForm,
        example = json!({"role": "member", "max_uses": 10, "expires_in_s": 604_800})),
    responses((status = 201, body = NewInviteAnswers)))]
async fn create_invite(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    base: LinkBase,
    Body(mut form): Body<InviteForm>,
) -> Result<(StatusCode, Json<NewInviteAnswers>), ApiError> {
    let is_list = form.emails.is_some() || form.member_ids.is_some();
    let invitees = form.invitees()?;
    let terms = GuestTerms::of_request(
        form.channel_ids,
        form.guest_expires_at.map(Some),
        "guest_expires_at",
    )?;
    let new: Vec<invites::NewInvite> = invitees
        .into_iter()
        .map(|to| invites::NewInvite {
            id: InviteId::new(),
            email: to.email.map(|email| email.trim().to_lowercase()),
            member: to.member,
            role: form.role.unwrap_or(Role::Member),
            terms: terms.clone(),
            max_uses: form.max_uses.or(is_list.then_some(1)),
            expires_in_s: form.expires_in_s,
        })
        .collect();
    let sends = state.mailer.is_on() && !state.config.is_quiet;
    let mailed: Vec<Invited> = new
        .iter()
        .filter(|_| sends)
        .filter_map(|new| {
            let lifetime = new.expires_in_s.unwrap_or(invites::LIFETIME_S);
            Some(Invited {
                invite: new.id,
                email: new.email.clone()?,
                lifetime: Duration::from_secs(lifetime.unsigned_abs()),
            })
        })
        .collect();
    let mails = write_mails(&state, &member, mailed).await?;
    let person = member.caller.clone();
    let created = member
        .write(&state.db, async move |c, actor| {
            let mut created = Vec::with_capacity(new.len());
            for new in &new {
                let (mut invite, token) = invites::create(c, actor, new).await?;
                if new.role == Role::Admin {
                    person.require_confirmed_session(c).await?;
                }
                if let Some(mail) = mails.get(&invite.id) {
                    invite_mails::queue(c, actor.workspace, invite.id, mail).await?;
                    invite.mail = InviteDelivery::Queued;
                }
                created.push((invite, token));
            }
            Ok::<_, AuthError>(created)
        })
        .await?;
    state.mailer.wake();
    let is_local_only = base.is_local_only(&state);
    let answers = created.into_iter().map(|(invite, token)| NewInviteAnswer {
        url: format!("{}/invite/{token}", base.0),
        invite,
        token,
        is_local_only,
    });
    let mut answers: Vec<NewInviteAnswer> = answers.collect();
    let answer = match answers.pop() {
        Some(answer) if !is_list => NewInviteAnswers::One(Box::new(answer)),
        last => {
            answers.extend(last);
            NewInviteAnswers::Several(NewInvites {
                object: ListObject,
                data: answers,
            })
        }
    };
    Ok((StatusCode::CREATED, Json(answer)))
}

/// Writes the emails of invites.
async fn write_mails(
    state: &State,
    member: &WorkspaceCaller,
    invited: Vec<Invited>,
) -> Result<HashMap<InviteId, LinkMail>, ApiError> {
    if invited.is_empty() {
        return Ok(HashMap::new());
    }
    let mut c = state.db.read().await?;
    let actor = member.enter(&mut c).await?;
    actor.require(Scope::WorkspaceAdmin)?;
    let workspace = workspaces::get_workspace(&mut c, actor.workspace).await?;
    drop(c);
    let letters = InviteLetters {
        workspace: workspace.id,
        workspace_name: &workspace.name,
        from: &member.caller.name,
        public_url: &state.public_url,
    };
    let mails = invited.into_iter().map(|to| {
        let mail = letters.write(&state.mailer, &to).map_err(AuthError::from)?;
        Ok((to.invite, mail))
    });
    mails.collect()
}

/// Result of sending an invite.
#[derive(Serialize, utoipa::ToSchema)]
struct InviteSent {
    #[schema(inline)]
    mail: InviteDelivery,
}

/// Send an invite by email again
///
/// At most three times a day for each invite, and 500 times a day for the workspace.
#[utoipa::path(post, path = "/v1/invites/{id}/send", tag = "people",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = InviteId, Path)),
    responses((status = 202, body = InviteSent),
        (status = 422, description = "Email is off, or the invite has no address", body = ErrorBody)))]
async fn send_invite(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    Path(id): Path<InviteId>,
    _: Outgoing,
    _: NoFields,
) -> Result<(StatusCode, Json<InviteSent>), ApiError> {
    let mut c = state.db.read().await?;
    let actor = caller.enter(&mut c).await?;
    let invited = invite_mails::find(&mut c, &actor, id).await?;
    drop(c);
    let mails = write_mails(&state, &caller, vec![invited]).await?;
    caller
        .write(&state.db, async move |c, actor| {
            for (id, mail) in &mails {
                invite_mails::send_again(c, actor, *id, mail).await?;
            }
            Ok::<_, AuthError>(())
        })
        .await?;
    state.mailer.wake();
    let sent = InviteSent {
        mail: InviteDelivery::Queued,
    };
    Ok((StatusCode::ACCEPTED, Json(sent)))
}

/// Preview of an invite for the person who opens its link.
#[derive(Serialize, utoipa::ToSchema)]
struct InvitePreview {
    workspace: InviteWorkspace,
    role: Role,
    email: Option<String>,
    expires_at: Option<Timestamp>,
}

#[derive(Serialize, utoipa::ToSchema)]
struct InviteWorkspace {
    id: WorkspaceId,
    name: String,
    slug: String,
}

/// Preview an invite; `id` is the token from its link
#[utoipa::path(get, path = "/v1/invites/{id}", tag = "people",
    security(()),
    params(("id" = String, Path, description = "ID of an invite, or the token from its link")), responses((status = 200, body = InvitePreview)))]
async fn get_invite(
    axum::extract::State(state): St,
    Path(token): Path<String>,
) -> Result<Json<InvitePreview>, ApiError> {
    let mut c = state.db.read().await?;
    let invite = invites::find_open(&mut c, &token, None).await?;
    let workspace = workspaces::get_workspace(&mut c, invite.workspace_id).await?;
    Ok(Json(InvitePreview {
        workspace: InviteWorkspace {
            id: workspace.id,
            name: workspace.name,
            slug: workspace.slug,
        },
        role: invite.role,
        email: invite.email,
        expires_at: invite.expires_at,
    }))
}

/// Revoke an invite
#[utoipa::path(delete, path = "/v1/invites/{id}", tag = "people",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("id" = InviteId, Path)), responses((status = 204)))]
async fn withdraw_invite(
    axum::extract::State(state): St,
    caller: Caller,
    headers: HeaderMap,
    Path(id): Path<InviteId>,
) -> Result<StatusCode, ApiError> {
    let workspace = state
        .db
        .read()
        .await?
        .q("select workspace_id from invites where id = $1")
        .bind(id)
        .opt()
        .await?;
    let workspace = workspace.map(|(workspace,)| workspace);
    let member = caller_at(&state, &headers, caller, workspace).await?;
    member
        .write(&state.db, async move |c, actor| {
            invites::withdraw(c, actor, id).await
        })
        .await
        .map_err(|e: AuthError| e.hiding("invite"))?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Serialize, utoipa::ToSchema)]
struct Accepted {
    workspace: Workspace,
    member: Member,
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct AcceptForm {
    /// Your handle in the workspace; derived from your name, or else your email address, by default.
    handle: Option<String>,
}

/// Join a workspace with an invite link; changes nothing for current members
#[utoipa::path(post, path = "/v1/invites/{id}/accept", tag = "people",
    security(("session" = ["viewer"])),
    params(("id" = String, Path, description = "The token from the link")),
    request_body(content = Option<AcceptForm>, example = json!({"handle": "ada"})),
    responses((status = 200, body = Accepted)))]
async fn accept_invite(
    axum::extract::State(state): St,
    caller: Caller,
    Path(token): Path<String>,
    Body(form): Body<AcceptForm>,
) -> Result<Json<Accepted>, ApiError> {
    caller.require_session()?;
    let max = state.config.workspaces_per_user;
    let mut c = state.db.read().await?;
    let email = users::get_user(&mut c, caller.user).await?.email;
    let workspace = invites::find_open(&mut c, &token, Some(&email))
        .await?
        .workspace_id;
    drop(c);
    let accepted = state
        .db
        .write(workspace.0, async move |c: &mut Conn| {
            caller.check_credential(c).await?;
            let invite = invites::find_open(c, &token, Some(&email)).await?;
            if !workspaces::ids_of(c, caller.user)
                .await?
                .contains(&workspace)
            {
                workspaces::check_room(c, caller.user, max).await?;
            }
            let new = Newcomer {
                user: caller.user,
                name: &caller.name,
                handle: form.handle.as_deref(),
            };
            let (id, member) = invites::accept(c, &invite, &new).await?;
            // An admin chose the channels of a guest.
            if member.role != Role::Guest {
                channels::restore_direct_channels(c, id, caller.user).await?;
            }
            Ok::<_, ChatError>(Accepted {
                workspace: workspaces::get_workspace(c, id).await?,
                member,
            })
        })
        .await?;
    Ok(Json(accepted))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AuditQuery {
    /// Only actions of this person.
    actor_id: Option<UserId>,
    /// Only this action, such as `member.role_changed`.
    action: Option<String>,
    /// Order of the entries; `oldest` by default.
    #[param(inline)]
    order: Option<audit::Order>,
    /// 1 to 100; 20 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// Only entries after the one with this ID, in the requested order.
    after: Option<AuditEntryId>,
    /// Only entries before the one with this ID, in the requested order.
    before: Option<AuditEntryId>,
}

/// List admin actions
#[utoipa::path(get, path = "/v1/audit-log", tag = "people",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(AuditQuery), responses((status = 200, body = List<AuditEntry>)))]
async fn list_audit_log(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<AuditQuery>,
) -> Result<Json<List<AuditEntry>>, ApiError> {
    let mut c = state.db.scan(member.share()).await?;
    let actor = member.enter(&mut c).await?;
    actor.require(Scope::WorkspaceAdmin)?;
    let filter = audit::Filter {
        actor: query.actor_id,
        action: query.action,
    };
    let order = query.order.unwrap_or(audit::Order::Oldest);
    let page = PageQuery {
        limit: query.limit,
        after: query.after,
        before: query.before,
    }
    .page(20)?;
    let rows = audit::list(&mut c, &actor, &filter, order, page.range(), page.limit + 1).await?;
    Ok(Json(List::new(
        rows,
        page.limit,
        page.before.is_some(),
        |entry: &AuditEntry| entry.id.to_string(),
    )))
}
