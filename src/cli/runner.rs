//! `openvibe runner`, and the runner that the server starts (`OPENVIBE_RUNNER`).

use std::{
    io,
    path::{Path, PathBuf},
    process::{ExitCode, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use anyhow::bail;
use clap::{Args, Subcommand};
use openvibe_runner::{Config as RunnerConfig, KEY_VARIABLE, RunnerError, SandboxKind};
use tokio::{
    process::Command,
    sync::oneshot,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    output::say,
    process::{runtime, stop_signal},
};
use crate::{
    config::{Config, LogFormat},
    environment::PREFIX,
    telemetry::logs::{self, Shape},
};

/// Settings of a runner if no other file is named.
const FILE: &str = "runner.toml";
const NEEDS_SANDBOX: &str = "an embedded runner needs sandbox = \"bubblewrap\"";
/// Time in which the runner of a server that was killed ends.
const PREDECESSOR_MAX: Duration = Duration::from_secs(30);
/// Time in which a runner has to stop with its server.
const STOP_WITHIN: Duration = Duration::from_secs(8);
/// Pause before a runner that was killed starts again.
const RESTART_AFTER: Duration = Duration::from_secs(5);

#[derive(Args)]
pub(super) struct RunnerCommand {
    #[command(subcommand)]
    command: Option<RunnerSubcommand>,
    #[command(flatten)]
    options: RunnerOptions,
}

#[derive(Subcommand)]
enum RunnerSubcommand {
    /// Try the sandbox, git, the disk, each repository, and each engine, and print what to do; ends with status 1 if a check fails
    Check,
    /// Run a command within limits; a runner starts this inside of its sandbox
    #[command(hide = true)]
    Inside {
        /// Limits as JSON
        limits: String,
        #[arg(last = true)]
        command: Vec<String>,
    },
}

#[derive(Args)]
struct RunnerOptions {
    /// Address of the server; with `--repository`, no file is needed
    #[arg(long, global = true, value_name = "URL")]
    server: Option<String>,
    /// Key of the runner, from Settings › Tools
    #[arg(long, global = true, env = KEY_VARIABLE, hide_env_values = true)]
    key: Option<String>,
    /// Repository to offer, with `--server`; can be repeated
    #[arg(long = "repository", global = true, value_name = "NAME=PATH_OR_URL")]
    repositories: Vec<String>,
    /// File with the runner's settings (docs/operations.md) [default: runner.toml]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// End with the standard input, as the runner of a server does
    #[arg(long, hide = true)]
    embedded: bool,
}

impl RunnerCommand {
    /// Runs `runner inside`; `None` for other commands.
    pub(super) fn inside(&self) -> Option<ExitCode> {
        match &self.command {
            Some(RunnerSubcommand::Inside { limits, command }) => {
                Some(openvibe_runner::run_inside(limits, command))
            }
            _ => None,
        }
    }
}

impl RunnerOptions {
    fn config(&self) -> anyhow::Result<RunnerConfig> {
        let key = self.key.as_deref().filter(|key| !key.trim().is_empty());
        let Some(server) = &self.server else {
            if !self.repositories.is_empty() {
                bail!("--repository needs --server; in {FILE}, it is [repository.NAME]");
            }
            let file = self.config.as_deref().unwrap_or(Path::new(FILE));
            return Ok(RunnerConfig::load(file, key)?);
        };
        if let Some(file) = &self.config {
            bail!(
                "--server and --config {} are two places for the same settings: use one of them",
                file.display()
            );
        }
        let key = key.unwrap_or_default();
        Ok(RunnerConfig::of_arguments(server, key, &self.repositories)?)
    }
}

/// Runs a runner until it is stopped, or checks it.
///
/// # Errors
/// A sentence for the operator.
pub(super) fn run(command: RunnerCommand) -> anyhow::Result<()> {
    let RunnerCommand { command, options } = command;
    let config = options.config()?;
    if options.embedded && config.sandbox == SandboxKind::None {
        bail!(NEEDS_SANDBOX);
    }
    start_logging();
    openvibe_runner::drop_root(&config)?;
    match command {
        // `main` runs it.
        Some(RunnerSubcommand::Inside { .. }) => Ok(()),
        Some(RunnerSubcommand::Check) => runtime()?.block_on(check(&config)),
        None if options.embedded => runtime()?.block_on(serve_embedded(config)),
        None => runtime()?.block_on(serve(config)),
    }
}

/// Runs the built-in coding agent on the standard streams: `openvibe acp`.
pub(super) fn agent() -> ExitCode {
    match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime.block_on(openvibe_runner::run_agent()),
        Err(_) => ExitCode::FAILURE,
    }
}

fn start_logging() {
    let variable = |name: &str| {
        let value = std::env::var(format!("{PREFIX}{name}")).ok();
        value.filter(|value| !value.trim().is_empty())
    };
    let shape = match variable("LOG_FORMAT").as_deref() {
        Some("json") => Shape::Json,
        _ => Shape::Text,
    };
    let filter = variable("LOG").unwrap_or_else(|| "info".to_owned());
    logs::start(&filter, shape);
}

async fn check(config: &RunnerConfig) -> anyhow::Result<()> {
    let lines = openvibe_runner::check(config).await;
    for line in &lines {
        let state = if line.is_ok { "ok" } else { "failed" };
        say(&format!("{state:<8}{}", line.text));
    }
    match lines.iter().filter(|line| !line.is_ok).count() {
        0 => Ok(()),
        failed => bail!("{failed} of the checks failed"),
    }
}

/// Cancels `token` when `stop` completes, and then waits for the work to end.
async fn until<T>(
    stop: impl Future<Output = ()>,
    token: &CancellationToken,
    work: impl Future<Output = T>,
) -> T {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        ended = &mut work => ended,
        () = stop => {
            token.cancel();
            work.await
        }
    }
}

