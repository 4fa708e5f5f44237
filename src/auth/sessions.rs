//! Browser sessions, and authentication of requests.

use std::{collections::BTreeSet, time::Duration};

use crate::{text_enum::text_enum, time::Timestamp};
use serde::Serialize;

use super::{
    AuthError, Caller, Credential, RouteReach, Scope, Scopes, TURN_KEY, Token, UserKind,
    events::{self, AuthEventKind, Device},
    hash_token, new_token,
    revocations::{self, Revocation},
};
use crate::{
    db::{Conn, Json, now},
    ids::{ApiKeyId, SessionId, TaskId, UserId, WorkspaceId},
};

pub const SESSION_COOKIE: &str = "openvibe_session";
/// Idle time after which a session ends.
pub(crate) const SESSION_LIFETIME: Duration = Duration::from_hours(30 * 24);
/// Maximum age of a session, regardless of use.
const SESSION_AGE_MAX: Duration = Duration::from_hours(180 * 24);
/// Maximum number of sessions of a person; starting another one ends the oldest.
const SESSIONS_MAX: i64 = 100;
/// Age after which `last_seen_at` is updated, so that not every request writes.
pub(super) const SEEN_STALE_AFTER: Duration = Duration::from_mins(10);

text_enum! {
    /// Proof with which a session started.
    pub(crate) enum SignInProof {
        OneFactor = "one_factor",
        SecondFactor = "second_factor",
        /// A link of the operator, which meets the demands of every workspace for a while.
        OperatorLink = "operator_link",
    }
}

/// Time for which a link of the operator meets the demands of every workspace.
const EXEMPT_FOR: Duration = Duration::from_hours(1);

#[derive(Debug, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct Session {
    pub id: SessionId,
    pub created_at: Timestamp,
    pub last_seen_at: Timestamp,
    pub expires_at: Timestamp,
    pub user_agent: Option<String>,
    pub address: Option<String>,
}

/// Starts a session and returns the token for its cookie. Ends the browser's previous session (token `instead_of`), even if it
/// belongs to another person, and the oldest sessions of the person beyond `SESSIONS_MAX`.
pub(crate) async fn start(
    c: &mut Conn,
    user: UserId,
    device: &Device,
    instead_of: Option<&str>,
    proof: SignInProof,
) -> Result<String, AuthError> {
    if let Some(old) = instead_of {
        let ended = c
            .q("delete from sessions where token_hash = $1 returning id")
            .bind(hash_token(old))
            .all()
            .await?;
        record_ended(c, ended).await?;
    }
    let ended = c
        .q(
            "delete from sessions where user_id = $1 and id <= (select id from sessions where user_id = $1 \
            order by id desc limit 1 offset $2) returning id",
        )
        .bind(user)
        .bind(SESSIONS_MAX - 1)
        .all()
        .await?;
    record_ended(c, ended).await?;
    let token = new_token();
    c.q("insert into sessions (id, user_id, token_hash, user_agent, address, created_at, last_seen_at, expires_at, second_factor_at, \
         exempt_until) values ($1, $2, $3, $4, $5, $6, $6, $7, $8, $9)")
        .bind(SessionId::new())
        .bind(user)
        .bind(hash_token(&token))
        .bind(
            device
                .user_agent
                .as_ref()
                .map(|text| text.chars().take(200).collect::<String>()),
        )
        .bind(device.address.clone())
        .bind(now())
        .bind(now() + SESSION_LIFETIME)
        .bind((proof == SignInProof::SecondFactor).then(now))
        .bind((proof == SignInProof::OperatorLink).then(|| now() + EXEMPT_FOR))
        .run()
        .await?;
    events::record(c, user, AuthEventKind::SignedIn, None, device).await?;
    Ok(token)
}

#[derive(sqlx::FromRow)]
struct SessionRow {
    id: SessionId,
    user_id: UserId,
    name: String,
    last_seen_at: Timestamp,
    expires_at: Timestamp,
}

#[derive(sqlx::FromRow)]
struct KeyRow {
    id: ApiKeyId,
    user_id: UserId,
    name: String,
    workspace_id: WorkspaceId,
    scopes: Json<Scopes>,
    expires_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
}

/// Caller that a token identifies. If `stale` is true, the time of the last use must be updated with `touch`.
pub struct FoundCaller {
    pub caller: Caller,
    pub stale: bool,
}

/// Looks up the caller by session token or API key.
///
/// # Errors
/// `NotAuthenticated` if the token is unknown or has expired.
pub async fn find_caller(c: &mut Conn, token: &Token) -> Result<FoundCaller, AuthError> {
    match token {
        Token::Session(token) => find_session(c, token).await,
        Token::Key(key) if key.starts_with(TURN_KEY) => find_turn(c, key).await,
        Token::Key(key) => find_key(c, key).await,
    }
}

macro_rules! key_sql {
    ($condition:literal) => {
        concat!(
            "select k.id, k.user_id, u.name, k.workspace_id, k.scopes, k.expires_at, k.last_used_at \
             from api_keys k join users u on u.id = k.user_id where ",
            $condition
        )
    };
}

