//! HTTP routes for the budgets of a workspace.

use std::collections::HashSet;

use axum::{http::StatusCode, response::Response};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use utoipa_axum::router::OpenApiRouter;
use uuid::Uuid;

use super::{St, tagged};
use crate::{
    agents::profiles,
    auth::{self, Actor, AuditAction, AuthError, Scope, WorkspaceCaller},
    db::{Conn, DbError, dialect},
    http::{
        ApiError, ErrorCode,
        extract::{Body, IfMatch, Query},
        page::ListObject,
        routing::routes,
    },
    ids::{AgentId, IdError, UserId},
    server::State,
    tasks::budgets::{
        self, BudgetPeriod, BudgetScope, BudgetUnit, NewBudget, UsageBudget, nano_usd,
    },
};

const BUDGETS_MAX: usize = 100;
const USD_MAX: f64 = 1e9;
const TOKENS_MAX: i64 = 1_000_000_000_000_000;
const WARN_AT_DEFAULT: f64 = 0.8;

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(get_budgets, put_budgets))
}

#[derive(Debug, thiserror::Error)]
enum BudgetError {
    /// An invalid value. Contains the message and the path of the field.
    #[error("{0}")]
    Invalid(String, String),
    #[error("{0}")]
    BadId(IdError, String),
    #[error("{0} is not a member of this workspace")]
    NoSuchMember(UserId, String),
    #[error("the agent {0} does not exist in this workspace, or you don't have access to it")]
    NoSuchAgent(AgentId, String),
    #[error("the budgets have changed since you loaded them: reload them, and reapply your change")]
    Stale(Box<BudgetList>),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<BudgetError> for ApiError {
    fn from(e: BudgetError) -> Self {
        use BudgetError as E;
        let text = e.to_string();
        match e {
            E::Invalid(_, param) => Self::unprocessable(ErrorCode::InvalidValue, text).param(param),
            E::BadId(_, param) => Self::malformed_field(text, &param),
            E::NoSuchMember(_, param) => {
                Self::unprocessable(ErrorCode::NoSuchMember, text).param(param)
            }
            E::NoSuchAgent(_, param) => {
                Self::unprocessable(ErrorCode::AgentNotFound, text).param(param)
            }
            E::Stale(current) => Self::new(StatusCode::CONFLICT, ErrorCode::VersionConflict, text)
                .with_current(&current),
            E::Auth(e) => e.into(),
            E::Db(e) => e.into(),
        }
    }
}

/// All budgets of a workspace.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
struct BudgetList {
    #[schema(inline)]
    object: ListObject,
    /// At most 100, in the order in which they were set.
    data: Vec<UsageBudget>,
}

impl BudgetList {
    fn new(data: Vec<UsageBudget>) -> Self {
        Self {
            object: ListObject,
            data,
        }
    }
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct BudgetsQuery {
    /// `true` returns the budgets that limit you, with your own usage; this does not require the admin role.
    mine: Option<bool>,
}

/// A budget to set. Fields that only the server sets are ignored, so the list from `GET` can be sent back.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct BudgetForm {
    scope: BudgetScope,
    /// `user_…` or `agent_…`; null for a limit on each person or agent, or on the workspace.
    subject_id: Option<String>,
    period: BudgetPeriod,
    /// Limit in US dollars. Set either this or `limit_tokens`.
    limit_usd: Option<f64>,
    /// Limit on the total number of input and output tokens. Set either this or `limit_usd`.
    limit_tokens: Option<i64>,
    /// Fraction of the limit at which admins are warned; 0.8 by default.
    warn_at: Option<f64>,
    #[serde(rename = "spent")]
    #[schema(value_type = Option<f64>)]
    _spent: Option<IgnoredAny>,
    #[serde(rename = "reserved")]
    #[schema(value_type = Option<f64>)]
    _reserved: Option<IgnoredAny>,
    #[serde(rename = "top_subject_id")]
    #[schema(value_type = Option<String>)]
    _top_subject_id: Option<IgnoredAny>,
}

/// The new budgets, which replace all others.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct BudgetsForm {
    #[serde(rename = "object")]
    #[schema(value_type = Option<String>)]
    _object: Option<IgnoredAny>,
    /// At most 100.
    data: Vec<BudgetForm>,
}

