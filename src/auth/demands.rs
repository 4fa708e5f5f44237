//! Demands of a workspace on the sessions that enter it: a second factor, an identity provider, and recent use.

use std::time::Duration;

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use super::{AuthError, password::NOBODY};
use crate::{
    db::{Conn, DbError, Json, now},
    ids::{IdentityProviderId, SessionId, UserId, WorkspaceId},
    patch::{nullable, present},
    text_enum::text_enum,
    time::Timestamp,
};

const IDLE_S: i64 = 2_592_000;
const IDLE_S_MIN: i64 = 900;
const AGE_S: i64 = 15_552_000;
const AGE_S_MIN: i64 = 3_600;
/// Maximum number of days until a second factor is required.
const NOTICE_DAYS: i64 = 30;

/// SQL expression that is true if the workspace `$workspace` demands something of sessions.
macro_rules! has_demands {
    ($workspace:literal) => {
        concat!(
            "exists (select 1 from workspace_sign_ins wsi where wsi.workspace_id = ",
            $workspace,
            ")"
        )
    };
}
pub(crate) use has_demands;

text_enum! {
    pub enum SecondFactorDemand {
        Off = "off",
        Required = "required",
    }
}

/// Demands of a workspace on sessions. API keys are not affected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct SignInDemands {
    pub second_factor: SecondFactorDemand,
    /// First day on which the second factor is required, from midnight UTC; null for at once.
    pub from: Option<String>,
    /// Identity providers, of which one must have started the session; null permits every way to sign in. Server admins with a password
    /// and a second factor need none.
    pub providers: Option<Vec<IdentityProviderId>>,
    /// Time without use after which a session has to be replaced, in seconds.
    pub idle_s: i64,
    /// Age at which a session has to be replaced, in seconds.
    pub age_s: i64,
}

impl Default for SignInDemands {
    fn default() -> Self {
        Self {
            second_factor: SecondFactorDemand::Off,
            from: None,
            providers: None,
            idle_s: IDLE_S,
            age_s: AGE_S,
        }
    }
}

/// Changes to what a workspace demands of sessions. Omitted fields are unchanged, `null` clears a field.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignInDemandsPatch {
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub second_factor: Option<SecondFactorDemand>,
    /// A day such as `2026-12-01`, at most 30 days ahead.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    pub from: Option<Option<String>>,
    /// 1 to 10 providers of this server.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Vec<IdentityProviderId>>)]
    pub providers: Option<Option<Vec<IdentityProviderId>>>,
    /// 900 to 2,592,000.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub idle_s: Option<i64>,
    /// 3,600 to 15,552,000.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub age_s: Option<i64>,
}

#[derive(sqlx::FromRow)]
struct DemandsRow {
    second_factor: SecondFactorDemand,
    from_day: Option<String>,
    providers: Option<Json<Vec<IdentityProviderId>>>,
    idle_s: i64,
    age_s: i64,
}

async fn find(c: &mut Conn, workspace: WorkspaceId) -> Result<Option<SignInDemands>, DbError> {
    let row: Option<DemandsRow> = c
        .q("select second_factor, from_day, providers, idle_s, age_s from workspace_sign_ins where workspace_id = $1")
        .bind(workspace)
        .opt()
        .await?;
    Ok(row.map(|row| SignInDemands {
        second_factor: row.second_factor,
        from: row.from_day,
        providers: row.providers.map(|list| list.0),
        idle_s: row.idle_s,
        age_s: row.age_s,
    }))
}

/// The demands of a workspace.
///
/// # Errors
/// Only database errors.
pub(crate) async fn of_workspace(
    c: &mut Conn,
    workspace: WorkspaceId,
) -> Result<SignInDemands, DbError> {
    Ok(find(c, workspace).await?.unwrap_or_default())
}

/// Number of people in a workspace, and of those who would not meet a demand for a second factor.
#[derive(Debug, Clone, Copy, Serialize, sqlx::FromRow, utoipa::ToSchema)]
pub struct SecondFactorCounts {
    pub people: i64,
    /// People with neither an app, nor a passkey, nor a provider whose sign-ins always count as a second factor.
    pub without_factor: i64,
}

/// Counts the people of a workspace who have no second factor.
///
/// # Errors
/// Only database errors.
pub(crate) async fn count_without_factor(
    c: &mut Conn,
    workspace: WorkspaceId,
) -> Result<SecondFactorCounts, DbError> {
    c.q("select count(*) as people, cast(coalesce(sum(case when \
           exists (select 1 from passkeys k where k.user_id = m.user_id) \
           or exists (select 1 from totp_apps a where a.user_id = m.user_id and a.confirmed_at is not null) \
           or exists (select 1 from identities i join identity_providers p on p.id = i.provider_id \
             where i.user_id = m.user_id and p.enabled = TRUE and p.settings ->> 'second_factor' = 'always') \
         then 0 else 1 end), 0) as bigint) as without_factor \
         from members m where m.workspace_id = $1 and m.status <> 'placeholder'")
        .bind(workspace)
        .one()
        .await
}

