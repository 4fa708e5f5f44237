//! The state of the server, and choices of its admins.

use std::collections::BTreeMap;

use axum::Json;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;

use super::{certificate::ServerCertificate, mail::ServerMail};
use crate::{
    auth::{AuditAction, AuthError, Scope, WorkspaceCaller, record_audit},
    config::Config,
    db::{Conn, Engine},
    disk::free_bytes,
    doctor::{Check, stored::StoredChecks},
    http::{ApiError, extract::Body, routing::routes},
    release::{self, InstallKind},
    routes::require_operator,
    server::State,
    tasks::asleep::{self, AgentsState},
    telemetry,
    text_enum::{constant, text_enum},
    time::Timestamp,
    upkeep::{
        BackupState, DrillResult, LastBackup, backups,
        choices::{ChoiceChanges, Choices, PasswordSignIn},
        disk_trend,
        updates::{self, UpdateSearch},
    },
};

type St = axum::extract::State<State>;

pub(super) fn router() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(get_server, update_server))
}

constant! { ServerObject = "server" }

#[derive(Serialize, utoipa::ToSchema)]
struct ServerDatabase {
    #[schema(inline)]
    engine: EngineName,
    bytes: u64,
}

text_enum! {
    enum EngineName {
        Sqlite = "sqlite",
        Postgresql = "postgresql",
    }
}

#[derive(Serialize, utoipa::ToSchema)]
struct ServerDisk {
    /// Free space of the disk with the data directory; null if it cannot be measured.
    free_bytes: Option<u64>,
    /// Days until it is full if it keeps filling as it did in the last week; null if it does not, or if that is not known yet.
    days_left: Option<u64>,
    /// True if uploads and changes to agents are refused, because too little space is free.
    uploads_paused: bool,
}

/// The newest backup.
#[derive(Serialize, utoipa::ToSchema)]
struct NewestBackup {
    #[serde(flatten)]
    backup: LastBackup,
    /// Time at which a backup, which can be an older one, was last restored without a fault; null if the newest test found one, or
    /// was left out.
    drill_at: Option<Timestamp>,
}

/// Backups on a schedule.
#[derive(Serialize, utoipa::ToSchema)]
struct ServerBackups {
    /// Directory or bucket; null if none is configured.
    to: Option<String>,
    last: Option<NewestBackup>,
    /// Newest test of a backup.
    drill: Option<DrillResult>,
    next_at: Option<Timestamp>,
    running: bool,
    /// Cause of the newest failure, until a backup succeeds.
    error: Option<String>,
    /// True if an admin has confirmed that there is a copy of the secret key, which backups do not contain.
    key_copied: bool,
}

/// Search for new versions.
#[derive(Serialize, utoipa::ToSchema)]
struct ServerUpdate {
    /// True if an admin permits that the server looks for new versions once a day.
    enabled: bool,
    /// Newest version, which can be the running one; null if it is not known.
    latest: Option<String>,
    /// True if the newest version closes a security hole.
    security: bool,
    /// Address with the changes of the newest version.
    notes_url: Option<String>,
    /// Cause of the latest failure to look.
    error: Option<String>,
}

impl ServerUpdate {
    fn of(config: &Config, choices: Choices, search: Option<UpdateSearch>) -> Self {
        let search = search.filter(|_| choices.look_for_updates);
        let latest = search.as_ref().and_then(|search| search.latest);
        let address = release::address(config.releases.as_deref());
        let url = address.filter(|address| latest.is_some() && address.starts_with("http"));
        Self {
            enabled: choices.look_for_updates,
            latest: latest.map(|latest| latest.to_string()),
            security: search.as_ref().is_some_and(|search| search.security),
            notes_url: url.map(|url| format!("{}/latest.json", url.trim_end_matches('/'))),
            error: search.and_then(|search| search.error),
        }
    }
}

/// State of the server.
#[derive(Serialize, utoipa::ToSchema)]
struct ServerInfo {
    object: ServerObject,
    version: String,
    /// Commit from which a release was built.
    commit: Option<String>,
    #[schema(inline)]
    installed: InstallKind,
    started_at: Timestamp,
    database: ServerDatabase,
    disk: ServerDisk,
    certificate: ServerCertificate,
    backups: ServerBackups,
    update: ServerUpdate,
    mail: ServerMail,
    /// Results of the latest checks; null before the first ones.
    checks: Option<Vec<Check>>,
    checked_at: Option<Timestamp>,
    #[schema(inline)]
    agents_state: AgentsState,
    /// People who can sign in with a password.
    password_sign_in: PasswordSignIn,
}

/// Get the state of the server
///
/// Only admins of the oldest workspace, which belongs to the operator, can use this route. Everyone else gets 404.
#[utoipa::path(get, path = "/v1/server", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    responses((status = 200, body = ServerInfo)))]
async fn get_server(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
) -> Result<Json<ServerInfo>, ApiError> {
    let mut c = state.db.read().await?;
    require_operator(&mut c, &caller).await?;
    read(&state, c).await.map(Json)
}