macro_rules! bot_key_sql {
    ($condition:literal) => {
        concat!(
            "select k.id, k.bot_id, u.name, b.workspace_id, b.scopes, b.status = 'active' as is_active, k.last_used_at \
             from bot_keys k join bots b on b.id = k.bot_id join users u on u.id = k.bot_id where ",
            $condition
        )
    };
}

async fn find_key(c: &mut Conn, key: &str) -> Result<FoundCaller, AuthError> {
    let hash = hash_token(key);
    let row: Option<KeyRow> = c
        .q(key_sql!("k.token_hash = $1"))
        .bind(hash.clone())
        .opt()
        .await?;
    if let Some(row) = row {
        return person_with_key(row);
    }
    let row: Option<BotKeyRow> = c
        .q(bot_key_sql!("k.token_hash = $1"))
        .bind(hash)
        .opt()
        .await?;
    bot_with_key(row.ok_or(AuthError::NotAuthenticated)?)
}

/// The requester of the active turn with a key. The key only permits calls of models.
async fn find_turn(c: &mut Conn, key: &str) -> Result<FoundCaller, AuthError> {
    let row: Option<(TaskId, WorkspaceId, UserId, String)> = c
        .q("select t.id, t.workspace_id, t.requested_by, u.name from task_keys k join tasks t on t.id = k.task_id \
            join users u on u.id = t.requested_by where k.key_hash = $1 and t.status in ('queued', 'running')")
        .bind(hash_token(key))
        .opt()
        .await?;
    let (task, workspace, user, name) = row.ok_or(AuthError::NotAuthenticated)?;
    Ok(FoundCaller {
        caller: Caller {
            user,
            kind: UserKind::Person,
            name,
            credential: Credential::Key {
                id: ApiKeyId(task.0),
                workspace,
                scopes: Scopes(BTreeSet::from([Scope::AgentsUse])),
                expires_at: None,
            },
            reach: RouteReach::Members,
            turn: Some(task),
        },
        stale: false,
    })
}

/// The person or bot with the key that has this ID, for work that a request with the key has prepared.
///
/// # Errors
/// `NotAuthenticated`, or `BotPaused`.
pub async fn find_key_holder(c: &mut Conn, id: ApiKeyId) -> Result<Caller, AuthError> {
    let row: Option<KeyRow> = c.q(key_sql!("k.id = $1")).bind(id).opt().await?;
    if let Some(row) = row {
        return Ok(person_with_key(row)?.caller);
    }
    let row: Option<BotKeyRow> = c.q(bot_key_sql!("k.id = $1")).bind(id).opt().await?;
    Ok(bot_with_key(row.ok_or(AuthError::NotAuthenticated)?)?.caller)
}

fn person_with_key(row: KeyRow) -> Result<FoundCaller, AuthError> {
    if row.expires_at.is_some_and(|at| at <= now()) {
        return Err(AuthError::NotAuthenticated);
    }
    let stale = row
        .last_used_at
        .is_none_or(|at| at < now() - SEEN_STALE_AFTER);
    let credential = Credential::Key {
        id: row.id,
        workspace: row.workspace_id,
        scopes: row.scopes.0,
        expires_at: row.expires_at,
    };
    Ok(FoundCaller {
        caller: Caller {
            user: row.user_id,
            kind: UserKind::Person,
            name: row.name,
            credential,
            reach: RouteReach::Members,
            turn: None,
        },
        stale,
    })
}

#[derive(sqlx::FromRow)]
struct BotKeyRow {
    id: ApiKeyId,
    bot_id: UserId,
    name: String,
    workspace_id: WorkspaceId,
    scopes: Json<Scopes>,
    is_active: bool,
    last_used_at: Option<Timestamp>,
}

fn bot_with_key(row: BotKeyRow) -> Result<FoundCaller, AuthError> {
    if !row.is_active {
        return Err(AuthError::BotPaused);
    }
    Ok(FoundCaller {
        caller: Caller {
            user: row.bot_id,
            kind: UserKind::Bot,
            name: row.name,
            credential: Credential::Key {
                id: row.id,
                workspace: row.workspace_id,
                scopes: row.scopes.0,
                expires_at: None,
            },
            reach: RouteReach::Members,
            turn: None,
        },
        stale: row
            .last_used_at
            .is_none_or(|at| at < now() - SEEN_STALE_AFTER),
    })
}

async fn find_session(c: &mut Conn, token: &str) -> Result<FoundCaller, AuthError> {
    let row: Option<SessionRow> = c
        .q(
            "select s.id, s.user_id, u.name, s.last_seen_at, s.expires_at \
            from sessions s join users u on u.id = s.user_id where s.token_hash = $1",
        )
        .bind(hash_token(token))
        .opt()
        .await?;
    let row = row
        .filter(|row| row.expires_at > now())
        .ok_or(AuthError::NotAuthenticated)?;
    let stale = row.last_seen_at < now() - SEEN_STALE_AFTER;
    Ok(FoundCaller {
        caller: Caller {
            user: row.user_id,
            kind: UserKind::Person,
            name: row.name,
            credential: Credential::Session(row.id),
            reach: RouteReach::Members,
            turn: None,
        },
        stale,
    })
}

