//! Command-line interface.

mod agents;
mod backup;
mod blobs;
mod database;
mod demo;
mod nodes;
mod output;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rustix::fs::Mode;

use self::{
    agents::AgentsCommand,
    backup::{BackupCommand, RestoreCommand},
    blobs::BlobsCommand,
    database::{index_messages, open},
};
use crate::{
    agents::seeds,
    app::App,
    auth::{self, Hasher, KeysAfterReset},
    cli::output::{say, say_error},
    config::{Config, LogFormat},
    db::{DatabaseUrl, epoch},
    lock, router,
    telemetry::logs::{self, Shape},
};

/// Team chat in which AI agents are teammates.
#[derive(Parser)]
#[command(name = "openvibe", version)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// HOST:PORT to listen on; port 0 picks a free one
    #[arg(long, global = true)]
    listen: Option<String>,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server (the default)
    Serve,
    /// Run a demo server with a sample workspace
    Demo,
    /// Update the database schema and exit
    Migrate,
    /// Back up all data to one file, while the server runs
    Backup(BackupCommand),
    /// Restore a backup into an empty data directory or database
    Restore(RestoreCommand),
    /// List the nodes, which are the servers that share the database
    Nodes,
    /// Manage uploads on the server's machine, while the server runs
    Blobs {
        #[command(subcommand)]
        command: BlobsCommand,
    },
    /// Print the `OpenAPI` document
    Openapi,
    /// Manage the epoch of the database
    Epoch {
        #[command(subcommand)]
        command: EpochCommand,
    },
    /// Import an agent from files, or export it to files
    Agents {
        #[command(subcommand)]
        command: AgentsCommand,
    },
    /// Manage accounts on the server's machine
    User {
        #[command(subcommand)]
        command: UserCommand,
    },
}

#[derive(Subcommand)]
enum EpochCommand {
    /// Start a new epoch after the database was reset to an earlier state, for example from a file-system snapshot, so that clients
    /// load everything again
    New,
}

#[derive(Subcommand)]
enum UserCommand {
    /// Create an account, regardless of the sign-up setting
    Create {
        #[arg(long)]
        email: String,
        #[arg(long)]
        name: String,
        /// Generated and printed if omitted
        #[arg(long)]
        password: Option<String>,
    },
    /// Set a new password; ends all sessions of the account and revokes its API keys
    ResetPassword {
        #[arg(long)]
        email: String,
        /// Generated and printed if omitted
        #[arg(long)]
        password: Option<String>,
        /// Keep the account's API keys
        #[arg(long)]
        keep_keys: bool,
    },
}

/// Runs the command line.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Everything that this program creates is accessible only to its owner: 0600 and 0700.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            say_error(&format!("openvibe: {e:#}"));
            ExitCode::FAILURE
        }
    }
}

fn start_logging(config: &Config) {
    let shape = match config.log_format {
        LogFormat::Text => Shape::Text,
        LogFormat::Json => Shape::Json,
    };
    logs::start(&config.log, shape);
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    match arguments.command.unwrap_or(Command::Serve) {
        Command::Openapi => {
            say(&router::document().to_pretty_json()?);
            Ok(())
        }
        // Connects to a running server, whose settings may differ from this environment.
        Command::Agents { command } => runtime()?.block_on(agents::run(command)),
        Command::Serve => with_config(arguments.listen, serve),
        Command::Demo => with_config(arguments.listen, demo::run),
        Command::Migrate => with_config(arguments.listen, migrate),
        Command::Backup(command) => with_config(arguments.listen, async |config| {
            backup::backup(config, command).await
        }),
        Command::Epoch {
            command: EpochCommand::New,
        } => with_config(arguments.listen, start_epoch),
        Command::Restore(command) => with_config(arguments.listen, async |config| {
            backup::restore(config, command).await
        }),
        Command::Nodes => with_config(arguments.listen, nodes::list),
        Command::Blobs { command } => with_config(arguments.listen, async |config| {
            let db = open(&config).await?;
            let done = blobs::run(&config, &db, command).await;
            db.close().await;
            done
        }),
        Command::User { command } => with_config(arguments.listen, async |config| {
            user(&config, command).await
        }),
    }
}

