//! Start of a session: its cookies, and the account in the response.

use axum::{
    Json,
    http::{HeaderMap, HeaderName, StatusCode, header},
    response::{AppendHeaders, IntoResponse, Response},
};
use axum_extra::extract::{
    CookieJar,
    cookie::{Cookie, SameSite},
};
use serde::Serialize;

use super::device_of;
use crate::{
    auth::{
        AuthError, MyWorkspace, Token,
        clients::{self, Client},
        events::Device,
        password::StoredPassword,
        sessions::{self, SignInProof},
        users, workspaces,
    },
    db::Conn,
    http::ApiError,
    ids::{SessionId, UserId},
    server::{
        State,
        caller::{Address, token_of},
    },
    text_enum::text_enum,
    time::Timestamp,
};

text_enum! {
    /// Way of signing in, as the metric names it.
    pub(super) enum SignInMethod {
        Password = "password",
        SecondFactor = "second_factor",
        Passkey = "passkey",
        Provider = "provider",
    }
}

/// Counts an attempt to sign in.
pub(super) fn count_sign_in(method: SignInMethod, result: &'static str) {
    let labels = [("method", method.as_str()), ("result", result)];
    metrics::counter!("openvibe_sign_ins_total", &labels).increment(1);
}

/// Counts an attempt to sign in by its response.
pub(super) fn counted<T>(
    method: SignInMethod,
    response: Result<T, ApiError>,
) -> Result<T, ApiError> {
    let code = response
        .as_ref()
        .map_or_else(|e| e.code().as_str(), |_| "ok");
    count_sign_in(method, code);
    response
}

/// A signed-in person and their workspaces.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct Account {
    pub user: AccountUser,
    pub workspaces: Vec<MyWorkspace>,
}

/// A signed-in person. API keys get only `id` and `name`.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct AccountUser {
    pub id: UserId,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub email: Option<String>,
    pub avatar_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub created_at: Option<Timestamp>,
    /// False if the client should not suggest forks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub suggestions: Option<bool>,
    /// True if the person proved that the email address is theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub email_confirmed: Option<bool>,
}

pub(super) async fn account(c: &mut Conn, user: UserId) -> Result<Account, AuthError> {
    let user_row = users::get_user(c, user).await?;
    Ok(Account {
        user: AccountUser {
            id: user_row.id,
            name: user_row.name,
            email: Some(user_row.email),
            avatar_url: user_row.avatar_url,
            created_at: Some(user_row.created_at),
            suggestions: Some(user_row.suggestions),
            email_confirmed: Some(user_row.email_confirmed),
        },
        workspaces: workspaces::list_mine(c, user).await?,
    })
}

/// Verifies the password of a session's account, as often as the limit permits.
///
/// # Errors
/// `WrongCurrentPassword`, `TooManyAttempts`.
pub(super) async fn verify_current_password(
    state: &State,
    session: SessionId,
    email: &str,
    password: String,
) -> Result<StoredPassword, AuthError> {
    state.limits.change_password(session).await?;
    let stored = StoredPassword::find(&mut state.db.read().await?, email).await?;
    let verified = state.hasher.verify(password, stored.clone()).await;
    let verified = match verified {
        Ok(true) => stored.ok_or(AuthError::WrongCurrentPassword),
        Ok(false) => Err(AuthError::WrongCurrentPassword),
        Err(e) => Err(e),
    };
    state.limits.settle_change(session, &verified).await;
    verified
}

pub(super) fn cookie(state: &State, token: &str, max_age_s: u64) -> String {
    cookie_at(state, crate::auth::SESSION_COOKIE, token, "/", max_age_s)
}

pub(super) fn cookie_at(
    state: &State,
    name: &'static str,
    value: &str,
    path: &'static str,
    max_age_s: u64,
) -> String {
    let mut cookie = Cookie::new(name, value.to_owned());
    cookie.set_http_only(true);
    cookie.set_same_site(SameSite::Lax);
    cookie.set_path(path);
    cookie.set_secure(state.is_https());
    let mut text = cookie.to_string();
    text.push_str("; Max-Age=");
    text.push_str(&max_age_s.to_string());
    text
}

/// Returns the client that sent a request.
fn client_of(headers: &HeaderMap, address: &Address) -> Client {
    let browser = CookieJar::from_headers(headers)
        .get(clients::BROWSER_COOKIE)
        .map(|cookie| cookie.value().to_owned());
    Client {
        address: address.0,
        browser,
    }
}

/// Browser in which a session starts.
#[derive(Clone)]
pub(super) struct Browser {
    pub client: Client,
    device: Device,
    /// Token of the session that the new one replaces.
    instead_of: Option<String>,
}

impl Browser {
    pub(super) fn of(headers: &HeaderMap, address: &Address) -> Self {
        let instead_of = token_of(headers).and_then(|token| match token {
            Token::Session(token) => Some(token),
            Token::Key(_) => None,
        });
        Self {
            client: client_of(headers, address).marked(),
            device: device_of(headers, address),
            instead_of,
        }
    }

    /// Starts a session in the transaction that checked what the person proved. Returns the token for its cookie.
    ///
    /// # Errors
    /// Only database errors.
    pub(super) async fn start_session(
        &self,
        c: &mut Conn,
        user: UserId,
        proof: SignInProof,
    ) -> Result<String, AuthError> {
        clients::remember(c, user, &self.client).await?;
        let instead_of = self.instead_of.as_deref();
        sessions::start(c, user, &self.device, instead_of, proof).await
    }

    /// Device of the browser.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Cookies of a session that was just started.
    pub(super) fn cookies(&self, state: &State, token: &str) -> [(HeaderName, String); 2] {
        let session = cookie(state, token, sessions::SESSION_LIFETIME.as_secs());
        let browser = cookie_at(
            state,
            clients::BROWSER_COOKIE,
            self.client.browser.as_deref().unwrap_or_default(),
            "/v1/auth",
            clients::BROWSER_COOKIE_LIFETIME.as_secs(),
        );
        [(header::SET_COOKIE, session), (header::SET_COOKIE, browser)]
    }

    /// Responds with the account and the cookies of a session that was just started.
    pub(super) async fn respond(
        self,
        state: &State,
        status: StatusCode,
        user: UserId,
        token: &str,
    ) -> Result<Response, ApiError> {
        let account = account(&mut state.db.read().await?, user).await?;
        let cookies = AppendHeaders(self.cookies(state, token));
        Ok((status, cookies, Json(account)).into_response())
    }
}
