//! Command-line interface.

mod addresses;
mod agents;
mod backup;
mod blobs;
mod compact;
mod database;
mod demo;
mod doctor;
mod export;
mod files;
mod import;
mod install;
mod licenses;
mod nodes;
mod outgoing;
mod output;
mod owner;
mod post;
mod process;
mod providers;
mod runner;
mod setup;
mod update;
mod users;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand};
use rustix::fs::Mode;
use tokio_util::sync::CancellationToken;

use self::{
    addresses::bases_of,
    agents::AgentsCommand,
    backup::{BackupCommand, Incomplete, RestoreCommand},
    blobs::BlobsCommand,
    database::{index_messages, open, open_existing},
    doctor::DoctorCommand,
    export::ExportCommand,
    files::FilesCommand,
    import::{HAS_PROBLEMS, HasProblems, ImportCommand},
    install::{InstallCommand, UninstallCommand},
    post::{MISUSED, Misused, PostCommand, UNREACHABLE, Unreachable},
    process::{runtime, stop_signal},
    providers::ProviderCommand,
    runner::{EmbeddedRunner, RunnerCommand},
    update::UpdateCommand,
    users::UserCommand,
};
use crate::{
    app::{App, back_up_before_migration},
    cli::output::{say, say_as, say_error},
    config::{Config, Flags, LogFormat},
    db::{DatabaseUrl, epoch},
    doctor::model_problem,
    lock, router,
    server::setup::setup_link,
    telemetry::logs::{self, Shape},
};

/// Team chat in which AI agents are teammates.
#[derive(Parser)]
#[command(
    name = "openvibe",
    version,
    after_help = "Settings: OPENVIBE_CONFIG, or openvibe.toml in this directory or /etc/openvibe; OPENVIBE_* variables override them. \
                  docs/operations.md and .env.sample list them."
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeOptions,
    /// File with variables, in the form of systemd's `EnvironmentFile=`; the environment overrides them
    #[arg(long, global = true, value_name = "FILE")]
    env_file: Option<PathBuf>,
}

#[derive(Args, Default)]
struct ServeOptions {
    /// HOST:PORT to listen on; port 0 picks a free one
    #[arg(long)]
    listen: Option<String>,
    /// Names of the server for HTTPS, separated by commas; the first is the public one
    #[arg(long, value_name = "NAME[,NAME]")]
    domain: Option<String>,
    #[command(flatten)]
    update: UpdateOptions,
}

#[derive(Args, Default)]
struct UpdateOptions {
    /// Change the tables of an older version without a backup
    #[arg(long)]
    no_backup: bool,
}

#[derive(Args)]
struct MigrateOptions {
    #[command(flatten)]
    update: UpdateOptions,
    /// Print whether the tables will be changed, and change nothing
    #[arg(long)]
    check: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server (the default)
    Serve(ServeOptions),
    /// Run a demo server with a sample workspace
    Demo(ServeOptions),
    /// Update the database schema and exit
    Migrate(MigrateOptions),
    /// Install a newer version of this program
    Update(UpdateCommand),
    /// Install this program as a service of systemd, or repair its installation
    Install(InstallCommand),
    /// Remove the service and this program
    Uninstall(UninstallCommand),
    /// Back up all data to one file, while the server runs
    Backup(BackupCommand),
    /// Restore a backup into an empty data directory or database
    Restore(RestoreCommand),
    /// Start schedules and interrupted tasks of a restored copy, while the server runs or before it starts
    Resume,
    /// Print the link that creates the first account, until it is used
    SetupLink,
    /// Check the server and its surroundings, and print what is wrong and what to do; ends with status 1 if a check fails
    Doctor(DoctorCommand),
    /// List the nodes, which are the servers that share the database
    Nodes,
    /// Manage uploads on the server's machine, while the server runs
    Blobs {
        #[command(subcommand)]
        command: BlobsCommand,
    },
    /// Print the `OpenAPI` document
    Openapi,
    /// Read a file from the standard input and print its text as JSON lines; the server runs this for each upload
    #[command(hide = true)]
    Extract {
        /// End of the file's name, such as `md`
        #[arg(default_value = "")]
        ending: String,
    },
    /// Offer repositories of this machine to a server, whose agents then work on them in a sandbox
    Runner(RunnerCommand),
    /// Run the built-in coding agent, which speaks the Agent Client Protocol on the standard streams; a runner starts it
    Acp,
    /// Print the licenses of this program and of everything in it
    Licenses,
    /// Return the disk space of deleted data to the system, while the server is stopped
    Compact,
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
    /// Post a message, such as the output of a script, through a webhook or with an API key; ends with status 1 if the server rejects
    /// it, and 75 if the server does not answer for 30 seconds
    Post(PostCommand),
    /// Send files of a directory to a running server
    Files {
        #[command(subcommand)]
        command: FilesCommand,
    },
    /// Import an archive of another product into a running server; ends with status 3 if there were problems
    Import(ImportCommand),
    /// Export a whole workspace, with its private channels, to a file on the server's machine; works while the server runs
    Export(ExportCommand),
    /// Manage accounts on the server's machine
    User {
        #[command(subcommand)]
        command: UserCommand,
    },
    /// List identity providers, or turn one off
    IdentityProvider {
        #[command(subcommand)]
        command: ProviderCommand,
    },
}

