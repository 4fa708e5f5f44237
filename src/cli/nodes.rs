//! `openvibe nodes`.

use super::{open, output::say};
use crate::{
    config::Config,
    db::{DatabaseUrl, now},
    nodes,
};

/// Prints a line for each node.
pub(super) async fn list(config: Config) -> anyhow::Result<()> {
    if matches!(config.database, DatabaseUrl::Sqlite(_)) {
        say(
            "SQLite supports only one server: set OPENVIBE_DATABASE_URL to postgres://… to share a database",
        );
        return Ok(());
    }
    let db = open(&config).await?;
    let listed = nodes::list_stored(&mut db.read().await?, None).await?;
    db.close().await;
    if listed.is_empty() {
        say("no server uses this database");
        return Ok(());
    }
    say(&line(&[
        "NAME", "STATE", "BUS", "VERSION", "UPTIME", "SOCKETS", "TASKS",
    ]));
    for node in listed {
        let minutes = now().since(node.started_at).as_secs() / 60;
        say(&line(&[
            &node.name,
            node.state.as_str(),
            node.mode.as_str(),
            &node.version,
            &format!("{}h {:02}m", minutes / 60, minutes % 60),
            &node.sockets.to_string(),
            &node.tasks.to_string(),
        ]));
    }
    Ok(())
}

fn line(cells: &[&str]) -> String {
    let padded = cells.iter().zip([32, 9, 7, 9, 9, 8, 6]);
    let cells: Vec<String> = padded
        .map(|(cell, width)| format!("{cell:<width$}"))
        .collect();
    cells.join(" ").trim_end().to_owned()
}