/// Expiry of a session that is used at `now`.
fn expiry(created_at: Timestamp, now: Timestamp) -> Timestamp {
    (now + SESSION_LIFETIME).min(created_at + SESSION_AGE_MAX)
}

/// Updates the last use of a session or key, and extends a session up to its maximum age.
pub async fn touch(c: &mut Conn, credential: &Credential) -> Result<(), AuthError> {
    match credential {
        Credential::Session(id) => {
            let row: Option<(Timestamp, Timestamp, i64)> = c
                .q("select created_at, last_seen_at, longest_idle_s from sessions where id = $1")
                .bind(*id)
                .opt()
                .await?;
            let Some((created_at, seen_at, longest_idle_s)) = row else {
                return Ok(());
            };
            let idle_s = i64::try_from(now().since(seen_at).as_secs()).unwrap_or(i64::MAX);
            c.q("update sessions set last_seen_at = $2, expires_at = $3, longest_idle_s = $4 where id = $1")
                .bind(*id)
                .bind(now())
                .bind(expiry(created_at, now()))
                .bind(idle_s.max(longest_idle_s))
                .run()
                .await?
        }
        Credential::Key { id, .. } => {
            let known = c
                .q("update api_keys set last_used_at = $2 where id = $1")
                .bind(*id)
                .bind(now())
                .run()
                .await?;
            if known == 0 {
                c.q("update bot_keys set last_used_at = $2 where id = $1")
                    .bind(*id)
                    .bind(now())
                    .run()
                    .await?;
            }
            known
        }
    };
    Ok(())
}

/// Lists sessions, oldest first.
pub(crate) async fn list(c: &mut Conn, user: UserId) -> Result<Vec<Session>, AuthError> {
    let sessions: Vec<Session> = c
        .q(
            "select id, created_at, last_seen_at, expires_at, user_agent, address from sessions \
            where user_id = $1 and expires_at > $2 order by id limit $3",
        )
        .bind(user)
        .bind(now())
        .bind(SESSIONS_MAX)
        .all()
        .await?;
    Ok(sessions)
}

/// Ends a session. Returns false if this person has no such session.
pub(crate) async fn end(c: &mut Conn, user: UserId, id: SessionId) -> Result<bool, AuthError> {
    let ended: Vec<EndedSession> = c
        .q("delete from sessions where user_id = $1 and id = $2 returning id")
        .bind(user)
        .bind(id)
        .all()
        .await?;
    let has_ended = !ended.is_empty();
    record_ended(c, ended).await?;
    Ok(has_ended)
}

/// Records that the person has just confirmed that it is them.
pub(crate) async fn confirm(c: &mut Conn, id: SessionId) -> Result<(), AuthError> {
    c.q("update sessions set confirmed_at = $2 where id = $1")
        .bind(id)
        .bind(now())
        .run()
        .await?;
    Ok(())
}

/// Records that the person has just proved a second factor.
pub(crate) async fn prove_second_factor(c: &mut Conn, id: SessionId) -> Result<(), AuthError> {
    c.q("update sessions set second_factor_at = $2 where id = $1")
        .bind(id)
        .bind(now())
        .run()
        .await?;
    Ok(())
}

#[derive(sqlx::FromRow)]
struct EndedSession {
    id: SessionId,
}

/// Records the revocation of deleted sessions, which closes their sockets.
async fn record_ended(c: &mut Conn, ended: Vec<EndedSession>) -> Result<(), AuthError> {
    for session in ended {
        revocations::record(c, Revocation::Session(session.id)).await?;
    }
    Ok(())
}

/// Ends all sessions of a person, or all except for `except`.
pub(crate) async fn end_all(
    c: &mut Conn,
    user: UserId,
    except: Option<SessionId>,
) -> Result<(), AuthError> {
    c.q("delete from sessions where user_id = $1 and id <> $2")
        .bind(user)
        .bind(except.unwrap_or(SessionId(uuid::Uuid::nil())))
        .run()
        .await?;
    revocations::record(c, Revocation::Sessions { user, except }).await?;
    Ok(())
}

/// Deletes expired sessions, account events, and unfinished sign-ins.
pub async fn cleanup(c: &mut Conn) -> Result<(), AuthError> {
    super::events::cleanup(c).await?;
    super::flows::cleanup(c).await?;
    c.q("delete from sessions where expires_at < $1")
        .bind(now())
        .run()
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_in_daily_use_expires_after_180_days() {
        let day = Duration::from_hours(24);
        let created_at = now();
        let at = |days: u32| expiry(created_at, created_at + day * days);
        assert_eq!(at(0), created_at + day * 30);
        assert_eq!(at(149), created_at + day * 179);
        assert_eq!(at(150), created_at + day * 180);
        assert_eq!(at(179), created_at + day * 180);
    }
}