async fn read(state: &State, mut c: Conn) -> Result<ServerInfo, ApiError> {
    let stored = BackupState::read(&mut c).await?;
    let is_asleep = asleep::is_asleep(&mut c).await?;
    let choices = Choices::read(&mut c).await?;
    let checked = StoredChecks::read(&mut c).await?;
    let samples = disk_trend::read(&mut c).await?;
    let search = UpdateSearch::read(&mut c).await?;
    let mail = ServerMail::read(state, &mut c).await?;
    drop(c);
    let drill = stored.drill.as_ref();
    let drill_at = drill.filter(|drill| drill.is_good()).map(|drill| drill.at);
    let free = free_bytes(&state.config.data_dir).ok();
    let (config, started_at) = (&state.config, telemetry::process::started_at());
    Ok(ServerInfo {
        object: ServerObject,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: telemetry::COMMIT.map(str::to_owned),
        installed: InstallKind::of_this_program(),
        started_at,
        password_sign_in: choices.password_sign_in,
        database: ServerDatabase {
            engine: match state.db.engine() {
                Engine::Sqlite => EngineName::Sqlite,
                Engine::Postgres => EngineName::Postgresql,
            },
            bytes: state.db.size_bytes().await?,
        },
        disk: ServerDisk {
            free_bytes: free,
            days_left: free
                .and_then(|free| disk_trend::days_left(&samples, free, Timestamp::now())),
            uploads_paused: state.disk.check().await.is_err(),
        },
        certificate: ServerCertificate::of(state),
        update: ServerUpdate::of(config, choices, search),
        mail,
        checked_at: checked.as_ref().map(|checked| checked.at),
        checks: checked.map(|checked| checked.checks),
        backups: ServerBackups {
            to: config.backup_to.as_ref().map(ToString::to_string),
            next_at: backups::next_at(config, &stored, started_at),
            running: stored.is_running(Timestamp::now()),
            last: stored.last.map(|backup| NewestBackup { backup, drill_at }),
            drill: stored.drill,
            error: stored.error,
            key_copied: choices.key_copied,
        },
        agents_state: if config.is_quiet {
            AgentsState::Quiet
        } else if is_asleep {
            AgentsState::Asleep
        } else {
            AgentsState::Running
        },
    })
}

/// Changes to the choices of the server's admins. Omitted fields are unchanged.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ServerForm {
    /// Permits that the server looks for new versions once a day.
    look_for_updates: Option<bool>,
    /// Confirms that there is a copy of the secret key, which backups do not contain.
    key_copied: Option<bool>,
    /// Determines who can sign in with a password. Needs a session in which the person signed in, or confirmed that it is them, within
    /// the last 10 minutes.
    password_sign_in: Option<PasswordSignIn>,
}

/// Change settings of the server
///
/// Only admins of the oldest workspace can use this route. Everyone else gets 404.
#[utoipa::path(patch, path = "/v1/server", tag = "admin",
    security(("session" = ["admin"]), ("key" = ["workspace:admin"])),
    request_body(content = ServerForm, example = json!({"key_copied": true})),
    responses((status = 200, body = ServerInfo)))]
async fn update_server(
    axum::extract::State(state): St,
    caller: WorkspaceCaller,
    Body(form): Body<ServerForm>,
) -> Result<Json<ServerInfo>, ApiError> {
    let mut c = state.db.read().await?;
    require_operator(&mut c, &caller).await?;
    drop(c);
    let changes = ChoiceChanges {
        look_for_updates: form.look_for_updates,
        key_copied: form.key_copied,
        password_sign_in: form.password_sign_in,
    };
    let changed = [
        ("look_for_updates", form.look_for_updates.map(Value::from)),
        ("key_copied", form.key_copied.map(Value::from)),
        (
            "password_sign_in",
            form.password_sign_in.map(|people| people.as_str().into()),
        ),
    ];
    let data: BTreeMap<&str, Value> = changed
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
    if !data.is_empty() {
        let person = caller.caller.clone();
        caller
            .write(&state.db, async move |c: &mut Conn, actor| {
                actor.require(Scope::WorkspaceAdmin)?;
                if changes.password_sign_in.is_some() {
                    person.require_confirmed(c).await?;
                }
                Choices::change(c, changes).await?;
                let action = AuditAction::ServerUpdated;
                record_audit(c, actor, action, String::new(), json!(data)).await?;
                Ok::<_, AuthError>(())
            })
            .await?;
    }
    if form.look_for_updates == Some(true) {
        let looking = state.clone();
        state.tracker.spawn(async move {
            if let Err(e) = updates::look(&looking).await {
                tracing::warn!(error = %e, "the search for a new version could not be recorded");
            }
        });
    }
    read(&state, state.db.read().await?).await.map(Json)
}
