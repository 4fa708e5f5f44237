//! Checks `database` and `nodes`.

use std::collections::BTreeMap;

use super::{
    finding::Finding,
    subject::{CheckedServer, Program},
};
use crate::{
    db::{DatabaseUrl, Db, DbError, dialect},
    nodes::{self, ListedNode},
    realtime::NodeState,
    upkeep::size_text,
};

/// Part of `PostgreSQL`'s connections that may be in use, in percent.
const USED_PERCENT_MAX: i64 = 90;

pub(super) async fn check(s: &CheckedServer) -> Finding {
    let db = match s.database() {
        Ok(db) => db,
        Err(finding) => return finding,
    };
    look(s, db).await.unwrap_or_else(|e| {
        Finding::failed(
            format!("the database does not respond ({e})"),
            match s.config.database {
                DatabaseUrl::Sqlite(_) => "check the disk of the data directory",
                DatabaseUrl::Postgres(_) => "check OPENVIBE_DATABASE_URL, and that PostgreSQL runs",
            },
        )
    })
}

async fn look(s: &CheckedServer, db: &Db) -> Result<Finding, DbError> {
    let size = size_text(db.size_bytes().await?);
    let mut c = db.read().await?;
    let Some(connections) = dialect::connections(&mut c).await? else {
        return Ok(Finding::ok(format!("SQLite, {size}")));
    };
    let nodes = nodes::list_stored(&mut c, None).await?;
    let alive = nodes
        .iter()
        .filter(|node| node.state != NodeState::Lost)
        .count();
    let own = i64::from(s.config.database_connections) * i64::try_from(alive.max(1)).unwrap_or(1);
    let (used, max) = (connections.used, connections.max);
    if own >= max || used * 100 >= max * USED_PERCENT_MAX {
        return Ok(Finding::warning(
            format!(
                "{used} of the {max} connections of PostgreSQL are in use, and OpenVibe can open {own}"
            ),
            "raise max_connections of PostgreSQL, or lower OPENVIBE_DATABASE_CONNECTIONS",
        ));
    }
    Ok(Finding::ok(format!(
        "PostgreSQL {}, {size}, {used} of {max} connections",
        connections.version
    )))
}

pub(super) async fn check_nodes(s: &CheckedServer) -> Finding {
    let db = match s.database() {
        Ok(db) => db,
        Err(finding) => return finding,
    };
    if matches!(s.config.database, DatabaseUrl::Sqlite(_)) {
        return Finding::ok("one server, because the database is SQLite");
    }
    let listed = match &s.program {
        Program::This(links) => nodes::list(links).await,
        Program::Other(_) | Program::Stopped => list_of_others(db).await,
    };
    match listed {
        Ok(listed) => compare(&listed),
        Err(e) => Finding::failed(
            format!("the list of nodes cannot be read ({e})"),
            "check the database",
        ),
    }
}

async fn list_of_others(db: &Db) -> Result<Vec<ListedNode>, DbError> {
    nodes::list_stored(&mut db.read().await?, None).await
}

fn compare(listed: &[ListedNode]) -> Finding {
    let alive = || listed.iter().filter(|node| node.state != NodeState::Lost);
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in alive() {
        versions.entry(&node.version).or_default().push(&node.name);
    }
    let mut problems = Vec::new();
    if versions.len() > 1 {
        let named: Vec<String> = versions
            .iter()
            .map(|(version, names)| format!("{version} on {}", names.join(", ")))
            .collect();
        problems.push(Finding::warning(
            format!("the nodes have several versions: {}", named.join("; ")),
            "update all nodes to the newest version",
        ));
    }
    for node in alive().filter(|node| !node.differing_settings.is_empty()) {
        problems.push(Finding::warning(
            format!(
                "{} differs on {}",
                node.differing_settings.join(", "),
                node.name
            ),
            "use the same settings on all nodes",
        ));
    }
    for node in listed.iter().filter(|node| node.state == NodeState::Lost) {
        problems.push(Finding::warning(
            format!("{} does not report anymore", node.name),
            "start it again, or wait until it is forgotten",
        ));
    }
    Finding::of(
        problems,
        format!("{} nodes with the same version", alive().count()),
    )
}
