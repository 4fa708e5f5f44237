//! Tests whether the configured model replies.

use std::time::Instant;

use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;

use super::St;
use crate::{
    auth::{Scope, WorkspaceCaller},
    http::{ApiError, ErrorCode, extract::Body, routing::routes},
    model::Provider,
    providers::Tested,
    replies::retry::Failure,
    server::{State, caller::Outgoing},
    tasks::FailCode,
};

const MODEL_CHARS_MAX: usize = 200;

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(test_model))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ModelTestForm {
    /// Model to test. By default, the model that agents use if they do not set one.
    model: Option<String>,
}

#[derive(Serialize, utoipa::ToSchema)]
struct ModelTest {
    ok: bool,
    /// `builtin`, or the host that was called.
    #[schema(example = "builtin")]
    provider: String,
    model: String,
    latency_ms: u64,
    /// The beginning of the model's reply.
    reply: Option<String>,
    error: Option<ModelTestError>,
}

impl ModelTest {
    /// Result for a workspace in which the built-in responder replies.
    fn without_model(provider: &dyn Provider) -> Self {
        Self {
            ok: false,
            provider: provider.name().to_owned(),
            model: provider.name().to_owned(),
            latency_ms: 0,
            reply: None,
            error: Some(ModelTestError {
                code: FailCode::ModelUnavailable,
                message: "no model is connected: connect one in Settings › Model, or set OPENVIBE_MODEL_BASE_URL".to_owned(),
            }),
        }
    }
}

#[derive(Serialize, utoipa::ToSchema)]
struct ModelTestError {
    code: FailCode,
    message: String,
}

/// Test the model with a one-word reply
#[utoipa::path(post, path = "/v1/model-test", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    request_body = ModelTestForm, responses((status = 200, body = ModelTest)))]
async fn test_model(
    axum::extract::State(state): St,
    member: WorkspaceCaller,
    _: Outgoing,
    Body(form): Body<ModelTestForm>,
) -> Result<Json<ModelTest>, ApiError> {
    let mut c = state.db.read().await?;
    member.enter(&mut c).await?.require(Scope::WorkspaceAdmin)?;
    drop(c);
    let model = form.model.as_deref().map(str::trim);
    if model.is_some_and(|model| {
        model.is_empty()
            || model.chars().count() > MODEL_CHARS_MAX
            || model.chars().any(char::is_control)
    }) {
        return Err(ApiError::unprocessable(
            ErrorCode::InvalidValue,
            format!("the model name must have 1 to {MODEL_CHARS_MAX} characters"),
        )
        .param("model"));
    }
    let provider = state.providers.of(member.workspace).await?;
    if provider.is_offline() {
        return Ok(Json(ModelTest::without_model(&*provider)));
    }
    let started = Instant::now();
    let Tested {
        model,
        reply: answer,
    } = state.providers.test(&provider, &member, model).await?;
    let (reply, error) = match answer {
        Ok(answer) => (Some(answer.text.trim().to_owned()), None),
        Err(e) => {
            let message = e.to_string();
            let code = Failure::from(e).code();
            (None, Some(ModelTestError { code, message }))
        }
    };
    Ok(Json(ModelTest {
        ok: error.is_none(),
        provider: provider.name().to_owned(),
        model,
        latency_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        reply,
        error,
    }))
}
