//! SCIM 2.0: identity providers send accounts and groups. The routes are not part of the API document, because RFC 7643 and 7644 define
//! them, and `/scim/v2/Schemas` describes them.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{FromRequest, Request},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::any,
};
use futures::future::LocalBoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    auth::{
        AuthError, SecurityMail,
        oidc::membership::ChannelChange,
        scim::{
            Effects, GroupDoc, Location, PatchForm, Range, ScimFault, ScimType, Selection, UserDoc,
            WriteMail, groups, people, schemas, token::Sender,
        },
    },
    chat::channels,
    db::Conn,
    http::{
        ApiError,
        bodies::{MEMBER_BYTES_MAX, read, take},
        extract::RawBody,
    },
    ids::{IdentityProviderId, ScimGroupId, UserId, WorkspaceId},
    server::{State, caller::Address},
    share::Pool,
};

type St = axum::extract::State<State>;

/// Memory that each request with a body reserves at least, which also limits the number of concurrent requests of a provider.
const RESERVED_BYTES: u64 = 64 * 1024;
const BODY_WITHIN: Duration = Duration::from_secs(30);
const SCIM_JSON: HeaderValue = HeaderValue::from_static("application/scim+json");

/// Routes for identity providers.
pub fn receiver() -> Router<State> {
    Router::new()
        .route("/scim/v2", any(receive))
        .route("/scim/v2/{*path}", any(receive))
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ScimQuery {
    filter: Option<String>,
    start_index: Option<i64>,
    count: Option<i64>,
    attributes: Option<String>,
    excluded_attributes: Option<String>,
}

/// Body of `/.search`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Search {
    filter: Option<String>,
    start_index: Option<i64>,
    count: Option<i64>,
    attributes: Option<Vec<String>>,
    excluded_attributes: Option<Vec<String>>,
}

impl ScimQuery {
    /// Reads a search whose query is the body, with lists of attributes.
    fn read(body: &Value) -> Result<Self, ScimFault> {
        let search = Search::deserialize(body)
            .map_err(|_| ScimFault::syntax("the search cannot be read"))?;
        let joined = |names: Option<Vec<String>>| names.map(|names| names.join(","));
        Ok(Self {
            filter: search.filter,
            start_index: search.start_index,
            count: search.count,
            attributes: joined(search.attributes),
            excluded_attributes: joined(search.excluded_attributes),
        })
    }

    fn selection(&self) -> Result<Selection, ScimFault> {
        Selection::parse(
            self.attributes.as_deref(),
            self.excluded_attributes.as_deref(),
        )
    }
}

/// Resource that a path names.
enum Target {
    Users,
    SearchUsers,
    User(UserId),
    Groups,
    SearchGroups,
    Group(ScimGroupId),
    Described(Value),
}

impl Target {
    fn of(path: &str, at: &Location) -> Result<Self, ScimFault> {
        let rest = path.trim_start_matches("/scim/v2").trim_matches('/');
        let (collection, id) = match rest.split_once('/') {
            Some((collection, id)) => (collection, Some(id)),
            None => (rest, None),
        };
        let absent = |what| move |_| ScimFault::NotFound(what);
        match (collection, id) {
            ("Users", None) => Ok(Self::Users),
            (".search", None) => Err(ScimFault::NotImplemented),
            ("Users", Some(".search")) => Ok(Self::SearchUsers),
            ("Groups", Some(".search")) => Ok(Self::SearchGroups),
            ("Users", Some(id)) => id.parse().map(Self::User).map_err(absent("user")),
            ("Groups", None) => Ok(Self::Groups),
            ("Groups", Some(id)) => id.parse().map(Self::Group).map_err(absent("group")),
            _ => schemas::find(collection, id, at)
                .map(Self::Described)
                .ok_or(ScimFault::NotFound("address")),
        }
    }

    /// Checks whether the resource accepts a method with a body.
    fn takes(&self, method: &Method) -> bool {
        match self {
            Self::Users | Self::SearchUsers | Self::Groups | Self::SearchGroups => {
                *method == Method::POST
            }
            Self::User(_) | Self::Group(_) => matches!(*method, Method::PUT | Method::PATCH),
            Self::Described(_) => false,
        }
    }
}

fn json_response(status: StatusCode, body: &Value) -> Response {
    let content_type = [(header::CONTENT_TYPE, SCIM_JSON)];
    (status, content_type, body.to_string()).into_response()
}