impl BudgetForm {
    /// Validates the budget at `path` in the request body.
    fn parse(&self, path: &str) -> Result<NewBudget, BudgetError> {
        let field = |name: &str| format!("{path}.{name}");
        let invalid = |text: String, name: &str| Err(BudgetError::Invalid(text, field(name)));
        let subject = match (self.scope, &self.subject_id) {
            (_, None) => None,
            (BudgetScope::Workspace, Some(_)) => {
                let text = "the budget of the workspace has no subject_id: omit it".to_owned();
                return invalid(text, "subject_id");
            }
            (BudgetScope::Person, Some(id)) => id
                .parse::<UserId>()
                .map(|id| Some(id.0))
                .map_err(|e| BudgetError::BadId(e, field("subject_id")))?,
            (BudgetScope::Agent, Some(id)) => id
                .parse::<AgentId>()
                .map(|id| Some(id.0))
                .map_err(|e| BudgetError::BadId(e, field("subject_id")))?,
        };
        let (unit, amount) = match (self.limit_usd, self.limit_tokens) {
            (Some(usd), None) => {
                let amount = nano_usd(usd);
                if amount < 1 || !usd.is_finite() || usd > USD_MAX {
                    let text = format!("limit_usd must be more than 0 and at most {USD_MAX}");
                    return invalid(text, "limit_usd");
                }
                (BudgetUnit::Usd, amount)
            }
            (None, Some(tokens)) => {
                if !(1..=TOKENS_MAX).contains(&tokens) {
                    let text = format!("limit_tokens must be from 1 to {TOKENS_MAX}");
                    return invalid(text, "limit_tokens");
                }
                (BudgetUnit::Tokens, tokens)
            }
            (Some(_), Some(_)) | (None, None) => {
                let text = "a budget has either limit_usd or limit_tokens: set one of them";
                return invalid(text.to_owned(), "limit_usd");
            }
        };
        let warn_at = self.warn_at.unwrap_or(WARN_AT_DEFAULT);
        if !(warn_at > 0.0 && warn_at <= 1.0) {
            return invalid(
                "warn_at must be more than 0 and at most 1".to_owned(),
                "warn_at",
            );
        }
        Ok(NewBudget {
            scope: self.scope,
            subject,
            period: self.period,
            unit,
            amount,
            warn_at,
        })
    }
}

impl BudgetsForm {
    fn parse(&self) -> Result<Vec<NewBudget>, BudgetError> {
        if self.data.len() > BUDGETS_MAX {
            let text = format!("a workspace can have at most {BUDGETS_MAX} budgets");
            return Err(BudgetError::Invalid(text, "data".to_owned()));
        }
        let mut seen = HashSet::new();
        let mut parsed = Vec::with_capacity(self.data.len());
        for (at, form) in self.data.iter().enumerate() {
            let path = format!("data[{at}]");
            let budget = form.parse(&path)?;
            if !seen.insert((budget.scope, budget.subject, budget.period, budget.unit)) {
                let text = "there is another budget for the same calls, period, and unit: remove one of them";
                return Err(BudgetError::Invalid(text.to_owned(), path));
            }
            parsed.push(budget);
        }
        Ok(parsed)
    }
}

/// Get the budgets of the workspace, with the usage of the current day or month (UTC)
///
/// Without `mine`, requires the admin role; keys need `workspace:admin`.
#[utoipa::path(get, path = "/v1/budgets", tag = "admin",
    security(("session" = ["viewer"]), ("key" = ["chat:read"])),
    params(BudgetsQuery), responses((status = 200, body = BudgetList)))]
async fn get_budgets(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    Query(query): Query<BudgetsQuery>,
) -> Result<Response, ApiError> {
    let mut c = state.db.snapshot().await?;
    let actor = member.enter(&mut c).await?;
    let is_own = query.mine == Some(true);
    if is_own && !actor.scopes.has(Scope::WorkspaceAdmin) {
        actor.require(Scope::ChatRead)?;
    } else {
        actor.require(Scope::WorkspaceAdmin)?;
    }
    let data = if is_own {
        budgets::list_own(&mut c, actor.workspace, actor.user).await?
    } else {
        budgets::list(&mut c, actor.workspace).await?
    };
    let version = budgets::find_version(&mut c, actor.workspace).await?;
    Ok(tagged(StatusCode::OK, version, &BudgetList::new(data)))
}

/// Replace the budgets of the workspace
///
/// Each model call reserves 1.5 times its estimated input, plus its output limit, in every budget that covers it. The call is
/// rejected if one of these budgets has too little left. New budgets start with the usage of the current day or month (UTC).
#[utoipa::path(put, path = "/v1/budgets", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("If-Match" = inline(Option<IfMatch>), Header)),
    request_body(content = BudgetsForm,
        example = json!({"data": [{"scope": "workspace", "period": "month", "limit_usd": 50.0},
            {"scope": "person", "subject_id": null, "period": "day", "limit_tokens": 2_000_000, "warn_at": 0.9}]})),
    responses((status = 200, body = BudgetList)))]
async fn put_budgets(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    IfMatch(expected): IfMatch,
    Body(form): Body<BudgetsForm>,
) -> Result<Response, ApiError> {
    let (version, list) = member
        .write(&state.db, async move |c, actor| {
            actor.require(Scope::WorkspaceAdmin)?;
            put(c, actor, &form, expected).await
        })
        .await?;
    Ok(tagged(StatusCode::OK, version, &list))
}