/// Facts about a session that demands concern.
#[derive(sqlx::FromRow)]
pub(super) struct Proven {
    created_at: Timestamp,
    last_seen_at: Timestamp,
    longest_idle_s: i64,
    second_factor_at: Option<Timestamp>,
    exempt_until: Option<Timestamp>,
    provider_id: Option<IdentityProviderId>,
}

pub(super) async fn find_proven(c: &mut Conn, session: SessionId) -> Result<Proven, AuthError> {
    c.q("select s.created_at, s.last_seen_at, s.longest_idle_s, s.second_factor_at, s.exempt_until, i.provider_id \
         from sessions s left join identities i on i.id = s.identity_id where s.id = $1")
        .bind(session)
        .opt()
        .await?
        .ok_or(AuthError::NotAuthenticated)
}

async fn is_server_admin_with_password(c: &mut Conn, user: UserId) -> Result<bool, DbError> {
    c.q("select exists (select 1 from users u join members m on m.user_id = u.id and m.role = 'admin' \
         and m.workspace_id = (select id from workspaces order by id limit 1) where u.id = $1 and u.password_hash <> $2)")
        .bind(user)
        .bind(NOBODY.to_owned())
        .value()
        .await
}

fn today() -> NaiveDate {
    now().datetime().date_naive()
}

fn seconds(s: i64) -> Duration {
    Duration::from_secs(u64::try_from(s).unwrap_or_default())
}

impl SignInDemands {
    /// # Errors
    /// `SessionTooOld`, `ProviderRequired`, `SecondFactorDemanded`.
    pub(super) async fn check(
        &self,
        c: &mut Conn,
        user: UserId,
        proven: &Proven,
    ) -> Result<(), AuthError> {
        let now = now();
        let idle = now.since(proven.last_seen_at);
        let is_idle = idle > seconds(self.idle_s) || proven.longest_idle_s > self.idle_s;
        if is_idle || proven.created_at + seconds(self.age_s) < now {
            return Err(AuthError::SessionTooOld);
        }
        let has_second_factor = proven.second_factor_at.is_some();
        if let Some(providers) = &self.providers
            && proven.provider_id.is_none_or(|id| !providers.contains(&id))
        {
            let is_exempt = proven.provider_id.is_none()
                && has_second_factor
                && is_server_admin_with_password(c, user).await?;
            if !is_exempt {
                return Err(AuthError::ProviderRequired);
            }
        }
        let is_required = self.second_factor == SecondFactorDemand::Required
            && self
                .from
                .as_ref()
                .is_none_or(|day| *day <= today().to_string());
        if is_required && !has_second_factor {
            return Err(AuthError::SecondFactorDemanded);
        }
        Ok(())
    }

    /// # Errors
    /// `Invalid`.
    pub(super) async fn validate(&self, c: &mut Conn) -> Result<(), AuthError> {
        let invalid = |text: String, param| Err(AuthError::Invalid(text, param));
        if let Some(day) = &self.from {
            let parsed = NaiveDate::parse_from_str(day, "%Y-%m-%d").ok();
            let latest = today() + chrono::Duration::days(NOTICE_DAYS);
            if !parsed.is_some_and(|parsed| parsed.to_string() == *day && parsed <= latest) {
                let text = format!(
                    "`from` must be a day such as 2026-12-01, at most {NOTICE_DAYS} days from now"
                );
                return invalid(text, "sign_in.from");
            }
        }
        for (value, min, max, param) in [
            (self.idle_s, IDLE_S_MIN, IDLE_S, "sign_in.idle_s"),
            (self.age_s, AGE_S_MIN, AGE_S, "sign_in.age_s"),
        ] {
            if !(min..=max).contains(&value) {
                return invalid(format!("`{param}` must be from {min} to {max}"), param);
            }
        }
        let providers = self.providers.as_deref().unwrap_or_default();
        if self.providers.is_some() && !(1..=10).contains(&providers.len()) {
            let text = "`providers` must have 1 to 10 identity providers".to_owned();
            return invalid(text, "sign_in.providers");
        }
        for id in providers {
            let exists: bool = c
                .q("select exists (select 1 from identity_providers where id = $1)")
                .bind(*id)
                .value()
                .await?;
            if !exists {
                let text = format!("the identity provider {id} does not exist");
                return invalid(text, "sign_in.providers");
            }
        }
        Ok(())
    }
}

/// Checks that a session meets the demands of a workspace that has some.
///
/// # Errors
/// `SessionTooOld`, `ProviderRequired`, `SecondFactorDemanded`, or `NotAuthenticated` if the session has ended.
pub(super) async fn check(
    c: &mut Conn,
    user: UserId,
    session: SessionId,
    workspace: WorkspaceId,
) -> Result<(), AuthError> {
    let Some(demands) = find(c, workspace).await? else {
        return Ok(());
    };
    let proven = find_proven(c, session).await?;
    if proven.exempt_until.is_some_and(|until| until > now()) {
        return Ok(());
    }
    demands.check(c, user, &proven).await
}
