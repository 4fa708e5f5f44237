//! `openvibe doctor`.

use std::{net::SocketAddr, path::Path, sync::Arc};

use clap::Args;
use serde_json::json;

use super::{addresses, database::open_existing, outgoing, output::say};
use crate::{
    app::default_url,
    config::Config,
    db::{
        Db,
        dump::{self, Dump},
    },
    doctor::{self, Check, CheckState, CheckedServer, Finding, Program},
    lock,
    tls::{acme, store::Failure},
};

#[derive(Args)]
pub(super) struct DoctorCommand {
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

/// Checks that failed.
#[derive(Debug, thiserror::Error)]
#[error("{0} of the checks failed")]
struct ChecksFailed(usize);

/// Prints the results of checks.
///
/// # Errors
/// `ChecksFailed`.
fn print(checks: &[Check], command: &DoctorCommand) -> anyhow::Result<()> {
    if command.json {
        say(&json!({ "data": checks }).to_string());
    } else {
        for check in checks {
            say(&check.to_string());
        }
    }
    let failed = checks
        .iter()
        .filter(|check| check.state == CheckState::Failed);
    match failed.count() {
        0 => Ok(()),
        failed => Err(ChecksFailed(failed).into()),
    }
}

/// Prints that the settings cannot be read.
pub(super) fn report_settings(problem: &str, command: &DoctorCommand) -> anyhow::Result<()> {
    print(&doctor::without_settings(problem), command)
}

/// Checks the server with these settings, whether it runs or not.
pub(super) async fn run(config: Config, command: DoctorCommand) -> anyhow::Result<()> {
    // Fails only if a provider was already installed in this process.
    drop(rustls::crypto::ring::default_provider().install_default());
    if let Err(e) = outgoing::prepare(&config) {
        return report_settings(&e.to_string(), &command);
    }
    let program = program(&config.data_dir);
    let database = match program {
        Program::Stopped => Err(Finding::skipped("the server is not running")),
        Program::This(_) | Program::Other(_) => open_unchanged(&config).await,
    };
    let certificate_failure = match &database {
        Ok(db) => order_failure(&config, db).await,
        Err(_) => None,
    };
    let address = addresses::listen_address(&config.listen).await.ok();
    let subject = Arc::new(CheckedServer {
        public_url: public_url(&config, address),
        address,
        program,
        database,
        certificate_failure,
        model: None,
        config,
    });
    let checks = doctor::run(Arc::clone(&subject)).await;
    if let Ok(db) = &subject.database {
        db.close().await;
    }
    print(&checks, &command)
}

/// Newest failure of the running server to order its certificate.
async fn order_failure(config: &Config, db: &Db) -> Option<Failure> {
    let tls = config.tls.as_ref().filter(|tls| tls.is_ordered())?;
    let mut c = db.read().await.ok()?;
    acme::find_failure(&mut c, &tls.names).await.ok()?
}

fn program(data_dir: &Path) -> Program {
    match lock::owner_of(data_dir) {
        Some(pid) => Program::Other(pid.parse().ok()),
        None => Program::Stopped,
    }
}

/// The public URL, as the server determines it.
fn public_url(config: &Config, address: Option<SocketAddr>) -> String {
    let Some(address) = address else {
        let url = config.public_url.clone();
        return url.unwrap_or_else(|| format!("http://{}", config.listen));
    };
    addresses::public_url(config, address).unwrap_or_else(|| default_url(address))
}

/// Opens the database of a running server, unless that would change its tables.
async fn open_unchanged(config: &Config) -> Result<Db, Finding> {
    let version = async { Dump::open(&config.database).await?.version().await };
    let failed = |text: String| {
        Finding::failed(
            format!("the database cannot be opened ({text})"),
            "check OPENVIBE_DATABASE_URL, and run this as the server's user",
        )
    };
    let version = version.await.map_err(|e| failed(e.to_string()))?;
    if version != dump::newest_version() {
        return Err(Finding::failed(
            "the tables of the database belong to another version than this program",
            "use the program of the running server, or start the server again with this one",
        ));
    }
    let opened = open_existing(config).await;
    opened.map_err(|e| failed(format!("{e:#}")))
}
