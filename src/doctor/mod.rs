//! Checks of a server and its surroundings, for the people who operate it. Each states one fact and, if something is wrong, what to do.
//!
//! The server runs them for its admins, and `openvibe doctor` runs the same ones beside it, or without a server those that need none.
//! Nothing is changed: only files and objects for measurements are written, and deleted at once. The module of a group has its checks;
//! `outside` reaches the server as people do, through its public URL.

mod backup;
mod clock;
mod data;
mod database;
mod finding;
mod http;
mod mail;
mod model;
mod network;
mod outside;
pub mod probe;
mod push;
mod settings;
mod sign_in;
pub mod stored;
mod subject;

pub use finding::{Check, CheckName, CheckState, Finding};
pub use subject::{CheckedServer, Program};

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{
    FutureExt,
    future::{BoxFuture, ready},
};

use crate::config::Config;

/// Time limit of a check. The checks of `outside` begin after the one of the public URL, so all of them take at most twice as long.
const WITHIN: Duration = Duration::from_secs(10);

/// Runs all checks at the same time. Returns their results in the order of `CheckName`.
pub async fn run(subject: Arc<CheckedServer>) -> Vec<Check> {
    let s = &*subject;
    let alone = [
        (CheckName::Settings, settings::check(s).boxed()),
        (CheckName::Limits, ready(settings::check_limits(s)).boxed()),
        (CheckName::Data, data::check(s).boxed()),
        (CheckName::Database, database::check(s).boxed()),
        (CheckName::Nodes, database::check_nodes(s).boxed()),
        (CheckName::Clock, clock::check(s).boxed()),
        (CheckName::Dns, network::check_dns(s).boxed()),
        (CheckName::Ports, network::check_ports(s).boxed()),
        (CheckName::Model, model::check(s).boxed()),
        (CheckName::Mail, mail::check(s).boxed()),
        (CheckName::Push, ready(push::check(s)).boxed()),
        (CheckName::SignIn, sign_in::check(s).boxed()),
        (CheckName::Backup, backup::check(s).boxed()),
    ];
    let alone = alone.map(|(name, check)| timed(name, check));
    let (alone, outside) = futures::join!(futures::future::join_all(alone), outside::run(s));
    let mut checks: Vec<Check> = alone.into_iter().chain(outside).collect();
    checks.sort_by_key(|check| check.name);
    checks
}

/// Fault of the model server that the settings name, with its remedy; `None` if it works, or if they name none.
pub async fn model_problem(config: &Config) -> Option<String> {
    let server = model::server(config).filter(|_| !config.is_quiet)?;
    let check = timed(CheckName::Model, model::look(&server).boxed()).await;
    let hint = check.hint?;
    Some(format!("{}: {hint}", check.text))
}

/// Results if the settings cannot be read.
pub fn without_settings(problem: &str) -> Vec<Check> {
    let others = CheckName::ALL.iter().map(|name| match name {
        CheckName::Settings => Finding::failed(problem, "correct the settings"),
        _ => Finding::skipped("the settings cannot be read"),
    });
    let named = CheckName::ALL.iter().zip(others);
    named
        .map(|(name, finding)| finding.named(*name, Duration::ZERO))
        .collect()
}

/// Runs a check within its time limit.
async fn timed(name: CheckName, check: BoxFuture<'_, Finding>) -> Check {
    let started = Instant::now();
    let finding = tokio::time::timeout(WITHIN, check).await;
    let finding = finding.unwrap_or_else(|_| {
        Finding::failed(
            format!("there was no result within {} s", WITHIN.as_secs()),
            "find out what does not respond: its log may say more",
        )
    });
    finding.named(name, started.elapsed())
}