#[derive(Subcommand)]
enum EpochCommand {
    /// Start a new epoch after the database was reset to an earlier state, for example from a file-system snapshot, so that clients
    /// load everything again
    New,
}

/// Exit status of a backup that lacks uploads.
const INCOMPLETE: u8 = 3;

/// Runs the command line.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // These run inside of a sandbox, where the usual permissions apply.
    match &arguments.command {
        Some(Command::Acp) => return runner::agent(),
        Some(Command::Runner(command)) => {
            if let Some(status) = command.inside() {
                return status;
            }
        }
        _ => {}
    }
    // Everything that this program creates is accessible only to its owner: 0600 and 0700.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    if let Some(Command::Extract { ending }) = &arguments.command {
        return openvibe_documents::run(ending);
    }
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            say_error(&format!("openvibe: {e:#}"));
            if e.is::<Incomplete>() {
                ExitCode::from(INCOMPLETE)
            } else if e.is::<HasProblems>() {
                ExitCode::from(HAS_PROBLEMS)
            } else if e.is::<Misused>() {
                ExitCode::from(MISUSED)
            } else if e.is::<Unreachable>() {
                ExitCode::from(UNREACHABLE)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

fn start_logging(config: &Config) {
    let shape = match config.log_format {
        LogFormat::Text => Shape::Text,
        LogFormat::Json => Shape::Json,
    };
    logs::start(&config.log, shape);
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    let Arguments {
        command,
        serve: options,
        env_file,
    } = arguments;
    for (option, value) in [("--listen", &options.listen), ("--domain", &options.domain)] {
        if let (Some(_), Some(value)) = (&command, value) {
            anyhow::bail!("{option} {value} belongs after the command: `serve` and `demo` have it");
        }
    }
    let flags = |options: ServeOptions| Flags {
        listen: options.listen,
        domain: options.domain,
        env_file: env_file.clone(),
        no_backup: options.update.no_backup,
    };
    let others = flags(ServeOptions::default());
    match command.unwrap_or(Command::Serve(options)) {
        Command::Openapi => {
            say(&router::document().to_pretty_json()?);
            Ok(())
        }
        // `main` runs them.
        Command::Extract { .. } | Command::Acp => Ok(()),
        Command::Licenses => licenses::print(),
        // Connects to a running server, whose settings may differ from this environment.
        Command::Agents { command } => runtime()?.block_on(agents::run(command)),
        Command::Post(command) => runtime()?.block_on(post::run(command)),
        Command::Files { command } => runtime()?.block_on(files::run(command)),
        Command::Import(command) => runtime()?.block_on(import::run(command)),
        // Has settings of its own.
        Command::Runner(command) => runner::run(command),
        Command::Serve(options) => with_config(flags(options), serve),
        Command::Demo(options) => with_config(flags(options), demo::run),
        Command::Migrate(MigrateOptions { check: true, .. }) => {
            with_config(others, update::check_tables)
        }
        Command::Migrate(MigrateOptions { update, .. }) => {
            let options = ServeOptions {
                update,
                ..ServeOptions::default()
            };
            with_config(flags(options), migrate)
        }
        // These run as root, which can replace the program.
        Command::Update(command) => runtime()?.block_on(update::run(others, command)),
        Command::Install(command) => runtime()?.block_on(install::install(&command)),
        Command::Uninstall(command) => install::uninstall(&command),
        Command::Backup(command) => {
            with_config(others, async |config| backup::backup(config, command).await)
        }
        Command::Epoch {
            command: EpochCommand::New,
        } => with_config(others, start_epoch),
        Command::Restore(command) => with_config(others, async |config| {
            backup::restore(config, command).await
        }),
        Command::Resume => with_config(others, backup::resume),
        Command::Compact => with_config(others, async |config| compact::run(&config)),
        Command::SetupLink => with_config(others, setup::link),
        Command::Doctor(command) => check(others, command),
        Command::Nodes => with_config(others, nodes::list),
        Command::Blobs { command } => with_config(others, async |config| {
            let db = open_existing(&config).await?;
            let done = blobs::run(&config, &db, command).await;
            db.close().await;
            done
        }),
        Command::Export(command) => {
            with_config(others, async |config| export::run(config, command).await)
        }
        Command::User { command } => {
            with_config(others, async |config| users::run(config, command).await)
        }
        Command::IdentityProvider { command } => {
            with_config(others, async |config| providers::run(config, command).await)
        }
    }
}

fn with_config(
    flags: Flags,
    act: impl AsyncFnOnce(Config) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let env_file = flags.env_file.clone();
    let config = Config::load(flags)?;
    owner::become_owner(&config, env_file.as_deref())?;
    start_logging(&config);
    outgoing::prepare(&config)?;
    runtime()?.block_on(act(config))
}

/// Runs the checks, also if the settings cannot be read. Their warnings are results, not lines of the log.
fn check(flags: Flags, command: DoctorCommand) -> anyhow::Result<()> {
    let env_file = flags.env_file.clone();
    let config = match Config::load(flags) {
        Ok(config) => config,
        Err(e) => return doctor::report_settings(&e.to_string(), &command),
    };
    owner::become_owner(&config, env_file.as_deref())?;
    runtime()?.block_on(doctor::run(config, command))
}

async fn migrate(config: Config) -> anyhow::Result<()> {
    back_up_before_migration(&config).await?;
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
    let db = open_existing(&config).await?;
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
        Ok(allowed) if allowed < wanted as u64 => tracing::warn!(
            "the system allows only {allowed} open files; OPENVIBE_SOCKETS_MAX and \
             OPENVIBE_CONNECTIONS_MAX require {wanted}"
        ),
        Ok(_) => {}
        Err(e) => tracing::warn!(error = %e, "could not raise the limit for open files"),
    }
}

