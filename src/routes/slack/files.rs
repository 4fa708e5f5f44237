//! Files: a program asks for an address with its key, sends the file there, and then shares it in a message.

use axum::{
    Extension,
    extract::Request,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Answer, Call, Refusal, St,
    messages::{self, Sent},
};
use crate::{
    auth::{self, RateClass, Scope},
    chat::messages::{MessageMetadata, Text},
    db::Conn,
    files::{self, Bounds, File, FileError, UploadBytes},
    http::{
        ApiError, ErrorCode,
        bodies::{UploadPace, take},
    },
    ids::FileId,
    routes::files as routes,
    server::{UPLOADS_PATH, caller::Address, intake::Uploads},
    slack::{self, AnnouncedFile, SlackFault},
};

pub(super) async fn announce(call: &Call<'_>) -> Answer {
    let name = call
        .args
        .required("filename", SlackFault::InvalidArguments)?;
    let length = call.args.required("length", SlackFault::InvalidArguments)?;
    let size_bytes: u64 = length.parse().map_err(|_| SlackFault::InvalidArguments)?;
    if size_bytes > call.state.config.upload_bytes_max {
        return Err(SlackFault::FileTooLarge.into());
    }
    let key = call.caller.key().ok_or(SlackFault::InvalidAuth)?;
    let file = AnnouncedFile {
        id: FileId::new(),
        credential_id: key,
        name: files::clean_name(&name),
        size_bytes: i64::try_from(size_bytes).map_err(|_| SlackFault::FileTooLarge)?,
    };
    let (id, workspace) = (file.id, call.workspace);
    let token = call
        .write(async move |c: &mut Conn, caller: &auth::Caller| {
            caller
                .enter(c, workspace)
                .await?
                .require(Scope::ChatWrite)?;
            Ok::<_, auth::AuthError>(slack::announce_file(c, &file).await?)
        })
        .await?;
    let token = token.ok_or(SlackFault::RestrictedAction)?;
    let url = format!("{}{UPLOADS_PATH}{token}", call.state.public_url);
    Ok(json!({"upload_url": url, "file_id": slack::file_id(id)}))
}

/// Receives the announced file, as the body or as the first part of a form. The address works once, even if the upload fails.
pub(super) async fn receive(
    axum::extract::State(state): St,
    axum::extract::Path(token): axum::extract::Path<String>,
    Address(address): Address,
    Extension(UploadPace(pace_within)): Extension<UploadPace>,
    Extension(upload_bytes): Extension<UploadBytes>,
    Extension(Uploads(uploads)): Extension<Uploads>,
    request: Request,
) -> Result<Response, ApiError> {
    let mut c = state.db.read().await?;
    let Some(announced) = slack::find_announced(&mut c, &token).await? else {
        drop(c);
        state.limits.anonymous(address)?;
        return Err(FileError::NotFound.into());
    };
    let caller = auth::find_key_holder(&mut c, announced.credential_id).await?;
    drop(c);
    state.limits.act(&caller, RateClass::Uploading)?;
    let _upload = take(&uploads, caller.user, 1)?;
    let auth::Credential::Key { workspace, .. } = caller.credential else {
        return Err(FileError::NotFound.into());
    };
    state.disk.check().await?;
    let (id, entering) = (announced.id, caller.clone());
    let is_first = state
        .db
        .write(workspace.0, async move |c: &mut Conn| {
            let actor = entering.enter(c, workspace).await?;
            actor.require(Scope::ChatWrite)?;
            Ok::<_, ApiError>(slack::use_announced(c, id).await?)
        })
        .await?;
    if !is_first {
        return Err(FileError::NotFound.into());
    }
    let content_type = request
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    let size_bytes = u64::try_from(announced.size_bytes).unwrap_or(0);
    let bounds = Bounds {
        bytes_max: size_bytes,
        pace_within,
    };
    let permit = upload_bytes.permit(&state.db, caller.user, workspace);
    let body = request.into_body().into_data_stream();
    let name = &announced.name;
    let content_type = content_type.as_deref();
    let received =
        files::receive_named(&state.blobs, permit, content_type, name, body, bounds).await?;
    if received.size_bytes != size_bytes {
        let text = format!(
            "{size_bytes} bytes were announced, but {} were sent",
            received.size_bytes
        );
        return Err(FileError::Multipart(text).into());
    }
    routes::store(&state, caller, workspace, received, None, id).await?;
    Ok((StatusCode::OK, format!("OK - {size_bytes}")).into_response())
}