/// Stack size of threads: twice the default, because a reply that calls tools needs almost all of the default in unoptimized builds.
const STACK_BYTES: usize = 4 * 1024 * 1024;

/// Number of runtime threads in addition to one per processor. They accept connections and send responses while handlers keep the
/// other threads busy.
const WORKERS_EXTRA: usize = 2;

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Ok(tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores + WORKERS_EXTRA)
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()?)
}

fn with_config(
    listen: Option<String>,
    act: impl AsyncFnOnce(Config) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let config = Config::load(listen)?;
    start_logging(&config);
    runtime()?.block_on(act(config))
}

async fn migrate(config: Config) -> anyhow::Result<()> {
    let db = open(&config).await?;
    index_messages(&db).await?;
    db.close().await;
    say("the database is up to date");
    Ok(())
}

async fn start_epoch(config: Config) -> anyhow::Result<()> {
    // On SQLite, the server must be stopped, because it would not detect the new epoch; servers on PostgreSQL detect it.
    let _locks = match &config.database {
        DatabaseUrl::Sqlite(path) => Some((
            lock::lock_directory(&config.data_dir)?,
            lock::lock_database_file(path)?,
        )),
        DatabaseUrl::Postgres(_) => None,
    };
    let db = open(&config).await?;
    let old = epoch::read(&db).await?.id;
    let new = epoch::renew(&db, &old).await?.id;
    db.close().await;
    say(&format!("started epoch {new} after {old}"));
    Ok(())
}

/// Raises the limit on open files. Each connection is an open file, and shells and services start processes with a low limit, which a
/// process can raise itself.
fn allow_open_files(config: &Config) {
    let wanted = config.sockets_max + config.connections_max;
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(allowed) if allowed < wanted as u64 => tracing::info!(
            "the system allows only {allowed} open files; OPENVIBE_SOCKETS_MAX and \
             OPENVIBE_CONNECTIONS_MAX require {wanted}"
        ),
        Ok(_) => {}
        Err(e) => tracing::warn!(error = %e, "could not raise the limit for open files"),
    }
}

async fn serve(config: Config) -> anyhow::Result<()> {
    allow_open_files(&config);
    let app = App::build(config).await?;
    // The signal handlers are installed before anyone can see that the server is running and try to stop it.
    let stop = stop_signal()?;
    if let Some(link) = app.setup_link().await? {
        say(&format!("setup link: {link}"));
    }
    announce(&app, say);
    app.run(stop).await
}

/// Prints the addresses of the server.
fn announce(app: &App, mut say: impl FnMut(&str)) {
    let bound = format!("http://{}", app.address());
    say(&format!("listening on {bound}"));
    if app.public_url() != bound {
        say(&format!("open {}", app.public_url()));
    }
}

/// Makes SIGTERM and SIGINT complete the returned future instead of ending the process.
fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

async fn user(config: &Config, command: UserCommand) -> anyhow::Result<()> {
    let db = open(config).await?;
    let hasher = Hasher::new(config.password_cost.clone());
    let given = |password: Option<String>| {
        let made = password.is_none();
        (password.unwrap_or_else(auth::new_token), made)
    };
    match command {
        UserCommand::Create {
            email,
            name,
            password,
        } => {
            let (password, made) = given(password);
            seeds::check_person(&mut db.read().await?, &name).await?;
            let user = auth::create_account(&db, &hasher, &email, &name, password.clone()).await?;
            say(&format!("created the account of {}", user.email));
            if made {
                say(&format!("password: {password}"));
            }
        }
        UserCommand::ResetPassword {
            email,
            password,
            keep_keys,
        } => {
            let (password, made) = given(password);
            let (keys, said) = if keep_keys {
                (KeysAfterReset::Kept, "its API keys still work")
            } else {
                (KeysAfterReset::Revoked, "its API keys have been revoked")
            };
            auth::reset_password(&db, &hasher, &email, password.clone(), keys).await?;
            say(&format!(
                "the password has been set; all sessions of the account have ended, and {said}"
            ));
            if made {
                say(&format!("password: {password}"));
            }
        }
    }
    db.close().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_has_two_threads_more_than_processors() {
        let cores = std::thread::available_parallelism().unwrap().get();
        let runtime = runtime().unwrap();
        assert_eq!(runtime.metrics().num_workers(), cores + 2);
    }
}
