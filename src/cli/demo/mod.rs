//! `openvibe demo`: a server with a sample workspace.
//!
//! The workspace is created through the server's own API by fictional people (`seeds/demo.yaml`), so everything in it
//! could have been created by real users. While it is filled, agents give the answers of that file, or reply with the built-in
//! responder; afterward, they use the configured model, if there is one. The demo has its own directory and never touches other
//! data; an existing demo is opened again as it was left.

mod fill;
mod person;
mod recorded;
mod story;

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::{announce, say, stop_signal};
use crate::{
    app::App,
    auth,
    config::{Config, Secret},
    db::DatabaseUrl,
    providers::Providers,
};

/// Default directory of the demo; `OPENVIBE_DATA_DIR` overrides it.
const DIRECTORY: &str = "openvibe-demo";
/// File with the sign-in details; written once the workspace is complete.
const SIGN_IN: &str = "sign-in.txt";
const DATABASE: &str = "openvibe.db";

/// Runs the demo until it is stopped.
pub(super) async fn run(mut config: Config) -> anyhow::Result<()> {
    let dir = match std::env::var_os("OPENVIBE_DATA_DIR").filter(|dir| !dir.is_empty()) {
        Some(_) => config.data_dir.clone(),
        None => PathBuf::from(DIRECTORY),
    };
    let known = what_is_there(&dir)?;
    config.data_dir.clone_from(&dir);
    // The demo has threads of its own.
    config.example = false;
    config.database = DatabaseUrl::Sqlite(dir.join(DATABASE));
    let settings = &config.model;
    let has_model = settings.base_url.is_some()
        || settings.anthropic_api_key.is_some()
        || settings.openai_api_key.is_some();
    let app = App::build(config).await?;
    let stop = stop_signal()?;
    let stopping = tokio_util::sync::CancellationToken::new();
    let stopped = stopping.clone();
    let (address, setup_token) = (app.address(), app.setup_token().await?);
    let providers = app.providers();
    let lines = listening_lines(&app);
    let serving = app.run(async move {
        tokio::select! {
            () = stop => {}
            () = stopped.cancelled() => {}
        }
    });
    let telling = async {
        let is_new = known.is_none();
        let sign_in = match known {
            Some(sign_in) => sign_in,
            None => fill_new(&dir, &format!("http://{address}"), setup_token, &providers).await?,
        };
        say(if has_model {
            "This is a demo with fictional people, and agents that use the configured model."
        } else if is_new {
            "This is a demo with fictional people, and agents without a model."
        } else {
            // A model may have been connected in the settings, so the line does not depend on the configuration.
            "This is a demo with fictional people."
        });
        say(&sign_in);
        for line in lines {
            say(&line);
        }
        anyhow::Ok(())
    };
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        ended = &mut serving => return ended,
        told = telling => if let Err(e) = told {
            stopping.cancel();
            serving.await?;
            return Err(e.context(format!("could not fill the demo; remove {} before you try again", dir.display())));
        },
    }
    serving.await
}

/// Lines to print once the workspace is available.
fn listening_lines(app: &App) -> Vec<String> {
    let mut lines = Vec::new();
    announce(app, |line| lines.push(line.to_owned()));
    lines
}

/// Sign-in details of an existing demo; `None` if there is none.
fn what_is_there(dir: &Path) -> anyhow::Result<Option<String>> {
    match std::fs::read_to_string(dir.join(SIGN_IN)) {
        Ok(text) => return Ok(Some(text.trim_end().to_owned())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        Err(e) => return Err(e).context("cannot read the demo's sign-in details"),
    }
    ensure!(
        !dir.join(DATABASE).exists(),
        "{} contains a database that is not a complete demo: remove the directory, or set OPENVIBE_DATA_DIR to another one",
        dir.display()
    );
    Ok(None)
}

async fn fill_new(
    dir: &Path,
    base: &str,
    setup_token: Option<String>,
    providers: &Providers,
) -> anyhow::Result<String> {
    say("Filling a workspace; this takes a few seconds.");
    let story = story::read()?;
    let password = Secret(auth::new_token().chars().take(16).collect());
    let emails: Vec<String> = story.people.iter().map(|p| p.email.clone()).collect();
    fill::fill(base, setup_token, story, &password, providers).await?;
    let first = emails.first().cloned().unwrap_or_default();
    let text = format!(
        "Sign in as {first} with the password {}\nThe others have the same password: {}",
        password.0,
        emails.get(1..).unwrap_or_default().join(", ")
    );
    write_private(&dir.join(SIGN_IN), &text).context("cannot write the demo's sign-in details")?;
    Ok(text)
}

/// Writes a file that only its owner can read.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    writeln!(file, "{text}")
}