fn created(body: &Value) -> Response {
    let mut response = json_response(StatusCode::CREATED, body);
    let location = body["meta"]["location"].as_str().unwrap_or_default();
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// Errors have the form of RFC 7644.
fn answer(outcome: Result<Response, ScimFault>) -> Response {
    let fault = match outcome {
        Ok(response) => {
            count("ok");
            return response;
        }
        Err(fault) => fault,
    };
    let detail = fault.to_string();
    let Some((status, kind)) = fault.status() else {
        let error = match fault {
            ScimFault::Auth(error) => ApiError::from(error),
            ScimFault::Api(error) => error,
            _ => ApiError::internal(),
        };
        let is_ours = |status: StatusCode| status.is_server_error();
        // Keeps `Retry-After`, and the error for the log.
        let mut response = error.into_response();
        let status = response.status();
        count(result_of(status));
        let detail = if is_ours(status) {
            "the server could not handle the request"
        } else {
            detail.as_str()
        };
        *response.body_mut() = axum::body::Body::from(error_body(status, None, detail));
        let headers = response.headers_mut();
        headers.remove(header::CONTENT_LENGTH);
        headers.insert(header::CONTENT_TYPE, SCIM_JSON);
        return response;
    };
    count(result_of(status));
    let body = error_body(status, kind.map(ScimType::as_str), &detail);
    (status, [(header::CONTENT_TYPE, SCIM_JSON)], body).into_response()
}

fn error_body(status: StatusCode, kind: Option<&str>, detail: &str) -> String {
    let mut body = json!({"schemas": ["urn:ietf:params:scim:api:messages:2.0:Error"], "status": status.as_str(), "detail": detail});
    if let Some(kind) = kind {
        body["scimType"] = json!(kind);
    }
    body.to_string()
}

fn result_of(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "unauthorized",
        StatusCode::NOT_FOUND => "not_found",
        StatusCode::CONFLICT => "conflict",
        StatusCode::TOO_MANY_REQUESTS => "rate_limited",
        StatusCode::NOT_IMPLEMENTED => "rejected",
        status if status.is_server_error() => "failed",
        _ => "rejected",
    }
}

