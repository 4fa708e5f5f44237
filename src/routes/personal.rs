//! HTTP routes for a user's data: export and erasure.

use axum::{
    Json,
    body::Body as HttpBody,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use tracing::Instrument;
use utoipa_axum::router::OpenApiRouter;

use crate::{
    auth::{self, AuthError, Scope, WorkspaceCaller},
    db::Conn,
    http::{
        ApiError,
        extract::{Body, Path},
        routing::routes,
    },
    ids::{UserId, WorkspaceId},
    personal::{
        CollectionFiles, Eraser, ErasureProgress, ErasureState, begin,
        export::{ExportReader, Subject, export},
        progress,
    },
    server::State,
};

type St = axum::extract::State<State>;

pub fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(export_member))
        .routes(routes!(erase_member, get_erasure))
}

impl From<&State> for Eraser {
    fn from(state: &State) -> Self {
        Self {
            db: state.db.clone(),
            hub: std::sync::Arc::clone(&state.hub),
            blobs: state.blobs.clone(),
            shutdown: state.shutdown.clone(),
        }
    }
}

/// Export everything that the workspace stores about a user
///
/// The export contains `profile`, `membership`, and the lists `channels`, `messages`, `reactions`, `files`, `api_keys` (without
/// secrets), `sessions` (only your own), `tasks`, `model_calls`, `action_items`, `memories`, `user_files`, `adaptation` (only your
/// own), `responses`, and `audit_log`. Tasks of the kinds `reflect` and `utility` are likewise included only in your own export. An
/// interrupted export is not valid JSON.
///
/// Exporting another person's data requires the admin role.
#[utoipa::path(get, path = "/v1/members/{user_id}/export", tag = "admin",
    security(("session" = ["viewer"]), ("key" = ["workspace:admin"])),
    params(("user_id" = UserId, Path)),
    responses((status = 200, body = Object, content_type = "application/json")))]
async fn export_member(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    Path(user): Path<UserId>,
) -> Result<Response, ApiError> {
    let mut c = state.db.read().await?;
    let actor = caller.enter(&mut c).await?;
    let member = auth::get_listed(&mut c, actor.workspace, user).await?;
    drop(c);
    // An API key must not give access to all of its owner's data.
    if user != actor.user || actor.key.is_some() {
        actor.require(Scope::WorkspaceAdmin)?;
    }
    let (workspace, requester) = (actor.workspace, actor.user);
    let turn = state.personal.export(requester);
    let turn = turn.map_err(|exhausted| ApiError::exhausted(exhausted, "exports"))?;
    let reader = if user == actor.user && actor.key.is_none() {
        ExportReader::Subject
    } else {
        ExportReader::Other
    };
    if user != actor.user {
        caller
            .write(&state.db, async move |c, actor| {
                actor.require(Scope::WorkspaceAdmin)?;
                let none = serde_json::json!({});
                auth::record_audit(
                    c,
                    actor,
                    auth::AuditAction::MemberExported,
                    user.to_string(),
                    none,
                )
                .await?;
                Ok::<_, AuthError>(())
            })
            .await?;
    }
    let subject = Subject {
        workspace,
        user,
        reader,
        requester,
    };
    let document = export(
        state.db.clone(),
        &state.tracker,
        state.shutdown.clone(),
        subject,
        turn,
    );
    let name = format!("attachment; filename=\"openvibe-{}.json\"", member.handle);
    let headers = [
        (header::CONTENT_TYPE, "application/json".to_owned()),
        (header::CONTENT_DISPOSITION, name),
    ];
    Ok((headers, HttpBody::from_stream(document)).into_response())
}

#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct EraseForm {
    /// The user's handle, as a confirmation.
    handle: String,
    /// True to also remove the user's files and web pages from vector stores; otherwise, they stay without a name.
    #[serde(default)]
    collection_files: bool,
}

/// Remove a user from the workspace and erase their data
///
/// Their messages become tombstones, and their files, reactions, and name are erased. This cannot be undone. The person loses access at
/// once; the rest is done in the background and continues after a restart. The response is the progress, also if the request is repeated.
/// In a session, it needs a confirmation.
#[utoipa::path(post, path = "/v1/members/{user_id}/erase", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("user_id" = UserId, Path)), request_body = EraseForm,
    responses((status = 202, body = ErasureProgress)))]
async fn erase_member(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    Path(user): Path<UserId>,
    Body(form): Body<EraseForm>,
) -> Result<(StatusCode, Json<ErasureProgress>), ApiError> {
    let workspace = caller.workspace;
    let person = caller.caller.clone();
    let begun = caller
        .write(&state.db, async move |c, actor| {
            actor.require(Scope::WorkspaceAdmin)?;
            // Before the session of admins who erase themselves ends.
            person.require_confirmed_session(c).await?;
            let collection_files = if form.collection_files {
                CollectionFiles::Removed
            } else {
                CollectionFiles::Kept
            };
            begin(c, actor, user, &form.handle, collection_files).await
        })
        .await?;
    let erasing = {
        let state = state.clone();
        async move {
            let Some(_running) = state.personal.start_erasure(begun) else {
                return;
            };
            let _turn = state.personal.erase(workspace).await;
            if let Err(e) = Eraser::from(&state).run(begun).await {
                tracing::warn!(error = %e, "an erasure was interrupted; it continues at the next start, or when it is requested again");
            }
        }
    };
    state.tracker.spawn(erasing.in_current_span());
    let mut c = state.db.read().await?;
    let progress = current_progress(&state, &mut c, workspace, user).await?;
    Ok((StatusCode::ACCEPTED, Json(progress)))
}

/// Get the progress of an erasure
#[utoipa::path(get, path = "/v1/members/{user_id}/erase", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    params(("user_id" = UserId, Path)),
    responses((status = 200, body = ErasureProgress)))]
async fn get_erasure(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    Path(user): Path<UserId>,
) -> Result<Json<ErasureProgress>, ApiError> {
    let mut c = state.db.read().await?;
    let actor = caller.enter(&mut c).await?;
    actor.require(Scope::WorkspaceAdmin)?;
    let progress = current_progress(&state, &mut c, actor.workspace, user).await?;
    Ok(Json(progress))
}

/// Progress of an erasure, which runs until the bytes of files, and texts in the write-ahead log, are deleted after the last row.
async fn current_progress(
    state: &State,
    c: &mut Conn,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<ErasureProgress, ApiError> {
    let (id, mut progress) = progress(c, workspace, user).await?;
    if state.personal.is_running(id) {
        progress.state = ErasureState::Running;
    }
    Ok(progress)
}