async fn serve(config: RunnerConfig) -> anyhow::Result<()> {
    let token = CancellationToken::new();
    let running = openvibe_runner::run(config, &token);
    Ok(until(stop_signal()?, &token, running).await?)
}

/// Runs a runner until it is stopped, or until its server has ended.
async fn serve_embedded(config: RunnerConfig) -> anyhow::Result<()> {
    let (signal, server_end) = (stop_signal()?, input_end());
    let stop = async move {
        tokio::select! {
            () = signal => {}
            // An error is that of a thread that has ended, too.
            _ = server_end => {}
        }
    };
    let token = CancellationToken::new();
    until(stop, &token, run_embedded(&config, &token)).await
}

async fn run_embedded(config: &RunnerConfig, stop: &CancellationToken) -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        match openvibe_runner::run(config.clone(), stop).await {
            Err(RunnerError::InUse(_)) if started.elapsed() < PREDECESSOR_MAX => {
                sleep(Duration::from_millis(500)).await;
            }
            Err(RunnerError::Sandbox(cause)) => bail!("{NEEDS_SANDBOX}: {cause}"),
            ended => return Ok(ended?),
        }
    }
}

/// Receives a message when the standard input ends. Its thread does not delay the end of the process, as a read by the runtime would.
fn input_end() -> oneshot::Receiver<()> {
    let (sender, receiver) = oneshot::channel();
    thread::spawn(move || {
        // An error is an end, too.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        // The runner may have ended.
        let _ = sender.send(());
    });
    receiver
}

/// The runner that a server starts.
pub(super) struct EmbeddedRunner {
    program: PathBuf,
    file: PathBuf,
    log: String,
    log_format: LogFormat,
}

impl EmbeddedRunner {
    /// `None` without `OPENVIBE_RUNNER`, and for copies of a server, in which no agent acts.
    pub(super) fn of(config: &Config) -> Option<Self> {
        let file = config.runner.clone().filter(|_| !config.is_quiet)?;
        Some(Self {
            program: config.program.clone(),
            file,
            log: config.log.clone(),
            log_format: config.log_format,
        })
    }