fn count(result: &'static str) {
    metrics::counter!("openvibe_scim_requests_total", "result" => result).increment(1);
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

type BodyPool = axum::Extension<Arc<Pool<IdentityProviderId>>>;

async fn receive(
    axum::extract::State(state): St,
    address: Address,
    axum::Extension(pool): BodyPool,
    request: Request,
) -> Response {
    answer(Box::pin(handle(&state, address, &pool, request)).await)
}

/// Finds the provider of a request, and counts the request.
async fn identify(
    state: &State,
    Address(address): Address,
    headers: &HeaderMap,
) -> Result<Sender, ScimFault> {
    let unknown = || {
        let counted = state.limits.anonymous(address);
        counted.err().unwrap_or(AuthError::NotAuthenticated)
    };
    let token = bearer(headers).ok_or_else(unknown)?;
    let mut c = state.db.read().await?;
    let sender = match Sender::find(&mut c, token).await {
        Err(AuthError::NotAuthenticated) => return Err(unknown().into()),
        found => found?,
    };
    drop(c);
    state.limits.scim(sender.provider)?;
    if sender.is_stale {
        let touch = async move |c: &mut Conn| sender.touch(c).await;
        state.db.write(uuid::Uuid::nil(), touch).await?;
    }
    Ok(sender)
}

async fn handle(
    state: &State,
    address: Address,
    pool: &Arc<Pool<IdentityProviderId>>,
    request: Request,
) -> Result<Response, ScimFault> {
    // Only programs that know a token can make the server read a body.
    let sender = identify(state, address, request.headers()).await?;
    let at = Location(format!("{}/scim/v2", state.public_url));
    let target = Target::of(request.uri().path(), &at)?;
    let query = axum::extract::Query::<ScimQuery>::try_from_uri(request.uri());
    let query = query.map_err(|_| ScimFault::value("the query cannot be read"))?;
    let method = request.method().clone();
    if method == Method::GET {
        return show(state, &sender, target, &query.0, &at).await;
    }
    if method == Method::DELETE {
        return delete(state, sender, target).await;
    }
    if !target.takes(&method) {
        return Err(ScimFault::WrongMethod);
    }
    let room = take(pool, sender.provider, RESERVED_BYTES).map_err(ScimFault::Api)?;
    let body = read(request, room, MEMBER_BYTES_MAX, BODY_WITHIN).await;
    let (request, _room) = body.map_err(ScimFault::Api)?;
    let RawBody(bytes) = RawBody::from_request(request, state)
        .await
        .map_err(ScimFault::Api)?;
    let body: Value = serde_json::from_slice(&bytes)
        .map_err(|_| ScimFault::syntax("the body is not valid JSON"))?;
    let searched = match target {
        Target::SearchUsers => Some(Target::Users),
        Target::SearchGroups => Some(Target::Groups),
        _ => None,
    };
    if let Some(searched) = searched {
        let query = ScimQuery::read(&body)?;
        return show(state, &sender, searched, &query, &at).await;
    }
    let change = Change {
        state,
        sender,
        at,
        selection: query.selection()?,
    };
    change.apply(&method, target, &body).await
}

async fn show(
    state: &State,
    sender: &Sender,
    target: Target,
    query: &ScimQuery,
    at: &Location,
) -> Result<Response, ScimFault> {
    let selection = query.selection()?;
    let range = Range::new(query.start_index, query.count);
    let filter = query.filter.as_deref();
    let mut c = state.db.read().await?;
    let body = match target {
        Target::Users => people::list(&mut c, sender, filter, range, at, &selection).await?,
        Target::User(id) => people::get(&mut c, sender, id, at, &selection).await?,
        Target::Groups => groups::list(&mut c, sender, filter, range, at, &selection).await?,
        Target::Group(id) => groups::get(&mut c, sender, id, at, &selection).await?,
        Target::Described(body) => body,
        Target::SearchUsers | Target::SearchGroups => return Err(ScimFault::WrongMethod),
    };
    Ok(json_response(StatusCode::OK, &body))
}

async fn delete(state: &State, sender: Sender, target: Target) -> Result<Response, ScimFault> {
    match target {
        Target::User(id) => people::delete(&state.db, sender, id).await?,
        Target::Group(id) => groups::delete(&state.db, sender, id, move_channels).await?,
        _ => return Err(ScimFault::WrongMethod),
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Brings a person into the channels that rules give to them, and out of others.
fn move_channels(
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
    change: ChannelChange,
) -> LocalBoxFuture<'_, Result<(), ScimFault>> {
    Box::pin(async move {
        let moved = channels::follow_rules(c, workspace, user, &change).await;
        moved.map_err(|error| ScimFault::Api(error.into()))
    })
}

/// A request that changes something.
struct Change<'a> {
    state: &'a State,
    sender: Sender,
    at: Location,
    selection: Selection,
}

impl Change<'_> {
    fn write_mail(&self) -> WriteMail {
        let state = self.state.clone();
        Arc::new(move |owner, change| {
            SecurityMail::write(&state.mailer, owner, &state.public_url, change)
        })
    }

    fn effects(&self) -> Effects {
        Effects {
            write_mail: self.write_mail(),
            move_channels,
        }
    }

    async fn apply(
        &self,
        method: &Method,
        target: Target,
        body: &Value,
    ) -> Result<Response, ScimFault> {
        let (db, sender, effects) = (&self.state.db, self.sender, self.effects());
        let response = match (method, target) {
            (&Method::POST, Target::Users) => {
                let id = people::create(db, sender, UserDoc::read(body)?, effects).await?;
                created(&self.user(id).await?)
            }
            (&Method::PUT, Target::User(id)) => {
                people::replace(db, sender, id, UserDoc::read(body)?, effects).await?;
                json_response(StatusCode::OK, &self.user(id).await?)
            }
            (&Method::PATCH, Target::User(id)) => {
                people::patch(db, sender, id, PatchForm::read(body)?, effects).await?;
                json_response(StatusCode::OK, &self.user(id).await?)
            }
            (&Method::POST, Target::Groups) => {
                let id = groups::create(db, sender, GroupDoc::read(body)?, move_channels).await?;
                created(&self.group(id).await?)
            }
            (&Method::PUT, Target::Group(id)) => {
                groups::replace(db, sender, id, GroupDoc::read(body)?, move_channels).await?;
                json_response(StatusCode::OK, &self.group(id).await?)
            }
            (&Method::PATCH, Target::Group(id)) => {
                groups::patch(db, sender, id, PatchForm::read(body)?, move_channels).await?;
                json_response(StatusCode::OK, &self.group(id).await?)
            }
            _ => return Err(ScimFault::WrongMethod),
        };
        self.state.mailer.wake();
        Ok(response)
    }

    async fn user(&self, id: UserId) -> Result<Value, ScimFault> {
        let mut c = self.state.db.read().await?;
        people::get(&mut c, &self.sender, id, &self.at, &self.selection).await
    }

    async fn group(&self, id: ScimGroupId) -> Result<Value, ScimFault> {
        let mut c = self.state.db.read().await?;
        groups::get(&mut c, &self.sender, id, &self.at, &self.selection).await
    }
}