async fn put(
    c: &mut Conn,
    actor: &Actor<'_>,
    form: &BudgetsForm,
    expected: Option<i64>,
) -> Result<(i64, BudgetList), BudgetError> {
    let parsed = form.parse()?;
    let workspace = actor.workspace;
    dialect::lock_workspace(c, workspace.0).await?;
    let current = budgets::list(c, workspace).await?;
    if let Some(expected) = expected
        && expected != budgets::find_version(c, workspace).await?
    {
        return Err(BudgetError::Stale(Box::new(BudgetList::new(current))));
    }
    // People who have left and agents that have been deleted keep the budgets that they already have.
    let known: HashSet<&str> = current
        .iter()
        .filter_map(|budget| budget.subject_id.as_deref())
        .collect();
    for (at, budget) in parsed.iter().enumerate() {
        if let Some(subject) = budget.subject {
            let path = format!("data[{at}].subject_id");
            check_subject(c, actor, budget.scope, subject, &known, path).await?;
        }
    }
    let list = BudgetList::new(budgets::replace(c, workspace, &parsed).await?);
    let data = serde_json::to_value(&list).unwrap_or_default();
    let action = AuditAction::BudgetsChanged;
    auth::record_audit(c, actor, action, workspace.to_string(), data).await?;
    Ok((budgets::find_version(c, workspace).await?, list))
}

async fn check_subject(
    c: &mut Conn,
    actor: &Actor<'_>,
    scope: BudgetScope,
    subject: Uuid,
    known: &HashSet<&str>,
    path: String,
) -> Result<(), BudgetError> {
    if scope == BudgetScope::Agent {
        let agent = AgentId(subject);
        if known.contains(agent.to_string().as_str())
            || profiles::is_visible(c, actor, agent).await?
        {
            return Ok(());
        }
        return Err(BudgetError::NoSuchAgent(agent, path));
    }
    let user = UserId(subject);
    let member = auth::find_member(c, actor.workspace, user).await?;
    if member.is_some() || known.contains(user.to_string().as_str()) {
        Ok(())
    } else {
        Err(BudgetError::NoSuchMember(user, path))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(budget: &serde_json::Value) -> Result<NewBudget, String> {
        let form: BudgetsForm = serde_json::from_value(json!({"data": [budget]})).unwrap();
        match form.parse() {
            Ok(mut budgets) => Ok(budgets.remove(0)),
            Err(
                BudgetError::Invalid(_, param)
                | BudgetError::BadId(_, param)
                | BudgetError::NoSuchMember(_, param)
                | BudgetError::NoSuchAgent(_, param),
            ) => Err(param),
            Err(e) => panic!("{e}"),
        }
    }

    #[test]
    fn a_budget_is_in_tokens_or_in_billionths_of_a_dollar() {
        let dollars =
            parse(&json!({"scope": "workspace", "period": "month", "limit_usd": 50.0})).unwrap();
        assert_eq!(
            (dollars.unit, dollars.amount),
            (BudgetUnit::Usd, 50_000_000_000)
        );
        assert!((dollars.warn_at - WARN_AT_DEFAULT).abs() < f64::EPSILON);
        let user = UserId::new();
        let tokens = parse(
            &json!({"scope": "person", "subject_id": user, "period": "day", "limit_tokens": 9, "limit_usd": null,
                "spent": 3, "reserved": 0, "top_subject_id": null}),
        )
        .unwrap();
        assert_eq!(
            (tokens.subject, tokens.unit, tokens.amount),
            (Some(user.0), BudgetUnit::Tokens, 9)
        );
    }

    #[test]
    fn an_invalid_budget_is_rejected_with_its_field() {
        let agent = AgentId::new();
        for (budget, field) in [
            (
                json!({"scope": "workspace", "period": "day"}),
                "data[0].limit_usd",
            ),
            (
                json!({"scope": "workspace", "period": "day", "limit_usd": 1, "limit_tokens": 1}),
                "data[0].limit_usd",
            ),
            (
                json!({"scope": "workspace", "period": "day", "limit_usd": 0}),
                "data[0].limit_usd",
            ),
            (
                json!({"scope": "workspace", "period": "day", "limit_usd": -1}),
                "data[0].limit_usd",
            ),
            (
                json!({"scope": "workspace", "period": "day", "limit_tokens": 0}),
                "data[0].limit_tokens",
            ),
            (
                json!({"scope": "workspace", "period": "day", "limit_tokens": 1, "warn_at": 0}),
                "data[0].warn_at",
            ),
            (
                json!({"scope": "workspace", "period": "day", "limit_tokens": 1, "warn_at": 1.1}),
                "data[0].warn_at",
            ),
            (
                json!({"scope": "workspace", "subject_id": agent, "period": "day", "limit_tokens": 1}),
                "data[0].subject_id",
            ),
            (
                json!({"scope": "person", "subject_id": agent, "period": "day", "limit_tokens": 1}),
                "data[0].subject_id",
            ),
        ] {
            assert_eq!(parse(&budget), Err(field.to_owned()), "{budget}");
        }
    }

    #[test]
    fn two_budgets_for_the_same_calls_are_rejected() {
        let twice = json!({"scope": "person", "period": "day", "limit_tokens": 1});
        let form: BudgetsForm =
            serde_json::from_value(json!({"object": "list", "data": [twice, twice]})).unwrap();
        assert!(matches!(form.parse(), Err(BudgetError::Invalid(_, path)) if path == "data[1]"));
    }
}