async fn serve(config: Config) -> anyhow::Result<()> {
    allow_open_files(&config);
    let format = config.log_format;
    let say = |line: &str| say_as(format, line);
    let embedded = EmbeddedRunner::of(&config);
    let settings = config.clone();
    let app = App::build(config).await?;
    tracing::info!("{}", app.summary());
    // The signal handlers are installed before anyone can see that the server is running and try to stop it.
    let stop = stop_signal()?;
    if let Some(token) = app.setup_token().await? {
        for base in bases_of(&app) {
            say(&format!("setup link: {}", setup_link(&base, &token)));
        }
    }
    if let Some(address) = app.metrics_address() {
        say(&format!("metrics at http://{address}/metrics"));
    }
    announce(&app, say);
    let stopping = CancellationToken::new();
    let serving = async {
        let stop = {
            let stopping = stopping.clone();
            async move {
                stop.await;
                stopping.cancel();
            }
        };
        let served = app.run(stop).await;
        // The server can also end by itself.
        stopping.cancel();
        served
    };
    let running = async {
        if let Some(runner) = &embedded {
            runner.keep(&stopping).await;
        }
    };
    let looking = async {
        if let Some(problem) = model_problem(&settings).await {
            tracing::warn!("{problem}");
        }
    };
    let looking = stopping.run_until_cancelled(looking);
    let (served, (), _) = tokio::join!(serving, running, looking);
    served
}

/// Prints the addresses of the server.
fn announce(app: &App, mut say: impl FnMut(&str)) {
    let bound = format!("{}://{}", app.scheme(), app.address());
    say(&format!("listening on {bound}"));
    for base in bases_of(app).iter().filter(|base| **base != bound) {
        say(&format!("open {base}"));
    }
}
