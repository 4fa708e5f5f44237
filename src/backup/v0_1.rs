//! Converts backups of version 0.1, which had another schema.

use std::collections::BTreeSet;

use anyhow::Context;
use serde_json::{Map, Value, json};

use crate::{
    db::{
        DbError,
        dump::{Column, Kind, Load, Table},
    },
    ids::UserId,
};

/// Newest migration of version 0.1.
pub(super) const MIGRATION: i64 = 20_261_121_101_200;
/// Migration whose schema the rows are converted to; later migrations run at the next start.
pub(super) const TARGET: i64 = 20_261_121_164_507;

/// Temporary table with the agents of threads and forks, whose `bindings` are marked as bound once all rows are inserted.
const BOUND: &str = "bound_agents";

/// A table whose columns have changed since version 0.1.
struct Change {
    table: &'static str,
    renamed: &'static [(&'static str, &'static str)],
    removed: &'static [&'static str],
    added: &'static [(&'static str, Kind)],
}

const CHANGES: &[Change] = &[
    Change {
        table: "workspaces",
        renamed: &[("task_turn", "last_claim")],
        removed: &[],
        added: &[],
    },
    Change {
        table: "threads",
        renamed: &[],
        removed: &["agent_id"],
        added: &[],
    },
    Change {
        table: "forks",
        renamed: &[],
        removed: &["agent_id"],
        added: &[],
    },
    Change {
        table: "bindings",
        renamed: &[("place_id", "conversation_id")],
        removed: &["fork_id"],
        added: &[("is_bound", Kind::Boolean)],
    },
    Change {
        table: "messages",
        renamed: &[],
        removed: &["fork_id"],
        added: &[("conversation_id", Kind::Uuid)],
    },
    Change {
        table: "tasks",
        renamed: &[
            ("place_id", "conversation_id"),
            ("holds_place", "holds_slot"),
            ("counts", "retry_counts"),
        ],
        removed: &["fork_id"],
        added: &[],
    },
    Change {
        table: "events",
        renamed: &[],
        removed: &["only_users"],
        added: &[
            ("is_restricted", Kind::Boolean),
            ("includes_managers", Kind::Boolean),
        ],
    },
];

impl Change {
    fn of(table: &Table) -> Option<&'static Self> {
        CHANGES.iter().find(|change| change.table == table.name)
    }

    fn new_name<'a>(&self, column: &'a str) -> &'a str {
        let renamed = self.renamed.iter().find(|(old, _)| *old == column);
        renamed.map_or(column, |(_, new)| *new)
    }
}

fn column(name: &str, kind: Kind) -> Column {
    Column {
        name: name.to_owned(),
        kind,
    }
}

/// Returns the table with its columns after the conversion.
pub(super) fn table(old: &Table) -> Table {
    let mut table = old.clone();
    if let Some(change) = Change::of(old) {
        table
            .columns
            .retain(|column| !change.removed.contains(&column.name.as_str()));
        for column in &mut table.columns {
            column.name = change.new_name(&column.name).to_owned();
        }
        let added = change.added.iter().map(|(name, kind)| column(name, *kind));
        table.columns.extend(added);
    }
    table
}

/// Rows for one table, one JSON array per line.
pub(super) struct Rows {
    pub(super) table: Table,
    pub(super) lines: String,
}

impl Rows {
    fn new(name: &str, columns: &[(&str, Kind)]) -> Self {
        Self {
            table: Table {
                name: name.to_owned(),
                columns: columns
                    .iter()
                    .map(|(name, kind)| column(name, *kind))
                    .collect(),
            },
            lines: String::new(),
        }
    }

    fn push(&mut self, row: &Value) {
        self.lines.push_str(&row.to_string());
        self.lines.push('\n');
    }
}

/// Converts rows of a table, and returns them in the order in which they must be inserted.
///
/// # Errors
/// If a line is not a row of the table.
pub(super) fn rows(old: &Table, lines: &str) -> anyhow::Result<[Rows; 3]> {
    let mut converted = Rows {
        table: table(old),
        lines: String::new(),
    };
    let mut bound = Rows::new(
        BOUND,
        &[("conversation_id", Kind::Uuid), ("agent_id", Kind::Uuid)],
    );
    let mut recipients = Rows::new(
        "event_recipients",
        &[
            ("workspace_id", Kind::Uuid),
            ("seq", Kind::Integer),
            ("user_id", Kind::Uuid),
        ],
    );
    let Some(change) = Change::of(old) else {
        lines.clone_into(&mut converted.lines);
        return Ok([converted, bound, recipients]);
    };
    for line in lines.lines() {
        let values: Vec<Value> = serde_json::from_str(line)?;
        anyhow::ensure!(
            values.len() == old.columns.len(),
            "a row of {} has too few values",
            old.name
        );
        let names = old.columns.iter().map(|column| column.name.clone());
        let row: Map<String, Value> = names.zip(values).collect();
        let value = |name: &str| row.get(name).cloned().unwrap_or_default();
        let mut new: Map<String, Value> = row
            .iter()
            .map(|(name, value)| (change.new_name(name).to_owned(), value.clone()))
            .collect();
        match change.table {
            "threads" | "forks" if !value("agent_id").is_null() => {
                bound.push(&json!([value("id"), value("agent_id")]));
            }
            "bindings" => {
                new.insert("is_bound".to_owned(), false.into());
            }
            "messages" => {
                let fork = Some(value("fork_id")).filter(|fork| !fork.is_null());
                let conversation = fork.unwrap_or_else(|| value("thread_id"));
                new.insert("conversation_id".to_owned(), conversation);
            }
            "events" => {
                let only = recipients_of(&value("only_users"))?;
                new.insert("is_restricted".to_owned(), only.is_some().into());
                let (users, managers) = only.unwrap_or_default();
                new.insert("includes_managers".to_owned(), managers.into());
                for user in users {
                    let user = user.0.to_string();
                    recipients.push(&json!([value("workspace_id"), value("seq"), user]));
                }
            }
            _ => {}
        }
        let columns = converted.table.columns.iter();
        let row: Vec<Value> = columns
            .map(|column| new.remove(&column.name).unwrap_or_default())
            .collect();
        converted.push(&json!(row));
    }
    Ok([converted, bound, recipients])
}

/// The users in the text of `only_users`, and whether managers are included.
fn recipients_of(only: &Value) -> anyhow::Result<Option<(BTreeSet<UserId>, bool)>> {
    let Some(text) = only.as_str() else {
        return Ok(None);
    };
    let only: Value = serde_json::from_str(text)?;
    let users = only["users"].as_array().context("an event without users")?;
    let users: Result<_, _> = users
        .iter()
        .map(|user| UserId::parse(user.as_str().unwrap_or_default()))
        .collect();
    Ok(Some((users?, only["managers"] == true)))
}

/// Creates the temporary table. Must be called before the first row is inserted.
pub(super) async fn begin(load: &mut Load) -> Result<(), DbError> {
    load.execute(&format!(
        "create temporary table {BOUND} (conversation_id uuid not null, agent_id uuid not null)"
    ))
    .await
}

/// Marks bound agents in `bindings`, and drops the temporary table. Must be called after the last row is inserted.
pub(super) async fn finish(load: &mut Load) -> Result<(), DbError> {
    load.execute(&format!(
        "update bindings set is_bound = TRUE where (conversation_id, agent_id) in (select conversation_id, agent_id from {BOUND})"
    ))
    .await?;
    load.execute(&format!("drop table {BOUND}")).await
}
