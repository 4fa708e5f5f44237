//! The server's emails.

use std::time::Instant;

use axum::Json;
use serde::Serialize;
use serde_json::json;
use utoipa_axum::router::OpenApiRouter;

use super::audited::record;
use crate::{
    auth::{AuditAction, AuthError, WorkspaceCaller, users},
    db::{Conn, DbError},
    http::{ApiError, error::ErrorBody, extract::NoFields, routing::routes},
    mail::{Letter, queue, sender::MailProblem},
    routes::require_operator,
    server::{State, caller::Outgoing},
};

type St = axum::extract::State<State>;

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(send_test_mail))
}

/// State of the server's emails.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct ServerMail {
    /// False without `OPENVIBE_SMTP_URL`.
    enabled: bool,
    /// Mail server, as `HOST:PORT`.
    server: Option<String>,
    /// Sender of the emails.
    from: Option<String>,
    /// Number of emails that wait to be sent.
    waiting: i64,
    /// Reason why none can be sent.
    problem: Option<MailProblem>,
}

impl ServerMail {
    pub(super) async fn read(state: &State, c: &mut Conn) -> Result<Self, DbError> {
        let sending = state.mailer.sending().ok();
        Ok(Self {
            enabled: sending.is_some(),
            server: sending.map(|sending| sending.smtp.to_string()),
            from: sending.map(|sending| sending.from.to_string()),
            waiting: queue::count_waiting(c).await?,
            problem: MailProblem::read(c).await?.filter(|_| sending.is_some()),
        })
    }
}

/// Result of a test email.
#[derive(Serialize, utoipa::ToSchema)]
struct MailTest {
    /// True if the mail server accepted the email.
    sent: bool,
    /// Answer of the mail server, or the reason why there is none.
    answer: String,
    /// Time that it took, in milliseconds.
    ms: u64,
}

/// Send a test email to yourself
///
/// Takes up to two minutes if the mail server stalls. Only admins of the oldest workspace can use this route. Everyone else gets 404.
#[utoipa::path(post, path = "/v1/server/mail-test", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    responses((status = 200, body = MailTest),
        (status = 422, description = "Email is off", body = ErrorBody)))]
async fn send_test_mail(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    _: Outgoing,
    _: NoFields,
) -> Result<Json<MailTest>, ApiError> {
    let mut c = state.db.read().await?;
    require_operator(&mut c, &caller).await?;
    let to = users::get_user(&mut c, caller.caller.user).await?.email;
    drop(c);
    let sending = state.mailer.sending().map_err(AuthError::from)?;
    record(&state, caller, AuditAction::ServerMailTested, json!({})).await?;
    let letter = Letter {
        to,
        subject: "OpenVibe can send email".to_owned(),
        paragraphs: vec![format!(
            "This email was sent by the server at {}.",
            state.public_url
        )],
        link: None,
        reason:
            "You get this because you pressed “Send a test email” in the settings of the server."
                .to_owned(),
        ..Letter::default()
    };
    let started = Instant::now();
    let outcome = sending.send(&letter).await;
    let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (sent, answer) = match outcome {
        Ok(answer) => (true, answer),
        Err(fault) => (false, fault.text().to_owned()),
    };
    Ok(Json(MailTest { sent, answer, ms }))
}
