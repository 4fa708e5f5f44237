//! Decisions and action items of all forks over HTTP.

use axum::Json;
use futures::FutureExt;
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;

use super::St;
use crate::{
    auth::{self, Actor, AuthError, Caller, Scope, WorkspaceCaller},
    chat::access,
    db::Conn,
    forks::{
        decisions,
        form::Day,
        items::{self, ActionItem, ItemPatch, OwnedBy},
        resolution::{self, Resolution},
    },
    http::{
        ApiError, ErrorCode,
        extract::{Body, Path, Query},
        page::{Limit, List, PageQuery},
        routing::routes,
    },
    ids::{ActionItemId, ChannelId, UserId},
    patch::{nullable, present},
    routes::chat::{WhichObject, write_for},
    server::State,
};

const PAGE: i64 = 20;

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list_decisions))
        .routes(routes!(list_action_items))
        .routes(routes!(update_action_item))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::routes) struct DecisionsQuery {
    /// Only resolutions that contain all of these words.
    #[param(example = "launch")]
    pub(in crate::routes) q: Option<String>,
    /// Only resolutions from this channel.
    pub(in crate::routes) channel_id: Option<ChannelId>,
    /// 1 to 100; 20 by default.
    #[param(inline)]
    pub(in crate::routes) limit: Option<Limit>,
    /// The `next_cursor` of the previous page.
    pub(in crate::routes) cursor: Option<String>,
}

/// List the published resolutions that the caller can see, newest first
#[utoipa::path(get, path = "/v1/decisions", tag = "outcomes",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(DecisionsQuery), responses((status = 200, body = List<Resolution>)))]
pub(in crate::routes) async fn list_decisions(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<DecisionsQuery>,
) -> Result<Json<List<Resolution>>, ApiError> {
    let read = state.db.scan(member.share()).await?.run(move |c| {
        async move {
            let caller = &member.caller;
            let actor = member.enter(c).await?;
            actor.require(Scope::ChatRead)?;
            let limit = Limit::or(query.limit, PAGE);
            let channel = query.channel_id;
            let before = decisions::parse_cursor(query.cursor.as_deref()).ok_or_else(|| {
                ApiError::invalid(
                    ErrorCode::InvalidCursor,
                    "the cursor does not belong to a list of decisions: use `next_cursor` of the previous page".to_owned(),
                    "cursor",
                )
            })?;
            let filter = decisions::parse_filter(query.q.as_deref(), channel)?;
            if let Some(channel) = channel {
                visible_channel(c, caller, &actor, channel).await?;
            }
            let found = resolution::list_published(
                c,
                actor.workspace,
                actor.user,
                &filter,
                before,
                limit + 1,
            )
            .await?;
            let shown = usize::try_from(limit).unwrap_or(usize::MAX);
            let next_cursor = (found.len() > shown)
                .then(|| {
                    found
                        .get(shown - 1)
                        .map(|(seq, _)| decisions::cursor_at(*seq))
                })
                .flatten();
            let rows = found.into_iter().map(|(_, result)| result).collect();
            let list = List::new(rows, limit, false, |r: &Resolution| r.id.to_string());
            Ok::<_, ApiError>(list.continued_at(next_cursor))
        }
        .boxed()
    });
    Ok(Json(read.await?))
}

/// Checks that the channel of a filter is in this workspace and visible to the caller.
async fn visible_channel(
    c: &mut Conn,
    caller: &Caller,
    actor: &Actor<'_>,
    channel: ChannelId,
) -> Result<(), ApiError> {
    let channel_access = access::channel(c, caller, channel).await?;
    if channel_access.actor.workspace == actor.workspace {
        Ok(())
    } else {
        Err(crate::chat::ChatError::ChannelNotFound.into())
    }
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ItemsQuery {
    /// `me`, `none`, or the ID of a member; all owners if omitted.
    owner: Option<String>,
    /// `true` or `false`; both if omitted.
    done: Option<bool>,
    channel_id: Option<ChannelId>,
    /// 1 to 100; 20 by default.
    #[param(inline)]
    limit: Option<Limit>,
    /// Only items created after the one with this ID.
    after: Option<ActionItemId>,
    /// Only items created before the one with this ID.
    before: Option<ActionItemId>,
}

/// List the action items of published resolutions that the caller can see, oldest first
#[utoipa::path(get, path = "/v1/action-items", tag = "outcomes",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(ItemsQuery), responses((status = 200, body = List<ActionItem>)))]
async fn list_action_items(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<ItemsQuery>,
) -> Result<Json<List<ActionItem>>, ApiError> {
    let read = state.db.scan(member.share()).await?.run(move |c| {
        async move {
            let caller = &member.caller;
            let actor = member.enter(c).await?;
            actor.require(Scope::ChatRead)?;
            let page = PageQuery {
                limit: query.limit,
                after: query.after,
                before: query.before,
            }
            .page(PAGE)?;
            let owner = match query.owner.as_deref() {
                None => OwnedBy::Anyone,
                Some("me") => OwnedBy::Member(actor.user),
                Some("none") => OwnedBy::Nobody,
                Some(text) => OwnedBy::Member(text.parse::<UserId>().map_err(|e| {
                    ApiError::invalid(ErrorCode::InvalidId, e.to_string(), "owner")
                })?),
            };
            let channel = query.channel_id;
            let filter = items::Filter {
                owner,
                done: query.done,
                channel,
            };
            if let OwnedBy::Member(owner) = owner {
                items::check_owner(c, actor.workspace, owner).await?;
            }
            if let Some(channel) = channel {
                visible_channel(c, caller, &actor, channel).await?;
            }
            if let Some(cursor) = page.after.or(page.before) {
                items::visible(c, caller, actor.workspace, cursor).await?;
            }
            let rows = items::list(
                c,
                actor.workspace,
                actor.user,
                &filter,
                page.range(),
                page.limit + 1,
            )
            .await?;
            // A hidden owner is known to the caller only from visible items.
            if let OwnedBy::Member(owner) = owner
                && rows.is_empty()
                && !auth::sees_person(c, &actor, owner).await?
            {
                return Err(AuthError::MemberNotFound(owner.to_string()).into());
            }
            Ok::<_, ApiError>(List::new(
                rows,
                page.limit,
                page.before.is_some(),
                |item: &ActionItem| item.id.to_string(),
            ))
        }
        .boxed()
    });
    Ok(Json(read.await?))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ItemChange {
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    done: Option<bool>,
    /// A member; null for no owner.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<UserId>)]
    owner_id: Option<Option<UserId>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Day>)]
    due: Option<Option<Day>>,
}

/// Change an action item's done state, owner, or due date
#[utoipa::path(patch, path = "/v1/action-items/{id}", tag = "outcomes",
    security(("session" = ["member"]), ("key" = ["chat:write"])),
    params(("id" = ActionItemId, Path)),
    request_body(content = ItemChange,
        example = json!({"done": true})),
    responses((status = 200, body = ActionItem)))]
async fn update_action_item(
    axum::extract::State(state): St,
    caller: Caller,
    Path(id): Path<ActionItemId>,
    Body(change): Body<ItemChange>,
) -> Result<Json<ActionItem>, ApiError> {
    let patch = ItemPatch {
        done: change.done,
        owner: change.owner_id,
        due: change.due,
    };
    let update = async move |c: &mut Conn| items::change(c, &caller, id, &patch).await;
    Ok(Json(
        write_for(&state, WhichObject::ActionItem(id), update).await?,
    ))
}