/// A file in the argument `files`.
#[derive(Deserialize)]
struct Listed {
    id: String,
}

fn listed(call: &Call<'_>) -> Result<Vec<FileId>, SlackFault> {
    let value = call.args.nested("files");
    let value = value.map_err(|_| SlackFault::InvalidArguments)?;
    let listed: Vec<Listed> = serde_json::from_value(value.unwrap_or_default())
        .map_err(|_| SlackFault::InvalidArguments)?;
    if listed.is_empty() || listed.len() > files::ATTACHMENTS_MAX {
        return Err(SlackFault::InvalidArguments);
    }
    let ids = listed.iter().map(|file| slack::parse_file(&file.id));
    ids.map(|id| id.ok_or(SlackFault::FileNotFound)).collect()
}

/// The channel to share files in; only one, because a file belongs to one message.
fn channel_text(call: &Call<'_>) -> Result<Option<String>, SlackFault> {
    let named = call.args.text("channel_id");
    let named = named.or_else(|| call.args.text("channels"));
    match named {
        Some(text) if text.contains(',') => Err(SlackFault::InvalidArguments),
        named => Ok(named),
    }
}

/// Shares files in a message. Without a channel, they stay with their uploader.
pub(super) async fn complete(call: &Call<'_>) -> Answer {
    let ids = listed(call)?;
    let Some(channel) = channel_text(call)? else {
        let mut shown = Vec::with_capacity(ids.len());
        for id in ids {
            let stored = routes::readable(call.state, &call.caller, id).await?;
            shown.push(File::from(stored));
        }
        return Ok(json!({"files": all(call, &shown)}));
    };
    let mut args = call.args.clone();
    let comment = args.text("initial_comment");
    let comment = comment.filter(|comment| !comment.trim().is_empty());
    let has_text = comment.is_some() || args.nested("blocks")?.is_some();
    args.set_text("text", comment);
    args.set_text("channel", Some(channel));
    args.set_text("client_msg_id", None);
    let call = &Call {
        caller: call.caller.clone(),
        args,
        ..*call
    };
    let channel = messages::target(call).await?;
    let mut c = call.state.db.read().await?;
    let thread = messages::thread_of_arg(&mut c, call, channel).await?;
    let sent = if has_text {
        let mut sent = messages::sent(c, call).await?;
        sent.text.files = ids;
        sent
    } else {
        drop(c);
        Sent {
            text: Text::with_files(String::new(), ids)?,
            metadata: MessageMetadata::default(),
        }
    };
    let posted = messages::publish(call, channel, thread, sent).await?;
    Ok(json!({"files": all(call, &posted.message.attachments)}))
}

fn all(call: &Call<'_>, files: &[File]) -> Vec<Value> {
    let base = &call.state.public_url;
    files.iter().map(|file| slack::file(file, base)).collect()
}

fn file_arg(call: &Call<'_>) -> Result<FileId, Refusal> {
    let text = call.args.required("file", SlackFault::FileNotFound)?;
    Ok(slack::parse_file(&text).ok_or(SlackFault::FileNotFound)?)
}

pub(super) async fn info(call: &Call<'_>) -> Answer {
    let stored = routes::readable(call.state, &call.caller, file_arg(call)?).await?;
    Ok(json!({"file": slack::file(&stored.into(), &call.state.public_url)}))
}

/// Deletes an upload that is not shared. A shared file is deleted with its message.
pub(super) async fn delete(call: &Call<'_>) -> Answer {
    let deleted = routes::delete_own(call.state, call.caller.clone(), file_arg(call)?).await;
    match deleted {
        Ok(_) => Ok(json!({})),
        Err(error) if matches!(error.code(), ErrorCode::InUse | ErrorCode::NotYours) => {
            Err(SlackFault::CantDeleteFile.into())
        }
        Err(error) => Err(Refusal::Api(error)),
    }
}