    /// Keeps the runner running until `stop`. A runner that ends by itself has printed the reason, and is not started again.
    pub(super) async fn keep(&self, stop: &CancellationToken) {
        loop {
            let ended = self.run(stop).await;
            if stop.is_cancelled() {
                return;
            }
            match ended {
                Ok(status) if status.code().is_none() => {
                    tracing::warn!(%status, "the runner was killed, and starts again");
                }
                Ok(status) => {
                    tracing::error!(
                        %status,
                        "the runner has ended: correct the reason above, and start the server again"
                    );
                    return;
                }
                Err(error) => {
                    tracing::error!(%error, "the runner cannot be started");
                    return;
                }
            }
            if stop
                .run_until_cancelled(sleep(RESTART_AFTER))
                .await
                .is_none()
            {
                return;
            }
        }
    }

    async fn run(&self, stop: &CancellationToken) -> io::Result<ExitStatus> {
        let mut child = self.command().spawn()?;
        // The runner ends with this pipe, also if this process is killed.
        let pipe = child.stdin.take();
        if let Some(ended) = stop.run_until_cancelled(child.wait()).await {
            return ended;
        }
        drop(pipe);
        if let Ok(ended) = timeout(STOP_WITHIN, child.wait()).await {
            return ended;
        }
        child.kill().await?;
        child.wait().await
    }

    /// The command with the environment of the server, but without the server's settings.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg0("openvibe")
            .args(["runner", "--embedded", "--config"])
            .arg(&self.file)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        let settings = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        for name in settings.filter(|name| name.starts_with(PREFIX) && name != KEY_VARIABLE) {
            command.env_remove(name);
        }
        let format = match self.log_format {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        };
        command
            .env(format!("{PREFIX}LOG"), &self.log)
            .env(format!("{PREFIX}LOG_FORMAT"), format);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with a program that runs these lines.
    fn program(lines: &str) -> (PathBuf, EmbeddedRunner) {
        let dir = std::env::temp_dir().join(format!("openvibe-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir(&dir).unwrap();
        let program = dir.join("program");
        let script = format!("#!/bin/sh\ncd '{}'\n{lines}\n", dir.display());
        // Not by this process: a child of another test could still have the file open for writing when it is executed.
        let written = std::process::Command::new("sh")
            .args(["-c", "printf '%s' \"$1\" > \"$0\" && chmod +x \"$0\""])
            .args([program.to_str().unwrap(), &script])
            .status();
        assert!(written.unwrap().success());
        let runner = EmbeddedRunner {
            program,
            file: "runner.toml".into(),
            log: "warn".to_owned(),
            log_format: LogFormat::Text,
        };
        (dir, runner)
    }

    const TEST_MAX: Duration = Duration::from_mins(1);

    #[tokio::test]
    async fn an_embedded_runner_ends_with_its_server_and_does_not_get_its_settings() {
        let (dir, runner) =
            program("env > env; echo \"$@\" > started; cat > /dev/null; echo > ended");
        let stop = CancellationToken::new();
        let stopping = async {
            while !dir.join("started").exists() {
                sleep(Duration::from_millis(10)).await;
            }
            stop.cancel();
        };
        let both = async { tokio::join!(runner.keep(&stop), stopping) };
        timeout(TEST_MAX, both).await.unwrap();
        assert!(dir.join("ended").exists());
        let arguments = std::fs::read_to_string(dir.join("started")).unwrap();
        assert_eq!(arguments.trim(), "runner --embedded --config runner.toml");
        let variables = std::fs::read_to_string(dir.join("env")).unwrap();
        let mut settings: Vec<&str> = variables
            .lines()
            .filter(|line| line.starts_with(PREFIX) && !line.starts_with(KEY_VARIABLE))
            .collect();
        settings.sort_unstable();
        assert_eq!(settings, ["OPENVIBE_LOG=warn", "OPENVIBE_LOG_FORMAT=text"]);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[tokio::test]
    async fn an_embedded_runner_that_ends_by_itself_is_not_started_again() {
        let (dir, runner) = program("echo run >> runs; exit 1");
        let keeping = async { runner.keep(&CancellationToken::new()).await };
        timeout(TEST_MAX, keeping).await.unwrap();
        let runs = std::fs::read_to_string(dir.join("runs")).unwrap();
        assert_eq!(runs, "run\n");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
